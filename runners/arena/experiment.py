"""An opened request: its missing games, the record of its run, and the writer of its games."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import structs

from agents.base.agent import Agent, KernelAgent
from analytics.questions.columns import format_short_game_name
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.marker import check_is_or_can_become_archive, read_marker_content
from analytics.store.range_files import write_game_tables
from analytics.store.ranges import Range, Ranges, UnitLine, split_into_files
from analytics.store.records import (
    RunRecord,
    add_code_with_same_games,
    format_current_time,
    merge_code,
    run_id_to_stream_key,
)
from analytics.store.run_notes import update_note
from analytics.store.texts import format_count_with_noun
from quarto.batch import Block, Games
from quarto.errors import ArenaError, RequestError
from runners.arena.batch_engine import BatchEngine
from runners.arena.code_fingerprints import build_code_record, describe_code_differences
from runners.arena.request import RunRequest
from runners.arena.spec import RunSpec
from runners.hosting.guarded_agent import AllForfeitedError, StuckError
from runners.hosting.work_clock import WorkClock

OTHER_CODE_REMEDY = (
    "archive.other_code=new plays a new run beside it, archive.other_code=extend goes on with its games all the same"
)
FIRST_WRITE_SECONDS = 1.0  # after which the first games of a run are written
SMALL_RANGE_RATIO = 8  # a range waits for more games if it is smaller than the held units by this factor


@dataclass(frozen=True)
class Experiment:
    """A request that is ready to be carried out: agents are built, and the archive is open.

    It has been checked that this version of the code may add games to the run.
    """

    request: RunRequest
    engine: BatchEngine
    archive: ArchiveStore
    code: dict[str, Any]

    @property
    def run_id(self) -> str:
        return self.request.spec.run_id

    @property
    def unit_line(self) -> UnitLine:
        return self.request.spec.unit_line

    @cached_property
    def stored_ranges(self) -> Ranges:
        """The ranges of units that the archive had when this was first asked.

        For each file of games, listing them again would take a time that grows with the square of the number of files.
        If others have stored a range since, its games may be written again, which is harmless.
        """
        return self.archive.list_effective_ranges(self.run_id)

    def missing_units(self, games_per_pairing: int) -> list[Range]:
        """Return the ranges of units that the archive lacks if each pairing is to have ``games_per_pairing`` games."""
        return self.archive.list_effective_ranges(self.run_id).list_gaps(
            self.unit_line.count_units_of_all_pairings(games_per_pairing)
        )

    def units_to_replay_for_evaluations(self, games_per_pairing: int) -> list[Range]:
        """Return the ranges of units to play again because their games are stored without the requested evaluations.

        The list is empty if the run's games cannot be repeated exactly.
        """
        if not (self.request.storage.evaluations and self.request.spec.is_repeatable):
            return []
        from analytics.tables.derived.definitions import EVALUATIONS_TABLE
        from analytics.tables.derived.range_table import (
            group_files_by_missing_range,
            list_missing_ranges,
            list_missing_slices,
        )

        end = self.unit_line.count_units_of_all_pairings(games_per_pairing)
        max_units = self.request.storage.max_units_per_file(self.unit_line.games_a_pair)
        missing_ranges = list_missing_ranges(self.archive, self.run_id, EVALUATIONS_TABLE, "".__eq__)
        partial_files = group_files_by_missing_range(self.archive, self.run_id, EVALUATIONS_TABLE, missing_ranges)
        slices = (
            unit_slice
            for missing_range, files in zip(missing_ranges, partial_files, strict=True)
            for unit_slice in list_missing_slices(missing_range, files, max_units)
        )
        return [(unit_slice.first, unit_slice.end) for unit_slice in slices if unit_slice.file.first < end]

    def count_missing_games(self, games_per_pairing: int) -> int:
        """Return the number of games that the archive lacks if each pairing is to have ``games_per_pairing`` games."""
        return count_missing_games(self.archive, self.request.spec, games_per_pairing)


def open_experiment(request: RunRequest) -> Experiment:
    """Build the agents and open the archive, which is created if it does not exist. No run is changed.

    If another version of the code began the run, a sample of the run's games is played again; see
    ``_resolve_other_code``.

    Raises:
        RequestError: An agent cannot be built, the folder is not an archive, or another version of the code began the
            run and a game of the sample comes out differently with this version or cannot be repeated.

    """
    check_is_or_can_become_archive(request.storage.root)  # before kernels are loaded
    agents = [agent.build() for agent in request.spec.agents]
    agents_with_code = [
        None if spec.is_object_of_program else agent for spec, agent in zip(request.spec.agents, agents, strict=True)
    ]
    code = build_code_record(request.spec, agents_with_code)
    if None not in agents_with_code:  # a run with objects is new: nobody has begun it
        request, code = _resolve_other_code(request, code, agents)
    # The engine comes first: if an agent cannot play these rules, the archive stays as it is.
    engine = build_engine(request.spec, agents, request.keep_going, request.storage.evaluations)
    archive = ArchiveStore.open(request.storage.root, create=True)
    return Experiment(request, engine, archive, code)


class ResolvedCode(NamedTuple):
    """The request for the run that this version of the code plays, and the code's description for the record."""

    request: RunRequest
    code: dict[str, Any]


