"""Players of the ``quarto`` package over batches: each thread of a run has a subprocess with its live games."""

from __future__ import annotations

import logging
import mmap
import re
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.base.agent import AgentLimits, SomeTurnsFailedError, TurnTimeoutError
from agents.base.player import BatchPlayer
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch, Evaluations, Turns
from quarto.errors import ErrorDetails, RemoteError, RequestError
from quarto.rng import Streams
from runners.hosting.game_time import GameBudgets, TurnTimer
from runners.hosting.polito.game_server import (
    ANSWER_FORMAT,
    QUESTION_FORMATS,
    QUESTION_INDEX,
    SHARED_WORDS,
    SLOT_FORMAT,
    TURN_START,
)
from runners.hosting.sandbox import build_sandbox, list_program_paths
from runners.hosting.subprocess_client import NO_ANSWER_MESSAGE, Subprocess, SubprocessDiedError, stop_all
from runners.hosting.subprocesses import Limits, read_command_output_until_limit

logger = logging.getLogger(__name__)

HANDLER_FACTORY = "runners.hosting.polito.game_server:build_handler"
# The code of a subprocess: this project's modules come first on the path while they are imported, and then leave it.
BOOT_CODE = """
import sys
root = sys.argv.pop(1)
sys.path = [root] + [path for path in sys.path if path]
import runners.hosting.polito.game_server
from runners.hosting.subprocess_program import main
sys.path.remove(root)
main()
"""
ROOT = str(Path(__file__).parents[3])
OLDEST_PYTHON = (3, 7)
VERSION_CODE = "import sys; sys.stdout.write('Python %d.%d.%d' % sys.version_info[:3])"  # runs in any Python
VERSION_SECONDS, MAX_VERSION_BYTES = 10.0, 100  # limits for a program that may be no Python at all
QUESTION_TYPE = np.dtype([*QUESTION_FORMATS.items()])
MIN_GAME_BYTES = 1 << 20  # allows at most 256 live games in a process, whose turns take some milliseconds
ONE_GAME_WORDS = 1 << 40  # so many words that no other game is played at the same time
GRACE_SECONDS = 1.0  # time after an interruption in which a turn may end by itself before its process is ended
INTERRUPT_SECONDS = 0.1  # time between interruptions, of which the player may catch some


class PlayerFacts(msgspec.Struct):
    """The facts that the subprocess reports about the player that it has built."""

    game_bytes: int  # memory that a live game takes
    files: list[str]  # files of the player's own modules
    printed: str


@dataclass
class GameFailure(ErrorDetails):
    """The description of a failed turn, which the subprocess sends in addition to a turn without cell and gift."""

    index: int  # index of the question
    late: bool


class Remarks(msgspec.Struct):
    """The remarks that a subprocess sends along with its turns: failures, illegal answers and printed text."""

    failed: list[GameFailure]
    asked_again: int  # illegal answers after which the player was asked again
    given_up: str  # an illegal answer because of which a game was given up; may be empty
    printed: str


