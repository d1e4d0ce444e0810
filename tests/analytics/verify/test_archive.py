"""Each damage that can be done to an archive is named, and a sound archive has none."""

import io
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

import polars as pl
import pytest

from analytics.derived_tables.indexing import index_runs
from analytics.perfect.annotate import AnnotationSettings, annotate_runs
from analytics.store.archive import Archive
from analytics.store.range_files import store_games
from analytics.store.range_names import StoredRange, check_of
from analytics.store.records import SweepJob
from analytics.verify.archive import Verification, verify
from analytics.verify.games import NAMED_GAMES
from quarto.batch import Block
from quarto.rules import CLASSIC, Rules
from tests.analytics.naive_games import (
    BLOCKS,
    PAIRINGS,
    RUN_ID,
    Game,
    block_of,
    cut,
    naive_rows,
    random_block,
    random_game,
    record,
    single_games,
    spec_of,
    store,
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


def forged(archive: Archive, table: str, content: bytes, number: int = 0, **name: Any) -> Path:
    """Put another content in the place of a file that counts, under a name with its check, or with other parts."""
    known = archive.ranges(RUN_ID, table)[number]
    archive.backend.remove(archive.folder(table, RUN_ID) / known.name)
    path = archive.folder(table, RUN_ID) / known._replace(check=check_of(content), **name).name
    archive.put(path, content)
    return Path(path)


def rewrite(
    archive: Archive, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], number: int = 0, **name: Any
) -> Path:
    """Change the rows of a file, so that only the rows themselves can tell."""
    path = archive.folder(table, RUN_ID) / archive.ranges(RUN_ID, table)[number].name
    buffer = io.BytesIO()
    change(pl.read_parquet(archive.backend.read(path))).write_parquet(buffer)
    return forged(archive, table, buffer.getvalue(), number, **name)


def file_of(archive: Archive, table: str, number: int = 0) -> PurePath:
    return archive.path(table, RUN_ID, archive.ranges(RUN_ID)[number])


def one_pairing(archive: Archive, blocks: Sequence[Block], **spec: Any) -> str:
    """A run of one pairing with these games, from pair 0 on."""
    run = record(spec_of(pairings=PAIRINGS[:1], **spec))
    archive.save_run(run)
    pairs = sum(block.pairs for block in blocks)
    store_games(archive, run.run_id, run.line, PAIRINGS[:1], (0, pairs), blocks)
    return run.run_id


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
    games, plies = naive_rows(BLOCKS, PAIRINGS)
    assert verify(archive) == Verification(runs=1, ranges=2, games=len(games), plies=len(plies), problems=[])


def test_an_empty_archive_has_no_problems(tmp_path: Path) -> None:
    assert verify(Archive.open(tmp_path / "a", create=True)) == Verification()


@pytest.mark.parametrize("rules", [*VARIANTS, DIAGONAL], ids=lambda rules: rules.name)
def test_games_are_judged_by_the_rules_of_their_run(tmp_path: Path, rules: Rules) -> None:
    archive = Archive.open(tmp_path / "archive", create=True)
    run = record(spec_of(rules))
    archive.save_run(run)
    store(archive, run.run_id, [random_block(3, pairing, pairs=20, rules=rules) for pairing in range(3)], most=64)
    assert not verify(archive).problems
    archive.save_run(record(spec_of(DIAGONAL if rules != DIAGONAL else CLASSIC), run_id=run.run_id))
    assert archive.folder("plies", run.run_id) in {problem.file.parent for problem in verify(archive).problems}


def test_games_without_twins_and_imported_ones_are_checked_by_their_own_numbers(tmp_path: Path) -> None:
    archive = Archive.open(tmp_path / "a", create=True)
    fixed = record(spec_of(seats="fixed"))
    imported = record(spec_of(seats="fixed", imported={"event": "cup", "date": "2026"}), units=12)
    for run, blocks in (
        (fixed, [single_games(1, pairing, 0, 4) for pairing in range(3)]),
        (imported, [single_games(1, 0, 0, 4), single_games(1, 1, 4, 6), single_games(1, 2, 10, 2)]),
    ):
        archive.save_run(run)
        store_games(archive, run.run_id, run.line, PAIRINGS, (0, 12), blocks)
    assert verify(archive).problems == []
    for table in ("games", "plies"):
        shutil.rmtree(archive.folder(table, fixed.run_id))
        shutil.copytree(archive.folder(table, imported.run_id), archive.folder(table, fixed.run_id))
    assert any("are not, in order, those of its units" in str(each) for each in verify(archive).problems)


