"""``qarena policy build``: a policy derived from the games that a condition chooses, and stored under a name."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from analytics import open_archive
from analytics.policies import policy_store
from analytics.policies.derived.dataset import Derivation, Material, check_rules, gathered
from analytics.policies.derived.provenance import TABLE, ranges_of
from analytics.policies.policy_store import Origin
from analytics.query.selection import EVERYTHING, select
from analytics.store.archive import Archive
from analytics.store.records import PolicyCard, run_id_of
from quarto.errors import RequestError, nearest
from quarto.sources import source_fingerprint
from runners.arena.checks import check_range
from runners.arena.config_groups import names, settings_of
from runners.arena.machine import MEBIBYTE, available_cores, available_megabytes
from runners.arena.spec import code_by, made
from runners.arena.storage import ARCHIVE
from runners.terminal import console

GROUP = "policy"
OWN_KEYS = ("kind", "name", "where", "threads", "archive.root")
BYTES_A_GAME = 120  # of material, boards and keys; measured, with the shard that is being read, rounded up
DERIVING = "analytics/derived"  # whose sources, with those of the players, decide what is derived


@dataclass(frozen=True)
class Wanted:
    """What is to be derived, from which games, and how to call it."""

    kind: str
    settings: Mapping[str, Any]  # its class under _target_ and its parameters
    derivation: Derivation
    name: str
    where: str
    threads: int
    root: Path
    command: str

    @property
    def training(self) -> str:
        """12 hex digits: what a name stands for. The same for the same question, asked of more games too."""
        return run_id_of({"kind": self.kind, "settings": dict(self.settings), "where": self.where})


def wanted_of(words: Sequence[str], root: Path | None, typed: Sequence[str]) -> Wanted:
    """What words such as ``kind=gift`` ask for; ``root`` is what ``--archive`` says, ``typed`` came after the program.

    Raises ``RequestError`` for the first value that makes no sense, before anything is touched.
    """
    given = _given(words)
    if "kind" not in given:
        raise RequestError(f"kind=KIND is missing{nearest('', names(GROUP))}")
    kind = given.pop("kind")
    settings = settings_of(GROUP, kind, "kind")
    where, name, threads = given.pop("where", EVERYTHING), given.pop("name", kind), given.pop("threads", None)
    folder = Path(given.pop("archive.root", root or ARCHIVE))
    policy_store.check_name(name, "name")
    for key, text in given.items():
        valid = [each for each in settings if each != "_target_"]
        if key not in valid:
            raise RequestError(f"kind {kind!r} has no parameter {key!r}{nearest(key, [*valid, *OWN_KEYS])}")
        settings[key] = _value(key, text)
    return Wanted(
        kind=kind,
        settings=settings,
        derivation=derivation_of(kind, settings),
        name=name,
        where=where,
        threads=_threads(threads),
        root=folder,
        command=shlex.join(["qarena", *typed]),
    )


def derivation_of(kind: str, settings: Mapping[str, Any]) -> Derivation:
    """The derivation that settings describe. Raises ``RequestError`` for parameters that make no sense."""
    target = settings.get("_target_")
    if not isinstance(target, str):
        raise RequestError(f"kind '{kind}': its yaml names no class under _target_")
    parameters = {key: value for key, value in settings.items() if key != "_target_"}
    derivation: Derivation = made(f"kind '{kind}'", target, parameters)
    if not callable(getattr(derivation, "derive", None)):
        raise RequestError(f"kind '{kind}': {target} has no derive(material, threads) (see analytics/derived)")
    return derivation


def build(wanted: Wanted) -> PolicyCard:
    """Derive a policy and store it.

    Raises ``RequestError`` for a name that is taken, a condition that is none or that no game meets, runs with
    different rules, games that do not fit into memory; ``FailureError`` for a damaged file. Nothing is then changed.
    """
    archive = Archive.open(wanted.root)
    _check_name(archive, wanted)
    with open_archive(wanted.root) as opened:
        selection = select(opened, wanted.where)
        check_rules(selection.runs)
        _check_memory(selection.games)
        material = gathered(selection)
    policy = wanted.derivation.derive(material, wanted.threads)
    if not all(len(column) for column in policy.table.values()):
        raise RequestError(
            f"{len(material.game_id):,} games leave no row with {_parameters(wanted.settings)}: choose more games"
        )
    origin = Origin(
        wanted.name, material.rules, code_of(wanted.settings), _learned(wanted, material), {TABLE: ranges_of(material)}
    )
    return policy_store.save(archive, policy, origin)


def show(card: PolicyCard, root: Path, seconds: float) -> None:
    """Say what was derived, from what, and how to play by it."""
    learned, rows = card.learned, card.files[policy_store.TABLE].rows
    runs = f"{len(learned['run_ids'])} runs" if len(learned["run_ids"]) > 1 else f"run {learned['run_ids'][0]}"
    where = "" if root == ARCHIVE else f" archive.root={shlex.quote(str(root))}"
    what = f"{rows:,} rows from {learned['games']:,} games of {runs} in {seconds:.1f} s"
    for line in (
        f"{learned['trainer']}: {what}; the policy is in {policy_store.folder_of(Archive(root), card.policy_id)}.",
        "Play by it:",
        f"  {console.program()} run agent@a=policy a.policy={card.name}{where}",
    ):
        console.out().print(line, markup=False, soft_wrap=True)


def code_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """What derives, as for runs; the sources of all kinds are in its fingerprint."""
    code = code_by([str(settings["_target_"])], learning=True)
    fingerprint = hashlib.sha256(f"{code['fingerprint']} {source_fingerprint((DERIVING,))}".encode()).hexdigest()[:16]
    return code | {"fingerprint": fingerprint}


def _given(words: Sequence[str]) -> dict[str, str]:
    """The texts by key; only the first = of a word separates them: a condition has some of its own."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[a-z_][a-z_.]*", key):
            raise RequestError(f"{word!r} is not key=value: quote a condition as a whole, \"where=agent_0 = 'mcts'\"")
        if key in found:
            raise RequestError(f"{key} is given twice: {key}={found[key]} and {word}")
        found[key] = value
    return found


