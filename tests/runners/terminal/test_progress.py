"""Where there is no terminal, long work says now and then how far it is, also while nothing ends."""

from __future__ import annotations

import re
import time

import pytest

from runners.terminal.progress import progress_bar


def lines_of(capsys: pytest.CaptureFixture[str], wanted: bool) -> list[str]:
    with progress_bar("judging", "games", wanted) as bar:
        time.sleep(0.02)
        bar.start(24)
        bar.advance(12)
        time.sleep(0.02)
    return capsys.readouterr().err.splitlines()


def test_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(capsys, wanted=True) == []  # within the first minute
    monkeypatch.setattr("runners.terminal.progress.NOTE_SECONDS", 0.001)
    found: list[str] = []
    while not {"judging: after 0 s", "judging: 12 of 24 games after 0 s"} <= {*found}:  # the thread may get no turn
        found += lines_of(capsys, wanted=True)
    assert all(re.fullmatch(r"judging:( (0|12) of 24 games)? after \d+ s", line) for line in found)
    assert lines_of(capsys, wanted=False) == []
