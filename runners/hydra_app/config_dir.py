"""The option --config-dir for commands that are not Hydra applications: a user's own folder of agents and rules."""

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
        with initialize_config_dir(str(CONF), version_base="1.3"):
            yield
    finally:
        UserConfigDir.folder = None
