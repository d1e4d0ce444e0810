"""Searches for a board, in threads: exact values, what the archive played there, and values that are annotated."""

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
    read_evaluations,
    read_judgements,
)
from analytics.questions.openings import OpeningsQuery
from quarto.errors import ArenaError, FailureError
from quarto.game import Game, NextDecision
from quarto.position import Position, position_from_plies
from quarto.rules import NONE, Rules
from quarto.solver.solver import Solution, Solver
from quarto.views import PositionView
from runners.arena.executors.base import available_cores
from runners.exact.solutions import turn_sort_key
from runners.web.analyse.line import format_game_position
from runners.web.archive.explorer import ExplorerResult, build_empty_result, explore_position
from runners.web.archive.snapshots import StillOpeningError
from runners.web.archive_pages import ArchiveReader, ArchiveService
from runners.web.background import BackgroundJob, BackgroundPool
from runners.web.site import Site

WARM_UP_POSITION = position_from_plies(
    (piece, piece) for piece in (0, 15, 3, 12, 5, 10, 6, 9, 1, 14)
)  # quick to solve, with all kernels
IDLE_SECONDS = 10.0  # without a page that asks, after which a search is given up


class AnalysisValues(NamedTuple):
    """The values of the games of a line, for seat 0: 1 won, 0 drawn, -1 lost; None where not yet known."""

    seat_0: tuple[int | None, ...]

    def regret(self, decision_index: int, seat: int) -> int | None:
        """The regret of the decision of ``seat`` after ``decision_index`` others, in half-points; None: not known."""
        before, after = self.seat_0[decision_index], self.seat_0[decision_index + 1]
        if before is None or after is None:
            return None
        return (before - after) * (1 if seat == 0 else -1)


class SolvedPosition(NamedTuple):
    """The values that are known of a position."""

    solution: Solution  # its turns and distances come later
    safe_gifts: int  # 16 bits: the gifts with which the opponent cannot win at once, before a gift
    safe_gifts_after: Mapping[
        int, int
    ]  # the number of such gifts after the piece in hand was placed on each empty cell
    best_line: tuple[Game, ...] = ()  # the games after each decision if both sides play best, once it is known


class SearchService:
    """The searches of a site. Those of one variant share what they prove, and each can be stopped alone."""

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
        """The search for all turns of a game in progress; publishes ``SolvedPosition``, values first, then distances.

        ``restart_stopped``: a new one if it was stopped. What the former one proved is known to it.
        """

        def work(job: BackgroundJob) -> None:
            with self._open_solver(game.rules, job) as solver:
                safe = _find_safe_gifts_and_counts(game)
                for found in solve_in_stages(solver, game.position):
                    if job.stopped:  # what the search says then means nothing
                        return
                    job.latest = SolvedPosition(found, *safe)
                best_line = tuple(_play_best_line(solver, game, found))
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
        """The search for the value of each game of a line. It publishes ``AnalysisValues``; again as above.

        ``known_values``: values for seat 0 by index, of which the archive is sure.
        """

        def work(job: BackgroundJob) -> None:
            found = [known_values.get(at) for at in range(len(games))]
            job.latest = AnalysisValues(tuple(found))
            unknown = [at for at in reversed(range(len(games))) if at not in known_values]
            if not unknown:
                return
            with self._open_solver(games[0].rules, job) as solver:
                for at in unknown:
                    found[at] = _solve_value_for_seat_0(games[at], solver)
                    if job.stopped:
                        return
                    job.latest = AnalysisValues(tuple(found))

        return self.pool.find_or_start(
            ("line", tuple(format_game_position(game) for game in games)),
            work,
            max_seconds,
            restart_stopped=restart_stopped,
        )

    @contextmanager
    def _open_solver(self, rules: Rules, job: BackgroundJob) -> Iterator[Solver]:
        """A solver for one search, with everything compiled and its tablebase read. It stops with the job."""
        job.is_preparing = True
        with self._lock:
            if rules not in self._solvers:
                made = Solver(rules, self._megabytes, load_tablebase_index(rules))
                made.solve(WARM_UP_POSITION)
                self._solvers[rules] = made
            solver = self._solvers[rules].fork(own_stop=True)
        job.restart_clock()
        job.add_stop_callback(solver.stop)
        self.active_solvers.add(solver)
        try:
            yield solver
        finally:
            self.active_solvers.discard(solver)


def _find_safe_gifts_and_counts(game: Game) -> tuple[int, dict[int, int]]:
    """The last two fields of ``SolvedPosition``. Its kernels may have to be compiled: no page waits for that."""
    view = PositionView(game.position, game.rules)
    if game.next_decision is NextDecision.GIFT:
        return sum(1 << piece for piece in view.safe_gifts()), {}
    if game.next_decision is NextDecision.PLACEMENT:
        return 0, {cell: len(view.safe_gifts(cell)) for cell in game.empty_cells}
    return 0, {}


def solve_in_stages(solver: Solver, position: Position) -> Iterator[Solution]:
    """Yield what is known of a position: its value, then that of each turn, then the distances too."""
    yield Solution(solver.value(position), None, ())
    yield solver.solve(position, distance=False)
    yield solver.solve(position)


def _play_best_line(solver: Solver, game: Game, solution: Solution) -> Iterator[Game]:
    """The games after each decision from here on, as both sides play best."""
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
    """Questions about positions, each in a thread of its own: no page waits for them."""

    def __init__(self, site: Site) -> None:
        self._library = site.get_or_create_service(ArchiveService).snapshots
        self._background = BackgroundPool(
            2, max_waiting=50, max_jobs=300, idle_seconds=EXPLORE_SECONDS, low_priority=True
        )

    def close(self) -> None:
        self._background.close()

    def find_or_start_exploration(self, position: str) -> BackgroundJob:
        """The search for the decisions in a position in text form; its result is an ``ExplorerResult``."""
        try:
            content = self._library.load_snapshot()
        except (ArenaError, StillOpeningError) as error:  # the board is shown whatever the archive is like
            reason = str(error) or "the archive is being opened"
            return self._background.find_or_start((position, reason), lambda _job: build_empty_result(reason))

        def work(_job: BackgroundJob) -> ExplorerResult:
            if content is None:
                return build_empty_result(f"the archive is empty: {FILL_COMMAND} fills it")
            try:
                return content.compute_once(explore_position, OpeningsQuery(position, first_free=False))
            except ArenaError as error:
                return build_empty_result(str(error))

        return self._background.find_or_start(position, work, EXPLORE_SECONDS, version=content and id(content))


def read_undamaged_evaluations(reader: ArchiveReader, game: ArchivedGame) -> LoggedEvaluations:
    """The evaluations in a logged game; nothing if a file of it is damaged, which other pages say."""
    with suppress(FailureError):
        return reader.compute_once(read_evaluations, game.record.run_id, game.game_id)
    return {}


def read_annotated_values(reader: ArchiveReader, game: ArchivedGame) -> dict[int, int]:
    """The annotated values of a logged game for seat 0, by the number of decisions before."""
    found: dict[int, int] = {}
    with suppress(FailureError):  # a damaged file: then all values are searched for here
        judged = reader.compute_once(read_judgements, game.record.run_id, game.game_id)
        for (ply, kind), value in judged.items():
            at, mover = (ply if game.record.rules.mover_chooses else 2 * ply + (kind != GIFT)), (ply + 1) % 2
            sign = 1 if (mover == 0) == (kind != GIFT) else -1
            found |= {at: sign * value.before, at + 1: sign * value.after}
    return found
