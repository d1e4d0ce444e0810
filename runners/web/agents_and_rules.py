"""Rules and agents that the forms offer, and the ones that a request names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from agents.base.parameters import format_parameter
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_from_label, load_agent, parse_label
from runners.config.arguments import parse_yaml_keys
from runners.config.yaml_options import (
    hydra_lock,
    list_options,
    load_option,
    load_rules,
    read_option_comment,
    read_option_text,
    select_parameters,
    use_config_dir,
)
from runners.web.site import Site


class Parameter(NamedTuple):
    """A parameter of an agent."""

    name: str
    usual: str  # its default, as a label has it
    text: str  # what it does, as far as its yaml says


class AgentsAndRules:
    """Rules and agents by name, those of the user's own folder too."""

    def __init__(self, site: Site) -> None:
        self._settings = site.options
        self._rules: dict[str, Rules] = {}
        self._parameters: dict[str, list[Parameter]] = {}

    @contextmanager
    def _open_configuration(self) -> Iterator[None]:
        with hydra_lock, use_config_dir(self._settings.config_dir):
            yield

    def load_rules(self, name: str) -> Rules:
        """The rules of this name. Raises ``RequestError`` if there are none."""
        if name not in self._rules:
            with self._open_configuration():
                self._rules[name] = load_rules(name)
        return self._rules[name]

    def load_agent(self, label: str) -> AgentSpec:
        """The agent that a label describes. Raises ``RequestError``, also if it would run other people's code."""
        self._check_agent_is_allowed(parse_label(label, "agent")[0])
        with self._open_configuration():
            found = agent_from_label(label, self._settings.archive, self._settings.trust_agents)
            found.check_is_trusted()  # here and not in the background
        return found

    @cached_property
    def all_rules(self) -> dict[str, str]:
        """All rules by name, classic first, each with a line about it."""
        with self._open_configuration():
            found = {name: read_option_comment("rules", name) for name in list_options("rules")}
        return dict(sorted(found.items(), key=lambda item: (item[0] != "classic", item[0])))

    @cached_property
    def all_agents(self) -> dict[str, str]:
        """The agents that can be played by name, each with a line about it."""
        offered = self._offered_agents
        with self._open_configuration():
            return {name: read_option_comment("agent", name) for name in offered}

    @cached_property
    def _offered_agents(self) -> dict[str, dict[str, Any]]:
        """The yamls of the agents that are offered: the built-in ones alone where other machines can connect."""
        with self._open_configuration():
            offered = [
                name
                for name in sorted(list_options("agent"))
                if self._settings.local or not _has_third_party_code(name)
            ]
            return {name: load_option("agent", name) for name in offered}

    def list_playable_rules(self, agent: str) -> frozenset[str]:
        """The names of the rules that an agent plays. Those of other people's classes are not known before a game."""
        with self._open_configuration():
            spec = load_agent(agent)
            choosers = None if any(spec.third_party_code()) else spec.choosers
        rules = {name: self.load_rules(name) for name in self.all_rules}
        return frozenset(name for name, each in rules.items() if choosers is None or each.chooser in choosers)

    def _check_agent_is_allowed(self, agent_name: str) -> None:
        """Raise ``RequestError`` for an agent that exists and may not be played from afar."""
        if agent_name in self._offered_agents or self._settings.local:
            return
        with self._open_configuration():
            load_option("agent", agent_name)  # raises if it does not exist
        raise RequestError(
            f"agent '{agent_name}' plays only where qarena serve listens at 127.0.0.1: it runs other people's code"
        )

    def list_agent_parameters(self, agent_name: str) -> list[Parameter]:
        """The parameters of an agent. Raises ``RequestError`` if it does not exist or is not offered."""
        self._check_agent_is_allowed(agent_name)
        if agent_name not in self._parameters:
            with self._open_configuration():
                own = select_parameters(load_option("agent", agent_name))
                texts = {key.name: key.meaning for key in parse_yaml_keys(read_option_text("agent", agent_name))}
            self._parameters[agent_name] = [
                Parameter(key, format_parameter(value), texts.get(key, "")) for key, value in own.items()
            ]
        return self._parameters[agent_name]


def _has_third_party_code(name: str) -> bool:
    return any(load_agent(name).third_party_code())


def split_label(label: str) -> tuple[str, dict[str, str]]:
    """The name in a label of an agent, and its parameters as texts. Raises ``RequestError`` for what is no label."""
    name, parameters = parse_label(label, "agent")
    return name, {key: format_parameter(value) for key, value in parameters.items()}
