"""Questions in SQL that ship: the named ones (``named/*.sql``), and those of docs/cookbook.md, a file of this room."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from quarto.errors import RequestError, describe_valid_names

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_QUESTION = re.compile(
    r"^### (?P<number>\d+)\. (?P<title>[^\n]+)\n\n(?P<note>(?:(?!```)[^\n]*\n)*)```sql\n(?P<sql>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)


class CookbookQuery(NamedTuple):
    """A question of the cookbook."""

    number: int
    section: str
    title: str
    note: str  # what a reader should know, in Markdown; often nothing
    sql: str


@cache
def read_cookbook() -> tuple[CookbookQuery, ...]:
    """All questions, in the order of the page."""
    text = (files("analytics.questions") / "cookbook.md").read_text(encoding="utf-8")
    sections = [(found.start(), found[1]) for found in _SECTION.finditer(text)]
    return tuple(
        CookbookQuery(
            int(found["number"]),
            next(name for start, name in reversed(sections) if start < found.start()),
            found["title"],
            " ".join(found["note"].split()),
            found["sql"],
        )
        for found in _QUESTION.finditer(text)
    )


def list_query_names() -> list[str]:
    """The names of all questions, sorted."""
    found = (entry.name for entry in (files("analytics.questions") / "named").iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql"))


def read_query(name: str) -> str:
    """The SQL of a question. Raises ``RequestError`` for an unknown name."""
    if name not in list_query_names():
        raise RequestError(f"question {name!r} is not known{describe_valid_names(name, list_query_names())}")
    return (files("analytics.questions") / "named" / f"{name}.sql").read_text(encoding="utf-8")


CONDITION_PLACEHOLDER = (
    "true /* chosen */"  # stands for a condition in the SQL of questions that can be restricted to some games
)

PLIES_PLACEHOLDER = "ply < 3 /* first plies */"  # stands for the plies that a question about first plies reads


def read_restricted_query(name: str, condition: str, plies: range | None = None) -> str:
    """Return the SQL of a question about the games that ``condition`` chooses (on ``run_id`` and ``game_id``).

    ``plies`` are those that a question about first plies reads, by default the first three. Raises ``RequestError`` for
    an unknown question, and for one that always takes all games.
    """
    text = read_query(name)
    if plies is not None:
        text = text.replace(PLIES_PLACEHOLDER, f"ply BETWEEN {plies.start} AND {plies.stop - 1}")
    if CONDITION_PLACEHOLDER not in text:
        raise RequestError(f"question {name!r} takes all games: {CONDITION_PLACEHOLDER!r} is not in its SQL")
    return text.replace(CONDITION_PLACEHOLDER, f"(\n{condition}\n)")
