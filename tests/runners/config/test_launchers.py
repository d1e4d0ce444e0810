"""Launchers and sweepers that need extras: the same sweep as by the basic launcher, and studies of Optuna."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.runners.config.test_sweep import SWEEP, parse_table
from tests.runners.conftest import Qarena, Result
from tests.runners.experiments import assert_same_rows, read_archive_rows

pytestmark = pytest.mark.extras

# In place of Slurm: sbatch runs the tasks of an array one after the other, as Slurm would start them.
SBATCH = """#!{python}
import os, re, subprocess, sys
script = open(sys.argv[1]).read()
open("{folder}/submitted.sh", "w").write(script)
first, last = map(int, re.search(r"--array=(\\d+)-(\\d+)", script).groups())
environment = os.environ | dict(SLURM_ARRAY_JOB_ID="77", SLURM_NTASKS="1", SLURM_JOB_NUM_NODES="1", SLURM_NODEID="0",
    SLURM_JOB_NODELIST="node", SLURM_PROCID="0", SLURM_LOCALID="0")
print("Submitted batch job 77", flush=True)
if os.fork() == 0:
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    for task in range(first, last + 1):
        own = dict(SLURM_JOB_ID=str(78 + task), SLURM_ARRAY_TASK_ID=str(task))
        subprocess.run(["bash", sys.argv[1]], env=environment | own)
"""
SRUN = """#!{python}
import os, subprocess, sys, time
words = sys.argv[1:]
names = dict(A="77", a=os.environ["SLURM_ARRAY_TASK_ID"], t="0", j=os.environ["SLURM_JOB_ID"])
def name(option):
    text = words[words.index(option) + 1]
    for key, value in names.items():
        text = text.replace("%" + key, value)
    return text
command = words[next(i for i, word in enumerate(words) if word.endswith("python")):]
folder = os.path.dirname(name("--output"))
while not (os.path.isdir(folder) and any(file.endswith("_submitted.pkl") for file in os.listdir(folder))):
    time.sleep(0.05)  # what submits writes it after this has begun
with open(name("--output"), "w") as out, open(name("--error"), "w") as err:
    sys.exit(subprocess.run(command, stdout=out, stderr=err).returncode)
"""
SACCT = """#!{python}
import sys
print("JobID|State|NodeList")
for task in range(4):
    print(f"77_{{task}}|RUNNING|node")
