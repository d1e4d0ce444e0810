"""Digests: the sum of many shards, compared with the sum of their rows; when one counts, and when it does not."""

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.derived_tables import digests
from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.query.openings import openings
from analytics.store.archive import Archive
from analytics.upkeep.compaction import compact
from analytics.verify.archive import verify
from analytics.verify.garbage import remove, unreferenced_files
from quarto.errors import FailureError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record

SHARDS, PAIRS = 6, 40
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


def digested(archive: Archive, games: int = 4 * PAIRS * 3) -> list[digests.Digest]:
    """The digests of the run's shards, made now; three shards each unless ``games`` says otherwise."""
    digests.make_all(archive, [*digests.digest_jobs(archive, [RUN_ID], games)], 1)
    return digests.counting(archive, RUN_ID)


def table(archive: Archive, digest: digests.Digest, name: str) -> pl.DataFrame:
    return pl.read_parquet(Path(digests.file_of(archive, RUN_ID, digest, name)), hive_partitioning=False)


def test_positions_of_a_digest_are_the_sums_of_those_of_its_shards(archive: Archive) -> None:
    first, second = digested(archive)
    assert [(first.first, first.end, first.shards), (second.first, second.end)] == [(0, 3, 3), (3, 6)]
    shards = INDEXES.shards(archive, [RUN_ID])[:3]
    parts = [Path(INDEXES.file(archive, RUN_ID, shard.manifest)) for shard in shards if shard.manifest]
    rows = pl.read_parquet(parts, hive_partitioning=False).filter(pl.col("ply") < digests.PLIES)
    key = ["ply", "occupied", "board", "pairing", "second", "cell", "piece", "imposed"]
    twin = rows.group_by(key).agg(pl.sum("games", "wins", "draws"), pl.min("sample")).sort(key)
    found = table(archive, first, "summed_positions")
    assert found.equals(twin)
    assert found.height < rows.height
    assert found["ply"].unique().to_list() == [*range(digests.PLIES)]


def test_answers_are_those_without_digests(archive: Archive) -> None:
    def answers() -> list[pl.DataFrame]:
        with open_archive(archive.root) as opened:
            explored = [openings(opened, position, "turn") for position in POSITIONS]
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
    for folder in ("indexes", "positions", "plies"):  # plies: samples are not asked for
        shutil.rmtree(archive.root / folder)
    with open_archive(archive.root) as opened:
        assert openings(opened, POSITIONS[2], "turn", samples=False).height
        assert opened.sql("SELECT sum(games) AS games FROM first_plies")["games"].item() == 4 * PAIRS * SHARDS
    monkeypatch.setattr(digests, "PLIES", 0)
    with open_archive(archive.root) as opened, pytest.raises(FailureError, match=r"missing or damaged|cannot be read"):
        openings(opened, POSITIONS[2], "turn", samples=False)


def test_a_digest_waits_for_enough_games_and_goes_on_where_the_last_one_ended(archive: Archive) -> None:
    assert [each.shards for each in digested(archive, 4 * PAIRS * 4)] == [4]
    assert [*digests.digest_jobs(archive, [RUN_ID], 4 * PAIRS * 4)] == []
    for shard in (6, 7):
        archive.commit(RUN_ID, [random_block(shard, 0, PAIRS * SHARDS + 2 * PAIRS * (shard - 6), 2 * PAIRS)], PAIRINGS)
    assert len(digested(archive, 4 * PAIRS * 4)) == 1  # shards that are not indexed are not counted
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID]), 6), 1)
    assert [(each.first, each.end) for each in digested(archive, 4 * PAIRS * 4)] == [(0, 4), (4, 8)]
    assert verify(archive).problems == []


def test_a_digest_of_shards_that_were_replaced_counts_no_longer_and_is_garbage(archive: Archive) -> None:
    (digest, _) = digested(archive)
    compact(archive, RUN_ID)
    assert digests.counting(archive, RUN_ID) == []
    loose = {file.path for file in unreferenced_files(archive) if file.ours and not file.replaced}
    assert digests.file_of(archive, RUN_ID, digest, "first_plies") in loose
    assert archive.folder(digests.FOLDER, RUN_ID) / digest.name in loose
    remove(archive, unreferenced_files(archive), 0.0)
    assert not [*Path(archive.root / digests.FOLDER).rglob("*.json")]
    with open_archive(archive.root) as opened:
        assert opened.sql("SELECT sum(games) AS games FROM first_plies")["games"].item() == 4 * PAIRS * SHARDS


def test_digests_that_count_are_no_garbage(archive: Archive) -> None:
    digested(archive)
    assert unreferenced_files(archive) == []


def test_a_digest_with_other_rows_is_found(archive: Archive) -> None:
    (digest, _) = digested(archive)
    wrong = table(archive, digest, "first_plies").with_columns(pl.col("games") + 1)
    Path(archive.folder(digests.FOLDER, RUN_ID) / digest.name).unlink()
    (job, *_) = digests.digest_jobs(archive, [RUN_ID], 4 * PAIRS * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(digests.MAKERS, "first_plies", lambda *_: wrong)
        digests.make(archive, job)
    (problem,) = verify(archive).problems
    assert "first_plies" in str(problem.file)
    assert "its rows are not what the games of its shards give" in problem.what
    path = Path(digests.file_of(archive, RUN_ID, digests.counting(archive, RUN_ID)[0], "summed_positions"))
    path.write_bytes(path.read_bytes()[:-1])
    assert any("summed_positions" in str(each.file) for each in verify(archive).problems)


def test_the_second_of_two_processes_that_make_a_digest_leaves_nothing(archive: Archive) -> None:
    (job, *_) = digests.digest_jobs(archive, [RUN_ID], 4 * PAIRS * 3)
    assert digests.make(archive, job) is not None
    assert digests.make(archive, job) is None
    assert unreferenced_files(archive) == []
    broken = replace(job.shards[0], manifest=None)
    with pytest.raises(FailureError, match="is not indexed"):
        digests.make(archive, job._replace(shards=(broken, *job.shards[1:])))


def test_digests_become_one_of_the_next_level_with_the_same_rows(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = digested(archive, 4 * PAIRS * 2)
    assert [(digest.level, digest.shards) for digest in small] == [(0, 2)] * 3
    monkeypatch.setattr(digests, "LEVEL", 3)
    (job,) = digests.joining_jobs(archive, [RUN_ID])
    assert digests.make(archive, job) is not None
    (large,) = digests.counting(archive, RUN_ID)
    assert (large.level, large.first, large.end, large.shards) == (1, 0, 6, 6)
    whole = digests.DigestJob(record(), tuple(INDEXES.shards(archive, [RUN_ID])))
    for name, make in digests.MAKERS.items():
        assert table(archive, large, name).equals(make(archive, whole))
    assert [*digests.joining_jobs(archive, [RUN_ID])] == []
    assert verify(archive).problems == []
    loose = {file.path for file in unreferenced_files(archive)}
    assert {digests.file_of(archive, RUN_ID, digest, "first_plies") for digest in small} <= loose
    assert digests.file_of(archive, RUN_ID, large, "first_plies") not in loose
    Path(digests.file_of(archive, RUN_ID, small[0], "first_plies")).unlink()
    with pytest.raises(FailureError, match="cannot be read"):
        digests.make(archive, job)
