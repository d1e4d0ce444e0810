"""The JSON records of an archive: runs, and the jobs of sweeps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from analytics.store.json_records import (
    OBEYED,
    Count,
    Duration,
    Positive,
    StoredRecord,
    canonical,
    matching,
    one_of,
    typed,
)
from analytics.store.ranges import UnitLine
from analytics.store.schema import SCHEMA_VERSION
from quarto.rules import Rules

RUN_ID = re.compile(r"[0-9a-f]{12}")
SWEEP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,63}")
LABEL = re.compile(rf"[^{OBEYED}]{{1,200}}")
SHA256 = re.compile(r"[0-9a-f]{64}")

SEATS = ("swapped", "fixed")

RunId = Annotated[str, matching(RUN_ID)]
Sha256 = Annotated[str, matching(SHA256)]


def now() -> str:
    """The current time as the archive stores it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_id_of(spec: Mapping[str, Any]) -> str:
    """A run's id, 12 lower-case hex digits: the same for the same spec (JSON values) on every machine.

    The beginning of the SHA-256 of the spec as JSON: keys sorted, no spaces, ASCII only.
    """
    return hashlib.sha256(canonical(spec)).hexdigest()[:12]


class _AgentFields(msgspec.Struct):
    label: Annotated[str, matching(LABEL)]  # printable: it is shown, and a renderer of pictures ends at ESC


class _SpecFields(msgspec.Struct):
    """The fields of every spec. A spec has more, and so may each agent: the code that uses those fields checks them."""

    rules: Mapping[str, Any]
    agents: tuple[_AgentFields, ...]
    pairings: tuple[tuple[Count, Count], ...]
    seed: Count
    opening_plies: Count
    seats: Annotated[str, one_of(*SEATS)] = "swapped"
    learner: Count | None = None

    def __post_init__(self) -> None:
        Rules(**self.rules)
        if any(agent >= len(self.agents) for pairing in self.pairings for agent in pairing):
            raise ValueError(f"a pairing has an index beyond the {len(self.agents)} agents")
        if self.learner is not None and any(self.learner not in pairing for pairing in self.pairings):
            raise ValueError(f"agent {self.learner}, the learner, is not in every pairing")


class RunRecord(StoredRecord, frozen=True):
    """One experiment executed. Raises ``ValueError`` for an invalid spec or date.

    ``spec`` holds everything that affects the games, and what else the runner needs:

    - ``rules``: the fields of ``Rules``;
    - ``agents``: each ``label``, ``target``, ``params``;
    - ``pairings``: pairs of indices into ``agents``;
    - ``seed`` and ``opening_plies``;
    - ``seats``: ``swapped`` by default, or ``fixed``.

    ``code`` is the code that played the games: ``version``, ``fingerprint``, ``python``, ``numba``, ``numpy``.
    """

    run_id: RunId  # ``run_id_of(spec)``
    spec: Mapping[str, Any]
    code: Mapping[str, Any]
    games: Count  # asked for, per pairing
    created: str  # ISO 8601, UTC
    status: Annotated[str, one_of("running", "interrupted", "complete")] = "running"
    command: str = ""  # as it was typed
    seconds: Duration = 0.0  # spent playing, resumed runs included
    number: Count = 0  # greater than that of every run that was there when it began: no clock is as sure
    training: bool = False  # played for a training
    # What there was when the record was written: if there is less now, something was lost.
    units: Count = 0  # that the archive held
    annotated: Count = 0  # units whose decisions it held
    verdicts: tuple[RunId, ...] = ()  # their ids, ascending
    schema_version: Positive = SCHEMA_VERSION

    def __post_init__(self) -> None:
        typed(self.spec, _SpecFields, "spec")
        datetime.fromisoformat(self.created)

    @property
    def swapped(self) -> bool:
        """Whether each pair has its second game, with the seats swapped."""
        return bool(self.spec.get("seats", "swapped") == "swapped")

    @property
    def by_pairs(self) -> bool:
        """Whether pairs, not games, are independent: the two games of a pair begin with the same imposed plies."""
        return self.swapped and bool(self.spec["opening_plies"] > 0)

    @property
    def opening_seed(self) -> int | None:
        """The seed that the opening of a pair follows from, with the pair's number; None if it does not.

        That is so without imposed openings, and in games that were imported: their openings are not known.
        """
        imposed = self.spec["opening_plies"] > 0 and "imported" not in self.spec
        return int(self.spec["seed"]) if imposed else None

    @property
    def rules(self) -> Rules:
        return Rules(**self.spec["rules"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The agents' labels, in the order of the spec."""
        return tuple(agent["label"] for agent in self.spec["agents"])

    @property
    def line(self) -> UnitLine:
        """The form of the run's line of units."""
        pairings = 1 if "imported" in self.spec else len(self.spec["pairings"])
        return UnitLine(pairings, 1 + self.swapped)

    @property
    def end_unit(self) -> int:
        """The number of units that were asked for. Nobody asks for imported games: the number of those there are."""
        return self.units if "imported" in self.spec else self.line.end_of(self.games)

    @property
    def pairs(self) -> int:
        """The number of pairs that were asked for, per pairing; games without a twin count as pairs."""
        return self.games // (1 + self.swapped)

    @property
    def pairings(self) -> tuple[tuple[str, str], ...]:
        """Each pairing's labels: first agent, second agent."""
        labels = self.labels
        return tuple((labels[first], labels[second]) for first, second in self.spec["pairings"])


class SweepJob(StoredRecord, frozen=True):
    """One job of a sweep: the settings that varied, and its run."""

    sweep_id: Annotated[str, matching(SWEEP_ID)]
    job: Count
    overrides: Mapping[str, str] = msgspec.field(default_factory=dict)
    run_id: RunId | None = None  # None when the job failed before it had one
    status: Annotated[str, one_of("complete", "failed", "interrupted")] = "complete"
    error: str | None = None
    games: Count = 0  # asked for, per pairing
    objective: str | None = None  # the name of ``value``
    value: float | None = None  # that the job returned
    jobs: Count = 0  # that the sweep had when it ended; only one job says it
