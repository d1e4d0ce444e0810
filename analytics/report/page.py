"""A report: pictures and tables about the chosen games, on one page without network or script.

Pictures are SVG that the renderer of Vega makes here, not Vega itself in the page. A picture takes 10 to 20 KB; the
library alone takes 800. No code runs in the reader's browser, and the page can be printed. The same archive gives the
same bytes: the only times in a report are those of the runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from analytics.query.selection import EVERYTHING
from analytics.report import style
from analytics.report.figures import strength
from analytics.report.figures.reported_games import MOST_AGENTS, ReportedGames, reported_games
from analytics.report.pieces import piece_svg, piece_symbols
from analytics.report.sections import SECTIONS, ReportSection, crosstable_section, drawn, ratings_section
from analytics.sql.database import OpenArchive

if TYPE_CHECKING:
    from jinja2 import Environment


def report(opened: OpenArchive, where: str | None = None, title: str | None = None, named: Collection[str] = ()) -> str:
    """The page about the games that ``where`` chooses, a condition in SQL on the view ``games``; None: all games.

    Crosstables and ratings are by rules. They leave out trainings, but for the runs in ``named``.

    Raises ``RequestError`` for an invalid condition and when no game meets it, ``FailureError`` for damaged files.
    """
    chosen = reported_games(opened, where)
    parts, rules = chosen.by_rules(named), chosen.rules
    sections = [*chain.from_iterable(_of_one_rules(part, len(parts) > 1) for part in parts)]
    sections += [section(chosen) for section in SECTIONS]
    return render(
        "report.html",
        title=title or f"Quarto: {chosen.selection.games:,} games",
        summary=_summary(chosen),
        condition=None if chosen.selection.where == EVERYTHING else chosen.selection.where,
        agents=len(chosen.games_of),
        agents_shown=MOST_AGENTS,
        trainings=len(chosen.records) - sum(len(part.records) for part in parts),
        one_rules=f"run_id IN (SELECT run_id FROM runs WHERE rules = '{rules[0]}')" if len(rules) > 1 else None,  # noqa: S608  (shown, not asked)
        sections=[section for section in sections if not section.missing],
        missing=[section for section in sections if section.missing],
    )


def _of_one_rules(part: ReportedGames, several: bool) -> Iterator[ReportSection]:
    """The crosstable and the ratings of games by one set of rules, which are named if there are several."""
    for section in (crosstable_section, ratings_section):
        found = section(part)
        yield replace(found, title=f"{found.title}: {part.rules[0]}") if several else found


def mistakes_page(frame: pl.DataFrame, chosen: ReportedGames) -> str:
    """The page of ``qarena mistakes --html``: blunders by agent and ply. ``frame`` is ``mistakes_frame``'s, by ply."""
    figures = drawn(chosen, "mistakes", strength.mistakes_panels(frame, chosen))
    return render("mistakes.html", title=strength.TITLE, note=strength.HOW, figures=figures)


def _summary(chosen: ReportedGames) -> str:
    """The games, their results and their length, in a few sentences."""
    total, agents, runs = chosen.total, len(chosen.games_of), len(chosen.records)
    days = sorted({record.created[:10] for record in chosen.records.values()})
    wins = [0, 0]
    for seat, (losses, _, won) in enumerate((total.results(0), total.results(1))):
        wins[seat] += won  # the pairing's first agent holds seat 0 in game 0, seat 1 in game 1
        wins[1 - seat] += losses
    shares = [f"{100 * count / total.games:.1f} %" for count in (*wins, total.draws)]
    begun = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"{total.games:,} games between {_counted(agents, 'agent')} in {_counted(runs, 'run')}, begun {begun}, under "
        f"{', '.join(chosen.rules)} rules. Seat 0, which gives first, won {shares[0]}, seat 1 won {shares[1]}, and "
        f"{shares[2]} were drawn. A game took {total.plies / total.games:.2f} plies on average."
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def render(template: str, **values: object) -> str:
    """The page that a template makes of values. Raises ``jinja2.UndefinedError`` if it needs one that is not given."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape  # needed for pages only

    environment = Environment(
        loader=PackageLoader("analytics.report"),
        autoescape=select_autoescape(["html"]),  # style sheets are our own text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["piece_svg"] = piece_svg
    environment.globals["piece_symbols"] = piece_symbols
    environment.globals["agent_colours"] = style.AGENTS
    environment.globals["result_colours"] = style.RESULTS
    environment.globals["page_colours"] = {style.INK: "--ink", style.FAINT: "--faint", style.GRID: "--rule"}
    return environment
