"""The agents and rules that forms offer and requests name."""

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
    """A parameter of an agent, as pages show it."""

    name: str
    default: str  # default value, as labels format it
    text: str  # comment of the yaml on the parameter, or ""


class AgentsAndRules:
    """The agents and rules that pages offer, including the ones in the user's own configuration folder."""

    def __init__(self, site: Site) -> None:
        self._settings = site.options
        self._rules: dict[str, Rules] = {}
        self._parameters: dict[str, list[Parameter]] = {}

    @contextmanager
    def _open_configuration(self) -> Iterator[None]:
        with hydra_lock, use_config_dir(self._settings.config_dir):
            yield

    def load_rules(self, name: str) -> Rules:
        """Load the rules called ``name``. Raises ``RequestError`` if no rules have this name."""
        if name not in self._rules:
            with self._open_configuration():
                self._rules[name] = load_rules(name)
        return self._rules[name]

    def load_agent(self, label: str) -> AgentSpec:
        """Load the specification of the agent that a label describes.

        Raises ``RequestError`` if the agent does not exist, or if it would run third-party code that the server's
        options do not allow.
        """
        self._check_agent_is_allowed(parse_label(label, "agent")[0])
        with self._open_configuration():
            agent = agent_from_label(label, self._settings.archive, self._settings.trust_agents)
            agent.check_is_trusted()  # here, so that the form can say why; not later in the background
        return agent

    @cached_property
    def all_rules(self) -> dict[str, str]:
        """A mapping from the name of each rule set to its one-line description, with the classic rules first."""
        with self._open_configuration():
            comments = {name: read_option_comment("rules", name) for name in list_options("rules")}
        return dict(sorted(comments.items(), key=lambda item: (item[0] != "classic", item[0])))

    @cached_property
    def all_agents(self) -> dict[str, str]:
        """A mapping from the name of each offered agent to its one-line description."""
        offered = self._offered_agents
        with self._open_configuration():
            return {name: read_option_comment("agent", name) for name in offered}

    @cached_property
    def _offered_agents(self) -> dict[str, dict[str, Any]]:
        """A mapping from the name of each offered agent to its configuration.

        If other machines can connect to the server, agents with third-party code are left out.
        """
        with self._open_configuration():
            offered = [
                name
                for name in sorted(list_options("agent"))
                if self._settings.local or not _has_third_party_code(name)
            ]
            return {name: load_option("agent", name) for name in offered}

    def list_playable_rules(self, agent: str) -> frozenset[str]:
        """Return the names of the rules under which an agent can play.

        An agent with third-party code is assumed to play under all rules, because its class is not loaded before a
        game.
        """
        with self._open_configuration():
            spec = load_agent(agent)
            choosers = None if any(spec.third_party_code()) else spec.supported_rules_choosers
        rules_by_name = {name: self.load_rules(name) for name in self.all_rules}
        return frozenset(
            name for name, candidate in rules_by_name.items() if choosers is None or candidate.chooser in choosers
        )

    def _check_agent_is_allowed(self, agent_name: str) -> None:
        """Raise ``RequestError`` if other machines can connect to this server and it does not offer the given agent.

        The error says whether the agent does not exist or runs third-party code. If only this machine can connect, any
        name is accepted.
        """
        if agent_name in self._offered_agents or self._settings.local:
            return
        with self._open_configuration():
            load_option("agent", agent_name)  # raises if there is no such agent
        raise RequestError(
            f"agent '{agent_name}' plays only where qarena serve listens at 127.0.0.1: it runs third-party code"
        )

    def list_agent_parameters(self, agent_name: str) -> list[Parameter]:
        """Return the parameters of an agent, with their defaults and meanings.

        Raises ``RequestError`` if the agent does not exist or is not offered.
        """
        self._check_agent_is_allowed(agent_name)
        if agent_name not in self._parameters:
            with self._open_configuration():
                defaults = select_parameters(load_option("agent", agent_name))
                texts = {key.name: key.meaning for key in parse_yaml_keys(read_option_text("agent", agent_name))}
            self._parameters[agent_name] = [
                Parameter(key, format_parameter(value), texts.get(key, "")) for key, value in defaults.items()
            ]
        return self._parameters[agent_name]


def _has_third_party_code(name: str) -> bool:
    return any(load_agent(name).third_party_code())


def split_label(label: str) -> tuple[str, dict[str, str]]:
    """Split an agent's label into the agent's name and a mapping from the names of parameters to their values as text.

    Raises ``RequestError`` for an invalid label.
    """
    name, parameters = parse_label(label, "agent")
    return name, {key: format_parameter(value) for key, value in parameters.items()}
