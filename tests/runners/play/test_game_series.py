"""`qarena play` through a pipe: every rules preset from both seats, logging, and messages without logging."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.exact.game_review import GameReview
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.batch import ENDINGS
from quarto.errors import FailureError
from quarto.notation import format_game
from quarto.rules import CLASSIC
from runners.arena import code_fingerprints
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_from_label
from runners.config.yaml_options import load_rules
from runners.play import game_series
from runners.play.game_series import GameSeries
from runners.play.levels import LEVELS
from tests.naive import PRESETS
from tests.runners.conftest import Qarena, Result
from tests.runners.experiments import QARENA, build_shell_environment, read_archive_rows
from tests.runners.play.people import play_typed_game

Play = Callable[..., Result]
QUESTION = re.compile(r'qarena sql (?:--archive \S+ )?"(.*)"\n')
LEFT = "\nrematch with the seats swapped, y or n> \n"  # the end of the input after a game
DEADLINE = 120
REVIEW = GameSeries._print_review


remembered_agent, remembered_rules = (
    cache(agent_from_label),
    cache(load_rules),
)  # most of the time goes into reading these


@pytest.fixture
def play(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Return a function that runs ``qarena play …`` with lines to read, without reviewing the games."""
    monkeypatch.setattr(game_series, "agent_from_label", remembered_agent)
    monkeypatch.setattr(game_series, "load_rules", remembered_rules)
    monkeypatch.setattr(GameSeries, "_print_review", lambda *_: None)

    def run(lines: Sequence[str], *arguments: str) -> Result:
        reading, writing = os.pipe()
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            pipe.writelines(f"{line}\n" for line in lines)
        with os.fdopen(reading, encoding="utf-8") as standard_input:
            monkeypatch.setattr("sys.stdin", standard_input)
            return qarena("play", *arguments)

    return run


def check_archive(root: Path, games: int) -> None:
    """Check that the archive is sound and holds this number of games."""
    report = verify_archive(ArchiveStore.open(root))
    assert report.problems == []
    assert report.games == games


@pytest.mark.parametrize(("preset", "seat"), [("classic", 0), ("own_piece", 1), ("torus_square", 1)])
def test_a_game_is_played_logged_and_found_again(
    preset: str, seat: int, play: Play, qarena: Qarena, tmp_path: Path
) -> None:
    options = ["random", "--rules", preset, "--seat", str(seat), "--seed", "5", "--name", "ada", "--archive", "games"]
    for number in range(2):
        lines, game = play_typed_game(PRESETS[preset], seat, "random", 5, number, name="ada")
        result = play(lines, *options)
        assert (result.code, result.err) == (0, "")
        assert f"\nGame: {format_game(game.plies)}\nLogged as game {number} of run " in result.out
        question = QUESTION.search(result.out)
        assert question
        answer = pl.read_csv(io.StringIO(qarena("sql", "--archive", "games", question[1], "--format", "csv").out))
        assert list(zip(answer["piece"], answer["cell"], strict=True)) == list(game.plies)
        row = read_archive_rows(tmp_path / "games")["games"].row(number, named=True)
        assert row["agent_0" if seat == 0 else "agent_1"] == "human:ada"
        assert row["agent_1" if seat == 0 else "agent_0"] == "random"
        assert (row["game_id"], row["winner"], row["ending"]) == (2 * number, game.winner, ENDINGS[game.ending or 0])
    check_archive(tmp_path / "games", 2)
    (record,) = ArchiveStore.open(tmp_path / "games").load_runs()
    assert (record.status, record.games, record.rules.name) == ("complete", 2, preset)
    assert shlex.split(record.command) == ["qarena", "play", *options]


def test_a_logged_game_is_indexed_at_once_wherever_positions_are_asked_for(
    play: Play, qarena: Qarena, tmp_path: Path
) -> None:
    lines = ["d4 F", "resign"]
    for _ in range(2):
        assert play(lines, "dumb", "--seat", "1", "--name", "ada", "--archive", "games").code == 0
    with open_archive(tmp_path / "games") as opened:
        games = opened.scan("positions").collect().get_column("games")
        assert games.sum() == opened.sql("SELECT sum(games) FROM positions").item() > 0
    result = qarena("sql", "SELECT sum(games) AS games FROM positions", "--archive", "games", "--format", "json")
    assert json.loads(result.out) == [{"games": games.sum()}]
    assert "Nothing to index" in qarena("archive", "index", "--archive", "games").out


