"""Tables fit the terminal if possible, are complete in a pipe, and are never read as markup."""

from __future__ import annotations

import builtins
import io
import json
import math
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from rich.console import Console

from analytics.questions import columns, strength_tables
from analytics.questions.columns import MISSING, ResultColumn, text_column
from analytics.questions.pairings import PairingResult, build_crosstable
from analytics.report import frame_formats, text_tables
from analytics.statistics.tally import Tally
from runners.arena.execution import RunOutcome
from runners.config.application import print_outcome
from runners.terminal import console, files, tables
from runners.terminal.console import show_progress_bar_or_notes
from tests.runners.experiments import play

AGENTS = "agents=[random,dumb,semi_random,rule_based]"


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> Iterator[io.StringIO]:
    """Let standard output be a terminal of ``width`` columns inside the context; yield what is printed."""
    screen = io.StringIO()
    with monkeypatch.context() as patched:
        terminal = Console(file=screen, force_terminal=True, width=width, color_system=None, highlight=False)
        patched.setattr(console, "build_output_console", lambda: terminal)
        yield screen


@pytest.mark.parametrize("width", [80, 200])
def test_the_tables_of_a_tournament_are_whole_on_any_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = play(tmp_path / "games", AGENTS, "games=20")
    with terminal(monkeypatch, width) as screen:
        print_outcome(outcome, Path("qarena.log"))
    lines = [line for line in screen.getvalue().splitlines() if line[:1] in "┏┃┡│└"]
    assert lines
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    text = screen.getvalue()
    for heading in ("agent", "score", "95 % interval", "games", "win", "draw", "loss", "semi_random", "second"):
        assert f" {heading} " in text
    left_out = "Left out to fit 80 columns: win in seat 0, win in seat 1, plies (a wider terminal"
    assert (left_out in text) == (width == 80)


def test_a_large_tournament_is_printed_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = play(tmp_path / "games", AGENTS, "games=2")
    monkeypatch.setattr(strength_tables, "MAX_ROWS", 3)
    for module in (strength_tables, columns):
        monkeypatch.setattr(module, "MAX_OPPONENTS", 2)
    print_outcome(outcome, Path("qarena.log"))
    printed = capsys.readouterr()
    rows = [line for line in printed.out.splitlines() if line.startswith("│")]
    assert len(rows) == 3 + 3
    assert printed.out.splitlines()[2].split()[-4:-1:2] == [row.split()[3] for row in rows[:2]]
    remedy = f"crosstable --run {outcome.run_id} --archive {tmp_path / 'games'} --output FILE for all"
    omission_lines = [line for line in printed.err.splitlines() if remedy in line]
    assert [line.partition(";")[0] for line in omission_lines] == [
        "the first 3 of 4 agents are shown",
        "columns for the first 2 of 4 agents only",
        "the first 3 of 6 pairings are shown",
    ]


def test_a_clock_that_stands_still_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = play(tmp_path / "games", "agents=[random,dumb]", "games=2")
    print_outcome(replace(outcome, seconds=0.0), Path("qarena.log"))
    assert f"2 games in 0.0 s, {MISSING} games a second with every ply on disk" in capsys.readouterr().out


def test_what_is_piped_is_what_rich_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [ResultColumn("naïve", ["a", "日本"], right_aligned=False), ResultColumn("", ["1", "22"])]
    for title in ("", "日本", "a title that is longer than the table"):
        for ours in (True, False):
            monkeypatch.setattr(text_tables, "_can_render_plain", lambda *_, ours=ours: ours)
            console.print_tables([console.build_escaped_table(wide, title)])
        ours_and_theirs = capsys.readouterr().out.splitlines()
        half = len(ours_and_theirs) // 2
        if "longer" not in title:
            assert ours_and_theirs[:half] == ours_and_theirs[half:]
    monkeypatch.undo()
    assert not text_tables._can_render_plain(console.build_output_console(), console.build_escaped_table(wide, title))


def test_columns_for_which_a_terminal_has_no_room_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({f"column {i}": ["x" * 20] for i in range(10)})
    for wide, shown, way in ((None, 2, "a wider terminal"), (False, 2, "--wide shows them"), (True, 10, None)):
        with terminal(monkeypatch, 60) as screen:
            tables.output_frame(frame, files.TableOutput(wide=wide))
        text = screen.getvalue()
        assert text.count("x" * 20) == shown
        assert ("Left out to fit 60 columns: column 2, column 3" in text) == (way is not None)
        assert way is None or "column 7 and 2 more columns" in text
        assert (way or "") in text


