"""Questions to a damaged archive: answered from sound files, else an error with advice."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analytics.perfect.annotate import AnnotationSettings, annotate_runs
from analytics.query.database import OpenArchive
from analytics.query.views import VIEWS
from analytics.statistics.sprt import Hypotheses, Trial
from analytics.store import sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.position_index import INDEXES, index_jobs, index_shards
from analytics.store.records import SweepJob
from analytics.store.schema import TABLES
from quarto.errors import FailureError, RequestError
from tests.analytics.naive_games import RUN_ID


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def spoil_footer(path: Path) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[: -8 - size] + bytes(size) + content[-8:])


def spoil_magic(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4] + b"PAR2")


def complaint_about(path: Path) -> str:
    return f"{path} is missing or damaged: run 'qarena archive verify'"


def assert_only(view: str, opened: OpenArchive, complaint: str) -> None:
    """Of all views only one cannot be read, however it is asked."""
    first = next(iter(VIEWS[view]))
    for question in (
        f"FROM {view}",
        f"SELECT count(*) FROM {view}",
        f"SELECT {first} FROM {view} WHERE run_id = 'x'",
        f"SELECT count(*) FROM (VALUES (1)) WHERE '1' NOT IN (SELECT run_id FROM {view})",
    ):
        with pytest.raises(FailureError) as caught:
            opened.sql(question)
        assert str(caught.value) == complaint
    for other in set(VIEWS) - {view}:
        assert opened.sql(f"SELECT count(*) FROM {other}").item() > 0
    assert opened.sql(f"DESCRIBE {view}")["column_name"].to_list() == list(VIEWS[view])
    with pytest.raises(RequestError, match="Parser Error"):
        opened.sql(f"selec FROM {view}")


@pytest.fixture
def swept(archive: Archive) -> Archive:
    """The archive with one job of a sweep, a verdict, late decisions and an index, so that no view is empty."""
    archive.save_sweep_job(SweepJob("s", 0, {"rules": "classic"}, RUN_ID))
    trial = Trial(Hypotheses(), 8)
    trial.take(np.full(8, 4, np.int8))
    sprt_verdicts.save(archive, sprt_verdicts.Verdict.from_trial(RUN_ID, trial, "qarena sprt"))
    annotate_runs(archive, [RUN_ID], AnnotationSettings(from_pieces=12, megabytes=0.1))
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)
    return archive


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
def test_a_missing_or_truncated_file_of_positions_is_to_be_made_again(
    swept: Archive, damage: Callable[[Path], None]
) -> None:
    damage(INDEXES.files(swept)[1])
    with OpenArchive(swept.root) as opened:
        assert_only("positions", opened, "1 of 2 shards are not indexed: run 'qarena archive index' first")


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("table", list(TABLES))
def test_a_missing_or_truncated_file_spoils_one_view(
    swept: Archive, table: str, shard: int, damage: Callable[[Path], None]
) -> None:
    path = swept.committed_files(table)[shard]
    damage(path)
    with OpenArchive(swept.root) as opened:
        assert_only(table, opened, complaint_about(path))


@pytest.mark.parametrize("damage", [spoil_footer, spoil_magic])
@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("table", list(TABLES))
def test_a_file_that_is_no_longer_parquet_is_named(
    archive: Archive, table: str, shard: int, damage: Callable[[Path], None]
) -> None:
    path = archive.committed_files(table)[shard]
    damage(path)
    with OpenArchive(archive.root) as opened:
        with pytest.raises(FailureError) as caught:
            opened.sql(f"FROM {table}")
        assert str(caught.value) == complaint_about(path)
        (other,) = set(TABLES) - {table}
        assert opened.sql(f"SELECT count(*) FROM {other}").item() > 0


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
@pytest.mark.parametrize("table", list(TABLES))
def test_no_lazy_frame_is_made_of_a_damaged_file(archive: Archive, table: str, damage: Callable[[Path], None]) -> None:
    path = archive.committed_files(table)[1]
    damage(path)
    with OpenArchive(archive.root) as opened:
        with pytest.raises(FailureError) as caught:
            getattr(opened, table)()
        assert str(caught.value) == complaint_about(path)
        (other,) = set(TABLES) - {table}
        assert getattr(opened, other)().select(pl.len()).collect().item() > 0


def test_a_file_that_goes_while_the_archive_is_open_is_named(archive: Archive) -> None:
    path = archive.committed_files("plies")[1]
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT count(*) FROM plies").item() > 0
        path.unlink()
        with pytest.raises(FailureError, match=re.escape(complaint_about(path))):
            opened.sql("SELECT sum(cell) FROM plies")


def test_a_damaged_job_of_a_sweep_spoils_the_view_sweeps_only(swept: Archive) -> None:
    path = swept.root / "sweeps" / "it's" / "1.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(FailureError) as caught:
        swept.sweep_jobs()
    with OpenArchive(swept.root) as opened:
        assert_only("sweeps", opened, str(caught.value))


def test_a_damaged_record_of_a_run_leaves_games_and_plies(swept: Archive) -> None:
    path = swept.root / "runs" / f"{RUN_ID}.json"
    path.write_text("{")
    with OpenArchive(swept.root) as opened:
        for view in ("runs", "sweeps"):
            with pytest.raises(FailureError, match=re.escape(f"{path} is damaged")):
                opened.sql(f"FROM {view}")
        assert opened.sql("SELECT count(*) FROM games").item() == 56


@pytest.mark.parametrize("text", ["SELECT error('IO Error: my own')", "SELECT agent_0::INTEGER FROM games"])
def test_a_mistake_is_not_taken_for_damage(archive: Archive, text: str) -> None:
    with OpenArchive(archive.root) as opened, pytest.raises(RequestError):
        opened.sql(text)
