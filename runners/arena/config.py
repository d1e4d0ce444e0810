"""The configuration: its schema, and how a composed one becomes a request that can be carried out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from analytics.store.records import SEATS
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError, nearest
from quarto.rules import Rules
from runners.arena.agent_policies import untrained, with_policy
from runners.arena.config_groups import plain, settings_of
from runners.arena.schedule import SCHEDULES, pairings
from runners.arena.spec import (
    AGENT_PARAMETERS,
    LABEL,
    NOT_PARAMETERS,
    AgentSpec,
    RunSpec,
    label_of,
    parameters_of,
)

MAX_OPENING_PLIES = 15
MAX_SEED = (1 << 63) - 1
OTHER_CODE = ("refuse", "extend", "new")
ARCHIVE = Path("data/archive")  # where no other is named


@dataclass
class ArchiveConfig:
    """Where and how games are kept."""

    root: str = str(ARCHIVE)
    shard_games: int = 1 << 18
    shard_seconds: float = 30.0
    other_code: str = "refuse"


@dataclass
class SweepConfig:
    """Set by ``qarena sweep``: which sweep a job belongs to."""

    id: str | None = None


@dataclass
class RunConfig:
    """One experiment. ``conf/run.yaml`` says what each key means."""

    rules: Any = None
    a: Any = None
    b: Any = None
    agents: list[Any] | None = None
    schedule: str = "round_robin"
    seats: str = "swapped"
    games: int = 100000
    seed: int = 1
    opening_plies: int = 0
    threads: int | None = None
    progress: bool = True
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


ConfigStore.instance().store(name="run_schema", node=RunConfig)


@dataclass(frozen=True)
class Request:
    """A checked configuration: what to play, how many games, where to keep them."""

    spec: RunSpec
    games: int  # per pairing, even if the seats are swapped
    threads: int
    root: Path
    shard_games: int
    shard_seconds: float
    other_code: str
    progress: bool
    notes: tuple[str, ...] = ()  # what the user should be told of how the request was read


def request_of(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str] = ()) -> Request:
    """Check a composed configuration. ``choices`` are Hydra's: ``{'agent@a': 'random', ...}``.

    Raises ``RequestError`` for the first value that makes no sense.
    """
    complete(cfg, RunConfig)
    complete(cfg.archive, ArchiveConfig, "archive.")
    within("games", cfg.games, 1, MAX_PAIRS * (1 + (cfg.seats == "swapped")))
    within("seed", cfg.seed, 0, MAX_SEED)
    within("opening_plies", cfg.opening_plies, 0, MAX_OPENING_PLIES)
    within("threads", cfg.threads if cfg.threads is not None else 1, 1, 1024)
    among("schedule", cfg.schedule, SCHEDULES)
    among("seats", cfg.seats, SEATS)
    check_keeping(cfg.archive)
    rules = named_rules(rules_of(plain(cfg.rules)), choices["rules"])
    root = Path(cfg.archive.root)
    agents = _tournament(cfg.agents, overrides, root) if cfg.agents is not None else _match(cfg, choices, root)
    spec = RunSpec(
        rules=rules,
        agents=agents,
        pairings=pairings(len(agents), cfg.schedule) if cfg.agents is not None else ((0, 1),),
        seed=cfg.seed,
        opening_plies=cfg.opening_plies,
        seats=cfg.seats,
    )
    odd = cfg.games % spec.games_a_pair
    rounded = (f"games={cfg.games} is odd; games come in pairs with the seats swapped, so {cfg.games + 1} it is",) * odd
    return Request(
        spec=spec,
        games=cfg.games + odd,
        threads=cfg.threads or available_cores(),
        root=root,
        shard_games=cfg.archive.shard_games,
        shard_seconds=cfg.archive.shard_seconds,
        other_code=cfg.archive.other_code,
        progress=cfg.progress,
        notes=(*rounded, *untrained(agents)),
    )


def check_keeping(archive: DictConfig) -> None:
    """Raises ``RequestError`` for a value of ``archive`` that makes no sense."""
    within("archive.shard_games", archive.shard_games, 2, 1 << 24)
    within("archive.shard_seconds", archive.shard_seconds, 0, float("inf"))
    among("archive.other_code", archive.other_code, OTHER_CODE)


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rules_of(mapping: Any) -> Rules:
    """Rules from the keys of a yaml in ``conf/rules``. Raises ``RequestError`` for a key or value they do not have."""
    known = [each.name for each in fields(Rules)]
    for key in mapping:
        if key not in known:
            raise RequestError(f"rules have no key {key!r}{nearest(str(key), known)}")
    for key, kind, meaning in (("name", str, "a text"), ("rows_and_columns", bool, "true or false")):
        if not isinstance(mapping.get(key, kind()), kind):
            raise RequestError(f"rules.{key}={mapping[key]!r} is not {meaning}")
    try:
        return Rules(**mapping)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from error


def named_rules(rules: Rules, preset: str) -> Rules:
    """The rules, named after their preset and what was changed of it unless they were given a name of their own."""
    chosen, own = asdict(rules), asdict(load_rules(preset))
    return replace(rules, name=label_of(rules.name, chosen, own)) if rules.name == own["name"] else rules


def load_rules(name: str) -> Rules:
    """The rules of ``conf/rules/NAME.yaml``."""
    return rules_of(settings_of("rules", name))


def load_agent(name: str) -> AgentSpec:
    """The agent of ``conf/agent/NAME.yaml``."""
    own = agent_settings(name)
    return _agent(name, own, own)


def agent_named(text: str, root: Path = ARCHIVE) -> AgentSpec:
    """The agent that a label describes: ``random``, ``rule_based(faithful=true)``, ``rl_encoded(policy=NAME)``.

    Policies are those of the archive at ``root``.
    """
    name, chosen = labelled(text, "agent")
    own = agent_settings(name)
    for key in chosen:
        _check_parameter(name, key, parameters_of(own))
    return _agent(name, own | chosen, own, root)


def labelled(text: str, what: str) -> tuple[str, dict[str, Any]]:
    """``name(parameter=value,…)`` as its name and parameters; ``what`` it is the label of, for messages.

    Raises ``RequestError`` for a text that is none.
    """
    found = re.fullmatch(r"\s*([\w.@/-]+)\s*(?:\((.*)\))?\s*", text)
    if not found:
        raise RequestError(f"{what} {text!r} is neither a name nor name(parameter=value,…)")
    chosen = {}
    for part in _split(found[2] or ""):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals:
            raise RequestError(f"{what} {text!r}: {part!r} is not parameter=value")
        chosen[key] = _value(f"{what} {text!r}", f"{key}={value}")
    return found[1], chosen


def agent_settings(name: str) -> dict[str, Any]:
    """Everything in ``conf/agent/NAME.yaml``, its keys for tests and tables included."""
    return settings_of("agent", name)


def _split(text: str) -> list[str]:
    """``a=1,b=[2,3]`` at the commas outside brackets."""
    return [part for part in re.split(r",(?![^\[({]*[\])}])", text) if part.strip()]


def _value(whose: str, setting: str) -> Any:
    """The value of ``key=value`` in Hydra's grammar."""
    try:
        parsed = OverridesParser.create().parse_override(setting)
    except HydraException as error:
        reason = " ".join(str(error).split()).partition(" See https")[0]
        raise RequestError(f"{whose}: {setting} cannot be read: {reason}") from error
    if parsed.is_sweep_override():
        raise RequestError(f"{whose}: {setting} is more than one value")
    return parsed.value()


