"""Chosen games that are read one shard after the other, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.policies.derived.dataset import UNKNOWN, check_rules, sum_of_games
from analytics.policies.derived.provenance import RANGES, ranges_of
from analytics.query.selection import Selection, read_chosen, within
from analytics.store.records import Commit, RunRecord
from analytics.store.shard_arrays import ShardGames
from quarto.rules import Rules

GIFTS = """
SELECT game_id, ply, value_after FROM decisions WHERE run_id = ? AND kind = 'gift' AND game_id BETWEEN ? AND ?
"""
RECENT = 4  # shards that are kept: a shard may hold pairs of several pairings


class GameStream:
    """The games of a selection, runs in the order in which they are learned from, games of a run by id.

    It is a ``GameSource``, which may be read several times. Its checksums and the ranges of its ids are noted in the
    first whole reading. Raises ``RequestError`` as ``dataset_of`` does; reading, ``FailureError`` for a damaged file.
    """

    def __init__(self, selection: Selection, order: Sequence[str] = ()) -> None:
        check_rules(selection.runs)
        self._selection = selection
        by_begin = [record.run_id for record in sorted(selection.runs, key=lambda record: record.place)]
        places = {run_id: place for place, run_id in enumerate(order or by_begin)}
        self.runs = tuple(sorted(selection.runs, key=lambda record: places[record.run_id]))
        self.size = selection.games
        self._sums: dict[str, int] = {}
        self._ranges: list[pl.DataFrame] = []

    @property
    def rules(self) -> Rules:
        return self.runs[0].rules

    def shards(self) -> Iterator[tuple[RunRecord, ShardGames]]:
        """The games, those of each slice of a shard together, by pairing and pair."""
        sums, ranges = dict[str, int](), list[pl.DataFrame]()
        for record in self.runs:
            for chosen in self._games_of(record.run_id):
                if not self._ranges:
                    span = 0, len(chosen.game_id)
                    more = int(sum_of_games(chosen.game_id, chosen.opening, chosen.games, span))
                    sums[record.run_id] = sums.get(record.run_id, 0) + more
                    ranges.append(ranges_of({record.run_id: chosen.game_id}))
                yield record, chosen
        self._sums, self._ranges = self._sums or sums, self._ranges or ranges

    def _games_of(self, run_id: str) -> Iterator[ShardGames]:
        selection, archive = self._selection, self._selection.opened.archive
        count = selection.counts[[record.run_id for record in selection.runs].index(run_id)]
        commits = archive.commits(run_id)
        wanted = None if count == sum(each.games.rows for each in commits) else selection.game_ids(run_id)
        parts = sorted(
            (part.pairing, part.first_pair, part.end_pair, number)
            for number, commit in enumerate(commits)
            for part in commit.slices
        )

        @lru_cache(RECENT)
        def read(number: int) -> ShardGames:
            commit: Commit = commits[number]
            return read_chosen(archive, run_id, commit, wanted)

        for pairing, first_pair, end_pair, number in parts:
            if wanted is not None and not wanted[within(wanted, pairing, first_pair, end_pair)].size:
                continue
            shard = read(number)
            rows = within(shard.game_id, pairing, first_pair, end_pair)
            if rows.start < rows.stop:
                yield shard.part(rows)

    def gift_values(self, run_id: str, shard: ShardGames) -> NDArray[np.int8]:
        """As a ``GameSource`` gives them."""
        values = np.full(shard.games.pieces.shape, UNKNOWN, np.int8)
        span = [run_id, int(shard.game_id[0]), int(shard.game_id[-1])]
        known = self._selection.opened.sql(GIFTS, span)
        ids, plies, worth = (known[name].to_numpy() for name in ("game_id", "ply", "value_after"))
        places = np.searchsorted(shard.game_id, ids)
        chosen = shard.game_id[np.minimum(places, len(shard.game_id) - 1)] == ids
        values[plies[chosen], places[chosen]] = worth[chosen]
        return values

    def _read_once(self) -> None:
        if not self._ranges:
            for _ in self.shards():
                pass

    def checksums(self, threads: int) -> dict[str, str]:  # noqa: ARG002  (each shard is read by one)
        """As those of a ``Dataset``."""
        self._read_once()
        return {run_id: f"{total % (1 << 64):016x}" for run_id, total in self._sums.items()}

    def ranges(self) -> pl.DataFrame:
        """The ids of all games as ranges, those that follow on each other joined."""
        self._read_once()
        rows = pl.concat(self._ranges)
        end = pl.col("first_game") + pl.col("games") * pl.col("step")
        goes_on = (pl.col("first_game") == end.shift(1)) & (pl.col("step") == pl.col("step").shift(1))
        same_run = pl.col("run_id") == pl.col("run_id").shift(1)
        groups = rows.with_columns(group=(~(goes_on & same_run).fill_null(value=False)).cum_sum())
        joined = groups.group_by("group", maintain_order=True).agg(
            pl.col("run_id").first(), pl.col("first_game").first(), pl.col("games").sum(), pl.col("step").first()
        )
        return joined.select(pl.col(name).cast(kind) for name, kind in RANGES.items())
