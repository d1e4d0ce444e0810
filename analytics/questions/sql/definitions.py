"""The statements that create the views and macros of questions, each run for the first question that needs it.

DuckDB would take 100 ms to read all of them, and a question needs few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from analytics.questions.sql import views
from analytics.questions.sql.syntax import LABEL_MACRO, POLICY_MACRO, ParsedQuery
from analytics.store.schema import TABLE_SCHEMAS

_DEFINITION_FILES = ("macros.sql", "made_views.sql", "position_macros.sql")
_NAME = re.compile(r"CREATE (?:OR REPLACE )?(?:MACRO|TABLE|VIEW) (\w+)")
_COMMENT = re.compile("--.*")
_WORD = re.compile(r"\w+")


@cache
def load_definitions() -> dict[str, str]:
    """Load the SQL statement that defines each view and macro, by the name of the view or macro.

    The statements for views of stored rows create these views without rows.
    """
    stored = {
        view: views.create_empty_view_sql(view)
        for view in (*TABLE_SCHEMAS, *views.RECORD_VIEWS, *views.HIDDEN_VIEWS, "boards")
    }
    macros = {LABEL_MACRO: views.create_label_macro_sql({}), POLICY_MACRO: views.create_policy_macro_sql({})}
    return stored | macros | _read_definition_files()


@cache
def _read_definition_files() -> dict[str, str]:
    """Read the statements in the SQL files, by the name of the view or macro that each creates."""
    texts = [
        _COMMENT.sub("", (files("analytics.questions.sql") / name).read_text(encoding="utf-8"))
        for name in _DEFINITION_FILES
    ]
    statements = [statement for text in texts for statement in text.split(";") if statement.strip()]
    return {_NAME.findall(statement)[0]: statement for statement in statements}


def list_needed_names(query: ParsedQuery) -> Sequence[str]:
    """List the views and macros that a query may need, each after the views and macros that its definition uses."""
    return add_dependencies(load_definitions() if query.lists_catalogue or query.is_composed else query.names)


def add_dependencies(names: Iterable[str]) -> Sequence[str]:
    """Return the names in ``names`` that are defined, together with the names that their definitions use.

    Each name comes after the names that its definition uses.
    """
    return _add_dependencies_cached(tuple(sorted(load_definitions().keys() & set(names))))


@lru_cache(maxsize=256)
def _add_dependencies_cached(names: Sequence[str]) -> Sequence[str]:
    ordered: dict[str, None] = {}
    for name in names:
        parts = tuple(part for part in _find_defined_names(_read_definition_files().get(name, "")) if part != name)
        ordered |= dict.fromkeys([*_add_dependencies_cached(parts), name])
    return tuple(ordered)


def _find_defined_names(text: str) -> Sequence[str]:
    return tuple(sorted(set(_WORD.findall(text)) & load_definitions().keys()))
