"""Questions to a damaged archive: answered from sound files, else an error with advice."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.perfect.annotate import AnnotationSettings, annotate_runs
from analytics.policies import policy_store
from analytics.sql.database import OpenArchive
from analytics.sql.views import MADE, VIEWS
from analytics.statistics.sprt import Hypotheses, Trial
from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.checked_files import CheckedFile
from analytics.store.records import SweepJob
from analytics.store.schema import TABLES
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge
from tests.analytics.naive_games import RUN_ID, record
from tests.analytics.stored_policies import COUNTS, origin
from tests.marks import seldom


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
    """Of all views only one, and those made from it, cannot be read, however it is asked."""
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
    made = {each for each, source in (MADE | {"first_plies": "plies"}).items() if source == view}
    for each in made:
        with pytest.raises(FailureError) as caught:
            opened.sql(f"FROM {each}")
        assert str(caught.value) == complaint
    for other in set(VIEWS) - {view} - made:
        assert opened.sql(f"SELECT count(*) FROM {other}").item() > 0
    assert opened.sql(f"DESCRIBE {view}")["column_name"].to_list() == list(VIEWS[view])
    with pytest.raises(RequestError, match="Parser Error"):
        opened.sql(f"selec FROM {view}")


@pytest.fixture
def swept(archive: Archive) -> Archive:
    """The archive with one job of a sweep, a verdict, a policy, late decisions and an index: no view is empty."""
    policy_store.save(archive, COUNTS, origin())
    archive.save_sweep_job(SweepJob("s", 0, {"rules": "classic"}, RUN_ID))
    trial = Trial(Hypotheses(), 8)
    trial.take(np.full(8, 4, np.int8))
    sprt_verdicts.save(archive, sprt_verdicts.Verdict.from_trial(RUN_ID, trial, "qarena sprt"))
    annotate_runs(archive, [RUN_ID], AnnotationSettings(from_pieces=12, megabytes=0.1))
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)
    return archive


@pytest.mark.parametrize("damage", [truncate, *seldom(Path.unlink)])
def test_a_missing_or_truncated_file_of_positions_is_to_be_made_again(
    swept: Archive, damage: Callable[[Path], None]
) -> None:
    damage(Path(INDEXES.files(swept)[1]))
    with OpenArchive(swept.root) as opened:
        assert_only("positions", opened, "1 of 2 shards are not indexed: run 'qarena archive index' first")


@pytest.mark.parametrize(
    ("table", "shard", "damage"),
    [
        ("games", 1, truncate),
        ("plies", 1, Path.unlink),
        *seldom(("games", 1, Path.unlink), ("plies", 1, truncate)),
        *seldom(*((table, 0, damage) for table in TABLES for damage in (truncate, Path.unlink))),
    ],
)
def test_a_missing_or_truncated_file_spoils_one_view(
    swept: Archive, table: str, shard: int, damage: Callable[[Path], None]
) -> None:
    path = swept.committed_files(table)[shard]
    damage(Path(path))
    with OpenArchive(swept.root) as opened:
        assert_only(table, opened, complaint_about(Path(path)))


@pytest.mark.parametrize("damage", [spoil_footer, spoil_magic])
@pytest.mark.parametrize("shard", [1, *seldom(0)])
@pytest.mark.parametrize("table", list(TABLES))
def test_a_file_that_is_no_longer_parquet_is_named(
    archive: Archive, table: str, shard: int, damage: Callable[[Path], None]
) -> None:
    path = archive.committed_files(table)[shard]
    damage(Path(path))
    with OpenArchive(archive.root) as opened:
        with pytest.raises(FailureError) as caught:
            opened.sql(f"FROM {table}")
        assert str(caught.value) == complaint_about(Path(path))
        (other,) = set(TABLES) - {table}
        assert opened.sql(f"SELECT count(*) FROM {other}").item() > 0


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
@pytest.mark.parametrize("table", list(TABLES))
def test_no_lazy_frame_is_made_of_a_damaged_file(archive: Archive, table: str, damage: Callable[[Path], None]) -> None:
    path = archive.committed_files(table)[1]
    damage(Path(path))
    with OpenArchive(archive.root) as opened:
        with pytest.raises(FailureError) as caught:
            getattr(opened, table)()
        assert str(caught.value) == complaint_about(Path(path))
        (other,) = set(TABLES) - {table}
        assert getattr(opened, other)().select(pl.len()).collect().item() > 0


def test_a_file_that_goes_while_the_archive_is_open_is_named(archive: Archive) -> None:
    path = archive.committed_files("plies")[1]
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT count(*) FROM plies").item() > 0
        Path(path).unlink()
        with pytest.raises(FailureError, match=re.escape(complaint_about(Path(path)))):
            opened.sql("SELECT sum(cell) FROM plies")


def test_a_damaged_job_of_a_sweep_spoils_the_view_sweeps_only(swept: Archive) -> None:
    path = swept.root / "sweeps" / "it's" / "1.json"
    Path(path.parent).mkdir()
    Path(path).write_text("{")
    with pytest.raises(FailureError) as caught:
        swept.sweep_jobs()
    with OpenArchive(swept.root) as opened:
        assert_only("sweeps", opened, str(caught.value))


def test_a_damaged_card_spoils_the_policies_only(swept: Archive) -> None:
    (path,) = Path(swept.root).glob("policies/*/card.json")
    path.write_text("{")
    with pytest.raises(FailureError) as caught:
        policy_cards.cards(swept)
    with OpenArchive(swept.root) as opened:
        with pytest.raises(FailureError, match=re.escape(str(caught.value))):
            opened.sql("FROM policies")
        with pytest.raises(FailureError, match=re.escape(str(caught.value))):
            opened.sql("FROM policy('mine')")
        assert opened.sql("SELECT count(*) FROM games").item() == 56


def test_a_policy_whose_table_was_changed_is_not_read(swept: Archive) -> None:
    (path,) = Path(swept.root).glob("policies/*/table.parquet")
    flip(path, 0.3)
    with OpenArchive(swept.root) as opened:
        for ask in (lambda: opened.sql("FROM policy('mine')"), lambda: opened.policy("mine")):
            with pytest.raises(FailureError, match=re.escape(complaint_about(path))):
                ask()
        assert opened.sql("SELECT count(*) FROM policies").item() == 1


def test_a_damaged_record_of_a_run_leaves_games_and_plies(swept: Archive) -> None:
    path = swept.root / "runs" / f"{RUN_ID}.json"
    Path(path).write_text("{")
    with OpenArchive(swept.root) as opened:
        for view in ("runs", "sweeps", "agents"):
            with pytest.raises(FailureError, match=re.escape(f"{path} is damaged")):
                opened.sql(f"FROM {view}")
        assert opened.sql("SELECT count(*) FROM games").item() == 56


@pytest.mark.parametrize("text", ["SELECT error('IO Error: my own')", "SELECT agent_0::INTEGER FROM games"])
def test_a_mistake_is_not_taken_for_damage(archive: Archive, text: str) -> None:
    with OpenArchive(archive.root) as opened, pytest.raises(RequestError):
        opened.sql(text)


# Damage that leaves a file readable.


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 1
    path.write_bytes(content)


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that remembers which files were sound."""
    monkeypatch.setenv("QARENA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "checked"


@pytest.mark.parametrize("at", [0.02, 0.5, *seldom(0.3, 0.9)])
@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize("before", [True, False], ids=["remembered", "new"])
def test_a_flipped_bit_is_no_answer(archive: Archive, remembered: Path, table: str, at: float, before: bool) -> None:
    path = archive.committed_files(table)[1]
    question = f"SELECT sum(hash(COLUMNS(*))) FROM {table}"
    if before:
        with OpenArchive(archive.root) as opened:
            opened.sql(question)
        assert len(list(remembered.iterdir())) == 1
    flip(Path(path), at)
    with OpenArchive(archive.root) as opened:
        with pytest.raises(FailureError, match=re.escape(complaint_about(Path(path)))):
            opened.sql(question)
        with pytest.raises(FailureError, match=re.escape(complaint_about(Path(path)))):
            getattr(opened, table)()
        (other,) = set(TABLES) - {table}
        assert opened.sql(f"SELECT count(*) FROM {other}").item() > 0


@pytest.mark.parametrize(
    ("question", "reads"),
    [
        ("FROM query('FROM pl' || 'ies')", True),
        ("FROM query_table('plies')", True),
        ('SELECT (SELECT count(*) FROM main."PLIES")', True),
        ("EXPLAIN ANALYZE SELECT sum(cell) FROM plies", True),
        ("PIVOT plies ON cell USING count(*)", True),
        ("SELECT avg(plies) AS plies, 'plies' FROM games", False),
        ("FROM runs", False),
    ],
)
def test_only_files_that_a_question_reads_are_checked(
    archive: Archive, remembered: Path, question: str, reads: bool
) -> None:
    flip(Path(archive.committed_files("plies")[1]), 0.5)
    with OpenArchive(archive.root) as opened:
        if reads:
            with pytest.raises(FailureError, match="is missing or damaged"):
                opened.sql(question)
        else:
            assert len(opened.sql(question)) == 1


def test_sound_files_are_read_once_and_not_again(
    archive: Archive, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real = vars(CheckedFile)["is_sound"].fget

    def note(file: CheckedFile) -> bool:
        read.append(Path(file.path))
        return bool(real(file))

    monkeypatch.setattr(CheckedFile, "is_sound", property(note))
    for times in (2, 2, 4, 4):
        with OpenArchive(archive.root) as opened:
            for _ in range(2):
                opened.sql("SELECT count(*) FROM games" + (", plies" if times == 4 else ""))
        assert len(read) == times
    with OpenArchive(archive.root, check=False) as opened:
        (memory,) = remembered.iterdir()
        memory.write_text("[")
        opened.sql("SELECT count(*) FROM games, plies")
    assert len(read) == 4


def test_without_a_check_a_damaged_file_is_asked_all_the_same(archive: Archive, remembered: Path) -> None:
    flip(Path(archive.committed_files("plies")[1]), 0.3)
    with OpenArchive(archive.root, check=False) as opened:
        assert opened.sql("SELECT count(*) FROM plies").item() > 0


# Commits that do not fit together.


def assert_refused(archive: Archive, complaint: str) -> None:
    with pytest.raises(FailureError, match=complaint):
        OpenArchive(archive.root)
    with OpenArchive(archive.root, check=False) as opened:
        assert opened.sql("SELECT count(*) FROM runs").item() == 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_commit_is_missed(archive: Archive, number: int) -> None:
    archive.save_run(record(games=500))
    path = archive.folder("commits", RUN_ID) / f"{number:06d}.json"
    Path(path).unlink()
    assert_refused(archive, f"{path} is missing, and its games with it: restore it from a copy")


def test_a_copied_commit_is_not_counted_twice(archive: Archive) -> None:
    folder = archive.folder("commits", RUN_ID)
    shutil.copy(folder / "000000.json", folder / "000002.json")
    with pytest.raises(FailureError, match=r"000002\.json is damaged \(it says shard 0\)"):
        OpenArchive(archive.root)
    forge(Path(folder / "000002.json"), {"shard": 2})
    assert_refused(
        archive, r"000002\.json is wrong \(pairs 0 to 7 of pairing 0 are, in part, also in an earlier commit\)"
    )


@pytest.mark.parametrize("table", list(TABLES))
def test_rows_and_tallies_must_agree(archive: Archive, table: str) -> None:
    path = archive.folder("commits", RUN_ID) / "000001.json"
    forge(Path(path), lambda values: values[table].update(rows=7))
    assert_refused(archive, rf"000001\.json is wrong \(7 rows of {table} for tallies of \d+\)")
