"""All comparisons as one page without network or script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analytics.published import Study
from analytics.published.comparison import HEADINGS, LEGEND, NUMBERS, Comparison, Reproduction, Row, noted, shown
from analytics.report.content import Cell, PageTable
from analytics.report.rendering import render

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
    rows = [reproduction.row(each) for each in comparisons]
    names = shown(rows)
    return PageTable(
        f"Study {study.study}: games won, in %",
        [getattr(HEADINGS, name) for name in names],
        [[_cell(name, row, each) for name in names] for row, each in zip(rows, comparisons, strict=True)],
        [column for column, name in enumerate(names) if name not in NUMBERS],
    )


def _cell(name: str, row: Row, comparison: Comparison) -> Cell:
    """A text of a row; for our rates the labels of the agents appear as a hint."""
    text: str = getattr(row, name)
    if name == "note":
        return Cell("", notes=tuple(map(int, text.split())))
    ours = {"text": comparison.text, "code": comparison.code}.get(name)
    hint = f"{ours.player} v {ours.opponent}" if ours else ""
    return Cell(text, hint=hint, tint=TINTS.get(text) if name.endswith("agrees") else None)
