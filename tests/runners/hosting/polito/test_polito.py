"""Players written for the Politecnico's package play unmodified, as its own ``run()`` would have them play."""

from __future__ import annotations

import ast
import logging
import re
import subprocess
import sys
import types
import venv
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from agents.base.agent import SomeTurnsFailedError, TurnTimeoutError
from agents.dumb import Dumb
from quarto import Player, Quarto
from quarto.batch import ENDINGS, Batch, Games
from quarto.errors import RequestError
from quarto.notation import parse_position
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, Rules
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.code_fingerprints import build_code_record
from runners.arena.spec import RunSpec
from runners.config.agents import agent_from_label, agent_from_settings, load_agent
from runners.config.yaml_options import load_option
from runners.hosting.polito import player as player_module
from runners.hosting.polito.agent import Polito
from runners.hosting.polito.live_game import AnswerChecker, LiveGame
from runners.hosting.polito.player import PolitoPlayer
from runners.hosting.polito.randomness import CopiedNumpyState, GameStreams, SwappableNumpyState
from tests.paths import ROOT
from tests.runners.hosting.polito import folders


def build_polito(folder: Path, player: str, **settings: Any) -> Any:
    defaults = load_option("agent", "polito")
    return agent_from_settings(
        "polito", {**defaults, "folder": str(folder), "player": player, **settings}, defaults, Path(), True
    ).build()


def build_engine(*agents: Any, pairings: tuple[tuple[int, int], ...] = ((0, 1),), plies: int = 0) -> BatchEngine:
    labels = [f"agent {i}" for i in range(len(agents))]
    return BatchEngine(CLASSIC, agents, labels, pairings, seed=3, run=3, opening_plies=plies)


def format_games(games: Games) -> list[str]:
    """Format each game's plies and ending."""
    texts = []
    for i, count in enumerate(games.plies.tolist()):
        plies = zip(games.pieces[:count, i].tolist(), games.cells[:count, i].tolist(), strict=True)
        texts.append(f"{[*plies]} {ENDINGS[games.ending[i]]}")
    return texts


class NotedGame(Quarto):
    """A game that notes its plies as pieces and cells."""

    def __init__(self) -> None:
        super().__init__()
        self.plies: list[tuple[int, int]] = []

    def place(self, x: int, y: int) -> bool:
        is_placed = super().place(x, y)
        if is_placed:
            self.plies.append((self.get_selected_piece(), 4 * y + x))
        return is_placed


def play_by_package(players: types.ModuleType, salts: tuple[int, int]) -> tuple[list[tuple[int, int]], int]:
    """Play a game of two players with memory by the package's own loop; return its plies and the winner."""
    game = NotedGame()
    first, second = (players.HistoryPlayer(game, salt) for salt in salts)
    game.set_players((first, second))
    winner = game.run()
    return game.plies, winner


def test_games_are_those_of_the_packages_own_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folders.write(tmp_path / "flat", folders.FLAT)
    monkeypatch.syspath_prepend(str(folder))
    import players  # type: ignore[import-not-found]

    for name in ("players", "utility"):
        monkeypatch.delitem(sys.modules, name)
    first, second = (build_polito(folder, "players.HistoryPlayer", kwargs={"salt": salt}) for salt in (4, 9))
    games = build_engine(first, second).play_block(PairRange(0, 0, 1)).games
    for i, salts in enumerate([(4, 9), (9, 4)]):
        plies, winner = play_by_package(players, salts)
        assert format_games(games)[i].startswith(f"{plies} ")
        assert games.winner[i] == winner


@pytest.mark.slow
def test_folders_of_every_style_meet_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat, beside, inside = (
        folders.write(tmp_path / name, files)
        for name, files in (("flat", folders.FLAT), ("beside", folders.BESIDE), ("inside", folders.INSIDE))
    )
    folders.write_pickle(flat / "weights.bin", monkeypatch)
    agents = (
        build_polito(flat, "lazy.LazyPlayer"),
        build_polito(beside / "agents", "players.BesidePlayer"),
        build_polito(inside, "quarto.players.InsidePlayer"),
    )
    arena = build_engine(*agents, pairings=((0, 1), (1, 2), (2, 0)), plies=3)
    for pairing in range(3):
        endings = {ENDINGS[ending] for ending in arena.play_block(PairRange(pairing, 0, 3)).games.ending}
        assert endings <= {"line", "full_board"}, arena.describe_misbehaviour()
    assert arena.describe_misbehaviour() == []
    files = {path.relative_to(tmp_path).as_posix() for path in agents[0].data_files if path.is_relative_to(tmp_path)}
    assert files == {"flat/players.py", "flat/utility.py", "flat/lazy.py", "flat/late.py", "flat/weights.bin"}
    assert tmp_path / "beside/quarto/objects.py" in agents[1].data_files
    assert {path.parent for path in agents[0].data_files if path.is_relative_to(ROOT)} == {
        ROOT / "runners/hosting/polito"
    }
    assert not [*tmp_path.rglob("__pycache__")]


