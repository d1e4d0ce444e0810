"""Selections of games, and reading them: as arrays, range by range or by pairing, or as rows of few files.

``GameFilter`` is the one form in which a user's choice of games travels. ``select_games`` finds the games that meet a
condition in SQL.

A file holds pairs of all pairings, but ``read_pair_ranges`` returns games by pairing: it reads as many parts of files
together as memory allows, so that it opens each file once, and not once for each pairing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.questions.sql.conditions import check_and_combine_both_conditions, check_condition
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import RUN_ID_SQL, file_rows_sql, quote_text_or_number, run_condition_sql
from analytics.store.archive import ArchiveStore, check_record_format, is_agent_of_newer_run, unknown_run_error
from analytics.store.game_tables import RangeGames
from analytics.store.marker import VerifiableFile
from analytics.store.range_files import read_games, read_rows, read_tallies
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.batch import GAME_BITS
from quarto.errors import Advice, FailureError, RequestError, describe_nearest_name, suggest_valid_names

ONLY_TRAININGS = "all chosen games were played by trainings, which are left out"
MISSPELLING_SIMILARITY = 0.8  # of names of rules: 'squarre' is taken for 'square', 'torus_square' is not


@dataclass(frozen=True)
class GameFilter:
    """A filter that selects the games of an archive that meet all of its conditions."""

    where: str | None = None  # a condition on the view ``games``, in DuckDB's SQL
    runs: tuple[str, ...] = ()  # ids; none: all runs
    rules: str | None = None  # the rules' name
    agent: str | None = None  # label of an agent that took part; for decisions, the agent that decided
    opponent: str | None = None  # label of the other agent
    since: str | None = None  # runs created on this day or at this moment (ISO 8601, UTC) or later
    until: str | None = None  # runs created on this day, until its end, or at this moment, or earlier
    trainings: bool = True  # also runs that trainings played, unless they are named in ``runs``

    def can_match_run(self, record: RunRecord) -> bool:
        """Return whether, according to its record, a run may have games that meet the filter.

        Raises ``RequestError`` for a malformed time.
        """
        return (
            (not self.runs or record.run_id in self.runs)
            and self.rules in (None, record.rules.name)
            and (self.trainings or not record.training or record.run_id in self.runs)
            and any(map(self.can_match_agents, record.pairings))
            and self._is_in_period(record)
        )

    def can_match_agents(self, agents: tuple[str, str]) -> bool:
        """Return whether games between these two agents can meet the filter."""
        return any(
            self.agent in (None, one) and self.opponent in (None, other) for one, other in (agents, agents[::-1])
        )

    def _is_in_period(self, record: RunRecord) -> bool:
        if self.since is None and self.until is None:
            return True
        earliest, latest = (
            _parse_moment_or_unbounded(self.since, time.min, "since"),
            _parse_moment_or_unbounded(self.until, time.max, "until"),
        )
        return earliest <= record.begun <= latest

    def select_runs(self, archive: ArchiveStore) -> list[RunRecord]:
        """Select the runs that may have games that meet the filter, the oldest run first.

        Raises ``RequestError`` for a run, an agent or rules that the archive does not have, for a period without runs,
        and for a run whose format this program does not read.
        """
        all_records = archive.load_runs()
        ids = [record.run_id for record in all_records]
        for run_id in self.runs:
            if run_id not in ids:
                raise unknown_run_error(archive, run_id, ids)
        records = [record for record in all_records if (not self.runs or record.run_id in self.runs)]
        records = [check_record_format(record) for record in records if self._is_in_period(record)]
        if all_records and not records:
            raise RequestError(
                Advice(
                    f"archive {archive.root} has no runs of that period",
                    f"{archive.format_command('archive ls')} lists all",
                    "archive.runs() lists all",
                )
            )
        self.check_rules_were_played(records)
        labels = {label for record in records for label in record.labels if self.rules in (None, record.rules.name)}
        for requested_label in (self.agent, self.opponent):
            if requested_label is not None and requested_label not in labels:
                raise _build_unknown_agent_error(archive, requested_label, labels)
        return [record for record in records if self.can_match_run(record)]

    def check_rules_were_played(self, records: Collection[RunRecord]) -> None:
        """Raise ``RequestError`` if ``records`` has runs, but no run with the rules that the filter names."""
        names = sorted({record.rules.name for record in records})
        if names and self.rules is not None and self.rules not in names:
            suggestion = describe_nearest_name(self.rules, names, MISSPELLING_SIMILARITY).rstrip()
            names_and_suggestion = "; ".join(filter(None, [", ".join(names), suggestion]))
            raise RequestError(f"no games were played by rules {self.rules!r} here, only by: {names_and_suggestion}")


def _build_unknown_agent_error(archive: ArchiveStore, label: str, labels: Iterable[str]) -> RequestError:
    text = f"agent {label!r} is not in these runs"
    if is_agent_of_newer_run(archive, label):
        text = f"{text}, and is in a run that was added after the archive was opened"
        return RequestError(Advice(text, "give the command again", "archive.refresh() reads it"))
    return RequestError(f"{text}{suggest_valid_names(label, labels)}")


ALL_GAMES = GameFilter()


def build_games_condition(opened: OpenArchive, game_filter: GameFilter) -> str:
    """Build the SQL condition on the view ``games`` that is equivalent to a filter.

    Raises ``RequestError`` for a filter that no game can meet, and for a filter whose own condition is invalid.
    """
    records, all_records = game_filter.select_runs(opened.archive), opened.archive.load_runs()
    if all_records and not records:
        raise RequestError(Advice(ONLY_TRAININGS, "--trainings includes them", "trainings=True includes them"))
    conditions = [run_condition_sql(record.run_id for record in records)] if len(records) < len(all_records) else []
    agents_by_seat = [
        " AND ".join(
            f"agent_{seat} = {quote_text_or_number(label)}"
            for label, seat in ((game_filter.agent, agent_seat), (game_filter.opponent, 1 - agent_seat))
            if label is not None
        )
        for agent_seat in (0, 1)
    ]
    if agents_by_seat[0]:
        conditions.append(f"({agents_by_seat[0]} OR {agents_by_seat[1]})")
    condition = " AND ".join(conditions)
    if game_filter.where is None:
        return condition or ALWAYS_TRUE
    if condition:
        return check_and_combine_both_conditions(opened, condition, game_filter.where)
    check_condition(opened, game_filter.where)
    return game_filter.where


def check_single_rules(records: Collection[RunRecord]) -> None:
    """Raise ``RequestError`` unless all runs have the same rules."""
    names = dict.fromkeys(record.rules.name for record in records)
    if len(names) > 1:
        raise RequestError(
            Advice(
                f"the chosen games were played under different rules, {', '.join(names)}",
                "choose one with --rules NAME",
                f"choose one, as in rules={next(iter(names))!r}",
            )
        )
    run_by_rules = {record.rules: record.run_id for record in records}
    if len(run_by_rules) > 1:
        ids = ", ".join(run_by_rules.values())
        text = f"rules {next(iter(names))!r} are not the same in all runs"
        raise RequestError(Advice(text, f"choose with --run one of {ids}", f"choose with run=… one of {ids}"))


def _parse_moment_or_unbounded(text: str | None, default_time: time, option: str) -> datetime:
    if text is None:
        return datetime.combine(date.min if default_time == time.min else date.max, default_time, UTC)
    try:
        if len(text) <= len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), default_time, UTC)
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise RequestError(
            f"{option} {text!r} is not a day or a moment: write 2026-01-31 or 2026-01-31T12:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


ALWAYS_TRUE = "true"
MAX_PAIRS_COMPARED = 1000  # pairs: two deterministic agents have repeated themselves long before


@dataclass(frozen=True)
class Selection:
    """The games that a condition selects, with the number of selected games in each run."""

    opened: OpenArchive
    where: str  # a condition on the view ``games``
    runs: tuple[RunRecord, ...]  # oldest first
    counts: tuple[int, ...]  # games of each run, at least 1
    ids_by_run: Mapping[str, NDArray[np.int64]] = field(
        default_factory=dict
    )  # ids by run, ascending; no entry: all games

    @property
    def games(self) -> int:
        """The number of selected games."""
        return sum(self.counts)

    @cached_property
    def games_by_run(self) -> Mapping[str, int]:
        """The number of selected games in each run, by run id."""
        return {record.run_id: count for record, count in zip(self.runs, self.counts, strict=True)}

    def read_blocks(self) -> Iterator[tuple[RunRecord, RangeGames]]:
        """Yield the selected games of each stored range that has any, together with the record of its run.

        Raises ``FailureError`` for a file that is missing or damaged.
        """
        for record in self.runs:
            for stored, game_ids in self.list_ranges_with_ids_of_run(record):
                games = read_selected_games(self.opened.archive, record.run_id, stored, game_ids)
                if len(games.game_id):
                    yield record, games

    def list_ranges_with_ids_of_run(self, record: RunRecord) -> Iterator[tuple[StoredRange, NDArray[np.int64] | None]]:
        """Yield the stored ranges of a run in which games are selected, each with the ids of the run's selected games.

        These are the ids of all selected games of the run, not only of those in the range, or None if all games of the
        run are selected.
        """
        archive, game_ids = self.opened.archive, None
        if not self.has_whole_run(record):
            game_ids = self.read_game_ids(record.run_id)
        for stored in archive.list_effective_ranges(record.run_id):
            if game_ids is None or has_any_game(record, stored, game_ids):
                yield stored, game_ids

    @cached_property
    def has_only_whole_runs(self) -> bool:
        """Whether all games of every run in the selection are selected."""
        return all(map(self.has_whole_run, self.runs))

    @property
    def condition(self) -> str:
        """The SQL condition on ``run_id`` and ``game_id`` that selects the same games in any view."""
        if self.has_only_whole_runs:  # then no row of games is read, and files of other runs stay closed
            return run_condition_sql(record.run_id for record in self.runs)
        return f"(run_id, game_id) IN (SELECT run_id, game_id FROM games WHERE (\n{self.where}\n))"  # noqa: S608  (a condition by design)

    def has_whole_run(self, record: RunRecord) -> bool:
        """Return whether all games of this run are selected."""
        return self.games_by_run[record.run_id] == self.opened.archive.count_games_by_record(record)

    def read_game_ids(self, run_id: str) -> NDArray[np.int64]:
        """Return the ids of the selected games in one run, ascending."""
        if run_id in self.ids_by_run:
            return self.ids_by_run[run_id]
        return self.opened.scan("games", run_id).select(pl.col("game_id").sort()).collect()["game_id"].to_numpy()


def select_games(opened: OpenArchive, where: str | None = None) -> Selection:
    """Select the games that meet ``where``, or all games if ``where`` is None.

    ``where`` is a condition in DuckDB's SQL on the view ``games``. It may query other views, as in ``run_id IN (SELECT
    run_id FROM runs WHERE rules = 'classic')``. Raises ``RequestError`` if ``where`` is not a condition, or if no game
    meets it, and ``FailureError`` for a damaged file.
    """
    if where is None or where.strip() == ALWAYS_TRUE:
        counts = dict(opened.sql("SELECT run_id, count(*) AS games FROM games GROUP BY run_id").rows())
        ids_by_run: dict[str, NDArray[np.int64]] = {}
    else:
        ids_by_run = _select_game_ids(opened, where)
        counts = {run_id: len(ids) for run_id, ids in ids_by_run.items()}
    if not counts:
        problem = "has no games" if where is None else f"has no game with where={where!r}"
        command = opened.archive.format_command('sql "FROM games LIMIT 5"')
        raise RequestError(
            Advice(
                f"archive {opened.archive.root} {problem}",
                f"see some games with {command}",
                "archive.games(limit=5) shows some games",
            )
        )
    runs = tuple(check_record_format(record) for record in opened.archive.load_runs() if record.run_id in counts)
    unrecorded_runs = sorted(set(counts) - {record.run_id for record in runs})
    if unrecorded_runs:
        raise FailureError(
            f"run {unrecorded_runs[0]} has games and no record: restore its record, or exclude the run in the condition"
        )
    run_counts = tuple(counts[record.run_id] for record in runs)
    return Selection(opened, ALWAYS_TRUE if where is None else where, runs, run_counts, ids_by_run)


def select_whole_runs(opened: OpenArchive, records: Sequence[RunRecord]) -> Selection:
    """Select all games of some runs, without reading a game. Runs without games are left out."""
    counts = {record.run_id: opened.archive.count_games_by_record(record) for record in records}
    runs = tuple(check_record_format(record) for record in records if counts[record.run_id])
    return Selection(
        opened, run_condition_sql(run.run_id for run in runs), runs, tuple(counts[run.run_id] for run in runs)
    )


def _select_game_ids(opened: OpenArchive, where: str) -> dict[str, NDArray[np.int64]]:
    """Return the ids of the games that meet a condition, in ascending order, by run id.

    One query reads the games of all runs.
    """
    check_condition(opened, where)
    query = f"SELECT run_id, list(game_id) AS ids FROM games WHERE (\n{where}\n) GROUP BY run_id"  # noqa: S608  (a condition by design)
    try:
        rows = opened.sql(query)
    except RequestError as error:
        raise RequestError(f"where={where!r} is not a condition on games: {error}") from error
    return {run_id: np.sort(ids.to_numpy()) for run_id, ids in zip(rows["run_id"], rows["ids"], strict=True)}


def find_pair_slice(ids: NDArray[np.int64], pairing: int, first_pair: int, end_pair: int) -> slice:
    """Return the slice of ``ids`` that holds the games of some pairs of a pairing.

    ``ids`` is an ascending array of game ids. The pairs are those from ``first_pair`` up to but not including
    ``end_pair``.
    """
    edges = (pairing << GAME_BITS) + 2 * np.array([first_pair, end_pair])
    return slice(*np.searchsorted(ids, edges).tolist())


def has_any_game(record: RunRecord, stored: StoredRange, ids: NDArray[np.int64]) -> bool:
    """Return whether any game in the range ``stored`` of a run has its id in ``ids``, an ascending array."""
    spans = (record.unit_line.pair_range(pairing, stored.first, stored.end) for pairing in range(len(record.pairings)))
    return any(ids[find_pair_slice(ids, pairing, first, end)].size for pairing, (first, end) in enumerate(spans))


def read_selected_games(
    archive: ArchiveStore, run_id: str, stored: StoredRange, game_ids: NDArray[np.int64] | None
) -> RangeGames:
    """Read those games of a range that have an id in ``game_ids``, or all games of the range if ``game_ids`` is None.

    ``game_ids`` is an ascending array. Raises ``FailureError`` for a file that is missing or damaged.
    """
    games = read_games(archive, run_id, stored)
    return games if game_ids is None else games.select_rows(np.isin(games.game_id, game_ids, assume_unique=True))


def describe_pairings_of_identical_games(opened: OpenArchive, run_ids: Iterable[str]) -> list[str]:
    """Describe the pairings in which all games are copies of one or two games.

    Return a sentence for each such pairing, because its intervals do not show the repetition. Games repeat if two
    deterministic agents play without imposed openings. Games are read only for pairings whose pairs all ended alike,
    and only the first ``MAX_PAIRS_COMPARED`` pairs of each pairing.
    """
    uniform_games = {
        (run_id, pairing): tally.games
        for run_id, tallies in read_tallies(opened.archive, [*run_ids]).items()
        for pairing, tally in tallies.items()
        if tally.is_uniform
    }
    if not uniform_games:
        return []
    of_runs = run_condition_sql(sorted({run_id for run_id, _ in uniform_games}))
    move_counts = opened.sql(f"""
        SELECT run_id, pairing, count(DISTINCT moves) FROM (
            SELECT run_id, pairing, game_id, bit_xor(hash(ply, piece, cell)) AS moves FROM plies
            WHERE {of_runs} AND game_id % {1 << GAME_BITS} < {2 * MAX_PAIRS_COMPARED} GROUP BY ALL)
        GROUP BY ALL ORDER BY ALL""")  # noqa: S608  (ids of runs)
    agents = {key: " and ".join(opened.archive.load_run(key[0]).pairings[key[1]]) for key in uniform_games}
    return [
        f"{format_count_with_noun(uniform_games[run_id, pairing], 'game')} of "
        f"{agents[run_id, pairing]} in run {run_id} repeat "
        f"{'one game' if different == 1 else 'two games'}, so their intervals mean nothing: play with opening_plies"
        for run_id, pairing, different in move_counts.iter_rows()
        if different <= 2 < uniform_games.get((run_id, pairing), 0)
    ]


MAX_GAMES_IN_MEMORY = 1 << 21  # games that are read together, 44 bytes each
MAX_RANGES_IN_MEMORY = 4096  # ranges that are read together

File = TypeVar("File", bound=Hashable)


class SelectedPairRange(NamedTuple):
    """Consecutive pairs of one pairing in one file, with the number of selected games in them.

    The ranges of a run are in ascending order of pairing, then of pair.
    """

    pairing: int
    first_pair: int
    end_pair: int
    games: int  # the number of selected games

    def find_rows(self, game_id: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the indices, in the ascending array ``game_id``, of the games that belong to this range."""
        rows = find_pair_slice(game_id, self.pairing, self.first_pair, self.end_pair)
        return np.arange(rows.start, rows.stop)


