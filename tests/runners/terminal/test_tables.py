"""Answers as tables: the first rows at once, the number of all of them, and whole tables in files."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from runners.terminal import console
from runners.terminal.tables import as_text, show_first, table_of
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena


def rows_printed(out: str) -> int:
    return sum(line.startswith("│") for line in out.splitlines())


@pytest.mark.parametrize(("rows", "shown"), [(0, 0), (1, 1), (50, 50), (51, 50), (5_000, 50)])
def test_a_printed_answer_has_at_most_fifty_rows(qarena: Qarena, rows: int, shown: int) -> None:
    found = qarena("sql", f"SELECT range AS i, sum(range) OVER () AS s FROM range({rows})", "--archive", str(SAMPLE))
    assert found.code == 0
    assert rows_printed(found.out) == shown
    assert found.err == (f"{rows:,} rows; --output FILE for all\n" if rows > 50 else "")
    assert " i " in found.out


def test_a_file_has_all_rows(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena("sql", "SELECT range AS i FROM range(5000)", "--archive", str(SAMPLE), "--output", "all.txt")
    assert (found.code, found.out, found.err) == (0, "", "")
    assert rows_printed((tmp_path / "all.txt").read_text(encoding="utf-8")) == 5000


class Parts:
    """Rows that come part by part; the output so far is looked at before each part."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look

    def collect_schema(self) -> pl.Schema:
        return pl.Schema({"i": pl.Int64()})

    def sink_batches(self, take: Callable[[pl.DataFrame], None], **_options: object) -> None:
        for start in range(0, 300, 100):
            self.look()
            take(pl.DataFrame({"i": range(start, start + 100)}))


def test_the_first_rows_are_printed_before_the_others_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[int] = []
    parts = Parts(lambda: printed.append(rows_printed(capsys.readouterr().out)))
    show_first(parts, lambda: None, None)  # type: ignore[arg-type]
    assert printed == [0, 50, 0]
    assert capsys.readouterr() == ("", "300 rows; --output FILE for all\n")


def test_a_table_in_a_file_is_drawn_as_rich_draws_it() -> None:
    frame = pl.DataFrame(
        {"name": ["a", "two\nlines", "日本", "x\x1b[2J"], "n": [1, -22, None, 3], "list": [[1], [], None, [2, 3]]}
    )
    expected = io.StringIO()
    Console(file=expected, width=1 << 16).print(table_of(frame), crop=False, soft_wrap=True)
    assert as_text(frame).decode() == expected.getvalue()
    assert as_text(frame.clear()).decode().count("\n") == 4


def test_many_rows_are_drawn_quickly() -> None:
    table = table_of(pl.DataFrame({"i": range(20_000), "text": ["some text"] * 20_000}))
    before = time.process_time()
    assert sum(1 for _ in console.drawn(table)) == 20_004
    assert time.process_time() - before < 1.5
