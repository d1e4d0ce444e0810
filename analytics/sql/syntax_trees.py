"""The syntax trees that DuckDB's own parser gives (``json_serialize_sql``), and what a question reads by them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import duckdb

Node = dict[str, Any]

_BY_TEXT = ("query", "query_table")  # table functions that take a question or the name of a table as a text
POLICY = "policy"  # the macro that is the table of a policy


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> Node:
    """The tree of a text of SELECTs. For any other text ``error`` is true, and ``error_message`` has the reason."""
    # All rows are fetched: an unfinished result would be in the way of what is prepared next.
    known = text.encode(errors="replace").decode()
    ((serialised,),) = connection.execute("SELECT json_serialize_sql($1)", [known]).fetchall()
    tree: Node = json.loads(serialised)
    return tree


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
    composed: bool = False  # a name is made of texts while it is answered: it may read less than all
    columns: set[str] | None = None  # names of columns in it; None: it may read any


def read_by(connection: duckdb.DuckDBPyConnection, text: str, known: Collection[str]) -> Read:
    """Those of ``known``, views and table macros, and the policies that a question reads: all if a name is composed.

    DuckDB's own parser serialises SELECT alone: of other statements, all views count whose names occur.
    """
    tree = parsed(connection, text)
    if tree["error"]:
        lowered = text.lower()
        composed = _BY_TEXT[0] in lowered
        views = {view for view in known if composed or view in lowered}
        return Read(views, None if POLICY in lowered or composed else set(), composed=True)
    tables = {node["table_name"].lower() for node in nodes(tree) if node.get("type") == "BASE_TABLE"}
    called = [node["function"] for node in nodes(tree) if node.get("type") == "TABLE_FUNCTION"]
    functions = {function["function_name"].lower() for function in called}
    if functions & set(_BY_TEXT):
        return Read(set(known), None, composed=True)
    named = {
        _text(argument)
        for function in called
        if function["function_name"].lower() == POLICY
        for argument in function["arguments"]
    }
    policies = None if None in named else {name for name in named if name is not None}
    return Read((tables | functions) & set(known), policies, columns=_columns(tree))


def _columns(tree: Node) -> set[str] | None:
    """The names of columns in a question; None if it reads columns without naming them, as ``*`` does."""
    found = [*nodes(tree)]
    tables = [node for node in found if node.get("type") == "BASE_TABLE"]
    rows = {node[name].lower() for node in tables for name in ("alias", "table_name")}  # names of whole rows
    all_of_select = [id(order["expression"]) for node in found for order in node.get("orders") or ()]  # ORDER BY ALL
    unnamed = any(
        (node.get("class") == "STAR" and id(node) not in all_of_select)
        or node.get("type") in ("PIVOT", "SHOW_REF")
        or node.get("ref_type") == "NATURAL"
        or node.get("column_name_alias")
        for node in found
    )
    names = [[name.lower() for name in node["column_names"]] for node in found if node.get("class") == "COLUMN_REF"]
    if unnamed or any(len(parts) == 1 and parts[0] in rows for parts in names):
        return None
    using = {name.lower() for node in found for name in node.get("using_columns") or ()}
    return using | {name for parts in names for name in parts}


def _text(argument: Node) -> str | None:
    """The text of an argument; None if it is computed."""
    literal = argument["expression"].get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else None
