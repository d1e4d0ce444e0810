"""Results of pairings, from the tallies of their stored ranges: no game is read, however many there are.

Pairings or runs of one seed may play the same openings; then their pairs of games are not independent evidence. The
opening of a pair follows from the run's seed and the pair's number alone. So the pairs that have the same number, in
all runs of one seed, are one cluster, whoever their agents are.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

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
from analytics.store.records import RunRecord, SweepJob, find_agent_codes
from analytics.store.schema import MAX_PAIRS
from analytics.store.snapshot import Snapshot
from analytics.store.texts import format_count_with_noun
from quarto.errors import Advice


@dataclass(frozen=True)
class PairingResult:
    """The results of one pairing, from the point of view of its first agent."""

    pairing: int
    first: str  # label
    second: str  # label
    tally: Tally
    by_pairs: bool  # the games of a pair share an opening, so variances are over pairs
    clusters: Clusters | None = None  # where the two met again on the same openings: variances are over openings

    @property
    def with_agents_swapped(self) -> PairingResult:
        """The result from the view of the second agent. It has no clusters, which belong to one view."""
        return replace(self, first=self.second, second=self.first, tally=self.tally.with_agents_swapped, clusters=None)

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

    def losses_draws_wins_in_seat(self, seat: int) -> ResultCounts:
        """Return the numbers of games that the first agent lost, drew and won in ``seat``.

        The first agent holds seat 0 in game 0 of each pair, and seat 1 in game 1.
        """
        return self.tally.losses_draws_wins_in_game(seat)

    @property
    def win_rate(self) -> Estimate:
        """The share of games that the first agent won, with Wilson's interval."""
        return win_rate(self.tally, self.by_pairs, self.clusters)

    @property
    def score(self) -> Estimate:
        """The mean score of the first agent (win 1, draw 1/2), with an interval from the normal approximation."""
        return score(self.tally, self.by_pairs, self.clusters)

    @property
    def forfeits(self) -> tuple[int, int]:
        """The numbers of games forfeited by the first and by the second agent.

        Games forfeited by an illegal turn, an exception or a late turn are counted; resignations are not.
        """
        return self.tally.forfeits

    @property
    def mean_plies(self) -> float:
        """The mean number of plies in a game, including imposed plies."""
        return self.tally.plies / self.games


def load_results(archive: ArchiveStore, run_id: str) -> list[PairingResult]:
    """Load the results of a run's pairings that have games, in the order of the pairings.

    Raises ``RequestError`` for a run that is not in the archive, and ``FailureError`` for a damaged record.
    """
    return load_results_by_run(archive, [archive.load_requested_run(run_id)])[run_id]


def load_results_by_run(archive: ArchiveStore, records: Iterable[RunRecord]) -> dict[str, list[PairingResult]]:
    """Load the results of several runs, by run id; the tallies of all runs are read at once.

    The tallies of runs that have not changed since an earlier snapshot are not read again.
    """
    runs = {record.run_id: record for record in records}
    tallies = dict[str, Mapping[int, Tally]]()
    if isinstance(archive, Snapshot):
        tallies = {run_id: recalled for run_id in runs if (recalled := archive.recall_tallies(run_id)) is not None}
    new = read_tallies(archive, [run_id for run_id in runs if run_id not in tallies])
    if isinstance(archive, Snapshot):
        for run_id, read in new.items():
            archive.remember_tallies(run_id, read)
    tallies |= new
    return {run_id: _build_results(record, tallies[run_id]) for run_id, record in runs.items()}


def _build_results(record: RunRecord, tallies: Mapping[int, Tally]) -> list[PairingResult]:
    return [
        PairingResult(pairing, *record.pairings[pairing], tally, record.has_paired_openings)
        for pairing, tally in tallies.items()
        if pairing < len(record.pairings)
    ]


def load_results_requested_by_jobs(
    archive: ArchiveStore, jobs: Sequence[SweepJob]
) -> list[tuple[SweepJob, list[PairingResult]]]:
    """Load the results of each sweep job's run, and return them together with the job.

    The list of results is empty if the job has no run, or if the job's run is in another archive.

    For a training, only the games that its job asked for are counted. A longer training continues the same run, and in
    the later games the learner knows more. In other runs, all games are evidence of the same kind, so all of them are
    counted.
    """
    records = [record for job in jobs if job.run_id is not None and (record := archive.find_run(job.run_id))]
    runs = {record.run_id: record for record in records}
    results = load_results_by_run(archive, records)
    return [
        (job, _limit_training_to_requested_games(archive, job, runs[job.run_id], results[job.run_id]))
        if job.run_id in runs
        else (job, [])
        for job in jobs
    ]


