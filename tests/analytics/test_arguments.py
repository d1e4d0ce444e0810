"""A result stands for its run, and a wrong kind of value is named in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import pytest

import quarto
import runners
from analytics import open_archive
from analytics.arguments import Run
from analytics.report.result import Result
from quarto.errors import RequestError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arguments") / "archive"


@pytest.fixture(scope="module")
def match(root: Path) -> Result:
    return runners.run("random", "dumb", games=4, archive=root, progress=False)


def test_a_result_stands_for_its_run(root: Path, match: Result) -> None:
    other = runners.run("random", "dumb", games=4, seed=2, archive=root, progress=False)
    with open_archive(root) as archive:
        assert archive.game(match, 0).frame.equals(archive.game(match.run_id, 0).frame)
        assert archive.compare(match, other).frame.equals(archive.compare(match.run_id, other.run_id).frame)
        columns: list[Iterable[Run]] = [[match, other.run_id], (match, other), pl.Series([match.run_id, other.run_id])]
        for runs in columns:
            assert archive.lengths(run=runs).frame.equals(archive.lengths().frame)
        assert archive.lengths(run=match).frame.equals(archive.lengths(run=match.run_id).frame)
        judged = runners.annotate(archive, run=match)
        assert judged.frame.equals(runners.annotate(root, run=match.run_id[:6]).frame)


def test_a_wrong_kind_of_value_is_named(root: Path, match: Result) -> None:
    archive = open_archive(root)
    annotate: Callable[..., object] = runners.annotate
    judge: Callable[..., object] = runners.judge
    solve: Callable[..., object] = quarto.solve
    opens: Callable[..., object] = open_archive
    questions: dict[str, Callable[..., object]] = {
        "compare": archive.compare,
        "game": archive.game,
        "lengths": archive.lengths,
        "ratings": archive.ratings,
    }
    refused: list[tuple[str, Callable[[], object]]] = [
        ("5 is no run: name it by its id, or pass the result", lambda: questions["game"](5, 0)),
        ("this result is about no run or about several", lambda: questions["compare"](match, archive.runs())),
        ("game_id='0' is not a whole number", lambda: questions["game"](match, "0")),
        (
            "agent=['mcts', 'random'] is no text: write one label",
            lambda: questions["ratings"](agent=["mcts", "random"]),
        ),
        ("where=5 is no text: write a condition in SQL", lambda: questions["lengths"](where=5)),
        ("5 is no run", lambda: questions["lengths"](run=5)),
        (f"an archive: name a run as run='{match.run_id}'", lambda: annotate(match)),
        (f"an archive: name a run as run='{match.run_id}'", lambda: annotate(match.run_id)),
        ("5 is no archive: name its folder or its URL", lambda: annotate(5)),
        ("<Archive> is no archive: name its folder", lambda: opens(archive)),
        ("<Result> is no label: labels are texts", lambda: judge(match, archive=root)),
        ("5 is no position: write its text, such as '0.6F/", lambda: solve(5)),
    ]
    for message, call in refused:
        with pytest.raises(RequestError, match=re.escape(message)) as error:
            call()
        assert "\n" not in str(error.value)
