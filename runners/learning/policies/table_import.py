"""Tables and networks that were learned elsewhere, stored as policies that play like any other policy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from agents.base.parameters import check_number
from agents.network import NETWORK, Layers, to_policy
from agents.policy import VALUE_COLUMNS
from analytics import DEFAULT_ARCHIVE, format_archive_option
from analytics.policies.table_import import (
    CONFLICTS,
    ImportedPolicy,
    ImportOptions,
    parse_policy_table,
    read_policy_table,
)
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.policy_cards import PolicyCard
from analytics.store.policy_store import PolicyOrigin
from analytics.store.records import compute_run_id
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.code_fingerprints import build_class_code_record
from runners.config.schemas import check_choice
from runners.config.yaml_options import load_rules
from runners.terminal import console

IMPORT_TRAINER = "import"  # the card's entry in place of a trainer
PARSER_PATH = "analytics.policies.table_import.imported"


DEFAULT_SETTINGS = {
    "kind": "",
    "name": "",
    "rules": "classic",
    "scale": "1",
    "conflicts": CONFLICTS[0],
}  # as typed


def parse_settings_with_defaults(words: Sequence[str]) -> dict[str, str]:
    """Parse settings of the form ``KEY=VALUE``; settings that are not given keep their defaults.

    Raises ``RequestError`` for a word that is not such a setting.
    """
    settings = dict(DEFAULT_SETTINGS)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise RequestError(f"{word!r} is not KEY=VALUE{suggest_valid_names(key, DEFAULT_SETTINGS)}")
        if key not in DEFAULT_SETTINGS:
            raise RequestError(f"there is no setting {key!r}{suggest_valid_names(key, DEFAULT_SETTINGS)}")
        settings[key] = value
    return settings


def import_policy(root: PurePath, file: Path, settings: Mapping[str, str], command: str) -> None:
    """Read a policy from a file, store it in the archive at ``root``, and print what was read.

    Raises ``RequestError`` for an invalid setting or file, and for a name that belongs to another policy.
    """
    name = settings["name"] or file.stem
    policy_store.check_name(name, "name")
    options = _parse_options(settings)
    frame = read_policy_table(file)
    archive = ArchiveStore.open(root, create=True)
    how = {key: value for key, value in settings.items() if key != "name"}
    learned = _build_card_fields(how, file.name, _compute_sha256(file), command)
    policy_store.check_name_free(archive, name, learned["training"], "name")
    try:
        imported_policy = parse_policy_table(frame, options)
    except RequestError as error:
        raise RequestError(f"{file}: {error}") from error
    origin = PolicyOrigin(name, options.rules, build_class_code_record([PARSER_PATH], learning=False), learned)
    card = policy_store.save(archive, imported_policy.policy, origin)
    _print_summary(imported_policy, card, options, root)


def save_network(
    layers: Layers, name: str, archive: str | PurePath = DEFAULT_ARCHIVE, rules: str = "classic"
) -> PolicyCard:
    """Store a trained network as the policy ``name``; the agent ``policy(policy=NAME)`` plays by it.

    Weights are rounded to multiples of 2^-16.

    Args:
        layers: Weights [inputs, units] and biases [units] of each layer, as NumPy arrays, with rectified linear units
            between the layers. The first layer has the 357 inputs of ``agents.network.build_network_inputs``, the last
            layer a unit for the value of each of the 289 turns.
        name: The name of the policy.
        archive: The root of the archive, which is created if it does not exist.
        rules: The name of a rule set.

    Returns:
        The card of the stored policy.

    Raises:
        RequestError: The layers do not form such a network, the name is invalid, or it belongs to another policy.

    """
    policy_store.check_name(name, "name")
    rule_set = load_rules(rules)
    try:
        policy = to_policy(layers)
    except ValueError as error:
        raise RequestError(f"this network cannot be stored: {error}") from error
    archive_store = ArchiveStore.open(parse_location(archive), create=True)
    learned = _build_card_fields(
        {"kind": NETWORK, "rules": rules}, "arrays", policy_store.compute_knowledge_digest(policy), "save_network"
    )
    policy_store.check_name_free(archive_store, name, learned["training"], "name")
    origin = PolicyOrigin(
        name, rule_set, build_class_code_record(["agents.network.policy_of"], learning=False), learned
    )
    return policy_store.save(archive_store, policy, origin)


def _parse_options(settings: Mapping[str, str]) -> ImportOptions:
    kind, conflicts = settings["kind"], settings["conflicts"]
    if kind not in VALUE_COLUMNS:
        wrong = f"kind={kind} is not a kind of values of turns" if kind else "kind=KIND is missing"
        raise RequestError(f"{wrong}{suggest_valid_names(kind, VALUE_COLUMNS)}")
    check_choice("conflicts", conflicts, CONFLICTS)
    try:
        scale = check_number("scale", float(settings["scale"]))
    except ValueError as error:
        raise RequestError(f"scale={settings['scale']} is not a finite number") from error
    rules = load_rules(settings["rules"])
    if rules.mover_chooses:
        raise RequestError(
            f"rules={rules.name}: there the mover chooses the piece, and the agent policy plays where the opponent does"
        )
    return ImportOptions(kind, rules, scale, conflicts)


def _compute_sha256(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}") from error


def _build_card_fields(settings: dict[str, str], file: str, sha256: str, command: str) -> dict[str, Any]:
    """Build those fields of the card that say where the policy comes from.

    ``sha256`` is the hash of the imported content. A policy with the same name and settings as a stored policy counts
    as a newer version of it.
    """
    return {
        "training": compute_run_id({"import": settings}),
        "trainer": IMPORT_TRAINER,
        "parameters": settings,
        "seed": 0,
        "games": 0,
        "run_ids": [],
        "command": command,
        "imported": {"file": file, "sha256": sha256},
    }


def _print_summary(imported_policy: ImportedPolicy, card: PolicyCard, options: ImportOptions, root: PurePath) -> None:
    """Print what was read, and a command that plays with the policy.

    Notes say how many rows were left out, and how many turns have contradictory values.
    """
    afterstates = len(imported_policy.policy.table["lanes"])
    if imported_policy.skipped_rows:
        console.print_note(
            f"left out: {format_count_with_noun(imported_policy.skipped_rows, 'row')} that "
            "would finish a line or place the last piece, where no "
            "value is read"
        )
    if imported_policy.conflicts:
        resolution = {"mean": "their mean is", "first": "that of the first row is"}[options.conflicts]
        console.print_note(
            "different values, up to symmetry, of "
            f"{format_count_with_noun(imported_policy.conflicts, 'turn')}: {resolution} taken; "
            f"{imported_policy.example}"
        )
    folder = policy_cards.policy_folder(ArchiveStore(root), card.policy_id)
    rules = f"rules={options.rules.name}{format_archive_option(root)}"
    turns = (
        f"{format_count_with_noun(afterstates, 'turn')} up to symmetry from "
        f"{format_count_with_noun(imported_policy.rows, 'row')}"
    )
    for line in (
        f"{card.kind}: {turns}; the policy is in {folder}.",
        "Play by it:",
        f"  {console.find_program()} run 'policy(policy={card.name})' random {rules}",
    ):
        console.print_line(line)
