"""`qarena bench --turn`: the time of an agent's turn by the number of pieces on the board, as study D measured it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf

from agents.lift import lift
from agents.random import Random
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.position import Position, from_plies
from quarto.rng import Streams
from quarto.rules import CELLS, NONE, Rules
from runners.arena.engine import MAX_PAIRS, Engine, Order
from runners.arena.playing import Progress
from runners.arena.schemas import MAX_SEED
from runners.arena.spec import AgentSpec
from runners.speed.stopwatch import turn_nanoseconds

MOST_POSITIONS = 10_000
MOST_RANDOM_GAMES = 1 << 22  # under some rules hardly any random game gets late
# Rows are measured in turns, each up to these shares of its positions: a disturbance of the machine affects all rows
# alike, and a measurement that is stopped early has some times of each row.
SHARES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
PATIENCE = 1e8  # nanoseconds between two looks at ``stop``
QUARTILES = "linear interpolation between order statistics (Hyndman and Fan's type 7, the default of R and NumPy)"


@dataclass(frozen=True)
class TurnTimes:
    """The times of an agent's turns in microseconds, by pieces on the board; a row without samples is missing."""

    agent: AgentSpec
    rules: Rules
    seed: int
    samples: Mapping[int, NDArray[np.float64]]  # each [positions]

    def rows(self) -> dict[int, dict[str, float]]:
        """The six figures of each row."""
        return {pieces: _summary(times) for pieces, times in self.samples.items()}

    def published(self) -> dict[str, Any]:
        """The figures that a study published of this player under these rules; empty if there are none."""
        with (files("runners.speed") / "published_turns.yaml").open(encoding="utf-8") as file:
            known: dict[str, Any] = OmegaConf.to_container(OmegaConf.load(file))  # type: ignore[assignment]
        return known if (self.agent.label, self.rules.name) == (known["agent"], known["rules"]) else {}

    def figures(self) -> dict[str, Any]:
        """All figures as JSON values."""
        by_pieces = {
            f"{pieces}": {"positions": len(self.samples[pieces]), **row} for pieces, row in self.rows().items()
        }
        return {
            "agent": self.agent.label,
            "rules": self.rules.name,
            "seed": self.seed,
            "unit": "microseconds",
            "quartiles": QUARTILES,
            "by_pieces_on_the_board": by_pieces,
            "published": self.published(),
        }


def _summary(times: NDArray[np.float64]) -> dict[str, float]:
    least, lower, median, upper, most = np.quantile(times, (0.0, 0.25, 0.5, 0.75, 1.0), method="linear").tolist()
    mean = float(times.mean())
    return {"min": least, "lower_quartile": lower, "mean": mean, "median": median, "upper_quartile": upper, "max": most}


def turn_times(
    agent: AgentSpec, rules: Rules, positions: int, seed: int, stop: threading.Event, progress: Progress | None = None
) -> TurnTimes:
    """Time ``agent`` in ``positions`` positions of each number of pieces on the board, 0 to 15; ``stop`` ends it early.

    The positions are those of random games that go on, with a piece in hand where the opponent chooses it. Raises
    ``RequestError`` for an agent that does not play these rules, or a number that is out of range.
    """
    for name, value, least, most in (("positions", positions, 1, MOST_POSITIONS), ("seed", seed, 0, MAX_SEED)):
        if not least <= value <= most:
            raise RequestError(f"--{name} {value} is out of range: it must be from {least} to {most}")
    player = lift(agent.build(), rules, agent.label)
    reached = random_positions(rules, positions, seed)
    if progress:
        progress.start(sum(map(len, reached.values())))
    samples: dict[int, list[float]] = {pieces: [] for pieces in reached}
    batches = {pieces: Batch.of(row) for pieces, row in reached.items()}
    for pieces, end in _shares({pieces: len(row) for pieces, row in reached.items()}):
        taken = samples[pieces]
        while len(taken) < end and not stop.is_set():
            fitting = int(PATIENCE / max(taken[-1], 1.0)) if taken else 1
            share = slice(len(taken), min(len(taken) + max(fitting, 1), end))
            seeds = np.arange(share.start, share.stop, dtype=np.uint64) + np.uint64(seed + pieces * MOST_POSITIONS)
            words = Streams(Streams(seeds).draw(0))
            taken += turn_nanoseconds(player, batches[pieces].part(share.start, share.stop), words).tolist()
            if progress:
                progress.advance(share.stop - share.start)
    return TurnTimes(agent, rules, seed, {pieces: np.array(row) / 1000 for pieces, row in samples.items() if row})


def _shares(counts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """The rows in the order of measuring, each with the number of positions up to which it is measured."""
    for share in SHARES:
        for pieces, count in counts.items():
            yield pieces, max(1, int(count * share))


def random_positions(rules: Rules, count: int, seed: int) -> dict[int, list[Position]]:
    """By pieces on the board, the first ``count`` positions in which a placement was made in random games.

    Fewer, or none, where random games hardly ever get so late.
    """
    engine = Engine(rules, [Random(), Random()], ["one", "two"], [(0, 1)], seed, run=seed)
    reached: dict[int, list[Position]] = {pieces: [] for pieces in range(CELLS)}
    for first_pair in range(0, MOST_RANDOM_GAMES // 2, MAX_PAIRS):
        games = engine.play_block(Order(0, first_pair, MAX_PAIRS)).block.games
        for pieces, row in reached.items():
            for slot in np.flatnonzero(games.plies > pieces)[: count - len(row)]:
                plies = list(zip(games.pieces[:, slot].tolist(), games.cells[:, slot].tolist(), strict=True))
                row.append(from_plies(plies[:pieces], NONE if rules.mover_chooses else plies[pieces][0]))
        if all(len(row) == count for row in reached.values()):
            break
    return {pieces: row for pieces, row in reached.items() if row}
