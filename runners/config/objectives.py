"""Objectives: values that judge runs and that sweepers optimise. Each yaml in conf/objective names a class."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from analytics import open_archive
from analytics.questions.columns import format_elo, format_significant
from analytics.questions.quantities import format_quantity, format_quantity_heading
from quarto.errors import ArenaError, FailureError, RequestError, suggest_valid_names
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
RANDOM_PAIRS = 500  # pairs of games, of which one game is judged


class SweepTarget(NamedTuple):
    """The value by which the jobs of a sweep are compared.

    The direction says whether a greater or a smaller value is better.
    """

    name: str
    direction: Direction
    format_value: Callable[[float], str] = format_significant  # formats a value for tables


class Objective(ABC):
    """A number that says how well one of the agents of a run did in its games."""

    direction: ClassVar[Direction] = "maximize"
    name: str  # the name of its yaml in conf/objective

    def __init__(self, agent: str | None = None) -> None:
        """Choose the agent to judge: ``a`` or ``b`` in a match, or a label; None means the first agent."""
        self.agent = agent

    def check(self, spec: RunSpec) -> None:
        """Raise ``RequestError`` if this objective has no value in a run with this specification."""
        self.find_agent_index(spec)

    def find_agent_index(self, spec: RunSpec) -> int:
        """Return the index of the judged agent. Raises ``RequestError`` if that agent does not play in the run."""
        return find_agent_index(spec, self.agent, "objective.agent")

    def check_duration(self, spec: RunSpec) -> None:  # noqa: B027  (most objectives cost nothing)
        """Raise ``RequestError`` if it would take too long to compute the value of the run.

        The check is made before any game is played.
        """

    @abstractmethod
    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        """Compute the value of a run from ``results``, the results of its pairings in the order of the run.

        Raises ``FailureError`` if the games do not determine the value.
        """

    @property
    def heading(self) -> str:
        """The heading of the objective's values in tables."""
        name = format_quantity_heading(self.name)
        return f"{name} of {self.agent}" if self.agent else name

    def format_value(self, value: float) -> str:
        """Format a value for tables."""
        return format_quantity(self.name, value)


class Score(Objective):
    """The mean score of an agent over all its games, where a win counts 1 and a draw 1/2."""

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        from analytics.statistics.tally import mean_score

        return mean_score(_sum_tallies(self, experiment.request.spec, results).losses_draws_wins).mean


class WinRate(Objective):
    """The share of an agent's games that the agent wins."""

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        tally = _sum_tallies(self, experiment.request.spec, results)
        return tally.wins / tally.games


class Elo(Objective):
    """The difference in Elo between an agent and another agent, from one fit to all games of the run."""

    def __init__(self, agent: str | None = None, anchor: str | None = None) -> None:
        """Choose the agent to judge and the agent ``anchor`` to compare it with; both are named as in ``Objective``.

        If ``anchor`` is None, it is the other agent of a match.
        """
        super().__init__(agent)
        self.anchor = anchor

    def check(self, spec: RunSpec) -> None:
        self._find_labels(spec)

    def _find_labels(self, spec: RunSpec) -> tuple[str, str]:
        """Return the labels of the judged agent and of the anchor, in this order."""
        agent = self.find_agent_index(spec)
        if self.anchor is None and len(spec.agents) > 2:
            labels = [other.label for other in spec.agents if other.label != spec.agents[agent].label]
            raise RequestError(
                f"objective=elo needs objective.anchor=LABEL in a tournament{suggest_valid_names('', labels)}"
            )
        anchor = 1 - agent if self.anchor is None else find_agent_index(spec, self.anchor, "objective.anchor")
        agent_label, anchor_label = spec.agents[agent].label, spec.agents[anchor].label
        if agent_label == anchor_label:
            raise RequestError(f"objective=elo compares '{agent_label}' with itself: name another objective.anchor")
        return agent_label, anchor_label

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:
        from analytics.questions.ratings import fit_ratings
        from analytics.statistics.tally import sum_tallies_by_key

        agent, anchor = self._find_labels(experiment.request.spec)
        tallies = sum_tallies_by_key(((result.first, result.second), result.tally) for result in results)
        elo_by_agent = {rating.agent: rating.elo.mean for rating in fit_ratings(tallies, anchor, samples=0).ratings}
        elo = elo_by_agent.get(agent, math.nan)
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
    """The mean exact regret of an agent's decisions, in half-points.

    To compute it, the run is annotated: the exact values of its decisions are stored in the archive.
    """

    direction = "minimize"

    def __init__(self, agent: str | None = None, from_pieces: int | None = None, seconds: float = 600.0) -> None:
        """Choose the agent to judge, and judge its decisions on boards with at least ``from_pieces`` pieces.

        If ``from_pieces`` is None, all decisions are judged or, if the mover chooses the piece, those on boards with at
        least ``DEFAULT_FROM_PIECES_MOVER`` pieces. An error is raised if judging takes more than ``seconds``. Raises
        ``RequestError`` for a value that is out of range.
        """
        from quarto.rules import PIECES

        super().__init__(agent)
        for name, value, most in (("from_pieces", from_pieces, PIECES - 1), ("seconds", seconds, MAX_SECONDS)):
            check_range(f"objective.{name}", value if value is not None else 0, 0, most)
        self.from_pieces, self.seconds = from_pieces, seconds

    def _find_min_pieces(self, rules: Rules) -> int:
        """Return the minimum number of pieces on the board for a decision to be judged."""
        from analytics.tables.derived.decisions import DEFAULT_FROM_PIECES_MOVER

        if self.from_pieces is not None:
            return int(self.from_pieces)
        return DEFAULT_FROM_PIECES_MOVER if rules.mover_chooses else 0

    def check_duration(self, spec: RunSpec) -> None:
        """Judge one random game as a test, and raise ``RequestError`` if that takes too long.

        One game is enough, because its early decisions take by far the longest.
        """
        import numpy as np

        from analytics.exact.annotation import AnnotationOptions, GameSolver

        min_pieces = max(self._find_min_pieces(spec.rules), spec.opening_plies)
        game = find_long_random_game(spec.rules, min_pieces, spec.seed)
        if game is None:
            return
        subject = f"one random game under rules {spec.rules.name} from {min_pieces} pieces on"
        evaluator, on_wait = (
            GameSolver(spec.rules, AnnotationOptions(threads=1)),
            self._build_time_limit_check(subject, RequestError),
        )
        evaluator.solve_games(game, np.array([min_pieces], np.int8), False, lambda _games: None, on_wait)

    def value(self, experiment: Experiment, results: Sequence[PairingResult]) -> float:  # noqa: ARG002
        from analytics.exact.annotation import AnnotationOptions, annotate_runs
        from analytics.questions.mistakes import build_judged_agent_names, summarise_decisions
        from analytics.questions.sql.views import run_condition_sql

        request, run_id = experiment.request, experiment.run_id
        label, min_pieces = (
            request.spec.agents[self.find_agent_index(request.spec)].label,
            self._find_min_pieces(request.spec.rules),
        )
        options = AnnotationOptions(from_pieces=min_pieces, threads=request.threads)
        on_wait = self._build_time_limit_check(f"the games of run {run_id}", FailureError)
        annotate_runs(experiment.archive, [run_id], options, on_wait=on_wait)
        condition = f"{run_condition_sql([run_id])} AND ply >= {min_pieces}"
        with open_archive(request.storage.root) as archive:
            summaries = summarise_decisions(archive, condition, False, build_judged_agent_names(archive, condition))
        agent_summaries = summaries.filter(summaries["agent"] == label)
        if not len(agent_summaries):
            raise FailureError(f"'{label}' has no decision in run {run_id} from {min_pieces} pieces on")
        return float((agent_summaries["regret"] * agent_summaries["decisions"]).sum()) / int(
            agent_summaries["decisions"].sum()
        )

    def _build_time_limit_check(self, subject: str, error: type[ArenaError]) -> Callable[[], None]:
        """Build a function that raises ``error`` when it is called more than ``seconds`` from now.

        ``seconds`` is the limit of the objective. The function is called repeatedly while games are judged. ``subject``
        says, in the error message, what took so long.
        """
        end = time.monotonic() + self.seconds

        def on_wait() -> None:
            if time.monotonic() > end:
                raise error(
                    f"{subject} cannot be judged exactly within {self.seconds:g} s (objective=regret): leave out early "
                    "boards with objective.from_pieces=N, or allow more with objective.seconds=…"
                )

        return on_wait


