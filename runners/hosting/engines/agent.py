"""The agent that stands for an engine: a program in any language that speaks the protocol of docs/engines.md."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import AgentLimits, GameTimeoutError, SomeTurnsFailedError, TurnTimeoutError
from agents.base.player import to_turns
from quarto.batch import NO_VALUE, NO_VISITS, VALUE_UNITS, Batch, Evaluations
from quarto.errors import AnswerError, RequestError
from quarto.rng import Streams
from quarto.rules import NONE, Rules
from runners.hosting.engines.compliance import RuleCheck, try_protocol_rules
from runners.hosting.engines.process import FLUSH_HINT, EngineError, EngineProcess, quote_line
from runners.hosting.engines.protocol import describe_expected_turn, format_position_lines
from runners.hosting.game_time import RemotePlayer
from runners.hosting.sandbox import build_sandbox, find_interpreter_behind_shim, list_program_paths, list_surroundings
from runners.hosting.subprocesses import Sandbox

SAMPLE_COMMAND = [sys.executable, str(Path(__file__).parent / "examples" / "careful.py")]
MAX_FAILURES_IN_A_ROW = 3  # turns in a row that fail, each in a new process, before the rest of the batch fails too


class Engine:
    """An agent whose turns come from an external program, the engine.

    ``command`` is the program with its arguments. It is split as a shell would split it, but no shell runs it. If it is
    None, the engine is the example in Python that comes with this project.

    Raises:
        RequestError: The program does not exist, or ``command`` cannot be split into words.

    """

    choosers = ("opponent", "mover")
    writes_turns = True  # as text, so messages name cells and pieces as the engine does

    def __init__(self, command: str | None = None, limits: AgentLimits | None = None) -> None:
        try:
            words = SAMPLE_COMMAND if command is None else shlex.split(command)
        except ValueError as error:
            raise RequestError(f"command={command} cannot be split into words: {error}") from error
        program = shutil.which(words[0]) if words else None
        if program is None:
            raise RequestError(
                f"command={command}: {words[0] if words else command!r} is no program that can be run; "
                "write the program and its arguments, command='./my_engine --depth 3'"
            )
        self._command = [program, *words[1:]]
        self._is_on_path = os.sep not in words[0]
        self._limits = limits or AgentLimits()

    @property
    def data_files(self) -> list[Path]:
        """The program and the files that its arguments name."""
        paths = (Path(word.rpartition("=")[2]).expanduser() for word in self._command)
        return [path.resolve() for path in paths if path.is_file()]

    def build_player(self, rules: Rules, label: str) -> EnginePlayer:  # noqa: ARG002  (as every agent)
        """Build the engine's player.

        Raises ``RequestError`` if the engine does not start or cannot play by the rules.
        """
        return EnginePlayer(self, rules)

    def start_process(self, rules: Rules | None) -> EngineProcess:
        """Start a process and, unless ``rules`` is None, prepare it to play by ``rules``.

        Raises ``RequestError`` if the engine fails.
        """
        if not self._limits.is_sandboxed:
            return EngineProcess(self._command, rules, self._limits.memory_megabytes)
        program, *arguments = self._command
        command = [find_interpreter_behind_shim(program) if self._is_on_path else program, *arguments]
        return EngineProcess(command, rules, self._limits.memory_megabytes, self._build_sandbox(command))

    def _build_sandbox(self, command: Sequence[str]) -> Sandbox:
        """Build a sandbox in which the program, and the files and folders that its arguments name, are visible.

        A file is visible with the folder that it is in, as far as ``list_surroundings`` allows.
        """
        program, *arguments = command
        named = [Path(program), *(Path(word.rpartition("=")[2]).expanduser() for word in arguments)]
        visible = [*list_program_paths(program), *(near for path in named for near in list_surroundings(path))]
        return build_sandbox(visible, self._limits.processes, Path.cwd())

    def own_checks(self, rules: Rules) -> Iterator[RuleCheck]:
        """Check whether the engine keeps each rule of the protocol, and yield the results.

        ``qarena agents check`` shows them.
        """
        return try_protocol_rules(lambda: self.start_process(rules), rules)

    @property
    def turn_seconds(self) -> float | None:
        """The time limit of a turn in seconds, or None if there is no limit."""
        return self._limits.turn_seconds

    @property
    def game_seconds(self) -> float | None:
        """The limit of processor time for a game in seconds, or None if there is no limit."""
        return self._limits.game_seconds


class PartialTurns(NamedTuple):
    """The turns (cell, gift) before the first turn that failed, and the error of the failed turn.

    The error is None if all turns succeeded.
    """

    turns: list[tuple[int, int]]
    error: Exception | None


class EnginePlayer(RemotePlayer):
    """A player with as many engine processes as there are threads that request turns concurrently.

    If a process ends, is late or writes an invalid answer, the game in which its turn was due is forfeited, and a new
    process takes over.
    """

    def __init__(self, engine: Engine, rules: Rules) -> None:
        """Start the first process. Raises ``RequestError`` as ``Engine.build_player`` does."""
        super().__init__(engine.game_seconds)
        self._engine, self._rules = engine, rules
        self._idle = [engine.start_process(rules)]  # the last one is used next
        weakref.finalize(self, _quit_all, self._idle)

    def _choose_turns(
        self, batch: Batch, rng: Streams, evaluations: Evaluations | None
    ) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Request a turn for each of the ``B`` positions, and return the cells [B] and the gifts [B].

        ``evaluations`` is filled in if given. If a turn fails, the other turns are still requested; then
        ``SomeTurnsFailedError`` is raised, which contains the turns and the failures. After ``MAX_FAILURES_IN_A_ROW``
        consecutive failures, the remaining turns count as failed too.
        """
        size, answered = len(rng.seeds), 0
        turns, failures = np.full((2, size), NONE), dict[int, BaseException]()
        failures_in_a_row = 0
        while answered < size:
            remaining_evaluations = None if evaluations is None else evaluations.select(slice(answered, size))
            new_turns, error = self._request_until_failure(
                batch.select_range(answered, size), rng.seeds[answered:], remaining_evaluations
            )
            turns[:, answered : answered + len(new_turns)] = np.array(new_turns, np.int64).reshape(-1, 2).T
            answered += len(new_turns)
            failures_in_a_row = 0 if new_turns else failures_in_a_row
            if error is not None:
                failures[answered] = error
                answered, failures_in_a_row = answered + 1, failures_in_a_row + 1
                if failures_in_a_row == MAX_FAILURES_IN_A_ROW:
                    failures |= dict.fromkeys(range(answered, size), error)
                    answered = size
        if failures:
            raise SomeTurnsFailedError(to_turns(turns[0], turns[1], rng, self.unusual), failures)
        return turns[0], turns[1]

    def _request_until_failure(
        self, batch: Batch, seeds: NDArray[np.uint64], evaluations: Evaluations | None
    ) -> PartialTurns:
        """Request the turn in each position of ``batch`` in order, and stop at the first turn that fails."""
        try:
            process = self._idle.pop() if self._idle else self._engine.start_process(self._rules)
        except RequestError as error:
            return PartialTurns([], EngineError(str(error)))
        seconds = self._engine.turn_seconds
        go = b"go\n" if seconds is None else f"go {seconds:g}\n".encode()
        turns, turn_started = list[tuple[int, int]](), time.perf_counter()
        try:
            with self._charge_turn(process) as turn_timer:
                for answer in process.request_turns(format_position_lines(batch, seeds) + go, seconds, turn_timer):
                    if isinstance(answer, bytes):
                        process.stop()
                        return PartialTurns(turns, self._build_no_turn_error(answer, batch, len(turns)))
                    now = time.perf_counter()
                    if evaluations is not None:
                        value, visits = process.evaluation
                        evaluations.value[len(turns)] = NO_VALUE if value is None else round(value * VALUE_UNITS)
                        evaluations.visits[len(turns)] = NO_VISITS if visits is None else visits
                        evaluations.microseconds[len(turns)] = round(1e6 * (now - turn_started))
                    turn_started = now
                    turns.append(answer)
                    if len(turns) == len(seeds):
                        break
        except GameTimeoutError as error:
            process.stop()
            return PartialTurns([], error)
        except TurnTimeoutError:
            process.stop()
            return PartialTurns(turns, TurnTimeoutError(f"turn_seconds={seconds:g}"))
        except EngineError as error:
            process.stop()
            return PartialTurns(turns, error)
        except BaseException as error:  # such as that of a check whose time is up
            process.stop()
            error.add_note(f"{len(turns)} of {len(seeds)} turns have come: {FLUSH_HINT}")
            raise
        self._idle.append(process)
        return PartialTurns(turns, None)

    def _build_no_turn_error(self, line: bytes, batch: Batch, index: int) -> Exception:
        if line.startswith(b"error"):
            return EngineError(f"it answered {quote_line(line)}")
        form = describe_expected_turn(batch.position(index), self._rules)
        return AnswerError("it", f"answered {quote_line(line)}, not {form}")


def _quit_all(processes: list[Any]) -> None:
    for process in processes:
        process.quit()
