"""Every valid configuration can be played; an invalid one is refused in one line before anything is written."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.dumb import Dumb
from runners.arena.experiment import build_engine
from runners.arena.identities import to_class_path
from runners.arena.request import RunRequest
from runners.arena.storage import ArchiveOptions
from runners.config.agents import agent_from_label, normalise_label
from runners.config.recipes import is_training_experiment_chosen
from runners.config.yaml_options import list_options, load_option, load_rules
from tests.naive import PRESETS
from tests.paths import ROOT
from tests.runners.experiments import build_run_request
from tests.runners.learning.training.trainings import build_request

CONF = ROOT / "conf"


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


# What the project configures.


@pytest.mark.parametrize("name", options("rules"))
def test_every_rule_set_is_what_its_name_says(name: str) -> None:
    assert load_rules(name) == PRESETS[name]


@pytest.mark.parametrize("name", options("experiment"))
def test_every_experiment_is_a_versioned_recipe_whose_commands_can_be_played(name: str) -> None:
    header = [line for line in (CONF / f"experiment/{name}.yaml").read_text().splitlines() if line.startswith("#")]
    assert any(re.match(r"# Version \d+\. ", line) for line in header)
    commands = [shlex.split(line.removeprefix("#")) for line in header if line.startswith("#   qarena ")]
    assert commands
    for program, verb, *overrides in commands:
        assert (program, verb) in {("qarena", "run"), ("qarena", "sweep")}
        assert f"experiment={name}" in overrides
        first_job = [
            re.sub(r"(?<==\w)(\w*),.*", r"\1", override) for override in overrides
        ]  # of a sweep; a run is one job
        if is_training_experiment_chosen(overrides):
            assert build_request(*first_job).trainer
        else:
            assert build_engine(build_run_request(*first_job).spec).pairings


def test_values_of_the_command_line_reach_the_request() -> None:
    run_request = build_run_request(
        "agent@a=semi_random",
        "agent@b=rule_based",
        "b.faithful=true",
        "rules=square",
        "games=1_001",
        "seed=9",
        "opening_plies=3",
        "threads=5",
        "archive.root=some/where",
        "archive.shard_games=10",
        "archive.shard_seconds=2.5",
        "archive.other_code=new",
        "progress=false",
    )
    assert run_request.spec.rules == PRESETS["square"]
    assert [agent.label for agent in run_request.spec.agents] == ["semi_random", "rule_based(faithful=true)"]
    assert run_request.spec.agents[1].params == {"faithful": True, "version": "last"}
    assert (run_request.spec.pairings, run_request.spec.seed, run_request.spec.opening_plies) == (((0, 1),), 9, 3)
    assert run_request == RunRequest(
        spec=run_request.spec,
        games=1002,
        threads=5,
        storage=ArchiveOptions(Path("some/where"), shard_games=10, shard_seconds=2.5, other_code="new"),
        progress=False,
        notes=("games=1001 is odd; games come in pairs with the seats swapped, so 1002 will be played",),
    )


def test_threads_and_the_storage_are_what_the_code_says_unless_said() -> None:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    assert (build_run_request().threads, build_run_request().storage) == (cores, ArchiveOptions())


# How agents are named.


@pytest.mark.parametrize(
    ("text", "label", "params"),
    [
        ("random", "random", {}),
        ("rule_based(faithful=true)", "rule_based(faithful=true)", {"faithful": True, "version": "last"}),
        ("rule_based( faithful = false )", "rule_based", {"faithful": False, "version": "last"}),
    ],
)
def test_a_label_is_read_back_as_its_agent(text: str, label: str, params: dict[str, object]) -> None:
    spec = agent_from_label(text)
    assert (spec.label, spec.params) == (label, params)
    assert agent_from_label(spec.label) == spec
    assert normalise_label(text) == label


@pytest.mark.parametrize("group", ["agent", "kind", "objective", "trainer"])
def test_each_yaml_has_all_parameters_of_its_class(group: str) -> None:
    """Check yamls, because a parameter that a yaml lacks can neither be set nor appear in the help."""
    for name in list_options(group):
        settings = load_option(group, name)
        module, _, class_name = to_class_path(settings["_target_"]).rpartition(".")
        parameters = inspect.signature(getattr(importlib.import_module(module), class_name)).parameters
        assert {*parameters} <= {*settings, "limits"}, name  # which the keys of every agent make


def test_labels_of_other_agents_and_names_of_other_rules_say_so() -> None:
    for text in ("rl_tabular(training)", "nobody(x=1)", "rule_based(", ""):  # which describe no agent
        assert normalise_label(text) == text
    other_class = build_run_request("agent@a=random", "a._target_=agents.dumb.Dumb").spec
    assert other_class.agents[0].label == "random(_target_=agents.dumb.Dumb)"
    assert build_run_request("rules.diagonals=none").spec.rules.name == "classic(diagonals=none)"
    assert build_run_request("rules.diagonals=none", "rules.name=straight").spec.rules.name == "straight"


def test_a_tournament_takes_names_labels_and_mappings() -> None:
    spec = build_run_request(
        "agents=[random,'rule_based(faithful=true)',{agent:rule_based},{agent:rule_based,faithful:true,name:other},"
        "{agent:dumb,name:'the first (1)'}]",
        "schedule=gauntlet",
    ).spec
    labels = ["random", "rule_based(faithful=true)", "rule_based", "other", "the first (1)"]
    assert [agent.label for agent in spec.agents] == labels
    assert [agent.params.get("faithful") for agent in spec.agents] == [None, True, False, True, False]
    assert isinstance(spec.agents[4].build(), Dumb)
    assert spec.pairing_labels == tuple(("random", label) for label in labels[1:])


def test_threads_that_read_options_take_turns() -> None:
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads meet in the middle
    try:
        with ThreadPoolExecutor(8) as pool:
            options_by_thread = list(pool.map(lambda _: load_option("agent", "rule_based"), range(40)))
    finally:
        sys.setswitchinterval(switch_interval)
    assert options_by_thread == [load_option("agent", "rule_based")] * 40
