"""A report: pictures and tables about games, on one page that needs no network and no script.

The renderer of Vega makes the pictures as SVG when the report is written, because a picture takes 10 to 20 KB, but the
library of Vega takes 800 KB. The page can also be printed. The same archive gives the same bytes, because the only
times in a report are those of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from analytics.questions.columns import format_percent, format_plies
from analytics.questions.ranking import RANKING_RULE
from analytics.questions.selection import ALWAYS_TRUE
from analytics.questions.sql.database import OpenArchive
from analytics.report.rendering import render_template
from analytics.report.report_data import MAX_AGENTS, ReportData, select_report_data
from analytics.report.result import Result
from analytics.report.sections.evaluations import build_evaluations_overview, build_evaluations_section
from analytics.report.sections.learning import build_learning_overview, build_section_on_trained_policies
from analytics.report.sections.lengths import build_lengths_overview, build_lengths_section
from analytics.report.sections.mistakes import build_mistakes_section
from analytics.report.sections.openings import (
    build_first_gifts_overview,
    build_first_gifts_section,
    build_first_placements_overview,
    build_first_placements_section,
)
from analytics.report.sections.runs import build_runs_section
from analytics.report.sections.strength import build_crosstable_section, build_ratings_section
from analytics.store.texts import format_count_with_noun
from quarto.errors import NotFoundError, suggest_valid_names


class Subject(NamedTuple):
    """A subject of a report, with the function that builds the section about this subject."""

    slug: str
    name: str
    section_builder: Callable[[ReportData], Result]
    by_rules: bool = False  # whether it is about games by one set of rules, without trainings

    def build_section(self, data: ReportData, title_suffix: str = "") -> Result:
        """Build the section of this subject about the given games, with ``title_suffix`` at the end of its title."""
        return replace(self.section_builder(data), title=f"{self.name}{title_suffix}")

    def build_sections(self, data: ReportData, data_by_rules: Sequence[ReportData]) -> list[Result]:
        """Build the sections of this subject: one for all games of ``data``, or one for each of ``data_by_rules``.

        The subject's attribute ``by_rules`` decides which. If ``data_by_rules`` has several items, the titles of their
        sections name the rules.
        """
        if not self.by_rules:
            return [self.build_section(data)]
        return [
            self.build_section(rules_data, f": {rules_data.rules[0]}" if len(data_by_rules) > 1 else "")
            for rules_data in data_by_rules
        ]


SUBJECTS = {
    subject.slug: subject
    for subject in (
        Subject("crosstable", "Crosstable", build_crosstable_section, by_rules=True),
        Subject("ratings", "Ratings", build_ratings_section, by_rules=True),
        Subject("lengths", "Game lengths", build_lengths_section),
        Subject("placements", "First placements", build_first_placements_section),
        Subject("gifts", "First gifts", build_first_gifts_section),
        Subject("learning", "Learning curves", build_section_on_trained_policies),
        Subject("mistakes", "Mistakes", build_mistakes_section),
        Subject("evaluations", "Evaluations", build_evaluations_section),
        Subject("runs", "Runs", build_runs_section),
    )
}


class Insight(NamedTuple):
    """A question that one picture answers, with the function that builds the section with this picture."""

    slug: str  # of the subject of which this is the overview
    question: str
    build_overview: Callable[[ReportData], Result]


INSIGHTS = (
    Insight("lengths", "How long do games take?", build_lengths_overview),
    Insight("placements", "Where does the first piece go?", build_first_placements_overview),
    Insight("gifts", "Which piece is given first?", build_first_gifts_overview),
    Insight("evaluations", "What do agents expect of their turns?", build_evaluations_overview),
    Insight("learning", "How did policies learn?", build_learning_overview),
)
# Subjects with a page of their own; the insights share a page, and runs have other pages.
PAGE_SUBJECTS = [SUBJECTS[slug] for slug in ("crosstable", "ratings", "mistakes")]


def find_subject(slug: str) -> Subject:
    """Return the subject with this slug. Raises ``NotFoundError`` if there is none."""
    if slug not in SUBJECTS:
        raise NotFoundError(f"{slug!r} is no section of a report{suggest_valid_names(slug, SUBJECTS)}")
    return SUBJECTS[slug]


def render_report(
    opened: OpenArchive, where: str | None = None, title: str | None = None, included_trainings: Collection[str] = ()
) -> str:
    """Render the report about the games that meet ``where``, an SQL condition on the view ``games``.

    If ``where`` is None, the report is about all games. Each rule set has a crosstable and a table of ratings, which
    leave out the games of trainings, except those of the runs in ``included_trainings``.

    Raises ``RequestError`` if the condition is invalid or no game meets it, and ``FailureError`` for damaged files.
    """
    chosen = select_report_data(opened, where, included_trainings)
    data_by_rules, rules = chosen.rated_parts_by_rules, chosen.rules
    sections = [section for subject in SUBJECTS.values() for section in subject.build_sections(chosen, data_by_rules)]
    return render_template(
        "report.html",
        title=title or f"Quarto: {format_count_with_noun(chosen.selection.games, 'game')}",
        summary=_describe_games_and_results(chosen),
        condition=None if chosen.selection.where == ALWAYS_TRUE else chosen.selection.where,
        agents=len(chosen.games_by_agent),
        agents_shown=MAX_AGENTS,
        ranking_rule=RANKING_RULE,
        names=chosen.agent_names.notes,  # the names in all chosen games, including games that are not rated
        trainings=len(chosen.records) - sum(len(part.records) for part in data_by_rules),
        one_rules=f"run_id IN (SELECT run_id FROM runs WHERE rules = '{rules[0]}')" if len(rules) > 1 else None,  # noqa: S608  (shown, not asked)
        sections=[section for section in sections if not section.missing],
        missing=[section for section in sections if section.missing],
    )


def _describe_games_and_results(data: ReportData) -> str:
    """Describe the games in a few sentences: their number, period and rules, their results, and their mean length."""
    total, agents, runs = data.total_tally, len(data.games_by_agent), len(data.records)
    days = sorted({record.created[:10] for record in data.records.values()})
    wins = [0, 0]
    for seat, (losses, _, won) in enumerate((total.losses_draws_wins_in_game(0), total.losses_draws_wins_in_game(1))):
        wins[seat] += won  # the pairing's first agent holds seat 0 in game 0, seat 1 in game 1
        wins[1 - seat] += losses
    shares = [f"{format_percent(count / total.games)} %" for count in (*wins, total.draws)]
    period = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    agents_and_runs = f"{format_count_with_noun(agents, 'agent')} in {format_count_with_noun(runs, 'run')}"
    return (
        f"{format_count_with_noun(total.games, 'game')} between {agents_and_runs}, begun {period}, under "
        f"{', '.join(data.rules)} rules. Seat 0, which gives first, won {shares[0]}, seat 1 won {shares[1]}, and "
        f"{shares[2]} were drawn. A game took {format_plies(total.plies / total.games)} plies on average."
    )
