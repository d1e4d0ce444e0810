"""How subprocesses start, what they may take, and how they end: one way for all that a run starts.

Isolated agents, workers, engines, players of the Politecnico and queries in SQL differ in what they are sent, which is
defined beside each of them. This module has what they share:

- **Start.** A subprocess leads a process group of its own, so that Ctrl-C reaches the run alone. Signals to end wait
  until the subprocess is bound to the run.
- **Limits.** Memory and processor time are limits of the system (``setrlimit``); the run reads a bounded number of
  bytes.
- **End.** The whole group is killed, even if its leader has ended by itself. A program that leaves its group escapes.
- **Lifeline.** A pipe whose other end only the run holds. However the run dies, the kernel then ends the group.
- **Sandbox.** Code that is not trusted runs below a supervisor, which holds the lifeline in its place: see ``sandbox``.

The second half of the module runs in the subprocess. The module needs only the standard library of Python 3.7, because
a player's own interpreter may run that half.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
BUFFER_BYTES = 1 << 16  # the most bytes that are read at once
FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.0005, 0.05  # pauses between two checks whether a process has ended
OUT_OF_MEMORY_SCORE = "1000"  # the highest, so that the system ends subprocesses before it ends the run
DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE
STDERR = 2  # the run's standard error, as a subprocess's standard output


class Limits(NamedTuple):
    """The resources that a subprocess may use; None means no limit.

    The number of processes is limited in a sandbox only, because elsewhere RLIMIT_NPROC counts all processes of a user
    and does not apply to root.
    """

    megabytes: int | None = None  # address space in MiB, on Linux
    processor_seconds: int | None = None  # for each process of the group
    output_bytes: int = 1 << 26  # the most bytes of a message, or of all output, that the run accepts


NO_LIMITS = Limits()


class Sandbox(NamedTuple):
    """A sandbox in which a subprocess runs, as ``sandbox.build_sandbox`` builds it."""

    command: list[str]  # beginning of the command that carries out its further arguments inside the sandbox
    variables: dict[str, str]  # all environment variables of the subprocess, besides the caller's and the module path
    processes: int  # processes and threads that may exist in it at the same time


SUPERVISOR = (sys.executable, "-P", "-m", "runners.hosting.sandbox_supervisor")


class LimitedProcess:
    """A subprocess with limits, which ends when the run ends. Any thread may call its methods."""

    def __init__(  # noqa: PLR0913  (each is a fact about the process)
        self,
        program: Sequence[str],
        arguments: Sequence[str] = (),
        limits: Limits = NO_LIMITS,
        *,
        prefix: Sequence[str] = (),
        sandbox: Sandbox | None = None,
        shared_descriptors: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = DEVNULL,
        stdout: int | IO[bytes] = DEVNULL,
        stderr: int | IO[bytes] | None = DEVNULL,
    ) -> None:
        """Start ``program`` with the argument that ``bind`` needs, followed by ``arguments``.

        Args:
            program: A program of this project, which must call ``bind``. ``start_command`` starts any other program.
            arguments: Further arguments of the program.
            limits: Limits that the program applies to itself, once it has imported what it needs.
            prefix: Beginning of the command, such as a program that carries out the rest of it.
            sandbox: Sandbox in which the program runs. This object then stands for the sandbox's supervisor.
            shared_descriptors: Open files that the subprocess inherits under the same numbers.
            variables: Environment variables besides those of the run. The module path is the run's.
            stdin: Standard input, as for ``subprocess.Popen``.
            stdout: Standard output, as for ``subprocess.Popen``.
            stderr: Standard error, as for ``subprocess.Popen``.

        Raises:
            OSError: The program cannot be started.

        """
        self._owner = os.getpid()
        self._lock = threading.Lock()
        lifeline, self._lifeline = os.pipe()
        module_path = {"PYTHONPATH": _format_module_path()}
        command = [*program, json.dumps([lifeline, *limits]), *arguments]
        if sandbox is not None:
            request = {
                "program": [*program],
                "arguments": [*arguments],
                "descriptors": [*shared_descriptors],
                "sandbox": sandbox._replace(variables={**sandbox.variables, **module_path, **(variables or {})}),
            }
            command, variables = [*SUPERVISOR, json.dumps([lifeline, *limits]), json.dumps(request)], None
        try:
            with block_signals():
                self._process = subprocess.Popen(  # noqa: S603  (callers say whose program it is)
                    [*prefix, *command],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    bufsize=0,
                    pass_fds=(lifeline, *shared_descriptors),
                    process_group=0,
                    env={**os.environ, **module_path, **(variables or {})},
                )
        except BaseException:
            self._close_lifeline()
            raise
        finally:
            os.close(lifeline)
        self.pid: int = self._process.pid
        self.stdin, self.stdout = self._process.stdin, self._process.stdout

    def send_signal(self, number: int) -> None:
        """Send a signal to the process itself, not to its group. Do nothing if the process has ended."""
        with self._lock:
            if self._process.returncode is None:
                os.kill(self.pid, number)

    def wait_and_kill_group(self, seconds: float) -> int | None:
        """Wait for the process to end, then kill the remaining processes of its group.

        Returns:
            The exit code, negative if a signal ended the process, or None if the process still runs after ``seconds``.

        """
        deadline, delay = time.monotonic() + seconds, FIRST_POLL_SECONDS
        while not self._has_leader_ended():
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                return None
            time.sleep(min(delay, remaining_seconds))
            delay = min(2 * delay, LAST_POLL_SECONDS)
        return self._kill_group()

    def stop(self, grace_seconds: float = 0.0, grace_signal: int | None = signal.SIGTERM) -> bool:
        """End the process and all processes of its group. Calling this again is harmless.

        Args:
            grace_seconds: Time in which the process may end by itself before it is killed.
            grace_signal: Signal that asks the process to end; None if the caller has already asked with a message.

        Returns:
            Whether the process ended by itself.

        """
        if os.getpid() != self._owner:  # a fork of the run has a copy of this object, and no right to end anything
            return False
        if grace_seconds and grace_signal is not None:
            self.send_signal(grace_signal)
        has_ended = self.wait_and_kill_group(grace_seconds) is not None
        self._kill_group()
        for file in (self.stdin, self.stdout):
            if file is not None:
                with suppress(OSError):
                    file.close()
        self._close_lifeline()
        return has_ended

    def _has_leader_ended(self) -> bool:
        """Return whether the leader of the group has ended.

        The leader is not reaped here, so that the system does not reuse the group's number.
        """
        with self._lock:
            if self._process.returncode is not None:
                return True
            if hasattr(os, "waitid"):
                with suppress(ChildProcessError):  # other code of this program has reaped it
                    return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if self._process.poll() is None:  # Python before 3.13 on macOS has to reap it
                return False
            if not hasattr(os, "waitid"):
                self._signal_group(signal.SIGKILL)
            return True

    def _kill_group(self) -> int:
        """Kill the remaining processes of the group, and return the leader's exit code."""
        with self._lock:
            if self._process.returncode is None:
                self._signal_group(signal.SIGKILL)
            return self._process.wait()

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS denies it if only dead processes are left
            os.killpg(self.pid, number)

    def _close_lifeline(self) -> None:
        with self._lock:  # two threads may stop the process at once: a second close would hit somebody else's file
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def start_command(command: Sequence[str], limits: Limits = NO_LIMITS, **options: Any) -> LimitedProcess:
    """Start any program within limits; ``options`` are the keyword arguments of ``LimitedProcess``.

    A Python process of this project is started first; it binds and limits itself, and then becomes the program. The
    memory limit applies to the whole address space: unlike in a process of this project, no library of the project
    takes a part of it. The program gets the user's own PYTHONPATH, because it may be a different Python interpreter.
    """
    launcher = (sys.executable, "-P", "-m", "runners.hosting.subprocesses")
    return LimitedProcess(launcher, [os.environ.get("PYTHONPATH", ""), *command], limits, **options)


