"""Questions to an archive: ``qarena sql``, ``archive ls``, ``openings``, ``report``, and the index that they need."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import typer

from analytics import format_archive_option, open_archive
from analytics.questions.columns import (
    format_count_per_second,
)
from analytics.questions.openings import (
    OpeningsQuery,
    parse_openings_query,
)
from analytics.questions.sql.conditions import check_and_combine_both_conditions
from analytics.questions.sql.connection import ScratchFolder
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.query_execution import QueryLimits
from analytics.questions.sql.views import run_condition_sql
from analytics.report.answers import answer_openings
from analytics.report.frame_formats import STREAMED_FORMATS
from analytics.report.page import render_report
from analytics.store.archive import ArchiveStore, select_requested_or_all_run_ids
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.definitions import (
    NotIndexedError,
)
from runners.arena.executors.base import THREADS, Executor
from runners.arena.indexing import index_and_compact_sums, index_new_games_if_writable, is_index_writable
from runners.hosting.interruption import exit_code, exit_with_message, stop_on_signal_then_interrupt_then_exit
from runners.hosting.work_clock import WorkClock
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import TableOutput, write_file
from runners.terminal.tables import output_batches, output_frame, output_result, print_first_and_count_all_rows

GRACE_SECONDS = 0.5  # time for DuckDB to stop before the process ends


def output_answer(root: PurePath, output: TableOutput, question: str, *words: str, **arguments: Any) -> None:
    """Call the method of ``analytics.Archive`` that ``question`` names, and print or write the answer.

    ``words`` and ``arguments`` are passed to the method.
    """
    with open_archive(root) as archive:
        result = getattr(archive, question)(*words, **arguments)
    output_result(result, output)


def output_runs(root: PurePath, output: TableOutput) -> None:
    """Print or write the list of an archive's runs, the oldest first."""
    # Files are not checked, because the list must also show the runs of an archive with damaged files.
    with open_archive(root, check=False) as archive:
        runs = archive.runs()
    output_result(runs, output)


def index_archive(
    root: PurePath, run_ids: Sequence[str], end_ply: int | None, threads: int | None, executor: Executor = THREADS
) -> None:
    """Index the positions of the given runs, or of all runs if none is given, and print totals.

    ``end_ply`` is the number of plies to index of each game; None means as many as before, or the default if nothing is
    indexed. Raises ``RequestError`` for a run that does not exist.
    """
    archive = ArchiveStore.open(root)
    runs = select_requested_or_all_run_ids(archive, run_ids)
    clock = WorkClock()
    with stop_on_signal_then_interrupt_then_exit() as stop:
        indexed, sum_count = index_and_compact_sums(archive, runs, end_ply, threads, executor, stop)
    if stop.is_set():
        console.print_note("interrupted: what is indexed is kept; run the same command again to index the rest")
        raise typer.Exit(exit_code())
    sums_clause, seconds = f"; {format_count_with_noun(sum_count, 'sum')} made" if sum_count else "", clock.seconds
    if indexed.games:
        speed = f"{format_count_per_second(indexed.games, seconds)} a second"
        counts = format_count_with_noun(indexed.games, "game"), format_count_with_noun(indexed.rows, "row")
        console.print_line(
            f"{counts[0]} indexed in {seconds:.1f} s, {speed}: {counts[1]}{sums_clause}; "
            f"use 'qarena openings{format_archive_option(root)}', or the view positions in SQL"
        )
    else:
        games = sum(map(archive.count_games, runs))
        count, verb = format_count_with_noun(games, "game"), "is" if games == 1 else "are"
        console.print_line(f"Nothing to index: {count} {verb} indexed in {root}{sums_clause}.")


def output_sql_answer_indexing_if_needed(
    root: PurePath, query: str, limits: QueryLimits, output: TableOutput, check_files: bool = True
) -> None:
    """Print or write the answer to an SQL query; index positions first if the query needs the index.

    Only the first rows are printed. Formats that are written in parts need no more memory than ``limits`` allow,
    however many rows there are. The process ends if the query takes longer than the time limit.
    """
    with _enforce_time_limit(limits):
        try:
            _run_sql_and_output(root, query, limits, output, check_files)
        except NotIndexedError:
            if not is_index_writable(root):
                raise
            index_new_games_if_writable(root)
            _run_sql_and_output(root, query, limits, output, check_files)


@contextmanager
def _enforce_time_limit(limits: QueryLimits) -> Iterator[None]:
    """End the process if the context exceeds the time limit; without a limit, do nothing.

    Interrupting DuckDB is not enough, because DuckDB does not react inside some of its functions, and because files are
    compared with their checksums before DuckDB begins.
    """
    if limits.seconds is None:
        yield
        return
    timer = threading.Timer(limits.seconds + GRACE_SECONDS, _clean_up_and_exit_late, [limits])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _clean_up_and_exit_late(limits: QueryLimits) -> None:
    error = limits.build_timeout_error()
    for folder in ScratchFolder.folders:
        shutil.rmtree(folder, ignore_errors=True)
    exit_with_message(f"error: {error.for_command_line}", error.exit_code)


def _run_sql_and_output(
    root: PurePath, query: str, limits: QueryLimits, output: TableOutput, check_files: bool
) -> None:
    with OpenArchive(root, limits, check_files) as archive:
        if output.is_table_for_people_on_stdout:
            archive.stream(query, partial(print_first_and_count_all_rows, wide=output.wide), exact=False)
        elif output.form in STREAMED_FORMATS:
            archive.stream(query, partial(output_batches, output=output))
        else:
            output_frame(archive.sql(query), output)


def index_and_output_openings(root: PurePath, query: OpeningsQuery, output: TableOutput) -> None:
    """Index new games, and print or write the decisions that were made in a position, with their results."""
    parse_openings_query(ArchiveStore.open(root), query)  # refuse a wrong query before anything is written
    index_new_games_if_writable(root)
    with show_progress_bar_or_notes("counting decisions", "games"), open_archive(root) as archive:
        result = answer_openings(archive, query, with_turns=output.form not in STREAMED_FORMATS)
    output_result(result, output)


def write_report(root: PurePath, where: str | None, run_ids: Sequence[str], output: Path, title: str | None) -> None:
    """Write an HTML page about the games that belong to the given runs and meet ``where``.

    If ``run_ids`` is empty, games of all runs are included; if ``where`` is None, all games of these runs. Raises
    ``RequestError`` for an unknown run, and for a condition that is invalid or that no game meets. Raises
    ``FailureError`` if the file cannot be written.
    """
    with show_progress_bar_or_notes("writing the report", "games"), open_archive(root) as archive:
        run_ids = select_requested_or_all_run_ids(archive.archive, run_ids) if run_ids else ()
        page = render_report(archive, _build_condition(archive, where, run_ids), title, run_ids)
    content = page.encode()
    write_file(output, content)
    console.print_line(f"{output}: {len(content):,} bytes; open it in a browser.")


def _build_condition(archive: OpenArchive, where: str | None, run_ids: Sequence[str]) -> str | None:
    """Return the SQL condition for games that belong to the given runs and meet ``where``, or None for all games.

    If ``run_ids`` is empty, the games of all runs qualify.
    """
    run_condition = run_condition_sql(run_ids) if run_ids else None
    if run_condition is None or where is None:
        return run_condition or where
    return check_and_combine_both_conditions(archive, run_condition, where)
