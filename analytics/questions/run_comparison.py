"""Comparison of runs: the differences of their settings and of their code, and the differences of their results.

Each run is compared with the first one. Runs of one seed have the same imposed openings; their pairs of games are
compared one by one, which removes the luck of the openings. All other results are independent samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

import polars as pl

from analytics.questions.columns import (
    MISSING,
    ResultColumn,
    Table,
    format_half_points,
    format_p_value,
    format_percent,
    format_seconds,
    format_signed,
    interval_column,
    number_column,
    text_column,
)
from analytics.questions.mistakes import summarise_decisions
from analytics.questions.pairings import AgentNames, PairingResult, load_results
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import Estimate, normal_quantile
from analytics.store.archive import find_run_id
from analytics.store.records import RunRecord, is_person
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError

SMALL_PACE = 10  # games a second: a lower pace is not shown as a whole number
SHARES = ("score", "score_low", "score_high", "difference", "difference_low", "difference_high", "p")
RESULTS = {
    **dict.fromkeys(("first", "second", "run"), pl.String()),
    "games": pl.Int64(),
    **dict.fromkeys(SHARES, pl.Float64()),
    "shared_pairs": pl.Int64(),  # pairs of games with the same openings, compared one by one; 0: independent samples
}


@dataclass(frozen=True)
class RunComparison:
    """The differences between several runs, in frames of settings, results, speeds and regret."""

    runs: tuple[str, ...]  # ids; the others are compared with the first
    settings: pl.DataFrame  # ``setting``, and a column for each run, named by its id: texts
    results: pl.DataFrame  # schema ``RESULTS``; scores and differences as shares, of the first agent
    speeds: pl.DataFrame  # ``run``, ``games``, ``seconds`` of play, ``games_a_second``
    regret: pl.DataFrame  # ``agent``, ``kind``, ``ply``, and the regret in half-points in each run, null: not judged
    agent_match_notes: tuple[str, ...] = ()  # sentences on agents with different labels that are compared
    # By run: the label of each agent in the run, by the label under which the agent is compared.
    own_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def tables(self) -> list[Table]:
        """The tables of the comparison for people, without empty tables."""
        speeds, regret = self.speeds, self.regret
        tables = [
            Table(
                "Settings and code that differ",
                [
                    text_column("setting", self.settings["setting"]),
                    *(text_column(run, self.settings[run]) for run in self.runs),
                ],
            ),
            Table(
                "Score of the first agent, in %, and its difference to the first run",
                _build_result_columns(self.results),
            ),
            Table(
                "Speed",
                [
                    text_column("run", speeds["run"]),
                    number_column("games", speeds["games"]),
                    number_column("seconds", speeds["seconds"], format_seconds),
                    number_column("games a second", speeds["games_a_second"], format_games_a_second),
                ],
            ),
            Table(
                "Regret in half-points, by ply",
                [
                    text_column("agent", regret["agent"]),
                    text_column("decision", regret["kind"]),
                    number_column("ply", regret["ply"]),
                    *(number_column(run, regret[run], format_half_points) for run in self.runs),
                ],
            ),
        ]
        return [table for table in tables if table.text_rows]


def _build_result_columns(rows: pl.DataFrame) -> list[ResultColumn]:
    intervals = [*map(format_difference_interval, rows["difference_low"], rows["difference_high"])]
    return [
        *(text_column(name, rows[name]) for name in ("first", "second", "run")),
        number_column("games", rows["games"], drop_priority=3),
        number_column("score", rows["score"], format_percent),
        interval_column(rows["score_low"], rows["score_high"], drop_priority=2),
        number_column("difference", rows["difference"], format_share_difference),
        ResultColumn("95 % interval", intervals),
        number_column("p", rows["p"], format_p_value),
        number_column("pairs", [pairs or None for pairs in rows["shared_pairs"]], drop_priority=4),
    ]


def format_share_difference(share: float) -> str:
    """Format a difference of shares in percentage points, with its sign."""
    return format_signed(100 * share, 2)


def format_difference_interval(low: float | None, high: float | None) -> str:
    """Format the interval of a difference of shares in percentage points; None becomes a dash."""
    if low is None or high is None:
        return MISSING
    return f"{format_share_difference(low)} to {format_share_difference(high)}"


def compare_runs(opened: OpenArchive, run_ids: Sequence[str]) -> RunComparison:
    """Compare the first of some runs with each of the others.

    Agents with the same label are compared. If two runs differ in exactly one agent, the two different agents are
    compared, too.

    Raises:
        RequestError: A run is not in the archive, a run is named twice, or fewer than two are named.
        FailureError: A file is damaged.

    """
    check_different(run_ids)
    run_ids = [find_run_id(opened.archive, run_id) for run_id in run_ids]
    check_different(run_ids)
    records = [opened.archive.load_run(run_id) for run_id in run_ids]
    agents = [_match_labels_and_lone_difference(records[0], record) for record in records]
    results = pl.DataFrame(_compare_results(opened, records, agents), RESULTS, orient="row")
    return RunComparison(
        tuple(run_ids),
        _differing_settings_frame(records, agents),
        results,
        _speeds_frame(records, results),
        _regret_by_ply_frame(opened, records, agents),
        tuple(
            f"{label} of run {record.run_id} is compared with {other} of run {records[0].run_id}"
            for record, matches in zip(records, agents, strict=True)
            for label, other in matches.items()
            if label != other
        ),
        {
            record.run_id: {other: label for label, other in matches.items()}
            for record, matches in zip(records, agents, strict=True)
        },
    )


def check_different(run_ids: Sequence[str]) -> None:
    """Raise ``RequestError`` unless these are at least two ids, all of them different."""
    if len(run_ids) < 2 or len({*run_ids}) < len(run_ids):
        raise RequestError(f"{' '.join(run_ids) or 'nothing'} cannot be compared: name two runs or more, each once")


def _match_labels_and_lone_difference(base: RunRecord, other: RunRecord) -> dict[str, str]:
    """Return, for each label in the run ``other``, the label in ``base`` with which it is compared.

    Equal labels match. If each run has exactly one label that the other run lacks, these two labels match, too.
    """
    base_only = [label for label in base.labels if label not in other.labels]
    other_only = [label for label in other.labels if label not in base.labels]
    return {label: label for label in other.labels} | (
        dict(zip(other_only, base_only, strict=True)) if len(other_only) == len(base_only) == 1 else {}
    )


# What differs.


def _differing_settings_frame(records: Sequence[RunRecord], agents: Sequence[Mapping[str, str]]) -> pl.DataFrame:
    """Return the settings in which the runs differ: the column ``setting``, and a column for each run.

    The columns of the runs are named by run id, and have the settings as text. ``agents`` has, for each run, the labels
    under which its agents are compared.
    """
    settings = [_list_settings(record, matches) for record, matches in zip(records, agents, strict=True)]
    omitted_prefix = CODE_PREFIX if all("modules" in record.code for record in records) else MODULE_PREFIX
    names = dict.fromkeys(
        name for run_settings in settings for name in run_settings if not name.startswith(omitted_prefix)
    )
    differing = [name for name in names if len({run_settings.get(name) for run_settings in settings}) > 1]
    differing = [
        name
        for name in differing
        if not name.startswith(MODULE_PREFIX) or all(name in run_settings for run_settings in settings)
    ]
    columns = {
        record.run_id: [run_settings.get(name, MISSING) for name in differing]
        for record, run_settings in zip(records, settings, strict=True)
    }
    return pl.DataFrame({"setting": differing, **columns}, schema=dict.fromkeys(("setting", *columns), pl.String()))


CODE_PREFIX, MODULE_PREFIX = "code of ", "module "


def _list_settings(record: RunRecord, matches: Mapping[str, str]) -> dict[str, str]:
    """Return, by name, the text of each setting on which the games of a run depend.

    The names are those that people see. Versions and fingerprints of code are settings, too. ``matches`` has the label
    under which each agent is compared, by the agent's label in this run.
    """
    spec, code = record.spec, record.code
    settings = {f"rules: {key}": _format_setting(value) for key, value in spec["rules"].items()}
    settings |= {
        key: _format_setting(value) for key, value in spec.items() if key not in ("rules", "agents", "pairings")
    }
    settings["games"] = _format_setting(record.games)
    settings["agents"] = ", ".join(record.labels)
    for agent in spec["agents"]:
        name = matches[agent["label"]]
        other_fields = {key: value for key, value in agent.items() if key not in ("label", "params")}
        settings |= {
            f"{name}: {key}": _format_setting(value)
            for key, value in {**other_fields, **agent.get("params", {})}.items()
        }
    settings |= {f"{key} (version)": _format_setting(code.get(key)) for key in ("version", "python", "numba", "numpy")}
    settings |= {f"{CODE_PREFIX}{matches[label]}": text for label, text in code.get("agents", {}).items()}
    for label, files in code.get("files", {}).items():
        settings |= {f"file {name} of {matches[label]}": text[:CHECKSUM_DIGITS] for name, text in files.items()}
    return settings | {f"{MODULE_PREFIX}{name}": text for name, text in code.get("modules", {}).items()}


CHECKSUM_DIGITS = 8  # of a file's SHA-256


def _format_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# Results.


class _ComparedPairing(NamedTuple):
    """The result of a pairing in one run, and whether its agents are in swapped order there.

    The order is swapped if it is the opposite of that in the first of the compared runs that has this pairing.
    """

    record: RunRecord
    result: PairingResult
    is_swapped: bool  # the first agent of the first run is the second one here

    @property
    def score_of_base_first_agent(self) -> Estimate:
        mean, low, high = self.result.score
        return Estimate(1 - mean, 1 - high, 1 - low) if self.is_swapped else Estimate(mean, low, high)


def _compare_results(
    opened: OpenArchive, records: Sequence[RunRecord], matches: Sequence[Mapping[str, str]]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of ``RESULTS``: first the pairings of the first run in order, then the pairings that it lacks.

    ``matches`` has, for each run, the label under which each of its agents is compared, by the agent's label.
    """
    pairings: dict[tuple[str, str], list[_ComparedPairing]] = {}
    for record, run_matches in zip(records, matches, strict=True):
        for result in load_results(opened.archive, record.run_id):
            agent_pair = run_matches[result.first], run_matches[result.second]
            is_swapped = agent_pair not in pairings and agent_pair[::-1] in pairings
            pairings.setdefault(agent_pair[::-1] if is_swapped else agent_pair, []).append(
                _ComparedPairing(record, result, is_swapped)
            )
    for (first, second), meetings in pairings.items():
        for meeting in meetings:
            row = first, second, meeting.record.run_id, meeting.result.games, *meeting.score_of_base_first_agent
            if meeting is meetings[0] or meetings[0].record is not records[0]:
                yield (*row, None, None, None, None, None)
            else:
                difference, shared_pairs = _compute_score_difference(opened, meetings[0], meeting)
                yield (*row, *difference, _compute_p_value(difference), shared_pairs)


