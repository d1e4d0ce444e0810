"""The store of policies. Each has a name, and a card that lists its games, its method and the code that learned it.

A policy has a folder of its own and is stored once its card exists. Its knowledge is ``table.parquet`` or, for a
genome, ``genome.json``; the other files (``curve.parquet``, ``curve.svg``, ``population.parquet``) describe its
training. A name belongs to one training and means its newest card; older cards are found by id.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from agents.learning.policy import GENOME, Policy
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import explain_errors
from analytics.store.parquet.metadata import read_footer
from analytics.store.policy_cards import (
    CARD,
    FOLDER,
    POLICY_ID,
    POLICY_NAME,
    STORED_POLICY_FILE,
    TABLE,
    PolicyCard,
    PolicyFile,
    compute_policy_id,
    load_card,
    load_cards,
    load_readable_cards,
    policy_folder,
)
from analytics.store.records import encode_record, parse_record
from analytics.store.texts import format_count_with_noun
from quarto.errors import Advice, FailureError, NotFoundError, RequestError, suggest_valid_names
from quarto.rules import Rules

GENOME_FILE = "genome.json"

MISSING_CARD = (
    "missing: restore it from a copy, or learn the policy again; 'qarena archive compact' removes what a killed "
    "writer left"
)

COLUMN_TYPES = (np.int8, np.int16, np.int32, np.int64, np.float64)


@dataclass(frozen=True)
class PolicyOrigin:
    """The origin of a policy: everything that is stored with it besides its kind, parameters and columns."""

    name: str
    rules: Rules
    code: Mapping[str, Any]
    learned: Mapping[str, Any]  # see ``PolicyCard``
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # stored as NAME.parquet
    pictures: Mapping[str, bytes] = field(default_factory=dict)  # stored as NAME.svg


def check_policy(policy: Policy) -> Policy:
    """Return the policy, or raise ``ValueError`` if a value is not finite or a column cannot be stored."""
    for name, value in policy.parameters.items():
        if not np.isfinite(value):
            raise ValueError(f"parameter {name!r} is {value}")
    lengths = {name: len(column) for name, column in policy.table.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"its columns differ in length: {lengths}")
    for name, column in policy.table.items():
        if column.dtype not in COLUMN_TYPES or column.ndim != 1:
            raise ValueError(f"column {name!r} is {column.dtype} of {format_count_with_noun(column.ndim, 'dimension')}")
        wrong = np.flatnonzero(~np.isfinite(column))
        if wrong.size:
            raise ValueError(
                f"column {name!r} is {column[wrong[0]]} in row {wrong[0]} "
                f"({format_count_with_noun(wrong.size, 'such row')})"
            )
    return policy


def compute_knowledge_digest(policy: Policy) -> str:
    """Compute the SHA-256 (64 hex digits) of a policy's kind, parameters and columns.

    The names, types and bytes of the columns are hashed in their order.
    """
    parameters = {name: float(value) for name, value in policy.parameters.items()}
    columns = [[name, str(column.dtype), len(column)] for name, column in policy.table.items()]
    head = {"kind": policy.kind, "parameters": parameters, "columns": columns}
    digest = hashlib.sha256(json.dumps(head, sort_keys=True, separators=(",", ":")).encode())
    for column in policy.table.values():
        digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def save(archive: ArchiveStore, policy: Policy, origin: PolicyOrigin) -> PolicyCard:
    """Store a policy, or update its card if the policy is already stored, and return the card.

    Raises ``ValueError`` if the policy cannot be stored, ``FailureError`` if a file cannot be written.
    """
    knowledge = compute_knowledge_digest(check_policy(policy))
    policy_id = compute_policy_id(origin.name, knowledge)
    folder = policy_folder(archive, policy_id)
    files = {
        name: _write_file(archive, folder, name, file.rows, file.content)
        for name, file in _encode_files(policy, origin).items()
    }
    card = PolicyCard(
        policy_id=policy_id,
        name=origin.name,
        kind=policy.kind,
        parameters={name: float(value) for name, value in policy.parameters.items()},
        knowledge=knowledge,
        rules=asdict(origin.rules),
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        code=origin.code,
        learned=origin.learned,
        files=files,
    )
    archive.write_record(folder / CARD, card)
    return card


def copy(source: ArchiveStore, card: PolicyCard, target: ArchiveStore, target_card: PolicyCard) -> None:
    """Copy the files of a policy to another archive and write ``target_card`` there.

    Raises ``FailureError`` if a file is damaged or cannot be written.
    """
    folder = policy_folder(target, target_card.policy_id)
    for name, file in card.files.items():
        try:
            content = _read_file(source, card, name)
        except ValueError as error:
            raise FailureError(f"policy '{card.name}' of {source.root} is damaged: {error}") from error
        _write_file(target, folder, name, file.rows, content)
    target.write_record(folder / CARD, target_card)


def _write_file(archive: ArchiveStore, folder: PurePath, name: str, rows: int | None, content: bytes) -> PolicyFile:
    """Store one file of a policy and return the file's entry for the card.

    The stored name includes a digest of the content, so that files never change.
    """
    file = PolicyFile(rows, len(content), _compute_sha256(content))
    archive.write_file(folder / file.add_digest_to_name(name), content)
    return file


def find_by_name(archive: ArchiveStore, name: str) -> PolicyCard | None:
    """Return the newest card with the given name, or None if no card has this name.

    Raises ``FailureError`` if no readable card has the name and some card is damaged.
    """
    sound, damaged = load_readable_cards(archive)
    named_card = next((card for card in reversed(sound) if card.name == name), None)
    if named_card is None and damaged:
        raise damaged[0]
    return named_card


def find(archive: ArchiveStore, id_or_name: str) -> PolicyCard:
    """Find the card of a policy by the policy's id or name. Raises ``NotFoundError`` if there is no such policy."""
    if POLICY_ID.fullmatch(id_or_name) and _has_card(archive, id_or_name):
        return load_card(archive, id_or_name)
    card = find_by_name(archive, id_or_name)
    if card is None:
        names = {card.name for card in load_cards(archive)}
        raise NotFoundError(
            f"policy {id_or_name!r} is not in archive {archive.root}{suggest_valid_names(id_or_name, names)}"
        )
    return card


