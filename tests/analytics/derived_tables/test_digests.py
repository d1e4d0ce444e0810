"""Digests: the sum of many shards, compared with the sum of their rows; when one counts, and when it does not."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec import structs

from analytics import open_archive
from analytics.derived_tables import digest_making, digests, merged_positions
from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.query.openings import openings
from analytics.store.archive import Archive
from analytics.store.json_records import dump
from analytics.upkeep.compaction import compact
from analytics.verify.archive import verify
from analytics.verify.garbage import remove, unreferenced_files
from quarto.errors import FailureError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record

SHARDS, PAIRS = 6, 40
GROUP_ROWS, PART_ROWS = 64, 128  # of digests here: so they have several files
POSITIONS = ("..../..../..../.... -", "..../..../..../.... 5", "...F/.3../..../.... -", "...F/.3../..../.... 7")
FIRST = """
    SELECT run_id, pairing, CASE seat WHEN game_id & 1 THEN a ELSE b END AS agent, piece, cell, count(*) AS games,
           count(*) FILTER (outcome = 1) AS wins, count(*) FILTER (outcome = 0) AS draws,
           count(*) FILTER (outcome = -1) AS losses
    FROM plies JOIN pairs USING (run_id, pairing) WHERE ply = 0 GROUP BY ALL ORDER BY ALL
