"""Frames and figures as tables, files and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from quarto.errors import FailureError
from runners import display
from runners.config import agent_settings, names
from runners.spec import NOT_PARAMETERS

RUNS = """
SELECT run_id, status, rules, array_to_string(agents, ', ') AS agents, seed, opening_plies, games, games_asked, shards,
       strftime(created, '%Y-%m-%d %H:%M') AS created, round(seconds, 1) AS seconds
FROM runs ORDER BY created
"""


def write(frame: pl.DataFrame, form: str, output: Path | None) -> None:
    """Print a frame, or write it to ``output``, as ``table``, ``csv``, ``json`` (one array of objects) or ``parquet``.

    Raises ``FailureError`` when the file cannot be written.
    """
    if form == "table" and output is None:
        display.out().print(table_of(frame))
        return
    try:
        if output is not None:
            _write_to(output, frame, form)
        else:
            _write_to_stdout(frame, form)
    except OSError as error:
        raise FailureError(f"cannot write {output}: {error.strerror or error}") from error


def _write_to(output: Path, frame: pl.DataFrame, form: str) -> None:
    match form:
        case "csv":
            frame.write_csv(output)
        case "json":
            output.write_text(as_json(frame), encoding="utf-8")
        case "parquet":
            frame.write_parquet(output)
        case _:
            from rich.console import Console

            with output.open("w", encoding="utf-8") as file:
                Console(file=file, width=10_000).print(table_of(frame))


def _write_to_stdout(frame: pl.DataFrame, form: str) -> None:
    import sys

    match form:
        case "csv":
            sys.stdout.write(frame.write_csv())
        case "json":
            sys.stdout.write(as_json(frame))
        case _:
            frame.write_parquet(sys.stdout.buffer)


def as_json(frame: pl.DataFrame) -> str:
    """One array of objects; what JSON has no type for is text."""
    return json.dumps(frame.to_dicts(), default=str, ensure_ascii=False, indent=1) + "\n"


def table_of(frame: pl.DataFrame) -> Table:
    """A frame as it is: numbers to the right, nothing folded or left out."""
    table = Table(show_header=True)
    for name, dtype in frame.schema.items():
        table.add_column(name, justify="right" if dtype.is_numeric() else "left", no_wrap=True)
    for row in frame.iter_rows():
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "·"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def agents_table() -> Table:
    """Every agent of the configuration with its parameters and their defaults."""
    table = Table()
    for heading in ("agent", "parameters", "class"):
        table.add_column(heading, no_wrap=True)
    for name in names("agent"):
        settings = agent_settings(name)
        params = ", ".join(f"{key}={value}" for key, value in settings.items() if key not in NOT_PARAMETERS)
        table.add_row(name, params, str(settings.get("_target_")))
    return table


def perft_table(rules: str, layers: Sequence[Any]) -> Table:
    """Counts by ply."""
    table = Table(title=f"perft, {rules} rules", title_justify="left")
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in layers:
        table.add_row(*(f"{count:,}" for count in layer))
    return table


def bench_table(figures: Mapping[str, Any], prefix: str = "") -> Table:
    """Figures as a flat table."""
    table = Table(title="bench", title_justify="left")
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for key, value in _flat(figures, prefix):
        table.add_row(key, f"{value:,.3f}" if isinstance(value, float) and abs(value) < 100 else _thousands(value))
    return table


def _flat(figures: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in figures.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return rows


def _thousands(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def write_json(figures: Mapping[str, Any], path: Path) -> None:
    """Figures as JSON. Raises ``FailureError`` when the file cannot be written."""
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