def _has_card(archive: ArchiveStore, policy_id: str) -> bool:
    """Return whether a policy has a card, even a damaged one, without listing the folders of all policies."""
    path = policy_folder(archive, policy_id) / CARD
    with explain_errors("find", path):
        return archive.backend.status(path) is not None


def read(archive: ArchiveStore, id_or_name: str) -> tuple[PolicyCard, Policy]:
    """Read a policy and its card by the policy's id or name, and verify the checksums.

    Raises ``RequestError`` if there is no such policy, or if the policy does not match its card.
    """
    try:
        card = find(archive, id_or_name)
    except FailureError as error:
        raise RequestError(str(error)) from error
    return card, _load_sound_policy(archive, card)


def _load_sound_policy(archive: ArchiveStore, card: PolicyCard) -> Policy:
    """Load the policy of a card. Raises ``RequestError`` if the policy does not match the card."""
    try:
        return _load_policy(archive, card)
    except (ValueError, OSError, pl.exceptions.PolarsError) as error:
        reason, folder = " ".join(str(error).split()), policy_folder(archive, card.policy_id)
        raise RequestError(
            f"policy '{card.name}' is damaged: {reason}; restore {folder} from a copy or train it again"
        ) from error


def read_table(archive: ArchiveStore, card: PolicyCard, name: str) -> pl.DataFrame:
    """Read a table that is stored with a policy, such as ``curve`` or ``population``.

    Raises ``RequestError`` if the policy has no table of that name, or if the file has been changed.
    """
    file = f"{name}.parquet"
    tables = [file_name.removesuffix(".parquet") for file_name in card.files if file_name.endswith(".parquet")]
    if name not in tables:
        raise RequestError(f"policy '{card.name}' has no table {name!r}{suggest_valid_names(name, tables)}")
    try:
        return _read_frame(archive, card, file)
    except (ValueError, OSError, pl.exceptions.PolarsError) as error:
        raise RequestError(f"policy '{card.name}' ({card.policy_id}): {error}; train it again") from error


class PolicyProblem(NamedTuple):
    """A file or folder of a policy, with a description of what is wrong with it."""

    path: PurePath
    fault: str


def list_problems(archive: ArchiveStore, policy_id: str) -> list[PolicyProblem]:
    """List the problems of a stored policy's card and files."""
    folder = policy_folder(archive, policy_id)
    try:
        card = load_card(archive, policy_id)
    except FailureError as error:
        return [PolicyProblem(folder / CARD, str(error))]
    problems = []
    for name in card.files:
        try:
            _read_file(archive, card, name)
        except (ValueError, OSError) as error:
            problems.append(PolicyProblem(folder / card.stored_name(name), str(error)))
    if not problems:
        try:
            _load_sound_policy(archive, card)  # by its card: to find it by its id, all policies would be listed
        except RequestError as error:
            problems.append(PolicyProblem(folder, str(error)))
    return problems


def list_folders_without_card(archive: ArchiveStore) -> list[PolicyProblem]:
    """Return a problem for each folder of a policy that has files but no card.

    The problem names the path of the missing card. A killed writer leaves such folders, because the card is written
    last.
    """
    names: dict[PurePath, set[str]] = {}
    for path in archive.list_files_below(FOLDER):
        if path.parent.parent == archive.root / FOLDER and POLICY_ID.fullmatch(path.parent.name):
            names.setdefault(path.parent, set()).add(path.name)
    return [
        PolicyProblem(folder / CARD, MISSING_CARD)
        for folder, file_names in names.items()
        if CARD not in file_names and any(map(STORED_POLICY_FILE.fullmatch, file_names))
    ]


