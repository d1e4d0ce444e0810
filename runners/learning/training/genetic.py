"""The trainers of the genetic players, ``conf/trainer/ga5.yaml`` and ``ga2.yaml``, and the evolution that they run.

Each generation is a run, whose results give the fitness of its individuals. An evolution is a pure function of its
trainer, its seed and these results. So the archive is the checkpoint: a stopped evolution begins again, and finds the
games of complete generations in the archive.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from agents.base.parameters import Probability, check_fields, check_probability
from agents.learning.evolution import (
    GENOME_CHOICES,
    OPERATORS,
    Breeder,
    Evolution,
    FiveGeneBreeder,
    Population,
    TwoGeneBreeder,
    compute_run_seed,
)
from agents.learning.policy import GENOME, Policy
from analytics.questions.pairings import PairingResult
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.records import SEATS
from quarto.errors import RequestError
from quarto.rules import NONE
from runners.arena.experiment import open_experiment
from runners.arena.request import RunRequest
from runners.arena.spec import AgentSpec, RunSpec, format_label
from runners.config.agents import load_agent
from runners.config.requests import describe_rounding
from runners.learning.training.trainer import Trainer, TrainingContext, TrainingOutcome, TrainingRuns

IndividualCount = Annotated[int, Meta(ge=1, le=10_000)]
EVALUATE_CHOICES = ("new", "all")
PHASES = ("early", "stuck", "late")


@dataclass(frozen=True, kw_only=True)
class GeneticTrainer(Trainer):
    """The base class of the two genetic trainers, each of which repeats the evolution of a student study.

    Their yamls in ``conf/trainer`` explain each key. Raises ``RequestError`` for an invalid value.
    """

    agent: str
    population: IndividualCount
    offspring: IndividualCount
    generations: Annotated[int, Meta(ge=1, le=100_000)]
    games: Annotated[int, Meta(ge=1, le=1 << 30)]
    opponents: Sequence[Any]
    tournament: IndividualCount
    evaluate: Annotated[str, EVALUATE_CHOICES]
    answer: Annotated[str, GENOME_CHOICES]
    start: str | None
    seats: Annotated[str | None, SEATS]
    draw_reward: Probability
    faithful: bool

    def __post_init__(self) -> None:
        try:
            check_fields(self)
            self.build_breeder()
            self._check_choices()
        except ValueError as error:
            raise RequestError(f"trainer.{error}") from error

    @abstractmethod
    def build_breeder(self) -> Breeder:
        """Build the breeder, which makes new individuals the way the study that this trainer repeats made them.

        Raises ``ValueError`` for an invalid parameter.
        """

    @property
    def notes(self) -> tuple[str, ...]:
        return describe_rounding("trainer.games", self.games, self.games_per_opponent)

    def check(self, context: TrainingContext) -> None:
        self.build_training(context).check()

    def train(self, context: TrainingContext) -> TrainingOutcome:
        return self.build_training(context).run()

    def build_training(self, context: TrainingContext) -> EvolutionTraining:
        """Build the evolution without starting it.

        Raises ``RequestError`` if an agent or the policy ``start``, from which the initial genes are read, does not
        exist.
        """
        start = (
            None
            if self.start is None
            else read_genes_of_last_survivors(context.storage.root, self.start, self.build_breeder().gene_names)
        )
        return EvolutionTraining(self, context, start)

    @property
    def effective_seats(self) -> str:
        """The way in which seats are assigned: ``swapped``, or ``fixed`` if every individual plays in seat 0 only.

        If ``seats`` is null, seats are ``swapped``, unless the study has fixed seats and the setting ``faithful``, to
        follow the study's code, is true.
        """
        return self.seats or "swapped"

    @property
    def games_per_opponent(self) -> int:
        """The number of games that an individual plays against each opponent, rounded up to whole pairs."""
        return self.games + (self.games % 2 if self.effective_seats == "swapped" else 0)

    @property
    def reevaluates_survivors(self) -> bool:
        """Whether survivors play new games in every generation instead of keeping their fitness."""
        return self.evaluate == "all"

    def _check_choices(self) -> None:
        """Check constraints that type annotations cannot express. Raises ``ValueError`` for a wrong value."""
        if self.population < self.tournament:
            raise ValueError(f"population={self.population} is smaller than trainer.tournament={self.tournament}")
        if not isinstance(self.agent, str):
            raise ValueError(f"agent={self.agent!r} is not an agent's label, NAME or NAME(parameter=value,…)")
        if not isinstance(self.start, str | None):
            raise ValueError(f"start={self.start!r} is not a policy's name or id; put it in quotes: start='\"…\"'")
        if isinstance(self.opponents, str) or not isinstance(self.opponents, Sequence) or not self.opponents:
            raise ValueError(f"opponents={self.opponents!r} is not a list of agents, [random, …]")


@dataclass(frozen=True, kw_only=True)
class Ga5Trainer(GeneticTrainer):
    """The trainer that repeats study A's evolution of five genes (``lorenzobellino/quarto-player``)."""

    length_key: ClassVar[str] = "generations"

    reach: Annotated[float, Meta(ge=0)]
    scale: Annotated[float, Meta(ge=0)]

    def build_breeder(self) -> Breeder:
        return FiveGeneBreeder(self.tournament, float(self.reach), float(self.scale), writes_into_parents=self.faithful)


