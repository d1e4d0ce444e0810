"""Runs compared: the differences of their settings and of their code, and the differences of their results.

Each run is compared with the first one. Runs of one seed have the same imposed openings: there the pairs of games are
compared one by one, which removes the luck of the openings. All other results are independent samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from analytics.questions.pace import compute_pace, format_games_a_second
from analytics.questions.pairings import AgentNames, PairingResult, load_results
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import Estimate, normal_quantile
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError

SHARES = ("score", "score_low", "score_high", "difference", "difference_low", "difference_high", "p")
RESULTS = {
    **dict.fromkeys(("first", "second", "run"), pl.String()),
    "games": pl.Int64(),
    **dict.fromkeys(SHARES, pl.Float64()),
    "shared_pairs": pl.Int64(),  # pairs of games with the same openings, compared one by one; 0: independent samples
}


@dataclass(frozen=True)
class RunComparison:
    """Runs and what differs between them. Frames have one row for each thing that is compared."""

    runs: tuple[str, ...]  # ids; the others are compared with the first
    settings: pl.DataFrame  # ``setting``, and a column for each run, named by its id: texts
    results: pl.DataFrame  # schema ``RESULTS``; scores and differences as shares, of the first agent
    speeds: pl.DataFrame  # ``run``, ``games``, ``seconds`` of play, ``games_a_second``
    regret: pl.DataFrame  # ``agent``, ``kind``, ``ply``, and the regret in half-points in each run, null: not judged
    agent_match_notes: tuple[str, ...] = ()  # sentences on agents that were taken for each other

    @property
    def tables(self) -> list[Table]:
        """The comparison for people; tables without rows are left out."""
        speeds, regret = self.speeds, self.regret
        found = [
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
        return [table for table in found if table.rows]


def _build_result_columns(rows: pl.DataFrame) -> list[ResultColumn]:
    ends = rows.select("difference_low", "difference_high").iter_rows()
    reaches = [
        MISSING if low is None else f"{_format_share_difference(low)} to {_format_share_difference(high)}"
        for low, high in ends
    ]
    return [
        *(text_column(name, rows[name]) for name in ("first", "second", "run")),
        number_column("games", rows["games"], drop_priority=3),
        number_column("score", rows["score"], format_percent),
        interval_column(rows["score_low"], rows["score_high"], drop_priority=2),
        number_column("difference", rows["difference"], _format_share_difference),
        ResultColumn("95 % interval", reaches),
        number_column("p", rows["p"], format_p_value),
        number_column("pairs", [pairs or None for pairs in rows["shared_pairs"]], drop_priority=4),
    ]


def _format_share_difference(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return format_signed(100 * share, 2)


def compare_runs(opened: OpenArchive, run_ids: Sequence[str]) -> RunComparison:
    """Compare runs with the first of them.

    Agents with the same label are compared. If each of two runs has exactly one agent that the other lacks, so are
    these. Raises ``RequestError`` for a run that is not there, for fewer than two runs, and for a run that is named
    twice; ``FailureError`` for damaged files.
    """
    if len(run_ids) < 2 or len({*run_ids}) < len(run_ids):
        raise RequestError(f"{' '.join(run_ids) or 'nothing'} cannot be compared: name two runs or more, each once")
    records = [opened.archive.load_requested_run(run_id) for run_id in run_ids]
    agents = [_match_agents(records[0], each) for each in records]
    found = pl.DataFrame(_compare_results(opened, records, agents), RESULTS, orient="row")
    return RunComparison(
        tuple(run_ids),
        _differing_settings_frame(records, agents),
        found,
        _speeds_frame(records, found),
        _regret_frame(opened, records, agents),
        tuple(
            f"{label} of run {record.run_id} is compared with {other} of run {records[0].run_id}"
            for record, own in zip(records, agents, strict=True)
            for label, other in own.items()
            if label != other
        ),
    )


def _match_agents(base: RunRecord, other: RunRecord) -> dict[str, str]:
    """The labels of the agents of ``other``, each with the label in ``base`` that it is compared with."""
    known = [label for label in base.labels if label not in other.labels]
    own = [label for label in other.labels if label not in base.labels]
    return {label: label for label in other.labels} | (
        dict(zip(own, known, strict=True)) if len(own) == len(known) == 1 else {}
    )


# What differs.


def _differing_settings_frame(records: Sequence[RunRecord], agents: Sequence[Mapping[str, str]]) -> pl.DataFrame:
    """The settings that are not the same in all runs: ``setting``, and a column of texts for each run."""
    found = [_list_settings(record, own) for record, own in zip(records, agents, strict=True)]
    left_out = CODE_PREFIX if all("modules" in record.code for record in records) else MODULE_PREFIX
    names = dict.fromkeys(name for each in found for name in each if not name.startswith(left_out))
    differing = [name for name in names if len({each.get(name) for each in found}) > 1]
    differing = [
        name for name in differing if not name.startswith(MODULE_PREFIX) or all(name in each for each in found)
    ]
    columns = {
        record.run_id: [each.get(name, MISSING) for name in differing]
        for record, each in zip(records, found, strict=True)
    }
    return pl.DataFrame({"setting": differing, **columns}, schema=dict.fromkeys(("setting", *columns), pl.String()))


CODE_PREFIX, MODULE_PREFIX = "code of ", "module "


def _list_settings(record: RunRecord, agents: Mapping[str, str]) -> dict[str, str]:
    """Everything on which the games of a run depend, by a name for people."""
    spec, code = record.spec, record.code
    found = {f"rules: {key}": _format_setting(value) for key, value in spec["rules"].items()}
    found |= {key: _format_setting(value) for key, value in spec.items() if key not in ("rules", "agents", "pairings")}
    found["games"] = _format_setting(record.games)
    found["agents"] = ", ".join(record.labels)
    for agent in spec["agents"]:
        name = agents[agent["label"]]
        rest = {key: value for key, value in agent.items() if key not in ("label", "params")}
        found |= {
            f"{name}: {key}": _format_setting(value) for key, value in {**rest, **agent.get("params", {})}.items()
        }
    found |= {f"{key} (version)": _format_setting(code.get(key)) for key in ("version", "python", "numba", "numpy")}
    found |= {f"{CODE_PREFIX}{agents[label]}": text for label, text in code.get("agents", {}).items()}
    for label, files in code.get("files", {}).items():
        found |= {f"file {name} of {agents[label]}": text[:CHECKSUM_DIGITS] for name, text in files.items()}
    return found | {f"{MODULE_PREFIX}{name}": text for name, text in code.get("modules", {}).items()}


CHECKSUM_DIGITS = 8  # of a file's SHA-256


def _format_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# Results.


class _ComparedPairing(NamedTuple):
    """A pairing of a run, as the agents of the first run."""

    record: RunRecord
    result: PairingResult
    is_swapped: bool  # the first agent of the first run is the second one here

    @property
    def score(self) -> Estimate:
        mean, low, high = self.result.score
        return Estimate(1 - mean, 1 - high, 1 - low) if self.is_swapped else Estimate(mean, low, high)


def _compare_results(
    opened: OpenArchive, records: Sequence[RunRecord], agents: Sequence[Mapping[str, str]]
) -> Iterator[tuple[Any, ...]]:
    """The rows of the results: pairing by pairing, in the order of the first run, those of others after them."""
    met: dict[tuple[str, str], list[_ComparedPairing]] = {}
    for record, own in zip(records, agents, strict=True):
        for result in load_results(opened.archive, record.run_id):
            both = own[result.first], own[result.second]
            turned = both not in met and both[::-1] in met
            met.setdefault(both[::-1] if turned else both, []).append(_ComparedPairing(record, result, turned))
    for (first, second), meetings in met.items():
        for each in meetings:
            row = first, second, each.record.run_id, each.result.games, *each.score
            if each is meetings[0] or meetings[0].record is not records[0]:
                yield (*row, None, None, None, None, None)
            else:
                difference, pairs = _compute_difference_and_pairs(opened, meetings[0], each)
                yield (*row, *difference, _compute_p_value(difference), pairs)


def _compute_difference_and_pairs(
    opened: OpenArchive, base: _ComparedPairing, other: _ComparedPairing
) -> tuple[Estimate, int]:
    """The score of ``other`` minus that of ``base``, and the number of pairs of games that had the same openings."""
    seeds = {each.record.opening_seed for each in (base, other)}
    alike = all(
        each.record.spec[key] == base.record.spec[key] for each in (base, other) for key in ("rules", "opening_plies")
    )
    if (
        alike
        and len(seeds) == 1
        and None not in seeds
        and base.record.has_independent_pairs
        and other.record.has_independent_pairs
    ):
        pairs, mean, variance = opened.sql(_paired_difference_sql(base, other)).row(0)
        if pairs > 1:
            reach = normal_quantile() * math.sqrt(variance / pairs)
            return Estimate(mean, max(-1.0, mean - reach), min(1.0, mean + reach)), pairs
    return _subtract_independent_estimates(base.score, other.score), 0


def _paired_difference_sql(base: _ComparedPairing, other: _ComparedPairing) -> str:
    """The question in SQL: how many pairs of games share an opening, the mean of their difference, its variance."""
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
    """The difference of two independent estimates, from their intervals.

    The method of variance estimates recovery, which is method 10 of R. G. Newcombe, "Interval estimation for the
    difference between independent proportions", Statistics in Medicine 17 (1998) 873-890.
    """
    mean = other.mean - base.mean
    down = math.hypot(other.mean - other.low, base.high - base.mean)
    up = math.hypot(other.high - other.mean, base.mean - base.low)
    return Estimate(mean, mean - down, mean + up)


def _compute_p_value(difference: Estimate) -> float:
    """The two-sided p-value that goes with the interval: below 0.05 if 0 is outside it. 1 if there is no difference."""
    mean, low, high = difference
    reach = mean - low if mean > 0 else high - mean
    if mean == 0:
        return 1.0
    return 2 * (1 - NormalDist().cdf(normal_quantile() * abs(mean) / reach)) if reach else 0.0


# Speed and regret.


def _speeds_frame(records: Iterable[RunRecord], results: pl.DataFrame) -> pl.DataFrame:
    """The pace of each run; ``results`` are the results."""
    games = dict(results.group_by("run").agg(pl.col("games").sum()).iter_rows())
    found = [
        (each.run_id, count := games.get(each.run_id, 0), each.seconds or None, compute_pace([(each, count)]))
        for each in records
    ]
    schema = {"run": pl.String(), "games": pl.Int64(), "seconds": pl.Float64(), "games_a_second": pl.Float64()}
    return pl.DataFrame(found, schema, orient="row")


def _regret_frame(
    opened: OpenArchive, records: Sequence[RunRecord], agents: Sequence[Mapping[str, str]]
) -> pl.DataFrame:
    """The regret of the agents that any two runs have, by kind and ply; a column for each run."""
    keys = ["agent", "kind", "ply"]
    found = pl.DataFrame(schema={"agent": pl.String(), "kind": pl.String(), "ply": pl.Int64()})
    for record, own in zip(records, agents, strict=True):
        judged = summarise_decisions(opened, f"run_id = '{record.run_id}'", True, AgentNames({}))
        judged = judged.select(pl.col("agent").replace(own), "kind", "ply", pl.col("regret").alias(record.run_id))
        found = found.join(judged, keys, "full", coalesce=True)
    return found.sort(keys)
