"""Objectives: the values that judge runs, also for sweepers that optimise; one class a yaml in conf/objective."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from analytics import open_archive
from analytics.questions.columns import format_elo, format_significant
from analytics.questions.quantities import format_quantity, format_quantity_heading
from quarto.errors import ArenaError, FailureError, RequestError, describe_valid_names
from runners.config.schemas import check_range

if TYPE_CHECKING:
    from analytics.questions.pairings import PairingResult
    from analytics.statistics.tally import Tally
    from quarto.batch import Games
    from quarto.rules import Rules
    from runners.arena.experiment import Experiment
    from runners.arena.spec import RunSpec

Direction = Literal["maximize", "minimize"]
MAX_SECONDS = 7 * 86400.0
RANDOM_PAIRS = 500  # of games, of which one is judged


class SweepTarget(NamedTuple):
    """The value that a job of a sweep returns."""

    name: str
    direction: Direction
    format_value: Callable[[float], str] = format_significant  # of a value, for tables


class Objective(ABC):
    """A number that says how good the games of a run were for one of its agents."""

    direction: ClassVar[Direction] = "maximize"
    name: str  # its own in conf/objective

    def __init__(self, agent: str | None = None) -> None:
        """``agent`` is ``a`` or ``b`` in a match, or a label; None: the first agent."""
        self.agent = agent

    def check(self, spec: RunSpec) -> None:
        """Raises ``RequestError`` if a run of this specification cannot have a value."""
        self.find_agent_index(spec)

    def find_agent_index(self, spec: RunSpec) -> int:
        """The index of the agent that is judged. Raises ``RequestError`` if it does not play in this run."""
        return find_agent_index(spec, self.agent, "objective.agent")

    def check_duration(self, spec: RunSpec) -> None:  # noqa: B027  (most objectives cost nothing)
        """Raises ``RequestError`` if it shows, before any game is played, that the value would take too long."""

    @abstractmethod
    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        """The value of a run, whose results are those of its pairings in their order.

        Raises ``FailureError`` if the games do not determine it.
        """

    @property
    def heading(self) -> str:
        """The heading of its values in tables."""
        name = format_quantity_heading(self.name)
        return f"{name} of {self.agent}" if self.agent else name

    def format_value(self, value: float) -> str:
        """A value as tables show it."""
        return format_quantity(self.name, value)


class Score(Objective):
    """The mean score of an agent over all its games: a win counts 1, a draw 1/2."""

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        from analytics.statistics.tally import mean_score

        return mean_score(_sum_tallies(self, experiment.request.spec, results).trinomial).mean


class WinRate(Objective):
    """The share of its games that an agent wins."""

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        tally = _sum_tallies(self, experiment.request.spec, results)
        return tally.wins / tally.games


class Elo(Objective):
    """The Elo of an agent over another one, by one fit to the games of the run (``analytics.questions``)."""

    def __init__(self, agent: str | None = None, anchor: str | None = None) -> None:
        """``anchor`` is named as ``agent`` is; None: the other agent of a match."""
        super().__init__(agent)
        self.anchor = anchor

    def check(self, spec: RunSpec) -> None:
        self._find_labels(spec)

    def _find_labels(self, spec: RunSpec) -> tuple[str, str]:
        """The labels of the agent and of the anchor."""
        agent = self.find_agent_index(spec)
        if self.anchor is None and len(spec.agents) > 2:
            labels = [each.label for each in spec.agents if each.label != spec.agents[agent].label]
            raise RequestError(
                f"objective=elo needs objective.anchor=LABEL in a tournament{describe_valid_names('', labels)}"
            )
        anchor = 1 - agent if self.anchor is None else find_agent_index(spec, self.anchor, "objective.anchor")
        one, other = spec.agents[agent].label, spec.agents[anchor].label
        if one == other:
            raise RequestError(f"objective=elo compares '{one}' with itself: name another objective.anchor")
        return one, other

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        from analytics.questions.ratings import fit_ratings
        from analytics.statistics.tally import sum_tallies_by_key

        agent, anchor = self._find_labels(experiment.request.spec)
        tallies = sum_tallies_by_key(((result.first, result.second), result.tally) for result in results)
        found = {rating.agent: rating.elo.mean for rating in fit_ratings(tallies, anchor, samples=0).ratings}
        elo = found.get(agent, math.nan)
        if math.isnan(elo):
            raise FailureError(
                f"the games of run {experiment.run_id} do not determine the Elo of '{agent}' over '{anchor}': play more"
            )
        return elo

    def format_value(self, value: float) -> str:
        return format_elo(value)

    @property
    def heading(self) -> str:
        return super().heading + (f" over {self.anchor}" if self.anchor else "")


class Regret(Objective):
    """The mean regret of an agent's decisions by exact values, in half-points; it annotates the run."""

    direction = "minimize"

    def __init__(self, agent: str | None = None, from_pieces: int | None = None, seconds: float = 600.0) -> None:
        """Decisions on boards with fewer than ``from_pieces`` pieces are left out; judging takes ``seconds`` at most.

        Raises ``RequestError`` for a value out of range.
        """
        from quarto.rules import PIECES

        super().__init__(agent)
        for name, value, most in (("from_pieces", from_pieces, PIECES - 1), ("seconds", seconds, MAX_SECONDS)):
            check_range(f"objective.{name}", value if value is not None else 0, 0, most)
        self.from_pieces, self.seconds = from_pieces, seconds

    def _find_min_pieces(self, rules: Rules) -> int:
        """The pieces on the first board that counts."""
        from analytics.tables.derived.decisions import DEFAULT_FROM_PIECES_MOVER

        if self.from_pieces is not None:
            return int(self.from_pieces)
        return DEFAULT_FROM_PIECES_MOVER if rules.mover_chooses else 0

    def check_duration(self, spec: RunSpec) -> None:
        """Judge one random game, whose earliest decisions take the longest."""
        import numpy as np

        from analytics.exact.annotation import AnnotationOptions, GameSolver

        first = max(self._find_min_pieces(spec.rules), spec.opening_plies)
        game = find_long_random_game(spec.rules, first, spec.seed)
        if game is None:
            return
        what = f"one random game under rules {spec.rules.name} from {first} pieces on"
        evaluator, on_wait = (
            GameSolver(spec.rules, AnnotationOptions(threads=1)),
            self._build_time_limit_check(what, RequestError),
        )
        evaluator.solve_games(game, np.array([first], np.int8), False, lambda _games: None, on_wait)

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:  # noqa: ARG002
        from analytics.exact.annotation import AnnotationOptions, annotate_runs
        from analytics.questions.mistakes import build_judged_agent_names, summarise_decisions
        from analytics.questions.sql.views import run_condition_sql

        request, run_id = experiment.request, experiment.run_id
        label, first = (
            request.spec.agents[self.find_agent_index(request.spec)].label,
            self._find_min_pieces(request.spec.rules),
        )
        settings = AnnotationOptions(from_pieces=first, threads=request.threads)
        on_wait = self._build_time_limit_check(f"the games of run {run_id}", FailureError)
        annotate_runs(experiment.archive, [run_id], settings, on_wait=on_wait)
        condition = f"{run_condition_sql([run_id])} AND ply >= {first}"
        with open_archive(request.storage.root) as opened:
            summaries = summarise_decisions(opened, condition, False, build_judged_agent_names(opened, condition))
        own = summaries.filter(summaries["agent"] == label)
        if not len(own):
            raise FailureError(f"'{label}' has no decision in run {run_id} from {first} pieces on")
        return float((own["regret"] * own["decisions"]).sum()) / int(own["decisions"].sum())

    def _build_time_limit_check(self, what: str, error: type[ArenaError]) -> Callable[[], None]:
        """A function to be called while judging goes on, which raises ``error`` after ``seconds``."""
        end = time.monotonic() + self.seconds

        def on_wait() -> None:
            if time.monotonic() > end:
                raise error(
                    f"{what} cannot be judged exactly within {self.seconds:g} s (objective=regret): leave out early "
                    "boards with objective.from_pieces=N, or allow more with objective.seconds=…"
                )

        return on_wait


