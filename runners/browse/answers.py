"""The answer to a question in SQL as a table, in which runs, games and positions lead to their pages."""

from __future__ import annotations

from typing import Any

import polars as pl

from analytics.report.content import Cell, PageTable
from analytics.store.records import RUN_ID
from quarto.errors import RequestError
from quarto.notation import parse_position
from runners.browse import links
from runners.terminal.tables import cell_text

MOST_ROWS = 200  # that a page shows: a file has them all
MOST_COLUMNS = 40
MOST_LETTERS = 120  # of a cell
MOST_CELLS = 2_400  # that a page shows


def answer_table(frame: pl.DataFrame) -> PageTable:
    """The first rows and columns of an answer."""
    shown = frame[:, :MOST_COLUMNS]
    rows = min(MOST_ROWS, max(10, MOST_CELLS // max(1, shown.width)))
    shown = shown.head(rows)
    left = [number for number, kind in enumerate(shown.dtypes) if not kind.is_numeric()]
    cells = [[_cell(name, value, row) for name, value in row.items()] for row in shown.to_dicts()]
    what = f"{frame.height:,} {'row' if frame.height == 1 else 'rows'}"
    if shown.height < frame.height:
        what = f"The first {shown.height:,} of {what}"
    if shown.width < frame.width:
        what += f", the first {shown.width} of {frame.width} columns"
    return PageTable(what, shown.columns, cells, left)


def _cell(name: str, value: Any, row: dict[str, Any]) -> Cell:
    text = cell_text(value)
    short = text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
    return Cell(short, link=_link(name, value, row))


def _link(name: str, value: Any, row: dict[str, Any]) -> str:
    run_id = row.get("run_id")
    if isinstance(run_id, str) and RUN_ID.fullmatch(run_id):
        if name == "run_id":
            return links.run_page(run_id)
        if name in ("game_id", "sample_game") and isinstance(value, int):
            return links.game_page(run_id, value)
    if isinstance(value, str) and "position" in name:
        try:
            parse_position(value)
        except RequestError:
            return ""
        return links.analysis_of(value)
    return ""
