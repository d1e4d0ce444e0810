"""What Python's users read: remedies are calls of Python, ids are taken as they are printed, frames have whole ids."""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import quarto
import runners
from analytics import Archive, Result, open_archive
from quarto.errors import Advice, ArenaError, NotFoundError, RequestError
from quarto.views import Position
from tests.paths import SAMPLE

RUN = "8d1cb3670fa3"
COMMAND = re.compile(r"qarena|--[a-z]")
CALLS: dict[str, tuple[Callable[[Archive], object], str, str]] = {
    "rules": (Archive.crosstable, "choose one, as in rules='classic'", "choose one with --rules NAME"),
    "run": (
        lambda archive: archive.game("abc", 1),
        "archive.runs() lists its runs",
        "'qarena archive ls --archive {root}' lists its runs",
    ),
    "filter": (lambda archive: archive.ratings(run="abc"), "archive.runs() lists", "'qarena archive ls"),
    "where": (
        lambda archive: archive.ratings(rules="classic", where="plies < 0"),
        "archive.games(limit=5) shows some games",
        "see some games with 'qarena sql",
    ),
    "agent": (
        lambda archive: runners.run("mtcs", "random"),
        "needs its folder, config_dir=…, or is an object of your class",
        "needs its folder, --config-dir DIR",
    ),
    "one agent": (
        lambda archive: runners.run("mcts", games=10),
        "run('mcts', 'random'), or more",
        "qarena run mcts random, or more",
    ),
    "setting": (
        lambda archive: runners.run("mcts", "random", iterations=5),
        "write overrides=[\"a.iterations=5\"] or the label 'mcts(iterations=5)'",
        "write a.iterations=5 or 'mcts(iterations=5)'",
    ),
    "swept setting": (
        lambda archive: runners.sweep("mcts", "random", iterations=[5, 10]),
        'write overrides=["a.iterations=5,10"]',
        "write a.iterations=5,10 or 'mcts(iterations=5)'",
    ),
    "a sweep": (lambda archive: runners.run("mcts", "random", seed="1,2"), "runners.sweep(…)", "qarena sweep …"),
    "twice": (
        lambda archive: runners.run("random", "dumb", "random"),
        "{'agent': 'random', 'name': 'other'}",
        "{agent: …, name: …}",
    ),
    "archive": (lambda archive: open_archive(""), "give the path of a folder, or a URL", "--archive DIR"),
    "object": (
        lambda archive: runners.sweep(object(), "random"),  # type: ignore[arg-type]
        "labels are texts, and only runners.run takes objects",
        "labels are texts",
    ),
    "first free": (
        lambda archive: archive.openings("F.../..../..../.... 3", rules="classic", first_free=True),
        "leave it out, or first_free=True",
        "leave it out, or --first-free",
    ),
    "nothing to judge": (lambda archive: runners.judge(), "to judge, 'rule_based'", "or give --all"),
}