def _resolve_other_code(request: RunRequest, code: dict[str, Any], agents: Sequence[Agent]) -> ResolvedCode:
    """Choose the run that this version of the code plays, and describe the code for the run's record.

    This version plays a separate run if the user asked for one, or if it has already begun one. If another version
    began the run and the user allowed extending it, this version adds games to it, and a note in the request says so.
    Otherwise, a sample of the run's games is played again; if all games come out the same, the run is continued, and a
    note says so.

    Raises:
        RequestError: A game of the sample came out differently, or the games cannot be repeated. It is raised even if
            no game is missing, because the stored results would be those of agents that play differently.

    """
    storage, own_request = request.storage, replace(request, spec=replace(request.spec, salt=code["fingerprint"]))
    request = own_request if storage.other_code == "new" else request
    if read_marker_content(storage.root) is None:
        return ResolvedCode(request, code)
    archive = ArchiveStore.open(storage.root)
    record = archive.find_run(request.spec.run_id)
    differences = describe_code_differences(check_record_format(record), code) if record else ""
    if record is None or not differences:
        return ResolvedCode(request, code)
    message = f"run {record.run_id} was begun by other code ({differences})"
    if storage.other_code != "refuse":
        note = f"{message}: its games count as if this code had played them"
        return ResolvedCode(replace(request, notes=(*request.notes, note)), code)
    own_record = archive.find_run(own_request.spec.run_id)
    if own_record is not None and not describe_code_differences(check_record_format(own_record), code):
        note = (
            f"run {record.run_id} was begun by other code: this goes on with run {own_record.run_id}, begun by this "
            "code"
        )
        return ResolvedCode(replace(own_request, notes=(*own_request.notes, note)), code)
    note = _replay_and_describe_sample(archive, record, request.spec, agents, message)
    same_games = {code["fingerprint"]: code.get("agents", {})}
    return ResolvedCode(replace(request, notes=(*request.notes, note)), code | {"same_games": same_games})


def _replay_and_describe_sample(
    archive: ArchiveStore, record: RunRecord, spec: RunSpec, agents: Sequence[Agent], other_code_message: str
) -> str:
    """Replay a sample of the games of a run begun by another version of the code; return a note that they are the same.

    Raises:
        RequestError: A game came out differently, or games of this run cannot be repeated. The error message begins
            with ``other_code_message``.

    """
    from runners.arena.replay import replay_sample  # few runs were begun by other code

    if not spec.is_repeatable:
        raise RequestError(f"{other_code_message}: {OTHER_CODE_REMEDY}")
    clock = WorkClock()
    engine = build_engine(spec, agents)
    replay = replay_sample(archive, record.run_id, engine, spec.unit_line, lambda: clock.seconds)
    if replay.difference is None:
        which = (
            f"all {replay.pairings:,}"
            if replay.pairings == spec.unit_line.pairings
            else f"{replay.pairings:,} of {spec.unit_line.pairings:,}"
        )
        pairings = "" if spec.unit_line.pairings == 1 else f" of {which} pairings"
        return (
            f"{other_code_message}: {format_count_with_noun(replay.games, 'game')}{pairings} "
            "played again gave the same result, so it goes on"
        )
    game = format_short_game_name(record.run_id, replay.difference.game_id)
    labels = " against ".join(spec.pairing_labels[replay.difference.pairing])
    change = f"game {game} ({labels}) differently: {replay.difference.first_change_text}"
    raise RequestError(f"{other_code_message}, and this code plays {change}; {OTHER_CODE_REMEDY}")


@dataclass
class Contribution:
    """The number of games that this process has added to a run, and the time that it took."""

    games: int = 0  # games written
    seconds: float = 0.0  # time of playing and writing, by ``WorkClock``; set when ``record_contribution`` is left


