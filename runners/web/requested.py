"""The options of `qarena serve`, for the command line, which must not import the libraries of the extra."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath


@dataclass(frozen=True)
class ServeOptions:
    """The options as they were given."""

    archive: PurePath
    host: str
    port: int
    name: str | None  # None: the login name
    config_dir: Path | None
    command: str  # as it was typed
