"""Sweeps: one table of what varied, nothing played twice, every failure told; objectives are what SQL finds too."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.utils import JobReturn
from hydra.errors import ConfigCompositionException
from hydra.experimental.callback import Callback
from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]
from omegaconf import DictConfig

from analytics import open_archive
from analytics.questions.pairings import PairingResult
from analytics.questions.ratings import compute_ratings
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from quarto.rules import CELLS, NONE, find_finished_lines
from runners.arena.experiment import Experiment, open_experiment
from runners.config import sweep
from runners.config.objectives import Elo, Regret, Score, WinRate, find_agent_index, find_long_random_game
from runners.config.sweep import compute_sweep_id
from runners.config.sweep_values import MAX_CHECKED_TEXTS, compose_other_configs, keep_first_values, parse_overrides
from runners.config.yaml_options import CONF_FOLDER, load_rules
from tests.marks import seldom
from tests.runners.conftest import Qarena, Result
from tests.runners.experiments import (
    assert_same_rows,
    build_run_request,
    play,
    read_archive_rows,
    stop_the_second_run,
    store_at,
)

# Each job in its order: rules vary slowest here, because Hydra varies the last of the given keys fastest.
SWEEP = ("sweep", "agent@a=semi_random", "rules=classic,square", "opening_plies=0,2", "games=20")
JOBS = [("classic", "0"), ("classic", "2"), ("square", "0"), ("square", "2")]

SHORT = ("sweep", "agent@a=semi_random", "rules=classic,square", "opening_plies=2", "games=20")


def parse_table(result: Result) -> list[list[str]]:
    """Parse the printed table into cells, row by row, without headings."""
    return [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in result.out.splitlines() if line.startswith("│")
    ]


def test_a_sweep_ends_with_one_table_of_what_varied(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena(*SWEEP)
    assert result.code == 0
    table = parse_table(result)
    assert [tuple(row[1:3]) for row in table] == JOBS
    assert [row[0] for row in table] == ["0", "1", "2", "3"]
    assert {tuple(row[3:6]) for row in table} == {("semi_random", "random", "20")}
    heading = next(line for line in result.out.splitlines() if line.startswith("┃"))
    titles = ["job", "rules", "opening_plies", "first", "second", "games", "win", "95 % interval", "draw", "loss"]
    assert [title.strip() for title in heading.split("┃")[1:-1]] == [*titles, "score, %"]

    (question,) = re.findall(r'^  qarena sql "(.*)"$', result.out, re.MULTILINE)
    with open_archive(tmp_path / "data/archive") as archive:
        answer = archive.sql(question)
        runs = archive.sql("SELECT run_id, rules, opening_plies, games FROM runs")
    assert answer["job"].to_list() == [0, 1, 2, 3]
    assert set(answer["status"]) == {"complete"}
    assert set(answer["run_id"]) == set(runs["run_id"])
    assert {(rules, str(plies)) for _, rules, plies, games in runs.rows() if games == 20} == set(JOBS)
    for row, (wins, draws, losses) in zip(table, answer.select("wins", "draws", "losses").rows(), strict=True):
        assert [float(row[i]) for i in (6, 8, 9)] == [5 * count for count in (wins, draws, losses)]
        assert float(row[10]) == pytest.approx(100 * (wins + draws / 2) / 20, abs=0.01)
    assert verify_archive(ArchiveStore.open(tmp_path / "data/archive")).problems == []


@pytest.mark.parametrize("flag", ["hydra.mode=MULTIRUN", *seldom("--multirun", "-m")])
def test_a_sweep_over_agents_rows_by_pairing_and_a_run_in_the_mode_of_a_sweep_is_the_same(
    flag: str, qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "compute_sweep_id", lambda *_: "77e123456789")  # not the number 77e123456789
    objective = ("objective=elo", "objective.agent=random", "objective.anchor=semi_random")
    settings = ("agents=[random,dumb,semi_random]", "seed=1,2", "games=20", *objective)
    swept = qarena("sweep", *settings)
    assert swept.code == 0
    table = parse_table(swept)
    assert [tuple(row[:4]) for row in table] == [
        (job, seed, first, second)
        for job, seed in (("0", "1"), ("1", "2"))
        for first, second in (("random", "dumb"), ("random", "semi_random"), ("dumb", "semi_random"))
    ]
    heading = next(line for line in swept.out.splitlines() if line.startswith("┃"))
    assert heading.split("┃")[-2].strip() == "elo of random over semi_random"
    with open_archive(tmp_path / "data/archive") as archive:
        values = archive.sql("SELECT DISTINCT job, objective, value FROM sweeps ORDER BY job").rows()
    assert [name for _, name, _ in values] == ["elo", "elo"]
    first, second = (Elo().format_value(value) for _, _, value in values)
    assert [row[-1] for row in table] == [first, "", "", second, "", ""]  # once a job
    recorded = sorted((tmp_path / "data/archive/sweeps").rglob("*.json"))
    assert len(recorded) == 2
    assert qarena("run", *settings, flag)[:2] == (0, swept.out)
    assert sorted((tmp_path / "data/archive/sweeps").rglob("*.json")) == recorded
    assert len(list((tmp_path / "multirun").glob("*/*"))) == 2
    assert not (tmp_path / "outputs").exists()


def test_a_job_that_fails_is_told_at_once_and_at_the_end_and_the_others_go_on(qarena: Qarena, tmp_path: Path) -> None:
    """Sweep over rules that the agent does not play, which only its jobs find out."""
    result = qarena("sweep", "agent@a=rule_based", "rules=classic,own_piece,square", "games=4")
    assert result.code == 1
    line = r"job 1 failed \(agent@a=rule_based rules=own_piece games=4\): agent 'rule_based' does not play rules"
    at_once, at_the_end = re.finditer(line, result.err)
    assert at_once.start() < result.err.index("#2 :") < at_the_end.start()
    assert result.err.endswith("1 of 3 jobs failed; the same command again plays only what is missing\n")
    assert "Traceback" not in result.err
    assert [row[1] for row in parse_table(result)] == ["classic", "square"]
    with open_archive(tmp_path / "data/archive") as archive:
        jobs = archive.sql("SELECT job, status, error, overrides['rules'], games FROM sweeps ORDER BY job").rows()
    assert [job[:2] for job in jobs] == [(0, "complete"), (1, "failed"), (2, "complete")]
    assert "does not play rules" in jobs[1][2]
    assert [job[3:] for job in jobs] == [("classic", 4), ("own_piece", None), ("square", 4)]


def test_a_sweep_records_values_also_where_one_key_takes_another_ones_value(qarena: Qarena, tmp_path: Path) -> None:
    settings = ("seed=1,2", "opening_plies=${seed}", "games=1_0", "progress=FALSE", "++threads=1")
    result = qarena("sweep", "rule_based(faithful=true)", "random", *settings)
    assert (result.code, [row[:3] for row in parse_table(result)]) == (0, [["0", "1", "1"], ["1", "2", "2"]])
    with open_archive(tmp_path / "data/archive") as archive:
        jobs = archive.sql("SELECT overrides FROM sweeps ORDER BY job")["overrides"].to_list()
        plies = archive.sql("SELECT overrides.opening_plies AS plies FROM sweeps ORDER BY job")
    assert plies["plies"].to_list() == [1, 2]
    assert plies["plies"].dtype.is_integer()
    assert {key: str(jobs[0][key]) for key in ("games", "threads")} == {"games": "10", "threads": "1"}
    assert jobs[0]["agents"] == '["rule_based(faithful=true)","random"]'
    assert str(jobs[0]["progress"]).lower() == "false"


def test_a_pattern_stands_for_all_options_of_a_group(qarena: Qarena) -> None:
    result = qarena("sweep", "agent@a=dumb,random", "agent@b=random", "rules=glob(*,exclude=[own*,torus*])", "games=2")
    expected = [(agent, rules) for agent in ("dumb", "random") for rules in ("classic", "square")]
    assert (result.code, [tuple(row[1:3]) for row in parse_table(result)]) == (0, expected)


@pytest.mark.parametrize("seeds", ["range(0,3000)", ",".join(map(str, range(3000)))], ids=["range", "list"])
def test_the_first_job_begins_before_those_of_all_other_values_are_composed(
    seeds: str, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[str] = []
    load = ConfigLoaderImpl.load_configuration

    def count(loader: ConfigLoaderImpl, config_name: str, *arguments: Any, **keywords: Any) -> DictConfig:
        composed.append(config_name)
        return load(loader, config_name, *arguments, **keywords)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", count)

    def leave(*_: object) -> None:
        sys.exit(7)

    monkeypatch.setattr(sweep, "run_sweep_job", leave)
    assert qarena("sweep", "agent@a=mcts", "a.c=" + ",".join(f"0.{i}" for i in range(200)), f"seed={seeds}").code == 7
    assert len(composed) <= 3  # for the checks, for the sweep and for the job


def test_all_texts_up_to_a_limit_and_the_ends_of_numbers_are_checked_before_the_first_job(qarena: Qarena) -> None:
    words = ",".join(f"w{i}" for i in range(MAX_CHECKED_TEXTS + 1))
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        overrides = parse_overrides(["seed=5,1,2,9,4", "a.name=x,1,2.5,0.5,nan", "rules=glob(t*)", f"b.name={words}"])
        first = compose("run", keep_first_values(overrides), return_hydra_config=True)
        checked = [*compose_other_configs("run", first, overrides)]
    base = (5, "x", "torus", "w0")
    seen = [(cfg.seed, str(cfg.a.name), cfg.rules.name, cfg.b.name) for cfg in checked]
    assert seen[:2] == [(1, *base[1:]), (9, *base[1:])]
    assert [a for _, a, rules, b in seen[2:] if (rules, b) == base[2:]] == ["nan", "1", "0.5", "2.5"]
    assert [rules for _, _, rules, _ in seen if rules != "torus"] == ["torus_square"]
    assert [b for *_, b in seen if b != "w0"] == [f"w{i}" for i in range(1, MAX_CHECKED_TEXTS)]


class SweepCallback(Callback):
    """A callback of Hydra that keeps the events of which it is notified."""

    events: ClassVar[list[str]] = []

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        self.events.append(f"start {config.hydra.mode.name}")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        self.events.append(f"{config.hydra.job.num} {job_return.status.name}")

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        self.events.append("end")


def test_callbacks_are_told_of_a_sweep_and_of_its_failures(qarena: Qarena) -> None:
    SweepCallback.events.clear()
    settings = ("agent@a=rule_based", "rules=classic,own_piece,square", "games=2")
    result = qarena("sweep", *settings, f"+hydra.callbacks.own._target_={__name__}.SweepCallback")
    assert result.code == 1
    assert SweepCallback.events == ["start MULTIRUN", "0 COMPLETED", "1 FAILED", "2 COMPLETED", "end"]


def test_batches_that_were_asked_for_are_those_of_hydras_own_sweeper(qarena: Qarena) -> None:
    settings = ("agent@a=dumb", "seed=1,2,3", "games=2")
    batched = qarena("sweep", *settings, "hydra.sweeper.max_batch_size=2")
    assert "Launching 2 jobs locally" in batched.err
    unbatched = qarena("sweep", *settings)
    assert (unbatched.code, parse_table(unbatched)) == (batched.code, parse_table(batched))
    assert re.findall(r"\t#\d", unbatched.err) == ["\t#0", "\t#1", "\t#2"]


def test_a_combination_that_cannot_be_composed_ends_the_sweep_with_a_line(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ConfigLoaderImpl.load_sweep_config

    def fail_second(loader: ConfigLoaderImpl, sweep: DictConfig, overrides: list[str]) -> DictConfig:
        if "rules=square" in overrides:
            raise ConfigCompositionException("these two do not go together")
        return load(loader, sweep, overrides)

    monkeypatch.setattr(ConfigLoaderImpl, "load_sweep_config", fail_second)
    result = qarena("sweep", "agent@a=dumb", "rules=classic,square,torus", "games=2")
    assert (result.code, [row[0] for row in parse_table(result)]) == (1, ["0"])
    assert result.err.endswith("the sweep ended before its last job: these two do not go together\n")


@pytest.mark.slow
def test_trainings_and_builds_in_the_mode_of_a_sweep_are_sweeps(qarena: Qarena) -> None:
    training = ("train", "trainer=q_table", "trainer.games=20", "seed=1,2")
    for command in (training, ("policy", "build", "kind=gift", "name=one,two")):
        result = qarena(*command, "hydra.mode=MULTIRUN")
        assert (result.code, [row[0] for row in parse_table(result)]) == (0, ["0", "1"])
    with open_archive("data/archive") as archive:
        jobs = archive.sql("SELECT sweep_id, job, status, objective FROM sweeps ORDER BY ALL").rows()
    assert len({sweep for sweep, *_ in jobs}) == 2
    expected = {(job, "complete", objective) for objective in ("win_rate", None) for job in (0, 1)}
    assert {tuple(rest) for _, *rest in jobs} == expected


@pytest.mark.slow
def test_a_file_can_ask_for_a_sweep(qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "conf/experiment").mkdir(parents=True)
    recipe = "# @package _global_\ngames: 4\nhydra: {mode: MULTIRUN, sweeper: {params: {seed: '1,2'}}}\n"
    (tmp_path / "conf/experiment/seeds.yaml").write_text(recipe)
    result = qarena("run", "experiment=seeds", "--config-dir", "conf")
    assert (result.code, [row[:2] for row in parse_table(result)]) == (0, [["0", "1"], ["1", "2"]])
    with open_archive(tmp_path / "data/archive") as archive:
        assert archive.sql("SELECT status FROM sweeps").rows() == [("complete",), ("complete",)]


EXTRAS = {"joblib": "joblib", "ray": "ray", "submitit_local": "slurm", "submitit_slurm": "slurm", "optuna": "optuna"}


@pytest.mark.parametrize(("name", "extra"), EXTRAS.items())
def test_a_plugin_that_is_missing_is_one_line(
    name: str, extra: str, qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "sweeper" if name == "optuna" else "launcher"
    monkeypatch.setattr("runners.config.arguments.find_spec", lambda _module: None)
    result = qarena("sweep", f"hydra/{group}={name}", "seed=1,2", "games=4")
    assert (result.code, result.out) == (2, "")
    install = f"install its extra: in a clone, .venv/bin/pip install -e '.[{extra}]'"
    assert result.err == f"error: hydra/{group}={name} needs an extra: {install}\n"
    assert list(tmp_path.iterdir()) == []


def joblib(tmp_path: Path) -> tuple[str, ...]:
    """Let joblib start new processes, because it keeps old ones, which stay in the folder of an earlier test."""
    get_reusable_executor().shutdown()
    paths = f"archive.root={tmp_path / 'two'}", f"hydra.sweep.dir={tmp_path / 'jobs'}"
    return "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "threads=1", *paths


@pytest.mark.slow
def test_joblib_plays_the_same_sweep_in_processes_of_its_own(qarena: Qarena, tmp_path: Path) -> None:
    expected = qarena(*SWEEP, "archive.root=one")
    result = qarena(*SWEEP, *joblib(tmp_path))
    assert result.code == 0, result.err
    assert parse_table(result) == parse_table(expected)
    assert_same_rows(read_archive_rows(tmp_path / "two"), read_archive_rows(tmp_path / "one"))
    get_reusable_executor().shutdown()  # the folder in which its processes are is about to be deleted


@pytest.mark.slow
def test_joblib_tells_of_failures_too(qarena: Qarena, tmp_path: Path) -> None:
    assert qarena("run", "games=2").code == 0  # its agents must not travel to the other processes
    result = qarena("sweep", "agent@a=rule_based", "rules=own_piece,classic", "games=4", *joblib(tmp_path))
    assert result.code == 1
    assert [row[1] for row in parse_table(result)] == ["classic"]
    assert re.search(r"job 0 failed \(.*rules=own_piece games=4 .*\): agent 'rule_based' does not play", result.err)
    assert result.err.endswith("1 of 2 jobs failed; the same command again plays only what is missing\n")
    with open_archive(tmp_path / "two") as archive:
        assert archive.sql("SELECT job, status FROM sweeps ORDER BY job").rows() == [(0, "failed"), (1, "complete")]


def test_an_interrupted_sweep_goes_on_and_a_larger_one_plays_only_what_is_missing(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data/archive"
    with monkeypatch.context() as interrupted:
        stop_the_second_run(interrupted, root)
        result = qarena(*SHORT)
    assert result.code == 130
    assert result.err.endswith(f"To go on:\n  qarena {' '.join(SHORT)}\n")
    assert [row[0] for row in parse_table(result)] == ["0"]
    with open_archive(root) as archive:
        jobs = archive.sql("SELECT job, status FROM sweeps ORDER BY job").rows()
    assert jobs == [(0, "complete"), (1, "interrupted")]
    first = qarena(*SHORT)
    assert [row[1] for row in parse_table(first)] == ["classic", "square"]
    files = set(root.glob("games/*/*.parquet"))
    more = qarena(*SHORT, "rules=classic,square,torus", "threads=1")
    assert parse_table(more)[:2] == parse_table(first)
    added = set(root.glob("games/*/*.parquet")) - files
    assert len({path.parent for path in added}) == 1  # of one run: that of the new rules
    with open_archive(root) as archive:
        assert archive.sql("SELECT count(*) FROM sweeps GROUP BY sweep_id ORDER BY ALL").rows() == [(2,), (3,)]


@pytest.mark.slow
def test_a_folder_used_again_shows_the_jobs_of_this_sweep_alone(qarena: Qarena, tmp_path: Path) -> None:
    here = "hydra.sweep.dir=here"
    before = qarena("sweep", "agent@a=rule_based", "rules=classic,own_piece,square", "games=4", here)
    assert before.code == 1
    (tmp_path / "here/job-damaged.json").write_text("{")
    (tmp_path / "here/0/job.json").write_text("not json")
    result = qarena("sweep", "agent@a=semi_random", "seed=1,2", "games=4", here)
    assert (result.code, [row[:2] for row in parse_table(result)]) == (0, [["0", "1"], ["1", "2"]])
    assert "failed" not in result.err
    refused = qarena("sweep", "agent@a=semi_random", "rules=clasic,square", here)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: rules 'clasic' does not exist")


@pytest.mark.slow
def test_jobs_that_share_a_folder_are_all_shown(qarena: Qarena) -> None:
    result = qarena("sweep", "seed=1,2", "games=4", "hydra.sweep.subdir=all")
    assert [row[:2] for row in parse_table(result)] == [["0", "1"], ["1", "2"]]


def test_a_sweep_is_the_same_whatever_does_not_change_its_results() -> None:
    swept = ["rules=classic,square", "games=20"]
    sweep_id = compute_sweep_id(swept)
    assert re.fullmatch("[0-9a-f]{12}", sweep_id)
    ineffective_settings = (
        *("threads=1", "progress=false", "archive.root=x", "archive.shard_games=2", "hydra.sweep.dir=x"),
        *("executor=ray", "ray.address=node7"),
    )
    assert {compute_sweep_id([*swept[::-1], other]) for other in ineffective_settings} == {sweep_id}
    assert compute_sweep_id([*swept, "seed=2"]) != sweep_id
    assert compute_sweep_id([*swept, "hydra.sweeper.max_batch_size=2"]) != sweep_id
    study = [*swept, "hydra/sweeper=optuna"]
    assert compute_sweep_id(study) != sweep_id
    study_settings = ("storage=sqlite:///x.db", "n_trials=50", "n_jobs=4")
    assert {compute_sweep_id([*study, f"hydra.sweeper.{setting}"]) for setting in study_settings} == {
        compute_sweep_id(study)
    }
    assert compute_sweep_id([*study, "hydra.sweeper.sampler.seed=1"]) != compute_sweep_id(study)
    assert compute_sweep_id(["rules=classic,square,torus", "games=20"]) != sweep_id


MATCH = ("agent@a=semi_random", "agent@b=rule_based", "games=40", "seed=3")
TOURNAMENT = ("agents=[dumb,random,semi_random]", "games=20")
Played = tuple[Experiment, Sequence[PairingResult]]


def parse_objective(out: str) -> tuple[str, str]:
    """Parse the heading and the value of the objective in the output of a single run."""
    ((heading, value),) = re.findall(r"^Objective: (.*): (.*)$", out, re.MULTILINE)
    return heading, value


def query_number(root: Path, question: str) -> float:
    with open_archive(root) as archive:
        return float(archive.sql(question).item())


@pytest.fixture(scope="module")
def played_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, ...], Played]]:
    """Play ``MATCH`` and ``TOURNAMENT`` into one archive; return its folder, and results by arguments."""
    root = tmp_path_factory.mktemp("played")
    return root, {
        arguments: (open_experiment(store_at(root, build_run_request(*arguments))), play(root, *arguments).results)
        for arguments in (MATCH, TOURNAMENT)
    }


def test_the_objectives_of_a_run_are_those_of_all_games_of_the_agent(
    played_runs: tuple[Path, dict[tuple[str, ...], Played]],
) -> None:
    root, runs = played_runs
    for arguments, label in ((MATCH, "rule_based"), (TOURNAMENT, "random")):
        experiment, results = runs[arguments]
        of = f"FROM seats WHERE run_id = '{experiment.run_id}' AND agent = '{label}'"
        for objective, column in ((WinRate(label), "(score = 1)::INT"), (Score(label), "score")):
            assert objective.value(experiment, results) == query_number(root, f"SELECT avg({column}) {of}")
    # The first agent is judged unless another is named.
    experiment, results = runs[MATCH]
    first, a, b = (Score(agent).value(experiment, results) for agent in (None, "a", "b"))
    assert first == a == results[0].score.mean == pytest.approx(1 - b)
    assert a != b
    # Elo is that of the ratings over the anchor.
    experiment, results = runs[TOURNAMENT]
    with open_archive(root) as archive:
        rated = compute_ratings(archive, f"run_id = '{experiment.run_id}'", anchor="dumb", samples=0)
    expected = {rating.agent: rating.elo.mean for rating in rated.ratings}
    for agent in ("random", "semi_random"):
        assert Elo(agent, "dumb").value(experiment, results) == expected[agent] != 0
    with pytest.raises(RequestError, match=r"objective=elo needs objective.anchor=LABEL in a tournament"):
        Elo().check(experiment.request.spec)
    assert Elo().format_value(float("inf")) == "∞"
    assert (
        find_agent_index(build_run_request("agents=[random,mcts]").spec, "mcts(iterations=200)", "objective.agent") == 1
    )  # its default


def test_regret_is_the_mean_over_the_decisions_of_the_agent(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("run", *MATCH, "objective=regret", "objective.agent=b")
    assert result.code == 0
    heading, text = parse_objective(result.out)
    assert heading == "regret of b"
    expected = query_number(tmp_path / "data/archive", "SELECT avg(regret) FROM decisions WHERE agent = 'rule_based'")
    assert text == f"{expected:.4f}"
    late = qarena("run", *MATCH, "objective=regret", "objective.agent=b", "objective.from_pieces=8")
    of_late = "SELECT avg(regret) FROM decisions WHERE agent = 'rule_based' AND ply >= 8"
    assert parse_objective(late.out)[1] == f"{query_number(tmp_path / 'data/archive', of_late):.4f}" != text


def test_games_that_cannot_be_judged_in_time_are_one_line(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse before the run if one game shows that judging takes too long, and otherwise after the run."""
    slow = ("objective=regret", "objective.seconds=0")
    result = qarena("run", *MATCH, *slow)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(
        "error: one random game under rules classic from 0 pieces on cannot be judged exactly "
    )
    assert "within 0 s (objective=regret): leave out early boards with objective.from_pieces=N" in result.err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(Regret, "check_duration", lambda *_: None)
    late = qarena("run", *MATCH, *slow)
    assert (late.code, late.out) == (1, "")
    assert re.match(r"error: the games of run [0-9a-f]{12} cannot be judged exactly within 0 s", late.err)


