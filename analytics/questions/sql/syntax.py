"""The tables and functions that a text in SQL names, by the syntax trees of DuckDB's parser (``json_serialize_sql``).

Three questions are answered here. Which views does a question read, so that they are filled? Does a stranger's question
keep to the vocabulary? Is a condition on games one expression whose answer can be repeated? No text is matched.

DuckDB's own settings keep every question from files and writes. Beyond that, its catalogue has functions that read and
change settings, switch the optimiser off, write logs or name paths of this machine. Each version brings more. So
questions of strangers may read the vocabulary of ``docs/sql.md``, and nothing else that DuckDB offers.

A table's name without a schema is a part of the question (WITH), or in the catalogue, or unknown. So a name in the
catalogue that is not of the vocabulary is refused wherever it stands, and no scope has to be followed. Two shorter ways
do not hold: ``get_table_names`` leaves DuckDB's own views out, and plans that read Parquet cannot be serialised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import duckdb
import polars as pl

from analytics.questions.sql.views import quote_literal
from analytics.store.texts import to_line
from quarto.errors import RequestError

Node = dict[str, Any]
QueryRunner = Callable[[str], pl.DataFrame]  # the answer of an archive to a question: ``OpenArchive.sql``

_TEXT_QUERY_FUNCTIONS = (
    "query",
    "query_table",
)  # table functions that take a question or the name of a table as a text
_TOO_DEEP = "it is nested too deeply: write fewer levels of brackets, or name parts of it by WITH"
LABEL_MACRO = "label"  # the macro that finds the stored label of an agent
POLICY_MACRO = "policy"  # the macro that is the table of a policy


def parse_query(connection: duckdb.DuckDBPyConnection, text: str) -> Node:
    """The tree of a text of SELECTs. For any other text ``error`` is true, and ``error_message`` has the reason.

    Raises ``RequestError`` for a text that is nested too deeply.
    """
    # All rows are fetched: an unfinished result would be in the way of what is prepared next.
    known = text.encode(errors="replace").decode()
    ((serialised,),) = connection.execute("SELECT json_serialize_sql($1)", [known]).fetchall()
    return _parse_tree(serialised)


def _parse_tree(serialised: str) -> Node:
    try:
        tree: Node = json.loads(serialised)
    except RecursionError:  # DuckDB may answer it nevertheless
        return {"error": True, "error_type": "depth", "error_message": _TOO_DEEP}
    if str(tree.get("error_message", "")).startswith("Max expression depth"):  # it advises to change a setting
        raise _build_depth_error()
    return tree


def _build_depth_error() -> RequestError:
    return RequestError(f"SQL: {_TOO_DEEP}")


def walk_nodes(tree: Any) -> Iterator[Node]:
    """All mappings in a tree, each before those inside it."""
    waiting = [tree]  # no recursion: a question of a few hundred additions is as deep as Python allows
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += reversed(node.values())
        elif isinstance(node, list):
            waiting += reversed(node)


class QueryReferences(NamedTuple):
    """The views and policies that a question may read, and perhaps more."""

    views: set[str]  # views and table macros
    policies: set[str] | None  # names in policy('NAME'); None: any
    composed: bool = False  # a name is made of texts while it is answered: it may read less than all
    columns: set[str] | None = None  # names of columns in it; None: it may read any
    texts: Collection[str] = ()  # its string literals that could be labels with parameters
    labels: Collection[str] = ()  # those of them to which the macro ``label`` is applied


def find_references(
    connection: duckdb.DuckDBPyConnection, text: str, queryable_names: Collection[str]
) -> QueryReferences:
    """Those of ``queryable_names`` (views, macros) and the policies that a question reads: all if a name is composed.

    DuckDB's own parser serialises SELECT alone: of other statements, all views count whose names occur.
    """
    tree = parse_query(connection, text)
    if tree["error"]:
        lowered = text.lower()
        composed = _TEXT_QUERY_FUNCTIONS[0] in lowered
        views = {view for view in queryable_names if composed or view in lowered}
        return QueryReferences(views, None if POLICY_MACRO in lowered or composed else set(), composed=True)
    tables = {node["table_name"].lower() for node in walk_nodes(tree) if node.get("type") == "BASE_TABLE"}
    called = [node["function"] for node in walk_nodes(tree) if node.get("type") == "TABLE_FUNCTION"]
    functions = {function["function_name"].lower() for function in called}
    if functions & set(_TEXT_QUERY_FUNCTIONS):
        return QueryReferences(set(queryable_names), None, composed=True)
    named = {
        _parse_text_argument(argument)
        for function in called
        if function["function_name"].lower() == POLICY_MACRO
        for argument in function["arguments"]
    }
    policies = None if None in named else {name for name in named if name is not None}
    texts, labels = _find_label_texts(tree)
    read = (tables | functions) & set(queryable_names)
    return QueryReferences(read, policies, columns=_find_column_names(tree), texts=texts, labels=labels)


def _find_label_texts(tree: Node) -> tuple[set[str], set[str]]:
    """The string literals that end as a label with parameters does; and those inside the macro ``label``."""
    calls = [
        node
        for node in walk_nodes(tree)
        if node.get("class") == "FUNCTION" and node.get("function_name", "").lower() == LABEL_MACRO
    ]
    texts, labels = (
        {
            node["literal"]["text"]
            for node in walk_nodes(part)
            if node.get("class") == "CONSTANT" and node.get("literal", {}).get("kind") == "STRING"
        }
        for part in (tree, calls)
    )
    return {text for text in texts if text.endswith(")")}, labels


def _find_column_names(tree: Node) -> set[str] | None:
    """The names of columns in a question; None if it reads columns without naming them, as ``*`` does."""
    found = [*walk_nodes(tree)]
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


def _parse_text_argument(argument: Node) -> str | None:
    """The text of an argument; None if it is computed."""
    literal = argument["expression"].get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else None


# Table functions whose rows depend on their arguments alone. All others read SQL from a text, files or settings.
PURE_TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})

_HARMLESS_CHANGING_FUNCTIONS = frozenset(  # functions that are not consistent, and harmless
    {
        *("random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"),
        *("now", "today", "get_current_time", "get_current_timestamp", "current_date", "transaction_timestamp"),
    }
)
_QUERY_NODES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
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


def check_vocabulary(connection: duckdb.DuckDBPyConnection, text: str, allowed_names: Collection[str]) -> None:
    """Raise ``RequestError`` unless a question reads only ``allowed_names`` and what it defines itself."""
    tree = parse_query(connection, text)
    if tree["error"]:
        if tree["error_type"] == "depth":
            raise _build_depth_error()
        is_sql = tree["error_type"] != "parser"
        raise RequestError(f"SQL: {_ONE_SELECT if is_sql else 'Parser Error: ' + tree['error_message']}")
    _check_select_only(tree)
    found = [*walk_nodes(tree)]
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


def _check_select_only(tree: Node) -> None:
    """Raise ``RequestError`` for a part of a question that is no SELECT: in DuckDB 2, WITH may insert and copy."""
    for node in walk_nodes(tree):
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in _QUERY_NODES:
            raise RequestError(f"SQL: {_ONE_SELECT}")


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


# What may follow the expression after WHERE in a SELECT.
_OTHER_CLAUSES = ("modifiers", "group_expressions", "group_sets", "having", "qualify", "sample")
_TEXT_SPANS = ("query_location", "query_location_length")

# Functions that SQL calls without brackets, so that they look like columns.
_CLOCKS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_SAMPLING_FUNCTIONS = frozenset({"reservoir_quantile"})  # DuckDB lists it as consistent, but it draws some of the rows


def check_and_combine_conditions(run_query: QueryRunner, first: str, second: str) -> str:
    """The condition that holds where both do. Each is checked on its own, so that neither can cancel the other.

    Raises the errors of ``check_condition``.
    """
    for where in (first, second):
        check_condition(run_query, where)
    return f"{_enclose_in_brackets(first)} AND {_enclose_in_brackets(second)}"


def _enclose_in_brackets(where: str) -> str:
    return f"({where}\n)" if "--" in where else f"({where})"  # a comment ends with its line


def check_condition(run_query: QueryRunner, where: str) -> None:
    """Raise ``RequestError`` unless ``where`` is one expression whose answer is the same whenever it is asked.

    Columns are not looked up: DuckDB names those that it does not find when the condition is used.
    """
    if all(kind == duckdb.token_type.comment for _, kind in duckdb.tokenize(where)):
        raise RequestError(f"where={to_line(repr(where))} is empty: leave it out to choose all games")
    try:
        # Alone, a bracket that it closes and did not open is an error; in brackets, the start of another clause.
        alone, enclosed = _parse_condition(run_query, where), _parse_condition(run_query, f"({where}\n)")
    except RecursionError as error:
        raise RequestError(f"where={where[:80]!r}… is not a condition on games: {_TOO_DEEP}") from error
    except RequestError as error:
        raise RequestError(f"where={to_line(repr(where))} is not a condition on games: {error}") from error
    if any(alone[clause] for clause in _OTHER_CLAUSES) or alone["where_clause"] != enclosed["where_clause"]:
        raise RequestError(f"where={to_line(repr(where))} is not a condition on games: it goes on after one expression")
    reason = _describe_changing_part(run_query, alone["where_clause"])
    if reason:
        raise RequestError(
            f"where={to_line(repr(where))} {reason}, so its result could not be repeated: use columns of the games, as "
            "in game_id % 10 = 0"
        )


def _parse_condition(run_query: QueryRunner, expression: str) -> Node:
    """The syntax tree of a SELECT of the games that an expression chooses. Raises ``RequestError`` if it is none."""
    text = f"SELECT 1 FROM games WHERE {expression}\n"  # noqa: S608  (it is parsed, not asked)
    tree = _parse_tree(run_query(f"SELECT json_serialize_sql({quote_literal(text)})").item())
    if tree["error"]:
        raise RequestError(f"SQL: {tree['error_message']}")
    queries = [statement["node"] for statement in tree["statements"]]
    if len(queries) != 1 or queries[0]["type"] != "SELECT_NODE":
        raise RequestError("it goes on after one expression")
    _check_select_only(tree)
    try:
        select: Node = _remove_spans(queries[0])
    except RecursionError:
        raise _build_depth_error() from None
    return select


def _remove_spans(tree: Any) -> Any:
    """A part of a tree without where it is in the text, so that trees of one expression are equal."""
    if isinstance(tree, dict):
        return {name: _remove_spans(value) for name, value in tree.items() if name not in _TEXT_SPANS}
    return [_remove_spans(value) for value in tree] if isinstance(tree, list) else tree


def _describe_changing_part(run_query: QueryRunner, expression: Node) -> str | None:
    """Why the answer of an expression may change from one moment to the next; None if it cannot."""
    called = set()
    for node in walk_nodes(expression):
        if node.get("sample"):
            return "takes a SAMPLE"
        if (
            node.get("type") == "TABLE_FUNCTION"
            and node["function"]["function_name"].lower() not in PURE_TABLE_FUNCTIONS
        ):
            return f"reads from {node['function']['function_name']}(), which can change"
        if "function_name" in node:
            called.add(node["function_name"].lower())
        if node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in _CLOCKS:
            return f"calls {node['column_names'][-1].lower()}, which changes"
    changing = sorted(called & _SAMPLING_FUNCTIONS) or _list_changing_functions(run_query, called)
    return f"calls {changing[0]}(), which changes" if changing else None


def _list_changing_functions(run_query: QueryRunner, names: Iterable[str]) -> list[str]:
    """Those of these functions that DuckDB does not list as consistent, sorted; a macro if its definition has one."""
    if not names:
        return []
    literals = ", ".join(map(quote_literal, sorted(names)))
    listed = run_query(  # the function in quotes: no macro is made for it but those that are named
        'SELECT DISTINCT function_name, stability, macro_definition FROM "duckdb_functions"() '  # noqa: S608  (quoted)
        f"WHERE function_type IN ('scalar', 'macro') AND function_name IN ({literals})"
    )
    return sorted(
        {
            name
            for name, stability, definition in listed.iter_rows()
            if (definition is None and stability != "CONSISTENT")
            or (
                definition is not None
                and _describe_changing_part(run_query, _parse_condition(run_query, f"({definition})")["where_clause"])
            )
        }
    )
