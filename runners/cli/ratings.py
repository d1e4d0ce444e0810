"""The strength of agents at the terminal: `qarena rate`, `crosstable` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from analytics import open_archive
from analytics.questions import ratings, run_comparison
from analytics.questions.head_to_head import HeadToHead, compute_head_to_head
from analytics.questions.selection import GameFilter
from runners.config.agents import find_stored_label
from runners.terminal import console
from runners.terminal.files import TableOutput
from runners.terminal.results import print_head_to_head, print_ratings
from runners.terminal.tables import output_frame


class RatingOptions(NamedTuple):
    """The settings of a fit, see ``analytics.questions.ratings.compute_ratings``."""

    anchor: str | None  # the label of an agent
    anchor_elo: float
    samples: int


def output_ratings(root: PurePath, game_filter: GameFilter, options: RatingOptions, output: TableOutput) -> None:
    """Print or write the ratings of all agents in the chosen games. Raises as ``head_to_head`` and ``rate`` do."""
    met, anchor = _load_head_to_head(root, game_filter), find_stored_label(root, options.anchor)
    found = ratings.fit_ratings(met.tallies, anchor, options.anchor_elo, samples=options.samples, shared=met.shared)
    if output.is_printed:
        print_ratings(met, found, anchor, options.anchor_elo, output.wide)
    else:
        output_frame(found.to_frame(), output)
        for line in found.unrated_sentences:
            console.print_note(line)


def output_crosstable(root: PurePath, game_filter: GameFilter, by_seat: bool, output: TableOutput) -> None:
    """Print or write the results of every two agents in the chosen games. Raises as ``head_to_head`` does."""
    met = _load_head_to_head(root, game_filter)
    if output.is_printed:
        print_head_to_head(met, by_seat, output.wide)
    else:
        output_frame(met.to_frame(by_seat), output)


def output_run_comparison(root: PurePath, run_ids: Sequence[str], output: TableOutput) -> None:
    """Print or write the differences of runs from the first of them. Raises as ``comparison.compare`` does."""
    with open_archive(root) as opened:
        found = run_comparison.compare_runs(opened, run_ids)
    if output.is_printed:
        console.print_tables(found.tables, wide=output.wide)
    else:
        output_frame(found.results, output)
    for line in found.agent_match_notes:
        console.print_note(line)


def _load_head_to_head(root: PurePath, game_filter: GameFilter) -> HeadToHead:
    """The results of every two agents; their warnings are printed."""
    with open_archive(root) as opened:
        met = compute_head_to_head(opened, game_filter)
    for note in met.notes:
        console.print_note(note)
    return met