def test_a_game_that_cannot_be_indexed_is_logged_all_the_same(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise FailureError("the disk is full")

    monkeypatch.setattr("analytics.tables.derived.indexing.index_runs", fail)
    result = play(["d4 F", "resign"], "dumb", "--seat", "1", "--archive", "games")
    assert (result.code, "Logged as game 0 of run" in result.out) == (0, True)
    assert caplog.messages == [
        "the game is logged but not indexed (the disk is full): run 'qarena archive index --archive games'"
    ]
    check_archive(tmp_path / "games", 1)


def test_an_opponent_may_be_a_level(play: Play, tmp_path: Path) -> None:
    assert play(["resign"], "5", "--seat", "0", "--name", "ada", "--archive", "games").code == 0
    (record,) = ArchiveStore.open(tmp_path / "games").load_runs()
    assert record.labels == ("human:ada", "semi_random")
    for wrong in ("0", "11"):
        result = play([], wrong)
        assert (result.code, result.err) == (
            2,
            f"error: level {wrong} does not exist: levels are 1 (random) to 10 (perfect play)\n",
        )
    for level in LEVELS:
        assert agent_from_label(level.agent).label == level.agent
    assert [level.elo for level in LEVELS] == sorted(level.elo for level in LEVELS)


def test_a_transcript_reads_well(play: Play) -> None:
    result = play(["d4 F", "undo", "d4", "e", "resign"], "dumb", "--name", "ada", "--no-log")
    assert result.code == 0
    assert result.out == (Path(__file__).parent / "transcript.txt").read_text() + LEFT


def test_what_is_typed_can_be_read_in_the_transcript(play: Play) -> None:
    result = play(["a1 5", "\x1b[2Jfoo", "x" * 1000, "quit"], "dumb", "--no-log")
    assert "place 0> a1 5\nYou place 0 on a1 and give 5.\ndumb places 5 on b1 and gives you 1.\n\n" in result.out
    assert "place 1> ?[2Jfoo\n" in result.out
    assert "\x1b" not in result.out
    assert f"place 1> {'x' * 200}…\n" in result.out
    assert "place 1> quit\nYou leave. The game is not finished, so it is not logged.\n" in result.out


def test_the_end_of_the_input_leaves_the_game(play: Play, tmp_path: Path) -> None:
    for lines in ([], ["d4 F"], ["d4"], ["what?"]):
        result = play(lines, "dumb", "--archive", "games")
        assert (result.code, result.err) == (1, "error: the input ended before the game did, so it is not logged\n")
        assert re.search(r"\n(place \w|give a piece)> \n\Z", result.out)
    check_archive(tmp_path / "games", 0)
    assert ArchiveStore.open(tmp_path / "games").load_runs() == []


def test_leaving_or_not_logging_leaves_nothing_in_the_archive(play: Play, tmp_path: Path) -> None:
    lines, game = play_typed_game(CLASSIC, 1, "random", 1, 0)
    result = play(["quit"], "random")
    assert (result.code, result.err) == (0, "")
    check_archive(tmp_path / "data/archive", 0)
    result = play(lines, "random", "--no-log")
    assert result.code == 0
    assert result.out.endswith(f"Game: {format_game(game.plies)}\n" + LEFT)
    check_archive(tmp_path / "data/archive", 0)
    result = play(lines, "random", "--no-log", "--archive", "elsewhere")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("typed", "mark"),
    [([], ""), (["hint", "{0}", "help", "undo", "board"], "(hint,undo)")],
)
def test_a_game_with_help_is_marked(play: Play, tmp_path: Path, typed: list[str], mark: str) -> None:
    lines, game = play_typed_game(CLASSIC, 0, "random", 9, 0, name="ada")
    options = ("random", "--seed", "9", "--seat", "0", "--name", "ada")
    result = play([*(line.format(lines[0]) for line in typed), *lines], *options)
    assert result.code == 0
    assert f"Game: {format_game(game.plies)}\n" in result.out
    assert ("so the game is logged apart from your others" in result.out) == bool(mark)
    (row,) = read_archive_rows(tmp_path / "data/archive")["games"].to_dicts()
    assert (row["agent_0"], row["game_id"]) == (f"human:ada{mark}", 0)
    lines, game = play_typed_game(CLASSIC, 0, "random", 9, 1, name="ada")  # the next number, in whichever run
    assert f"Game: {format_game(game.plies)}\n" in play(lines, *options).out
    assert set(read_archive_rows(tmp_path / "data/archive")["games"]["game_id"]) == {0, 2}
    check_archive(tmp_path / "data/archive", 2)


