"""A user's own folder of agents and rules, for commands that are no Hydra applications and so lack its --config-dir."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from quarto.errors import RequestError
from runners.arena.config_groups import CONF


class OwnFolder(SearchPathPlugin):
    """Adds the folder to where Hydra searches, after the project's own; Hydra makes the object, so the class has it."""

    folder: Path | None = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if self.folder is not None:
            search_path.append("own folder", f"file://{self.folder.resolve()}")


@contextmanager
def own_folder(folder: Path | None) -> Iterator[None]:
    """While this lasts, configurations are read from ``folder`` too. Raises ``RequestError`` if it is no folder."""
    if folder is not None and not folder.is_dir():
        raise RequestError(f"--config-dir {folder} is not a folder: name the one that holds agent/ or rules/")
    Plugins.instance().register(OwnFolder)
    OwnFolder.folder = folder
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            yield
    finally:
        OwnFolder.folder = None
