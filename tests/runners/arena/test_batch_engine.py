"""The batch engine plays the games of the naive one, whatever the agents, rules, batches, threads and order."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.base.agent import Agent
from agents.base.player import build_player
from agents.dumb import Dumb
from agents.random import Random
from agents.rule_based import RuleBased
from agents.semi_random import SemiRandom
from quarto.rng import Streams
from quarto.rules import CLASSIC, Rules
from quarto.views import BatchView, Position
from runners.arena.batch_engine import BatchEngine, BlockHalf, PairRange
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS, Outcome, View
from tests.naive_players.agreement import outcomes
from tests.naive_players.study_a import FaithfulRuleBased
from tests.paths import ORACLES
from tests.positions import build_view
from tests.runners.players import Greedy

SEED, RUN = 77, 78
FACTS = json.loads(ORACLES.read_text())

BUILT_IN: list[tuple[str, Agent, naive.Player]] = [
    ("random", Random(), naive.Random()),
    ("dumb", Dumb(), naive.Dumb()),
    ("semi_random", SemiRandom(), naive.SemiRandom()),
    ("rule_based", RuleBased(), naive.RuleBased()),
    ("rule_based(faithful=true)", RuleBased(faithful=True), FaithfulRuleBased()),
]


def build_engine(
    rules: Rules, agents: Sequence[Agent], opening_plies: int = 0, seed: int = SEED, run: int = RUN
) -> BatchEngine:
    """Build an engine in which every agent meets every agent, itself included."""
    seats = [(first, second) for first in range(len(agents)) for second in range(len(agents))]
    labels = [f"agent {i}" for i in range(len(agents))]
    return BatchEngine(rules, agents, labels, seats, seed, run, opening_plies)


def list_pairings(engine: BatchEngine, pairs: int, first_pair: int = 0) -> list[PairRange]:
    return [PairRange(pairing, first_pair, pairs) for pairing in range(len(engine.pairings))]


def check_against_twins(engine: BatchEngine, twins: Sequence[naive.Player], pairs: int) -> list[Outcome]:
    """Play some pairs of every pairing and compare each game with the naive one."""
    games = outcomes(engine, list_pairings(engine, pairs, first_pair=1000))
    assert len(games) == 2 * pairs * len(engine.pairings)
    for (pairing, pair, game), outcome in games.items():
        first, second = engine.pairings[pairing]
        expected = naive.play_game(
            engine.rules,
            (deepcopy(twins[first]), deepcopy(twins[second])),  # which may remember their game
            RUN,
            pair,
            game,
            seed=SEED,
            pairing=pairing,
            opening_plies=engine.opening_plies,
        )
        assert outcome == expected, (engine.rules.name, pairing, pair, game)
    return list(games.values())


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS.keys())
@pytest.mark.parametrize("opening_plies", [1, *seldom(0, 6)])
def test_every_pairing_of_built_in_agents_plays_the_naive_games(rules: Rules, opening_plies: int) -> None:
    playing = [(agent, twin) for _, agent, twin in BUILT_IN if rules.chooser in getattr(agent, "choosers", ())]
    assert len(playing) >= 3
    arena = build_engine(rules, [agent for agent, _ in playing], opening_plies)
    check_against_twins(arena, [twin for _, twin in playing], pairs=2)


class Batched:
    """A jitted agent behind the interface for batches, which draws far more words than it needs."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.player = build_player(agent, CLASSIC, "inner")

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        for index in range(1, 20):
            rng.draw(index)
        turns = self.player.play(batch.packed, rng)
        return turns.cells, turns.gifts


class Careless(Batched):
    """An agent that overwrites the arrays that it was given, once it has chosen its turns."""

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        turns = super().play(batch, rng)
        for array in (*batch.packed, rng.seeds):
            array[:] = 0
        return turns


class OneByOne:
    """A naive player behind the interface for single positions; only for players that draw nothing."""

    def __init__(self, twin: naive.Player) -> None:
        self.twin = twin

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return self.twin.turn(build_view(position.packed, CLASSIC), 0)


