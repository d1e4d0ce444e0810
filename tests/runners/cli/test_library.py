"""Python's users get the rows of the commands and of the report, whatever the spelling of a label."""

from __future__ import annotations

import doctest
import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import analytics
from analytics import Archive, open_archive
from analytics.questions.sql.database import OpenArchive
from analytics.report.advice import word_for_python
from analytics.report.result import render_markdown
from analytics.store.labels import find_stored_label_or_keep_text
from analytics.store.records import RunRecord
from quarto.errors import NotFoundError, RequestError
from tests.analytics.chosen_games import RUNS, add_decisions, write_archive
from tests.analytics.subject_sections import build_subject_sections
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import build_run_request, play

COMMANDS = {
    "crosstable --rules classic": lambda archive: archive.crosstable(rules="classic"),
    "crosstable --rules classic --by-seat": lambda archive: archive.crosstable(by_seat=True, rules="classic"),
    "rate --rules classic --samples 20": lambda archive: archive.ratings(samples=20, rules="classic"),
    "openings --agent semi_random --by turn": lambda archive: archive.openings(by="turn", agent="semi_random"),
    "openings": lambda archive: archive.openings(),
    "lengths --agent dumb": lambda archive: archive.lengths(agent="dumb"),
    "first-plies --rules square": lambda archive: archive.first_plies(rules="square"),
    "first-plies --by gift --opponent dumb": lambda archive: archive.first_plies("gift", opponent="dumb"),
    "compare 8d1cb3670fa3 d2a027fc112c": lambda archive: archive.compare("8d1cb3670fa3", "d2a027fc112c"),
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    root = tmp_path_factory.mktemp("sample") / "archive"  # which `qarena openings` indexes
    shutil.copytree(SAMPLE, root)
    with open_archive(root) as archive:
        yield archive


@pytest.mark.parametrize("command", COMMANDS)
def test_a_method_has_the_rows_of_the_command(command: str, qarena: Qarena, sample: Archive, tmp_path: Path) -> None:
    done = qarena(*command.split(), "--archive", str(sample.archive.root), "--output", str(tmp_path / "x.csv"))
    assert done.code == 0, done.err
    written = COMMANDS[command](sample).write(tmp_path / "y.csv")
    assert written.read_bytes() == (tmp_path / "x.csv").read_bytes()


def test_a_label_with_defaults_is_found_in_sql_or_its_user_is_told(
    qarena: Qarena, sample: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    spelled = "rule_based(faithful=false)"
    count = "SELECT count(*) FROM seats WHERE agent = {}"
    games = sample.sql(count.format("'rule_based'")).item()
    assert games > 0
    assert sample.sql(count.format(f"label('{spelled}')")).item() == games
    assert sample.sql("SELECT label('rule_based') || label(agent) FROM seats LIMIT 1").item().startswith("rule_based")
    assert not caplog.records
    for _ in range(2):
        assert sample.sql(count.format(f"'{spelled}'")).item() == 0
    assert [record.getMessage() for record in caplog.records] == [
        f"'{spelled}' is stored as 'rule_based': write label('{spelled}')"
    ]
    assert sample.sql("SELECT label('nobody(a=1)')").item() == "nobody(a=1)"
    done = qarena("sql", count.format(f"label('{spelled}')"), "--archive", str(SAMPLE))
    assert f"{games}" in done.out.replace(",", "")
    with OpenArchive(SAMPLE, vocabulary_only=True) as strangers:
        assert strangers.sql(count.format(f"label('{spelled}')")).item() == games


@pytest.mark.parametrize("command", COMMANDS)
def test_a_method_shows_what_the_command_prints(command: str, qarena: Qarena, sample: Archive) -> None:
    printed, result = qarena(*command.split(), "--archive", str(sample.archive.root)), COMMANDS[command](sample)
    shown = f"{result}\n"
    for table in result.tables:  # the command has its own words
        shown = shown.replace(word_for_python(table.legend), table.legend)
    assert printed.out + printed.err == shown
    assert qarena(*command.split(), "--archive", str(sample.archive.root), "--format", "md").out == render_markdown(
        result
    )


def test_mistakes_are_those_of_the_command_and_of_the_report(qarena: Qarena, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive")
    add_decisions(archive)
    agent = RUNS[0].record.labels[0]
    done = qarena("mistakes", "--archive", str(archive.root), "--agent", agent, "--output", str(tmp_path / "x.parquet"))
    assert done.code == 0, done.err
    with open_archive(archive.root) as opened:
        assert_frame_equal(
            opened.mistakes(agent=agent).frame, pl.read_parquet(tmp_path / "x.parquet"), check_row_order=False
        )
        every = opened.mistakes()
        assert_frame_equal(every.frame, build_subject_sections(opened, "mistakes")[0].frame)
        assert {*every.frame["agent"]} > {agent}
        for method in (opened.lengths, opened.first_plies):
            assert {*method(agent=agent).frame["agent"]} <= {agent, ""}
            assert agent not in {*method(opponent=agent).frame["agent"]}


def test_filters_are_the_same_everywhere(sample: Archive) -> None:
    run = sample.runs().frame["run_id"][0]
    methods = (sample.crosstable, sample.ratings, sample.openings, sample.lengths, sample.games, sample.mistakes)
    for method in methods:
        with pytest.raises(RequestError, match="agent 'nobody' is not in these runs"):
            method(agent="nobody")
        with pytest.raises(RequestError, match="no games were played by rules 'nothing' here"):
            method(rules="nothing")
        with pytest.raises(NotFoundError, match="ffffffffffff"):
            method(run="ffffffffffff")
        with pytest.raises(TypeError, match="'rule' is no filter of games: write one of rules, agent"):
            method(rule="classic")  # type: ignore[call-arg]
    games = sample.games(None, run=run, agent="random", opponent="dumb", where="winner = 1").frame
    assert (
        games.height
        == sample.sql(
            "SELECT count(*) FROM games WHERE run_id = ? AND winner = 1 "
            "AND list_sort([agent_0::VARCHAR, agent_1::VARCHAR]) = ['dumb', 'random']",
            [run],
        ).item()
    )
    met = sample.crosstable(run=run, agent="random", opponent="dumb").frame
    assert met["games"].to_list() == [sample.games(1, run=run, agent="random", opponent="dumb").frame.height * 2000]


def test_one_game_has_a_row_for_each_decision(sample: Archive) -> None:
    run_id, game_id = sample.games(1).frame.select("run_id", "game_id").row(0)
    game = sample.game(run_id, game_id)
    plies = sample.scan("plies", run_id).filter(game_id=game_id).collect()
    assert game.frame.height == 2 * plies.height
    assert game.frame.filter(kind="placement")["seat"].to_list() == plies.sort("ply")["seat"].to_list()
    with pytest.raises(NotFoundError, match="has no game 111464"):
        sample.game(run_id, 99 << 50)


LABELS = {
    "agent@a=mcts a.iterations=50": (
        "mcts(iterations=50)",
        "mcts( iterations = 5e1, c=2)",
        "mcts(value=null,iterations=50)",
    ),
    "agent@a=mcts": ("mcts", "mcts(iterations=200)", "mcts(faithful=false,c=2.0)"),
    "agent@a=oracle a.below='mcts(iterations=50)'": (
        "oracle(below=mcts(iterations=50))",
        "oracle(below=mcts(c=2.0,iterations=50),slip=0)",
    ),
    "agent@a=rule_based a.name=mine": ("mine", "rule_based(name=mine)", "rule_based(name=mine,faithful=false)"),
    "agent@a=dumb a.turn_seconds=1": ("dumb", "dumb(turn_seconds=1)"),
}
OTHERS = (
    "mcts(iterations=51)",
    "oracle(below=mcts(iterations=51))",
    "nobody(x=1)",
    "rule_based(faithful=1)",
    "mcts(",
    "",
)


@pytest.mark.parametrize("overrides", LABELS)
def test_a_label_with_defaults_means_the_stored_label(overrides: str) -> None:
    spec = build_run_request(*overrides.split(), "agent@b=random").spec
    record = RunRecord(spec.run_id, spec.to_record(), {}, 2, "2026-01-01T00:00:00+00:00")
    for text in LABELS[overrides]:
        assert find_stored_label_or_keep_text([record], text) == spec.agents[0].label, text
    for text in OTHERS:
        assert find_stored_label_or_keep_text([record], text) == text


def test_questions_accept_labels_with_defaults(qarena: Qarena, tmp_path: Path) -> None:
    root, label = tmp_path / "archive", "rule_based(faithful=false)"
    played = play(root, "agent@a=rule_based", "agent@b=random", "games=4")
    with open_archive(root) as archive:
        assert archive.find_label(label) == "rule_based"
        assert archive.games(agent=label).frame.height == 4
        assert archive.crosstable(agent=label, run=played.run_id).frame["games"].to_list() == [4]
        assert archive.ratings(anchor=label, samples=0).frame.filter(agent="rule_based")["elo"].to_list() == [0.0]
        assert archive.sql("SELECT count(*) FROM seats WHERE agent = ?", [archive.find_label(label)]).item() == 4
    done = qarena("openings", "--agent", label, "--archive", str(root), "--format", "csv")
    assert (done.code, done.out) == (
        0,
        qarena("openings", "--agent", "rule_based", "--archive", str(root), "--format", "csv").out,
    )


@pytest.mark.parametrize(
    "module", ["analytics", "analytics.library", "analytics.report.result", "analytics.store.files.backend"]
)
def test_the_examples_of_docstrings_run(module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data/sample")  # which an example indexes
    monkeypatch.chdir(tmp_path)
    test_results = doctest.testmod(importlib.import_module(module))
    assert test_results.attempted
    assert not test_results.failed


def test_public_names_are_offered_and_are_there() -> None:
    for name in dir(analytics):
        assert getattr(analytics, name) is not None
    assert analytics.Archive is Archive
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = analytics.nothing
