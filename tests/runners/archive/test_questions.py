"""Questions from the command line: openings, reports, charts of mistakes, and the answers that the pages print."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.derived_tables.derived_table import known_ranges
from analytics.derived_tables.tables import POSITIONS_TABLE, Indexed, IndexPart, index_parts
from analytics.derived_tables.tables import index as index_range
from analytics.ratings.ratings import rate
from analytics.report.reported_games import reported_games
from analytics.report.sections import strength
from analytics.report.sections.lengths import lengths_frame
from analytics.sql.database import OpenArchive
from analytics.sql.syntax import read_by
from analytics.sql.views import VIEWS
from analytics.store.archive import Archive
from runners.archive import questions as index_module
from runners.terminal.tables import as_text
from tests.analytics.chosen_games import RUNS, add_decisions, write_archive
from tests.analytics.folders import snapshot
from tests.marks import seldom
from tests.paths import ROOT, SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import play


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of the sample archive, without an index."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("positions")))


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """An archive of 512 games in 16 files, without an index."""
    play(tmp_path / "few", "agent@a=random", "agent@b=random", "games=512", "archive.shard_games=32")
    assert len(list((tmp_path / "few").glob("games/*/*"))) == 16
    return tmp_path / "few"


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of it with an index, only to be read."""
    root = tmp_path_factory.mktemp("indexed") / "sample"
    shutil.copytree(SAMPLE, root)
    index_module.bring_all_up_to_date(root)
    return str(root)


def test_openings_indexes_what_is_not_and_shows_gifts_and_turns(qarena: Qarena, sample: Path) -> None:
    found = qarena("openings", "--archive", str(sample))
    assert found.code == 0
    assert "13,000 games by gift" in found.out
    assert "13,000 games by turn" in found.out
    assert "@" in found.out, "a sample game"
    archive = Archive.open(sample)
    for run_id in archive.run_ids():
        assert known_ranges(archive, run_id, POSITIONS_TABLE).covered == archive.ranges(run_id).covered
    before = snapshot(sample)
    assert qarena("openings", "--archive", str(sample)).out == found.out
    assert snapshot(sample) == before


def test_openings_as_data(qarena: Qarena, indexed: str, tmp_path: Path) -> None:
    arguments = ("openings", "..../..../..../.... 5 square", "--by", "turn", "--archive", indexed)
    rows = json.loads(qarena(*arguments, "--format", "json").out)
    assert sum(row["games"] for row in rows) == 1000
    assert {row["piece"] for row in rows} == {"5"}
    lines = qarena(*arguments, "--format", "csv").out.splitlines()
    assert lines[0] == ",".join(rows[0])
    assert len(lines) == len(rows) + 1
    assert qarena(*arguments, "--output", str(tmp_path / "turns.csv")).out == ""
    assert (tmp_path / "turns.csv").read_text().splitlines() == lines


def test_the_worst_choices_come_first_if_asked(qarena: Qarena, indexed: str) -> None:
    asked = ("openings", "--by", "turn", "--agent", "semi_random", "--archive", indexed, "--format", "json")
    rules = ("--rules", "classic")

    def rows(*options: str) -> list[dict[str, float]]:
        found: list[dict[str, float]] = json.loads(qarena(*asked, *rules, *options).out)
        return found

    by_games, by_score, by_losses = rows(), rows("--sort", "score"), rows("--sort", "losses")
    assert [row["games"] for row in by_games] == sorted((row["games"] for row in by_games), reverse=True)
    assert [row["score"] for row in by_score] == sorted(row["score"] for row in by_games)
    assert [row["losses"] for row in by_losses] == sorted((row["losses"] for row in by_games), reverse=True)
    assert by_score != by_games
    assert all(row["score"] == pytest.approx((row["wins"] + row["draws"] / 2) / row["games"]) for row in by_games)
    assert "did you mean 'score'?" in qarena(*asked, "--sort", "scores").refusal