"""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive of one run with two pairings in six indexed shards."""
    made = Archive.open(tmp_path / "archive", create=True)
    made.save_run(record())
    for shard in range(SHARDS):
        blocks = [random_block(shard, pairing, PAIRS * shard, PAIRS, forfeits=0.0) for pairing in (0, 1)]
        made.commit(RUN_ID, blocks, PAIRINGS)
    index_shards(made, index_jobs(made, INDEXES.shards(made, [RUN_ID]), 6), 1)
    return made


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (merged_positions, digest_making):
        monkeypatch.setattr(module, "ROW_GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(digest_making, "PART_ROWS", PART_ROWS)


def digested(archive: Archive, games: int = 4 * PAIRS * 3) -> list[digests.Digest]:
    """The digests of the run's shards, made now; three shards each unless ``games`` says otherwise."""
    digest_making.make_all(archive, [*digest_making.digest_jobs(archive, [RUN_ID], games)], 1)
    return digests.counting(archive, RUN_ID)


def paths(archive: Archive, digest: digests.Digest, name: str) -> list[Path]:
    return [Path(path) for path, _ in digests.files_of(archive, RUN_ID, digest) if name in path.parts]


def table(archive: Archive, digest: digests.Digest, name: str) -> pl.DataFrame:
    return pl.read_parquet(paths(archive, digest, name), hive_partitioning=False)


def met_in(archive: Archive, game: int, pieces: int) -> str:
    """The position of a game before the ply of that number."""
    with open_archive(archive.root) as opened:
        plies = opened.sql(f"SELECT piece, cell FROM plies WHERE game_id = {game} ORDER BY ply").rows()
    text = ["."] * 16
    for piece, cell in plies[:pieces]:
        text[cell] = f"{piece:X}"
    rows = ("".join(text[row : row + 4]) for row in range(0, 16, 4))
    return f"{'/'.join(rows)} {plies[pieces][0]:X}"


def twin_of(rows: pl.DataFrame) -> pl.DataFrame:
    """The sum of the rows of tables of positions, by Polars."""
    key = ["ply", "occupied", "board", "pairing", "second", "cell", "piece", "imposed"]
    return rows.group_by(key).agg(pl.sum("games", "wins", "draws"), pl.min("sample")).sort(key)


def indexed(archive: Archive, shards: slice) -> list[pl.DataFrame]:
    """The tables of positions of some shards."""
    known = INDEXES.shards(archive, [RUN_ID])[shards]
    files = [Path(INDEXES.file(archive, RUN_ID, shard.manifest)) for shard in known if shard.manifest]
    return [pl.read_parquet(file, hive_partitioning=False) for file in files]


def test_positions_of_a_digest_are_the_sums_of_those_of_its_shards(archive: Archive) -> None:
    first, second = digested(archive)
    assert [(first.first, first.end, first.shards), (second.first, second.end)] == [(0, 3, 3), (3, 6)]
    rows = pl.concat(indexed(archive, slice(3)))
    found = table(archive, first, "summed_positions")
    assert found.equals(twin_of(rows))
    assert found.height < rows.height
    assert found["ply"].unique().to_list() == [*range(6)]


@pytest.mark.parametrize(("at_once", "in_memory"), [(64, 1 << 20), (64, 60), (2, 7)])
def test_tables_are_merged_whatever_of_them_is_in_memory(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, at_once: int, in_memory: int
) -> None:
    tables = [*indexed(archive, slice(5)), indexed(archive, slice(1))[0][:0]]  # one has no rows
    monkeypatch.setattr(merged_positions, "AT_ONCE", at_once)
    monkeypatch.setattr(merged_positions, "ROWS_IN_MEMORY", in_memory)
    rows = merged_positions.rows_at_once(len(tables))
    parts = [merged_positions.row_groups([each], rows) for each in tables]
    found = [*merged_positions.merged(parts, record().rules, 0)]
    assert {len(part) for part in found[:-1]} == {GROUP_ROWS}
    assert pl.concat(found).equals(twin_of(pl.concat(tables)))


def test_the_files_of_a_digest_follow_one_another_and_their_bounds_are_known(archive: Archive) -> None:
    first, _ = digested(archive)
    parts = first.summed_positions
    assert len(parts) > 3
    assert {part.rows for part in parts[:-1]} == {PART_ROWS}
    for part, path in zip(parts, paths(archive, first, "summed_positions"), strict=True):
        keys = pl.read_parquet(path, hive_partitioning=False).select("ply", "occupied", "board").rows()
        assert (part.first, part.last) == (keys[0], keys[-1])


def test_a_question_opens_one_file_of_a_digest(archive: Archive) -> None:
    (digest, _) = digested(archive)
    turn = table(archive, digest, "summed_positions").filter(pl.col("ply") == 5).row(40, named=True)
    first, last = ((5, turn["occupied"], board) for board in (turn["board"] & ~15, turn["board"] | 15))
    (part, *more) = digests.positions_at(digest, first, last)
    assert len(more) <= 1
    assert part.first <= (5, turn["occupied"], turn["board"]) <= (more or [part])[-1].last
    with open_archive(archive.root) as opened:
        files = opened.positions_at(RUN_ID, first, last)
        assert files.shards == []
        assert len(files.of_digests) <= 4
        # If that file is missing, the shards are asked for: a digest is never needed.
        Path(archive.file("summed_positions", RUN_ID, part)).unlink()
        assert len(opened.positions_at(RUN_ID, first, last).shards) == 3


def test_answers_are_those_without_digests(archive: Archive) -> None:
    late = [met_in(archive, 101, pieces) for pieces in (4, 5, 6)]  # the last one is in no index

    def answers() -> list[pl.DataFrame]:
        with open_archive(archive.root) as opened:
            explored = [openings(opened, position, "turn") for position in (*POSITIONS, *late)]
            rows = opened.sql("FROM first_plies ORDER BY ALL")
            frame = opened.first_plies().collect()
            assert frame.sort(frame.columns).equals(rows.sort(frame.columns))
            assert opened.first_plies(RUN_ID).collect().height == rows.height
            return [*explored, rows]

    before = answers()
    pairs = ", ".join(f"('{RUN_ID}', {number}, '{a}', '{b}')" for number, (a, b) in enumerate(PAIRINGS))
    twin = FIRST.replace("pairs", f"(VALUES {pairs}) AS of (run_id, pairing, a, b)")
    with open_archive(archive.root) as opened:
        slow = opened.sql(twin)
    assert before[-1].drop("opponent").sort(slow.columns).equals(slow)
    assert before[-1]["games"].sum() == 4 * PAIRS * SHARDS
    digested(archive, 4 * PAIRS * 4)  # four shards; two are in none
    for mine, theirs in zip(answers(), before, strict=True):
        assert mine.equals(theirs)


def test_a_digest_spares_the_files_of_its_shards(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    digested(archive)
    late = met_in(archive, 101, 5)
    for folder in ("indexes", "positions", "plies"):  # plies: samples are not asked for
        shutil.rmtree(archive.root / folder)
    with open_archive(archive.root) as opened:
        for position in (POSITIONS[2], late):
            assert openings(opened, position, "turn", samples=False).height
        assert opened.sql("SELECT sum(games) AS games FROM first_plies")["games"].item() == 4 * PAIRS * SHARDS
    monkeypatch.setattr(digests, "counting", lambda *_: [])
    with open_archive(archive.root) as opened, pytest.raises(FailureError, match=r"missing or damaged|cannot be read"):
        openings(opened, POSITIONS[2], "turn", samples=False)


def grown(archive: Archive, first: int, shards: int) -> None:
    """Add indexed shards of as many games as the others."""
    for shard in range(first, first + shards):
        blocks = [random_block(shard, pairing, PAIRS * shard, PAIRS, forfeits=0.0) for pairing in (0, 1)]
        archive.commit(RUN_ID, blocks, PAIRINGS)
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)


@pytest.mark.slow
def test_shards_that_are_left_have_a_digest_of_their_own_until_there_are_enough(archive: Archive) -> None:
    games = 4 * PAIRS * 5  # of five shards

    def found() -> list[tuple[int, int, int]]:
        return [(each.first, each.end, each.level) for each in digested(archive, games)]

    assert found() == [(0, 5, 1)]  # one shard is not worth a digest
    grown(archive, 6, 1)
    assert found() == [(0, 5, 1), (5, 7, 0)]
    assert [*digest_making.digest_jobs(archive, [RUN_ID], games)] == []
    grown(archive, 7, 1)
    assert found() == [(0, 5, 1), (5, 8, 0)]  # a larger one takes its place
    assert verify(archive).problems == []
    grown(archive, 8, 4)
    assert found() == [(0, 5, 1), (5, 10, 1), (10, 12, 0)]
    assert [*digest_making.joining_jobs(archive, [RUN_ID])] == []
    assert verify(archive).problems == []
    assert {digests.FOLDER, "summed_positions"} <= {file.path.parts[-3] for file in unreferenced_files(archive)}


def test_shards_that_are_not_indexed_wait(archive: Archive) -> None:
    archive.commit(RUN_ID, [random_block(6, 0, PAIRS * SHARDS, 4 * PAIRS)], PAIRINGS)
    assert [(each.first, each.end) for each in digested(archive)] == [(0, 3), (3, 6)]
    assert [*digest_making.digest_jobs(archive, [RUN_ID], 1)] == []


@pytest.mark.slow
def test_a_deeper_index_gives_deeper_digests(archive: Archive) -> None:
    shallow = digested(archive)
    position = met_in(archive, 101, 6)
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID]), 8), 1)
    with open_archive(archive.root) as opened:
        before = openings(opened, position, "turn")
    deep = digested(archive)
    assert [(each.name, each.end_ply) for each in deep] == [(each.name, 8) for each in shallow]
    shutil.rmtree(archive.root / "positions")
    with open_archive(archive.root) as opened:
        assert openings(opened, position, "turn").equals(before)


