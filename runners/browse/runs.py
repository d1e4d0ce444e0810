"""The runs of an archive as rows, and one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analytics.query.game_filter import GameFilter
from analytics.report.content import Cell, PageTable
from analytics.results.columns import interval, percent
from analytics.results.pairings import PairingResult, results
from analytics.sql.database import OpenArchive
from analytics.store.archive import unknown_run
from analytics.store.records import RunRecord
from quarto.errors import RequestError
from runners.browse import links

MOST_AGENTS = 4  # that a row names
STATES = ("complete", "running", "interrupted")


class RunRow(NamedTuple):
    """A run in a list."""

    record: RunRecord
    games: int  # in the archive

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def rules(self) -> str:
        """Their name."""
        return str(self.record.spec["rules"]["name"])

    @property
    def agents(self) -> tuple[str, ...]:
        """The labels."""
        return tuple(dict.fromkeys(self.record.labels))

    @property
    def begun(self) -> str:
        """The time when it began (2026-01-31 12:00, UTC), with the status if it is not complete."""
        created = self.record.created[:16].replace("T", " ")
        return created if self.record.status == "complete" else f"{created}, {self.record.status}"


def matching(rows: Iterable[RunRow], games: GameFilter, status: str = "", text: str = "") -> list[RunRow]:
    """The runs that may have some games, with a status, and a text in their id or one of their agents' labels."""
    return [
        row
        for row in rows
        if status in ("", row.record.status)
        and (not text or any(text.lower() in each.lower() for each in (row.run_id, *row.agents)))
        and games.takes(row.record)
    ]


def run_rows(opened: OpenArchive) -> tuple[RunRow, ...]:
    """All runs, the newest first. Raises ``FailureError`` for a damaged record."""
    archive = opened.archive
    return tuple(
        RunRow(record, archive.ranges(record.run_id).units * record.line.games_a_pair)
        for record in reversed(archive.runs())
    )


class Known(NamedTuple):
    """The names that filters can have."""

    rules: tuple[str, ...]
    agents: tuple[str, ...]


def known(rows: Iterable[RunRow]) -> Known:
    """The rules and agents of runs, the most frequent first and in alphabetical order."""
    counts: dict[str, int] = {}
    agents: set[str] = set()
    for row in rows:
        counts[row.rules] = counts.get(row.rules, 0) + row.games
        agents.update(row.agents)
    return Known(tuple(sorted(counts, key=lambda name: (-counts[name], name))), tuple(sorted(agents)))


def few(labels: Sequence[str]) -> str:
    """The first labels, and how many more there are."""
    more = len(labels) - MOST_AGENTS
    return ", ".join(labels[:MOST_AGENTS]) + (f" and {more} more" if more > 0 else "")


def runs_table(rows: Sequence[RunRow], caption: str) -> PageTable:
    """A table of runs."""
    cells: list[list[str | Cell]] = [
        [
            Cell(row.run_id, code=True, link=links.run_page(row.run_id)),
            few(row.agents),
            row.rules,
            f"{row.games:,}",
            str(row.record.spec["opening_plies"]),
            row.begun,
            "training" if row.record.training else "",
        ]
        for row in rows
    ]
    headings = ["run", "agents", "rules", "games", "imposed plies", "begun (UTC)", ""]
    return PageTable(caption, headings, cells, (1, 2, 5, 6))


class OneRun(NamedTuple):
    """A run: its properties and results."""

    record: RunRecord
    games: int
    properties: PageTable
    pairings: PageTable


MOST_PAIRINGS = 100  # rows


def one_run(opened: OpenArchive, run_id: str) -> OneRun:
    """A run by its id. Raises ``RequestError`` if there is none."""
    record = opened.archive.run(run_id)
    if record is None:
        raise unknown_run(opened.archive, run_id, opened.archive.recorded())
    found = results(opened.archive, run_id)
    held = opened.archive.ranges(run_id)
    games = held.units * record.line.games_a_pair
    properties = _properties(record, games, f"{held.fingerprint:016x}")
    return OneRun(record, games, properties, _pairings(record, found))


def _properties(record: RunRecord, games: int, fingerprint: str) -> PageTable:
    spec, code = record.spec, record.code
    asked = record.games * len(record.pairings)
    values = {
        "status": record.status,
        "rules": record.rules.name,
        "games": f"{games:,}" if games == asked else f"{games:,} of {asked:,}",
        "fingerprint of the games": fingerprint,
        "seats": "swapped in each pair" if record.swapped else "fixed",
        "imposed plies": str(spec["opening_plies"]),
        "seed": str(spec["seed"]),
        "begun": f"{record.created[:19].replace('T', ' ')} UTC",
        "time playing": f"{record.seconds:,.1f} s",
        "code": f"{code.get('version', '?')}, fingerprint {code.get('fingerprint', '?')}",
        "command": record.command,
    }
    rows: list[list[str | Cell]] = [[name, Cell(value, code=name == "command")] for name, value in values.items()]
    return PageTable("Properties of the run", ["property", "value"], rows, (1,))


def _pairings(record: RunRecord, found: Sequence[PairingResult]) -> PageTable:
    rows: list[list[str | Cell]] = [
        [
            Cell(each.first, link=_games_of(record, each)),
            each.second,
            f"{each.games:,}",
            percent(each.score.mean),
            interval(each.score.low, each.score.high, percent),
            *(f"{count:,}" for count in (each.wins, each.draws, each.losses)),
            f"{each.mean_plies:.2f}",
        ]
        for each in found[:MOST_PAIRINGS]
    ]
    shown = "" if len(found) <= MOST_PAIRINGS else f" (the first {MOST_PAIRINGS} of {len(found):,})"
    shares = ("score, %", "95 % interval", "won, %", "drawn, %", "lost, %")
    headings = ["first agent", "second agent", "games", *shares, "plies a game"]
    return PageTable(f"Results of the first agent{shown}", headings, rows, (1,))


def _games_of(record: RunRecord, pairing: PairingResult) -> str:
    return links.games_page(run=record.run_id, agent=pairing.first, opponent=pairing.second)


def chosen_records(opened: OpenArchive, games: GameFilter) -> list[RunRecord]:
    """The runs that may have these games. Raises ``RequestError`` if there are none."""
    found = games.records(opened.archive)
    if not found:
        raise RequestError("all runs here are those of trainings")
    return found
