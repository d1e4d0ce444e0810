"""What a configuration names: agents, by name, label, or as a mapping of parameters; the request of an experiment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf

from agents.base import AgentLimits
from analytics import DEFAULT_ARCHIVE
from analytics.files.backend import location_of
from analytics.store.archive import Archive
from analytics.store.records import LABEL
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError, nearest
from quarto.rules import Rules
from runners.arena.config_groups import (
    LIMITS,
    NOT_PARAMETERS,
    ArchiveSettings,
    RayConfig,
    as_written,
    check_range,
    declared_files,
    load_rules,
    parameters_of,
    plain,
    rules_of,
    settings_of,
)
from runners.arena.labels import parse_value, split_label
from runners.arena.spec import (
    AGENT_PARAMETERS,
    POLICY_PARAMETERS,
    AgentSpec,
    RunSpec,
    label_of,
    last_parts,
    made_of,
    target_of,
)
from runners.executors.base import THREADS, Executor, available_cores


@dataclass(frozen=True)
class Request:
    """A checked configuration: which games to play, how many, and where to store them."""

    spec: RunSpec
    games: int  # per pairing, even if the seats are swapped
    threads: int
    storage: ArchiveSettings
    progress: bool
    keep_going: bool = False  # although an agent forfeits all its games
    executor: Executor = THREADS
    notes: tuple[str, ...] = ()  # remarks for the user on how the configuration was understood


def request_of(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str] = ()) -> Request:
    """Check a composed configuration. ``choices`` are Hydra's: ``{'agent@a': 'random', ...}``.

    Raises ``RequestError`` for the first invalid value.
    """
    check_range("games", cfg.games, 1, MAX_PAIRS * (1 + (cfg.seats == "swapped")))
    threads, storage = threads_of(cfg), archive_settings_of(cfg.archive)
    tournament = cfg.agents is not None
    rules = named_rules(rules_of(plain(cfg.rules)), choices["rules"])
    agents = _tournament(cfg.agents, overrides, storage) if tournament else _match(cfg, choices, storage)
    spec = RunSpec(
        rules=rules,
        agents=agents,
        pairings=pairings(len(agents), cfg.schedule) if tournament else ((0, 1),),
        seed=cfg.seed,
        opening_plies=cfg.opening_plies,
        seats=cfg.seats,
    )
    games = cfg.games + cfg.games % spec.games_a_pair
    notes = rounding_notes("games", cfg.games, games)
    if any(agent.params.get("policy", "") is None for agent in agents):
        from runners.arena.agent_policies import untrained  # most runs need none

        notes += (*untrained(agents),)
    return Request(spec, games, threads, storage, cfg.progress, cfg.keep_going, executor_of(cfg), notes)


def _match(cfg: DictConfig, choices: Mapping[str, str], storage: ArchiveSettings) -> tuple[AgentSpec, ...]:
    """The two agents of a match."""
    chosen = {seat: choices[f"agent@{seat}"] for seat in ("a", "b")}
    one, two = (
        agent_from_settings(name, plain(cfg[seat]), settings_of("agent", name), storage.root, True)
        for seat, name in chosen.items()
    )
    if one.label == two.label and one != two:
        raise RequestError(
            f"a and b differ but are both named '{one.label}': their games could not be distinguished; "
            "give one another name, a.name=…"
        )
    return one, two


def _tournament(entries: Sequence[Any], overrides: Sequence[str], storage: ArchiveSettings) -> tuple[AgentSpec, ...]:
    """The agents of a tournament: names, labels or mappings with ``agent`` and its parameters."""
    for override in overrides:
        if re.match(r"[+~]*(agent@)?[ab]([.=]|$)", override):
            raise RequestError(f"{override} has no effect: agents=[…] names all players; leave one of the two out")
    values = (OmegaConf.to_container(e, resolve=True) if OmegaConf.is_config(e) else e for e in entries)
    found = [agent_of(value, storage.root, trusted=True) for value in values]
    if len(found) < 2:
        match = f"qarena run {shlex.quote(found[0].label if found else 'mcts')} random"
        raise RequestError(f"{len(found)} agent is named: name two for a match, {match}, or more for a tournament")
    labels = [agent.label for agent in found]
    for label in labels if len(found) > 2 or found[0] != found[1] else ():  # a match may be with itself
        if labels.count(label) > 1:
            raise RequestError(
                f"agents has '{label}' {labels.count(label)} times: give one another label, {{agent: …, name: …}}"
            )
    return tuple(found)


def pairings(agents: int, schedule: str) -> tuple[tuple[int, int], ...]:
    """The pairings of a tournament as indices: all against all, or in a gauntlet the first against each other agent."""
    if schedule == "gauntlet":
        return tuple((0, other) for other in range(1, agents))
    return tuple(combinations(range(agents), 2))


def load_agent(name: str) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml``."""
    return _agent(name, {}, DEFAULT_ARCHIVE, trusted=True)


