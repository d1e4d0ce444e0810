"""Study C's player: the value of a board is the learned value of its code in eight digits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, keys, params, table, turn
from agents.base.parameters import check_integer, check_number, check_one_of, check_probability
from agents.learning.learner import FinishedGame, Learner, update
from agents.learning.policy import Policy, load_checked_columns
from agents.random import random_cell, random_piece
from quarto.bits import LANE_MASK, lowest_bit, piece_to_lanes
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS, PackedPosition, place_hand
from quarto.rng import GAMMA, draw, mix, unit_float
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, SIDE, Line, Rules
from quarto.threats import VALUES, safe_pieces, winning_cells

ENCODED_VALUES = "encoded_values"  # the kind of policy
CODES = (SIDE + 1) ** VALUES  # one digit a value: how many pieces with it a line has at most
MIN_VALUE, MAX_VALUE = 0.1, 1.0  # between which an untrained code's value lies
GIFT_RULES = ("mean", "min_max")
LARGEST_SEED = 2**63 - 1
MASKS_IN_A_WORD = 16  # of 65,536 masks, four bits each

# Where the parameters are
GIFT_RULE, EXPLORATION, LEARNING_RATE, DISCOUNT, EXPLORATION_STEP, REWARDS = range(6)
WIN, LOSS, DRAW, ELSE = range(4)  # the rewards, beginning at REWARDS


@functools.cache
def pack_most_cells_on_line_by_mask(lines: tuple[Line, ...]) -> NDArray[np.uint64]:
    """Compute, for each 16-bit mask of cells, the greatest number of its cells that lie on one line: [4096] uint64.

    Each word has sixteen such numbers of four bits, for consecutive masks.
    """
    masks = np.arange(1 << CELLS, dtype=np.uint64)
    longest = np.zeros(1 << CELLS, np.uint64)
    for line in lines:
        longest = np.maximum(longest, np.bitwise_count(masks & np.uint64(sum(1 << cell for cell in line))))
    shifts = np.arange(MASKS_IN_A_WORD, dtype=np.uint64) * np.uint64(4)
    packed: NDArray[np.uint64] = np.bitwise_or.reduce(longest.reshape(-1, MASKS_IN_A_WORD) << shifts, axis=1)
    return packed


@kernel()
def sample_initial_values(seed: int) -> NDArray[np.float64]:
    """Sample the value that each code has before anything is learned, uniformly from [0.1, 1): [CODES] float64."""
    values, words = np.empty(CODES), mix(uint64(seed) + GAMMA)
    for code in range(CODES):
        values[code] = MIN_VALUE + (MAX_VALUE - MIN_VALUE) * unit_float(draw(words, code))
    return values


@inline_function
def board_code(lanes: int, occupied: int, longest: Any) -> int:
    """Compute the code of a board: a number of eight digits in base 5.

    A digit is the greatest number of pieces with one attribute value that stand on one line. From the most to the least
    significant digit, the values are low, high, uncoloured, coloured, hollow, solid, round, square. ``longest`` is the
    table that ``pack_most_cells_on_line_by_mask`` returned.
    """
    code = int64(0)
    for attribute in range(ATTRIBUTES - 1, -1, -1):
        lane = int64((lanes >> uint64(CELLS * attribute)) & LANE_MASK)
        for mask in (occupied & ~lane, lane):
            code = code * (SIDE + 1) + int64((longest[mask >> 4] >> uint64(4 * (mask & 15))) & uint64(15))
    return code


@inline_function
def best_cell(position: PackedPosition, agent: Any) -> int:
    """Return the empty cell on which the piece in hand makes the board with the greatest value; on ties the first."""
    values, longest, piece = table(agent), keys(agent), piece_to_lanes(position.hand)
    best, choice = -np.inf, int64(NONE)
    for cell in range(CELLS):
        if (position.occupied >> cell) & 1 == 0:
            lanes = position.lanes | (piece << uint64(cell))
            value = values[board_code(lanes, position.occupied | (int64(1) << cell), longest)]
            if value > best:
                best, choice = value, int64(cell)
    return choice


@inline_function
def mean_or_greatest_gift_value(position: PackedPosition, piece: int, agent: Any) -> float:
    """Return what ``piece`` is worth to the opponent who receives it.

    This is the mean of the values of the boards that the opponent can make with it or, under the gift rule ``min_max``,
    the greatest of them.
    """
    values, longest, spread_piece = table(agent), keys(agent), piece_to_lanes(piece)
    lanes, occupied = position.lanes, position.occupied
    total, count, most = 0.0, 0, -np.inf
    for cell in range(CELLS):
        if (occupied >> cell) & 1 == 0:
            value = values[board_code(lanes | (spread_piece << uint64(cell)), occupied | (int64(1) << cell), longest)]
            total, count, most = total + value, count + 1, max(most, value)
    return total / count if params(agent)[GIFT_RULE] == 0.0 else most


@inline_function
def least_value_gift_preferring_safe(position: PackedPosition, rules: Any, agent: Any) -> int:
    """Return the safe piece that is worth least to the opponent or, if no piece is safe, the piece that is worth least.

    On ties the first piece is returned. The result is NONE if no piece is left.
    """
    safe = position.available & safe_pieces(position.lanes, position.occupied, rules)
    allowed = safe if safe != 0 else position.available
    least, choice = np.inf, int64(NONE)
    for piece in range(PIECES):
        if (allowed >> piece) & 1:
            worth = mean_or_greatest_gift_value(position, piece, agent)
            if worth < least:
                least, choice = worth, int64(piece)
    return choice


@turn
def rl_encoded_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word, exploration = draw(seed, 0), params(agent)[EXPLORATION]
    cell, after = int64(NONE), position
    if position.hand != NONE:
        wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
        if unit_float(draw(seed, 1)) < exploration:
            cell = random_cell(word, ~position.occupied & ALL_CELLS)
        elif wins != 0:
            cell = int64(lowest_bit(wins))
        else:
            cell = best_cell(position, agent)
        after = place_hand(position, cell)
    if unit_float(draw(seed, 2)) < exploration:
        return encode_turn(cell, random_piece(word, position.available))
    return encode_turn(cell, least_value_gift_preferring_safe(after, rules, agent))


@update
def learn_board_values(game: FinishedGame, rules: Any, agent: Any) -> bool:
    """Update the values of a game's boards from the last to the first, as in study C: see ``EncodedLearner``.

    Returns True, because the table has a fixed size.
    """
    settings, values, longest = params(agent), table(agent), keys(agent)
    lanes, occupied = uint64(0), int64(0)
    for ply in range(game.plies):
        lanes |= piece_to_lanes(int64(game.pieces[ply])) << uint64(game.cells[ply])
        occupied |= int64(1) << int64(game.cells[ply])
    result = REWARDS + (DRAW if game.winner == NONE else WIN if game.winner == game.seat else LOSS)
    reward, target = settings[result], 0.0
    for ply in range(game.plies - 1, -1, -1):
        if (ply + 1) & 1 == game.seat:
            target += reward
            code = board_code(lanes, occupied, longest)
            values[code] += settings[LEARNING_RATE] * (target - values[code])
            target *= settings[DISCOUNT]
            reward = settings[REWARDS + ELSE]
        lanes &= ~(piece_to_lanes(int64(game.pieces[ply])) << uint64(game.cells[ply]))
        occupied &= ~(int64(1) << int64(game.cells[ply]))
    settings[EXPLORATION] = max(0.0, settings[EXPLORATION] - settings[EXPLORATION_STEP])
    return True


class RlEncoded(KernelAgent):
    """Study C's player, which uses learned values of boards.

    The code of a board has eight digits: for each attribute value, the greatest number of pieces with this value that
    stand on one line of the rules. Cell: the first that wins, otherwise the one that leads to the board with the
    greatest value. Gift: among the safe pieces, or among all pieces if none is safe, the one that is worth least to the
    opponent, the first on ties. A piece is worth the mean value of the boards that the opponent could make with it.
    With ``gift_rule='min_max'``, which the study suggests, it is worth the greatest of these values.

    ``policy`` is of kind 'encoded_values': ``code`` (int32) and ``value`` (float64), in 390,625 rows, one for each
    code. Without a policy, values are uniform in [0.1, 1), drawn from ``values_seed``. Raises ``ValueError`` if the
    policy is of another kind or its table is invalid, and for a ``gift_rule`` that does not exist.
    """

    kernel = rl_encoded_turn

    def __init__(self, policy: Policy | None = None, gift_rule: str = "mean", values_seed: int = 0) -> None:
        self.gift_rule = check_one_of("gift_rule", gift_rule, GIFT_RULES)
        self.values_seed = check_integer("values_seed", values_seed, 0, LARGEST_SEED)
        self._values = None if policy is None else _load_values(policy)

    def knowledge(self, rules: Rules) -> Knowledge:
        values = sample_initial_values(uint64(self.values_seed)) if self._values is None else self._values
        settings = np.array([GIFT_RULES.index(self.gift_rule), 0.0])
        return Knowledge(params=settings, table=values, keys=pack_most_cells_on_line_by_mask(rules.lines))


class EncodedLearner(Learner):
    """A learner of the values that ``RlEncoded`` uses. Study C trained it against ``semi_random``.

    With probability ``exploration`` a cell is random, uniformly among the empty ones; with the same probability, drawn
    separately, a gift is random, uniformly among the pieces left. This probability falls by ``exploration_step`` after
    each game until it is 0. If the cell is random, the learner does not look for a win.

    After a game the learner goes through the boards that it made, from the last to the first, with a target that begins
    at 0. For each board, the target grows by the board's reward; the board's value moves towards the target by
    ``learning_rate`` of the difference; then the target is multiplied by ``discount``. ``rewards`` has four numbers:
    the reward of the last board after a win, after a loss and after a draw, and the reward of every earlier board.

    Words of a turn: 0 for a random cell (upper half) and gift (lower half); 1 decides whether the cell is random; 2
    decides whether the gift is random. Raises ``ValueError`` for a probability outside 0 to 1, for a number that is not
    finite, and if ``rewards`` does not have four numbers.
    """

    kernel = rl_encoded_turn
    update = learn_board_values

    def __init__(
        self,
        learning_rate: float = 0.1,
        discount: float = 0.7,
        exploration: float = 0.2,
        exploration_step: float = 0.0001,
        rewards: Sequence[float] = (5.0, -5.0, -2.0, 0.0),
        gift_rule: str = "mean",
        values_seed: int = 0,
    ) -> None:
        self.player = RlEncoded(None, gift_rule, values_seed)
        self.settings = [
            check_probability("exploration", exploration),
            check_probability("learning_rate", learning_rate),
            check_probability("discount", discount),
            check_probability("exploration_step", exploration_step),
        ]
        if len(rewards) != ELSE + 1:
            raise ValueError(f"rewards={list(rewards)} are not four numbers: of a win, a loss, a draw, and otherwise")
        self.rewards = [check_number("rewards", reward) for reward in rewards]

    def knowledge(self, rules: Rules) -> Knowledge:
        untrained = self.player.knowledge(rules)
        settings = [untrained.params[GIFT_RULE], *self.settings, *self.rewards]
        return Knowledge(params=np.array(settings), table=untrained.table, keys=untrained.keys)

    def to_policy(self, knowledge: Knowledge) -> Policy:
        return Policy(ENCODED_VALUES, table={"code": np.arange(CODES, dtype=np.int32), "value": knowledge.table.copy()})


def _load_values(policy: Policy) -> NDArray[np.float64]:
    """Load the value of each code: [CODES] float64. Raises ``ValueError`` unless every code occurs exactly once."""
    codes, values = load_checked_columns(policy, ENCODED_VALUES, "rl_encoded", {"code": np.int64, "value": np.float64})
    outside = codes[(codes < 0) | (codes >= CODES)]
    if len(outside):
        raise ValueError(f"code {outside[0]} of a policy of kind '{ENCODED_VALUES}' is not from 0 to {CODES - 1}")
    counts = np.bincount(codes, minlength=CODES)
    if (counts != 1).any():
        code = int(np.argmax(counts != 1))
        raise ValueError(f"code {code} is in a policy of kind '{ENCODED_VALUES}' {counts[code]} times, not once")
    return values[np.argsort(codes)]
