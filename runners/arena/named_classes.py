"""The classes that yamls name: of what a card or another record of an archive names, only these are imported.

An archive comes from anybody, so everything in it is data. A yaml of the project, or of a folder that the user names
with ``--config-dir``, says which classes may be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarto.errors import RequestError
from runners.arena.code import texts_in
from runners.arena.config_groups import as_written

TARGET = "_target_"


def check_named(what: str, settings: Any, groups: Sequence[str], yaml: str) -> None:
    """Raises ``RequestError`` unless each class that ``settings`` name, at any depth, is named by a yaml of ``groups``.

    ``what`` names the policy in messages, ``yaml`` the file that should name its class, such as ``kind/mine.yaml``.
    Nothing is imported. An agent that has a process runs whatever a folder holds, so a card may not name one at all.
    """
    named = {target for group in groups for target in targets_in(as_written(group)) if isinstance(target, str)}
    for target in targets_in(settings):
        if not isinstance(target, str) or target not in named:
            where = " or ".join(f"conf/{group}" for group in groups)
            raise RequestError(
                f"{what}: its card names the class {target}, which no yaml of {where} names, so it is not imported: if "
                f"it is your own, name the folder that has {yaml}, --config-dir DIR"
            )
    runs_folders = [name for name, own in as_written("agent").items() if own.get("has_process")]
    for text in texts_in(settings):
        if text.partition("(")[0].strip() in runs_folders:
            raise RequestError(
                f"{what}: its card names the agent {text}, which runs the code of a folder: no card may have code run"
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
