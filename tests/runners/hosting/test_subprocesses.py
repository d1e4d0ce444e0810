"""Subprocesses end when they are told to, with all that they started, and with the run; their limits hold."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.hosting.subprocess_client import Subprocess
from runners.hosting.subprocesses import (
    PIPE,
    LimitedProcess,
    Limits,
    OutputTail,
    read_command_output_until_limit,
    start_command,
)
from tests.paths import ROOT

BARE = (sys.executable, "-I", "-S", "-c")  # begins quickly: the programs here need no libraries
LATEST_SECONDS = 10.0  # to wait for what must happen: a failure takes so long, a success does not
ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a limit, or a signal, of Linux")
FORK = "import os, time, sys\nif os.fork() == 0:\n    time.sleep(60)\n"  # a process of the group that goes on


class Life:
    """A pipe that processes hold as long as they live, so that it ends with the last of them."""

    def __init__(self) -> None:
        self.reading_end, self.writing_end = os.pipe()

    def read(self) -> bytes:
        """Read what the processes wrote until all have ended; raise ``AssertionError`` if they live on."""
        os.close(self.writing_end)
        content = b""
        while select.select([self.reading_end], [], [], LATEST_SECONDS)[0]:
            chunk = os.read(self.reading_end, 100)
            if not chunk:
                return content
            content += chunk
        raise AssertionError("a process goes on")


@pytest.fixture
def life() -> Iterator[Life]:
    pipe = Life()
    yield pipe
    os.close(pipe.reading_end)


@pytest.fixture
def start(life: Life) -> Iterator[Callable[..., LimitedProcess]]:
    """Return a function that starts a few lines of Python and waits for their first line; end them after the test."""
    started: list[LimitedProcess] = []

    def start_script(script: str, **options: Any) -> LimitedProcess:
        code = f"{script}\nprint('ready', flush=True)\nimport time; time.sleep(60)"
        process = start_command([*BARE, code], stdout=PIPE, shared_descriptors=[life.writing_end], **options)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start_script
    for process in started:
        process.stop()


@pytest.mark.parametrize(
    ("handler", "in_time", "code"),
    [("lambda *_: (time.sleep(0.05), os._exit(7))", True, 7), ("signal.SIG_IGN", False, -9)],
    ids=["heeds", "ignores"],
)
def test_what_ignores_the_request_to_end_is_killed(
    handler: str, in_time: bool, code: int, start: Callable[..., LimitedProcess], life: Life
) -> None:
    process = start(f"import os, signal, time; signal.signal(signal.SIGTERM, {handler})")
    assert process.wait_and_kill_group(0) is None
    assert process.stop(grace_seconds=LATEST_SECONDS if in_time else 0.05) is in_time
    assert process.wait_and_kill_group(0) == code
    assert process.stop()  # once more
    process.send_signal(signal.SIGTERM)  # to nobody
    assert life.read() == b""


def test_what_a_subprocess_started_ends_with_it(start: Callable[..., LimitedProcess], life: Life) -> None:
    start(FORK).stop()
    assert life.read() == b""


def test_what_a_subprocess_leaves_behind_ends_too(start: Callable[..., LimitedProcess], life: Life) -> None:
    process = start(f"{FORK}print('ready', flush=True); os._exit(3)")
    assert process.wait_and_kill_group(LATEST_SECONDS) == 3
    assert life.read() == b""


def test_a_fork_of_the_run_ends_nothing(start: Callable[..., LimitedProcess]) -> None:
    process = start("")
    copy = os.fork()
    if copy == 0:
        os._exit(process.stop())
    assert os.waitpid(copy, 0)[1] == 0
    assert process.wait_and_kill_group(0.05) is None


# How a run is killed: at the program's start, before it is bound, and later.
RUN = """
import sys, time
from runners.hosting.subprocesses import PIPE, start_command
life, *command = sys.argv[1:]
process = start_command(command, stdout=PIPE, shared_descriptors=[int(life)], prefix={prefix!r})
print(process.stdout.readline() if {waits} else b"", flush=True)
time.sleep(60)
"""


def start_run(life: Life, script: str, waits: bool, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a run whose subprocess is a script; with ``waits`` the run waits for the script's first line."""
    program = [sys.executable, "-c", RUN.format(prefix=prefix, waits=waits), str(life.writing_end), *BARE, script]
    run = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, pass_fds=[life.writing_end])
    assert run.stdout is not None
    run.stdout.readline()
    return run


@ONLY_LINUX
def test_nothing_outlives_a_run_that_is_killed(life: Life) -> None:
    with start_run(life, f"{FORK}print('ready', flush=True)\ntime.sleep(60)", waits=True) as run:
        run.kill()
    assert life.read() == b""


