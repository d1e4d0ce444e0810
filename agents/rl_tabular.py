"""Study A's learning player: a counter for every cell and gift that was tried on a board.

A counter is how many more times a cell or a gift ended well than badly. A board is known by its canonical form
(``quarto/canonical.py``), without the piece in hand. Its row has a counter for each empty cell of that form, ascending,
and then one for each piece not on it. An action is counted as the image of its cell or piece under the symmetry that
takes the board to its form. If several symmetries do so, the first one counts. So if a symmetry of the board itself
exchanges two actions, each has a counter of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, keys, params, symmetry_tables, table, turn
from agents.base.parameters import check_flag, check_probability
from agents.learning.learner import FinishedGame, update
from agents.learning.policy import (
    Policy,
    check_ascending,
    check_canonical,
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
from agents.random import random_cell, random_piece
from quarto.bits import piece_to_lanes
from quarto.canonical import Transform, canonical_lanes_and_occupied, canonical_transform, map_cell, map_piece
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, ALL_PIECES, PackedPosition, board_piece_mask, place_hand
from quarto.rng import draw, turn_seed_offset, unit_float
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.symmetry import Symmetries

COUNTERS = "counters"  # the kind of policy
COLUMNS = {"lanes": np.int64, "occupied": np.int64, "cell": np.int64, "gift": np.int64, "count": np.int64}


class CanonicalBoard(NamedTuple):
    """The canonical form of a board, with the symmetry that maps the board to this form.

    In kernels all numbers are int64, except the lanes.
    """

    lanes: int  # uint64
    occupied: int
    transform: Transform


@inline_function
def canonicalize_board(lanes: int, occupied: int, tables: Symmetries) -> CanonicalBoard:
    """Return the canonical form of a board, and the symmetry that maps the board to this form."""
    least, minimal = canonical_lanes_and_occupied(lanes, occupied, NONE, tables)
    return CanonicalBoard(least, minimal, canonical_transform(lanes, occupied, NONE, tables))


@inline_function
def cell_offset(form: CanonicalBoard, cell: int, tables: Symmetries) -> int:
    """Return the index of the counter of ``cell``, a cell of the original board, in the canonical form's row."""
    return bit_rank(map_cell(cell, form.transform, tables), ~form.occupied & ALL_CELLS)


@inline_function
def gift_offset(form: CanonicalBoard, gift: int) -> int:
    """Return the index of the counter of ``gift``, a piece of the original game, in the canonical form's row."""
    unused = ~board_piece_mask(form.lanes, form.occupied) & ALL_PIECES
    return row_width(form.occupied) + bit_rank(map_piece(gift, form.transform), unused)


@inline_function
def best_counter_cell(position: PackedPosition, tables: Symmetries, words: Any, values: Any) -> int:
    """Return the empty cell with the highest counter, the first on ties, or NONE if no cell has a counter here."""
    form, best, choice = canonicalize_board(position.lanes, position.occupied, tables), -np.inf, int64(NONE)
    first = find_row_start(form.lanes, form.occupied, NONE, words)
    for cell in range(CELLS if first != NONE else 0):
        if (position.occupied >> cell) & 1 == 0:
            count = values[first + cell_offset(form, cell, tables)]
            if count > best:  # false for NaN: a counter that is not there
                best, choice = count, int64(cell)
    return choice


@inline_function
def best_counter_gift(position: PackedPosition, tables: Symmetries, words: Any, values: Any) -> int:
    """Return the available piece with the highest counter on this board, the first on ties, or NONE if none has one."""
    form, best, choice = canonicalize_board(position.lanes, position.occupied, tables), -np.inf, int64(NONE)
    first = find_row_start(form.lanes, form.occupied, NONE, words)
    for piece in range(PIECES if first != NONE else 0):
        if (position.available >> piece) & 1:
            count = values[first + gift_offset(form, piece)]
            if count > best:
                best, choice = count, int64(piece)
    return choice


@inline_function
def add_to_counter(form: CanonicalBoard, offset: int, change: float, words: Any, values: Any) -> None:
    """Add ``change`` to the counter at ``offset`` in the form's row. A counter that does not exist yet begins at 0."""
    first = find_or_add_nan_row_start(
        (form.lanes, form.occupied, int64(NONE)), 2 * row_width(form.occupied), words, values
    )
    count = values[first + offset]
    values[first + offset] = change if np.isnan(count) else count + change


