"""A remark with what to do about it, which each place words for its readers: as a command, or as a call of Python."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """What the matter is, and the command and the call that help. As text it names the command."""

    text: str
    command: str  # such as "'qarena annotate' judges them"
    call: str  # the same for Python, such as "runners.annotate judges them"

    @property
    def for_python(self) -> str:
        """The remark as users of Python read it."""
        return f"{self.text} ({self.call})"

    def __str__(self) -> str:
        return f"{self.text} ({self.command})"


def word_for_python(remark: str | Advice) -> str:
    """Return a remark as users of Python read it."""
    return remark if isinstance(remark, str) else remark.for_python