@dataclass(frozen=True, kw_only=True)
class Ga2Trainer(GeneticTrainer):
    """The trainer that repeats study B's evolution of two genes (``quarto_ci_2022_2023``)."""

    operators: Mapping[str, Sequence[float]]
    margin: float
    step: Probability
    shift: Probability
    decimals: Annotated[int, Meta(ge=0, le=15)]

    def build_breeder(self) -> Breeder:
        if not isinstance(self.operators, Mapping) or sorted(self.operators) != sorted(PHASES):
            raise ValueError(f"operators={self.operators} is not {{{', '.join(f'{phase}: […]' for phase in PHASES)}}}")
        early, stuck, late = (parse_operators(f"operators.{phase}", self.operators[phase]) for phase in PHASES)
        numbers = self.margin, self.step, self.shift, self.decimals, self.faithful
        return TwoGeneBreeder(self.generations, self.tournament, early, stuck, late, *numbers)

    @property
    def effective_seats(self) -> str:
        return self.seats or ("fixed" if self.faithful else "swapped")


def parse_operators(key: str, values: Any) -> tuple[float, float, float]:
    """Check and return the probabilities of the three operators: mutation and two kinds of crossover.

    Raises ``ValueError`` unless ``values`` are three probabilities that sum to 1. The message names ``key``.
    """
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 3:
        raise ValueError(f"{key}={values} is not three probabilities, [mutation, crossover, crossover2]")
    mutation, crossover, crossover2 = (check_probability(key, value) for value in values)
    if abs(mutation + crossover + crossover2 - 1.0) > 1e-9:
        raise ValueError(f"{key}={list(values)} sums to {mutation + crossover + crossover2:g}, not to 1")
    return mutation, crossover, crossover2


def read_genes_of_last_survivors(root: PurePath, policy: str, gene_names: Sequence[str]) -> NDArray[np.float64]:
    """Read the genes of the individuals that survived the last generation of a stored policy.

    Raises ``RequestError`` if the archive at ``root`` has no such policy, or if the policy has different genes or does
    not come from an evolution.

    Returns:
        Genes [n, G], with the best individual first.

    """
    archive = ArchiveStore.open(root)
    card = policy_store.find(archive, policy)
    if list(card.parameters) != list(gene_names):
        raise RequestError(
            f"trainer.start={policy}: its genes are {', '.join(card.parameters) or 'none'}, not {', '.join(gene_names)}"
        )
    population = policy_store.read_table(archive, card, "population")
    last = population.filter(pl.col("goes_on"), pl.col("generation") == pl.col("generation").max())
    return last.sort("place").select(gene_names).to_numpy()


class GenerationResult(NamedTuple):
    """The id of a generation's run, and the results of the run's pairings."""

    run_id: str
    results: Sequence[PairingResult]