"""


def assert_only_progress_printed(result: Result, launcher: str) -> None:
    """Assert that standard error has one line on the output folders and one line for each job, and nothing else."""
    late_notes = ("ompiling", "playing …")  # of a job that takes longer than half a second
    first, *lines = [line for line in result.err.splitlines() if not any(note in line for note in late_notes)]
    assert re.fullmatch(rf"{launcher}: the jobs' output folders are in multirun/\S+", first)
    assert [line[:4] for line in lines] == ["\t#0 ", "\t#1 ", "\t#2 ", "\t#3 "]


def sweep(qarena: Qarena, launcher: str, *more: str) -> None:
    """Play one sweep by this launcher and by the basic one; assert equal tables and rows, and no files elsewhere."""
    expected = qarena(*SWEEP, "archive.root=one")
    result = qarena(*SWEEP, f"hydra/launcher={launcher}", "threads=1", "archive.root=two", *more)
    assert result.code == 0, result.err
    assert parse_table(result) == parse_table(expected)
    assert_only_progress_printed(result, launcher)
    assert_same_rows(read_archive_rows(Path("two")), read_archive_rows(Path("one")))
    assert {path.name for path in Path().iterdir()} <= {"one", "two", "multirun", "slurm"}


def test_ray_plays_the_same_sweep(qarena: Qarena) -> None:
    import ray

    try:
        sweep(qarena, "ray", "+hydra.launcher.ray.init.num_cpus=2")
    finally:
        ray.shutdown()


def test_submitit_plays_the_same_sweep(qarena: Qarena) -> None:
    sweep(qarena, "submitit_local")
    assert len(list(Path().glob("multirun/*/*/.submitit/*/*_log.out"))) == 4


def test_slurm_gets_one_array_of_jobs_which_play_the_same_sweep(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "slurm"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
        (programs / name).write_text(text.format(python=sys.executable, folder=programs))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    settings = {
        "partition": "short",
        "cpus_per_task": "4",
        "timeout_min": "90",
        "mem_gb": "8",
        "array_parallelism": "3",
    }
    sweep(qarena, "submitit_slurm", *(f"hydra.launcher.{key}={value}" for key, value in settings.items()))
    script = (programs / "submitted.sh").read_text()
    flags = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", script, re.MULTILINE))
    expected_flags = {
        "partition": "short",
        "cpus-per-task": "4",
        "time": "90",
        "mem": "8GB",
        "array": "0-3%3",
        "nodes": "1",
    }
    assert flags.items() >= expected_flags.items()
    assert flags["job-name"] == "qarena"
    assert "submitit.core._submit" in script


def test_slurm_that_is_not_there_is_one_line(qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = qarena("sweep", "seed=1,2", "games=4", "hydra/launcher=submitit_slurm")
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith(
        "error: hydra/launcher=submitit_slurm needs Slurm: srun is not on PATH"
    )


SPACE = (
    *("sweep", "hydra/sweeper=optuna", "agent@a=ga2", "agent@b=random", "a.alpha=interval(0,1)", "games=20"),
    *("hydra.sweeper.n_jobs=1", "hydra.sweeper.storage=sqlite:///study.db", "threads=1"),
)


def find_best_line(result: Result) -> str:
    """Return the line on the best trial of a study."""
    return next(line for line in result.out.splitlines() if line.startswith("Best of the study: "))


def test_the_same_command_adds_trials_to_the_study_of_its_settings(qarena: Qarena, tmp_path: Path) -> None:
    first = qarena(*SPACE, "hydra.sweeper.n_trials=2")
    assert (first.code, len(parse_table(first))) == (0, 2), first.err
    assert re.sub(r"^\t#.*|.*ompil.*|^Launching.*", "", first.err, flags=re.MULTILINE).strip() == ""
    more = qarena(*SPACE, "hydra.sweeper.n_trials=1")
    assert (more.code, len(parse_table(more))) == (0, 1), more.err
    scores = [float(row[-1]) for row in parse_table(first) + parse_table(more)]
    assert find_best_line(more).endswith(f"(score, %: {max(scores):.2f})")
    other = qarena(*SPACE, "hydra.sweeper.n_trials=1", "objective=regret", "objective.from_pieces=8")
    (row,) = parse_table(other)
    assert find_best_line(other).endswith(f"(regret: {float(row[-1]):.4f})")
    assert {path.name for path in tmp_path.iterdir()} == {"data", "multirun", "study.db"}
    assert len({row["study_name"] for row in studies(tmp_path)}) == 2


def studies(folder: Path) -> list[dict[str, str]]:
    with sqlite3.connect(folder / "study.db") as database:
        return [{"study_name": name} for (name,) in database.execute("SELECT study_name FROM studies")]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (["hydra.sweeper.direction=minimize"], "hydra.sweeper.direction=minimize contradicts the objective score"),
        (["hydra.sweeper.n_trials=many"], "hydra.sweeper.n_trials=many: 'many' is not a whole number"),
        (["hydra.sweeper.storage=nowhere"], "hydra/sweeper=optuna cannot begin: Could not parse"),
        (["hydra/sweeper/sampler=grid"], "hydra/sweeper=optuna cannot begin: GridSampler only supports discrete"),
        (["gmaes=4"], "key 'gmaes' does not exist; did you mean 'games'?"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_study_is_one_line(wrong: list[str], expected: str, qarena: Qarena, tmp_path: Path) -> None:
    result = qarena(*SPACE, *wrong)
    assert result.refusal.startswith(f"error: {expected}")
    assert not (tmp_path / "multirun").exists()


def test_what_has_no_value_cannot_be_optimised(qarena: Qarena) -> None:
    built = qarena("policy", "build", "-m", "kind=gift", "hydra/sweeper=optuna")
    assert built.refusal.startswith("error: hydra/sweeper=optuna needs a value to optimise")
