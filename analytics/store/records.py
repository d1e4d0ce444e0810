"""What the archive keeps beside its tables: runs, commits, jobs of a sweep. JSON in, frozen values out, checked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from analytics.statistics.tally import Tally
from analytics.store.schema import MAX_PAIRS, SCHEMA_VERSION
from quarto.rules import Rules

RUN_ID = re.compile(r"[0-9a-f]{12}")
POLICY_ID = RUN_ID  # of the same form
POLICY_NAME = re.compile(r"(?!(?i:null|true|false|nan|inf|infinity)$|[0-9a-f]{12}$)[A-Za-z][A-Za-z0-9_.-]{0,63}")
POLICY_FILE = re.compile(r"(?!card\.json$)[a-z][a-z0-9_]{0,63}\.(parquet|json|svg)")
PART = re.compile(r"part-[0-9]{6,12}-[0-9a-f]{32}\.parquet")
COMMIT = re.compile(r"[0-9]{6,12}\.json")
SWEEP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,63}")
SHA256 = re.compile(r"[0-9a-f]{64}")

SEATS = ("swapped", "fixed")
RUN_STATUSES = ("running", "interrupted", "complete")
JOB_STATUSES = ("complete", "failed", "interrupted")

MALFORMED = (ValueError, KeyError, TypeError, AttributeError)  # what reading a record raises when it is not one


def _matched(pattern: re.Pattern[str], what: str, value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{what} {value!r} does not match {pattern.pattern}")
    return value


def _count(what: str, value: Any, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise ValueError(f"{what} {value!r} is not a whole number of at least {least}")
    return value


def _one_of(what: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{what} {value!r} is not one of {', '.join(allowed)}")
    return str(value)


def to_json(mapping: Mapping[str, Any]) -> bytes:
    """A record as the bytes that are stored: UTF-8, keys in the order given, a newline at the end."""
    return (json.dumps(mapping, ensure_ascii=False, indent=1) + "\n").encode()


def run_id_of(spec: Mapping[str, Any]) -> str:
    """A run's id, 12 lower-case hex digits: the same for the same spec (JSON values) on every machine.

    The beginning of the SHA-256 of the spec as JSON: keys sorted, no spaces, ASCII only.
    """
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class RunRecord:
    """One experiment executed. Raises ``ValueError`` (or ``KeyError``, ``TypeError``) for a value that makes no sense.

    ``spec`` holds everything that affects the games: ``rules`` (the fields of ``Rules``), ``agents`` (each ``label``,
    ``target``, ``params``), ``pairings`` (pairs of indices into ``agents``), ``seed``, ``opening_plies``, ``seats``
    (``swapped`` if it is not there, or ``fixed``), and whatever else the runner needs. ``code`` is what played them:
    ``version``, ``fingerprint``, ``python``, ``numba``, ``numpy``.
    """

    run_id: str  # what ``run_id_of`` makes of the spec
    spec: Mapping[str, Any]
    code: Mapping[str, Any]
    games: int  # asked for, per pairing
    created: str  # ISO 8601, UTC
    status: str = "running"  # running, interrupted, complete
    command: str = ""  # as it was typed
    seconds: float = 0.0  # spent playing, resumed runs included
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        _matched(RUN_ID, "run_id", self.run_id)
        _one_of("status", self.status, RUN_STATUSES)
        _count("games", self.games)
        _count("seed", self.spec["seed"])
        _count("opening_plies", self.spec["opening_plies"])
        _one_of("seats", self.spec.get("seats", "swapped"), SEATS)
        _count("schema_version", self.schema_version, 1)
        datetime.fromisoformat(self.created)
        if not isinstance(self.code, Mapping) or not isinstance(self.command, str):
            raise ValueError("code is not a mapping or command not a text")
        if not float(self.seconds) >= 0:
            raise ValueError(f"seconds {self.seconds!r} is not a duration")
        if not (self.rules and all(self.pairings)):
            raise ValueError("a run has rules, and every pairing two agents")

    @property
    def swapped(self) -> bool:
        """Whether each pair has its second game, with the seats swapped."""
        return bool(self.spec.get("seats", "swapped") == "swapped")

    @property
    def rules(self) -> Rules:
        return Rules(**self.spec["rules"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The agents' labels, in the order of the spec."""
        return tuple(str(agent["label"]) for agent in self.spec["agents"])

    @property
    def pairings(self) -> tuple[tuple[str, str], ...]:
        """Each pairing's labels: first agent, second agent."""
        labels = self.labels
        indices = [(_count("pairing", first), _count("pairing", second)) for first, second in self.spec["pairings"]]
        if any(agent >= len(labels) for pairing in indices for agent in pairing):
            raise ValueError(f"a pairing names an agent beyond the {len(labels)} there are")
        return tuple((labels[first], labels[second]) for first, second in indices)

    def as_mapping(self) -> dict[str, Any]:
        """The fields as JSON values; ``RunRecord(**mapping)`` reads them."""
        return asdict(self)