def hold_back(gate: Path) -> tuple[str, ...]:
    """Return the prefix of a command that begins only once somebody has opened ``gate``."""
    os.mkfifo(gate)
    return ("sh", "-c", f'read line < "{gate}"; exec "$@"', "sh")


def test_a_program_does_not_begin_if_its_run_was_killed_before_it_was_bound(life: Life, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"import os; os.write({life.writing_end}, b'begun')"
    with start_run(life, script, waits=False, prefix=hold_back(gate)) as run:
        run.kill()
    gate.write_text("go\n")
    assert life.read() == b""


def test_signals_to_end_before_a_program_is_bound_are_left_to_the_run(life: Life, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"import os; os.write({life.writing_end}, b'begun')"
    prefix, descriptors = hold_back(gate), [life.writing_end]
    process = start_command([*BARE, script], prefix=prefix, shared_descriptors=descriptors)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    gate.write_text("go\n")
    assert process.wait_and_kill_group(LATEST_SECONDS) == 0
    assert life.read() == b"begun"
    process.stop()


def test_of_a_flood_so_much_is_read_and_the_program_is_ended(life: Life) -> None:
    flood = "import os\nwhile True:\n    os.write(1, b'x' * 65536)"
    assert (
        read_command_output_until_limit([*BARE, flood], LATEST_SECONDS, Limits(output_bytes=100_000)) == b"x" * 100_000
    )
    assert read_command_output_until_limit([*BARE, "print(7)"], LATEST_SECONDS, Limits(output_bytes=100)) == b"7\n"
    silent = "import time; time.sleep(60)"
    assert read_command_output_until_limit([*BARE, silent], 0.1, Limits(output_bytes=100)) == b""
    assert read_command_output_until_limit(["/nowhere/program"], LATEST_SECONDS, Limits()) == b""


def test_of_a_flood_on_standard_error_the_end_is_kept() -> None:
    tail, flood = OutputTail(1000), b"x" * 50_000
    writing_end = os.dup(tail.writing_end)
    tail.start()
    for _ in range(40):
        os.write(writing_end, flood)
    os.write(writing_end, b"no such piece\n")
    os.close(writing_end)
    assert tail.read_since(40 * len(flood), LATEST_SECONDS) == "no such piece\n"
    assert tail.size == 40 * len(flood) + 14
    assert tail.read_since(0, LATEST_SECONDS) == "x" * 986 + "no such piece\n"


@ONLY_LINUX
def test_memory_has_an_end() -> None:
    hungry = "import os\ntry: bytearray(1 << 30)\nexcept MemoryError: os.write(1, b'no more')"
    assert read_command_output_until_limit([*BARE, hungry], LATEST_SECONDS, Limits(megabytes=300)) == b"no more"
    assert read_command_output_until_limit([*BARE, hungry], LATEST_SECONDS, Limits(megabytes=3000)) == b""


def test_limits_are_those_of_the_system_and_never_raise_a_lower_one() -> None:
    show = "import resource; print([*resource.getrlimit(resource.RLIMIT_CPU)])"
    command = [sys.executable, "-S", "-c", show]
    output = read_command_output_until_limit(command, LATEST_SECONDS, Limits(processor_seconds=7, output_bytes=100))
    assert json.loads(output) == [7, 7]
    higher = (
        "import resource; from runners.hosting.subprocesses import Limits, apply_memory_and_processor_limits\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (5, 50))\n"
        "apply_memory_and_processor_limits(Limits(processor_seconds=70), False)\n"
    )
    output = read_command_output_until_limit(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{higher}{show}"],
        LATEST_SECONDS,
        Limits(),
    )
    assert json.loads(output) == [50, 50]


def test_a_message_that_is_larger_than_the_limit_is_no_answer() -> None:
    served = Subprocess("tests.runners.hosting.served:build_handler", {}, limits=Limits(output_bytes=1000))
    served.receive(int)
    assert served.request("x", bytes(900), str)[1] == bytes(900)
    with pytest.raises(Exception, match="wrote what is no answer"):
        served.request("x", bytes(1000), str)


def test_a_file_where_the_command_was_typed_hides_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    served = Subprocess("tests.runners.hosting.served:build_handler", {})
    assert served.receive(int)[0] > 0
    served.stop()


def test_a_process_stopped_twice_at_once_closes_its_pipe_once(
    start: Callable[..., LimitedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start("pass")
    lifeline = process._lifeline
    closed: list[int] = []
    close = os.close

    def close_while_stopped_again(descriptor: int) -> None:
        closed.append(descriptor)
        if closed.count(descriptor) == 1:
            process.stop()
            close(descriptor)

    monkeypatch.setattr(os, "close", close_while_stopped_again)
    process.stop()
    assert closed.count(lifeline) == 1
