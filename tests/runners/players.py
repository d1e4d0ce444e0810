"""Players of the tests. It imports little, because children of agents with a process of their own import it too."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import Evaluation, KernelAgent, encode_turn, turn
from quarto.position import PackedPosition
from quarto.rng import Streams
from quarto.views import BatchView, Position


class OneByOne:
    """``dumb`` for single positions: the first empty cell, the first unused piece."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return position.free[0], (*position.available, -1)[0]


class Batched:
    """``dumb`` for batches."""

    def play(self, batch: BatchView, rng: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        gifts = np.where(batch.available.any(axis=1), batch.available.argmax(axis=1), -1)
        return batch.free.argmax(axis=1), gifts


class Dice:
    """``random`` for single positions, from generators of its own stream."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return int(rng.choice(position.free)), int(rng.choice(position.available or [-1]))


class Misbehaving(OneByOne):
    """Does ``what`` (``raise`` or ``cheat``) as soon as ``plies`` are on the board."""

    def __init__(self, what: str, plies: int = 2) -> None:
        self.what = what
        self.plies = plies

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        if 16 - len(position.free) < self.plies:
            return super().choose(position, rng)
        if self.what == "raise":
            raise RuntimeError("lost my nerve")
        cell = next((cell for cell in range(16) if cell not in position.free), -1)
        return cell, (*position.available, -1)[0]


class Cheat(Misbehaving):
    """Answers with illegal turns."""

    def __init__(self) -> None:
        super().__init__("cheat")


class Hot(Misbehaving):
    """Raises."""

    def __init__(self) -> None:
        super().__init__("raise", 6)


class Evaluator(Dice):
    """Reports an evaluation of each turn, in one of three ways."""

    def choose(self, position: Position, rng: np.random.Generator) -> Any:
        evaluations = ((), (Evaluation(0.25, 7),), (Evaluation(visits=3),))
        return *super().choose(position, rng), *evaluations[len(position.free) % 3]


class Wild(OneByOne):
    """Does ``what`` in turns whose seed is 0, and plays like ``dumb`` otherwise."""

    def __init__(self, what: str = "") -> None:
        self.what = what
        if what == "unmakeable":
            os._exit(9)

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        if int(rng.bit_generator.state["state"]["key"][0]) == 0:  # the seed of the turn
            self._misbehave()
        return super().choose(position, rng)

    def _misbehave(self) -> None:
        match self.what:
            case "raise":
                raise ValueError("for once")
            case "exit":
                os._exit(0)
            case "segfault":
                ctypes.string_at(0)
            case "close":
                os.closerange(0, 1000)
            case "hang":
                while True:
                    pass
            case "memory":
                np.zeros(1 << 28)  # 2 GB
            case "garbage":
                for descriptor in range(3, 1000):
                    try:
                        os.write(descriptor, b"?" * 1000)
                    except OSError:
                        continue


@turn
def greedy_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    return encode_turn(0, 0)


class Greedy(KernelAgent):
    """Gives the first piece and takes the first cell, whether or not they are there."""

    kernel = greedy_turn


CUP = "poisoned cup"
LAST_TURN = 300


class Troubled(Dice):
    """``dice``; at its 300th turn in a process it empties the poisoned cup in the current folder, if it is full.

    Then it kills its process.
    """

    def __init__(self) -> None:
        self._turns = 0

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        self._turns += 1
        if self._turns == LAST_TURN and Path(CUP).exists():
            Path(CUP).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().choose(position, rng)