def test_a_digest_of_shards_that_were_replaced_counts_no_longer_and_is_garbage(archive: Archive) -> None:
    (digest, _) = digested(archive)
    compact(archive, RUN_ID)
    assert digests.counting(archive, RUN_ID) == []
    loose = {file.path for file in unreferenced_files(archive) if file.ours and not file.replaced}
    assert {path for path, _ in digests.files_of(archive, RUN_ID, digest)} <= loose
    assert archive.folder(digests.FOLDER, RUN_ID) / digest.name in loose
    remove(archive, unreferenced_files(archive), 0.0)
    assert not [*Path(archive.root / digests.FOLDER).rglob("*.json")]
    with open_archive(archive.root) as opened:
        assert opened.sql("SELECT sum(games) AS games FROM first_plies")["games"].item() == 4 * PAIRS * SHARDS


def test_digests_that_count_are_no_garbage(archive: Archive) -> None:
    digested(archive)
    assert unreferenced_files(archive) == []


def forged(archive: Archive, digest: digests.Digest, **wrong: Any) -> None:
    """Store a digest again with other fields."""
    content = dump(structs.replace(digest, **wrong))
    Path(archive.folder(digests.FOLDER, RUN_ID) / digest.name).write_bytes(content)


@pytest.mark.slow
def test_a_digest_with_other_rows_is_found(archive: Archive) -> None:
    (digest, other) = digested(archive)
    forged(archive, digest, first_plies=other.first_plies)
    (problem,) = verify(archive).problems
    assert "first_plies" in str(problem.file)
    assert "its rows are not what the games of its shards give" in problem.what
    for parts in (digest.summed_positions[:-1], (*digest.summed_positions[:-1], other.summed_positions[-1])):
        forged(archive, digest, summed_positions=parts)
        (problem,) = verify(archive).problems
        assert "summed_positions" in str(problem.file)
    early = structs.replace(digest.summed_positions[1], first=(0, 0, 0))
    forged(archive, digest, summed_positions=(digest.summed_positions[0], early, *digest.summed_positions[2:]))
    assert [problem.file.name for problem in verify(archive).problems] == [early.file]
    forged(archive, digest)
    path = paths(archive, digest, "summed_positions")[1]
    path.write_bytes(path.read_bytes()[:-1])
    (problem,) = verify(archive).problems
    assert problem.file.name == path.name


