"""Building a policy: deriving it from selected games, and storing it under a name.

A kind of policy is a class that its yaml names, and may be the user's own. It runs in this process or in workers.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.policy import Policy
from analytics import open_archive
from analytics.policies.kinds.dataset import (
    ID_RANGES_TABLE,
    CountingKind,
    Dataset,
    GameStream,
    LearnedPolicy,
    LearningKind,
    PolicyKind,
    build_stepped_id_ranges,
    check_rules_and_sort_for_learning,
    format_fingerprints,
    load_dataset,
)
from analytics.questions.selection import Selection, read_selected_games, select_games
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.files.backend import parse_location
from analytics.store.policy_cards import PolicyCard
from analytics.store.policy_store import PolicyOrigin
from analytics.store.ranges import FileSlice
from analytics.store.records import compute_run_id
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.range_table import Chunk
from quarto.errors import ArenaError, FailureError, RequestError, describe_author_error_location
from quarto.sources import source_fingerprint
from runners.arena.code_fingerprints import build_class_code_record
from runners.arena.executors.base import MEBIBYTE, THREADS, Executor, Task, Worker, available_megabytes
from runners.arena.spec import build_from_settings

T = TypeVar("T")
CountChunk = Chunk[NDArray[np.int64] | None]  # with the ids of the selected games, ascending; None: all games
CountResult = tuple[str, NDArray[np.int64], int]  # the run, its counts, and the fingerprint of the counted games


def build_kind(kind: str, settings: Mapping[str, Any], trusted: bool = False) -> PolicyKind:
    """Build the kind of policy that ``settings`` describe.

    ``trusted`` says that third-party code may run, because the user has named the class. Raises ``RequestError`` for
    invalid parameters.
    """
    policy_kind: PolicyKind = build_from_settings(f"kind '{kind}'", settings, PolicyKind, trusted)
    return policy_kind


class DerivedFromGames(NamedTuple):
    """The policy that a kind has learned, and the games from which it was learned."""

    learned: LearnedPolicy
    games: Dataset | GameStream  # in memory, or read while the policy is learned


def derive_from_selection(
    kind: str,
    settings: Mapping[str, Any],
    selection: Selection,
    threads: int,
    run_id_order: Sequence[str] = (),
    trusted: bool = False,
) -> DerivedFromGames:
    """Derive a policy of a kind from the selected games.

    ``run_id_order`` is passed to ``load_dataset``, and ``trusted`` to ``build_kind``. Raises the errors of
    ``load_dataset``, and turns any other exception in the code of the kind into a ``FailureError``.
    """
    derivation = build_kind(kind, settings, trusted)
    if isinstance(derivation, LearningKind):
        stream, learning = GameStream(selection, run_id_order), derivation
        return DerivedFromGames(call_kind(kind, settings, lambda: learning.learn(stream, threads)), stream)
    dataset = load_dataset(selection, run_id_order)
    policy = call_kind(kind, settings, lambda: derivation.derive(dataset, threads))
    return DerivedFromGames(LearnedPolicy(policy), dataset)


def format_kind_name_and_class(kind: str, settings: Mapping[str, Any]) -> str:
    """Return the name of a kind with its class, for messages."""
    return f"kind '{kind}' ({settings['_target_']})"


def call_kind(kind: str, settings: Mapping[str, Any], call: Callable[[], T]) -> T:
    """Return the result of ``call``, which runs the code of a kind.

    An exception other than ``ArenaError`` becomes a ``FailureError`` that says where the exception was raised.
    """
    try:
        return call()
    except ArenaError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FailureError(
            f"{format_kind_name_and_class(kind, settings)} raised {reason}, at {describe_author_error_location(error)}"
        ) from error


@dataclass(frozen=True)
class CountTask(Task[CountChunk, CountResult]):
    """A task whose workers apply the method ``count`` of a ``CountingKind`` to ranges of games.

    Raises ``RequestError`` if a worker cannot find the archive, and ``FailureError`` for a file that cannot be read.
    """

    root: str
    kind: str
    settings: Mapping[str, Any]

    def build_worker(self) -> Worker[CountChunk, CountResult]:
        archive = ArchiveStore.open(parse_location(self.root))
        return lambda chunk, _stop: self._count(archive, chunk)

    def _count(self, archive: ArchiveStore, chunk: CountChunk) -> CountResult:
        selected = read_selected_games(archive, chunk.run_id, chunk.games.file, chunk.extent)
        record = check_record_format(archive.load_run(chunk.run_id))
        dataset = Dataset((record,), (0, len(selected.game_id)), *selected)
        kind = cast("CountingKind", build_kind(self.kind, self.settings, trusted=True))  # the user builds a policy
        counts = call_kind(self.kind, self.settings, lambda: kind.count(dataset, 1))
        return chunk.run_id, counts, selected.fingerprint


def list_count_chunks(selection: Selection) -> Iterator[CountChunk]:
    """Yield a chunk for each file that holds selected games."""
    for record in selection.runs:
        for file, ids in selection.list_ranges_with_ids_of_run(record):
            if ids is not None:  # only the ids of games in this file travel to the worker
                unit = record.unit_line.compute_units(ids)
                ids = ids[(file.first <= unit) & (unit < file.end)]  # noqa: PLW2901
            yield CountChunk(record.run_id, FileSlice.whole(file), ids)


BYTES_A_GAME = 120  # of dataset, boards, keys and the file that is being read; measured, rounded up
KIND_SOURCES = "analytics/policies/kinds"  # the folder whose sources decide, with the players', what is derived


@dataclass(frozen=True)
class BuildRequest:
    """A checked request to derive a policy: its kind and parameters, the games to learn from, and its name."""

    kind: str
    settings: Mapping[str, Any]  # of the kind: its class under _target_ and its parameters
    name: str
    where: str
    threads: int
    root: PurePath
    command: str
    executor: Executor = THREADS

    @cached_property
    def policy_kind(self) -> PolicyKind:
        """The kind of policy that the settings describe. Raises ``RequestError`` for invalid parameters."""
        return build_kind(self.kind, self.settings, trusted=True)

    @property
    def is_counted_by_workers(self) -> bool:
        """Whether workers count the games, one range at a time; if not, this process reads all games."""
        return isinstance(self.policy_kind, CountingKind) and not self.executor.shares_memory

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user on how the request was interpreted."""
        if self.executor.shares_memory or self.is_counted_by_workers:
            return ()
        return (f"kind {self.kind} is derived in this process, whatever the executor is: it needs all games at once",)

    @property
    def training_id(self) -> str:
        """A hash of the kind, its parameters and the condition ``where`` on games, as 12 hex digits.

        All versions of a policy with the same name share this hash.
        """
        return compute_run_id({"kind": self.kind, "settings": dict(self.settings), "where": self.where})


