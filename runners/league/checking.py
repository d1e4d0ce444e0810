"""``qarena league check``: looks at each entry as ``qarena agents check`` does, and writes what is wrong beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from analytics.store.texts import format_count_with_noun, to_line
from quarto.errors import ArenaError, RequestError, suggest_valid_names
from runners.authoring.agent_check import CheckResult, format_check_results, run_checks
from runners.league.entries import build_entry_spec
from runners.league.entry_reports import REPORTS_FOLDER, remove_league_path, report_path, write_entry_report
from runners.league.league_file import LEAGUE_FILE, Entry, League

DEFAULT_SECONDS = 60.0  # for each entry
CAN_PLAY = "can play"  # the subject of the only result of an entry that cannot be built
HARMLESS_SUBJECTS = frozenset({"repeatable", "no memory between games", "prints"})  # faults that forfeit no game
FINE, PLAYS, FORFEITS, CANNOT_PLAY = range(4)  # what the faults of an entry mean for the league, the worst last
VERDICTS = {  # for the author of an entry
    FINE: "{name} is ready to play.",
    PLAYS: "{name} plays and forfeits nothing, but what is marked FAIL should be mended: its games cannot be repeated.",
    FORFEITS: "{name} plays, and forfeits every game in which a fault marked FAIL occurs.",
    CANNOT_PLAY: "{name} cannot play until the fault marked FAIL is mended. The league goes on without it.",
}
SUMMARIES = {  # for the organiser, in front of the names of entries
    CANNOT_PLAY: "cannot play, so the league goes on without",
    FORFEITS: "forfeit the games in which such a fault occurs",
    PLAYS: "forfeit nothing, but may play other games another time",
}
ADVICE = {  # by agent; other entries are agents of the author's own
    "polito": 'docs/players_of_others.md, "If a player forfeits"',
    "engine": 'docs/engines.md, "Check it"',
}
OWN_ADVICE = 'docs/agents.md, "Checking"'


class EntryCheck(NamedTuple):
    """The result of checking one entry."""

    name: str
    is_fine: bool
    summary: str  # one line: what is wrong first, and where the rest is
    consequence: int = FINE  # one of ``FINE``, ``PLAYS``, ``FORFEITS``, ``CANNOT_PLAY``


def check_entries(
    league: League, isolation: str, max_seconds: float = DEFAULT_SECONDS, names: Sequence[str] = ()
) -> Iterator[EntryCheck]:
    """Check each entry, write a report beside it, and yield a summary. A broken entry does not stop the others.

    As in the league, games begin with its imposed plies, and entries have its limits.

    Args:
        league: The league.
        isolation: The value of the key ``isolation`` of entries that are not the project's own.
        max_seconds: The time limit for each entry.
        names: The entries to check; all if there are none.

    Raises:
        RequestError: The league has no entry of one of the names.
        FailureError: A report cannot be written.

    """
    for entry in select_entries(league, names):
        results = _run_entry_checks(league, entry, isolation, max_seconds)
        consequence = _find_consequence(results)
        report = _format_report(entry, results, consequence)
        write_entry_report(league.folder, entry.name, "\n".join(report))
        yield _summarise(league, entry, results, consequence)


def select_entries(league: League, names: Sequence[str]) -> list[Entry]:
    """Select the entries with these names, or all if there are none. Raises ``RequestError`` for an unknown name."""
    entries = {entry.name: entry for entry in league.entries}
    for name in names:
        if name not in entries:
            hint = suggest_valid_names(name, entries)
            raise RequestError(f"{league.folder / LEAGUE_FILE} has no entry {to_line(name, 80)!r}{hint}")
    return [entry for entry in league.entries if not names or entry.name in names]


def list_summary_lines(league: League, checks: Sequence[EntryCheck]) -> Iterator[str]:
    """Yield what the checks of several entries mean for the league."""
    faulty = [check for check in checks if not check.is_fine]
    if not faulty:
        return
    fine = f"{len(checks) - len(faulty):,} of {format_count_with_noun(len(checks), 'entry', 'entries')}"
    yield f"Nothing is wrong with {fine}. {league.folder / REPORTS_FOLDER} has a report for each author."
    for consequence, text in SUMMARIES.items():
        names = [check.name for check in faulty if check.consequence == consequence]
        if names:
            yield f"  {text}: {', '.join(names)}"


def _run_entry_checks(league: League, entry: Entry, isolation: str, max_seconds: float) -> list[CheckResult]:
    """Run the checks of ``qarena agents check`` on an entry. If it cannot be built, the only result says why."""
    try:
        spec = build_entry_spec(league, entry, isolation)
        plies = league.opening_plies
        return list(run_checks(spec, league.rules, league.seed, max_seconds=max_seconds, opening_plies=plies))
    except ArenaError as error:
        return [CheckResult(CAN_PLAY, False, remove_league_path(league.folder, str(error)))]


def _find_consequence(results: Iterable[CheckResult]) -> int:
    """Find what the faults of an entry mean for the league."""
    subjects = {result.subject for result in results if not result.is_fine}
    if CAN_PLAY in subjects:
        return CANNOT_PLAY
    return FORFEITS if subjects - HARMLESS_SUBJECTS else PLAYS if subjects else FINE


def _format_report(entry: Entry, results: Iterable[CheckResult], consequence: int) -> Iterator[str]:
    """Yield the lines of the report for the author: what the check means, its results, and where to read on."""
    yield VERDICTS[consequence].format(name=entry.name)
    yield ""
    yield from format_check_results(results)
    if consequence != FINE:
        yield ""
        yield f"What to do: {ADVICE.get(entry.settings['agent'], OWN_ADVICE)}."
        yield f"Check it again: qarena league check DIR {entry.name}"


def _summarise(league: League, entry: Entry, results: list[CheckResult], consequence: int) -> EntryCheck:
    faults = [result for result in results if not result.is_fine]
    if not faults:
        speed = next((result.text for result in results if result.subject == "speed"), "no fault")
        return EntryCheck(entry.name, True, speed)
    first = to_line(f"{faults[0].subject}: {faults[0].text.splitlines()[0]}", 200)
    more = f" and {format_count_with_noun(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""
    summary = f"{first}{more}, see {report_path(league.folder, entry.name)}"
    return EntryCheck(entry.name, False, summary, consequence)
