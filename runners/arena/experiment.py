"""A request that is ready to be carried out: what it lacks, the record of its run, and the writer of its games."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from msgspec import structs

from agents.base.agent import Agent, KernelAgent
from analytics.questions.columns import format_game_name
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.marker import check_can_be_archive, read_marker_content
from analytics.store.range_files import write_games
from analytics.store.ranges import Range, UnitLine, split_into_files
from analytics.store.records import RunRecord, add_same_games, format_current_time, merge_code, run_id_to_stream_key
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
SMALL_RANGE_RATIO = 8  # a range that is so much smaller than all that is held waits for more


@dataclass(frozen=True)
class Experiment:
    """A request that is ready to be carried out: its agents are made, its archive is open, its run may be extended."""

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

    def missing_units(self, games_per_pairing: int) -> list[Range]:
        """The units that the archive lacks, if each pairing is to have ``games_per_pairing`` games."""
        return self.archive.list_effective_ranges(self.run_id).list_gaps(self.unit_line.count_units(games_per_pairing))

    def units_missing_evaluations(self, games_per_pairing: int) -> list[Range]:
        """The units whose games are there, to be played again: their evaluations are asked for, and are not there.

        Games that are no function of their numbers cannot be played again, so nothing is asked of these.
        """
        if not (self.request.storage.evaluations and self.request.spec.is_repeatable):
            return []
        from analytics.tables.derived.definitions import EVALUATIONS_TABLE
        from analytics.tables.derived.range_table import group_partial_files, list_missing_ranges, list_missing_slices

        end, most = (
            self.unit_line.count_units(games_per_pairing),
            self.request.storage.max_units_per_file(self.unit_line.games_a_pair),
        )
        lacks = list_missing_ranges(self.archive, self.run_id, EVALUATIONS_TABLE, "".__eq__)
        made = group_partial_files(self.archive, self.run_id, EVALUATIONS_TABLE, lacks)
        parts = (list_missing_slices(*each, most) for each in zip(lacks, made, strict=True))
        return [(part.first, part.end) for each in parts for part in each if part.file.first < end]

    def count_missing_games(self, games_per_pairing: int) -> int:
        """The number of games, of all pairings, that the archive lacks, if each is to have ``games_per_pairing``."""
        return count_missing_games(self.archive, self.request.spec, games_per_pairing)


def open_experiment(request: RunRequest) -> Experiment:
    """Make the agents and open the archive, creating it if need be; no run is touched.

    If other code began the run, a sample of its games is played again: see ``_resolve_other_code``.

    Raises:
        RequestError: An agent cannot be made, the folder is no archive, or other code began the run and plays it
            otherwise.

    """
    check_can_be_archive(request.storage.root)  # before kernels are loaded
    agents = [agent.build() for agent in request.spec.agents]
    own = [None if spec.is_object else agent for spec, agent in zip(request.spec.agents, agents, strict=True)]
    code = build_code_record(request.spec, own)
    if None not in own:  # a run with objects is new: nobody has begun it
        request, code = _resolve_other_code(request, code, agents)
    # Before the archive is touched.
    engine = build_engine(request.spec, agents, request.keep_going, request.storage.evaluations)
    archive = ArchiveStore.open(request.storage.root, create=True)
    return Experiment(request, engine, archive, code)


def _resolve_other_code(
    request: RunRequest, code: dict[str, Any], agents: Sequence[Agent]
) -> tuple[RunRequest, dict[str, Any]]:
    """Return the request for the run that this code plays, and this code as the run's record is to name it.

    That is a run of this code alone, if it is asked for, or if there is one beside that of other code. If other code
    began the run and the request allows that, a note says so. Otherwise a sample of the run's games is played again; if
    all come out the same, the run goes on, and a note says so.

    Raises:
        RequestError: A game of the sample came out differently, or the games cannot be repeated. It is raised even if
            no game is missing, because the results would be those of other players.

    """
    storage, own = request.storage, replace(request, spec=replace(request.spec, salt=code["fingerprint"]))
    request = own if storage.other_code == "new" else request
    if read_marker_content(storage.root) is None:
        return request, code
    archive = ArchiveStore.open(storage.root)
    record = archive.find_run(request.spec.run_id)
    other = describe_code_differences(check_record_format(record), code) if record else ""
    if record is None or not other:
        return request, code
    begun = f"run {record.run_id} was begun by other code ({other})"
    if storage.other_code != "refuse":
        note = f"{begun}: its games count as if this code had played them"
        return replace(request, notes=(*request.notes, note)), code
    mine = archive.find_run(own.spec.run_id)
    if mine is not None and not describe_code_differences(check_record_format(mine), code):
        note = f"run {record.run_id} was begun by other code: this goes on with run {mine.run_id}, begun by this code"
        return replace(own, notes=(*own.notes, note)), code
    same = _replay_and_describe_sample(archive, record, request.spec, agents, begun)
    same_games = {code["fingerprint"]: code.get("agents", {})}
    return replace(request, notes=(*request.notes, same)), code | {"same_games": same_games}


def _replay_and_describe_sample(
    archive: ArchiveStore, record: RunRecord, spec: RunSpec, agents: Sequence[Agent], other_code_message: str
) -> str:
    """Play a sample of the games of a run of other code again; returns a note that all came out the same.

    Raises:
        RequestError: One game did not, or games of this run cannot be repeated. ``other_code_message`` is the
        beginning of the text.

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
            f"{other_code_message}: {replay.games:,} games{pairings} were played again and are the same, so it goes on"
        )
    game = format_game_name(record.run_id, replay.difference.game_id)
    otherwise = (
        f"({' against '.join(spec.pairing_labels[replay.difference.pairing])}) otherwise: {replay.difference.change}"
    )
    raise RequestError(f"{other_code_message}, and this code plays game {game} {otherwise}; {OTHER_CODE_REMEDY}")


