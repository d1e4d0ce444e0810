"""`qarena openings`: print the decisions in a position and their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import polars as pl

from analytics import open_archive
from analytics.query.openings import Explored, OpeningsQuery, checked, explore
from analytics.statistics.intervals import Estimate
from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.notation import format_position
from runners.archive.index import bring_all_up_to_date
from runners.terminal import console
from runners.terminal.console import Table
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


def _table(found: Explored, rows: pl.DataFrame, note: str) -> Table:
    """The decisions with their results and sample games; the samples are the first that a narrow terminal spares."""
    text = format_position(found.position, found.rules.name)
    title = f"{text}: {found.games:,} games by {found.by}{note}; in %, for {PLAYERS[found.by]}"
    columns = _columns(rows)
    sample = console.Column("sample", rows["sample"].to_list(), right=False, spare=9)
    return console.tabulated([*columns, sample], title)


def _columns(rows: pl.DataFrame) -> list[console.Column]:
    names = [name for name in ("piece", "cell", "gift") if name in rows.columns]
    columns = [console.Column(name, [value or "·" for value in rows[name].to_list()], right=False) for name in names]
    for name, spare in (("alike", 2), ("games", 0)):
        columns.append(console.Column(name, [f"{value:,}" for value in rows[name].to_list()], spare=spare))
    columns.append(console.Column("share", [console.percent(share) for share in rows["share"].to_list()], spare=1))
    for name, spare in (("win", 0), ("draw", 5), ("loss", 4)):
        rate, low, high = (rows[f"{name}_{each}"].to_list() for each in ("rate", "low", "high"))
        columns.append(console.Column(name, [console.percent(value) for value in rate], spare=spare))
        estimates = map(Estimate, rate, low, high)
        columns.append(console.Column("95 % interval", [console.interval(each) for each in estimates], spare=spare + 3))
    return columns
