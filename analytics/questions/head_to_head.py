"""Head-to-head results of each pair of agents in chosen games: from tallies, or counted from games in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import polars as pl

from analytics.questions.cookbook import read_query
from analytics.questions.pairings import (
    AgentNames,
    PairingResult,
    SharedOpenings,
    build_agent_names,
    build_shared_openings,
    find_shared_opening_seeds,
    load_results_by_run,
    numbered_seed_hashes_frame,
    pairings_frame,
    shared_opening_counts_sql,
)
from analytics.questions.selection import (
    ALL_GAMES,
    ALWAYS_TRUE,
    ONLY_TRAININGS,
    GameFilter,
    check_single_rules,
    describe_pairings_of_identical_games,
    select_games,
)
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import run_condition_sql
from analytics.statistics.tally import FORFEITS, Tally, build_tally, sum_tallies
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.errors import Advice, FailureError, RequestError

MAX_NAMED = 3  # incomplete runs that a warning names
ResultsByPairing = dict[tuple[str, int], PairingResult]  # by run and number of the pairing


@dataclass(frozen=True)
class HeadToHead:
    """The results of games between agents, with one result for each pair of agents that met."""

    rules: str
    results: tuple[PairingResult, ...]  # from the view of the oldest run's first agent; ``pairing`` is the index
    notes: tuple[str, ...]  # warnings for a reader of these results
    # None if no two pairings of these games played the same openings. Not compared, because the results determine it.
    shared: SharedOpenings | None = field(default=None, compare=False)
    mover_chooses: bool = field(default=False, compare=False)  # the piece, by these rules

    @property
    def tallies(self) -> dict[tuple[str, str], Tally]:
        """The tally of each pair of agents, by the labels of the first and the second agent."""
        return {(result.first, result.second): result.tally for result in self.results}

    @property
    def games(self) -> int:
        return sum(result.games for result in self.results)

    def to_frame(self, by_seat: bool = False) -> pl.DataFrame:
        """Return a row for each pair of agents that met, with the columns of ``pairings_frame``.

        With ``by_seat``, each pair of agents has one row for each seat in which the first agent played. The frame then
        has a column ``seat``, and no columns for forfeits.
        """
        if not by_seat:
            return pairings_frame(self.results)
        seats, seat_results = zip(*split_by_seat(self.results, self.shared), strict=True)
        frame = pairings_frame(seat_results).drop("first_forfeits", "second_forfeits")
        return frame.insert_column(2, pl.Series("seat", seats, pl.Int64()))


class SeatResult(NamedTuple):
    """The part of a result in which the first agent held one of the seats."""

    seat: int
    result: PairingResult


def split_by_seat(results: Iterable[PairingResult], shared: SharedOpenings | None = None) -> list[SeatResult]:
    """Split each result by the first agent's seat, into the games in seat 0 and the games in seat 1.

    A seat without games is left out. The first agent plays one game of each pair in each seat. The games in one seat
    are therefore independent of each other, and variances are computed over games. If ``shared`` shows that the two
    agents played the same openings several times, variances are computed over openings.
    """
    seat_results = []
    for result in results:
        for seat in (0, 1):
            games_by_seat = [(0, 0, 0), (0, 0, 0)]
            games_by_seat[seat] = result.losses_draws_wins_in_seat(seat)
            if any(games_by_seat[seat]):
                tally = Tally(singles=(games_by_seat[0], games_by_seat[1]))
                clusters = (
                    shared.build_meeting_clusters(result.first, result.second, result.tally, seat) if shared else None
                )
                seat_result = replace(result, tally=tally, by_pairs=False, clusters=clusters)
                seat_results.append(SeatResult(seat, seat_result))
    return seat_results


def compute_head_to_head(
    opened: OpenArchive, game_filter: GameFilter = ALL_GAMES, with_notes: bool = True
) -> HeadToHead:
    """Compute the results of each pair of agents in the games that the filter chooses.

    Without a condition in SQL, the results come from tallies. Games are read only in runs in which several pairings
    played the same openings, because their intervals depend on the results after each opening. With a condition, a pair
    of which only one game is chosen is counted as a single game. Without ``with_notes``, the result has no notes; this
    saves reading games, of which a note counts the copies.

    Raises:
        RequestError: No game is chosen, a run is not in the archive, the condition is invalid, or the games were played
            under several rule sets.
        FailureError: A file is damaged.

    """
    records, results, names, training_count = load_chosen_results(opened, game_filter)
    shared = load_shared_openings(opened, game_filter.where, records, results)
    merged = merge_results_by_agents(results.values(), shared)
    if not with_notes:
        return HeadToHead(records[0].rules.name, merged, (), shared, records[0].rules.mover_chooses)
    notes = [
        *names.notes,
        *_describe_ambiguous_labels_and_omissions(records, merged, training_count),
        *_describe_incomplete_runs(opened, records),
    ]
    notes += describe_pairings_of_identical_games(opened, [record.run_id for record in records])
    return HeadToHead(records[0].rules.name, merged, tuple(notes), shared, records[0].rules.mover_chooses)


class ChosenResults(NamedTuple):
    """The results in the chosen games, by run and pairing; results of the same two agents are not merged yet."""

    records: list[RunRecord]  # the runs, by one set of rules
    results: ResultsByPairing
    names: AgentNames
    trainings: int  # runs of trainings that are left out


def load_chosen_results(opened: OpenArchive, game_filter: GameFilter) -> ChosenResults:
    """Return the results of the chosen games.

    They come from the stored tallies or, if the filter has an SQL condition, are counted from the games themselves.
    Raises the errors of ``compute_head_to_head``.
    """
    records = _select_runs_including_trainings(opened, game_filter)
    chosen = [record for record in records if game_filter.can_match_run(record)]
    if records and not chosen:
        raise RequestError(Advice(ONLY_TRAININGS, "--trainings includes them", "trainings=True includes them"))
    check_single_rules(chosen)
    results = (
        load_tally_results(opened, chosen)
        if game_filter.where is None
        else count_game_results(opened, game_filter.where, chosen)
    )
    results = {
        key: result for key, result in results.items() if game_filter.can_match_agents((result.first, result.second))
    }
    named_results, names = replace_labels(results, chosen)
    return ChosenResults(chosen, named_results, names, len(records) - len(chosen))


def _describe_incomplete_runs(opened: OpenArchive, records: Sequence[RunRecord]) -> list[str]:
    """Describe the runs that lack some of the games that their commands asked for.

    The result has a warning about the runs that can be continued, and one about those that cannot.
    """
    continuable, final = list[str](), list[str]()
    for record in records:
        missing_ranges = opened.archive.list_effective_ranges(record.run_id).list_gaps(record.end_unit)
        if missing_ranges:
            games = format_count_with_noun(record.unit_line.count_games(missing_ranges), "game")
            (final if record.has_objects else continuable).append(f"{record.run_id} ({games} missing)")
    warnings = list[str]()
    if continuable:
        rest = "plays the rest of a run"
        warnings.append(
            Advice(f"not complete: {_join_few(continuable)}", f"the same command {rest}", f"the same call {rest}")
        )
    if final:
        warnings.append(
            f"not complete: {_join_few(final)}; nothing can play the rest, because their agents were objects"
        )
    return warnings


def _join_few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MAX_NAMED:,} more" if len(texts) > MAX_NAMED else ""
    return f"{', '.join(texts[:MAX_NAMED])}{more}"


def _select_runs_including_trainings(opened: OpenArchive, game_filter: GameFilter) -> list[RunRecord]:
    """Select the runs that have chosen games; trainings are selected even if the filter leaves them out.

    The caller removes these trainings, and reports how many there are. Raises the errors of ``compute_head_to_head``.
    """
    archive = opened.archive
    for run_id in set(archive.list_ids_of_runs_with_games()) - set(archive.list_recorded_run_ids()):
        if len(archive.list_effective_ranges(run_id)):
            raise FailureError(f"run {run_id} has games and no record: restore its record")
    run_ids = set(archive.list_ids_of_runs_with_games())
    if game_filter.where is not None:
        run_ids = {record.run_id for record in select_games(opened, game_filter.where).runs}
    records = replace(game_filter, rules=None, trainings=True).select_runs(archive)
    records = [
        record for record in records if record.run_id in run_ids and len(archive.list_effective_ranges(record.run_id))
    ]
    if not records:
        of_runs = f" of run {', '.join(game_filter.runs)}" if game_filter.runs else ""
        raise RequestError(
            Advice(
                f"archive {archive.root} has no games{of_runs}",
                f"{archive.format_command('archive ls')} lists the runs",
                "archive.runs() lists the runs",
            )
        )
    game_filter.check_rules_were_played(records)
    return [record for record in records if game_filter.rules in (None, record.rules.name)]


def load_shared_openings(
    opened: OpenArchive, where: str | None, records: Sequence[RunRecord], results: ResultsByPairing
) -> SharedOpenings | None:
    """Load the counts of pairs of games for the pairings that share openings with another pairing.

    The counts are by groups of openings, which ``SharedOpenings`` explains. ``results`` has the results of all
    pairings. ``where`` is a condition on the games to count, or None to count all games. Return None if no pairings
    share openings.
    """
    seeds = find_shared_opening_seeds(records, results)
    if not seeds:
        return None
    agents = {key: (results[key].first, results[key].second) for key in seeds}
    runs = {run_id for run_id, _ in seeds}
    chosen = [record for record in records if record.run_id in runs]
    frames = {"_sharing": numbered_seed_hashes_frame(seeds)}
    groups = _query_games(opened, shared_opening_counts_sql(agents, seeds), where or ALWAYS_TRUE, chosen, frames)
    return build_shared_openings(agents, seeds, groups)


def load_tally_results(opened: OpenArchive, records: Iterable[RunRecord]) -> ResultsByPairing:
    """Load the results of the runs' pairings from the stored tallies, in the order of the runs.

    Pairings without games are left out.
    """
    return {
        (run_id, result.pairing): result
        for run_id, run_results in load_results_by_run(opened.archive, records).items()
        for result in run_results
        if result.games
    }


def count_game_results(opened: OpenArchive, where: str, records: Sequence[RunRecord]) -> ResultsByPairing:
    """Count, for each pairing of these runs, the results in the games that meet the condition ``where``.

    The results are in the order of the runs. A pair of which only one game is chosen is counted as a single game.
    """
    rows: dict[tuple[str, int], list[list[int]]] = {}
    for run_id, pairing, zero, one, pairs in _query_games(
        opened, read_query("pair_results"), where, records
    ).iter_rows():
        cells = rows.setdefault((run_id, pairing), [[0, 0, 0] for _ in range(5)])
        row, column = (3, zero) if one is None else (4, one) if zero is None else (zero, one)
        cells[row][column] += pairs
    results: dict[tuple[str, int], PairingResult] = {}
    by_pairs = {record.run_id: record.has_paired_openings for record in records}
    for pairing in _query_games(opened, read_query("pairings"), where, records).to_dicts():
        key = pairing["run_id"], pairing["pairing"]
        cells = rows[key]
        forfeits = [[pairing[f"{kind}_{agent}"] for agent in ("first", "second")] for kind in FORFEITS]
        tally = build_tally({"pairs": cells[:3], "singles": cells[3:]}, forfeits, pairing["plies"])
        results[key] = PairingResult(key[1], pairing["first"], pairing["second"], tally, by_pairs[key[0]])
    order = {record.run_id: i for i, record in enumerate(records)}
    return {key: results[key] for key in sorted(results, key=lambda key: (order[key[0]], key[1]))}


def _query_games(
    opened: OpenArchive,
    query: str,
    where: str,
    records: Iterable[RunRecord],
    frames: Mapping[str, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Return the answer to a query about the games of these runs that meet the condition ``where``.

    The query may also read ``frames``, each by its name.
    """
    # The restriction to runs stands outside, so that no bracket in the condition can cancel it.
    of_runs = run_condition_sql(record.run_id for record in records)
    chosen_games = f"SELECT * FROM (SELECT * FROM games WHERE (\n{where}\n)) WHERE {of_runs}"  # noqa: S608  (by design)
    return opened.sql(f"WITH games AS ({chosen_games}) FROM (\n{query}\n)", None, **(frames or {}))


