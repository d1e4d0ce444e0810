"""own_piece_alpha_beta plays the first best turn of study D's minimax without pruning."""

from __future__ import annotations

import numpy as np
import pytest

from agents.lift import lift
from agents.own_piece_alpha_beta import OwnPieceAlphaBeta
from quarto.batch import Batch
from quarto.position import Position
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE
from tests.marks import seldom
from tests.naive import PRESETS, safe_pieces
from tests.naive_players import own_piece_alpha_beta as naive_own_piece
from tests.naive_players.agreement import assert_same_games, assert_same_turns, endgames
from tests.positions import asked, view_of

OWN_PIECE = PRESETS["own_piece"]


def boards(most_empty: int, count: int) -> list[Position]:
    """Boards of the classic game, which lasts longer, without a piece in hand: most of them without a win at once."""
    positions = [position for position in endgames(CLASSIC, most_empty, 4000) if position.hand == NONE]
    return [position for position in positions if not wins_at_once(position)][:count] + positions[:10]


def wins_at_once(position: Position) -> bool:
    view = view_of(position, OWN_PIECE)
    return len(safe_pieces(view.board, view.available, OWN_PIECE)) < len(view.available)


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize(("depth", "most_empty"), [(2, 7), (4, 4), *seldom((1, 11), (3, 5), (5, 4), (9, 4))])
def test_turns_are_those_of_the_slow_twin(depth: int, most_empty: int, faithful: bool) -> None:
    twin = naive_own_piece.OwnPieceAlphaBeta(depth, faithful)
    assert_same_turns(OwnPieceAlphaBeta(depth, faithful), twin, OWN_PIECE, boards(most_empty, 12))


@pytest.mark.slow
def test_a_win_by_the_fifth_placement_is_found() -> None:
    """Asked about boards where the fifth placement decides: looking ahead one less, it would play something else."""
    positions = [position for position in endgames(CLASSIC, 5, 6000) if position.hand == NONE]
    batch, rng = Batch.of(positions), Streams(np.zeros(len(positions), np.uint64))
    four, five = (lift(OwnPieceAlphaBeta(depth), OWN_PIECE, "agent").play(batch, rng) for depth in (4, 5))
    decided = [positions[i] for i in np.flatnonzero((four.cells != five.cells) | (four.gifts != five.gifts))]
    assert len(decided) > 3
    assert_same_turns(OwnPieceAlphaBeta(5), naive_own_piece.OwnPieceAlphaBeta(5), OWN_PIECE, decided[:8])


def test_turns_from_the_first_on_are_those_of_the_slow_twin() -> None:
    positions = asked(OWN_PIECE, 2)
    assert assert_same_turns(OwnPieceAlphaBeta(1), naive_own_piece.OwnPieceAlphaBeta(1), OWN_PIECE, positions) > 10
    later = [position for position in asked(OWN_PIECE, 12) if position.occupied.bit_count() >= 8]
    assert assert_same_turns(OwnPieceAlphaBeta(2), naive_own_piece.OwnPieceAlphaBeta(2), OWN_PIECE, later) > 3


def test_whole_games_are_those_of_the_slow_twin() -> None:
    agent, twin = OwnPieceAlphaBeta(1), naive_own_piece.OwnPieceAlphaBeta(1)
    assert_same_games(agent, twin, OWN_PIECE, pairs=20)
    agent, twin = OwnPieceAlphaBeta(4), naive_own_piece.OwnPieceAlphaBeta(4)
    assert_same_games(agent, twin, OWN_PIECE, pairs=4, opening_plies=11)
