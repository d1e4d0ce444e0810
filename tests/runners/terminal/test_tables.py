"""Answers as tables: the first rows at once, the number of all of them, and whole tables in files."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from analytics import open_archive
from analytics.exchange.export import ExportRequest, write_export
from analytics.report.frame_formats import format_text_table
from analytics.report.text_tables import build_rich_table, render_plain_table, to_table
from quarto.errors import RequestError
from runners.terminal.files import TableOutput, build_table_output
from runners.terminal.tables import output_frame, print_first_and_count_all_rows
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena


def count_printed_rows(out: str) -> int:
    return sum(line.startswith("│") for line in out.splitlines())


@pytest.mark.parametrize(("rows", "shown"), [(0, 0), (1, 1), (50, 50), (51, 50), (5_000, 50)])
def test_a_printed_answer_has_at_most_fifty_rows(qarena: Qarena, rows: int, shown: int) -> None:
    result = qarena("sql", f"SELECT range AS i, sum(range) OVER () AS s FROM range({rows})", "--archive", str(SAMPLE))
    assert result.code == 0
    assert count_printed_rows(result.out) == shown
    assert result.err == (f"{rows:,} rows; --output FILE for all\n" if rows > 50 else "")
    assert " i " in result.out


def test_a_file_has_all_rows(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("sql", "SELECT range AS i FROM range(5000)", "--archive", str(SAMPLE), "--output", "all.txt")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert count_printed_rows((tmp_path / "all.txt").read_text(encoding="utf-8")) == 5000


class BatchedRows:
    """Rows that come in batches; ``look`` is called before each batch."""

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
    parts = BatchedRows(lambda: printed.append(count_printed_rows(capsys.readouterr().out)))
    print_first_and_count_all_rows(parts, lambda: None, None)  # type: ignore[arg-type]
    assert printed == [0, 50, 0]
    assert capsys.readouterr() == ("", "300 rows; --output FILE for all\n")


def test_a_table_in_a_file_is_drawn_as_rich_draws_it() -> None:
    frame = pl.DataFrame(
        {"name": ["a", "two\nlines", "日本", "x\x1b[2J"], "n": [1, -22, None, 3], "list": [[1], [], None, [2, 3]]}
    )
    expected = io.StringIO()
    Console(file=expected, width=1 << 16).print(build_rich_table(to_table(frame)), crop=False, soft_wrap=True)
    assert format_text_table(frame).decode() == expected.getvalue()
    assert format_text_table(frame.clear()).decode().count("\n") == 4


def test_many_rows_are_drawn_quickly() -> None:
    table = to_table(pl.DataFrame({"i": range(20_000), "text": ["some text"] * 20_000}))
    before = time.process_time()
    assert sum(1 for _ in render_plain_table(table)) == 20_004
    assert time.process_time() - before < 1.5


FORMULAS = ["=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"]
FRAME = pl.DataFrame(
    {
        "text": [*FORMULAS, "plain", "a=b", None, ""],
        "number": [-float(number) for number in range(12)],
        "kind": pl.Series(["-x", "y"] * 6, dtype=pl.Categorical),
        "=head\x1b": pl.Series([-1] * 12, dtype=pl.Decimal(38, 0)),
        "list": [["=x", "\x9b"]] * 12,
    }
)


def write_and_read_csv(form: str, path: Path) -> list[list[str]]:
    output_frame(FRAME, TableOutput(form, path))
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.reader(file)]


def test_for_a_spreadsheet_texts_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    heading, *rows = write_and_read_csv("spreadsheet", tmp_path / "x.csv")
    assert heading == ["text", "number", "kind", "'=head\\x1b", "list"]
    texts = [row[0] for row in rows]
    assert texts[:4] == [f"'{formula}" for formula in FORMULAS[:4]]
    assert texts[4:] == ["\\t=1", "\\r=1", "'\n=1", "'\uff1d1", "plain", "a=b", "", ""]
    assert [float(row[1]) for row in rows] == FRAME["number"].to_list()
    assert [row[2:4] for row in rows[:2]] == [["'-x", "-1"], ["y", "-1"]]


def test_for_a_spreadsheet_ids_that_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    numeric_texts = ["12345e678901", "123456789012", "000123456789", "1.5", "1,234", "1E+5"]
    texts = ["12345e67890f", "e12", "1e5e5", "1-0", ".", "1 2", "x1"]
    frame = pl.DataFrame({"run_id": [*numeric_texts, *texts], "12": [1e5] * 13})
    output_frame(frame, TableOutput("spreadsheet", tmp_path / "x.csv"))
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        heading, *rows = csv.reader(file)
    assert heading == ["run_id", "'12"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in numeric_texts), *texts]
    assert {row[1] for row in rows} == {"100000.0"}


def test_other_csv_changes_no_text_but_shows_its_control_characters(tmp_path: Path) -> None:
    heading, *rows = write_and_read_csv("csv", tmp_path / "x.csv")
    assert heading[3] == "=head\\x1b"
    assert [row[0] for row in rows[:4]] == FORMULAS[:4]
    assert rows[4][0] == "\\t=1"


@pytest.mark.parametrize("form", ["csv", "spreadsheet", "json", "table"])
def test_no_form_for_people_holds_a_control_character(tmp_path: Path, form: str) -> None:
    control_characters = [
        chr(code_point) for code_point in (*range(10), *range(11, 32), *range(127, 160), 0x202E, 0x2066, 0x2028)
    ]
    frame = pl.DataFrame({"x": ["".join(control_characters), *control_characters]})
    output_frame(frame, TableOutput(form, tmp_path / "x"))
    content = (tmp_path / "x").read_text(encoding="utf-8")
    assert not set(control_characters) & set(content)
    if form == "json":
        assert [row["x"] for row in json.loads(content)] == frame["x"].to_list()


def test_an_export_for_a_spreadsheet_has_the_rows_of_csv(tmp_path: Path) -> None:
    with open_archive(SAMPLE) as opened:
        exports = []
        for form in ("csv", "spreadsheet"):
            write_export(opened, ExportRequest(form, rows="games", sample=20), tmp_path / form)
            exports.append((tmp_path / form).read_text())
    assert exports[0] == exports[1]
    assert len([*csv.reader(io.StringIO(exports[0]))]) == 21


def test_a_spreadsheet_is_named_by_its_format_alone() -> None:
    assert build_table_output("spreadsheet", None).form == "spreadsheet"
    with pytest.raises(RequestError, match="spreadsheet"):
        build_table_output("spreadshet", None)
