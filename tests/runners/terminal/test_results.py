"""``qarena rate`` and ``crosstable``: what they print, in every format, and which requests they refuse."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.columns import MISSING
from analytics.questions.head_to_head import compute_head_to_head
from analytics.questions.pairings import PairingResult
from analytics.questions.ratings import compute_ratings
from analytics.questions.selection import GameFilter
from analytics.report.answers import build_crosstable_result, build_ratings_result
from analytics.statistics.tally import Estimate, Tally
from analytics.store.archive import ArchiveStore
from runners.arena.sprt_output import format_mean_and_half_width
from runners.terminal.tables import output_result
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import build_spec, random_block, record, store
from tests.marks import seldom
from tests.runners.conftest import Qarena

SAMPLE = Path("data/sample").resolve()
CLASSIC = ("--archive", str(SAMPLE), "--rules", "classic")


def parse_rows(table: str) -> list[list[str]]:
    """Parse the rows of printed tables into cells."""
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines() if "│" in line]


def test_ratings_are_printed_best_first_with_what_all_have_in_common(qarena: Qarena) -> None:
    result = qarena("rate", *CLASSIC, "--anchor", "random", "--anchor-elo", "1000")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Ratings in Elo (classic rules, 14,000 games; random has 1000)")
    rows = parse_rows(result.out)
    assert [row[1] for row in rows] == ["semi_random", "rule_based", "dumb", "random"]
    assert rows[-1][2:5] == ["1000.0", "1000.0 to 1000.0", "8,000"]
    assert rows[0][-4:] == ["·", "100.0", "100.0", "100.0"]
    common = r"^Seat 0, which gives the first piece, is worth [\d.]+ Elo \([\d.]+ to [\d.]+\); of games between equals "
    assert re.search(common, result.out, re.MULTILINE)


@pytest.mark.parametrize("form", ["parquet", *seldom("csv", "json")])
def test_ratings_in_every_format_are_those_of_the_function(qarena: Qarena, form: str) -> None:
    result = qarena("rate", *CLASSIC, "--where", "opening = 0", "--output", f"ratings.{form}", "--samples", "30")
    assert (result.code, result.out, result.err) == (0, "", "")
    with open_archive(SAMPLE) as opened:
        expected = compute_ratings(opened, "opening = 0", rules="classic", samples=30).to_frame()
    read: dict[str, Callable[[str], pl.DataFrame]] = {
        "csv": pl.read_csv,
        "json": pl.read_json,
        "parquet": pl.read_parquet,
    }
    assert read[form](f"ratings.{form}").to_dicts() == expected.to_dicts()


def test_ratings_without_samples_have_no_intervals(qarena: Qarena) -> None:
    result = qarena("rate", *CLASSIC, "--samples", "0")
    assert (result.code, result.err) == (0, "")
    assert {row[3] for row in parse_rows(result.out)} == {"not sampled"}
    assert "(not sampled); of games between equals 0.67 % are drawn (not sampled)." in result.out


def test_the_crosstable_has_every_score_with_its_interval(qarena: Qarena) -> None:
    output = qarena("crosstable", *CLASSIC)
    assert (output.code, output.err) == (0, "")
    assert "Crosstable (score in %, win 1, draw ½)" in output.out
    assert "Head to head (classic rules; the first agent's view, in %)" in output.out
    rows = [row for row in parse_rows(output.out) if row[:2] == ["random", "semi_random"]]
    with open_archive(SAMPLE) as opened:
        met = compute_head_to_head(opened, GameFilter(rules="classic"))
    (result,) = [
        candidate for candidate in met.results if candidate.second == "semi_random" and candidate.first == "random"
    ]
    low, high = (f"{100 * end:.2f}" for end in result.score[1:])
    assert rows[0][2:5] == ["4,000", f"{100 * result.score.mean:.2f}", f"{low}–{high}"]  # noqa: RUF001  (an en dash)


def test_runs_are_compared(qarena: Qarena) -> None:
    result = qarena("compare", "d2a027fc112c", "a0a7dbeb5972", "--archive", str(SAMPLE))
    assert (result.code, result.err) == (0, "")
    titles = [line.strip() for line in result.out.splitlines() if line.startswith(("Settings", "Score", "Speed"))]
    assert titles == [
        "Settings and code that differ",
        "Score of the first agent, in %, and its difference to the first run",
        "Speed",
    ]
    assert ["opening_plies", "0", "2"] in parse_rows(result.out)
    table = qarena("compare", "d2a027fc112c", "a0a7dbeb5972", "--archive", str(SAMPLE), "--format", "csv")
    _, other = csv.DictReader(io.StringIO(table.out))
    assert float(other["difference_low"]) < float(other["difference"]) < float(other["difference_high"])
    assert qarena("compare", "d2a027fc112c", "--archive", str(SAMPLE)).code == 2


def test_seats_apart(qarena: Qarena) -> None:
    result = qarena("crosstable", *CLASSIC, "--by-seat", "--run", "8d1cb3670fa3")
    assert result.code == 0
    assert "Crosstable" not in result.out
    rows = parse_rows(result.out)
    assert len(rows) == 12
    assert {row[1] for row in rows} == {"0", "1"}
    assert {row[3] for row in rows} == {"1,000"}
    table = qarena("crosstable", *CLASSIC, "--by-seat", "--run", "8d1cb3670fa3", "--format", "csv")
    parsed = list(csv.DictReader(io.StringIO(table.out)))
    assert [f"{100 * float(row['score']):.2f}" for row in parsed] == [row[4] for row in rows]


@pytest.mark.parametrize("command", ["rate", "crosstable"])
@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ((), "under different rules, classic, square"),
        (("--rules", "clasic"), "did you mean 'classic'"),
        (("--where", "winner ="), "where='winner =' is not a condition on games"),
        (("--run", "8d1cb3670fa4"), "did you mean '8d1cb3670fa3'"),
        (("--run", "8d1cb3670fa3", "--where", "run_id <> '8d1cb3670fa3'"), "no games of run 8d1cb3670fa3"),
        (("--archive", "nowhere"), "there is no archive at nowhere"),
    ],
)
def test_a_wrong_request_is_one_line(
    qarena: Qarena, tmp_path: Path, command: str, typed: tuple[str, ...], complaint: str
) -> None:
    result = qarena(command, "--archive", str(SAMPLE), *typed)
    assert complaint in result.refusal
    assert list(tmp_path.iterdir()) == []


def test_wrong_ratings_are_one_line_too(qarena: Qarena) -> None:
    nobody = qarena("rate", *CLASSIC, "--anchor", "nobody")
    assert (nobody.code, nobody.err) == (
        2,
        "error: anchor 'nobody' played none of the games chosen: name one of dumb, random, rule_based, semi_random\n",
    )
    assert qarena("rate", *CLASSIC, "--anchor-elo", "nan").code == 2
    alone = qarena("rate", *CLASSIC, "--output", "missing/ratings.csv")
    assert (alone.code, alone.err) == (
        2,
        "error: missing/ratings.csv has no folder: name a file in a folder that exists\n",
    )


@pytest.mark.slow
def test_nothing_is_written_to_the_archive(qarena: Qarena, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "mine")
    before = snapshot(tmp_path / "mine")
    for command in ("rate", "crosstable"):
        assert qarena(command, "--archive", "mine", "--rules", "square", "--where", "plies > 5").code == 0
    assert snapshot(tmp_path / "mine") == before


def test_agents_against_themselves_are_shown_and_not_rated(qarena: Qarena, tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "alone", create=True)
    both = [("random", "random"), ("dumb", "dumb")]
    run = record(build_spec(pairings=both), games=16)
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(1, 0), random_block(1, 1)], both)
    shown = qarena("crosstable", "--archive", "alone")
    assert (shown.code, shown.err) == (0, "nothing about strength follows from 32 games of agents against themselves\n")
    assert [row[:2] for row in parse_rows(shown.out)] == [["random", "random"], ["dumb", "dumb"]]
    rated = qarena("rate", "--archive", "alone")
    assert rated.code == 2
    assert "there are no games between different agents" in rated.err


def result(first: str, second: str, losses: int, draws: int, wins: int) -> PairingResult:
    return PairingResult(0, first, second, Tally(singles=((losses, draws, wins), (losses, draws, wins))), False)


def test_what_games_leave_open_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    from analytics.questions.head_to_head import HeadToHead
    from analytics.questions.ratings import fit_ratings

    results = (
        *(result("a", "b", 4, 1, 5), result("star", "a", 0, 0, 9), result("dud", "b", 9, 0, 0)),
        *(result("x", "y", 3, 0, 3), result("other", "a", 0, 0, 9)),
    )
    met = HeadToHead("classic", results, ())
    output_result(build_ratings_result(met, fit_ratings(met.tallies, samples=20)))
    text = capsys.readouterr().out
    assert "2 groups of agents have no games between them: compare ratings within a group only." in text
    assert "star won every point against the agents below it: its rating has no upper bound." in text
    assert "dud lost every point to the agents above it: its rating has no lower bound." in text
    connected, alone = text.split("Ratings in Elo, group ")[1:]
    titles = [" ".join(title.split()) for title in (connected, alone)]  # a title may take two lines
    assert titles[0].startswith("1 of 2 (classic rules, 74 games; the mean of the finite ratings is 0)")
    assert titles[1].startswith("2 of 2 (classic rules, 12 games; the mean of these ratings is 0)")
    rows = {row[1]: row for row in parse_rows(connected)}
    assert list(rows) == ["other", "star", "a", "b", "dud"]
    assert rows["star"][2:5] == ["∞", "no bound", "18"]
    assert rows["dud"][2] == "−∞"  # noqa: RUF001  (a minus sign)
    assert [row[:2] for row in parse_rows(alone)] == [[MISSING, "x"], [MISSING, "y"]]
    few = "Without a rank, fewer than 100 games against other agents: other, star, a, b, dud, x, y."
    assert few in text.splitlines()
    output_result(build_crosstable_result(met))
    crosstable_text = capsys.readouterr().out
    assert "2 groups of agents have no games between them: compare scores within a group only." in crosstable_text
    output_result(build_ratings_result(met, fit_ratings({("star", "a"): met.tallies["star", "a"]}, samples=20), "a"))
    assert "The games do not determine the value of seat 0" in capsys.readouterr().out
    output_result(build_crosstable_result(HeadToHead("classic", results[:1], ())))
    assert "Crosstable" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rules", "zero", "one"),
    [
        ("classic", "gives the first piece", "places it"),
        ("own_piece", "places the second piece", "the first"),
    ],
)
def test_the_output_says_who_the_seats_are(qarena: Qarena, rules: str, zero: str, one: str) -> None:
    seats = f"Seat 0 {zero}, seat 1 {one}."
    played = qarena("run", "random", "semi_random", "games=100", f"rules={rules}", "archive.root=games")
    assert seats in played.out.splitlines()
    assert seats in qarena("crosstable", "--by-seat", "--archive", "games").out.splitlines()
    assert f"Seat 0, which {zero}, is worth" in qarena("rate", "--archive", "games").out


def test_games_the_seat_decided_and_games_against_oneself_rate_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    from analytics.questions.head_to_head import HeadToHead
    from analytics.questions.ratings import fit_ratings

    by_seat = PairingResult(0, "a", "b", Tally(pairs=((0, 0, 0), (0, 0, 0), (9, 0, 0))), False)
    met = HeadToHead("classic", (by_seat, result("a", "a", 4, 1, 5)), ())
    output_result(build_ratings_result(met, fit_ratings(met.tallies, samples=20)))
    text = capsys.readouterr().out
    assert text.startswith("Ratings in Elo (classic rules, 18 games; ")
    assert [row[2:4] for row in parse_rows(text)] == [["?", "no bound"]] * 2
    assert [row[-2:] for row in parse_rows(text)] == [["·", "50.0"], ["50.0", "·"]]
    assert "Seat 0 won every game between a, b: these games do not show which of them is stronger." in text
    assert "cannot be rated" not in text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(-0.00001, -1, 1), "0.0000 ± 1.0000"),
        (Estimate(12.34567, 2.34567, 22.34567), "12.3457 ± 10.0000"),
        (Estimate(1.0, 0.0, math.inf), "1.0000 ± ∞"),
        (Estimate(math.inf, math.inf, math.inf), "∞"),
        (Estimate(-math.inf, -math.inf, -math.inf), "-∞"),
    ],
)
def test_a_value_and_half_its_interval(estimate: Estimate, text: str) -> None:
    assert format_mean_and_half_width(estimate) == text
