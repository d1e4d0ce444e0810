"""A second Ctrl-C prints nothing, wherever it comes."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from runners.hosting.interruption import interruptible, unprinted_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python calls the handler between two steps of a program
        pass


class Dying:
    """Hears the second Ctrl-C while it is finalized: Python prints exceptions from there, and goes on."""

    def __del__(self) -> None:
        press_ctrl_c()


def test_a_ctrl_c_in_a_finalizer_prints_nothing_and_other_errors_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("mine")

    printed: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: printed.append(found.exc_type))
    with unprinted_interrupts(), interruptible() as stop:
        press_ctrl_c()
        assert stop.is_set()
        Dying()
        assert printed == []
        Failing()
    assert printed == [ValueError]
