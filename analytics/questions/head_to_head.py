"""Head-to-head results of every two agents in chosen games: from tallies, or from SQL over games."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from analytics.questions.cookbook import query
from analytics.questions.pairings import (
    AgentNames,
    PairingResult,
    SharedOpenings,
    agent_names,
    pairings_frame,
    question,
    results_of,
    shared_openings,
    sharing,
    sharing_frame,
)
from analytics.questions.selection import EVERY_GAME, EVERYTHING, GameFilter, repeated_games, require_one_rules, select
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import among
from analytics.statistics.tally import FORFEITS, Tally, tally_from
from analytics.store.records import RunRecord
from quarto.errors import FailureError, RequestError

MOST_NAMED = 3  # runs that are not complete
Results = dict[tuple[str, int], PairingResult]  # by run and number of the pairing


@dataclass(frozen=True)
class HeadToHead:
    """The results of every two agents that played each other, each pair of agents once."""

    rules: str
    results: tuple[PairingResult, ...]  # by the first agent of their oldest run; ``pairing`` is the index
    notes: tuple[str, ...]  # warnings for a reader of these results
    # None if no two pairings of these games played the same openings; equal results have equal ones.
    shared: SharedOpenings | None = field(default=None, compare=False)
    mover_chooses: bool = field(default=False, compare=False)  # the piece, by these rules

    @property
    def tallies(self) -> dict[tuple[str, str], Tally]:
        """The tallies by first and second agent."""
        return {(result.first, result.second): result.tally for result in self.results}

    @property
    def games(self) -> int:
        return sum(result.games for result in self.results)

    def frame(self, by_seat: bool = False) -> pl.DataFrame:
        """A row for every two agents, with the columns of ``pairings_frame``.

        With ``by_seat`` a row for each seat of the first agent: ``seat`` is then a column, and forfeits are none.
        """
        if not by_seat:
            return pairings_frame(self.results)
        seats, apart = zip(*by_seats(self.results, self.shared), strict=True)
        frame = pairings_frame(apart).drop("first_forfeits", "second_forfeits")
        return frame.insert_column(2, pl.Series("seat", seats, pl.Int64()))


def by_seats(found: Iterable[PairingResult], shared: SharedOpenings | None = None) -> list[tuple[int, PairingResult]]:
    """Each result by seat of the first agent: the games in which it held seat 0, and those in seat 1, if any.

    A pair has one game of each, so the games of one seat are independent and the game is the unit of variance. Where
    the two met again on the same openings (``shared``), the opening is the unit.
    """
    apart = []
    for result in found:
        for seat in (0, 1):
            singles = [(0, 0, 0), (0, 0, 0)]
            singles[seat] = result.in_seat(seat)
            if any(singles[seat]):
                tally = Tally(singles=(singles[0], singles[1]))
                clusters = shared.of_meeting(result.first, result.second, result.tally, seat) if shared else None
                apart.append((seat, replace(result, tally=tally, by_pairs=False, clusters=clusters)))
    return apart


def head_to_head(opened: OpenArchive, choice: GameFilter = EVERY_GAME) -> HeadToHead:
    """The head-to-head results in the chosen games.

    Without a condition in SQL they come from tallies. Games are read only of runs in which several pairings played the
    same openings. Their intervals depend on the results after each opening. With a condition, a pair with only one
    chosen game counts as a single game. Raises ``RequestError`` when no game is chosen, for an unknown run, an invalid
    condition, and games under more than one set of rules; ``FailureError`` for damaged files.
    """
    records = _with_games(opened, choice)
    chosen = [record for record in records if choice.takes(record)]
    if records and not chosen:
        raise RequestError("all chosen games are those of trainings: --trainings takes them in")
    require_one_rules(chosen)
    found = of_tallies(opened, chosen) if choice.where is None else of_games(opened, choice.where, chosen)
    found = {key: result for key, result in found.items() if choice.takes_agents((result.first, result.second))}
    named, names = renamed(found, chosen)
    shared = openings_shared(opened, choice.where, chosen, named)
    merged = merged_results(named.values(), shared)
    notes = [*names.notes, *_notes(chosen, merged, len(records) - len(chosen)), *_incomplete(opened, chosen)]
    notes += repeated_games(opened, [record.run_id for record in chosen])
    return HeadToHead(chosen[0].rules.name, merged, tuple(notes), shared, chosen[0].rules.mover_chooses)


def _incomplete(opened: OpenArchive, records: Sequence[RunRecord]) -> list[str]:
    """A warning about runs that lack games that were asked for."""
    lacking = {each.run_id: opened.archive.ranges(each.run_id).missing(each.end_unit) for each in records}
    named = [
        f"{each.run_id} ({each.line.games_in(lacking[each.run_id]):,} games missing)"
        for each in records
        if lacking[each.run_id]
    ]
    if not named:
        return []
    more = f" and {len(named) - MOST_NAMED:,} more" if len(named) > MOST_NAMED else ""
    return [f"not complete: {', '.join(named[:MOST_NAMED])}{more}; the same command plays the rest of a run"]


def _with_games(opened: OpenArchive, choice: GameFilter) -> list[RunRecord]:
    """The runs with chosen games, those of trainings too. Raises as ``head_to_head`` does."""
    archive = opened.archive
    for run_id in set(archive.run_ids()) - set(archive.recorded()):
        if len(archive.ranges(run_id)):
            raise FailureError(f"run {run_id} has games and no record: restore its record")
    met = set(archive.run_ids())
    if choice.where is not None:
        met = {record.run_id for record in select(opened, choice.where).runs}
    records = replace(choice, rules=None, trainings=True).records(archive)
    records = [record for record in records if record.run_id in met and len(archive.ranges(record.run_id))]
    if not records:
        asked = f" of run {', '.join(choice.runs)}" if choice.runs else ""
        raise RequestError(f"archive {archive.root} has no games{asked}: {archive.hint('archive ls')} lists the runs")
    choice.require_rules(records)
    return [record for record in records if choice.rules in (None, record.rules.name)]


def openings_shared(
    opened: OpenArchive, where: str | None, records: Sequence[RunRecord], found: Results
) -> SharedOpenings | None:
    """The pairs of the results ``found`` that share openings with another result; None if there are none."""
    seeds = sharing(records, found)
    if not seeds:
        return None
    agents = {key: (found[key].first, found[key].second) for key in seeds}
    runs = {run_id for run_id, _ in seeds}
    chosen = [record for record in records if record.run_id in runs]
    frames = {"_sharing": sharing_frame(seeds)}
    groups = _ask(opened, question(agents, seeds), where or EVERYTHING, chosen, frames)
    return shared_openings(agents, seeds, groups)


def of_tallies(opened: OpenArchive, records: Iterable[RunRecord]) -> Results:
    """Every pairing of these runs that has games, from their tallies; in the order of the runs."""
    return {
        (run_id, result.pairing): result
        for run_id, found in results_of(opened.archive, records).items()
        for result in found
        if result.games
    }


def of_games(opened: OpenArchive, where: str, records: Sequence[RunRecord]) -> Results:
    """The same results, counted in the games of these runs that ``where`` chooses.

    A pair with only one chosen game counts as a single game.
    """
    rows: dict[tuple[str, int], list[list[int]]] = {}
    for run_id, pairing, zero, one, pairs in _ask(opened, query("pair_results"), where, records).iter_rows():
        cells = rows.setdefault((run_id, pairing), [[0, 0, 0] for _ in range(5)])
        row, column = (3, zero) if one is None else (4, one) if zero is None else (zero, one)
        cells[row][column] += pairs
    found: dict[tuple[str, int], PairingResult] = {}
    by_pairs = {record.run_id: record.by_pairs for record in records}
    for pairing in _ask(opened, query("pairings"), where, records).to_dicts():
        key = pairing["run_id"], pairing["pairing"]
        cells = rows[key]
        forfeits = [[pairing[f"{kind}_{agent}"] for agent in ("first", "second")] for kind in FORFEITS]
        tally = tally_from({"pairs": cells[:3], "singles": cells[3:]}, forfeits, pairing["plies"])
        found[key] = PairingResult(key[1], pairing["first"], pairing["second"], tally, by_pairs[key[0]])
    order = {record.run_id: i for i, record in enumerate(records)}
    return {key: found[key] for key in sorted(found, key=lambda key: (order[key[0]], key[1]))}


def _ask(
    opened: OpenArchive,
    text: str,
    where: str,
    records: Iterable[RunRecord],
    frames: Mapping[str, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Return the answer to a question in SQL about the games of these runs that ``where`` chooses, and ``frames``."""
    # The restriction to runs stands outside, so that no bracket in the condition can cancel it.
    of_runs = among(record.run_id for record in records)
    chosen = f"SELECT * FROM (SELECT * FROM games WHERE (\n{where}\n)) WHERE {of_runs}"  # noqa: S608  (by design)
    return opened.sql(f"WITH games AS ({chosen}) FROM (\n{text}\n)", None, **(frames or {}))


