"""What a hostile player tries, by name; the file ``facts.json`` beside this one says where."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FACTS = Path(__file__).with_name("facts.json")
MAX_BYTES = 1 << 30  # if nothing stops an attack, it still ends
DESCRIPTORS = range(3, 64)


def read_secret(facts: dict[str, Any]) -> None:
    """Read a key in the home of whoever runs this."""
    Path(facts["secret"]).read_text(encoding="utf-8")


def list_neighbours(facts: dict[str, Any]) -> None:
    """Read the file of another entry."""
    Path(facts["neighbour"]).read_text(encoding="utf-8")


def write_outside(facts: dict[str, Any]) -> None:
    """Write a file outside the own folder."""
    Path(facts["outside"]).write_text("written", encoding="utf-8")


def write_inside(_: dict[str, Any]) -> None:
    """Write a file into the own folder."""
    FACTS.with_name("written").write_text("written", encoding="utf-8")


def connect(facts: dict[str, Any]) -> None:
    """Connect to a server of this machine."""
    with socket.create_connection(("127.0.0.1", facts["port"]), timeout=5) as connection:
        connection.sendall(b"here")


def send_variables(_: dict[str, Any]) -> None:
    """Find a password in the environment."""
    if not any("PASSWORD" in name for name in os.environ):
        raise LookupError("no password")


def fork_without_end(_: dict[str, Any]) -> None:
    """Start processes until there are no more."""
    for _number in range(2_000):
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)


def fill_tmp(_: dict[str, Any]) -> None:
    """Write to the folder of temporary files until it is full."""
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        while file.tell() < MAX_BYTES:
            file.write(b"x" * (1 << 20))


def fill_shared_memory(_: dict[str, Any]) -> None:
    """Write to the memory that processes share until it is full."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", buffering=0) as file:
        while file.tell() < MAX_BYTES:
            file.write(b"x" * (1 << 20))


def allocate_without_end(_: dict[str, Any]) -> None:
    """Take all memory."""
    chunks: list[bytearray] = []
    while len(chunks) * (1 << 24) < MAX_BYTES:
        chunks.append(bytearray(1 << 24))


def ignore_signals(_: dict[str, Any]) -> None:
    """Ignore all signals, and never answer."""
    for number in {*signal.Signals} - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def leave_grandchild(facts: dict[str, Any]) -> None:
    """Leave a process behind in a session of its own, and play on."""
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({facts['marker']})"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def write_garbage(_: dict[str, Any]) -> None:
    """Write to every open file, and never answer."""
    for descriptor in (1, *DESCRIPTORS):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, b"\xff" * 5_000)
        except OSError:  # not open, or not for writing
            continue
    time.sleep(1000)


def close_descriptors(_: dict[str, Any]) -> None:
    """Close every open file, and never answer."""
    os.closerange(0, DESCRIPTORS.stop)
    time.sleep(1000)


def end_supervisor(_: dict[str, Any]) -> None:
    """End every process in sight, this one last."""
    for process in sorted(Path("/proc").iterdir()):
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
    os.kill(os.getpid(), signal.SIGKILL)


def burn_time(_: dict[str, Any]) -> None:
    """Compute without end, in a child."""
    if os.fork() == 0:
        while True:
            pass
    time.sleep(1000)


def wait(_: dict[str, Any]) -> None:
    """Never answer."""
    time.sleep(1000)


def sleep(_: dict[str, Any]) -> None:
    """Do nothing for a while."""
    time.sleep(0.2)


def attack(name: str) -> None:
    """Carry out one of the functions above."""
    globals()[name](json.loads(FACTS.read_text(encoding="utf-8")))
