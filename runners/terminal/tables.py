"""Frames as tables, CSV, JSON and Parquet, printed or written to a file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from analytics.questions.columns import ResultColumn, Table, format_significant, to_csv
from analytics.questions.sql.query_execution import check_times, sink_parquet
from analytics.store.texts import escape_hidden_json
from runners.terminal import console
from runners.terminal.files import TERMINAL_OUTPUT, TableOutput, replace_file, write_file

BATCH_ROWS = 1 << 16
MAX_PRINTED_ROWS = 50  # rows of an answer that is printed as a table
# Forms that can be written in parts; a table needs the widths of all rows.
STREAMED_FORMATS = ("csv", "spreadsheet", "json", "parquet")


def output_frame(frame: pl.DataFrame, output: TableOutput = TERMINAL_OUTPUT) -> None:
    """Print a frame or write it to a file. Raises ``FailureError`` if the file cannot be written."""
    if output.is_printed:
        console.print_tables([to_table(frame)], wide=output.wide)
    else:
        output_batches(frame.lazy(), lambda: None, output)


def output_batches(rows: pl.LazyFrame, stop: Callable[[], None], output: TableOutput) -> None:
    """Write rows to a file or standard output, in parts if the form is one of ``STREAMED_FORMATS``.

    ``stop`` ends the rows early. Raises ``RequestError`` for dates that Polars does not have, ``FailureError`` if the
    file cannot be written.
    """
    write_rows = _WRITERS[output.form]
    if output.path is None:
        with suppress(BrokenPipeError):  # the reader has closed the pipe early (| head)
            write_rows(rows, stop, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    with replace_file(output.path) as path, path.open("wb") as file:
        write_rows(rows, stop, file)


def print_first_rows(rows: pl.LazyFrame, stop: Callable[[], None], wide: bool | None) -> None:
    """Print the first ``MAX_PRINTED_ROWS`` rows as a table as soon as they are there; if there are more, then how many.

    ``stop`` ends the rows early. Raises ``RequestError`` for dates that Polars does not have.
    """
    waiting: list[pl.DataFrame] = []
    count = 0

    def add_batch(part: pl.DataFrame) -> None:
        nonlocal count
        before, count = count, count + part.height
        if before <= MAX_PRINTED_ROWS:
            waiting.append(part.head(MAX_PRINTED_ROWS - before))
        if before <= MAX_PRINTED_ROWS < count:
            print_waiting_rows()

    def print_waiting_rows() -> None:
        console.print_tables([to_table(check_times(pl.concat(waiting)))], wide=wide)

    waiting.append(rows.collect_schema().to_frame())
    _process_batches(rows, stop, add_batch)
    if count <= MAX_PRINTED_ROWS:
        print_waiting_rows()
    else:
        console.print_note(f"{count:,} rows; --output FILE for all")


def _stream_text(rows: pl.LazyFrame, _stop: Callable[[], None], out: BinaryIO) -> None:
    out.write(format_text(rows.collect()))


def _stream_csv(rows: pl.LazyFrame, stop: Callable[[], None], out: BinaryIO, for_spreadsheet: bool = False) -> None:
    def write_batch(part: pl.DataFrame) -> None:
        out.write(format_csv(check_times(part), False, for_spreadsheet))

    out.write(format_csv(rows.collect_schema().to_frame(), True, for_spreadsheet))
    _process_batches(rows, stop, write_batch, BATCH_ROWS)


def _stream_json(rows: pl.LazyFrame, stop: Callable[[], None], out: BinaryIO) -> None:
    before = b"[\n"

    def write_batch(part: pl.DataFrame) -> None:
        nonlocal before
        for row in check_times(part).iter_rows(named=True):
            out.write(before + _encode_json_row(row))
            before = b",\n"

    _process_batches(rows, stop, write_batch, BATCH_ROWS)
    out.write(b"\n]\n" if before == b",\n" else b"[]\n")


def _stream_parquet(rows: pl.LazyFrame, _stop: Callable[[], None], out: BinaryIO) -> None:
    sink_parquet(rows, out)


_WRITERS: dict[str, Callable[[pl.LazyFrame, Callable[[], None], BinaryIO], None]] = {
    "table": _stream_text,
    "csv": _stream_csv,
    "spreadsheet": partial(_stream_csv, for_spreadsheet=True),
    "json": _stream_json,
    "parquet": _stream_parquet,
}


def _process_batches(
    rows: pl.LazyFrame, stop: Callable[[], None], take: Callable[[pl.DataFrame], object], size: int | None = None
) -> None:
    """Pass the rows to ``take`` in parts of ``size`` rows; None: as they come.

    Raises its first error, when nothing else reads the rows any more.
    """
    errors: list[BaseException] = []

    def process_batch(part: pl.DataFrame) -> None:
        try:
            if not errors:
                take(part)
        except BaseException as error:  # noqa: BLE001  (raised below: Polars would wrap it)
            errors.append(error)
        if errors:
            stop()

    try:
        rows.sink_batches(process_batch, chunk_size=size, maintain_order=True)
    except pl.exceptions.PolarsError:
        if not errors:
            raise
    if errors:
        raise errors[0]


def format_text(frame: pl.DataFrame) -> bytes:
    """The printed table, at full width."""
    return "".join(f"{line}\n" for line in console.render_plain_table(to_table(frame))).encode()


def format_csv(frame: pl.DataFrame, header: bool = True, for_spreadsheet: bool = False) -> bytes:
    """Comma-separated values as ``to_csv`` has them, lists, structs and bytes as JSON: CSV has no form for them."""
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested() or dtype == pl.Binary]
    texts = [pl.Series(name, [_format_json(value) for value in frame[name].to_list()], pl.String) for name in nested]
    return to_csv(frame.with_columns(texts), header, for_spreadsheet)


def _encode_json_row(row: Mapping[str, Any]) -> bytes:
    text = json.dumps({name: _to_json_value(value) for name, value in row.items()}, ensure_ascii=False)
    return escape_hidden_json(text).encode()


def _format_json(value: Any) -> str | None:
    return None if value is None else json.dumps(_to_json_value(value), ensure_ascii=False)


def _to_json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _to_json_value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_to_json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def to_table(frame: pl.DataFrame) -> Table:
    """All rows and columns of a frame, numbers aligned to the right; the last columns are the first to be spared."""
    return console.build_table(
        [
            ResultColumn(
                each.name,
                [format_table_cell(value) for value in each],
                right=each.dtype.is_numeric(),
                drop_priority=index,
            )
            for index, each in enumerate(frame.iter_columns())
        ]
    )


def format_table_cell(value: Any) -> str:
    """A value of a frame as a table shows it."""
    if value is None:
        return "·"
    if isinstance(value, float):
        return format_significant(value, 6, "-")  # as files have it
    return str(value.to_list() if isinstance(value, pl.Series) else value)


def write_json(figures: Mapping[str, Any], path: Path) -> None:
    """Write figures as JSON. Raises ``FailureError`` if the file cannot be written."""
    write_file(path, (json.dumps(figures, indent=1) + "\n").encode())
