"""Named questions: the SQL files of ``analytics/query/named``, each with a header that describes the answer."""

from __future__ import annotations

from importlib.resources import files

from quarto.errors import RequestError, nearest


def names() -> list[str]:
    """The names of all questions, sorted."""
    found = (entry.name for entry in (files("analytics.query") / "named").iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql"))


def query(name: str) -> str:
    """The SQL of a question. Raises ``RequestError`` for an unknown name."""
    if name not in names():
        raise RequestError(f"question {name!r} is not known{nearest(name, names())}")
    return (files("analytics.query") / "named" / f"{name}.sql").read_text(encoding="utf-8")


CHOSEN = "true /* chosen */"  # stands for a condition in the SQL of questions that can be restricted to some games


def query_of(name: str, condition: str) -> str:
    """The SQL of a question about the games that ``condition`` chooses (on ``run_id`` and ``game_id``).

    Raises ``RequestError`` for an unknown question, and for one that always takes all games.
    """
    text = query(name)
    if CHOSEN not in text:
        raise RequestError(f"question {name!r} takes all games: {CHOSEN!r} is not in its SQL")
    return text.replace(CHOSEN, f"(\n{condition}\n)")
