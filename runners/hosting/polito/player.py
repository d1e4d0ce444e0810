"""Players of the ``quarto`` package over batches: each thread of a run has a child process with its live games."""

from __future__ import annotations

import logging
import mmap
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.base.agent import LateError, SomeFailedError
from agents.base.player import LiftedPlayer
from quarto.batch import Batch, Thoughts, Turns
from quarto.errors import Failed, RemoteError, RequestError
from quarto.rng import Streams
from runners.hosting.child import NO_ANSWER, Child, ChildDiedError, end_all
from runners.hosting.polito.program import ANSWER, ASKED_ABOUT, BEGUN, QUESTION, SHARED_WORDS, SLOT

logger = logging.getLogger(__name__)

SERVED = "runners.hosting.polito.program:serve"
# What an interpreter runs: our modules come before all others while they are imported, and are gone from its path then.
BOOT = """
import sys
root = sys.argv.pop(1)
sys.path = [root] + [path for path in sys.path if path]
import runners.hosting.polito.program
from runners.hosting.child_program import main
sys.path.remove(root)
main()
"""
ROOT = str(Path(__file__).parents[2])
OLDEST = (3, 7)
ABOUT = "import sys; sys.stdout.write('Python %d.%d.%d' % sys.version_info[:3])"  # in words of any Python
QUESTION_TYPE = np.dtype([*QUESTION.items()])
LEAST_GAME_BYTES = 1 << 20  # so that at most 256 games are live in a process, whose turns take some milliseconds
ALONE = 1 << 40  # words: so many that no other game is played at the same time
GRACE = 1.0  # seconds in which a turn may end by itself after it was interrupted; then its process is ended
AGAIN = 0.1  # seconds between interruptions: a player may have caught one


class PlayerFacts(msgspec.Struct):
    """What the child says of the player that it has made."""

    game_bytes: int  # of memory that a live game takes
    files: list[str]  # of the modules that are its own
    printed: str


@dataclass
class GameFailed(Failed):
    """An event in a game in place of a turn."""

    index: int  # of the question
    late: bool


class Remarks(msgspec.Struct):
    """The messages that came with answers."""

    failed: list[GameFailed]
    asked_again: int  # illegal answers after which the player was asked again
    given_up: str  # one after which it was not, if there was any
    printed: str


class PolitoChild(Child):
    """A child with live games of the player that ``setup`` describes, see ``agent.Polito``."""

    def __init__(self, setup: Mapping[str, Any], trial: bool = False) -> None:
        """Make it, and play a trial game if asked to. Raises ``RequestError`` if the player cannot be made."""
        python = setup["python"]
        try:
            with tempfile.TemporaryFile() as file:
                file.truncate(8 * SHARED_WORDS)
                self._shared = memoryview(mmap.mmap(file.fileno(), 8 * SHARED_WORDS)).cast("q")
                super().__init__(
                    SERVED,
                    {**setup, "shared_file": file.fileno(), "trial": trial},
                    megabytes=setup["megabytes"],
                    # Its folder alone comes before what is installed, and stays as it is.
                    program=[python or sys.executable, "-B", "-c", BOOT, ROOT],
                    # The order of sets is part of how a player plays. Another interpreter has other libraries.
                    variables={"PYTHONHASHSEED": "0"} | ({} if python is None else {"PYTHONPATH": ""}),
                    shared=[file.fileno()],
                    is_quiet=True,
                )
            self.facts, _ = self.receive(PlayerFacts)
        except (ChildDiedError, OSError) as error:
            remedy = _interpreter(python) if python else ""
            raise RequestError(
                f"player={setup['player']} of {setup['folder']} cannot be made: {error}{remedy}"
            ) from error
        except RemoteError as error:
            self.end()
            raise error.for_user(f"player={setup['player']}") from error
        self._seconds: float | None = setup["turn_seconds"]

    @property
    def asked_about(self) -> int:
        """The index of the question that it was asked last."""
        return self._shared[ASKED_ABOUT]

    def answer(self, questions: NDArray[np.void]) -> tuple[NDArray[np.int8], Remarks]:
        """The answers, cells then gifts. Raises ``ChildDiedError``, and ``LateError`` if it had to be ended."""
        self._shared[ASKED_ABOUT] = self._shared[BEGUN] = 0
        self.send(None, questions.tobytes())
        if self._seconds is not None:
            self._wait(self._seconds)
        remarks, answers = self.receive(Remarks)
        if len(answers) != 2 * len(questions):
            raise ChildDiedError(NO_ANSWER)
        return np.frombuffer(answers, ANSWER), remarks

    def _wait(self, seconds: float) -> None:
        """Wait for an answer, and interrupt each turn that takes longer than ``seconds``."""
        wait = seconds
        while not self.has_answer(wait):
            begun = self._shared[BEGUN]
            late = (time.monotonic_ns() - begun) / 1e9 - seconds
            if not begun:
                wait = seconds
            elif late < 0:
                wait = -late
            elif late < GRACE:
                self.signal(signal.SIGUSR1)
                wait = AGAIN
            else:
                raise LateError


