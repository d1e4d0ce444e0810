"""Remarks with advice, which each place words for its readers: with a command, or with a Python call."""

from __future__ import annotations

from quarto.errors import Advice

__all__ = ["Advice", "word_for_python"]


def word_for_python(remark: str) -> str:
    """Return a remark as text for Python users: an ``Advice`` names its Python call instead of its command."""
    return remark.for_python if isinstance(remark, Advice) else remark