def test_long_texts_go_on_in_the_next_line_where_a_terminal_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"agent": ["mcts(iterations=40,reuse=true,solver=true,safe_gifts=true)"], "games": [1234]})
    for width in (40, 80):
        with terminal(monkeypatch, width) as screen:
            tables.output_frame(frame)
        lines = screen.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        agent = "".join(line.split("│")[1].strip() for line in lines if "│" in line)
        assert agent == frame["agent"].item()
        assert "1234" in screen.getvalue()


def test_opponents_for_whom_there_is_no_room_are_left_out_from_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"an_agent_with_a_long_name_{number:02}" for number in range(30)]
    met = [PairingResult(0, a, b, Tally(singles=((1, 0, 2), (1, 1, 1))), False) for a, b in pairwise(names)]
    with terminal(monkeypatch, 80) as screen:
        table = text_tables.build_escaped_plain_table(strength_tables.build_crosstable_table(build_crosstable(met)))
        console.print_tables([table], *table.splits, wide=False)
    text = screen.getvalue()
    assert max(len(line) for line in text.splitlines() if line[:1] in "┏┃┡│└") <= 80
    assert " v 1 " in text
    assert "v 30" not in text.split("Left out")[0]
    assert "more columns (--wide shows them)." in text


def test_the_table_of_a_run_gives_no_interval_that_needs_its_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Share openings between all pairings: an agent's pairs are then dependent, and tallies give no interval."""
    results = [
        PairingResult(i, a, b, Tally(pairs=((2, 0, 1), (0, 1, 0), (3, 0, 2))), True)
        for i, (a, b) in enumerate(combinations("abc", 2))
    ]
    with terminal(monkeypatch, 200) as screen:
        outcome = RunOutcome("0123456789ab", results, 0xABC, 27, 0.5, False, False, tmp_path)  # the first half before
        print_outcome(outcome, tmp_path / "qarena.log")
    assert "holds 54 games, fingerprint 0000000000000abc" in screen.getvalue().replace("\n", " ")
    of_agents, of_pairings = screen.getvalue().split("Pairings (")
    assert "95 % interval" not in of_agents
    assert f"{console.find_program()} crosstable --run 0123456789ab --archive {tmp_path}" in of_agents
    assert "95 % interval" in of_pairings


def test_piped_tables_are_as_wide_as_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    tables.output_frame(pl.DataFrame({"a": ["x" * 300], "b": [7]}))
    out = capsys.readouterr().out
    assert "x" * 300 in out
    assert "│ 7 │" in out


def test_text_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    tables.output_frame(pl.DataFrame({"[bold]": ["agents=[random,dumb]", "[/foo]"]}))
    out = capsys.readouterr().out
    assert all(text in out for text in ("[bold]", "agents=[random,dumb]", "[/foo]"))


def test_a_title_and_a_label_are_no_markup_and_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("a[/bold]b", "[link=http://example.org]classic[/link]", ":warning: a")
    for text in texts:
        console.print_tables([console.build_escaped_table([text_column("x", [text])], text)])
        console.print_line(text)
        console.print_note(text)
    shown = capsys.readouterr()
    assert all(shown.out.count(text) == 3 and shown.err.count(text) == 1 for text in texts)


def test_what_a_terminal_would_obey_is_visible(capsys: pytest.CaptureFixture[str]) -> None:
    label = "\x1b]0;title\x07\x1b[31mred\u202eabc\x9b2J\r"
    seen = r"\x1b]0;title\x07\x1b[31mred\u202eabc\x9b2J\r"
    frame = pl.DataFrame({label: [label, "two\nlines", "Zoë 人"]})
    tables.output_frame(frame)
    console.print_line(label)
    console.print_note(label)
    output = capsys.readouterr()
    assert output.out.count(seen) == 3
    assert output.err == seen + "\n"
    assert not set(output.out) & set("\x1b\x07\x9b\r\u202e")
    assert "Zoë 人" in output.out
    assert frame_formats.format_csv(frame).decode().startswith(f"{seen}\n")


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("games=20", "games=20"),
        ("winner = 0", "'winner = 0'"),
        ("rules = 'classic' AND x", "\"rules = 'classic' AND x\""),
        ("it's $HOME", "'it'\"'\"'s $HOME'"),
        ('"a\'b"', "'\"a'\"'\"'b\"'"),
        ("", "''"),
    ],
)
def test_a_command_can_be_pasted_in_a_shell_and_read(word: str, shown: str) -> None:
    assert console.format_shell_line(["qarena", word]) == f"qarena {shown}"
    assert shlex.split(console.format_shell_line([word])) == [word]