class _ScoreDifference(NamedTuple):
    difference: Estimate
    shared_pairs: int  # pairs of games with the same openings; 0: the results are independent samples


def _compute_score_difference(opened: OpenArchive, base: _ComparedPairing, other: _ComparedPairing) -> _ScoreDifference:
    """Compute the score in ``other`` minus the score in ``base``, pair by pair if the openings were the same."""
    seeds = {pairing.record.opening_seed for pairing in (base, other)}
    has_same_settings = all(
        pairing.record.spec[key] == base.record.spec[key]
        for pairing in (base, other)
        for key in ("rules", "opening_plies")
    )
    if (
        has_same_settings
        and len(seeds) == 1
        and None not in seeds
        and base.record.has_paired_openings
        and other.record.has_paired_openings
    ):
        pairs, mean, variance = opened.sql(_paired_difference_sql(base, other)).row(0)
        if pairs > 1:
            half_width = normal_quantile() * math.sqrt(variance / pairs)
            difference = Estimate(mean, max(-1.0, mean - half_width), min(1.0, mean + half_width))
            return _ScoreDifference(difference, pairs)
    return _ScoreDifference(
        _subtract_independent_estimates(base.score_of_base_first_agent, other.score_of_base_first_agent), 0
    )


def _paired_difference_sql(base: _ComparedPairing, other: _ComparedPairing) -> str:
    """Return the query that compares the pairs of games in ``base`` and ``other`` that have the same opening.

    The query matches each pair of games in ``base`` with the pair in ``other`` that has the same opening. Its answer
    has the number of matches, and the mean and the sample variance of the difference in score (``other`` minus
    ``base``).
    """
    sides = []
    for pairing in (base, other):
        score = f"{'1 - ' if pairing.is_swapped else ''}(score_0 + score_1) / 2"
        sides.append(
            f"SELECT pair_id & {MAX_PAIRS - 1} AS number, {score} AS score "  # noqa: S608  (ids and numbers)
            f"FROM pairs WHERE run_id = '{pairing.record.run_id}' AND pairing = {pairing.result.pairing}"
        )
    return (
        "SELECT count(*), avg(two.score - one.score), var_samp(two.score - one.score) "  # noqa: S608  (of these)
        f"FROM ({sides[0]}) AS one JOIN ({sides[1]}) AS two USING (number)"
    )


