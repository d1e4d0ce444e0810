"""The syntax of a text in SQL, by DuckDB's parser: each question is parsed once, for all that need to know about it.

The result tells which views a question reads, so that they are filled; whether it is one question that only reads;
whether a stranger's question keeps to the vocabulary (``vocabulary``); and whether a condition is one repeatable
expression (``conditions``).

DuckDB serialises a SELECT as a tree (``json_serialize_sql``). In a tree, strings, comments and names of columns cannot
be mistaken for names of views, and a name that WITH defines hides a view. DuckDB does not serialise a PIVOT without its
values, nor a text that is nested very deeply. For these, the words count that DuckDB's tokenizer finds outside of
comments and longer strings. Two shorter ways fail: ``get_table_names`` omits DuckDB's own views, and plans that read
Parquet cannot be serialised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import duckdb

from quarto.errors import RequestError

Node = dict[str, Any]

LABEL_MACRO = "label"  # the macro that finds the stored label of an agent
POLICY_MACRO = "policy"  # the macro that is the table of a policy
SELECT_KINDS = ("SELECT",)
PIVOT_KINDS = ("MULTI",)  # DuckDB splits a PIVOT without its values into several statements, to find them first
_EXPLAIN_KINDS = ("EXPLAIN",)
_TEXT_QUERY_FUNCTIONS = {"query", "query_table"}  # table functions whose argument is a question, or a table's name
_QUERY_NODES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
_CATALOGUE_SCHEMAS = {"information_schema", "pg_catalog"}
_CATALOGUE_PREFIXES = ("duckdb_", "pragma_", "pg_", "sqlite_")  # of functions and views that list the catalogue
_CATALOGUE_STATEMENTS = {"show", "desc", "describe", *_CATALOGUE_SCHEMAS}
_ONE_WORD = re.compile(r"\W*(\w+)\W*")
_TOO_DEEP = "it is nested too deeply: write fewer levels of brackets, or name parts of it by WITH"


@dataclass(frozen=True)
class ParsedQuery:
    """A parsed SQL text: the kinds of its statements, and the names in it, in lower case."""

    text: str
    kinds: tuple[str, ...] = ()  # DuckDB's names for the kinds of its statements, or of the statements that it explains
    explains: bool = False
    error: str = ""  # the parser's message; the fields below are then unset
    tree: Node | None = None  # None: DuckDB does not serialise the text
    is_too_deep: bool = False  # whether the text is nested too deeply to have a tree
    is_read_only: bool = True  # in DuckDB 2, WITH may insert and copy
    names: frozenset[str] = frozenset()  # tables, views, functions and macros that it reads, and perhaps others
    policies: frozenset[str] | None = frozenset()  # the names in policy('NAME'); None: it may read any
    columns: frozenset[str] | None = None  # names of columns; None: it may read any
    is_composed: bool = False  # whether it makes names of views while it runs, so that it may read any view
    lists_catalogue: bool = False  # whether it reads the catalogue
    texts: frozenset[str] = frozenset()  # its string literals that could be labels with parameters
    labels: frozenset[str] = frozenset()  # its string literals that are arguments of the macro ``label``
    agents: frozenset[str] = frozenset()  # its string literals that it compares with a column of agents

    @property
    def is_certain(self) -> bool:
        """Whether it is certain that the query reads every table that it names."""
        return self.tree is not None and not self.is_composed

    def select_views_possibly_read(self, queryable_names: Iterable[str]) -> set[str]:
        """Return those of ``queryable_names`` (the names of views and table macros) that the query may read."""
        return {name for name in queryable_names if self.is_composed or name in self.names}


def parse_query(connection: duckdb.DuckDBPyConnection, text: str) -> ParsedQuery:
    """Parse an SQL text; a syntax error is reported in the field ``error`` of the result.

    Raises ``RequestError`` for a text that is nested too deeply for DuckDB.
    """
    serialised = _serialise_unless_too_deep(connection, text)
    if serialised is None:
        return replace(_parse_tokens(text), is_too_deep=True)
    if not serialised["error"]:
        return _find_what_tree_reads(text, serialised)
    if serialised["error_type"] == "parser":
        return ParsedQuery(text, error=serialised["error_message"])
    query = _parse_tokens(text)
    return _parse_query_inside_explain(connection, query) if query.kinds == _EXPLAIN_KINDS else query


def build_depth_error() -> RequestError:
    """Build the error for a text that is nested too deeply."""
    return RequestError(f"SQL: {_TOO_DEEP}")


def _serialise_unless_too_deep(connection: duckdb.DuckDBPyConnection, text: str) -> Node | None:
    """Return DuckDB's syntax tree of an SQL text, or None if the tree is too deep for Python.

    For any text but valid SELECT statements, the field ``error`` of the tree is true. Raises ``RequestError`` if the
    text is nested too deeply for DuckDB.
    """
    # All rows are fetched, because an unfinished result would block the next statement.
    utf8_text = text.encode(errors="replace").decode()
    ((serialised,),) = connection.execute("SELECT json_serialize_sql($1)", [utf8_text]).fetchall()
    try:
        tree: Node = json.loads(serialised)
    except RecursionError:
        return None
    if str(tree.get("error_message", "")).startswith("Max expression depth"):  # DuckDB advises to change a setting
        raise build_depth_error()
    return tree


def _parse_query_inside_explain(connection: duckdb.DuckDBPyConnection, query: ParsedQuery) -> ParsedQuery:
    """Parse the query that an EXPLAIN explains.

    Return ``query`` unchanged if this is not possible, for example because the EXPLAIN has options in parentheses.
    """
    tokens = _list_tokens_without_comments(query.text)
    words = [token.text.lower() for token in tokens[:2]]
    start = tokens[1 + (words[1:] == ["analyze"])].start if len(tokens) > 2 else 0
    explained = parse_query(connection, query.text.encode(errors="replace")[start:].decode())
    if explained.error or explained.explains or explained.kinds == _EXPLAIN_KINDS:
        return query
    return replace(explained, text=query.text, explains=True)


# A tree.


def walk_nodes(tree: Any) -> Iterator[Node]:
    """Yield all mappings in a syntax tree of nested mappings and lists, each before the mappings inside it."""
    waiting = [tree]  # no recursion, because a few hundred additions are as deep as Python allows
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += reversed(node.values())
        elif isinstance(node, list):
            waiting += reversed(node)


def _find_what_tree_reads(text: str, tree: Node) -> ParsedQuery:
    nodes = [*walk_nodes(tree)]
    tables = [*_list_tables(tree)]
    functions = {node["function_name"].lower() for node in nodes if "function_name" in node}
    table_functions = [node["function"] for node in nodes if node.get("type") == "TABLE_FUNCTION"]
    is_composed = any(function["function_name"].lower() in _TEXT_QUERY_FUNCTIONS for function in table_functions)
    names = functions | {table["table_name"].lower() for table in tables}
    label_texts = _find_possible_labels_and_label_arguments(nodes)
    return ParsedQuery(
        text,
        SELECT_KINDS * len(tree["statements"]),
        tree=tree,
        is_read_only=all(node["type"] in _QUERY_NODES for node in nodes if str(node.get("type")).endswith("_NODE")),
        names=frozenset(names),
        policies=None if is_composed else _find_policies_unless_computed(table_functions),
        columns=None if is_composed else _find_column_names(nodes),
        is_composed=is_composed,
        lists_catalogue=any(name.startswith(_CATALOGUE_PREFIXES) for name in names)
        or any(str(table.get("schema_name")).lower() in _CATALOGUE_SCHEMAS for table in tables)
        or any(node.get("show_type") == "SHOW_SPECIAL" for node in nodes),
        texts=label_texts.possible_labels,
        labels=label_texts.macro_arguments,
        agents=frozenset(_find_texts_compared_with_agents(nodes)),
    )


def _list_tables(tree: Node) -> Iterator[Node]:
    """Yield the nodes that name tables, except names that WITH defines.

    A name that WITH defines is known in the query after WITH and in later definitions of the same WITH. In its own
    definition, the name is known only if the definition is recursive, and then only in the part after UNION.
    """
    waiting: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, defined = waiting.pop()
        if isinstance(node, list):
            waiting += [(child, defined) for child in node]
        if not isinstance(node, dict):
            continue
        if node.get("type") in ("BASE_TABLE", "SHOW_REF"):
            name, is_qualified = node["table_name"].lower(), node["catalog_name"] or node["schema_name"]
            if name and (is_qualified or name not in defined):
                yield node
        for definition in (node.get("cte_map") or {}).get("map", ()):
            waiting.append((definition["value"], defined))
            defined |= {definition["key"].lower()}
        recursive = defined | ({node["cte_name"].lower()} if node.get("type") == "RECURSIVE_CTE_NODE" else set())
        waiting += [
            (child, recursive if name == "right" else defined) for name, child in node.items() if name != "cte_map"
        ]


def _find_policies_unless_computed(table_functions: Iterable[Node]) -> frozenset[str] | None:
    """Return the names of policies in calls such as policy('NAME'), or None if an argument is not a string literal."""
    names = {
        _parse_text_argument(argument)
        for function in table_functions
        if function["function_name"].lower() == POLICY_MACRO
        for argument in function["arguments"]
    }
    return None if None in names else frozenset(literal for literal in names if literal is not None)


class _LabelTexts(NamedTuple):
    """String literals of a query that may be labels of agents."""

    possible_labels: frozenset[str]  # literals that look like a label with parameters
    macro_arguments: frozenset[str]  # literals in calls of the macro ``label``


def _find_possible_labels_and_label_arguments(nodes: Sequence[Node]) -> _LabelTexts:
    """Find the string literals that look like a label with parameters, and the string literals in ``label(...)``."""
    calls = [
        node
        for node in nodes
        if node.get("class") == "FUNCTION" and node.get("function_name", "").lower() == LABEL_MACRO
    ]
    texts, labels = (
        {
            node["literal"]["text"]
            for node in constants
            if node.get("class") == "CONSTANT" and node.get("literal", {}).get("kind") == "STRING"
        }
        for constants in (nodes, walk_nodes(calls))
    )
    return _LabelTexts(frozenset(text for text in texts if text.endswith(")")), frozenset(labels))


# Columns with labels of agents, in all views.
_AGENT_COLUMNS = frozenset(
    {"agent", "agent_0", "agent_1", "agent_a", "agent_b", "first", "giver", "label", "mover", "opponent", "second"}
)


def _find_texts_compared_with_agents(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the string literals that a query compares by ``=``, ``<>`` or ``IN`` with a column of agents."""
    for node in nodes:
        if node.get("class") == "COMPARISON":
            operands = [node["left"], node["right"]]
        elif node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN"):
            operands = node["children"]
        else:
            continue
        columns = {operand["column_names"][-1].lower() for operand in operands if operand["class"] == "COLUMN_REF"}
        if not _AGENT_COLUMNS.isdisjoint(columns):
            yield from filter(None, (_parse_text_argument({"expression": operand}) for operand in operands))


