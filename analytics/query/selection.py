"""Which games a question is about: those that a condition in SQL chooses, as arrays, one shard at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.query.conditions import check
from analytics.query.database import OpenArchive
from analytics.store.archive import Archive, readable
from analytics.store.blocks import read_table
from analytics.store.exact_values import scatter
from analytics.store.records import Commit, RunRecord
from analytics.store.schema import TABLES
from quarto.batch import GAME_BITS, Games
from quarto.errors import FailureError, RequestError

EVERYTHING = "true"


class ChosenGames(NamedTuple):
    """Games of one shard, ``G`` of them, ascending by id."""

    game_id: NDArray[np.int64]  # [G]
    opening: NDArray[np.int8]  # [G] plies that were imposed, not chosen
    games: Games

    @property
    def pairing(self) -> NDArray[np.int64]:
        """[G] index into the run's pairings."""
        return self.game_id >> GAME_BITS

    def taken(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> ChosenGames:
        """Some of these games, in arrays of their own: those that a mask [G] or indices name."""
        pieces, cells, *columns = self.games
        games = Games(pieces[:, rows], cells[:, rows], *(column[rows] for column in columns))
        return ChosenGames(self.game_id[rows], self.opening[rows], games)


@dataclass(frozen=True)
class Selection:
    """The games that a condition chooses: how many of each run, oldest run first."""

    opened: OpenArchive
    where: str  # a condition on the view ``games``
    runs: tuple[RunRecord, ...]
    counts: tuple[int, ...]  # of each run, none of them 0
    chosen: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)  # their ids, ascending; not there: all

    @property
    def games(self) -> int:
        """How many games there are."""
        return sum(self.counts)

    def shards(self) -> Iterator[tuple[RunRecord, ChosenGames]]:
        """The games, shard after shard, each with the record of its run; shards without any are left out.

        One shard is in memory at a time. Raises ``FailureError`` for a file that is damaged.
        """
        for record, count in zip(self.runs, self.counts, strict=True):
            commits = self.opened.archive.commits(record.run_id)
            wanted = None
            if count != sum(commit.games.rows for commit in commits):
                wanted = self.game_ids(record.run_id)
            for commit in commits:
                if wanted is None or _may_hold(commit, wanted):
                    chosen = read_shard(self.opened.archive, record.run_id, commit, wanted)
                    if len(chosen.game_id):
                        yield record, chosen

    def game_ids(self, run_id: str) -> NDArray[np.int64]:
        """The chosen games of one run, ascending."""
        if run_id in self.chosen:
            return self.chosen[run_id]
        return self.opened.games(run_id).select(pl.col("game_id").sort()).collect()["game_id"].to_numpy()


def select(opened: OpenArchive, where: str | None = None) -> Selection:
    """The games that ``where`` chooses, a condition in DuckDB's SQL on the columns of the view ``games``; None: all.

    It may ask the other views: ``run_id IN (SELECT run_id FROM runs WHERE rules = 'classic')``. Raises ``RequestError``
    for one that is not a condition, or that no game meets; ``FailureError`` for what is damaged.
    """
    if where is None or where.strip() == EVERYTHING:
        counts = dict(opened.sql("SELECT run_id, count(*) AS games FROM games GROUP BY run_id").rows())
        chosen: dict[str, NDArray[np.int64]] = {}
    else:
        chosen = _chosen(opened, where)
        counts = {run_id: len(ids) for run_id, ids in chosen.items()}
    if not counts:
        meets = "has no games" if where is None else f"has no game with where={where!r}"
        raise RequestError(
            f"archive {opened.archive.root} {meets}: ask 'qarena sql \"FROM games LIMIT 5\"' what there is"
        )
    runs = tuple(readable(record) for record in opened.archive.runs() if record.run_id in counts)
    lost = sorted(set(counts) - {record.run_id for record in runs})
    if lost:
        raise FailureError(f"run {lost[0]} has games and no record: restore its record, or leave it out of the choice")
    of_runs = tuple(counts[record.run_id] for record in runs)
    return Selection(opened, EVERYTHING if where is None else where, runs, of_runs, chosen)


def _chosen(opened: OpenArchive, where: str) -> dict[str, NDArray[np.int64]]:
    """The ids of the games that meet a condition, by run, ascending; asked once, whatever is done with them."""
    check(where)
    text = f"SELECT run_id, list(game_id) AS ids FROM games WHERE (\n{where}\n) GROUP BY run_id"  # noqa: S608  (a condition by design)
    try:
        found = opened.sql(text)
    except RequestError as error:
        raise RequestError(f"where={where!r} is no condition on games: {error}") from error
    return {run_id: np.sort(ids.to_numpy()) for run_id, ids in zip(found["run_id"], found["ids"], strict=True)}


def _may_hold(commit: Commit, wanted: NDArray[np.int64]) -> bool:
    """Whether a shard's slices have room for any of these ids."""
    for part in commit.slices:
        first, end = (np.int64(part.pairing) << GAME_BITS) + 2 * np.array([part.first_pair, part.end_pair])
        if np.searchsorted(wanted, first) < np.searchsorted(wanted, end):
            return True
    return False


def read_shard(archive: Archive, run_id: str, commit: Commit, wanted: NDArray[np.int64] | None) -> ChosenGames:
    """The games of a shard, or those of them whose ids are in ``wanted`` (ascending).

    Raises ``FailureError`` for a file that is damaged.
    """
    tables = {}
    for table, schema in TABLES.items():
        stored = getattr(commit, table)
        path = archive.file(table, run_id, stored)
        try:
            tables[table] = read_table(path, stored, schema)
        except ValueError as error:
            raise FailureError(f"{path} {error}: see 'qarena archive verify'") from error
    frame, rows = tables["games"], tables["plies"]
    game_id, plies = frame["game_id"].to_numpy(), np.array(frame["plies"])
    games = Games.zeros(len(plies))
    for column, matrix in (("piece", games.pieces), ("cell", games.cells)):
        scatter(np.array(rows[column]), plies, matrix)
    games.plies[:], games.winner[:] = plies, frame["winner"].to_numpy()
    games.ending[:] = frame["ending"].to_physical().to_numpy()
    chosen = ChosenGames(game_id, frame["opening"].to_numpy(), games)
    if wanted is None:
        return chosen
    return chosen.taken(np.isin(game_id, wanted, assume_unique=True))