def test_games_depend_on_the_run_alone_whatever_random_numbers_are_drawn(tmp_path: Path) -> None:
    folder = folders.write(tmp_path, folders.DICE)

    def play_blocks(pair_ranges: list[PairRange], threads: int) -> dict[int, list[str]]:
        blocks = build_engine(build_polito(folder, "dice.DicePlayer"), Dumb()).play_in_any_order(pair_ranges, threads)
        games_by_pair = {block.first_pair: format_games(block.games) for block in blocks}
        return {
            first + i // 2 * 2: games[i : i + 2]
            for first, games in games_by_pair.items()
            for i in range(0, len(games), 2)
        }

    together = [game for pair in sorted(play_blocks([PairRange(0, 0, 6)], 1).items()) for game in pair[1]]
    apart = play_blocks([PairRange(0, pair, 1) for pair in (4, 0, 3, 5, 1, 2)], 2)
    assert [game for pair in range(6) for game in apart[pair]] == together
    assert len(set(together)) == 12


def test_what_a_player_does_wrong_costs_its_game_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = build_polito(
        folders.write(tmp_path, folders.MOODY), "moody.MoodyPlayer", most_asks=5, kwargs={"weight": 12}
    )
    player = agent.build_player(CLASSIC, "moody")
    assert 12e6 / 8 <= player.game_words <= 30e6 / 8  # of 12 MB that each object takes
    with caplog.at_level(logging.INFO), pytest.raises(SomeTurnsFailedError) as caught:
        request_turns(player, hands := [0, 1, 2, 3, 4, 7, 8, 9])
    cells, gifts = (dict(zip(hands, column.tolist(), strict=True)) for column in caught.value.turns)
    messages = {hands[i]: f"{error} at {getattr(error, 'raised_at', '')}" for i, error in caught.value.failures.items()}
    assert sorted(messages) == [1, 3, 4, 9]
    assert re.fullmatch(r"ValueError: for once at .*moody.py:23", messages[1])
    assert re.fullmatch(r"SystemExit: 1 at .*moody.py:27", messages[3])
    assert messages[4] == "its process ended with exit code 3 at its process"
    assert re.fullmatch(
        r"AnswerError: choose_piece returned None, not the number of a piece at .*moody.py:11", messages[9]
    )
    assert [cells[hand] for hand in (0, 2, 7, 8)] == [2, -1, 2, 2]
    assert gifts[8] == 12  # which is on the board
    remarks = player.remarks()
    assert remarks[0].startswith("gave 8 illegal answers and was asked again")
    assert re.search(r"after 5 such answers, such as (choose_piece\(\) = np.int64\(12\)|place_piece\(\))", remarks[1])
    printed = [record.getMessage() for record in caplog.records if "printed" in record.getMessage()]
    assert "made" in printed[0]
    assert 100_000 < sum(map(len, printed)) < 101_000
    assert "(no more is kept)" in printed[-1]


def request_turns(player: PolitoPlayer, hands: list[int]) -> Any:
    """Request the turns of a moody player in positions with some pieces in hand."""
    positions = [parse_position(f"CD../..../..../.... {hand:X}")[0] for hand in hands]
    return player.play(Batch.from_positions(positions), Streams(np.arange(len(positions), dtype=np.uint64)))


