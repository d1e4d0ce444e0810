"""The option --config-dir: a user's own folder of agents, kinds and rules, and of the modules that their yamls name.

Hydra applications read its yamls themselves; ``user_config_dir`` is for the other commands. The modules in the folder
can be imported after all others, so that none of them hides one of Python or of the project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from quarto.errors import RequestError
from runners.arena.config_groups import CONF

OWN_FOLDERS = "QARENA_OWN_FOLDERS"  # an environment variable: launchers start processes


class UserConfigDir(SearchPathPlugin):
    """Adds ``folder`` to Hydra's search path, after the project's own. On the class, since Hydra makes the object."""

    folder: Path | None = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if self.folder is not None:
            search_path.append("user", f"file://{self.folder.resolve()}")


@contextmanager
def user_config_dir(folder: Path | None) -> Iterator[None]:
    """Read configurations from ``folder`` too, inside the context. Raises ``RequestError`` if it is not a folder."""
    if folder is not None and not folder.is_dir():
        raise RequestError(f"--config-dir {folder} is not a folder: name the one that holds agent/ or rules/")
    Plugins.instance().register(UserConfigDir)
    UserConfigDir.folder = folder
    try:
        with own_modules([] if folder is None else [folder]), initialize_config_dir(str(CONF), version_base="1.3"):
            yield
    finally:
        UserConfigDir.folder = None


@contextmanager
def own_modules(folders: Iterable[Path]) -> Iterator[None]:
    """Import modules from these folders too, inside the context, also in processes that a launcher starts."""
    before = os.environ.get(OWN_FOLDERS)
    os.environ[OWN_FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    added = find_own_modules()
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)
        if before is None:
            del os.environ[OWN_FOLDERS]
        else:
            os.environ[OWN_FOLDERS] = before


def find_own_modules() -> list[str]:
    """Let this process import from the folders of ``own_modules``; returns those that are new on its import path."""
    folders = os.environ.get(OWN_FOLDERS, "").split(os.pathsep)
    added = [folder for folder in dict.fromkeys(folders) if folder and folder not in sys.path]
    sys.path.extend(added)
    return added
