"""What a stranger's question may read: the vocabulary of ``docs/sql.md``, and nothing else that DuckDB offers.

DuckDB's own settings keep every question from files and writes. Beyond that, its catalogue has functions that read and
change settings, switch the optimiser off, write logs or name paths of this machine. Each version brings more.

A table's name without a schema is a part of the question (WITH), or in the catalogue, or unknown. So a name in the
catalogue that is not of the vocabulary is refused wherever it stands, and no scope has to be followed.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from analytics.questions.sql.syntax import Node, ParsedQuery, build_depth_error, walk_nodes
from quarto.errors import RequestError

# Table functions whose rows depend on their arguments alone. All others read SQL from a text, files or settings.
PURE_TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})

_HARMLESS_CHANGING_FUNCTIONS = frozenset(  # functions that are not consistent, and harmless
    {
        *("random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"),
        *("now", "today", "get_current_time", "get_current_timestamp", "current_date", "transaction_timestamp"),
    }
)
_DESCRIBE_KINDS = ("DESCRIBE", "SUMMARY")  # of a question
_ONE_SELECT = "a question here is one SELECT that only reads, without EXPLAIN; a PIVOT names its values (IN)"

# Functions that depend on settings, sequences, logs, chance or the time; macros over the catalogue; and a function that
# plans a question in a text, which DuckDB lists as consistent.
_INCONSISTENT = """
    SELECT DISTINCT function_name FROM duckdb_functions() WHERE list_contains($1, function_name) AND (
        function_type = 'scalar' AND stability <> 'CONSISTENT'
        OR internal AND function_type = 'macro' AND (schema_name = 'pg_catalog' OR macro_definition LIKE '%FROM %')
        OR function_name = 'json_serialize_plan')
"""


def check_vocabulary(connection: duckdb.DuckDBPyConnection, query: ParsedQuery, allowed_names: Collection[str]) -> None:
    """Raise ``RequestError`` unless a question reads only ``allowed_names`` and what it defines itself."""
    if query.error:
        raise RequestError(f"SQL: Parser Error: {query.error}")
    if query.is_too_deep:
        raise build_depth_error()
    if query.tree is None or query.explains or not query.is_read_only:
        raise RequestError(f"SQL: {_ONE_SELECT}")
    found = [*walk_nodes(query.tree)]
    hidden = _list_catalogue(connection) - {*allowed_names}
    for node in found:
        kind = node.get("type")
        if kind == "BASE_TABLE":
            _check_table(node, hidden, allowed_names)
        elif kind == "SHOW_REF" and node["show_type"] not in _DESCRIBE_KINDS:
            raise RequestError(f"SQL: SHOW is not allowed here: DESCRIBE one of {_format_names(allowed_names)}")
        elif kind == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name not in PURE_TABLE_FUNCTIONS and name not in allowed_names:
                raise RequestError(f"SQL: {name}() is not allowed here: read the views {_format_names(allowed_names)}")
    called = {node["function_name"].lower() for node in found if "function_name" in node}
    refused = {name for (name,) in connection.execute(_INCONSISTENT, [[*called]]).fetchall()}
    for name in sorted(refused - _HARMLESS_CHANGING_FUNCTIONS):
        raise RequestError(f"SQL: {name}() is not allowed here: it does not depend on the games")


def _list_catalogue(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of all tables and views, DuckDB's own ones too."""
    names = "SELECT lower(view_name) FROM duckdb_views() UNION SELECT lower(table_name) FROM duckdb_tables()"
    return {name for (name,) in connection.execute(names).fetchall()}


def _check_table(node: Node, forbidden_names: Collection[str], allowed_names: Collection[str]) -> None:
    """Raise ``RequestError`` for the name of a table that is in a schema, in the catalogue, or perhaps a file's."""
    parts = [*filter(None, (node["catalog_name"], node["schema_name"], node["table_name"]))]
    if len(parts) > 1 or parts[0].lower() in forbidden_names or "." in parts[0]:
        raise RequestError(f"SQL: there is no table {'.'.join(parts)!r} here; views: {_format_names(allowed_names)}")


def _format_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
