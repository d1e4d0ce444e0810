"""Addresses of pages. Each state of a page has exactly one address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from analytics.questions.columns import Cell, format_short_game_name
from quarto.notation import CLASSIC_NAME, format_game, format_piece
from quarto.rules import NONE

BROWSE = "/browse"
INSIGHTS = f"{BROWSE}/insights"


def build_url(path: str, query: Mapping[str, object]) -> str:
    """Build an address from a path and query parameters, without the parameters that are None, False or ""."""
    parameters = {
        name: str(value) for name, value in query.items() if not (value is None or value is False or value == "")
    }
    return f"{path}?{urlencode(parameters, safe='/@()=,.:')}" if parameters else path


def run_url(run_id: str) -> str:
    """Return the address of a run's page."""
    return f"{BROWSE}/runs/{run_id}"


def run_name_url(run_id: str) -> str:
    """Return the address that takes the form with a run's name and note."""
    return f"{BROWSE}/runs/{run_id}/name"


def agent_url(agent: str, rules: str = "") -> str:
    """Return the address of an agent's page, limited to the rules called ``rules`` unless ``rules`` is ""."""
    return build_url(f"{BROWSE}/agent", {"agent": agent, "rules": rules})


def game_url(run_id: str, game_id: int, ply: int | None = None) -> str:
    """Return the address that shows a logged game after ``ply`` plies or, if ``ply`` is None, at its end."""
    return build_url(f"{BROWSE}/games/{run_id}/{game_id}", {"ply": ply})


def build_game_cell(run_id: str, game_id: int, ply: int | None = None) -> Cell:
    """Build a table cell that names a game and links to the game's page, at the ply ``ply`` if one is given."""
    return Cell(format_short_game_name(run_id, game_id), code=True, link=game_url(run_id, game_id, ply))


def games_url(**filters: object) -> str:
    """Return the address of the list of games with the given filters."""
    return build_url(f"{BROWSE}/games", filters)


def openings_url(position: str, **filters: object) -> str:
    """Return the address of the opening explorer for a position, given as text, with the given filters."""
    return build_url(f"{BROWSE}/openings", {"position": position, **filters})


def results_url(slug: str, **filters: object) -> str:
    """Return the address of the report's section with this slug, with the given filters."""
    return build_url(f"{BROWSE}/results/{slug}", filters)


def policy_url(policy_id: str) -> str:
    """Return the address of a policy's page."""
    return f"{BROWSE}/policies/{policy_id}"


def sweep_url(sweep_id: str) -> str:
    """Return the address of a sweep's page."""
    return f"{BROWSE}/sweeps/{sweep_id}"


def analysis_url(position: str) -> str:
    """Return the address of the page that analyses a position, given as text."""
    return build_url("/analyse", {"text": position})


def game_analysis_url(plies: Sequence[tuple[int, int]], rules: str, hand: int = NONE) -> str:
    """Return the address of the analysis page for the game that consists of ``plies``, under the named rules.

    ``plies`` are pairs (piece, cell). ``hand`` is the piece that was given last, or NONE.
    """
    words = [*([format_game(plies)] if plies else []), *([] if hand == NONE else [format_piece(hand)])]
    return build_url("/analyse", {"rules": None if rules == CLASSIC_NAME else rules, "text": " ".join(words)})
