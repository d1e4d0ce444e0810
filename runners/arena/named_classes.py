"""The classes that yamls name: of what a card or another record of an archive names, only these are imported.

An archive comes from anybody, so everything in it is data. A yaml of the project, or of a folder that the user names
with ``--config-dir``, says which classes may be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarto.errors import RequestError
from runners.arena.config_groups import as_written

TARGET = "_target_"


def check_named(what: str, settings: Any, groups: Sequence[str], yaml: str) -> None:
    """Raises ``RequestError`` unless each class that ``settings`` name, at any depth, is named by a yaml of ``groups``.

    ``what`` names the policy in messages, ``yaml`` the file that should name its class, such as ``kind/mine.yaml``.
    Nothing is imported.
    """
    named = {target for group in groups for target in targets_in(as_written(group)) if isinstance(target, str)}
    for target in targets_in(settings):
        if not isinstance(target, str) or target not in named:
            where = " or ".join(f"conf/{group}" for group in groups)
            raise RequestError(
                f"{what}: its card names the class {target}, which no yaml of {where} names, so it is not imported: if "
                f"it is your own, name the folder that has {yaml}, --config-dir DIR"
            )


def targets_in(settings: Any) -> Iterator[Any]:
    """All values under ``_target_`` in nested mappings and lists."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if key == TARGET:
                yield value
            else:
                yield from targets_in(value)
    elif isinstance(settings, Sequence) and not isinstance(settings, str):
        for value in settings:
            yield from targets_in(value)
