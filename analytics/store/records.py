"""The JSON records of an archive: how a record is read, checked and written, and the records of runs and sweep jobs.

A record is a frozen ``msgspec.Struct``. Its annotations are checked field by field when it is read and before it is
written; its ``__post_init__`` checks what concerns several fields. Unknown keys are refused; a key may be missing if
its field has a default. The same record is always written as the same bytes. The file of a ``StoredRecord`` has one
more key, a checksum, which shows whether a value has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import PurePath
from typing import Annotated, Any, TypeVar, cast

import msgspec
import numpy as np

from analytics.store.files.backend import MAX_RECORD_BYTES, Backend, explain_errors
from analytics.store.files.local_files import LOCAL
from analytics.store.ranges import UnitLine
from analytics.store.schema import SCHEMA_VERSION
from analytics.store.texts import (
    HIDDEN_CHARACTERS,
    SURROGATES,
    check_texts,
    escape_and_cut_typed_text,
    format_count_with_noun,
    has_only_allowed_texts,
    to_line,
)
from quarto.errors import FailureError, RequestError
from quarto.notation import RULES_NAME
from quarto.rules import PIECES, Rules

T = TypeVar("T")

RESTORE_REMEDY = "restore it from a copy, or move it away to go on without it"

PATTERN_ERROR = re.compile(
    r"Expected str matching regex '\^\(\?:(.*)\)\\\\Z'"
)  # msgspec's message for a text that ``pattern_constraint`` refuses

# Keys of texts that were typed or raised: they may have several lines. The writer makes visible what these hide.
_MULTILINE_KEYS = ("command", "error", "note")
_MULTILINE_PARSED_KEYS = (*_MULTILINE_KEYS, "where")

CHECKSUM = "checksum"  # the key of a stored record's checksum

MAX_COUNT = (1 << 63) - 1
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
Duration = Annotated[float, msgspec.Meta(ge=0, le=float(MAX_COUNT))]  # seconds


_prepared_types = set[Any]()
_prepare_lock = threading.Lock()


def preload_msgspec_type(kind: type[T]) -> type[T]:
    """Return ``kind`` after msgspec has read its fields. Use this wherever a type is passed to msgspec.

    msgspec reads the fields when a type is first used, and stores them before they are complete. A second thread that
    uses the type at that moment crashes the process (msgspec 0.22). So one thread reads the fields while the others
    wait.
    """
    if kind not in _prepared_types:
        with _prepare_lock:
            msgspec.json.Decoder(kind)
            _prepared_types.add(kind)
    return kind


class RecordError(ValueError):
    """The error for a value or a file's content that is not the expected record. Its message is one line."""


class JsonRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of all records."""


class StoredRecord(JsonRecord, frozen=True):
    """A record that is stored in a file of its own."""


def encode_canonical(value: Any) -> bytes:
    """Encode JSON values as bytes that depend only on the values: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's JSON values together with their checksum.

    The checksum is the first 16 hex digits of the SHA-256 of the bytes that ``encode_canonical`` returns.
    """
    return {**values, CHECKSUM: hashlib.sha256(encode_canonical(values)).hexdigest()[:16]}


def pattern_constraint(pattern: re.Pattern[str]) -> msgspec.Meta:
    """Return the constraint that a whole text matches a pattern."""
    return msgspec.Meta(pattern=rf"^(?:{pattern.pattern})\Z")


def choice_constraint(*texts: str) -> msgspec.Meta:
    """Return the constraint that a text is one of ``texts``."""
    return pattern_constraint(re.compile("|".join(texts)))


def convert_values(value: Any, kind: type[T], name: str = "") -> T:
    """Convert JSON values to the type ``kind``. ``name`` is the record's field that holds the values, for messages.

    Raises ``RecordError``, which names the invalid field, its value and what was expected.
    """
    try:
        return msgspec.convert(value, preload_msgspec_type(kind))
    except msgspec.ValidationError as error:
        raise RecordError(_describe_error(str(error), value, name)) from error
    except RequestError as error:
        raise RecordError(str(error)) from error


def _describe_error(message: str, value: Any, name: str) -> str:
    """Describe an error of msgspec about ``value``: which field is wrong, its value unless that is nested, and why."""
    reason, _, location = " ".join(message.replace("`", "").split()).partition(" - at ")
    with suppress(LookupError, TypeError):  # the name of an unknown field may look like a path
        for key, index in re.findall(r"\.(\w+)|\[(.+?)\]", location):
            value = value[key] if key else value[int(index)] if index.isdecimal() else {}
    reason = PATTERN_ERROR.sub(lambda match: "does not match " + match[1].replace(r"\\", "\\"), reason)
    field = location.replace("$", name).replace(".", "", 0 if name else 1) or name
    shown = "" if isinstance(value, dict | list) else f" {value!r:.80}"
    return f"{field}{shown}: {reason[0].lower()}{reason[1:]}" if field else reason


def parse_record(content: bytes, kind: type[T]) -> T:
    """Parse the content of a JSON file as a record. Raises ``RecordError`` if it is not a valid record."""
    if len(content) > MAX_RECORD_BYTES:
        raise RecordError(f"it has {len(content):,} bytes, and a record at most {MAX_RECORD_BYTES:,}")
    try:
        # Not msgspec's own parser, which refuses infinities: a spec's parameters may be infinite. The bytes are decoded
        # first, because ``json`` guesses their encoding.
        text = content.decode()
        value = json.loads(text)
        if not has_only_allowed_texts(text):
            check_texts(value, _MULTILINE_PARSED_KEYS)
    except ValueError as error:
        raise RecordError(to_line(str(error))) from error
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    if not (isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, StoredRecord)):
        return convert_values(value, kind)
    checksum = value.pop(CHECKSUM, None)
    record = convert_values(value, kind)
    if checksum != add_checksum(value)[CHECKSUM]:
        raise RecordError("its checksum is not that of its content: it was changed since it was written")
    return record


def load_record(path: PurePath, kind: type[T], remedy: str = RESTORE_REMEDY, backend: Backend = LOCAL) -> T:
    """Load a record of type ``kind`` from a JSON file.

    Raises ``FailureError`` if the file cannot be read or is not such a record. In the second case, the message ends
    with ``remedy``, which says what the user can do.
    """
    with explain_errors("read", path):
        content = backend.read(path)
    return parse_record_file(path, content, kind, remedy)


def parse_record_file(path: PurePath, content: bytes, kind: type[T], remedy: str = RESTORE_REMEDY) -> T:
    """Parse the content of the file ``path`` as a record of type ``kind``.

    Raises ``FailureError`` if the content is not such a record. The message names the path and ends with ``remedy``,
    which says what the user can do.
    """
    try:
        return parse_record(content, kind)
    except RecordError as error:
        raise FailureError(f"{path} is damaged ({error}): {remedy}") from error


def _select_set_and_nondefault_fields(record: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a record that are stored. Unset fields are left out.

    If the record's type omits defaults, empty fields that have a default are left out too. So a record from before such
    a field was introduced is still encoded as the same bytes.
    """
    values = {name: value for name, value in msgspec.structs.asdict(record).items() if value is not msgspec.UNSET}
    if record.__struct_config__.omit_defaults:
        for name in record.__struct_fields__[-len(record.__struct_defaults__) :]:
            if not values.get(name):
                values.pop(name, None)
    return values


def encode_record(record: JsonRecord | Mapping[str, Any]) -> bytes:
    """Encode a record as it is stored: UTF-8, keys in the order of the fields, then a checksum and a newline.

    Checksums and ids depend on these bytes. Raises ``RecordError`` if ``load_record`` would refuse the record.
    """
    values = json.loads(json.dumps(record, default=_select_set_and_nondefault_fields))
    if isinstance(record, StoredRecord):
        for holder in (values, values.get("learned", {})):
            holder |= {key: escape_and_cut_typed_text(holder[key]) for key in _MULTILINE_KEYS if holder.get(key)}
        values = add_checksum(values)
    content = (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()
    if isinstance(record, JsonRecord):
        parse_record(content, type(record))
    return content


# Runs, and the jobs of sweeps.

RUN_ID = re.compile(r"[0-9a-f]{12}")
SWEEP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,63}")
OBJECT_TARGET = "runners.Object"  # of an object that a program passed to ``runners.run``; no class has this identity
LABEL = re.compile(rf"[^{HIDDEN_CHARACTERS}{SURROGATES}]{{1,200}}")
# A name of rules, and in brackets what differs from the preset of that name, as the runner names it.
_SETTING = r"[a-z_]+=[A-Za-z0-9_.-]+"
RULES_LABEL = re.compile(rf"(?=.{{1,200}}\Z){RULES_NAME.pattern}(?:\({_SETTING}(?:,{_SETTING})*\))?")
SHA256 = re.compile(r"[0-9a-f]{64}")

