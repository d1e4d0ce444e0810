"""The options of `qarena serve`, for the command line, which must not import the libraries of the extra."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath


@dataclass(frozen=True)
class ServeOptions:
    """What was asked for on the command line."""

    archive: PurePath
    host: str
    port: int
    name: str | None  # None: the login name
    config_dir: Path | None
    command: str  # as it was typed
