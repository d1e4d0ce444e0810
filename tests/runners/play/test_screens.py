"""Pictures are drawn only on terminals that can show them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from quarto.errors import RequestError
from runners.arena.spec import AgentSpec
from runners.play.logbook import HUMAN
from runners.play.screens import PictureScreen, Screen, screen_for


class Stream(io.TextIOWrapper):
    """Standard input or output, at a terminal or not."""

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="replace")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("typed_at", "shown_at", "plain", "term", "expected"),
    [
        (Stream(True), Stream(True), False, "xterm", PictureScreen),
        (Stream(True), Stream(True), True, "xterm", Screen),
        (Stream(True), Stream(True), False, "dumb", Screen),
        (Stream(False), Stream(True), False, "xterm", Screen),
        (Stream(True), Stream(False), False, "xterm", Screen),
        (Stream(True), Stream(True, "ascii"), False, "xterm", Screen),
        (Stream(True), Stream(True, "latin-1"), False, "xterm", Screen),
    ],
)
def test_pictures_need_a_terminal_that_can_draw_them(
    typed_at: Stream, shown_at: Stream, plain: bool, term: str, expected: type[Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", typed_at)
    monkeypatch.setattr("sys.stdout", shown_at)
    monkeypatch.setenv("TERM", term)
    assert type(screen_for(plain)) is expected


def test_a_person_cannot_be_made_by_a_run(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="people play by qarena play AGENT"):
        AgentSpec("human:ada", HUMAN, {}).build()
