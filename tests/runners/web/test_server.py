"""`qarena serve` before it serves: an impossible request is refused with one line."""

from __future__ import annotations

import inspect
import socket
import sys

import pytest

from runners.cli.games import serve
from tests.runners.conftest import Qarena


@pytest.mark.parametrize("library", ["python_multipart", "uvicorn"])
def test_without_the_extra_a_line_names_it(qarena: Qarena, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    for name in ("python_multipart", "uvicorn") if library == "python_multipart" else ("uvicorn",):
        monkeypatch.setitem(sys.modules, name, None)
    result = qarena("serve")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: qarena serve needs ")
    assert "pip install -e '.[web]'" in result.err


@pytest.mark.extras
def test_a_port_that_is_taken_is_one_line(qarena: Qarena) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = qarena("serve", "--port", str(port))
    assert result.code == 2
    assert result.err == (
        f"error: port {port} of 127.0.0.1 is in use, perhaps by another qarena serve: choose another one, "
        f"--port {port + 1}\n"
    )


@pytest.mark.extras
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--host", "192.0.2.1"), "--host 192.0.2.1 is not an address of this machine"),
        (("--host", "no.such.host.invalid"), "--host no.such.host.invalid is not an address of this machine"),
        (("--config-dir", "nowhere"), "--config-dir nowhere is not a folder"),
        (("--archive", "/proc"), "/proc is not an archive"),
    ],
)
def test_what_cannot_be_had_is_one_line(qarena: Qarena, arguments: tuple[str, ...], line: str) -> None:
    result = qarena("serve", "--port", "0", *arguments)
    assert result.code == 2
    assert result.err.startswith(f"error: {line}")
    assert result.err.count("\n") == 1


def test_only_this_machine_can_connect_unless_another_address_is_named() -> None:
    assert inspect.signature(serve).parameters["host"].default == "127.0.0.1"
