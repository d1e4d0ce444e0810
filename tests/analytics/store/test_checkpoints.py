"""Checkpoints of commits: they spare reading, and change no answer, however they or the commits are damaged."""

import gc
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath

import pytest
from msgspec import structs

from analytics.files.backend import FileStatus
from analytics.files.local import LOCAL, LocalBackend
from analytics.sql.database import OpenArchive
from analytics.store import checkpoints, commit_log
from analytics.store.archive import Archive
from analytics.store.checkpoints import chosen
from analytics.store.inventory import require_consistent
from analytics.store.json_records import dump
from analytics.verify.archive import verify
from analytics.verify.garbage import remove, unreferenced_files
from quarto.errors import FailureError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record
from tests.object_storage import BOTH

SHARDS = 12


@pytest.fixture
def many(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """The archive with more shards, and a checkpoint of all its commits."""
    monkeypatch.setattr(checkpoints, "COMMITS", 4)
    monkeypatch.setattr(commit_log.write_checkpoint, "__defaults__", (4,))
    for i in range(2, SHARDS):
        assert archive.commit(RUN_ID, [random_block(1, 0, 20 * i, 1)], PAIRINGS)
    archive.save_run(record(games=10_000))
    archive.log(RUN_ID)
    return archive


def files(archive: Archive) -> list[PurePath]:
    return sorted(archive.entries(archive.log_place(RUN_ID).checkpoints))


def commit_path(archive: Archive, number: int) -> PurePath:
    return archive.log_place(RUN_ID).path(number)


class Counted(LocalBackend):
    """Counts the commits that are read."""

    def __init__(self) -> None:
        self.read_files: list[PurePath] = []

    def read(self, path: PurePath) -> bytes:
        self.read_files.append(path)
        return super().read(path)


def reads(root: PurePath) -> list[str]:
    """The commits that a new reader reads from their own files; its answers are compared with those without help."""
    archive = Archive(root)
    backend = Counted() if archive.backend is LOCAL else archive.backend
    archive.backend = backend
    alone = commit_log.read_log(archive.log_place(RUN_ID)._replace(checkpoints=root / "none"))
    if isinstance(backend, Counted):
        backend.read_files.clear()
    log = archive.log(RUN_ID)
    found = [path.name for path in getattr(backend, "read_files", []) if path.suffix == ".json"]
    assert log.summary == alone.summary
    assert log.known == alone.known
    assert log.is_sound == alone.is_sound
    assert log.commits == alone.commits
    return found


@BOTH
def test_a_reader_of_many_commits_writes_a_checkpoint_and_the_next_reads_only_that(many: Archive) -> None:
    assert [path.name for path in files(many)] == ["000000-000012.jsonl"] or many.backend is LOCAL
    assert reads(many.root) == []
    assert not verify(many).problems
    with OpenArchive(many.root) as opened:
        assert opened.sql("SELECT games, shards FROM runs").row(0) == (56 + 20, SHARDS)
        assert opened.sql("SELECT count(*) FROM games").item() == 56 + 20


def test_checkpoints_form_a_chain_and_gc_removes_what_is_in_another(many: Archive) -> None:
    for i in range(SHARDS, 40):
        many.commit(RUN_ID, [random_block(1, 0, 20 * i, 1)], PAIRINGS)
        many.log(RUN_ID)
    names = [path.name for path in files(many)]
    used = chosen(names)
    assert len(used) < 6 < len(names)
    assert reads(many.root) == []
    remove(many, unreferenced_files(many), 0)
    assert [path.name for path in files(many)] == used
    assert unreferenced_files(many) == []
    assert reads(many.root) == []


@pytest.mark.parametrize("damage", ["removed", "empty", "cut", "header", "rest", "sums", "folder"])
def test_a_damaged_checkpoint_changes_no_answer(many: Archive, damage: str) -> None:
    for path in map(Path, files(many)):
        content = path.read_bytes()
        head, _, rest = content.partition(b"\n")
        path.unlink()
        if damage == "folder":
            path.mkdir()
        elif damage != "removed":
            changed = {
                "empty": b"",
                "cut": content[:-20],
                "header": head.replace(b'"games":', b'"Games":') + b"\n" + rest,
                "rest": head + b"\n" + rest.replace(b'"rows":2', b'"rows":3'),
                "sums": head.replace(b'"shards":', b'"shards":1') + b"\n" + rest,
            }[damage]
            assert changed != content
            path.write_bytes(changed)
    problems = [problem.what for problem in verify(Archive(many.root)).problems]
    assert all("it only spares readers some time" in what for what in problems)
    assert bool(problems) == (damage != "removed")
    reads(many.root)


@pytest.mark.parametrize("how", ["removed", "damaged", "other"])
def test_a_commit_that_was_removed_or_changed_is_noticed(many: Archive, how: str) -> None:
    path = Path(commit_path(many, 5))
    if how == "removed":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(path.read_bytes()[:-2] + b"!\n")  # of the same size
    else:
        shutil.copy(commit_path(many, 6), path)
    message = {"removed": "000005.json is missing, and its games with it", "damaged": r"000005.json is damaged"}
    with pytest.raises(FailureError, match=message.get(how, r"000005.json is damaged \(it says shard 6\)")):
        OpenArchive(many.root)
    assert any("000005.json" in str(problem) for problem in verify(Archive(many.root)).problems)
    again = Archive(many.root)
    if how == "removed":  # its games are played again, under its number
        assert 0 not in [first for first, end in again.covered(RUN_ID)[0] if first <= 100 < end]
        commit = again.commit(RUN_ID, [random_block(1, 0, 100, 1)], PAIRINGS)
        assert commit is not None
        assert commit.shard == 5
        require_consistent(Archive(many.root), RUN_ID, None)
    else:
        with pytest.raises(FailureError, match=r"000005\.json"):
            again.commit(RUN_ID, [random_block(1, 0, 100, 1)], PAIRINGS)


def test_in_a_copy_checkpoints_are_of_no_use_and_made_again(many: Archive, tmp_path: Path) -> None:
    shutil.copytree(many.root, tmp_path / "copy")
    assert len(reads(tmp_path / "copy")) == SHARDS
    assert reads(tmp_path / "copy") == []


def test_where_nothing_can_be_written_the_answer_is_the_same(many: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in files(many):
        Path(path).unlink()

    def refuse(*_arguments: object) -> bool:
        raise PermissionError("no")

    monkeypatch.setattr(LocalBackend, "create", refuse)
    assert len(reads(many.root)) == SHARDS


def test_commits_that_contradict_one_another_are_in_no_checkpoint(many: Archive) -> None:
    for path in files(many):
        Path(path).unlink()
    commit = many.commits(RUN_ID)[3]
    path = Path(commit_path(many, SHARDS))
    path.write_bytes(dump(structs.replace(commit, shard=SHARDS)))
    with pytest.raises(FailureError, match="also in an earlier commit"):
        OpenArchive(many.root)
    assert files(many) == []


@BOTH
def test_many_may_write_one(many: Archive) -> None:
    for path in files(many):
        many.backend.remove(path)
    with ThreadPoolExecutor(4) as threads:
        logs = list(threads.map(lambda _: Archive(many.root).log(RUN_ID), range(4)))
    assert all(log.summary == logs[0].summary for log in logs)
    assert reads(many.root) == []
    assert not verify(many).problems


def test_covered_reads_a_commit_once(many: Archive) -> None:
    """A run asks four times for its pairs; each commit is read at most once by one process."""
    many.backend = counted = Counted()
    many.covered(RUN_ID)
    counted.read_files.clear()
    for i in range(20, 22):
        many.commit(RUN_ID, [random_block(1, 0, 20 * i, 1)], PAIRINGS)
        many.covered(RUN_ID)
        many.covered(RUN_ID)
    assert len([path for path in counted.read_files if path.suffix == ".json"]) <= 4


def test_a_question_about_runs_looks_at_no_table_file(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PurePath] = []
    status = LocalBackend.status

    def noted(backend: LocalBackend, path: PurePath) -> FileStatus | None:
        asked.append(path)
        return status(backend, path)

    monkeypatch.setattr(LocalBackend, "status", noted)
    with OpenArchive(archive.root) as opened:
        assert opened.sql("SELECT games FROM runs").item() == 56
        assert [path for path in asked if path.suffix == ".parquet"] == []
        assert opened.sql("SELECT count(*) FROM games").item() == 56
        assert [path for path in asked if path.suffix == ".parquet"] != []
        assert opened.sql("SELECT games FROM runs").item() == 56


def test_the_garbage_collector_rests_while_commits_are_listed(many: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    listed = many.backend.listed

    def noted(folder: PurePath) -> Mapping[str, FileStatus]:
        seen.append(gc.isenabled())
        return listed(folder)

    monkeypatch.setattr(many.backend, "listed", noted)
    assert gc.isenabled()
    Archive.log(many, RUN_ID)
    assert seen == [False]
    assert gc.isenabled()


def test_the_commit_that_holds_a_pair_is_found(many: Archive) -> None:
    log = many.log(RUN_ID)
    held = {
        (part.pairing, pair): commit.shard
        for commit in log.commits
        for part in commit.slices
        for pair in range(part.first_pair, part.end_pair)
    }
    for pairing in range(4):
        for pair in range(20 * SHARDS + 5):
            found = log.commit_of(pairing, pair)
            assert (found and found.shard) == held.get((pairing, pair))
