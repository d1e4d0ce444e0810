"""Tables fit the terminal if possible, are complete in a pipe, and are never read as markup."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from runners.terminal import console, tables
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

AGENTS = "agents=[random,dumb,semi_random,rule_based]"


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> Iterator[io.StringIO]:
    """Standard output as a terminal of so many columns."""
    screen = io.StringIO()
    with monkeypatch.context() as patched:
        terminal = Console(file=screen, force_terminal=True, width=width, color_system=None, highlight=False)
        patched.setattr(console, "out", lambda: terminal)
        yield screen


@pytest.mark.parametrize("width", [80, 200])
def test_the_tables_of_a_tournament_are_whole_on_any_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = play(tmp_path / "games", AGENTS, "games=20")
    with terminal(monkeypatch, width) as screen:
        console.show_outcome(outcome)
    lines = [line for line in screen.getvalue().splitlines() if line[:1] in "┏┃┡│└"]
    assert lines
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    text = screen.getvalue()
    for heading in ("agent", "score", "95 % interval", "games", "win", "draw", "loss", "semi_random", "second"):
        assert f" {heading} " in text
    assert ("win in seat 0" in text) == (width == 200)


def test_a_table_wider_than_the_terminal_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({f"column {i}": ["x" * 30] for i in range(10)})
    with terminal(monkeypatch, 60) as screen:
        tables.write(frame)
    assert screen.getvalue().count("x" * 30) == 10


def test_piped_tables_are_as_wide_as_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    tables.write(pl.DataFrame({"a": ["x" * 300], "b": [7]}))
    out = capsys.readouterr().out
    assert "x" * 300 in out
    assert "│ 7 │" in out


def test_text_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    tables.write(pl.DataFrame({"[bold]": ["agents=[random,dumb]", "[/foo]"]}))
    out = capsys.readouterr().out
    assert all(text in out for text in ("[bold]", "agents=[random,dumb]", "[/foo]"))


def test_what_a_terminal_would_obey_is_visible(capsys: pytest.CaptureFixture[str]) -> None:
    label = "\x1b]0;title\x07\x1b[31mred\u202eabc\x9b2J\r"
    seen = r"\x1b]0;title\x07\x1b[31mred\u202eabc\x9b2J\r"
    frame = pl.DataFrame({label: [label, "two\nlines", "Zoë 人"]})
    tables.write(frame)
    console.print_line(label)
    console.print_note(label)
    found = capsys.readouterr()
    assert found.out.count(seen) == 3
    assert found.err == seen + "\n"
    assert not set(found.out) & set("\x1b\x07\x9b\r\u202e")
    assert "Zoë 人" in found.out
    assert tables.as_csv(frame).decode().startswith(f'"{label}"\n')  # a file has the text as it is


def test_numbers_stand_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    tables.write(pl.DataFrame({"games": [7, 1000], "agent": ["a", "random"]}))
    assert "│     7 │ a      │" in capsys.readouterr().out


def test_what_csv_and_json_have_no_form_for(tmp_path: Path) -> None:
    frame = pl.DataFrame({"list": [[1, 2]], "struct": [{"a": 1}], "bytes": [b"\x01"], "none": [math.nan]})
    assert tables.as_csv(frame).decode().splitlines()[1].startswith('"[1, 2]","{""a"": 1}","""01"""')
    assert json.loads(tables.as_json(frame)) == [{"list": [1, 2], "struct": {"a": 1}, "bytes": "01", "none": None}]


def test_the_form_of_a_file_is_what_its_name_ends_with(tmp_path: Path) -> None:
    frame = pl.DataFrame({"games": [7]})
    for name in ("answer.csv", "answer.json", "answer.parquet", "answer.txt"):
        tables.write(frame, tables.output_of(None, tmp_path / name))
    assert (tmp_path / "answer.csv").read_text() == "games\n7\n"
    assert json.loads((tmp_path / "answer.json").read_text()) == [{"games": 7}]
    assert pl.read_parquet(tmp_path / "answer.parquet").equals(frame)
    assert "│     7 │" in (tmp_path / "answer.txt").read_text()


def test_views_with_lists_and_maps_can_be_saved_as_csv(qarena: Qarena, tmp_path: Path) -> None:
    assert qarena("sweep", "agent@a=dumb", "seed=1,2", "games=2").code == 0
    for view in ("runs", "sweeps"):
        found = qarena("sql", f"SELECT * FROM {view}", "--format", "csv")
        assert (found.code, found.err) == (0, "")
        assert len(found.out.splitlines()) == 3


def test_printed_commands_name_the_program_so_that_it_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(console.program()).exists()
    (tmp_path / "qarena").touch(mode=0o755)
    assert console.program() == "qarena"