def agent_named(text: str, root: PurePath = DEFAULT_ARCHIVE, trusted: bool = False) -> AgentSpec:
    """The agent that a label describes: ``random``, ``rule_based(faithful=true)``, ``rl_encoded(policy=NAME)``.

    Policies are those of the archive at ``root``. ``trusted``: the user typed the label; otherwise the agent is refused
    when it is built, if it would run other people's code. Raises ``RequestError`` for an agent or a parameter that does
    not exist, and for a value that cannot be read.
    """
    return _agent(*parse_label(text, "agent"), root, trusted, (*LIMITS, "name") if trusted else ())


def usual_label(text: str) -> str:
    """The label in archives of an agent that ``text`` describes: it names no parameter that has its default.

    A text that describes no agent of a yaml stays as it is.
    """
    with suppress(RequestError):  # a label of other code, or of a training
        name, settings = parse_label(text, "agent")
        own = settings_of("agent", name)
        usual = parameters_of(own)
        return label_of(name, last_parts({**usual, **settings}, tuple(own.get("paths") or ())), usual)
    return text


def stored_label(root: PurePath, agent: str | None) -> str | None:
    """The label in the archive at ``root`` of an agent that may be named with defaults, ``mcts(iterations=200)``."""
    if agent is None or "(" not in agent:
        return agent
    known = any(agent in record.labels for record in Archive.open(root).runs())
    return agent if known else usual_label(agent)


def agent_of(entry: Any, root: PurePath, key: str = "agents", trusted: bool = False) -> AgentSpec:
    """The agent that ``entry`` describes: a name, a label, or a mapping with ``agent`` and its parameters.

    Policies are those of the archive at ``root``; ``key`` is the entry's key in the configuration, for messages.
    ``trusted`` is as for ``agent_named``.
    """
    if isinstance(entry, str):
        return agent_named(entry, root, trusted)
    if isinstance(entry, dict) and isinstance(entry.get("agent"), str):
        settings = {str(name): value for name, value in entry.items() if name != "agent"}
        others = [key for key in NOT_PARAMETERS if trusted or key != "_target_"]  # else data would choose the class
        return _agent(entry["agent"], settings, root, trusted, others)
    raise RequestError(f"{key}: {entry!r} is neither a name, name(parameter=value,…) nor {{agent: name, …}}")


def _agent(
    name: str, settings: Mapping[str, Any], root: PurePath, trusted: bool, others: Sequence[str] = ()
) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml`` with changed ``settings``: its parameters, and perhaps ``others``."""
    own = settings_of("agent", name)
    valid = parameters_of(own)
    for key in settings:
        if key not in (*valid, *others):
            raise RequestError(f"the yaml of agent '{name}' has no parameter {key!r}{nearest(key, valid)}")
    return agent_from_settings(name, {**own, **settings}, own, root, trusted)


def agent_from_settings(
    name: str, settings: Mapping[str, Any], own: Mapping[str, Any], root: PurePath, trusted: bool
) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml`` with changed ``settings``; ``own`` are those of the yaml itself.

    Its policy, if it has one, is read from the archive at ``root``. ``trusted`` is as for ``agent_named``.
    """
    target = target_of(f"agent '{name}'", settings)
    params, own_params = parameters_of(settings), parameters_of(own)
    paths = tuple(own.get("paths") or ())
    # The class is compared too, so that a label shows if another one plays.
    shown, usual = last_parts(params, paths) | {"_target_": target}, own_params | {"_target_": own.get("_target_")}
    label = settings.get("name") or label_of(name, shown, usual)
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        raise RequestError(f"agent '{name}': name={label!r} is not a printable text of at most 200 characters")
    described = {key: _described(key, value, root) for key, value in params.items()}
    limits = AgentLimits.of(f"agent '{name}'", settings)
    files = declared_files(name, settings)
    for key in AGENT_PARAMETERS:
        if isinstance(params.get(key), str):
            files |= agent_named(params[key], root).files
    spec = AgentSpec(label, target, described, limits=limits, files=files, paths=paths, trusted=trusted)
    if "policy" not in params and not ("reads" in own and any(each in params for each in POLICY_PARAMETERS)):
        return spec
    from runners.arena.agent_policies import with_policy  # most runs need none

    return with_policy(spec, own, root)