class PolitoSubprocess(Subprocess):
    """A subprocess with live games of one player; ``setup`` holds the parameters of ``agent.Polito``."""

    def __init__(self, setup: Mapping[str, Any], limits: AgentLimits, trial: bool = False) -> None:
        """Build the player and, with ``trial``, play a trial game.

        Raises ``RequestError`` if the player cannot be built.
        """
        python, folder = setup["python"], Path(setup["folder"])
        sandbox = None
        if limits.is_sandboxed:
            interpreter = list_program_paths(python) if python else []
            sandbox = build_sandbox([folder, *interpreter], limits.processes, folder)
        try:
            with tempfile.TemporaryFile() as file:
                file.truncate(8 * SHARED_WORDS)
                self._shared = memoryview(mmap.mmap(file.fileno(), 8 * SHARED_WORDS)).cast("q")
                super().__init__(
                    HANDLER_FACTORY,
                    {**setup, "shared_file": file.fileno(), "trial": trial},
                    limits=Limits(setup["megabytes"]),
                    # -B: the player's folder stays as it is.
                    program=[python or sys.executable, "-B", "-c", BOOT_CODE, ROOT],
                    # The order of sets affects how a player plays. Another interpreter has other libraries.
                    variables={"PYTHONHASHSEED": "0"} | ({} if python is None else {"PYTHONPATH": ""}),
                    shared_descriptors=[file.fileno()],
                    is_quiet=True,
                    sandbox=sandbox,
                )
            self.facts, _ = self.receive(PlayerFacts)
        except (SubprocessDiedError, OSError) as error:
            remedy = _describe_interpreter_fault(python) if python else ""
            raise RequestError(
                f"player={setup['player']} of {setup['folder']} cannot be made: {error}{remedy}"
            ) from error
        except RemoteError as error:
            self.stop()
            raise error.restore_or_wrap_arena_error(f"player={setup['player']}") from error
        self._seconds: float | None = setup["turn_seconds"]

    @property
    def question_index(self) -> int:
        """The index of the question that the subprocess began to answer last."""
        return self._shared[QUESTION_INDEX]

    def request_turns(
        self, questions: NDArray[np.void], turn_timer: TurnTimer | None = None
    ) -> tuple[NDArray[np.int8], Remarks]:
        """Return the turns for ``questions``, and the remarks of the subprocess about them.

        The array holds the cells of all turns, followed by the gifts of all turns. Raises ``SubprocessDiedError``,
        ``TurnTimeoutError`` if a turn goes on although it was interrupted, and ``GameTimeoutError`` if the processor
        time of ``turn_timer`` is used up.
        """
        self._shared[QUESTION_INDEX] = self._shared[TURN_START] = 0
        self.send(None, questions.tobytes())
        if self._seconds is not None:
            self._interrupt_late_turns_or_raise_timeout(self._seconds, turn_timer)
        remarks, answers = self.receive(Remarks, turn_timer=turn_timer)
        if len(answers) != 2 * len(questions):
            raise SubprocessDiedError(NO_ANSWER_MESSAGE)
        return np.frombuffer(answers, ANSWER_FORMAT), remarks

    def _interrupt_late_turns_or_raise_timeout(self, seconds: float, turn_timer: TurnTimer | None) -> None:
        """Interrupt every turn that takes longer than ``seconds``, until a response begins.

        Raises ``TurnTimeoutError`` if a turn is still running ``GRACE_SECONDS`` after its limit, and
        ``GameTimeoutError`` if the processor time of ``turn_timer`` is used up.
        """
        next_wait, timer_wait = seconds, turn_timer.first_wait_seconds if turn_timer else seconds
        while not self.has_response(min(next_wait, timer_wait)):
            timer_wait = turn_timer.find_next_wait_seconds() if turn_timer else GRACE_SECONDS
            turn_start = self._shared[TURN_START]
            excess_seconds = (time.monotonic_ns() - turn_start) / 1e9 - seconds
            if not turn_start:
                next_wait = seconds
            elif excess_seconds < 0:
                next_wait = -excess_seconds
            elif excess_seconds < GRACE_SECONDS:
                self.send_signal(signal.SIGUSR1)
                next_wait = INTERRUPT_SECONDS
            else:
                raise TurnTimeoutError


