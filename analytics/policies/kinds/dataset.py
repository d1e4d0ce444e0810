"""The games from which a policy is derived: a ``Dataset`` in memory, 44 bytes a game, or a ``GameStream`` from files.

Runs are in the order in which they began, as their records say, and the games of a run are in the order of their ids.
No clock or machine changes this order. The games of the latest generation of a training come last.

The ids of a policy's games are stored beside the policy: ``games.parquet`` has a row for each range of ids.
``select_source_games`` finds these games again. The condition that selected the games is not asked again, so games
that were added later change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.policy import Policy
from analytics.questions.selection import (
    ALWAYS_TRUE,
    Selection,
    has_any_game,
    read_pair_ranges,
    read_selected_games,
    select_pair_ranges_and_count_games,
)
from analytics.questions.sql.database import OpenArchive
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.game_tables import RangeGames, compute_fingerprint, select_games
from analytics.store.policy_cards import PolicyCard
from analytics.store.ranges import MODULUS
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS
from analytics.store.texts import format_count_with_noun
from quarto.batch import GAME_BITS, NO_VALUE, Games
from quarto.errors import RequestError, suggest_valid_names
from quarto.jit import kernel, uint64
from quarto.rng import GAMMA, mix
from quarto.rules import PIECES, Rules

T = TypeVar("T")
BOTH_SEATS = 0b11  # bits of the two seats


class RunSpan(NamedTuple):
    """The part of a dataset that holds the games of one run."""

    record: RunRecord
    start: int  # index of the first game
    end: int  # index after the last game


@dataclass(frozen=True)
class Dataset:
    """``G`` games in memory from runs under the same rules, grouped by run and sorted by game id within each run."""

    runs: tuple[RunRecord, ...]  # in the order in which they are learned from
    begins: tuple[int, ...]  # index of the first game of each run, and G
    game_id: NDArray[np.int64]  # [G]
    opening: NDArray[np.int8]  # [G] plies that were imposed, not chosen
    games: Games

    @property
    def rules(self) -> Rules:
        """The rules of all games."""
        return self.runs[0].rules

    @property
    def size(self) -> int:
        """The number of games."""
        return len(self.game_id)

    def read_blocks(self) -> Iterator[tuple[RunRecord, RangeGames]]:
        """Yield the record of each run with all of the run's games as one block: see ``GameSource.read_blocks``."""
        for record, start, end in self.list_run_spans():
            rows = slice(start, end)
            yield record, RangeGames(self.game_id[rows], self.opening[rows], select_games(self.games, rows))

    def read_evaluation_values_if_any(self, run_id: str, games: RangeGames) -> NDArray[np.int32]:  # noqa: ARG002
        """Return an array [16, G] filled with ``NO_VALUE``, because a dataset in memory has no evaluations."""
        return np.full((PIECES, len(games.game_id)), NO_VALUE, np.int32)

    @property
    def evaluation_sums(self) -> dict[str, str]:
        """An empty dictionary, because a dataset in memory has no values that players reported.

        In a ``GameStream``, this property has a fingerprint of the reported values of each run.
        """
        return {}

    def list_run_spans(self) -> Iterator[RunSpan]:
        """Yield, for each run, its record and the span of its games in the arrays of the dataset."""
        yield from map(RunSpan, self.runs, self.begins[:-1], self.begins[1:])

    def to_stepped_id_ranges(self) -> pl.DataFrame:
        """Return the ids of all games as a frame of ranges: see ``build_stepped_id_ranges``."""
        return build_stepped_id_ranges(
            {record.run_id: self.game_id[start:end] for record, start, end in self.list_run_spans()}
        )

    def compute_fingerprints(self, threads: int) -> dict[str, str]:
        """Compute the fingerprint of each run's games in this dataset; return the fingerprints by run id.

        Each fingerprint has 16 hex digits.
        """

        def sum_span_fingerprints(first: int, last: int) -> int:
            return int(compute_fingerprint(self.game_id, self.opening, self.games, (first, last)))

        return format_fingerprints(
            {
                record.run_id: sum(map_spans(sum_span_fingerprints, start, end, threads))
                for record, start, end in self.list_run_spans()
            }
        )


