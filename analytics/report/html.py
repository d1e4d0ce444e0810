"""Pages that need no network and no script: HTML out of text, tables and pictures, everything escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape
from typing import NamedTuple

from analytics.report import style

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #222222; --faint: #666666; --rule: #e6e6e6; --row: #f6f7f8;
  --link: #0550ae; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 66rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .3rem; padding-top: .9rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.4rem 0 .2rem; }
p, ul { max-width: 46rem; margin: .4rem 0; }
a { color: var(--link); }
nav { margin: .8rem 0 0; display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
code { font-size: .92em; overflow-wrap: anywhere; }
.note, figcaption small, caption { color: var(--faint); }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap; }
caption { text-align: left; padding-bottom: .3rem; white-space: normal; }
th { font-weight: 600; text-align: right; border-bottom: 1px solid var(--faint); padding: .25rem .55rem;
  vertical-align: bottom; }
td { text-align: right; border-bottom: 1px solid var(--rule); padding: .22rem .55rem; }
tbody th { border-bottom: 1px solid var(--rule); font-weight: 400; vertical-align: baseline; }
.left, tbody th { text-align: left; }
tbody tr:hover { background: var(--row); }
.chip { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .45em; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: 1.2rem 1.5rem;
  align-items: end; margin: 1rem 0; }
.beside { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: center; }
.beside > .panels { flex: 0 1 19rem; }
figure { margin: 0; min-width: 0; }
figcaption { font-size: 13px; font-weight: 600; margin-bottom: .25rem; overflow-wrap: anywhere; }
figcaption small { display: block; font-weight: 400; }
figure svg { display: block; max-width: 100%; height: auto; }
details { margin: .6rem 0; }
summary { cursor: pointer; color: var(--link); }
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; }
  nav, details { display: none; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .wide { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td { padding: .1rem .25rem; }
  td.left { white-space: normal; }
  .chip, td { print-color-adjust: exact; }
}
"""

DARK = {"--paper": "#14171a", "--ink": "#e4e6e8", "--faint": "#a0a6ac", "--rule": "#31363b", "--row": "#1d2125"}
DARK_LINK = "#79b8ff"
MOST_TINT = 0.45  # opacity: text stays readable on it, on light and on dark paper


class Html(str):
    """Text that is HTML already: all other text is escaped where it enters a page."""

    __slots__ = ()


def html(text: str) -> Html:
    """Any text as HTML that shows it."""
    return text if isinstance(text, Html) else Html(escape(text))


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Several texts one after the other."""
    return Html(html(between).join(map(html, parts)))


def element(tag: str, *parts: str, **attributes: str) -> Html:
    """An element around texts; in the name of an attribute ``_`` is ``-``, and nothing at its end (``class_``)."""
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    given = "".join(f' {names[name]}="{escape(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{given}>{joined(parts)}</{tag}>")


def style_sheet() -> str:
    """The style sheet: everything in a picture that has a colour of ours gets its dark one on a dark screen."""
    swaps = {style.INK: "var(--ink)", style.FAINT: "var(--faint)", style.GRID: "var(--rule)"}
    agents = "".join(f".agent-{number} {{ background: {light}; }}\n" for number, (light, _) in enumerate(style.AGENTS))
    recoloured = "".join(_recoloured(colour, to) for colour, to in swaps.items())
    dark = "".join(
        f".agent-{number} {{ background: {dark}; }}\n" + _recoloured(light, dark)
        for number, (light, dark) in enumerate(style.AGENTS)
    )
    names = " ".join(f"{name}: {value};" for name, value in ({"--link": DARK_LINK} | DARK).items())
    night = f"@media screen and (prefers-color-scheme: dark) {{\n:root {{ {names} }}\n{dark}}}\n"
    return f"{STYLE}{agents}{recoloured}{night}"


def _recoloured(colour: str, to: str) -> str:
    return "".join(f'figure svg [{part}="{colour}"] {{ {part}: {to}; }}\n' for part in ("fill", "stroke"))


def document(title: str, body: str) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html(title)}</title>\n<style>{style_sheet()}</style>\n</head>\n<body>\n{html(body)}\n</body>\n</html>\n"
    )


class Tinted(NamedTuple):
    """A cell of a table on a colour: ``tint`` from -1 (the worse one) to 1 (the better one)."""

    text: str
    tint: float


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str | Tinted]], left: Sequence[int] = ()
) -> Html:
    """A table whose first column names its rows. Numbers are to the right, but for the columns counted in ``left``."""
    sides = ["left" if not place or place in left else "" for place in range(len(headings))]
    head = joined(_cell("th", name, side, scope="col") for name, side in zip(headings, sides, strict=True))
    body = [
        element(
            "tr",
            *(
                _cell("th" if not place else "td", each, sides[place], **({} if place else {"scope": "row"}))
                for place, each in enumerate(row)
            ),
        )
        for row in rows
    ]
    parts = (element("caption", caption), element("thead", element("tr", head)), element("tbody", joined(body, "\n")))
    return element(
        "div", element("table", *parts), class_="wide", tabindex="0", role="region", aria_label=plain(caption)
    )


def _cell(tag: str, content: str | Tinted, side: str, **attributes: str) -> Html:
    if side:
        attributes["class_"] = side
    if isinstance(content, Tinted):
        colour = "0,114,178" if content.tint > 0 else "213,94,0"
        attributes["style"] = f"background:rgba({colour},{MOST_TINT * min(1.0, abs(content.tint)):.2f})"
        content = content.text
    return element(tag, content, **attributes)


def note(*parts: str) -> Html:
    """A paragraph that says how to read what is beside it."""
    return element("p", *parts, class_="note")


def plain(text: str) -> str:
    """What a text says without its elements."""
    return unescape(re.sub("<[^>]*>", "", text)) if isinstance(text, Html) else text


def figure(picture: str, title: str, note: str = "") -> Html:
    """A picture in SVG under its title and a note."""
    words = element("figcaption", title, *([element("small", note)] if note else []))
    return element("figure", words, Html(picture), role="group", aria_label=plain(title))


def panels(figures: Iterable[Html]) -> Html:
    """Figures beside each other, as many as there is room for."""
    return element("div", joined(figures, "\n"), class_="panels")


def details(summary: str, *parts: str) -> Html:
    """What is shown when asked for."""
    return element("details", element("summary", summary), *parts)