class PolitoSubprocessPool:
    """What all players of one agent share: the setup, the counts of illegal answers, and the first subprocess.

    The first player that needs a subprocess takes the first one; then it is no longer shared.
    """

    def __init__(self, setup: Mapping[str, Any], limits: AgentLimits) -> None:
        """Start the first subprocess. Raises ``RequestError`` if the player cannot be built."""
        self.setup, self.limits = setup, limits
        self.asked_again = 0
        self.given_up = ""
        self.label: str = setup["player"]
        first = PolitoSubprocess(setup, limits, trial=True)
        self.facts = first.facts
        self._ready = [first]
        self._lock = threading.Lock()
        weakref.finalize(self, stop_all, self._ready)
        self.printed = first.facts.printed
        self._logged = 0  # number of characters of ``printed`` that were logged

    def take_subprocess(self) -> PolitoSubprocess:
        """Return a subprocess without live games. Raises ``RequestError`` if none can be started."""
        with self._lock:
            if self._ready:
                return self._ready.pop()
        return PolitoSubprocess(self.setup, self.limits)

    def record_remarks_and_log_output(self, remarks: Remarks) -> None:
        """Count illegal answers, and log what the player printed."""
        with self._lock:
            self.asked_again += remarks.asked_again
            self.given_up = remarks.given_up or self.given_up
            self.printed += remarks.printed
            printed, self._logged = self.printed[self._logged :], len(self.printed)
        if printed:
            logger.info("agent '%s' printed:\n%s", self.label, printed)


