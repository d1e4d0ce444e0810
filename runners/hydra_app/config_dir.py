"""Folders of a user's own agents and rules.

Commands that are not Hydra applications take ``--config-dir``; those that are have it from Hydra, and
``hydra.searchpath=`` too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

SEARCHPATH = "hydra.searchpath="


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