class EncodedFile(NamedTuple):
    """The content of a policy's file, and its number of rows if it is a table."""

    rows: int | None  # of a table
    content: bytes


def _encode_files(policy: Policy, origin: PolicyOrigin) -> dict[str, EncodedFile]:
    """Encode the files of a policy, keyed by name. The first file holds the policy itself: its table or its genome."""
    files: dict[str, EncodedFile] = {}
    if policy.kind == GENOME:
        parameters = {name: float(value) for name, value in policy.parameters.items()}
        files[GENOME_FILE] = EncodedFile(None, encode_record(parameters))
    else:
        files[TABLE] = _encode_table(pl.DataFrame(dict(policy.table)))
    for name, frame in origin.tables.items():
        files[f"{name}.parquet"] = _encode_table(frame)
    for name, picture in origin.pictures.items():
        files[f"{name}.svg"] = EncodedFile(None, picture)
    return files


def _encode_table(frame: pl.DataFrame) -> EncodedFile:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1)
    return EncodedFile(len(frame), buffer.getvalue())


def _load_policy(archive: ArchiveStore, card: PolicyCard) -> Policy:
    """Load a policy from its file.

    Raises ``ValueError``, ``OSError`` or an error of Polars if the file is missing or damaged, or differs from the
    card.
    """
    if card.kind == GENOME:
        genes = parse_record(_read_file(archive, card, GENOME_FILE), dict[str, float])
        for name in genes.keys() ^ card.parameters.keys():
            fault = f"missing from {GENOME_FILE}" if name in card.parameters else "not on its card"
            raise ValueError(f"gene {name!r} is {fault}")
        policy = Policy(GENOME, genes)
    else:
        frame = _read_frame(archive, card, TABLE)
        for column in frame.iter_columns():
            if column.null_count():
                raise ValueError(f"{TABLE} has nulls in column {column.name!r}")
        table = {column.name: column.to_numpy(writable=True) for column in frame.iter_columns()}
        policy = Policy(card.kind, card.parameters, table)
    if compute_knowledge_digest(check_policy(policy)) != card.knowledge:
        raise ValueError("its values are not those that its card describes")
    return policy


def _read_frame(archive: ArchiveStore, card: PolicyCard, name: str) -> pl.DataFrame:
    """Read a table of a policy.

    Raises ``ValueError`` if the number of rows is wrong, and the errors of ``_read_file``.
    """
    content, listed_rows = _read_file(archive, card, name), card.files[name].rows
    try:
        rows = read_footer(io.BytesIO(content)).rows
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error
    if rows != listed_rows:
        raise ValueError(
            f"{name} has {format_count_with_noun(rows, 'row')}, its card says "
            f"{listed_rows if listed_rows is None else f'{listed_rows:,}'}"
        )
    return pl.read_parquet(content)


def _read_file(archive: ArchiveStore, card: PolicyCard, name: str) -> bytes:
    """Read a file of a policy.

    Raises ``ValueError`` if the file is missing or does not match its entry on the card, and ``OSError`` if it cannot
    be read.
    """
    if name not in card.files:
        raise ValueError(f"its card names no {name}")
    path = policy_folder(archive, card.policy_id) / card.stored_name(name)
    status = archive.backend.status(path)
    if status is None:
        raise ValueError(f"{path.name} is missing")
    if status.bytes != card.files[name].bytes:
        raise ValueError(f"{path.name} has {status.bytes} bytes, its card says {card.files[name].bytes}")
    content = archive.backend.read(path)
    if _compute_sha256(content) != card.files[name].sha256:
        raise ValueError(f"the SHA-256 of {path.name} is not that of its card: it was changed since")
    return content


def _compute_sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check_name_free(archive: ArchiveStore, name: str, training: str, key: str = "policy.name") -> None:
    """Raise ``RequestError`` if a policy of another training has this name. ``key`` is the option that set the name."""
    taken = find_by_name(archive, name)
    if taken is not None and taken.learned["training"] != training:
        command = archive.format_command(f"policy show {name}")
        raise RequestError(
            Advice(
                f"{key}={name} is the name of another policy ({taken.learned['trainer']}, kind {taken.kind}, "
                f"{format_count_with_noun(taken.learned['games'], 'game')})",
                f"choose another; {command} describes it",
                "choose another; archive.policies() lists all",
            )
        )


def check_name(name: str, key: str = "policy.name") -> None:
    """Raise ``RequestError`` if ``name`` is not a valid name of a policy. ``key`` is the option that set the name."""
    if not POLICY_NAME.fullmatch(name):
        raise RequestError(
            f"{key}={name!r} cannot be a name: a letter, then at most 63 letters, digits, '_', '.' and '-', and "
            "neither a word such as null nor like a policy's id"
        )