@pytest.mark.parametrize("answer", ["YES"])
def test_a_rematch_swaps_the_seats_and_is_a_run_of_its_own(answer: str, play: Play, tmp_path: Path) -> None:
    result = play(
        ["resign", "what", answer, "3", "resign", answer, "d4 F", "resign", "n", "y"], "dumb", "--name", "ada"
    )
    assert (result.code, result.err) == (0, "")
    headings = re.findall(r"human:ada \((\w+ first)\) against dumb; classic rules, seed 1, game (\d)", result.out)
    assert headings == [("places first", "0"), ("gives first", "0"), ("places first", "1")]
    assert "'what' is neither y nor n.\n" in result.out
    assert result.out.endswith("y or n> n\n")
    played = read_archive_rows(tmp_path / "data/archive")["games"].select("agent_0", "agent_1", "game_id").rows()
    assert sorted(played) == [("dumb", "human:ada", 0), ("dumb", "human:ada", 2), ("human:ada", "dumb", 0)]
    records = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert {record.command for record in records} == {
        "qarena play dumb --name ada",
        "qarena play dumb --name ada --seat 0",
    }
    check_archive(tmp_path / "data/archive", 3)


@pytest.mark.slow  # ``test_review`` has a short one
def test_a_finished_game_is_reviewed(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GameSeries, "_print_review", REVIEW)
    result = play(["c1 a", "b2 4", "d1 9"], "dumb", "--no-log", "--name", "ada")
    assert result.out.endswith(
        """
Each decision and its exact value, for the player who took it:
ply  gift                  placement
0    dumb 0: draw          you 0@c1: draw
1    you A: draw           dumb A@a1: draw
2    dumb 1: draw          you 1@b2: draw
3    you 4: draw           dumb 4@b1: draw
4    dumb 2: draw -> loss  you 2@d1: win
Mistake at ply 4 by dumb: giving 2 turned a draw into a loss; 3, 5, 7, 9, B, D and 1 more would have kept it.
"""
        + LEFT
    )
    result = play(["c1 a", "resign"], "dumb", "--no-log", "--review", "0")
    assert "decision" not in result.out
    monkeypatch.setattr(game_series, "review_game", lambda *_, **options: GameReview((), 9, {}))
    result = play(["resign"], "dumb", "--no-log", "--review", "0.5")
    assert "\n9 decisions were not judged within 0.5 s: early positions take long under these rules.\n" in result.out


def test_a_resigned_game_is_logged_as_lost(play: Play, tmp_path: Path) -> None:
    for lines, plies in ((["resign"], 0), (["d4", "resign"], 1), (["d4 F", "d3 E", "resign"], 4)):
        result = play([*lines], "dumb")
        assert result.code == 0
        assert "You resign, and dumb wins.\n" in result.out
        row = read_archive_rows(tmp_path / "data/archive")["games"].row(-1, named=True)
        assert (row["winner"], row["plies"], row["ending"]) == (0, plies, "forfeit_resigned")
    assert "Game: (no ply was played)\n" in play(["resign"], "dumb").out
    check_archive(tmp_path / "data/archive", 4)


def test_agents_and_rules_of_ones_own_are_played(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game_series, "agent_from_label", agent_from_label)
    monkeypatch.setattr(game_series, "load_rules", load_rules)
    for group, name, content in (
        ("agent", "first", "_target_: own_player.First\n"),
        ("rules", "columns", "name: columns\nrows_and_columns: true\ndiagonals: none\n"),
    ):
        (tmp_path / "mine" / group).mkdir(parents=True)
        (tmp_path / "mine" / group / f"{name}.yaml").write_text(content)
    (tmp_path / "mine/own_player.py").write_text("from tests.runners.players import OneByOne as First\n")
    result = play(["resign"], "first", "--rules", "columns", "--config-dir", "mine")
    assert result.code == 0, result.err
    assert " against first; columns rules, seed 1, game 0\n" in result.out
    check_archive(tmp_path / "data/archive", 1)
    assert "agent 'first' is one of your own: name its folder too" in play(["resign"], "first").err
    assert play(["resign"], "first", "--config-dir", "nowhere").err == (
        "error: --config-dir nowhere is not a folder: name the one that holds agent/ or rules/\n"
    )


