"""Questions to an archive: `qarena sql`, `archive ls`, `openings` and `report`, and the index that they need."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

import polars as pl
import typer

from analytics import archive_option, open_archive
from analytics.questions.columns import format_pace, game_name, opening_columns, words
from analytics.questions.openings import Explored, OpeningsQuery, cells_alike, checked, explore
from analytics.questions.sql.answers import Limits
from analytics.questions.sql.connection import Scratch
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.syntax import both
from analytics.questions.sql.views import among
from analytics.report.page import report, sections_of, sections_page, sections_svg
from analytics.store.archive import Archive, chosen_runs
from analytics.tables.derived.tables import (
    NotIndexedError,
)
from quarto.errors import RequestError
from quarto.notation import format_cell, format_position
from runners.arena.executors.base import THREADS, Executor
from runners.arena.indexing import bring_all_up_to_date, bring_up_to_date, is_writable
from runners.hosting.interruption import end_at_once, exit_code, interruptible
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import TableOutput, write_file
from runners.terminal.tables import STREAMED, show_first, write, write_parts

GRACE_SECONDS = 0.5  # between DuckDB's interruption and the end of the process


RUNS = """
SELECT run_id, games,
       if(len(agents) > 2 AND length(array_to_string(agents, ', ')) > 100,
          format('{} and {} others', agents[1], len(agents) - 1), array_to_string(agents, ', ')) AS agents,
       rules, status, strftime(created, '%Y-%m-%d %H:%M') AS created, seed, opening_plies, games_asked,
       round(seconds, 1) AS seconds, ranges, fingerprint
