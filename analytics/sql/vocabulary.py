"""Questions of strangers: they may read the vocabulary of ``docs/sql.md``, and nothing else that DuckDB offers.

DuckDB's own settings keep every question from files and writes. Beyond that, its catalogue has functions that read and
change settings, switch the optimiser off, write logs or name paths of this machine, and each version brings more. So
tables and table functions are those of a list, and functions those that DuckDB calls consistent.
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
_OF_POSTGRES = "pg_"  # macros over the catalogue
_SHOWN = ("DESCRIBE", "SUMMARY")  # of a question


def check_vocabulary(connection: duckdb.DuckDBPyConnection, text: str, known: Collection[str]) -> None:
    """Raise ``RequestError`` unless a question reads views and table macros ``known``, and what it defines itself."""
    tree = parsed(connection, text)
    if tree["error"]:
        _refuse(text, tree["error_message"])
        return
    if len(tree["statements"]) != 1:
        raise RequestError(f"SQL here is one SELECT, not {len(tree['statements'])}")
    allowed, called = {*known, *_own_tables(connection, tree, known)}, set()
    for node in nodes(tree):
        kind = node.get("type")
        if kind == "BASE_TABLE":
            _check_table(node["catalog_name"], node["schema_name"], node["table_name"], allowed)
        elif kind == "SHOW_REF" and node["show_type"] not in _SHOWN:
            raise RequestError(f"SQL: SHOW is not allowed here: DESCRIBE one of {', '.join(sorted(known))}")
        elif kind == "TABLE_FUNCTION":
            name = node["function"]["function_name"].lower()
            if name not in PURE_TABLES and name not in known:
                raise RequestError(f"SQL: {name}() is not allowed here: read the views {', '.join(sorted(known))}")
        if "function_name" in node:
            called.add(node["function_name"].lower())
    postgres = [name for name in called if name.startswith(_OF_POSTGRES)]
    for name in sorted({*postgres, *_inconsistent(connection, called)} - _CHANGING):
        raise RequestError(f"SQL: {name}() is not allowed here: it does not depend on the games")


def _refuse(text: str, reason: str) -> None:
    """Raise ``RequestError`` for what DuckDB's parser does not serialise, unless ``answers.ask`` refuses it anyway."""
    try:
        statements = duckdb.extract_statements(text.encode(errors="replace").decode())
    except duckdb.Error:
        return  # it is no SQL
    kinds = [statement.type.name for statement in statements]
    if kinds == ["SELECT"]:
        raise RequestError(f"SQL: this question is not allowed here ({reason})")
    if set(kinds) <= {"EXPLAIN", "MULTI"}:
        raise RequestError("SQL: EXPLAIN, and PIVOT without its values, are not allowed here")


def _own_tables(connection: duckdb.DuckDBPyConnection, tree: Node, known: Collection[str]) -> set[str]:
    """The names that a question gives to parts of itself: WITH name AS (…).

    Outside of the part where it is known, such a name would be DuckDB's own. So none may be the name of a file or, but
    for ``known``, of a table of the catalogue.
    """
    names = {
        entry["key"].lower()
        for node in nodes(tree)
        for entry in (node.get("cte_map") or {}).get("map", ())
        if isinstance(entry.get("key"), str)
    }
    catalogue = connection.execute(
        "SELECT lower(view_name) FROM duckdb_views() UNION SELECT lower(table_name) FROM duckdb_tables()"
    ).fetchall()
    for name in sorted(names - {*known}):
        if not name.isidentifier() or (name,) in catalogue:
            raise RequestError(f"SQL: {name!r} is not a name for a part of a question here: name it otherwise")
    return names


def _check_table(catalog: str, schema: str, table: str, allowed: Collection[str]) -> None:
    if catalog or schema or table.lower() not in allowed:
        shown = ".".join(filter(None, (catalog, schema, table)))
        raise RequestError(f"SQL: there is no table {shown!r} here; views: {', '.join(sorted(allowed))}")


def _inconsistent(connection: duckdb.DuckDBPyConnection, called: Collection[str]) -> set[str]:
    """Those of some functions that depend on more than their arguments: settings, sequences, logs, chance, the time."""
    found = connection.execute(
        "SELECT function_name FROM duckdb_functions() "
        "WHERE function_type = 'scalar' AND stability <> 'CONSISTENT' AND list_contains($1, function_name)",
        [[*called]],
    ).fetchall()
    return {name for (name,) in found}
