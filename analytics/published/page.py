"""All comparisons as one page without network or script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from analytics.published import Study
from analytics.published.comparison import LEGEND, Comparison, MeasuredFigure, Reproduction, noted
from analytics.report.content import Cell, PageTable
from analytics.report.rendering import render
from analytics.results.columns import ResultColumn

TINTS = {"yes": 0.5, "no": -0.5}  # behind the answer to whether rates agree


def page(reproduction: Reproduction, made: str, plots: Mapping[str, str]) -> str:
    """The page. ``made`` says by which command; ``plots``: a chart as SVG by the letter of its study."""
    return render(
        "reproduction.html",
        title="Published figures and ours",
        made=made,
        legend=LEGEND,
        summary=reproduction.summary(),
        studies=[
            {
                "title": f"Study {study.study}: {study.title}",
                "source": study.source,
                "svg": plots.get(study.study),
                "table": _table(reproduction, study, comparisons),
            }
            for study, comparisons in reproduction.studies
        ],
        notes=[noted(note) for note in reproduction.notes],
    )


def _table(reproduction: Reproduction, study: Study, comparisons: Sequence[Comparison]) -> PageTable:
    """For our rates the labels of the agents appear as a hint."""
    columns = reproduction.columns(comparisons)
    marked = {
        "text": _cells(columns, "text", hints=[_hint(each.text) for each in comparisons]),
        "code": _cells(columns, "code", hints=[_hint(each.code) for each in comparisons]),
        "text_agrees": _cells(columns, "text_agrees"),
        "code_agrees": _cells(columns, "code_agrees"),
        "note": [Cell("", notes=tuple(reproduction.numbers(each))) for each in comparisons],
    }
    of_columns = {number: marked[name] for number, name in enumerate(columns) if name in marked}
    return PageTable.of(f"Study {study.study}: games won, in %", [*columns.values()], of_columns)


def _cells(columns: Mapping[str, ResultColumn], name: str, hints: Sequence[str] = ()) -> list[Cell]:
    texts = columns[name].texts if name in columns else ()
    return [Cell(text, hint=hint, tint=TINTS.get(text)) for text, hint in zip_longest(texts, hints, fillvalue="")]


def _hint(ours: MeasuredFigure | None) -> str:
    return f"{ours.player} v {ours.opponent}" if ours else ""