def renamed(found: Results, records: Sequence[RunRecord]) -> tuple[Results, AgentNames]:
    """The results with the names of ``agent_names`` instead of labels, and these names."""
    of_runs = {record.run_id: record for record in records}
    names = agent_names(
        (of_runs[run_id], label) for (run_id, _), result in found.items() for label in (result.first, result.second)
    )
    shown = {
        key: replace(result, first=names.name(key[0], result.first), second=names.name(key[0], result.second))
        for key, result in found.items()
    }
    return shown, names


def merged_results(found: Iterable[PairingResult], shared: SharedOpenings | None) -> tuple[PairingResult, ...]:
    """One result for every two agents. The unit of variance is the pair if it is so in any of their results.

    Where the two played the same openings again, it is the opening.
    """
    merged: dict[tuple[str, str], PairingResult] = {}
    for result in found:
        here, there = (result.first, result.second), (result.second, result.first)
        known = merged.get(here) or merged.get(there)
        if known is None:
            merged[here] = replace(result, pairing=len(merged))
            continue
        tally = result.tally if known.first == result.first else result.tally.swapped
        key = known.first, known.second
        merged[key] = replace(known, tally=known.tally + tally, by_pairs=known.by_pairs or result.by_pairs)
    return tuple(
        replace(result, clusters=shared.of_meeting(result.first, result.second, result.tally) if shared else None)
        for result in merged.values()
    )


def _notes(records: Sequence[RunRecord], found: Sequence[PairingResult], trainings: int) -> list[str]:
    """Warnings: labels that stand for different agents, and games that are left out here or in ratings.

    ``trainings`` is the number of runs of trainings that were left out.
    """
    agents: dict[str, dict[str, list[str]]] = {}  # runs, by the agent's description, by label
    met = {label for result in found for label in (result.first, result.second)}
    for record in records:
        for agent in record.spec["agents"]:
            described = json.dumps(dict(agent), sort_keys=True)
            agents.setdefault(agent["label"], {}).setdefault(described, []).append(record.run_id)
    notes = [
        f"{label!r} is not the same agent in all of these games, as in runs {' and '.join(runs[0] for runs in kinds)}: "
        "choose runs with --run"
        for label, kinds in ((label, list(kinds.values())) for label, kinds in sorted(agents.items()))
        if len(kinds) > 1 and label in met
    ]
    alone = sum(result.games for result in found if result.first == result.second)
    if trainings:
        runs = "1 run of a training is" if trainings == 1 else f"{trainings:,} runs of trainings are"
        notes.append(f"{runs} left out: --trainings takes them in")
    return [*notes, *([f"{alone:,} games of agents against themselves say nothing about strength"] * bool(alone))]
