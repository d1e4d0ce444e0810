"""The check that a stranger's question reads only the vocabulary of ``docs/sql.md``, and nothing else of DuckDB.

DuckDB's own settings keep every question from files and writes. Beyond that, its catalogue has functions that read and
change settings, switch the optimiser off, write logs or name paths of this machine. Each version adds more.

A table's name without a schema is defined in the question (WITH), or in the catalogue, or unknown. So the check refuses
a catalogue name outside of the vocabulary wherever it stands, and need not follow scopes.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from analytics.questions.sql.syntax import Node, ParsedQuery, build_depth_error, walk_nodes
from quarto.errors import RequestError

# Table functions whose rows depend on their arguments alone. All others read files or settings, or SQL in a text.
PURE_TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})

_HARMLESS_CHANGING_FUNCTIONS = frozenset(  # inconsistent but harmless functions
    {
        *("random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"),
        *("now", "today", "get_current_time", "get_current_timestamp", "current_date", "transaction_timestamp"),
    }
)
_DESCRIBE_KINDS = ("DESCRIBE", "SUMMARY")  # of a question
_ONE_SELECT = "a question here is one SELECT that only reads, without EXPLAIN; a PIVOT names its values (IN)"

# Functions that depend on settings, sequences, logs, chance or the time; macros over the catalogue; and a function that
# plans a question in a text, which DuckDB calls consistent.
_INCONSISTENT = """
    SELECT DISTINCT function_name FROM duckdb_functions() WHERE list_contains($1, function_name) AND (
        function_type = 'scalar' AND stability <> 'CONSISTENT'
        OR internal AND function_type = 'macro' AND (schema_name = 'pg_catalog' OR macro_definition LIKE '%FROM %')
        OR function_name = 'json_serialize_plan')
"""


def check_vocabulary(connection: duckdb.DuckDBPyConnection, query: ParsedQuery, allowed_names: Collection[str]) -> None:
    """Raise ``RequestError`` if a query reads anything but ``allowed_names`` and tables that it defines itself."""
    if query.error:
        raise RequestError(f"SQL: Parser Error: {query.error}")
    if query.is_too_deep:
        raise build_depth_error()
    if query.tree is None or query.explains or not query.is_read_only:
        raise RequestError(f"SQL: {_ONE_SELECT}")
    nodes = [*walk_nodes(query.tree)]
    hidden_names = _list_catalogue(connection) - {*allowed_names}
    for node in nodes:
        kind = node.get("type")
        if kind == "BASE_TABLE":
            _check_table(node, hidden_names, allowed_names)
        elif kind == "SHOW_REF" and node["show_type"] not in _DESCRIBE_KINDS:
            raise RequestError(f"SQL: SHOW is not allowed here: DESCRIBE one of {_format_names(allowed_names)}")
        elif kind == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name not in PURE_TABLE_FUNCTIONS and name not in allowed_names:
                raise RequestError(f"SQL: {name}() is not allowed here: read the views {_format_names(allowed_names)}")
    function_names = {node["function_name"].lower() for node in nodes if "function_name" in node}
    inconsistent_functions = {name for (name,) in connection.execute(_INCONSISTENT, [[*function_names]]).fetchall()}
    for name in sorted(inconsistent_functions - _HARMLESS_CHANGING_FUNCTIONS):
        raise RequestError(f"SQL: {name}() is not allowed here: it does not depend on the games")


def _list_catalogue(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """List the names of all tables and views in the catalogue, including DuckDB's own, in lower case."""
    names = "SELECT lower(view_name) FROM duckdb_views() UNION SELECT lower(table_name) FROM duckdb_tables()"
    return {name for (name,) in connection.execute(names).fetchall()}


def _check_table(node: Node, forbidden_names: Collection[str], allowed_names: Collection[str]) -> None:
    """Raise ``RequestError`` for a table name that has a schema, is in ``forbidden_names``, or may name a file.

    The error message lists ``allowed_names``.
    """
    parts = [*filter(None, (node["catalog_name"], node["schema_name"], node["table_name"]))]
    if len(parts) > 1 or parts[0].lower() in forbidden_names or "." in parts[0]:
        raise RequestError(f"SQL: there is no table {'.'.join(parts)!r} here; views: {_format_names(allowed_names)}")


def _format_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
