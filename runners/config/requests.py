"""Building the checked request of a run from a composed configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from analytics.store.files.backend import parse_location
from analytics.store.run_notes import check_name_and_note
from quarto.errors import Advice, RequestError, suggest_valid_names
from quarto.rules import Rules
from runners.arena.executors.base import Executor, available_cores
from runners.arena.request import RunRequest
from runners.arena.spec import AgentSpec, RunSpec, build_from_settings, format_label
from runners.arena.storage import ArchiveOptions
from runners.config.agents import agent_from_entry, agent_from_settings
from runners.config.schemas import RayConfig, RunConfig
from runners.config.yaml_options import build_rules, load_option, load_raw_options, load_rules, to_plain_dict

if TYPE_CHECKING:
    from runners.arena.sprt import SprtExperiment


OBJECT_KEY = "object"  # an entry of ``agents`` with this key stands for a Python object, by its number


def build_request(
    cfg: DictConfig,
    choices: Mapping[str, str],
    overrides: Sequence[str] = (),
    objects: Sequence[AgentSpec] = (),
) -> RunRequest:
    """Build the request of a run from a checked configuration.

    ``choices`` maps each configuration group to the option that was chosen, as in ``{'agent@a': 'random', …}``, and
    ``overrides`` are the arguments that the user typed. ``objects`` are agents that a Python program passes; an entry
    of ``agents`` refers to one of them by its number, under the key ``OBJECT_KEY``.

    Raises ``RequestError`` for the first invalid value.
    """
    threads, storage = resolve_thread_count(cfg), build_archive_options(cfg.archive)
    tournament = cfg.agents is not None
    rules = name_rules_by_changed_keys(build_rules(to_plain_dict(cfg.rules)), choices["rules"])
    agents = (
        _build_tournament_agents(cfg.agents, overrides, storage, objects)
        if tournament
        else _build_match_agents(cfg, choices, storage)
    )
    spec = RunSpec(
        rules=rules,
        agents=agents,
        pairings=list_pairings(len(agents), cfg.schedule) if tournament else ((0, 1),),
        seed=cfg.seed,
        opening_plies=cfg.opening_plies,
        seats=cfg.seats,
    )
    games = cfg.games + cfg.games % spec.games_per_pair
    notes = describe_rounding("games", cfg.games, games)
    untrained = [agent for agent in agents if agent.params.get("policy", "") is None and not agent.is_object_of_program]
    if untrained:
        from runners.config.agent_policies import describe_untrained_agents  # most runs need none

        notes += (*describe_untrained_agents(untrained),)
    check_name_and_note(cfg.name, cfg.note)
    executor = build_executor(cfg)
    return RunRequest(spec, games, threads, storage, cfg.progress, cfg.keep_going, executor, cfg.name, cfg.note, notes)


def _build_match_agents(cfg: DictConfig, choices: Mapping[str, str], storage: ArchiveOptions) -> tuple[AgentSpec, ...]:
    """Build the two agents of a match."""
    names = {seat: choices[f"agent@{seat}"] for seat in ("a", "b")}
    first, second = (
        agent_from_settings(name, to_plain_dict(cfg[seat]), load_option("agent", name), storage.root, True)
        for seat, name in names.items()
    )
    if first.label == second.label and first != second:
        raise RequestError(
            f"a and b differ but are both named '{first.label}': their games could not be distinguished; "
            "give one another name, a.name=…"
        )
    return first, second


def _build_tournament_agents(
    entries: Sequence[Any], overrides: Sequence[str], storage: ArchiveOptions, objects: Sequence[AgentSpec]
) -> tuple[AgentSpec, ...]:
    """Build the agents of a tournament from ``entries``.

    An entry is a name, a label, or a mapping with ``agent`` and its parameters. It may also stand for one of
    ``objects``, see ``build_request``.
    """
    for override in overrides:
        if re.match(r"[+~]*(agent@)?[ab]([.=]|$)", override):
            raise RequestError(f"{override} has no effect: agents=[…] names all players; leave one of the two out")
    values = (OmegaConf.to_container(entry, resolve=True) if OmegaConf.is_config(entry) else entry for entry in entries)
    agents = [
        objects[value[OBJECT_KEY]]
        if objects and isinstance(value, dict) and OBJECT_KEY in value
        else agent_from_entry(value, storage.root, trusted=True)
        for value in values
    ]
    if len(agents) < 2:
        label = agents[0].label if agents else "mcts"
        command, call = f"qarena run {shlex.quote(label)} random", f"run({label!r}, 'random')"
        advice = (f"name two for a match, {match}, or more for a tournament" for match in (command, call))
        raise RequestError(Advice(f"{len(agents)} agent is named", *advice))
    labels = [agent.label for agent in agents]
    for label in labels if len(agents) > 2 or agents[0] != agents[1] else ():  # a match may be with itself
        if labels.count(label) > 1:
            raise RequestError(
                Advice(
                    f"agents has '{label}' {labels.count(label)} times",
                    "give one another label, {agent: …, name: …}",
                    f"give one another label, {{'agent': {label!r}, 'name': 'other'}}",
                )
            )
    return tuple(agents)


def list_pairings(agent_count: int, schedule: str) -> tuple[tuple[int, int], ...]:
    """List the pairings of a tournament as pairs of indices of agents.

    In a round robin, each agent plays every other agent; in a gauntlet, only the first agent does.
    """
    if schedule == "gauntlet":
        return tuple((0, other) for other in range(1, agent_count))
    return tuple(combinations(range(agent_count), 2))


def describe_rounding(key: str, requested_games: int, rounded_games: int) -> tuple[str, ...]:
    """Return a tuple with a note that an odd number of games was rounded up, or () if the number was even.

    The note names the setting ``key``, which requested the games.
    """
    if requested_games == rounded_games:
        return ()
    reason = f"{key}={requested_games} is odd; games come in pairs with the seats swapped"
    return (f"{reason}, so {rounded_games} will be played",)


def build_archive_options(archive: DictConfig) -> ArchiveOptions:
    """Convert the node ``archive`` of a checked configuration to ``ArchiveOptions``."""
    return ArchiveOptions(**{**to_plain_dict(archive), "root": parse_location(archive.root)})


def resolve_thread_count(cfg: DictConfig) -> int:
    """Return the number of threads that a configuration requests, or the number of cores if it requests none."""
    return cfg.threads or available_cores()


def build_executor(cfg: DictConfig) -> Executor:
    """Build the executor that the keys ``executor`` and ``ray`` of a configuration select.

    Raises ``RequestError`` for an executor that does not exist or whose extra is not installed, and for keys that would
    have no effect.
    """
    changed = [key for key, value in to_plain_dict(OmegaConf.structured(RayConfig)).items() if cfg.ray[key] != value]
    if changed and "${ray" not in str(to_plain_dict(cfg.executor, resolve=False)):
        raise RequestError(f"ray.{changed[0]}={cfg.ray[changed[0]]} has no effect: choose executor=ray too")
    executor: Executor = build_from_settings("executor", to_plain_dict(cfg.executor), Executor, trusted=True)
    return executor


def load_executor(name: str, ray_address: str | None) -> Executor:
    """Build the executor of ``conf/executor/NAME.yaml`` for a command that Hydra does not carry out.

    ``ray_address`` is the address of a Ray cluster, or None for the default. Raises ``RequestError`` in the same cases
    as ``build_executor``.
    """
    options = load_raw_options("executor")
    if name not in options:
        raise RequestError(f"--executor {name} does not exist{suggest_valid_names(name, options)}")
    ray = RayConfig() if ray_address is None else RayConfig(ray_address)
    return build_executor(OmegaConf.create({"executor": options[name], "ray": OmegaConf.structured(ray)}))


def name_rules_by_changed_keys(rules: Rules, preset: str) -> Rules:
    """Return ``rules``, renamed to the name of ``preset`` followed by the keys that were changed.

    The new name is, for example, ``classic(squares=wrapped)``. Rules that the user has named keep their name.
    """
    keys, preset_keys = asdict(rules), asdict(load_rules(preset))
    if rules.name != preset_keys["name"]:
        return rules
    return replace(rules, name=format_label(rules.name, keys, preset_keys))


def prepare_test(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str] = ()) -> SprtExperiment:
    """Prepare the test that a configuration requests: build the agents and open the archive, but write nothing.

    Raises ``RequestError`` in the same cases as ``build_request`` and ``open_experiment``.
    """
    from analytics.statistics.sprt import Hypotheses
    from runners.arena.experiment import open_experiment
    from runners.arena.sprt import SprtExperiment

    if cfg.agents is not None and len(cfg.agents) != 2:
        label = str(next(iter(cfg.agents), "mcts"))
        raise RequestError(
            Advice(
                f"a test is between two agents, not {len(cfg.agents)}",
                f"name two, {shlex.join(['qarena', 'sprt', label, 'random'])}",
                f"name two, sprt({label!r}, 'random')",
            )
        )
    hypotheses = Hypotheses(**{name: cfg[name] for name in Hypotheses.__struct_fields__})
    shared_keys = [field.name for field in fields(RunConfig) if field.name in cfg]
    run = OmegaConf.create(OmegaConf.structured(RunConfig))
    run.merge_with(OmegaConf.masked_copy(cfg, shared_keys))
    return SprtExperiment(open_experiment(build_request(run, choices, overrides)), hypotheses)
