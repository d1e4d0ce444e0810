"""The trainers of the genetic players: they check ``conf/trainer/ga5.yaml`` and ``ga2.yaml`` and start an evolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.genetic.breeders import Breeder, FiveGenes, TwoGenes
from agents.genetic.evolution import ANSWERS
from agents.parameters import checked_flag, checked_number, checked_probability, checked_whole
from analytics.policies import policy_store
from analytics.store.archive import Archive
from analytics.store.records import SEATS
from quarto.errors import RequestError
from runners.arena.schemas import check_choice, rounding_notes
from runners.training.evolution import EvolutionPlan, EvolutionTraining
from runners.training.trainer import Trained, TrainingContext

MOST_INDIVIDUALS, MOST_GENERATIONS, MOST_GAMES = 10_000, 100_000, 1 << 30
EVALUATIONS = ("new", "all")
PHASES = ("early", "stuck", "late")


@dataclass(frozen=True, kw_only=True)
class GeneticTrainer(ABC):
    """The common part of both trainers; the yamls explain each key.

    Raises ``RequestError`` for an invalid value.
    """

    agent: str
    population: int
    offspring: int
    generations: int
    games: int
    opponents: Sequence[Any]
    tournament: int
    evaluate: str
    answer: str
    start: str | None
    seats: str | None
    draw_reward: float
    faithful: bool

    def __post_init__(self) -> None:
        try:
            self._check_sizes()
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
        """Remarks for the user on how the parameters were understood."""
        return rounding_notes("trainer.games", self.games, self._plan().games)

    def check(self, context: TrainingContext) -> None:
        """Raises ``RequestError`` if ``train`` would."""
        self._training(context).check()

    def train(self, context: TrainingContext) -> Trained:
        """Evolve, or continue an evolution. Raises ``RequestError`` before playing if an agent is invalid."""
        return self._training(context).run()

    def _training(self, context: TrainingContext) -> EvolutionTraining:
        start = None if self.start is None else stored_genes(context.storage.root, self.start, self.breeder().genes)
        return EvolutionTraining(self.breeder(), self._plan(), context, start)

    def _check_sizes(self) -> None:
        for key, most in (
            ("population", MOST_INDIVIDUALS),
            ("offspring", MOST_INDIVIDUALS),
            ("generations", MOST_GENERATIONS),
            ("games", MOST_GAMES),
            ("tournament", MOST_INDIVIDUALS),
        ):
            checked_whole(key, getattr(self, key), 1, most)
        if self.population < self.tournament:
            raise ValueError(f"population={self.population} is smaller than trainer.tournament={self.tournament}")

    def _plan(self) -> EvolutionPlan:
        agent, opponents, start = self.agent, self.opponents, self.start
        if not isinstance(agent, str):
            raise ValueError(f"agent={agent!r} is not an agent's label, NAME or NAME(parameter=value,…)")
        if not isinstance(start, str | None):
            raise ValueError(f"start={start!r} is not a policy's name or id; put it in quotes: start='\"…\"'")
        if isinstance(opponents, str) or not isinstance(opponents, Sequence) or not opponents:
            raise ValueError(f"opponents={opponents!r} is not a list of agents, [random, …]")
        seats = self.seats or self.seats_of_the_study()
        check_choice("trainer.seats", seats, SEATS)
        check_choice("trainer.evaluate", self.evaluate, EVALUATIONS)
        check_choice("trainer.answer", self.answer, ANSWERS)
        return EvolutionPlan(
            agent=agent,
            size=self.population,
            offspring=self.offspring,
            generations=self.generations,
            games=self.games + (self.games % 2 if seats == "swapped" else 0),
            opponents=tuple(opponents),
            seats=seats,
            draw_reward=checked_probability("draw_reward", self.draw_reward),
            again=self.evaluate == "all",
            answer=self.answer,
            faithful=checked_flag("faithful", self.faithful),
        )


@dataclass(frozen=True, kw_only=True)
class Ga5Trainer(GeneticTrainer):
    """Study A's evolution of five genes (``lorenzobellino/quarto-player``)."""

    extent: ClassVar[str] = "generations"  # more of them go on from where fewer ended

    reach: float
    scale: float

    def breeder(self) -> Breeder:
        return FiveGenes(
            self.tournament,
            checked_spread("reach", self.reach),
            checked_spread("scale", self.scale),
            writes_into_parents=checked_flag("faithful", self.faithful),
        )


@dataclass(frozen=True, kw_only=True)
class Ga2Trainer(GeneticTrainer):
    """Study B's evolution of two genes (``quarto_ci_2022_2023``)."""

    operators: Mapping[str, Sequence[float]]
    margin: float
    step: float
    shift: float
    decimals: int

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
            checked_number("margin", self.margin),
            checked_probability("step", self.step),
            checked_probability("shift", self.shift),
            checked_whole("decimals", self.decimals, 0, 15),
            checked_flag("faithful", self.faithful),
        )

    def seats_of_the_study(self) -> str:
        return "fixed" if self.faithful else "swapped"


def checked_spread(key: str, value: float) -> float:
    """``value``. Raises ``ValueError`` unless it is a finite number of at least 0."""
    if checked_number(key, value) < 0:
        raise ValueError(f"{key}={value} is below 0")
    return float(value)


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
