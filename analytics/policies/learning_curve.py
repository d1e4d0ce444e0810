"""The learning curve of a training: the learner's results over time, counted from the archive's games."""

from __future__ import annotations

import polars as pl

from analytics.policies.relearn import training_of
from analytics.store.archive import Archive
from analytics.store.range_files import read_rows

BLOCK = 1000  # games of a row, as study B drew it


def learning_curve(archive: Archive, run_id: str, games: int, block: int = BLOCK) -> pl.DataFrame:
    """A row for each ``block`` of the first ``games`` games of a training, in their order; the last may have fewer.

    ``first_game`` (from 0), ``games``, ``wins``, ``draws``, ``losses`` of the learner (Int64), ``win_rate`` (Float64).
    Raises ``RequestError`` for a run in which no agent learned.
    """
    training = training_of(archive, run_id)
    parts = (read_rows(archive, run_id, stored, "games") for stored in archive.ranges(run_id))
    number = pl.col("game_id") * training.games_a_pair // 2
    seat = (pl.col("agent_1").cast(pl.String) == training.label).cast(pl.Int8)
    columns = {"number": number, "winner": pl.col("winner"), "seat": seat}
    rows = [part.select(**columns) for part in parts]
    if not rows:
        return pl.DataFrame(schema=CURVE)
    return (
        pl.concat(rows)
        .filter(pl.col("number") < games)
        .group_by(first_game=pl.col("number") // block * block)
        .agg(games=pl.len(), wins=(pl.col("winner") == pl.col("seat")).sum(), draws=(pl.col("winner") == -1).sum())
        .with_columns(losses=pl.col("games") - pl.col("wins") - pl.col("draws"))
        .with_columns(win_rate=pl.col("wins") / pl.col("games"))
        .select(pl.col(name).cast(kind) for name, kind in CURVE.items())
        .sort("first_game")
    )


CURVE = {**dict.fromkeys(("first_game", "games", "wins", "draws", "losses"), pl.Int64()), "win_rate": pl.Float64()}
