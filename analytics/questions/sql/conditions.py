"""Conditions on games: each is one expression that always has the same result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import duckdb

from analytics.questions.sql.syntax import SELECT_KINDS, Node, ParsedQuery, build_depth_error, walk_nodes
from analytics.questions.sql.vocabulary import PURE_TABLE_FUNCTIONS
from analytics.store.texts import to_line
from quarto.errors import RequestError


class SqlFunction(NamedTuple):
    """A function or a macro of DuckDB."""

    name: str
    stability: str | None  # such as CONSISTENT; None: a macro
    definition: str | None  # SQL of a macro; None: a function


class Parser(Protocol):
    """The interface of a parser that the checks of conditions use; ``OpenArchive`` implements it."""

    def parse_query(self, text: str) -> ParsedQuery:
        """Parse an SQL text. Raises ``RequestError`` for a text that is nested too deeply."""
        ...

    def list_functions(self, names: Iterable[str]) -> Sequence[SqlFunction]:
        """List the name, the stability and the definition of each function or macro that has one of these names."""
        ...


# The clauses that may follow the expression after WHERE in a SELECT.
_OTHER_CLAUSES = ("modifiers", "group_expressions", "group_sets", "having", "qualify", "sample")
_TEXT_SPANS = ("query_location", "query_location_length")

# Functions that SQL calls without brackets, so that they look like columns.
_CLOCKS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_SAMPLING_FUNCTIONS = frozenset({"reservoir_quantile"})  # DuckDB lists it as consistent, but it draws some of the rows


def check_and_combine_both_conditions(parser: Parser, first: str, second: str) -> str:
    """Combine two conditions with AND; each is checked on its own first, so that neither can cancel the other.

    Raises the errors of ``check_condition``.
    """
    for where in (first, second):
        check_condition(parser, where)
    return f"{_enclose_in_brackets(first)} AND {_enclose_in_brackets(second)}"


def _enclose_in_brackets(where: str) -> str:
    return f"({where}\n)" if "--" in where else f"({where})"  # a comment ends with its line


def check_condition(parser: Parser, where: str) -> None:
    """Raise ``RequestError`` unless ``where`` is a single expression whose result does not change over time.

    Columns are not checked here, because DuckDB reports unknown columns when the condition is used.
    """
    if all(kind == duckdb.token_type.comment for _, kind in duckdb.tokenize(where)):
        raise RequestError(f"where={to_line(repr(where))} is empty: leave it out to choose all games")
    try:
        # A bracket that ``where`` closes but did not open is an error if ``where`` stands alone; in brackets it would
        # begin another clause.
        alone, enclosed = _parse_condition(parser, where), _parse_condition(parser, f"({where}\n)")
    except RequestError as error:
        raise RequestError(f"where={to_line(repr(where))} is not a condition on games: {error}") from error
    if any(alone[clause] for clause in _OTHER_CLAUSES) or alone["where_clause"] != enclosed["where_clause"]:
        raise RequestError(f"where={to_line(repr(where))} is not a condition on games: it is more than one expression")
    reason = _describe_changing_part(parser, alone["where_clause"])
    if reason:
        raise RequestError(
            f"where={to_line(repr(where))} {reason}, so its result could not be repeated: use columns of the games, as "
            "in game_id % 10 = 0"
        )


def _parse_condition(parser: Parser, expression: str) -> Node:
    """Parse a SELECT with the expression as its WHERE clause, and return the syntax tree of the SELECT.

    Raises ``RequestError`` if the text is more than an expression.
    """
    query = parser.parse_query(f"SELECT 1 FROM games WHERE {expression}\n")  # noqa: S608  (it is parsed, not asked)
    if query.error:
        raise RequestError(f"SQL: {query.error}")
    if query.is_too_deep:
        raise build_depth_error()
    if query.tree is None or query.kinds != SELECT_KINDS or not query.is_read_only:
        raise RequestError("it is more than one expression")
    root: Node = query.tree["statements"][0]["node"]
    if root["type"] != "SELECT_NODE":
        raise RequestError("it is more than one expression")
    try:
        select: Node = _remove_spans(root)
    except RecursionError:
        raise build_depth_error() from None
    return select


def _remove_spans(tree: Any) -> Any:
    """Copy a syntax tree, leaving out positions in the text, so that the trees of equal expressions are equal."""
    if isinstance(tree, dict):
        return {name: _remove_spans(value) for name, value in tree.items() if name not in _TEXT_SPANS}
    return [_remove_spans(value) for value in tree] if isinstance(tree, list) else tree


def _describe_changing_part(parser: Parser, expression: Node) -> str | None:
    """Describe a part of an expression whose result may change over time, or return None if there is no such part."""
    function_names = set()
    for node in walk_nodes(expression):
        if node.get("sample"):
            return "takes a SAMPLE"
        if (
            node.get("type") == "TABLE_FUNCTION"
            and node["function"]["function_name"].lower() not in PURE_TABLE_FUNCTIONS
        ):
            return f"reads from {node['function']['function_name']}(), which can change"
        if "function_name" in node:
            function_names.add(node["function_name"].lower())
        if node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in _CLOCKS:
            return f"calls {node['column_names'][-1].lower()}, which changes"
    changing_functions = sorted(function_names & _SAMPLING_FUNCTIONS) or _list_changing_functions(
        parser, function_names
    )
    return f"calls {changing_functions[0]}(), which changes" if changing_functions else None


def _list_changing_functions(parser: Parser, names: Iterable[str]) -> list[str]:
    """List, sorted, the functions and macros in ``names`` whose results may change over time.

    These are the functions that DuckDB does not mark as ``CONSISTENT``, and the macros whose definitions have a part
    that may change.
    """
    return sorted(
        {
            name
            for name, stability, definition in parser.list_functions(names)
            if (definition is None and stability != "CONSISTENT")
            or (
                definition is not None
                and _describe_changing_part(parser, _parse_condition(parser, f"({definition})")["where_clause"])
            )
        }
    )
