"""The list of an archive's policies."""

from __future__ import annotations

import polars as pl

from analytics.questions.sql.views import build_view_frame
from analytics.store.archive import ArchiveStore
from analytics.store.snapshot import Snapshot


def list_policies(archive: ArchiveStore) -> pl.DataFrame:
    """List the policies from the view ``policies``, oldest first; ``current``: the name means this policy."""
    rows = build_view_frame("policies", Snapshot(archive.root))
    counts, minutes = pl.col("run_ids").list.len().cast(pl.Int64), pl.col("created").dt.strftime("%Y-%m-%d %H:%M")
    names = "name", "policy_id", "kind", "rules", "trainer", "seed", "games"
    return rows.select(*names, counts.alias("runs"), "rows", "bytes", minutes, "current")
