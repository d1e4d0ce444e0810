"""Decisions judged by exact values: `qarena annotate` stores the values, `qarena mistakes` shows the mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Unpack

import typer

from analytics import format_archive_option, open_archive
from analytics.arguments import list_run_id_texts
from analytics.exact.annotation import (
    AnnotationOptions,
    AnnotationSummary,
    Annotator,
    list_annotation_chunks,
)
from analytics.questions.columns import (
    format_count_per_second,
)
from analytics.questions.selection import GameFilter, select_games
from analytics.questions.sql.database import OpenArchive
from analytics.report.frame_formats import STREAMED_FORMATS
from analytics.store.archive import ArchiveStore, select_requested_or_all_run_ids
from analytics.store.files.backend import parse_location
from analytics.store.ranges import StoredRange
from analytics.store.texts import format_count_with_noun
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
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.hosting.work_clock import WorkClock
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import TERMINAL_OUTPUT, TableOutput
from runners.terminal.tables import output_result

if TYPE_CHECKING:
    from analytics.library import GameFilters


@dataclass(frozen=True)
class AnnotateTask(Task[Chunk[AnnotationExtent], AnnotationSummary]):
    """A task that annotates chunks of games; the threads of a process share the positions that they have solved."""

    root: str
    choices: bool
    from_pieces: int | None
    megabytes: float

    def build_worker(self) -> Worker[Chunk[AnnotationExtent], AnnotationSummary]:
        return self.build_counting_worker([])

    def build_counting_worker(self, game_counts: list[int]) -> Worker[Chunk[AnnotationExtent], AnnotationSummary]:
        """Build a worker that reports its progress in ``game_counts``, even in the middle of a chunk.

        From time to time, the worker appends the number of games that it has judged since it last appended a number.
        """
        settings = AnnotationOptions(self.choices, self.from_pieces, 1, self.megabytes)
        annotator = Annotator(ArchiveStore.open(parse_location(self.root)), settings)

        def annotate(chunk: Chunk[AnnotationExtent], stop: StopSignal) -> AnnotationSummary:
            def raise_if_stopped() -> None:
                if stop.is_set():
                    raise StoppedError

            with suppress(StoppedError):  # the user has stopped the command: the rest is not needed
                return annotator.annotate(chunk, game_counts.append, raise_if_stopped)
            return AnnotationSummary()

        return annotate


def annotate_games(
    root: PurePath, game_filter: GameFilter, settings: AnnotationOptions, threads: int | None, executor: Executor
) -> str:
    """Judge the decisions that are not judged yet in all files that hold a game selected by ``game_filter``.

    Returns a sentence on what was judged, for the terminal. Raises ``RequestError`` for an unknown run, and for a
    condition that no game meets. If a signal stops the work, ``typer.Exit`` is raised; the decisions judged until then
    are kept.
    """
    workers = threads or available_cores()
    check_solver_memory(settings.megabytes, executor.count_processes_using_local_memory(workers))
    archive = ArchiveStore.open(root)
    runs = select_requested_or_all_run_ids(archive, game_filter.runs)
    game_filter = replace(game_filter, runs=tuple(runs) if game_filter.runs else ())
    clock = WorkClock()
    games_a_pair = {run_id: archive.load_run(run_id).unit_line.games_a_pair for run_id in runs}
    task = AnnotateTask(str(root), settings.choices, settings.from_pieces, settings.megabytes)
    judged_counts = list[int]()
    local_worker = LazyWorker(lambda: task.build_counting_worker(judged_counts))  # the bar also moves within a chunk
    work = local_worker if executor.shares_memory else task
    judged, total = AnnotationSummary(), 0
    fewer_games_hint = "" if game_filter.runs else "; --run RUN judges the games of one run"

    def update_progress_and_notice() -> None:
        judged_games = max(judged.games, sum(judged_counts))
        bar.set_done(judged_games)
        notice.print_if_due(judged_games, total)

    try:
        with (
            stop_on_signal_then_interrupt_then_exit() as stop,
            show_progress_bar_or_notes("judging", "games") as bar,
        ):
            is_included = _build_file_filter(root, game_filter.where)
            chunks = [*list_annotation_chunks(archive, runs, settings, workers, is_included)]
            total = sum(chunk.games.units * games_a_pair[chunk.run_id] for chunk in chunks)
            clock_of_judging = WorkClock()
            notice = console.LongTimeNotice(fewer_games_hint, lambda: clock_of_judging.seconds)
            if chunks:
                bar.start(total)
            for summary in executor.map(work, chunks, workers, stop, update_progress_and_notice):
                judged = judged.add(summary)
                update_progress_and_notice()
        for run_id in runs:
            compact_small_files(archive, run_id)
    finally:
        for run_id in runs:
            record_annotated_units(archive, run_id)
    if stop.is_set():
        console.print_note("interrupted: judged decisions are kept; run the same command again to judge the rest")
        raise typer.Exit(exit_code())
    return _format_summary(judged, clock.seconds, root, game_filter)


def _build_file_filter(root: PurePath, where: str | None) -> Callable[[str, StoredRange], bool]:
    """Build a predicate that returns whether a file holds a game that meets the condition ``where``.

    The arguments of the predicate are the id of a run and the range of a file. Without ``where``, it is always True.
    """
    if where is None:
        return lambda _run_id, _games: True
    with OpenArchive(root) as opened:
        selection = select_games(opened, where)
        ranges_with_match = {
            (record.run_id, games)
            for record in selection.runs
            for games, _ in selection.list_ranges_with_ids_of_run(record)
        }
    return lambda run_id, games: (run_id, games) in ranges_with_match


def _format_summary(summary: AnnotationSummary, seconds: float, root: PurePath, game_filter: GameFilter) -> str:
    if not summary.games:
        scope = "all decisions" if game_filter.where is None else "all decisions of these files"
        return f"Nothing to judge: {scope} in {root} are judged."
    decisions, games = (
        format_count_with_noun(summary.decisions, "decision"),
        format_count_with_noun(summary.games, "game"),
    )
    return (
        f"{decisions} of {games} judged in {seconds:.1f} s, "
        f"{format_count_per_second(summary.decisions, seconds)} a second; "
        "see them in the view decisions, or with "
        f"'qarena mistakes{format_run_and_archive_options(root, game_filter.runs)}'"
    )


def format_run_and_archive_options(root: PurePath, run_ids: Sequence[str]) -> str:
    """Format the options of a command that select the runs ``run_ids`` and the archive at ``root``."""
    return "".join(f" --run {run_id}" for run_id in run_ids) + format_archive_option(root)


def output_mistakes(
    root: PurePath, max_positions: int, output: TableOutput = TERMINAL_OUTPUT, **games: Unpack[GameFilters]
) -> None:
    """Print or write the regret of each agent, and the worst mistakes in at most ``max_positions`` positions.

    Raises ``RequestError`` if no games are annotated; the message contains the command that annotates them.
    """
    with open_archive(root) as opened:
        result = opened.mistakes(positions=0 if output.form in STREAMED_FORMATS else max_positions, **games)
        agent = None if games.get("agent") is None else opened.find_label(str(games["agent"]))
    if result.missing:
        runs = tuple(list_run_id_texts(games.get("run")))
        game_filter = GameFilter(games.get("where"), runs, games.get("rules"), agent)
        raise RequestError(
            f"no decision of these games is judged in archive {root} (the option --choices also counts how easy each "
            "mistake was to avoid, and is slower: docs/decisions.md); this judges them: "
            f"{console.format_annotate_command(root, game_filter)}"
        )
    output_result(result, output)
