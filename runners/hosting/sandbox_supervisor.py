"""The supervisor of a sandbox: a process outside the sandbox that starts it, and without which it cannot exist.

The supervisor holds the lifeline to the run, which code inside could close. It also is the parent that bubblewrap's
``--die-with-parent`` needs: that option ends the sandbox with the thread that started it, and a run's threads come and
go. Its arguments are BINDING REQUEST: see ``subprocesses.bind`` for the first; the second is what ``LimitedProcess``
describes as JSON. It ends as the program in the sandbox ends.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.hosting.subprocesses import Sandbox, bind, block_signals

STANDARD_STREAMS = range(3)
MAX_USER_ID = (1 << 31) - 2  # beyond this, some programs take ids for negative numbers
MAX_FILE_BYTES = 1 << 16  # of a file in /proc: the ids of some thousand processes
SIGNAL_EXIT_CODE = 128  # bubblewrap adds it to the number of the signal that ended the program


def main(binding: str, request_text: str) -> None:
    """Start the sandbox that the request describes, and end as the program in it ends."""
    limits = bind(binding)
    request = json.loads(request_text)
    sandbox = Sandbox(*request["sandbox"])
    streams = [os.dup(stream) for stream in STANDARD_STREAMS]
    inherited = [*streams, *request["descriptors"]]
    program = [*request["program"], json.dumps([streams, *limits]), *request["arguments"]]
    with block_signals():  # until the program inside can ignore them
        process = subprocess.Popen(  # noqa: S603  (the run's command)
            [*sandbox.command, *build_rights_command(sandbox.processes), *program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=inherited,
            env=sandbox.variables,
        )
    _close_streams(inherited)
    signal.signal(signal.SIGUSR1, lambda number, _: _forward_signal(process.pid, number))
    _end_with_code(process.wait())


def build_rights_command(processes: int) -> list[str]:
    """Return the beginning of a command that gives up root's rights, if any, and limits the number of processes.

    It runs inside the sandbox. Root is replaced by a user that nothing else uses, because RLIMIT_NPROC does not apply
    to root and counts all processes of a user. Any other user has a user namespace in the sandbox, in which only the
    sandbox's processes count.
    """
    rights = []
    if os.getuid() == 0:
        user = _choose_unused_user_id()
        rights = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        rights += ["--inh-caps=-all", "--bounding-set=-all", "--"]
    return [*rights, "prlimit", f"--nproc={processes}:{processes}", "--core=0:0", "--"]


def _choose_unused_user_id() -> int:
    """Return the id of a user that has no name and no other sandbox, because it follows from the id of this process."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    count, first = max((int(count), int(first)) for first, _, count in map(str.split, lines))
    last = min(first + count - 1, MAX_USER_ID)
    start = last - os.getpid() % max(1, (last - first) // 2)
    return next(user for user in range(start, first, -1) if not _has_name(user))


def _has_name(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _close_streams(descriptors: Sequence[int]) -> None:
    """Close this process's copies of the sandbox's streams, so that the run notices when the program closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in STANDARD_STREAMS:
        os.dup2(null, stream)
    for descriptor in (null, *descriptors):
        os.close(descriptor)


def _forward_signal(bubblewrap_pid: int, number: int) -> None:
    """Send a signal to the program in the sandbox: the first child of the sandbox's first process."""
    for first_process in list_children(bubblewrap_pid):
        for program in list_children(first_process):
            with suppress(ProcessLookupError):
                os.kill(program, number)
            return


def list_children(pid: int) -> list[int]:
    """List the ids of the child processes of a process. The list is empty if the process has ended."""
    children: list[int] = []
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  (a turn waits for this; Path is twice as slow)
            with suppress(OSError):
                children += map(int, read_process_file(f"{pid}/task/{thread}/children").split())
    return children


def read_process_file(name: str) -> bytes:
    """Read a small file in /proc. Raises ``OSError`` if its process has ended."""
    descriptor = os.open(f"/proc/{name}", os.O_RDONLY)
    try:
        return os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)


def read_stat_fields(pid: int) -> list[bytes]:
    """Read the fields of ``/proc/PID/stat`` after the program's name, see proc(5).

    Raises ``OSError`` if the process has ended.
    """
    return read_process_file(f"{pid}/stat").rpartition(b")")[2].split()


def _end_with_code(code: int) -> None:
    """End this process as the program ended: with its exit code, or by the signal that ended it."""
    number = code - SIGNAL_EXIT_CODE if code > SIGNAL_EXIT_CODE else -code
    if number in {*map(int, signal.Signals)}:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(code if code >= 0 else SIGNAL_EXIT_CODE)


if __name__ == "__main__":
    arguments: Any = sys.argv[1:]
    main(*arguments)
