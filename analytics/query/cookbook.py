"""The questions of the cookbook (docs/cookbook.md, which this package contains) as values."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_QUESTION = re.compile(
    r"^### (?P<number>\d+)\. (?P<title>[^\n]+)\n\n(?P<note>(?:(?!```)[^\n]*\n)*)```sql\n(?P<sql>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)


class CookbookQuestion(NamedTuple):
    """A question of the cookbook."""

    number: int
    section: str
    title: str
    note: str  # what a reader should know, in Markdown; often nothing
    sql: str


@cache
def questions() -> tuple[CookbookQuestion, ...]:
    """All questions, in the order of the page."""
    text = (files("analytics.query") / "cookbook.md").read_text(encoding="utf-8")
    sections = [(found.start(), found[1]) for found in _SECTION.finditer(text)]
    return tuple(
        CookbookQuestion(
            int(found["number"]),
            next(name for start, name in reversed(sections) if start < found.start()),
            found["title"],
            " ".join(found["note"].split()),
            found["sql"],
        )
        for found in _QUESTION.finditer(text)
    )
