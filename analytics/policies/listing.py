"""The list of an archive's policies."""

from __future__ import annotations

import polars as pl


def select_policy_columns_for_people(rows: pl.DataFrame) -> pl.DataFrame:
    """Select the columns that people see; ``rows`` are from the view ``policies``.

    In ``created``, the time is text without seconds. ``runs`` is the number of runs, and ``current`` says whether the
    policy is the one that its name now refers to.
    """
    counts, minutes = pl.col("run_ids").list.len().cast(pl.Int64), pl.col("created").dt.strftime("%Y-%m-%d %H:%M")
    names = "name", "policy_id", "kind", "rules", "trainer", "seed", "games"
    return rows.select(*names, counts.alias("runs"), "rows", "bytes", minutes, "current")