SEATS = ("swapped", "fixed")

PERSON_PREFIX = "human:"  # of the label of a person, whatever game it is in: played here or imported


def is_person(label: str) -> bool:
    """Return whether a label belongs to a person rather than an agent."""
    return label.startswith(PERSON_PREFIX)


RunId = Annotated[str, pattern_constraint(RUN_ID)]
Sha256 = Annotated[str, pattern_constraint(SHA256)]


def format_current_time() -> str:
    """Format the current time as the archive stores it: ISO 8601 in UTC, in whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def compute_run_id(spec: Mapping[str, Any]) -> str:
    """Compute a run's id, 12 lower-case hex digits, which is the same for the same spec on every machine.

    The id is the beginning of the SHA-256 of the spec as JSON with sorted keys, no spaces and ASCII only.
    """
    return hashlib.sha256(encode_canonical(spec)).hexdigest()[:12]


def run_id_to_stream_key(run_id: str) -> int:
    """Convert a run's id to a uint64, the first argument of ``quarto.rng.stream`` for the run's games."""
    return cast("int", np.uint64(int(run_id, 16)))


@lru_cache(256, typed=True)
def _build_rules(**fields: Any) -> Rules:
    """Build rules and cache them, because thousands of records need them and computing their lines takes 100 µs."""
    rules = Rules(**fields)
    if not isinstance(rules.name, str) or not RULES_LABEL.fullmatch(rules.name):
        raise ValueError(f"rules {rules.name!a:.80} is not a name: letters, digits, '_', '.' and '-'")
    return rules


def build_rules(fields: Mapping[str, Any]) -> Rules:
    """Build the rules from their fields in a record. Raises ``ValueError`` if the fields describe no valid rules."""
    try:
        return _build_rules(**fields)
    except TypeError as error:  # an unknown field, or a value that is no text and no flag
        raise ValueError(f"rules: {to_line(str(error), 80)}") from error


def check_time(text: str) -> None:
    """Raise ``ValueError`` unless ``text`` is an ISO 8601 time with a time zone."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"created {text!a:.80} has no time zone")


class _AgentFields(msgspec.Struct):
    label: Annotated[str, pattern_constraint(LABEL)]  # printable: it is shown, and a renderer of pictures ends at ESC
    target: str  # the identity of its class
    params: Mapping[str, Any]
    policy_id: RunId | None = None
    limits: Mapping[str, float] = msgspec.field(default_factory=dict)


class _SpecFields(msgspec.Struct):
    """The fields that every spec has.

    A spec, and each agent in it, may have more fields, which are checked by the code that uses them.
    """

    rules: Mapping[str, Any]
    agents: tuple[_AgentFields, ...]
    pairings: tuple[tuple[Count, Count], ...]
    seed: Count
    opening_plies: Annotated[int, msgspec.Meta(ge=0, lt=PIECES)]
    seats: Annotated[str, choice_constraint(*SEATS)] = "swapped"
    learner: Count | None = None

    def __post_init__(self) -> None:
        build_rules(self.rules)
        if any(agent >= len(self.agents) for pairing in self.pairings for agent in pairing):
            raise ValueError(f"a pairing has an index beyond its {format_count_with_noun(len(self.agents), 'agent')}")
        if self.learner is not None and any(self.learner not in pairing for pairing in self.pairings):
            raise ValueError(f"agent {self.learner}, the learner, is not in every pairing")


