"""The folders of entries: each entry has one of its own, so that no sandboxed entry can read the code of another."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quarto.errors import RequestError
from quarto.sources import find_module_spec, read_imported_modules
from runners.league.league_file import ENTRIES_FOLDER


def list_agent_folders(folder: Path) -> list[Path]:
    """List the folders of the entries of a league in ``folder`` that are agents of its own, ``entries/*/agent/*.yaml``.

    Each is a folder for ``--config-dir``: agents are looked up in all of them.
    """
    return sorted({path.parent.parent for path in (folder / ENTRIES_FOLDER).glob("*/agent/*.yaml")})


def check_agent_folder(folder: Path, agent: str, module: str) -> None:
    """Check that an agent of the league's own uses modules of its own folder, and none of another entry's.

    All these folders are on the import path of one process, where the first module of a name is the one that counts.

    Args:
        folder: The folder of the league.
        agent: The name of the agent.
        module: The module with its class.

    Raises:
        RequestError: Another entry has an agent or a module of the same name, or the agent imports another's module.

    """
    folders = list_agent_folders(folder)
    own_folders = [path for path in folders if (path / "agent" / f"{agent}.yaml").is_file()]
    if not own_folders:  # the agent is installed, so it is no entry's
        return
    if len(own_folders) > 1:
        raise RequestError(f"agent '{agent}' is in {own_folders[0]} and in {own_folders[1]}: rename one of the two")
    for name in sorted({module, *read_imported_modules(module)}):
        spec = find_module_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        for other in folders:
            if origin and other != own_folders[0] and origin.is_relative_to(other.resolve()):
                raise RequestError(_describe_foreign_module(name, own_folders[0], other))


def _describe_foreign_module(name: str, own_folder: Path, other_folder: Path) -> str:
    path = own_folder.joinpath(*name.split("."))
    if path.with_suffix(".py").is_file() or path.is_dir():
        return f"module '{name}' is in {own_folder} and in {other_folder}: rename one, because Python finds one only"
    return f"it imports '{name}' from {other_folder}, but an entry has the modules of its own folder only"


def check_visible_folder(folder: Path, key: str, value: Any) -> None:
    """Check that a path, or a command with paths, makes no folder visible in a sandbox that other entries are in.

    A file is visible with the folder that it is in. Raises ``RequestError``.
    """
    entries_folder = (folder / ENTRIES_FOLDER).resolve()
    for path in _list_paths(value):
        visible = path if path.is_dir() else path.parent
        if entries_folder.is_relative_to(visible.resolve()):
            raise RequestError(
                f"{key}: in a sandbox, the entry could read all of {visible}, where other entries are: move its files "
                f"to a folder of its own, {ENTRIES_FOLDER}/NAME"
            )


def _list_paths(value: Any) -> Iterator[Path]:
    """Yield the absolute paths in a value that lead to something."""
    words = shlex.split(value) if isinstance(value, str) and value else []
    for word in (value, *words) if words else ():
        path = Path(word)
        if path.is_absolute() and path.exists():
            yield path
