"""``qarena policy rebuild``: a policy derived again from the games on its card, and what differs, if anything does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agents.learning.learner import Learner
from agents.learning.policy import GENOME, Policy
from analytics import open_archive, policies
from analytics.archive import Archive
from analytics.derived.material import gathered
from analytics.derived.sources import sources_of
from analytics.learning import relearn
from analytics.records import PolicyCard
from quarto.errors import RequestError
from runners.config import available_cores
from runners.deriving import code_of, derivation_of
from runners.spec import code_by, made

ONLINE = "runners.training.online.Online"
MOST_DIFFERENCES = 5  # columns whose first difference is shown


class Rebuilt(NamedTuple):
    """What a policy became when it was derived again."""

    card: PolicyCard
    rows: int
    differences: tuple[str, ...]  # none: it is the same to the byte


def rebuild(root: Path, wanted: str, threads: int | None = None) -> Rebuilt:
    """Derive a policy again from the games on its card and compare. The archive is only read.

    Raises ``RequestError`` for a policy that is not there or is damaged, whose games are not there any more, or that
    nothing can derive again; ``FailureError`` for damaged games.
    """
    archive = Archive.open(root)
    card, stored = policies.read(archive, wanted)
    if card.kind == GENOME:
        raise RequestError(
            f"policy '{card.name}' is a genome, bred over {len(card.learned['run_ids'])} runs: the command of its "
            "training, typed again, breeds it from the games that are there and plays nothing new: "
            f"{card.learned.get('command', '')}"
        )
    if card.is_derived:
        found, notes = _derived_again(archive, card, threads or available_cores())
    else:
        found, notes = _learned_again(archive, card), []
    differences = [*differences_of(stored, found)]
    if differences:
        differences = [*notes, *_other_code(card), *differences]
    return Rebuilt(card, len(next(iter(found.table.values()))), tuple(differences))


def differences_of(stored: Policy, found: Policy) -> Iterator[str]:
    """What differs between two policies, one line each: kind, parameters, columns, rows, the first value of each."""
    if policies.knowledge_of(stored) == policies.knowledge_of(found):
        return
    for what, before, after in (
        ("kind", stored.kind, found.kind),
        ("parameters", dict(stored.parameters), dict(found.parameters)),
        ("columns", _columns(stored), _columns(found)),
    ):
        if before != after:
            yield f"{what}: stored {before}, derived again {after}"
    sizes = [len(next(iter(policy.table.values()), ())) for policy in (stored, found)]
    if sizes[0] != sizes[1]:
        yield f"rows: stored {sizes[0]:,}, derived again {sizes[1]:,}"
    for name in [name for name in stored.table if name in found.table][:MOST_DIFFERENCES]:
        old, new = (policy.table[name][: min(sizes)] for policy in (stored, found))
        wrong = np.flatnonzero(old != new)
        if wrong.size:
            row = int(wrong[0])
            first = f"stored {old[row]}, derived again {new[row]}"
            yield f"column {name}: {wrong.size:,} rows differ, the first is row {row}: {first}"


def _columns(policy: Policy) -> dict[str, str]:
    return {name: str(column.dtype) for name, column in policy.table.items()}


def _derived_again(archive: Archive, card: PolicyCard, threads: int) -> tuple[Policy, list[str]]:
    """The policy, and in whose games something has changed."""
    derivation = derivation_of(str(card.learned["trainer"]), card.learned["parameters"])
    with open_archive(archive.root) as opened:
        material = gathered(sources_of(opened, card))
    sums = material.checksums(threads)
    changed = [run_id for run_id, checksum in card.learned["checksums"].items() if sums[run_id] != checksum]
    notes = [f"games of run {run_id} are not what they were: see 'qarena archive verify'" for run_id in changed]
    return derivation.derive(material, threads), notes


def _learned_again(archive: Archive, card: PolicyCard) -> Policy:
    """What the learner of a training makes of its games."""
    settings = card.learned["parameters"]
    if settings.get("_target_") != ONLINE or not isinstance(settings.get("learner"), Mapping):
        raise RequestError(
            f"policy '{card.name}' was made by trainer '{card.learned['trainer']}' ({settings.get('_target_')}), which "
            "keeps no games to learn from again: only what 'qarena policy build' and online trainers made is rebuilt"
        )
    learner: Any = settings["learner"]
    parameters = {key: value for key, value in learner.items() if key != "_target_"}
    student = made(f"the learner of policy '{card.name}'", str(learner.get("_target_")), parameters)
    if not isinstance(student, Learner):
        raise RequestError(f"policy '{card.name}': {learner.get('_target_')} is no Learner any more")
    (run_id,) = card.learned["run_ids"]
    return student.policy(relearn(archive, run_id, student, card.learned["games"]))


def _other_code(card: PolicyCard) -> Iterator[str]:
    """That other code made it, if so: probably why it differs."""
    settings = card.learned["parameters"]
    if card.is_derived:
        now = code_of(settings)
    else:
        targets = [str(settings["_target_"]), str(settings["learner"]["_target_"])]
        now = code_by(targets, learning=True)
    for key in ("version", "fingerprint", "numba", "numpy"):
        if card.code.get(key) != now[key]:
            yield f"code: {key} was {card.code.get(key)}, is {now[key]}"