# Files.


@BOTH
@pytest.mark.parametrize("table", ["games", "plies", "tallies"])
@pytest.mark.parametrize("at", [0, 0.3, 0.6, 0.99])
def test_any_changed_byte_is_found(archive: Archive, table: str, at: float) -> None:
    path = file_of(archive, table)
    content = bytearray(archive.backend.read(path))
    content[int(at * len(content))] ^= 1
    archive.backend.replace(path, bytes(content))
    assert only_problem(archive).startswith(f"{path}: has other bytes than its name says")


@pytest.mark.parametrize("keep", [0, 3, 500])
@BOTH
def test_a_truncated_file_is_found(archive: Archive, keep: int) -> None:
    path = file_of(archive, "plies", 1)
    archive.backend.replace(path, archive.backend.read(path)[:keep])
    assert only_problem(archive).startswith(f"{path}: has other bytes than its name says")


@BOTH
def test_lost_plies_are_found(archive: Archive) -> None:
    path = file_of(archive, "plies", 1)
    archive.backend.remove(path)
    games = archive.ranges(RUN_ID)[1].games
    assert only_problem(archive).startswith(f"{path.parent / games}.*.parquet: missing: restore it from a copy, or")
    assert verify(archive).games == 32


@pytest.mark.parametrize("table", ["games", "plies", "tallies"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", b"PAR1" * 9], ids=repr)
def test_a_file_that_is_not_parquet_is_found_even_with_a_forged_check(
    archive: Archive, table: str, content: bytes
) -> None:
    path = forged(archive, table, content)
    assert only_problem(archive).startswith(f"{path}: is not a readable Parquet file")
    assert verify(archive).games == (48 if table == "tallies" else 16)


# Names.


@BOTH
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ({"fingerprint": 5}, "its games have the fingerprint "),
        ({"end": 17}, "its 32 games are of 16 units, its name says 17"),
        ({"first": 1}, "row 0: the games are not, in order, those of its units"),
        ({"first": 32, "end": 48}, "row 0: the games are not, in order, those of its units"),
        ({"end": 64}, "its 32 games are of 16 units, its name says 64"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_name_that_lies_is_found(archive: Archive, name: dict[str, Any], complaint: str) -> None:
    """Of all tables, so that nothing but the rows can tell."""
    known = archive.ranges(RUN_ID)[0]
    for table in ("plies", "tallies", "games"):
        path = archive.path(table, RUN_ID, known)
        content = archive.backend.read(path)
        archive.backend.remove(path)
        renamed = archive.folder(table, RUN_ID) / known._replace(check=check_of(content), **name).name
        archive.put(renamed, content)
    assert f"{renamed}: {complaint}" in map_of_problems(archive).replace("game 0: ", "")


def other_games(archive: Archive, span: tuple[int, int], seed: int = 2) -> StoredRange:
    """Store other games of some units than those that are there."""
    blocks = [random_block(seed, pairing, 0, 22) for pairing in range(3)]
    line = record().line
    mine = [part for block in blocks if (part := cut(block, line, span)).pairs]
    return store_games(archive, RUN_ID, line, PAIRINGS, span, mine)


@BOTH
@pytest.mark.parametrize(
    ("span", "units"),
    [
        ((0, 16), (0, 15)),  # the same range
        ((4, 8), (4, 7)),  # a part of one
        ((16, 17), (16, 16)),
        ((0, 24), None),  # of two
        ((12, 20), None),  # of a run of another length: some units of both
    ],
    ids=str,
)
def test_files_that_contradict_each_other_are_found(
    archive: Archive, span: tuple[int, int], units: tuple[int, int] | None
) -> None:
    before = [*archive.ranges(RUN_ID)]
    other = other_games(archive, span)
    ignored = [each for each in [*before, other] if each not in archive.ranges(RUN_ID)]
    problems = [str(problem) for problem in verify(archive).problems]
    assert len(problems) >= len(ignored) > 0
    for each in ignored:
        assert any(problem.startswith(str(archive.folder("games", RUN_ID) / each.name)) for problem in problems)
    assert all("holds other games of units " in problem for problem in problems)
    if units:
        assert f"holds other games of units {units[0]} to {units[1]} than " in problems[0]


def test_files_of_the_same_games_do_not_contradict_each_other(archive: Archive) -> None:
    line = record().line
    for span in ((0, 8), (4, 8), (16, 17), (10, 20)):
        mine = [part for block in BLOCKS if (part := cut(block, line, span)).pairs]
        store_games(archive, RUN_ID, line, PAIRINGS, span, mine)
    assert len(archive.found("games", RUN_ID)) == 6
    assert verify(archive).problems == []
    path = archive.folder("games", RUN_ID) / next(e.name for e in archive.found("games", RUN_ID) if e.first == 10)
    archive.backend.replace(path, b"x")  # it must be read: it overlaps two
    assert only_problem(archive).startswith(f"{path}: cannot be compared with the games that count")


# Records.


@pytest.mark.parametrize("content", [None, b"{"])
@BOTH
def test_a_lost_or_damaged_run_record_is_found(archive: Archive, content: bytes | None) -> None:
    path = archive.root / "runs" / f"{RUN_ID}.json"
    archive.backend.remove(path)
    if content:
        archive.backend.replace(path, content)
    assert str(path) in only_problem(archive)


@pytest.mark.parametrize("played", [True, False])
@pytest.mark.parametrize("change", [{"seed": 8}, {"salt": "x"}, {"agents": DEEPER}], ids=["seed", "salt", "agents"])
def test_a_run_record_that_was_edited_is_found(archive: Archive, change: dict[str, Any], played: bool) -> None:
    if not played:
        shutil.rmtree(archive.root / "games")
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


def test_wrong_tallies_are_found(archive: Archive) -> None:
    path = rewrite(archive, "tallies", changed("plies", 1, 7), 1)
    assert only_problem(archive) == (
        f"{path}: its tallies are not those of the games of its range: remove it, it follows from the games"
    )


@pytest.mark.parametrize("spans", [[(0, 24)], [(0, 4), (4, 16)]], ids=["rolled up", "finer"])
def test_wrong_tallies_of_other_ranges_than_the_games_are_found(archive: Archive, spans: list[tuple[int, int]]) -> None:
    line, folder = record().line, archive.folder("tallies", RUN_ID)
    games = {each.name for each in archive.ranges(RUN_ID)}
    for span in spans:
        mine = [part for block in BLOCKS if (part := cut(block, line, span)).pairs]
        store_games(archive, RUN_ID, line, PAIRINGS, span, mine)
    for each in archive.found("games", RUN_ID):
        if each.name not in games:
            archive.backend.remove(archive.folder("games", RUN_ID) / each.name)
    for each in archive.found("tallies", RUN_ID):
        if each[:2] in ((0, 16), (16, 24)) and each[:2] not in spans and (each.first == 0 or len(spans) == 1):
            archive.backend.remove(folder / each.name)
    assert {each[:2] for each in archive.ranges(RUN_ID, "tallies")} == {
        *spans,
        *([] if spans == [(0, 24)] else [(16, 24)]),
    }
    assert [each[:2] for each in archive.ranges(RUN_ID)] == [(0, 16), (16, 24)]
    assert verify(archive).problems == []
    path = rewrite(archive, "tallies", changed("plies", 0, 7))
    assert only_problem(archive).startswith(f"{path}: its tallies are not those")


def test_tallies_that_are_lost_are_no_problem(archive: Archive) -> None:
    shutil.rmtree(archive.root / "tallies")
    assert verify(archive).problems == []


# What is gone.


@BOTH
def test_games_that_are_gone_are_missed_also_if_they_were_the_last(archive: Archive) -> None:
    archive.save_run(record(games=500))
    folder = archive.folder("games", RUN_ID)
    for number, units in ((1, "16 to 23"), (0, "0 to 23")):  # the last ones, then all
        archive.backend.remove(file_of(archive, "games", number))
        assert f"{folder}: units {units} are missing, and their games with them: restore" in map_of_problems(archive)


def map_of_problems(archive: Archive) -> str:
    return "\n".join(map(str, verify(archive).problems))


def test_what_was_played_again_in_other_parts_is_not_missed(archive: Archive) -> None:
    archive.save_run(record(games=16, status="complete"))
    for number in (1, 0):
        archive.backend.remove(file_of(archive, "games", number))
    store(archive, RUN_ID, BLOCKS, most=4)
    assert verify(archive).problems == []


def annotated(archive: Archive) -> Archive:
    annotate_runs(archive, [RUN_ID], AnnotationSettings(from_pieces=15, megabytes=0.1))
    return archive


def test_exact_values_that_are_gone_are_missed(archive: Archive) -> None:
    found = verify(annotated(archive))
    assert (found.problems, found.decisions > 0) == ([], True)
    lost = archive.ranges(RUN_ID, "decisions")[0]
    archive.backend.remove(archive.folder("decisions", RUN_ID) / lost.name)
    assert f"the exact values of {lost.units} of 24 units are missing: run 'qarena annotate'" in only_problem(archive)
    annotated(archive)
    assert verify(archive).problems == []


@pytest.mark.parametrize("lost", [0, 1])
def test_a_job_that_is_missing_between_others_is_missed(archive: Archive, lost: int) -> None:
    for job in (0, 1, 2):
        archive.save_sweep_job(SweepJob("s", job))
    path = archive.root / "sweeps" / "s" / f"{lost}.json"
    Path(path).unlink()
    assert only_problem(archive).startswith(f"{path}: missing: the sweep was killed before this job ended, or")


def test_the_last_job_of_a_sweep_that_ended_is_missed(archive: Archive) -> None:
    for job in (0, 1, 2):
        archive.save_sweep_job(SweepJob("s", job, jobs=3 if job == 0 else 0))
    assert verify(archive).problems == []
    path = archive.root / "sweeps" / "s" / "2.json"
    Path(path).unlink()
    assert only_problem(archive).startswith(f"{path}: missing: ")


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
        ("games", lambda frame: frame.head(-1), "its 31 games are of 16 units, its name says 16"),
        ("games", lambda frame: frame.head(-2), "its 30 games are of 15 units, its name says 16"),
        ("games", lambda frame: pl.concat([frame, frame.tail(1)]), "not, in order, those of its units"),
        ("games", lambda frame: frame.reverse(), "not, in order, those of its units"),
        (
            "games",
            lambda frame: frame.with_columns(pl.col("game_id") + 2),
            "not, in order, those of its units",
        ),
        ("games", lambda frame: frame.with_columns(pl.col("pair_id") + 1), "pair_id or pairing does not follow"),
        ("games", lambda frame: frame.with_columns(pl.col("pairing") + 1), "pair_id or pairing does not follow"),
        ("games", lambda frame: frame.with_columns(agent_0="agent_1", agent_1="agent_0"), "are not those of pairing 0"),
        ("games", lambda frame: frame.with_columns(pl.lit(17, pl.Int8).alias("plies")), "plies is not 0 to 16"),
        ("games", lambda frame: frame.with_columns(pl.lit(-2, pl.Int8).alias("winner")), "winner not -1, 0 or 1"),
    ],
)
def test_tables_that_are_not_of_the_range_are_found(
    archive: Archive, table: str, change: Callable[[pl.DataFrame], pl.DataFrame], complaint: str
) -> None:
    path = rewrite(archive, table, change)
    problems = [str(problem) for problem in verify(archive).problems]
    assert any(problem.startswith(str(path)) and complaint in problem for problem in problems), problems


def test_sound_games_that_are_others_than_the_name_says_are_found(archive: Archive) -> None:
    """Two games have changed places, in both tables."""
    games = rewrite(
        archive,
        "games",
        lambda frame: pl.concat([frame[2:3], frame[1:2], frame[0:1], frame[3:]]).with_columns(
            frame["game_id"], frame["pair_id"]
        ),
    )
    rewrite(
        archive,
        "plies",
        lambda frame: frame.with_columns(pl.col("game_id").replace({0: 2, 2: 0})).sort("ply", "game_id"),
    )
    assert only_problem(archive).startswith(f"{games}: its games have the fingerprint ")


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
    path = archive.folder("plies", one_pairing(archive, [block]))
    problem = only_problem(archive)
    assert problem.startswith(f"{path}/")
    assert ": game 1: " in problem
    assert complaint in problem


def test_a_game_that_goes_on_after_a_line_is_named(archive: Archive) -> None:
    pieces, cells = zip(*WON["plies"], strict=True)
    more = (min(set(range(16)) - set(pieces)), min(set(range(16)) - set(cells)))
    one_pairing(archive, [cheat(0, plies=[*WON["plies"], more])])
    assert "game 1: it has plies after a finished line" in only_problem(archive)


# Openings.


PAIRS = [complete_game(0, seed) for seed in (1, 1, 2, 2, 3, 3)]  # games that share all plies share the first ones


def with_openings(archive: Archive, plies: int, games: Sequence[Sequence[Game]], opening: int | None = None) -> None:
    """Another run, which imposes so many plies: the games of each pairing."""
    run = record(spec_of(opening_plies=plies))
    archive.save_run(run)
    of = plies if opening is None else opening
    store(archive, run.run_id, [block_of(each, pairing, 0, of) for pairing, each in enumerate(games)])


def test_pairs_with_the_same_opening_are_sound(archive: Archive) -> None:
    with_openings(archive, 4, [PAIRS] * 3)
    assert not verify(archive).problems


@pytest.mark.parametrize(
    ("games", "opening", "complaint"),
    [
        ([PAIRS] * 3, 3, "/games/.* game 0: its opening is of 3 plies, the run's of 4 .one of 16 such"),
        ([PAIRS] * 3, 0, "/games/.* game 0: its opening is of 0 plies, the run's of 4"),
        (
            [[*PAIRS[:3], PAIRS[0], *PAIRS[4:]], PAIRS, PAIRS],
            None,
            "/plies/.* game 3: its first 4 plies are not those of the other game of its pair",
        ),
        (
            [PAIRS, PAIRS, [*PAIRS[2:4], *PAIRS[2:]]],
            None,
            f"/plies/.* game {2 * 2**32}: its first 4 plies are not those of pair 0 of pairing 1",
        ),
    ],
)
def test_an_opening_that_is_not_the_one_imposed_is_named(
    archive: Archive, games: list[list[Game]], opening: int | None, complaint: str
) -> None:
    with_openings(archive, 4, games, opening)
    assert re.search(complaint, map_of_problems(archive))
    assert len(verify(archive).problems) <= 2  # a file of units 0 to 7, and one of unit 8


def test_an_opening_longer_than_the_game_is_named(archive: Archive) -> None:
    game = complete_game(0)
    length = len(game["plies"])
    with_openings(archive, length, [[game] * 4] * 3)
    assert not verify(archive).problems
    with_openings(archive, length + 1, [[game] * 4] * 3)
    problems = [str(problem) for problem in verify(archive).problems]
    assert len(problems) == 12
    assert all("its opening is longer than the game" in problem for problem in problems)


# Derived tables.


def test_a_sound_index_is_sound(archive: Archive) -> None:
    index_runs(archive, [RUN_ID], 4)
    found = verify(archive)
    assert (found.problems, found.positions > 0) == ([], True)


@pytest.mark.parametrize("table", ["positions", "first_plies"])
@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.head(-1),
        lambda frame: frame.reverse(),
        changed("games", 0, 99),
        changed("wins", 1, 7),
        lambda frame: frame.with_columns(pl.col("games").cast(pl.Int32)),
    ],
    ids=["fewer", "order", "games", "wins", "types"],
)
def test_sums_that_are_not_those_of_the_games_are_found(
    archive: Archive, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    index_runs(archive, [RUN_ID], 3)
    path = rewrite(archive, table, change)
    assert only_problem(archive).startswith(f"{path}: ")
    assert "remove it and run 'qarena archive index'" in only_problem(archive)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda frame: frame.head(-1), "are not, in order, the decisions of its games"),
        (lambda frame: frame.reverse(), "are not, in order, the decisions of its games"),
        (changed("seat", 2, 1), "are not, in order, the decisions of its games"),
        (changed("legal", 2, 3), "are not, in order, the decisions of its games"),
        (changed("value_before", 0, 2), "a value is not -1, 0 or 1"),
        (changed("saving", 0, 1), "saving is not between 1 and legal, or not -1 where choices are not counted"),
    ],
)
def test_exact_values_that_cannot_be_are_found(
    archive: Archive, change: Callable[[pl.DataFrame], pl.DataFrame], complaint: str
) -> None:
    block = block_of([complete_game(1, seed) for seed in range(8)])
    run_id = one_pairing(archive, [block])
    annotate_runs(archive, [run_id], AnnotationSettings(from_pieces=14, megabytes=0.1))
    assert verify(archive).problems == []
    (known,) = archive.ranges(run_id, "decisions")
    path, buffer = archive.folder("decisions", run_id) / known.name, io.BytesIO()
    rows = pl.read_parquet(archive.backend.read(path))
    seats = rows["seat"].to_list()
    change(rows.with_columns(seat=pl.Series([*seats[:2], seats[2], *seats[3:]], dtype=pl.Int8))).write_parquet(buffer)
    archive.backend.remove(path)
    archive.put(path.parent / known._replace(check=check_of(buffer.getvalue())).name, buffer.getvalue())
    assert any(complaint in str(problem) for problem in verify(archive).problems)