@pytest.fixture(scope="module")
def sample() -> Archive:
    return open_archive(SAMPLE)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Open an archive whose few games are judged."""
    root = tmp_path_factory.mktemp("judged") / "archive"
    runners.run("random", "dumb", games=40, opening_plies=6, progress=False, archive=root)
    runners.annotate(root)
    return open_archive(root)


@pytest.mark.parametrize("name", CALLS)
def test_an_error_names_python_in_python_and_the_command_on_the_command_line(name: str, sample: Archive) -> None:
    call, in_python, on_command_line = CALLS[name]
    with pytest.raises(ArenaError) as refused:
        call(sample)
    error = refused.value
    assert in_python in str(error)
    assert not COMMAND.search(str(error).replace(str(SAMPLE), ""))
    assert on_command_line.replace("{root}", str(SAMPLE)) in error.for_command_line
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes, as between processes)
    assert (str(copied), copied.for_command_line) == (str(error), error.for_command_line)


def test_an_agent_may_be_named_twice_as_the_message_says(tmp_path: Path) -> None:
    agents = "[random, dumb, {agent: random, name: other}]"
    result = runners.run(agents=agents, games=2, progress=False, archive=tmp_path)
    assert {*result.frame["first"], *result.frame["second"]} == {"random", "dumb", "other"}


def test_what_a_result_says_names_python(sample: Archive, judged: Archive) -> None:
    results = [
        judged.mistakes(positions=3),
        sample.ratings(rules="classic"),
        sample.openings(rules="classic"),
        sample.evaluations(),
        sample.mistakes(),
    ]
    for result in results:
        shown = f"{result}{result._repr_html_()}{result.missing}".replace("qarena-result", "")
        shown = re.sub(r"(?s)<style>.*?</style>|<svg.*?</svg>", "", shown)
        assert not COMMAND.search(shown)
        assert len(repr(result)) < 200
    assert repr(results[1]).startswith("<Ratings: 4 rows of rank, agent, elo, low, high, …;")


def test_the_advice_to_judge_names_the_runs_and_the_archive(tmp_path: Path) -> None:
    runs = [runners.run("random", "dumb", games=2, seed=seed, progress=False, archive=tmp_path) for seed in (1, 2)]
    archive, run_id = open_archive(tmp_path), runs[0].run_id
    call = f"runners.annotate({str(tmp_path)!r}, run={run_id!r}"
    assert f"{call}) does that, then archive.refresh()" in archive.mistakes(run=run_id).missing
    assert f"runners.annotate({str(tmp_path)!r}) does that" in archive.mistakes().missing
    assert f"{call}, choices=True) does that" in str(runners.annotate(tmp_path, run=run_id))
    assert "choices=True" not in str(runners.annotate(tmp_path, run=run_id, choices=True))


def test_a_game_of_the_worst_mistakes_is_found_by_its_ids(judged: Archive) -> None:
    result = judged.mistakes(positions=3)
    assert result.frames["worst"].height == 3
    for row in result.frames["worst"].iter_rows(named=True):
        game = judged.game(row["run_id"], row["game_id"])
        decision = game.frame.filter(ply=row["ply"], kind=row["kind"]).row(0, named=True)
        assert (decision["regret"], decision["value_before"]) == (row["regret"], row["value"])
        assert judged.game(row["run_id"][:6], row["game_id"]).frame.equals(game.frame)


def test_runs_are_named_by_their_first_digits(sample: Archive) -> None:
    assert sample.crosstable(run=RUN[:6]).frame.equals(sample.crosstable(run=[RUN]).frame)
    ids = sample.runs().frame["run_id"].to_list()
    assert sample.compare(ids[0][:6], ids[1][:6]).frame.equals(sample.compare(*ids[:2]).frame)
    with pytest.raises(NotFoundError, match="run '' is not in archive"):
        sample.game("", 0)


def test_an_archive_that_was_opened_before_a_run_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runners.run("random", "dumb", games=2, progress=False, archive=tmp_path)
    archive = open_archive(tmp_path)
    run_id = runners.run("random", "mcts(iterations=5)", games=2, progress=False, archive=tmp_path).run_id
    caplog.clear()
    calls: list[Callable[[], object]] = [
        lambda: archive.crosstable(run=run_id),
        lambda: archive.game(run_id[:6], 0),
        lambda: archive.lengths(agent="mcts(iterations=5)"),
    ]
    for call in calls:
        with pytest.raises(RequestError, match=r"opened.*: archive\.refresh\(\) reads it"):
            call()
    assert not caplog.records
    assert archive.find_label("mcts(iterations=5)") == "mcts(iterations=5)"
    assert archive.sql("SELECT count(*) FROM seats WHERE agent = 'mcts(iterations=5)'").item() == 0
    message = "agent 'mcts(iterations=5)' is in a run that was added after the archive was opened"
    assert [record.getMessage() for record in caplog.records] == [f"{message}: archive.refresh() reads it"] * 2
    archive.refresh()
    assert archive.game(run_id[:6], 0).run_id == run_id
    assert archive.sql("SELECT count(*) FROM seats WHERE agent = 'mcts(iterations=5)'").item() == 2


@pytest.mark.parametrize("condition", ["agent = 'radnom'", "agent IN ('radnom', 'dumb')", "agent = label('radnom')"])
def test_a_misspelt_label_in_sql_is_named(sample: Archive, condition: str, caplog: pytest.LogCaptureFixture) -> None:
    archive = sample.fork()
    with caplog.at_level(logging.WARNING):
        archive.sql(f"SELECT count(*) FROM seats WHERE {condition}")
        archive.sql("SELECT count(*) FROM seats WHERE agent = 'random' AND run_id <> 'radnom'")
    assert [record.getMessage() for record in caplog.records] == [
        "no agent 'radnom' is in this archive; did you mean 'random'?"
    ]


def test_arguments_that_do_not_exist_are_refused(sample: Archive) -> None:
    with pytest.raises(RequestError, match=r"decision 'cell' is not known; .*valid: gift, placement"):
        sample.first_plies("cell")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="limit=-1 is less than 0"):
        sample.games(limit=-1)
    assert sample.games(limit=0).frame.is_empty()


def test_remarks_count_the_agents_of_the_frame(tmp_path: Path) -> None:
    agents = ["random", "dumb", "semi_random", *(f"mcts(iterations={number})" for number in range(2, 13))]
    runners.run(*agents, games=2, progress=False, archive=tmp_path, overrides=["schedule=gauntlet"])
    archive = open_archive(tmp_path)
    assert "The best 12 of 14 agents are shown: the frame has all." in str(archive.lengths())
    assert "agents are shown" not in str(archive.mistakes())  # of nobody, because no game is judged
    assert "agents are shown" not in str(archive.lengths(agent="dumb"))


def test_completion_shows_names_for_people(sample: Archive) -> None:
    assert {"crosstable", "sql", "scan", "refresh", "find_label"} <= {*dir(sample)}
    assert not {"parse_query", "query_files_by_path", "to_queryable_path"} & {*dir(sample)}
    assert {"frame", "note", "tables", "write"} <= {*dir(Result())}
    assert not {"anchor", "for_python", "side_by_side"} & {*dir(Result())}
    assert not {"abstractmethod", "copy", "np"} & {*dir(quarto)}


def test_an_advice_is_a_text_that_knows_both_wordings() -> None:
    advice = Advice("two runs are left out", "--trainings includes them", "trainings=True includes them")
    assert f"{advice}" == "two runs are left out (--trainings includes them)"
    assert advice.for_python == "two runs are left out (trainings=True includes them)"
    error = RequestError(advice)
    assert str(error) == "two runs are left out: trainings=True includes them"
    assert error.for_command_line == "two runs are left out: --trainings includes them"
    assert RequestError("plain").for_command_line == str(RequestError("plain")) == "plain"


class Bad:
    """An agent that never answers."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        raise ValueError("oops")


