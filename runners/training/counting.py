"""Counting games for a policy: each part is a range of games, and counts of ranges add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.files.location import location_of
from analytics.policies.derived.dataset import Counting, Dataset
from analytics.query.selection import Selection, read_chosen
from analytics.store.archive import Archive, readable
from analytics.store.range_names import StoredRange
from runners.executors.base import Stop, Task
from runners.training.kinds import derivation_of, guarded


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