@contextmanager
def record_contribution(experiment: Experiment, command: str) -> Iterator[Contribution]:
    """Keep a run's record up to date while the context's body plays games for the run.

    The body sets ``games`` of the yielded object to the number of games that it has written. Raises ``RequestError`` if
    the run's games cannot be repeated and another process is playing the run.
    """
    archive, spec = experiment.archive, experiment.request.spec
    contribution = Contribution()
    with nullcontext() if spec.is_repeatable else archive.lock_run(spec.run_id):
        save_run_start(archive, spec, experiment.code, experiment.request.games, command)
        if experiment.request.name is not None or experiment.request.note is not None:
            update_note(archive, spec.run_id, experiment.request.name, experiment.request.note)
        clock = WorkClock()
        try:
            yield contribution
        except BaseException:
            with suppress(ArenaError):  # the reason for stopping is what the user should read
                _record_contribution_end(experiment, clock.seconds)
            raise
        contribution.seconds = clock.seconds
        _record_contribution_end(experiment, contribution.seconds if contribution.games else 0.0)


def _record_contribution_end(experiment: Experiment, seconds: float) -> None:
    """Save in the run's record how the run ended and, if evaluations were requested, how many units have them."""
    record_status_and_seconds(experiment.archive, experiment.request.spec, seconds)
    if experiment.request.storage.evaluations:
        from analytics.tables.derived.definitions import EVALUATIONS_TABLE
        from analytics.tables.derived.range_table import record_increased_derived_units

        record_increased_derived_units(experiment.archive, experiment.run_id, [EVALUATIONS_TABLE])


def build_engine(
    spec: RunSpec, agents: Sequence[Agent] | None = None, keep_going: bool = True, evaluations: bool = False
) -> BatchEngine:
    """Build the engine that plays a run.

    Args:
        spec: The run.
        agents: The agents of ``spec``, if they were built already.
        keep_going: Whether playing goes on after an agent has forfeited all its games.
        evaluations: Whether blocks contain the agents' evaluations.

    Raises:
        RequestError: An agent cannot be built or cannot play by these rules.

    """
    built_agents = [agent_spec.build() for agent_spec in spec.agents] if agents is None else agents
    for agent in built_agents:
        if isinstance(agent, KernelAgent):
            agent.evaluates = evaluations
    engine = BatchEngine(
        spec.rules,
        built_agents,
        [agent_spec.label for agent_spec in spec.agents],
        spec.pairings,
        spec.seed,
        run_id_to_stream_key(spec.run_id),
        spec.opening_plies,
        spec.seats == "swapped",
    )
    engine.keep_going, engine.collects_evaluations = keep_going, evaluations
    return engine


def count_missing_games(archive: ArchiveStore, spec: RunSpec, games_per_pairing: int) -> int:
    """Return how many games of a run the archive lacks if each pairing is to have ``games_per_pairing`` games."""
    return spec.unit_line.count_games(
        archive.list_effective_ranges(spec.run_id).list_gaps(
            spec.unit_line.count_units_of_all_pairings(games_per_pairing)
        )
    )


def save_run_start(
    archive: ArchiveStore, spec: RunSpec, code: Mapping[str, Any], games_per_pairing: int, command: str
) -> None:
    """Save the record of a run that begins, or update the record of a run that is continued.

    Each pairing is to have ``games_per_pairing`` games; a greater number that is already in the record stays.
    """

    def update_record(stored_record: RunRecord | None) -> RunRecord | None:
        if stored_record is None:
            record = RunRecord(
                spec.run_id, spec.to_record(), code, games_per_pairing, format_current_time(), command=command
            )
            return structs.replace(record, number=archive.compute_next_run_number(), training=spec.training)
        running_record = structs.replace(stored_record, status="running", code=merge_code(stored_record.code, code))
        if games_per_pairing > stored_record.games:
            return structs.replace(running_record, games=games_per_pairing, command=command)
        if count_missing_games(archive, spec, games_per_pairing):
            return running_record
        return structs.replace(
            stored_record, code=add_code_with_same_games(stored_record.code, code.get("same_games", {}))
        )

    archive.update_run_and_unit_count(spec.run_id, update_record)


def record_status_and_seconds(archive: ArchiveStore, spec: RunSpec, seconds: float) -> None:
    """Save in a run's record whether the run is complete, and add ``seconds`` to the run's time of playing."""

    def update_status_and_seconds(record: RunRecord | None) -> RunRecord | None:
        if record is None:
            return None
        status = "interrupted" if count_missing_games(archive, spec, record.games) else "complete"
        return structs.replace(record, status=status, seconds=record.seconds + seconds)

    archive.update_run_and_unit_count(spec.run_id, update_status_and_seconds)