def test_an_agent_that_forfeits_everything_is_counted_once_and_its_run_is_final(tmp_path: Path) -> None:
    with pytest.raises(ArenaError, match="has forfeited all its first") as refused:
        runners.run(Bad(), "random", games=2_000, threads=2, progress=False, archive=tmp_path)
    assert "keep_going=True plays on" in str(refused.value)
    assert "--keep-going plays on" in refused.value.for_command_line
    assert " times" not in str(refused.value)
    remarks = str(open_archive(tmp_path).crosstable())
    assert "nothing can play the rest, because their agents were objects" in remarks
    assert "plays the rest of a run" not in remarks


def test_people_see_tables_of_a_line_for_each_agent_policy_or_test(tmp_path: Path) -> None:
    test = runners.sprt("semi_random", "random", elo1=50, seed=3, progress=False, archive=tmp_path)
    assert test.table is not None
    assert [column.heading for column in test.table.columns] == ["first", "second", "verdict", "games", "LLR", "nElo"]
    assert test.note.startswith("Decided after")
    policy = runners.build_policy("gift", archive=tmp_path)
    assert policy.table is not None
    assert "command" not in [column.heading for column in policy.table.columns]
    rebuilt = runners.rebuild_policy(policy.policy_id, tmp_path)
    (table,) = rebuilt.tables
    assert table.text_rows[0][-1] == "identical"
    verdicts = runners.judge("semi_random", archive=tmp_path, draws=1, games=0)
    assert verdicts.table is not None
    assert len(verdicts.table.text_rows) == 1
    assert verdicts.frame.height > 10