class CodeFields(msgspec.Struct):
    """The fields of the description of code that played games or learned a policy. A description may have more."""

    version: str = ""
    fingerprint: str = ""
    agents: Mapping[str, str] = msgspec.field(default_factory=dict)  # fingerprints by label
    modules: Mapping[str, str] = msgspec.field(default_factory=dict)  # hashes by name
    files: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)  # hashes by label and name
    extended_by: tuple[str, ...] = ()  # fingerprints of other code that added games
    same_games: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)  # by fingerprint of other code


class RunRecord(StoredRecord, frozen=True, dict=True):  # ``dict``: it keeps its cached properties
    """The record of a run: one executed experiment. Raises ``ValueError`` for an invalid spec or date.

    ``spec`` holds everything that affects the games, and whatever else the runner needs:

    - ``rules``: the fields of ``Rules``;
    - ``agents``: the ``label``, ``target`` and ``params`` of each agent;
    - ``pairings``: pairs of indices into ``agents``;
    - ``seed`` and ``opening_plies``;
    - ``seats``: ``swapped`` by default, or ``fixed``.

    ``code`` describes the code that played the games: ``version``, ``fingerprint``, ``python``, ``numba``, ``numpy``.
    """

    run_id: RunId  # ``compute_run_id(spec)``
    spec: Mapping[str, Any]
    code: Mapping[str, Any]
    games: Count  # asked for, per pairing
    created: str  # ISO 8601, UTC
    status: Annotated[str, choice_constraint("running", "interrupted", "complete")] = "running"
    command: str = ""  # as it was typed
    seconds: Duration = 0.0  # spent playing, resumed runs included
    number: Count = 0  # greater than the number of any run that was there when it began, because clocks may differ
    training: bool = False  # played for a training
    # What the archive held when the record was written: if it holds less now, something was lost.
    units: Count = 0  # that the archive held
    annotated: Count = 0  # units whose decisions it held
    verdicts: tuple[RunId, ...] = ()  # their ids, ascending
    derived: Mapping[str, Count] | msgspec.UnsetType = msgspec.UNSET  # units by other derived table
    schema_version: Positive = SCHEMA_VERSION

    def __post_init__(self) -> None:
        convert_values(self.spec, _SpecFields, "spec")
        convert_values(self.code, CodeFields, "code")
        check_time(self.created)

    def recorded_units(self, table: str) -> int:
        """Return how many units a derived table had when the record was written, or 0 if the record does not say.

        A derived table is one that is computed from the games, such as ``decisions``.
        """
        if table == "decisions":
            return self.annotated
        return 0 if self.derived is msgspec.UNSET else self.derived.get(table, 0)

    def with_raised_derived_units(self, units: Mapping[str, int]) -> RunRecord:
        """Return the record with the unit count of each derived table raised to at least the count in ``units``.

        A derived table is one that is computed from the games. ``units`` is keyed by table. The record keeps the count
        of ``decisions`` elsewhere, in the field ``annotated``.
        """
        recorded = {} if self.derived is msgspec.UNSET else self.derived
        most = {name: max(count, self.recorded_units(name)) for name, count in units.items()}
        return msgspec.structs.replace(self, derived={**recorded, **most})

    @cached_property
    def begun(self) -> datetime:
        """The moment ``created`` with its time zone."""
        return datetime.fromisoformat(self.created)

    @cached_property
    def agent_codes(self) -> Mapping[str, str]:
        """The code fingerprints of the agents, by label; agents without code, such as people, are left out."""
        return find_agent_codes(self.code)

    @property
    def swapped(self) -> bool:
        """Whether each pair has a second game, with the seats swapped."""
        return bool(self.spec.get("seats", "swapped") == "swapped")

    @property
    def has_objects(self) -> bool:
        """Whether an agent of the run was a Python object that a program passed in.

        Such a run cannot be continued, because its record cannot recreate the agent.
        """
        return any(agent["target"] == OBJECT_TARGET for agent in self.spec["agents"])

    @property
    def has_paired_openings(self) -> bool:
        """Whether pairs are independent but games are not, because both games of a pair have the same imposed plies."""
        return self.swapped and bool(self.spec["opening_plies"] > 0)

    @property
    def opening_seed(self) -> int | None:
        """The seed that, with a pair's number, determines the opening of the pair, or None if there is no such seed.

        There is none if no opening is imposed, or if the games were imported, because it is unknown how the openings of
        imported games arose.
        """
        imposed = self.spec["opening_plies"] > 0 and "imported" not in self.spec
        return int(self.spec["seed"]) if imposed else None

    @cached_property
    def rules(self) -> Rules:
        return build_rules(self.spec["rules"])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the agents, in the order of the spec."""
        return tuple(agent["label"] for agent in self.spec["agents"])

    @cached_property
    def distinct_labels_in_table_order(self) -> tuple[str, ...]:
        """The labels of the agents without duplicates, in the order in which tables list the agents.

        The first agent of the first pairing comes first. The order of the spec says nothing about seats or scores: for
        example, the spec lists a person first, whichever seat the person has.
        """
        return tuple(dict.fromkeys((*chain.from_iterable(self.pairings), *self.labels)))

    @cached_property
    def unit_line(self) -> UnitLine:
        """The numbering of the run's units."""
        pairings = 1 if "imported" in self.spec else len(self.spec["pairings"])
        return UnitLine(pairings, 1 + self.swapped)

    @property
    def end_unit(self) -> int:
        """The number of requested units; for imported games, which nobody requests, the number of stored units."""
        return self.units if "imported" in self.spec else self.unit_line.count_units_of_all_pairings(self.games)

    @property
    def pairs(self) -> int:
        """The number of requested pairs per pairing; with fixed seats, each game counts as a pair."""
        return self.games // (1 + self.swapped)

    @cached_property
    def pairings(self) -> tuple[tuple[str, str], ...]:
        """The labels of each pairing's first and second agent.

        The labels are cached, because callers look up one pairing at a time.
        """
        labels = self.labels
        return tuple((labels[first], labels[second]) for first, second in self.spec["pairings"])


