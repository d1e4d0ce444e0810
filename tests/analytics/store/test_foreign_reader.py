"""The program of ``data/README.md`` reads an archive without ours, also while replaced files are there."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.tables.upkeep.compaction import compact_run
from tests.analytics.naive_games import BLOCKS, RUN_ID, SEED, build_random_blocks, build_spec, record, store, store_span
from tests.paths import ROOT

(PROGRAM,) = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "data/README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)

(QUESTION,) = re.findall(r"`(SELECT DISTINCT [^`]*)`", (ROOT / "data/README.md").read_text(encoding="utf-8"))

OTHER = record(build_spec(seed=8))


def test_the_programs_of_the_page_count_each_game_once(
    archive: ArchiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.write_run_and_unit_count(OTHER)
    store(archive, OTHER.run_id, BLOCKS)
    archive.write_run_and_unit_count(record(games=16))
    assert compact_run(archive, RUN_ID).files == 2  # which are still there
    store_span(archive, (20, 28), build_random_blocks(SEED, 12))  # of another command, and overlaps
    unfinished = store_span(archive, (28, 32), build_random_blocks(SEED, 12))
    archive.backend.remove(archive.folder("games", RUN_ID) / unfinished.name)
    Path(archive.folder("games", RUN_ID), ".tmp-0123").write_bytes(b"half a file")
    with open_archive(archive.root) as opened:
        counts = [opened.sql(f"SELECT count(*) FROM {table}").item() for table in ("games", "plies")]
    assert counts[0] == 48 + 48 + 8
    (tmp_path / "data").mkdir()
    (tmp_path / "data/archive").symlink_to(archive.root)
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAM, "data/README.md", "exec"), {})  # noqa: S102  (the project's own page)
    assert capsys.readouterr().out == f"{counts[0]} games, {counts[1]} plies\n"
    assert len(duckdb.execute(QUESTION).fetchall()) == counts[0]