def find_agent_index(spec: RunSpec, name: str | None, key: str) -> int:
    """Return the index in ``spec.agents`` of the agent that ``name`` denotes.

    ``name`` is a label or, in a match, ``a`` or ``b``. If it is None, return the index of the first agent of the first
    pairing. ``key`` names the setting in messages. Raises ``RequestError`` if no such agent plays in the run.
    """
    from runners.config.agents import normalise_label  # a command's help needs none of it

    if name is None:
        return spec.pairings[0][0]
    seats = ("a", "b") if len(spec.agents) == 2 and spec.pairings == ((0, 1),) else ()
    labels = [agent.label for agent in spec.agents]
    for candidate, names in ((name, seats), (name, labels), (normalise_label(name), labels)):
        if candidate in names:
            return names.index(candidate)
    raise RequestError(f"{key}={name} does not play in this run{suggest_valid_names(str(name), [*seats, *labels])}")


def find_long_random_game(rules: Rules, plies_to_exceed: int, seed: int) -> Games | None:
    """Return a random game of more than ``plies_to_exceed`` plies, or None if a thousand games include none."""
    import numpy as np

    from agents.random import Random
    from quarto.batch import Games
    from runners.arena.batch_engine import BatchEngine, PairRange

    engine = BatchEngine(rules, [Random(), Random()], ["one", "other"], [(0, 1)], seed, run=1)
    games = engine.play_block(PairRange(0, 0, RANDOM_PAIRS)).games
    long_games = np.flatnonzero(games.plies > plies_to_exceed)
    return Games(*(column[..., long_games[:1]] for column in games)) if long_games.size else None


def _sum_tallies(objective: Objective, spec: RunSpec, results: Sequence[PairingResult]) -> Tally:
    """Sum the tallies of all games that the judged agent plays, from that agent's point of view."""
    from analytics.statistics.tally import Tally

    agent = objective.find_agent_index(spec)
    tallies_with_agents = ((result.tally, spec.pairings[result.pairing]) for result in results)
    agent_tallies = (
        tally if agents[0] == agent else tally.with_agents_swapped
        for tally, agents in tallies_with_agents
        if agent in agents
    )
    return sum(agent_tallies, Tally())


def build_objective(settings: Mapping[str, Any], name: str) -> Objective:
    """Build the objective that a node of the configuration describes; ``name`` is the name of its yaml.

    Raises ``RequestError`` for a setting that does not exist or has an invalid value.
    """
    from runners.arena.spec import build_from_settings

    objective: Objective = build_from_settings(f"objective '{name}'", settings, Objective, trusted=True)
    objective.name = name
    return objective
