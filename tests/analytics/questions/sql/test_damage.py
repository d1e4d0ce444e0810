"""Questions to a damaged archive: answered from sound files, else an error with advice."""

import os
import re
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NoReturn

import pytest

from analytics.questions.openings import explore_position
from analytics.questions.selection import select_games
from analytics.questions.sql import lazy_rows
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import VIEWS
from analytics.store import policy_cards
from analytics.store.archive import ArchiveStore
from analytics.store.marker import VerifiableFile
from analytics.store.schema import TABLE_SCHEMAS
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import list_table_files
from tests.analytics.indexed import index
from tests.analytics.naive_games import RUN_ID, store_span
from tests.marks import seldom
from tests.object_storage import BOTH

SPOILED = {  # by table: the views that are read from its files
    "games": {"games", "seats", "pairs"},
    "plies": {"plies", "boards"},
    "decisions": {"decisions"},
    "evaluations": {"evaluations"},
    "positions": {"positions"},
    "first_plies": {"first_plies"},
}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip(path: Path, at: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 1
    path.write_bytes(content)


def complaint_about(path: Path) -> str:
    return f"{path} is missing or damaged: run 'qarena archive verify --archive {path.parents[2]}'"


def assert_only(spoiled: set[str], opened: OpenArchive, complaint: str) -> None:
    """Check that the views ``spoiled``, and no others, cannot be read, in whatever way they are asked."""
    for view in spoiled:
        first = next(iter(VIEWS[view]))
        for question in (
            f"FROM {view}",
            f"SELECT count(*) FROM {view}",
            f"SELECT {first} FROM {view} WHERE run_id = 'x'",
            f"SELECT count(*) FROM (VALUES (1)) WHERE '1' NOT IN (SELECT run_id FROM {view})",
            f"FROM query('FROM ' || '{view}')",
            f"EXPLAIN ANALYZE FROM {view}",
        ):
            with pytest.raises(FailureError) as caught:
                opened.sql(question)
            assert str(caught.value) == complaint
        with pytest.raises(FailureError) as caught:
            opened.scan(view)
        assert str(caught.value) == complaint
        with pytest.raises(RequestError, match="Parser Error"):
            opened.sql(f"selec FROM {view}")
    counts = ", ".join(f"(SELECT count(*) FROM {view}) AS {view}" for view in set(VIEWS) - spoiled)
    assert min(opened.sql(f"SELECT {counts}").row(0)) > 0


ALSO = product((table for table in SPOILED if table != "positions"), (truncate,))


@pytest.mark.parametrize(("table", "damage"), [("positions", truncate), *seldom(*product(SPOILED, (flip,)), *ALSO)])
def test_a_damaged_file_spoils_its_views_only(
    full_archive: ArchiveStore, table: str, damage: Callable[[Path], None]
) -> None:
    path = sorted(Path(full_archive.folder(table, RUN_ID)).iterdir())[1]
    content = path.read_bytes()
    damage(path)
    with OpenArchive(full_archive.root) as opened:
        assert_only(SPOILED[table], opened, complaint_about(path))
        path.write_bytes(content)
        for view in SPOILED[table]:
            assert opened.sql(f"SELECT count(*) FROM {view}").item() > 0


def test_a_missing_file_spoils_its_views_only(full_archive: ArchiveStore) -> None:
    lost, counted = list_table_files(full_archive, RUN_ID, "plies")[1], full_archive.list_effective_ranges(RUN_ID)[1]
    lost.unlink()
    with OpenArchive(full_archive.root) as opened:
        assert_only(SPOILED["plies"], opened, complaint_about(lost.with_name(f"{counted.games_stem}.*.parquet")))
    next(Path(full_archive.folder("positions", RUN_ID)).iterdir()).unlink()
    with (
        OpenArchive(full_archive.root) as opened,
        pytest.raises(FailureError, match=r"1 of 2 ranges .* are not indexed"),
    ):
        opened.sql("FROM positions")


def test_lost_games_are_missed(archive: ArchiveStore) -> None:
    archive.update_run_and_unit_count(RUN_ID, lambda run: run)  # records how many games there are
    for number, first in ((1, 16), (0, 0)):
        list_table_files(archive, RUN_ID, "games")[number].unlink()
        with pytest.raises(FailureError, match=f"lacks units {first} to 23, which were there"):
            OpenArchive(archive.root)
    with OpenArchive(archive.root, check=False) as opened:
        assert opened.sql("SELECT count(*) FROM runs").item() == 1


@pytest.mark.parametrize("check", [True, False])
def test_a_file_that_goes_while_the_archive_is_open_is_named(archive: ArchiveStore, check: bool) -> None:
    path = list_table_files(archive, RUN_ID, "plies")[1]
    with OpenArchive(archive.root, check=check) as opened:
        assert opened.sql("SELECT count(*) FROM plies").item() > 0
        path.unlink()
        with pytest.raises(FailureError, match=re.escape(f"{path.name.partition('.')[0]}.*.parquet is missing")):
            opened.sql("SELECT sum(cell) FROM plies")


@BOTH
@pytest.mark.parametrize("check", [True, *seldom(False)])
def test_a_reader_whose_files_were_replaced_reads_what_replaced_them(archive: ArchiveStore, check: bool) -> None:
    index(archive)
    questions = [f"SELECT sum(hash(COLUMNS(*))) FROM {view}" for view in ("games", "plies", "pairs", "boards")]
    tables = (*TABLE_SCHEMAS, "positions", "first_plies")
    folders = [archive.folder(table, RUN_ID) for table in tables]
    replaced = [folder / name for folder in folders for name in archive.backend.list_names(folder)]
    with OpenArchive(archive.root, check=check) as opened:
        readers = [opened, opened.fork(), opened.fork(), opened.fork()]
        expected = [reader.sql(question) for reader, question in zip(readers, questions, strict=True)]
        decided, chosen = explore_position(opened), select_games(opened.fork(), "game_id > 3")
        late = opened.fork()
        store_span(archive, (0, 24))
        index(archive)
        for path in replaced:
            archive.backend.remove(path)
        for reader, question, before in zip(readers, questions, expected, strict=True):
            assert reader.sql(question).equals(before)
        assert explore_position(late.fork()).equals(decided)
        assert late.scan("seats").collect().height == 2 * 48
        assert sum(len(part.game_id) for _, part in chosen.read_blocks()) == chosen.games


# Records.


def test_a_damaged_job_or_card_spoils_its_view_only(full_archive: ArchiveStore) -> None:
    job, (card,) = (
        Path(full_archive.root / "sweeps" / "it's" / "1.json"),
        Path(full_archive.root).glob("policies/*/card.json"),
    )
    job.parent.mkdir()
    job.write_text("{")
    with pytest.raises(FailureError) as caught:
        full_archive.load_sweep_jobs()
    with OpenArchive(full_archive.root) as opened:
        assert_only({"sweeps"}, opened, str(caught.value))
    job.unlink()
    card.write_text("{")
    with pytest.raises(FailureError) as caught:
        policy_cards.load_cards(full_archive)
    with OpenArchive(full_archive.root) as opened:
        assert_only({"policies"}, opened, str(caught.value))
        with pytest.raises(FailureError, match=re.escape(str(caught.value))):
            opened.sql("FROM policy('mine')")


def test_a_policy_whose_table_was_changed_is_not_read(full_archive: ArchiveStore) -> None:
    (path,) = Path(full_archive.root).glob("policies/*/table*.parquet")
    flip(path)
    with OpenArchive(full_archive.root) as opened:
        for ask in (lambda: opened.sql("FROM policy('mine')"), lambda: opened.policy("mine")):
            with pytest.raises(FailureError, match=re.escape(complaint_about(path))):
                ask()
        assert opened.sql("SELECT count(*) FROM policies").item() == 1


def test_a_damaged_record_of_a_run_leaves_games_and_plies(full_archive: ArchiveStore) -> None:
    path = Path(full_archive.run_record_path(RUN_ID))
    path.write_text("{")
    with OpenArchive(full_archive.root) as opened:
        for view in ("runs", "sweeps", "agents"):
            with pytest.raises(FailureError, match=re.escape(f"{path} is damaged")):
                opened.sql(f"FROM {view}")
        assert opened.sql("SELECT count(*) FROM games").item() == 48


def test_a_mistake_is_not_taken_for_damage(archive: ArchiveStore) -> None:
    with OpenArchive(archive.root) as opened:
        for text in ("SELECT error('IO Error: my own')", "SELECT agent_0::INTEGER FROM games"):
            with pytest.raises(RequestError):
                opened.sql(text)


# What is remembered of sound files.


@pytest.fixture
def memory_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a cache of its own, and return its folder that records which files were sound."""
    monkeypatch.setenv("QARENA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "checked"


@pytest.mark.parametrize("at", [0.5, *seldom(0.02, 0.3, 0.9)])
@pytest.mark.parametrize("before", [True, False], ids=["remembered", "new"])
def test_a_flipped_bit_is_no_answer(archive: ArchiveStore, memory_folder: Path, at: float, before: bool) -> None:
    question = "SELECT sum(hash(COLUMNS(*))) FROM {}"
    if before:
        with OpenArchive(archive.root) as opened:
            for table in TABLE_SCHEMAS:
                opened.sql(question.format(table))
        assert len(list(memory_folder.iterdir())) == 1
    paths = {table: list_table_files(archive, RUN_ID, table)[1] for table in TABLE_SCHEMAS}
    for path in paths.values():
        flip(path, at)
    with OpenArchive(archive.root) as opened:
        for table, path in paths.items():
            with pytest.raises(FailureError, match=re.escape(complaint_about(path))):
                opened.sql(question.format(table))
            with pytest.raises(FailureError, match=re.escape(complaint_about(path))):
                opened.scan(table)
    with OpenArchive(archive.root, check=False) as opened:
        assert opened.archive.count_games(RUN_ID) == 48  # what needs no rows is answered


def test_only_files_that_a_question_reads_are_checked(archive: ArchiveStore, memory_folder: Path) -> None:
    flip(list_table_files(archive, RUN_ID, "plies")[1])
    with OpenArchive(archive.root) as opened:
        for question in ("SELECT avg(plies) AS plies, 'plies' FROM games", "FROM runs"):
            assert len(opened.sql(question)) == 1
        for question in (
            "FROM query('FROM pl' || 'ies')",
            "FROM query_table('plies')",
            'SELECT (SELECT count(*) FROM main."PLIES")',
            "EXPLAIN ANALYZE SELECT sum(cell) FROM plies",
            "PIVOT plies ON cell USING count(*)",
        ):
            with pytest.raises(FailureError, match="is missing or damaged"):
                opened.sql(question)


def test_sound_files_are_read_once_and_not_again(
    archive: ArchiveStore, memory_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    count_rows_if_sound = VerifiableFile.count_rows_if_sound

    def note(file: VerifiableFile) -> int | None:
        read.append(Path(file.path))
        return count_rows_if_sound(file)

    monkeypatch.setattr(VerifiableFile, "count_rows_if_sound", note)
    for times in (2, 2, 4, 4):
        with OpenArchive(archive.root) as opened:
            for _ in range(2):
                opened.sql("SELECT count(*) FROM games" + (", plies" if times == 4 else ""))
        assert len(read) == times
    with OpenArchive(archive.root, check=False) as opened:
        (memory,) = memory_folder.iterdir()
        memory.write_text("[")
        opened.sql("SELECT count(*) FROM games, plies")
    assert len(read) == 4


def test_an_archive_that_was_not_asked_for_long_is_forgotten(archive: ArchiveStore, memory_folder: Path) -> None:
    memory_folder.mkdir(parents=True)
    for name, moment in (("long ago", 1), ("now", time.time())):
        (memory_folder / name).touch()
        os.utime(memory_folder / name, (moment, moment))
    with OpenArchive(archive.root) as opened:
        opened.sql("SELECT count(*) FROM games")
    assert {path.name for path in memory_folder.iterdir() if path.suffix != ".json"} == {"now"}


def test_a_replay_that_fails_names_the_file_each_time_and_spoils_no_other_question(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_of: object, **_options: object) -> NoReturn:
        raise ValueError("plies out of order")

    monkeypatch.setattr(lazy_rows, "replay_plies", fail)
    monkeypatch.setattr(lazy_rows, "derive_canonical_first_plies", fail)
    with OpenArchive(archive.root) as opened:
        for _ in range(6):  # an error that left the stream itself ended Python after three questions or so
            for view in ("boards", "ordered_openings(3)"):
                with pytest.raises(FailureError, match=r"plies/run=.*\.parquet plies out of order"):
                    opened.sql(f"SELECT count(*) FROM {view}")
            assert opened.sql("SELECT count(*) FROM games").item() == 48
