"""Results of pairings, from the tallies of their stored ranges: no game is read, however many there are.

Pairings or runs of one seed may play the same openings: then their pairs of games are not independent evidence. The
opening of a pair follows from the run's seed and the pair's number alone. So the pairs of all runs of one seed that
have the same number are one cluster, whatever their agents.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.statistics.davidson import transitive_closure
from analytics.statistics.tally import (
    SWAPPED_CELLS,
    TALLY_CELLS,
    Clusters,
    Estimate,
    ResultCounts,
    Tally,
    build_clusters,
    score,
    sum_tallies,
    tally_to_cells,
    win_rate,
)
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_tallies
from analytics.store.records import RunRecord, SweepJob
from analytics.store.schema import MAX_PAIRS


@dataclass(frozen=True)
class PairingResult:
    """The results of one pairing, from the perspective of its first agent."""

    pairing: int
    first: str  # label
    second: str  # label
    tally: Tally
    by_pairs: bool  # the games of a pair share an opening, so variances are over pairs
    clusters: Clusters | None = None  # where the two met again on the same openings: variances are over openings

    @property
    def games(self) -> int:
        return self.tally.games

    @property
    def wins(self) -> int:
        return self.tally.wins

    @property
    def draws(self) -> int:
        return self.tally.draws

    @property
    def losses(self) -> int:
        return self.tally.losses

    def results_in_seat(self, seat: int) -> ResultCounts:
        """The first agent's (losses, draws, wins) in ``seat``, which it holds in game ``seat`` of each pair."""
        return self.tally.results(seat)

    @property
    def win_rate(self) -> Estimate:
        """Share of games won by the first agent, with Wilson's interval."""
        return win_rate(self.tally, self.by_pairs, self.clusters)

    @property
    def score(self) -> Estimate:
        """Mean score of the first agent (win 1, draw 1/2) with its normal interval."""
        return score(self.tally, self.by_pairs, self.clusters)

    @property
    def forfeits(self) -> tuple[int, int]:
        """Games forfeited by the first and by the second agent, by an illegal turn, an exception or a late turn."""
        return self.tally.forfeits

    @property
    def mean_plies(self) -> float:
        """Plies a game, imposed ones included."""
        return self.tally.plies / self.games


def load_results(archive: ArchiveStore, run_id: str) -> list[PairingResult]:
    """The pairings of a run that have games, in the run's order.

    Raises ``RequestError`` for a run that is not in the archive, ``FailureError`` for a damaged record.
    """
    return load_results_by_run(archive, [archive.load_requested_run(run_id)])[run_id]


def load_results_by_run(archive: ArchiveStore, records: Iterable[RunRecord]) -> dict[str, list[PairingResult]]:
    """The same of several runs, by run: their tallies are read at once."""
    runs = {record.run_id: record for record in records}
    return {run_id: _build_results(runs[run_id], tallies) for run_id, tallies in read_tallies(archive, [*runs]).items()}


def _build_results(record: RunRecord, tallies: Mapping[int, Tally]) -> list[PairingResult]:
    return [
        PairingResult(pairing, *record.pairings[pairing], tally, record.has_independent_pairs)
        for pairing, tally in tallies.items()
        if pairing < len(record.pairings)
    ]


def load_job_results(archive: ArchiveStore, jobs: Sequence[SweepJob]) -> list[tuple[SweepJob, list[PairingResult]]]:
    """Jobs of sweeps, each with the results of its run: none if it has no run, or has that in another archive.

    A training counts only the games that it asked for, because a longer one continues the same run and its later games
    are those of a learner that knows more. Of other runs all games are the same evidence, and all are counted.
    """
    records = [record for job in jobs if job.run_id is not None and (record := archive.find_run(job.run_id))]
    runs = {record.run_id: record for record in records}
    results = load_results_by_run(archive, records)
    return [
        (job, _load_training_results(archive, job, runs[job.run_id], results[job.run_id]))
        if job.run_id in runs
        else (job, [])
        for job in jobs
    ]


