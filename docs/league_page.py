"""Write the table of league.md: the standings of a league's site, beside what players.csv says about its players.

Usage: python docs/league_page.py SITE [PAGE]

SITE is the folder that `qarena league page` wrote. PAGE is docs/league.md if none is given. The table between its two
markers is written anew.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from runners.league.standings import format_milliseconds

HERE = Path(__file__).resolve().parent
PLAYERS = HERE / "league_of_public_players" / "players.csv"
START, END = "<!-- The table, by league_page.py. -->\n", "<!-- The end of the table. -->\n"
COLUMNS = (
    *("", "player", "language", "licence", "how it joined", "Elo", "95 % interval", "placement regret", "gift regret"),
    *("ms a turn", "games", "forfeits", "wins against `random`, %", "by its author, %"),
)
# What players.csv would say about an agent of this program.
OURS = {"repository": None, "language": "", "licence": "", "joined": "ours", "published": ""}


def load_rows(site: Path) -> list[dict[str, Any]]:
    """Load the standings of a site, with the wins ``against_random`` in %, and with what ``players.csv`` says."""
    wins = {"first": ("second", "wins"), "second": ("first", "losses")}  # from both sides
    matches = pl.read_parquet(site / "data" / "matches.parquet")
    against_random = pl.concat(
        matches.filter(pl.col(opponent) == "random").select(
            entry=side, against_random=100 * pl.col(won) / pl.col("games")
        )
        for side, (opponent, won) in wins.items()
    )
    standings = pl.read_parquet(site / "data" / "standings.parquet")
    players = pl.read_csv(PLAYERS, infer_schema=False)
    joined = standings.join(against_random, "entry", "left", maintain_order="left").join(
        players, "entry", "left", maintain_order="left"
    )
    return [{**row, **(OURS if row["repository"] is None else {})} for row in joined.iter_rows(named=True)]


def format_row(row: Mapping[str, Any]) -> str:
    """Format a row of the page."""
    repository = row["repository"]
    has_interval = row["elo_low"] is not None and row["elo_high"] is not None
    cells = (
        format_number(row["rank"]),
        f"`{row['entry']}`" + (f", [{repository}](https://github.com/{repository})" if repository else ""),
        row["language"],
        row["licence"] or ("none" if repository else ""),
        row["joined"],
        format_number(row["elo"]),
        f"{format_number(row['elo_low'])} to {format_number(row['elo_high'])}" if has_interval else "",
        format_number(row["placement_regret"], 3),
        format_number(row["gift_regret"], 3),
        "" if row["milliseconds"] is None else format_milliseconds(row["milliseconds"]),
        format_number(row["games"]),
        format_number(row["forfeits"]),
        format_number(row["against_random"], 1),
        row["published"] or "",
    )
    return f"| {' | '.join(cells)} |"


def format_number(value: float | None, decimals: int = 0) -> str:
    """Format a number, with "" for None. The sign of a negative number is a minus sign, and not a hyphen."""
    return "" if value is None else f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}").replace("inf", "∞")


def main(site: Path, page: Path = HERE / "league.md") -> None:
    """Write the table between the two markers of a page anew."""
    before, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        sys.exit(f"{page} lacks a marker: {START.strip()!r} or {END.strip()!r}")
    rows = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *map(format_row, load_rows(site))]
    text = "\n".join(rows)
    page.write_text(f"{before}{start}\n{text}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:])) if len(sys.argv) in {2, 3} else sys.exit(__doc__)
