"""A result as text, page, Markdown, picture and data: each shows the rows of one frame."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.columns import Table, number_column, text_column
from analytics.questions.sql.database import OpenArchive
from analytics.report.page import SUBJECTS
from analytics.report.result import Result, render_results_page
from quarto.errors import FailureError, RequestError
from tests.analytics.subject_sections import build_subject_sections
from tests.paths import SAMPLE

FRAME = pl.DataFrame({"agent": ["a|b", "c"], "score": [0.25, 0.75]})
TABLE = Table("Scores", [text_column("agent", FRAME["agent"]), number_column("score", FRAME["score"], "{:.2f}".format)])
RESULT = Result("Read it so.", TABLE, title="Strength", frame=FRAME)


def test_a_result_prints_its_tables_and_its_note() -> None:
    out = str(RESULT)
    assert [line for line in out.splitlines() if "a|b" in line] == ["│ a|b   │  0.25 │"]
    assert out.splitlines()[0].rstrip() == "Scores"
    assert out.endswith("\nRead it so.")
    assert "Nothing to show: no games." in str(Result(missing="no games"))
    assert "0.25" in str(Result(frame=FRAME))  # a frame without a table is its own table


def test_the_text_of_a_result_is_a_text_in_a_notebook_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "a|b" in f"{RESULT}"
    assert capsys.readouterr().out == ""


def test_the_ending_of_a_file_names_its_format(tmp_path: Path) -> None:
    paths = {form: RESULT.write(tmp_path / f"x.{form}") for form in ("csv", "json", "parquet", "html", "md", "txt")}
    assert pl.read_csv(paths["csv"]).equals(pl.read_parquet(paths["parquet"]))
    assert pl.read_parquet(paths["parquet"]).equals(FRAME)
    assert json.loads(paths["json"].read_text()) == FRAME.to_dicts()
    assert paths["html"].read_text().count("a|b") == 1
    assert r"| a\|b | 0.25 |" in paths["md"].read_text()
    assert paths["txt"].read_text() == f"{RESULT}\n"
    with pytest.raises(RequestError, match="its format is not known, let it end with one of"):
        RESULT.write(tmp_path / "x.pdf")
    with pytest.raises(RequestError, match="there is no such picture"):
        RESULT.write(tmp_path / "x.svg")
    with pytest.raises(FailureError, match="cannot write"):
        RESULT.write(tmp_path / "nowhere" / "x.csv")


def test_a_section_of_a_report_is_a_result_with_a_picture(tmp_path: Path) -> None:
    with open_archive(SAMPLE) as opened:
        (section,) = build_subject_sections(opened, "lengths")
    assert section.write(tmp_path / "x.svg").read_text().startswith("<svg")
    assert section.frame.select("rules", "agent").n_unique() == len(section.figures)
    assert section._repr_html_().count("<svg") > 1


def list_undefined_colours(page: str) -> set[str]:
    """List the custom properties that a page uses and does not define."""
    used, defined = (set(re.findall(pattern, page)) for pattern in (r"var\((--[\w-]+)", r"(--[\w-]+)\s*:"))
    assert {"--ink", "--rule", "--faint"} <= used
    return used - defined


def test_an_output_defines_its_colours_and_leaves_the_rest_of_a_notebook_alone() -> None:
    with open_archive(SAMPLE) as opened:
        shown = opened.ratings(rules="classic")._repr_html_()
    assert "<svg" in shown
    (style,) = re.findall(r"(?s)<style>(.*?)</style>", shown)
    selectors = [rule.partition("{")[0].strip() for rule in style.split("}") if rule.strip()]
    alone = [selector for rule in selectors for selector in re.split(r",\s*(?![^(]*\))", rule)]
    dark = ':is([data-jp-theme-light="false"], .vscode-dark, .dark) '
    assert {selector.removeprefix(dark).split()[0] for selector in alone} == {".qarena-result"}
    assert shown.count('<div class="qarena-result">') == 1
    assert shown.rstrip().endswith("</div>")
    assert "qarena-result" not in render_results_page([RESULT])  # a page has the colours of its own style


@pytest.mark.parametrize("slug", SUBJECTS)
def test_every_fragment_defines_the_colours_that_it_uses(slug: str) -> None:
    with OpenArchive(SAMPLE) as opened:
        sections = build_subject_sections(opened, slug)
    for page in (*(section._repr_html_() for section in sections), render_results_page(sections)):
        assert list_undefined_colours(page) == set()


def test_sections_of_notebooks_and_pages_have_the_same_layout() -> None:
    (styles,) = re.findall(r"(?s)<style>(.*?)</style>", RESULT._repr_html_())
    (page_styles,) = re.findall(r"(?s)<style>(.*?)</style>", render_results_page([RESULT]))
    for selector in (".panels", ".beside", "figcaption", ".legend", ".piece", ":is(th, td).number", ".better-5"):
        rule = rf"(?m)^{{scope}}{re.escape(selector)} (\{{[^}}]*\}})"
        (shown,) = re.findall(rule.replace("{scope}", r"\.qarena-result "), styles)
        (reported,) = re.findall(rule.replace("{scope}", ""), page_styles)
        assert shown == reported, selector


def test_pandas_without_its_package_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RequestError, match="needs pandas, which is not installed: python -m pip install pandas"):
        RESULT.to_pandas()
