"""Frames and figures as tables, files and JSON."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.table import Table

from quarto.errors import FailureError, RequestError, nearest
from runners.terminal import console

if TYPE_CHECKING:
    pass


FORMS = ("table", "csv", "json", "parquet")


def write(frame: pl.DataFrame, form: str | None = None, output: Path | None = None) -> None:
    """Print a frame, or write it to ``output``, as ``table``, ``csv``, ``json`` (one array of objects) or ``parquet``.

    Without ``form`` it is what the name of ``output`` ends with, or a table. Raises ``RequestError`` for a
    file of another kind, ``FailureError`` when it cannot be written.
    """
    form = form_of(form, output)
    if form == "table" and output is None:
        console.show([table_of(frame)])
        return
    content = {"table": as_text, "csv": as_csv, "json": as_json, "parquet": as_parquet}[form](frame)
    if output is None:
        with suppress(BrokenPipeError):  # whoever reads has seen enough
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise FailureError(f"cannot write {output}: {error.strerror or error}") from error


def form_of(form: str | None, output: Path | None) -> str:
    """The format to write: what is asked for, else what the name of the file ends with, else a table.

    Raises ``RequestError`` for a name with an ending of another kind.
    """
    ending = output.suffix[1:] if output else ""
    if form or not ending:
        return form or "table"
    if ending in ("txt", *FORMS):
        return ending if ending in FORMS else "table"
    raise RequestError(
        f"--output {output}: its format is not known, name it with --format or let it end with one of "
        f"{', '.join(f'.{each}' for each in FORMS)}{nearest(ending, FORMS)}"
    )


def as_text(frame: pl.DataFrame) -> bytes:
    """The table as it is printed, as wide as it needs to be."""
    text = io.StringIO()
    Console(file=text, width=1 << 16).print(table_of(frame), crop=False, soft_wrap=True)
    return text.getvalue().encode()


def as_csv(frame: pl.DataFrame) -> bytes:
    """Comma-separated values; lists and maps, for which CSV has no form, as JSON."""
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested() or dtype == pl.Binary]
    texts = [pl.Series(name, [_json_text(value) for value in frame[name].to_list()], pl.String) for name in nested]
    return frame.with_columns(texts).write_csv().encode()


def as_json(frame: pl.DataFrame) -> bytes:
    """One array of objects; what JSON has no form for is text, and what is not a number null."""
    rows = [{name: _json_value(value) for name, value in row.items()} for row in frame.to_dicts()]
    return (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode()


def as_parquet(frame: pl.DataFrame) -> bytes:
    """A Parquet file."""
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def _json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(_json_value(value), ensure_ascii=False)


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def table_of(frame: pl.DataFrame) -> Table:
    """A frame as it is: numbers to the right, nothing folded or left out."""
    columns = frame.iter_columns()
    return console.tabulated(
        [console.Column(each.name, [_cell(value) for value in each], right=each.dtype.is_numeric()) for each in columns]
    )


def _cell(value: Any) -> str:
    if value is None:
        return "·"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value.to_list() if isinstance(value, pl.Series) else value)


def properties_table(properties: Sequence[tuple[str, str]], title: str) -> Table:
    """Names and values, one below the other."""
    headings = zip(("property", "value"), zip(*properties, strict=True), strict=True)
    return console.tabulated([console.Column(heading, [*texts], right=False) for heading, texts in headings], title)


def write_json(figures: Mapping[str, Any], path: Path) -> None:
    """Figures as JSON. Raises ``FailureError`` when the file cannot be written."""
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
