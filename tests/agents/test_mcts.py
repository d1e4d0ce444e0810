"""mcts builds the tree that study E describes, though it makes children one by one and in flat arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.base.player import build_player
from agents.mcts import Mcts
from agents.random import Random
from quarto.batch import Batch
from quarto.position import PackedPosition, position_from_plies
from quarto.rng import Streams
from quarto.rules import CLASSIC, Rules
from runners.arena.batch_engine import BatchEngine, PairRange
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players import mcts as naive_mcts
from tests.naive_players.agreement import assert_same_games, assert_same_match, assert_same_turns, list_late_positions
from tests.positions import list_positions

SETTINGS: list[dict[str, Any]] = [
    {},
    {"c": 0.5, "final": "value"},
    {"draw_reward": 0.5},
    {"solver": True},
    {"safe_gifts": True},
    {"solver": True, "safe_gifts": True, "c": 0.3},
    {"faithful": True},
    {"faithful": True, "c": 0.7, "draw_reward": 0.4, "safe_gifts": True},
]


def twin(faithful: bool = False, **settings: Any) -> naive_mcts.Mcts:
    return naive_mcts.FaithfulMcts(**settings) if faithful else naive_mcts.Mcts(**settings)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_turns_are_those_of_the_slow_twin(settings: dict[str, Any]) -> None:
    few, many = settings | {"iterations": 12}, settings | {"iterations": 120}
    assert assert_same_turns(Mcts(**few), twin(**few), CLASSIC, list_positions(CLASSIC, games=4)) > 50
    assert assert_same_turns(Mcts(**many), twin(**many), CLASSIC, list_late_positions(CLASSIC, 20, most_empty=3)) > 5


@pytest.mark.parametrize(
    "settings",
    [{"c": 0.1}, *seldom({}, {"faithful": True}, {"solver": True})],
    ids=str,
)
def test_turns_of_wide_families_are_those_of_the_slow_twin(settings: dict[str, Any]) -> None:
    these = settings | {"iterations": 400}
    assert assert_same_turns(Mcts(**these), twin(**these), CLASSIC, list_positions(CLASSIC, games=1)[1:4]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("rules", PRESETS.values(), ids=lambda rules: rules.name)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_thousands_of_turns_are_those_of_the_slow_twin(settings: dict[str, Any], rules: Rules) -> None:
    if rules.mover_chooses and settings.get("safe_gifts"):
        settings = {key: value for key, value in settings.items() if key != "safe_gifts"}
    for iterations, positions in (
        (2, list_positions(rules, games=20)),
        (30, list_positions(rules, games=4)),
        (200, list_late_positions(rules, 60, most_empty=6)[:30]),
    ):
        these = settings | {"iterations": iterations}
        assert_same_turns(Mcts(**these), twin(**these), rules, positions)


@pytest.mark.parametrize("rules", PRESETS.values(), ids=lambda rules: rules.name)
@pytest.mark.parametrize("settings", [{"solver": True}, {"faithful": True}, {"reuse": True}], ids=str)
def test_whole_games_are_those_of_the_slow_twin(settings: dict[str, Any], rules: Rules) -> None:
    these = settings | {"iterations": 20}
    assert_same_games(Mcts(**these), twin(**these), rules, pairs=1, opening_plies=4)


@pytest.mark.parametrize(
    ("settings", "opening_plies", "most_kept"),
    [
        *seldom(({"iterations": 150}, 7, 150)),  # the twin takes its time
        ({"iterations": 100, "c": 0.2}, 8, 12),
        *seldom(({"iterations": 200, "solver": True}, 9, 200)),
        *seldom(({"iterations": 200, "solver": True, "c": 0.1}, 9, 20)),
        ({"iterations": 60, "solver": True, "c": 0.1, "safe_gifts": True, "final": "value"}, 8, 60),
    ],
    ids=str,
)
@pytest.mark.parametrize("rules", [CLASSIC, PRESETS["own_piece"]], ids=lambda rules: rules.name)
def test_games_with_kept_trees_are_those_of_the_slow_twin(
    settings: dict[str, Any], opening_plies: int, most_kept: int, rules: Rules
) -> None:
    these = settings | {"reuse": True, "safe_gifts": "safe_gifts" in settings and not rules.mover_chooses}
    agent, slow = Mcts(**these), twin(**these)
    agent.most_kept = slow.most_kept = most_kept
    assert_same_match((agent, slow), (agent, slow), rules, 6, opening_plies)


def test_a_kept_tree_is_used_for_the_position_that_followed_and_for_no_other() -> None:
    plies = [(0, 0), (15, 1), (3, 2), (12, 4), (5, 5), (10, 10), (6, 15), (9, 3)]
    player = build_player(Mcts(iterations=5000, reuse=True), CLASSIC, "mcts")
    slot, same = np.zeros(1, np.uint32), 0

    def turn_in(position: PackedPosition, seed: int, slots: NDArray[np.uint32] | None = None) -> tuple[int, int]:
        turns = player.play(Batch.from_positions([position]), Streams(np.array([seed], np.uint64)), slots)
        return int(turns.cells[0]), int(turns.gifts[0])

    for seed in range(20):
        player.start(range(1))
        cell, gift = turn_in(position_from_plies(plies, 1), seed, slot)
        reply = next(piece for piece in range(16) if piece not in (0, 1, 2, 3, 4, 5, 10, 15, cell))
        hand = next(piece for piece in (2, 4, 7, 8) if piece != gift)
        follows = position_from_plies([*plies, (1, cell), (gift, reply)], hand)
        other = position_from_plies([*plies[:-2], (9, 15), (6, 3), (1, cell), (gift, reply)], hand)
        same += turn_in(follows, seed, slot) == turn_in(follows, seed)
        player.start(range(1))
        assert turn_in(position_from_plies(plies, 1), seed, slot) == (cell, gift)
        assert turn_in(other, seed, slot) == turn_in(other, seed)
    assert same < 15


def games_won(settings: dict[str, Any], opponent: Mcts | Random, pairs: int) -> float:
    """Return the share of games, in percent."""
    engine = BatchEngine(CLASSIC, [Mcts(**settings), opponent], ["mcts", "opponent"], [(0, 1)], seed=5, run=5)
    games = engine.play_block(PairRange(0, 0, pairs)).games
    return float(100 * ((games.winner[0::2] == 0).mean() + (games.winner[1::2] == 1).mean()) / 2)


@pytest.mark.parametrize(
    ("iterations", "c", "published", "tolerance"),
    [
        (100, 2.0, (91 + 87 + 89) / 3, 3.5),
        *seldom((100, 1.0, (87 + 80 + 85) / 3, 4.1), (200, 2.0, (97 + 96 + 94) / 3, 3.0)),
    ],
)
def test_the_studys_code_wins_as_often_as_published(
    iterations: int, c: float, published: float, tolerance: float
) -> None:
    # Three runs of 100 games each: three points, or half of the 95 % interval of 300 games if that is more.
    settings = {"iterations": iterations, "c": c, "faithful": True}
    assert games_won(settings, Random(), 1000) == pytest.approx(published, abs=tolerance)


def test_the_solver_and_safe_gifts_add_strength() -> None:
    assert games_won({"solver": True, "safe_gifts": True}, Mcts(), 300) > 60
    with pytest.raises(ValueError, match="safe_gifts=true has no meaning where the mover chooses"):
        Mcts(safe_gifts=True).knowledge(PRESETS["own_piece"])


@pytest.mark.parametrize("iterations", [20, *seldom(200)])
def test_no_cell_and_no_piece_is_preferred_for_its_number(iterations: int) -> None:
    # After two placements all turns are worth about the same to a short search: it plays any of 14 cells and 13 pieces.
    player, games = build_player(Mcts(iterations=iterations), CLASSIC, "mcts"), 7_000
    position = position_from_plies([(0, 5), (15, 10)], 6)
    turns = player.play(Batch.from_positions([position] * games), Streams(np.arange(games, dtype=np.uint64)))
    for chosen, choices in ((turns.cells, 14), (turns.gifts, 13)):
        counts = np.bincount(chosen)[np.unique(chosen)]
        assert len(counts) == choices
        assert counts.min() > 0.7 * games / choices
