"""The syntax trees that DuckDB's own parser gives (``json_serialize_sql``), and what a question reads by them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import duckdb

Node = dict[str, Any]

_BY_TEXT = ("query", "query_table")  # table functions that take a question or the name of a table as a text
POLICY = "policy"  # the macro that is the table of a policy
POSITIONS = "positions"  # the view that has the text of each position
_TEXTS = ("board_text", "position_text")  # the macros of position_macros.sql


def nodes(part: Any) -> Iterator[Node]:
    """All mappings in a tree, each before those inside it."""
    if isinstance(part, dict):
        yield part
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(value)


class Read(NamedTuple):
    """The views and policies that a question may read, and perhaps more."""

    views: set[str]  # views and table macros
    policies: set[str] | None  # names in policy('NAME'); None: any
    texts: bool  # of positions, by the macros or in the view
    composed: bool = False  # a name is made of texts while it is answered: it may read less than all


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
        policies = None if POLICY in lowered or composed else set[str]()
        return Read(views, policies, _has_texts(lowered, views), composed=True)
    tables = {node["table_name"].lower() for node in nodes(parsed) if node.get("type") == "BASE_TABLE"}
    called = [node["function"] for node in nodes(parsed) if node.get("type") == "TABLE_FUNCTION"]
    functions = {function["function_name"].lower() for function in called}
    if functions & set(_BY_TEXT):
        return Read(set(known), None, texts=True, composed=True)
    named = {
        _text(argument)
        for function in called
        if function["function_name"].lower() == POLICY
        for argument in function["arguments"]
    }
    views = (tables | functions) & set(known)
    policies = None if None in named else {name for name in named if name is not None}
    return Read(views, policies, _has_texts(lowered, views))


def _has_texts(lowered: str, views: Collection[str]) -> bool:
    return POSITIONS in views or any(macro in lowered for macro in _TEXTS)


def _text(argument: Node) -> str | None:
    """The text of an argument; None if it is none, but computed."""
    literal = argument["expression"].get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else None
