"""A remark with advice, which each place words for its readers: with a command, or with a call of Python."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """A remark that names a remedy: a command, and the equivalent Python call.

    As a string, it names the command; ``for_python`` names the Python call.
    """

    text: str
    command: str  # such as "'qarena annotate' judges them"
    call: str  # the call of Python that helps, such as "runners.annotate judges them"

    @property
    def for_python(self) -> str:
        """The remark with the Python call instead of the command."""
        return f"{self.text} ({self.call})"

    def __str__(self) -> str:
        return f"{self.text} ({self.command})"


def word_for_python(remark: str | Advice) -> str:
    """Return a remark as text for users of Python; an ``Advice`` then names its Python call instead of its command."""
    return remark if isinstance(remark, str) else remark.for_python
