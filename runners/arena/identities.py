"""Identities: the fixed strings that stand for classes in records, on cards and in settings.

One table resolves them. It is read from the yamls that ship with the project, so data reaches the classes that these
name, and nothing else. A class without an entry belongs to the user: it is imported by its dotted path, and only if the
user named it. The identity of a class is the key ``id`` beside ``_target_`` in its yaml or, without that key, the
dotted path. So a module can move: ``_target_`` changes, ``id`` keeps what archives hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from quarto.sources import project_root

TARGET, ID = "_target_", "id"  # keys of yamls: the dotted path of a class, its identity
GROUPS = ("agent", "executor", "kind", "objective", "trainer")  # folders of conf/ whose yamls name classes


def find_class_path(identity: str) -> str | None:
    """Return the dotted path of the class with an identity; None if no yaml of the project names such a class."""
    return _shipped_identities().get(identity)


def is_shipped(identity: Any) -> bool:
    """Return whether a yaml of the project names the class, so that data may name it too."""
    return isinstance(identity, str) and identity in _shipped_identities()


def module_of(identity: str) -> str:
    """Return the name of the module with the class; that of the dotted path, if the class is the user's own."""
    return (find_class_path(identity) or identity).rpartition(".")[0]


def to_identities(settings: Any) -> Any:
    """Replace the dotted paths of shipped classes in nested settings by their identities, and drop the keys ``id``.

    A path of another class is its own identity: it stays.
    """
    if isinstance(settings, list):
        return [to_identities(value) for value in settings]
    if not isinstance(settings, dict):
        return settings
    values = {key: to_identities(value) for key, value in settings.items()}
    if isinstance(values.get(TARGET), str):
        if is_shipped(values.get(ID)):
            del values[ID]
        values[TARGET] = _identities_by_path().get(values[TARGET], values[TARGET])
    return values


@cache
def _shipped_identities() -> Mapping[str, str]:
    return read_identities(project_root() / "conf")


@cache
def _identities_by_path() -> Mapping[str, str]:
    return {path: identity for identity, path in _shipped_identities().items()}


def read_identities(folder: Path) -> dict[str, str]:
    """Read the table from the yamls in a folder: the dotted path of each class by its identity.

    Raises ``ValueError`` for an identity of two classes, and for a class with two identities.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, where PyYAML was built with it: ten times as fast
    identities: dict[str, str] = {}
    for group in GROUPS:
        for file in sorted((folder / group).glob("*.yaml")):
            settings = yaml.load(file.read_text(encoding="utf-8"), loader)  # noqa: S506  (both loaders are safe ones)
            for identity, path in _named_classes(settings):
                if identities.setdefault(identity, path) != path:
                    raise ValueError(f"{file}: {identity} is the identity of {identities[identity]} already")
    if len({*identities.values()}) < len(identities):
        raise ValueError(f"{folder}: a class has two identities: {sorted(identities)}")
    return identities


def _named_classes(settings: Any) -> Iterator[tuple[str, str]]:
    """Yield identity and dotted path of each class in nested settings."""
    if not isinstance(settings, Mapping):
        return
    if TARGET in settings:
        yield settings.get(ID, settings[TARGET]), settings[TARGET]
    for value in settings.values():
        yield from _named_classes(value)
