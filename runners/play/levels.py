"""Ten opponents by strength, from random to perfect play.

The page docs/leaderboard.md says how their ratings were measured.
"""

from __future__ import annotations

from typing import NamedTuple

from quarto.errors import RequestError


class Level(NamedTuple):
    """An opponent that people can choose by its number."""

    agent: str  # label
    elo: int  # relative to ``random``, measured under classic rules
    text: str  # how it plays, in words


LEVELS = (
    Level("random", 0, "places and gives at random"),
    Level("ga5", 82, "weighs pieces and cells, and does not look at the piece in hand"),
    Level("ga2", 397, "gives rare pieces, fills lines"),
    Level("rule_based", 526, "mirrors your moves and takes a win"),
    Level("semi_random", 679, "takes a win, and gives a safe piece if there is one"),
    Level("oracle(horizon=10)", 877, "plays perfectly once ten pieces are on the board"),
    Level("oracle(slip=1.0)", 919, "misses no win at once, and errs whenever that does not lose at once"),
    Level("oracle(slip=0.4)", 1186, "errs in two of five turns, never absurdly"),
    Level("oracle(slip=0.1)", 1386, "errs in one of ten turns, never absurdly"),
    Level("oracle", 1477, "never loses a position that can be held"),
)


def find_level_agent(level_or_label: str) -> str:
    """Return the label of the agent at a level, given by its number as in ``"4"``; return any other text unchanged.

    Raises ``RequestError`` for a level that does not exist.
    """
    if not level_or_label.isdecimal():
        return level_or_label
    if not 1 <= int(level_or_label) <= len(LEVELS):
        raise RequestError(
            f"level {level_or_label} does not exist: levels are 1 (random) to {len(LEVELS)} (perfect play)"
        )
    return LEVELS[int(level_or_label) - 1].agent


WINS_BEFORE_NEXT_LEVEL = 3  # in a row, without help


def find_level_number(agent: str) -> int | None:
    """Return the number of the level whose agent has this label, or None if no level has it."""
    return next((number for number, level in enumerate(LEVELS, 1) if level.agent == agent), None)


def suggest_level_number(agent: str, half_points: int, wins_in_a_row: int) -> int | None:
    """Return the number of the level that suits a person after a game, or None if the level need not change.

    Args:
        agent: The label of the agent that the person played.
        half_points: The person's result: 2 for a win, 1 for a draw, 0 for a loss.
        wins_in_a_row: How many games in a row the person has won against this agent without help, this game included.

    """
    number = find_level_number(agent)
    if number is None:
        return None
    if half_points == 0 and number > 1:
        return number - 1
    is_ready = half_points == 2 and wins_in_a_row >= WINS_BEFORE_NEXT_LEVEL
    return number + 1 if is_ready and number < len(LEVELS) else None
