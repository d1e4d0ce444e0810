"""Questions that only count the rows of ``games`` or ``plies``: they are answered without opening a file of the table.

How many rows a file has was found out when its bytes were compared with its checksum, and is remembered with that. So a
table with a row for each run replaces the view, and ``count(*)`` becomes a sum over it. The rest of the text stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analytics.questions.sql.syntax import SELECT_KINDS, Node, ParsedQuery, walk_nodes
from analytics.questions.sql.views import quote_name
from analytics.store.schema import TABLE_SCHEMAS

COUNT_TABLES = {table: f"_{table}_row_counts" for table in TABLE_SCHEMAS}  # tables with the columns run_id and _rows

_SUM_SQL = "coalesce(sum(_rows), 0)::BIGINT"
_COUNT_COLUMN = "count_star()"  # DuckDB's name of a column that has none
_CONDITION_CLASSES = frozenset({"COMPARISON", "CONJUNCTION", "OPERATOR"})  # of expressions with others inside
_MODIFIERS = frozenset({"ORDER_MODIFIER", "LIMIT_MODIFIER"})
_ABSENT_CLAUSES = ("sample", "qualify")


class RowCountQuery(NamedTuple):
    """A query that counts the rows of a table, and the text that gives the same answer from the table's row counts."""

    table: str
    text: str  # reads ``COUNT_TABLES[table]`` instead of the table


def rewrite_row_count(query: ParsedQuery) -> RowCountQuery | None:
    """Rewrite a query that counts all rows of ``games`` or ``plies``, or those of each run; for any other, return None.

    The query has one SELECT from one of these views, whose only column is ``run_id`` and whose only function is
    ``count(*)``. It may have conditions on ``run_id`` and an order.
    """
    if query.tree is None or query.kinds != SELECT_KINDS or query.explains or not query.text.isascii():
        return None
    (statement,) = query.tree["statements"]
    select: Node = statement["node"]
    if statement["named_param_map"] or not _reads_one_stored_table(select) or not _uses_only_runs_and_counts(select):
        return None
    source = select["from_table"]
    table = source["table_name"].lower()
    unnamed = [id(item) for item in select["select_list"] if not item["alias"]]
    sums = [
        (node, f"{_SUM_SQL} AS {quote_name(_COUNT_COLUMN)}" if id(node) in unnamed else _SUM_SQL)
        for node in walk_nodes(select)
        if _is_row_count(node)
    ]
    from_clause = f"{COUNT_TABLES[table]} AS {quote_name(source['alias'] or table)}"
    return RowCountQuery(table, _replace_spans(query.text, [(source, from_clause), *sums]))


def _reads_one_stored_table(select: Node) -> bool:
    source = select.get("from_table") or {}
    return (
        select["type"] == "SELECT_NODE"
        and source.get("type") == "BASE_TABLE"
        and source["table_name"].lower() in COUNT_TABLES
        and not any(source[name] for name in ("schema_name", "catalog_name", "sample", "at_clause"))
        and not source["column_name_alias"]
        and not select["cte_map"]["map"]
        and not any(select[clause] for clause in _ABSENT_CLAUSES)
    )


def _uses_only_runs_and_counts(select: Node) -> bool:
    """Return whether the expressions of a SELECT give the same values for a row of a table and for its run's count."""
    names = {item["alias"].lower() for item in select["select_list"] if item["alias"]}
    return (
        len(select["group_sets"]) <= 1
        and all(modifier["type"] in _MODIFIERS for modifier in select["modifiers"])
        and all(_is_run_id(item) or _is_row_count(item) or _is_constant(item) for item in select["select_list"])
        and all(_is_run_id(item) or _is_constant(item) for item in select["group_expressions"])
        and all(_is_run_id(node) or _is_constant(node) or _is_condition(node) for node in _list_expressions(select))
        and all(
            _is_run_id(node, names) or _is_row_count(node) or _is_constant(node) or node["class"] == "STAR"
            for node in _list_expressions(select["modifiers"])
        )
        and all(
            _is_run_id(node) or _is_row_count(node) or _is_constant(node) or _is_condition(node)
            for node in _list_expressions(select["having"])
        )
    )


def _list_expressions(tree: object) -> Iterator[Node]:
    """Yield the expressions in a part of a syntax tree; of a SELECT, those of its WHERE clause."""
    if isinstance(tree, dict) and "where_clause" in tree:
        tree = tree["where_clause"]
    return (node for node in walk_nodes(tree) if "class" in node)


def _is_run_id(node: Node, aliases: Iterable[str] = ()) -> bool:
    """Return whether an expression is the column ``run_id`` or one of the columns ``aliases`` of the answer."""
    if node["class"] != "COLUMN_REF":
        return False
    *qualifiers, name = map(str.lower, node["column_names"])
    return name == "run_id" or (not qualifiers and name in aliases)


def _is_row_count(node: Node) -> bool:
    """Return whether an expression is ``count(*)`` of all rows of a group."""
    if node.get("class") != "FUNCTION" or node["function_name"] != "count_star" or node["order_bys"]["orders"]:
        return False
    return not any(node[part] for part in ("schema", "catalog", "filter", "distinct", "arguments"))


def _is_constant(node: Node) -> bool:
    return bool(node["class"] == "CONSTANT")


def _is_condition(node: Node) -> bool:
    return node["class"] in _CONDITION_CLASSES


def _replace_spans(text: str, edits: Iterable[tuple[Node, str]]) -> str:
    """Replace the parts of an ASCII text that nodes stand for. No part overlaps another one."""
    for node, replacement in sorted(edits, key=lambda edit: int(edit[0]["query_location"]), reverse=True):
        start = node["query_location"]
        text = text[:start] + replacement + text[start + node["query_location_length"] :]
    return text