def check_and_select_build_games(request: BuildRequest) -> Selection:
    """Select the games of a request without reading them.

    The archive is opened here and stays open until ``build_policy`` closes it.

    Raises:
        RequestError: Parameters or the condition are invalid, the name is taken, no game meets the condition, the runs
            have different rules, or the games do not fit into memory.

    """
    loads_all_games = not (request.is_counted_by_workers or isinstance(request.policy_kind, LearningKind))
    with ExitStack() as stack:
        opened = stack.enter_context(open_archive(request.root))
        policy_store.check_name_free(opened.archive, request.name, request.training_id, "name")
        selection = select_games(opened, request.where)
        check_rules_and_sort_for_learning(selection.runs)
        if loads_all_games:
            _check_memory(selection.games)
        stack.pop_all()
    return selection


def build_policy(request: BuildRequest, selection: Selection) -> PolicyCard:
    """Derive a policy from the selected games, store it and return its card.

    Raises ``RequestError`` if the parameters do not suit the games, and ``FailureError`` for a damaged file; in both
    cases the archive stays as it is.
    """
    derive = _derive_from_counts if request.is_counted_by_workers else _derive_in_process
    with selection.opened:
        derived = derive(request, selection)
    policy, games = _check_policy(request, derived.policy), selection.games
    if not (policy.table and all(len(column) for column in policy.table.values())):
        raise RequestError(
            f"no row comes from {format_count_with_noun(games, 'game')} with "
            f"{_format_parameters(request.settings)}: choose more games"
        )
    tables, pictures = {ID_RANGES_TABLE: derived.ranges}, dict[str, bytes]()
    if derived.curve is not None:
        tables["curve"], pictures["curve"] = derived.curve, _render_curve(request, derived.curve)
    rules = selection.runs[0].rules
    origin = PolicyOrigin(
        request.name,
        rules,
        build_kind_code_record(request.settings),
        _build_card_fields(request, derived, games),
        tables,
        pictures,
    )
    return policy_store.save(ArchiveStore.open(request.root), policy, origin)


