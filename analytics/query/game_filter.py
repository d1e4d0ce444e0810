"""The games that a question is about: the one form in which a user's choice of games is passed on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from analytics.store.archive import Archive, readable, unknown_run
from analytics.store.records import RunRecord
from quarto.errors import RequestError, did_you_mean, nearest

MISSPELT = 0.8  # likeness of names of rules: 'squarre' is meant to be 'square', 'torus_square' is not


@dataclass(frozen=True)
class GameFilter:
    """The games of an archive that meet all of these conditions."""

    where: str | None = None  # a condition on the view ``games``, in DuckDB's SQL
    runs: tuple[str, ...] = ()  # ids; none: all runs
    rules: str | None = None  # the rules' name
    agent: str | None = None  # label of an agent that took part; in a question about decisions, the one that decided
    opponent: str | None = None  # label of the other agent
    since: str | None = None  # runs created on this day or at this moment (ISO 8601, UTC) or later
    until: str | None = None  # runs created then or earlier; a day counts as a whole
    trainings: bool = True  # also runs that trainings played, unless they are named in ``runs``

    def takes(self, record: RunRecord) -> bool:
        """Whether a run may have such games, as far as its record says. Raises ``RequestError`` for a wrong time."""
        return (
            (not self.runs or record.run_id in self.runs)
            and self.rules in (None, record.rules.name)
            and (self.trainings or not record.training or record.run_id in self.runs)
            and any(map(self.takes_agents, record.pairings))
            and self._begun_in_time(record)
        )

    def takes_agents(self, agents: tuple[str, str]) -> bool:
        """Whether games of two agents can be among these."""
        return any(
            self.agent in (None, one) and self.opponent in (None, other) for one, other in (agents, agents[::-1])
        )

    def _begun_in_time(self, record: RunRecord) -> bool:
        earliest, latest = _moment(self.since, time.min, "since"), _moment(self.until, time.max, "until")
        return earliest <= datetime.fromisoformat(record.created) <= latest

    def records(self, archive: Archive) -> list[RunRecord]:
        """The runs that may have such games, oldest first.

        Raises ``RequestError`` for a run, an agent or rules that are not there, for a time without runs, and for a run
        of another schema.
        """
        known = archive.runs()
        ids = [record.run_id for record in known]
        for run_id in self.runs:
            if run_id not in ids:
                raise unknown_run(archive, run_id, ids)
        found = [record for record in known if (not self.runs or record.run_id in self.runs)]
        found = [readable(record) for record in found if self._begun_in_time(record)]
        if known and not found:
            raise RequestError(f"archive {archive.root} has no runs of that time: 'qarena archive ls' lists all runs")
        self.require_rules(found)
        labels = {label for record in found for label in record.labels if self.rules in (None, record.rules.name)}
        for named in (self.agent, self.opponent):
            if named is not None and named not in labels:
                raise RequestError(f"agent {named!r} is not in these runs{nearest(named, labels)}")
        return [record for record in found if self.takes(record)]

    def require_rules(self, records: Collection[RunRecord]) -> None:
        """Raise ``RequestError`` if there are runs, but none of them is by the rules."""
        names = sorted({record.rules.name for record in records})
        if names and self.rules is not None and self.rules not in names:
            meant = did_you_mean(self.rules, names, MISSPELT).rstrip()
            there = "; ".join(filter(None, [", ".join(names), meant]))
            raise RequestError(f"no games were played by rules {self.rules!r} here, only by: {there}")


EVERY_GAME = GameFilter()


def require_one_rules(records: Collection[RunRecord]) -> None:
    """Raise ``RequestError`` unless all runs have the same rules."""
    names = dict.fromkeys(record.rules.name for record in records)
    if len(names) > 1:
        raise RequestError(
            f"the chosen games were played under different rules, {', '.join(names)}: choose one with --rules NAME"
        )
    of_rules = {record.rules: record.run_id for record in records}
    if len(of_rules) > 1:
        ids = ", ".join(of_rules.values())
        raise RequestError(f"rules {next(iter(names))!r} are not the same in all runs: choose with --run one of {ids}")


def _moment(text: str | None, of_day: time, option: str) -> datetime:
    if text is None:
        return datetime.combine(date.min if of_day == time.min else date.max, of_day, UTC)
    try:
        if len(text) <= len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), of_day, UTC)
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise RequestError(
            f"{option} {text!r} is not a day or a moment: write 2026-01-31 or 2026-01-31T12:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
