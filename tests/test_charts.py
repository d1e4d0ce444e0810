"""Every chart is what the schema of Vega-Lite allows, which Altair has."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.report import style
from analytics.report.published import read_published_rates as published_figures
from analytics.report.published.reproduction import ComparedRate, build_chart
from analytics.report.style import SvgPicture
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative
from runners.web.archive import charts
from tests.analytics.chosen_games import add_decisions, add_policies, write_archive
from tests.analytics.indexed import write_draw_evaluations
from tests.analytics.subject_sections import build_subject_sections

pytestmark = pytest.mark.extras

SLUGS = ("ratings", "lengths", "learning", "mistakes", "evaluations")
ROWS = pl.DataFrame(
    {"a": [1, 2, 3], "b": [1.5, None, 4.0], "c": ["x", "y", "x"], "low": [1.0, 2.0, 3.0], "high": [2.0, 3.0, 5.0]}
)
CURVES = {
    "games": {"first_game": [0, 100], "games": [100, 100], "wins": [50, 60], "win_rate": [0.5, 0.6]},
    "generations": {"generation": [0, 1], "games": [10, 20], "best": [0.5, 0.6], "mean": [0.2, 0.5]},
    "strength": {"generation": [0], "games": [9], "strength": [0.5], "v a": [0.5], "v a low": [0.4], "v a high": [0.6]},
    "passes": {
        "pieces": [9, 9],
        "pass": [1, 2],
        "boards": [5, 5],
        "not_lost": [0.4, 0.3],
        "won": [0.3, 0.2],
        "held_out_not_lost": [0.2, 0.1],
        "held_out_won": [0.1, 0.1],
    },
}


def check_chart(spec: Spec) -> None:
    """Raise an error unless the schema allows a chart."""
    import altair as alt

    alt.Chart.from_dict(style.style_chart(spec, "title"))


def build_section_charts(root: Path) -> Iterator[Spec]:
    archive = write_archive(root)
    add_decisions(archive)
    add_policies(archive)
    write_draw_evaluations(archive, archive.list_ids_of_runs_with_games()[0])
    with open_archive(archive.root) as opened:
        for slug in SLUGS:
            sections = build_subject_sections(opened, slug)
            pictures = [figure.picture for section in sections for figure in section.figures]
            assert pictures, slug
            yield from (picture for picture in pictures if not isinstance(picture, SvgPicture))


def build_answer_charts() -> Iterator[Spec]:
    plans = [charts.plan_chart(ROWS, *names) for names in product(("line", "points"), ("a", "c"), ("b",), ("", "c"))]
    plans += [charts.plan_chart(ROWS, "bars", "a", "b", colour) for colour in ("", "c")]
    plans += [charts.ChartPlan(kind, "a", "b", None, "low", "high") for kind in ("line", "points")]
    plans += [charts.ChartPlan("heat map", x, y, "b", "low", "high") for x, y in (("a", "c"), ("c", "a"))]
    for plan in plans:
        picture = charts.build_chart(ROWS, plan, "title").picture
        assert not isinstance(picture, SvgPicture)
        yield picture


def build_curve_charts() -> Iterator[Spec]:
    return (style.build_curve_chart(pl.DataFrame(columns), 100, 100) for columns in CURVES.values())


def build_docs_charts() -> Iterator[Spec]:
    script = importlib.import_module("docs.strength_by_time")
    rows = pl.DataFrame({"picture": [script.ELO] * 2, "family": ["a", "b"], "us": [10.0, 99.0], "strength": [0.0, 9.0]})
    yield {"vconcat": [script.panel(rows, name, ["a", "b"]) for name in (script.ELO, script.WINS)]}


def build_comparison_charts() -> Iterator[Spec]:
    yield build_chart([ComparedRate(figure, None, None) for figure in published_figures()[:3]])


def test_the_schema_allows_every_chart(tmp_path: Path) -> None:
    specs = [
        *build_section_charts(tmp_path / "archive"),
        *build_answer_charts(),
        *build_curve_charts(),
        *build_comparison_charts(),
        *build_docs_charts(),
    ]
    assert len(specs) > 20
    for spec in specs:
        check_chart(spec)


@pytest.mark.parametrize("wrong", [{"mark": "lines"}, {"encoding": {"x": {"field": "a", "type": "number"}}}])
def test_the_schema_refuses_what_is_no_chart(wrong: Spec) -> None:
    right = {"data": inline_data(ROWS), **layer("line", {"x": quantitative("a"), "color": nominal("c")})}
    check_chart(right)
    with pytest.raises(Exception, match="Failed validating"):
        check_chart(right | wrong)
