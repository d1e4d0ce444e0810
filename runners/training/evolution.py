"""Training by evolution. Each generation is a run whose results are the fitnesses of its individuals.

An evolution is a pure function of its plan, its seed and the fitnesses, which follow from the tallies of the runs. So
the archive is the checkpoint: a stopped evolution begins again, and finds the games of complete generations there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.evolution import OPERATORS, Breeder, Evolution, Population, seed_of_games
from agents.learning.policy import GENOME, Policy
from analytics.results.pairings import PairingResult
from quarto.errors import RequestError
from quarto.rules import NONE
from runners.arena.config import Request, load_agent
from runners.arena.experiment import prepare
from runners.arena.spec import AgentSpec, RunSpec, label_of
from runners.training.trainer import Trained, TrainingContext, TrainingRuns


@dataclass(frozen=True)
class EvolutionPlan:
    """The parameters of an evolution, except those of its breeder."""

    agent: str  # label of the agent that plays by the genes
    size: int  # of the population
    offspring: int  # in each generation
    generations: int  # after the initial one
    games: int  # of an individual against each opponent, for its fitness
    opponents: tuple[Any, ...]  # labels or mappings; fitness against the first decides, the next ones break ties
    seats: str  # swapped, or fixed: individuals hold seat 0 only
    draw_reward: float  # what a drawn game counts; a win counts 1
    again: bool  # judge survivors again in every generation
    answer: str  # best or mean: see ``Evolution.answer``
    faithful: bool  # all players follow their studies' code, where they have that choice


@dataclass(frozen=True)
class FitnessGames:
    """The games of an individual's current fitness."""

    run_id: str
    label: str  # under which it played them
    games: int


class PlayedGeneration(NamedTuple):
    """A generation's run, and how its games ended."""

    run_id: str
    results: Sequence[PairingResult]


