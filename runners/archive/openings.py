"""`qarena openings`: print the decisions in a position and their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import polars as pl

from analytics import open_archive
from analytics.query.openings import Explored, OpeningsQuery, cells_alike, checked, explore
from analytics.results.columns import game_name, opening_columns, words
from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.notation import format_cell, format_position
from runners.archive.index import bring_all_up_to_date
from runners.terminal import console
from runners.terminal.files import TableOutput
from runners.terminal.tables import write

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
