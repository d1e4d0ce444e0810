"""All comparisons as one page that needs no network and no script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from analytics.published.comparison import HEADINGS, LEGEND, NUMBERS, Comparison, Reproduction, noted, shown

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 2.5rem auto; max-width: 78rem;
  padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0; padding-top: 1rem; border-top: 1px solid #d8dee4; }
p { max-width: 52rem; }
.source, .made { color: #57606a; margin: 0 0 1rem; }
.summary { font-size: 1.05rem; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; white-space: nowrap; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #8c959f; padding: .3rem .7rem; }
td { border-bottom: 1px solid #eaeef2; padding: .25rem .7rem; }
tr:hover td { background: #f6f8fa; }
.number { text-align: right; }
.agrees-yes { color: #116329; background: #dafbe1; }
.agrees-no { color: #82071e; background: #ffebe9; }
a { color: #0550ae; text-decoration: none; }
li { max-width: 56rem; margin: .4rem 0; }
li:target { background: #fff8c5; }
figure { margin: 1.2rem 0; overflow-x: auto; }
svg { max-width: 100%; height: auto; }
"""


def page(reproduction: Reproduction, made: str, plots: Mapping[str, str]) -> str:
    """The page. ``made`` says how it was; ``plots``: an SVG picture by study, where there is one."""
    studies = "".join(
        f"<h2>Study {study.study}: {escape(study.title)}</h2>\n<p class=source>Source: {escape(study.source)}</p>\n"
        + _figure(plots.get(study.study), study.study)
        + _table(reproduction, comparisons)
        for study, comparisons in reproduction.studies
    )
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>Published figures and ours</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Published figures and ours</h1>\n<p class=made>{_marked(made)}</p>\n<p>{_marked(LEGEND)}</p>\n"
        f"<p class=summary>{escape(reproduction.summary())}.</p>\n{studies}{_notes(reproduction)}</body>\n</html>\n"
    )


def _marked(text: str) -> str:
    """Text in which only code is marked, as in Markdown."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _figure(plot: str | None, study: str) -> str:
    label = f"Published win rates of study {study} and ours, with their intervals"
    return f'<figure role=img aria-label="{label}">{plot}</figure>\n' if plot else ""


def _table(reproduction: Reproduction, comparisons: Sequence[Comparison]) -> str:
    rows = [reproduction.row(each) for each in comparisons]
    names = shown(rows)
    head = "".join(f"<th{_class(name)}>{escape(getattr(HEADINGS, name))}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(_cell(name, getattr(row, name), each) for name in names)}</tr>\n"
        for row, each in zip(rows, comparisons, strict=True)
    )
    return f"<div class=scroll><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"


def _cell(name: str, text: str, comparison: Comparison) -> str:
    ours = {"text": comparison.text, "code": comparison.code}.get(name)
    hint = f' title="{escape(f"{ours.player} v {ours.opponent}")}"' if ours else ""
    if name.endswith("agrees") and text in ("yes", "no"):
        return f"<td class=agrees-{text}>{text}</td>"
    if name == "note":
        links = " ".join(f'<a href="#note-{number}">{number}</a>' for number in text.split())
        return f"<td>{links}</td>"
    return f"<td{_class(name)}{hint}>{escape(text)}</td>"


def _class(name: str) -> str:
    return " class=number" if name in NUMBERS else ""


def _notes(reproduction: Reproduction) -> str:
    if not reproduction.notes:
        return ""
    items = "".join(
        f"<li id=note-{number}>{_marked(noted(note))}</li>\n" for number, note in enumerate(reproduction.notes, 1)
    )
    return f"<h2>Notes</h2>\n<ol>\n{items}</ol>\n"
