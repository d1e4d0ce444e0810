"""The datasets of the offline benchmark: their players, their opponents, and the places of their parts in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from quarto.errors import RequestError, nearest
from quarto.rules import CLASSIC
from runners.arena.config import load_agent
from runners.arena.spec import AgentSpec, RunSpec

NAMESPACE = "quarto"  # of the datasets' ids, and the folder that has them
PARQUET = "parquet"  # the folder with the same games as archives
OPENING_PLIES = 2  # imposed on every game, in the datasets and where what was learned is judged
RANDOM, EXPERT = "random", "oracle"
MEDIUM = ("semi_random", "alpha_beta", "mcts(iterations=1000)")
EVERYBODY = (RANDOM, *MEDIUM, EXPERT)
VALIDATION_SEED = 1 << 30  # is added to the seed of a validation part, so that it has other openings
ONE_IN = 10  # games of a validation part: so many for one of the training part, rounded up


class BenchmarkDataset(NamedTuple):
    """One dataset: the players whose turns it has, and their opponents."""

    name: str
    players: Sequence[str]  # labels
    opponents: Sequence[str]  # each player meets each of them, itself too if it is one
    about: str
    seconds: float  # of processor time for 1,000 games, measured

    @property
    def pairings(self) -> int:
        return len(self.players) * len(self.opponents)


DATASETS = (
    BenchmarkDataset("random-v0", (RANDOM,), (RANDOM,), "a random player against itself", 0.1),
    BenchmarkDataset("medium-v0", MEDIUM, MEDIUM, "every pairing of three players of middling strength", 0.5),
    BenchmarkDataset("expert-v0", (EXPERT,), EVERYBODY, "perfect play against weaker players and itself", 1.3),
    BenchmarkDataset("mixed-v0", EVERYBODY, EVERYBODY, "every pairing of all players, from random to perfect", 1.0),
)


class DatasetPart(NamedTuple):
    """The training or the validation part of a dataset, of one size and seed."""

    dataset: BenchmarkDataset
    validation: bool
    games: int  # that were asked for
    seed: int

    @property
    def name(self) -> str:
        """Its name in both forms: ``medium-v0``, ``medium-validation-v0``."""
        stem, _, version = self.dataset.name.rpartition("-")
        return f"{stem}-validation-{version}" if self.validation else self.dataset.name

    @property
    def dataset_id(self) -> str:
        """Minari's id, which is also its path below a folder of datasets."""
        return f"{NAMESPACE}/{self.name}"

    @property
    def games_a_pairing(self) -> int:
        """Games of each pairing: as many as were asked for together, or a few more, since pairs are whole."""
        games = -(-self.games // ONE_IN) if self.validation else self.games
        return 2 * -(-games // (2 * self.dataset.pairings))

    @property
    def all_games(self) -> int:
        return self.games_a_pairing * self.dataset.pairings

    def minari(self, folder: Path) -> Path:
        return folder / NAMESPACE / self.name

    def parquet(self, folder: Path) -> Path:
        return folder / PARQUET / self.name

    def spec(self) -> RunSpec:
        """The run that the games are: the player is the first agent of its pairing, in either seat."""
        labels = [*dict.fromkeys((*self.dataset.players, *self.dataset.opponents))]
        pairings = product(map(labels.index, self.dataset.players), map(labels.index, self.dataset.opponents))
        seed = self.seed + (VALIDATION_SEED if self.validation else 0)
        return RunSpec(CLASSIC, tuple(map(player, labels)), tuple(pairings), seed, OPENING_PLIES)


def player(label: str) -> AgentSpec:
    """An agent that plays without a policy, by its label."""
    from runners.arena.config import agent_named

    return agent_named(label) if "(" in label else load_agent(label)


def chosen(names: Sequence[str]) -> list[BenchmarkDataset]:
    """The datasets of these names, with or without the namespace; all if there is none.

    Raises ``RequestError`` for a name that is none.
    """
    known = {each.name: each for each in DATASETS}
    wanted = [name.removeprefix(f"{NAMESPACE}/") for name in names]
    for name in wanted:
        if name not in known:
            raise RequestError(f"{name!r} is not a dataset of the benchmark{nearest(name, known)}")
    return [each for each in DATASETS if not wanted or each.name in wanted]


def parts_of(datasets: Sequence[BenchmarkDataset], games: int, seed: int) -> list[DatasetPart]:
    """Both parts of each dataset."""
    return [DatasetPart(dataset, validation, games, seed) for dataset in datasets for validation in (False, True)]
