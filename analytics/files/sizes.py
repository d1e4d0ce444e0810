"""Sizes as people write them: ``128MiB``, ``1GiB``, ``500MB``."""

from __future__ import annotations

import re

from quarto.errors import RequestError

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)B")


def bytes_of(size: str) -> int:
    """The bytes of a size. Raises ``RequestError`` for a text that is none, and for 0."""
    found = _SIZE.fullmatch(size)
    if not found or not float(found[1]):
        raise RequestError(f"{size!r} is not a size: write a number and a unit, such as 128MiB or 1GiB")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " "))