def find_agent_codes(code_record: Mapping[str, Any]) -> dict[str, str]:
    """Return the code fingerprints of a run's agents, by label; agents without code, such as people, are left out.

    ``code_record`` is the field ``code`` of the run's record.
    """
    codes = code_record.get("agents")
    return {str(label): str(code) for label, code in codes.items()} if isinstance(codes, Mapping) else {}


def merge_code(recorded: Mapping[str, Any], added: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the description of a run's code after other code has added games to the run.

    ``recorded`` describes the code that began the run; its description remains. ``added`` describes the code that added
    games. ``extended_by`` has the fingerprints of all other code that has added games so far. ``same_games`` lists code
    that replayed a sample of the run's games with equal results: each key is the fingerprint of such code, and the
    value maps the labels of agents to their fingerprints in that code.
    """
    fingerprints = [*recorded.get("extended_by", ()), added.get("fingerprint"), *added.get("extended_by", ())]
    fingerprints = [
        fingerprint
        for fingerprint in dict.fromkeys(fingerprints)
        if fingerprint and fingerprint != recorded.get("fingerprint")
    ]
    extended = {**recorded, "extended_by": fingerprints} if fingerprints else recorded
    return add_code_with_same_games(extended, added.get("same_games", {}))


def add_code_with_same_games(code: Mapping[str, Any], same_games: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``code``, the description of a run's code, with more entries in its field ``same_games``.

    The argument ``same_games`` holds the entries to add; ``merge_code`` says what an entry means. An entry for the code
    that began the run is left out.
    """
    same_games = {**code.get("same_games", {}), **same_games}
    same_games.pop(code.get("fingerprint", ""), None)
    return {**code, "same_games": same_games} if same_games else code


class SweepJob(StoredRecord, frozen=True):
    """One job of a sweep: the settings that varied, and the run that it played."""

    sweep_id: Annotated[str, pattern_constraint(SWEEP_ID)]
    job: Count
    overrides: Mapping[str, str] = msgspec.field(default_factory=dict)
    run_id: RunId | None = None  # None if the job failed before it had a run
    status: Annotated[str, choice_constraint("complete", "failed", "interrupted")] = "complete"
    error: str | None = None
    games: Count = 0  # asked for, per pairing
    objective: str | None = None  # the name of ``value``
    value: float | None = None  # that the job returned
    jobs: Count = 0  # that the sweep had when it ended; only one of the jobs records this