@dataclass
class Contribution:
    """The part of a run that this process has added."""

    games: int = 0  # written
    seconds: float = 0.0  # of playing and writing, by ``WorkClock``; set when ``record_contribution`` is left


@contextmanager
def record_contribution(experiment: Experiment, command: str) -> Iterator[Contribution]:
    """Keep a run's record up to date while the context's body plays games for it.

    The caller sets ``games`` of the yielded value to the number of games that it wrote. Raises ``RequestError`` if the
    run's games cannot be repeated and another process plays it.
    """
    archive, spec = experiment.archive, experiment.request.spec
    contribution = Contribution()
    with nullcontext() if spec.is_repeatable else archive.lock_run(spec.run_id):
        save_run_start(archive, spec, experiment.code, experiment.request.games, command)
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
    """Save in the run's record how it ended, and how many units have evaluations, if they were asked for."""
    record_run_end(experiment.archive, experiment.request.spec, seconds)
    if experiment.request.storage.evaluations:
        from analytics.tables.derived.definitions import EVALUATIONS_TABLE
        from analytics.tables.derived.range_table import record_derived_units

        record_derived_units(experiment.archive, experiment.run_id, [EVALUATIONS_TABLE])


def build_engine(
    spec: RunSpec, agents: Sequence[Agent] | None = None, keep_going: bool = True, evaluations: bool = False
) -> BatchEngine:
    """The engine of a run; ``agents`` are those of the spec, if they were built already.

    ``keep_going``: also if an agent forfeits all its games. ``evaluations``: blocks have those of the agents.

    Raises ``RequestError`` for an agent that cannot be made or does not play these rules.
    """
    built = [agent.build() for agent in spec.agents] if agents is None else agents
    for each in built:
        if isinstance(each, KernelAgent):
            each.evaluates = evaluations
    engine = BatchEngine(
        spec.rules,
        built,
        [agent.label for agent in spec.agents],
        spec.pairings,
        spec.seed,
        run_id_to_stream_key(spec.run_id),
        spec.opening_plies,
        spec.seats == "swapped",
    )
    engine.keep_going, engine.collects_evaluations = keep_going, evaluations
    return engine


def count_missing_games(archive: ArchiveStore, spec: RunSpec, games_per_pairing: int) -> int:
    """The number of games of a run that the archive lacks, if each pairing is to have ``games_per_pairing``."""
    return spec.unit_line.count_games(
        archive.list_effective_ranges(spec.run_id).list_gaps(spec.unit_line.count_units(games_per_pairing))
    )


def save_run_start(
    archive: ArchiveStore, spec: RunSpec, code: Mapping[str, Any], games_per_pairing: int, command: str
) -> None:
    """Save the record of a run of ``games_per_pairing`` games a pairing, or update the one that is there."""

    def update_record(known: RunRecord | None) -> RunRecord | None:
        if known is None:
            record = RunRecord(
                spec.run_id, spec.to_record(), code, games_per_pairing, format_current_time(), command=command
            )
            return structs.replace(record, number=archive.compute_next_run_number(), training=spec.training)
        begun = structs.replace(known, status="running", code=merge_code(known.code, code))
        if games_per_pairing > known.games:
            return structs.replace(begun, games=games_per_pairing, command=command)
        if count_missing_games(archive, spec, games_per_pairing):
            return begun
        return structs.replace(known, code=add_same_games(known.code, code.get("same_games", {})))

    archive.update_run(spec.run_id, update_record)


