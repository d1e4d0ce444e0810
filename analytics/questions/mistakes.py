"""Mistakes of agents against perfect play: counts of the rows of the view ``decisions``, and the worst mistakes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from analytics.questions.pairings import AgentNames, build_agent_names
from analytics.questions.selection import read_ply_rows
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import joined_runs_condition_sql, run_condition_sql
from analytics.statistics.tally import ClusterSums, mean_over_clusters, share_over_clusters
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS
from analytics.tables.derived.decisions import DECISIONS_TABLE
from quarto.canonical import canonical_forms, canonical_position
from quarto.notation import format_position
from quarto.position import PackedPosition, position_from_plies
from quarto.rules import ATTRIBUTES, CELLS, NONE, Rules
from quarto.symmetry import build_symmetries

CANDIDATES = 20_000  # blunders, the worst first, whose positions are compared up to symmetry
CANDIDATES_OF_AGENT = 2_000  # of each agent, where agents are asked for together

BLUNDERS = """
    SELECT {agent} AS agent, run_id, game_id, ply, kind, regret, value_before, saving, choices
    FROM decisions WHERE regret > 0 AND (\n{condition}\n)"""
WORST_FIRST = "regret DESC, saving / choices DESC NULLS LAST, run_id, game_id, ply, kind"

DECISION_SUMMARIES = {
    **dict.fromkeys(("agent", "kind"), pl.String()),
    **dict.fromkeys(("ply", "decisions"), pl.Int64()),
    **dict.fromkeys(("regret", "regret_low", "regret_high", "blunders", "blunders_low", "blunders_high"), pl.Float64()),
}


# Of all units that have decisions: with a smaller share, it is quicker not to open the files of other runs.
LEAST_SHARE_OF_UNITS = 1 / 4


def build_judged_runs_condition(archive: OpenArchive, records: Collection[RunRecord]) -> str:
    """Build the condition on the view ``decisions`` that a decision belongs to one of these runs.

    If DuckDB leaves out the files of some runs, it takes the rest for a single row and joins in the wrong order: half a
    million decisions then take 0.19 s instead of 0.03 s of processor time. So unless most of the decisions belong to
    other runs, their files are read, too.
    """
    run_ids = {record.run_id for record in records}
    units = {
        run_id: archive.archive.list_effective_ranges(run_id, DECISIONS_TABLE.name).units
        for run_id in archive.archive.list_ids_of_runs_with_games()
    }
    chosen = sum(count for run_id, count in units.items() if run_id in run_ids)
    if chosen and chosen >= LEAST_SHARE_OF_UNITS * sum(units.values()):
        return joined_runs_condition_sql(sorted(run_ids))
    return run_condition_sql(sorted(run_ids))


class Mistake(NamedTuple):
    """A position in which agents blundered, with the worst blunder that was made there."""

    position: PackedPosition  # canonical
    rules: Rules
    kind: str
    regret: int  # half-points
    value: int  # before the blunder, for the player that decides
    saving: int | None  # choices that keep the value; None: not counted
    choices: int
    missed: int  # blunders there, among the candidates
    run_id: str  # of the first game with such a blunder, up to symmetry
    game_id: int
    ply: int  # of the blunder

    @property
    def position_text(self) -> str:
        return format_position(self.position, self.rules.name)


def summarise_decisions(archive: OpenArchive, condition: str, by_ply: bool, names: AgentNames) -> pl.DataFrame:
    """Summarise the decisions that meet an SQL condition, with a row for each agent, kind and, if ``by_ply``, ply.

    The frame has the schema ``DECISION_SUMMARIES``: ``regret`` is the mean number of half-points given up, and
    ``blunders`` is the share of decisions with a regret above 0. Without ``by_ply``, ``ply`` is null. The 95 %
    intervals treat all games with the same opening as one cluster, because the decisions in a pair of games are not
    independent, and neither are the decisions in different pairs with the same imposed opening (L. Kish, "Survey
    Sampling", 1965, section 6.3).
    """
    ply = "ply" if by_ply else "NULL::INTEGER"
    judged, agents = _build_agent_and_cluster_numbers(archive, names)
    # Numbers instead of texts, because there is a group for nearly each of perhaps millions of decisions.
    clusters_sql = f"""
        SELECT name, is_placement, {ply} AS of_ply, count(*) AS n, sum(regret)::BIGINT AS lost,
            count(*) FILTER (regret > 0) AS blunders
        FROM (
            SELECT run_id, game_id, ply, agent, kind = 'placement' AS is_placement, regret
            FROM decisions WHERE (\n{condition}\n)
        ) JOIN judged USING (run_id, agent)
        GROUP BY name, is_placement, of_ply, origin, (game_id >> 1) & pair_bits"""  # noqa: S608  (a condition by design)
    values = ("n", "lost", "blunders", "n * n", "n * lost", "lost * lost", "n * blunders", "blunders * blunders")
    sums = ", ".join(f'sum({value})::BIGINT AS "{value}"' for value in values)
    columns = "name, is_placement, of_ply, count(*) AS clusters"
    query = f"SELECT {columns}, {sums} FROM ({clusters_sql}) GROUP BY ALL ORDER BY ALL"  # noqa: S608  (names of columns)
    sums_by_agent = archive.sql(query, judged=judged)
    rows = [_build_summary_row(row, agents) for row in sums_by_agent.iter_rows(named=True)]
    return pl.DataFrame(rows, DECISION_SUMMARIES, orient="row")


def _build_agent_and_cluster_numbers(archive: OpenArchive, names: AgentNames) -> tuple[pl.DataFrame, list[str]]:
    """Build a row for each agent of each run: its name, and the rule by which its pairs of games form clusters.

    Return it with all names, sorted. The columns ``name`` and ``origin`` are numbers: ``name`` is the index in the
    sorted names. Two pairs of games belong to the same cluster if they have the same ``origin`` and the same
    ``pair_id & pair_bits``. If openings follow from a seed and the number of the pair, ``origin`` is that seed.
    ``pair_id`` contains the pairing and the number of the pair, and ``pair_bits`` masks out the pairing, so that pairs
    of different pairings can share a cluster. Otherwise, ``origin`` is the run, and each pair is a cluster of its own.
    """
    rows = []
    for record in archive.archive.load_runs():
        seed, run_id = record.opening_seed, record.run_id
        clusters = (run_id, -1) if seed is None else (f"seed {seed}", MAX_PAIRS - 1)
        rows += [(run_id, label, names.find_name(run_id, label), *clusters) for label in record.labels]
    schema = {**dict.fromkeys(("run_id", "agent", "name", "origin"), pl.String()), "pair_bits": pl.Int64()}
    frame = pl.DataFrame(rows, schema, orient="row")
    numbers = [pl.col(name).rank("dense").cast(pl.Int32) - 1 for name in ("name", "origin")]
    return frame.with_columns(numbers), sorted({*frame["name"]})


def _build_summary_row(row: Mapping[str, Any], agents: Sequence[str]) -> tuple[str | float | None, ...]:
    regret, blunders = (
        ClusterSums(row["clusters"], row["n"], row[y], row["n * n"], row[f"n * {y}"], row[f"{y} * {y}"])
        for y in ("lost", "blunders")
    )
    estimates = *mean_over_clusters(regret, max_value=2.0), *share_over_clusters(blunders)
    kind = "placement" if row["is_placement"] else "gift"
    return agents[row["name"]], kind, row["of_ply"], row["n"], *estimates


def build_judged_agent_names(archive: OpenArchive, condition: str) -> AgentNames:
    """Build the names of the agents whose logged decisions meet an SQL condition."""
    records = {record.run_id: record for record in archive.archive.load_runs()}
    pairs = archive.sql(f"SELECT DISTINCT run_id, agent FROM decisions WHERE (\n{condition}\n) ORDER BY ALL")  # noqa: S608  (a condition by design)
    return build_agent_names((records[run_id], agent) for run_id, agent in pairs.iter_rows())


def find_worst_mistakes(archive: OpenArchive, condition: str, count: int) -> list[Mistake]:
    """Return the ``count`` positions with the largest regret among the decisions that meet an SQL condition.

    Positions of equal regret are sorted by the share of choices that keep the value, largest first, and then by the
    number of blunders, largest first. Positions in which the choices that keep the value have not been counted come
    last.
    """
    rows = BLUNDERS.format(agent="''", condition=condition)
    blunders = archive.sql(f"{rows} ORDER BY {WORST_FIRST} LIMIT {CANDIDATES}")
    return _select_worst_mistakes(archive, blunders, count).get("", [])


def find_worst_mistakes_by_agent(archive: OpenArchive, condition: str, count: int) -> dict[str, list[Mistake]]:
    """Return, by label, the ``count`` worst mistakes of each agent: see ``find_worst_mistakes``.

    The archive is asked once for all agents. Agents without a mistake are left out.
    """
    blunders = archive.sql(
        f"{BLUNDERS.format(agent='agent', condition=condition)} "
        f"QUALIFY row_number() OVER (PARTITION BY agent ORDER BY {WORST_FIRST}) <= {CANDIDATES_OF_AGENT} "
        f"ORDER BY agent, {WORST_FIRST}"
    )
    return _select_worst_mistakes(archive, blunders, count)


def _select_worst_mistakes(archive: OpenArchive, blunders: pl.DataFrame, count: int) -> dict[str, list[Mistake]]:
    """Select the ``count`` worst mistakes of each ``agent`` in a frame of blunders, of each agent the worst first."""
    if blunders.is_empty():
        return {}
    plies = read_ply_rows(archive, blunders.select("run_id", "game_id"))
    rules = {record.run_id: record.rules for record in archive.archive.load_runs()}
    runs_by_rules = dict[Rules, list[str]]()
    for run_id in blunders["run_id"].unique(maintain_order=True):
        runs_by_rules.setdefault(rules[run_id], []).append(run_id)
    placed_decisions = [
        _add_canonical_positions(blunders.filter(pl.col("run_id").is_in(run_ids)), plies, run_rules)
        for run_rules, run_ids in runs_by_rules.items()
    ]
    key_columns = ["agent", "rules", "kind", "occupied", "lanes"]
    order = ["agent", "regret", pl.col("saving") / pl.col("choices"), "missed", *key_columns[1:]]
    worst = (
        pl.concat(placed_decisions)
        .sort("regret", descending=True, maintain_order=True)
        .group_by(key_columns, maintain_order=True)
        .agg(pl.all().first(), missed=pl.len())
        .sort(order, descending=[False, True, True, True, *[False] * (len(key_columns) - 1)], nulls_last=True)
        .group_by("agent", maintain_order=True)
        .head(count)
    )
    mistakes = dict[str, list[Mistake]]()
    for row in worst.iter_rows(named=True):
        mistake = _build_mistake_in_canonical_position(row, plies, rules[row["run_id"]])
        mistakes.setdefault(row["agent"], []).append(mistake)
    return mistakes


def _add_canonical_positions(decisions: pl.DataFrame, plies: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Add the name of the rules and the canonical position (``lanes``, ``occupied``) to decisions by these rules.

    ``plies`` has the plies of the games of these decisions, from which the positions follow.
    """
    numbered = decisions.select("run_id", "game_id", "kind", at="ply").with_row_index("decision")
    plies_until_decision = numbered.join(plies, on=("run_id", "game_id")).filter(pl.col("ply") <= pl.col("at"))
    plies_before, plies_at_decision = (
        plies_until_decision.filter(pl.col("ply") < pl.col("at")),
        plies_until_decision.filter(pl.col("ply") == pl.col("at")),
    )
    decision, piece, cell = (plies_before[name].cast(pl.UInt64).to_numpy() for name in ("decision", "piece", "cell"))
    one, lanes, occupied = np.uint64(1), np.zeros(len(decisions), np.uint64), np.zeros(len(decisions), np.uint64)
    for attribute in range(ATTRIBUTES):
        bits = (piece >> np.uint64(attribute) & one) << (cell + np.uint64(CELLS * attribute))
        np.bitwise_or.at(lanes, decision, bits)
    np.bitwise_or.at(occupied, decision, one << cell)
    hands = np.full(len(decisions), NONE, np.int8)
    plies_with_hand = plies_at_decision.filter(
        pl.lit(value=False) if rules.mover_chooses else pl.col("kind") == "placement"
    )
    hands[plies_with_hand["decision"].to_numpy()] = plies_with_hand["piece"].to_numpy()
    lanes, forms = canonical_forms(lanes, occupied.astype(np.uint16), hands, build_symmetries(rules))
    return decisions.with_columns(rules=pl.lit(rules.name), lanes=lanes, occupied=forms)


def _build_mistake_in_canonical_position(row: Mapping[str, Any], plies: pl.DataFrame, rules: Rules) -> Mistake:
    game_plies = plies.filter(run_id=row["run_id"], game_id=row["game_id"])
    moves, ply = game_plies.select("piece", "cell").rows(), row["ply"]
    hand = moves[ply][0] if row["kind"] == "placement" and not rules.mover_chooses else NONE
    position = canonical_position(position_from_plies(moves[:ply], hand), rules)
    names = ("regret", "value_before", "saving", "choices", "missed", "run_id", "game_id", "ply")
    return Mistake(position, rules, row["kind"], *map(row.__getitem__, names))