def test_a_turn_that_takes_too_long_is_ended_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player_module, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(player_module, "INTERRUPT_SECONDS", 0.02)
    agent = build_polito(folders.write(tmp_path, folders.MOODY), "moody.MoodyPlayer", turn_seconds=0.15)
    with pytest.raises(SomeTurnsFailedError) as caught:
        request_turns(agent.build_player(CLASSIC, "moody"), [5, 6, 7])
    assert {hand: type(error) for hand, error in caught.value.failures.items()} == {
        0: TurnTimeoutError,
        1: TurnTimeoutError,
    }
    assert "turn_seconds=0.15" in str(caught.value.failures[0])
    assert caught.value.turns.cells[2] == 2


def test_a_reused_player_meets_its_games_one_after_the_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folders.write(tmp_path, folders.LEARNER)
    arena = build_engine(build_polito(folder, "learner.Learner", reuse=True), Dumb())
    with caplog.at_level(logging.INFO):
        games = arena.play_block(PairRange(0, 0, 3)).games
    assert {ENDINGS[ending] for ending in games.ending} == {"line"}
    noted_games = re.findall(r"game (\d+) of (\d+)", caplog.text)
    assert noted_games == [(str(number), "1") for number in range(1, 7)]


OWN_GAME = {"game": "agents.quinto.Quinto", "game_kwargs": {"order": -1}}


def test_a_player_may_have_games_of_a_class_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arena = build_engine(build_polito(folders.write(tmp_path, folders.OWN_GAME), "needy.Needy", **OWN_GAME), Dumb())
    with caplog.at_level(logging.INFO, logger=player_module.__name__):
        games = arena.play_block(PairRange(0, 0, 3)).games
    assert arena.describe_misbehaviour() == []
    assert games.pieces[0].tolist() == [15, 0] * 3  # the first of its own list, and the first of all
    assert "choice 1\n" in caplog.text  # a trial game before has left nothing


@pytest.mark.parametrize("reuse", [False, True])
def test_a_player_whose_package_and_constructor_take_more_than_a_game(tmp_path: Path, reuse: bool) -> None:
    kwargs = {"genome": [0.5, -1], "depth": 3}
    arena = build_engine(
        build_polito(folders.write(tmp_path, folders.NAMED), "ga.GAPlayer", kwargs=kwargs, reuse=reuse), Dumb()
    )
    games = arena.play_block(PairRange(0, 0, 2)).games
    assert arena.describe_misbehaviour() == []
    assert games.pieces[0].tolist() == [15, 0] * 2


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({}, r"kwargs={}: ga.GAPlayer\(genome, quarto, depth=1\) is called with a game and these: missing .* 'quarto'"),
        ({"genome": 1, "speed": 2}, r"kwargs={.*}: ga.GAPlayer\(.*\) is called with a game and these: .*'speed'"),
    ],
)
def test_arguments_that_do_not_fit_are_told_of_the_players_own_class(
    kwargs: dict[str, Any], error: str, tmp_path: Path
) -> None:
    folder = folders.write(tmp_path, folders.NAMED)
    with pytest.raises(RequestError, match=f"^{error}"):
        build_polito(folder, "ga.GAPlayer", kwargs=kwargs).build_player(CLASSIC, "it")


def test_a_class_of_games_that_lacks_an_attribute_is_found_before_the_first_game(tmp_path: Path) -> None:
    folder = folders.write(tmp_path, folders.OWN_GAME)
    line = folders.OWN_GAME["needy.py"].splitlines().index("        return self.get_game().remaining()[0]") + 1
    with pytest.raises(RequestError) as refusal:
        build_polito(folder, "needy.Needy").build_player(CLASSIC, "it")
    assert str(refusal.value) == (
        "player=needy.Needy: it cannot play its games: AttributeError: 'Quarto' object has no attribute 'remaining' "
        f"(needy.py:{line}); its games are of the class quarto.quarto.objects.Quarto: if the player's own program "
        "makes games of another class, name it, game=module.Class, such as game=agents.quinto.Quinto"
    )
    with pytest.raises(RequestError, match=r"did you mean 'agents.quinto.Quinto'\? valid: agents.quinto.Quinto$"):
        build_polito(folder, "needy.Needy", game="agents.Quinto").build_player(CLASSIC, "it")


LATE = """import quarto


class Late(quarto.Player):
    def choose_piece(self):
        board = self.get_game().get_board_status()
        return 0 if board.max() < 0 else self.get_game().remaining()[0]

    def place_piece(self):
        board = self.get_game().get_board_status()
        return next((x, y) for y in range(4) for x in range(4) if board[y, x] < 0)
"""


