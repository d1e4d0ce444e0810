"""`qarena report` and the charts of `qarena mistakes`, from the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.ratings.ratings import rate
from analytics.report.figures import strength
from analytics.report.figures.lengths import lengths_frame
from analytics.report.figures.reported_games import reported_games
from tests.analytics.chosen_games import RUNS, add_decisions, write_archive
from tests.analytics.folders import snapshot
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

ONE = RUNS[0].record.run_id
ANOTHER = RUNS[2].record.run_id


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bootstrap takes longer than all the rest."""
    monkeypatch.setattr(strength, "rate", partial(rate, samples=10))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    archive = write_archive(tmp_path / "archive")
    add_decisions(archive)
    return Path(archive.root)


def test_the_page_is_written_and_what_it_is_about_is_said(qarena: Qarena, root: Path, tmp_path: Path) -> None:
    before = snapshot(root)
    typed = ("--archive", "archive", "--run", ONE, "--where", "winner = 1", "--title", "Seat 1", "--output", "one.html")
    found = qarena("report", *typed)
    page = (tmp_path / "one.html").read_bytes()
    assert (found.code, found.err) == (0, "")
    assert found.out == f"one.html: {len(page):,} bytes; open it in a browser.\n"
    assert b"<h1>Seat 1</h1>" in page
    assert f"(run_id IN (&#39;{ONE}&#39;)) AND (winner = 1)".encode() in page
    assert ANOTHER.encode() not in page
    assert snapshot(root) == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--where", "agent_0 = 'nobody'"), "has no game with where=\"agent_0 = 'nobody'\""),
        (("--run", ONE, "--where", "true) OR (true"), "is not a condition on games: SQL: syntax error at or near"),
        (("--run", f"x{ONE[1:]}"), f"did you mean '{ONE}'"),
        (("--run", ONE, "--where", f"run_id = '{ANOTHER}'"), "has no game with"),
        (("--archive", "nowhere"), "there is no archive at"),
    ],
)
def test_a_wrong_request_is_one_line_and_writes_nothing(
    qarena: Qarena, root: Path, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    before = snapshot(tmp_path)
    found = qarena("report", "--archive", str(root), *arguments)
    assert complaint in found.refusal
    assert snapshot(tmp_path) == before


def test_a_file_that_cannot_be_written_is_a_failure(
    qarena: Qarena, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = ("--archive", str(root), "--run", ANOTHER)
    monkeypatch.setattr("runners.archive.report.report", lambda *_: "page")
    for path, code, complaint in (
        ("nowhere/r.html", 2, "nowhere/r.html has no folder: name a file in a folder that exists"),
        (str(tmp_path), 2, f"{tmp_path} is a folder: name a file"),
        ("/dev/full", 1, "cannot write /dev/full: No space left on device"),
    ):
        found = qarena("report", *only, "--output", path)
        assert (found.code, found.out, found.err) == (code, "", f"error: {complaint}\n")


def games_at_random(root: Path, games: int) -> float:
    """The sum of squares by which the lengths of random games differ from exact random play: chi square of 12."""
    play(root, "agent@a=random", "agent@b=random", f"games={games}", "b.name=another", "threads=2")
    with open_archive(root) as opened:
        rows = lengths_frame(reported_games(opened)).filter(agent="random")
    assert rows["games"].sum() == games
    chances: list[tuple[int, float]] = rows.select("games", "random").rows()
    return sum((found - games * chance) ** 2 / (games * chance) for found, chance in chances)


def test_random_games_are_as_long_as_exact_random_play(tmp_path: Path) -> None:
    assert games_at_random(tmp_path / "random", 20_000) < 40  # one in 14,000 would be larger


@pytest.mark.slow
def test_ten_million_random_games_are_as_long_as_exact_random_play(tmp_path: Path) -> None:
    assert games_at_random(tmp_path / "random", 10**7) < 40


@pytest.mark.slow
def test_mistakes_are_drawn_as_a_page_and_as_a_picture(qarena: Qarena, root: Path, tmp_path: Path) -> None:
    found = qarena("mistakes", "--archive", str(root), "--html", "m.html", "--svg", "m.txt", "--positions", "0")
    assert found.code == 0
    page, picture = (tmp_path / "m.html").read_text(), (tmp_path / "m.txt").read_text()
    assert page.startswith("<!doctype html>")
    assert "//" not in page
    assert picture.startswith("<svg xmlns=")
    for agent in ("random", "rule_based", "dumb(depth=2)"):
        assert agent in page
        assert f">{agent}</text>" in picture
    assert page.count("<svg") == 3
    assert picture.count(">blunders</text>") == 3