def _value(key: str, text: str) -> Any:
    """A parameter's value in Hydra's grammar."""
    try:
        parsed = OverridesParser.create().parse_override(f"{key}={text}")
    except HydraException as error:
        raise RequestError(f"{key}={text} cannot be read: quote brackets and spaces for the shell") from error
    if parsed.is_sweep_override():
        raise RequestError(f"{key}={text} is more than one value: build one policy for each")
    return parsed.value()


def _threads(text: str | None) -> int:
    if text is None:
        return available_cores()
    if not text.isdecimal():
        raise RequestError(f"threads={text!r} is not a whole number")
    check_range("threads", int(text), 1, 1024)
    return int(text)


def _check_name(archive: Archive, wanted: Wanted) -> None:
    taken = policy_store.named(archive, wanted.name)
    if taken is not None and taken.learned["training"] != wanted.training:
        raise RequestError(
            f"name={wanted.name} is the name of another policy ({taken.learned['trainer']}, "
            f"{taken.learned['games']:,} games; 'qarena policy show {wanted.name}' tells all): choose another name"
        )


def _check_memory(games: int) -> None:
    needed, available = games * BYTES_A_GAME / MEBIBYTE, available_megabytes()
    if needed > available:
        raise RequestError(
            f"{games:,} games take {needed:,.0f} MB of memory and {available:,.0f} MB are free: choose at most "
            f"{int(available * MEBIBYTE / BYTES_A_GAME):,}, for example with AND game_id % 10 < 2"
        )


def _learned(wanted: Wanted, material: Material) -> dict[str, Any]:
    """What the card says of the games, and of what was made of them."""
    return {
        "training": wanted.training,
        "trainer": wanted.kind,
        "parameters": dict(wanted.settings),
        "seed": 0,
        "games": len(material.game_id),
        "run_ids": [record.run_id for record in material.runs],
        "command": wanted.command,
        "where": wanted.where,
        "derivation": {"kind": wanted.kind, "parameters": dict(wanted.settings)},
        "checksums": material.checksums(wanted.threads),
    }


def _parameters(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items() if key != "_target_") or "no parameters"