def format_fingerprints(sums: Mapping[str, int]) -> dict[str, str]:
    """Format sums of hashes, such as the hashes of a run's games, as fingerprints of 16 hex digits.

    The keys of ``sums`` and of the result are run ids.
    """
    return {run_id: f"{total % MODULUS:016x}" for run_id, total in sums.items()}


class GameSource(Protocol):
    """A source of games to learn from, in the order of learning: the games are in memory, or are read file by file."""

    @property
    def runs(self) -> tuple[RunRecord, ...]: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def size(self) -> int: ...

    def read_blocks(self) -> Iterator[tuple[RunRecord, RangeGames]]:
        """Yield the games in blocks, each with the record of its run.

        Blocks come run by run, and the games of a block ascend by id. The method may be called several times.
        """
        ...

    def read_evaluation_values_if_any(self, run_id: str, games: RangeGames) -> NDArray[np.int32]:
        """Read the values that players reported for their turns: [16, G] in millionths, NO_VALUE where none is logged.

        Row n holds the value of the turn that placed the piece of ply n. No player chose an imposed placement, so no
        value belongs to it. The row of the last imposed placement holds the value of the gift after it, the first
        decision of a player.
        """
        ...


@dataclass(frozen=True)
class LearnedPolicy:
    """A policy and, if the method keeps one, its learning curve."""

    policy: Policy
    curve: pl.DataFrame | None = None  # in a form that ``analytics.report.style.render_curve_svg`` draws


@runtime_checkable
class PolicyKind(Protocol):
    """A method that derives a policy from games. An instance is built from ``conf/kind/KIND.yaml``."""

    def derive(self, dataset: Dataset, threads: int) -> Policy:
        """Derive the policy, which depends only on the games and not on the number of threads.

        Raises ``RequestError`` if the parameters of this kind do not fit the games.
        """
        ...


@runtime_checkable
class LearningKind(Protocol):
    """A kind that learns its policy in several passes over the games, which need not fit into memory."""

    def derive(self, dataset: GameSource, threads: int) -> Policy:
        """Derive the policy: see ``PolicyKind.derive``."""
        ...

    def learn(self, dataset: GameSource, threads: int) -> LearnedPolicy:
        """Learn the policy that ``derive`` returns, and return this policy with its learning curve."""
        ...


@runtime_checkable
class CountingKind(Protocol):
    """A kind whose policy follows from counts over the games. The counts of separate files can be added up."""

    def count(self, dataset: Dataset, threads: int) -> NDArray[np.int64]:
        """Return the counts over the games of a dataset.

        The shape of the array is the same for all datasets, so that their counts can be added up.
        """
        ...

    def policy_from_counts(self, counts: NDArray[np.int64]) -> Policy:
        """Build the policy from the sum of the counts over all games."""
        ...


