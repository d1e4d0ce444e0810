"""The order of exported games, and samples of them. Neither depends on files, threads or interruptions.

Games with the same heading (rules, event, date, opening and agents) are neighbours, and headings ascend. So games that
were imported from a text in this order are exported as the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.episodes import PERSPECTIVES
from analytics.exchange.text import Heading
from analytics.questions.selection import (
    Selection,
    read_pair_ranges,
    read_selected_games,
    select_pair_ranges_and_count_games,
)
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.run_notes import RunNote
from quarto.rng import GAMMA, Streams, stream

BLOCK_GAMES = 16384  # games that are converted at a time
FIRST_AGENT = "first"  # the perspective of the first agent of a pairing, which has either seat
NAMED_PERSPECTIVES = (*PERSPECTIVES, FIRST_AGENT)
IMPORTED_KEY = "imported"  # key of the spec of imported runs: their event, date and checksum


class ExportBlock(NamedTuple):
    """At most ``BLOCK_GAMES`` consecutive games of one run that share a heading.

    The heading has the rules, the event, the date, the opening and the agents.
    """

    heading: Heading
    record: RunRecord
    range_games: RangeGames
    whole_run_number: int  # 1, 2, … in the order in which runs began, for runs exported whole; otherwise 0
    note: RunNote  # the name and the note of the run

    def perspective_seat_or_both(self, perspective: str) -> int:
        """Return the seat from which ``perspective`` sees the outcomes of these games, or ``BOTH_SEATS``.

        ``perspective`` is one of ``NAMED_PERSPECTIVES``.
        """
        return int(self.range_games.game_id[0] & 1) if perspective == FIRST_AGENT else PERSPECTIVES[perspective]


class _Seating(NamedTuple):
    """The games of a pairing in which the pairing's first agent has the same seat, in ascending order of game id."""

    heading: Heading
    is_partial_run: bool  # the run is not exported whole
    run: int  # index into the selection's runs
    pairing: int
    game: int  # 0 or 1 within the pair


def read_export_blocks(selection: Selection, sample: int | None = None, seed: int = 1) -> Iterator[ExportBlock]:
    """Yield the selected games in blocks, in the order of an export.

    With ``sample``, only this many games are exported. They are drawn at random, and ``seed`` determines which ones.
    Raises ``FailureError`` if a file is damaged.
    """
    archive = selection.opened.archive
    notes = [archive.find_note(record.run_id) for record in selection.runs]
    chosen_ids: Sequence[NDArray[np.int64] | None]  # the ids of each run's games, ascending; None: all of them
    if sample is None:
        chosen_ids = [
            None if selection.has_whole_run(record) else selection.read_game_ids(record.run_id)
            for record in selection.runs
        ]
    else:
        chosen_ids = sample_game_ids(selection, sample, seed)
    is_whole = [
        ids is None and _is_gapless_unimported_run(archive, record)
        for ids, record in zip(chosen_ids, selection.runs, strict=True)
    ]
    rank = np.where(is_whole, np.cumsum(is_whole), 0).tolist()

    def read_chosen_games(file: tuple[int, StoredRange]) -> RangeGames:
        run, stored = file
        return read_selected_games(archive, selection.runs[run].run_id, stored, chosen_ids[run])

    parts = [
        (seating, stored, part)
        for run, record in enumerate(selection.runs)
        for stored in archive.list_effective_ranges(record.run_id)
        for part in select_pair_ranges_and_count_games(archive, record, stored, chosen_ids[run])
        for seating in _list_seatings_of_pairing(run, record, not is_whole[run], part.pairing)
    ]
    parts.sort(key=lambda part: (part[0], part[2]))
    games_of_parts = read_pair_ranges(
        [((seating.run, stored), part) for seating, stored, part in parts], read_chosen_games
    )
    for (seating, _, _), games in zip(parts, games_of_parts, strict=True):
        rows = np.flatnonzero(games.game_id & 1 == seating.game)
        for start in range(0, len(rows), BLOCK_GAMES):
            chosen = games.select_rows(rows[start : start + BLOCK_GAMES])
            run = seating.run
            yield ExportBlock(seating.heading, selection.runs[run], chosen, rank[run], notes[run])


def sample_game_ids(selection: Selection, sample: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw ``sample`` of the selected games uniformly; return an array of ascending game ids for each run.

    The arrays are in the order of the selection's runs. Each game has a random word that depends only on the seed, the
    game's run and the game's id; the games with the smallest words are drawn.
    """
    words, ids, runs = np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64)
    for run, record in enumerate(selection.runs):
        run_ids = selection.read_game_ids(record.run_id)
        words = np.concatenate([words, _compute_sample_words(seed, record.run_id, run_ids)])
        ids, runs = np.concatenate([ids, run_ids]), np.concatenate([runs, np.full(len(run_ids), run)])
        if len(words) > sample:
            least = np.argpartition(words, sample - 1)[:sample]
            words, ids, runs = words[least], ids[least], runs[least]
    return [np.sort(ids[runs == run]) for run in range(len(selection.runs))]


def _compute_sample_words(seed: int, run_id: str, game_id: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Compute a random word for each game, [G], with SplitMix64.

    The word depends on the game's id and on the random stream of its run; ``quarto.rng`` explains streams.
    """
    words = np.uint64(stream(seed, int(run_id, 16), 0)) + game_id.astype(np.uint64) * np.uint64(GAMMA)
    return Streams(words).draw(0)


def _is_gapless_unimported_run(archive: ArchiveStore, record: RunRecord) -> bool:
    """Return whether a run was not imported and the archive holds all its units from unit 0 on, without a gap."""
    covered = archive.list_effective_ranges(record.run_id).covered_ranges
    return IMPORTED_KEY not in record.spec and len(covered) == 1 and covered[0][0] == 0


def _list_seatings_of_pairing(
    run_index: int, record: RunRecord, is_partial_run: bool, pairing: int
) -> Iterator[_Seating]:
    """Yield the seatings of a pairing in a run.

    There are two if the agents exchange seats between the two games of a pair, otherwise one. ``run_index`` is the
    index of the run in the selection. ``is_partial_run`` says that the run is not exported whole; among seatings with
    the same heading, those of whole runs come first.
    """
    source = record.spec.get(IMPORTED_KEY, {})
    heading_values = (
        record.rules.name,
        source.get("event", ""),
        source.get("date", ""),
        int(record.spec["opening_plies"]),
    )
    labels = record.pairings[pairing]
    for game in (0, 1) if record.swapped else (0,):
        yield _Seating(
            Heading(*heading_values, *(labels if game == 0 else labels[::-1])), is_partial_run, run_index, pairing, game
        )
