"""The questions of the cookbook as values are those of the page."""

import re

from analytics.query.questions import questions
from tests.paths import ROOT


def test_all_forty_questions_are_there_with_their_sql() -> None:
    page = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    found = questions()
    assert [each.number for each in found] == list(range(1, 41))
    assert [each.sql for each in found] == re.findall(r"```sql\n(.*?)\n```", page, re.DOTALL)
    assert all(f"### {each.number}. {each.title}\n" in page and "\n" not in each.title for each in found)
    assert found[0].note == "The score counts a draw as half a win. The interval belongs to the share of games won."
    assert found[1].note == ""
    assert list(dict.fromkeys(each.section for each in found)) == [
        "Results",
        "Plies",
        "Boards",
        "Openings and positions",
        "Exact values, agents and policies",
        "Tactics",
    ]
