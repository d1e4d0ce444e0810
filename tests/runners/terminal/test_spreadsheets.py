"""CSV commands no terminal, and what is made for a spreadsheet holds no formula."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.exchange.export import ExportRequest, export
from quarto.errors import RequestError
from runners.terminal.files import TableOutput, output_of
from runners.terminal.tables import write
from tests.paths import SAMPLE

FORMULAS = ["=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"]
FRAME = pl.DataFrame(
    {
        "text": [*FORMULAS, "plain", "a=b", None, ""],
        "number": [-float(each) for each in range(12)],
        "kind": pl.Series(["-x", "y"] * 6, dtype=pl.Categorical),
        "=head\x1b": pl.Series([-1] * 12, dtype=pl.Decimal(38, 0)),
        "list": [["=x", "\x9b"]] * 12,
    }
)


def written(form: str, path: Path) -> list[list[str]]:
    write(FRAME, TableOutput(form, path))
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.reader(file)]


def test_for_a_spreadsheet_texts_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    heading, *rows = written("spreadsheet", tmp_path / "x.csv")
    assert heading == ["text", "number", "kind", "'=head\\x1b", "list"]
    texts = [row[0] for row in rows]
    assert texts[:4] == [f"'{each}" for each in FORMULAS[:4]]
    assert texts[4:] == ["\\t=1", "\\r=1", "'\n=1", "'\uff1d1", "plain", "a=b", "", ""]
    assert [float(row[1]) for row in rows] == FRAME["number"].to_list()
    assert [row[2:4] for row in rows[:2]] == [["'-x", "-1"], ["y", "-1"]]


def test_other_csv_changes_no_text_but_shows_its_control_characters(tmp_path: Path) -> None:
    heading, *rows = written("csv", tmp_path / "x.csv")
    assert heading[3] == "=head\\x1b"
    assert [row[0] for row in rows[:4]] == FORMULAS[:4]
    assert rows[4][0] == "\\t=1"


@pytest.mark.parametrize("form", ["csv", "spreadsheet", "json", "table"])
def test_no_form_for_people_holds_a_control_character(tmp_path: Path, form: str) -> None:
    obeyed = [chr(each) for each in (*range(10), *range(11, 32), *range(127, 160), 0x202E, 0x2066, 0x2028)]
    frame = pl.DataFrame({"x": ["".join(obeyed), *obeyed]})
    write(frame, TableOutput(form, tmp_path / "x"))
    content = (tmp_path / "x").read_text(encoding="utf-8")
    assert not set(obeyed) & set(content)
    if form == "json":
        assert [row["x"] for row in json.loads(content)] == frame["x"].to_list()


def test_an_export_for_a_spreadsheet_has_the_rows_of_csv(tmp_path: Path) -> None:
    with open_archive(SAMPLE) as opened:
        found = []
        for form in ("csv", "spreadsheet"):
            export(opened, ExportRequest(form, rows="games", sample=20), tmp_path / form)
            found.append((tmp_path / form).read_text())
    assert found[0] == found[1]
    assert len([*csv.reader(io.StringIO(found[0]))]) == 21


def test_a_spreadsheet_is_named_by_its_format_alone() -> None:
    assert output_of("spreadsheet", None).form == "spreadsheet"
    with pytest.raises(RequestError, match="spreadsheet"):
        output_of("spreadshet", None)
