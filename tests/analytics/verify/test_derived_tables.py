"""What follows from games is compared with them: exact values, positions, first plies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from analytics.derived_tables.tables import index_runs
from analytics.perfect.annotate import AnnotationSettings, annotate_runs
from analytics.store.archive import Archive
from analytics.verify.archive import verify
from tests.analytics.naive_games import (
    RUN_ID,
    block_of,
)
from tests.analytics.verify.damage import (
    changed,
    complete_game,
    one_pairing,
    only_problem,
    rewrite,
)


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


def test_a_sound_index_is_sound_and_so_are_sound_values(archive: Archive) -> None:
    index_runs(archive, [RUN_ID], 4)
    solved(archive)
    found = verify(archive)
    assert (found.problems, found.positions > 0, found.decisions > 0) == ([], True, True)


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
    problem = only_problem(archive)
    assert problem.startswith(f"{path}: ")
    assert "remove it and run 'qarena archive index'" in problem


def solved(archive: Archive) -> str:
    """A run of drawn games with their exact values."""
    run_id = one_pairing(archive, [block_of([complete_game(1, seed) for seed in range(8)])])
    annotate_runs(archive, [run_id], AnnotationSettings(from_pieces=14, megabytes=0.1))
    return run_id


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
    run_id = solved(archive)
    path = rewrite(archive, "decisions", change, run_id=run_id)
    assert any(complaint in str(problem) for problem in verify(archive).problems if problem.file == path)


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