class NamedResults(NamedTuple):
    """Results in which agents have the names that ``build_agent_names`` gives them."""

    results: ResultsByPairing
    names: AgentNames


def replace_labels(results: ResultsByPairing, records: Sequence[RunRecord]) -> NamedResults:
    """Replace the labels of agents with the names from ``build_agent_names``, and return the names, too."""
    records_by_id = {record.run_id: record for record in records}
    names = build_agent_names(
        (records_by_id[run_id], label)
        for (run_id, _), result in results.items()
        for label in (result.first, result.second)
    )
    if not names.distinct_names:  # the usual case, for which thousands of results need not be copied
        return NamedResults(results, names)
    named_results = {
        key: replace(result, first=names.find_name(key[0], result.first), second=names.find_name(key[0], result.second))
        for key, result in results.items()
    }
    return NamedResults(named_results, names)


def merge_results_by_agents(
    results: Iterable[PairingResult], shared: SharedOpenings | None
) -> tuple[PairingResult, ...]:
    """Merge all results of the same two agents into one result.

    The variance of a merged result is computed over pairs of games if the variance of any of the results in it was, and
    over games otherwise. If ``shared`` shows that the two agents played the same openings several times, the variance
    is computed over openings.
    """
    meetings: dict[tuple[str, str], list[PairingResult]] = {}
    for result in results:
        agents, swapped_agents = (result.first, result.second), (result.second, result.first)
        if agents not in meetings and swapped_agents in meetings:
            meetings[swapped_agents].append(result.with_agents_swapped)
        else:
            meetings.setdefault(agents, []).append(result)
    merged = list[PairingResult]()
    for (first, second), same_agents in meetings.items():
        tally = sum_tallies(result.tally for result in same_agents)
        by_pairs = any(result.by_pairs for result in same_agents)
        clusters = shared.build_meeting_clusters(first, second, tally) if shared else None
        merged.append(PairingResult(len(merged), first, second, tally, by_pairs, clusters))
    return tuple(merged)


