"""The trainers of the genetic players: ``conf/trainer/ga5.yaml`` and ``ga2.yaml``, checked, become an evolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.genetic.breeders import Breeder, FiveGenes, TwoGenes
from agents.genetic.evolution import ANSWERS
from agents.parameters import checked_flag, checked_number, checked_probability, checked_whole
from analytics.records import SEATS
from quarto.errors import RequestError, nearest
from runners.training.evolution import Plan, evolve
from runners.training.trainer import Setting, Trained

MOST_INDIVIDUALS, MOST_GENERATIONS, MOST_GAMES = 10_000, 100_000, 1 << 30
EVALUATIONS = ("new", "all")
PHASES = ("early", "stuck", "late")


@dataclass(frozen=True, kw_only=True)
class GeneticTrainer(ABC):
    """What both trainers share. The yamls say what each key means; nothing is checked before ``train``."""

    agent: str
    population: int
    offspring: int
    generations: int
    games: int
    opponents: Sequence[str]
    tournament: int
    evaluate: str
    answer: str
    start: str | None
    seats: str | None
    draw_reward: float
    faithful: bool

    @abstractmethod
    def breeder(self) -> Breeder:
        """The study's way to make individuals. Raises ``ValueError`` for a parameter that makes no sense."""

    @abstractmethod
    def seats_of_the_study(self) -> str:
        """How individuals are seated unless ``seats`` says so: ``swapped`` or ``fixed``."""

    def train(self, setting: Setting) -> Trained:
        """Evolve. Raises ``RequestError`` before anything is played if a parameter makes no sense."""
        try:
            breeder, plan = self.breeder(), self._plan()
        except ValueError as error:
            raise RequestError(f"trainer '{setting.name}': {error}") from error
        return evolve(breeder, plan, setting)

    def _plan(self) -> Plan:
        for key, most in (
            ("population", MOST_INDIVIDUALS),
            ("offspring", MOST_INDIVIDUALS),
            ("generations", MOST_GENERATIONS),
            ("games", MOST_GAMES),
            ("tournament", MOST_INDIVIDUALS),
        ):
            checked_whole(key, getattr(self, key), 1, most)
        if self.population < self.tournament:
            raise ValueError(f"population={self.population} is smaller than tournament={self.tournament}")
        seats = checked_choice("seats", self.seats or self.seats_of_the_study(), SEATS)
        if seats == "swapped" and self.games % 2:
            raise ValueError(f"games={self.games} is odd: half of them are played in each seat")
        return Plan(
            agent=self.agent,
            size=self.population,
            offspring=self.offspring,
            generations=self.generations,
            games=self.games,
            opponents=checked_opponents(self.opponents),
            seats=seats,
            draw_reward=checked_probability("draw_reward", self.draw_reward),
            again=checked_choice("evaluate", self.evaluate, EVALUATIONS) == "all",
            answer=checked_choice("answer", self.answer, ANSWERS),
            faithful=checked_flag("faithful", self.faithful),
        )


@dataclass(frozen=True, kw_only=True)
class Ga5Trainer(GeneticTrainer):
    """Study A's evolution of five genes (``lorenzobellino/quarto-player``)."""

    reach: float
    scale: float

    def breeder(self) -> Breeder:
        reach, scale = checked_number("reach", self.reach), checked_number("scale", self.scale)
        if reach < 0 or scale < 0:
            raise ValueError(f"reach={reach}, scale={scale}: neither may be below 0")
        return FiveGenes(self.tournament, reach, scale, writes_into_parents=self.faithful)

    def seats_of_the_study(self) -> str:
        return "swapped"


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
            self.faithful,
        )

    def seats_of_the_study(self) -> str:
        return "fixed" if self.faithful else "swapped"


def checked_choice(key: str, value: str, valid: Sequence[str]) -> str:
    """``value``. Raises ``ValueError`` unless it is one of ``valid``."""
    if value not in valid:
        raise ValueError(f"{key}={value} does not exist{nearest(str(value), valid)}")
    return value


def checked_opponents(opponents: Sequence[str]) -> tuple[str, ...]:
    """``opponents``. Raises ``ValueError`` unless they are texts, each one once, at least one."""
    if isinstance(opponents, str) or not all(isinstance(each, str) for each in opponents):
        raise ValueError(f"opponents={opponents} is not a list of agents, [random, …]")
    if not opponents:
        raise ValueError("opponents is empty: individuals are judged by games against at least one")
    for opponent in opponents:
        if list(opponents).count(opponent) > 1:
            raise ValueError(f"opponents has {opponent!r} more than once")
    return tuple(opponents)


def checked_operators(key: str, values: Sequence[float]) -> tuple[float, float, float]:
    """Three probabilities. Raises ``ValueError`` unless there are three and their sum is 1."""
    if isinstance(values, str | int | float) or len(values) != 3:
        raise ValueError(f"{key}={values} is not three probabilities, [mutation, crossover, crossover2]")
    mutation, crossover, crossover2 = (checked_probability(key, value) for value in values)
    if abs(mutation + crossover + crossover2 - 1.0) > 1e-9:
        raise ValueError(f"{key}={list(values)} sums to {mutation + crossover + crossover2:g}, not to 1")
    return mutation, crossover, crossover2
