"""Rules and agents that the forms offer, and the ones that a request names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from agents.base.parameters import as_typed
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_named, load_agent, parse_label
from runners.config.arguments import keys_in
from runners.config.options import (
    comment_of,
    hydra_lock,
    load_rules,
    names,
    parameters_of,
    settings_of,
    text_of,
    user_config_dir,
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
        self._settings = site.settings
        self._rules: dict[str, Rules] = {}
        self._parameters: dict[str, list[Parameter]] = {}

    @contextmanager
    def _configuration(self) -> Iterator[None]:
        with hydra_lock, user_config_dir(self._settings.config_dir):
            yield

    def rules(self, name: str) -> Rules:
        """The rules of this name. Raises ``RequestError`` if there are none."""
        if name not in self._rules:
            with self._configuration():
                self._rules[name] = load_rules(name)
        return self._rules[name]

    def agent(self, label: str) -> AgentSpec:
        """The agent that a label describes. Raises ``RequestError``, also if it would run other people's code."""
        self._require_offered(parse_label(label, "agent")[0])
        with self._configuration():
            found = agent_named(label, self._settings.archive, self._settings.trust_agents)
            found.require_trusted()  # here and not in the background
        return found

    @cached_property
    def all_rules(self) -> dict[str, str]:
        """All rules by name, classic first, each with a line about it."""
        with self._configuration():
            found = {name: comment_of("rules", name) for name in names("rules")}
        return dict(sorted(found.items(), key=lambda item: (item[0] != "classic", item[0])))

    @cached_property
    def all_agents(self) -> dict[str, str]:
        """The agents that can be played by name, each with a line about it."""
        offered = self._offered
        with self._configuration():
            return {name: comment_of("agent", name) for name in offered}

    @cached_property
    def _offered(self) -> dict[str, dict[str, Any]]:
        """The yamls of the agents that are offered: the built-in ones alone where other machines can connect."""
        with self._configuration():
            offered = [name for name in sorted(names("agent")) if self._settings.local or not _runs_others(name)]
            return {name: settings_of("agent", name) for name in offered}

    def playable(self, agent: str) -> frozenset[str]:
        """The names of the rules that an agent plays. Those of other people's classes are not known before a game."""
        with self._configuration():
            spec = load_agent(agent)
            choosers = None if any(spec.code_of_others()) else spec.choosers
        rules = {name: self.rules(name) for name in self.all_rules}
        return frozenset(name for name, each in rules.items() if choosers is None or each.chooser in choosers)

    def _require_offered(self, name: str) -> None:
        """Raise ``RequestError`` for an agent that exists and may not be played from afar."""
        if name in self._offered or self._settings.local:
            return
        with self._configuration():
            settings_of("agent", name)  # raises if it does not exist
        raise RequestError(
            f"agent '{name}' plays only where qarena serve listens at 127.0.0.1: it runs other people's code"
        )

    def parameters(self, name: str) -> list[Parameter]:
        """The parameters of an agent. Raises ``RequestError`` if it does not exist or is not offered."""
        self._require_offered(name)
        if name not in self._parameters:
            with self._configuration():
                own = parameters_of(settings_of("agent", name))
                texts = {key.name: key.meaning for key in keys_in(text_of("agent", name))}
            self._parameters[name] = [Parameter(key, as_typed(value), texts.get(key, "")) for key, value in own.items()]
        return self._parameters[name]


def _runs_others(name: str) -> bool:
    return any(load_agent(name).code_of_others())


def parts_of(label: str) -> tuple[str, dict[str, str]]:
    """The name in a label of an agent, and its parameters as texts. Raises ``RequestError`` for what is no label."""
    name, parameters = parse_label(label, "agent")
    return name, {key: as_typed(value) for key, value in parameters.items()}
