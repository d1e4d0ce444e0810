"""Frames and figures as tables, files and JSON."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.table import Table

from analytics.perfect.tablebase import Card, Tablebase
from quarto.errors import FailureError, RequestError, nearest
from quarto.perft import Layer
from runners.arena.config import agent_settings, names
from runners.arena.spec import NOT_PARAMETERS
from runners.terminal import console

if TYPE_CHECKING:
    from runners.bench.turn_times import TurnTimes

RUNS = """
SELECT run_id, status, rules,
       if(len(agents) > 2 AND length(array_to_string(agents, ', ')) > 100,
          format('{} and {} others', agents[1], len(agents) - 1), array_to_string(agents, ', ')) AS agents,
       seed, opening_plies, games, games_asked, shards,
       strftime(created, '%Y-%m-%d %H:%M') AS created, round(seconds, 1) AS seconds
FROM runs ORDER BY created
"""


FORMS = ("table", "csv", "json", "parquet")


def tablebase_tables(found: Sequence[Tablebase]) -> list[Table]:
    """The tablebases there are, then for each its boards by pieces and value for the player to act."""
    cards = [each.card for each in found]
    columns = [
        console.Column("rules", [str(card.rules["name"]) for card in cards], right=False),
        console.Column("pieces", [str(card.pieces) for card in cards]),
        console.Column("boards", [f"{sum(card.boards):,}" for card in cards]),
        console.Column("bytes", [f"{card.bytes:,}" for card in cards]),
        console.Column("thread seconds", [f"{card.seconds:,.0f}" for card in cards]),
        console.Column("built", [card.created[:10] for card in cards], right=False),
        console.Column("file", ["ships" if each.shipped else str(each.path) for each in found], right=False),
    ]
    return [console.tabulated(columns), *map(_layers_table, cards)]


def _layers_table(card: Card) -> Table:
    parts = {"boards": card.boards, "won": card.won, "drawn": card.drawn, "lost": card.lost}
    columns = [console.Column(name, [f"{count:,}" for count in counts]) for name, counts in parts.items()]
    pieces = console.Column("pieces", [str(pieces) for pieces in range(card.pieces + 1)])
    return console.tabulated([pieces, *columns], f"{card.rules['name']}, up to {card.pieces} pieces")


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


def agents_table() -> Table:
    """Every agent of the configuration with its parameters and their defaults."""
    settings = {name: agent_settings(name) for name in names("agent")}
    params = [
        ", ".join(f"{key}={value}" for key, value in own.items() if key not in NOT_PARAMETERS)
        for own in settings.values()
    ]
    targets = [str(own.get("_target_")) for own in settings.values()]
    headings = zip(("agent", "parameters", "class"), (list(settings), params, targets), strict=True)
    return console.tabulated([console.Column(heading, values, right=False) for heading, values in headings])


def properties_table(properties: Sequence[tuple[str, str]], title: str) -> Table:
    """Names and values, one below the other."""
    headings = zip(("property", "value"), zip(*properties, strict=True), strict=True)
    return console.tabulated([console.Column(heading, [*texts], right=False) for heading, texts in headings], title)


def perft_table(rules: str, layers: Sequence[Layer]) -> Table:
    """Counts by ply."""
    headings = ("ply", "live prefixes", "games won at ply", "canonical boards", "of them live")
    columns = [
        console.Column(heading, [f"{count:,}" for count in counts])
        for heading, counts in zip(headings, zip(*layers, strict=True), strict=True)
    ]
    return console.tabulated(columns, f"perft, {rules} rules")


TARGET = "target_"  # how the name of a figure begins that says what another one ought to be


def bench_table(figures: Mapping[str, Any]) -> Table:
    """Figures as a flat table, each beside its target if the project states one."""
    flat = _flat(figures, "")
    shown = [name for name in flat if not name.rpartition(".")[2].startswith(TARGET)]
    targets = [re.sub(r"[^.]*$", TARGET + r"\g<0>", name, count=1) for name in shown]
    columns = [
        console.Column("figure", shown, right=False),
        console.Column("value", [_figure(flat[name]) for name in shown]),
        console.Column("target", [_figure(flat[target]) if target in flat else "" for target in targets]),
    ]
    return console.tabulated(columns, "bench")


def _flat(figures: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for key, value in figures.items():
        rows |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return rows


def show_turns(times: TurnTimes) -> None:
    """Print the microseconds of an agent's turns by pieces on the board, beside what a study published."""
    rows, known = times.rows(), times.published()
    pieces = console.Column("pieces", [f"{number}" for number in rows])
    counts = console.Column("positions", [f"{len(times.samples[number]):,}" for number in rows])
    measured = [
        console.Column(name.replace("_", " "), [_microseconds(row[name]) for row in rows.values()])
        for name in next(iter(rows.values()), {})
    ]
    medians = {f"study D, {language}": median for language, median in known.get("medians", {}).items()}
    beside = [
        console.Column(name, [_microseconds(median) if number == known["pieces"] else "" for number in rows])
        for name, median in medians.items()
    ]
    title = f"{times.agent.label}, {times.rules.name} rules: microseconds a turn takes (quartiles as in R, type 7)"
    narrow = [console.tabulated([pieces, *measured], title)]
    if medians:
        headings = [console.Column(name, [_microseconds(median)]) for name, median in medians.items()]
        narrow.append(console.tabulated(headings, f"Published medians, {known['pieces']} pieces"))
    console.show([console.tabulated([pieces, counts, *measured, *beside], title)], narrow)


def _microseconds(value: float) -> str:
    return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"


def _figure(value: Any) -> str:
    if isinstance(value, float) and abs(value) < 100:
        return f"{value:,.3f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def write_json(figures: Mapping[str, Any], path: Path) -> None:
    """Figures as JSON. Raises ``FailureError`` when the file cannot be written."""
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
