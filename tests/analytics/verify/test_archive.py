import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics.perfect.annotate import AnnotationSettings, annotate_runs
from analytics.store.archive import Archive
from analytics.store.records import SweepJob
from analytics.verify.archive import NAMED_GAMES, Verification, verify
from quarto.batch import Block
from quarto.rules import CLASSIC, Rules
from tests.analytics.folders import forge
from tests.analytics.naive_games import (
    PAIRINGS,
    RUN_ID,
    Game,
    block_of,
    naive_rows,
    random_block,
    random_game,
    record,
    spec_of,
)
from tests.object_storage import BOTH

VARIANTS = [
    CLASSIC,
    Rules("square", squares="plain"),
    Rules("torus", diagonals="broken"),
    Rules("torus_square", diagonals="broken", squares="wrapped"),
    Rules("own_piece", chooser="mover"),
]
DIAGONAL = Rules("diagonal", rows_and_columns=False)
DEEPER = [{**agent, "params": {"depth": 3}} for agent in spec_of()["agents"]]


def only_problem(archive: Archive) -> str:
    problems = verify(archive).problems
    assert len(problems) == 1, problems
    return str(problems[0])


def rewrite(archive: Archive, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], shard: int = 0) -> Path:
    """Change the rows of a committed table and forge the commit, so that only the rows themselves can tell."""
    commit = archive.folder("commits", RUN_ID) / f"{shard:06d}.json"
    path: Path = archive.folder(table, RUN_ID) / json.loads(Path(commit).read_text())[table]["file"]
    frame = change(pl.read_parquet(path))
    frame.write_parquet(path)
    content = path.read_bytes()
    stored = {"rows": len(frame), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    forge(Path(commit), lambda values: values[table].update(stored))
    return path


def changed(column: str, row: int, value: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row)
        .then(value)
        .otherwise(pl.col(column))
        .cast(frame.schema[column])
        .alias(column)
    )


@BOTH
def test_a_sound_archive_has_no_problems_and_is_counted(archive: Archive) -> None:
    blocks = [random_block(1, 0, 0), random_block(1, 1, 0), random_block(1, 0, 8, 4), random_block(1, 2, 0)]
    games, plies = naive_rows(blocks, PAIRINGS)
    assert verify(archive) == Verification(runs=1, shards=2, games=len(games), plies=len(plies), problems=[])


def test_an_empty_archive_has_no_problems(tmp_path: Path) -> None:
    assert verify(Archive.open(tmp_path / "a", create=True)) == Verification()


@pytest.mark.parametrize("rules", [*VARIANTS, DIAGONAL], ids=lambda rules: rules.name)
def test_games_are_judged_by_the_rules_of_their_run(tmp_path: Path, rules: Rules) -> None:
    archive = Archive.open(tmp_path / "archive", create=True)
    run = record(spec_of(rules))
    archive.save_run(run)
    archive.commit(run.run_id, [random_block(3, pairs=60, rules=rules)], PAIRINGS)
    assert not verify(archive).problems
    archive.save_run(record(spec_of(DIAGONAL if rules != DIAGONAL else CLASSIC), run_id=run.run_id))
    (path,) = archive.committed_files("plies")
    assert path in {problem.file for problem in verify(archive).problems}


# Files.


@BOTH
@pytest.mark.parametrize("table", ["games", "plies"])
@pytest.mark.parametrize("at", [0, 0.3, 0.6, 0.99])
def test_any_changed_byte_is_found(archive: Archive, table: str, at: float) -> None:
    path = archive.committed_files(table)[0]
    content = bytearray(archive.backend.read(path))
    content[int(at * len(content))] ^= 1
    archive.backend.replace(path, bytes(content))
    assert only_problem(archive).startswith(f"{path}: has another SHA-256 than its commit says")


@pytest.mark.parametrize("keep", [0, 3, 500])
@BOTH
def test_a_truncated_file_is_found(archive: Archive, keep: int) -> None:
    path = archive.committed_files("plies")[1]
    archive.backend.replace(path, archive.backend.read(path)[:keep])
    assert only_problem(archive).startswith(f"{path}: has {keep} bytes, its commit says")


@BOTH
def test_a_lost_file_is_found(archive: Archive) -> None:
    path = archive.committed_files("games")[1]
    archive.backend.remove(path)
    assert only_problem(archive).startswith(f"{path}: cannot be read")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", b"PAR1" * 9], ids=repr)
def test_a_file_that_is_not_parquet_is_found_even_with_a_forged_checksum(archive: Archive, content: bytes) -> None:
    commit = archive.folder("commits", RUN_ID) / "000000.json"
    path = archive.committed_files("plies")[0]
    Path(path).write_bytes(content)
    stored = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    forge(Path(commit), lambda values: values["plies"].update(stored))
    assert only_problem(archive).startswith(f"{path}: is not a readable Parquet file")


