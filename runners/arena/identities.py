"""Identities: the fixed strings that stand for classes in records, on cards and in settings.

One table resolves identities. It is read from the yamls that ship with the project, so data can name the classes in
these yamls and no others; of these, data must not name agents that start programs. A class without an entry belongs to
the user: it is imported by its dotted path, and only if the user named it.

The identity of a class is the key ``id`` beside ``_target_`` in its yaml or, without that key, the dotted path. A
module can therefore move: ``_target_`` changes, and ``id`` keeps what archives hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from quarto.sources import project_root

# Keys of yamls: the dotted path of a class, its identity, and whether it starts programs.
TARGET_KEY, ID_KEY, PROGRAMS_KEY = "_target_", "id", "starts_programs"
CLASS_GROUPS = ("agent", "executor", "kind", "objective", "trainer")  # folders of conf/ whose yamls name classes


class ShippedClass(NamedTuple):
    """A class that is named in a yaml shipped with this project."""

    path: str  # dotted
    starts_programs: bool = False


def is_shipped(identity: Any) -> bool:
    """Return whether the class with this identity is named in a yaml shipped with this project.

    The identity of a class is the string that stands for it in records, on cards and in settings. It is the key ``id``
    in the class's yaml or, without that key, the dotted path of the class.
    """
    return isinstance(identity, str) and identity in _load_shipped_classes()


def starts_programs(identity: Any) -> bool:
    """Return whether the class with this identity (see ``is_shipped``) belongs to this project and starts programs.

    Records, cards and other data may come from a stranger, so they must not name such a class; the user may.
    """
    return is_shipped(identity) and _load_shipped_classes()[identity].starts_programs


def is_allowed_in_data(identity: Any) -> bool:
    """Return whether records, cards and other data may name the class with this identity (see ``is_shipped``).

    They may if the class belongs to this project and starts no programs.
    """
    return is_shipped(identity) and not starts_programs(identity)


def to_class_path(identity: str) -> str:
    """Return the dotted path of the class with this identity (see ``is_shipped``).

    The path is taken from the table of identities. A class of the user is not in the table: its identity is its path.
    """
    return _load_shipped_classes()[identity].path if is_shipped(identity) else identity


def to_module_name(identity: str) -> str:
    """Return the dotted name of the module that defines the class with this identity (see ``is_shipped``)."""
    return to_class_path(identity).rpartition(".")[0]


def to_identities_without_id_keys(settings: Any) -> Any:
    """Replace the dotted paths of shipped classes in nested settings with the classes' identities (see ``is_shipped``).

    A key ``id`` that holds such an identity is dropped, because the identity is then under ``_target_``. The identity
    of any other class is its dotted path, which stays unchanged.
    """
    if isinstance(settings, list):
        return [to_identities_without_id_keys(value) for value in settings]
    if not isinstance(settings, dict):
        return settings
    values = {key: to_identities_without_id_keys(value) for key, value in settings.items()}
    if isinstance(values.get(TARGET_KEY), str):
        if is_shipped(values.get(ID_KEY)):
            del values[ID_KEY]
        values[TARGET_KEY] = _index_identities().get(values[TARGET_KEY], values[TARGET_KEY])
    return values


@cache
def _load_shipped_classes() -> Mapping[str, ShippedClass]:
    return read_identities(project_root() / "conf")


@cache
def _index_identities() -> Mapping[str, str]:
    return {shipped.path: identity for identity, shipped in _load_shipped_classes().items()}


def read_identities(folder: Path) -> dict[str, ShippedClass]:
    """Read the table of identities from the yamls in a folder.

    Args:
        folder: Folder like ``conf/``, with a folder for each of ``CLASS_GROUPS``.

    Returns:
        The class of each identity, keyed by identity.

    Raises:
        ValueError: Two classes have one identity, or one class has two.

    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, where PyYAML was built with it: ten times as fast
    classes: dict[str, ShippedClass] = {}
    for group in CLASS_GROUPS:
        for file in sorted((folder / group).glob("*.yaml")):
            settings = yaml.load(file.read_text(encoding="utf-8"), loader)  # noqa: S506  (both loaders are safe ones)
            for identity, shipped in _list_classes(settings):
                if classes.setdefault(identity, shipped) != shipped:
                    raise ValueError(f"{file}: {identity} is the identity of {classes[identity].path} already")
    if len({shipped.path for shipped in classes.values()}) < len(classes):
        raise ValueError(f"{folder}: a class has two identities: {sorted(classes)}")
    return classes


def _list_classes(settings: Any) -> Iterator[tuple[str, ShippedClass]]:
    """Yield the identity and the class for each key ``_target_`` in nested settings."""
    if not isinstance(settings, Mapping):
        return
    if TARGET_KEY in settings:
        shipped = ShippedClass(settings[TARGET_KEY], settings.get(PROGRAMS_KEY) is True)
        yield settings.get(ID_KEY, shipped.path), shipped
    for value in settings.values():
        yield from _list_classes(value)