def record_run_end(archive: ArchiveStore, spec: RunSpec, seconds: float) -> None:
    """Save in a run's record whether it is complete, and add ``seconds`` of playing."""

    def update_record(known: RunRecord | None) -> RunRecord | None:
        if known is None:
            return None
        status = "interrupted" if count_missing_games(archive, spec, known.games) else "complete"
        return structs.replace(known, status=status, seconds=known.seconds + seconds)

    archive.update_run(spec.run_id, update_record)


class RangeWriter:
    """Stores the games of a run, which it is given in the order of their units from ``first`` on.

    The run's last file may end at ``total``, its last unit. Leaving the context writes what is left, unless the user
    insists on leaving at once or something else failed. Any thread may call it; what comes after ``close`` is ignored.
    """

    def __init__(self, experiment: Experiment, first_unit: int, total_units: int | None = None) -> None:
        self.written: list[Range] = []
        self._archive, self._spec = experiment.archive, experiment.request.spec
        self._storage = experiment.request.storage
        self._first = self._end = first_unit  # the units that are held
        self._total = total_units
        self._most = self._storage.max_units_per_file(self._spec.games_per_pair)
        self._blocks: list[Block] = []
        self._since = time.monotonic()  # when it held nothing
        self._lock = threading.RLock()
        self._closed = False

    @property
    def games_written(self) -> int:
        """The number of games that are written."""
        return self._spec.unit_line.count_games(self.written)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None or issubclass(kind, StuckError | AllForfeitedError):
            self.close()

    def add(self, end_unit: int, blocks: Sequence[Block]) -> None:
        """Take the games of the units up to before ``end_unit``. Raises ``FailureError`` when the disk refuses."""
        with self._lock:
            if self._closed:
                return
            if not self._blocks:
                self._since = time.monotonic()
            self._blocks.extend(blocks)
            self._end = end_unit
            self.write_if_due()

    def skip_to(self, first_unit: int) -> None:
        """Go on with the unit ``first_unit``: the archive holds those between. Raises as ``add`` does."""
        with self._lock:
            self.flush()
            self._first = self._end = first_unit

    def write_if_due(self) -> None:
        """Write large ranges if there are enough games or enough time has passed. Raises as ``add`` does."""
        with self._lock:
            late = time.monotonic() - self._since >= self._storage.shard_seconds
            if self._blocks and (late or self._end - self._first >= self._most):
                ranges, held = [*self._split_held_units()], self._end - self._first
                small = [SMALL_RANGE_RATIO * (end - first) < held and end - first < self._most for first, end in ranges]
                last = len(ranges) - small[::-1].index(False) if False in small else 0
                self._write(ranges[:last])

    def flush(self) -> None:
        """Write all that is held. Raises as ``add`` does."""
        with self._lock:
            self._write([*self._split_held_units()])

    def close(self) -> None:
        """Write all that is held, and ignore what comes later. Raises as ``add`` does."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.flush()

    def _split_held_units(self) -> Iterator[Range]:
        return split_into_files(self._first, self._end, -1 if self._total is None else self._total, self._most)

    def _write(self, ranges: Sequence[Range]) -> None:
        spec = self._spec
        for first, end in ranges:
            inside = [part for block in self._blocks if (part := self._cut_block(block, first, end)) is not None]
            known = (
                self._storage.evaluations
                and self._archive.list_effective_ranges(spec.run_id).find_range(first) is not None
            )
            write_games(self._archive, spec.run_id, spec.unit_line, spec.pairing_labels, (first, end), inside, known)
            self.written.append((first, end))
            self._first, self._since = end, time.monotonic()
        self._blocks = [part for block in self._blocks if (part := self._cut_block(block, self._first, self._end))]

    def _cut_block(self, block: Block, first: int, end: int) -> Block | None:
        """The games of a block in a range of units; None if there are none."""
        low, high = self._spec.unit_line.pair_range(block.pairing, first, end)
        low, high = max(low, block.first_pair), min(high, block.first_pair + block.pairs)
        if low >= high:
            return None
        if high - low == block.pairs:
            return block
        columns = slice(*(block.games_per_pair * (pair - block.first_pair) for pair in (low, high)))
        games = Games(*(np.ascontiguousarray(each[..., columns]) for each in block.games))
        evaluations = None if block.evaluations is None else block.evaluations.select(columns)
        return block._replace(first_pair=low, games=games, evaluations=evaluations)
