"""The program of ``data/README.md`` reads an archive without ours, also while replaced files are there."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from analytics.store.archive import Archive
from analytics.upkeep.rolling import compact
from tests.analytics.naive_games import BLOCKS, RUN_ID, record, spec_of, store
from tests.paths import ROOT

(PROGRAM,) = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "data/README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)

OTHER = record(spec_of(seed=8))


def test_the_program_of_the_page_counts_each_game_once(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.save_run(OTHER)
    store(archive, OTHER.run_id, BLOCKS)
    paths = [archive.folder("plies", RUN_ID) / stored.name for stored in archive.found("plies", RUN_ID)]
    plies = len(pl.read_parquet([Path(path) for path in paths]))
    archive.save_run(record(games=16))
    assert compact(archive, RUN_ID).files == 2  # which are still there
    folder = Path(archive.folder("games", RUN_ID))
    (folder / ".tmp-0123").write_bytes(b"half a file")
    assert len(pl.read_parquet(f"{folder}/*.parquet")) == 96  # as a pattern counts
    (tmp_path / "data").mkdir()
    (tmp_path / "data/archive").symlink_to(archive.root)
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAM, "data/README.md", "exec"), {})  # noqa: S102  (the project's own page)
    told = [f"run={run_id} 48 games, {plies} plies" for run_id in (RUN_ID, OTHER.run_id)]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(told)