def select_pair_ranges_and_count_games(
    archive: ArchiveStore, record: RunRecord, stored: StoredRange, game_ids: NDArray[np.int64] | None
) -> Iterator[SelectedPairRange]:
    """Yield the ranges of pairs in a file that have selected games, each with the number of these games.

    ``game_ids`` is an ascending array of the ids of the selected games, or None if all games are selected. Raises
    ``FailureError`` for a damaged file of imported games, because only the file itself shows to which pairings its
    games belong.
    """
    for pair_range in _list_pair_ranges(archive, record, stored):
        games = pair_range.games if game_ids is None else pair_range.find_rows(game_ids).size
        if games:
            yield pair_range._replace(games=games)


def _list_pair_ranges(archive: ArchiveStore, record: RunRecord, stored: StoredRange) -> Iterator[SelectedPairRange]:
    if record.unit_line.pairings < len(record.pairings):
        counts = read_rows(archive, record.run_id, stored, "games")["pairing"].value_counts().sort("pairing")
        yield from (
            SelectedPairRange(pairing, stored.first, stored.end, games) for pairing, games in counts.iter_rows()
        )
        return
    for pairing in range(len(record.pairings)):
        first, end = record.unit_line.pair_range(pairing, stored.first, stored.end)
        yield SelectedPairRange(pairing, first, end, (end - first) * record.unit_line.games_a_pair)


