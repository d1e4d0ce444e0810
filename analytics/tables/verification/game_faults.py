"""Replays stored games by the rules: their faults, and the exact values that the rules or a short search tell.

The stored winner, length and ending of each game are compared with its plies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analytics.store.game_tables import PlyColumns
from analytics.tables.derived.exact_values import UNKNOWN, ExactValues, fill_boards, fill_exact_game_values
from quarto.batch import FULL_BOARD, LINE, Games
from quarto.bits import piece_to_lanes
from quarto.jit import int64, kernel
from quarto.rules import CELLS, PIECES, Rules, has_finished_line_at
from quarto.solver.search import can_win_at_once
from quarto.solver.solver import Solver
from quarto.threats import SAFE_PIECES, danger_byte, winning_cells

FAULT_TEXTS = (
    "",
    "its plies in 'plies' are not 0 to plies - 1, each once, in order",
    "the column pairing of 'plies' is not that of the game",
    "the column seat is not (ply + 1) % 2",
    "the column outcome contradicts the winner",
    "a piece is out of range or was placed before",
    "a cell is out of range or is not empty",
    "it has plies after a finished line",
    "it ends by 'line' and its last ply finishes none",
    "it has a finished line and another ending",
    "its winner is not the seat that finished the line",
    "it ends by 'full_board' before the board is full, or has a winner",
    "it is a forfeit without a winner or on a full board",
    "its opening is longer than the game",
)
(
    FINE,
    MISPLACED,
    WRONG_PAIRING,
    WRONG_SEAT,
    WRONG_OUTCOME,
    BAD_PIECE,
    BAD_CELL,
    LINE_BEFORE_END,
    NO_LINE,
    UNCLAIMED_LINE,
    WRONG_WINNER,
    WRONG_FULL_BOARD,
    WRONG_FORFEIT,
    WRONG_OPENING,
) = range(len(FAULT_TEXTS))


@kernel()
def find_faults(
    game_id: NDArray[np.int64], opening: NDArray[np.int8], games: Games, columns: PlyColumns, rules: Any
) -> NDArray[np.int8]:
    """Find the first fault of each game, [G], as an index into ``FAULT_TEXTS``; the index is 0 if no fault is found.

    ``game_id`` [G] and ``opening`` [G] describe the same games as ``games``, whose ``pieces`` and ``cells`` are not
    used. The plies are ``columns`` [R], in the order (ply, game). Checking stops at the first row that is missing or
    breaks this order: its game is ``MISPLACED``, and the other games keep what has been found so far.
    """
    count = game_id.shape[0]
    fault = np.zeros(count, np.int8)
    lanes = np.zeros(count, np.uint64)
    occupied = np.zeros(count, np.int64)
    used = np.zeros(count, np.int64)
    line = np.zeros(count, np.bool_)
    row = 0
    for ply in range(PIECES):
        seat = (ply + 1) & 1
        for game in range(count):
            if games.plies[game] <= ply:
                continue
            if row >= columns.ply.shape[0] or columns.ply[row] != ply or columns.game_id[row] != game_id[game]:
                fault[game] = MISPLACED
                return fault
            row_fault = _find_row_fault(columns, row, game_id[game] >> 32, seat, int(np.int64(games.winner[game])))
            piece, cell = int(np.int64(columns.piece[row])), int(np.int64(columns.cell[row]))
            row += 1
            if row_fault == FINE and (piece < 0 or piece >= PIECES or (used[game] >> piece) & 1):
                row_fault = BAD_PIECE
            if row_fault == FINE and (cell < 0 or cell >= CELLS or (occupied[game] >> cell) & 1):
                row_fault = BAD_CELL
            if row_fault == FINE and line[game]:
                row_fault = LINE_BEFORE_END
            if fault[game] != FINE or row_fault != FINE:
                fault[game] = fault[game] if fault[game] != FINE else row_fault
                continue
            used[game] |= 1 << piece
            occupied[game] |= 1 << cell
            lanes[game] |= piece_to_lanes(piece) << np.uint64(cell)
            line[game] = has_finished_line_at(lanes[game], occupied[game], piece, cell, rules)
    for game in range(count):
        if fault[game] == FINE:
            fault[game] = _find_end_fault(games, game, opening[game], line[game])
    return fault


@kernel()
def _find_row_fault(columns: PlyColumns, row: int, pairing: int, seat: int, winner: int) -> int:
    if columns.pairing[row] != pairing:
        return WRONG_PAIRING
    if columns.seat[row] != seat:
        return WRONG_SEAT
    outcome = 0 if winner < 0 else (1 if winner == seat else -1)
    return FINE if columns.outcome[row] == outcome else WRONG_OUTCOME


@kernel()
def _find_end_fault(games: Games, game: int, opening: int, line: bool) -> int:
    plies, winner, ending = games.plies[game], games.winner[game], games.ending[game]
    if opening < 0 or opening > plies:
        return WRONG_OPENING
    if line and ending != LINE:
        return UNCLAIMED_LINE
    if ending == LINE:
        if not line:
            return NO_LINE
        return FINE if winner == plies & 1 else WRONG_WINNER  # the seat of ply k is (k + 1) & 1
    if ending == FULL_BOARD:
        return FINE if plies == PIECES and winner == -1 else WRONG_FULL_BOARD
    return FINE if plies < PIECES and winner >= 0 else WRONG_FORFEIT


# The exact values that take hardly any time: the values that the rules decide, and the values of late positions.

LATE_PIECES = 10  # positions with at least so many pieces are solved: some 20 microseconds a game
SOLVER_MEGABYTES = 1.0  # size of the table of solved boards


def compute_decided_and_late_values(games: Games, first: NDArray[np.int8], choices: bool, rules: Rules) -> ExactValues:
    """Compute those exact values that need no long search, from ply ``first`` [G] of each game on.

    All other values are ``UNKNOWN``. With ``choices``, the choices that preserve a value are counted on boards with at
    least ``LATE_PIECES`` pieces.
    """
    values, solver = ExactValues.zeros_with_uncounted_choices(len(first)), Solver(rules, SOLVER_MEGABYTES)
    for column in (values.gift, values.placement, values.end):
        column.fill(UNKNOWN)
    _fill_decided_values(games, values, rules.tables)
    fill_exact_game_values(
        0, len(first), int(choices), games, np.maximum(first, np.int8(LATE_PIECES)), values, *solver.state
    )
    return values


@kernel()
def _fill_decided_values(games: Games, values: ExactValues, rules: Any) -> None:
    """Fill in the exact values that need no search.

    These are the values of immediate wins, of boards on which every gift loses at once, and of the ends of games.
    """
    lanes, occupied, available = np.empty(17, np.uint64), np.empty(17, np.int64), np.empty(17, np.int64)
    for game in range(games.plies.shape[0]):
        fill_boards(games, game, lanes, occupied, available)
        for ply in range(games.plies[game]):
            if rules.mover_chooses != 0:
                if can_win_at_once(lanes[ply], occupied[ply], available[ply], rules):
                    values.placement[ply, game] = 1
                continue
            if winning_cells(lanes[ply], occupied[ply], int64(games.pieces[ply, game]), rules) != 0:
                values.placement[ply, game] = 1
            if available[ply] & SAFE_PIECES[danger_byte(lanes[ply], occupied[ply], rules)] == 0:
                values.gift[ply, game] = -1
        if games.ending[game] == LINE or games.ending[game] == FULL_BOARD:
            values.end[game] = np.int8(games.ending[game] == LINE)
