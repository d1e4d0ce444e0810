"""A report: everything that pictures and tables say about the chosen games, on one page without network or script.

Pictures are SVG that the renderer of Vega makes here, not Vega itself in the page: a picture is some 10 to 20 KB where
the library alone is 800, nothing runs in the reader's browser, and it prints. The same archive gives the same bytes:
the only times in it are those of the runs.
"""

from __future__ import annotations

from analytics.query.database import OpenArchive
from analytics.query.selection import EVERYTHING
from analytics.report import style
from analytics.report.figures.chosen_games import MOST_AGENTS, Subject, subject
from analytics.report.html import Html, document, element, joined, note
from analytics.report.sections import SECTIONS, Section


def report(opened: OpenArchive, where: str | None = None, title: str | None = None) -> str:
    """The page about the games that ``where`` chooses, a condition in SQL on the view ``games``; None: all games.

    Raises ``RequestError`` for a condition that is none or that no game meets, and without the extra ``plots``;
    ``FailureError`` for what is damaged.
    """
    style.altair()
    of = subject(opened, where)
    sections = [section(of) for section in SECTIONS]
    found = [section for section in sections if section.body]
    heading = title or f"Quarto: {of.selection.games:,} games"
    body = joined(
        [
            element("h1", heading),
            _summary(of),
            _contents(found),
            *(_headed(section) for section in found),
            _left_out([section for section in sections if not section.body]),
        ],
        "\n",
    )
    return document(heading, body)


def _summary(of: Subject) -> Html:
    """What the report is about, in a few sentences."""
    total, records = of.total, list(of.records.values())
    rules = sorted({record.rules.name for record in records})
    days = sorted({record.created[:10] for record in records})
    wins = [0, 0]
    for seat, (losses, _, won) in enumerate((total.results(0), total.results(1))):
        wins[seat] += won  # the pairing's first agent holds seat 0 in game 0, seat 1 in game 1
        wins[1 - seat] += losses
    shares = [f"{100 * count / total.games:.1f} %" for count in (*wins, total.draws)]
    begun = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    words = (
        f"{total.games:,} games between {_counted(len(of.games_of), 'agent')} in {_counted(len(records), 'run')}, "
        f"begun {begun}, under {', '.join(rules)} rules. Seat 0, which gives first, won {shares[0]}, seat 1 won "
        f"{shares[1]}, and {shares[2]} were drawn. A game took {total.plies / total.games:.2f} plies on average."
    )
    parts = [element("p", words)]
    if of.selection.where != EVERYTHING:
        parts.append(element("p", "Games chosen: ", element("code", of.selection.where)))
    if len(of.games_of) > MOST_AGENTS:
        parts.append(note(f"Shown are the {MOST_AGENTS} agents with the most games, of {len(of.games_of)}."))
    if len(rules) > 1:
        one = f"run_id IN (SELECT run_id FROM runs WHERE rules = '{rules[0]}')"  # noqa: S608  (shown, not asked)
        parts.append(
            note(
                "Crosstable, ratings and mistakes take all rules together. For one alone: --where ",
                element("code", one),
            )
        )
    return joined(parts, "\n")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _contents(found: list[Section]) -> Html:
    links = [element("a", section.title, href=f"#{_anchor(section)}") for section in found]
    return element("nav", joined(links, " "), aria_label="Sections")


def _headed(section: Section) -> Html:
    return element("section", element("h2", section.title), section.body, id=_anchor(section))


def _anchor(section: Section) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in section.title.lower())


def _left_out(missing: list[Section]) -> Html:
    if not missing:
        return Html("")
    lines = [element("li", f"{section.title}: {section.missing}.") for section in missing]
    return element("section", element("h2", "Left out"), element("ul", joined(lines, "\n")), id="left-out")
