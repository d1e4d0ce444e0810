"""The trainers of the genetic players: they check ``conf/trainer/ga5.yaml`` and ``ga2.yaml`` and start an evolution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from agents.learning.evolution import ANSWERS, Breeder, FiveGenes, TwoGenes
from agents.parameters import Probability, check_fields, checked_probability
from analytics.policies import policy_store
from analytics.store.archive import Archive
from analytics.store.records import SEATS
from quarto.errors import RequestError
from runners.arena.config import rounding_notes
from runners.training.evolution import EvolutionPlan, EvolutionTraining
from runners.training.trainer import Trained, Trainer, TrainingContext

IndividualCount = Annotated[int, Meta(ge=1, le=10_000)]
EVALUATIONS = ("new", "all")
PHASES = ("early", "stuck", "late")


@dataclass(frozen=True, kw_only=True)
class GeneticTrainer(Trainer):
    """The common part of both trainers; the yamls explain each key.

    Raises ``RequestError`` for an invalid value.
    """

    agent: str
    population: IndividualCount
    offspring: IndividualCount
    generations: Annotated[int, Meta(ge=1, le=100_000)]
    games: Annotated[int, Meta(ge=1, le=1 << 30)]
    opponents: Sequence[Any]
    tournament: IndividualCount
    evaluate: Annotated[str, EVALUATIONS]
    answer: Annotated[str, ANSWERS]
    start: str | None
    seats: Annotated[str | None, SEATS]
    draw_reward: Probability
    faithful: bool

    def __post_init__(self) -> None:
        try:
            check_fields(self)
            self.breeder()
            self._plan()
        except ValueError as error:
            raise RequestError(f"trainer.{error}") from error

    @abstractmethod
    def breeder(self) -> Breeder:
        """The study's way to make individuals. Raises ``ValueError`` for an invalid parameter."""

    def seats_of_the_study(self) -> str:
        """The seats of individuals if ``seats`` is null: ``swapped`` or ``fixed``."""
        return "swapped"

    @property
    def notes(self) -> tuple[str, ...]:
        return rounding_notes("trainer.games", self.games, self._plan().games)

    def check(self, context: TrainingContext) -> None:
        self.training(context).check()

    def train(self, context: TrainingContext) -> Trained:
        return self.training(context).run()

    def training(self, context: TrainingContext) -> EvolutionTraining:
        """The evolution, which has not begun. Raises ``RequestError`` for agents or a start that do not exist."""
        start = None if self.start is None else stored_genes(context.storage.root, self.start, self.breeder().genes)
        return EvolutionTraining(self.breeder(), self._plan(), context, start)

    def _plan(self) -> EvolutionPlan:
        agent, opponents, start = self.agent, self.opponents, self.start
        if self.population < self.tournament:
            raise ValueError(f"population={self.population} is smaller than trainer.tournament={self.tournament}")
        if not isinstance(agent, str):
            raise ValueError(f"agent={agent!r} is not an agent's label, NAME or NAME(parameter=value,…)")
        if not isinstance(start, str | None):
            raise ValueError(f"start={start!r} is not a policy's name or id; put it in quotes: start='\"…\"'")
        if isinstance(opponents, str) or not isinstance(opponents, Sequence) or not opponents:
            raise ValueError(f"opponents={opponents!r} is not a list of agents, [random, …]")
        seats = self.seats or self.seats_of_the_study()
        return EvolutionPlan(
            agent=agent,
            size=self.population,
            offspring=self.offspring,
            generations=self.generations,
            games=self.games + (self.games % 2 if seats == "swapped" else 0),
            opponents=tuple(opponents),
            seats=seats,
            draw_reward=self.draw_reward,
            again=self.evaluate == "all",
            answer=self.answer,
            faithful=self.faithful,
        )


@dataclass(frozen=True, kw_only=True)
class Ga5Trainer(GeneticTrainer):
    """Study A's evolution of five genes (``lorenzobellino/quarto-player``)."""

    extent: ClassVar[str] = "generations"

    reach: Annotated[float, Meta(ge=0)]
    scale: Annotated[float, Meta(ge=0)]

    def breeder(self) -> Breeder:
        return FiveGenes(self.tournament, float(self.reach), float(self.scale), writes_into_parents=self.faithful)


@dataclass(frozen=True, kw_only=True)
class Ga2Trainer(GeneticTrainer):
    """Study B's evolution of two genes (``quarto_ci_2022_2023``)."""

    operators: Mapping[str, Sequence[float]]
    margin: float
    step: Probability
    shift: Probability
    decimals: Annotated[int, Meta(ge=0, le=15)]

    def breeder(self) -> Breeder:
        if not isinstance(self.operators, Mapping) or sorted(self.operators) != sorted(PHASES):
            raise ValueError(f"operators={self.operators} is not {{{', '.join(f'{phase}: […]' for phase in PHASES)}}}")
        early, stuck, late = (checked_operators(f"operators.{phase}", self.operators[phase]) for phase in PHASES)
        return TwoGenes(
            self.generations,
            self.tournament,
            early,
            stuck,
            late,
            self.margin,
            self.step,
            self.shift,
            self.decimals,
            self.faithful,
        )

    def seats_of_the_study(self) -> str:
        return "fixed" if self.faithful else "swapped"


def checked_operators(key: str, values: Any) -> tuple[float, float, float]:
    """Three probabilities. Raises ``ValueError`` unless there are three and their sum is 1."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 3:
        raise ValueError(f"{key}={values} is not three probabilities, [mutation, crossover, crossover2]")
    mutation, crossover, crossover2 = (checked_probability(key, value) for value in values)
    if abs(mutation + crossover + crossover2 - 1.0) > 1e-9:
        raise ValueError(f"{key}={list(values)} sums to {mutation + crossover + crossover2:g}, not to 1")
    return mutation, crossover, crossover2


def stored_genes(root: PurePath, policy: str, genes: Sequence[str]) -> NDArray[np.float64]:
    """[n, G] the genes of the individuals that went on from the last generation of a stored policy, best first.

    Raises ``RequestError`` if the archive at ``root`` has no such policy, or the policy has other genes or none of an
    evolution.
    """
    archive = Archive.open(root)
    card = policy_store.find(archive, policy)
    if list(card.parameters) != list(genes):
        raise RequestError(
            f"trainer.start={policy}: its genes are {', '.join(card.parameters) or 'none'}, not {', '.join(genes)}"
        )
    population = policy_store.read_table(archive, card, "population")
    last = population.filter(pl.col("goes_on"), pl.col("generation") == pl.col("generation").max())
    return last.sort("place").select(genes).to_numpy()