def test_the_game_that_is_judged_early_is_a_whole_one_by_the_rules() -> None:
    for name in ("classic", "own_piece", "torus_square"):
        rules = load_rules(name)
        for least in (0, 8):
            game = find_long_random_game(rules, least, seed=least)
            assert game is not None
            plies = int(game.plies[0])
            assert plies > least
            pieces, cells = game.pieces[:plies, 0].tolist(), game.cells[:plies, 0].tolist()
            assert len({*pieces}) == len({*cells}) == plies
            board = [NONE] * CELLS
            for ply, (piece, cell) in enumerate(zip(pieces, cells, strict=True), 1):
                board[cell] = piece
                assert bool(find_finished_lines(board, rules)) == (ply == plies and game.winner[0] != NONE)
            assert game.winner[0] in (NONE, plies & 1)


def test_an_agent_without_decisions_has_no_regret(tmp_path: Path) -> None:
    arguments = ("agent@a=semi_random", "games=2", "opening_plies=2")
    experiment, results = (
        open_experiment(store_at(tmp_path, build_run_request(*arguments))),
        play(tmp_path, *arguments).results,
    )
    with pytest.raises(FailureError, match=r"'semi_random' has no decision in run .* from 15 pieces on"):
        Regret(from_pieces=15).value(experiment, results)
