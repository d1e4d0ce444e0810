"""Decisions by exact values: `qarena annotate` judges them, `qarena mistakes` shows regrets and the worst of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Unpack

import typer

from analytics import format_archive_option, open_archive
from analytics.exact.annotation import (
    AnnotationOptions,
    AnnotationSummary,
    Annotator,
    list_annotation_chunks,
)
from analytics.questions.columns import (
    format_count_per_second,
    format_count_with_noun,
    format_duration,
)
from analytics.questions.selection import GameFilter, select_games
from analytics.questions.sql.database import OpenArchive
from analytics.report.frame_formats import STREAMED_FORMATS
from analytics.store.archive import ArchiveStore, select_run_ids
from analytics.store.files.backend import parse_location
from analytics.store.ranges import StoredRange
from analytics.tables.derived.decisions import AnnotationExtent, record_annotated_units
from analytics.tables.derived.range_table import Chunk
from analytics.tables.derived.threads import StoppedError
from analytics.tables.upkeep.compaction import compact_small_files
from quarto.errors import RequestError
from runners.arena.executors.base import (
    Executor,
    LazyWorker,
    StopSignal,
    Task,
    Worker,
    available_cores,
    check_solver_memory,
)
from runners.hosting.interruption import exit_code, stop_on_signal
from runners.hosting.work_clock import WorkClock
from runners.terminal import console
from runners.terminal.console import show_progress_bar
from runners.terminal.files import TERMINAL_OUTPUT, TableOutput
from runners.terminal.tables import output_result

if TYPE_CHECKING:
    from analytics.library import GameFilters


@dataclass(frozen=True)
class AnnotateTask(Task[Chunk[AnnotationExtent], AnnotationSummary]):
    """Annotates chunks. The threads of a process share what they solve."""

    root: str
    choices: bool
    from_pieces: int | None
    megabytes: float

    def build_worker(self) -> Worker[Chunk[AnnotationExtent], AnnotationSummary]:
        return self.build_counting_worker([])

    def build_counting_worker(self, game_counts: list[int]) -> Worker[Chunk[AnnotationExtent], AnnotationSummary]:
        """Build a worker that adds to ``game_counts`` what it has judged, also of chunks in progress."""
        settings = AnnotationOptions(self.choices, self.from_pieces, 1, self.megabytes)
        annotator = Annotator(ArchiveStore.open(parse_location(self.root)), settings)

        def annotate(chunk: Chunk[AnnotationExtent], stop: StopSignal) -> AnnotationSummary:
            def raise_if_stopped() -> None:
                if stop.is_set():
                    raise StoppedError

            with suppress(StoppedError):  # the rest is not wanted any more
                return annotator.annotate(chunk, game_counts.append, raise_if_stopped)
            return AnnotationSummary()

        return annotate


MEASURED_SECONDS = 5.0  # of judging, by which the time of the rest is estimated
LONG_SECONDS = 60.0  # a time that is announced


class LongTimeNotice:
    """A note, once, that judging the wanted games takes long, and how to judge fewer."""

    def __init__(self, total: int, game_filter: GameFilter) -> None:
        self.total, self.clock, self.is_due = total, WorkClock(), True
        self.fewer_games_hint = "" if game_filter.runs else "; --run RUN judges the games of one run"

    def print_if_due(self, judged_games: int) -> None:
        """``judged_games`` are judged by now."""
        spent = self.clock.seconds
        if not (self.is_due and judged_games and spent >= MEASURED_SECONDS):
            return
        self.is_due = False
        left = spent * (self.total - judged_games) / judged_games
        if left >= LONG_SECONDS:
            total = format_count_with_noun(self.total, "game")
            console.print_note(
                f"{total} take about {format_duration(left)} more{self.fewer_games_hint} (you can "
                "stop at any time: the same command goes on)"
            )


def annotate_games(
    root: PurePath, game_filter: GameFilter, settings: AnnotationOptions, threads: int | None, executor: Executor
) -> None:
    """Judge the decisions that are not judged yet, of whole files in which a game meets the condition.

    Raises ``RequestError`` for an unknown run, and for a condition that no game meets.
    """
    workers = threads or available_cores()
    check_solver_memory(settings.megabytes, executor.count_processes_using_local_memory(workers))
    archive = ArchiveStore.open(root)
    runs = select_run_ids(archive, game_filter.runs)
    clock = WorkClock()
    chunks = [*list_annotation_chunks(archive, runs, settings, workers, _build_file_filter(root, game_filter.where))]
    games = {run_id: archive.load_run(run_id).unit_line.games_a_pair for run_id in runs}
    task = AnnotateTask(str(root), settings.choices, settings.from_pieces, settings.megabytes)
    judged_counts = list[int]()
    local_worker = LazyWorker(lambda: task.build_counting_worker(judged_counts))  # whose progress shows within a chunk
    work = local_worker if executor.shares_memory else task
    judged, total = AnnotationSummary(), sum(each.games.units * games[each.run_id] for each in chunks)
    notice = LongTimeNotice(total, game_filter)

    def update_progress() -> None:
        done = max(judged.games, sum(judged_counts))
        bar.set_done(done)
        notice.print_if_due(done)

    try:
        with stop_on_signal() as stop, show_progress_bar("judging", "games", visible=bool(chunks)) as bar:
            bar.start(total)
            for done in executor.map(work, chunks, workers, stop, update_progress):
                judged = judged.add(done)
                update_progress()
        for run_id in runs:
            compact_small_files(archive, run_id)
    finally:
        for run_id in runs:
            record_annotated_units(archive, run_id)
    if stop.is_set():
        console.print_note("interrupted: what is judged is kept; run the same command again to judge the rest")
        raise typer.Exit(exit_code())
    console.print_line(_format_summary(judged, clock.seconds, root, game_filter))


def _build_file_filter(root: PurePath, where: str | None) -> Callable[[str, StoredRange], bool]:
    """Whether one of the games in a range of a run meets a condition on the view ``games``, as a function."""
    if where is None:
        return lambda _run_id, _games: True
    with OpenArchive(root) as opened:
        selection = select_games(opened, where)
        met = {
            (record.run_id, games) for record in selection.runs for games, _ in selection.select_ranges_and_ids(record)
        }
    return lambda run_id, games: (run_id, games) in met


def _format_summary(summary: AnnotationSummary, seconds: float, root: PurePath, game_filter: GameFilter) -> str:
    if not summary.games:
        chosen = "all decisions" if game_filter.where is None else "all decisions of these files"
        return f"Nothing to judge: {chosen} in {root} are judged."
    decisions, games = (
        format_count_with_noun(summary.decisions, "decision"),
        format_count_with_noun(summary.games, "game"),
    )
    return (
        f"{decisions} of {games} judged in {seconds:.1f} s, "
        f"{format_count_per_second(summary.decisions, seconds)} a second; "
        f"see them in the view decisions, or with 'qarena mistakes{format_run_options(root, game_filter.runs)}'"
    )


def format_run_options(root: PurePath, run_ids: Sequence[str]) -> str:
    """The options that choose the same runs and archive in another command."""
    return "".join(f" --run {run_id}" for run_id in run_ids) + format_archive_option(root)


def output_mistakes(
    root: PurePath, max_positions: int, output: TableOutput = TERMINAL_OUTPUT, **games: Unpack[GameFilters]
) -> None:
    """Print or write the regret of each agent and the worst mistakes.

    Raises ``RequestError`` if nothing is annotated, with the command that does it.
    """
    with open_archive(root) as opened:
        result = opened.mistakes(positions=0 if output.form in STREAMED_FORMATS else max_positions, **games)
        agent = None if games.get("agent") is None else opened.find_label(str(games["agent"]))
    if result.missing:
        run = games.get("run") or ()
        chosen = GameFilter(games.get("where"), (run,) if isinstance(run, str) else (*run,), games.get("rules"), agent)
        raise RequestError(
            f"no decision of these games is judged in archive {root} (the option --choices also counts how easy each "
            "mistake was to avoid, and is slower: docs/decisions.md); this judges them: "
            f"{console.format_annotate_command(root, chosen)}"
        )
    output_result(result, output)
