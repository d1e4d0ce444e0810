"""Folders of a user's own agents, kinds and rules, and of the modules that their yamls name.

Commands that are not Hydra applications take ``--config-dir``; those that are have it from Hydra, and
``hydra.searchpath=`` too. The modules in these folders can be imported after all others, so that none of them hides one
of Python or of the project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin

from quarto.errors import RequestError
from runners.arena.config_groups import CONF

OWN_FOLDERS = "QARENA_OWN_FOLDERS"  # an environment variable: launchers start processes

SEARCHPATH = "hydra.searchpath="
FILE = "file://"


class UserPlaces(SearchPathPlugin):
    """Adds ``places`` to Hydra's search path, after the project's own. On the class, since Hydra makes the object."""

    places: Sequence[str] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for place in self.places:
            search_path.append("user", place)


@contextmanager
def user_config_dir(folder: Path | None) -> Iterator[None]:
    """Read configurations from ``folder`` too, inside the context. Raises ``RequestError`` if it is not a folder."""
    if folder is not None and not folder.is_dir():
        raise RequestError(f"--config-dir {folder} is not a folder: name the one that holds agent/ or rules/")
    with (
        own_modules([folder] if folder else []),
        searched([f"file://{folder.resolve()}"] if folder else []),
        initialize_config_dir(str(CONF), version_base="1.3"),
    ):
        yield


@contextmanager
def searched(places: Sequence[str]) -> Iterator[None]:
    """Let Hydra read configurations from these places too, inside the context: ``file://FOLDER`` or ``pkg://NAME``."""
    Plugins.instance().register(UserPlaces)
    before, UserPlaces.places = UserPlaces.places, places
    try:
        yield
    finally:
        UserPlaces.places = before


def places_in(arguments: Sequence[str]) -> list[str]:
    """The places that ``hydra.searchpath=[…]`` names among the arguments of a command.

    Hydra itself reads them for the groups that the request chooses, but does not list their options, as agents in
    ``agents=[…]`` and error messages need.
    """
    given = [argument for argument in arguments if argument.startswith(SEARCHPATH)]
    try:
        value = OverridesParser.create().parse_override(given[-1]).value() if given else []
    except HydraException:  # Hydra reads it again and says what is wrong
        return []
    return [place for place in value if isinstance(place, str)] if isinstance(value, list) else []


def folders_of(places: Sequence[str]) -> Iterator[Path]:
    """Those of the places that are folders."""
    for place in places:
        if place.startswith(FILE):
            yield Path(place.removeprefix(FILE))


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
