"""Chosen games that are read some files at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.exact_values import UNKNOWN
from analytics.policies.derived.dataset import checksums_of, learning_order
from analytics.policies.derived.provenance import RANGES, ranges_of
from analytics.query.by_pairing import parts_of, read_in_order
from analytics.query.selection import Selection, read_chosen
from analytics.store.blocks import RangeGames
from analytics.store.records import RunRecord
from quarto.rules import Rules

GIFTS = """
SELECT game_id, ply, value_after FROM decisions WHERE run_id = ? AND kind = 'gift' AND game_id BETWEEN ? AND ?
"""


class GameStream:
    """The games of a selection, runs in the order in which they are learned from, games of a run by id.

    It is a ``GameSource``, which may be read several times. Its checksums and the ranges of its ids are noted in the
    first whole reading. Raises ``RequestError`` as ``dataset_of`` does; reading, ``FailureError`` for a damaged file.
    """

    def __init__(self, selection: Selection, order: Sequence[str] = ()) -> None:
        self.runs = learning_order(selection.runs, order)
        self._selection = selection
        self.size = selection.games
        self._sums: dict[str, int] = {}
        self._ranges: list[pl.DataFrame] = []

    @property
    def rules(self) -> Rules:
        return self.runs[0].rules

    def parts(self) -> Iterator[tuple[RunRecord, RangeGames]]:
        """The games, those of a pairing in a file together, by pairing and pair."""
        sums, ranges = dict[str, int](), list[pl.DataFrame]()
        for record in self.runs:
            for chosen in self._games_of(record):
                if not self._ranges:
                    more = chosen.fingerprint
                    sums[record.run_id] = sums.get(record.run_id, 0) + more
                    ranges.append(ranges_of({record.run_id: chosen.game_id}))
                yield record, chosen
        self._sums, self._ranges = self._sums or sums, self._ranges or ranges

    def _games_of(self, record: RunRecord) -> Iterator[RangeGames]:
        archive = self._selection.opened.archive
        found = [*self._selection.ranges(record)]
        wanted = [
            (number, part)
            for number, (stored, chosen) in enumerate(found)
            for part in parts_of(archive, record, stored, chosen)
        ]
        wanted.sort(key=lambda each: each[1])
        yield from read_in_order(wanted, lambda number: read_chosen(archive, record.run_id, *found[number]))

    def gift_values(self, run_id: str, games: RangeGames) -> NDArray[np.int8]:
        """As a ``GameSource`` gives them."""
        values = np.full(games.games.pieces.shape, UNKNOWN, np.int8)
        span = [run_id, int(games.game_id[0]), int(games.game_id[-1])]
        known = self._selection.opened.sql(GIFTS, span)
        ids, plies, worth = (known[name].to_numpy() for name in ("game_id", "ply", "value_after"))
        columns = np.searchsorted(games.game_id, ids)
        chosen = games.game_id[np.minimum(columns, len(games.game_id) - 1)] == ids
        values[plies[chosen], columns[chosen]] = worth[chosen]
        return values

    def _read_once(self) -> None:
        if not self._ranges:
            for _ in self.parts():
                pass

    def checksums(self, threads: int) -> dict[str, str]:  # noqa: ARG002  (each file is read by one)
        """As those of a ``Dataset``."""
        self._read_once()
        return checksums_of(self._sums)

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
