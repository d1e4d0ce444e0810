"""`qarena openings`: print the decisions in a position and their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import polars as pl

from analytics import open_archive
from analytics.query.openings import Explored, OpeningsQuery, checked, explore
from analytics.results.columns import ResultColumn, column, intervals, percent, words
from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.notation import format_position
from runners.archive.index import bring_all_up_to_date
from runners.terminal import console
from runners.terminal.console import TerminalTable
from runners.terminal.tables import TableOutput, write

MAX_TURNS = 16  # rows of the table that is shown without --by
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
        console.show([_table(found, found.rows, "")], wide=output.wide)
        if asked.by is None and found.by != "turn":
            turns = explore(opened, replace(asked, by="turn"))
            shown = turns.rows.head(MAX_TURNS)
            note = f", the {len(shown)} most played of {len(turns.rows)} (all: --by turn)"
            console.show([_table(turns, shown, note if len(shown) < len(turns.rows) else "")], wide=output.wide)


def _table(found: Explored, rows: pl.DataFrame, note: str) -> TerminalTable:
    """The decisions with their results and sample games; the samples are the first that a narrow terminal spares."""
    text = format_position(found.position, found.rules.name)
    title = f"{text}: {found.games:,} games by {found.by}{note}; in %, for {PLAYERS[found.by]}"
    columns = _columns(rows)
    sample = ResultColumn("sample", rows["sample"].to_list(), right=False, spare=9)
    return console.tabulated([*columns, sample], title)


def _columns(rows: pl.DataFrame) -> list[ResultColumn]:
    names = [name for name in ("piece", "cell", "gift") if name in rows.columns]
    columns = [words(name, [value or "·" for value in rows[name]]) for name in names]
    columns += [column("alike", rows["alike"], spare=2), column("games", rows["games"])]
    columns.append(column("share", rows["share"], percent, spare=1))
    for name, spare in (("win", 0), ("draw", 5), ("loss", 4)):
        columns.append(column(name, rows[f"{name}_rate"], percent, spare))
        columns.append(intervals(rows[f"{name}_low"], rows[f"{name}_high"], spare=spare + 3))
    return columns
