"""Background searches for a board: exact values and the archive's games. Also reads annotated values."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple

from analytics.exact.tablebase import load_tablebase_index
from analytics.questions.logged_games import (
    GIFT,
    ArchivedGame,
    LoggedEvaluations,
    ValueChange,
    read_evaluations,
    read_judgements,
)
from analytics.questions.openings import OpeningsQuery
from quarto.errors import ArenaError, FailureError
from quarto.game import Game, NextDecision
from quarto.position import PackedPosition, position_from_plies
from quarto.rules import NONE, Rules
from quarto.solver.solution import Solution, turn_sort_key
from quarto.solver.solver import Solver
from quarto.views import Position
from runners.arena.executors.base import available_cores
from runners.web.analyse.line import format_game_position
from runners.web.archive.explorer import ExplorerResult, build_empty_result, explore_position_if_readable
from runners.web.archive.snapshots import ArchiveSnapshot, StillOpeningError
from runners.web.archive_reader import ArchiveReader, ArchiveService
from runners.web.background import PAGE_WAIT_SECONDS, BackgroundJob, BackgroundPool
from runners.web.site import Site

# Quick to solve, and needs every kernel of the solver.
WARM_UP_POSITION = position_from_plies((piece, piece) for piece in (0, 15, 3, 12, 5, 10, 6, 9, 1, 14))
IDLE_SECONDS = 10.0  # without a request by a page, after which a search is stopped


class AnalysisValues(NamedTuple):
    """The exact values of a line's positions for seat 0, from the first position to the last.

    A value is 1 (won), 0 (drawn), -1 (lost), or None if it is not known yet.
    """

    seat_0: tuple[int | None, ...]

    def regret(self, decision_index: int, seat: int) -> int | None:
        """Return the regret of a decision by ``seat`` in half-points, or None while it is unknown.

        ``decision_index`` is the number of decisions before this one.
        """
        around = self.find_values_around(decision_index, seat)
        return None if around is None else around.regret

    def find_values_around(self, decision_index: int, seat: int) -> ValueChange | None:
        """Return the values before and after a decision for ``seat``, which made it, or None while one is unknown."""
        before, after = self.seat_0[decision_index], self.seat_0[decision_index + 1]
        if before is None or after is None:
            return None
        sign = 1 if seat == 0 else -1
        return ValueChange(sign * before, sign * after)


class SafeGifts(NamedTuple):
    """The gifts with which the opponent cannot win at once.

    If the next decision is a gift, ``gift_mask`` has the safe gifts; if it is a placement, ``counts_by_cell`` has the
    number of safe gifts after a placement on each cell. The other field is 0 or empty.
    """

    gift_mask: int  # bit p: piece p is a safe gift, where a gift is the next decision; else 0
    counts_by_cell: Mapping[int, int]  # safe gifts after the placement on each empty cell, where that is next


class SolvedPosition(NamedTuple):
    """What a search has found out about a position so far."""

    solution: Solution  # the values of turns and the distances come later than the value
    safe_gifts: int  # as in ``SafeGifts``
    safe_gifts_after: Mapping[int, int]  # as in ``SafeGifts``
    best_line: tuple[Game, ...] = ()  # game after each decision of best play, once known


class SearchService:
    """The exact searches that a site runs.

    Searches under the same rules share their proven values, but each search can be stopped on its own.
    """

    def __init__(self, site: Site) -> None:
        self._megabytes = site.options.megabytes
        self._solvers: dict[Rules, Solver] = {}
        self._lock = threading.Lock()
        self.active_solvers: set[Solver] = set()
        self.pool = BackgroundPool(
            available_cores(), max_waiting=200, max_jobs=2000, idle_seconds=IDLE_SECONDS, low_priority=True
        )

    def close(self) -> None:
        self.pool.close()

    def find_or_start_solution(self, game: Game, max_seconds: float, restart_stopped: bool = False) -> BackgroundJob:
        """Return the job that searches for the values of all turns of an unfinished game; start the job if needed.

        The job publishes a ``SolvedPosition``, first with the value of the position, then with the values of the turns,
        and finally with the distances to the end. If ``restart_stopped`` is true, a stopped job is replaced by a new
        one, which reuses the values that the old one proved.
        """

        def work(job: BackgroundJob) -> None:
            with self._open_solver(game.rules, job) as solver:
                safe_gifts = find_safe_gifts_or_counts_by_cell(game)
                for solution in solve_in_stages(solver, game.position):
                    if job.stopped:  # then the last solution of the search is meaningless
                        return
                    job.latest = SolvedPosition(solution, *safe_gifts)
                if not game.position.occupied and has_equal_decisions(solution):
                    return  # a line of sixteen plies in which nobody has to find anything takes long and says nothing
                best_line = tuple(_play_best_line(solver, game, solution))
                if not job.stopped:
                    job.latest = job.latest._replace(best_line=best_line)

        return self.pool.find_or_start(
            ("position", format_game_position(game)), work, max_seconds, restart_stopped=restart_stopped
        )

    def find_or_start_values(
        self,
        games: list[Game],
        max_seconds: float,
        restart_stopped: bool = False,
        known_values: Mapping[int, int] = MappingProxyType({}),
    ) -> BackgroundJob:
        """Return the job that searches for the value of each game of a line; start the job if needed.

        The job publishes ``AnalysisValues``. ``known_values`` has the exact values for seat 0 that are annotated in the
        archive; each key is an index into ``games``. If ``restart_stopped`` is true, a stopped job is replaced by a new
        one.
        """

        def work(job: BackgroundJob) -> None:
            values = [known_values.get(at) for at in range(len(games))]
            job.latest = AnalysisValues(tuple(values))
            unknown = [at for at in reversed(range(len(games))) if at not in known_values]
            if not unknown:
                return
            with self._open_solver(games[0].rules, job) as solver:
                for at in unknown:
                    values[at] = _solve_value_for_seat_0(games[at], solver)
                    if job.stopped:
                        return
                    job.latest = AnalysisValues(tuple(values))

        return self.pool.find_or_start(
            ("line", tuple(format_game_position(game) for game in games)),
            work,
            max_seconds,
            restart_stopped=restart_stopped,
        )

    def start_preparation(self, rules: Rules) -> None:
        """Start to load what searches under these rules need, so that a review at the end of a game begins at once."""

        def work(job: BackgroundJob) -> None:
            with self._open_solver(rules, job):
                pass

        self.pool.find_or_start(("prepare", rules), work)

    @contextmanager
    def _open_solver(self, rules: Rules, job: BackgroundJob) -> Iterator[Solver]:
        """Yield a solver for the search that a job carries out; the solver is stopped when the job is stopped.

        Compiling kernels and reading the tablebase count as preparation, not as search time.
        """
        job.is_preparing = True
        with self._lock:
            if rules not in self._solvers:
                new_solver = Solver(rules, self._megabytes, load_tablebase_index(rules))
                new_solver.solve(WARM_UP_POSITION)
                self._solvers[rules] = new_solver
            solver = self._solvers[rules].fork(own_stop=True)
        job.restart_clock()
        job.add_stop_callback(solver.stop)
        self.active_solvers.add(solver)
        try:
            yield solver
        finally:
            self.active_solvers.discard(solver)


def find_safe_gifts_or_counts_by_cell(game: Game) -> SafeGifts:
    """Return the safe gifts or, before a placement, the number of safe gifts after a placement on each cell.

    Call this function in a job, because kernels may have to be compiled first.
    """
    view = Position(game.position, game.rules)
    if game.next_decision is NextDecision.GIFT:
        return SafeGifts(sum(1 << piece for piece in view.safe_gifts()), {})
    if game.next_decision is NextDecision.PLACEMENT:
        return SafeGifts(0, {cell: len(view.safe_gifts(cell)) for cell in game.empty_cells})
    return SafeGifts(0, {})


def solve_in_stages(solver: Solver, position: PackedPosition) -> Iterator[Solution]:
    """Yield three increasingly complete solutions of a position.

    The first gives the position's value, the second also the values of its turns, and the third also the distances to
    the end.
    """
    yield Solution(solver.value(position), None, ())
    yield solver.solve(position, distance=False)
    yield solver.solve(position)


def has_equal_decisions(solution: Solution | None) -> bool:
    """Return whether every turn in a position leads to a draw, so that none of them is better than another."""
    return solution is not None and len(solution.turns) > 1 and all(turn.value == 0 for turn in solution.turns)


def _play_best_line(solver: Solver, game: Game, solution: Solution) -> Iterator[Game]:
    """Follow best play by both sides to the end of the game, and yield the game after each decision.

    ``solution`` is the solution of the position in ``game``.
    """
    while solution.turns:
        turn = min(solution.turns, key=turn_sort_key)
        if game.next_decision is NextDecision.PLY:
            game = game.play(turn.gift, turn.cell)
            yield game
        if game.next_decision is NextDecision.PLACEMENT:
            game = game.place(turn.cell)
            yield game
        if game.next_decision is NextDecision.GIFT and turn.gift != NONE:
            game = game.give(turn.gift)
            yield game
        if game.next_decision is NextDecision.NOTHING:
            return
        solution = solver.solve(game.position)


def _solve_value_for_seat_0(game: Game, solver: Solver) -> int:
    if game.ending is not None:
        return 0 if game.winner == NONE else 1 - 2 * game.winner
    value = solver.value(game.position)
    return value if game.seat == 0 else -value


EXPLORE_SECONDS = 20.0
FILL_COMMAND = "qarena run rule_based random games=10000"


class ExplorerService:
    """A service that searches the archive for positions in the background, so that no page waits for a search."""

    def __init__(self, site: Site) -> None:
        self._library = site.get_or_create_service(ArchiveService).snapshots
        self._background = BackgroundPool(
            2, max_waiting=50, max_jobs=300, idle_seconds=EXPLORE_SECONDS, low_priority=True
        )

    def close(self) -> None:
        self._background.close()

    def find_or_start_exploration(self, position: str) -> BackgroundJob:
        """Return the job that finds the decisions made in a position, given as text; start the job if needed.

        The result of the job is an ``ExplorerResult``, even if the archive cannot be read.
        """
        try:
            content = self._library.load_snapshot(PAGE_WAIT_SECONDS)
        except ArenaError as error:  # the board is shown even if the archive is unreadable
            reason = str(error)
            return self._background.find_or_start((position, reason), lambda _job: build_empty_result(reason))
        except StillOpeningError:
            return self._background.find_or_start(
                (position, "opening"), lambda job: self._explore_once_open(position, job), EXPLORE_SECONDS
            )
        return self._background.find_or_start(
            position, lambda _job: _explore(content, position), EXPLORE_SECONDS, version=content and id(content)
        )

    def _explore_once_open(self, position: str, job: BackgroundJob) -> ExplorerResult:
        """Wait until the archive is open, then find the decisions made in a position."""
        while not job.stopped:
            try:
                return _explore(self._library.load_snapshot(), position)
            except StillOpeningError:
                continue
            except ArenaError as error:
                return build_empty_result(str(error))
        return build_empty_result(job.reason)


def _explore(content: ArchiveSnapshot | None, position: str) -> ExplorerResult:
    """Find the decisions made in a position in an archive; None stands for an archive without runs."""
    if content is None:
        return build_empty_result(f"the archive is empty: {FILL_COMMAND} fills it")
    try:
        return content.compute_once(explore_position_if_readable, OpeningsQuery(position, first_free=False))
    except ArenaError as error:
        return build_empty_result(str(error))


def read_undamaged_evaluations(reader: ArchiveReader, game: ArchivedGame) -> LoggedEvaluations:
    """Return the evaluations of a logged game, as a mapping from plies to evaluations.

    If a file is damaged, the mapping is empty, because other pages report the damage.
    """
    with suppress(FailureError):
        return reader.compute_once(read_evaluations, game.record.run_id, game.game_id)
    return {}


def read_annotated_values_for_seat_0(reader: ArchiveReader, game: ArchivedGame) -> dict[int, int]:
    """Return the annotated exact values of a logged game for seat 0.

    Each key is the number of decisions before the position. If a file is damaged, the mapping is empty.
    """
    values: dict[int, int] = {}
    with suppress(FailureError):  # if a file is damaged, all values are searched for instead
        judgements = reader.compute_once(read_judgements, game.record.run_id, game.game_id)
        for (ply, kind), judgement in judgements.items():
            at, mover = (ply if game.record.rules.mover_chooses else 2 * ply + (kind != GIFT)), (ply + 1) % 2
            sign = 1 if (mover == 0) == (kind != GIFT) else -1
            values |= {at: sign * judgement.before, at + 1: sign * judgement.after}
    return values
