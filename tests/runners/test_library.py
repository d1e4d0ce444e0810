"""A run that Python asks for is the run of the command: the same id, the same rows, the same refusals."""

from __future__ import annotations

import doctest
import html
import logging
import shlex
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import runners
from analytics import open_archive
from analytics.report.result import Result, render_markdown
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from quarto.views import Position
from runners.arena import execution
from runners.config.application import RUN
from runners.library.class_code import compute_class_code_hash
from tests.another_user import another_user, visible_folder
from tests.runners.conftest import Qarena
from tests.runners.experiments import assert_same_rows, read_archive_rows


def test_a_call_extends_the_run_of_the_command(qarena: Qarena, tmp_path: Path) -> None:
    one, two, label = tmp_path / "one", tmp_path / "two", "rule_based(faithful=false)"
    done = qarena("run", label, "random", "games=6", "seed=7", "opening_plies=2", "--archive", str(one))
    assert done.code == 0, done.err
    result = runners.run(label, "random", games=6, seed=7, opening_plies=2, progress=False, archive=two)
    assert result.run_id in done.out
    assert_same_rows(read_archive_rows(two), read_archive_rows(one))
    with open_archive(one) as archive:
        assert archive.crosstable(run=result.run_id).frame.equals(result.frame)
        assert archive.scan("games").collect().height == 6
    extended = runners.run(label, "random", games=10, seed=7, overrides=["opening_plies=2"], archive=one)
    assert (extended.run_id, extended.frame["games"].to_list()) == (result.run_id, [10])
    with open_archive(one) as opened:
        again = runners.run(label, "random", games=4, seed=7, opening_plies=2, archive=opened)
    assert again.note.endswith("The run had 10 games already, and all count: games=4 asks for fewer.")
    with open_archive(one) as archive:  # what is recorded is a command that repeats it
        command = archive.archive.load_run(result.run_id).command
    assert command == f"qarena run '{label}' random games=10 seed=7 opening_plies=2 --archive {one}"
    repeated = qarena(*shlex.split(command)[1:])
    assert "Nothing to play" in repeated.out
    assert result.run_id in repeated.out


def test_positions_are_there_after_an_index(tmp_path: Path) -> None:
    runners.run("random", "dumb", games=4, archive=tmp_path, progress=False)
    archive = open_archive(tmp_path)
    assert archive.openings().frame["games"].sum() == 4
    with pytest.raises(FailureError, match=r"call runners\.index\(.*\), then archive\.refresh"):
        archive.scan("positions").collect()
    with pytest.raises(FailureError, match=r"call runners\.index\(.*\), then archive\.refresh"):
        archive.sql("FROM positions")
    runners.index(tmp_path)
    archive.refresh()
    first = archive.sql("SELECT sum(games) AS games FROM positions WHERE ply = 0").item()
    assert (first, archive.openings().frame["games"].sum()) == (4, 4)
    assert archive.scan("positions").collect().height > 4


def test_an_index_that_may_not_be_written_is_one_line_and_questions_go_on() -> None:
    with visible_folder() as folder:
        root = folder / "archive"
        runners.run("random", "dumb", games=4, archive=root, progress=False)
        assert open_archive(root).openings().frame["games"].sum() == 4  # imports what only root may read
        with another_user():
            with pytest.raises(FailureError, match=f"cannot write to {root}: permission denied: make") as refused:
                runners.index(root)
            assert "\n" not in str(refused.value)
            archive = open_archive(root)
            assert archive.crosstable().frame["games"].to_list() == [4]
            assert archive.openings().frame["games"].sum() == 4
        runners.index(root)
        assert open_archive(root).scan("positions").collect().height > 4


