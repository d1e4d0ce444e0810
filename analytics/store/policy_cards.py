"""The cards of stored policies: which policies an archive has, and where their files are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple

import msgspec

from analytics.store.archive import ArchiveStore
from analytics.store.records import (
    RUN_ID,
    CodeFields,
    Count,
    JsonRecord,
    RunId,
    Sha256,
    StoredRecord,
    build_rules,
    check_time,
    convert_values,
    pattern_constraint,
)
from analytics.store.schema import SCHEMA_VERSION
from quarto.errors import FailureError

FOLDER = "policies"
CARD = "card.json"
TABLE = "table.parquet"  # what a policy knows; a genome has no table
POLICY_ID = RUN_ID  # of the same form
POLICY_NAME = re.compile(r"(?!(?i:null|true|false|nan|inf|infinity)$|[0-9a-f]{12}$)[A-Za-z][A-Za-z0-9_.-]{0,63}")
POLICY_FILE = re.compile(r"(?!card\.json$)[a-z][a-z0-9_]{0,63}\.(parquet|json|svg)")
STORED_POLICY_FILE = re.compile(r"(?!card\.json$)[a-z][a-z0-9_]{0,63}-[0-9a-f]{16}\.(parquet|json|svg)")


class PolicyFile(JsonRecord, frozen=True):
    """An entry of a policy's card about one of the policy's files."""

    rows: Count | None  # None: it is no table
    bytes: Count
    sha256: Sha256

    def add_digest_to_name(self, name: str) -> str:
        """Return the stored name of the file that the card calls ``name``; the stored name includes a digest."""
        stem, dot, suffix = name.partition(".")
        return f"{stem}-{self.sha256[:16]}{dot}{suffix}"


class _DerivationFields(msgspec.Struct):
    kind: str
    parameters: Mapping[str, Any]


class _ImportedFields(msgspec.Struct):
    file: str
    sha256: Sha256


class _LearnedFields(msgspec.Struct):
    """The fields that say, on every card, how the policy was learned. A card may have more."""

    training: RunId
    trainer: str
    parameters: Mapping[str, Any]
    seed: Count
    games: Count
    run_ids: tuple[RunId, ...]
    command: str = ""
    where: str | None = None
    imported: _ImportedFields | msgspec.UnsetType = msgspec.UNSET
    derivation: _DerivationFields | msgspec.UnsetType = msgspec.UNSET
    checksums: Mapping[str, Any] = msgspec.field(default_factory=dict)
    evaluations: Mapping[str, Any] = msgspec.field(default_factory=dict)


class PolicyCard(StoredRecord, frozen=True):
    """The contents and the origin of a stored policy. Raises ``ValueError`` for an invalid value.

    ``learned`` says how the policy was learned. It has:

    - ``training``: 12 hex digits, the same in all sessions of one training;
    - ``trainer``, its ``parameters``, ``seed`` and ``games``;
    - ``run_ids``: the runs from whose games the policy was learned, in order;
    - ``command``: the command line that learned the policy.

    If the policy was derived from logged games, ``learned`` also has ``where``, the condition that selected the games,
    and ``checksums``, a checksum of the selected games for each run. If it was derived from evaluations,
    ``evaluations`` has a checksum of the evaluations for each run. If it was learned elsewhere, ``run_ids`` is empty,
    and ``imported`` has the ``file`` that it came from and the ``sha256`` of this file.
    """

    policy_id: Annotated[str, pattern_constraint(POLICY_ID)]
    name: Annotated[str, pattern_constraint(POLICY_NAME)]
    kind: str
    parameters: Mapping[str, float]
    knowledge: Sha256  # of kind, parameters and columns: the same for the same knowledge under any name
    rules: Mapping[str, Any]  # the fields of ``Rules``
    created: str  # ISO 8601, UTC, to the microsecond: the newest card with a name is the one that the name means
    code: Mapping[str, Any]  # the code that learned it, as in ``RunRecord``
    learned: Mapping[str, Any]
    files: Mapping[Annotated[str, pattern_constraint(POLICY_FILE)], PolicyFile]  # by name, without this card
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        build_rules(self.rules)
        convert_values(self.code, CodeFields, "code")
        check_time(self.created)
        wrong = [f"parameters: {name} is {value}" for name, value in self.parameters.items() if not isfinite(value)]
        if wrong:
            raise ValueError(wrong[0])
        learned = convert_values(self.learned, _LearnedFields, "learned")
        if self.is_derived and set(learned.checksums) != set(learned.run_ids):
            raise ValueError("learned has not one checksum for each run")
        if self.is_imported == bool(learned.run_ids):
            raise ValueError("learned names either the runs that it is from or a file that was imported")

    def stored_name(self, name: str) -> str:
        """Return the name, in the policy's folder, of the file that the card calls ``name``."""
        return self.files[name].add_digest_to_name(name)

    @property
    def is_imported(self) -> bool:
        """Whether the policy was learned elsewhere and imported from a file."""
        return "imported" in self.learned

    @property
    def is_derived(self) -> bool:
        """Whether the policy was derived from logged games that a condition selected, not learned in a training."""
        return "derivation" in self.learned


def compute_policy_id(name: str, knowledge: str) -> str:
    """Compute a policy's id, 12 hex digits, which depends only on the policy's name and on ``knowledge``.

    ``knowledge`` is the digest of the policy's kind, parameters and columns. The id depends on the name because two
    trainings may find the same genome, and each needs a card of its own.
    """
    return hashlib.sha256(f"{name} {knowledge}".encode()).hexdigest()[:12]


def list_policy_ids(archive: ArchiveStore) -> list[str]:
    """List the ids of the policies that have a card, even a damaged one, sorted."""
    named = re.compile(rf"{FOLDER}/({POLICY_ID.pattern})/{re.escape(CARD)}")
    matches = (named.fullmatch(archive.relative_name(path)) for path in archive.list_files_below(FOLDER))
    return [card[1] for card in matches if card]


def policy_folder(archive: ArchiveStore, policy_id: str) -> PurePath:
    """Return the folder of a policy."""
    return archive.root / FOLDER / policy_id


def load_card(archive: ArchiveStore, policy_id: str) -> PolicyCard:
    """Load the card of a policy. Raises ``FailureError`` if the card cannot be read or belongs to another policy."""
    path = policy_folder(archive, policy_id) / CARD
    card = archive.load_record(path, PolicyCard)
    if card.policy_id != policy_id or policy_id != compute_policy_id(card.name, card.knowledge):
        raise FailureError(f"{path} is damaged (it is not the card of policy {policy_id}): restore it from a copy")
    return card


def load_cards(archive: ArchiveStore) -> list[PolicyCard]:
    """Load all cards, oldest first. Raises ``FailureError`` if a card is damaged."""
    readable = load_readable_cards(archive)
    if readable.errors:
        raise readable.errors[0]
    return readable.cards


class ReadableCards(NamedTuple):
    """The cards of an archive that can be read, and the errors of the cards that cannot."""

    cards: list[PolicyCard]  # oldest first
    errors: list[FailureError]  # of the cards that cannot be read


def load_readable_cards(archive: ArchiveStore) -> ReadableCards:
    """Load the cards that can be read, and collect the errors of the damaged ones."""
    cards, errors = [], []
    for policy_id in list_policy_ids(archive):
        try:
            cards.append(load_card(archive, policy_id))
        except FailureError as error:
            errors.append(error)
    cards.sort(key=lambda card: (datetime.fromisoformat(card.created), card.policy_id))
    return ReadableCards(cards, errors)
