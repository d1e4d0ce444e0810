"""Each wrong row is named, and each game that the rules, its number or its opening forbid."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import write_game_tables
from analytics.tables.verification.archive import verify_archive
from analytics.tables.verification.games import REPORTED_GAMES
from quarto.batch import Block
from quarto.rules import CLASSIC, Rules
from tests.analytics.naive_games import (
    PAIRINGS,
    Game,
    build_spec,
    pack_games,
    random_block,
    record,
    single_games,
    store,
)
from tests.analytics.tables.verification.damage import (
    changed,
    complete_game,
    map_of_problems,
    one_pairing,
    only_problem,
    rewrite,
    rewritten,
)

VARIANTS = [
    CLASSIC,
    Rules("square", squares="plain"),
    Rules("torus", diagonals="broken"),
    Rules("torus_square", diagonals="broken", squares="wrapped"),
    Rules("own_piece", chooser="mover"),
]
DIAGONAL = Rules("diagonal", rows_and_columns=False)


@pytest.mark.parametrize("rules", [*VARIANTS, DIAGONAL], ids=lambda rules: rules.name)
def test_games_are_judged_by_the_rules_of_their_run(tmp_path: Path, rules: Rules) -> None:
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    run = record(build_spec(rules))
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(3, pairing, pairs=20, rules=rules) for pairing in range(3)], most=64)
    assert not verify_archive(archive).problems
    archive.write_run_and_unit_count(record(build_spec(DIAGONAL if rules != DIAGONAL else CLASSIC), run_id=run.run_id))
    assert archive.folder("plies", run.run_id) in {problem.file.parent for problem in verify_archive(archive).problems}


def test_games_without_twins_and_imported_ones_are_checked_by_their_own_numbers(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "a", create=True)
    fixed = record(build_spec(seats="fixed"))
    imported = record(build_spec(seats="fixed", imported={"event": "cup", "date": "2026"}), units=12)
    for run, blocks in (
        (fixed, [single_games(1, pairing, 0, 4) for pairing in range(3)]),
        (imported, [single_games(1, 0, 0, 4), single_games(1, 1, 4, 6), single_games(1, 2, 10, 2)]),
    ):
        archive.write_run_and_unit_count(run)
        write_game_tables(archive, run.run_id, run.unit_line, PAIRINGS, (0, 12), blocks)
    assert verify_archive(archive).problems == []
    for table in ("games", "plies"):
        shutil.rmtree(archive.folder(table, fixed.run_id))
        shutil.copytree(archive.folder(table, imported.run_id), archive.folder(table, fixed.run_id))
    assert any("are not, in order, those of its units" in str(problem) for problem in verify_archive(archive).problems)


# Tables.


Change = Callable[[pl.DataFrame], pl.DataFrame]
TABLES: tuple[tuple[str, Change, str], ...] = (
    ("plies", lambda frame: frame.head(-1), "plies"),
    ("plies", lambda frame: frame.reverse(), "not 0 to plies - 1"),
    ("plies", lambda frame: frame.sort("game_id", "ply"), "not 0 to plies - 1"),
    ("plies", lambda frame: frame.with_columns(pl.col("ply").cast(pl.Int32)), "has columns"),
    ("plies", lambda frame: frame.drop("outcome"), "has columns"),
    ("plies", lambda frame: frame.with_columns(pl.lit(None, pl.Int8).alias("cell")), "holds nulls"),
    ("games", lambda frame: frame.head(-1), "it has 31 games of 16 units, its name says 16"),
    ("games", lambda frame: frame.head(-2), "it has 30 games of 15 units, its name says 16"),
    ("games", lambda frame: pl.concat([frame, frame.tail(1)]), "not, in order, those of its units"),
    ("games", lambda frame: frame.reverse(), "not, in order, those of its units"),
    ("games", lambda frame: frame.with_columns(pl.col("game_id") + 2), "not, in order, those of its units"),
    ("games", lambda frame: frame.with_columns(pl.col("pair_id") + 1), "pair_id or pairing does not follow"),
    ("games", lambda frame: frame.with_columns(pl.col("pairing") + 1), "pair_id or pairing does not follow"),
    ("games", lambda frame: frame.with_columns(agent_0="agent_1", agent_1="agent_0"), "are not those of pairing 0"),
    ("games", lambda frame: frame.with_columns(pl.lit(17, pl.Int8).alias("plies")), "plies is not 0 to 16"),
    ("games", lambda frame: frame.with_columns(pl.lit(-2, pl.Int8).alias("winner")), "winner not -1, 0 or 1"),
    # One value, which names its game.
    ("plies", changed("seat", 5, 0), "game 5: the column seat is not (ply + 1) % 2"),
    ("plies", changed("pairing", 3, 2), "game 3: the column pairing of 'plies' is not that of the game"),
    ("plies", changed("piece", 7, 16), "game 7: a piece is out of range"),
    ("plies", changed("piece", 7, -1), "game 7: a piece is out of range"),
    ("plies", changed("cell", 2, 16), "game 2: a cell is out of range"),
    ("plies", changed("cell", 2, -1), "game 2: a cell is out of range"),
    ("plies", changed("game_id", 1, 0), "game 1: its plies in 'plies' are not 0 to plies - 1"),
    ("plies", changed("ply", 4, 1), "game 4: its plies in 'plies' are not 0 to plies - 1"),
)


def test_tables_that_are_not_of_the_range_and_wrong_values_are_found(archive: ArchiveStore) -> None:
    for table, change, complaint in TABLES:
        with rewritten(archive, table, change) as path:
            problems = [str(problem) for problem in verify_archive(archive).problems]
            assert any(problem.startswith(str(path)) and complaint in problem for problem in problems), problems
            assert len(problems) == 1 or ": game" not in complaint
    assert verify_archive(archive).problems == []


def test_sound_games_that_are_others_than_the_name_says_are_found(archive: ArchiveStore) -> None:
    """Exchange two games, in both tables."""
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


def test_every_changed_outcome_is_found(archive: ArchiveStore) -> None:
    path = rewrite(archive, "plies", lambda frame: frame.with_columns((pl.col("outcome") + 1).alias("outcome")))
    problems = [str(problem) for problem in verify_archive(archive).problems]
    assert problems[0].startswith(f"{path}: game 0: the column outcome contradicts the winner")
    assert len(problems) == REPORTED_GAMES + 1
    assert "more wrong games" in problems[-1]


# Games.


def cheat(how: int, **change: Any) -> Block:
    """Build two sound games and, between them, at place 1, one that lies."""
    sound = complete_game(0, seed=1)
    game = complete_game(how)
    return pack_games([sound, game | change, sound, sound])


def with_plies(how: int, change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]) -> Block:
    return cheat(how, plies=change(list(complete_game(how)["plies"])))


WON = complete_game(0)


def goes_on() -> Block:
    pieces, cells = zip(*WON["plies"], strict=True)
    more = (min(set(range(16)) - set(pieces)), min(set(range(16)) - set(cells)))
    return cheat(0, plies=[*WON["plies"], more])


CHEATS = (
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
    (goes_on(), "it has plies after a finished line"),
)


def test_a_game_that_breaks_the_rules_is_named(tmp_path: Path) -> None:
    for number, (block, complaint) in enumerate(CHEATS):
        archive = ArchiveStore.open(tmp_path / str(number), create=True)
        path = archive.folder("plies", one_pairing(archive, [block]))
        problem = only_problem(archive)
        assert problem.startswith(f"{path}/")
        assert ": game 1: " in problem
        assert complaint in problem


# Openings.


PAIRS = [complete_game(0, seed) for seed in (1, 1, 2, 2, 3, 3)]  # games that share all plies share the first ones


def with_openings(
    archive: ArchiveStore, plies: int, games: Sequence[Sequence[Game]], opening: int | None = None
) -> None:
    """Write another run, which imposes ``plies`` plies: the games of each pairing."""
    run = record(build_spec(opening_plies=plies))
    archive.write_run_and_unit_count(run)
    of = plies if opening is None else opening
    store(
        archive,
        run.run_id,
        [pack_games(games_of_pairing, pairing, 0, of) for pairing, games_of_pairing in enumerate(games)],
    )


@pytest.mark.parametrize(
    ("games", "opening", "complaint"),
    [
        ([PAIRS] * 3, 3, "/games/.* game 0: its opening has plies: 3, the run's 4 .one of 16 such"),
        ([PAIRS] * 3, 0, "/games/.* game 0: its opening has plies: 0, the run's 4"),
        (
            [[*PAIRS[:3], PAIRS[0], *PAIRS[4:]], PAIRS, PAIRS],
            None,
            "/plies/.* game 3: its opening is not that of the other game of its pair",
        ),
        (
            [PAIRS, PAIRS, [*PAIRS[2:4], *PAIRS[2:]]],
            None,
            f"/plies/.* game {2 * 2**32}: its opening is not that of pair 0 of pairing 1",
        ),
    ],
)
def test_an_opening_that_is_not_the_one_imposed_is_named(
    archive: ArchiveStore, games: list[list[Game]], opening: int | None, complaint: str
) -> None:
    with_openings(archive, 4, games, opening)
    assert re.search(complaint, map_of_problems(archive))
    assert len(verify_archive(archive).problems) <= 2  # a file of units 0 to 7, and one of unit 8


def test_an_opening_longer_than_the_game_is_named(archive: ArchiveStore) -> None:
    game = complete_game(0)
    length = len(game["plies"])
    with_openings(archive, length, [[game] * 4] * 3)
    assert not verify_archive(archive).problems
    with_openings(archive, length + 1, [[game] * 4] * 3)
    problems = [str(problem) for problem in verify_archive(archive).problems]
    assert len(problems) == 12
    assert all("its opening is longer than the game" in problem for problem in problems)