class RangeWriter:
    """A writer for the games of a run, which must be added in the order of their units.

    Leaving the context writes all games that are not written yet, except after an exception other than ``StuckError``
    or ``AllForfeitedError``. Several threads may use one writer. Games that are added after ``close`` are ignored.

    Args:
        experiment: The opened request.
        first_unit: Unit at which writing begins.
        total_units: Number of units of the run, or None if unknown. A file that ends there may hold any number of
            units; in all other files, the number is a power of two.
        begun: When playing began, by ``time.monotonic``, or None if unknown. Then games are written sooner at first, so
            that others can follow a run from its first seconds.

    """

    def __init__(
        self, experiment: Experiment, first_unit: int, total_units: int | None = None, begun: float | None = None
    ) -> None:
        self._begun = begun
        self.written: list[Range] = []
        self._experiment, self._archive, self._spec = experiment, experiment.archive, experiment.request.spec
        self._storage = experiment.request.storage
        self._first = self._end = first_unit  # the range of units whose games are held
        self._total = total_units
        self._max_units = self._storage.max_units_per_file(self._spec.games_per_pair)
        self._blocks: list[Block] = []
        self._held_since = time.monotonic()  # time of the first held games
        self._lock = threading.RLock()
        self._closed = False

    @property
    def games_written(self) -> int:
        """The number of games that were written."""
        return self._spec.unit_line.count_games(self.written)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None or issubclass(kind, StuckError | AllForfeitedError):
            self.close()

    def add(self, end_unit: int, blocks: Sequence[Block]) -> None:
        """Add ``blocks``, the games of the next units up to but not including ``end_unit``.

        Games are written if ``write_if_full_or_overdue`` finds that it is time. Raises ``FailureError`` if writing
        fails.
        """
        with self._lock:
            if self._closed:
                return
            if not self._blocks:
                self._held_since = time.monotonic()
            self._blocks.extend(blocks)
            self._end = end_unit
            self.write_if_full_or_overdue()

    def skip_to(self, first_unit: int) -> None:
        """Write all games so far, and continue at unit ``first_unit``, because the archive has the units before it.

        Raises the errors of ``add``.
        """
        with self._lock:
            self.flush()
            self._first = self._end = first_unit

    def write_if_full_or_overdue(self) -> None:
        """Write the games if there are enough of them, or if the first of them have waited long enough.

        Small ranges at the end are not written yet, because more games may enlarge them. Raises the errors of ``add``.
        """
        with self._lock:
            is_overdue = time.monotonic() - self._held_since >= self._find_patience()
            if self._blocks and (is_overdue or self._end - self._first >= self._max_units):
                ranges, held_units = [*self._split_held_units()], self._end - self._first
                is_small = [
                    SMALL_RANGE_RATIO * (end - first) < held_units and end - first < self._max_units
                    for first, end in ranges
                ]
                end_index = len(ranges) - is_small[::-1].index(False) if False in is_small else 0
                self._write(ranges[:end_index])

    def _find_patience(self) -> float:
        """Return the seconds after which held games are written.

        At first it is as long as playing has taken before these games, so the intervals double until they reach
        ``shard_seconds``: a run of an hour has five small files more, which are merged at its end.
        """
        if self._begun is None:
            return self._storage.shard_seconds
        return min(self._storage.shard_seconds, max(FIRST_WRITE_SECONDS, self._held_since - self._begun))

    def flush(self) -> None:
        """Write all games that are not written yet. Raises the errors of ``add``."""
        with self._lock:
            self._write([*self._split_held_units()])

    def close(self) -> None:
        """Write all games that are not written yet, and ignore later games. Raises the errors of ``add``."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.flush()

    def _split_held_units(self) -> Iterator[Range]:
        return split_into_files(self._first, self._end, -1 if self._total is None else self._total, self._max_units)

    def _write(self, ranges: Sequence[Range]) -> None:
        spec = self._spec
        for first, end in ranges:
            cut_blocks = [
                cut_block for block in self._blocks if (cut_block := self._cut_block(block, first, end)) is not None
            ]
            is_stored = self._storage.evaluations and self._experiment.stored_ranges.find_range(first) is not None
            write_game_tables(
                self._archive, spec.run_id, spec.unit_line, spec.pairing_labels, (first, end), cut_blocks, is_stored
            )
            self.written.append((first, end))
            self._first, self._held_since = end, time.monotonic()
        self._blocks = [
            cut_block for block in self._blocks if (cut_block := self._cut_block(block, self._first, self._end))
        ]

    def _cut_block(self, block: Block, first: int, end: int) -> Block | None:
        """Return the part of a block whose units are from ``first`` up to but not including ``end``.

        The result is None if the block has no such units.
        """
        low, high = self._spec.unit_line.pair_range(block.pairing, first, end)
        low, high = max(low, block.first_pair), min(high, block.first_pair + block.pairs)
        if low >= high:
            return None
        if high - low == block.pairs:
            return block
        columns = slice(*(block.games_per_pair * (pair - block.first_pair) for pair in (low, high)))
        games = Games(*(np.ascontiguousarray(array[..., columns]) for array in block.games))
        evaluations = None if block.evaluations is None else block.evaluations.select(columns)
        return block._replace(first_pair=low, games=games, evaluations=evaluations)