def _load_training_results(
    archive: ArchiveStore, job: SweepJob, record: RunRecord, results: list[PairingResult]
) -> list[PairingResult]:
    """Return the results of the games that a job asked for, if it is a training of one pairing; else ``results``."""
    end = -(-job.games // record.unit_line.games_a_pair)  # an odd number is rounded up, as trainers do
    extended = archive.list_effective_ranges(record.run_id).units > end
    if not (record.training and len(record.pairings) == 1 and job.games and extended):
        return results
    return _build_results(record, read_tallies(archive, [record.run_id], end)[record.run_id])


def pairings_frame(results: Sequence[PairingResult]) -> pl.DataFrame:
    """A row a result, as its first agent sees it.

    Columns: ``first``, ``second``, ``games``, ``wins``, ``draws``, ``losses``; ``score`` and ``win_rate`` as shares,
    with ``_low`` and ``_high``; ``first_forfeits``, ``second_forfeits``.
    """
    rows = [
        (
            *(each.first, each.second, each.games, each.wins, each.draws, each.losses),
            *(*each.score, *each.win_rate, *each.forfeits),
        )
        for each in results
    ]
    shares = [f"{share}{end}" for share in ("score", "win_rate") for end in ("", "_low", "_high")]
    schema = dict.fromkeys(("first", "second"), pl.String()) | {
        **dict.fromkeys(("games", "wins", "draws", "losses"), pl.Int64()),
        **dict.fromkeys(shares, pl.Float64()),
        **dict.fromkeys(("first_forfeits", "second_forfeits"), pl.Int64()),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


@dataclass(frozen=True)
class Standing:
    """The results of one agent over all pairings with other agents."""

    agent: str  # label
    games: int
    wins: int
    draws: int
    losses: int
    forfeits: int
    score: Estimate
    score_by_opponent: dict[str, float]  # mean score by opponent's label


@dataclass(frozen=True)
class Crosstable:
    """The agents of a tournament, best score first."""

    standings: tuple[Standing, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(standing.agent for standing in self.standings)

    @property
    def group_count(self) -> int:
        """The number of groups of agents without games between them, not even through others."""
        met = np.array(
            [[agent in standing.score_by_opponent for agent in self.agents] for standing in self.standings], np.bool_
        )
        return len(np.unique(transitive_closure(met), axis=0))

    def to_frame(self, opponents: int | None = None) -> pl.DataFrame:
        """Return a row for each agent: its score with interval, its counts, and its mean score against each other one.

        The mean scores are in columns named ``v `` and the other's label; null where the two did not meet. With
        ``opponents`` there are columns for so many of the best agents only.
        """
        scores = zip(*(standing.score for standing in self.standings), strict=True) if self.standings else ((), (), ())
        columns = [
            pl.Series("agent", self.agents, pl.String),
            *(pl.Series(name, end, pl.Float64) for name, end in zip(("score", "low", "high"), scores, strict=True)),
            *(
                pl.Series(name, [getattr(standing, name) for standing in self.standings], pl.Int64)
                for name in ("games", "wins", "draws", "losses", "forfeits")
            ),
            *(
                pl.Series(
                    f"v {agent}", [standing.score_by_opponent.get(agent) for standing in self.standings], pl.Float64
                )
                for agent in self.agents[:opponents]
            ),
        ]
        return pl.DataFrame(columns)


def build_crosstable(pairing_results: Sequence[PairingResult], shared: SharedOpenings | None = None) -> Crosstable:
    """The crosstable of all pairings. Games of an agent against itself are left out.

    With ``shared``, intervals are over openings: all pairs of an agent with the same opening are one unit, whoever the
    opponent was. Without it, pairs of different pairings count as independent, which they are not if pairings share
    openings.
    """
    meetings: dict[str, dict[str, Tally]] = {}
    by_pairs = set[str]()  # agents of which the games of a pair share an opening
    for result in pairing_results:
        for agent, opponent, tally in (
            (result.first, result.second, result.tally),
            (result.second, result.first, result.tally.with_agents_swapped),
        ):
            met = meetings.setdefault(agent, {})
            if agent != opponent:
                met[opponent] = met[opponent] + tally if opponent in met else tally
                by_pairs |= {agent} if result.by_pairs else set()
    standings = [_build_standing(agent, met, agent in by_pairs, shared) for agent, met in meetings.items()]
    return Crosstable(tuple(sorted(standings, key=lambda standing: (-standing.score.mean, standing.agent))))


def _build_standing(
    agent: str, tallies_by_opponent: dict[str, Tally], by_pairs: bool, shared: SharedOpenings | None
) -> Standing:
    total = sum_tallies(tallies_by_opponent.values())
    return Standing(
        agent,
        total.games,
        total.wins,
        total.draws,
        total.losses,
        total.forfeits[0],
        score(total, by_pairs, shared.build_agent_clusters(agent, total) if shared else None),
        {opponent: _compute_points(tally) / tally.games for opponent, tally in tallies_by_opponent.items()},
    )


def _compute_points(tally: Tally) -> float:
    _, draws, wins = tally.trinomial
    return wins + draws / 2


MAX_BITS, MIN_BITS = 10, 5  # of the number of groups: 1,024, fewer if very many agents met
MAX_COUNTED = 1 << 20  # groups times meetings: 126 MB of counts
HASH_MULTIPLIER = 2654435769  # 2^32 / the golden ratio: multiples are spread evenly (D. E. Knuth, TAOCP 3, section 6.4)

PairingId = tuple[str, int]  # run and number of the pairing
AgentPair = tuple[str, str]  # labels of the first and of the second agent

# The cell of a pair by its code, 2 bits for game 0 and 2 for game 1. They are 0 for no game, or 1 + LOSS, DRAW, WIN.
CELL_BY_CODE = np.full(16, -1)
for _one in range(3):
    CELL_BY_CODE[1 + _one], CELL_BY_CODE[4 * (1 + _one)] = 9 + _one, 12 + _one
    for _two in range(3):
        CELL_BY_CODE[1 + _one + 4 * (1 + _two)] = 3 * _one + _two


@dataclass(frozen=True)
class SharedOpenings:
    """Counts of the pairs whose opening may have been played by others too, in groups of whole openings."""

    agents: tuple[AgentPair, ...]  # of each of the M meetings, in alphabetical order
    cells: NDArray[np.int64]  # [G, M, 15] pairs by group, meeting and cell (``analytics.statistics.tally``)
    repeated: frozenset[AgentPair]  # meetings in which the same opening was played more than once

    @cached_property
    def _meeting_index(self) -> dict[AgentPair, int]:
        return {both: index for index, both in enumerate(self.agents)}

    @cached_property
    def _opponents_by_agent(self) -> dict[str, list[str]]:
        """The other agents of the meetings by agent: of 300 agents, each would look through 44,850 meetings."""
        found: dict[str, list[str]] = {}
        for one, two in self.agents:
            if one != two:
                found.setdefault(one, []).append(two)
                found.setdefault(two, []).append(one)
        return found

    def count_pairs_between(self, first: str, second: str) -> NDArray[np.int64]:
        """[G, 15] the pairs of two agents, as the first one sees them; zeros if they are not among them."""
        ordered = _sort_agents(first, second)
        if ordered not in self._meeting_index:
            return np.zeros((len(self.cells), TALLY_CELLS), np.int64)
        found = self.cells[:, self._meeting_index[ordered]]
        return found if ordered[0] == first else found[:, SWAPPED_CELLS]

    def build_meeting_clusters(self, first: str, second: str, total: Tally, seat: int | None = None) -> Clusters | None:
        """The clusters of all pairs ``total`` of two agents, or with ``seat`` of the first one's games in that seat.

        None if they played no opening more than once.
        """
        if _sort_agents(first, second) not in self.repeated:
            return None
        grouped = self.count_pairs_between(first, second)
        return build_clusters(grouped, tally_to_cells(total) - grouped.sum(axis=0), seat)

    def build_agent_clusters(self, agent: str, total: Tally) -> Clusters | None:
        """The clusters of all pairs ``total`` of an agent with others; None if none of these shares an opening."""
        others = self._opponents_by_agent.get(agent)
        if not others:
            return None
        grouped = sum(
            (self.count_pairs_between(agent, other) for other in others), np.zeros((1, TALLY_CELLS), np.int64)
        )
        return build_clusters(grouped[grouped.any(axis=1)], tally_to_cells(total) - grouped.sum(axis=0))


def find_shared_opening_seeds(records: Iterable[RunRecord], pairing_ids: Iterable[PairingId]) -> dict[PairingId, int]:
    """The seed of each pairing among ``pairing_ids`` that shares openings with another one.

    ``records`` are their runs.
    """
    seeds = {record.run_id: record.opening_seed for record in records}
    found = {key: seed for key in pairing_ids if (seed := seeds[key[0]]) is not None}
    played = Counter(found.values())
    return {key: seed for key, seed in found.items() if played[seed] > 1}


def build_shared_openings(
    agents: Mapping[PairingId, AgentPair], seeds: Mapping[PairingId, int], counts: pl.DataFrame
) -> SharedOpenings:
    """The counts of the answer to ``shared_openings_sql``, by the agents and the seed of each pairing."""
    meetings = sorted({_sort_agents(*agents[key]) for key in seeds})
    ordered = [_sort_agents(*agents[key]) for key in seeds]
    index = {both: index for index, both in enumerate(meetings)}
    number = np.array([index[both] for both in ordered])
    turned = np.array([agents[key] != both for key, both in zip(seeds, ordered, strict=True)])
    pairing, group, code, pairs = (counts[name].to_numpy() for name in ("number", "openings", "code", "pairs"))
    cell = CELL_BY_CODE[code]
    kept, group = np.unique(group, return_inverse=True)
    cells = np.zeros((len(kept), len(meetings), TALLY_CELLS), np.int64)
    np.add.at(cells, (group, number[pairing], np.where(turned[pairing], SWAPPED_CELLS[cell], cell)), pairs)
    again = Counter(zip(ordered, seeds.values(), strict=True))
    return SharedOpenings(tuple(meetings), cells, frozenset(both for (both, _), times in again.items() if times > 1))


def shared_seeds_frame(seeds: Mapping[PairingId, int]) -> pl.DataFrame:
    """Return a row for each pairing in ``seeds``: ``run_id``, ``pairing``, ``number``, ``spread``.

    ``shared_openings_sql`` reads them. ``number`` is its index, ``spread`` follows from its seed. A frame, because
    DuckDB and our own reader of its syntax take a minute for a text of 44,850 rows.
    """
    rows = [
        (run_id, pairing, number, zlib.crc32(str(seed).encode()))
        for number, ((run_id, pairing), seed) in enumerate(seeds.items())
    ]
    kinds = {"run_id": pl.String(), "pairing": pl.Int32(), "number": pl.Int32(), "spread": pl.Int64()}
    return pl.DataFrame(rows, kinds, orient="row")


def shared_openings_sql(agents: Mapping[PairingId, AgentPair], seeds: Mapping[PairingId, int]) -> str:
    """The question in SQL: how many pairs of games ended how, by pairing and group of openings.

    It reads ``games``, and ``shared_seeds_frame(seeds)`` as ``_sharing``. ``number`` is the index of the pairing in
    ``seeds``, ``code`` how the games of a pair ended (``CELL_BY_CODE``).
    """
    meetings = len({_sort_agents(*agents[key]) for key in seeds})
    bits = MAX_BITS
    while meetings << bits > MAX_COUNTED and bits > MIN_BITS:
        bits -= 1
    return f"""
SELECT number,
    ((pair_id & {MAX_PAIRS - 1}) * {HASH_MULTIPLIER} + spread) % (1::BIGINT << 32) >> {32 - bits} AS openings,
    code, count(*) AS pairs
FROM (
    SELECT run_id, pairing, pair_id,
        sum((1 + CASE WHEN winner = -1 THEN 1 WHEN winner = game_id & 1 THEN 2 ELSE 0 END)
            << (2 * (game_id & 1)))::INTEGER AS code
    FROM games GROUP BY run_id, pairing, pair_id
) JOIN _sharing USING (run_id, pairing)
GROUP BY ALL"""  # noqa: S608  (numbers)


def _sort_agents(first: str, second: str) -> AgentPair:
    return (first, second) if first <= second else (second, first)


CODE_DIGITS = 6  # of a fingerprint, behind a label that several codes played under


class AgentNames(NamedTuple):
    """The names under which agents are shown: their labels, and ``label@code`` where one label had several codes."""

    distinct_names: Mapping[tuple[str, str], str]  # by run id and label, where the name is not the label
    notes: tuple[str, ...] = ()  # for the user, a sentence for each such label

    def find_name(self, run_id: str, label: str) -> str:
        """The name of the agent that played under ``label`` in a run."""
        return self.distinct_names.get((run_id, label), label)


def build_agent_names(run_labels: Iterable[tuple[RunRecord, str]]) -> AgentNames:
    """The names of agents that played: pairs of a run and a label, which may repeat."""
    pairs = list(run_labels)
    of_runs = {record.run_id: record for record, _ in pairs}
    codes = _find_codes_by_run(of_runs.values())
    known: dict[str, set[str]] = {}
    for record, label in pairs:
        if code := codes[record.run_id].get(label):
            known.setdefault(label, set()).add(code)
    several = {label: sorted(found) for label, found in sorted(known.items()) if len(found) > 1}
    apart = {
        (run_id, label): _format_code_label(label, code)
        for run_id, of_run in codes.items()
        for label, code in of_run.items()
        if label in several
    }
    notes = []
    for label, found in several.items():
        names = " and ".join(_format_code_label(label, code) for code in found)
        notes.append(f"{label!r} was played by {len(found)} codes, shown as {names}: --run chooses runs of one")
    extended = [run_id for run_id, record in of_runs.items() if _is_extended_by_other_code(record)]
    if extended:
        notes.append(f"run {', '.join(extended)} has games of several codes under one label: other code extended it")
    return AgentNames(apart, tuple(notes))


def _is_extended_by_other_code(record: RunRecord) -> bool:
    """Return whether code added games to a run without having played a sample of the others equally."""
    return not set(record.code.get("extended_by", ())) <= set(record.code.get("same_games", ()))


def _find_codes_by_run(records: Collection[RunRecord]) -> dict[str, dict[str, str]]:
    """Return the fingerprint of each agent by run and label, the same one for all code that plays the same.

    Code plays the same as that of a run if it played a sample of the run's games equally.
    """
    representatives = dict[tuple[str, str], str]()  # by label and code: another code that plays the same, or itself

    def find(label: str, code: str) -> str:
        while (other := representatives.setdefault((label, code), code)) != code:
            code = other
        return code

    for record in records:
        own = _find_agent_codes(record.code)
        for agents in record.code.get("same_games", {}).values():
            for label, code in _find_agent_codes({"agents": agents}).items():
                if label in own:
                    one, other = sorted((find(label, own[label]), find(label, code)))
                    representatives[label, other] = one
    return {
        record.run_id: {label: find(label, code) for label, code in _find_agent_codes(record.code).items()}
        for record in records
    }


def _format_code_label(label: str, code: str) -> str:
    return f"{label}@{code[:CODE_DIGITS]}"


def resolve_shown_agent_label(name: str, labels: Collection[str]) -> str | None:
    """Return the label of an agent that is shown under ``name``, one of ``labels``; None if it is none of them."""
    label, _, code = name.rpartition("@")
    if name in labels or len(code) != CODE_DIGITS:
        label = name
    return label if label in labels else None


def _find_agent_codes(code_record: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints of a run's agents by label, as far as they are known: a person, for one, has none."""
    codes = code_record.get("agents")
    return {str(label): str(code) for label, code in codes.items()} if isinstance(codes, Mapping) else {}