FROM runs ORDER BY created
"""


def list_runs(root: PurePath, table: TableOutput) -> None:
    """Print or write the runs of an archive, the oldest first."""
    with open_archive(root, check=False) as opened:  # which names what to restore must not need it
        write(opened.sql(RUNS), table)


def index(
    root: PurePath, wanted: Sequence[str], end_ply: int | None, threads: int | None, executor: Executor = THREADS
) -> None:
    """Index the chosen runs, or all, and print totals. Raises ``RequestError`` for a run that is not in the archive."""
    archive = Archive.open(root)
    runs = chosen_runs(archive, wanted)
    started = time.perf_counter()
    with interruptible() as stop:
        indexed, added_up = bring_up_to_date(archive, runs, end_ply, threads, executor, stop)
    if stop.is_set():
        console.print_note("interrupted: what is indexed is kept; run the same command again to index the rest")
        raise typer.Exit(exit_code())
    added, seconds = f"; {added_up:,} sums made" if added_up else "", time.perf_counter() - started
    if indexed.games:
        speed = f"{format_pace(indexed.games, seconds)} a second"
        console.print_line(
            f"{indexed.games:,} games indexed in {seconds:.1f} s, {speed}: {indexed.rows:,} rows{added}; "
            f"use 'qarena openings{archive_option(root)}', or the view positions in SQL"
        )
    else:
        games = sum(map(archive.games_held, runs))
        console.print_line(f"Nothing to index: {games:,} games are indexed in {root}{added}.")


def answer(root: PurePath, text: str, limits: Limits, output: TableOutput, check: bool = True) -> None:
    """Print or write the answer to a question in SQL. If it needs positions that are not indexed, that is done first.

    Only the first rows are printed. What is written in parts needs no more memory than ``limits`` allow, however
    many rows it has. The process ends if all of this takes longer than the time limit.
    """
    with _ended_late(limits):
        try:
            _answer(root, text, limits, output, check)
        except NotIndexedError:
            if not is_writable(root):
                raise
            bring_all_up_to_date(root)
            _answer(root, text, limits, output, check)


@contextmanager
def _ended_late(limits: Limits) -> Iterator[None]:
    """Inside the context the process ends at the time limit.

    DuckDB does not interrupt some functions, and files are compared with their checksums before it is asked.
    """
    if limits.seconds is None:
        yield
        return
    timer = threading.Timer(limits.seconds + GRACE_SECONDS, _end, [limits])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(limits: Limits) -> None:
    late = limits.late()
    for folder in Scratch.folders:
        shutil.rmtree(folder, ignore_errors=True)
    end_at_once(f"error: {late}", late.exit_code)


def _answer(root: PurePath, text: str, limits: Limits, output: TableOutput, check: bool) -> None:
    with OpenArchive(root, limits, check) as opened:
        if output.is_printed:
            opened.stream(text, partial(show_first, wide=output.wide), exact=False)
        elif output.form in STREAMED:
            opened.stream(text, partial(write_parts, output=output))
        else:
            write(opened.sql(text), output)


MAX_TURNS = 16  # rows of the table that is shown without --by
FIRST = {"games": "most played", "score": "worst", "losses": "most often lost"}  # by the order of the rows
PLAYERS = {"gift": "the giver", "placement": "the mover", "turn": "the mover"}


def text_of(position: str, rules: str | None) -> str:
    """The position with the name of its rules. Raises ``RequestError`` if it names other rules already."""
    if rules is None:
        return position
    fields = position.split()
    if len(fields) == 3 and fields[2] != rules:
        raise RequestError(
            f"position {position!r} names rules {fields[2]!r}, and --rules is {rules!r}: leave --rules out"
        )
    return " ".join([*fields[:2], rules])


def show_openings(root: PurePath, asked: OpeningsQuery, output: TableOutput) -> None:
    """Print the decisions in a position with their results, or write them to a file."""
    checked(Archive.open(root), asked)  # before anything is written
    bring_all_up_to_date(root)
    with open_archive(root) as opened:
        found = explore(opened, asked)
        if not output.is_printed:
            write(found.rows, output)
            return
        _show(found, found.rows, asked, "", output.wide)
        if asked.by is None and found.by != "turn":
            turns = explore(opened, replace(asked, by="turn"))
            shown = turns.rows.head(MAX_TURNS)
            note = f", the {len(shown)} {FIRST[asked.sort]} of {len(turns.rows)} (all: --by turn)"
            _show(turns, shown, asked, note if len(shown) < len(turns.rows) else "", output.wide)


def _show(found: Explored, rows: pl.DataFrame, asked: OpeningsQuery, note: str, wide: bool | None) -> None:
    """Print the decisions with their results and sample games, which are the first that a narrow terminal spares."""
    text = format_position(found.position, found.rules.name)
    title = f"{text}: {found.games:,} games by {found.by}{_of(asked)}{note}; in %, for {PLAYERS[found.by]}"
    games = [game_name(run_id, game_id) for run_id, game_id in rows.select("run_id", "game_id").iter_rows()]
    sample = words("game", games)._replace(spare=8), words("sample", rows["sample"])._replace(spare=9)
    console.show([console.tabulated([*opening_columns(rows), *sample], title)], wide=wide)
    console.print_line(_legend(found, rows))


def _of(asked: OpeningsQuery) -> str:
    """Whose decisions were asked for."""
    agent, opponent = asked.games.agent, asked.games.opponent
    against = f" against {opponent}" if opponent else ""
    return f", decided by {agent}{against}" if agent else f", decided{against}" if opponent else ""


def _legend(found: Explored, rows: pl.DataFrame) -> str:
    """The choices that a row stands for."""
    shown = set(rows["cell"]) if "cell" in rows.columns else set()
    groups = [[format_cell(cell) for cell in cells] for cells in cells_alike(found.position, found.rules)]
    named = [f"{cells[0]} for {' '.join(cells)}" for cells in groups if len(cells) > 1 and cells[0] in shown]
    return "; ".join(["Up to symmetry: a row stands for as many choices as alike says", *named])


def write_report(root: PurePath, where: str | None, run_ids: Sequence[str], output: Path, title: str | None) -> None:
    """Write the page about the games of these runs (none: all runs) that meet a condition.

    Raises ``RequestError`` for an unknown run and for an invalid condition or one that no game meets,
    ``FailureError`` when the file cannot be written.
    """
    with open_archive(root) as opened, progress_bar("writing the report", "games"):
        page = report(opened, _condition(opened, where, run_ids), title, run_ids)
    content = page.encode()
    write_file(output, content)
    console.print_line(f"{output}: {len(content):,} bytes; open it in a browser.")


PICTURES = {".html": sections_page, ".svg": sections_svg}


def show_section(root: PurePath, where: str | None, run_ids: Sequence[str], slug: str, output: Path | None) -> None:
    """Print one section of the report, or write its page or, as SVG, its picture. Raises as ``write_report`` does."""
    if output is not None and output.suffix not in PICTURES:
        raise RequestError(f"--output {output}: a section is written to a file that ends in {' or '.join(PICTURES)}")
    with open_archive(root) as opened:
        found = sections_of(opened, slug, _condition(opened, where, run_ids), run_ids)
    if all(each.missing for each in found):
        raise RequestError(f"nothing to show: {found[0].missing}")
    if output is not None:
        write_file(output, PICTURES[output.suffix](found).encode())
        return
    for each in found:
        if len(found) > 1:
            console.print_line(each.title)
        console.show([console.tabulated(table.columns, table.title) for table in each.tables])
        console.print_line(each.note or each.missing)


def _condition(opened: OpenArchive, where: str | None, run_ids: Sequence[str]) -> str | None:
    """The condition of games of these runs that meet another one. Raises ``RequestError`` for an unknown run."""
    runs = among(chosen_runs(opened.archive, run_ids)) if run_ids else None
    return both(opened.sql, runs, where) if runs and where is not None else runs or where