def test_the_second_of_two_processes_that_make_a_digest_leaves_nothing(archive: Archive) -> None:
    (job, *_) = digest_making.digest_jobs(archive, [RUN_ID], 4 * PAIRS * 3)
    assert digest_making.make(archive, job) is not None
    assert digest_making.make(archive, job) is None
    assert unreferenced_files(archive) == []
    broken = replace(job.shards[0], manifest=None)
    with pytest.raises(FailureError, match="is not indexed"):
        digest_making.make(archive, job._replace(shards=(broken, *job.shards[1:])))


@pytest.mark.slow
def test_digests_become_one_of_the_next_level_with_the_same_rows(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = digested(archive, 4 * PAIRS * 2)
    assert [(digest.level, digest.shards) for digest in small] == [(1, 2)] * 3
    monkeypatch.setattr(digest_making, "LEVEL", 3)
    (job,) = digest_making.joining_jobs(archive, [RUN_ID])
    assert digest_making.make(archive, job) is not None
    (large,) = digests.counting(archive, RUN_ID)
    assert (large.level, large.first, large.end, large.shards) == (2, 0, 6, 6)
    assert table(archive, large, "summed_positions").equals(twin_of(pl.concat(indexed(archive, slice(6)))))
    whole = digest_making.DigestJob(record(), tuple(INDEXES.shards(archive, [RUN_ID])), 2)
    assert table(archive, large, "first_plies").equals(digest_making.first_plies_of_job(archive, whole))
    assert [*digest_making.joining_jobs(archive, [RUN_ID])] == []
    assert verify(archive).problems == []
    loose = {file.path for file in unreferenced_files(archive)}
    assert {path for digest in small for path, _ in digests.files_of(archive, RUN_ID, digest)} <= loose
    assert not {path for path, _ in digests.files_of(archive, RUN_ID, large)} & loose
    paths(archive, small[0], "first_plies")[0].unlink()
    with pytest.raises(FailureError, match="cannot be read"):
        digest_making.make(archive, job)
    monkeypatch.setattr(digest_making, "MOST_PARTS", 2)
    assert len([*digest_making.positions_of_job(archive, job, 6)]) == 2