def _find_column_names(nodes: Sequence[Node]) -> frozenset[str] | None:
    """Return the names of the columns that a query reads, or None if some are not named (``*``)."""
    tables = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    row_names = {node[name].lower() for node in tables for name in ("alias", "table_name")}  # names of whole rows
    all_of_select = [id(order["expression"]) for node in nodes for order in node.get("orders") or ()]  # ORDER BY ALL
    reads_unnamed = any(
        (node.get("class") == "STAR" and id(node) not in all_of_select)
        or node.get("type") in ("PIVOT", "SHOW_REF")
        or node.get("ref_type") == "NATURAL"
        or node.get("column_name_alias")
        for node in nodes
    )
    names = [[name.lower() for name in node["column_names"]] for node in nodes if node.get("class") == "COLUMN_REF"]
    if reads_unnamed or any(len(parts) == 1 and parts[0] in row_names for parts in names):
        return None
    using = {name.lower() for node in nodes for name in node.get("using_columns") or ()}
    return frozenset(using | {name for parts in names for name in parts})


def _parse_text_argument(argument: Node) -> str | None:
    """Return the text of an argument that is a string literal, or None for any other argument."""
    literal = argument["expression"].get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else None


# Tokens.


def _parse_tokens(text: str) -> ParsedQuery:
    """Parse an SQL text for which there is no syntax tree, word by word.

    Every word is taken as a possible name, except in comments and in string literals of several words.
    """
    try:
        kinds = tuple(statement.type.name for statement in duckdb.extract_statements(text))
    except duckdb.Error as error:
        return ParsedQuery(text, error=str(error).removeprefix("Parser Error: "))
    matches = (_ONE_WORD.fullmatch(token.text.lower()) for token in _list_tokens_without_comments(text))
    names = frozenset(match[1] for match in matches if match)
    is_composed = bool(names & _TEXT_QUERY_FUNCTIONS)
    return ParsedQuery(
        text,
        kinds,
        is_read_only=kinds == SELECT_KINDS or (kinds == PIVOT_KINDS and _is_single_query_if_bracketed(text)),
        names=names,
        policies=None if is_composed or POLICY_MACRO in names else frozenset(),
        is_composed=is_composed,
        lists_catalogue=any(name.startswith(_CATALOGUE_PREFIXES) or name in _CATALOGUE_STATEMENTS for name in names),
    )


class _Token(NamedTuple):
    """A token of an SQL text."""

    start: int  # in bytes
    text: str


def _list_tokens_without_comments(text: str) -> Sequence[_Token]:
    """List the tokens of a text except comments, each with its byte offset."""
    content = text.encode(errors="replace")
    tokens = duckdb.tokenize(content.decode())
    ends = [*(start for start, _ in tokens[1:]), len(content)]
    return [
        _Token(start, content[start:end].decode().strip())
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind != duckdb.token_type.comment
    ]


def _is_single_query_if_bracketed(text: str) -> bool:
    """Return whether a text that DuckDB splits into several statements is a single query.

    DuckDB splits a PIVOT that does not list its values, and also a COPY of such a PIVOT. To tell them apart, the text
    is parsed in brackets after FROM. The grammar allows only queries there, so a COPY is a syntax error.
    """
    try:
        return [statement.type.name for statement in duckdb.extract_statements(f"FROM (\n{text}\n)")] == [*PIVOT_KINDS]
    except duckdb.Error:
        return False
