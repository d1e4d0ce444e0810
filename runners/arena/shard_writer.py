"""Blocks become shards of the archive, in threads beside those that play."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from analytics.store.archive import Archive
from analytics.store.records import Commit
from quarto.batch import Block
from runners.arena.spec import RunSpec
from runners.arena.storage import Storage
from runners.contestants.contestant import StuckError


class ShardWriter:
    """Gathers the blocks of a run into shards, and commits each shard while the next ones are played.

    As many shards are written at a time as there are ``threads``: each is encoded, stored and committed by a thread of
    its own, so that every core writes. Apart from these one shard is in memory, and none has more than ``shard_games``
    games. Blocks are gathered here, not by the threads that play, since one of those may never return from a turn.
    Leaving the context commits the rest, unless the user insists on leaving at once or the archive refuses.
    """

    def __init__(self, archive: Archive, spec: RunSpec, storage: Storage, threads: int) -> None:
        self.committed = 0  # games
        self._archive = archive
        self._spec = spec
        self._storage = storage
        self._blocks: list[Block] = []
        self._games = 0
        self._since = time.monotonic()  # when the first of the blocks came
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="write")
        self._writing: deque[Future[Commit | None]] = deque()  # in the order in which they were begun

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None or issubclass(kind, StuckError):
                self.flush()
        finally:
            self._pool.shutdown()

    def add(self, block: Block) -> None:
        """Take a block, and commit a shard if there are enough games or enough time has passed.

        Raises what the archive raised at a shard before.
        """
        games = len(block.games.plies)
        if self._blocks and self._games + games > self._storage.shard_games:
            self._submit()
        if not self._blocks:
            self._since = time.monotonic()
        self._blocks.append(block)
        self._games += games
        self.look(at_once=self._games >= self._storage.shard_games)

    def look(self, at_once: bool = False) -> None:
        """Commit what has waited long enough; with ``at_once``, whatever there is. Raises as ``add`` does."""
        if self._blocks and (at_once or time.monotonic() - self._since >= self._storage.shard_seconds):
            self._submit()

    def flush(self) -> None:
        """Commit all blocks taken and wait for it. Raises what the archive raised."""
        if self._blocks:
            self._submit()
        self._settle(most=0)

    def _submit(self) -> None:
        self._settle(most=self._threads - 1)
        blocks, self._blocks, self._games = self._blocks, [], 0
        self._writing.append(self._pool.submit(self._archive.commit, self._spec.run_id, blocks, self._spec.labels))

    def _settle(self, most: int) -> None:
        """Wait until at most so many shards are being written; those that are finished are counted."""
        while self._writing and (len(self._writing) > most or self._writing[0].done()):
            commit = self._writing.popleft().result()
            if commit is not None:
                self.committed += commit.games.rows