@pytest.mark.parametrize(("what", "ending"), [("raise", "forfeit_error"), ("cheat", "forfeit_illegal")])
def test_an_agent_that_misbehaves_forfeits_in_one_line(
    what: str, ending: str, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = AgentSpec("bad", "tests.runners.players.Misbehaving", {"what": what}, trusted=True)
    monkeypatch.setattr(game_series, "agent_from_label", lambda *_: bad)
    result = play(["d4 F", "d3 E"], "bad")
    assert (result.code, result.err) == (0, "")
    assert len(re.findall(r"^bad forfeits the game, and you win: it.*\.$", result.out, re.MULTILINE)) == 1
    assert "Traceback" not in result.out
    row = read_archive_rows(tmp_path / "data/archive")["games"].row(0, named=True)
    assert (row["winner"], row["ending"]) == (1, ending)
    check_archive(tmp_path / "data/archive", 1)


def test_games_by_other_code_are_in_a_run_of_their_own(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(["resign"], "dumb")
    real = code_fingerprints.build_code_record
    monkeypatch.setattr(
        "runners.play.session.build_code_record", lambda *of: real(*of) | {"fingerprint": "0123456789abcdef"}
    )
    for number in range(2):
        assert f"Logged as game {number} of run" in play(["resign"], "dumb").out
    records = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert sorted((record.games, record.spec.get("salt")) for record in records) == [(1, None), (2, "0123456789abcdef")]
    check_archive(tmp_path / "data/archive", 3)


def test_the_login_name_is_the_default(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    for getuser, name in ((lambda: "grace", "grace"), (nobody, "somebody")):
        monkeypatch.setattr("getpass.getuser", getuser)
        assert play(["resign"], "dumb").out.startswith(f"human:{name} (places first) against dumb")
    assert set(read_archive_rows(tmp_path / "data/archive")["games"]["agent_1"]) == {"human:grace", "human:somebody"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Missing argument"),
        (["rule_basd"], "agent 'rule_basd' does not exist; did you mean 'rule_based'?"),
        (["mcts(iteration=3)"], "agent 'mcts' has no parameter 'iteration'; did you mean 'iterations'?"),
        (["mcts(iterations=0)"], "agent 'mcts(iterations=0)' cannot be made: iterations=0"),
        (["rule_based", "--rules", "clasic"], "rules 'clasic' does not exist; did you mean 'classic'?"),
        (["rule_based", "--rules", "own_piece"], "agent 'rule_based' does not play rules 'own_piece'"),
        (["own_piece_alpha_beta"], "does not play rules 'classic'"),
        (["rule_based", "--seat", "2"], "'--seat'"),
        (["rule_based", "--seed", "-1"], "'--seed'"),
        (["rule_based", "--seed", str(1 << 63)], "'--seed'"),
        (["rule_based", "--name", " "], "name ' ' is not a printable text"),
        (["rule_based", "--name", "a\nb"], r"name 'a\nb' is not a printable text"),
        (["rule_based", "--name", "x" * 195], "is not a printable text of at most 183 characters"),
        (["rule_based", "--archive", "."], "is not an archive"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_exits_2_and_writes_nothing(
    arguments: list[str], expected: str, play: Play, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").touch()
    result = play(["resign"], *arguments)
    assert expected in result.refusal
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_when_the_disk_refuses_the_game_is_printed_all_the_same(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if target.suffix == ".parquet":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(path, target)

    lines, game = play_typed_game(CLASSIC, 1, "random", 1, 0)
    ArchiveStore.open(tmp_path / "data/archive", create=True)
    monkeypatch.setattr(Path, "replace", refuse)
    result = play(lines, "random")
    assert result.code == 1
    assert result.out.endswith(f"\nGame: {format_game(game.plies)}\n")
    assert re.fullmatch(r"error: cannot write to data/archive: the disk is full.*\n", result.err)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    check_archive(tmp_path / "data/archive", 0)
    (record,) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert record.status == "interrupted"


# Processes of their own.


def start_play(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [QARENA, "play", *arguments],
        cwd=folder,
        env=build_shell_environment(**variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_until(process: subprocess.Popen[bytes], text: bytes) -> bytes:
    """Read the output of a process up to a text that it must print."""
    assert process.stdout is not None
    read = b""
    while not read.endswith(text):
        byte = process.stdout.read(1)
        assert byte, read
        read += byte
    return read


@pytest.mark.slow
def test_two_terminals_at_once_are_both_logged(tmp_path: Path) -> None:
    with start_play(tmp_path, "dumb", "--name", "ada") as one, start_play(tmp_path, "dumb", "--name", "ada") as two:
        heard = [read_until(process, b"place 0> ") for process in (one, two)]
        assert all(b", game 0\n" in text for text in heard)
        outs = [process.communicate(b"resign\n", timeout=DEADLINE)[0].decode() for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0)
    numbers = {re.findall(r"Logged as game (\d+)", out)[0] for out in outs}
    assert numbers == {"0", "1"}
    check_archive(tmp_path / "data/archive", 2)
    (record,) = ArchiveStore.open(tmp_path / "data/archive").load_runs()
    assert (record.games, record.status) == (2, "complete")


@pytest.mark.slow
def test_ctrl_c_leaves_with_130_while_the_pipe_stays_open(tmp_path: Path) -> None:
    with start_play(tmp_path, "dumb") as process:
        read_until(process, b"place 0> ")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130
        out, err = process.communicate()
    assert (out, err) == (b"\nThe game is not finished, so it is not logged.\n", b"")
    check_archive(tmp_path / "data/archive", 0)
