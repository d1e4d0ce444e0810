"""Rows as text tables, CSV, JSON and Parquet, written in batches if the format allows it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

import polars as pl

from analytics.questions.columns import to_escaped_csv
from analytics.questions.sql.query_execution import check_times, sink_parquet
from analytics.report.text_tables import render_plain_table, to_table
from analytics.store.texts import escape_hidden_json

BATCH_ROWS = 1 << 16
# Formats that can be written in parts; a table needs the widths of all rows.
STREAMED_FORMATS = ("csv", "spreadsheet", "json", "parquet")
FRAME_FORMATS = ("table", *STREAMED_FORMATS)  # formats that need only rows


def write_rows(format_name: str, rows: pl.LazyFrame, cancel_query: Callable[[], None], out: BinaryIO) -> None:
    """Write rows to ``out`` in a format: ``table``, ``csv``, ``spreadsheet``, ``json`` or ``parquet``.

    ``spreadsheet`` is CSV escaped so that spreadsheet programs do not read any text as a formula. The formats in
    ``STREAMED_FORMATS`` are written in batches. ``cancel_query`` is a function that ends the query; it is called if a
    batch cannot be written. Raises ``RequestError`` for dates that Polars cannot represent.
    """
    _WRITERS[format_name](rows, cancel_query, out)


def _stream_text(rows: pl.LazyFrame, _cancel_query: Callable[[], None], out: BinaryIO) -> None:
    out.write(format_text_table(rows.collect()))


def _stream_csv(
    rows: pl.LazyFrame, cancel_query: Callable[[], None], out: BinaryIO, for_spreadsheet: bool = False
) -> None:
    """Write rows to ``out`` as CSV: first the header, and then the rows in batches.

    With ``for_spreadsheet``, texts are escaped so that a spreadsheet program does not read them as formulas.
    """

    def write_batch_without_header(batch: pl.DataFrame) -> None:
        out.write(format_csv(check_times(batch), False, for_spreadsheet))

    out.write(format_csv(rows.collect_schema().to_frame(), True, for_spreadsheet))
    pass_batches_and_cancel_on_error(rows, cancel_query, write_batch_without_header, BATCH_ROWS)


def _stream_json(rows: pl.LazyFrame, cancel_query: Callable[[], None], out: BinaryIO) -> None:
    """Write rows to ``out`` in batches, as one JSON array with an object for each row."""
    separator = b"[\n"

    def write_batch(batch: pl.DataFrame) -> None:
        nonlocal separator
        for row in check_times(batch).iter_rows(named=True):
            out.write(separator + _encode_json_row(row))
            separator = b",\n"

    pass_batches_and_cancel_on_error(rows, cancel_query, write_batch, BATCH_ROWS)
    out.write(b"\n]\n" if separator == b",\n" else b"[]\n")


def _stream_parquet(rows: pl.LazyFrame, _cancel_query: Callable[[], None], out: BinaryIO) -> None:
    sink_parquet(rows, out)


_WRITERS: dict[str, Callable[[pl.LazyFrame, Callable[[], None], BinaryIO], None]] = {
    "table": _stream_text,
    "csv": _stream_csv,
    "spreadsheet": partial(_stream_csv, for_spreadsheet=True),
    "json": _stream_json,
    "parquet": _stream_parquet,
}


def pass_batches_and_cancel_on_error(
    rows: pl.LazyFrame,
    cancel_query: Callable[[], None],
    receive_batch: Callable[[pl.DataFrame], object],
    size: int | None = None,
) -> None:
    """Pass the rows to ``receive_batch`` in batches of ``size`` rows, or in Polars' own batches if ``size`` is None.

    After the first error of ``receive_batch``, ``cancel_query`` is called to end the query, and no more rows are
    passed. The error is raised only after all threads have stopped reading rows.
    """
    errors: list[BaseException] = []

    def receive_batch_or_cancel_query(batch: pl.DataFrame) -> None:
        try:
            if not errors:
                receive_batch(batch)
        except BaseException as error:  # noqa: BLE001  (raised below, because Polars would wrap it)
            errors.append(error)
        if errors:
            cancel_query()

    try:
        rows.sink_batches(receive_batch_or_cancel_query, chunk_size=size, maintain_order=True)
    except pl.exceptions.PolarsError:
        if not errors:
            raise
    if errors:
        raise errors[0]


def format_text_table(frame: pl.DataFrame) -> bytes:
    """Format a frame as a text table at full width, encoded in UTF-8."""
    return "".join(f"{line}\n" for line in render_plain_table(to_table(frame))).encode()


def format_csv(frame: pl.DataFrame, header: bool = True, for_spreadsheet: bool = False) -> bytes:
    """Format a frame as CSV, encoded in UTF-8: see ``to_escaped_csv``.

    Lists, structs and bytes become JSON, because CSV has no form for them.
    """
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested() or dtype == pl.Binary]
    texts = [pl.Series(name, [_format_json(value) for value in frame[name].to_list()], pl.String) for name in nested]
    return to_escaped_csv(frame.with_columns(texts), header, for_spreadsheet)


def _encode_json_row(row: Mapping[str, Any]) -> bytes:
    """Encode a row as a JSON object in UTF-8; invisible characters, such as control characters, are escaped."""
    text = json.dumps({name: _to_json_value(value) for name, value in row.items()}, ensure_ascii=False)
    return escape_hidden_json(text).encode()


def _format_json(value: Any) -> str | None:
    """Format a nested value as JSON; return None for None."""
    return None if value is None else json.dumps(_to_json_value(value), ensure_ascii=False)


def _to_json_value(value: Any) -> Any:
    """Convert a value to JSON values: infinite numbers and NaN to None, bytes to hex digits, dates to text."""
    if isinstance(value, dict):
        return {str(key): _to_json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int | float) else str(value)
