"""Where an exception comes from. The standard library only, as in ``framing``."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path


def raised_at(error: BaseException) -> str:
    """File and line where an agent's exception comes from: the innermost that is no library's."""
    known: str | None = getattr(error, "place", None)  # of an exception in another process
    if known is not None:
        return known
    libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<", *libraries))]
    inner = frames[-1] if frames else None
    return f"{_shortened(inner.filename)}:{inner.lineno}" if inner else "an unknown place"


def _shortened(file: str) -> str:
    """A path, relative to the current folder if it is in there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
