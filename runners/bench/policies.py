"""Time and memory that deriving a policy takes, for `qarena bench --archive`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analytics import open_archive
from analytics.query.selection import select
from analytics.store.archive import MARKER
from analytics.store.schema import TABLES
from runners.bench.processes import MEBIBYTE, process

Figures = dict[str, Any]

KINDS = ("mc_afterstate", "gift")
TARGET_SECONDS, TARGET_MEBIBYTES = 60.0, 4096.0  # of either, for ten million games on two cores


def policy_figures(archive_root: Path) -> Figures:
    """Seconds and peak memory by kind, each derived from all games of an archive in a process of its own.

    Its runs must have the same rules. The policies go into a second archive, of links to the files of this one, so that
    this one does not change. Raises ``FailureError`` if a kind cannot be derived.
    """
    with open_archive(archive_root) as opened:
        games = select(opened).games
    figures: Figures = {"games": games}
    for kind in KINDS:
        with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
            root = Path(folder) / "archive"
            linked(archive_root, root)
            seconds, peak = process(["policy", "build", f"kind={kind}", f"archive.root={root}"], Path(folder))
        figures[kind] = {
            "seconds": seconds,
            "target_seconds": TARGET_SECONDS,
            "peak_memory_mib": peak / MEBIBYTE,
            "target_peak_memory_mib": TARGET_MEBIBYTES,
            "games_per_second": games / seconds,
        }
    return figures


def linked(archive_root: Path, root: Path) -> None:
    """Make an archive at ``root`` that has the games of another one and no policies."""
    root.mkdir()
    for name in (MARKER, "runs", "commits", *TABLES):
        (root / name).symlink_to((archive_root / name).absolute())
