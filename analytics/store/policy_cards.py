"""The cards of stored policies: which policies an archive has, and where their files are."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from pathlib import PurePath

from analytics.store.archive import Archive
from analytics.store.records import POLICY_ID, PolicyCard
from quarto.errors import FailureError

FOLDER = "policies"
CARD = "card.json"


def policy_id_of(name: str, knowledge: str) -> str:
    """A policy's id, 12 hex digits: the same knowledge under the same name has the same one on every machine.

    The name is part of it because two trainings may find the same genome, and each needs a card of its own.
    """
    return hashlib.sha256(f"{name} {knowledge}".encode()).hexdigest()[:12]


def policy_ids(archive: Archive) -> list[str]:
    """The policies that have a card, damaged or not, sorted."""
    named = re.compile(rf"{FOLDER}/({POLICY_ID.pattern})/{re.escape(CARD)}")
    found = (named.fullmatch(archive.name_of(path)) for path in archive.files_below(FOLDER))
    return [card[1] for card in found if card]


def folder_of(archive: Archive, policy_id: str) -> PurePath:
    """The folder of a policy."""
    return archive.root / FOLDER / policy_id


def read_card(archive: Archive, policy_id: str) -> PolicyCard:
    """The card of a policy. Raises ``FailureError`` if it cannot be read or belongs to another policy."""
    path = folder_of(archive, policy_id) / CARD
    card = archive.load(path, PolicyCard)
    if card.policy_id != policy_id or policy_id != policy_id_of(card.name, card.knowledge):
        raise FailureError(f"{path} is damaged (it is not the card of policy {policy_id}): restore it from a copy")
    return card


def cards(archive: Archive) -> list[PolicyCard]:
    """All cards, oldest first. Raises ``FailureError`` for a damaged one."""
    sound, damaged = readable_cards(archive)
    if damaged:
        raise damaged[0]
    return sound


def readable_cards(archive: Archive) -> tuple[list[PolicyCard], list[FailureError]]:
    """The cards that can be read, oldest first, and the errors of those that cannot."""
    sound, damaged = [], []
    for policy_id in policy_ids(archive):
        try:
            sound.append(read_card(archive, policy_id))
        except FailureError as error:
            damaged.append(error)
    return sorted(sound, key=lambda card: (datetime.fromisoformat(card.created), card.policy_id)), damaged