def find_agent_index(spec: RunSpec, name: str | None, key: str) -> int:
    """The index of the agent of a run that a setting names. Raises ``RequestError`` if there is none."""
    from runners.config.agents import normalise_label  # a command's help needs none of it

    if name is None:
        return spec.pairings[0][0]
    seats = ("a", "b") if len(spec.agents) == 2 and spec.pairings == ((0, 1),) else ()
    labels = [agent.label for agent in spec.agents]
    for named, names in ((name, seats), (name, labels), (normalise_label(name), labels)):
        if named in names:
            return names.index(named)
    raise RequestError(f"{key}={name} does not play in this run{describe_valid_names(str(name), [*seats, *labels])}")


def find_long_random_game(rules: Rules, plies_to_exceed: int, seed: int) -> Games | None:
    """A random game of more than ``plies_to_exceed`` plies; None if there is none among a thousand."""
    import numpy as np

    from agents.random import Random
    from quarto.batch import Games
    from runners.arena.batch_engine import BatchEngine, PairRange

    engine = BatchEngine(rules, [Random(), Random()], ["one", "other"], [(0, 1)], seed, run=1)
    games = engine.play_block(PairRange(0, 0, RANDOM_PAIRS)).games
    found = np.flatnonzero(games.plies > plies_to_exceed)
    return Games(*(each[..., found[:1]] for each in games)) if found.size else None


def _sum_tallies(objective: Objective, spec: RunSpec, results: Sequence[PairingResult]) -> Tally:
    """The tally of all games of the agent that is judged, from its perspective."""
    from analytics.statistics.tally import Tally

    agent = objective.find_agent_index(spec)
    views = ((result.tally, spec.pairings[result.pairing]) for result in results)
    own = (tally if agents[0] == agent else tally.with_agents_swapped for tally, agents in views if agent in agents)
    return sum(own, Tally())


def build_objective(settings: Mapping[str, Any], name: str) -> Objective:
    """The objective that a node of the configuration describes; ``name`` is the option of the group.

    Raises ``RequestError`` for a setting that does not exist or does not fit.
    """
    from runners.arena.spec import build_from_settings

    made: Objective = build_from_settings(f"objective '{name}'", settings, Objective, trusted=True)
    made.name = name
    return made
