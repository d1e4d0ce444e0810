"""Write the tables of league.md from the site of a league, and from what players.csv says about its players.

Usage: python docs/league_page.py SITE [PAGE]

SITE is the folder that `qarena league page` wrote. PAGE is docs/league.md if none is given. Each table between its two
markers is written anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from analytics.statistics.tally import wilson_interval
from runners.league.standings import format_milliseconds

HERE = Path(__file__).resolve().parent
PLAYERS = HERE / "league_of_public_players" / "players.csv"
# Nine narrow columns: a page has room for no more.
STANDINGS_COLUMNS = (
    *("", "player", "Elo", "95 % interval", "placement regret", "gift regret", "ms a turn", "games", "forfeits"),
)
PUBLISHED_COLUMNS = ("player", "by its author, %", "here, %", "95 % interval")
PLAYERS_COLUMNS = ("repository", "players", "language", "licence", "how they joined")
TEXT_COLUMNS = {"player", *PLAYERS_COLUMNS}  # the others are numbers, which stand on the right


def load_rows(site: Path) -> list[dict[str, Any]]:
    """Load the standings of a site, with the wins ``against_random`` in %, and with what ``players.csv`` says."""
    wins = {"first": ("second", "wins"), "second": ("first", "losses")}  # from both sides
    matches = pl.read_parquet(site / "data" / "matches.parquet")
    against_random = pl.concat(
        matches.filter(pl.col(opponent) == "random").select(
            entry=side, against_random=100 * pl.col(won) / pl.col("games"), games_against_random="games"
        )
        for side, (opponent, won) in wins.items()
    )
    standings = pl.read_parquet(site / "data" / "standings.parquet")
    joined = standings.join(against_random, "entry", "left", maintain_order="left").join(
        load_players(), "entry", "left", maintain_order="left"
    )
    return [*joined.iter_rows(named=True)]


def load_players() -> pl.DataFrame:
    """Load what ``players.csv`` says about the public players; every column is text."""
    return pl.read_csv(PLAYERS, infer_schema=False)


def build_tables(site: Path) -> dict[str, str]:
    """Build the tables of the page, by their names."""
    rows = load_rows(site)
    published = [row for row in rows if row["published"]]
    return {
        "standings": format_table(STANDINGS_COLUMNS, map(list_standings_cells, rows)),
        "published": format_table(PUBLISHED_COLUMNS, map(list_published_cells, published)),
        "players": build_players_table(),
    }


def build_players_table() -> str:
    """Build the table of the repositories: a row for the players of one that joined in the same way."""
    keys = ("repository", "language", "licence", "joined")
    players = load_players().sort(pl.col("repository").str.to_lowercase(), maintain_order=True)
    groups = groupby(players.iter_rows(named=True), key=lambda row: [row[key] or "" for key in keys])
    return format_table(
        PLAYERS_COLUMNS,
        (
            (
                f"[{repository}](https://github.com/{repository})",
                ", ".join(f"`{row['entry']}`" for row in rows),
                language,
                licence or "none",
                joined,
            )
            for (repository, language, licence, joined), rows in groups
        ),
    )


def list_standings_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """List the cells of a player in the standings; a public player links to its repository."""
    name, repository = f"`{row['entry']}`", row["repository"]
    return (
        format_number(row["rank"]),
        f"[{name}](https://github.com/{repository})" if repository else name,
        format_number(row["elo"]),
        format_interval(row["elo_low"], row["elo_high"]),
        format_number(row["placement_regret"], 3),
        format_number(row["gift_regret"], 3),
        "" if row["milliseconds"] is None else format_milliseconds(row["milliseconds"]),
        format_number(row["games"]),
        format_number(row["forfeits"]),
    )


def list_published_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """List the cells of a player whose author published how many games it wins against random play."""
    wins, games = row["against_random"], row["games_against_random"]
    low, high = (None, None) if wins is None else (100 * bound for bound in wilson_interval(wins * games / 100, games))
    return (
        f"`{row['entry']}`",
        row["published"],
        format_number(wins, 1),
        format_interval(low, high, 1),
    )


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table of Markdown, with numbers on the right."""
    rule = "".join("---|" if column in TEXT_COLUMNS else "---:|" for column in columns)
    lines = [f"| {' | '.join(columns)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def format_interval(low: float | None, high: float | None, decimals: int = 0) -> str:
    """Format an interval, with "" if a bound is missing."""
    return "" if low is None or high is None else f"{format_number(low, decimals)} to {format_number(high, decimals)}"


def format_number(value: float | None, decimals: int = 0) -> str:
    """Format a number, with "" for None. The sign of a negative number is a minus sign, and not a hyphen."""
    return "" if value is None else f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}").replace("inf", "∞")


def write_table(text: str, name: str, table: str) -> str:
    """Return the text of a page with another table between the markers of this name. Exits if one is missing."""
    start, end = f"<!-- The table of {name}, by league_page.py. -->\n", f"<!-- The end of the table of {name}. -->\n"
    if start not in text or end not in text:
        sys.exit(f"the page lacks a marker: {start.strip()!r} or {end.strip()!r}")
    before, _, rest = text.partition(start)
    after = rest.partition(end)[2]
    return f"{before}{start}\n{table}\n\n{end}{after}"


def main(site: Path, page: Path = HERE / "league.md") -> None:
    """Write the tables of a page anew."""
    text = page.read_text(encoding="utf-8")
    for name, table in build_tables(site).items():
        text = write_table(text, name, table)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:])) if len(sys.argv) in {2, 3} else sys.exit(__doc__)