def test_values_that_do_not_fit_together_are_found(archive: Archive) -> None:
    run_id = one_pairing(archive, [block_of([complete_game(1, seed) for seed in range(8)])])
    annotate_runs(archive, [run_id], AnnotationSettings(from_pieces=14, megabytes=0.1))
    (known,) = archive.ranges(run_id, "decisions")
    path, buffer = archive.folder("decisions", run_id) / known.name, io.BytesIO()
    rows = pl.read_parquet(archive.backend.read(path))
    wrong = rows.with_columns(
        value_before=pl.lit(1, pl.Int8), value_after=pl.lit(1, pl.Int8)
    )  # each by itself may be, but what is won for the one is lost for the other
    wrong.write_parquet(buffer)
    archive.backend.remove(path)
    archive.put(path.parent / known._replace(check=check_of(buffer.getvalue())).name, buffer.getvalue())
    assert re.search(r"values at ply 1\d do not fit together", map_of_problems(archive))


@pytest.mark.parametrize("table", ["positions", "first_plies", "decisions"])
@pytest.mark.parametrize(
    ("name", "complaint"),
    [({"extent": "zz"}, "has such a name: remove it"), ({"fingerprint": 5}, "belongs to games that are not in the")],
    ids=["extent", "games"],
)
def test_a_derived_file_whose_name_lies_is_found(
    archive: Archive, table: str, name: dict[str, Any], complaint: str
) -> None:
    index_runs(annotated(archive), [RUN_ID], 3)
    path = rewrite(archive, table, lambda frame: frame, **name)
    problem = next(problem for problem in verify(archive).problems if problem.file == path)
    assert complaint in problem.what


def test_an_index_of_fewer_plies_than_its_name_says_is_found(archive: Archive) -> None:
    index_runs(archive, [RUN_ID], 3)
    path = rewrite(archive, "positions", lambda frame: frame, extent="04")
    assert only_problem(archive).startswith(f"{path}: its rows are not what its games give")
