"""The request that the composed configuration of an experiment becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from analytics.store.records import SEATS
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError
from runners.arena.agent_labels import agent_from_settings, agent_of, agent_settings
from runners.arena.agent_policies import untrained
from runners.arena.checks import check_choice, check_range, rounding_notes
from runners.arena.config_groups import named_rules, plain, rules_of
from runners.arena.schedule import pairings
from runners.arena.schemas import RunConfig, check_values, executor_of, threads_of
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import Storage, storage_of
from runners.executors.base import Executor
from runners.executors.threads import THREADS


@dataclass(frozen=True)
class Request:
    """A checked configuration: which games to play, how many, and where to store them."""

    spec: RunSpec
    games: int  # per pairing, even if the seats are swapped
    threads: int
    storage: Storage
    progress: bool
    executor: Executor = THREADS
    notes: tuple[str, ...] = ()  # remarks for the user on how the configuration was understood


def request_of(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str] = ()) -> Request:
    """Check a composed configuration. ``choices`` are Hydra's: ``{'agent@a': 'random', ...}``.

    Raises ``RequestError`` for the first invalid value.
    """
    check_values(cfg, RunConfig)
    check_choice("seats", cfg.seats, SEATS)
    check_range("games", cfg.games, 1, MAX_PAIRS * (1 + (cfg.seats == "swapped")))
    threads, storage = threads_of(cfg), storage_of(cfg.archive)
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
    notes = (*rounding_notes("games", cfg.games, games), *untrained(agents))
    return Request(spec, games, threads, storage, cfg.progress, executor_of(cfg), notes)


def _match(cfg: DictConfig, choices: Mapping[str, str], storage: Storage) -> tuple[AgentSpec, ...]:
    """The two agents of a match."""
    for seat in ("a", "b"):
        if not OmegaConf.is_dict(cfg[seat]):
            raise RequestError(f"{seat}={cfg[seat]} is not an agent: choose one with agent@{seat}=NAME")
    chosen = {seat: choices[f"agent@{seat}"] for seat in ("a", "b")}
    one, two = (
        agent_from_settings(name, plain(cfg[seat]), agent_settings(name), storage.root) for seat, name in chosen.items()
    )
    if one.label == two.label and one != two:
        raise RequestError(
            f"a and b differ but are both named '{one.label}': their games could not be distinguished; "
            "give one another name, a.name=…"
        )
    return one, two


def _tournament(entries: Sequence[Any], overrides: Sequence[str], storage: Storage) -> tuple[AgentSpec, ...]:
    """The agents of a tournament: names, labels or mappings with ``agent`` and its parameters."""
    for override in overrides:
        if re.match(r"[+~]*(agent@)?[ab]([.=]|$)", override):
            raise RequestError(f"{override} has no effect: agents=[…] names all players; leave one of the two out")
    values = (OmegaConf.to_container(e, resolve=True) if OmegaConf.is_config(e) else e for e in entries)
    found = [agent_of(value, storage.root) for value in values]
    if len(found) < 2:
        raise RequestError(f"agents has {len(found)} player(s): a tournament needs two or more")
    labels = [agent.label for agent in found]
    for label in labels:
        if labels.count(label) > 1:
            raise RequestError(
                f"agents has '{label}' {labels.count(label)} times: give one another label, {{agent: …, name: …}}"
            )
    return tuple(found)
