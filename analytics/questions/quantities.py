"""Quantities of results: the one unit and form of each, for programs and for people, and what computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from analytics.questions.columns import (
    format_count,
    format_elo,
    format_expected_value,
    format_half_points,
    format_percent,
    format_plies,
    format_seconds,
    format_significant,
)


class Quantity(NamedTuple):
    """A quantity of results: its name and unit for programs, and its headings, unit and format for people."""

    column: str  # of frames, CSV and JSON
    stored: str  # its unit in frames, CSV and JSON
    headings: tuple[str, ...]  # of tables, without the unit
    unit: str  # in tables
    format: Callable[[float], str]
    definition: str  # the function that computes it


QUANTITIES = (
    Quantity(
        "score", "0 to 1", ("score", "first one's score"), "%", format_percent, "analytics.statistics.tally.score"
    ),
    Quantity("expected", "0 to 1", ("expected",), "%", format_percent, "analytics.questions.form.compute_form"),
    Quantity("win_rate", "0 to 1", ("win", "win rate"), "%", format_percent, "analytics.statistics.tally.win_rate"),
    Quantity("share", "0 to 1", ("share",), "%", format_percent, "analytics.questions.openings.run_openings_query"),
    Quantity("elo", "Elo", ("Elo",), "Elo", format_elo, "analytics.questions.ratings.compute_ratings"),
    Quantity(
        "regret",
        "half-points",
        ("regret", "mean regret"),
        "half-points",
        format_half_points,
        "analytics.questions.mistakes.summarise_decisions",
    ),
    Quantity(
        "blunders", "0 to 1", ("blunders",), "%", format_percent, "analytics.questions.mistakes.summarise_decisions"
    ),
    Quantity(
        "value",
        "-1 to 1",
        ("value", "result", "exact"),
        "-1 to 1",
        format_expected_value,
        "analytics.report.sections.evaluations.evaluations_frame",
    ),
    Quantity(
        "seconds",
        "seconds",
        ("seconds", "mean", "slowest", "thread seconds"),
        "seconds",
        format_seconds,
        "analytics.report.sections.evaluations.evaluations_frame",
    ),
    Quantity(
        "plies",
        "plies",
        ("plies a game",),
        "plies",
        format_plies,
        "analytics.questions.pairings.PairingResult.mean_plies",
    ),
    Quantity("games", "games", ("games",), "games", format_count, "analytics.questions.pairings.PairingResult.games"),
)
_QUANTITIES_BY_COLUMN = {quantity.column: quantity for quantity in QUANTITIES}


def scale_quantity(name: str, value: float) -> float:
    """Return a value in the unit of tables and charts: a share is multiplied by 100, any other value is unchanged."""
    quantity = _QUANTITIES_BY_COLUMN.get(name)
    return 100 * value if quantity is not None and quantity.unit == "%" else value


def format_quantity(name: str, value: float) -> str:
    """Format a value of the quantity ``name`` or, if there is no such quantity, with a few significant digits."""
    quantity = _QUANTITIES_BY_COLUMN.get(name)
    return format_significant(value) if quantity is None else quantity.format(value)


def format_quantity_heading(name: str) -> str:
    """Return the heading of a quantity's column, with the unit if the quantity is a percentage."""
    quantity = _QUANTITIES_BY_COLUMN.get(name)
    return name if quantity is None or quantity.unit != "%" else f"{name.replace('_', ' ')}, %"