def _describe_ambiguous_labels_and_omissions(
    records: Sequence[RunRecord], results: Sequence[PairingResult], omitted_training_count: int
) -> list[str]:
    """Describe labels that stand for different agents, and games that are left out of the results or ratings.

    ``omitted_training_count`` is the number of trainings that were left out.
    """
    agents: dict[str, dict[str, list[str]]] = {}  # runs, by the agent's description, by label
    labels = {label for result in results for label in (result.first, result.second)}
    for record in records:
        for agent in record.spec["agents"]:
            description = json.dumps(dict(agent), sort_keys=True)
            agents.setdefault(agent["label"], {}).setdefault(description, []).append(record.run_id)
    notes: list[str] = [
        Advice(
            f"{label!r} is not the same agent in all of these games, as in runs "
            f"{' and '.join(runs[0] for runs in kinds)}",
            "choose runs with --run",
            "choose runs with run=…",
        )
        for label, kinds in ((label, list(kinds.values())) for label, kinds in sorted(agents.items()))
        if len(kinds) > 1 and label in labels
    ]
    self_play_games = sum(result.games for result in results if result.first == result.second)
    if omitted_training_count:
        runs = format_count_with_noun(omitted_training_count, "run of a training is", "runs of trainings are")
        notes.append(Advice(f"{runs} left out", "--trainings includes them", "trainings=True includes them"))
    if self_play_games:
        games = format_count_with_noun(self_play_games, "game")
        notes.append(f"nothing about strength follows from {games} of agents against themselves")
    return notes
