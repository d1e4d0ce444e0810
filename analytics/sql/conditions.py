"""Conditions on games that a user writes in SQL: each is one expression whose answer can be repeated.

DuckDB's own parser (``json_serialize_sql``) reads them; no text is matched. Its tree says where the expression ends,
which functions it calls, whether their names are quoted or not, and whether it takes a sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import duckdb

from analytics.sql.database import OpenArchive
from analytics.sql.syntax_trees import Node, nodes
from analytics.sql.views import literal
from analytics.sql.vocabulary import PURE_TABLES
from quarto.errors import RequestError

# What may follow the expression after WHERE in a SELECT.
_OTHER_CLAUSES = ("modifiers", "group_expressions", "group_sets", "having", "qualify", "sample")
_TEXT_SPANS = ("query_location", "query_location_length")

# Functions that SQL calls without brackets, so that they look like columns.
_CLOCKS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_SAMPLING = frozenset({"reservoir_quantile"})  # DuckDB lists it as consistent, but it draws some of the rows


def both(opened: OpenArchive, first: str, second: str) -> str:
    """The condition that holds where both do. Each is checked on its own, so that neither can cancel the other.

    Raises the errors of ``check``.
    """
    for where in (first, second):
        check(opened, where)
    return f"{_enclosed(first)} AND {_enclosed(second)}"


def _enclosed(where: str) -> str:
    return f"({where}\n)" if "--" in where else f"({where})"  # a comment ends with its line


def check(opened: OpenArchive, where: str) -> None:
    """Raise ``RequestError`` unless ``where`` is one expression whose answer is the same whenever it is asked.

    Columns are not looked up: DuckDB names those that it does not find when the condition is used.
    """
    if all(kind == duckdb.token_type.comment for _, kind in duckdb.tokenize(where)):
        raise RequestError(f"where={where!r} is empty: leave it out to choose all games")
    try:
        # Alone, a bracket that it closes and did not open is an error; in brackets, the start of another clause.
        alone, enclosed = _select(opened, where), _select(opened, f"({where}\n)")
    except RequestError as error:
        raise RequestError(f"where={where!r} is not a condition on games: {error}") from error
    if any(alone[clause] for clause in _OTHER_CLAUSES) or alone["where_clause"] != enclosed["where_clause"]:
        raise RequestError(f"where={where!r} is not a condition on games: it goes on after one expression")
    reason = _changing(opened, alone["where_clause"])
    if reason:
        raise RequestError(
            f"where={where!r} {reason}, so its result could not be repeated: use columns of the games, as in "
            "game_id % 10 = 0"
        )


def _select(opened: OpenArchive, expression: str) -> Node:
    """The syntax tree of a SELECT of the games that an expression chooses. Raises ``RequestError`` if it is none."""
    text = f"SELECT 1 FROM games WHERE {expression}\n"  # noqa: S608  (it is parsed, not asked)
    parsed = json.loads(opened.sql(f"SELECT json_serialize_sql({literal(text)})").item())
    if parsed["error"]:
        raise RequestError(f"SQL: {parsed['error_message']}")
    nodes = [statement["node"] for statement in parsed["statements"]]
    if len(nodes) != 1 or nodes[0]["type"] != "SELECT_NODE":
        raise RequestError("it goes on after one expression")
    found: Node = _without_spans(nodes[0])
    return found


def _without_spans(part: Any) -> Any:
    """A part of a tree without where it is in the text, so that trees of one expression are equal."""
    if isinstance(part, dict):
        return {name: _without_spans(value) for name, value in part.items() if name not in _TEXT_SPANS}
    return [_without_spans(value) for value in part] if isinstance(part, list) else part


def _changing(opened: OpenArchive, expression: Node) -> str | None:
    """Why the answer of an expression may change from one moment to the next; None if it cannot."""
    called = set()
    for node in nodes(expression):
        if node.get("sample"):
            return "takes a SAMPLE"
        if node.get("type") == "TABLE_FUNCTION" and node["function"]["function_name"].lower() not in PURE_TABLES:
            return f"reads from {node['function']['function_name']}(), which can change"
        if "function_name" in node:
            called.add(node["function_name"].lower())
        if node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in _CLOCKS:
            return f"calls {node['column_names'][-1].lower()}, which changes"
    changing = sorted(called & _SAMPLING) or _changing_functions(opened, called)
    return f"calls {changing[0]}(), which changes" if changing else None


def _changing_functions(opened: OpenArchive, names: Iterable[str]) -> list[str]:
    """Those of these functions that DuckDB does not list as consistent, sorted; a macro if its definition has one."""
    if not names:
        return []
    listed = opened.sql(
        "SELECT DISTINCT function_name, stability, macro_definition FROM duckdb_functions() "  # noqa: S608  (quoted)
        f"WHERE function_type IN ('scalar', 'macro') AND function_name IN ({', '.join(map(literal, sorted(names)))})"
    )
    return sorted(
        {
            name
            for name, stability, definition in listed.iter_rows()
            if (definition is None and stability != "CONSISTENT")
            or (definition is not None and _changing(opened, _select(opened, f"({definition})")["where_clause"]))
        }
    )
