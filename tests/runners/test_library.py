"""A run that Python asks for is the run of the command: the same id, the same rows, the same refusals."""

from __future__ import annotations

import doctest
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import runners
import runners.library
from analytics import open_archive
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from runners.arena import execution
from tests.runners.conftest import Qarena
from tests.runners.experiments import assert_same_rows, rows


def test_a_call_extends_the_run_of_the_command(qarena: Qarena, tmp_path: Path) -> None:
    one, two, label = tmp_path / "one", tmp_path / "two", "rule_based(faithful=false)"
    done = qarena("run", label, "random", "games=6", "seed=7", "opening_plies=2", "--archive", str(one))
    assert done.code == 0, done.err
    result = runners.run(label, "random", games=6, seed=7, opening_plies=2, progress=False, archive=two)
    assert result.run_id in done.out
    assert_same_rows(rows(two), rows(one))
    with open_archive(one) as archive:
        assert archive.crosstable(run=result.run_id).frame.equals(result.frame)
        assert archive.scan("games").collect().height == 6
    extended = runners.run(label, "random", games=10, seed=7, overrides=["opening_plies=2"], archive=one)
    assert (extended.run_id, extended.frame["games"].to_list()) == (result.run_id, [10])
    with open_archive(one) as archive:  # what is recorded is a command that repeats it
        command = archive.archive.load_run(result.run_id).command
    assert command == f"qarena run '{label}' random games=10 seed=7 opening_plies=2 --archive {one}"
    again = qarena(*shlex.split(command)[1:])
    assert "Nothing to play" in again.out
    assert result.run_id in again.out


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
            assert runners.rebuild_policy("gift", root).frame.is_empty()
            ids.append(archive.policies().frame.select("policy_id", "name", "rows").rows())
    assert ids[0] == ids[1]


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


def test_the_examples_of_docstrings_run() -> None:
    found = doctest.testmod(runners.library)
    assert (found.failed, found.attempted) == (0, 3)


def test_public_names_are_offered_and_are_there() -> None:
    assert dir(runners) == sorted(runners.__all__)
    for name in dir(runners):
        assert getattr(runners, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = runners.nothing
