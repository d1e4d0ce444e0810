"""Study B's learning player: the cell by Q-learning, the gift by genes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, keys, params, table, turn
from agents.base.parameters import check_flag, check_number, check_probability
from agents.ga2 import gift_by_frequency
from agents.learning.learner import FinishedGame, update
from agents.learning.policy import (
    Policy,
    check_ascending,
    check_no_wrong_row,
    check_range,
    compute_checked_board_pieces,
    load_checked_columns,
    mark_group_starts,
)
from agents.learning.position_rows import (
    RowLearner,
    bit_rank,
    bit_ranks,
    build_empty_row_knowledge,
    build_row_knowledge,
    find_or_add_nan_row_start,
    find_row_start,
    has_room_for_game,
    list_position_rows,
    list_row_bits,
    row_width,
)
from agents.random import random_cell
from quarto.bits import lowest_bit, piece_to_lanes
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition, board_piece_mask, place_hand
from quarto.rng import draw, unit_float
from quarto.rules import CELLS, NONE, PIECES, Rules

# Where the parameters are; a player has the first four
ALPHA, EXPLORATION, FAITHFUL, PLAYS, LEARNING_RATE, DISCOUNT, REWARD, DECAY, FLOOR = range(9)
COIN, CELL = 4, 5  # indices of the words that say whether to explore, and where; 0 to 3 are those of the two genes
SEVERAL = 16  # instead of a piece: the board was met with more than one in hand
Q_PLACEMENT = "q_placement"  # the kind of policy
COLUMNS = {"lanes": np.int64, "occupied": np.int64, "hand": np.int64, "cell": np.int64, "value": np.float64}


@inline_function
def learned_value_or_zero(values: Any, index: int) -> float:
    """Return the value at an index of the table, or 0 if it was never learned."""
    value = values[index]
    return 0.0 if np.isnan(value) else value


@inline_function
def row_maximum(values: Any, first: int, width: int) -> float:
    most = learned_value_or_zero(values, first)
    for i in range(1, width):
        most = max(most, learned_value_or_zero(values, first + i))
    return most


@inline_function
def best_value_and_cell(values: Any, first: int, occupied: int, least: float) -> tuple[float, int]:
    """Return the greatest value above ``least`` in the row that begins at ``first``, and its cell; on ties the first.

    If no value is above ``least``, return ``least`` and NONE.
    """
    best, choice, i = least, int64(NONE), first
    for cell in range(CELLS):
        if (occupied >> cell) & 1 == 0:
            value = learned_value_or_zero(values, i)
            if value > best:
                best, choice = value, int64(cell)
            i += 1
    return best, choice


@inline_function
def best_cell_of_any_piece(position: PackedPosition, words: Any, values: Any) -> int:
    """Return the cell with the greatest value, over all pieces with which the board was met in training.

    This is how the study's code uses what it learned, whatever the piece in hand. The result is NONE if the board was
    never met.
    """
    best, choice, on_board = -np.inf, int64(NONE), board_piece_mask(position.lanes, position.occupied)
    for piece in range(PIECES):
        if (on_board >> piece) & 1 == 0:
            first = find_row_start(position.lanes, position.occupied, piece, words)
            if first != NONE:
                best, cell = best_value_and_cell(values, first, position.occupied, best)
                choice = cell if cell != NONE else choice
    return choice


@inline_function
def learned_cell(position: PackedPosition, settings: Any, words: Any, values: Any) -> int:
    """Return the cell with the greatest known value in a position with a piece in hand, or NONE if none is known."""
    if settings[FAITHFUL] != 0.0:
        if settings[PLAYS] != 0.0:
            return best_cell_of_any_piece(position, words, values)
        met_with = find_row_start(position.lanes, position.occupied, NONE, words)
        if met_with == NONE or values[met_with] != float(position.hand):
            return int64(NONE)
    first = find_row_start(position.lanes, position.occupied, position.hand, words)
    return int64(NONE) if first == NONE else best_value_and_cell(values, first, position.occupied, -np.inf)[1]


@turn
def q_placement_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings = params(agent)
    cell, after = int64(NONE), position
    if position.hand != NONE:
        empty = ~position.occupied & ALL_CELLS
        explores = unit_float(draw(seed, COIN)) < settings[EXPLORATION]
        if not explores:
            cell = learned_cell(position, settings, keys(agent), table(agent))
        if cell == NONE:
            anywhere = explores or settings[PLAYS] != 0.0
            cell = random_cell(draw(seed, CELL), empty) if anywhere else int64(lowest_bit(empty))
        after = place_hand(position, cell)
    return encode_turn(cell, gift_by_frequency(after, settings[ALPHA], seed))


@inline_function
def find_or_add_row_noting_hand(lanes: int, occupied: int, hand: int, faithful: bool, words: Any, values: Any) -> int:
    """Find or add the row of a position that the learner meets, and return the index at which the row begins.

    With ``faithful``, as in the study's code, the row is cleared if the board was also met with another piece in hand.
    To notice this, the learner stores the piece with which the board was met, or SEVERAL, in a separate row, whose key
    is the board with no piece in hand.
    """
    width = row_width(occupied)
    first = find_or_add_nan_row_start((lanes, occupied, hand), width, words, values)
    if faithful:
        met_with = find_or_add_nan_row_start((lanes, occupied, int64(NONE)), int64(1), words, values)
        if np.isnan(values[met_with]):
            values[met_with] = hand
        elif values[met_with] != float(hand):
            values[met_with] = SEVERAL
            values[first : first + width] = np.nan
    return first


@update
def learn_placements_from_first(game: FinishedGame, rules: Any, agent: Any) -> bool:
    """Update the values of a game's placements from the first to the last, as in study B: see ``QPlacementLearner``.

    Returns whether the arrays have room for another game.
    """
    settings, words, values = params(agent), keys(agent), table(agent)
    rate, faithful = settings[LEARNING_RATE], settings[FAITHFUL] != 0.0
    lanes, occupied, last = uint64(0), int64(0), int64(NONE)
    for ply in range(game.plies):
        piece, cell = int64(game.pieces[ply]), int64(game.cells[ply])
        if (ply + 1) & 1 == game.seat:
            first = find_or_add_row_noting_hand(lanes, occupied, piece, faithful, words, values)
            index = first + bit_rank(cell, ~occupied & ALL_CELLS)
            if last != NONE and not faithful:
                best = row_maximum(values, first, row_width(occupied))
                values[last] += rate * (settings[DISCOUNT] * best - values[last])
            values[index] = learned_value_or_zero(values, index)
            if faithful:
                values[index] += rate * (0.0 - values[index])
            last = index
        lanes |= piece_to_lanes(piece) << uint64(cell)
        occupied |= int64(1) << cell
    if last != NONE:
        reward = 0.0 if game.winner == NONE else settings[REWARD] if game.winner == game.seat else -settings[REWARD]
        values[last] += rate * (reward if faithful else reward - values[last])
    settings[EXPLORATION] = max(settings[FLOOR], settings[EXPLORATION] * settings[DECAY])
    return has_room_for_game(words, values)


class QPlacement(KernelAgent):
    """Study B's learned player (``quarto_ci_2022_2023``), which chooses cells by Q-values and gifts as ``ga2`` does.

    Cell: in a position (a board and a hand) that was met in training, it is the cell with the greatest value, the first
    on ties; a cell that was never tried there is worth 0. In any other position the cell is random. The player does not
    look for a win.

    Gift: chosen as in ``ga2``. With probability ``alpha`` it is a piece whose values are common on the board, otherwise
    one whose values are rare. (The other gene of ``ga2`` is for cells.)

    With ``faithful``, it plays like the study's code, which ignores the piece in hand when it looks up a board. The
    greatest value is taken over all pieces with which the board was met in training. On ties the lowest piece comes
    first, then the lowest cell.

    ``policy`` is of kind 'q_placement'. It has a row for each cell that was tried in a position, with the rows in
    ascending order. Its columns are ``lanes`` (int64) and ``occupied`` (int32) for the board, ``hand`` (int8), ``cell``
    (int8) and ``value`` (float64). Without a policy, cells are random. The gift takes the random words that
    ``agents/ga2.py`` lists; a random cell takes word 5 (its upper half). Raises ``ValueError`` if the policy is of
    another kind or its table is invalid, and for a gene outside 0 to 1.
    """

    kernel = q_placement_turn

    def __init__(self, policy: Policy | None = None, alpha: float = 0.1, faithful: bool = False) -> None:
        self.alpha = check_probability("alpha", alpha)
        self.faithful = check_flag("faithful", faithful)
        settings = np.array([self.alpha, 0.0, float(self.faithful), 1.0])
        self._knowledge = build_empty_row_knowledge(settings) if policy is None else _build_knowledge(policy, settings)

    def knowledge(self, rules: Rules) -> Knowledge:
        return self._knowledge


class QPlacementLearner(RowLearner):
    """A learner of the values that ``QPlacement`` uses. Study B trained it in seat 1 against ``ga2``.

    It can learn in either seat. With probability ``exploration`` it chooses a cell at random, uniformly among the empty
    ones. This probability is multiplied by ``decay`` after each game but never falls below ``floor``. Otherwise it
    chooses the cell with the greatest value in the position, the first on ties; an unknown value counts as 0.

    Each pair of a position and a cell has a value. The value of a placement moves towards a target, by
    ``learning_rate`` of the difference. The target is ``discount`` times the greatest value of the position in which
    the learner places next; the piece in hand belongs to the position. For the last placement of a game it is
    ``reward`` after a win, -``reward`` after a loss, and 0 after a draw.

    With ``faithful``, it learns like the study's code. There the greatest value is taken over the board after the
    placement, where the opponent is to move and no value is ever stored. The target is therefore 0, and each update
    multiplies the value by 1 - ``learning_rate``. The value of the learner's last placement in a game then changes by
    ``learning_rate`` times the reward. Whenever a board that was met with more than one piece in hand is met again, the
    values for the piece in hand are forgotten.

    Words of a turn: 0 for the gift; 4 decides whether the cell is random; 5 for a random cell (upper half). Raises
    ``ValueError`` for a probability outside 0 to 1, or a reward that is not finite.
    """

    kernel = q_placement_turn
    update = learn_placements_from_first

    def __init__(
        self,
        learning_rate: float = 0.1,
        discount: float = 0.9,
        reward: float = 100.0,
        exploration: float = 1.0,
        decay: float = 0.9995,
        floor: float = 0.1,
        alpha: float = 0.1,
        faithful: bool = False,
    ) -> None:
        self.settings = [
            check_probability("alpha", alpha),
            check_probability("exploration", exploration),
            float(check_flag("faithful", faithful)),
            0.0,
            check_probability("learning_rate", learning_rate),
            check_probability("discount", discount),
            check_number("reward", reward),
            check_probability("decay", decay),
            check_probability("floor", floor),
        ]

    def knowledge(self, rules: Rules) -> Knowledge:
        return build_empty_row_knowledge(np.array(self.settings))

    def to_policy(self, knowledge: Knowledge) -> Policy:
        positions = list_position_rows(knowledge)
        lanes, occupied, hand, first = (column[positions[2] != NONE] for column in positions)
        position, cell, index = list_row_bits(first, ~occupied & ALL_CELLS)
        tried = ~np.isnan(knowledge.table[index])
        position, cell, index = position[tried], cell[tried], index[tried]
        columns: dict[str, NDArray[Any]] = {
            "lanes": lanes[position],
            "occupied": occupied[position].astype(np.int32),
            "hand": hand[position].astype(np.int8),
            "cell": cell.astype(np.int8),
            "value": knowledge.table[index],
        }
        return Policy(Q_PLACEMENT, table=columns)


def _build_knowledge(policy: Policy, settings: NDArray[np.float64]) -> Knowledge:
    """Build the knowledge of a player from a policy.

    Raises ``ValueError`` for a table that cannot have been learned.
    """
    lanes, occupied, hand, cell, value = load_checked_columns(policy, Q_PLACEMENT, "q_placement", COLUMNS)
    pieces = compute_checked_board_pieces(lanes, occupied)
    check_range("hand", hand, 0, PIECES - 1)
    check_no_wrong_row("hand", hand, (pieces >> hand) & 1 == 1, "is on the board")
    check_range("cell", cell, 0, CELLS - 1)
    check_no_wrong_row("cell", cell, (occupied >> cell) & 1 == 1, "is occupied")
    check_ascending({"lanes": lanes, "occupied": occupied, "hand": hand, "cell": cell})
    begins = mark_group_starts(lanes, occupied, hand)
    empty = ~occupied & ALL_CELLS
    widths = np.bitwise_count(empty[begins]).astype(np.int64)
    knowledge, first = build_row_knowledge(settings, (lanes[begins], occupied[begins], hand[begins]), widths)
    knowledge.table[first[np.cumsum(begins) - 1] + bit_ranks(cell, empty)] = value
    return knowledge
