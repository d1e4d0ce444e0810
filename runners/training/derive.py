"""Deriving a policy from the games that a condition chooses, and storing it under a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from agents.learning.policy import Policy
from analytics import open_archive
from analytics.policies import policy_store
from analytics.policies.derived.dataset import (
    Dataset,
    Derivation,
    Learned,
    LearningDerivation,
    check_rules,
    dataset_of,
)
from analytics.policies.derived.provenance import TABLE
from analytics.policies.derived.streamed import GameStream
from analytics.policies.policy_store import Origin
from analytics.query.selection import Selection, select
from analytics.store.archive import Archive
from analytics.store.records import PolicyCard, run_id_of
from quarto.errors import ArenaError, FailureError, RequestError
from quarto.sources import source_fingerprint
from runners.arena.code import code_by
from runners.arena.machine import MEBIBYTE, available_megabytes
from runners.arena.spec import made_of
from runners.contestants.places import place_of

BYTES_A_GAME = 120  # of dataset, boards and keys; measured, with the shard that is being read, rounded up
DERIVING = "analytics/policies/derived"  # whose sources, with those of the players, decide what is derived


@dataclass(frozen=True)
class BuildRequest:
    """A checked configuration: how to derive a policy, from which games, and its name."""

    kind: str
    settings: Mapping[str, Any]  # its class under _target_ and its parameters
    derivation: Derivation | LearningDerivation
    name: str
    where: str
    threads: int
    root: Path
    command: str

    @property
    def training(self) -> str:
        """12 hex digits, the same for the same kind, parameters and condition. A name belongs to one of them."""
        return run_id_of({"kind": self.kind, "settings": dict(self.settings), "where": self.where})


def derivation_of(kind: str, settings: Mapping[str, Any]) -> Derivation | LearningDerivation:
    """The derivation that settings describe. Raises ``RequestError`` for invalid parameters."""
    derivation: Derivation = made_of(f"kind '{kind}'", settings, Derivation)
    return derivation


def source_of(
    derivation: Derivation | LearningDerivation, selection: Selection, order: Sequence[str] = ()
) -> Dataset | GameStream:
    """The games of a selection as a derivation takes them: in memory, or read as it learns.

    ``order`` is as for ``dataset_of``, which raises the same errors.
    """
    return (GameStream if isinstance(derivation, LearningDerivation) else dataset_of)(selection, order)


def derived(derivation: Derivation | LearningDerivation, dataset: Dataset | GameStream, threads: int) -> Learned:
    """The policy of the games that ``source_of`` gives. Raises what the derivation raises."""
    if isinstance(derivation, LearningDerivation):
        return derivation.learn(dataset, threads)
    assert isinstance(dataset, Dataset)  # noqa: S101  (as source_of makes it)
    return Learned(derivation.derive(dataset, threads))


@dataclass(frozen=True)
class PreparedBuild:
    """A request and the games that it chooses, in an archive that ``build`` closes."""

    request: BuildRequest
    selection: Selection


def prepare(request: BuildRequest) -> PreparedBuild:
    """Choose the games; none of them is read yet.

    Raises ``RequestError`` for a name that is taken, an invalid condition or one that no game meets, runs with
    different rules, games that do not fit into memory.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(open_archive(request.root))
        _check_name(opened.archive, request)
        selection = select(opened, request.where)
        check_rules(selection.runs)
        if not isinstance(request.derivation, LearningDerivation):
            _check_memory(selection.games)
        stack.pop_all()
    return PreparedBuild(request, selection)


def build(prepared: PreparedBuild) -> PolicyCard:
    """Derive a policy and store it.

    Raises ``RequestError`` if its parameters do not fit the games, ``FailureError`` for a damaged file. Nothing is then
    changed.
    """
    request = prepared.request
    with prepared.selection.opened:
        dataset = source_of(request.derivation, prepared.selection)
        learned = _derived(request, dataset)
        ranges, checksums = dataset.ranges(), dataset.checksums(request.threads)
    policy = learned.policy
    if not (policy.table and all(len(column) for column in policy.table.values())):
        raise RequestError(
            f"{dataset.size:,} games give no row with {_parameters(request.settings)}: choose more games"
        )
    tables, pictures = {TABLE: ranges}, dict[str, bytes]()
    if learned.curve is not None:
        tables["curve"], pictures["curve"] = learned.curve, _picture(request, learned.curve)
    card = _learned(request, dataset, checksums)
    origin = Origin(request.name, dataset.rules, code_of(request.settings), card, tables, pictures)
    return policy_store.save(Archive.open(request.root), policy, origin)


def _derived(request: BuildRequest, dataset: Dataset | GameStream) -> Learned:
    """The policy. Raises ``FailureError`` if its kind, which may be a user's own, makes none."""
    what, derivation = f"kind '{request.kind}' ({request.settings['_target_']})", request.derivation
    try:
        learned = derived(derivation, dataset, request.threads)
    except ArenaError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FailureError(f"{what} raised {reason}, at {place_of(error)}") from error
    policy: Any = learned.policy
    if not isinstance(policy, Policy):
        raise FailureError(f"{what} returned {type(policy).__name__}, not a Policy (see agents/learning/policy.py)")
    try:
        policy_store.checked(policy)
    except ValueError as error:
        raise FailureError(f"{what} returned a policy that cannot be stored: {error}") from error
    return learned


def _picture(request: BuildRequest, curve: pl.DataFrame) -> bytes:
    """The learning curve as SVG."""
    from analytics.report import style

    return style.curve_svg(curve, f"How {request.name} learned", [_parameters(request.settings)])


def code_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The code that derives, as for runs; its fingerprint covers the sources of all kinds."""
    code = code_by([str(settings["_target_"])], learning=True)
    fingerprint = hashlib.sha256(f"{code['fingerprint']} {source_fingerprint((DERIVING,))}".encode()).hexdigest()[:16]
    return code | {"fingerprint": fingerprint}


def _check_name(archive: Archive, request: BuildRequest) -> None:
    taken = policy_store.named(archive, request.name)
    if taken is not None and taken.learned["training"] != request.training:
        raise RequestError(
            f"name={request.name} is the name of another policy ({taken.learned['trainer']}, "
            f"{taken.learned['games']:,} games; 'qarena policy show {request.name}' describes it): choose another name"
        )


def _check_memory(games: int) -> None:
    needed, available = games * BYTES_A_GAME / MEBIBYTE, available_megabytes()
    if needed > available:
        raise RequestError(
            f"{games:,} games take {needed:,.0f} MB of memory and {available:,.0f} MB are free: choose at most "
            f"{int(available * MEBIBYTE / BYTES_A_GAME):,}, for example with AND game_id % 10 < 2"
        )


def _learned(request: BuildRequest, dataset: Dataset | GameStream, checksums: Mapping[str, str]) -> dict[str, Any]:
    """The card's fields on the games and on the derivation."""
    return {
        "training": request.training,
        "trainer": request.kind,
        "parameters": dict(request.settings),
        "seed": 0,
        "games": dataset.size,
        "run_ids": [record.run_id for record in dataset.runs],
        "command": request.command,
        "where": request.where,
        "derivation": {"kind": request.kind, "parameters": dict(request.settings)},
        "checksums": dict(checksums),
    }


def _parameters(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items() if key != "_target_") or "no parameters"
