"""The folder in which the project keeps what it can make again. This module imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """``$QARENA_CACHE``, else a folder in the user's cache folder; it may not exist yet."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return Path(os.environ.get("QARENA_CACHE") or user_cache / "quarto-arena")