def _limit_training_to_requested_games(
    archive: ArchiveStore, job: SweepJob, record: RunRecord, results: list[PairingResult]
) -> list[PairingResult]:
    """Return the results of only those games of a run that a job asked for.

    If the run is a training that has since been extended, the results of the requested games are loaded. Otherwise
    ``results``, which covers all games of the run, is returned unchanged.
    """
    end = -(-job.games // record.unit_line.games_a_pair)  # an odd number is rounded up, as trainers do
    extended = archive.list_effective_ranges(record.run_id).units > end
    if not (record.training and len(record.pairings) == 1 and job.games and extended):
        return results
    return _build_results(record, read_tallies(archive, [record.run_id], end)[record.run_id])


def pairings_frame(results: Sequence[PairingResult]) -> pl.DataFrame:
    """Return a row for each result, from the point of view of its first agent.

    Columns: ``first``, ``second``, ``games``, ``wins``, ``draws``, ``losses``; ``score`` and ``win_rate`` (0 to 1),
    each with its 95 % interval (``_low``, ``_high``); ``first_forfeits``, ``second_forfeits``.
    """
    rows = [
        (
            *(result.first, result.second, result.games, result.wins, result.draws, result.losses),
            *(*result.score, *result.win_rate, *result.forfeits),
        )
        for result in results
    ]
    shares = [f"{share}{end}" for share in ("score", "win_rate") for end in ("", "_low", "_high")]
    schema = dict.fromkeys(("first", "second"), pl.String()) | {
        **dict.fromkeys(("games", "wins", "draws", "losses"), pl.Int64()),
        **dict.fromkeys(shares, pl.Float64()),
        **dict.fromkeys(("first_forfeits", "second_forfeits"), pl.Int64()),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


class Meeting(NamedTuple):
    """The games between two agents, from the point of view of one of them."""

    score: Estimate
    wins: int
    draws: int
    losses: int

    @property
    def verdict(self) -> int:
        """1 if the agent is better than its opponent, -1 if it is worse, and 0 if the score's interval contains 1/2."""
        return (self.score.low > 1 / 2) - (self.score.high < 1 / 2)


def index_meetings(results: Iterable[PairingResult]) -> dict[tuple[str, str], Meeting]:
    """Index the games between each two agents by agent and opponent, once from each agent's point of view.

    ``results`` are those of ``merge_results_by_agents``, so that each two agents have one. Games of an agent against
    itself are left out. Both views have the same interval, mirrored, because clusters belong to one view only.
    """
    meetings = {}
    for result in results:
        if result.first != result.second:
            score = result.score
            mirrored = Estimate(1 - score.mean, 1 - score.high, 1 - score.low)
            meetings[result.first, result.second] = Meeting(score, result.wins, result.draws, result.losses)
            meetings[result.second, result.first] = Meeting(mirrored, result.losses, result.draws, result.wins)
    return meetings


@dataclass(frozen=True)
class Standing:
    """The results of one agent against all other agents."""

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
    """The standings of the agents of a tournament, sorted by score, the best first."""

    standings: tuple[Standing, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(standing.agent for standing in self.standings)

    @property
    def group_count(self) -> int:
        """The number of groups of agents between which there are no games. Within a group, games connect all agents."""
        has_met = np.array(
            [[agent in standing.score_by_opponent for agent in self.agents] for standing in self.standings], np.bool_
        )
        return len(np.unique(transitive_closure(has_met), axis=0))

    def to_frame(self, opponents: int | None = None) -> pl.DataFrame:
        """Return a row for each agent: its score with an interval, its counts, and its mean score by opponent.

        Each mean score is in a column ``v LABEL``, named by the opponent's label. The score is null if the two agents
        never met. If ``opponents`` is given, only the ``opponents`` best agents have such a column.
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
    """Build the crosstable of all pairings, leaving out the games of agents against themselves.

    With ``shared``, openings are the independent observations: all pairs of an agent with the same opening are in one
    cluster, whoever the opponent was. Without ``shared``, pairs of different pairings are taken as independent, which
    is wrong if pairings share openings.
    """
    meetings: dict[str, dict[str, Tally]] = {}
    by_pairs = set[str]()  # agents of which the games of a pair share an opening
    for result in pairing_results:
        for agent, opponent, tally in (
            (result.first, result.second, result.tally),
            (result.second, result.first, result.tally.with_agents_swapped),
        ):
            tallies_by_opponent = meetings.setdefault(agent, {})
            if agent != opponent:
                tallies_by_opponent[opponent] = (
                    tallies_by_opponent[opponent] + tally if opponent in tallies_by_opponent else tally
                )
                by_pairs |= {agent} if result.by_pairs else set()
    standings = [
        _build_standing(agent, tallies_by_opponent, agent in by_pairs, shared)
        for agent, tallies_by_opponent in meetings.items()
    ]
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
    _, draws, wins = tally.losses_draws_wins
    return wins + draws / 2


MAX_BITS, MIN_BITS = 10, 5  # of the number of groups: 1,024, fewer if very many agents met
MAX_COUNTED = 1 << 20  # groups times meetings, which take 126 MB of counts
HASH_MULTIPLIER = 2654435769  # 2^32 / the golden ratio: multiples are spread evenly (D. E. Knuth, TAOCP 3, section 6.4)

PairingId = tuple[str, int]  # run and number of the pairing
AgentPair = tuple[str, str]  # labels of the first and of the second agent

# The cell of a pair by its code. The code has 2 bits for each game, game 0 first: 0 for no game, or 1 + its result.
CELL_BY_CODE = np.full(16, -1)
for _one in range(3):
    CELL_BY_CODE[1 + _one], CELL_BY_CODE[4 * (1 + _one)] = 9 + _one, 12 + _one
    for _two in range(3):
        CELL_BY_CODE[1 + _one + 4 * (1 + _two)] = 3 * _one + _two


@dataclass(frozen=True)
class SharedOpenings:
    """Counts of the pairs of games whose openings other pairs may have played, too.

    The pairs are counted by meeting, by group of openings, and by how their games ended. A meeting is all games between
    two agents. A group has one or more openings; all pairs with the same opening are in the same group.
    """

    agents: tuple[AgentPair, ...]  # of each of the M meetings, in alphabetical order
    cells: NDArray[np.int64]  # [G, M, 15] pairs by group, meeting and cell (``analytics.statistics.tally``)
    repeated: frozenset[AgentPair]  # meetings in which the same opening was played more than once

    @cached_property
    def _meeting_index(self) -> dict[AgentPair, int]:
        """The index of each meeting, by its two agents."""
        return {agent_pair: index for index, agent_pair in enumerate(self.agents)}

    @cached_property
    def _opponents_by_agent(self) -> dict[str, list[str]]:
        """The opponents of each agent, by the agent's label.

        Without this index, the search for the opponents of each of 300 agents would go through 44,850 meetings.
        """
        opponents: dict[str, list[str]] = {}
        for one, two in self.agents:
            if one != two:
                opponents.setdefault(one, []).append(two)
                opponents.setdefault(two, []).append(one)
        return opponents

    def count_pairs_by_opening_group(self, first: str, second: str) -> NDArray[np.int64]:
        """Count the pairs of two agents, from the point of view of ``first``, as an array [G, 15].

        Rows are groups of openings. Columns are the 15 results of a pair, in the order of the cells of
        ``analytics.statistics.tally``. All counts are zero if the two agents never met.
        """
        ordered = _sort_agents(first, second)
        if ordered not in self._meeting_index:
            return np.zeros((len(self.cells), TALLY_CELLS), np.int64)
        counts = self.cells[:, self._meeting_index[ordered]]
        return counts if ordered[0] == first else counts[:, SWAPPED_CELLS]

    def build_meeting_clusters(self, first: str, second: str, total: Tally, seat: int | None = None) -> Clusters | None:
        """Build the clusters of the pairs of two agents, or return None if the two agents repeated no opening.

        ``total`` is the tally of these pairs. With ``seat``, only the games in which the first agent held that seat are
        counted.
        """
        if _sort_agents(first, second) not in self.repeated:
            return None
        grouped = self.count_pairs_by_opening_group(first, second)
        return build_clusters(grouped, tally_to_cells(total) - grouped.sum(axis=0), seat)

    def build_agent_clusters(self, agent: str, total: Tally) -> Clusters | None:
        """Build the clusters of an agent's pairs with other agents, or return None if the agent has no shared openings.

        ``total`` is the tally of all pairs of the agent with other agents.
        """
        opponents = self._opponents_by_agent.get(agent)
        if not opponents:
            return None
        grouped = sum(
            (self.count_pairs_by_opening_group(agent, opponent) for opponent in opponents),
            np.zeros((1, TALLY_CELLS), np.int64),
        )
        return build_clusters(grouped[grouped.any(axis=1)], tally_to_cells(total) - grouped.sum(axis=0))


def find_shared_opening_seeds(records: Iterable[RunRecord], pairing_ids: Iterable[PairingId]) -> dict[PairingId, int]:
    """Return the opening seed of each pairing that shares its openings with another pairing in ``pairing_ids``.

    ``records`` are the runs of these pairings.
    """
    seeds = {record.run_id: record.opening_seed for record in records}
    seed_by_pairing = {key: seed for key in pairing_ids if (seed := seeds[key[0]]) is not None}
    pairings_by_seed = Counter(seed_by_pairing.values())
    return {key: seed for key, seed in seed_by_pairing.items() if pairings_by_seed[seed] > 1}


def build_shared_openings(
    agents: Mapping[PairingId, AgentPair], seeds: Mapping[PairingId, int], counts: pl.DataFrame
) -> SharedOpenings:
    """Build the counts of shared openings from ``counts``, the answer to ``shared_opening_counts_sql``.

    ``agents`` and ``seeds`` have the two agents and the opening seed of each pairing.
    """
    meetings = sorted({_sort_agents(*agents[key]) for key in seeds})
    ordered = [_sort_agents(*agents[key]) for key in seeds]
    index = {agent_pair: index for index, agent_pair in enumerate(meetings)}
    meeting_numbers = np.array([index[agent_pair] for agent_pair in ordered])
    is_swapped = np.array([agents[key] != agent_pair for key, agent_pair in zip(seeds, ordered, strict=True)])
    pairing, group, code, pairs = (counts[name].to_numpy() for name in ("number", "openings", "code", "pairs"))
    cell = CELL_BY_CODE[code]
    group_ids, group = np.unique(group, return_inverse=True)
    cells = np.zeros((len(group_ids), len(meetings), TALLY_CELLS), np.int64)
    np.add.at(cells, (group, meeting_numbers[pairing], np.where(is_swapped[pairing], SWAPPED_CELLS[cell], cell)), pairs)
    meetings_by_seed = Counter(zip(ordered, seeds.values(), strict=True))
    return SharedOpenings(
        tuple(meetings),
        cells,
        frozenset(agent_pair for (agent_pair, _), times in meetings_by_seed.items() if times > 1),
    )


def numbered_seed_hashes_frame(seeds: Mapping[PairingId, int]) -> pl.DataFrame:
    """Return a row for each pairing in ``seeds``: ``run_id``, ``pairing``, ``number``, ``spread``.

    ``number`` is the index of the pairing in ``seeds``, and ``spread`` is a hash of the pairing's opening seed. The
    query of ``shared_opening_counts_sql`` reads this frame. The seeds are not part of the query's text, because DuckDB
    and our own parser take a minute for a text of 44,850 rows.
    """
    rows = [
        (run_id, pairing, number, zlib.crc32(str(seed).encode()))
        for number, ((run_id, pairing), seed) in enumerate(seeds.items())
    ]
    kinds = {"run_id": pl.String(), "pairing": pl.Int32(), "number": pl.Int32(), "spread": pl.Int64()}
    return pl.DataFrame(rows, kinds, orient="row")


def shared_opening_counts_sql(agents: Mapping[PairingId, AgentPair], seeds: Mapping[PairingId, int]) -> str:
    """Return the query that counts pairs of games by pairing, group of openings, and result.

    The query reads ``games``, and the frame ``numbered_seed_hashes_frame(seeds)`` under the name ``_sharing``. In its
    answer, ``number`` is the index of the pairing in ``seeds``, ``openings`` is the group, and ``code`` encodes the
    results of the games of a pair (``CELL_BY_CODE``).
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


CODE_DIGITS = 6  # of a fingerprint, which follows a label under which several codes played


class AgentNames(NamedTuple):
    """The names under which agents are shown: labels, or ``label@code`` if different code played under one label."""

    distinct_names: Mapping[tuple[str, str], str]  # by run id and label, where the name is not the label
    notes: tuple[str, ...] = ()  # for the user, a sentence for each label under which several codes played

    def find_name(self, run_id: str, label: str) -> str:
        """Return the name of the agent that played under ``label`` in the run with this id."""
        return self.distinct_names.get((run_id, label), label)


def build_agent_names(run_labels: Iterable[tuple[RunRecord, str]]) -> AgentNames:
    """Build the names of the agents in ``run_labels``, which has tuples of a run and a label, possibly repeated."""
    pairs = list(run_labels)
    records = {record.run_id: record for record, _ in pairs}
    codes = _find_codes_by_run(records.values())
    codes_by_label: dict[str, set[str]] = {}
    for record, label in pairs:
        if code := codes[record.run_id].get(label):
            codes_by_label.setdefault(label, set()).add(code)
    ambiguous_labels = {
        label: sorted(label_codes) for label, label_codes in sorted(codes_by_label.items()) if len(label_codes) > 1
    }
    distinct_names = {
        (run_id, label): _format_code_label(label, code)
        for run_id, run_codes in codes.items()
        for label, code in run_codes.items()
        if label in ambiguous_labels
    }
    notes = list[str]()
    for label, label_codes in ambiguous_labels.items():
        names = " and ".join(_format_code_label(label, code) for code in label_codes)
        count = format_count_with_noun(len(label_codes), "code")
        text = f"{label!r} was played by {count}, shown as {names}"
        notes.append(Advice(text, "--run chooses runs of one", "run=… chooses runs of one"))
    extended = [run_id for run_id, record in records.items() if _is_extended_by_unverified_code(record)]
    if extended:
        notes.append(f"run {', '.join(extended)} has games of several codes under one label: other code extended it")
    return AgentNames(distinct_names, tuple(notes))


def _is_extended_by_unverified_code(record: RunRecord) -> bool:
    """Return whether a run was extended by code that has not reproduced a sample of the run's games.

    Code extends a run if it adds games to a run that other code began.
    """
    return not set(record.code.get("extended_by", ())) <= set(record.code.get("same_games", ()))


def _find_codes_by_run(records: Collection[RunRecord]) -> Mapping[str, Mapping[str, str]]:
    """Return the code fingerprint of each agent, by run id and label.

    Versions of code that play the same games have the same fingerprint in the result. Two versions are taken to play
    the same games if one of them reproduced a sample of the games that the other one had played.
    """
    representatives = dict[tuple[str, str], str]()  # by label and code: another code that plays the same, or itself

    def find_representative(label: str, code: str) -> str:
        while (other := representatives.setdefault((label, code), code)) != code:
            code = other
        return code

    for record in records:
        run_codes = record.agent_codes
        for agents in record.code.get("same_games", {}).values():
            for label, code in find_agent_codes({"agents": agents}).items():
                if label in run_codes:
                    one, other = sorted(
                        (find_representative(label, run_codes[label]), find_representative(label, code))
                    )
                    representatives[label, other] = one
    if not representatives:  # the usual case, for which thousands of records need not be looked through again
        return {record.run_id: record.agent_codes for record in records}
    return {
        record.run_id: {label: find_representative(label, code) for label, code in record.agent_codes.items()}
        for record in records
    }


def _format_code_label(label: str, code: str) -> str:
    return f"{label}@{code[:CODE_DIGITS]}"


def resolve_shown_agent_label(name: str, labels: Collection[str]) -> str | None:
    """Return the label that is shown as ``name``, or None if ``labels`` does not contain the label.

    ``name`` may be the label alone, or the label followed by ``@code``.
    """
    label, _, code = name.rpartition("@")
    if name in labels or len(code) != CODE_DIGITS:
        label = name
    return label if label in labels else None