class PolitoPlayer(BatchPlayer):
    """A player with a subprocess of its own, in which each slot has a live game.

    A failed game does not end the other games. If the subprocess dies or has to be ended, a new subprocess replaces it,
    and new instances of the player continue the other games from their positions.
    """

    copy_obstacle = "it plays in a process of its own"

    def __init__(self, pool: PolitoSubprocessPool) -> None:
        self._pool = pool
        self._subprocess: PolitoSubprocess | None = None
        # Limits the games at once by memory, and to one game if one player plays all games.
        game_bytes = max(MIN_GAME_BYTES, pool.facts.game_bytes)
        game_seconds = pool.limits.game_seconds
        self._budgets = None if game_seconds is None else GameBudgets(game_seconds)
        self.one_position_at_a_time = game_seconds is not None
        self.game_words = ONE_GAME_WORDS if pool.setup["reuse"] else game_bytes // 8

    def fork(self) -> PolitoPlayer:
        return PolitoPlayer(self._pool)

    def remarks(self) -> list[str]:
        """Return lines about the illegal answers that the agent's players gave in all threads."""
        count, given_up = self._pool.asked_again, self._pool.given_up
        retry_remarks = (
            [f"gave {format_count_with_noun(count, 'illegal answer')} and was asked again, as its package does"]
            if count
            else []
        )
        max_answers = self._pool.setup["most_asks"]
        return retry_remarks + (
            [f"was not asked again after {format_count_with_noun(max_answers, 'such answer')}, such as {given_up}"]
            if given_up
            else []
        )

    @property
    def printed(self) -> str:
        """Everything that the agent's players have printed in all threads."""
        return self._pool.printed

    def start(self, slots: range) -> None:  # noqa: ARG002  (slots begin their games by themselves)
        """End all games, and begin new ones in ``slots``."""
        if self._budgets is not None:
            self._budgets.restart()
        self._begin_games_in_slots_or_all(b"")

    def restart(self, slots: NDArray[np.integer]) -> None:
        if self._budgets is not None:
            self._budgets.restart(slots.tolist())
        if len(slots):
            self._begin_games_in_slots_or_all(slots.astype(SLOT_FORMAT).tobytes())

    def _begin_games_in_slots_or_all(self, slot_bytes: bytes) -> None:
        self._subprocess = self._subprocess or self._take_subprocess_from_pool()
        try:
            self._subprocess.send("begin", slot_bytes)
        except SubprocessDiedError:  # a player may leave a thread behind that ends it: another one begins the games
            self._replace_subprocess()

    def _take_subprocess_from_pool(self) -> PolitoSubprocess:
        subprocess = self._pool.take_subprocess()
        self._finalizer = weakref.finalize(self, subprocess.stop)
        return subprocess

    def _replace_subprocess(self) -> None:
        self._finalizer()
        self._subprocess = None
        self._subprocess = self._take_subprocess_from_pool()

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,  # noqa: ARG002  (it has none)
    ) -> Turns:
        """Return the turns that the player takes in a batch of positions.

        Args:
            batch: Positions [B].
            rng: Random streams [B], one for each turn.
            slots: Slots [B] of the games, begun by ``start``, to which the positions belong. If None, each position
                belongs to a game of its own, which begins with this call.
            evaluations: Ignored, because such players report none.

        Raises:
            SomeTurnsFailedError: The player failed to take some of the turns.

        """
        if slots is None:
            slots = np.arange(len(batch.lanes), dtype=np.uint32)
            self.start(range(len(slots)))
        questions = np.empty(len(slots), QUESTION_TYPE)
        questions["slot"], questions["seed"] = slots, rng.seeds
        for name in ("lanes", "occupied", "hand"):
            questions[name] = getattr(batch, name)
        turns, failures = Turns.allocate(len(slots)), dict[int, BaseException]()
        pending_indices = np.arange(len(slots))  # of questions without an answer
        while len(pending_indices):
            pending_indices = self._fill_in_turns(questions, pending_indices, turns, failures)
        if failures:
            raise SomeTurnsFailedError(turns, failures)
        return turns

    def _fill_in_turns(
        self,
        questions: NDArray[np.void],
        pending_indices: NDArray[np.intp],
        turns: Turns,
        failures: dict[int, BaseException],
    ) -> NDArray[np.intp]:
        """Request the turns of pending questions, and return the indices of the questions that are still pending.

        The turns are written to ``turns``, and errors to ``failures`` by the index of the question. Questions are still
        pending if the subprocess had to be replaced.
        """
        subprocess = self._subprocess = self._subprocess or self._take_subprocess_from_pool()
        try:
            answers, remarks = self._request_turns(subprocess, questions[pending_indices])
        except (SubprocessDiedError, TurnTimeoutError) as error:
            failed_question = subprocess.question_index if 0 <= subprocess.question_index < len(pending_indices) else 0
            failures[int(pending_indices[failed_question])] = (
                self._build_late_error() if type(error) is TurnTimeoutError else error
            )
            self._replace_subprocess()
            return np.delete(pending_indices, failed_question)
        turns.cells[pending_indices], turns.gifts[pending_indices] = (
            answers[: len(pending_indices)],
            answers[len(pending_indices) :],
        )
        for failure in remarks.failed:
            failures[int(pending_indices[failure.index])] = (
                self._build_late_error() if failure.late else RemoteError(failure)
            )
        self._pool.record_remarks_and_log_output(remarks)
        return pending_indices[:0]

    def _request_turns(
        self, subprocess: PolitoSubprocess, questions: NDArray[np.void]
    ) -> tuple[NDArray[np.int8], Remarks]:
        if self._budgets is None:
            return subprocess.request_turns(questions)
        with self._budgets.charge_turn(int(questions["slot"][0]), subprocess.processor_timer) as turn_timer:
            return subprocess.request_turns(questions, turn_timer)

    def _build_late_error(self) -> TurnTimeoutError:
        return TurnTimeoutError(f"turn_seconds={self._pool.setup['turn_seconds']:g}")


def _describe_interpreter_fault(python: str) -> str:
    """Return what is wrong with an interpreter, as a clause that can end a message, or "" if nothing is wrong.

    The program may be too old, or may not be Python.
    """
    output = read_command_output_until_limit(
        [python, "-c", VERSION_CODE], VERSION_SECONDS, Limits(output_bytes=MAX_VERSION_BYTES)
    )
    version = re.fullmatch(rb"Python (\d+)\.(\d+)\.\d+", output)
    if version and (int(version[1]), int(version[2])) >= OLDEST_PYTHON:
        return ""
    return (
        f"; python={python} is {output.decode() if version else 'no Python'}: name Python 3.7 or later, ENV/bin/python"
    )