class DerivedPolicy(NamedTuple):
    """A policy that a kind has returned and that is not checked yet, with the games from which it was derived."""

    policy: Any
    ranges: pl.DataFrame  # ranges of the ids of the games
    checksums: Mapping[str, str]  # by run, in the order in which the runs began
    curve: pl.DataFrame | None = None
    evaluation_sums: Mapping[str, str] = MappingProxyType({})  # by run: checksums of the values that players reported


def _derive_in_process(request: BuildRequest, selection: Selection) -> DerivedPolicy:
    """Derive a policy in this process.

    It holds all games in memory, unless the kind is a ``LearningKind``, which reads them during the derivation.
    """
    learned, games = derive_from_selection(request.kind, request.settings, selection, request.threads, trusted=True)
    sums = games.compute_fingerprints(request.threads)
    return DerivedPolicy(learned.policy, games.to_stepped_id_ranges(), sums, learned.curve, games.evaluation_sums)


def _derive_from_counts(request: BuildRequest, selection: Selection) -> DerivedPolicy:
    """Let workers count the games, and derive a policy from the sum of their counts."""
    task = CountTask(str(request.root), request.kind, dict(request.settings))
    chunks = list_count_chunks(selection)
    counts: Any = 0
    sums: dict[str, int] = {}
    for run_id, chunk_counts, fingerprint in request.executor.map(task, chunks, request.threads, threading.Event()):
        counts = counts + chunk_counts
        sums[run_id] = sums.get(run_id, 0) + fingerprint
    kind = cast("CountingKind", request.policy_kind)
    policy = call_kind(request.kind, request.settings, lambda: kind.policy_from_counts(counts))
    runs = [record.run_id for record in check_rules_and_sort_for_learning(selection.runs)]
    ranges = build_stepped_id_ranges({run_id: selection.read_game_ids(run_id) for run_id in runs})
    return DerivedPolicy(policy, ranges, format_fingerprints({run_id: sums[run_id] for run_id in runs}))


def _check_policy(request: BuildRequest, policy: Any) -> Policy:
    """Check what a kind has returned, and return it as a policy.

    The kind may be the user's own class. Raises ``FailureError`` if its result is not a policy that can be stored.
    """
    kind_description = format_kind_name_and_class(request.kind, request.settings)
    if not isinstance(policy, Policy):
        raise FailureError(
            f"{kind_description} returned {type(policy).__name__}, not a Policy (see agents/learning/policy.py)"
        )
    try:
        return policy_store.check_policy(policy)
    except ValueError as error:
        raise FailureError(f"{kind_description} returned a policy that cannot be stored: {error}") from error


def _render_curve(request: BuildRequest, curve: pl.DataFrame) -> bytes:
    """Render the learning curve as SVG."""
    from analytics.report import style

    return style.render_curve_svg(curve, f"How {request.name} learned", [_format_parameters(request.settings)])


def build_kind_code_record(settings: Mapping[str, Any]) -> dict[str, str]:
    """Build the record of the code that derives a policy; its fingerprint covers the sources of all kinds."""
    code = build_class_code_record([str(settings["_target_"])], learning=True)
    fingerprint = hashlib.sha256(f"{code['fingerprint']} {source_fingerprint((KIND_SOURCES,))}".encode()).hexdigest()[
        :16
    ]
    return code | {"fingerprint": fingerprint}


def _check_memory(games: int) -> None:
    needed, available = games * BYTES_A_GAME / MEBIBYTE, available_megabytes()
    if needed > available:
        raise RequestError(
            f"{format_count_with_noun(games, 'game')} would take {needed:,.0f} MB of memory "
            f"and {available:,.0f} MB are free: choose at most "
            f"{int(available * MEBIBYTE / BYTES_A_GAME):,}, for example with AND game_id % 10 < 2"
        )


def _build_card_fields(request: BuildRequest, derived: DerivedPolicy, games: int) -> dict[str, Any]:
    """Build those fields of the card that say which games were used and how the policy was derived from them."""
    return {
        "training": request.training_id,
        "trainer": request.kind,
        "parameters": dict(request.settings),
        "seed": 0,
        "games": games,
        "run_ids": [*derived.checksums],
        "command": request.command,
        "where": request.where,
        "derivation": {"kind": request.kind, "parameters": dict(request.settings)},
        "checksums": dict(derived.checksums),
        **({"evaluations": dict(derived.evaluation_sums)} if derived.evaluation_sums else {}),
    }


def _format_parameters(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items() if key != "_target_") or "no parameters"
