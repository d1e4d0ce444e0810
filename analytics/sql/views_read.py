"""The views that a question reads: files are checked for those only."""

from __future__ import annotations

import json
from collections.abc import Iterable

import duckdb

from analytics.sql.syntax_trees import nodes

_BY_TEXT = ("query", "query_table")  # table functions that take a question or the name of a table as a text


def views_read(connection: duckdb.DuckDBPyConnection, text: str, views: Iterable[str]) -> set[str]:
    """Those of ``views`` that a question may read, and perhaps more: all if a name may be composed in the question.

    DuckDB's own parser tells. It serialises SELECT alone: of other statements, all views count whose names occur.
    """
    known, text = set(views), text.encode(errors="replace").decode()
    (serialised,) = connection.execute("SELECT json_serialize_sql($1)", [text]).fetchone() or ("",)
    parsed = json.loads(serialised)
    lowered = text.lower()
    if parsed["error"]:
        return known if _BY_TEXT[0] in lowered else {view for view in known if view in lowered}
    found = set()
    for node in nodes(parsed):
        if node.get("type") == "BASE_TABLE":
            found.add(node["table_name"].lower())
        elif node.get("type") == "TABLE_FUNCTION" and node["function"]["function_name"].lower() in _BY_TEXT:
            return known
    return known & found