def test_what_csv_and_json_have_no_form_for(tmp_path: Path) -> None:
    frame = pl.DataFrame({"list": [[1, 2]], "struct": [{"a": 1}], "bytes": [b"\x01"], "none": [math.nan]})
    assert frame_formats.format_csv(frame).decode().splitlines()[1].startswith('"[1, 2]","{""a"": 1}","""01"""')
    tables.output_frame(frame, files.build_table_output("json", tmp_path / "answer"))
    written = json.loads((tmp_path / "answer").read_text())
    assert written == [{"list": [1, 2], "struct": {"a": 1}, "bytes": "01", "none": None}]


def test_the_form_of_a_file_is_what_its_name_ends_with(tmp_path: Path) -> None:
    frame = pl.DataFrame({"games": [7]})
    for name in ("answer.csv", "answer.json", "answer.parquet", "answer.txt"):
        tables.output_frame(frame, files.build_table_output(None, tmp_path / name))
    assert (tmp_path / "answer.csv").read_text() == "games\n7\n"
    assert json.loads((tmp_path / "answer.json").read_text()) == [{"games": 7}]
    assert pl.read_parquet(tmp_path / "answer.parquet").equals(frame)
    assert "│     7 │" in (tmp_path / "answer.txt").read_text()


def test_printed_commands_name_the_program_so_that_it_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(console.find_program()).exists()
    (tmp_path / "qarena").touch(mode=0o755)
    assert console.find_program() == "qarena"


def print_progress(capsys: pytest.CaptureFixture[str], is_visible: bool) -> list[str]:
    with show_progress_bar_or_notes("judging", "games", is_visible) as bar:
        time.sleep(0.02)
        bar.start(24)
        bar.advance(12)
        time.sleep(0.02)
    return capsys.readouterr().err.splitlines()


def test_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert print_progress(capsys, is_visible=True) == []  # the work was short
    monkeypatch.setattr("runners.terminal.console.FIRST_NOTE_SECONDS", 0.001)
    first_lines: list[str] = []
    while not first_lines:  # the thread may get no turn
        first_lines = print_progress(capsys, is_visible=True)
    assert first_lines == ["judging …"]  # the next comes after a minute
    monkeypatch.setattr("runners.terminal.console.NOTE_SECONDS", 0.001)
    lines: list[str] = []
    while not {"judging: after 0 s", "judging: 12 of 24 games after 0 s"} <= {*lines}:  # the thread may get no turn
        lines += print_progress(capsys, is_visible=True)
    assert all(
        re.fullmatch(r"judging …|judging:( (0|12) of 24 games)? after \d+ s(, about 0 min left)?", line)
        for line in lines
    )
    assert print_progress(capsys, is_visible=False) == []


def test_the_time_left_goes_by_the_whole_pace_and_turns_are_shown_until_a_game_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("runners.terminal.console.time.monotonic", lambda: now)
    with show_progress_bar_or_notes("playing", "games", visible=False) as bar:
        (task,) = bar._bar.tasks
        assert bar._estimate_seconds_left(task) == 0.0  # no total yet
        bar.start(100, done=40)
        assert bar._estimate_seconds_left(task) == 0.0  # no pace yet
        bar.set_description("playing ann against bob")
        bar.report_turns(7)
        assert task.description == "playing ann against bob, 7 turns"
        now += 100.0
        bar.advance(20)
        assert task.description == "playing ann against bob"
        assert bar._estimate_seconds_left(task) == 200.0
        now += 100.0  # while nothing ends
        assert bar._estimate_seconds_left(task) == 400.0


class ZMQInteractiveShell:
    """Stands for the shell of a notebook's kernel, which Rich recognises by the name of its class."""


class NotebookOutput:
    """Stands for the output of a notebook's cell; ``texts`` are the states that it showed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> NotebookOutput:
        assert display_id
        self.update(data, raw=raw)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.texts.append(data["text/plain"])


def test_a_notebook_shows_a_bar_and_removes_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = NotebookOutput()
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=output.display))
    assert print_progress(capsys, is_visible=True) == []
    assert output.texts == []  # the work was short
    monkeypatch.setattr("runners.terminal.console.NOTEBOOK_SECONDS", 0.001)
    while not any("12/24 games" in text for text in output.texts):  # the thread may get no turn
        assert print_progress(capsys, is_visible=True) == []
    assert {"judging …", ""} <= {*output.texts}
    assert output.texts[-1] == ""
    states = len(output.texts)
    print_progress(capsys, is_visible=False)
    assert len(output.texts) == states