@dataclass(frozen=True)
class StoredFile:
    """One Parquet file that a commit vouches for."""

    file: str  # name without folder
    rows: int
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        _matched(PART, "file", self.file)
        _matched(SHA256, "sha256", self.sha256)
        _count("rows", self.rows)
        _count("bytes", self.bytes)


@dataclass(frozen=True)
class Slice:
    """Consecutive pairs of one pairing, and what they amount to."""

    pairing: int
    first_pair: int
    pairs: int
    tally: Tally

    def __post_init__(self) -> None:
        _count("pairing", self.pairing)
        _count("first_pair", self.first_pair)
        _count("pairs", self.pairs, 1)
        if self.pairing >= 1 << 31 or self.end_pair > MAX_PAIRS:
            raise ValueError(f"pairing {self.pairing}, pairs to {self.end_pair}: beyond what a game id can number")
        if self.tally.pair_count != self.pairs:
            raise ValueError(f"a tally of {self.tally.pair_count} pairs for a slice of {self.pairs}")

    @property
    def end_pair(self) -> int:
        return self.first_pair + self.pairs


def joined(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Slices in order, those that touch made one: a shard of many small blocks needs few."""
    found: list[Slice] = []
    for part in slices:
        last = found[-1] if found else None
        if last and last.pairing == part.pairing and last.end_pair == part.first_pair:
            found[-1] = Slice(part.pairing, last.first_pair, last.pairs + part.pairs, last.tally + part.tally)
        else:
            found.append(part)
    return tuple(found)


@dataclass(frozen=True)
class Commit:
    """One shard of a run that counts: its two files, and which pairs are in them."""

    shard: int
    games: StoredFile
    plies: StoredFile
    slices: tuple[Slice, ...]
    created: str  # ISO 8601, UTC

    def as_mapping(self) -> dict[str, Any]:
        """The fields as JSON values; ``Commit.of_mapping`` reads them."""
        return asdict(self)

    @staticmethod
    def of_mapping(mapping: Mapping[str, Any]) -> Commit:
        """The commit that ``as_mapping`` wrote. Raises one of ``MALFORMED`` for anything else."""
        slices = tuple(Slice(**{**part, "tally": Tally.of_mapping(part["tally"])}) for part in mapping["slices"])
        datetime.fromisoformat(mapping["created"])
        return Commit(
            _count("shard", mapping["shard"]),
            StoredFile(**mapping["games"]),
            StoredFile(**mapping["plies"]),
            slices,
            mapping["created"],
        )


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: what varied, and the run it led to. Raises ``ValueError`` for a value that makes no sense."""

    sweep_id: str
    job: int
    overrides: Mapping[str, str] = field(default_factory=dict)
    run_id: str | None = None  # None when the job failed before it had one
    status: str = "complete"  # complete, failed, interrupted
    error: str | None = None
    games: int = 0  # asked for, per pairing

    def __post_init__(self) -> None:
        _matched(SWEEP_ID, "sweep_id", self.sweep_id)
        _count("job", self.job)
        _count("games", self.games)
        _one_of("status", self.status, JOB_STATUSES)
        if self.run_id is not None:
            _matched(RUN_ID, "run_id", self.run_id)
        if not all(isinstance(text, str) for both in self.overrides.items() for text in both):
            raise ValueError("overrides are not names and texts")
        if not isinstance(self.error, str | None):
            raise ValueError("error is not a text")

    def as_mapping(self) -> dict[str, Any]:
        """The fields as JSON values; ``SweepJob(**mapping)`` reads them."""
        return asdict(self)


@dataclass(frozen=True)
class PolicyFile:
    """A file of a policy that its card vouches for."""

    rows: int | None  # None: it is no table
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        _matched(SHA256, "sha256", self.sha256)
        _count("bytes", self.bytes)
        if self.rows is not None:
            _count("rows", self.rows)


@dataclass(frozen=True)
class PolicyCard:
    """What a stored policy is and where it comes from. Raises ``ValueError`` for a value that makes no sense.

    ``learned`` says how: ``training`` (what two sessions of one training have in common, 12 hex digits), ``trainer``,
    its ``parameters``, ``seed``, ``games``, ``run_ids`` (of the games learned from, in order), ``command``. A policy
    that was derived from logged games has ``where``, the condition that chose them, and ``checksums`` of each run's.
    """

    policy_id: str
    name: str
    kind: str
    parameters: Mapping[str, float]
    knowledge: str  # SHA-256 of kind, parameters and columns: the same for the same knowledge under any name
    rules: Mapping[str, Any]  # the fields of ``Rules``
    created: str  # ISO 8601, UTC, to the microsecond: of the cards with a name the newest counts
    code: Mapping[str, Any]  # what learned it, as for runs
    learned: Mapping[str, Any]
    files: Mapping[str, PolicyFile]  # by name, this card excepted
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        _matched(POLICY_ID, "policy_id", self.policy_id)
        _matched(POLICY_NAME, "name", self.name)
        _matched(SHA256, "knowledge", self.knowledge)
        datetime.fromisoformat(self.created)
        for file in self.files:
            _matched(POLICY_FILE, "file", file)
        if not isinstance(self.kind, str) or not all(isinstance(value, float) for value in self.parameters.values()):
            raise ValueError("kind is not a text, or a parameter not a number")
        _matched(RUN_ID, "training", self.learned["training"])
        _count("games", self.learned["games"])
        _count("seed", self.learned["seed"])
        for run_id in self.learned["run_ids"]:
            _matched(RUN_ID, "run_id", run_id)
        if not isinstance(self.learned["trainer"], str) or not isinstance(self.learned["parameters"], Mapping):
            raise ValueError("learned names no trainer with its parameters")
        if self.is_derived and set(self.learned["checksums"]) != set(self.learned["run_ids"]):
            raise ValueError("learned has not one checksum for each run")
        if not (isinstance(self.code, Mapping) and Rules(**self.rules)):
            raise ValueError("code is not a mapping")

    @property
    def is_derived(self) -> bool:
        """Whether it comes from games that a condition chose; else from a training's."""
        return "derivation" in self.learned

    def as_mapping(self) -> dict[str, Any]:
        """The fields as JSON values; ``PolicyCard.of_mapping`` reads them."""
        return asdict(self)

    @staticmethod
    def of_mapping(mapping: Mapping[str, Any]) -> PolicyCard:
        """The card that ``as_mapping`` wrote. Raises one of ``MALFORMED`` for anything else."""
        files = {name: PolicyFile(**file) for name, file in mapping["files"].items()}
        return PolicyCard(**{**mapping, "files": files})