class EvolutionTraining:
    """An evolution in progress.

    ``start_genes`` [n, G] are the genes of the first individuals of the initial population; the genes of the others are
    drawn at random. Raises ``RequestError`` if an agent does not exist or lacks one of the genes.
    """

    def __init__(
        self, trainer: GeneticTrainer, context: TrainingContext, start_genes: NDArray[np.float64] | None = None
    ) -> None:
        breeder = trainer.build_breeder()
        self._genes = breeder.gene_names
        self._plan = trainer
        self._context = context
        self._evolution = Evolution(
            breeder,
            context.seed,
            trainer.population,
            trainer.offspring,
            len(trainer.opponents),
            trainer.reevaluates_survivors,
            start_genes,
        )
        self._name = trainer.agent.partition("(")[0].strip()
        self._player = _build_player(trainer, breeder.gene_names, context)
        self._defaults = load_agent(self._name).params
        self._opponents = _build_opponents(trainer, context)
        self._judgements: dict[int, tuple[str, str]] = {}  # by individual: the run that judged it, its label there
        self._run_ids: list[str] = []
        self._populations: list[pl.DataFrame] = []
        self._curve: list[tuple[float, ...]] = []
        self._games = 0  # of all individuals so far
        self._fitness_games = trainer.games_per_opponent * len(trainer.opponents)  # of one individual

    def check(self) -> None:
        """Raise ``RequestError`` if the games of the first generation cannot be played. No game is played here."""
        open_experiment(
            self._build_request(
                [self._build_individual(genes) for genes in self._evolution.begin_generation().genes.tolist()]
            )
        )

    def run(self) -> TrainingOutcome:
        """Run all generations, or as many as are complete when the context's ``stop`` is set.

        Raises ``RequestError`` before any game is played if an agent does not play these rules, or if the run of a
        generation was begun by different code. Raises ``FailureError`` if the disk cannot be written to.
        """
        plan = self._plan
        individuals = plan.population + plan.generations * (
            plan.offspring + plan.reevaluates_survivors * plan.population
        )
        runs = TrainingRuns(self._context, individuals * len(plan.opponents) * plan.games_per_opponent)
        genome = self.evolve(lambda request: _play_generation_unless_stopped(runs, request))
        return TrainingOutcome(
            policy=Policy(GENOME, genome) if genome else None,
            run_ids=tuple(self._run_ids),
            games=self._games,
            played=runs.played,
            seconds=runs.seconds,
            curve=pl.DataFrame(self._curve, schema=self._build_curve_schema(), orient="row"),
            tables={"population": pl.concat(self._populations)} if self._populations else {},
        )

    def evolve(self, get_generation: Callable[[RunRequest], GenerationResult | None]) -> dict[str, float] | None:
        """Run all generations and return the resulting genome, as a mapping from gene to value.

        ``get_generation`` plays or reads the games of a generation, and is the only part of the evolution that may
        build agents. If it returns None, the evolution stops and returns None.
        """
        if not all(self._run_generation_unless_stopped(get_generation) for _ in range(self._plan.generations + 1)):
            return None
        return dict(zip(self._genes, self._evolution.choose_genome(self._plan.answer), strict=True))

    def _run_generation_unless_stopped(self, get_generation: Callable[[RunRequest], GenerationResult | None]) -> bool:
        """Breed a generation and evaluate it by playing games; return False if the training was stopped before the end.

        ``get_generation`` plays or reads the games, and returns None if the training was stopped.
        """
        generation = self._evolution.begin_generation()
        players = [self._build_individual(genes) for genes in generation.genes.tolist()]
        result = get_generation(self._build_request(players))
        if result is None:
            return False
        run_id, results = result
        self._run_ids.append(run_id)
        self._games += self._fitness_games * len(players)
        for number, player in zip(generation.number.tolist(), players, strict=True):
            self._judgements[number] = run_id, player.label
        judged = self._evolution.end_generation_and_rank_all(self._compute_fitness(results))
        self._populations.append(self._build_population_rows(judged, int(generation.number[-1])))
        self._curve.append(self._build_fitness_curve_row())
        return True

    def _build_individual(self, genes: Sequence[float]) -> AgentSpec:
        """Build the specification of the agent that plays with these genes."""
        params = {**self._player.params, **dict(zip(self._genes, genes, strict=True))}
        label = format_label(self._name, params, self._defaults)
        return replace(self._player, label=label, params=params, policy_id=None)

    def _build_request(self, players: Sequence[AgentSpec]) -> RunRequest:
        """Build the request for a run in which each of ``players`` plays against each opponent."""
        plan, context = self._plan, self._context
        opponents = range(len(players), len(players) + len(self._opponents))
        spec = RunSpec(
            rules=context.rules,
            agents=(*players, *self._opponents),
            pairings=tuple(product(range(len(players)), opponents)),
            seed=compute_run_seed(context.seed, self._evolution.generation, plan.games_per_opponent),
            opening_plies=0,
            seats=plan.effective_seats,
        )
        return context.build_request(spec, plan.games_per_opponent)

    def _compute_fitness(self, results: Sequence[PairingResult]) -> NDArray[np.float64]:
        """Compute the fitness of each player against each opponent: [n, F] float64.

        The fitness is the mean reward of the player's games against the opponent.
        """
        rewards = [(result.wins + self._plan.draw_reward * result.draws) / result.games for result in results]
        return np.array(rewards).reshape(-1, len(self._opponents))

    def _build_population_rows(self, judged: Population, newest_individual: int) -> pl.DataFrame:
        """Build the rows of the table ``population`` for one generation: one row per individual, with the best first.

        ``judged`` holds the individuals, and ``newest_individual`` is the number of the one that was made last.
        """
        generation, numbers = self._evolution.generation, judged.number.tolist()
        new = judged.number > newest_individual - self._plan.offspring
        run_ids, labels = zip(*(self._judgements[number] for number in numbers), strict=True)
        return pl.DataFrame(
            {
                "generation": np.full(len(numbers), generation),
                "place": np.arange(len(numbers)),
                "individual": judged.number,
                "origin": [("offspring" if is_new else "survivor") if generation else "initial" for is_new in new],
                "operator": [OPERATORS[operator] for operator in judged.operator],
                "parents": pl.Series(
                    [[parent for parent in pair if parent != NONE] for pair in judged.parents.tolist()],
                    dtype=pl.List(pl.Int64),
                ),
                "goes_on": np.arange(len(numbers)) < self._plan.population,
                **dict(zip(self._genes, judged.genes.T, strict=True)),
                **{
                    f"v {opponent.label}": column
                    for opponent, column in zip(self._opponents, judged.fitness.T, strict=True)
                },
                "games": np.full(len(numbers), self._fitness_games),
                "run_id": run_ids,
                "label": labels,
            }
        )

    def _build_curve_schema(self) -> dict[str, pl.DataType]:
        """Build the schema of the learning curve.

        The columns ``best`` and ``mean`` are about games against the first opponent. For every other opponent, the
        names of the columns end with the opponent's label.
        """
        schema: dict[str, pl.DataType] = {"generation": pl.Int64(), "games": pl.Int64()}
        for i, opponent in enumerate(self._opponents):
            against = f" v {opponent.label}" * (i > 0)
            schema |= {f"best{against}": pl.Float64(), f"mean{against}": pl.Float64()}
        return schema

    def _build_fitness_curve_row(self) -> tuple[float, ...]:
        """Build the row of the learning curve for one generation: the best and the mean fitness of its survivors."""
        fitness = self._evolution.population.fitness
        best_and_mean = np.stack([fitness[0], fitness.mean(axis=0)], axis=1)
        return self._evolution.generation, self._games, *best_and_mean.ravel().tolist()


