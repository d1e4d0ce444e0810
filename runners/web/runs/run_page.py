"""The page of a run: its results, its test of strength if it has one, and its properties."""

from __future__ import annotations

import shlex
from contextlib import suppress

import polars as pl

from analytics.questions.columns import Table, format_decimals, format_elo, format_interval, property_columns
from analytics.questions.sql.database import OpenArchive
from analytics.report.result import Result
from analytics.report.style import Figure
from analytics.statistics.sprt import Hypotheses, SequentialTest, estimate_strength, pair_counts_at_looks
from analytics.store import sprt_verdicts
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS
from quarto.errors import FailureError, RequestError
from runners.arena.sprt_output import describe_decision
from runners.web.archive import urls
from runners.web.archive.archive_page import ArchivePage, NameForm
from runners.web.archive.runs import RunRow, build_run_row, build_run_tables, find_run_record
from runners.web.archive.sections import build_crosstable_if_tournament
from runners.web.archive.table_views import MIN_SEARCHED_ROWS
from runners.web.runs.curves import build_sprt_figure

MAX_POINTS = 300  # looks of a test in its picture
TEST_COMMAND = "sprt"


def build_run_page(opened: OpenArchive, run_id: str) -> ArchivePage:
    """Build the page of a run with its results and properties. Raises ``NotFoundError`` if there is no such run."""
    row = build_run_row(opened, find_run_record(opened, run_id))
    title = f"{row.name.replace('`', ' ')} · run `{run_id}`" if row.name else f"Run `{run_id}`"
    crosstable = build_crosstable_if_tournament(opened, run_id)
    results: list[Table | Figure | Result | str] = [crosstable] if crosstable else []
    properties: list[Table] = []
    left_out: list[str] = []
    try:
        tables = build_run_tables(opened, row)
    except FailureError as error:
        left_out.append(error.for_command_line)
    else:
        results, properties = [*results, fold_if_long(tables[0]) if results else tables[0]], tables[1:]
    tests: list[Table | Figure | str] = []
    try:
        tests = build_test_parts(opened, row.record)
    except FailureError as error:
        left_out.append(error.for_command_line)
    parts = [*tests, *results, *properties]
    form = NameForm(urls.run_name_url(run_id), row.name, row.note)
    return ArchivePage(title, describe_progress(row), parts=parts, left_out=left_out, name_form=form)


def fold_if_long(table: Table) -> Table | Result:
    """Return a table of pairings as one that a page folds if it is long: the crosstable above it has its scores."""
    return Result(title=table.title, numbers=table) if len(table.text_rows) >= MIN_SEARCHED_ROWS else table


def describe_progress(row: RunRow) -> str:
    """Describe how many games a run has and, while it is played, how many it is to have and how fast it is."""
    games = f"{row.games_text} {'game' if row.games_text == '1' else 'games'} by {row.record.rules.name} rules"
    if row.status != "running":
        return games
    pace = f", {row.games_a_second:,.0f} games a second so far" if row.games_a_second else ""
    return f"Playing now: {games}{pace}"


def build_test_parts(opened: OpenArchive, record: RunRecord) -> list[Table | Figure | str]:
    """Build the tables and pictures of the sequential tests of a run, or of the test that is being played.

    The list is empty for a run that was not played for a test.
    """
    tests = []
    for verdict_id in record.verdicts:
        path = sprt_verdicts.verdict_path(opened.archive, record.run_id, verdict_id)
        verdict = sprt_verdicts.load_verdict(opened.archive, path)
        tests.append((verdict.hypotheses, verdict.most_pairs))
    if not tests and (hypotheses := parse_test_command(record.command)) is not None:
        tests.append((hypotheses, min(record.pairs, MAX_PAIRS)))
    return [part for test in tests for part in _build_parts_of_test(opened, record, *test)]


def parse_test_command(command: str) -> Hypotheses | None:
    """Parse the hypotheses in the command of a test, such as ``qarena sprt a b elo1=5``; None for any other command.

    They are stored only when the test has ended.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote
        return None
    if TEST_COMMAND not in words[:2]:
        return None
    values = {}
    for name, _, value in (word.partition("=") for word in words):
        if name in Hypotheses.__struct_fields__:
            with suppress(ValueError):
                values[name] = float(value)
    try:
        return Hypotheses(**values)
    except RequestError:
        return None


def load_test_path(
    opened: OpenArchive, record: RunRecord, hypotheses: Hypotheses, most_pairs: int
) -> tuple[SequentialTest, pl.DataFrame]:
    """Run a test on the stored games; return the test, and its ratio at each look.

    The columns of the frame are ``pairs`` and ``ratio``; it begins with no pairs.
    """
    outcomes = sprt_verdicts.read_outcomes(opened.archive, record.run_id, most_pairs)
    known = sprt_verdicts.select_known_outcomes(outcomes, 0)
    test, looks = SequentialTest(hypotheses, most_pairs), [(0, 0.0)]
    first = 0
    for end in pair_counts_at_looks(most_pairs):
        test.add_outcomes(known[first:end])
        first = end
        if test.pairs != end:
            break
        looks.append((test.pairs, test.ratio))
        if test.ended:
            break
    return test, pl.DataFrame(looks, {"pairs": pl.Int64(), "ratio": pl.Float64()}, orient="row")


def _build_parts_of_test(
    opened: OpenArchive, record: RunRecord, hypotheses: Hypotheses, most_pairs: int
) -> list[Table | Figure | str]:
    test, path = load_test_path(opened, record, hypotheses, most_pairs)
    if not test.pairs:
        return []
    thinned = (
        path if path.height <= MAX_POINTS else path.gather_every(-(-path.height // MAX_POINTS)).vstack(path.tail(1))
    )
    return [
        Table("Test of strength", property_columns(describe_test(record, test))),
        build_sprt_figure(thinned, hypotheses),
    ]


def describe_test(record: RunRecord, test: SequentialTest) -> dict[str, str]:
    """Describe the outcome of a test so far by its verdict, its log-likelihood ratio with bounds, and its counts."""
    hypotheses = test.hypotheses
    ratio, lower, upper = (format_decimals(value, 2) for value in (test.ratio, *hypotheses.bounds))
    undecided = "undecided after the most pairs that were allowed" if test.ended else "undecided so far"
    decision = describe_decision(test, record.pairings[0])
    strength = estimate_strength(test.counts).normalised_elo
    interval = format_interval(strength.low, strength.high, format_elo)
    return {
        "verdict": f"{test.accepted} is accepted: {decision}" if decision else undecided,
        "log-likelihood ratio": f"{ratio}; the test ends at {lower} or {upper}",
        "pairs": f"{test.pairs:,} of at most {test.most:,}",
        "pairs by result: LL, LD, DD or WL, WD, WW": ", ".join(f"{count:,}" for count in test.counts),
        "strength": f"{format_elo(strength.mean)} normalised Elo, 95 % interval {interval}",
        "errors": f"alpha {hypotheses.alpha:g}, beta {hypotheses.beta:g}",
    }
