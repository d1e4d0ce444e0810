"""Which of our players meet for which published figures, and what their games come to."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.published import Figure, Follower, followers
from analytics.published.agreement import results_in
from analytics.published.comparison import Comparison, Played, played
from analytics.statistics.tally import Tally
from runners.arena.agent_labels import agent_named
from runners.arena.config import Request
from runners.arena.config_groups import load_rules
from runners.arena.experiment import Experiment, Progress, carry_out, prepare
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import Storage
from runners.reproduce.trainings import Learned

TEXT, CODE = "text", "code"


@dataclass(frozen=True)
class Terms:
    """How the games of all figures are played and stored."""

    games: int  # of each, even
    seed: int
    threads: int
    storage: Storage
    command: str  # as it was typed


class Key(NamedTuple):
    """What a meeting is: its rules and two labels, in order."""

    rules: str
    first: str
    second: str


@dataclass(frozen=True)
class Side:
    """One player of a figure, by the study's text or by its code."""

    label: str  # as one would type it, without a policy
    trainer: str  # overrides of ``qarena train`` that make its policy; "": it needs none


def sides(figure: Figure, variant: str) -> tuple[Side, Side] | None:
    """The player and the opponent of a figure; by the code None if neither differs from the text."""
    both = [followers().get(label) for label in (figure.player, figure.opponent)]
    if variant == CODE and not any(follower and follower.code for follower in both):
        return None
    one, two = (
        _side(label, follower, variant) for label, follower in zip((figure.player, figure.opponent), both, strict=True)
    )
    return one, two


def _side(label: str, follower: Follower | None, variant: str) -> Side:
    if follower is None:
        return Side(label, "")
    if variant == CODE and follower.code:
        return Side(follower.code, follower.code_trainer)
    return Side(follower.text, follower.trainer)


def trainings(figures: Sequence[Figure]) -> list[str]:
    """The trainings that figures need, as overrides of ``qarena train``, each once."""
    found = (sides(figure, variant) or () for figure in figures for variant in (TEXT, CODE))
    return list(dict.fromkeys(side.trainer for both in found for side in both if side.trainer))


@dataclass
class Meetings:
    """The runs that a list of figures needs, each once, and what they have come to."""

    terms: Terms
    lessons: Mapping[str, Learned]  # what each training has come to, by its overrides
    experiments: dict[Key, Experiment] = field(default_factory=dict)
    tallies: dict[Key, Tally] = field(default_factory=dict)
    _known: dict[str, AgentSpec] = field(default_factory=dict)  # by what one would type: yaml takes time to read

    def arrange(self, figures: Sequence[Figure]) -> None:
        """Prepare every run. Raises ``RequestError`` as ``prepare`` does."""
        for figure in figures:
            for variant in (TEXT, CODE):
                agents = None if figure.training else self._agents(figure, variant)
                if agents:
                    key = _key(figure, agents)
                    if key not in self.experiments:
                        self.experiments[key] = prepare(self._request(figure, agents))

    @property
    def games_left(self) -> int:
        """How many games the archive lacks."""
        return sum(each.games_left(self.terms.games) for each in self.experiments.values())

    def play(self, stop: threading.Event, progress: Progress | None) -> int:
        """Play what the archive lacks, until done or ``stop`` is set; returns how many games that were."""
        count, whole = 0, _Whole(progress)
        if progress and self.games_left:
            progress.start(self.games_left)
        for key, experiment in self.experiments.items():
            if stop.is_set():
                break
            outcome = carry_out(experiment, f"qarena {self.terms.command}", stop, whole)
            count += outcome.played
            for result in outcome.results:
                self.tallies[key] = result.tally
        return count

    def comparison(self, figure: Figure) -> Comparison:
        """A figure beside what has been played of it."""
        return Comparison(figure, self._played(figure, TEXT), self._played(figure, CODE))

    def _played(self, figure: Figure, variant: str) -> Played | None:
        if figure.training:
            return self._learned(figure, variant)
        agents = self._agents(figure, variant)
        if agents is None:
            return None
        key = _key(figure, agents)
        tally = self.tallies.get(key)
        player, opponent = (agent.label for agent in agents)
        if tally is None or not tally.games:
            return None
        ours = tally if key.first == player else tally.swapped
        return played(figure, player, opponent, results_in(ours, figure.seat))

    def _learned(self, figure: Figure, variant: str) -> Played | None:
        both = sides(figure, variant)
        learned = self.lessons.get(both[0].trainer) if both else None
        return played(figure, learned.learner, learned.opponent, learned.results) if learned else None

    def _agents(self, figure: Figure, variant: str) -> tuple[AgentSpec, AgentSpec] | None:
        """Who plays; None if nobody does, or one of them has not been trained yet."""
        both = sides(figure, variant)
        if both is None or any(side.trainer and side.trainer not in self.lessons for side in both):
            return None
        return self._agent(both[0]), self._agent(both[1])

    def _agent(self, side: Side) -> AgentSpec:
        learned = self.lessons.get(side.trainer)
        label = with_parameter(side.label, learned.policy if learned else None)
        if label not in self._known:
            self._known[label] = agent_named(label, self.terms.storage.root)
        return self._known[label]

    def _request(self, figure: Figure, agents: tuple[AgentSpec, AgentSpec]) -> Request:
        spec = RunSpec(load_rules(figure.rules), _in_order(agents), ((0, 1),), self.terms.seed, opening_plies=0)
        return Request(spec, self.terms.games, self.terms.threads, self.terms.storage, progress=True)


class _Whole:
    """Many runs told of as one."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def start(self, games: int) -> None:
        """The whole has begun long ago."""

    def advance(self, games: int) -> None:
        if self._progress:
            self._progress.advance(games)


def with_parameter(label: str, policy: str | None) -> str:
    """``rl_encoded`` as ``rl_encoded(policy=NAME)``; as it is without a policy."""
    if policy is None:
        return label
    return f"{label[:-1]},policy={policy})" if label.endswith(")") else f"{label}(policy={policy})"


def _in_order(agents: tuple[AgentSpec, AgentSpec]) -> tuple[AgentSpec, AgentSpec]:
    """By their labels, so that a meeting is one run whichever side a figure takes."""
    one, two = agents
    return (one, two) if one.label <= two.label else (two, one)


def _key(figure: Figure, agents: tuple[AgentSpec, AgentSpec]) -> Key:
    first, second = _in_order(agents)
    return Key(figure.rules, first.label, second.label)
