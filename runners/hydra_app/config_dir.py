"""Folders of a user's own agents, kinds and rules, and of the modules that their yamls name.

Every command takes them by ``--config-dir``. Their paths are in an environment variable, so that Hydra's search path
and processes that a launcher starts have them too. Their modules come after all others, so that none of them hides one
of Python or of the project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from quarto.errors import RequestError
from runners.arena.config_groups import CONF

# Environment variables, so that processes that a launcher starts have them too: absolute paths, and the name of this
# launch's output folders, which must differ between two launches in the same second.
OWN_FOLDERS = "QARENA_OWN_FOLDERS"
LAUNCH = "QARENA_LAUNCH"


class UserFolders(SearchPathPlugin):
    """Adds the user's own folders to Hydra's search path, after the project's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in own_folders():
            search_path.append("user", f"file://{folder}")


def own_folders() -> list[str]:
    """The user's own folders of this command."""
    return [folder for folder in os.environ.get(OWN_FOLDERS, "").split(os.pathsep) if folder]


@contextmanager
def user_config_dir(folder: Path | None) -> Iterator[None]:
    """Read configurations from ``folder`` too, inside the context. Raises ``RequestError`` if it is not a folder."""
    with own_modules([folder] if folder else []), initialize_config_dir(str(CONF), version_base="1.3"):
        yield


@contextmanager
def own_modules(folders: Sequence[Path]) -> Iterator[None]:
    """Let Hydra find yamls and Python modules in these folders, inside the context, also in processes that it starts.

    Raises ``RequestError`` for one that is not a folder.
    """
    for folder in folders:
        if (CONF / folder.name).is_dir() and any(folder.glob("*.yaml")):
            raise RequestError(f"--config-dir {folder}: name the folder that holds {folder.name}/, {folder.parent}")
        if not folder.is_dir():
            raise RequestError(f"--config-dir {folder} is not a folder: name the one that holds agent/ or rules/")
    Plugins.instance().register(UserFolders)
    before = os.environ.get(OWN_FOLDERS)
    os.environ[OWN_FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    added = find_own_modules()
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
        if before is None:
            del os.environ[OWN_FOLDERS]
        else:
            os.environ[OWN_FOLDERS] = before


def find_own_modules() -> list[str]:
    """Let this process import from the user's own folders; returns those that are new on its import path."""
    added = [folder for folder in dict.fromkeys(own_folders()) if folder not in sys.path]
    sys.path.extend(added)
    return added