def parse_label(text: str, what: str) -> tuple[str, dict[str, Any]]:
    """Split ``name(parameter=value,…)`` into name and parameters; ``what`` names the setting in messages.

    Raises ``RequestError`` for a text that is not such a label.
    """
    name, parameters = split_label(text, what)
    shown = f"{what} {text!r}"
    return name, {key: _value(shown, key, value) for key, value in parameters}


def _value(what: str, key: str, text: str) -> Any:
    """The value of a parameter. A label of an agent stays a text: its own values are read where it is built."""
    return text if key in AGENT_PARAMETERS and text.endswith(")") else parse_value(what, f"{key}={text}")


def _described(key: str, value: Any, root: PurePath) -> Any:
    """The value of a parameter. If it names an agent: everything that describes the agent, as it affects the games."""
    if key not in AGENT_PARAMETERS or value is None:
        return value
    if not isinstance(value, str):  # a mapping could name a class that no yaml names
        raise RequestError(f"{key}={value!r} is not an agent's label, NAME or NAME(parameter=value,…)")
    return agent_named(value, root).as_mapping()


def rounding_notes(key: str, asked: int, games: int) -> tuple[str, ...]:
    """The remark for the user that an odd number of games was rounded up to ``games``; none if it was not."""
    if asked == games:
        return ()
    return (f"{key}={asked} is odd; games come in pairs with the seats swapped, so {games} will be played",)


def archive_settings_of(archive: DictConfig) -> ArchiveSettings:
    """The node ``archive`` of a checked configuration as a value."""
    return ArchiveSettings(**{**plain(archive), "root": location_of(archive.root)})


def threads_of(cfg: DictConfig) -> int:
    """The number of threads that a checked configuration asks for; null is one for each core."""
    return cfg.threads or available_cores()


def executor_of(cfg: DictConfig) -> Executor:
    """The executor that a configuration chooses by its keys ``executor`` and ``ray``.

    Raises ``RequestError`` for one that does not exist or lacks its extra, and for keys without effect.
    """
    changed = [key for key, value in plain(OmegaConf.structured(RayConfig)).items() if cfg.ray[key] != value]
    if changed and "${ray" not in str(plain(cfg.executor, resolve=False)):
        raise RequestError(f"ray.{changed[0]}={cfg.ray[changed[0]]} has no effect: choose executor=ray too")
    executor: Executor = made_of("executor", plain(cfg.executor), Executor, trusted=True)
    return executor


def executor_named(name: str, ray_address: str | None) -> Executor:
    """The executor of ``conf/executor/NAME.yaml``, for commands that Hydra does not carry out. Raises as above."""
    known = as_written("executor")
    if name not in known:
        raise RequestError(f"--executor {name} does not exist{nearest(name, known)}")
    ray = RayConfig() if ray_address is None else RayConfig(ray_address)
    return executor_of(OmegaConf.create({"executor": known[name], "ray": OmegaConf.structured(ray)}))


def named_rules(rules: Rules, preset: str) -> Rules:
    """The rules, named after ``preset`` and the keys that differ from it, unless they have a name of their own."""
    chosen, own = asdict(rules), asdict(load_rules(preset))
    return replace(rules, name=label_of(rules.name, chosen, own)) if rules.name == own["name"] else rules
