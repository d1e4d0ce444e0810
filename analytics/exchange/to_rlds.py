"""Episodes of steps in the fields of RLDS, as Parquet: a row an episode, its steps nested in it.

Source of the fields: google-research/rlds, README, "Dataset Format". RLDS is loaded through TensorFlow, whose record
files nobody else reads; a nested Parquet file has the same shape, and four lines make it a ``tf.data.Dataset``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl

from analytics.exchange.sequence import Passage
from analytics.exchange.to_csv import heads
from analytics.exchange.turns import ACTIONS, OBSERVED, Episodes, View

ROW_GROUP_ROWS = 65536
NO_ACTION = -1  # where nothing was decided: no algorithm takes it for an action


def rows_of(passage: Passage, episodes: Episodes, view: View, imposed: bool) -> pl.DataFrame:
    """[E] an episode each: what is known of its game, and its steps."""
    steps = _steps(episodes, view, imposed)
    number = np.repeat(np.arange(len(episodes.game)), episodes.steps + 1)
    fields = pl.struct(steps.columns).alias("steps")
    nested = steps.with_columns(episode=number).group_by("episode", maintain_order=True).agg(fields)
    return heads(passage)[episodes.game].with_columns(nested["steps"])


def _steps(episodes: Episodes, view: View, imposed: bool) -> pl.DataFrame:
    """[S + E] all steps, the last of each episode with its final observation only."""
    final = episodes.final
    rows = len(episodes.observations)
    is_last = np.zeros(rows, np.bool_)
    is_last[final] = True
    is_terminal = np.zeros(rows, np.bool_)
    is_terminal[final] = episodes.terminated
    action, reward = np.full(rows, NO_ACTION, np.int64), np.zeros(rows, np.float32)
    action[~is_last], reward[~is_last] = episodes.actions, episodes.rewards
    # What follows is worth as much to who moves next, which is the opponent if the steps are of both seats.
    discount = np.where(is_last, 0.0, -1.0 if view.seat < 0 else 1.0).astype(np.float32)
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
    if view.masks:
        columns["action_mask"] = pl.Series(episodes.masks, dtype=pl.Array(pl.Boolean, ACTIONS))
    return pl.DataFrame(columns)


def write_rlds(frames: Iterable[pl.DataFrame], path: Path, aside: Path) -> None:
    """Write frames of episodes to one Parquet file; ``aside`` is an empty folder for parts of it. Raises ``OSError``.

    Row groups are of a fixed size, whatever the frames are, so that the same games are the same bytes. Without frames
    there is no file.
    """
    parts = []
    for number, frame in enumerate(frames):
        parts.append(aside / f"{number:06d}.arrow")
        frame.write_ipc(parts[-1])
    if parts:
        pl.scan_ipc(parts).sink_parquet(path, compression="zstd", compression_level=3, row_group_size=ROW_GROUP_ROWS)
