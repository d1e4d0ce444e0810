"""Checks of conditions on games: one SQL expression that always selects the same games."""

from __future__ import annotations

import re

import duckdb

from quarto.errors import RequestError

# DuckDB's volatile functions that a question may call, and its words for samples.
CHANGING_FUNCTIONS = frozenset({"random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "nextval"})
CHANGING_WORDS = frozenset({"sample", "tablesample"})


def check(where: str) -> None:
    """Raise ``RequestError`` for a condition that is empty, closes brackets that it did not open, or is random."""
    depth, name, words = 0, "", 0
    for start, kind in duckdb.tokenize(where):
        if kind == duckdb.token_type.comment:
            continue
        words += 1
        character = where[start]
        if kind == duckdb.token_type.operator and character in "()":
            if character == "(" and name in CHANGING_FUNCTIONS:
                raise _by_chance(where, f"{name}()")
            depth += 1 if character == "(" else -1
            if depth < 0:
                raise RequestError(
                    f"where={where!r} is not a condition on games: a bracket is closed that was not opened"
                )
        found = re.match(r"\w+", where[start:])
        name = found[0].lower() if found else ""
        if kind == duckdb.token_type.keyword and name in CHANGING_WORDS:
            raise _by_chance(where, name.upper())
    if not words:
        raise RequestError(f"where={where!r} is empty: leave it out to choose all games")


def _by_chance(where: str, what: str) -> RequestError:
    return RequestError(
        f"where={where!r} is random ({what}), so its result could not be repeated: use columns of the games, as in "
        "game_id % 10 = 0"
    )
