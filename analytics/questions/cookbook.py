"""The queries in SQL that the package contains: the named ones (``named/*.sql``), and those of the cookbook.

The cookbook is ``cookbook.md`` beside this module, which the documents show as a page.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from quarto.errors import RequestError, suggest_valid_names

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_QUESTION = re.compile(
    r"^### (?P<number>\d+)\. (?P<title>[^\n]+)\n\n(?P<note>(?:(?!```)[^\n]*\n)*)```sql\n(?P<sql>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)


class CookbookQuery(NamedTuple):
    """A query of the cookbook, with its title, its number and its section."""

    number: int
    section: str
    title: str
    note: str  # what a reader should know, in Markdown; often nothing
    sql: str


@cache
def read_cookbook() -> tuple[CookbookQuery, ...]:
    """Read all queries of the cookbook, in the order in which the cookbook's page lists them."""
    text = (files("analytics.questions") / "cookbook.md").read_text(encoding="utf-8")
    sections = [(match.start(), match[1]) for match in _SECTION.finditer(text)]
    return tuple(
        CookbookQuery(
            int(match["number"]),
            next(name for start, name in reversed(sections) if start < match.start()),
            match["title"],
            " ".join(match["note"].split()),
            match["sql"],
        )
        for match in _QUESTION.finditer(text)
    )


def list_query_names() -> list[str]:
    """List the names of all named queries, sorted."""
    file_names = (entry.name for entry in (files("analytics.questions") / "named").iterdir())
    return sorted(name.removesuffix(".sql") for name in file_names if name.endswith(".sql"))


def read_query(name: str) -> str:
    """Read the SQL of a named query. Raises ``RequestError`` for an unknown name."""
    if name not in list_query_names():
        raise RequestError(f"question {name!r} is not known{suggest_valid_names(name, list_query_names())}")
    return (files("analytics.questions") / "named" / f"{name}.sql").read_text(encoding="utf-8")


CONDITION_PLACEHOLDER = (
    "true /* chosen */"  # stands for a condition in the SQL of questions that can be restricted to some games
)

PLIES_PLACEHOLDER = "ply < 3 /* first plies */"  # stands for the plies that a question about first plies reads


def read_restricted_query(name: str, condition: str, plies_else_first_three: range | None = None) -> str:
    """Read the SQL of a named query, restricted to the games that meet a condition on ``run_id`` and ``game_id``.

    Some queries are about the first plies of games. They cover the plies in ``plies_else_first_three`` or, if it is
    None, the first three plies. Raises ``RequestError`` for an unknown query, and for a query that cannot be
    restricted.
    """
    text = read_query(name)
    if plies_else_first_three is not None:
        text = text.replace(
            PLIES_PLACEHOLDER, f"ply BETWEEN {plies_else_first_three.start} AND {plies_else_first_three.stop - 1}"
        )
    if CONDITION_PLACEHOLDER not in text:
        raise RequestError(f"question {name!r} takes all games: {CONDITION_PLACEHOLDER!r} is not in its SQL")
    return text.replace(CONDITION_PLACEHOLDER, f"(\n{condition}\n)")
