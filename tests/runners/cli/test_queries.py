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
import time
from functools import partial
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.questions.ratings import fit_ratings
from analytics.questions.sql.views import VIEWS
from analytics.report import report_data
from analytics.report.frame_formats import format_text_table
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.definitions import POSITIONS_TABLE
from analytics.tables.derived.indexing import IndexSummary, list_index_chunks
from analytics.tables.derived.indexing import index_chunks_as_sum as index_ranges
from analytics.tables.derived.range_table import select_ranges_with_most_units
from analytics.tables.upkeep.garbage import list_unneeded_files
from runners.arena import indexing
from runners.arena.indexing import IndexChunks, index_new_games_if_writable
from runners.terminal.files import TABLE_FORMATS
from tests.analytics.chosen_games import RUNS, add_decisions, write_archive
from tests.analytics.folders import snapshot
from tests.marks import seldom
from tests.paths import ROOT, SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import play


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Copy the sample archive without its index."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("positions")))


@pytest.fixture(scope="module")
def indexed_sample(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Copy the sample archive and index it; tests only read it."""
    root = tmp_path_factory.mktemp("indexed") / "sample"
    shutil.copytree(SAMPLE, root)
    index_new_games_if_writable(root)
    return str(root)


def test_openings_indexes_what_is_not_and_shows_gifts_and_turns(qarena: Qarena, sample: Path) -> None:
    result = qarena("openings", "--archive", str(sample))
    assert result.code == 0
    assert "13,000 games by gift" in result.out
    assert "13,000 games by turn" in result.out
    assert "@" in result.out, "a sample game"
    archive = ArchiveStore.open(sample)
    for run_id in archive.list_ids_of_runs_with_games():
        assert (
            select_ranges_with_most_units(archive, run_id, POSITIONS_TABLE).covered_ranges
            == archive.list_effective_ranges(run_id).covered_ranges
        )
    before = snapshot(sample)
    assert qarena("openings", "--archive", str(sample)).out == result.out
    assert snapshot(sample) == before


def test_the_table_says_whose_choices_they_are_what_a_row_stands_for_and_a_game(
    qarena: Qarena, indexed_sample: str
) -> None:
    start = ("openings", "..../..../..../.... 0", "--archive", indexed_sample)
    lines = qarena(*start, "--agent", "random", "--opponent", "dumb", "--by", "placement").out.splitlines()
    assert " games by placement, decided by random against dumb; in %, for the mover" in lines[0]
    assert lines[-1] == (
        "Up to symmetry: a row stands for as many choices as alike says; "
        "a1 for a1 d1 b2 c2 b3 c3 a4 d4; b1 for b1 c1 a2 d2 a3 d3 b4 c4"
    )
    run, game = re.findall(r"│ ([0-9a-f]{6}) (\d+) +│", lines[4])[0]
    shown = qarena("show", run, game, "--archive", indexed_sample).out
    assert shown.startswith(f"Game {run} {game}: ")
    assert "random" in shown
    assert "dumb" in shown
    square = qarena(*start, "--rules", "square", "--by", "placement").out.splitlines()
    assert "a1 for a1 d1 a4 d4;" in square[-2]
    assert square[-1].startswith("Left out, because nobody chose here")


def test_filters_of_the_command_are_those_of_the_question(qarena: Qarena, indexed_sample: str) -> None:
    def games(*options: str) -> int:
        result = qarena("openings", "--by", "turn", "--format", "json", "--archive", indexed_sample, *options)
        return sum(row["games"] for row in json.loads(result.out))

    every, run = games("--since", "2020-01-01", "--until", "2100-01-01"), ("--run", "d2a027fc112c")
    assert games(*run, "--agent", "semi_random") + games(*run, "--agent", "random") == 1000
    assert games("--imposed") > every
    assert games("--least", "1000") < every


@pytest.mark.parametrize("folder", ["", "positions/run=8d1cb3670fa3", *seldom("positions", "first_plies")])
def test_what_is_not_writable_is_left_as_it_is(
    qarena: Qarena, sample: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (sample / folder).mkdir(parents=True, exist_ok=True)
    before, access = snapshot(sample), os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != sample / folder and access(path, mode))
    result = qarena("openings", "--by", "turn", "--archive", str(sample))
    answer = qarena("sql", "SELECT * FROM positions", "--archive", str(sample))
    assert (result.code, result.err) == (0, "")
    assert (answer.code, answer.err.count(f"run 'qarena archive index --archive {sample}' first")) == (1, 1)
    assert snapshot(sample) == before


def test_archive_index_says_what_it_did_and_goes_on_after_an_interrupt(
    qarena: Qarena, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupt the command by Ctrl-C while it counts the third range of games."""
    words = ("archive", "index", "--threads", "1", "--archive", str(sample))
    one = qarena(*words, "--run", "d2a027fc112c", "--plies", "16")
    assert re.fullmatch(r"1,000 games indexed in [\d.]+ s, [\d,]+ a second: [\d,]+ rows; use .*\n", one.out)
    file_count, count, counted = len(list(sample.glob("positions/*/*"))), index_ranges, list[IndexChunks]()

    def interrupt(archive: ArchiveStore, chunks: IndexChunks) -> IndexSummary:
        counted.append(chunks)
        if len(counted) == 3:
            signal.raise_signal(signal.SIGINT)
            time.sleep(1)  # until the main thread has noticed it: the other ranges take milliseconds
        return count(archive, chunks)

    with monkeypatch.context() as patch:
        patch.setattr(indexing, "index_chunks_as_sum", interrupt)
        result = qarena(*words)
    assert (result.code, result.out) == (130, "")
    note = "interrupted: what is indexed is kept; run the same command again to index the rest\n"
    assert result.err.endswith(note)
    assert 2 <= len(list(sample.glob("positions/*/*"))) - file_count == len(counted) < 10
    rest = sum(
        2 * chunk.games.units
        for chunk in list_index_chunks(
            ArchiveStore.open(sample), ArchiveStore.open(sample).list_ids_of_runs_with_games()
        )
    )
    assert rest > 0
    assert qarena(*words).out.startswith(f"{rest:,} games indexed in ")
    assert qarena(*words).out == f"Nothing to index: 16,000 games are indexed in {sample}.\n"
    one = qarena(*words, "--run", "d2a027fc112c")
    assert one.out == f"Nothing to index: 1,000 games are indexed in {sample}.\n"
    wrong = qarena(*words, "--run", "d2a027fc112d")
    assert (wrong.code, "did you mean 'd2a027fc112c'" in wrong.err) == (2, True)
    assert "rows of positions: no problems" in qarena("archive", "verify", "--archive", str(sample)).out
    assert list_unneeded_files(ArchiveStore.open(sample)) == []


ONE = RUNS[0].record.run_id
ANOTHER = RUNS[2].record.run_id


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an archive with decisions; tests only read it."""
    archive = write_archive(tmp_path_factory.mktemp("root") / "archive")
    add_decisions(archive)
    return Path(archive.root)


def test_the_page_is_written_and_what_it_is_about_is_said(
    qarena: Qarena, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        report_data, "fit_ratings", partial(fit_ratings, samples=10)
    )  # the bootstrap takes longer than all the rest
    before = snapshot(root)
    typed = ("--archive", str(root), "--run", ONE, "--where", "winner = 1", "--title", "Seat 1", "--output")
    result = qarena("report", *typed, "one.html")
    page = (tmp_path / "one.html").read_bytes()
    assert (result.code, result.err) == (0, "")
    assert result.out == f"one.html: {len(page):,} bytes; open it in a browser.\n"
    assert b"<h1>Seat 1</h1>" in page
    assert f"(run_id IN (&#39;{ONE}&#39;)) AND (winner = 1)".encode() in page
    assert ANOTHER.encode() not in page
    assert snapshot(root) == before
    monkeypatch.setattr("runners.cli.queries.render_report", lambda *_: "page")
    full = "error: cannot write /dev/full: No space left on device\n"
    assert qarena("report", *typed, "/dev/full") == (1, "", full)


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("report", "--where", "agent_0 = 'nobody'"), "has no game with where=\"agent_0 = 'nobody'\""),
    (("report", "--run", ONE, "--where", "true) OR (true"), "is not a condition on games: SQL: syntax error at"),
    (("report", "--run", f"x{ONE[1:]}"), f"did you mean '{ONE}'"),
    (("report", "--run", ONE, "--where", f"run_id = '{ANOTHER}'"), "has no game with"),
    (("report", "--archive", "nowhere"), "there is no archive at"),
    (("report", "--output", "nowhere/r.html"), "nowhere/r.html has no folder: name a file in a folder that exists"),
    (("report", "--output", "."), "error: . is a folder: name a file"),
    (
        ("openings", "..../..../..../.... - square", "--rules", "torus"),
        "names rules 'square', and --rules is 'torus'",
    ),
    (("openings", "--rules", "torus"), "no games were played by rules 'torus' here, only by: classic"),
    (("openings", "--rules", "squarre"), "did you mean 'square'?"),
    (("openings", "--sort", "scores"), "did you mean 'score'?"),
    (("openings", "--format", "xml"), "format 'xml' is not one of"),
    (("openings", "--until", "tomorrow"), "until 'tomorrow' is not a day"),
    (("sql", "SELECT 1", "--memory", "much"), "memory 'much' is not a size"),
]


def test_a_wrong_request_is_one_line_and_writes_nothing(qarena: Qarena, root: Path, tmp_path: Path) -> None:
    before = snapshot(root)
    for (command, *options), complaint in WRONG:
        assert complaint in qarena(command, "--archive", str(root), *options).refusal, options
    assert (snapshot(root), snapshot(tmp_path)) == (before, {})


def test_a_question_is_printed_and_written_in_every_format(qarena: Qarena, root: Path, tmp_path: Path) -> None:
    where = ("--archive", str(root), "--run", ONE)
    printed = qarena("lengths", *where)
    assert (printed.code, printed.err) == (0, "")
    with open_archive(root) as opened:
        result = opened.lengths(run=ONE)
    assert printed.out == f"{result}\n"
    for form in TABLE_FORMATS:
        name = f"answer.{form}"
        assert qarena("lengths", *where, "--format", form, "--output", name).out == ""
        if form in ("csv", "json", "parquet", "md", "html", "svg"):
            assert (tmp_path / name).read_bytes() == result.write(f"python.{form}").read_bytes(), form
        if form not in ("table", "parquet"):
            assert qarena("lengths", *where, "--format", form).out == (tmp_path / name).read_text()
    page, picture = (tmp_path / "answer.html").read_text(), (tmp_path / "answer.svg").read_text()
    assert page.startswith("<!doctype html>")
    assert "//" not in page
    assert picture.startswith("<svg xmlns=")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("lengths", "--output", "m.pdf"), "--output m.pdf: its format is not known"),
        (("lengths", "--rules", "nowhere"), "no games were played by rules 'nowhere' here"),
        (("archive", "ls", "--format", "svg"), "Runs: there is no such picture: it is a table"),
        (("evaluations",), "nothing to show: no evaluations were stored"),
        (("learning-curve",), "nothing to show: no policy was learned in these runs"),
        (("first-plies", "--by", "turn"), "'turn' is not one of 'placement', 'gift'"),
        (("report", "--section", "lengths"), "No such option: --section"),
    ],
)
def test_an_answer_that_is_not_there_is_one_line(
    qarena: Qarena, root: Path, words: tuple[str, ...], complaint: str
) -> None:
    assert complaint in qarena(*words, "--archive", str(root)).refusal


VOCABULARY, COOKBOOK = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("sql.md", "cookbook.md"))
ANSWERED = re.compile(r"^```sql\n(.*?)\n```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def prepare_cookbook_archive(qarena: Qarena, folder: Path) -> Path:
    """Carry out the commands at the top of the cookbook on a copy of the sample archive, and return its folder."""
    commands = re.findall(r"^```sh\n(.*?)^```$", COOKBOOK, re.MULTILINE | re.DOTALL)[0]
    copy, *rest = map(shlex.split, commands.splitlines())
    assert copy == ["cp", "-r", "data/sample", "games"]
    shutil.copytree(SAMPLE, folder / "games")
    assert len(rest) == 4
    for words in rest:
        result = qarena(*words[1:])
        assert result.code == 0, result.err
    return folder / "games"


def test_every_answer_is_the_one_that_is_printed(qarena: Qarena, tmp_path: Path) -> None:
    with open_archive(prepare_cookbook_archive(qarena, tmp_path)) as opened:
        for page in (VOCABULARY, COOKBOOK):
            for question, printed in ANSWERED.findall(page):
                assert format_text_table(opened.sql(question)).decode() == printed, question


def test_there_are_forty_questions_each_with_its_answer_and_its_time_among_the_results() -> None:
    titles = re.findall(r"^### (\d+)\. (.*\?)$", COOKBOOK, re.MULTILINE)
    assert [number for number, _ in titles] == [str(number) for number in range(1, 41)]
    assert len(ANSWERED.findall(COOKBOOK)) == 40
    results = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
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
        read = {view for text in questions for view in opened.parse_query(text).select_views_possibly_read(VIEWS)}
    assert read == set(VIEWS)
    assert not [name for name in macros if not any(re.search(rf"\b{name}\(", question) for question in questions)]


@pytest.mark.slow
def test_the_notebook_example_runs() -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", VOCABULARY, re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, check=True)


def test_openings_as_data_in_the_order_asked_for(qarena: Qarena, indexed_sample: str, tmp_path: Path) -> None:
    arguments = ("openings", "..../..../..../.... 5 square", "--by", "turn", "--archive", indexed_sample)
    rows = json.loads(qarena(*arguments, "--format", "json").out)
    assert sum(row["games"] for row in rows) == 1000
    assert {row["piece"] for row in rows} == {"5"}
    assert all(row["score"] == pytest.approx((row["wins"] + row["draws"] / 2) / row["games"]) for row in rows)
    assert qarena(*arguments, "--output", str(tmp_path / "turns.csv")).out == ""
    lines = (tmp_path / "turns.csv").read_text().splitlines()
    assert lines[0] == ",".join(rows[0])
    assert len(lines) == len(rows) + 1
    assert [row["games"] for row in rows] == sorted((row["games"] for row in rows), reverse=True)
    for order, downwards in (("score", False), ("losses", True)):
        sorted_rows = json.loads(qarena(*arguments, "--sort", order, "--format", "json").out)
        assert [row[order] for row in sorted_rows] == sorted((row[order] for row in rows), reverse=downwards)


def test_what_needs_an_index_makes_it_and_a_damaged_one_says_what_to_do(qarena: Qarena, tmp_path: Path) -> None:
    """Use an archive of 512 games in 16 files, which ``sql`` indexes only for a question about positions."""
    few = tmp_path / "few"
    play(few, "agent@a=random", "agent@b=random", "games=512", "archive.shard_games=32")
    before, question = snapshot(few), "SELECT sum(games) AS games FROM Positions WHERE ply = 0"
    for other in ("SELECT count(*) AS positions FROM games", "SELECT nothing FROM positions", "DROP VIEW positions"):
        qarena("sql", other, "--archive", str(few))
        assert snapshot(few) == before
    first_output, second_output = (
        qarena("archive", "index", "--threads", "2", "--archive", str(few)).out for _ in range(2)
    )
    assert re.fullmatch(r"512 games indexed in [\d.]+ s, [\d,]+ a second: [\d,]+ rows; use .*\n", first_output)
    assert second_output == f"Nothing to index: 512 games are indexed in {few}.\n"
    assert len([*few.glob("positions/*/*")]) == 2  # sums of eight files of games each
    damaged = next(few.glob("positions/*/*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    result = qarena("openings", "--archive", str(few))
    assert result.code == 1
    assert result.err.endswith(f"{damaged.name} is missing or damaged: run 'qarena archive verify --archive {few}'\n")
    verified = qarena("archive", "verify", "--archive", str(few))
    assert f"{damaged.name}: " in verified.out + verified.err
    assert "remove it and run 'qarena archive index'" in verified.out + verified.err
    damaged.unlink()
    assert qarena("sql", question, "--format", "csv", "--archive", str(few)).out == "games\n512\n"