def read_pair_ranges(
    pair_ranges: Sequence[tuple[File, SelectedPairRange]], read_file: Callable[[File], RangeGames]
) -> Iterator[RangeGames]:
    """Yield the games of each range of pairs, in the order of ``pair_ranges``.

    The games of each range are in arrays of their own. ``read_file`` returns the selected games of a file; errors that
    it raises are passed on.
    """
    first = 0
    while first < len(pair_ranges):
        sizes = np.cumsum([pair_range.games for _, pair_range in pair_ranges[first : first + MAX_RANGES_IN_MEMORY]])
        end = first + max(1, int(np.searchsorted(sizes, MAX_GAMES_IN_MEMORY, "right")))
        yield from _read_pair_ranges_at_once(pair_ranges[first:end], read_file)
        first = end


def _read_pair_ranges_at_once(
    pair_ranges: Sequence[tuple[File, SelectedPairRange]], read_file: Callable[[File], RangeGames]
) -> Iterator[RangeGames]:
    indices_by_file: dict[File, list[int]] = {}
    for index, (file, _) in enumerate(pair_ranges):
        indices_by_file.setdefault(file, []).append(index)
    games_by_index: dict[int, RangeGames] = {}
    for file, indices in indices_by_file.items():
        games = read_file(file)
        for index in indices:
            games_by_index[index] = games.select_rows(
                pair_ranges[index][1].find_rows(games.game_id)
            ).select_as_contiguous_arrays(slice(None))
    for index in range(len(pair_ranges)):
        yield games_by_index.pop(index)


