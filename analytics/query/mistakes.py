"""Mistakes of agents against perfect play, counted in the view ``decisions``, and the hardest positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from analytics.query.stored_rows import plies_of
from analytics.results.agent_codes import AgentNames, agent_names
from analytics.sql.database import OpenArchive
from analytics.sql.views import among
from analytics.statistics.intervals import Estimate, quantile, wilson
from quarto.canonical import canonical_position
from quarto.notation import format_position
from quarto.position import Position, from_plies
from quarto.rules import NONE, Rules

CANDIDATES = 20_000  # blunders, those with the fewest saving choices first, among which the hardest are sought


class DecisionSummary(NamedTuple):
    """Counts and means over an agent's decisions of one kind, at one ply or at all plies."""

    agent: str
    kind: str
    ply: int | None  # None: all
    decisions: int
    regret: Estimate  # half-points given up a decision, 0 to 2
    blunders: Estimate  # share of decisions that gave something up


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


def decision_summaries(archive: OpenArchive, condition: str, by_ply: bool, names: AgentNames) -> list[DecisionSummary]:
    """Summaries by agent, kind and, with ``by_ply``, ply of the decisions that meet a condition in SQL.

    Intervals are 95 % ones: normal for the mean regret, Wilson's for the share of blunders. They treat decisions as
    independent; those of one game are not quite, so the intervals are a lower bound of the uncertainty.
    """
    ply = "ply" if by_ply else "NULL::INTEGER"
    frame = archive.sql(
        f"SELECT run_id, agent, kind, {ply} AS of_ply, count(*) AS n, sum(regret)::BIGINT AS lost, "  # noqa: S608  (a condition by design)
        f"sum(regret * regret)::BIGINT AS squares, count(*) FILTER (regret > 0) AS blunders "
        f"FROM decisions WHERE (\n{condition}\n) GROUP BY ALL"
    )
    shown = [names.name(run_id, agent) for run_id, agent in frame.select("run_id", "agent").iter_rows()]
    of_agents = frame.drop("run_id").with_columns(agent=pl.Series(shown, dtype=pl.String()))
    counts = of_agents.group_by("agent", "kind", "of_ply").sum().sort("agent", "kind", "of_ply")
    return [_summary(*row) for row in counts.iter_rows()]


def judged_agents(archive: OpenArchive, condition: str) -> AgentNames:
    """The names of the agents with decisions that meet a condition in SQL."""
    records = {record.run_id: record for record in archive.archive.runs()}
    pairs = archive.sql(f"SELECT DISTINCT run_id, agent FROM decisions WHERE (\n{condition}\n) ORDER BY ALL")  # noqa: S608  (a condition by design)
    return agent_names((records[run_id], agent) for run_id, agent in pairs.iter_rows())


def _summary(agent: str, kind: str, ply: int | None, n: int, lost: int, squares: int, blunders: int) -> DecisionSummary:
    mean = lost / n
    reach = quantile() * math.sqrt(max(0.0, squares / n - mean * mean) / n)
    regret = Estimate(mean, max(0.0, mean - reach), min(2.0, mean + reach))
    return DecisionSummary(agent, kind, ply, n, regret, Estimate(blunders / n, *wilson(blunders, n)))


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