def load_checked_counters(policy: Policy, player: str) -> list[NDArray[np.int64]]:
    """Load the columns of a policy of kind 'counters', in the order of ``COLUMNS``.

    ``player`` names the reader in messages. Raises ``ValueError`` for values that cannot have been learned.
    """
    lanes, occupied, cell, gift, count = load_checked_columns(policy, COUNTERS, player, COLUMNS)
    pieces = compute_checked_board_pieces(lanes, occupied)
    check_range("cell", cell, NONE, CELLS - 1)
    check_range("gift", gift, NONE, PIECES - 1)
    check_no_wrong_row(
        "cell", cell, (cell == NONE) == (gift == NONE), "contradicts the gift: one of them is -1, the other is not"
    )
    check_no_wrong_row("cell", cell, (cell != NONE) & ((occupied >> np.maximum(cell, 0)) & 1 == 1), "is occupied")
    check_no_wrong_row("gift", gift, (gift != NONE) & ((pieces >> np.maximum(gift, 0)) & 1 == 1), "is on the board")
    check_ascending({"lanes": lanes, "occupied": occupied, "cell": cell, "gift": gift})
    return [lanes, occupied, cell, gift, count]


def build_counter_knowledge(
    columns: list[NDArray[np.int64]] | None, params: NDArray[np.float64], rules: Rules, scratch_size: int = 0
) -> Knowledge:
    """Build the knowledge from which ``best_counter_cell`` and ``best_counter_gift`` read counters.

    ``columns`` are the columns of a policy, or None for no counters. Raises ``ValueError`` if a board is not in the
    canonical form under these rules.
    """
    if columns is None:
        return replace(build_empty_row_knowledge(params), scratch_size=scratch_size, symmetric=True)
    lanes, occupied, cell, gift, count = columns
    check_canonical(lanes, occupied, NONE, rules)
    begins = mark_group_starts(lanes, occupied)
    empty, unused = ~occupied & ALL_CELLS, ~compute_checked_board_pieces(lanes, occupied) & ALL_PIECES
    widths = np.bitwise_count(empty).astype(np.int64)
    no_hand = np.full(int(begins.sum()), NONE)
    knowledge, first = build_row_knowledge(params, (lanes[begins], occupied[begins], no_hand), 2 * widths[begins])
    offset = np.where(
        cell != NONE, bit_ranks(np.maximum(cell, 0), empty), widths + bit_ranks(np.maximum(gift, 0), unused)
    )
    knowledge.table[first[np.cumsum(begins) - 1] + offset] = count
    return replace(knowledge, scratch_size=scratch_size, symmetric=True)


# Where the parameters are; a player has the first two
EXPLORATION, FORGETS, EXPLORATION_STEP = range(3)
CELL_COIN, GIFT_COIN = 1, 2  # indices of the words that say whether to explore; word 0 says how


@inline_function
def is_exploring(seed: int, coin: int, settings: Any) -> bool:
    """Return whether an action (a cell or a gift) in the turn with this seed is random, and so will be counted.

    ``coin`` is the index of the random word that decides this; cells and gifts use different words.
    """
    explored: bool = unit_float(draw(seed, coin)) < settings[EXPLORATION]
    return explored


@turn
def rl_tabular_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    settings, word, tables = params(agent), draw(seed, 0), symmetry_tables(agent)
    cell, gift, after = int64(NONE), int64(NONE), position
    recalls = settings[FORGETS] == 0.0
    if position.hand != NONE:
        if recalls and not is_exploring(seed, CELL_COIN, settings):
            cell = best_counter_cell(position, tables, keys(agent), table(agent))
        if cell == NONE:
            cell = random_cell(word, ~position.occupied & ALL_CELLS)
        after = place_hand(position, cell)
    if recalls and not is_exploring(seed, GIFT_COIN, settings):
        gift = best_counter_gift(after, tables, keys(agent), table(agent))
    if gift == NONE:
        gift = random_piece(word, position.available)
    return encode_turn(cell, gift)


@update
def count_explored_actions(game: FinishedGame, rules: Any, agent: Any) -> bool:
    """Count the results of a finished game's explored actions, as in study A: see ``TabularLearner``.

    Returns whether the arrays have room for another game.
    """
    settings, words, values, tables = params(agent), keys(agent), table(agent), symmetry_tables(agent)
    change = 1.0 if game.winner == game.seat else -1.0
    lanes, occupied = uint64(0), int64(0)
    for turn_number in range(game.plies + 1):
        own_turn, seed = turn_number & 1 == game.seat, game.stream + turn_seed_offset(turn_number)
        if turn_number > 0:
            cell = int64(game.cells[turn_number - 1])
            if own_turn and is_exploring(seed, CELL_COIN, settings):
                form = canonicalize_board(lanes, occupied, tables)
                add_to_counter(form, cell_offset(form, cell, tables), change, words, values)
            lanes |= piece_to_lanes(int64(game.pieces[turn_number - 1])) << uint64(cell)
            occupied |= int64(1) << cell
        if own_turn and turn_number < game.plies and is_exploring(seed, GIFT_COIN, settings):
            form = canonicalize_board(lanes, occupied, tables)
            add_to_counter(form, gift_offset(form, int64(game.pieces[turn_number])), change, words, values)
    settings[EXPLORATION] = max(0.0, settings[EXPLORATION] - settings[EXPLORATION_STEP])
    return has_room_for_game(words, values)


