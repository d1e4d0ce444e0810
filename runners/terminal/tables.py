"""Frames as tables, CSV, JSON and Parquet, printed or written to a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from analytics.questions.sql.query_execution import check_times
from analytics.report.frame_formats import FRAME_FORMATS, STREAMED_FORMATS, pass_batches_and_cancel_on_error, write_rows
from analytics.report.text_tables import to_table
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from runners.terminal import console
from runners.terminal.files import STANDARD_STREAM, TERMINAL_OUTPUT, TableOutput, replace_file, write_file

if TYPE_CHECKING:
    from analytics.report.result import Result

MAX_PRINTED_ROWS = 50  # rows of an answer that is printed as a table


def output_result(result: Result, output: TableOutput = TERMINAL_OUTPUT) -> None:
    """Print a result or write it to a file: as a document for people, or as the rows of its frame for programs.

    A document contains the warnings; with every other output, they go to standard error. Raises ``RequestError`` if
    there is nothing to show or if the format is svg and the result has no picture, and ``FailureError`` if the file
    cannot be written.
    """
    if result.missing:
        raise RequestError(f"nothing to show: {result.missing}")
    if not output.is_table_for_people_on_stdout and output.form not in STREAMED_FORMATS:
        from analytics.report.result import render_result

        form = "txt" if output.form == "table" else output.form
        write_file(output.path or Path(STANDARD_STREAM), render_result(result, form))
        return
    if output.is_table_for_people_on_stdout:
        result.draw(console.build_output_console(), output.wide)
        for line in result.note.splitlines():
            console.print_line(line)
    else:
        output_batches(result.frame.lazy(), lambda: None, output)
    omissions = (
        [f"{text}; --output FILE for all" for text in result.printed_omissions]
        if output.is_table_for_people_on_stdout
        else []
    )
    for note in (*result.warnings, *omissions):
        console.print_note(str(note))


def output_frame(frame: pl.DataFrame, output: TableOutput = TERMINAL_OUTPUT, title: str = "Answer") -> None:
    """Print a frame as a table or write it to a file.

    ``title`` is the heading in formats that have one. Raises ``FailureError`` if the file cannot be written.
    """
    if output.is_table_for_people_on_stdout:
        console.print_tables([to_table(frame)], wide=output.wide)
    elif output.form in FRAME_FORMATS:
        output_batches(frame.lazy(), lambda: None, output)
    else:
        from analytics.report.result import Result  # imports everything that draws pictures

        output_result(Result(table=to_table(frame), title=title, frame=frame), output)


def output_batches(rows: pl.LazyFrame, cancel_query: Callable[[], None], output: TableOutput) -> None:
    """Write rows to a file or to standard output, in batches if the format is one of ``STREAMED_FORMATS``.

    ``cancel_query`` is a function that ends the query early; it is called after an error. Raises ``RequestError`` for
    dates that Polars cannot represent, and ``FailureError`` if the file cannot be written.
    """
    if output.path is None:
        with suppress(BrokenPipeError):  # the reader has closed the pipe early (| head)
            write_rows(output.form, rows, cancel_query, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    with replace_file(output.path) as path, path.open("wb") as file:
        write_rows(output.form, rows, cancel_query, file)


def print_first_and_count_all_rows(rows: pl.LazyFrame, cancel_query: Callable[[], None], wide: bool | None) -> None:
    """Print the first ``MAX_PRINTED_ROWS`` rows as soon as they arrive, and then the number of rows if there are more.

    The query runs to its end, so that its rows can be counted. ``cancel_query`` is a function that ends the query
    early; it is called after an error. Raises ``RequestError`` for dates that Polars cannot represent.
    """
    pending_frames: list[pl.DataFrame] = []
    count = 0

    def count_batch_and_print_first_rows(frame: pl.DataFrame) -> None:
        """Count the rows of a batch, and print the first rows as soon as there are more rows than the table shows."""
        nonlocal count
        previous_count, count = count, count + frame.height
        if previous_count <= MAX_PRINTED_ROWS:
            pending_frames.append(frame.head(MAX_PRINTED_ROWS - previous_count))
        if previous_count <= MAX_PRINTED_ROWS < count:
            print_pending_rows()

    def print_pending_rows() -> None:
        console.print_tables([to_table(check_times(pl.concat(pending_frames)))], wide=wide)

    pending_frames.append(rows.collect_schema().to_frame())
    pass_batches_and_cancel_on_error(rows, cancel_query, count_batch_and_print_first_rows)
    if count <= MAX_PRINTED_ROWS:
        print_pending_rows()
    else:
        console.print_note(f"{format_count_with_noun(count, 'row')}; --output FILE for all")


def write_json(figures: Mapping[str, Any], path: Path) -> None:
    """Write figures to a file as JSON. Raises ``FailureError`` if the file cannot be written."""
    write_file(path, (json.dumps(figures, indent=1) + "\n").encode())
