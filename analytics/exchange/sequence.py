"""The order of exported games, and samples of them. Neither depends on files, threads or interruptions.

Games with the same heading (rules, event, date, opening and agents) are neighbours, and headings ascend. So games that
were imported from a text in this order are exported as the same text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.turns import PERSPECTIVES
from analytics.query.selection import Selection, read_chosen
from analytics.store.range_files import RangeGames
from analytics.store.range_names import StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import first_game_id
from quarto.errors import RequestError
from quarto.rng import GAMMA, stream

CHUNK_GAMES = 16384  # that are converted at a time
KEPT_FILES = 8  # in memory, since a file is read for each pairing and seat; 12 MB each of 2^18 games
FIRST = "first"  # the perspective of the first agent of a pairing, which has either seat
NAMED_PERSPECTIVES = (*PERSPECTIVES, FIRST)
IMPORTED = "imported"  # key of the spec of imported runs: their event, date and checksum


class Heading(NamedTuple):
    """The values that neighbouring games have in common. Exported games are in the order of their headings."""

    rules: str
    event: str  # "" where it is not known
    date: str  # ISO 8601, or ""
    opening: int
    agent_0: str
    agent_1: str


class GameChunk(NamedTuple):
    """Consecutive games of one run and heading, at most ``CHUNK_GAMES``."""

    heading: Heading
    record: RunRecord
    chosen: RangeGames

    def seat(self, perspective: str) -> int:
        """The seat that one of ``NAMED_PERSPECTIVES`` means in these games, or ``BOTH_SEATS``."""
        return int(self.chosen.game_id[0] & 1) if perspective == FIRST else PERSPECTIVES[perspective]


class _Seating(NamedTuple):
    """The games of a pairing in which its first agent holds one of the seats; their ids ascend."""

    heading: Heading
    run: int  # index into the selection's runs
    pairing: int
    game: int  # 0 or 1 within the pair


def games_in_order(selection: Selection, sample: int | None = None, seed: int = 1) -> Iterator[GameChunk]:
    """Yield the selected games, or ``sample`` of them drawn by ``seed``.

    Raises ``RequestError`` for a sample larger than the selection, ``FailureError`` for a damaged file.
    """
    drawn = None if sample is None else draw(selection, sample, seed)
    ranges = [[*selection.opened.archive.ranges(record.run_id)] for record in selection.runs]
    wanted = [_wanted(selection, record) if drawn is None else drawn[run] for run, record in enumerate(selection.runs)]

    @lru_cache(maxsize=KEPT_FILES)
    def games(run: int, number: int) -> RangeGames:
        record, archive = selection.runs[run], selection.opened.archive
        return read_chosen(archive, record.run_id, ranges[run][number], wanted[run])

    spans = sorted(part for run, record in enumerate(selection.runs) for part in _spans(run, record, ranges[run]))
    for seating, first, end, number in spans:
        low, high = (first_game_id(seating.pairing, pair) for pair in (first, end))
        if _holds(wanted[seating.run], low, high):
            yield from _chunks(seating, selection.runs[seating.run], games(seating.run, number), low, high)


def draw(selection: Selection, sample: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw ``sample`` of the selected games uniformly: their ids by run, ascending.

    Every game has a random word that depends on the seed, its run and its id alone; the games with the least words are
    drawn. Raises ``RequestError`` for more games than there are.
    """
    if sample > selection.games:
        raise RequestError(f"a sample of {sample:,} cannot be drawn from {selection.games:,} games: ask for fewer")
    words, ids, runs = np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64)
    for run, record in enumerate(selection.runs):
        found = selection.game_ids(record.run_id)
        words = np.concatenate([words, _words(seed, record.run_id, found)])
        ids, runs = np.concatenate([ids, found]), np.concatenate([runs, np.full(len(found), run)])
        if len(words) > sample:
            least = np.argpartition(words, sample - 1)[:sample]
            words, ids, runs = words[least], ids[least], runs[least]
    return [np.sort(ids[runs == run]) for run in range(len(selection.runs))]


def _words(seed: int, run_id: str, game_id: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A random word for each game: SplitMix64 at its id, on a stream of the run's own (see ``quarto.rng``)."""
    words = np.uint64(stream(seed, int(run_id, 16), 0)) + game_id.astype(np.uint64) * np.uint64(GAMMA)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return words ^ (words >> np.uint64(31))


def _wanted(selection: Selection, record: RunRecord) -> NDArray[np.int64] | None:
    """The ids of a run's selected games, ascending; None for all games of the run."""
    return None if selection.takes_all_of(record) else selection.game_ids(record.run_id)


def _spans(run: int, record: RunRecord, ranges: list[StoredRange]) -> Iterator[tuple[_Seating, int, int, int]]:
    """For each file of a run and each seating: the seating, the first pair, the end pair, the index of the file."""
    source = record.spec.get(IMPORTED, {})
    known = record.rules.name, source.get("event", ""), source.get("date", ""), int(record.spec["opening_plies"])
    for number, stored in enumerate(ranges):
        for pairing, labels in enumerate(record.pairings):
            for game in (0, 1) if record.swapped else (0,):
                heading = Heading(*known, *(labels if game == 0 else labels[::-1]))
                yield (
                    _Seating(heading, run, pairing, game),
                    *record.line.pairs(pairing, stored.first, stored.end),
                    number,
                )


def _chunks(seating: _Seating, record: RunRecord, chosen: RangeGames, low: int, high: int) -> Iterator[GameChunk]:
    """The games of a seating whose ids are in [low, high)."""
    rows = np.arange(*np.searchsorted(chosen.game_id, [low, high]))
    rows = rows[chosen.game_id[rows] & 1 == seating.game]
    for start in range(0, len(rows), CHUNK_GAMES):
        yield GameChunk(seating.heading, record, chosen.taken(rows[start : start + CHUNK_GAMES]))


def _holds(wanted: NDArray[np.int64] | None, low: int, high: int) -> bool:
    """Whether any id of ``wanted`` is in [low, high)."""
    return wanted is None or bool(np.searchsorted(wanted, low) < np.searchsorted(wanted, high))
