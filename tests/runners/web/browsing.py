"""A server in a process of its own and a real browser, for tests of pages with their script."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.runners.experiments import QARENA, build_shell_environment

CHROMIUM = "/usr/bin/chromium"
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
PATIENCE = 180_000  # milliseconds: kernels may have to be compiled first
ROUND_ROBIN, SWEEP = "8d1cb3670fa3", "fe6afc128298"  # in the sample archive

needs_chromium = pytest.mark.skipif(
    not Path(CHROMIUM).exists(), reason="Chromium is not installed (apt install chromium)"
)


class RunningServer(NamedTuple):
    """A server in a process of its own."""

    home: str
    archive: Path


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving(archive: Path, port: int) -> Iterator[RunningServer]:
    """Serve an archive until the context ends."""
    command = [QARENA, "serve", "--port", str(port), "--archive", archive.name, "--name", "ada"]
    with subprocess.Popen(
        command, cwd=archive.parent, env=build_shell_environment(), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert f"http://127.0.0.1:{port}/" in server.stdout.readline()
        try:
            yield RunningServer(f"http://127.0.0.1:{port}", archive)
        finally:
            server.send_signal(signal.SIGHUP)
            assert server.wait(20) == 129


def wait_until_settled(tab: Any) -> None:
    """Wait until the page no longer reloads itself."""
    tab.locator("#content:not([data-refresh])").wait_for(state="attached")


def begin(tab: Any, agent: str = "rule_based") -> None:
    tab.goto(f"/play?agent={agent}")
    tab.get_by_role("button", name="Begin the game").click()
    tab.wait_for_url("**/play/game?**")
    wait_until_settled(tab)


def is_over(tab: Any) -> bool:
    return bool(tab.get_by_role("button", name="Rematch").count())


def act_and_wait(tab: Any, act: Callable[[], object]) -> None:
    """Do something that leads to another address, and wait until the page there is settled."""
    before = tab.url
    act()
    tab.wait_for_url(lambda url: url != before)
    wait_until_settled(tab)
