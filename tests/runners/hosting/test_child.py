"""The pipe between a run and its children: requests, answers, errors, limits, and the end of all that a child began."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.base import LateError
from quarto.errors import FailureError, RemoteError
from runners.hosting.child import Child, ChildDiedError

SERVED = "tests.runners.hosting.served:serve"


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]  # elsewhere than on Linux there is none
    except OSError:
        return False


def test_requests_are_answered_until_the_child_and_all_it_started_are_ended() -> None:
    child = Child(SERVED, {}, b"ab")
    started, content = child.receive(int)
    assert content == b"abab"
    child.send("nothing")
    assert child.ask("x" * 100_000, bytes(range(256)) * 1000, str)[1][:2] == b"\xff\xfe"
    with pytest.raises(RemoteError, match=r"ValueError: a lone .* and 3 bytes") as raised:
        child.ask("raise", b"123", str)
    assert raised.value.raised_at.startswith("tests/runners/hosting/served.py:")
    assert "in answer" in raised.value.failed.traceback
    assert child.ask("it goes on", b"", str) == ("it goes on", b"")
    assert is_running(started) or sys.platform != "linux"
    child.end()
    child.end()
    deadline = time.monotonic() + 5
    while is_running(started):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("request_", "kind"), [("sleep", LateError), ("number", ChildDiedError)])
def test_a_child_that_does_not_answer_as_it_should_is_ended(request_: str, kind: type[Exception]) -> None:
    child = Child(SERVED, {})
    child.receive(int)
    with pytest.raises(kind):
        child.ask(request_, b"", str, seconds=0.5)
    with pytest.raises(ChildDiedError, match="signal 9"):
        child.send("more")


def test_an_error_for_the_user_stays_one() -> None:
    child = Child(SERVED, {"refuse": "no room"})
    with pytest.raises(RemoteError) as raised:
        child.receive(int)
    child.end()
    assert (type(raised.value.for_user("it")), str(raised.value.for_user("it"))) == (FailureError, "no room")
    nowhere = Child("runners.nowhere:serve", {})
    with pytest.raises(RemoteError, match="ModuleNotFoundError"):
        nowhere.receive(int)
    nowhere.end()


def test_the_childs_program_needs_the_standard_library_only() -> None:
    loaded = "import sys, runners.hosting.child_program; print(*{'numpy', 'msgspec', 'numba'} & {*sys.modules})"
    ended = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""
