"""A command under `ulimit -v` that a library aborts ends with one line."""

import faulthandler
import os
import resource
from collections.abc import Callable

import pytest

from runners.terminal import short_memory


def abort() -> None:
    faulthandler.disable()  # pytest's
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (abort, 1, "error: a library ended the command by SIGABRT, probably for want of memory; this process may use "),
        (lambda: os._exit(7), 7, ""),
    ],
)
def test_an_abort_is_one_line(
    command: Callable[[], None],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(short_memory, "limit", lambda: 1 << 30)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as caught:
        short_memory.carry_out(command)
    found = capsys.readouterr().err
    assert (caught.value.code, found.count("\n")) == (code, bool(said))
    assert found.startswith(said)


def test_without_a_limit_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_memory, "limit", lambda: None)
    monkeypatch.delattr("os.fork")
    done: list[int] = []
    short_memory.carry_out(lambda: done.append(1))
    assert done == [1]