Ply = tuple[int, int]  # piece, cell

_PLY_COLUMNS = ("game_id", "ply", "piece", "cell")


def read_file_rows(
    opened: OpenArchive, files: Sequence[VerifiableFile], columns: Sequence[str], where: str, **frames: pl.DataFrame
) -> pl.DataFrame:
    """Read ``columns`` of the rows that meet the condition ``where`` from files of one table.

    The condition may read ``frames`` by their names. The result has ``run_id`` as its first column. Raises
    ``FailureError`` for a damaged file, and ``MissingFileError`` for a missing one.
    """
    opened.files.check_files(files)
    queries, groups = list[str](), defaultdict[str, list[VerifiableFile]](list)
    for file in files:
        groups[file.condition].append(file)
    for condition, group in groups.items():
        source = file_rows_sql((opened.to_queryable_path(file.path) for file in group), condition)
        queries.append(f"SELECT {RUN_ID_SQL} AS run_id, {', '.join(columns)} {source} WHERE {where}")
    return opened.query_files_by_path(" UNION ALL ".join(queries), **frames)


def read_plies(opened: OpenArchive, games: Iterable[tuple[str, int]]) -> dict[tuple[str, int], list[Ply]]:
    """Read the plies of some games, by ``run_id`` and ``game_id``, in the order of play.

    Only the files of these games are read. Games that are not in the archive are left out. Raises ``FailureError`` for
    a damaged file.
    """
    plies: dict[tuple[str, int], list[Ply]] = {}
    game_keys = pl.DataFrame(list(games), {"run_id": pl.String(), "game_id": pl.Int64()}, orient="row")
    for run_id, game_id, _, piece, cell in read_ply_rows(opened, game_keys).iter_rows():
        plies.setdefault((run_id, game_id), []).append((piece, cell))
    return plies