def test_the_three_interfaces_play_the_same_games() -> None:
    agents: list[Agent] = [SemiRandom(), Batched(SemiRandom()), Careless(Random()), Dumb(), OneByOne(naive.Dumb())]
    twins: list[naive.Player] = [*(naive.SemiRandom(),) * 2, naive.Random(), naive.Dumb(), naive.Dumb()]
    check_against_twins(build_engine(CLASSIC, agents, opening_plies=2), twins, pairs=4)
    for outcome in check_against_twins(build_engine(CLASSIC, [Random()], 15), [naive.Random()], pairs=20):
        assert outcome.plies == 16  # long openings never hold a line


def test_games_of_jitted_agents_are_played_in_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    monkeypatch.setattr(
        BlockHalf, "play_turn", lambda _self, turn: turns.append(turn)
    )  # which is called if the kernel fails
    build_engine(CLASSIC, [Random(), SemiRandom()]).play_block(PairRange(1, 0, 2))
    assert turns == []


@pytest.mark.parametrize("agents", [[Random(), SemiRandom()], [Random(), Batched(Random())]], ids=["jitted", "mixed"])
def test_games_depend_on_neither_threads_nor_blocks_nor_order(agents: list[Agent]) -> None:
    arena = build_engine(CLASSIC, agents, opening_plies=2)
    expected = outcomes(arena, list_pairings(arena, 20))
    slices = ((14, 6), (0, 1), (1, 13))
    sliced_ranges = [PairRange(pair_range.pairing, *part) for pair_range in list_pairings(arena, 20) for part in slices]
    single_pairs = [
        PairRange(pair_range.pairing, pair, 1) for pair_range in list_pairings(arena, 20) for pair in range(20)
    ]
    assert outcomes(arena, sliced_ranges, threads=2) == expected
    assert outcomes(arena, sliced_ranges[::-1], threads=1) == expected
    assert outcomes(build_engine(CLASSIC, agents, opening_plies=2), single_pairs, threads=2) == expected
    assert outcomes(build_engine(CLASSIC, agents, opening_plies=2, seed=SEED + 1), sliced_ranges) != expected


class Answer(NamedTuple):
    """The behaviour of a saboteur: it raises, or answers something, possibly out of all bounds."""

    cell: int = 0
    gift: int = 0
    raises: bool = False


class Saboteur:
    """Plays like ``dumb`` until ``plies`` are on the board, then misbehaves unless the last cell is 1 modulo 3."""

    before: naive.Player = naive.Dumb()

    def __init__(self, plies: int, answer: Answer) -> None:
        self.plies = plies
        self.answer = answer

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if sum(piece != NONE for piece in view.board) < self.plies or view.last_cell % 3 == 1:
            return self.before.turn(view, seed)
        if self.answer.raises:
            raise RuntimeError("sabotage")
        return self.answer.cell, self.answer.gift

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return self.turn(build_view(position.packed, CLASSIC), 0)


class BatchSaboteur(Saboteur):
    """A saboteur over batches that first plays like ``random``: games of a batch must keep their own randomness."""

    before = naive.Random()

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        turns = [self.turn(build_view(batch[i].packed, CLASSIC), seed) for i, seed in enumerate(rng.seeds.tolist())]
        cells, gifts = np.array(turns, np.int64).T
        return cells, gifts


ANSWERS = {
    "taken cell or any": Answer(cell=5, gift=15),
    "no such cell": Answer(cell=16, gift=15),
    "cell that wraps in a byte": Answer(cell=256 + 7, gift=15),
    "cell that reads as an error": Answer(cell=-2, gift=15),
    "used piece": Answer(cell=7, gift=0),
    "no such piece": Answer(cell=7, gift=16),
    "no piece": Answer(cell=7, gift=NONE),
    "exception": Answer(raises=True),
}


@pytest.mark.parametrize("kind", [Saboteur, BatchSaboteur])
@pytest.mark.parametrize(("rules", "opening_plies"), [*seldom((CLASSIC, 0)), (CLASSIC, 3), (PRESETS["own_piece"], 1)])
def test_misbehaviour_forfeits_its_own_game_only_and_keeps_its_legal_plies(
    kind: type[Saboteur], rules: Rules, opening_plies: int, caplog: pytest.LogCaptureFixture
) -> None:
    for answer_name, answer in ANSWERS.items():
        endings: Counter[str] = Counter()
        for plies in (0, 7):
            saboteur = kind(plies, answer)
            arena = build_engine(rules, [Random(), saboteur], opening_plies)
            endings.update(game.ending for game in check_against_twins(arena, [naive.Random(), saboteur], pairs=2))
        expected = "forfeit_error" if answer.raises else "forfeit_illegal"
        assert endings[expected] > 0, answer_name
        assert endings["line"] > 0, answer_name
        assert ("sabotage" in caplog.text) is answer.raises, answer_name