def find_agent_seat_bits(agent: str | None, record: RunRecord, game_id: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the seats that an agent held in each game of a run, as bits: [G], where bit s stands for seat s.

    ``agent`` is a label. If it is None, the bits of both seats are set.
    """
    if agent is None:
        return np.full(len(game_id), BOTH_SEATS, np.int8)
    first, second = (np.array([labels[i] == agent for labels in record.pairings]) for i in (0, 1))
    pairing, game = game_id >> GAME_BITS, game_id & 1
    held: NDArray[np.int8] = (first[pairing] * (1 << game) | second[pairing] * (2 >> game)).astype(np.int8)
    return held


def check_agent_played(agent: str | None, played: bool, runs: Sequence[RunRecord]) -> None:
    """Raise ``RequestError`` unless ``played``, which says whether the agent played any of the games of ``runs``."""
    if not played:
        labels = {label for record in runs for label in record.labels}
        raise RequestError(f"agent={agent} played none of the games{suggest_valid_names(str(agent), labels)}")


def map_spans(function: Callable[[int, int], T], start: int, end: int, threads: int) -> list[T]:
    """Call ``function(first, last)`` for ``threads`` equal spans of a range, and return the results in order.

    The range begins at ``start`` and ends before ``end``; each span begins at its ``first`` and ends before its
    ``last``. Each span has its own thread. Threads help because kernels release the GIL.
    """
    edges = np.linspace(start, end, threads + 1).astype(np.int64).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, edges[:-1], edges[1:]))


def load_dataset(selection: Selection, run_order: Sequence[str] = ()) -> Dataset:
    """Load the games of a selection into memory.

    ``run_order`` has the ids of all runs of the selection in the order of learning. By default, this is the order in
    which the runs began.

    Raises ``RequestError`` if the runs have different rules, or rules under which the mover chooses the piece; no game
    is read before this check. Raises ``FailureError`` for a damaged file.
    """
    runs = check_rules_and_sort_for_learning(selection.runs, run_order)
    counts = dict(zip((record.run_id for record in selection.runs), selection.counts, strict=True))
    begins = (0, *np.cumsum([counts[record.run_id] for record in runs]).tolist())
    free = dict(zip((record.run_id for record in runs), begins[:-1], strict=True))  # the next column of each run
    size = begins[-1]
    dataset = Dataset(runs, begins, np.zeros(size, np.int64), np.zeros(size, np.int8), Games.allocate(size))
    for record, chosen in selection.read_blocks():
        first = free[record.run_id]
        free[record.run_id] = end = first + len(chosen.game_id)
        dataset.game_id[first:end], dataset.opening[first:end] = chosen.game_id, chosen.opening
        for column, values in zip(dataset.games, chosen.games, strict=True):
            column[..., first:end] = values
    for _, start, end in dataset.list_run_spans():
        _sort_by_game_id(dataset, start, end)
    return dataset


def check_rules_and_sort_for_learning(
    runs: Sequence[RunRecord], run_order: Sequence[str] = ()
) -> tuple[RunRecord, ...]:
    """Sort runs by the place of their ids in ``run_order`` or, without it, by the order in which they began.

    Raises ``RequestError`` if no policy can be learned under the rules of the runs: see
    ``_check_same_rules_with_choosing_opponent``.
    """
    _check_same_rules_with_choosing_opponent(runs)
    by_begin = sorted(runs, key=lambda record: (record.number, record.run_id))
    return tuple(sorted(by_begin, key=lambda record: run_order.index(record.run_id) if run_order else 0))


def _check_same_rules_with_choosing_opponent(runs: Sequence[RunRecord]) -> None:
    """Raise ``RequestError`` unless all runs have the same rules, in which the opponent chooses the piece."""
    first = runs[0]
    for record in runs[1:]:
        if replace(record.rules, name="") != replace(first.rules, name=""):
            one, other = (f"{run.run_id} ({run.rules.name})" for run in (first, record))
            only = f"run_id IN (SELECT run_id FROM runs WHERE rules = '{first.rules.name}')"  # noqa: S608  (an example)
            raise RequestError(
                f"runs {one} and {other} have different rules, and a policy is learned under one: choose, as in {only}"
            )
    if first.rules.mover_chooses:
        raise RequestError(
            f"run {first.run_id} was played under rules '{first.rules.name}', where the mover chooses the piece: "
            "policies are derived from games in which the opponent does"
        )


def _sort_by_game_id(dataset: Dataset, start: int, end: int) -> None:
    """Sort the games of a dataset in place by game id, from index ``start`` up to but not including ``end``.

    To save memory, the arrays are reordered one row at a time.
    """
    ids = dataset.game_id[start:end]
    if np.all(ids[1:] > ids[:-1]):
        return
    order = np.argsort(ids, kind="stable")
    columns = [dataset.game_id, dataset.opening, *dataset.games[2:], *dataset.games.pieces, *dataset.games.cells]
    for column in columns:
        column[start:end] = column[start:end][order]


@kernel()
def compute_values_fingerprint(game_id: NDArray[np.int64], values: NDArray[np.int32]) -> int:
    """Hash each reported value in ``values`` [16, G] with its game and ply; return the sum of the hashes (uint64)."""
    total = uint64(0)
    for ply in range(values.shape[0]):
        for game in range(values.shape[1]):
            if values[ply, game] != NO_VALUE:
                value = (uint64(ply) << uint64(32)) ^ uint64(values[ply, game])
                total += mix(mix(uint64(game_id[game]) + GAMMA) ^ (value + GAMMA))
    return total


EVALUATED_TURNS_SQL = """
SELECT game_id, ply, round(value * 1e6)::INTEGER AS value FROM evaluations
WHERE run_id = ? AND ply >= 0 AND value IS NOT NULL AND game_id BETWEEN ? AND ?
"""


class GameStream:
    """A source that reads the games of a selection from files: see ``GameSource``.

    Runs come in the order in which they are learned from, and the games of each run are sorted by game id. The first
    complete reading records the fingerprints of the games and the ranges of their ids. Building a stream raises
    ``RequestError`` in the same cases as ``load_dataset``; reading it raises ``FailureError`` for a damaged file.
    """

    def __init__(self, selection: Selection, run_order: Sequence[str] = ()) -> None:
        self.runs = check_rules_and_sort_for_learning(selection.runs, run_order)
        self._selection = selection
        self.size = selection.games
        self._sums: dict[str, int] = {}
        self._ranges: list[pl.DataFrame] = []
        self._value_sums: dict[
            str, tuple[int, int]
        ] = {}  # by run: the sum over the values that were read, and the last game's id

    @property
    def rules(self) -> Rules:
        return self.runs[0].rules

    def read_blocks(self) -> Iterator[tuple[RunRecord, RangeGames]]:
        """Yield the games of each run, sorted by pairing and pair, in blocks with the run's record.

        A block has games of one pairing in one file.
        """
        sums, ranges = dict[str, int](), list[pl.DataFrame]()
        for record in self.runs:
            for chosen in self._read_run_blocks(record):
                if not self._ranges:
                    more = chosen.fingerprint
                    sums[record.run_id] = sums.get(record.run_id, 0) + more
                    ranges.append(build_stepped_id_ranges({record.run_id: chosen.game_id}))
                yield record, chosen
        self._sums, self._ranges = self._sums or sums, self._ranges or ranges

    def _read_run_blocks(self, record: RunRecord) -> Iterator[RangeGames]:
        """Yield those games of a run that are in the selection, in blocks, sorted by pairing and pair."""
        archive = self._selection.opened.archive
        chosen_ids = [*self._selection.list_ranges_with_ids_of_run(record)]
        pair_ranges = [
            (number, part)
            for number, (stored, chosen) in enumerate(chosen_ids)
            for part in select_pair_ranges_and_count_games(archive, record, stored, chosen)
        ]
        pair_ranges.sort(key=lambda item: item[1])
        yield from read_pair_ranges(
            pair_ranges, lambda number: read_selected_games(archive, record.run_id, *chosen_ids[number])
        )

    def read_evaluation_values_if_any(self, run_id: str, games: RangeGames) -> NDArray[np.int32]:
        """Read the values that players reported for their turns: see ``GameSource.read_evaluation_values_if_any``."""
        values = np.full(games.games.pieces.shape, NO_VALUE, np.int32)
        span = [run_id, int(games.game_id[0]), int(games.game_id[-1])]
        turns = self._selection.opened.sql(EVALUATED_TURNS_SQL, span)
        ids, plies, worth = (turns[name].to_numpy() for name in ("game_id", "ply", "value"))
        columns = np.searchsorted(games.game_id, ids)
        chosen = games.game_id[np.minimum(columns, len(games.game_id) - 1)] == ids
        values[plies[chosen], columns[chosen]] = worth[chosen]
        if run_id not in self._value_sums or games.game_id[0] > self._value_sums[run_id][1]:  # parts come in order
            before, _ = self._value_sums.get(run_id, (0, -1))
            total = before + int(compute_values_fingerprint(games.game_id, values))
            self._value_sums[run_id] = total, int(games.game_id[-1])
        return values

    @property
    def evaluation_sums(self) -> dict[str, str]:
        """The fingerprints (16 hex digits) of the reported values that have been read, by run id."""
        return format_fingerprints({run_id: total for run_id, (total, _) in self._value_sums.items()})

    def _ensure_read_once_to_the_end(self) -> None:
        """Read all games once, unless that has been done, so that their fingerprints and id ranges are known."""
        if not self._ranges:
            for _ in self.read_blocks():
                pass

    def compute_fingerprints(self, threads: int) -> dict[str, str]:  # noqa: ARG002  (each file is read by one)
        """Return the fingerprint of the games of each run, by run id: see ``Dataset.compute_fingerprints``."""
        self._ensure_read_once_to_the_end()
        return format_fingerprints(self._sums)

    def to_stepped_id_ranges(self) -> pl.DataFrame:
        """Return the ids of all games as a frame of ranges; adjacent ranges are joined.

        See ``build_stepped_id_ranges``.
        """
        self._ensure_read_once_to_the_end()
        rows = pl.concat(self._ranges)
        end = pl.col("first_game") + pl.col("games") * pl.col("step")
        goes_on = (pl.col("first_game") == end.shift(1)) & (pl.col("step") == pl.col("step").shift(1))
        same_run = pl.col("run_id") == pl.col("run_id").shift(1)
        groups = rows.with_columns(group=(~(goes_on & same_run).fill_null(value=False)).cum_sum())
        joined = groups.group_by("group", maintain_order=True).agg(
            pl.col("run_id").first(), pl.col("first_game").first(), pl.col("games").sum(), pl.col("step").first()
        )
        return joined.select(pl.col(name).cast(kind) for name, kind in ID_RANGES_SCHEMA.items())


ID_RANGES_TABLE = "games"
MAX_MISSING_GAMES = 1 << 24  # games of a run that are looked for one by one: a forged card could name any number
ID_RANGES_SCHEMA = {"run_id": pl.String, "first_game": pl.Int64, "games": pl.Int64, "step": pl.Int64}


def build_stepped_id_ranges(ids_by_run: Mapping[str, NDArray[np.int64]]) -> pl.DataFrame:
    """Build a frame with the ranges of the game ids of each run; the ids of each run must be in ascending order.

    A range consists of ``games`` ids that begin at ``first_game`` and increase by ``step`` (1 or 2). Columns:
    ``run_id``, ``first_game``, ``games``, ``step``.
    """
    parts = []
    for run_id, ids in ids_by_run.items():
        apart = np.diff(ids)
        step = 1 if (apart == 1).any() else 2  # 2: one game of each pair, as when an agent is chosen in one seat
        begins = np.flatnonzero(np.concatenate([[True], apart != step]))
        games = np.diff(np.concatenate([begins, [len(ids)]]))
        columns = {"run_id": [run_id] * len(begins), "first_game": ids[begins], "games": games}
        parts.append(pl.DataFrame({**columns, "step": np.full(len(begins), step)}, schema=ID_RANGES_SCHEMA))
    return pl.concat(parts)


def expand_stepped_id_ranges(ranges: pl.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Expand a frame of ranges from ``build_stepped_id_ranges`` to arrays of game ids, and return them by run id."""
    ids_by_run = {}
    for (run_id,), rows in ranges.group_by("run_id", maintain_order=True):
        first, games, step = (rows[name].to_numpy() for name in ("first_game", "games", "step"))
        before = np.repeat(np.cumsum(games) - games, games)
        ids_by_run[str(run_id)] = np.repeat(first, games) + (np.arange(games.sum()) - before) * np.repeat(step, games)
    return ids_by_run


def select_source_games(opened: OpenArchive, card: PolicyCard) -> Selection:
    """Select the games from which the policy with this card was derived.

    Raises ``RequestError`` if the archive lacks any of these games, or a file with their plies.
    """
    ranges = _read_id_ranges(opened.archive, card)
    records = {run_id: opened.archive.find_run(run_id) for run_id in card.learned["run_ids"]}
    ids_by_run, runs = {}, []
    for run_id, record in records.items():
        if record is None:
            raise RequestError(
                f"policy '{card.name}' was derived from run {run_id}, which is no longer in archive "
                f"{opened.archive.root}: restore it, or name the archive that has it"
            )
        run_ranges = ranges.filter(run_id=run_id)
        games, held = int(run_ranges["games"].sum()), opened.archive.count_games(run_id)
        if games > held + MAX_MISSING_GAMES:
            raise RequestError(
                f"policy '{card.name}' was derived from {format_count_with_noun(games, 'game')} "
                f"of run {run_id}, and archive "
                f"{opened.archive.root} has {held:,}: repeat the command of the run to play them"
            )
        ids_by_run[run_id] = ids = expand_stepped_id_ranges(run_ranges)[run_id]
        lost = _select_missing_ids(opened.archive, record, ids)
        if lost.size:
            raise RequestError(
                f"policy '{card.name}' was derived from {format_count_with_noun(len(ids), 'game')} "
                f"of run {run_id}, {lost.size:,} of which "
                f"(the first is game {lost[0]}) are no longer in archive {opened.archive.root}: "
                "repeat the command of the run to play them"
            )
        gone = _find_missing_plies_path(opened.archive, record, ids)
        if gone is not None:
            raise RequestError(
                f"policy '{card.name}' was derived from games of run {run_id}, and {gone}, in which some of them were, "
                "is missing: restore it from a copy"
            )
        runs.append(check_record_format(record))
    counts = tuple(len(ids_by_run[record.run_id]) for record in runs)
    return Selection(opened, ALWAYS_TRUE, tuple(runs), counts, ids_by_run)


def _read_id_ranges(archive: ArchiveStore, card: PolicyCard) -> pl.DataFrame:
    """Read the ranges of the ids of the games from which the policy with this card was derived.

    Raises ``RequestError`` if the stored table is not one that a derivation writes.
    """
    ranges = policy_store.read_table(archive, card, ID_RANGES_TABLE)
    wrong = "other columns" if ranges.schema != pl.Schema(ID_RANGES_SCHEMA) else None
    if (
        not wrong
        and ranges.filter(
            (pl.col("first_game") < 0) | ~pl.col("games").is_between(1, 2 * MAX_PAIRS) | ~pl.col("step").is_in([1, 2])
        ).height
    ):
        wrong = "a range that holds no games"
    if not wrong and set(ranges["run_id"]) != set(card.learned["run_ids"]):
        wrong = "other runs"
    if wrong:
        raise RequestError(f"policy '{card.name}' is damaged: {ID_RANGES_TABLE}.parquet has {wrong}; build it again")
    return ranges


def _select_missing_ids(archive: ArchiveStore, record: RunRecord, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Select from ``ids`` the ids of those games of a run that the archive lacks."""
    return ids[~archive.list_effective_ranges(record.run_id).mark_held_units(record.unit_line.compute_units(ids))]


def _find_missing_plies_path(archive: ArchiveStore, record: RunRecord, ids: NDArray[np.int64]) -> str | None:
    """Return the path of a missing file with the plies of some of these games, or None if no file is missing.

    The archive lists a range as soon as its file of games exists, so its file of plies may be absent.
    """
    for stored in archive.list_effective_ranges(record.run_id):
        if has_any_game(record, stored, ids):
            try:
                archive.find_path_of_containing_file("plies", record.run_id, stored)
            except FileNotFoundError as error:
                return str(error)
    return None