def read_ply_rows(opened: OpenArchive, games: pl.DataFrame) -> pl.DataFrame:
    """Read the plies of the games in ``games``, a frame with the columns ``run_id`` and ``game_id``.

    Columns of the result: ``run_id``, ``game_id``, ``ply``, ``piece``, ``cell``, sorted by the first three.
    """
    game_keys = games.unique()
    return opened.retry_if_file_missing(lambda: _read_ply_rows(opened, game_keys))


def _read_ply_rows(opened: OpenArchive, game_keys: pl.DataFrame) -> pl.DataFrame:
    by_run = game_keys.partition_by("run_id", as_dict=True)
    files = [
        file
        for (run_id,), games in by_run.items()
        for file in find_game_files(opened, "plies", run_id, games["game_id"])
    ]
    if not files:
        return pl.DataFrame(schema={"run_id": pl.String()} | dict.fromkeys(_PLY_COLUMNS, pl.Int64()))
    # A frame, and no list of numbers: DuckDB takes half a second to parse fourteen thousand of these.
    games = game_keys.select(pl.col("game_id").unique())
    rows = read_file_rows(opened, files, _PLY_COLUMNS, "game_id IN (SELECT game_id FROM game_keys)", game_keys=games)
    return rows.join(game_keys, on=("run_id", "game_id"), how="semi").sort("run_id", "game_id", "ply")


def find_game_files(opened: OpenArchive, table: str, run_id: str, game_ids: Iterable[int]) -> list[VerifiableFile]:
    """Return the files of ``table`` that hold the games of a run with these ids.

    ``table`` is ``games`` or ``plies``. Ids that the run does not have are ignored.
    """
    units = np.unique(opened.archive.load_run(run_id).unit_line.compute_units(np.array([*game_ids], np.int64)))
    ranges = opened.archive.list_effective_ranges(run_id)
    stored_ranges = dict.fromkeys(stored for unit in units.tolist() if (stored := ranges.find_range(unit)) is not None)
    return opened.files.list_range_files(table, run_id, stored_ranges)