def test_the_table_says_whose_choices_they_are_what_a_row_stands_for_and_a_game(qarena: Qarena, indexed: str) -> None:
    start = ("openings", "..../..../..../.... 0", "--archive", indexed)
    lines = qarena(*start, "--agent", "random", "--opponent", "dumb", "--by", "placement").out.splitlines()
    assert " games by placement, decided by random against dumb; in %, for the mover" in lines[0]
    assert lines[-1] == (
        "Up to symmetry: a row stands for as many choices as alike says; "
        "a1 for a1 d1 b2 c2 b3 c3 a4 d4; b1 for b1 c1 a2 d2 a3 d3 b4 c4"
    )
    run, game = re.findall(r"│ ([0-9a-f]{6}) (\d+) +│", lines[4])[0]
    shown = qarena("show", run, game, "--archive", indexed).out
    assert shown.startswith(f"Game {run} {game}: ")
    assert "random" in shown
    assert "dumb" in shown
    square = qarena(*start, "--rules", "square", "--by", "placement").out.splitlines()[-1]
    assert "a1 for a1 d1 a4 d4;" in square


def test_filters_of_the_command_are_those_of_the_question(qarena: Qarena, indexed: str) -> None:
    def games(*options: str) -> int:
        found = qarena("openings", "--by", "turn", "--format", "json", "--archive", indexed, *options)
        return sum(row["games"] for row in json.loads(found.out))

    every = games()
    run = "d2a027fc112c"
    assert games("--run", run) == 1000
    assert games("--run", run, "--agent", "semi_random") + games("--run", run, "--agent", "random") == 1000
    assert games("--imposed") > every
    assert games("--least", "1000") < every
    assert games("--rules", "square") == 1000
    assert games("--since", "2020-01-01", "--until", "2100-01-01") == every


def test_a_wrong_request_is_one_line(qarena: Qarena, sample: Path) -> None:
    before = snapshot(sample)
    for arguments, complaint in (
        (["..../..../..../.... - square", "--rules", "torus"], "names rules 'square', and --rules is 'torus'"),
        (["--rules", "torus"], "no games were played by rules 'torus' here, only by: classic, square"),
        (["--rules", "squarre"], "did you mean 'square'?"),
        (["--format", "xml"], "format 'xml' is not one of"),
        (["--until", "tomorrow"], "until 'tomorrow' is not a day"),
    ):
        assert complaint in qarena("openings", *arguments, "--archive", str(sample)).refusal
    assert snapshot(sample) == before


@pytest.mark.parametrize("folder", ["", "positions/run=8d1cb3670fa3", *seldom("positions", "first_plies")])
def test_what_is_not_writable_is_left_as_it_is(
    qarena: Qarena, sample: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (sample / folder).mkdir(parents=True, exist_ok=True)
    before, access = snapshot(sample), os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != sample / folder and access(path, mode))
    found = qarena("openings", "--by", "turn", "--archive", str(sample))
    asked = qarena("sql", "SELECT * FROM positions", "--archive", str(sample))
    assert (found.code, found.err) == (0, "")
    assert (asked.code, asked.err.count(f"run 'qarena archive index --archive {sample}' first")) == (1, 1)
    assert snapshot(sample) == before


