"""Perfect play: of the turns that keep the position's exact value, the one that wins soonest or loses latest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from agents.base.agent import Agent, KernelAgent, Knowledge, encode_turn, params, report_evaluation, turn
from agents.base.parameters import check_integer, check_one_of, check_probability
from agents.random import random_cell, random_piece
from agents.search.exact_solver import (
    SOLVER_WORDS,
    SolverKnowledge,
    build_solver_record,
    copy_search_record_to_scratch_once,
)
from agents.semi_random import SemiRandom
from quarto.batch import NO_VISITS
from quarto.bits import lowest_bit, popcount
from quarto.jit import float64, inline_function, int64
from quarto.position import ALL_CELLS, PackedPosition, place_piece
from quarto.rng import draw, unit_float
from quarto.rules import CELLS, CLASSIC, NONE, Rules
from quarto.solver.search import can_mover_win_or_draw, can_placer_win_or_draw, can_win_at_once
from quarto.solver.solver import solve_distance, solve_value
from quarto.solver.table import DRAW, WIN, TablebaseIndex, proof_key, recall_answer
from quarto.threats import safe_pieces, winning_cells

TIES = ("distance", "trap")
TABLE_PIECES = 9  # boards with more are not in it
DISTANCE_PIECES = 5  # how soon is not asked before there are so many pieces: it would take seconds
TRAP_PIECES = 8  # nor are the opponent's replies counted
SLIP_PIECES = 8  # nor does it slip: on earlier boards hardly any turn gives value up, and to find one takes seconds

SECOND = 64  # draws from here on order gifts, those before it cells
NO_SLIP = -1
SLIP_DRAW = 128  # decides whether this turn is a slip

# From how many pieces on play is exact unless ``horizon`` says: what is quick without a tablebase, or ships with one.
HORIZON_OTHER, HORIZON_MOVER = 4, 5
TORUS_SQUARE = Rules("torus_square", diagonals="broken", squares="wrapped")
QUICK_RULES = (CLASSIC, TORUS_SQUARE)


@inline_function
def sample_cell(cells: int, seed: int) -> int:
    """Return a random cell of ``cells``, drawn with the random word whose index is the count of ``cells``."""
    return random_cell(draw(seed, int64(popcount(cells))), cells)


@inline_function
def sample_piece(pieces: int, seed: int) -> int:
    """Return a random piece of ``pieces``, drawn with the random word at index ``SECOND`` + the count of ``pieces``."""
    return random_piece(draw(seed, SECOND + int64(popcount(pieces))), pieces)


@inline_function
def can_receiver_win_or_draw(
    lanes: int, occupied: int, rest: int, gift: int, question: int, rules: Any, search: Any
) -> int:
    """Return 1 if the receiver of ``gift`` can win (or at least draw, if ``question`` is DRAW), otherwise 0.

    ``rest`` are the pieces that are left after the gift.
    """
    if winning_cells(lanes, occupied, gift, rules) != 0:
        return int64(1)
    return can_placer_win_or_draw(lanes, occupied, rest, gift, question, rules, search)


@inline_function
def keeps_value(board: PackedPosition, gift: int, value: int, distance: int, rules: Any, search: Any) -> bool:
    """Return whether the exact value of the game for the giver is still ``value`` if ``gift`` is given on this board.

    Unless ``distance`` is 0, the game must also last exactly ``distance`` more placements.
    """
    rest = board.available & ~(int64(1) << gift)
    if value >= 0 and can_receiver_win_or_draw(
        board.lanes, board.occupied, rest, gift, DRAW if value > 0 else WIN, rules, search
    ):
        return False
    if distance == 0:
        return True
    return solve_distance(-value, board.lanes, board.occupied, rest, gift, rules, search) == distance


@inline_function
def count_saving_replies(board: PackedPosition, gift: int, value: int, rules: Any, search: Any) -> int:
    """Count the replies to ``gift`` with which the opponent keeps the exact value of the game.

    ``value``, which is 0 or -1, is the exact value for the giver.
    """
    rest, count, empty = board.available & ~(int64(1) << gift), int64(0), ~board.occupied & ALL_CELLS
    wins = winning_cells(board.lanes, board.occupied, gift, rules)
    question = DRAW if value < 0 else WIN  # what the reply must deny us
    while empty:
        cell = lowest_bit(empty)
        empty &= empty - 1
        if (wins >> cell) & 1 or rest == 0:
            count += int64((wins >> cell) & 1 or value == 0)
            continue
        lanes, occupied = place_piece(board.lanes, gift, cell), board.occupied | int64(1) << cell
        gifts = rest & safe_pieces(lanes, occupied, rules)
        while gifts:
            reply = lowest_bit(gifts)
            gifts &= gifts - 1
            pieces_left = rest & ~(int64(1) << reply)
            count += 1 - can_placer_win_or_draw(lanes, occupied, pieces_left, reply, question, rules, search)
    return count


class ExactGift(NamedTuple):
    """A gift that keeps the exact value of its position."""

    gift: int  # NONE if no gift keeps the value
    saving_replies: int  # 0 if they were not counted


@inline_function
def find_exact_gift_counting_replies(
    board: PackedPosition, value: int, distance: int, trap: bool, seed: int, rules: Any, search: Any
) -> ExactGift:
    """Find a gift with which the exact value of the game for the giver is still ``value``.

    Unless ``distance`` is 0, the game must also last exactly ``distance`` more placements. The gift is random or, with
    ``trap``, one that leaves the opponent the fewest replies that keep the value; only then are these replies counted.
    The gift is NONE if no gift keeps ``value``.
    """
    gifts = board.available & safe_pieces(board.lanes, board.occupied, rules)
    if gifts == 0 and value < 0:
        gifts = board.available
    best, fewest = int64(NONE), int64(1 << 30)
    while gifts:
        gift = sample_piece(gifts, seed)
        gifts &= ~(int64(1) << gift)
        if not keeps_value(board, gift, value, distance, rules, search):
            continue
        if not trap:
            return ExactGift(gift, int64(0))
        count = count_saving_replies(board, gift, value, rules, search)
        if count < fewest:
            best, fewest = gift, count
    return ExactGift(best, fewest)


@inline_function
def may_keep_value(board: PackedPosition, value: int, search: Any) -> bool:
    """Return False if it is already known that no gift on this board keeps ``value``, otherwise True.

    ``value`` is the exact value for the giver, 0 or 1.
    """
    pieces = int64(popcount(board.occupied))
    if pieces > TABLE_PIECES:
        return True
    key = proof_key(board.lanes, board.occupied, search)
    return recall_answer(key, pieces, WIN if value > 0 else DRAW, search) != 0


@inline_function
def exact_turn_with_hand(position: PackedPosition, seed: int, trap: bool, rules: Any, agent: Any, search: Any) -> int:
    """Return a turn that keeps the exact value of a position whose piece in hand cannot finish a line at once.

    With ``trap``, prefer a turn that leaves the opponent the fewest replies that keep the value; otherwise prefer one
    that wins soonest or loses latest. ``Oracle`` lists the cases in which these preferences hold. The rules must let
    the opponent choose the pieces.
    """
    state = (position.lanes, position.occupied, position.available, position.hand)
    value, distance = solve_value(*state, rules, search), int64(0)
    report_evaluation(agent, float64(value), NO_VISITS)
    pieces = int64(popcount(position.occupied))
    trap = trap and pieces >= TRAP_PIECES and value <= 0
    if not trap and value != 0 and pieces >= DISTANCE_PIECES:
        distance = solve_distance(value, *state, rules, search) - 1
    chosen, gift, fewest, empty = int64(NONE), int64(NONE), int64(1 << 30), ~position.occupied & ALL_CELLS
    while empty:
        cell = sample_cell(empty, seed)
        empty &= ~(int64(1) << cell)
        if position.available == 0:
            return encode_turn(cell, NONE)
        lanes, occupied = place_piece(position.lanes, position.hand, cell), position.occupied | int64(1) << cell
        board = PackedPosition(lanes, occupied, position.available, int64(NONE), cell)
        if value >= 0 and not may_keep_value(board, value, search):
            continue
        candidate, count = find_exact_gift_counting_replies(board, value, distance, trap, seed, rules, search)
        if candidate != NONE and (chosen == NONE or count < fewest):
            chosen, gift, fewest = cell, candidate, count
            if not trap:
                break
    return encode_turn(chosen, gift)


@inline_function
def exact_gift_without_hand(
    position: PackedPosition, seed: int, trap: bool, rules: Any, agent: Any, search: Any
) -> int:
    """Return, encoded as a turn, a gift that keeps the exact value of a position without a piece in hand.

    With ``trap``, prefer a gift that leaves the opponent the fewest replies that keep the value; otherwise prefer one
    that wins soonest or loses latest. ``Oracle`` lists the cases in which these preferences hold. The rules must let
    the opponent choose the pieces.
    """
    pieces = int64(popcount(position.occupied))
    if pieces == 0:  # all first gifts are the same one up to symmetry
        return encode_turn(NONE, sample_piece(position.available, seed))
    value = solve_value(position.lanes, position.occupied, position.available, int64(NONE), rules, search)
    report_evaluation(agent, float64(value), NO_VISITS)
    trap, distance = trap and pieces >= TRAP_PIECES and value <= 0, int64(0)
    if not trap and value != 0 and pieces >= DISTANCE_PIECES:
        distance = solve_distance(
            value, position.lanes, position.occupied, position.available, int64(NONE), rules, search
        )
    gift, _ = find_exact_gift_counting_replies(position, value, distance, trap, seed, rules, search)
    return encode_turn(NONE, gift)


@inline_function
def exact_turn_if_mover_chooses(position: PackedPosition, seed: int, rules: Any, agent: Any, search: Any) -> int:
    """Return a turn that keeps the exact value, under rules where the mover chooses the piece as well as the cell.

    If ``DISTANCE_PIECES`` or more pieces are on the board, the turn is one of those that win soonest or lose latest.
    """
    state = (position.lanes, position.occupied, position.available, int64(NONE))
    value, distance = solve_value(*state, rules, search), int64(0)
    report_evaluation(agent, float64(value), NO_VISITS)
    if value != 0 and popcount(position.occupied) >= DISTANCE_PIECES:
        distance = solve_distance(value, *state, rules, search)
    question, pieces = DRAW if value > 0 else WIN, position.available
    while pieces:
        piece = sample_piece(pieces, seed)
        pieces &= ~(int64(1) << piece)
        rest, empty = position.available & ~(int64(1) << piece), ~position.occupied & ALL_CELLS
        wins = winning_cells(position.lanes, position.occupied, piece, rules)
        if wins:
            return encode_turn(sample_cell(wins, seed), piece)
        while empty and distance != 1:
            cell = sample_cell(empty, seed)
            empty &= ~(int64(1) << cell)
            lanes, occupied = place_piece(position.lanes, piece, cell), position.occupied | int64(1) << cell
            if value >= 0 and rest != 0 and can_mover_win_or_draw(lanes, occupied, rest, question, rules, search):
                continue
            if distance == 0 or (
                solve_distance(-value, lanes, occupied, rest, int64(NONE), rules, search) == distance - 1
            ):
                return encode_turn(cell, piece)
    return encode_turn(NONE, NONE)


@inline_function
def allows_better_but_no_instant_win(
    lanes: int, occupied: int, rest: int, gift: int, value: int, rules: Any, search: Any
) -> bool:
    """Return whether a turn worsens the player's exact result but does not let the opponent win at once.

    ``lanes`` and ``occupied`` are the board after the turn, ``gift`` is the piece given, and ``rest`` are the pieces
    that are left. ``value`` is the exact value for the player before the turn, so the turn worsens the result if the
    opponent can now reach more than -``value``.
    """
    question = DRAW if value > 0 else WIN
    if rules.mover_chooses != 0:
        quiet = rest != 0 and not can_win_at_once(lanes, occupied, rest, rules)
        return quiet and can_mover_win_or_draw(lanes, occupied, rest, question, rules, search) != 0
    quiet = winning_cells(lanes, occupied, gift, rules) == 0
    return quiet and can_placer_win_or_draw(lanes, occupied, rest, gift, question, rules, search) != 0


@inline_function
def find_slip_without_instant_loss(position: PackedPosition, seed: int, rules: Any, search: Any) -> int:
    """Return a random turn that worsens the exact value of the position, or ``NO_SLIP`` if there is none.

    The turn neither misses an immediate win nor allows the opponent one.
    """
    lanes, occupied, hand, pieces = position.lanes, position.occupied, position.hand, position.available
    gives_only = hand == NONE and rules.mover_chooses == 0
    if not gives_only and can_win_at_once(lanes, occupied, pieces if hand == NONE else int64(1) << hand, rules):
        return int64(NO_SLIP)
    value = solve_value(lanes, occupied, pieces, hand, rules, search)
    while pieces and value >= 0:
        gift = sample_piece(pieces, seed)
        pieces &= ~(int64(1) << gift)
        rest, empty = position.available & ~(int64(1) << gift), ~occupied & ALL_CELLS
        if gives_only:
            if allows_better_but_no_instant_win(lanes, occupied, rest, gift, value, rules, search):
                return encode_turn(NONE, gift)
            continue
        placing = gift if hand == NONE else hand
        while empty:
            cell = sample_cell(empty, seed)
            empty &= ~(int64(1) << cell)
            lanes_after, occupied_after = place_piece(lanes, placing, cell), occupied | int64(1) << cell
            if allows_better_but_no_instant_win(lanes_after, occupied_after, rest, gift, value, rules, search):
                return encode_turn(cell, gift)
    return int64(NO_SLIP)


@turn
def oracle_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    search, trap, slip = copy_search_record_to_scratch_once(agent), params(agent)[0] != 0.0, params(agent)[1]
    if slip > 0.0 and popcount(position.occupied) >= SLIP_PIECES and unit_float(draw(seed, SLIP_DRAW)) < slip:
        slipping = find_slip_without_instant_loss(position, seed, rules, search)
        if slipping != NO_SLIP:
            return slipping
    if rules.mover_chooses != 0:
        return exact_turn_if_mover_chooses(position, seed, rules, agent, search)
    if position.hand == NONE:
        return exact_gift_without_hand(position, seed, trap, rules, agent, search)
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    if wins:
        report_evaluation(agent, 1.0, NO_VISITS)
        return encode_turn(sample_cell(wins, seed), sample_piece(position.available, seed))
    return exact_turn_with_hand(position, seed, trap, rules, agent, search)


class Oracle(KernelAgent):
    """A player that keeps the exact value: it wins every won position and never loses a position that is not lost.

    ``ties`` says how to choose among the turns that keep the value. With ``ties='distance'``, if 5 or more pieces are
    on the board, the player prefers turns that win soonest or lose latest. (All draws last to the end.) With
    ``ties='trap'``, if 8 or more pieces are on the board and the position is not won, the player prefers turns that
    leave the opponent the fewest replies that keep the value. Ties that remain are broken at random.

    While fewer than ``horizon`` pieces are on the board, another agent plays: the agent given as ``below``, or
    ``semi_random`` by default. Under the rules classic and torus_square, a ``horizon`` of None stands for 0, so that
    play is always exact. Under other rules None stands for 4, or for 5 if the mover chooses the piece, because exact
    play in earlier positions takes seconds without a tablebase.

    ``slip`` is the probability that a turn with 8 or more pieces on the board is a slip: a random turn that worsens the
    exact value. A slip neither misses an immediate win nor allows the opponent one. If there is no such turn, the
    player does not slip.

    As its evaluation the agent reports the exact value of every turn except the first gift and slips.

    Randomness: word n chooses among the n cells that are still to be examined, and word 64 + n among the n pieces. Word
    128 decides whether to slip.
    """

    kernel = oracle_turn
    choosers = ("opponent", "mover")

    def __init__(
        self, ties: str = "distance", horizon: int | None = None, below: Agent | None = None, slip: float = 0.0
    ) -> None:
        self.ties = check_one_of("ties", ties, TIES)
        self.horizon = None if horizon is None else check_integer("horizon", horizon, 0, CELLS)
        self.below: Agent = below or SemiRandom()
        self.slip = check_probability("slip", slip)
        self._base_of: Callable[[Rules], TablebaseIndex | None] | None = None

    def set_tablebases(self, find_tablebase: Callable[[Rules], TablebaseIndex | None]) -> None:
        """Set the function that returns the tablebase for given rules, or None if there is none.

        A tablebase makes early turns quick and changes no turn.
        """
        self._base_of = find_tablebase

    def early(self, rules: Rules) -> tuple[int, Agent] | None:
        default_horizon = HORIZON_MOVER if rules.mover_chooses else HORIZON_OTHER
        if not rules.mover_chooses and any(set(rules.lines) == set(quick.lines) for quick in QUICK_RULES):
            default_horizon = 0
        horizon = default_horizon if self.horizon is None else self.horizon
        return (horizon, self.below) if horizon else None

    def knowledge(self, rules: Rules) -> Knowledge:
        if self.ties == "trap" and rules.mover_chooses:
            raise ValueError("ties=trap has no meaning where the mover chooses the piece: use ties=distance")
        search, owned_arrays = build_solver_record(rules, self._base_of(rules) if self._base_of else None)
        return SolverKnowledge(
            params=np.array([self.ties == "trap", self.slip], np.float64),
            keys=search,
            scratch_size=SOLVER_WORDS,
            owned_arrays=owned_arrays,
        )
