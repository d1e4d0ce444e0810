"""Regret in a set of positions: the slow twin, playing out, and the archive's own decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from analytics.derived_tables.exact_values import ExactValues
from analytics.perfect.annotate import AnnotationSettings, Evaluator
from analytics.perfect.position_set import ENDS, NO_DECISION, PositionSet, judgement, ratio, read, regrets, taken
from quarto.batch import Games, Turns
from quarto.position import from_plies
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import ILLEGAL, Solver
from tests import naive
from tests.naive_solver import turns_of
from tests.paths import ROOT


@pytest.fixture(scope="module")
def late() -> PositionSet:
    """A few dozen positions of the set that ships, from nine pieces on."""
    whole = read(ROOT / "analytics/perfect/position_sets/classic.parquet")
    return taken(whole, (whole.pieces >= 9) & (np.arange(len(whole.pieces)) % 90 == 0))


def naive_regret(table: NDArray[np.int8], cell: int, gift: int) -> tuple[int, int]:
    """The regrets of a placement and of its gift, by loops; -1: no gift was decided."""

    def best(column: int) -> int:
        return max(int(value) for value in table[column] if value != ILLEGAL)

    free = [column for column in range(16) if any(value != ILLEGAL for value in table[column])]
    value = max(best(column) for column in free)
    if cell not in free:
        return value + 1, -1
    if table[cell][ENDS] != ILLEGAL:
        return value - int(table[cell][ENDS]), -1
    given = int(table[cell][gift]) if 0 <= gift < 16 and table[cell][gift] != ILLEGAL else -1
    return value - best(cell), best(cell) - given


def test_regrets_are_those_of_the_slow_twin_for_any_answers(late: PositionSet) -> None:
    answers = np.random.default_rng(1).integers(-3, 18, (2, len(late.logged), 40)).astype(np.int8)
    found = regrets(late.values, Turns(*answers))
    expected = np.array(
        [[naive_regret(late.values[i], *answers[:, i, k]) for k in range(40)] for i in range(len(late.logged))]
    )
    assert np.array_equal(found.placement, expected[..., 0])
    assert np.array_equal(found.gift, expected[..., 1])
    assert np.array_equal(found.turn, expected[..., 0] + np.maximum(expected[..., 1], 0))
    legal = np.take_along_axis((late.values != ILLEGAL).any(axis=2), answers[0].clip(0, 15).astype(int), 1)
    legal &= (answers[0] >= 0) & (answers[0] < 16)
    assert found.forfeits > (~legal).sum() > 0
    assert {0, 1, 2} <= set(np.unique(found.placement)) | set(np.unique(found.gift))


def test_a_bad_turn_has_the_regret_that_playing_out_gives(late: PositionSet) -> None:
    lost = 0
    for i in np.flatnonzero(late.pieces >= 12).tolist():
        turns = turns_of(late.batch.position(i), CLASSIC)
        values = {turn: solved.value for turn, solved in turns.items()}
        (cell, gift), worst = min(values.items(), key=lambda each: each[1])
        found = regrets(late.values[i : i + 1], Turns(np.array([[cell]], np.int8), np.array([[gift]], np.int8)))
        board = max(value for (column, _), value in values.items() if column == cell)
        assert found.turn[0, 0] == max(values.values()) - worst
        assert found.placement[0, 0] == max(values.values()) - board
        assert found.gift[0, 0] == (NO_DECISION if gift == NONE else board - worst)
        lost += int(found.turn[0, 0])
    assert lost > 5


def test_regrets_are_those_of_the_decisions_of_an_archive() -> None:
    first, solver, checked = 10, Solver(CLASSIC, 1.0), 0
    for pair in range(8):
        played = naive.play_game(CLASSIC, (naive.Random(), naive.Random()), 5, pair, 0)
        plies = list(zip(played.pieces, played.cells, strict=True))
        if len(plies) <= first:
            continue
        exact = values_of(plies, first)
        for ply in range(first, len(plies)):
            turn = solver.turns(from_plies(plies[:ply], plies[ply][0]), distance=False)
            table = np.full((1, 16, 17), ILLEGAL, np.int8)
            for cell, gift, value, _ in turn:
                table[0, cell, gift] = value  # NONE is the last column
            gift = plies[ply + 1][0] if ply + 1 < len(plies) else NONE
            found = regrets(table, Turns(np.array([[plies[ply][1]]], np.int8), np.array([[gift]], np.int8)))
            after = exact.gift[ply + 1, 0] if gift != NONE else exact.end[0]
            assert found.placement[0, 0] == exact.placement[ply, 0] - after
            expected = exact.gift[ply + 1, 0] + exact.placement[ply + 1, 0] if gift != NONE else NO_DECISION
            assert found.gift[0, 0] == expected
            checked += int(gift != NONE)
    assert checked > 5


def values_of(plies: list[tuple[int, int]], first: int) -> ExactValues:
    """The values that ``annotate`` finds in one game from a ply on."""
    games = Games.zeros(1)
    games.plies[0] = len(plies)
    for ply, (piece, cell) in enumerate(plies):
        games.pieces[ply, 0], games.cells[ply, 0] = piece, cell
    evaluator = Evaluator(CLASSIC, AnnotationSettings(megabytes=1.0, base_pieces=0))
    return evaluator.values(games, np.array([first], np.int8), False, lambda _games: None)


def test_figures_are_by_kind_source_and_pieces(late: PositionSet) -> None:
    best = late.values.reshape(len(late.values), -1).argmax(axis=1)
    cells, gifts = best // 17, best % 17
    turns = Turns(
        *(np.column_stack([column] * 2).astype(np.int8) for column in (cells, np.where(gifts == ENDS, -1, gifts)))
    )
    turns.cells[::2, 1] = -1  # every second position is forfeited once
    frame = judgement(late, regrets(late.values, turns))
    whole = {row["kind"]: row for row in frame.filter(frame["source"].is_null() & frame["pieces"].is_null()).to_dicts()}
    values = late.values.max(axis=(1, 2))
    assert whole["placement"]["decisions"] == 2 * len(values) == whole["turn"]["decisions"]
    expected = (values[::2] + 1).sum() / (2 * len(values))
    assert math.isclose(whole["turn"]["regret"], expected)
    assert whole["gift"]["optimal"] == 1.0
    assert whole["gift"]["regret"] == 0.0
    by_pieces = frame.filter(frame["kind"] == "placement", frame["pieces"].is_not_null())
    assert by_pieces["decisions"].sum() == 2 * len(values)
    assert set(by_pieces["pieces"]) == set(late.pieces.tolist())
    assert set(frame.filter(frame["kind"] == "gift")["pieces"].drop_nulls()) <= {
        each + 1 for each in late.pieces.tolist()
    }
    assert set(frame["source"].drop_nulls()) == {"canonical", "logged"}


def test_intervals_are_those_of_means_over_positions() -> None:
    totals, counts = np.array([0, 1, 2, 1, 0, 0]), np.ones(6, int)
    found = ratio(totals, counts, 2.0)
    assert math.isclose(found.mean, 4 / 6)
    assert math.isclose(found.high - found.mean, 1.959964 * totals.std(ddof=1) / math.sqrt(6), rel_tol=1e-6)
    doubled = ratio(2 * totals, 2 * counts, 2.0)  # the same decision twice is no second position
    assert np.allclose(doubled, found)
    assert ratio(np.zeros(9, int), np.ones(9, int), 2.0)[:2] == (0.0, 0.0)
    assert ratio(2 * counts, counts, 2.0).mean == ratio(2 * counts, counts, 2.0).high == 2.0