@BOTH
def test_a_damaged_commit_is_found_and_the_rest_still_checked(archive: Archive) -> None:
    path = archive.folder("commits", RUN_ID) / "000000.json"
    archive.backend.replace(path, b"{")
    assert str(path) in only_problem(archive)
    assert verify(archive).shards == 1


@pytest.mark.parametrize("content", [None, b"{"])
@BOTH
def test_a_lost_or_damaged_run_record_is_found(archive: Archive, content: bytes | None) -> None:
    path = archive.root / "runs" / f"{RUN_ID}.json"
    archive.backend.remove(path)
    if content:
        archive.backend.replace(path, content)
    assert str(path) in only_problem(archive)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("change", [{"seed": 8}, {"salt": "x"}, {"agents": DEEPER}], ids=["seed", "salt", "agents"])
def test_a_run_record_that_was_edited_is_found(archive: Archive, change: dict[str, Any], committed: bool) -> None:
    if not committed:
        shutil.rmtree(archive.root / "commits")
    archive.save_run(record(spec_of(**change), run_id=RUN_ID))
    path = archive.root / "runs" / f"{RUN_ID}.json"
    assert only_problem(archive).startswith(f"{path}: its spec is that of run ")


def test_what_is_not_part_of_the_spec_may_change(archive: Archive) -> None:
    archive.save_run(record(games=4, status="complete", command="qarena run games=4", seconds=9.0))
    assert not verify(archive).problems


@pytest.mark.parametrize("content", ["{", "{}", '{"sweep_id": "s", "job": 4}'])
def test_a_damaged_job_of_a_sweep_is_found(archive: Archive, content: str) -> None:
    archive.save_sweep_job(SweepJob("s", 0, {}, RUN_ID))
    assert not verify(archive).problems
    path = archive.root / "sweeps" / "s" / "0.json"
    Path(path).write_text(content)
    assert only_problem(archive).startswith(f"{path}: {path} is damaged")


def test_a_commit_under_another_number_is_found(archive: Archive) -> None:
    folder = archive.folder("commits", RUN_ID)
    Path(folder / "000001.json").rename(folder / "000003.json")
    moved, *lost = verify(archive).problems
    assert "000003.json is damaged (it says shard 1)" in str(moved)
    assert [problem.file for problem in lost] == [folder / f"{number:06d}.json" for number in (1, 2)]


def test_pairs_that_two_commits_hold_are_found(archive: Archive) -> None:
    folder = archive.folder("commits", RUN_ID)
    shutil.copy(folder / "000000.json", folder / "000002.json")
    forge(Path(folder / "000002.json"), {"shard": 2})
    problems = [str(problem) for problem in verify(archive).problems]
    assert f"{folder / '000002.json'}: pairs 0 to 7 of pairing 1 are, in part, also in an earlier commit" in problems


def test_a_wrong_tally_is_found(archive: Archive) -> None:
    path = archive.folder("commits", RUN_ID) / "000001.json"
    forge(Path(path), lambda values: values["slices"][1]["tally"].update(plies=1))
    assert only_problem(archive) == f"{path}: the tally of pairing 2 from pair 0 on is not that of its games"


# What is gone.


@BOTH
def test_a_deleted_commit_is_missed_also_if_it_was_the_last(archive: Archive) -> None:
    archive.save_run(record(games=500))
    for number in (1, 0):  # the last one, then all
        path = archive.folder("commits", RUN_ID) / f"{number:06d}.json"
        archive.backend.remove(path)
        assert f"{path}: missing, and its games with it: restore it" in map_of_problems(archive)


def map_of_problems(archive: Archive) -> str:
    return "\n".join(map(str, verify(archive).problems))


def test_what_was_played_again_in_fewer_shards_is_not_missed(archive: Archive) -> None:
    archive.save_run(record(games=24, status="complete"))
    for path in Path(archive.folder("commits", RUN_ID)).iterdir():
        path.unlink()
    Archive.open(archive.root).commit(RUN_ID, [random_block(1, pairing, 0, 12) for pairing in range(3)], PAIRINGS)
    assert verify(archive).problems == []


def test_a_deleted_annotation_is_missed(archive: Archive) -> None:
    annotate_runs(archive, [RUN_ID], AnnotationSettings(from_pieces=15, megabytes=0.1))
    assert verify(archive).problems == []
    archive.backend.remove(archive.folder("annotations", RUN_ID) / "000001.json")
    assert "1 of the 2 annotations of this run are missing: run 'qarena annotate'" in only_problem(archive)
    annotate_runs(archive, [RUN_ID], AnnotationSettings(from_pieces=15, megabytes=0.1))
    assert verify(archive).problems == []