def test_archive_index_says_what_it_did_and_goes_on_after_an_interrupt(
    qarena: Qarena, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the third range of games is counted."""
    words = ("archive", "index", "--threads", "1", "--archive", str(sample))
    one = qarena(*words, "--run", "d2a027fc112c", "--plies", "16")
    assert re.fullmatch(r"1,000 games indexed in [\d.]+ s, [\d,]+ a second: [\d,]+ rows; use .*\n", one.out)
    made, count, counted = len(list(sample.glob("positions/*/*"))), index_range, list[IndexPart]()

    def interrupted(archive: Archive, part: IndexPart) -> Indexed:
        counted.append(part)
        if len(counted) == 3:
            signal.raise_signal(signal.SIGINT)
        return count(archive, part)

    with monkeypatch.context() as patch:
        patch.setattr(index_module, "index_part", interrupted)
        found = qarena(*words)
    assert (found.code, found.out) == (130, "")
    note = "interrupted: what is indexed is kept; run the same command again to index the rest\n"
    assert found.err.endswith(note)
    assert 2 <= len(list(sample.glob("positions/*/*"))) - made == len(counted) < 10
    rest = sum(2 * part.games.units for part in index_parts(Archive.open(sample), Archive.open(sample).run_ids()))
    assert qarena(*words).out.startswith(f"{rest:,} games indexed in ")
    assert qarena(*words).out == f"Nothing to index: 16,000 games are indexed in {sample}.\n"
    one = qarena(*words, "--run", "d2a027fc112c")
    assert one.out == f"Nothing to index: 1,000 games are indexed in {sample}.\n"
    wrong = qarena(*words, "--run", "d2a027fc112d")
    assert (wrong.code, "did you mean 'd2a027fc112c'" in wrong.err) == (2, True)
    assert "rows of positions: no problems" in qarena("archive", "verify", "--archive", str(sample)).out
    assert qarena("archive", "gc", "--archive", str(sample)).out == "0 files, 0 to remove with --remove\n"


def test_archive_index_tells_of_sums_and_a_damaged_index_says_what_to_do(qarena: Qarena, few: Path) -> None:
    made, again = (qarena("archive", "index", "--archive", str(few)).out for _ in range(2))
    assert re.fullmatch(r"512 games indexed in [\d.]+ s, [\d,]+ a second: [\d,]+ rows; 2 sums made; use .*\n", made)
    assert again == f"Nothing to index: 512 games are indexed in {few}.\n"
    damaged = next(few.glob("positions/*/*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    found = qarena("openings", "--archive", str(few))
    assert found.code == 1
    assert found.err.endswith(f"{damaged.name} is missing or damaged: run 'qarena archive verify'\n")
    verified = qarena("archive", "verify", "--archive", str(few))
    assert f"{damaged.name}: " in verified.out + verified.err
    assert "remove it and run 'qarena archive index'" in verified.out + verified.err
    damaged.unlink()
    assert qarena("openings", "--archive", str(few)).code == 0


def test_sql_indexes_before_it_asks_for_positions(qarena: Qarena, few: Path) -> None:
    before = snapshot(few)
    for other in ("SELECT count(*) AS positions FROM games", "SELECT nothing FROM positions", "DROP VIEW positions"):
        qarena("sql", other, "--archive", str(few))
        assert snapshot(few) == before
    question = "SELECT sum(games) AS games FROM Positions WHERE ply = 0"
    found = qarena("sql", question, "--format", "csv", "--archive", str(few))
    assert found.out == "games\n512\n"
    wrong = qarena("sql", "SELECT 1", "--memory", "much", "--archive", str(few))
    assert (wrong.code, "memory 'much' is not a size" in wrong.err) == (2, True)


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
    monkeypatch.setattr("runners.archive.questions.report", lambda *_: "page")
    for path, code, complaint in (
        ("nowhere/r.html", 2, "nowhere/r.html has no folder: name a file in a folder that exists"),
        (str(tmp_path), 2, f"{tmp_path} is a folder: name a file"),
        ("/dev/full", 1, "cannot write /dev/full: No space left on device"),
    ):
        found = qarena("report", *only, "--output", path)
        assert (found.code, found.out, found.err) == (code, "", f"error: {complaint}\n")


def test_random_games_are_as_long_as_exact_random_play(tmp_path: Path) -> None:
    games = 20_000
    play(tmp_path, "agent@a=random", "agent@b=random", f"games={games}", "b.name=another", "threads=2")
    with open_archive(tmp_path) as opened:
        rows = lengths_frame(reported_games(opened)).filter(agent="random")
    assert rows["games"].sum() == games
    chances: list[tuple[int, float]] = rows.select("games", "random").rows()
    squares = sum((found - games * chance) ** 2 / (games * chance) for found, chance in chances)  # chi square of 12
    assert squares < 40  # one in 14,000 would be larger


def test_a_section_is_printed_and_written_as_a_page_and_as_a_picture(
    qarena: Qarena, root: Path, tmp_path: Path
) -> None:
    where = ("--archive", str(root), "--run", ONE, "--section")
    printed = qarena("report", *where, "mistakes")
    assert printed.code == 0
    for text in ("Regret in half-points, and blunders", "The same by ply", "Decisions judged by the exact value"):
        assert text in printed.out
    for name in ("m.html", "m.svg"):
        assert qarena("report", *where, "mistakes", "--output", name).code == 0
    page, picture = (tmp_path / "m.html").read_text(), (tmp_path / "m.svg").read_text()
    assert page.startswith("<!doctype html>")
    assert "//" not in page
    assert picture.startswith("<svg xmlns=")
    for agent in ("random", "rule_based", "dumb(depth=2)"):
        assert agent in page
        assert f">{agent}</text>" in picture
    for arguments, complaint in (
        (("mistake",), "'mistake' is no section of a report; did you mean 'mistakes'"),
        (("lengths", "--output", "m.pdf"), "a section is written to a file that ends in .html or .svg"),
        (("crosstable", "--output", "c.svg"), "there is no such picture: it is a table"),
        (("thoughts",), "nothing to show: no agent was asked what it thinks"),
    ):
        assert complaint in qarena("report", *where, *arguments).refusal


VOCABULARY, COOKBOOK = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("sql.md", "cookbook.md"))
ANSWERED = re.compile(r"^```sql\n(.*?)\n```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def prepared(qarena: Qarena, folder: Path) -> Path:
    """A copy of the sample on which the commands at the top of the cookbook were carried out."""
    commands = re.findall(r"^```sh\n(.*?)^```$", COOKBOOK, re.MULTILINE | re.DOTALL)[0]
    copy, *rest = map(shlex.split, commands.splitlines())
    assert copy == ["cp", "-r", "data/sample", "games"]
    shutil.copytree(SAMPLE, folder / "games")
    assert len(rest) == 4
    for words in rest:
        found = qarena(*words[1:])
        assert found.code == 0, found.err
    return folder / "games"


def answer(opened: OpenArchive, question: str) -> str:
    return as_text(opened.sql(question)).decode()


def test_every_answer_is_the_one_that_is_printed(qarena: Qarena, tmp_path: Path) -> None:
    with open_archive(prepared(qarena, tmp_path)) as opened:
        for page in (VOCABULARY, COOKBOOK):
            for question, printed in ANSWERED.findall(page):
                assert answer(opened, question) == printed, question


def test_there_are_forty_questions_each_with_its_answer_and_its_time_among_the_results() -> None:
    titles = re.findall(r"^### (\d+)\. (.*\?)$", COOKBOOK, re.MULTILINE)
    assert [number for number, _ in titles] == [str(number) for number in range(1, 41)]
    assert len(ANSWERED.findall(COOKBOOK)) == 40
    results = (ROOT / "docs/results_questions.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \| (.*\?) \| \d+\.\d\d \|$", results, re.MULTILINE) == titles
    assert COOKBOOK.count("```sql") == 40


def test_each_view_and_macro_has_an_example(tmp_path: Path) -> None:
    questions = [question for question, _ in ANSWERED.findall(VOCABULARY)]
    assert len(questions) == VOCABULARY.count("```sql")
    with open_archive(SAMPLE) as opened:
        macros = opened.sql("""
            SELECT function_name AS name FROM duckdb_functions()
            WHERE schema_name = 'main' AND database_name <> 'system' AND function_type IN ('macro', 'table_macro')
              AND NOT starts_with(function_name, '_') AND function_name <> 'opening_text'""")["name"].to_list()
        assert {"cell_name", "shared", "policy", "ordered_openings", "wilson_high"} <= set(macros)
        assert opened._connection is not None
        read = {view for text in questions for view in read_by(opened._connection.duckdb, text, VIEWS).views}
    assert read == set(VIEWS)
    assert not [name for name in macros if not any(re.search(rf"\b{name}\(", question) for question in questions)]


@pytest.mark.slow
def test_the_notebook_example_runs() -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", VOCABULARY, re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, check=True)