def _play_generation_unless_stopped(runs: TrainingRuns, request: RunRequest) -> GenerationResult | None:
    """Play the games of a generation and return their results, or None if the training was stopped before the end."""
    outcome = runs.execute_run(request)
    return GenerationResult(outcome.run_id, outcome.results) if outcome else None


def _build_player(plan: GeneticTrainer, genes: Sequence[str], context: TrainingContext) -> AgentSpec:
    """Build the agent whose genes are evolved. Raises ``RequestError`` if the agent lacks one of the genes."""
    player = _build_agent(plan.agent, plan.faithful, context, "trainer.agent")
    for gene in genes:
        if gene not in player.params:
            raise RequestError(f"trainer.agent={plan.agent} has no gene {gene!r}: it has {', '.join(player.params)}")
    return player


def _build_opponents(plan: GeneticTrainer, context: TrainingContext) -> list[AgentSpec]:
    opponents = [_build_agent(opponent, plan.faithful, context, "trainer.opponents") for opponent in plan.opponents]
    labels = [opponent.label for opponent in opponents]
    for label in labels:
        if labels.count(label) > 1:
            raise RequestError(f"trainer.opponents has '{label}' {labels.count(label)} times: once is enough")
    return opponents


def _build_agent(entry: Any, faithful: bool, context: TrainingContext, key: str) -> AgentSpec:
    """Build the agent that ``entry`` describes; ``key`` is the key of the setting, for messages.

    If ``faithful``, the agent's parameter ``faithful`` is true, unless the agent has no such parameter or ``entry``
    sets it.
    """
    agent = context.build_agent(entry, key)
    if not faithful or "faithful" not in agent.params or "faithful" in entry:
        return agent
    if isinstance(entry, dict):
        return context.build_agent({**entry, "faithful": True}, key)
    name, _, parameters = entry.strip().removesuffix(")").partition("(")
    return context.build_agent(f"{name}({parameters}{',' * bool(parameters)}faithful=true)", key)
