"""The strength of agents at the terminal: `qarena rate`, `crosstable` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from analytics import open_archive
from analytics.questions import comparison, ratings
from analytics.questions.head_to_head import HeadToHead, head_to_head
from analytics.questions.selection import GameFilter
from runners.config.agents import stored_label
from runners.terminal import console
from runners.terminal.files import TableOutput
from runners.terminal.results import show_head_to_head, show_ratings
from runners.terminal.tables import write


class RatingOptions(NamedTuple):
    """The settings of a fit, see ``analytics.questions.ratings.rate``."""

    anchor: str | None  # the label of an agent
    anchor_elo: float
    samples: int


def rate(root: PurePath, games: GameFilter, options: RatingOptions, table: TableOutput) -> None:
    """Print or write the ratings of all agents in the chosen games. Raises as ``head_to_head`` and ``rate`` do."""
    met, anchor = _met(root, games), stored_label(root, options.anchor)
    found = ratings.rate(met.tallies, anchor, options.anchor_elo, samples=options.samples, shared=met.shared)
    if table.is_printed:
        show_ratings(met, found, anchor, options.anchor_elo, table.wide)
    else:
        write(found.frame(), table)
        for line in found.unrated:
            console.print_note(line)


def crosstable(root: PurePath, games: GameFilter, by_seat: bool, table: TableOutput) -> None:
    """Print or write the results of every two agents in the chosen games. Raises as ``head_to_head`` does."""
    met = _met(root, games)
    if table.is_printed:
        show_head_to_head(met, by_seat, table.wide)
    else:
        write(met.frame(by_seat), table)


def compare(root: PurePath, runs: Sequence[str], table: TableOutput) -> None:
    """Print or write the differences of runs from the first of them. Raises as ``comparison.compare`` does."""
    with open_archive(root) as opened:
        found = comparison.compare(opened, runs)
    if table.is_printed:
        console.show(found.tables, wide=table.wide)
    else:
        write(found.results, table)
    for line in found.renamed:
        console.print_note(line)


def _met(root: PurePath, games: GameFilter) -> HeadToHead:
    """The results of every two agents; their warnings are printed."""
    with open_archive(root) as opened:
        met = head_to_head(opened, games)
    for note in met.notes:
        console.print_note(note)
    return met
