"""``qarena reproduce``: published pairings are played once, shown and written; wrong requests change nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analytics.published import figures, notes, notes_on
from analytics.published.comparison import LEGEND
from runners import reproduce
from tests.analytics.folders import snapshot
from tests.paths import ROOT
from tests.runners.conftest import Qarena

REPORT = ROOT / "docs/reproduction.md"  # of all figures, as found


def test_a_study_is_played_shown_and_written_and_then_only_read(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena(
        *["reproduce", "--study", "D", "--games", "20", "--archive", "games", "--markdown", "d.md", "--html", "d.html"]
    )
    assert (found.code, found.err) == (0, "")
    assert re.search(r"Study D: The mover chooses the piece .*\(games won, in %\)", found.out)
    assert re.search(r"│ D01 │ random +│ random +│ first +│ +47\.6 \(44\.5.50\.7\) │", found.out)
    assert re.search(
        r"^\d of 3 published figures agree with ours by the text, \d by the text or by the code\.$",
        found.out,
        re.MULTILINE,
    )
    assert "60 games played, all of them in games." in found.out
    before = snapshot(tmp_path / "games")
    text, html = (tmp_path / "d.md").read_text(), (tmp_path / "d.html").read_text()
    assert "Made by `qarena reproduce --study D --games 20" in text
    assert "| D03 | own_piece_alpha_beta | random | second |" in text
    assert html.count("<svg") == 1
    again = qarena("reproduce", "--study", "d", "--games", "20", "--archive", "games")
    assert (again.code, again.err) == (0, "")
    assert "Nothing to play: games has all games." in again.out
    assert again.out.split("Nothing")[0] == found.out.split("60 games")[0]
    assert snapshot(tmp_path / "games") == before
    assert "60 games played" in qarena("reproduce", "--study", "D", "--games", "40", "--archive", "games").out
    odd = qarena("reproduce", "--study", "D", "--games", "3", "--archive", "games")
    assert odd.err == "--games=3 is odd; games come in pairs with the seats swapped, so 4 will be played\n"
    assert "Nothing to play" in odd.out


def test_ctrl_c_says_how_to_continue(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopped() -> Iterator[threading.Event]:
        stop = threading.Event()
        stop.set()
        yield stop

    with monkeypatch.context() as patched:
        patched.setattr(reproduce, "interruptible", stopped)
        found = qarena("reproduce", "--study", "D", "--games", "20", "--seed", "7")
    assert found.code == 130
    assert found.err == (
        "interrupted; all games played so far are in the archive. To continue:\n"
        "  qarena reproduce --study D --games 20 --seed 7\n"
    )
    assert re.search(r"│ D01 │ random +│ random +│ first +│ +47\.6 \(44\.5.50\.7\) │$", found.out, re.MULTILINE)
    assert "3 have not been played yet." in found.out


def verdicts(report: str) -> dict[str, tuple[str, ...]]:
    """The answer of a Markdown report for each figure: yes or no by the text and, if that differs, by the code."""
    rows = [re.split(r" *\| *", line) for line in report.splitlines() if re.match(r"\| [A-E]\d\d ", line)]
    return {cells[1]: tuple(cell for cell in cells if cell in ("yes", "no")) for cells in rows}


def test_the_report_in_the_documentation_is_of_all_figures_and_explains_what_differs() -> None:
    text = REPORT.read_text(encoding="utf-8")
    assert LEGEND in text
    assert not [note for note in notes() if note.note not in text]
    found = verdicts(text)
    assert found.keys() == {figure.figure for figure in figures()}
    for name, said in found.items():
        assert said
        assert said[0] == "yes" or notes_on(name), f"{name} differs by the text and nobody says why"


@pytest.mark.slow
def test_all_figures_at_the_default_number_of_games_keep_their_verdicts(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena("reproduce", "--archive", "games", "--markdown", "all.md")
    assert (found.code, found.err) == (0, "")
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert verdicts(text) == verdicts(REPORT.read_text(encoding="utf-8"))
