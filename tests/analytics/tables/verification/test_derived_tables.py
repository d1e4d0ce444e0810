"""What follows from games is compared with them: exact values that the rules decide, positions, first plies."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest

from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.decisions import GIFT, PLACEMENT
from analytics.tables.derived.exact_values import UNKNOWN
from analytics.tables.derived.indexing import index_runs
from analytics.tables.verification.archive import verify_archive
from analytics.tables.verification.game_faults import LATE_PIECES, compute_decided_and_late_values
from quarto.batch import FULL_BOARD, LINE, Games
from quarto.rules import CLASSIC, Rules
from tests.analytics.folders import read_contents
from tests.analytics.naive_games import (
    RUN_ID,
    has_line,
    pack_games,
    random_game,
)
from tests.analytics.tables.verification.damage import (
    changed,
    complete_game,
    one_pairing,
    only_problem,
    rewrite,
    rewritten,
)

Change = Callable[[pl.DataFrame], pl.DataFrame]


def with_values(archive: ArchiveStore) -> ArchiveStore:
    annotate_runs(archive, [RUN_ID], AnnotationOptions(from_pieces=15, megabytes=0.1))
    return archive


def test_exact_values_that_are_gone_are_missed(archive: ArchiveStore) -> None:
    verification = verify_archive(with_values(archive))
    assert (verification.problems, verification.decisions > 0) == ([], True)
    lost = archive.list_effective_ranges(RUN_ID, "decisions")[0]
    archive.backend.remove(archive.folder("decisions", RUN_ID) / lost.name)
    remedy = "which were there: restore the files from a copy, or run 'qarena annotate' again"
    assert only_problem(archive).endswith(f"lacks {lost.units} of 24 units, {remedy}")
    with_values(archive)
    assert verify_archive(archive).problems == []


def test_sums_that_are_not_those_of_the_games_are_found(archive: ArchiveStore) -> None:
    index_runs(archive, [RUN_ID], 3)
    changes: tuple[Change, ...] = (
        lambda frame: frame.head(-1),
        lambda frame: frame.reverse(),
        changed("games", 0, 99),
        changed("wins", 1, 7),
        lambda frame: frame.with_columns(pl.col("games").cast(pl.Int32)),
    )
    for change in changes:
        with rewritten(archive, "positions", change) as one, rewritten(archive, "first_plies", change) as other:
            problems = verify_archive(archive).problems
            assert {problem.file for problem in problems} == {one, other}
            assert all("remove it and run 'qarena archive index'" in problem.fault for problem in problems)
            assert len(problems) == 2
    with rewritten(archive, "positions", lambda frame: frame, extent="04") as path:  # fewer plies than its name says
        assert only_problem(archive).startswith(f"{path}: its rows are not what its games give")
    assert verify_archive(archive).problems == []


def solved(archive: ArchiveStore) -> str:
    """Write a run of drawn games with their exact values."""
    run_id = one_pairing(archive, [pack_games([complete_game(1, seed) for seed in range(4)])])
    annotate_runs(archive, [run_id], AnnotationOptions(from_pieces=14, megabytes=0.1))
    return run_id


def test_exact_values_that_cannot_be_are_found(archive: ArchiveStore) -> None:
    run_id, order = solved(archive), "are not, in order, the decisions of its games"
    changes: tuple[tuple[Change, str], ...] = (
        (lambda frame: frame.head(-1), order),
        (lambda frame: frame.reverse(), order),
        (changed("seat", 2, 1), order),
        (changed("legal", 2, 3), order),
        (changed("value_before", 0, 2), "a value is not -1, 0 or 1"),
        (changed("saving", 0, 1), "saving is not between 1 and legal, or not -1 where choices are not counted"),
    )
    for change, complaint in changes:
        with rewritten(archive, "decisions", change, run_id) as path:
            assert any(
                complaint in problem.fault for problem in verify_archive(archive).problems if problem.file == path
            )


def test_a_derived_file_whose_name_lies_is_found(archive: ArchiveStore) -> None:
    index_runs(with_values(archive), [RUN_ID], 3)
    lies: tuple[tuple[dict[str, Any], str], ...] = (
        ({"extent": "zz"}, "has such a name: remove it"),
        ({"fingerprint": 5}, "belongs to games that are not in the"),
    )
    for name, complaint in lies:
        with ExitStack() as stack:
            paths = {
                stack.enter_context(rewritten(archive, table, lambda frame: frame, **name))
                for table in ("positions", "first_plies", "decisions")
            }
            assert {problem.file for problem in verify_archive(archive).problems if complaint in problem.fault} >= paths


OWN_PIECE = replace(CLASSIC, name="own_piece", chooser="mover")
RULES = {rules.name: rules for rules in (CLASSIC, Rules("square", squares="plain"), OWN_PIECE)}


@pytest.fixture
def empty(tmp_path: Path) -> ArchiveStore:
    return ArchiveStore.open(tmp_path / "archive", create=True)


@cache
def annotated_once(rules: Rules, choices: bool) -> tuple[str, dict[PurePosixPath, bytes]]:
    """Return the run that ``annotated`` puts into an archive, and its files."""
    with TemporaryDirectory() as folder:
        archive = ArchiveStore.open(Path(folder) / "archive", create=True)
        run_id = _annotated(archive, rules, choices)
        files = read_contents(archive)
        return run_id, {PurePosixPath(archive.relative_name(path)): content for path, content in files.items()}


def annotated(archive: ArchiveStore, rules: Rules = CLASSIC, choices: bool = False) -> str:
    """Write a run of finished and forfeited games with exact values of their last plies, which are computed once."""
    run_id, files = annotated_once(rules, choices)
    for name, content in files.items():
        archive.backend.replace(archive.root / name, content)
    return run_id


def _annotated(archive: ArchiveStore, rules: Rules, choices: bool) -> str:
    dice = random.Random(3)
    games = [random_game(dice, rules, 0.2) for _ in range(40)]
    drawn = (game for game in iter(lambda: random_game(dice, rules, 0), None) if game["ending"] == FULL_BOARD)
    run_id = one_pairing(archive, [pack_games([*games, next(drawn), next(drawn)])], rules=rules)
    annotate_runs(archive, [run_id], AnnotationOptions(choices=choices, from_pieces=8, megabytes=1.0))
    return run_id


def put(column: str, value: int, where: pl.Expr) -> Change:
    return lambda frame: frame.with_columns(
        pl.when(where).then(value).otherwise(pl.col(column)).cast(frame.schema[column]).alias(column)
    )


def other_before(where: pl.Expr) -> Change:
    """Return the change of the value before some decisions: to a draw, or from a draw to a win."""
    before = pl.col("value_before")
    return lambda frame: frame.with_columns(
        pl.when(where).then(1 - before.abs()).otherwise(before).cast(pl.Int8).alias("value_before")
    )


def mirrored(frame: pl.DataFrame) -> pl.DataFrame:
    """Negate all values: they fit together, except for their order."""
    before, after = (pl.col(f"value_{name}") for name in ("before", "after"))
    return frame.with_columns(value_before=-before, value_after=-after)


last = pl.col("ply") == pl.col("ply").max().over("game_id")


WRONG: dict[str, Change] = {
    "nothing but draws": lambda frame: frame.with_columns(
        value_before=pl.lit(0, pl.Int8), value_after=pl.lit(0, pl.Int8)
    ),
    "mirrored": mirrored,
    "a won end": put("value_after", 0, last & (pl.col("kind") == PLACEMENT) & (pl.col("value_after") == 1)),
    "a win at once": put("value_before", 0, last & (pl.col("kind") == PLACEMENT) & (pl.col("value_before") == 1)),
    "a full board": put(
        "value_after", 1, (pl.col("ply") == 15) & (pl.col("kind") == PLACEMENT) & (pl.col("value_after") == 0)
    ),
}


@pytest.mark.parametrize("rules", RULES)
def test_values_that_contradict_the_rules_are_found(empty: ArchiveStore, rules: str) -> None:
    run_id = annotated(empty, RULES[rules])
    verification = verify_archive(empty)
    assert (verification.problems, verification.decisions > 100) == ([], True)
    for name, change in WRONG.items():
        with rewritten(empty, "decisions", change, run_id) as path:
            faults = [problem.fault for problem in verify_archive(empty).problems if problem.file == path]
            assert any(", and in truth " in fault and "run 'qarena annotate'" in fault for fault in faults), name


def test_a_value_of_a_late_position_is_solved_again(empty: ArchiveStore) -> None:
    """Change one value so that those before and after it fit: only solving tells."""
    run_id = one_pairing(empty, [pack_games([complete_game(1, seed) for seed in range(4)])])
    annotate_runs(empty, [run_id], AnnotationOptions(from_pieces=8, megabytes=1.0))
    for ply, kind in ((LATE_PIECES, GIFT), (LATE_PIECES, PLACEMENT), (12, GIFT), (14, PLACEMENT)):
        here = (pl.col("ply") == ply) & (pl.col("kind") == kind)
        with rewritten(empty, "decisions", other_before(here), run_id):
            assert any(f"at ply {ply}, and in truth" in problem.fault for problem in verify_archive(empty).problems)


def test_choices_that_were_counted_wrong_are_found(empty: ArchiveStore) -> None:
    run_id = annotated(empty, choices=True)
    assert verify_archive(empty).problems == []
    wrong = put("saving", 1, (pl.col("ply") >= LATE_PIECES) & (pl.col("saving") > 1))
    path = rewrite(empty, "decisions", wrong, run_id=run_id)
    problems = [str(problem) for problem in verify_archive(empty).problems if problem.file == path]
    assert any("saving is 1 at ply 1" in problem_text for problem_text in problems)


def test_values_that_do_not_fit_together_are_found_where_the_mover_chooses(empty: ArchiveStore) -> None:
    run_id = annotated(empty, OWN_PIECE)
    rewrite(empty, "decisions", other_before(pl.col("ply") == LATE_PIECES - 1), run_id=run_id)
    assert any("do not fit together" in problem.fault for problem in verify_archive(empty).problems)


@pytest.mark.parametrize("rules", RULES)
def test_what_is_known_is_what_the_solver_says_and_a_naive_look_at_the_board(rules: str) -> None:
    """Compare with a twin: every win at once, every board on which each gift loses at once, every end."""
    of, dice = RULES[rules], random.Random(11)
    games = [random_game(dice, of, 0) for _ in range(30)]
    block = pack_games(games, swapped=False).games
    packed = Games(np.clip(block.pieces, 0, 15), np.clip(block.cells, 0, 15), *block[2:])
    values = compute_decided_and_late_values(packed, np.zeros(len(games), np.int8), False, of)
    for number, game in enumerate(games):
        board: dict[int, int] = {}
        for ply, (piece, cell) in enumerate(game["plies"]):
            available = [other_piece for other_piece in range(16) if other_piece not in board.values()]
            wins = {
                other_piece
                for other_piece in available
                for at in range(16)
                if at not in board and has_line({**board, at: other_piece}, of)
            }
            if ply < LATE_PIECES and of.mover_chooses:
                assert values.placement[ply, number] == (1 if wins else UNKNOWN)
            elif ply < LATE_PIECES:
                assert values.placement[ply, number] == (1 if piece in wins else UNKNOWN)
                assert values.gift[ply, number] == (-1 if wins == {*available} else UNKNOWN)
            board[cell] = piece
        assert values.end[number] == (game["ending"] == LINE)