class EvolutionTraining:
    """One evolution in progress. ``start`` [n, G] are genes of the initial population.

    Raises ``RequestError`` for agents that do not exist, and for one that does not have the genes.
    """

    def __init__(
        self, breeder: Breeder, plan: EvolutionPlan, context: TrainingContext, start: NDArray[np.float64] | None = None
    ) -> None:
        self._genes = breeder.genes
        self._plan = plan
        self._context = context
        self._evolution = Evolution(
            breeder, context.seed, plan.size, plan.offspring, len(plan.opponents), plan.again, start
        )
        self._name = plan.agent.partition("(")[0].strip()
        self._player = _player(plan, breeder.genes, context)
        self._defaults = load_agent(self._name).params
        self._opponents = _opponents(plan, context)
        self._judgements: dict[int, FitnessGames] = {}  # by the individual's number
        self._run_ids: list[str] = []
        self._populations: list[pl.DataFrame] = []
        self._curve: list[tuple[float, ...]] = []
        self._games = 0

    def check(self) -> None:
        """Raises ``RequestError`` if the first generation cannot be judged. Nothing is played."""
        prepare(self._request([self._individual(genes) for genes in self._evolution.breed().genes.tolist()]))

    def run(self) -> Trained:
        """Evolve for all generations, or until the context's ``stop`` is set.

        Raises ``RequestError`` before anything is played if agents do not play these rules, or if other code began a
        generation; ``FailureError`` when the disk refuses.
        """
        plan = self._plan
        individuals = plan.size + plan.generations * (plan.offspring + plan.again * plan.size)
        runs = TrainingRuns(self._context, individuals * len(plan.opponents) * plan.games)
        genome = self.genome(lambda request: _played(runs, request))
        return Trained(
            policy=Policy(GENOME, genome) if genome else None,
            run_ids=tuple(self._run_ids),
            games=self._games,
            played=runs.played,
            seconds=runs.seconds,
            curve=pl.DataFrame(self._curve, schema=self._curve_schema(), orient="row"),
            tables={"population": pl.concat(self._populations)} if self._populations else {},
        )

    def genome(self, generation_of: Callable[[Request], PlayedGeneration | None]) -> dict[str, float] | None:
        """The answer after all generations, by gene; None once ``generation_of`` finds no games for a generation.

        Only that function may build agents.
        """
        if not all(self._generation(generation_of) for _ in range(self._plan.generations + 1)):
            return None
        return dict(zip(self._genes, self._evolution.answer(self._plan.answer), strict=True))

    def _generation(self, generation_of: Callable[[Request], PlayedGeneration | None]) -> bool:
        """Breed a generation and judge it; false if not all of its games were played."""
        due = self._evolution.breed()
        players = [self._individual(genes) for genes in due.genes.tolist()]
        played = generation_of(self._request(players))
        if played is None:
            return False
        self._run_ids.append(played.run_id)
        games = self._plan.games * len(self._opponents)
        self._games += games * len(players)
        for number, player in zip(due.number.tolist(), players, strict=True):
            self._judgements[number] = FitnessGames(played.run_id, player.label, games)
        judged = self._evolution.judge(self._fitness(played.results))
        self._populations.append(self._table(judged, int(due.number[-1])))
        self._curve.append(self._point())
        return True

    def _individual(self, genes: Sequence[float]) -> AgentSpec:
        """The player with these genes."""
        params = {**self._player.params, **dict(zip(self._genes, genes, strict=True))}
        label = label_of(self._name, params, self._defaults)
        return replace(self._player, label=label, params=params, policy_id=None)

    def _request(self, players: Sequence[AgentSpec]) -> Request:
        """The run of each player against each opponent."""
        plan, context = self._plan, self._context
        opponents = range(len(players), len(players) + len(self._opponents))
        spec = RunSpec(
            rules=context.rules,
            agents=(*players, *self._opponents),
            pairings=tuple(product(range(len(players)), opponents)),
            seed=seed_of_games(context.seed, self._evolution.generation, plan.games),
            opening_plies=0,
            seats=plan.seats,
        )
        return context.request(spec, plan.games)

    def _fitness(self, results: Sequence[PairingResult]) -> NDArray[np.float64]:
        """[n, F] each player's mean reward against each opponent."""
        rewards = [(result.wins + self._plan.draw_reward * result.draws) / result.games for result in results]
        return np.array(rewards).reshape(-1, len(self._opponents))

    def _table(self, judged: Population, youngest: int) -> pl.DataFrame:
        """A generation's rows of the table ``population``: all individuals, best first."""
        generation, numbers = self._evolution.generation, judged.number.tolist()
        new = judged.number > youngest - self._plan.offspring
        judgements = [self._judgements[number] for number in numbers]
        return pl.DataFrame(
            {
                "generation": np.full(len(numbers), generation),
                "place": np.arange(len(numbers)),
                "individual": judged.number,
                "origin": [("offspring" if each else "survivor") if generation else "initial" for each in new],
                "operator": [OPERATORS[operator] for operator in judged.operator],
                "parents": pl.Series(
                    [[n for n in both if n != NONE] for both in judged.parents.tolist()], dtype=_INDIVIDUALS
                ),
                "goes_on": np.arange(len(numbers)) < self._plan.size,
                **dict(zip(self._genes, judged.genes.T, strict=True)),
                **{
                    f"v {opponent.label}": column
                    for opponent, column in zip(self._opponents, judged.fitness.T, strict=True)
                },
                "games": [judgement.games for judgement in judgements],
                "run_id": [judgement.run_id for judgement in judgements],
                "label": [judgement.label for judgement in judgements],
            }
        )

    def _curve_schema(self) -> dict[str, pl.DataType]:
        """The columns of the curve: ``best`` and ``mean`` are against the first opponent, the others name theirs."""
        schema: dict[str, pl.DataType] = {"generation": pl.Int64(), "games": pl.Int64()}
        for i, opponent in enumerate(self._opponents):
            against = f" v {opponent.label}" * (i > 0)
            schema |= {f"best{against}": pl.Float64(), f"mean{against}": pl.Float64()}
        return schema

    def _point(self) -> tuple[float, ...]:
        """A generation's row of the curve: the best and the mean fitness of the individuals that go on."""
        fitness = self._evolution.population.fitness
        best_and_mean = np.stack([fitness[0], fitness.mean(axis=0)], axis=1)
        return self._evolution.generation, self._games, *best_and_mean.ravel().tolist()


_INDIVIDUALS = pl.List(pl.Int64)


def _played(runs: TrainingRuns, request: Request) -> PlayedGeneration | None:
    """The generation once its games are played; None if ``stop`` was set before that."""
    outcome = runs.carry_out(request)
    return PlayedGeneration(outcome.run_id, outcome.results) if outcome else None


def _player(plan: EvolutionPlan, genes: Sequence[str], context: TrainingContext) -> AgentSpec:
    """The agent that plays by the genes."""
    player = _agent(plan.agent, plan.faithful, context, "trainer.agent")
    for gene in genes:
        if gene not in player.params:
            raise RequestError(f"trainer.agent={plan.agent} has no gene {gene!r}: it has {', '.join(player.params)}")
    return player


def _opponents(plan: EvolutionPlan, context: TrainingContext) -> list[AgentSpec]:
    opponents = [_agent(opponent, plan.faithful, context, "trainer.opponents") for opponent in plan.opponents]
    labels = [opponent.label for opponent in opponents]
    for label in labels:
        if labels.count(label) > 1:
            raise RequestError(f"trainer.opponents has '{label}' {labels.count(label)} times: once is enough")
    return opponents


def _agent(entry: Any, faithful: bool, context: TrainingContext, key: str) -> AgentSpec:
    """The agent that an entry describes, with ``faithful=true`` if asked for and the agent has that parameter."""
    agent = context.agent(entry, key)
    if not faithful or "faithful" not in agent.params or "faithful" in entry:
        return agent
    if isinstance(entry, dict):
        return context.agent({**entry, "faithful": True}, key)
    name, _, parameters = entry.strip().removesuffix(")").partition("(")
    return context.agent(f"{name}({parameters}{',' * bool(parameters)}faithful=true)", key)