def test_keywords_are_the_words_of_the_command(tmp_path: Path) -> None:
    result = runners.run(
        agents=["random", "dumb", "semi_random"], schedule="gauntlet", games=2, archive=tmp_path, rules="square"
    )
    assert result.frame.select("first", "second").rows() == [("random", "dumb"), ("random", "semi_random")]
    assert len(result.tables) == 2
    with open_archive(tmp_path) as archive:
        assert archive.runs().frame["rules"].to_list() == ["square"]


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        (("nobody", "random"), {}, "nobody"),
        (("random", "dumb"), {"game": 2}, "game"),
        (("random", "dumb"), {"games": 0}, "games=0"),
        (("random", "dumb"), {"seed": "1,2"}, "several values are a sweep"),
        (("random",), {"games": 2}, "1 agent is named"),
        (("mcts(iterations=5,6)", "dumb"), {}, "several values of a parameter are a sweep, a.KEY=VALUE,VALUE"),
        ((), {"games": 2}, r"no agents are named: name two, run\('mcts', 'random'\)"),
        (("random", "dumb"), {"overrides": "games=2"}, r"is a text: write a list, overrides=\['games=2'\]"),
        (("random", "seed"), {}, "'seed' is a key"),
    ],
)
def test_what_the_command_refuses_is_an_error_of_one_line(
    words: tuple[str, ...], settings: dict[str, object], message: str, tmp_path: Path
) -> None:
    call: Callable[..., object] = runners.run
    with pytest.raises(RequestError, match=message) as refused:
        call(*words, archive=tmp_path / "archive", **settings)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "archive").exists()


def test_a_sweep_has_the_jobs_and_the_table_of_the_command(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    label, words = "rule_based(faithful=false)", ("opening_plies=0,2", "games=4")
    done = qarena("sweep", label, "random", "seed=1,2", *words, "--archive", str(tmp_path / "one"))
    assert done.code == 0, done.err
    handlers = [*logging.getLogger().handlers]
    result = runners.sweep(label, "random", seed=range(1, 3), opening_plies="0,2", games=4, archive=tmp_path / "two")
    assert logging.getLogger().handlers == handlers
    with open_archive(tmp_path / "one") as archive:
        jobs = archive.sql("FROM sweeps ORDER BY job")
        command = archive.archive.load_run(jobs["run_id"][3]).command
    with open_archive(tmp_path / "two") as archive:
        assert archive.archive.load_run(jobs["run_id"][3]).command == command.replace("/one", "/two")
    same = ("job", "run_id", "status", "objective", "value", "agent_a", "wins", "draws")
    assert result.frame.select(same).equals(jobs.select(same))
    assert result.table is not None
    printed = [line.split("│")[1:-1] for line in done.out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in printed] == [[*map(str, row)] for row in result.table.text_rows]


def test_a_sweep_prints_nothing_and_its_frame_is_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = set[str]()
    for progress in (True, False):
        frame = runners.sweep("random", "dumb", games=[2, 4], progress=progress, archive=tmp_path / "archive").frame
        ids.update(frame["sweep_id"])
        assert capfd.readouterr().err == ""
    assert frame.unnest("overrides").select("games", "games_setting").rows() == [(4, 2), (4, 4)]  # one run
    assert frame["score"].to_list() == [
        pytest.approx((row["wins"] + row["draws"] / 2) / row["games"]) for row in frame.rows(named=True)
    ]
    assert len(ids) == 1


def test_annotating_prints_nothing_and_says_what_python_can_do(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runners.run("random", "dumb", games=2, archive=tmp_path, progress=False)
    call = f"runners.annotate({str(tmp_path)!r}"
    assert f"is judged ({call}) does that, then archive.refresh())" in str(open_archive(tmp_path).mistakes())
    mistakes = runners.annotate(tmp_path)
    assert capfd.readouterr().out == ""
    assert "qarena annotate" not in str(mistakes)
    assert f"({call}, choices=True) does that, then archive.refresh())" in html.unescape(mistakes._repr_html_())
    assert f"('qarena annotate --choices --archive {tmp_path}' does that)" in render_markdown(mistakes)
    printed = str(mistakes)
    assert len(printed.splitlines()) < 40
    assert "The table 'By ply' is not printed: the frame has all." in printed
    assert mistakes.frame["ply"].n_unique() > 10
    assert ">By ply<" in mistakes._repr_html_()


def test_a_sweep_is_refused_before_its_first_job_and_fails_with_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="games=0"):
        runners.sweep("random", "dumb", games=[2, 0], archive=tmp_path / "archive")
    assert [*tmp_path.iterdir()] == []

    def refuse(_cfg: object, _hydra: object, _launch: object) -> None:
        raise FailureError("the disk refuses")

    monkeypatch.setattr(RUN, "prepare", refuse)
    with pytest.raises(FailureError, match=r"job 0 failed.*the disk refuses"):
        runners.sweep("random", "dumb", games=[2, 4], archive=tmp_path / "archive")


def test_a_sweep_of_trainings_is_one_of_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {
        "generations": 1,
        "games": 400,
        "strength_games": 4,
        "regret_games": 0,
        "kind": "'mc_afterstate(least=1)'",
    }
    short = [f"trainer.{key}={value}" for key, value in values.items()]
    result = runners.sweep(experiment="self_improve", seed=[1, 2], overrides=short, archive=tmp_path / "archive")
    assert result.frame["status"].to_list() == ["complete"] * 2
    assert result.frame["value"].is_not_null().all()


def test_interrupting_a_sweep_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def interrupt(_experiment: object, _left: object, _stop: threading.Event, _progress: object) -> list[object]:
        signal.raise_signal(signal.SIGINT)
        assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())  # nothing ends pytest
        return []

    monkeypatch.setattr(execution, "_play_missing_units", interrupt)
    with pytest.raises(KeyboardInterrupt, match="the same call plays the rest"):
        runners.sweep("random", "dumb", games=2, seed=[1, 2], archive=tmp_path / "archive")


