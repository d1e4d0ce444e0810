"""Python agents that play in subprocesses, which may die, hang or take too much memory without harm to the run."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from agents.base.agent import AgentLimits, GameTimeoutError, TurnTimeoutError
from agents.base.player import check_choosers
from agents.learning.policy import Policy
from quarto.batch import Batch, Evaluations
from quarto.errors import RemoteError, RequestError
from quarto.jit import ensure_usable_cache_directory
from quarto.rng import Streams
from quarto.rules import CLASSIC, Rules
from runners.hosting.compile_clock import CompileClock, load_batch_view_kernels
from runners.hosting.game_time import RemotePlayer
from runners.hosting.guarded_agent import build_jitted_error
from runners.hosting.sandbox import build_sandbox, is_readable_in_sandbox, is_within
from runners.hosting.subprocess_client import NO_ANSWER_MESSAGE, Subprocess, SubprocessDiedError, stop_all
from runners.hosting.subprocesses import Limits, Sandbox

HANDLER_FACTORY = "runners.arena.isolated_agent_handler:build_handler"
# The types of a batch's fields, then of the seeds.
REQUEST_DTYPES = (np.uint64, np.uint16, np.uint16, np.int8, np.int8, np.uint64)
RESPONSE_COLUMNS = ("cells", "gifts", *Evaluations._fields)  # each has an int64 for each position
ROW_BYTES = sum(np.dtype(dtype).itemsize for dtype in REQUEST_DTYPES)


class AgentFacts(msgspec.Struct):
    """The facts that a subprocess reports about the agent that it has built."""

    batches: bool  # whether the agent takes whole batches
    choosers: list[str]
    jitted: bool
    data_files: list[str]


class IsolatedAgent:
    """An agent that subprocesses build from the class ``target``, its parameters ``params`` and, if given, a policy."""

    def __init__(
        self,
        label: str,
        target: str,
        params: Mapping[str, Any],
        policy: Policy | None,
        limits: AgentLimits,
        trusted: bool,
        visible: Sequence[Path] = (),
    ) -> None:
        """Note what a subprocess needs to build the agent.

        ``trusted`` means that the user named the class, so that subprocesses may import it. ``visible`` are the files
        and folders that the agent may read if it plays in a sandbox.
        """
        table = {} if policy is None else {name: np.ascontiguousarray(column) for name, column in policy.table.items()}
        self.label, self.limits, self._visible = label, limits, visible
        self._content = b"".join(column.tobytes() for column in table.values())
        self._setup = {
            "label": label,
            "target": target,
            "params": dict(params),
            "trusted": trusted,
            "policy": policy
            and {
                "kind": policy.kind,
                "parameters": dict(policy.parameters),
                "columns": [(name, column.dtype.str, len(column)) for name, column in table.items()],
            },
        }
        self._unused: list[Subprocess] = []  # at most one, which has reported the facts
        weakref.finalize(self, stop_all, self._unused)

    @cached_property
    def facts(self) -> AgentFacts:
        """The facts that a subprocess reports about the agent.

        Raises ``RequestError`` if the subprocess cannot build the agent.
        """
        child, facts = self._start_with_facts()
        self._unused.append(child)
        return facts

    @property
    def data_files(self) -> list[str]:
        """The files that the agent names as its data. Raises ``RequestError`` if the agent cannot be built.

        Of an agent in a sandbox, only files that it can read count, because it may name any.
        """
        files = self.facts.data_files
        return [file for file in files if is_within(file, self._visible)] if self.limits.is_sandboxed else files

    def build_player(self, rules: Rules, label: str) -> IsolatedPlayer:
        """Build the agent's player.

        Raises ``RequestError`` if the agent cannot be built, is jitted, or does not play by these rules.
        """
        return IsolatedPlayer(self, rules, label)

    def start_subprocess(self, rules: Rules) -> Subprocess:
        """Start a subprocess that is ready to play.

        Raises ``RequestError`` if the subprocess cannot build the agent.
        """
        subprocess = self._unused.pop() if self._unused else self._start_with_facts()[0]
        with self._explain_errors(subprocess):
            subprocess.request(asdict(rules), b"", type(None))
        return subprocess

    def _start_with_facts(self) -> tuple[Subprocess, AgentFacts]:
        with self._explain_errors() as subprocesses:
            sandbox, kernel_cache = (
                self._build_sandbox_with_kernel_cache() if self.limits.is_sandboxed else (None, None)
            )
            clock = CompileClock()
            setup = {**self._setup, "compiling": clock.descriptor, "kernel_cache": kernel_cache}
            limits = Limits(self.limits.memory_megabytes)
            # What is in a sandbox must neither write to the run's terminal nor read from it.
            options: dict[str, Any] = {"sandbox": sandbox, "is_quiet": sandbox is not None}
            subprocesses.append(Subprocess(HANDLER_FACTORY, setup, self._content, limits, clock=clock, **options))
            return subprocesses[0], subprocesses[0].receive(AgentFacts)[0]

    def _build_sandbox_with_kernel_cache(self) -> tuple[Sandbox, str]:
        """Build a sandbox, and return it with the folder of compiled kernels that is visible in it.

        Raises ``RequestError`` if there can be no sandbox.
        """
        load_batch_view_kernels(CLASSIC)  # so that the cache has them: no sandbox can write to it
        folder = ensure_usable_cache_directory()
        # Folder by folder, because only its owner may enter the cache itself. What is missing is compiled again.
        kernels = filter(is_readable_in_sandbox, folder.iterdir())
        return build_sandbox([*self._visible, *kernels], self.limits.processes), str(folder)

    @contextmanager
    def _explain_errors(self, *subprocesses: Subprocess) -> Iterator[list[Subprocess]]:
        """Convert a subprocess's error or death into a ``RequestError``, and end the subprocesses.

        Yields the list of the subprocesses, to which the context's body may append.
        """
        started, subject = [*subprocesses], f"agent '{self.label}'"
        try:
            yield started
        except SubprocessDiedError as error:
            raise RequestError(f"{subject} cannot be made in a process of its own: {error}") from error
        except RemoteError as error:
            stop_all(started)
            raise error.restore_or_wrap_arena_error(subject) from error


class IsolatedPlayer(RemotePlayer):
    """A player with as many subprocesses as there are threads that request turns concurrently.

    If a subprocess dies, the game in which its turn was due is forfeited. A subprocess that is late or writes invalid
    data is ended. In either case, a new subprocess replaces it and builds the agent again.
    """

    def __init__(self, agent: IsolatedAgent, rules: Rules, label: str) -> None:
        """Start the first subprocess. Raises ``RequestError`` as ``IsolatedAgent.build_player`` does."""
        super().__init__(agent.limits.game_seconds)
        self._isolated, self._rules, self._seconds = agent, rules, agent.limits.turn_seconds
        if agent.facts.jitted:
            raise build_jitted_error(label)
        check_choosers(agent.facts.choosers, rules, label)
        self._idle = [agent.start_subprocess(rules)]  # the last one is used next
        weakref.finalize(self, stop_all, self._idle)
        self.one_position_at_a_time |= self._seconds is not None and not agent.facts.batches

    def _choose_turns(self, batch: Batch, rng: Streams, evaluations: Evaluations | None) -> tuple[Any, Any]:
        """Return the agent's cells [B] and gifts [B] for ``B`` positions, and fill in ``evaluations`` if given.

        Raises ``RemoteError``, ``SubprocessDiedError`` and ``TurnTimeoutError``.
        """
        try:
            subprocess = self._idle.pop()
        except IndexError:
            subprocess = self._isolated.start_subprocess(self._rules)
        size = len(rng.seeds)
        seconds = self._seconds and self._seconds * size
        try:
            with self._charge_turn(subprocess) as turn_timer:
                _, content = subprocess.request(None, encode_batch(batch, rng), type(None), seconds, turn_timer)
        except GameTimeoutError:
            subprocess.stop()
            raise
        except TurnTimeoutError:
            raise TurnTimeoutError(f"turn_seconds={self._seconds:g}") from None
        except RemoteError:
            self._idle.append(subprocess)
            raise
        if len(content) != len(RESPONSE_COLUMNS) * 8 * size:
            subprocess.stop()
            raise SubprocessDiedError(NO_ANSWER_MESSAGE)
        self._idle.append(subprocess)
        cells, gifts, value, visits, microseconds = np.frombuffer(content, np.int64).reshape(
            len(RESPONSE_COLUMNS), size
        )
        if evaluations is not None:
            evaluations.put(slice(None), Evaluations(value.astype(np.int32), visits, microseconds))
        return cells, gifts


def encode_batch(batch: Batch, rng: Streams) -> bytes:
    """Encode positions and the seeds of their turns as bytes."""
    return b"".join(np.ascontiguousarray(array).tobytes() for array in (*batch, rng.seeds))


def decode_batch(content: bytes) -> tuple[Batch, Streams]:
    """Decode the positions and seeds that ``encode_batch`` encoded."""
    size, start = len(content) // ROW_BYTES, 0
    fields: list[Any] = []
    for dtype in REQUEST_DTYPES:
        fields.append(np.frombuffer(content, dtype, size, start).copy())
        start += fields[-1].nbytes
    return Batch(*fields[:-1]), Streams(fields[-1])
