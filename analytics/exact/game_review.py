"""The review of one game: the exact value before and after each decision, and the choices that would have kept it.

The values are those of the view ``decisions``. They are found from the end of the game backwards. So a time limit
leaves out the earliest decisions, which take the longest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from analytics.exact.tablebase import load_tablebase_index
from analytics.store.game_tables import RangeGames, build_game
from analytics.tables.derived.decisions import GIFT, derive_decisions_sorted_by_ply
from analytics.tables.derived.exact_values import ExactValues, fill_exact_game_values
from analytics.tables.derived.threads import StoppedError, run_on_threads
from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import CELLS, NONE, PIECES, Rules, find_finished_lines
from quarto.solver.solver import Solver

DEFAULT_SECONDS = 10.0  # of a review, by default
TABLE_MEGABYTES = 64.0  # of the table of solved boards

Choice = tuple[int, int]  # piece, cell; of a gift the cell is NONE


class JudgedDecision(NamedTuple):
    """A decision, with the exact values before and after it for the seat that decided: 1 won, 0 drawn, -1 lost."""

    ply: int  # 0 to 15
    kind: str  # gift or placement; where the mover chooses the piece, placement is the whole turn
    seat: int
    piece: int  # that was given or placed
    cell: int  # of the placement; NONE for a gift
    before: int
    after: int

    @property
    def regret(self) -> int:
        """The value that the decision gave up, in half-points: 0, 1 or 2."""
        return self.before - self.after


class GameReview(NamedTuple):
    """The judged decisions of a game in the order of play, with better choices for the mistakes."""

    decisions: tuple[JudgedDecision, ...]
    unjudged_count: int  # earlier decisions, for which the time did not suffice
    # By index of a mistake: the choices that would have kept the value, as far as they were found in time.
    better_choices: dict[int, tuple[Choice, ...]]

    @property
    def mistakes(self) -> tuple[int, ...]:
        """The indices of the decisions that gave up value."""
        return tuple(index for index, decision in enumerate(self.decisions) if decision.regret)


def review_game(
    rules: Rules,
    plies: Sequence[tuple[int, int]],
    hand: int = NONE,
    opening: int = 0,
    seconds: float = DEFAULT_SECONDS,
    on_wait: Callable[[], None] = lambda: None,
) -> GameReview:
    """Judge the decisions of a game, finished or not, given its legal plies as ``(piece, cell)`` tuples.

    ``hand`` is the piece that was given but not yet placed, or ``NONE``; its gift is judged too. The first ``opening``
    plies were imposed and are not judged. The search, which has a thread of its own, ends after about ``seconds``.
    Meanwhile, the calling thread calls ``on_wait`` several times a second; an exception in ``on_wait`` ends the search
    and reaches the caller.
    """
    review = ReviewSearch(rules, plies, hand, opening)
    deadline = time.monotonic() + seconds

    def call_on_wait_and_check_deadline() -> None:
        on_wait()
        if time.monotonic() > deadline:
            raise StoppedError

    with suppress(StoppedError):
        run_on_threads(
            [review.judge_decisions_backwards], 1, lambda _none: None, review.stop, call_on_wait_and_check_deadline
        )
    return review.build_review()


class ReviewSearch:
    """A search that judges the decisions of one game; see ``review_game`` for the arguments.

    The search may be stopped at any time; ``build_review`` then returns the decisions that were judged by that time.
    """

    def __init__(self, rules: Rules, plies: Sequence[Choice], hand: int = NONE, opening: int = 0) -> None:
        """Prepare the search, and load its kernel, which may have to be compiled first."""
        self.solver = Solver(rules, TABLE_MEGABYTES, load_tablebase_index(rules))
        self._rules, self._plies, self._hand, self._opening = rules, tuple(plies), hand, opening
        # As the kernels of annotations take games: its winner and ending mean nothing.
        self._game = RangeGames(np.zeros(1, np.int64), np.array([opening], np.int8), build_game(plies))
        self._ending = False
        self._first, self._values = (
            len(plies),
            ExactValues.zeros_with_uncounted_choices(1),
        )  # the judged plies begin with ``_first``
        self._given: JudgedDecision | None = None  # the piece in hand
        self._better: dict[JudgedDecision, tuple[Choice, ...]] = {}
        self._solve_from(0, only_load_kernel=True)  # so that loading does not take time from the search

    def _solve_from(self, first_ply: int, only_load_kernel: bool = False) -> ExactValues:
        """Return the exact values of this game from ``first_ply`` on.

        With ``only_load_kernel``, nothing is solved, but the kernel that solves games is loaded.
        """
        values, game_count = ExactValues.zeros_with_uncounted_choices(1), 0 if only_load_kernel else 1
        fill_exact_game_values(
            0, game_count, 0, self._game.games, np.array([first_ply], np.int8), values, *self.solver.state
        )
        return values

    def stop(self) -> None:
        """Make the search end soon. Any thread may call this."""
        self._ending = True
        self.solver.stop()

    def judge_decisions_backwards(
        self, on_review: Callable[[GameReview], None] | None = None, find_better: bool = True
    ) -> None:
        """Judge the decisions, from the last ply to the first.

        With ``find_better``, also find the better choices for each mistake, which takes longer than everything else.
        ``on_review``, if given, is called after each ply with the review so far.
        """
        if self._hand != NONE:
            self._given = self._judge_gift_in_hand()
            self._store_better_choices([] if self._given is None else [self._given])
        for first in range(len(self._plies) - 1, self._opening - 1, -1):
            if self._ending:  # the solver notices it in a long search alone
                return
            values = self._solve_from(first)
            if self.solver.stopped:
                return
            self._first, self._values = first, values
            if find_better:
                self._store_better_choices([decision for decision in self._list_decisions() if decision.ply == first])
            if on_review:
                on_review(self.build_review())

    def _store_better_choices(self, decisions: Sequence[JudgedDecision]) -> None:
        for decision in decisions:
            kept = self._list_best_choices(decision) if decision.regret else ()
            if not self.solver.stopped:
                self._better[decision] = kept

    def build_review(self) -> GameReview:
        """Build the review of the decisions that have been judged so far."""
        decisions = self._list_decisions()
        kinds = 1 if self._rules.mover_chooses else 2
        unjudged = kinds * (self._first - min(self._opening, len(self._plies)))
        unjudged += self._hand != NONE and self._given is None
        better = {index: kept for index, decision in enumerate(decisions) if (kept := self._better.get(decision))}
        return GameReview(decisions, unjudged, better)

    def _list_decisions(self) -> tuple[JudgedDecision, ...]:
        frame = derive_decisions_sorted_by_ply(self._game, np.array([self._first], np.int8), self._values, self._rules)
        rows = frame.select("ply", "kind", "seat", "value_before", "value_after").rows()
        judged = tuple(self._build_decision(*row) for row in rows)
        return judged if self._given is None else (*judged, self._given)

    def _build_decision(self, ply: int, kind: int, seat: int, before: int, after: int) -> JudgedDecision:
        piece, cell = self._plies[ply]
        if kind == GIFT:
            return JudgedDecision(ply, "gift", seat, piece, NONE, before, after)
        return JudgedDecision(ply, "placement", seat, piece, cell, before, after)

    def _judge_gift_in_hand(self) -> JudgedDecision | None:
        ply, hand = len(self._plies), self._hand
        after = -self.solver.value(position_from_plies(self._plies, hand))
        before = self.solver.value(position_from_plies(self._plies))
        return None if self.solver.stopped else JudgedDecision(ply, "gift", ply & 1, hand, NONE, before, after)

    def _list_best_choices(self, decision: JudgedDecision) -> tuple[Choice, ...]:
        """List the choices that would have kept the value of the position before ``decision``, sorted."""
        before = self._plies[: decision.ply]
        if decision.kind == "gift":
            available = _list_available_pieces(position_from_plies(before))
            values = {
                (piece, NONE): -self._solve_position_or_zero_if_stopped(position_from_plies(before, piece))
                for piece in available
            }
        else:
            pieces = (
                _list_available_pieces(position_from_plies(before)) if self._rules.mover_chooses else [decision.piece]
            )
            empty = set(range(CELLS)) - {cell for _, cell in before}
            values = {
                (piece, cell): self._solve_ply_for_mover(before, piece, cell) for piece in pieces for cell in empty
            }
        return tuple(sorted(choice for choice, value in values.items() if value == decision.before))

    def _solve_ply_for_mover(self, plies_before: tuple[Choice, ...], piece: int, cell: int) -> int:
        """Return the value of placing ``piece`` on ``cell`` after ``plies_before``, for the player who places it."""
        after = position_from_plies((*plies_before, (piece, cell)))
        if find_finished_lines(board(after), self._rules):
            return 1
        return (
            -self._solve_position_or_zero_if_stopped(after)
            if self._rules.mover_chooses
            else self._solve_position_or_zero_if_stopped(after)
        )

    def _solve_position_or_zero_if_stopped(self, position: PackedPosition) -> int:
        """Return the value of an unfinished position for the player to act, or 0 if the search has been stopped."""
        return 0 if self.solver.stopped else self.solver.value(position)


def _list_available_pieces(position: PackedPosition) -> list[int]:
    return [piece for piece in range(PIECES) if position.available >> piece & 1]