def agents_of(result: Result) -> list[str]:
    return [*result.frame.select("first", "second").row(0)]


class Corner:
    """Places in the first free cell."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return position.free[0], int(rng.choice(position.available)) if position.available else -1


def test_an_object_plays_runs_of_its_own(qarena: Qarena, tmp_path: Path) -> None:
    corner, label, root = Corner(), "mcts(iterations=2)", tmp_path / "archive"
    one = runners.run(corner, label, "random", games=4, archive=root, progress=False)
    two = runners.run(corner, Corner(), games=4, archive=root, overrides=["archive.other_code=new"])
    three = runners.run(corner, corner, games=4, archive=root)
    assert len({one.run_id, two.run_id, three.run_id}) == 3
    assert "an object of this program, so the run cannot be extended or played again" in one.note
    assert "seed=1 repeats its openings only" in one.note
    assert two.frame.select("first", "second").rows() == [("Corner", "Corner-2")]
    with open_archive(root) as archive:
        record = archive.archive.load_run(one.run_id)
        assert record.command == f"runners.run(<Corner>, '{label}', 'random', games=4, progress=False)"
        assert {*record.code["agents"]} == {label, "random"}  # no code is claimed of what has no description
        agents = archive.sql("SELECT DISTINCT agent FROM seats ORDER BY 1")["agent"].to_list()
        assert agents == ["Corner", "Corner-2", label, "random"]
        assert "Corner" in archive.ratings().frame["agent"]
    assert verify_archive(ArchiveStore.open(root)).problems == []
    assert "Corner" in runners.annotate(root, run=one.run_id).frame["agent"]
    runners.build_policy("gift", archive=root)
    assert runners.rebuild_policy("gift", root).frame.is_empty()
    for more in ((), ("--trust-agents",)):
        refused = qarena("archive", "replay", one.run_id, "--archive", str(root), *more)
        assert refused.code == 2
        assert "Corner was an object in a program" in refused.err


class Wide(Corner):
    """An agent with parameters, of which ``secret`` is not kept, and ``policy`` and ``below`` are only words here."""

    def __init__(self, width: object = 2, policy: object = None, below: object = None, secret: int = 0) -> None:
        self.width, self.policy, self.below, self._secret = width, policy, below, secret


def test_an_object_has_its_parameters_in_its_label(tmp_path: Path) -> None:
    two_objects = Wide(np.int64(3)), Wide((1, 2), policy="x", below="y")
    labels = ["Wide(width=3)", "Wide(below=y,policy=x,width=[1,2])"]
    first = runners.run(*two_objects, games=2, archive=tmp_path, progress=False)
    assert (agents_of(first), "untrained" in first.note) == (labels, False)
    assert "Wide keeps no plain value of secret as an attribute of that name" in first.note
    renamed = {"agent": Wide(secret=1), "name": "hidden"}
    named = {"agent": "mcts", "iterations": 2, "name": "fast, faster"}
    second = runners.run(Wide(), renamed, Wide(secret=2), named, games=2, archive=tmp_path, progress=False)
    assert second.frame["second"].to_list()[:3] == ["hidden", "Wide-2", "fast, faster"]
    archive = open_archive(tmp_path)
    assert archive.find_label("Wide(width=2)") == "Wide"
    assert archive.crosstable(agent="Wide(width=[1,2],policy=x,below=y)").frame["games"].to_list() == [2]
    parameters = archive.agents().frame.unnest("parameters").filter(label="fast, faster")
    assert parameters["iterations"].to_list() == [2]
    command = archive.archive.load_run(second.run_id).command
    assert "{'agent': <Wide(width=2, policy=None, below=None)>, 'name': 'hidden'}" in command


def define_class(body: str, helper: str = "return 0") -> type[Corner]:
    """Define the class ``Cell`` as a cell of a notebook does."""
    cell: dict[str, Any] = {"Corner": Corner, "__name__": "__main__"}
    exec(f"def help(): {helper}\nclass Cell(Corner):\n    def best(self): {body}", cell)  # noqa: S102
    cell_class: type[Corner] = cell["Cell"]
    return cell_class


def test_a_class_that_was_changed_is_another_agent(tmp_path: Path) -> None:
    versions = [
        define_class("return 1"),
        define_class("return 1  # same"),
        define_class("return 2"),
        define_class("return 1"),
    ]
    results = [runners.run(version(), "random", games=2, archive=tmp_path, progress=False) for version in versions]
    names = [agents_of(result)[0] for result in results]
    assert names[0] == names[1] == names[3] == "Cell"
    assert names[2].startswith("Cell-")
    assert ["other code" in result.note for result in results] == [False, False, True, False]
    again = runners.run({"agent": versions[2](), "name": "Cell"}, "random", games=2, archive=tmp_path, progress=False)
    assert agents_of(again)[0] == names[2]
    both = runners.run(versions[2](), versions[0](), games=2, archive=tmp_path / "new", progress=False)
    assert agents_of(both)[0] == "Cell"
    assert agents_of(both)[1].startswith("Cell-")
    assert open_archive(tmp_path).ratings().frame.height == 3


def test_the_hash_of_a_class_covers_what_it_uses() -> None:
    used = "help(); return self.x in {'a', 'b', 'c'}"
    hashes = [compute_class_code_hash(define_class(used, helper)) for helper in ("return 0", "return 1", "return 0")]
    assert hashes[0] == hashes[2] != hashes[1]
    assert compute_class_code_hash(define_class("return self.x")) != compute_class_code_hash(
        define_class("return self.y")
    )


def test_a_run_of_objects_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked, lock = [], ArchiveStore.lock_run

    def record_lock(archive: ArchiveStore, run_id: str) -> AbstractContextManager[None]:
        locked.append(run_id)
        return lock(archive, run_id)

    monkeypatch.setattr(ArchiveStore, "lock_run", record_lock)
    assert [runners.run(Corner(), "random", games=2, archive=tmp_path).run_id] == locked


def test_what_no_object_can_do_is_refused(tmp_path: Path) -> None:
    random_class = type("random", (Corner,), {})
    call: Callable[..., object] = runners.run
    for players, settings, message in (
        ((Corner, "random"), {}, r"Corner is a class: pass an object of it, Corner\(\)"),
        ((Corner(), "random"), {"overrides": ["executor=processes"]}, "plays on threads only"),
        ((Corner(), "random"), {"overrides": ["a.name=x"]}, r"write it with the agent, {'agent': …, 'name': 'x'}"),
        ((random_class(), "dumb"), {}, "the name 'random' is that of an agent"),
        (({"agent": Corner(), "name": "mcts"}, "dumb"), {}, "the name 'mcts' is that of an agent"),
        (({"agent": Corner(), "depth": 2}, "dumb"), {}, "'depth': an object has its parameters already"),
        (({"name": "x"}, "dumb"), {}, "names no agent: write {'agent': 'mcts'"),
        ((Wide("x" * 200), "dumb"), {}, r"longer than 200 .* pass {'agent': Wide\(…\), 'name': 'short'}"),
        (("dumb", "random", 10), {}, "10 is no agent: .* a setting has a name, games=10"),
        ((object(), "dumb"), {}, "is not a KernelAgent"),
        ((Corner(),), {}, "1 agent is named"),
        (("dumb", Corner(), "dumb"), {}, "another label, {'agent': 'dumb', 'name': 'other'}"),
    ):
        with pytest.raises(RequestError, match=message):
            call(*players, archive=tmp_path / "archive", **settings)
    other: Callable[..., object] = runners.sprt
    with pytest.raises(RequestError, match=r"only runners\.run takes objects"):
        other(Corner(), "random", archive=tmp_path / "archive")
    assert not (tmp_path / "archive").exists()


def test_a_policy_is_that_of_the_command(qarena: Qarena, tmp_path: Path) -> None:
    ids = []
    for name in ("one", "two"):
        root = tmp_path / name
        runners.run("rule_based", "random", games=20, archive=root)
        if name == "one":
            done = qarena("policy", "build", "kind=gift", "--where", "plies > 5", "--archive", str(root))
            assert done.code == 0, done.err
        else:
            assert runners.build_policy("gift", where="plies > 5", archive=root).frame["games"].item() <= 20
        with open_archive(root) as archive:
            rebuilt = runners.rebuild_policy("gift", root)
            assert rebuilt.frame.is_empty()
            assert "identical" in str(rebuilt)
            assert "difference" not in str(rebuilt)
            assert [rebuilt.policy_id] == archive.policies().frame["policy_id"].to_list()
            ids.append(archive.policies().frame.select("policy_id", "name", "rows").rows())
    assert ids[0] == ids[1]


def test_options_are_those_that_yamls_describe(qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "own.yaml").write_text("# Mine.\n_target_: own.Own\ndepth: null # plies\n")
    (tmp_path / "agent" / "broken.yaml").write_text("[1")
    agents = runners.list_options(config_dir=tmp_path)
    assert agents.frame.filter(name="own").rows() == [("own", "Mine.", "depth", "null", "plies")]
    assert agents.frame.filter(name="random")["parameter"].to_list() == [None]
    assert "broken.yaml" in agents.note
    listed = qarena("agents", "--wide", "--config-dir", str(tmp_path))
    assert listed.code == 2
    assert agents.table is not None
    lines = [[cell.strip() for cell in line.split("│")[1:4]] for line in listed.out.splitlines() if line[0] == "│"]
    assert lines == [[*map(str, row)] for row in agents.table.text_rows]
    games = runners.list_options("trainer").frame.filter(name="q_placement", parameter="games")
    assert games["default"].to_list() == ["100000"]
    call: Callable[..., Result] = runners.list_options
    for group in ("trainer", "kind", "rules", "objective"):
        assert not any("_target_" in name for name in call(group).frame["parameter"])
    with pytest.raises(RequestError, match=r"group 'agents' is not listed; did you mean 'agent'\?"):
        call("agents")


def test_a_judgement_has_the_rows_of_the_command(qarena: Qarena, tmp_path: Path) -> None:
    ArchiveStore.open(tmp_path / "archive", create=True)
    options = ("--draws", "1", "--games", "0", "--threads", "1", "--archive", str(tmp_path / "archive"))
    done = qarena("policy", "judge", "semi_random", *options, "--output", str(tmp_path / "x.parquet"))
    assert done.code == 0, done.err
    judged = runners.judge("semi_random", archive=tmp_path / "archive", draws=1, games=0, threads=1).frame
    assert judged.drop("turns_a_second").equals(pl.read_parquet(tmp_path / "x.parquet").drop("turns_a_second"))


def test_a_training_returns_its_learning_curve(tmp_path: Path) -> None:
    learned = runners.train(trainer="q_placement", overrides=["trainer.games=40"], archive=tmp_path, progress=False)
    assert learned.title == "Policy q_placement"
    with open_archive(tmp_path) as archive:
        assert [learned.run_id] == archive.runs().frame["run_id"].to_list()
        assert archive.learning_curve(run=learned).frame.equals(learned.frame)
    with pytest.raises(RequestError, match=r"no trainer is named: name one, train\(trainer='q_placement'\)"):
        runners.train(archive=tmp_path)
    with pytest.raises(
        RequestError, match=r"of the trainer q_placement: write overrides=\['trainer.games=2'\]"
    ) as refused:
        runners.train(trainer="q_placement", games=2)
    assert len(traceback.format_exception(refused.value)) < 20  # without Hydra's frames
    with pytest.raises(RequestError, match=r"write overrides=\['trainer.learner.discount=2'\]"):
        runners.train(trainer="q_placement", discount=2)
    with pytest.raises(RequestError, match=r"of the kind gift: write overrides=\['kind.smoothing=2'\]"):
        runners.build_policy("gift", smoothing=2, archive=tmp_path)
    assert learned.policy_id == learned.frame["policy_id"].item()
    agent = f"policy(policy={learned.policy_id})"  # agents play by the id, too
    assert agents_of(runners.run(agent, "random", games=2, progress=False, archive=tmp_path)) == [agent, "random"]
    assert learned.frame.select("policy", "series", "step").rows() == [("q_placement", "win_rate", 40)]
    with open_archive(tmp_path) as archive:
        assert archive.learning_curve().frame.equals(learned.frame)
        (command,) = archive.policies().frame["command"]
    assert command == f"qarena train trainer=q_placement progress=false trainer.games=40 --archive {tmp_path}"


def test_a_test_of_strength_returns_its_verdict(qarena: Qarena, tmp_path: Path) -> None:
    verdict = runners.sprt("semi_random", "random", elo1=50, seed=3, progress=False, archive=tmp_path / "one")
    assert (verdict.frame["accepted"].to_list(), verdict.run_id) == (["elo1"], verdict.frame["run_id"].item())
    done = qarena("sprt", "semi_random", "random", "elo1=50", "seed=3", "--archive", str(tmp_path / "two"))
    assert done.code == 0, done.err
    with open_archive(tmp_path / "two") as archive:
        again = archive.scan("verdicts").collect()
    assert again.drop("created", "command").equals(verdict.frame.drop("created", "command"))


def test_calls_from_several_threads_take_turns(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda seed: runners.run("random", "dumb", games=2, seed=seed, archive=tmp_path), [1, 2, 3, 1])
        )
    assert found[0].run_id == found[3].run_id
    assert len({result.run_id for result in found}) == 3


def test_an_interrupt_keeps_finished_games_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_experiment: object, _left: object, stop: threading.Event, _progress: object) -> list[object]:
        stop.set()
        return []

    monkeypatch.setattr(execution, "_play_missing_units", interrupt)
    with pytest.raises(KeyboardInterrupt, match="the same call plays the rest"):
        runners.run("random", "dumb", games=2, archive=tmp_path)


def test_the_examples_of_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("archives", "leagues", "learning", "options", "playing")
    results = [doctest.testmod(import_module(f"runners.library.{name}")) for name in names]
    assert [result.failed for result in results] == [0] * len(names)
    docs = {name: getattr(runners, name).__doc__ for name in runners.__all__ if name != "__version__"}
    assert [name for name, doc in docs.items() if ">>>" not in doc] == ["serve"]  # which ends with Ctrl-C


def test_public_names_are_offered_and_are_there() -> None:
    assert dir(runners) == sorted(runners.__all__)
    for name in dir(runners):
        assert getattr(runners, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = runners.nothing
