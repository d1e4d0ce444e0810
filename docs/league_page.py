"""Write the table of league.md: the players that league_of_public_players/players.csv describes, with their results.

Usage: python docs/league_page.py LEAGUE [PAGE]

LEAGUE is the folder in which both leagues were played: its own, and the gauntlet in LEAGUE/slow. All games of both are
rated together. PAGE is docs/league.md if none is given. The table between its two markers is written anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from analytics import open_archive
from analytics.questions.pairings import PairingResult
from analytics.questions.selection import select_whole_runs
from analytics.report.report_data import ReportData
from runners.league.entries import open_league
from runners.league.standings import LeagueResults, format_milliseconds, load_league_results

HERE = Path(__file__).resolve().parent
PLAYERS = HERE / "league_of_public_players" / "players.csv"
START, END = "<!-- The table, by league_page.py. -->\n", "<!-- The end of the table. -->\n"
COLUMNS = (
    *("", "player", "language", "licence", "how it joined", "Elo", "95 % interval", "placement regret", "gift regret"),
    *("ms a turn", "games", "forfeits", "wins against `random`, %", "by its author, %"),
)
RANDOM = "random"


def load_rows(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Load the joint standings of several leagues that have one archive, with ``wins``: in % against ``random``."""
    leagues = []
    for folder in folders:
        with open_league(folder) as league:
            leagues.append(league)
    with open_archive(leagues[0].root) as opened:
        parts = [load_league_results(league, opened) for league in leagues]
        runs = {run.run_id: run for part in parts for run in part.data.selection.runs}
        entries = {entry.name: entry for league in leagues for entry in league.entries}
        notes = {note.run_id: note for part in parts for note in part.match_notes}
        joint = LeagueResults(
            replace(leagues[0], entries=tuple(entries.values())),
            parts[0].notes,
            tuple(notes.values()),
            ReportData(select_whole_runs(opened, [*runs.values()])),
        )
        wins = measure_wins(joint.data.results_summed_over_runs)
        return [{**row, "wins": wins.get(row["entry"])} for row in joint.standings.iter_rows(named=True)]


def measure_wins(results: Iterable[PairingResult]) -> dict[str, float]:
    """Return the wins against ``random`` in % of all games, by opponent."""
    return {
        **{result.first: 100 * result.wins / result.games for result in results if result.second == RANDOM},
        **{result.second: 100 * result.losses / result.games for result in results if result.first == RANDOM},
    }


def format_row(row: Mapping[str, Any], player: Mapping[str, str] | None) -> str:
    """Format a row of the page. ``player`` describes a public player; it is None for an agent of this program."""
    name, joined = f"`{row['entry']}`", ("", "", "ours")
    if player is not None:
        name = f"`{row['entry']}`, [{player['repository']}](https://github.com/{player['repository']})"
        joined = (player["language"], player["licence"] or "none", player["joined"])
    has_interval = row["elo_low"] is not None and row["elo_high"] is not None
    cells = (
        format_number(row["rank"]),
        name,
        *joined,
        format_number(row["elo"]),
        f"{format_number(row['elo_low'])} to {format_number(row['elo_high'])}" if has_interval else "",
        format_number(row["placement_regret"], 3),
        format_number(row["gift_regret"], 3),
        "" if row["milliseconds"] is None else format_milliseconds(row["milliseconds"]),
        format_number(row["games"]),
        format_number(row["forfeits"]),
        format_number(row["wins"], 1),
        player["published"] or "" if player else "",
    )
    return f"| {' | '.join(cells)} |"


def format_number(value: float | None, decimals: int = 0) -> str:
    """Format a number, with "" for None. The sign of a negative number is a minus sign, and not a hyphen."""
    return "" if value is None else f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}").replace("inf", "∞")


def write_table(page: Path, rows: Iterable[Mapping[str, Any]], players: Mapping[str, Mapping[str, str]]) -> None:
    """Write the table between the two markers of a page anew."""
    before, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        sys.exit(f"{page} lacks a marker: {START.strip()!r} or {END.strip()!r}")
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [format_row(row, players.get(row["entry"])) for row in rows]
    text = "\n".join(lines)
    page.write_text(f"{before}{start}\n{text}\n\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Load the results, and write the table."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    league, page = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else HERE / "league.md"
    players = {row["entry"]: row for row in pl.read_csv(PLAYERS, infer_schema=False).iter_rows(named=True)}
    write_table(page, load_rows((league, league / "slow")), players)


if __name__ == "__main__":
    main()