@pytest.mark.parametrize("lost", [0, 1])
def test_a_job_that_is_missing_between_others_is_missed(archive: Archive, lost: int) -> None:
    for job in (0, 1, 2):
        archive.save_sweep_job(SweepJob("s", job))
    path = archive.root / "sweeps" / "s" / f"{lost}.json"
    Path(path).unlink()
    assert only_problem(archive).startswith(f"{path}: missing: the sweep was killed before this job ended, or")


def test_a_changed_bit_in_the_command_is_found(archive: Archive) -> None:
    path = archive.root / "runs" / f"{RUN_ID}.json"
    Path(path).write_bytes(Path(path).read_bytes().replace(b"qarena run", b"qarena sun"))
    assert "is damaged (its checksum is not that of its content" in only_problem(archive)


# Tables.


@pytest.mark.parametrize(
    ("table", "change", "complaint"),
    [
        ("plies", lambda frame: frame.head(-1), "plies"),
        ("plies", lambda frame: frame.reverse(), "not 0 to plies - 1"),
        ("plies", lambda frame: frame.sort("game_id", "ply"), "not 0 to plies - 1"),
        ("plies", lambda frame: frame.with_columns(pl.col("ply").cast(pl.Int32)), "has columns"),
        ("plies", lambda frame: frame.drop("outcome"), "has columns"),
        ("plies", lambda frame: frame.with_columns(pl.lit(None, pl.Int8).alias("cell")), "holds nulls"),
        ("games", lambda frame: frame.head(-1), "not, in order, those of the commit's slices"),
        ("games", lambda frame: pl.concat([frame, frame.tail(1)]), "not, in order, those of the commit's slices"),
        ("games", lambda frame: frame.reverse(), "not, in order, those of the commit's slices"),
        (
            "games",
            lambda frame: frame.with_columns(pl.col("game_id") + 2),
            "not, in order, those of the commit's slices",
        ),
        ("games", lambda frame: frame.with_columns(pl.col("pair_id") + 1), "pair_id or pairing does not follow"),
        ("games", lambda frame: frame.with_columns(pl.col("pairing") + 1), "pair_id or pairing does not follow"),
        ("games", lambda frame: frame.with_columns(agent_0="agent_1", agent_1="agent_0"), "are not those of pairing 0"),
        ("games", lambda frame: frame.with_columns(pl.lit(17, pl.Int8).alias("plies")), "plies is not 0 to 16"),
        ("games", lambda frame: frame.with_columns(pl.lit(-2, pl.Int8).alias("winner")), "winner not -1, 0 or 1"),
    ],
)
def test_tables_that_are_not_the_commits_are_found(
    archive: Archive, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], complaint: str
) -> None:
    path = rewrite(archive, table, change)
    problems = [str(problem) for problem in verify(archive).problems]
    assert any(problem.startswith(str(path)) and complaint in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("column", "row", "value", "complaint"),
    [
        ("seat", 5, 0, "game 5: the column seat is not (ply + 1) % 2"),
        ("pairing", 3, 2, "game 3: the column pairing of 'plies' is not that of the game"),
        ("piece", 7, 16, "game 7: a piece is out of range"),
        ("piece", 7, -1, "game 7: a piece is out of range"),
        ("cell", 2, 16, "game 2: a cell is out of range"),
        ("cell", 2, -1, "game 2: a cell is out of range"),
        ("game_id", 1, 0, "game 1: its plies in 'plies' are not 0 to plies - 1"),
        ("ply", 4, 1, "game 4: its plies in 'plies' are not 0 to plies - 1"),
    ],
)
def test_a_wrong_value_names_its_game(archive: Archive, column: str, row: int, value: int, complaint: str) -> None:
    path = rewrite(archive, "plies", changed(column, row, value))
    assert f"{path}: {complaint}" in only_problem(archive)


def test_every_changed_outcome_is_found(archive: Archive) -> None:
    path = rewrite(archive, "plies", lambda frame: frame.with_columns((pl.col("outcome") + 1).alias("outcome")))
    problems = [str(problem) for problem in verify(archive).problems]
    assert problems[0].startswith(f"{path}: game 0: the column outcome contradicts the winner")
    assert len(problems) == NAMED_GAMES + 1
    assert "more games that are wrong" in problems[-1]


# Games.


def complete_game(ending: int, seed: int = 0) -> Game:
    """A random game that ended in this way, with at least eight plies."""
    dice = random.Random(seed)
    while True:
        game = random_game(dice, forfeits=0.3)
        if game["ending"] == ending and len(game["plies"]) >= 8:
            return game