def test_an_attribute_that_a_player_asks_for_in_its_second_turn_is_missed_too(tmp_path: Path) -> None:
    folder = folders.write(tmp_path, {"late.py": LATE})
    with pytest.raises(RequestError, match=r"cannot play its games: .*'Quarto' object has no attribute 'remaining'"):
        build_polito(folder, "late.Late").build_player(CLASSIC, "it")


def test_a_player_may_have_an_interpreter_with_libraries_of_its_own(tmp_path: Path) -> None:
    folder, python = folders.write(tmp_path / "theirs", folders.OWN_GAME), tmp_path / "python"
    python.write_text(f'#!/bin/sh\nOLD_LIBRARIES=yes exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    arena = build_engine(build_polito(folder, "needy.Old", python=str(python), **OWN_GAME), Dumb())
    arena.play_block(PairRange(0, 0, 2))
    assert arena.describe_misbehaviour() == []
    python.write_text("#!/bin/sh\nprintf 'Python 3.6.15'\nexit 3\n")
    for program, description in ((python, "Python 3.6.15"), (Path("/bin/ls"), "no Python")):
        expected = rf"exit code \d; python={program} is {description}: name Python 3.7 or later, ENV/bin/python$"
        with pytest.raises(RequestError, match=expected):
            build_polito(folder, "needy.Old", python=str(program)).build_player(CLASSIC, "it")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Create an interpreter without libraries."""
    folder = tmp_path_factory.mktemp("bare_python")
    venv.create(folder, with_pip=False)
    return str(folder / "bin/python")


def test_an_interpreter_without_libraries_plays_the_same_games(tmp_path: Path, bare_python: str) -> None:
    folder = folders.write(tmp_path / "theirs", folders.PLAIN)
    with_numpy, without = (
        format_games(
            build_engine(build_polito(folder, "plain.Plain", python=python), Dumb(), plies=2)
            .play_block(PairRange(0, 0, 9))
            .games
        )
        for python in (None, bare_python)
    )
    assert with_numpy == without
    assert len(set(without)) > 9
    assert {text.rpartition(" ")[2] for text in without} <= {"line", "full_board"}
    for player, line in (("numeric.Numeric", "numeric.py:2"), ("plain.Late", "plain.py:24")):
        expected = rf"No module named 'numpy' \({line}\); install numpy for python=\S+/bin/python$"
        with pytest.raises(RequestError, match=expected):
            build_polito(folder, player, python=bare_python).build_player(CLASSIC, "it")


def test_a_players_interpreter_imports_the_standard_library_of_python_3_7_only(bare_python: str) -> None:
    listed = (
        "print(*(module.__file__ for module in sys.modules.values() if getattr(module, '__file__', None)), sep='\\n')"
    )
    imported = "import runners.hosting.polito.game_server, quarto.objects"
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {imported}; {listed}"
    printed = subprocess.check_output([bare_python, "-c", program], text=True)
    own_files = [Path(file) for file in printed.splitlines() if Path(file).is_relative_to(ROOT)]
    assert len(own_files) == 12
    for file in [*own_files, *ROOT.glob("runners/hosting/polito/sample/*.py")]:
        ast.parse(file.read_text(), str(file), feature_version=(3, 7))


def test_copied_states_of_numpy_draw_what_exchanged_ones_draw() -> None:
    def draw_numbers(kind: type[Any]) -> list[float]:
        games = [GameStreams(seed, kind(np.random)) for seed in (1, 2 << 32)]
        numbers = []
        for game in games * 3:
            game.activate()
            numbers += [np.random.random(), *np.random.normal(size=3)]  # noqa: NPY002  (what players draw from)
        return numbers

    bits = np.random.get_bit_generator()  # type: ignore[attr-defined]  # its stubs lack it
    try:
        assert draw_numbers(SwappableNumpyState) == draw_numbers(CopiedNumpyState)
    finally:
        np.random.set_bit_generator(bits)  # type: ignore[attr-defined]


def test_the_same_player_in_another_folder_is_the_same_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.write(tmp_path / "one/quinto-2023", folders.MOODY)
    folders.write(tmp_path / "zwei/quinto-2023", folders.MOODY)
    monkeypatch.chdir(tmp_path / "zwei")
    identities = set()
    for folder in (tmp_path / "one/quinto-2023", "quinto-2023"):
        agents = (
            agent_from_label(f"polito(folder={folder},player=moody.MoodyPlayer)", trusted=True),
            load_agent("random"),
        )
        spec = RunSpec(CLASSIC, agents, ((0, 1),), 1, 0)
        identities.add(
            (agents[0].label, spec.run_id, build_code_record(spec, [agent.build() for agent in agents])["fingerprint"])
        )
    ((label, *_),) = identities
    assert label == "polito(folder=quinto-2023,player=moody.MoodyPlayer)"


BAD = {
    "broken.py": "import nowhere_to_be_found\n",
    "loud.py": "import sys\nsys.exit('usage: loud.py FILE')\n",
    "fine.py": """from quarto import Player

class Fine(Player):
    def __init__(self, game, depth):
        open('none.pkl')
""",
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"folder": "elsewhere"}, "folder=elsewhere is not a folder"),
        ({"folder": None}, "folder is missing: player=fine.Fine is a class"),
        ({"player": None}, "player is missing: it is the class that plays; valid: fast.Fast"),
        ({"player": "Fine"}, "player=Fine is not module.Class"),
        ({"kwargs": [1]}, r"kwargs=\[1\] is not a mapping"),
        ({"game": "fine.Fine", "kwargs": {"depth": 1}}, r"game=fine.Fine: the class has no method select\(\)"),
        (
            {"kwargs": {"depth": 1}, "game": "quarto.Quarto", "game_kwargs": {"speed": 1}},
            r"game_kwargs=.* is called with these: .*'speed'",
        ),
        ({"game_kwargs": {"speed": 1}}, "has no effect: name the class too"),
        ({"python": "nowhere/python"}, "python=nowhere/python is no program"),
        ({"most_asks": 0}, "most_asks=0 is not a number of 1 or more"),
        ({"player": "fina.Fine"}, "has no module 'fina'; did you mean 'fine'"),
        ({"player": "fine.Fein"}, "module 'fine' has no class 'Fein'; did you mean 'fine.Fine'"),
        (
            {"player": "broken.Fine", "python": None},
            "No module named 'nowhere_to_be_found' .*install nowhere_to_be_found beside",
        ),
        ({"player": "loud.Fine"}, "module 'loud' cannot be imported: SystemExit: usage: loud.py FILE"),
        ({}, "kwargs={}: .*missing a required argument: 'depth'"),
        ({"kwargs": {"depth": 1}}, r"player=fine.Fine: it cannot be made: FileNotFoundError: .*fine.py:5"),
    ],
)
def test_a_player_that_cannot_be_made_is_refused_in_one_line(
    settings: dict[str, Any], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_python: str
) -> None:
    """Check the refusals with an interpreter without libraries, because that starts five times faster."""
    monkeypatch.chdir(tmp_path)
    folders.write(tmp_path, {**BAD, "fast.py": "class Fast:\n    def choose_piece(self): pass\n"})
    base_settings: dict[str, Any] = {"folder": str(tmp_path), "player": "fine.Fine", "python": bare_python}
    with pytest.raises(RequestError, match=expected) as refusal:
        Polito(**base_settings | settings).build_player(CLASSIC, "it")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("lines", "expected"), [(CLASSIC.lines, (5, 4)), (Rules(squares="plain").lines, (5, NONE))])
def test_a_game_is_over_by_the_lines_of_the_runs_rules(lines: Any, expected: tuple[int, int]) -> None:
    class Fourth(Player):
        def choose_piece(self) -> int:
            return 4

        def place_piece(self) -> tuple[int, int]:
            return 1, 1

    game = Quarto()
    game.set_players((Player(game), Fourth(game)))
    live = LiveGame(game, game._Quarto__players[1], 1, Mock(), AnswerChecker(lines, 9, "_current_player"))  # type: ignore[attr-defined]
    position, _ = parse_position("01../2.../..../.... 3")
    assert live.take_turn(position.lanes, position.occupied, 3) == expected
    assert live.is_over == (expected[1] == NONE)
    assert game.get_board_status().tolist()[:2] == [[0, 1, -1, -1], [2, 3, -1, -1]]


def test_it_plays_where_the_opponent_chooses_pieces() -> None:
    with pytest.raises(RequestError, match="does not play rules 'own_piece'"):
        Polito().build_player(Rules("own_piece", chooser="mover"), "it")
