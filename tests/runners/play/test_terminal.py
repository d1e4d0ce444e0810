"""`qarena play` at a real terminal: a whole game is typed into tmux and read from its screen."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.notation import format_game
from tests.runners.experiments import QARENA, build_shell_environment, read_archive_rows

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed (apt install tmux)")

DEADLINE = 120  # seconds that nothing here takes


class Terminal:
    """A terminal of its own, in which somebody types."""

    def __init__(self, folder: Path, columns: int, rows: int, *arguments: str) -> None:
        self._home = TemporaryDirectory(prefix="qarena-")  # not the test folder: a path to a socket must be short
        # Ctrl-C reaches the shell as well, which must outlive it to report how the program ended.
        typed = f"trap : INT; {shlex.join([QARENA, *arguments])}; echo left with $?; sleep {DEADLINE}"
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "-u", "new-session", "-d", *size, "-c", str(folder), "sh", "-c", typed)

    def _tmux(self, *arguments: str) -> str:
        environment = build_shell_environment(LC_ALL="C.UTF-8", TERM="screen-256color")
        for name in ("COLUMNS", "LINES"):  # of a terminal that the tests may run in
            environment.pop(name, None)
        command = ["tmux", "-S", f"{self._home.name}/socket", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)
        self.press("Enter")

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def screen(self, *options: str) -> str:
        return self._tmux("capture-pane", "-p", *options)

    def read(self, *texts: str) -> str:
        """Return the screen once it shows all of these texts."""
        deadline = time.monotonic() + DEADLINE
        while not all(text in (screen := self.screen()) for text in texts):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        with suppress(subprocess.CalledProcessError):  # whatever ran in it has ended, and the terminal with it
            self._tmux("kill-server")
        self._home.cleanup()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_a_whole_game_at_a_terminal(terminals: list[Terminal], tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, 100, 40, "play", "dumb", "--name", "ada")
    terminals.append(terminal)
    screen = terminal.read("dumb gives you 0.", "place 0>")
    assert screen.startswith("human:ada (places first) against dumb; classic rules, seed 1, game 0\n")
    assert "pieces left" in screen
    assert "in hand" in screen
    assert "uncoloured" in screen

    terminal.type("c1 a")
    screen = terminal.read("dumb places A on a1 and gives you 1.", "place 1>")
    assert screen.startswith("human:ada")  # drawn anew, not below: two boards would not fit
    assert re.search(r"│▸██ A ██◂│|│▸█ A █◂│", screen)

    terminal.type("c1 4")
    terminal.read("c1 is taken by piece 0; free: b1 d1 a2", "place 1>")
    terminal.type("d4 b")
    terminal.read("dumb places B on b1", "place 2>")
    terminal.type("undo")
    screen = terminal.read("Taken back: 2 plies.", "place 1>")
    assert "│   b1  │" in screen

    terminal.type("hint")
    terminal.read("1 finishes no line now.")
    terminal.type("b2")
    terminal.read("You place 1 on b2.", "give a piece>")
    terminal.type("4")
    terminal.read("dumb places 4 on b1", "place 2>")
    terminal.type("d1 9")
    screen = terminal.read("You win: a1 b1 c1 d1, all round.", "Logged as game 0", "rematch with the seats swapped")
    assert len(re.findall(r"│▌.{5}▐│▌.{5}▐│▌.{5}▐│▌.{5}▐│", screen)) == 3
    plies = [(0, 2), (10, 0), (1, 5), (4, 1), (2, 3)]
    assert f"Game: {format_game(plies)}\n" in screen
    assert "Mistake at ply 4 by dumb: giving 2 turned a draw into a loss" in screen
    terminal.type("y")
    screen = terminal.read("human:ada (gives first) against dumb; classic rules, seed 1, game 0", "give a piece>")
    terminal.type("resign")
    terminal.read("You resign", "rematch with the seats swapped")
    terminal.type("n")
    terminal.read("left with 0")

    tables = read_archive_rows(tmp_path / "data/archive")
    assert tables["plies"].filter(game_id=0).select("piece", "cell").rows() == plies
    assert set(tables["games"]["agent_1"]) == {"human:ada(hint,undo)", "dumb"}
    assert verify_archive(ArchiveStore.open(tmp_path / "data/archive")).problems == []


@pytest.mark.slow
def test_small_terminals_plain_ones_and_the_ways_to_leave(terminals: list[Terminal], tmp_path: Path) -> None:
    for folder in ("narrow", "low", "plain"):
        (tmp_path / folder).mkdir()
    narrow = Terminal(tmp_path / "narrow", 40, 40, "play", "dumb", "--no-log", "--name", "ada")
    low = Terminal(tmp_path / "low", 40, 24, "play", "dumb", "--no-log", "--name", "ada")
    plain = Terminal(tmp_path / "plain", 80, 60, "play", "dumb", "--no-log", "--name", "ada", "--plain")
    terminals += [narrow, low, plain]

    screen = narrow.read("place 0>")
    assert "┌───────┬───────┬───────┬───────┐" in screen
    assert "((*E#))" in screen  # the pieces left, in one line each row
    narrow.press("C-d")
    narrow.read("error: the input ended before the", "left with 1")

    screen = low.read("place 0>")
    assert "┌" not in screen
    assert "4     .        .        .        ." in screen
    low.press("C-c")
    low.read("The game is not finished, so it is not", "left with 130")

    plain.read("Pieces: [ ] square", "place 0>")
    plain.type("d4 F")
    screen = plain.read("place 1>")
    assert screen.count("place 0> d4 F") == 1  # typed and shown once, and still there
    assert "\x1b" not in plain.screen("-e")
    plain.type("quit")
    plain.read("You leave.", "left with 0")