def cheat(how: int, **change: Any) -> Block:
    """Two sound games and, between them, at place 1, one that lies."""
    sound = complete_game(0, seed=1)
    game = complete_game(how)
    return block_of([sound, game | change, sound, sound])


def with_plies(how: int, change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]) -> Block:
    return cheat(how, plies=change(list(complete_game(how)["plies"])))


WON = complete_game(0)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (
            with_plies(0, lambda plies: [plies[0], (plies[0][0], plies[1][1]), *plies[2:]]),
            "a piece is out of range or was",
        ),
        (
            with_plies(0, lambda plies: [plies[0], (plies[1][0], plies[0][1]), *plies[2:]]),
            "a cell is out of range or is not",
        ),
        (with_plies(0, lambda plies: plies[:-1]), "ends by 'line' and its last ply finishes none"),
        (cheat(0, winner=1 - WON["winner"]), "its winner is not the seat that finished the line"),
        (cheat(0, winner=-1), "its winner is not the seat that finished the line"),
        (cheat(0, ending=2), "it has a finished line and another ending"),
        (cheat(0, ending=1, winner=-1), "it has a finished line and another ending"),
        (with_plies(1, lambda plies: plies[:-1]), "it ends by 'full_board' before the board is full"),
        (cheat(1, winner=0), "it ends by 'full_board' before the board is full, or has a winner"),
        (cheat(1, ending=0, winner=0), "ends by 'line' and its last ply finishes none"),
        (cheat(1, ending=3, winner=0), "it is a forfeit without a winner or on a full board"),
        (cheat(2, winner=-1), "it is a forfeit without a winner or on a full board"),
    ],
)
def test_a_game_that_breaks_the_rules_is_named(archive: Archive, block: Block, complaint: str) -> None:
    archive.commit(RUN_ID, [block._replace(first_pair=50)], PAIRINGS)
    path = archive.committed_files("plies")[2]
    problem = only_problem(archive)
    assert problem.startswith(f"{path}: game 101: ")
    assert complaint in problem


def test_a_game_that_goes_on_after_a_line_is_named(archive: Archive) -> None:
    pieces, cells = zip(*WON["plies"], strict=True)
    more = (min(set(range(16)) - set(pieces)), min(set(range(16)) - set(cells)))
    archive.commit(RUN_ID, [cheat(0, plies=[*WON["plies"], more])._replace(first_pair=50)], PAIRINGS)
    assert "game 101: it has plies after a finished line" in only_problem(archive)


# Openings.


def with_openings(archive: Archive, plies: int, blocks: list[Block]) -> None:
    """Another run, which imposes so many plies."""
    run = record(spec_of(opening_plies=plies))
    archive.save_run(run)
    archive.commit(run.run_id, blocks, PAIRINGS)


PAIRS = [complete_game(0, seed) for seed in (1, 1, 2, 2, 3, 3)]  # games that share all plies share the first ones


def test_pairs_with_the_same_opening_are_sound(archive: Archive) -> None:
    with_openings(archive, 4, [block_of(PAIRS, 0, 5, 4), block_of(PAIRS[2:], 1, 6, 4), block_of(PAIRS[:2], 2, 9, 4)])
    assert not verify(archive).problems


@pytest.mark.parametrize(
    ("blocks", "complaint"),
    [
        ([block_of(PAIRS, 0, 5, 3)], "/games/.* game 10: its opening is of 3 plies, the run's of 4 .one of 6 such"),
        ([block_of(PAIRS, 0, 5, 0)], "/games/.* game 10: its opening is of 0 plies, the run's of 4"),
        (
            [block_of([*PAIRS[:3], PAIRS[0]], 0, 5, 4)],
            "/plies/.* game 13: its first 4 plies are not those of the other game of its pair",
        ),
        (
            [block_of(PAIRS, 0, 5, 4), block_of([*PAIRS[2:4], *PAIRS[:2]], 2, 6, 4)],
            f"/plies/.* game {2 * 2**32 + 14}: its first 4 plies are not those of pair 7 of pairing 0",
        ),
    ],
)
def test_an_opening_that_is_not_the_one_imposed_is_named(archive: Archive, blocks: list[Block], complaint: str) -> None:
    with_openings(archive, 4, blocks)
    assert re.search(complaint, only_problem(archive))


def test_an_opening_longer_than_the_game_is_named(archive: Archive) -> None:
    game = complete_game(0)
    length = len(game["plies"])
    with_openings(archive, length, [block_of([game] * 4, opening=length)])
    assert not verify(archive).problems
    with_openings(archive, length + 1, [block_of([game] * 4, opening=length + 1)])
    problems = [str(problem) for problem in verify(archive).problems]
    assert len(problems) == 4
    assert all("its opening is longer than the game" in problem for problem in problems)
