"""The sections of a report about one subject, as the whole report has them."""

from __future__ import annotations

from analytics.questions.sql.database import OpenArchive
from analytics.report.page import find_subject
from analytics.report.report_data import select_report_data
from analytics.report.result import Result


def build_subject_sections(opened: OpenArchive, slug: str, where: str | None = None) -> list[Result]:
    """Build the sections about one subject, one for each rules where they differ by rules.

    Raises what ``render_report`` raises, and ``NotFoundError`` for an unknown subject.
    """
    subject, data = find_subject(slug), select_report_data(opened, where)
    return subject.build_sections(data, data.rated_parts_by_rules)