class Reserve:
    """The common part of the players of one agent: how to start a child, one that is ready, and counts."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        """Raises ``RequestError`` if the player cannot be made."""
        self.setup = setup
        self.asked_again = 0
        self.given_up = ""
        self.label: str = setup["player"]
        first = PolitoChild(setup, trial=True)
        self.facts = first.facts
        self._ready = [first]
        self._lock = threading.Lock()
        weakref.finalize(self, end_all, self._ready)
        self.printed = first.facts.printed
        self._logged = 0  # characters of that

    def child(self) -> PolitoChild:
        """A child in which no game is live. Raises ``RequestError``."""
        with self._lock:
            if self._ready:
                return self._ready.pop()
        return PolitoChild(self.setup)

    def note(self, remarks: Remarks) -> None:
        """Count illegal answers, and log what was printed."""
        with self._lock:
            self.asked_again += remarks.asked_again
            self.given_up = remarks.given_up or self.given_up
            self.printed += remarks.printed
            printed, self._logged = self.printed[self._logged :], len(self.printed)
        if printed:
            logger.info("agent '%s' printed:\n%s", self.label, printed)


class PolitoPlayer(LiftedPlayer):
    """A player in a process of its own, with a live game in each slot.

    A game that fails does not end the others. If the process dies or has to be ended, another one replaces it.
    The other games go on there from their positions, with new players.
    """

    copy_obstacle = "it plays in a process of its own"

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        self._child: PolitoChild | None = None
        # As many games at once as the engine has memory for, one if the player goes from game to game.
        game_bytes = max(LEAST_GAME_BYTES, reserve.facts.game_bytes)
        self.game_words = ALONE if reserve.setup["reuse"] else game_bytes // 8

    def fork(self) -> PolitoPlayer:
        return PolitoPlayer(self._reserve)

    def remarks(self) -> list[str]:
        """Lines on illegal answers, of all threads."""
        count, given_up = self._reserve.asked_again, self._reserve.given_up
        asked = [f"gave {count:,} illegal answers and was asked again, as its package does"] if count else []
        most = self._reserve.setup["most_asks"]
        return asked + ([f"was not asked again after {most:,} such answers, such as {given_up}"] if given_up else [])

    @property
    def printed(self) -> str:
        """What it has printed, in all threads."""
        return self._reserve.printed

    def start(self, slots: range) -> None:  # noqa: ARG002  (any: each is new)
        """Begin games: none of those before is live any more."""
        self._begin(b"")

    def restart(self, slots: NDArray[np.integer]) -> None:
        if len(slots):
            self._begin(slots.astype(SLOT).tobytes())

    def _begin(self, slots: bytes) -> None:
        self._child = self._child or self._new_child()
        try:
            self._child.send("begin", slots)
        except ChildDiedError:  # of what a player left behind, such as a thread: another one begins the games
            self._replace()

    def _new_child(self) -> PolitoChild:
        child = self._reserve.child()
        self._finalizer = weakref.finalize(self, child.end)
        return child

    def _replace(self) -> None:
        self._finalizer()
        self._child = None
        self._child = self._new_child()

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        thoughts: Thoughts | None = None,  # noqa: ARG002  (it has none)
    ) -> Turns:
        """The turns in a batch of positions; ``slots`` [B] says whose games they are, of those that were started.

        Without ``slots`` each position is a game of its own that has just begun. Raises ``SomeFailedError``.
        """
        if slots is None:
            slots = np.arange(len(batch.lanes), dtype=np.uint32)
            self.start(range(len(slots)))
        questions = np.empty(len(slots), QUESTION_TYPE)
        questions["slot"], questions["seed"] = slots, rng.seeds
        for name in ("lanes", "occupied", "hand"):
            questions[name] = getattr(batch, name)
        turns, failures = Turns.empty(len(slots)), dict[int, BaseException]()
        left = np.arange(len(slots))  # whose answers are missing
        while len(left):
            left = self._answered(questions, left, turns, failures)
        if failures:
            raise SomeFailedError(turns, failures)
        return turns

    def _answered(
        self, questions: NDArray[np.void], left: NDArray[np.intp], turns: Turns, failures: dict[int, BaseException]
    ) -> NDArray[np.intp]:
        """Fill in answers or failures; the questions that are to be asked again, since the process is another."""
        child = self._child = self._child or self._new_child()
        try:
            answers, remarks = child.answer(questions[left])
        except (ChildDiedError, LateError) as error:
            lost = child.asked_about if 0 <= child.asked_about < len(left) else 0
            failures[int(left[lost])] = self._late() if isinstance(error, LateError) else error
            self._replace()
            return np.delete(left, lost)
        turns.cells[left], turns.gifts[left] = answers[: len(left)], answers[len(left) :]
        for failed in remarks.failed:
            failures[int(left[failed.index])] = self._late() if failed.late else RemoteError(failed)
        self._reserve.note(remarks)
        return left[:0]

    def _late(self) -> LateError:
        return LateError(f"its turn took longer than turn_seconds={self._reserve.setup['turn_seconds']:g}")


def _interpreter(python: str) -> str:
    """The end of a message if an interpreter is too old or none, else nothing."""
    said = b""
    with suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run([python, "-c", ABOUT], capture_output=True, check=False, timeout=10).stdout  # noqa: S603
    version = re.fullmatch(rb"Python (\d+)\.(\d+)\.\d+", said)
    if version and (int(version[1]), int(version[2])) >= OLDEST:
        return ""
    return f"; python={python} is {said.decode() if version else 'no Python'}: name Python 3.7 or later, ENV/bin/python"