class Walkout:
    """Leaves the game by an exception that is no ``Exception``."""

    def __init__(self, leaves: type[BaseException]) -> None:
        self.leaves = leaves

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        raise self.leaves


def test_an_agent_forfeits_by_any_exception_and_ctrl_c_in_its_turn_is_the_users() -> None:
    for leaves in (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit, BaseException):
        arena = build_engine(CLASSIC, [Walkout(leaves), Dumb()])
        assert {outcome.ending for outcome in outcomes(arena, [PairRange(1, 0, 2)]).values()} == {"forfeit_error"}
        assert arena.describe_misbehaviour()[0].startswith(f"agent 'agent 0' raised {leaves.__name__} (tests/")
    with pytest.raises(KeyboardInterrupt):
        build_engine(CLASSIC, [Walkout(KeyboardInterrupt), Dumb()]).play_block(PairRange(1, 0, 2))


def test_an_illegal_turn_is_described_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    saboteur = Saboteur(5, Answer(cell=256 + 7, gift=-9))
    arena = build_engine(CLASSIC, [Dumb(), saboteur], 2)
    games = [
        outcome
        for outcome in outcomes(arena, [PairRange(1, 0, 8), PairRange(2, 0, 8)]).values()
        if outcome.ending == "forfeit_illegal"
    ]
    (record,) = caplog.records
    assert record.getMessage().splitlines()[0].startswith("agent 'agent 1' answered with an illegal turn")
    assert "answered: (cell, gift) = (263, -9): cell 263 is not an empty cell and piece -9 is not among those left" in (
        caplog.text
    )
    (line,) = arena.describe_misbehaviour()
    assert line.startswith(
        "agent 'agent 1' answered with an illegal turn (cell, gift) = (263, -9): cell 263 is not an "
    )
    assert line.endswith(f": {len(games)} times")
    caplog.clear()
    outcomes(build_engine(CLASSIC, [Greedy(), Dumb()], 2), [PairRange(1, 0, 4)])  # a jitted agent
    assert "answered: (cell, gift) = (0, 0): " in caplog.text
    assert len(caplog.records) == 1


def count_endings(rules: Rules, games: int) -> tuple[NDArray[np.int64], int]:
    """Return the numbers of random games that were won at placement 0 to 16 [17], and the number of draws."""
    pair_ranges = [PairRange(0, first, min(8192, games // 2 - first)) for first in range(0, games // 2, 8192)]
    wins, draws = np.zeros(17, np.int64), 0
    for block in build_engine(rules, [Random()], seed=5).play_in_any_order(pair_ranges, threads=2):
        decided = block.games.winner != NONE
        wins += np.bincount(block.games.plies[decided], minlength=17)
        draws += int((~decided).sum())
    return wins, draws


@pytest.mark.parametrize("name", ["square", *seldom("torus")])
def test_random_games_under_other_rules_agree_with_independent_ones(name: str) -> None:
    games, facts = 2_000_000, FACTS["random_play_other_rules_monte_carlo_1e7"][name]
    won, drawn = count_endings(PRESETS[name], games)
    assert_likely(int(won[1::2].sum()), games, facts["seat_1_wins"], rounding=5e-5)
    assert_likely(drawn, games, facts["draw"], rounding=5e-6)
    plies = np.arange(17)
    mean = (float((won * plies).sum()) + 16 * drawn) / games
    assert mean == pytest.approx(facts["mean_placements"], abs=4 * 2.5 * (1 / games + 1e-7) ** 0.5 + 5e-4)


def assert_likely(count: int, games: int, probability: float, rounding: float) -> None:
    """Check that a share of games is within four standard errors of a probability, and of its own inaccuracy.

    The probability was sampled from 10^7 games and rounded by ``rounding``.
    """
    error = (probability * (1 - probability) * (1 / games + 1e-7)) ** 0.5
    assert abs(count / games - probability) <= 4 * error + rounding, (count / games, probability, error)