def _agent(name: str, settings: Mapping[str, Any], own: Mapping[str, Any], root: Path = ARCHIVE) -> AgentSpec:
    """An agent from what its yaml, which says ``own``, has become; ``name`` is the yaml's, ``root`` has its policy."""
    target = settings.get("_target_")
    if not isinstance(target, str):
        raise RequestError(f"agent '{name}': its yaml names no class under _target_")
    params = parameters_of(settings)
    target_too = {"_target_": target}  # a label never hides that another class plays
    label = settings.get("name") or label_of(
        name, params | target_too, parameters_of(own) | {"_target_": own.get("_target_")}
    )
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        raise RequestError(f"agent '{name}': name={label!r} is not a printable text of at most 200 characters")
    described = {key: _described(key, value, root) for key, value in params.items()}
    return with_policy(AgentSpec(label, target, described), own, root)


def _described(key: str, value: Any, root: Path) -> Any:
    """The value of a parameter or, where it names an agent, everything about that: it affects the games too."""
    return agent_named(value, root).as_mapping() if key in AGENT_PARAMETERS and isinstance(value, str) else value


def _match(cfg: DictConfig, choices: Mapping[str, str], root: Path) -> tuple[AgentSpec, ...]:
    """The two agents of a match."""
    for seat in ("a", "b"):
        if not OmegaConf.is_dict(cfg[seat]):
            raise RequestError(f"{seat}={cfg[seat]} is not an agent: choose one with agent@{seat}=NAME")
    chosen = {seat: choices[f"agent@{seat}"] for seat in ("a", "b")}
    one, two = (_agent(name, plain(cfg[seat]), agent_settings(name), root) for seat, name in chosen.items())
    if one.label == two.label and one != two:
        raise RequestError(f"a and b differ but are both named '{one.label}': their games could not be told apart")
    return one, two