class RlTabular(KernelAgent):
    """Study A's learned player (``lorenzobellino/quarto-player``), which repeats the actions with the best results.

    Cell and gift are chosen separately. The cell has the highest counter on the board before the placement, the gift
    the highest counter on the board after it. The first is taken on ties; the choice is random if the board has no
    counter. The piece in hand plays no part. Boards are recognised by their canonical form (``agents/rl_tabular.py``).

    With ``faithful``, it plays like the study's published agent. The keys of that agent were hashes of texts, which
    differ from process to process, so it recognised no board and played at random.

    ``policy`` is of kind 'counters'. It has a row for each cell or gift that was counted on a board, ascending. Its
    columns are ``lanes`` (int64), ``occupied`` (int32), ``cell`` and ``gift`` (int8) and ``count`` (int64). The row of
    a cell has -1 in ``gift``, the row of a gift -1 in ``cell``. Word 0 of a turn gives a random cell (upper half) and
    gift (lower half). Raises ``ValueError`` if the policy is of another kind or its table is invalid; ``knowledge``
    raises ``ValueError`` for a policy that was learned under rules with other symmetries.
    """

    kernel = rl_tabular_turn

    def __init__(self, policy: Policy | None = None, faithful: bool = False) -> None:
        self.faithful = check_flag("faithful", faithful)
        self._columns = None if policy is None else load_checked_counters(policy, "rl_tabular")

    def knowledge(self, rules: Rules) -> Knowledge:
        return build_counter_knowledge(self._columns, np.array([0.0, float(self.faithful)]), rules)


class TabularLearner(RowLearner):
    """A learner of the counters that ``RlTabular`` uses. Study A trained it against ``rule_based``.

    With probability ``exploration`` a cell is random, uniformly among the empty ones; with the same probability, drawn
    separately, a gift is random, uniformly among the pieces left. This probability falls by ``exploration_step`` after
    each game until it is 0. Otherwise the learner plays as ``RlTabular`` would with the counters so far.

    Only the random actions are counted: after a game, the counter of each random action in it grows by 1 if the game
    was won, and falls by 1 if it was lost or drawn. (With the study's numbers, therefore, nothing more is learned after
    70 games.)

    Words of a turn: 0 for a random cell (upper half) and gift (lower half); 1 decides whether the cell is random; 2
    decides whether the gift is random. Raises ``ValueError`` for a number outside 0 to 1.
    """

    kernel = rl_tabular_turn
    update = count_explored_actions

    def __init__(self, exploration: float = 0.7, exploration_step: float = 0.01) -> None:
        self.exploration = check_probability("exploration", exploration)
        self.exploration_step = check_probability("exploration_step", exploration_step)

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = np.array([self.exploration, 0.0, self.exploration_step])
        return replace(build_empty_row_knowledge(settings), symmetric=True)

    def to_policy(self, knowledge: Knowledge) -> Policy:
        """Convert all counters to a policy, with a row for each counted cell or gift of each board.

        In each row, one of the columns ``cell`` and ``gift`` is -1.
        """
        lanes, occupied, _, first = list_position_rows(knowledge)
        pieces = compute_checked_board_pieces(lanes, occupied)
        empty, unused = ~occupied & ALL_CELLS, ~pieces & ALL_PIECES
        of_cell, cell, cell_at = list_row_bits(first, empty)
        of_gift, gift, gift_at = list_row_bits(first + np.bitwise_count(empty), unused)
        board, indices = np.concatenate([of_cell, of_gift]), np.concatenate([cell_at, gift_at])
        cells = np.concatenate([cell, np.full(len(gift), NONE)])
        gifts = np.concatenate([np.full(len(cell), NONE), gift])
        order = np.lexsort((gifts, cells, board))
        order = order[~np.isnan(knowledge.table[indices[order]])]
        columns: dict[str, NDArray[Any]] = {
            "lanes": lanes[board[order]],
            "occupied": occupied[board[order]].astype(np.int32),
            "cell": cells[order].astype(np.int8),
            "gift": gifts[order].astype(np.int8),
            "count": knowledge.table[indices[order]].astype(np.int64),
        }
        return Policy(COUNTERS, table=columns)
