"""Export with the fields of RLDS as Parquet: a row an episode, with its steps nested in it.

Source of the fields: google-research/rlds, README, "Dataset Format". RLDS files are TensorFlow records, which
only TensorFlow reads. A nested Parquet file has the same structure, and four lines turn it into a ``tf.data.Dataset``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

from analytics.exchange.sequence import GameChunk
from analytics.exchange.to_csv import game_columns
from analytics.exchange.turns import OBSERVED, Episodes, StepOptions
from quarto.observations import TURNS

ROW_GROUP_ROWS = 65536
NO_ACTION = -1  # of a step without a decision; no valid action


def rows_of(chunk: GameChunk, episodes: Episodes, options: StepOptions, imposed: bool) -> pl.DataFrame:
    """[E] a row an episode: the columns of its game, and its steps."""
    steps = _steps(episodes, options, imposed)
    number = np.repeat(np.arange(len(episodes.game)), episodes.steps + 1)
    fields = pl.struct(steps.columns).alias("steps")
    nested = steps.with_columns(episode=number).group_by("episode", maintain_order=True).agg(fields)
    return game_columns(chunk)[episodes.game].with_columns(nested["steps"])


def _steps(episodes: Episodes, options: StepOptions, imposed: bool) -> pl.DataFrame:
    """[S + E] all steps. The last one of each episode has the final observation and no action."""
    final = episodes.final
    rows = len(episodes.observations)
    is_last = np.zeros(rows, np.bool_)
    is_last[final] = True
    is_terminal = np.zeros(rows, np.bool_)
    is_terminal[final] = episodes.terminated
    action, reward = np.full(rows, NO_ACTION, np.int64), np.zeros(rows, np.float32)
    action[~is_last], reward[~is_last] = episodes.actions, episodes.rewards
    # If the steps are those of both seats, the next step is the opponent's and its value counts with the opposite sign.
    discount = np.where(is_last, 0.0, -1.0 if options.seat < 0 else 1.0).astype(np.float32)
    discount[final[episodes.terminated] - 1] = 0
    columns = {
        "is_first": np.roll(is_last, 1),
        "is_last": is_last,
        "is_terminal": is_terminal,
        "observation": pl.Series(episodes.observations, dtype=pl.Array(pl.Int8, OBSERVED)),
        "action": action,
        "reward": reward,
        "discount": discount,
    }
    if imposed:
        flags = np.zeros(rows, np.bool_)
        flags[~is_last] = episodes.imposed
        columns["imposed"] = flags
    if options.masks:
        columns["action_mask"] = pl.Series(episodes.masks, dtype=pl.Array(pl.Boolean, TURNS))
    return pl.DataFrame(columns)


def write_rlds(frames: Iterable[pl.DataFrame], path: Path, aside: Path) -> None:
    """Write frames of episodes to one Parquet file; ``aside`` is an empty folder for parts of it. Raises ``OSError``.

    Row groups have a fixed size that does not depend on the frames, so that the same games are the same bytes. Without
    frames no file is written.
    """
    parts = []
    for number, frame in enumerate(frames):
        parts.append(aside / f"{number:06d}.arrow")
        frame.write_ipc(parts[-1])
    if parts:
        pl.scan_ipc(parts).sink_parquet(path, compression="zstd", compression_level=3, row_group_size=ROW_GROUP_ROWS)
