"""Blocks of games become files of the archive: aligned ranges of units, written when there are enough games or time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from analytics.store.archive import Archive
from analytics.store.range_files import store_games
from analytics.store.units import Range, parts
from quarto.batch import Block, Games
from runners.arena.spec import RunSpec
from runners.arena.storage import Storage
from runners.hosting.guarded_agent import StuckError

SMALL = 8  # a range that is so much smaller than all that is held waits for more


class RangeWriter:
    """Stores the games of a run, which it is given in the order of their units from ``first`` on.

    The run's last file may end at ``total``, its last unit. Leaving the context writes what is left, unless the user
    insists on leaving at once or something else failed. Any thread may call it; what comes after ``close`` is ignored.
    """

    def __init__(self, archive: Archive, spec: RunSpec, storage: Storage, first: int, total: int | None = None) -> None:
        self.written: list[Range] = []
        self._archive, self._spec, self._storage = archive, spec, storage
        self._first = self._end = first  # the units that are held
        self._total = total
        self._most = storage.most_units(spec.games_a_pair)
        self._blocks: list[Block] = []
        self._since = time.monotonic()  # when it held nothing
        self._lock = threading.RLock()
        self._closed = False

    @property
    def games(self) -> int:
        """The number of games that are written."""
        return self._spec.games_a_pair * sum(end - first for first, end in self.written)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None or issubclass(kind, StuckError):
            self.close()

    def add(self, end: int, blocks: Sequence[Block]) -> None:
        """Take the games of the units up to before ``end``. Raises ``FailureError`` when the disk refuses."""
        with self._lock:
            if self._closed:
                return
            if not self._blocks:
                self._since = time.monotonic()
            self._blocks.extend(blocks)
            self._end = end
            self.look()

    def skip(self, first: int) -> None:
        """Go on with the unit ``first``: the archive holds those between. Raises as ``add`` does."""
        with self._lock:
            self.flush()
            self._first = self._end = first

    def look(self) -> None:
        """Write large ranges if there are enough games or enough time has passed. Raises as ``add`` does."""
        with self._lock:
            late = time.monotonic() - self._since >= self._storage.shard_seconds
            if self._blocks and (late or self._end - self._first >= self._most):
                ranges, held = [*self._ranges()], self._end - self._first
                small = [SMALL * (end - first) < held and end - first < self._most for first, end in ranges]
                last = len(ranges) - small[::-1].index(False) if False in small else 0
                self._write(ranges[:last])

    def flush(self) -> None:
        """Write all that is held. Raises as ``add`` does."""
        with self._lock:
            self._write([*self._ranges()])

    def close(self) -> None:
        """Write all that is held, and ignore what comes later. Raises as ``add`` does."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.flush()

    def _ranges(self) -> Iterator[Range]:
        return parts(self._first, self._end, -1 if self._total is None else self._total, self._most)

    def _write(self, ranges: Sequence[Range]) -> None:
        spec = self._spec
        for first, end in ranges:
            inside = [part for block in self._blocks if (part := self._part(block, first, end)) is not None]
            store_games(self._archive, spec.run_id, spec.line, spec.labels, (first, end), inside)
            self.written.append((first, end))
            self._first, self._since = end, time.monotonic()
        self._blocks = [part for block in self._blocks if (part := self._part(block, self._first, self._end))]

    def _part(self, block: Block, first: int, end: int) -> Block | None:
        """The games of a block in a range of units; None if there are none."""
        low, high = self._spec.line.pairs(block.pairing, first, end)
        low, high = max(low, block.first_pair), min(high, block.first_pair + block.pairs)
        if low >= high:
            return None
        if high - low == block.pairs:
            return block
        columns = slice(*(block.games_a_pair * (pair - block.first_pair) for pair in (low, high)))
        games = Games(*(np.ascontiguousarray(each[..., columns]) for each in block.games))
        return block._replace(first_pair=low, games=games)
