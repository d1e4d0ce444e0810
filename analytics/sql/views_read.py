"""The views and policies that a question reads: only for those are files checked and rows prepared."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

import duckdb

from analytics.sql.syntax_trees import Node, nodes

_BY_TEXT = ("query", "query_table")  # table functions that take a question or the name of a table as a text
POLICY = "policy"  # the macro that is the table of a policy
POSITIONS = "positions"  # the view that has the text of each position
_TEXTS = ("board_text", "position_text")  # the macros of position_macros.sql


class Read(NamedTuple):
    """The views and policies that a question may read, and perhaps more."""

    views: set[str]  # views and table macros
    policies: set[str] | None  # names in policy('NAME'); None: any
    texts: bool  # of positions, by the macros or in the view


def read_by(connection: duckdb.DuckDBPyConnection, text: str, known: Collection[str]) -> Read:
    """Those of ``known``, views and table macros, and the policies that a question reads: all if a name is composed.

    DuckDB's own parser tells. It serialises SELECT alone: of other statements, all views count whose names occur.
    """
    text = text.encode(errors="replace").decode()
    # All rows are fetched: an unfinished result would be in the way of what is prepared next.
    ((serialised,),) = connection.execute("SELECT json_serialize_sql($1)", [text]).fetchall()
    parsed = json.loads(serialised)
    lowered = text.lower()
    if parsed["error"]:
        composed = _BY_TEXT[0] in lowered
        views = {view for view in known if composed or view in lowered}
        return Read(views, None if POLICY in lowered or composed else set(), _has_texts(lowered, views))
    views, policies = set(), set()
    for node in nodes(parsed):
        if node.get("type") == "BASE_TABLE":
            views.add(node["table_name"].lower())
        elif node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name in _BY_TEXT:
                return Read(set(known), None, texts=True)
            views.add(name)
            if name == POLICY:
                policies |= set(map(_text, node["function"]["arguments"]))
    named = None if None in policies else {name for name in policies if name is not None}
    return Read(views & set(known), named, _has_texts(lowered, views))


def _has_texts(lowered: str, views: Collection[str]) -> bool:
    return POSITIONS in views or any(macro in lowered for macro in _TEXTS)


def _text(argument: Node) -> str | None:
    """The text of an argument; None if it is none, but computed."""
    literal = argument["expression"].get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else None
