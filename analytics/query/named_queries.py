"""Named questions: the SQL files of ``analytics/query/sql``, each with a header that says what it answers."""

from __future__ import annotations

from importlib.resources import files

from quarto.errors import RequestError, nearest


def names() -> list[str]:
    """The names of all questions, sorted."""
    found = (entry.name for entry in (files("analytics.query") / "sql").iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql"))


def query(name: str) -> str:
    """The SQL of a question. Raises ``RequestError`` for a name that is not one."""
    if name not in names():
        raise RequestError(f"question {name!r} is not known{nearest(name, names())}")
    return (files("analytics.query") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


CHOSEN = "true /* chosen */"  # where the SQL of a question that is asked of some games only has room for a condition


def query_of(name: str, condition: str) -> str:
    """The SQL of a question, asked of the games that ``condition`` chooses (on ``run_id`` and ``game_id``).

    Raises ``RequestError`` for a question that is not known or is always asked of all games.
    """
    text = query(name)
    if CHOSEN not in text:
        raise RequestError(f"question {name!r} is asked of all games: {CHOSEN!r} is not in its SQL")
    return text.replace(CHOSEN, f"(\n{condition}\n)")
