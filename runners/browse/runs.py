"""The runs of an archive as rows, and one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analytics.report.content import Cell, Table
from analytics.report.sections import interval, percent
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

    run_id: str
    created: str  # 2026-01-31 12:00, UTC
    rules: str
    agents: tuple[str, ...]  # labels
    games: int  # in the archive
    asked: int  # games that were asked for
    opening_plies: int
    status: str
    training: bool

    @property
    def begun(self) -> str:
        """The time when it began, with the status if it is not complete."""
        return self.created if self.status == "complete" else f"{self.created}, {self.status}"


@dataclass(frozen=True)
class RunFilter:
    """The runs that are listed."""

    rules: str = ""
    agent: str = ""  # label
    status: str = ""
    text: str = ""  # in the run's id or one of its agents' labels

    def takes(self, row: RunRow) -> bool:
        """Whether a run meets all of it."""
        return (
            self.rules in ("", row.rules)
            and self.status in ("", row.status)
            and (not self.agent or self.agent in row.agents)
            and (not self.text or any(self.text.lower() in each.lower() for each in (row.run_id, *row.agents)))
        )


def run_rows(opened: OpenArchive) -> tuple[RunRow, ...]:
    """All runs, the newest first. Raises ``FailureError`` for a damaged record."""
    archive = opened.archive
    return tuple(_row(record, archive.log(record.run_id).summary.games) for record in reversed(archive.runs()))


def _row(record: RunRecord, games: int) -> RunRow:
    return RunRow(
        record.run_id,
        record.created[:16].replace("T", " "),
        record.spec["rules"]["name"],
        tuple(dict.fromkeys(record.labels)),
        games,
        record.games * len(record.spec["pairings"]),
        record.spec["opening_plies"],
        record.status,
        record.training,
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


def runs_table(rows: Sequence[RunRow], caption: str) -> Table:
    """A table of runs."""
    cells: list[list[str | Cell]] = [
        [
            Cell(row.run_id, code=True, link=links.run_page(row.run_id)),
            few(row.agents),
            row.rules,
            f"{row.games:,}",
            str(row.opening_plies),
            row.begun,
            "training" if row.training else "",
        ]
        for row in rows
    ]
    headings = ["run", "agents", "rules", "games", "imposed plies", "begun (UTC)", ""]
    return Table(caption, headings, cells, (1, 2, 5, 6))


class OneRun(NamedTuple):
    """A run: its properties and results."""

    record: RunRecord
    games: int
    properties: Table
    pairings: Table


MOST_PAIRINGS = 100  # rows


def one_run(opened: OpenArchive, run_id: str) -> OneRun:
    """A run by its id. Raises ``RequestError`` if there is none."""
    record = opened.archive.run(run_id)
    if record is None:
        raise unknown_run(opened.archive, run_id, opened.archive.recorded())
    found = results(opened.archive, run_id)
    games = opened.archive.log(run_id).summary.games
    return OneRun(record, games, _properties(record, games), _pairings(record, found))


def _properties(record: RunRecord, games: int) -> Table:
    spec, code = record.spec, record.code
    asked = record.games * len(record.pairings)
    values = {
        "status": record.status,
        "rules": record.rules.name,
        "games": f"{games:,}" if games == asked else f"{games:,} of {asked:,}",
        "seats": "swapped in each pair" if record.swapped else "fixed",
        "imposed plies": str(spec["opening_plies"]),
        "seed": str(spec["seed"]),
        "begun": f"{record.created[:19].replace('T', ' ')} UTC",
        "time playing": f"{record.seconds:,.1f} s",
        "code": f"{code.get('version', '?')}, fingerprint {code.get('fingerprint', '?')}",
        "command": record.command,
    }
    rows: list[list[str | Cell]] = [[name, Cell(value, code=name == "command")] for name, value in values.items()]
    return Table("Properties of the run", ["property", "value"], rows, (1,))


def _pairings(record: RunRecord, found: Sequence[PairingResult]) -> Table:
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
    headings = ["first agent", "second agent", "games", "score", "95 %", "won", "drawn", "lost", "plies a game"]
    return Table(f"Results of the first agent{shown}", headings, rows, (1,))


def _games_of(record: RunRecord, pairing: PairingResult) -> str:
    return links.games_page(run=record.run_id, agent=pairing.first, opponent=pairing.second)


def chosen_records(opened: OpenArchive, rules: str, run: str, trainings: bool) -> list[RunRecord]:
    """The runs by rules, or one run; those of trainings on request. Raises ``RequestError`` if there are none."""
    archive = opened.archive
    if run:
        record = archive.run(run)
        if record is None:
            raise unknown_run(archive, run, archive.recorded())
        return [record]
    found = [
        record
        for record in archive.runs()
        if rules in ("", record.spec["rules"]["name"]) and (trainings or not record.training)
    ]
    if not found:
        raise RequestError(f"no run has rules {rules!r} here" if rules else "all runs here are those of trainings")
    return found
