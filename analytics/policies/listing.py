"""The list of an archive's policies."""

from __future__ import annotations

import polars as pl


def summarise_policies(rows: pl.DataFrame) -> pl.DataFrame:
    """Select what people see of the rows of the view ``policies``; ``current``: the name means this policy."""
    counts, minutes = pl.col("run_ids").list.len().cast(pl.Int64), pl.col("created").dt.strftime("%Y-%m-%d %H:%M")
    names = "name", "policy_id", "kind", "rules", "trainer", "seed", "games"
    return rows.select(*names, counts.alias("runs"), "rows", "bytes", minutes, "current")