def _subtract_independent_estimates(base: Estimate, other: Estimate) -> Estimate:
    """Return ``other`` minus ``base``, two independent estimates, with an interval computed from the two intervals.

    This is the method of variance estimates recovery: method 10 of R. G. Newcombe, "Interval estimation for the
    difference between independent proportions", Statistics in Medicine 17 (1998) 873-890.
    """
    mean = other.mean - base.mean
    lower_reach = math.hypot(other.mean - other.low, base.high - base.mean)
    upper_reach = math.hypot(other.high - other.mean, base.mean - base.low)
    return Estimate(mean, mean - lower_reach, mean + upper_reach)


def _compute_p_value(difference: Estimate) -> float:
    """Compute the two-sided p-value of a difference from the interval of the difference.

    The p-value is below 0.05 if the interval excludes 0, and 1 if the difference is 0.
    """
    mean, low, high = difference
    reach = mean - low if mean > 0 else high - mean
    if mean == 0:
        return 1.0
    return 2 * (1 - NormalDist().cdf(normal_quantile() * abs(mean) / reach)) if reach else 0.0


# Speed and regret.


def _speeds_frame(records: Iterable[RunRecord], results: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each run: its games, its seconds of play, and its games a second.

    ``results`` has the results of these runs, with the schema ``RESULTS``.
    """
    games = dict(results.group_by("run").agg(pl.col("games").sum()).iter_rows())
    rows = [
        (
            record.run_id,
            count := games.get(record.run_id, 0),
            record.seconds or None,
            compute_pace_without_people([(record, count)]),
        )
        for record in records
    ]
    schema = {"run": pl.String(), "games": pl.Int64(), "seconds": pl.Float64(), "games_a_second": pl.Float64()}
    return pl.DataFrame(rows, schema, orient="row")


def _regret_by_ply_frame(
    opened: OpenArchive, records: Sequence[RunRecord], matches: Sequence[Mapping[str, str]]
) -> pl.DataFrame:
    """Return the mean regret of each agent by kind of decision and ply, with a column for each run.

    ``matches`` has, for each run, the label under which each of its agents is compared, by the agent's label.
    """
    keys = ["agent", "kind", "ply"]
    regret = pl.DataFrame(schema={"agent": pl.String(), "kind": pl.String(), "ply": pl.Int64()})
    for record, run_matches in zip(records, matches, strict=True):
        run_regret = summarise_decisions(opened, f"run_id = '{record.run_id}'", True, AgentNames({}))
        run_regret = run_regret.select(
            pl.col("agent").replace(run_matches), "kind", "ply", pl.col("regret").alias(record.run_id)
        )
        regret = regret.join(run_regret, keys, "full", coalesce=True)
    return regret.sort(keys)


def compute_pace_without_people(runs: Iterable[tuple[RunRecord, int]]) -> float | None:
    """Return how many games a second were played in all runs together, or None if no run has recorded its time.

    Runs in which a person played are left out, because the person's thinking time would be attributed to the agent.

    Args:
        runs: Runs, each with the number of its games.

    """
    timed_runs = [(run, games) for run, games in runs if run.seconds and not any(map(is_person, run.labels))]
    seconds = sum(run.seconds for run, _ in timed_runs)
    return sum(games for _, games in timed_runs) / seconds if seconds else None


def format_games_a_second(pace: float | None) -> str:
    """Format a pace in whole games a second, or with two significant digits below ten; None becomes a dash."""
    if pace is None:
        return MISSING
    return f"{pace:,.0f}" if pace >= SMALL_PACE else f"{pace:.2g}"
