"""Mistakes of agents against perfect play, counted in the view ``decisions``, and the hardest positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from analytics.query.stored_rows import plies_of
from analytics.results.agent_codes import AgentNames, agent_names
from analytics.sql.database import OpenArchive
from analytics.sql.views import among
from analytics.statistics.clusters import ClusterSums
from analytics.statistics.intervals import mean_over_clusters, share_over_clusters
from analytics.store.range_files import read_tallies
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS
from quarto.canonical import canonical_position
from quarto.notation import format_position
from quarto.position import Position, from_plies
from quarto.rules import NONE, Rules

CANDIDATES = 20_000  # blunders, those with the fewest saving choices first, among which the hardest are sought

DECISIONS = {
    **dict.fromkeys(("agent", "kind"), pl.String()),
    **dict.fromkeys(("ply", "decisions"), pl.Int64()),
    **dict.fromkeys(("regret", "regret_low", "regret_high", "blunders", "blunders_low", "blunders_high"), pl.Float64()),
}


class HardPosition(NamedTuple):
    """A position in which few choices keep its value."""

    position: Position  # canonical
    rules: Rules
    kind: str
    value: int  # for the player that decides
    saving: int
    choices: int
    missed: int  # blunders there, among the candidates

    @property
    def text(self) -> str:
        return format_position(self.position, self.rules.name)


def decision_summaries(archive: OpenArchive, condition: str, by_ply: bool, names: AgentNames) -> pl.DataFrame:
    """A row for each agent, kind and, with ``by_ply``, ply of the decisions that meet a condition in SQL.

    By the schema ``DECISIONS``: ``regret`` is the mean of half-points given up, ``blunders`` the share of decisions
    that gave something up. Without ``by_ply``, ``ply`` is null. Intervals are 95 % ones over openings. The decisions of
    a pair of games are not independent, nor are those of all pairs with one imposed opening (L. Kish, "Survey
    Sampling", 1965, section 6.3).
    """
    ply = "ply" if by_ply else "NULL::INTEGER"
    of_clusters = f"""
        SELECT name, kind, {ply} AS of_ply, count(*) AS n, sum(regret)::BIGINT AS lost,
            count(*) FILTER (regret > 0) AS blunders
        FROM (SELECT * FROM decisions WHERE (\n{condition}\n)) JOIN judged USING (run_id, agent)
        GROUP BY name, kind, of_ply, origin, (game_id >> 1) & pair_bits"""  # noqa: S608  (a condition by design)
    values = ("n", "lost", "blunders", "n * n", "n * lost", "lost * lost", "n * blunders", "blunders * blunders")
    sums = ", ".join(f'sum({value})::BIGINT AS "{value}"' for value in values)
    columns = "name, kind, of_ply, count(*) AS clusters"
    text = f"SELECT {columns}, {sums} FROM ({of_clusters}) GROUP BY ALL ORDER BY ALL"  # noqa: S608  (names of columns)
    found = archive.sql(text, judged=_judged(archive, names))
    return pl.DataFrame(map(_summary, found.iter_rows(named=True)), DECISIONS, orient="row")


def _judged(archive: OpenArchive, names: AgentNames) -> pl.DataFrame:
    """Each agent of each run: its name, and which pairs of its games are one cluster.

    Pairs of games are one cluster if they agree in ``origin``, and in the bits of their number that ``pair_bits`` has.
    If openings follow from a seed and the number of the pair, these bits leave out the pairing.
    """
    rows = [
        (record.run_id, label, names.name(record.run_id, label), *_clustering(record))
        for record in archive.archive.runs()
        for label in record.labels
    ]
    return pl.DataFrame(rows, ("run_id", "agent", "name", "origin", "pair_bits"), orient="row")


def _clustering(record: RunRecord) -> tuple[str, int]:
    seed = record.opening_seed
    return (record.run_id, -1) if seed is None else (f"seed {seed}", MAX_PAIRS - 1)


def _summary(row: Mapping[str, Any]) -> tuple[str | float | None, ...]:
    regret, blunders = (
        ClusterSums(row["clusters"], row["n"], row[y], row["n * n"], row[f"n * {y}"], row[f"{y} * {y}"])
        for y in ("lost", "blunders")
    )
    estimates = *mean_over_clusters(regret, most=2.0), *share_over_clusters(blunders)
    return row["name"], row["kind"], row["of_ply"], row["n"], *estimates


def judged_agents(archive: OpenArchive, condition: str) -> AgentNames:
    """The names of the agents with decisions that meet a condition in SQL."""
    records = {record.run_id: record for record in archive.archive.runs()}
    pairs = archive.sql(f"SELECT DISTINCT run_id, agent FROM decisions WHERE (\n{condition}\n) ORDER BY ALL")  # noqa: S608  (a condition by design)
    return agent_names((records[run_id], agent) for run_id, agent in pairs.iter_rows())


def repeated_games(archive: OpenArchive, runs: Sequence[str]) -> list[str]:
    """A warning for each pairing of some runs whose games are copies of one or two: no interval sees that.

    This happens if two deterministic agents play without imposed openings.
    """
    alike = {
        (run_id, pairing)
        for run_id in runs
        for pairing, tally in read_tallies(archive.archive, run_id).items()
        if tally.pair_count > 1 and tally.pair_count in {*sum(tally.pairs, ()), *sum(tally.singles, ())}
    }
    if not alike:
        return []
    moves = f"""SELECT run_id, pairing, game_id, bit_xor(hash(ply, piece, cell)) AS moves FROM plies
        WHERE {among(sorted({run_id for run_id, _ in alike}))} GROUP BY ALL"""  # noqa: S608  (ids of runs)
    counts = f"SELECT run_id, pairing, count(*), count(DISTINCT moves) FROM ({moves}) GROUP BY ALL ORDER BY ALL"  # noqa: S608
    return [
        f"the {games:,} games of {' and '.join(archive.archive.known_run(run_id).pairings[pairing])} in run {run_id} "
        f"are {different} over and over, so their intervals mean nothing: play with opening_plies"
        for run_id, pairing, games, different in archive.sql(counts).iter_rows()
        if (run_id, pairing) in alike and different <= 2 < games
    ]


def hardest_positions(archive: OpenArchive, runs: Sequence[str], count: int) -> list[HardPosition]:
    """The positions with the fewest saving choices, those missed most often first. Needs counted choices."""
    missed = archive.sql(
        f"SELECT run_id, game_id, ply, kind, value_before, saving, choices FROM decisions "  # noqa: S608
        f"WHERE regret > 0 AND saving IS NOT NULL AND {among(runs)} "
        f"ORDER BY saving, choices DESC, run_id, game_id, ply, kind LIMIT {CANDIDATES}"
    )
    rules = {record.run_id: record.rules for record in archive.archive.runs()}
    plies = plies_of(archive, missed.select("run_id", "game_id").iter_rows())
    found: dict[tuple[Position, str, str], HardPosition] = {}
    for run_id, game_id, ply, kind, value, saving, choices in missed.iter_rows():
        game = plies[run_id, game_id]
        holds = kind == "placement" and not rules[run_id].mover_chooses
        hand = game[ply][0] if holds else NONE
        position = canonical_position(from_plies(game[:ply], hand), rules[run_id])
        known = found.get((position, rules[run_id].name, kind))
        times = known.missed if known else 0
        found[position, rules[run_id].name, kind] = HardPosition(
            position, rules[run_id], kind, value, saving, choices, times + 1
        )
    order = sorted(found.values(), key=lambda each: (each.saving, -each.missed, -each.choices, each.text))
    return order[:count]
