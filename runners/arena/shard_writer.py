"""Blocks become shards of the archive, by the threads that play."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaitingError
from typing import NamedTuple, Self

from analytics.store.archive import Archive
from analytics.store.records import Commit
from quarto.batch import Block
from runners.arena.spec import RunSpec
from runners.arena.storage import Storage
from runners.contestants.contestant import StuckError

PATIENCE = 1.0  # seconds that a shard waits for a thread to be free; then the thread that gathers writes it

Submit = Callable[..., "Future[Commit | None]"]


class _Shard(NamedTuple):
    """A shard that is handed over."""

    blocks: list[Block]
    future: Future[Commit | None]
    since: float


class ShardWriter:
    """Gathers the blocks of a run into shards, and hands each over to be encoded, stored and committed.

    ``submit`` lets some thread call a function: of a run, the next that has finished a block, so that every core plays
    and writes and commits are all that the threads share. Blocks are gathered in the calling thread, since one that
    plays may never return from a turn; for the same reason the calling thread writes what nobody has begun after
    ``PATIENCE``. At most ``most`` shards wait or are written; another is gathered, and none has more than
    ``shard_games`` games. Leaving the context commits the rest, unless the user insists on leaving at once or the
    archive refuses.
    """

    def __init__(self, archive: Archive, spec: RunSpec, storage: Storage, submit: Submit, most: int) -> None:
        self.committed = 0  # games
        self._archive = archive
        self._spec = spec
        self._storage = storage
        self._blocks: list[Block] = []
        self._games = 0
        self._since = time.monotonic()  # when the first of the blocks came
        self._submit_call = submit
        self._most = most
        self._writing: deque[_Shard] = deque()  # in the order in which they were handed over

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None or issubclass(kind, StuckError):
            self.flush()
        for shard in self._writing:
            shard.future.cancel()

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
        now = time.monotonic()
        if self._blocks and (at_once or now - self._since >= self._storage.shard_seconds):
            self._submit()
        while self._writing and (self._writing[0].future.done() or now - self._writing[0].since >= PATIENCE):
            self._settle()

    def flush(self) -> None:
        """Commit all blocks taken and wait for it. Raises what the archive raised."""
        if self._blocks:
            self._submit()
        while self._writing:
            self._settle()

    def _submit(self) -> None:
        while len(self._writing) >= self._most:
            self._settle(PATIENCE)
        blocks, self._blocks, self._games = self._blocks, [], 0
        self._writing.append(_Shard(blocks, self._submit_call(self._commit, blocks), time.monotonic()))

    def _commit(self, blocks: list[Block]) -> Commit | None:
        return self._archive.commit(self._spec.run_id, blocks, self._spec.labels)

    def _settle(self, patience: float = 0.0) -> None:
        """Wait until the oldest shard is committed; after ``patience`` seconds write it here if nobody has begun."""
        blocks, future, _ = self._writing.popleft()
        try:
            commit = future.result(patience)
        except StillWaitingError:
            commit = self._commit(blocks) if future.cancel() else future.result()
        if commit is not None:
            self.committed += commit.games.rows
