"""An agent in Python with limits: it stands for the agent until its player is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agents.base import Agent, KernelAgent
from agents.learning.policy import Policy
from agents.lift import LiftedPlayer, PythonAgent, check_choosers, choosers_of, ready
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.hosting.isolated import IsolatedPlayer, data_files, refused, setup_of
from runners.hosting.limits import Limits
from runners.hosting.watched import WatchedPlayer


@dataclass(frozen=True)
class LimitedAgent:
    """An agent that ``make`` makes, which is the class at ``target`` with ``params`` and perhaps a policy."""

    make: Callable[[], Agent]
    target: str
    params: Mapping[str, Any]
    policy: Policy | None
    limits: Limits

    @cached_property
    def data_files(self) -> Sequence[Any]:
        """The files that the agent names as its data. Raises ``RequestError`` if it cannot be made."""
        if self.limits.isolation == "process":
            params = dict(self.params)
            return data_files(*setup_of(self.target, self.target, params, self.policy, None, self.limits.megabytes))
        found: Sequence[Any] = getattr(self.make(), "data_files", ())
        return found

    def lifted(self, rules: Rules, label: str) -> LiftedPlayer:
        """Its player. Raises ``RequestError`` for an agent that is jitted or does not play the rules."""
        seconds, megabytes = self.limits.turn_seconds, self.limits.megabytes
        if self.limits.isolation == "process":
            setup = setup_of(label, self.target, dict(self.params), self.policy, rules, megabytes)
            return IsolatedPlayer(*setup, seconds, rules)

        def made() -> PythonAgent:
            agent = self.make()
            if isinstance(agent, KernelAgent):
                raise RequestError(refused(label))
            check_choosers(choosers_of(agent), rules, label)
            return ready(agent, rules, label)

        if seconds is None:
            raise ValueError("an agent without limits needs no LimitedAgent")
        return WatchedPlayer(made, seconds, label)