def read_command_output_until_limit(command: Sequence[str], seconds: float, limits: Limits) -> bytes:
    """Run a program, and return at most the first ``limits.output_bytes`` bytes of its standard output.

    The program is killed after ``seconds``, or once it has written that many bytes.
    """
    process = start_command(command, limits, stdout=PIPE)
    chunks, remaining_bytes, deadline = [], limits.output_bytes, time.monotonic() + seconds
    try:
        assert process.stdout is not None  # noqa: S101  (for the type checker)
        while remaining_bytes and select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(process.stdout.fileno(), min(remaining_bytes, BUFFER_BYTES))
            if not chunk:
                break
            chunks.append(chunk)
            remaining_bytes -= len(chunk)
    finally:
        process.stop()
    return b"".join(chunks)


class OutputTail:
    """The end of what a subprocess writes to a pipe. A thread reads the pipe, so that the writer never has to wait."""

    def __init__(self, max_bytes: int) -> None:
        """Open a pipe. Only the last ``max_bytes`` bytes written to it are kept."""
        self._reading_end, self.writing_end = os.pipe()
        self.size = 0  # bytes so far
        self._max_bytes = max_bytes
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="output of a subprocess", daemon=True)

    def start(self) -> None:
        """Start reading. Call this only after the subprocess has inherited the writing end, which is closed here."""
        os.close(self.writing_end)
        self._thread.start()

    def _read(self) -> None:
        with os.fdopen(self._reading_end, "rb", buffering=0) as output:
            while True:
                chunk = output.read(BUFFER_BYTES)
                if not chunk:
                    break
                self._kept = (self._kept + chunk)[-self._max_bytes :]
                self.size += len(chunk)

    def read_since(self, offset: int, seconds: float) -> str:
        """Return what was written after the first ``offset`` bytes, as far as it has been kept.

        This must be called after the subprocess has ended. The call waits at most ``seconds`` for the end of the
        output, because another process that the subprocess started may still hold the pipe.
        """
        self._thread.join(seconds)
        new_bytes = min(self.size - offset, len(self._kept))
        return self._kept[len(self._kept) - new_bytes :].decode(errors="replace")


