"""The results of the games that a browser has finished since it was opened, against each opponent.

They are kept in memory for each session cookie, so they end with the browser or the server, as a sitting at a board
does. The archive has every game for good.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from quarto.rules import NONE
from runners.play.levels import LEVELS, WINS_BEFORE_NEXT_LEVEL, find_level_number, suggest_level_number
from runners.web.agents_and_rules import AgentsAndRules, split_label

MAX_BROWSERS = 1000  # whose results are kept; beyond that, the least recent ones are forgotten
MAX_SERIES = 100  # of one browser

SeriesKey = tuple[str, str, str]  # name of the person, label of the agent, name of the rules


class SeriesStanding(NamedTuple):
    """The standing of a series of games between a person and an agent, after one of the games."""

    games: int = 0
    half_points: int = 0  # of the person: 2 for a win, 1 for a draw
    wins_in_a_row: int = 0  # without help, up to and including the last game


class SeriesBook:
    """The standings of all series on a site, by browser."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series_by_browser: OrderedDict[str, OrderedDict[SeriesKey, SeriesStanding]] = OrderedDict()

    def record_result(self, browser_id: str, key: SeriesKey, half_points: int, is_aided: bool) -> SeriesStanding:
        """Add a finished game to its series, and return the new standing.

        A win with help neither continues nor ends a row of wins, because it shows little about the person's strength.
        """
        with self._lock:
            series = self._series_by_browser.setdefault(browser_id, OrderedDict())
            self._series_by_browser.move_to_end(browser_id)
            games, total, wins = series.get(key, SeriesStanding())
            wins = (wins if is_aided else wins + 1) if half_points == 2 else 0
            series[key] = SeriesStanding(games + 1, total + half_points, wins)
            series.move_to_end(key)
            _drop_oldest(series, MAX_SERIES)
            _drop_oldest(self._series_by_browser, MAX_BROWSERS)
            return series[key]


def _drop_oldest(entries: OrderedDict[Any, Any], maximum: int) -> None:
    while len(entries) > maximum:
        entries.popitem(last=False)


def count_half_points(winner: int, seat: int) -> int:
    """Return the half-points of ``seat`` in a finished game: 2 for a win, 1 for a draw (``winner`` is NONE), else 0."""
    return 1 if winner == NONE else 2 * (winner == seat)


def format_score(names: Iterable[str], half_points: Iterable[int]) -> str:
    """Format the score of two players by name, as in ``ada 0, oracle 1`` or ``ada 1½, oracle ½``."""
    return ", ".join(f"{name} {_format_half_points(points)}" for name, points in zip(names, half_points, strict=True))


def _format_half_points(half_points: int) -> str:
    whole, half = divmod(half_points, 2)
    return f"{whole if whole or not half else ''}{'½' if half else ''}"


class LevelOffer(NamedTuple):
    """What the page of a finished game says about the levels: an opponent to play next, or how far it is away."""

    agent: str  # label of the level's agent; "" if there is no offer yet
    number: int
    text: str


def find_level_offer(
    choices: AgentsAndRules, agent: str, rules: str, half_points: int, wins_in_a_row: int
) -> LevelOffer | None:
    """Return the level to play next after a game against ``agent``, or None.

    There is none if the agent is no level, if the result asks for no change, or if the other level's agent cannot play
    by these rules.
    """
    number = suggest_level_number(agent, half_points, wins_in_a_row)
    if number is None:
        current = find_level_number(agent)
        if current is None or current == len(LEVELS) or not 0 < wins_in_a_row < WINS_BEFORE_NEXT_LEVEL:
            return None
        wins = f"{wins_in_a_row} of {WINS_BEFORE_NEXT_LEVEL} wins in a row"
        return LevelOffer("", current + 1, f"{wins} before level {current + 1}.")
    level = LEVELS[number - 1]
    if rules not in choices.list_playable_rules(split_label(level.agent)[0]):
        return None
    occasion = "Three wins in a row." if half_points else "Too strong this time?"
    return LevelOffer(level.agent, number, f"{occasion} Level {number}, {level.agent}, {level.text}.")
