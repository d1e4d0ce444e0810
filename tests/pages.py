"""The commands, questions and programs that the pages show, and how the tests run them.

Each page is followed from top to bottom in a folder of its own, as a reader would, with fewer games than printed. A
step that is not run here is in ``NOT_RUN`` with the reason, or its page is run by the test that ``ELSEWHERE`` names:
``tests/test_pages.py`` fails for a step that is neither.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from tests.paths import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "data/README.md", *ROOT.glob("docs/*.md")])
COMMAND = re.compile(
    r"(\$ )?((PYTHONPATH=\S+ )?qarena|make|python3?|printf|cp|rm|mkdir|source|marimo|for|[a-z]+/bin/)\b"
)

LOOP = re.compile(r"^for .*?^done", re.MULTILINE | re.DOTALL)  # is one step


class Step(NamedTuple):
    """One thing that a page tells its reader to do."""

    page: str  # its path in the repository
    language: str  # shell, sql or python
    text: str  # a line of shell, a question, a program

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def format_page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def list_steps(page: Path) -> list[Step]:
    """Return the steps of a page, in their order. What a block without a language shows besides commands is output."""
    steps = []
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for language, block in fences:
        if language in ("sql", "python"):
            steps.append(Step(format_page_name(page), language, dedent(block).strip("\n")))
        elif language in ("", "sh"):
            lines = LOOP.sub(lambda loop: " ".join(loop[0].split()), block.replace("\\\n", " ")).splitlines()
            typed = [line for line in lines if line.startswith("$ ")] or lines
            steps += [
                Step(format_page_name(page), "shell", line.removeprefix("$ ")) for line in typed if COMMAND.match(line)
            ]
    return steps


STEPS = [step for page in PAGES for step in list_steps(page)]

# How printed commands are made smaller, in this order: a pattern and what takes its place.
SMALLER = (
    (r"\bgames=\d{4,}", "games=200"),  # also trainer.games=
    (r"\bgames=\d{3}\b(?=.* opening_plies=2 seed=2026)", "games=4"),  # the tournament of all agents
    (r"(semi_random rule_based alpha_beta .*)opening_plies=2$", r"\1opening_plies=9"),  # puzzles of late positions
    (r"--games \d{4,}", "--games 20"),
    (r"iterations=\d{4,}", "iterations=20"),
    (r"experiment=self_improve", "experiment=self_improve trainer.generations=1 trainer.games=200"),
    (r"trainer=self_improve", "trainer=self_improve trainer.games=4000"),
    (r"trainer\.generations=\d+", "trainer.generations=2"),
    (r"trainer=ga2(?!.*trainer\.games)", "trainer=ga2 trainer.games=4 trainer.generations=2"),
    (r"trainer=ga5(?!.*trainer\.(games|generations))", "trainer=ga5 trainer.games=4 trainer.generations=2"),
    (r"trainer=ga5(?=.*trainer\.generations)", "trainer=ga5 trainer.games=4"),
    (r"trainer=q_placement(?!.*trainer\.games)", "trainer=q_placement trainer.games=200"),
    (r"trainer=rl_encoded(?!.*trainer\.games)", "trainer=rl_encoded trainer.games=200"),
    (r"^(qarena run .*\b(oracle|mcts))$", r"\1 games=20"),
    (r"^(qarena run '\w+\(policy=\w+\)' \w+)$", r"\1 games=200"),
    (r"n_trials=20", "n_trials=2"),
    (r"reproduce --study C", "reproduce --games 200 --study D"),
    (r"^(qarena sprt \w+ \w+ )(?!.*games=)", r"\1games=400 "),
    (r"^(qarena (?:puzzles )?play\b.*)", r"printf 'resign\\n' | \1"),
)

# The steps that cannot be run here, by page and beginning, with the reason.
CLUSTER = "needs a Ray cluster: tests/runners/arena/executors plays on one that it starts"
MINUTES = "takes minutes, or needs the policies of lines that do"
OWN_KIND = "my_kind is the reader's own class: tests/runners/learning/training/test_policy_build.py has one"
SERVER = "serves until Ctrl-C: tests/runners/web/test_browser.py starts it"
NOT_RUN = {
    ("docs/serve.md", ""): SERVER,
    ("README.md", "make "): "sets up and runs what runs this",
    ("README.md", "source "): "changes the reader's shell",
    ("CONTRIBUTING.md", "make test"): "is what runs this",
    ("CONTRIBUTING.md", "source "): "changes the reader's shell",
    ("docs/index.md", "make run"): "sets up what runs this",
    ("docs/installation.md", "make run"): "sets up what runs this",
    ("docs/installation.md", "source "): "changes the reader's shell",
    ("docs/index.md", "source "): "changes the reader's shell",
    ("docs/tutorial.md", "qarena serve"): "serves until it is stopped: tests/runners/web plays on it",
    ("docs/notebooks.md", "marimo edit"): "opens a browser and waits",
    ("docs/notebooks.md", "python docs/notebooks"): "tests/test_site.py runs both notebooks",
    (
        "docs/benchmark.md",
        "",
    ): "makes four datasets and learns from each: tests/runners/learning/benchmark does with few games",
    ("docs/results_benchmark.md", ""): "learns from the datasets of benchmark.md for an hour",
    ("docs/storage.md", ""): "needs a bucket: tests/analytics/store/files asks a server that it starts",
    ("docs/scale.md", "qarena run mcts ga_minimax"): CLUSTER,
    ("docs/scale.md", "qarena archive index --executor ray"): CLUSTER,
    ("docs/sweeps.md", "qarena sweep hydra/launcher=submitit_slurm"): "needs a Slurm cluster",
    ("docs/leaderboard.md", 'qarena run agents="[{agent: engine'): "needs quartors, which is not installed",
    ("docs/leaderboard.md", "qarena rate --archive league"): "rates the games of the command before",
    ("docs/leaderboard.md", 'qarena sql "SELECT mover'): "asks the games of the commands before",
    ("docs/leaderboard.md", 'qarena sql "SELECT giver'): "asks the games of the commands before",
    ("docs/leaderboard.md", "qarena run 'quinto"): "needs the networks of Quinto, which are not ours",
    ("docs/leaderboard.md", 'qarena run "agents=[quinto'): "needs the networks of Quinto, which are not ours",
    ("docs/results_learning.md", "qarena run random 'policy"): MINUTES,
    ("docs/results_learning.md", "qarena rate --run d15fe60d7658"): "rates the games of the command before",
    ("docs/results_learning.md", "qarena policy judge 'policy(policy=line_values,risk=0.002)'"): MINUTES,
    ("docs/results_learning.md", "python docs/strength_by_time.py"): "draws what the commands before wrote",
    (
        "docs/results_learning.md",
        "qarena policy build kind=line_values kind.method=evaluations name=values_of",
    ): MINUTES,
    ("docs/results_learning.md", "qarena policy build kind=line_values name=fitted_to_"): MINUTES,
    ("docs/results_learning.md", "qarena policy judge line_values values_of_search"): MINUTES,
    ("docs/engines.md", "qarena run engine random a.command='./my_engine"): "plays the reader's own engine",
    ("docs/engines.md", "qarena agents check 'engine(command=./my_engine"): "checks the reader's own engine",
    ("docs/players_of_others.md", ""): "DIR is a folder of the reader's own: tests/runners/hosting/polito has some",
    ("docs/league.md", ""): "needs players of others: tests/runners/league/test_public_players.py has a league",
    ("docs/leagues.md", ""): "needs a sandbox: tests/runners/league/test_site.py goes the same way without one",
    ("docs/training.md", "@turn"): "the outline of a learner, not a program",
    ("CONTRIBUTING.md", "@turn"): "the outline of an agent, not a program",
    (
        "docs/archive.md",
        "import analytics\nimport polars as pl\nfrom deltalake",
    ): "needs deltalake, which the project does not install",
    ("docs/exchange.md", "import d3rlpy"): "needs d3rlpy, which the project does not install",
    (
        "docs/agents.md",
        "qarena run corner random --config-dir my_agents a.isolation=sandbox",
    ): "needs bubblewrap: tests/runners/hosting/test_sandbox.py plays in sandboxes",
    ("docs/agents.md", "def play(self"): "a method alone: tests/runners/authoring plays the template that has it",
    ("docs/policies.md", "qarena policy build --config-dir my_agents"): OWN_KIND,
    ("docs/policies.md", "qarena run --config-dir my_agents"): OWN_KIND,
    ("docs/policies.md", "qarena policy rebuild mine --config-dir"): OWN_KIND,
    ("docs/policies.md", "qarena policy show mine --config-dir"): OWN_KIND,
}

# Pages, or one language of them, that a test of their own runs: the test names the page.
ELSEWHERE = {
    ("docs/rl.md", "shell"): "tests/runners/learning/environments/test_rl_page.py",
    ("docs/rl.md", "python"): "tests/runners/learning/environments/test_rl_page.py",
    ("docs/cookbook.md", "sql"): "tests/runners/cli/test_queries.py",
    ("docs/cookbook.md", "shell"): "tests/runners/cli/test_queries.py",
    ("docs/sql.md", "sql"): "tests/runners/cli/test_queries.py",
    ("docs/sql.md", "python"): "tests/runners/cli/test_queries.py",
    ("docs/reports.md", "python"): "tests/analytics/report/test_reports_page.py",
}

# Steps that need the packages of an extra, by page and beginning.
EXTRAS = (
    ("docs/sweeps.md", "qarena sweep hydra/launcher=submitit_local"),
    ("docs/sweeps.md", "qarena sweep hydra/launcher=ray"),
    ("docs/sweeps.md", "qarena sweep hydra/sweeper=optuna"),
    ("docs/exchange.md", "qarena archive export --format dataset"),
    ("docs/exchange.md", "from datasets import load_dataset"),
)

# What the reader of a page has before it, as commands, or as a program that begins with an import. Every page finds
# the sample in data/sample.
SAMPLE = "mkdir -p data && cp -r data/sample data/archive"
MINE = "qarena agents new corner"
BEFORE = {
    "docs/agents.md": (MINE,),
    "data/README.md": (
        "qarena run random dumb games=200",
        "mkdir -p analytics/exact && cp -r $ROOT/analytics/exact/position_sets analytics/exact",
    ),
    "docs/archive.md": (
        SAMPLE,
        "qarena run random dumb games=40 --archive laptop-archive",
        "qarena run random dumb games=40 seed=2 --archive cluster-archive",
    ),
    "docs/decisions.md": (
        "qarena run random dumb games=40 opening_plies=8",
        "qarena annotate",
        "printf '...F/.3../.2A./C.8. 7\\n' > positions.txt",
    ),
    "docs/engines.md": ("mkdir -p runners/hosting && ln -s $ROOT/runners/hosting/engines runners/hosting/engines",),
    "docs/exchange.md": (SAMPLE, "import numpy as np; observations = np.full((3, 17), -1)"),
    "docs/leaderboard.md": (
        "mkdir -p docs my_agents/agent",
        "qarena run agent@a=semi_random agent@b=semi_random opening_plies=2 games=400 seed=6",
        (
            "qarena policy build kind=line_values name=line_values "
            """--where "agent_0 = 'semi_random' AND agent_1 = 'semi_random'\""""
        ),
    ),
    "docs/openings.md": (SAMPLE,),
    "docs/play.md": (MINE,),
    "docs/policies.md": ("printf 'position,cell,gift,value\\n..../..../..../.... 0,b1,F,0.5\\n' > theirs.csv",),
    "docs/reports.md": (SAMPLE, "qarena annotate --from-pieces 11"),
    "docs/strength.md": (
        "qarena run agents='[random,dumb,semi_random,oracle]' games=40 opening_plies=8",
        "qarena sprt agent@a=random agent@b=dumb games=64 elo0=0 elo1=100",
    ),
    "docs/sweeps.md": ("qarena run agent@a=random agent@b=random games=40",),
    "docs/troubleshooting.md": (SAMPLE,),
    "docs/tutorial.md": (SAMPLE,),
}
EXITS = {"qarena sprt": (0, 3)}  # that are answers: 3 is an undecided test


def is_listed(step: Step, entries: object) -> bool:
    """Return whether a step begins as one of some ``(page, beginning)`` does."""
    assert isinstance(entries, (dict, tuple))
    return any(page == step.page and step.text.startswith(beginning) for page, beginning in entries)


def strip_comment(line: str) -> str:
    """Return a command without its comment."""
    return re.sub(r" +# .*$", "", line)


def shrink_command(line: str) -> str:
    """Return a command with fewer games than printed."""
    line = strip_comment(line)
    for pattern, instead in SMALLER:
        line = re.sub(pattern, instead, line)
    return line