def describe_exit(code: int) -> str:
    """Describe how a process ended, as a clause.

    A negative ``code`` is the negated number of the signal that ended the process.
    """
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in {*signal.Signals} else "unknown"
    return f"its process was ended by signal {-code} ({name})"


def _format_module_path() -> str:
    """Return the run's module path as text, so that another Python finds the same modules."""
    return os.pathsep.join(os.path.abspath(path) for path in sys.path)  # noqa: PTH100  (of folders and archives, no file)


@contextmanager
def block_signals() -> Iterator[None]:
    """Block signals that ask this process to end, while the context's body starts a subprocess.

    The subprocess inherits the block and removes it in ``bind``. Without the block, a signal that is sent to all
    processes of a service could end the subprocess before it is able to ignore such signals.
    """
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *TERMINATION_SIGNALS))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


# In the subprocess.


def bind(binding: str) -> Limits:
    """Bind this process to the run that started it, and return the limits that the run has set.

    ``binding`` is the first argument of the process. Once bound, the process cannot outlive the run, and the system
    ends it before the run if memory runs out. It ignores signals that ask it to end, because they may be sent to all
    processes of a group or of a service, and the run ends its subprocesses itself. In a sandbox the process gets its
    standard streams in place of the pipe.
    """
    lifeline, *limits = json.loads(binding)
    if isinstance(lifeline, list):  # the supervisor of a sandbox holds the lifeline
        _take_standard_streams(lifeline)
    else:
        _set_up_end_when_lifeline_closes(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in TERMINATION_SIGNALS:
        signal.signal(number, _ignore_termination)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, *TERMINATION_SIGNALS))
    os.register_at_fork(after_in_child=_restore_terminations_in_fork)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OUT_OF_MEMORY_SCORE, encoding="ascii")
    return Limits(*limits)


def _take_standard_streams(descriptors: list[int]) -> None:
    """Make ``descriptors`` the standard input, output and error of this process.

    They come under other numbers, because bubblewrap keeps standard streams open as long as the sandbox exists. The run
    would then not notice that the program has closed its own.
    """
    for standard_descriptor, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard_descriptor)
        os.close(descriptor)


def _set_up_end_when_lifeline_closes(lifeline: int) -> None:
    """End this process, and its group if it leads one, when the other end of the pipe ``lifeline`` is closed.

    Nothing is ever written to the pipe. When it is closed, the kernel sends the signal SIGIO, which ends the group on
    Linux, whatever Python is doing. Other kernels ignore SIGIO by default, so there a handler in Python ends the
    process.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL if sys.platform == "linux" else lambda *_: os._exit(1))
    is_group_leader = os.getpgrp() == os.getpid()
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid() if is_group_leader else os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # the pipe closed earlier, so no signal will come
        os._exit(1)


def _ignore_termination(*_: Any) -> None:
    """Ignore a signal that asks the process to end.

    SIG_IGN is not used, because programs that an agent starts would inherit it and could not be terminated.
    """


def _restore_terminations_in_fork() -> None:
    """Restore the default signal handlers in a fork of this process, so that the fork can be terminated.

    An agent may fork the process.
    """
    for number in TERMINATION_SIGNALS:
        if signal.getsignal(number) is _ignore_termination:
            signal.signal(number, signal.SIG_DFL)


def apply_memory_and_processor_limits(limits: Limits, counts_memory_in_use: bool) -> None:
    """Limit this process and all processes that it will start.

    ``counts_memory_in_use`` says whether the address space that is already in use counts towards ``limits.megabytes``.
    It should not count if libraries of this project have taken it, because an agent is not responsible for them.
    """
    import resource

    if limits.processor_seconds is not None:
        _lower_limit(resource.RLIMIT_CPU, limits.processor_seconds)
    if limits.megabytes is not None and sys.platform == "linux":
        pages = 0 if counts_memory_in_use else int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _lower_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + (limits.megabytes << 20))


def _lower_limit(kind: int, maximum: int) -> None:
    """Set a system limit to ``maximum``, or to the hard limit if that is lower."""
    import resource

    hard = resource.getrlimit(kind)[1]
    maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
    resource.setrlimit(kind, (maximum, maximum))


def _launch(binding: str, module_path: str, *command: str) -> None:
    """Bind and limit this process, then replace it with the program ``command``, as ``start_command`` describes."""
    apply_memory_and_processor_limits(bind(binding), counts_memory_in_use=True)
    os.environ["PYTHONPATH"] = module_path
    os.execvp(command[0], command)  # noqa: S606  (the program that the user named)


if __name__ == "__main__":
    _launch(*sys.argv[1:])
