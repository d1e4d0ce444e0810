"""Games in the order of their pairings, which is not that of their files: a file holds pairs of all pairings.

As many parts of files as memory allows are read together, each file once for them all and not once for each pairing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from analytics.query.selection import within
from analytics.store.archive import Archive
from analytics.store.blocks import RangeGames
from analytics.store.range_files import read_rows
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord

IN_MEMORY = 1 << 21  # games that are read together, 44 bytes each
MOST_PARTS = 4096  # that are

File = TypeVar("File", bound=Hashable)


class PairingPart(NamedTuple):
    """Consecutive pairs of a pairing, in one file. Parts of one run ascend by pairing and pair."""

    pairing: int
    first_pair: int
    end_pair: int
    games: int  # that are wanted

    def rows(self, game_id: NDArray[np.int64]) -> NDArray[np.intp]:
        """Where its games are among ids, which ascend."""
        found = within(game_id, self.pairing, self.first_pair, self.end_pair)
        return np.arange(found.start, found.stop)


def parts_of(
    archive: Archive, record: RunRecord, stored: StoredRange, chosen: NDArray[np.int64] | None
) -> Iterator[PairingPart]:
    """The parts of a file with games whose ids are in ``chosen``, which ascends; None: all games.

    Raises ``FailureError`` for a damaged file of imported games, which alone knows their pairings.
    """
    for part in _parts(archive, record, stored):
        games = part.games if chosen is None else part.rows(chosen).size
        if games:
            yield part._replace(games=games)


def _parts(archive: Archive, record: RunRecord, stored: StoredRange) -> Iterator[PairingPart]:
    if record.line.pairings < len(record.pairings):
        counts = read_rows(archive, record.run_id, stored, "games")["pairing"].value_counts().sort("pairing")
        yield from (PairingPart(pairing, stored.first, stored.end, games) for pairing, games in counts.iter_rows())
        return
    for pairing in range(len(record.pairings)):
        first, end = record.line.pairs(pairing, stored.first, stored.end)
        yield PairingPart(pairing, first, end, (end - first) * record.line.games_a_pair)


def read_in_order(
    wanted: Sequence[tuple[File, PairingPart]], read: Callable[[File], RangeGames]
) -> Iterator[RangeGames]:
    """The games of each part of a file, in the order of ``wanted`` and in arrays of their own.

    ``read`` gives the wanted games of a file. Raises what it raises.
    """
    first = 0
    while first < len(wanted):
        sizes = np.cumsum([part.games for _, part in wanted[first : first + MOST_PARTS]])
        end = first + max(1, int(np.searchsorted(sizes, IN_MEMORY, "right")))
        yield from _read_together(wanted[first:end], read)
        first = end


def _read_together(
    wanted: Sequence[tuple[File, PairingPart]], read: Callable[[File], RangeGames]
) -> Iterator[RangeGames]:
    of_file: dict[File, list[int]] = {}
    for index, (file, _) in enumerate(wanted):
        of_file.setdefault(file, []).append(index)
    found: dict[int, RangeGames] = {}
    for file, indices in of_file.items():
        games = read(file)
        for index in indices:
            found[index] = games.taken(wanted[index][1].rows(games.game_id)).part(slice(None))
    for index in range(len(wanted)):
        yield found.pop(index)
