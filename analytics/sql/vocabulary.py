"""Questions of strangers: they may read the vocabulary of ``docs/sql.md``, and nothing else that DuckDB offers.

DuckDB's own settings keep every question from files and writes. Beyond that, its catalogue has functions that read and
change settings, switch the optimiser off, write logs or name paths of this machine. Each version brings more. So
DuckDB's parser takes a question apart, and its catalogue says what a name means.

A table's name without a schema is a part of the question (WITH), or in the catalogue, or unknown. So a name in the
catalogue that is not of the vocabulary is refused wherever it stands, and no scope has to be followed. Two shorter ways
do not hold: ``get_table_names`` leaves DuckDB's own views out, and plans that read Parquet cannot be serialised.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from analytics.sql.syntax_trees import Node, nodes, parsed
from quarto.errors import RequestError

# Table functions whose rows depend on their arguments alone. All others read SQL from a text, files or settings.
PURE_TABLES = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})

_CHANGING = frozenset(  # functions that are not consistent, and harmless
    {
        *("random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"),
        *("now", "today", "get_current_time", "get_current_timestamp", "current_date", "transaction_timestamp"),
    }
)
_SHOWN = ("DESCRIBE", "SUMMARY")  # of a question
_ONE_SELECT = "a question here is one SELECT that only reads, without EXPLAIN; a PIVOT names its values (IN)"

# Functions that depend on settings, sequences, logs, chance or the time; macros over the catalogue; and a function that
# plans a question in a text, which DuckDB lists as consistent.
_INCONSISTENT = """
    SELECT DISTINCT function_name FROM duckdb_functions() WHERE list_contains($1, function_name) AND (
        function_type = 'scalar' AND stability <> 'CONSISTENT'
        OR internal AND function_type = 'macro' AND (schema_name = 'pg_catalog' OR macro_definition LIKE '%FROM %')
        OR function_name = 'json_serialize_plan')
"""


def check_vocabulary(connection: duckdb.DuckDBPyConnection, text: str, known: Collection[str]) -> None:
    """Raise ``RequestError`` unless a question reads views and table macros ``known``, and what it defines itself."""
    tree = parsed(connection, text)
    if tree["error"]:
        is_sql = tree["error_type"] != "parser"
        raise RequestError(f"SQL: {_ONE_SELECT if is_sql else 'Parser Error: ' + tree['error_message']}")
    found = [*nodes(tree)]
    hidden = _catalogue(connection) - {*known}
    for node in found:
        kind = node.get("type")
        if kind == "BASE_TABLE":
            _check_table(node, hidden, known)
        elif kind == "SHOW_REF" and node["show_type"] not in _SHOWN:
            raise RequestError(f"SQL: SHOW is not allowed here: DESCRIBE one of {_listed(known)}")
        elif kind == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name not in PURE_TABLES and name not in known:
                raise RequestError(f"SQL: {name}() is not allowed here: read the views {_listed(known)}")
    called = {node["function_name"].lower() for node in found if "function_name" in node}
    refused = {name for (name,) in connection.execute(_INCONSISTENT, [[*called]]).fetchall()}
    for name in sorted(refused - _CHANGING):
        raise RequestError(f"SQL: {name}() is not allowed here: it does not depend on the games")


def _catalogue(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of all tables and views, DuckDB's own ones too."""
    names = "SELECT lower(view_name) FROM duckdb_views() UNION SELECT lower(table_name) FROM duckdb_tables()"
    return {name for (name,) in connection.execute(names).fetchall()}


def _check_table(node: Node, hidden: Collection[str], known: Collection[str]) -> None:
    """Raise ``RequestError`` for the name of a table that is in a schema, in the catalogue, or perhaps a file's."""
    parts = [*filter(None, (node["catalog_name"], node["schema_name"], node["table_name"]))]
    if len(parts) > 1 or parts[0].lower() in hidden or "." in parts[0]:
        raise RequestError(f"SQL: there is no table {'.'.join(parts)!r} here; views: {_listed(known)}")


def _listed(known: Collection[str]) -> str:
    return ", ".join(sorted(known))
