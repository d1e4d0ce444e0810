"""Kinds of policies: making one from its yaml, and calling it, which may be a user's own, here or in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from analytics.files.backend import location_of
from analytics.policies.derived.dataset import Counting, Dataset, Derivation, Learned, LearningDerivation, dataset_of
from analytics.policies.derived.streamed import GameStream
from analytics.query.selection import Selection, read_chosen
from analytics.store.archive import Archive, readable
from analytics.store.ranges import StoredRange
from quarto.errors import ArenaError, FailureError
from runners.arena.spec import made_of
from runners.executors.base import Stop, Task
from runners.hosting.child_program import raised_at

T = TypeVar("T")


def derivation_of(kind: str, settings: Mapping[str, Any]) -> Derivation:
    """The derivation that settings describe. Raises ``RequestError`` for invalid parameters."""
    derivation: Derivation = made_of(f"kind '{kind}'", settings, Derivation)
    return derivation


def learned_from(
    kind: str, settings: Mapping[str, Any], selection: Selection, threads: int, order: Sequence[str] = ()
) -> tuple[Learned, Dataset | GameStream]:
    """A policy of chosen games, and these games: in memory, or read as it is learned.

    ``order`` is as for ``dataset_of``, which raises the same errors. Raises ``FailureError`` for what a kind raises.
    """
    derivation = derivation_of(kind, settings)
    if isinstance(derivation, LearningDerivation):
        stream, learning = GameStream(selection, order), derivation
        return guarded(kind, settings, lambda: learning.learn(stream, threads)), stream
    dataset = dataset_of(selection, order)
    return Learned(guarded(kind, settings, lambda: derivation.derive(dataset, threads))), dataset


def described(kind: str, settings: Mapping[str, Any]) -> str:
    """The kind and its class, for messages."""
    return f"kind '{kind}' ({settings['_target_']})"


def guarded(kind: str, settings: Mapping[str, Any], call: Callable[[], T]) -> T:
    """The result of a call of a kind. Raises ``FailureError`` for whatever it raises but ``ArenaError``."""
    try:
        return call()
    except ArenaError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FailureError(f"{described(kind, settings)} raised {reason}, at {raised_at(error)}") from error


class CountPart(NamedTuple):
    """A range of games to be counted."""

    run_id: str
    stored: StoredRange
    chosen: NDArray[np.int64] | None  # the ids of the chosen games, ascending; None: all


class Counted(NamedTuple):
    """What came of a part."""

    run_id: str
    counts: NDArray[np.int64]
    fingerprint: int  # of the games, uint64


@dataclass(frozen=True)
class CountTask(Task):
    """Counts ranges of games by a kind of policy.

    Raises ``RequestError`` if there is no archive here, ``FailureError`` for a file that cannot be read.
    """

    root: str
    kind: str
    settings: Mapping[str, Any]

    def __call__(self, part: CountPart, stop: Stop) -> Counted:  # noqa: ARG002  (a part takes a second)
        archive = self.once("archive", lambda: Archive.open(location_of(self.root)))
        found = read_chosen(archive, part.run_id, part.stored, part.chosen)
        record = readable(archive.known_run(part.run_id))
        dataset = Dataset((record,), (0, len(found.game_id)), *found)
        derivation: Any = derivation_of(self.kind, self.settings)
        counting: Counting = derivation
        counts = guarded(self.kind, self.settings, lambda: counting.count(dataset, 1))
        return Counted(part.run_id, counts, found.fingerprint)


def parts_of(selection: Selection) -> Iterator[CountPart]:
    """The ranges that hold chosen games."""
    for record in selection.runs:
        for stored, chosen in selection.ranges(record):
            if chosen is not None:  # only those of this range travel
                unit = record.line.units_of(chosen)
                chosen = chosen[(stored.first <= unit) & (unit < stored.end)]  # noqa: PLW2901
            yield CountPart(record.run_id, stored, chosen)
