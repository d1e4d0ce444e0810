"""``qarena league check``: looks at each entry as ``qarena agents check`` does, and writes what is wrong beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analytics.store.texts import format_count_with_noun, to_line
from quarto.errors import ArenaError
from runners.authoring.agent_check import CheckResult, format_check_results, run_checks
from runners.league.entries import build_entry_spec
from runners.league.entry_reports import remove_league_path, report_path, write_entry_report
from runners.league.league_file import Entry, League

DEFAULT_SECONDS = 60.0  # for each entry


class EntryCheck(NamedTuple):
    """The result of checking one entry."""

    name: str
    is_fine: bool
    summary: str  # one line: what is wrong first, and where the rest is


def check_entries(league: League, isolation: str, max_seconds: float = DEFAULT_SECONDS) -> Iterator[EntryCheck]:
    """Check each entry, write a report beside it, and yield a summary. A broken entry does not stop the others.

    As in the league, games begin with its imposed plies, and entries have its limits.

    Args:
        league: The league.
        isolation: The value of the key ``isolation`` of entries that are not the project's own.
        max_seconds: The time limit for each entry.

    Raises:
        FailureError: A report cannot be written.

    """
    for entry in league.entries:
        results = _run_entry_checks(league, entry, isolation, max_seconds)
        write_entry_report(league.folder, entry.name, "\n".join(format_check_results(results)))
        yield _summarise(league, entry, results)


def _run_entry_checks(league: League, entry: Entry, isolation: str, max_seconds: float) -> list[CheckResult]:
    """Run the checks of ``qarena agents check`` on an entry. If it cannot be built, the only result says why."""
    try:
        spec = build_entry_spec(league, entry, isolation)
        plies = league.opening_plies
        return list(run_checks(spec, league.rules, league.seed, max_seconds=max_seconds, opening_plies=plies))
    except ArenaError as error:
        return [CheckResult("can play", False, remove_league_path(league.folder, str(error)))]


def _summarise(league: League, entry: Entry, results: list[CheckResult]) -> EntryCheck:
    faults = [result for result in results if not result.is_fine]
    if not faults:
        speed = next((result.text for result in results if result.subject == "speed"), "no fault")
        return EntryCheck(entry.name, True, speed)
    first = to_line(f"{faults[0].subject}: {faults[0].text.splitlines()[0]}", 200)
    more = f" and {format_count_with_noun(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""
    return EntryCheck(entry.name, False, f"{first}{more}, see {report_path(league.folder, entry.name)}")
