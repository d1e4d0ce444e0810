"""The win rates that five studies of Quarto published, and notes on rates that differ from ours.

Four small tables lie beside this file:

- ``studies.csv``: titles and sources.
- ``figures.csv``: one published win rate in each row, in percent, and the player that drawn games were counted for.
- ``players.csv``: our agents for each published player, and the trainings of agents that learn. If a study's text and
  code differ, there is one agent for each.
- ``notes.csv``: explanations, each of one or more published rates.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

TRAINING_SUFFIX = "(training)"  # ends the label of a player whose published games are those that it learned from
DRAWS_FOR = ("player", "opponent", "nobody")
SEATS = {"both": (0, 1), "0": (0,), "1": (1,), "first": (1,), "second": (0,)}  # the first to place has seat 1


@dataclass(frozen=True)
class Study:
    """A student study that published win rates, with its title and source."""

    study: str  # a letter
    title: str
    source: str


@dataclass(frozen=True)
class PercentRange:
    """A published percentage, given as one number or as a range."""

    text: str  # as it was published
    least: float
    most: float

    @staticmethod
    def parse(text: str) -> PercentRange | None:
        """Parse a text such as ``83.2`` or ``80-84``; return None for an empty text.

        Raises ``ValueError`` for any other text.
        """
        if not text:
            return None
        least, _, most = text.partition("-")
        return PercentRange(text, float(least), float(most or least))


@dataclass(frozen=True)
class PublishedRate:
    """A published win rate. ``player`` and ``opponent`` are the labels of our agents that follow the study's text."""

    figure: str  # its name: the study and a number
    study: str
    player: str
    opponent: str
    rules: str
    seat: str  # the player's seat: a key of SEATS
    games: int
    win: PercentRange  # percent
    draw: PercentRange | None  # percent; None: not published
    draws_for: str  # one of DRAWS_FOR: the player counted as the winner of drawn games
    version: str  # version of the study's program, if the player has several; "": the last one
    where: str  # place in the study
    remark: str

    @property
    def is_training(self) -> bool:
        """Whether the published games are those from which the player learned."""
        return self.player.endswith(TRAINING_SUFFIX)


@dataclass(frozen=True)
class Implementation:
    """Our agents that reproduce a published player: one follows the study's text, and one follows the study's code.

    The second agent is given only if the study's text and code are known to differ.
    """

    player: str  # as in the figures
    version: str  # version of the study's program, as in the figures
    text: str  # label of the agent that follows the study's text
    code: str  # label of the agent that follows its code; "": no difference is known
    trainer: str  # overrides of ``qarena train`` that make the policy of ``text``; "": it does not learn
    code_trainer: str  # overrides that make the policy of ``code``


@dataclass(frozen=True)
class Note:
    """An explanation of why one or more published figures differ from ours."""

    figures: tuple[str, ...]
    certainty: str  # proven: shown by an experiment; likely: inferred
    note: str


@cache
def read_studies() -> tuple[Study, ...]:
    """Read all studies, in the order of the file."""
    return tuple(Study(**row) for row in _read_rows("studies"))


@cache
def read_published_rates() -> tuple[PublishedRate, ...]:
    """Read all published win rates, in the order of the file. Raises ``ValueError`` for an invalid row."""
    return tuple(_parse_published_rate(row) for row in _read_rows("figures"))


@cache
def read_implementations() -> dict[tuple[str, str], Implementation]:
    """Read our agents for the published players; the key is a player and a version of the study's program.

    The version ``""`` stands for the last version.
    """
    return {(row["player"], row["version"]): Implementation(**row) for row in _read_rows("players")}


def find_implementation_or_last_version(player: str, version: str) -> Implementation | None:
    """Return our agents for a published player in this version of the study's program, or else in its last version.

    Return None if neither version is listed. In this case, our agent has the label under which the player was
    published, and no difference between the study's text and code is known.
    """
    return read_implementations().get((player, version)) or read_implementations().get((player, ""))


@cache
def read_notes() -> tuple[Note, ...]:
    """Read all notes, in the order of the file."""
    return tuple(Note(tuple(row["figures"].split()), row["certainty"], row["note"]) for row in _read_rows("notes"))


def select_notes(figure_name: str) -> Sequence[Note]:
    """Select the notes that explain the figure with this name, in the order of the file."""
    return [note for note in read_notes() if figure_name in note.figures]


def _parse_published_rate(row: dict[str, str]) -> PublishedRate:
    """Parse a row of ``figures.csv``. Raises ``ValueError`` if a value is missing or unknown."""
    win = PercentRange.parse(row["win"])
    if win is None or row["seat"] not in SEATS or row["draws_for"] not in DRAWS_FOR:
        raise ValueError(f"published figure {row} has no win rate, an unknown seat or an unknown use of draws")
    parsed: dict[str, Any] = {"games": int(row["games"]), "win": win, "draw": PercentRange.parse(row["draw"])}
    return PublishedRate(**{field.name: parsed.get(field.name, row[field.name]) for field in fields(PublishedRate)})


def _read_rows(name: str) -> Iterator[dict[str, str]]:
    """Return the rows of the table ``{name}.csv`` beside this file, each as a dictionary from column to text."""
    text = (files("analytics.report.published") / f"{name}.csv").read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