def _tournament(entries: Sequence[Any], overrides: Sequence[str], root: Path) -> tuple[AgentSpec, ...]:
    """The agents of a tournament: names, labels or mappings with ``agent`` and its parameters."""
    for override in overrides:
        if re.match(r"[+~]*(agent@)?[ab]([.=]|$)", override):
            raise RequestError(
                f"{override} has no effect: agents=[…] names all players; leave out the one or the other"
            )
    found = [agent_of(OmegaConf.to_container(e, resolve=True) if OmegaConf.is_config(e) else e, root) for e in entries]
    if len(found) < 2:
        raise RequestError(f"agents has {len(found)} player(s): a tournament needs two or more")
    labels = [agent.label for agent in found]
    for label in labels:
        if labels.count(label) > 1:
            raise RequestError(
                f"agents has '{label}' {labels.count(label)} times: give one another label, {{agent: …, name: …}}"
            )
    return tuple(found)


def agent_of(entry: Any, root: Path, key: str = "agents") -> AgentSpec:
    """The player that a name, a label or a mapping with ``agent`` and its parameters describes, as ``key`` has it."""
    if isinstance(entry, str):
        return agent_named(entry, root)
    if isinstance(entry, dict) and isinstance(entry.get("agent"), str):
        settings = {str(key): value for key, value in entry.items() if key != "agent"}
        own = agent_settings(entry["agent"])
        for name in settings:
            if name not in NOT_PARAMETERS:
                _check_parameter(entry["agent"], name, parameters_of(own))
        return _agent(entry["agent"], own | settings, own, root)
    raise RequestError(f"{key}: {entry!r} is neither a name, name(parameter=value,…) nor {{agent: name, …}}")


def _check_parameter(agent: str, key: str, valid: Iterable[str]) -> None:
    if key not in valid:
        raise RequestError(f"agent '{agent}' has no parameter {key!r}{nearest(key, valid)}")


def complete(node: DictConfig, schema: type[Any], prefix: str = "") -> None:
    """Hydra's ``+key=`` and ``~key`` get past the schema."""
    known = [each.name for each in fields(schema)]
    for key in map(str, node):
        if key not in (*known, "hydra"):
            raise RequestError(f"key '{prefix}{key}' does not exist{nearest(key, known)}")
    for key in known:
        if key not in node:
            raise RequestError(f"~{prefix}{key} takes away what every run needs: leave it out")


def within(key: str, value: float, least: float, most: float) -> None:
    """Raises ``RequestError`` unless ``least <= value <= most``."""
    if not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise RequestError(f"{key}={value} is out of range: it must be {bound}")


def among(key: str, value: str, valid: Sequence[str]) -> None:
    """Raises ``RequestError`` unless ``value`` is one of ``valid``."""
    if value not in valid:
        raise RequestError(f"{key}={value} does not exist{nearest(value, valid)}")
