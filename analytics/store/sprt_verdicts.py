"""Stored verdicts of tests of strength (``qarena sprt``): one small JSON file for each test of a run.

A verdict follows from the run's first pairs, in the order of their numbers, and from the hypotheses.
``run_sequential_test`` computes it again from the games, and ``qarena archive verify`` compares.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import PurePath
from typing import Annotated

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from analytics.statistics.sprt import Hypotheses, SequentialTest, pair_outcomes
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_rows
from analytics.store.records import (
    RUN_ID,
    Count,
    Positive,
    RunId,
    StoredRecord,
    check_time,
    choice_constraint,
    compute_run_id,
    format_current_time,
    pattern_constraint,
)
from analytics.store.schema import MAX_PAIRS, SCHEMA_VERSION
from analytics.store.texts import format_count_with_noun
from quarto.batch import GAME_BITS
from quarto.errors import FailureError

FOLDER = "verdicts"
VERDICT_ID = RUN_ID  # of the same form
UNKNOWN = -1  # the outcome of a missing pair


def compute_verdict_id(hypotheses: Hypotheses, most_pairs: int) -> str:
    """Compute the id of a run's verdict, 12 hex digits.

    The id depends only on the hypotheses and on ``most_pairs``, the maximum number of pairs.
    """
    bounds = {name: float(value) for name, value in msgspec.structs.asdict(hypotheses).items()}
    return compute_run_id({**bounds, "most_pairs": most_pairs})


class SprtVerdict(StoredRecord, frozen=True):
    """The outcome of a sequential test. Raises ``ValueError`` for values that contradict each other."""

    verdict_id: Annotated[str, pattern_constraint(VERDICT_ID)]
    run_id: RunId
    hypotheses: Hypotheses
    most_pairs: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAIRS)]  # after which it ends without a decision
    accepted: Annotated[str, choice_constraint("elo0", "elo1")] | None  # None: undecided after the most pairs
    pairs: Positive  # after which it ended
    counts: tuple[Count, Count, Count, Count, Count]  # pairs by points of the first agent: LL, LD, DD or WL, WD, WW
    ratio: float  # log-likelihood ratio
    created: str  # ISO 8601, UTC
    command: str  # as it was typed
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        check_time(self.created)
        if self.verdict_id != compute_verdict_id(self.hypotheses, self.most_pairs):
            raise ValueError(f"verdict_id {self.verdict_id!r} is not that of its hypotheses and most_pairs")
        if not math.isfinite(self.ratio):
            raise ValueError(f"ratio {self.ratio!r} is not finite")
        if sum(self.counts) != self.pairs:
            raise ValueError(f"counts {self.counts} do not add up to {format_count_with_noun(self.pairs, 'pair')}")
        if self.pairs > self.most_pairs:
            raise ValueError(f"pairs={self.pairs} is above most_pairs={self.most_pairs}")

    @staticmethod
    def from_test(run_id: str, sequential_test: SequentialTest, command: str) -> SprtVerdict:
        """Build the verdict of a sequential test that has ended."""
        test = sequential_test.hypotheses, sequential_test.most
        return SprtVerdict(
            compute_verdict_id(*test),
            run_id,
            *test,
            sequential_test.accepted,
            sequential_test.pairs,
            sequential_test.counts,
            sequential_test.ratio,
            format_current_time(),
            command,
        )


def verdict_path(archive: ArchiveStore, run_id: str, verdict_id: str) -> PurePath:
    """Return the path of a verdict's file."""
    return archive.folder(FOLDER, run_id) / f"{verdict_id}.json"


def write_verdict_and_list_in_run(archive: ArchiveStore, verdict: SprtVerdict) -> None:
    """Store a verdict in one step, unless the same verdict is already stored, and list it in the run's record.

    Raises ``FailureError`` if the verdict cannot be written.
    """
    path = verdict_path(archive, verdict.run_id, verdict.verdict_id)
    same = False
    with suppress(FailureError):  # a file that is damaged or absent is written again: it follows from the games
        there = load_verdict(archive, path)
        same = (there.accepted, there.counts) == (verdict.accepted, verdict.counts)
    if not same:
        archive.write_record(path, verdict)
    archive.update_run_and_unit_count(
        verdict.run_id,
        lambda record: (
            record and structs.replace(record, verdicts=tuple(sorted({*record.verdicts, verdict.verdict_id})))
        ),
    )


def load_verdict(archive: ArchiveStore, path: PurePath) -> SprtVerdict:
    """Load the verdict in a file. Raises ``FailureError`` if the file is damaged or belongs in another place."""
    verdict = archive.load_record(path, SprtVerdict)
    if (f"run={verdict.run_id}", verdict.verdict_id) != (path.parent.name, path.stem):
        raise FailureError(f"{path} is damaged (it is verdict {verdict.verdict_id} of run {verdict.run_id})")
    return verdict


def list_verdict_files(archive: ArchiveStore) -> list[PurePath]:
    """List the files that are named like verdicts, even damaged ones, sorted."""
    named = re.compile(rf"{FOLDER}/run=[^/]*/{VERDICT_ID.pattern}\.json")
    return [path for path in archive.list_files_below(FOLDER) if named.fullmatch(archive.relative_name(path))]


def read_outcomes(archive: ArchiveStore, run_id: str, max_pairs: int) -> NDArray[np.int8]:
    """Read the outcomes [P] of a run's first pairs, as indices into ``PAIR_SCORES``, or ``UNKNOWN`` for a missing pair.

    Only pairs of the run's first pairing are read, at most ``max_pairs``. One file is in memory at a time. Raises
    ``FailureError`` if a file is damaged.
    """
    record, ranges = archive.find_run(run_id), archive.list_effective_ranges(run_id)
    if record is None:
        return np.empty(0, np.int8)
    line = record.unit_line
    held = [line.pair_range(0, stored.first, stored.end) for stored in ranges]
    outcomes = np.full(min(max_pairs, max((end for _, end in held), default=0)), UNKNOWN, np.int8)
    for stored, (first, _) in zip(ranges, held, strict=True):
        if first >= len(outcomes):
            break
        frame = read_rows(archive, run_id, stored, "games")
        frame = frame.filter(frame["pairing"] == 0)
        pair = (frame["game_id"].to_numpy()[::2] & ((1 << GAME_BITS) - 1)) >> 1
        here = pair < len(outcomes)
        outcomes[pair[here]] = pair_outcomes(frame["winner"].to_numpy())[here]
    return outcomes


def select_known_outcomes(outcomes: NDArray[np.int8], first_pair: int) -> NDArray[np.int8]:
    """Select the outcomes from pair ``first_pair`` up to but not including the next pair with an unknown outcome."""
    unknown = np.flatnonzero(outcomes[first_pair:] == UNKNOWN)
    return outcomes[first_pair : first_pair + unknown[0]] if len(unknown) else outcomes[first_pair:]


def run_sequential_test(archive: ArchiveStore, run_id: str, hypotheses: Hypotheses, max_pairs: int) -> SequentialTest:
    """Run a sequential test on the games of a run that are in the archive, and return the test, decided or not.

    The test uses the run's first pairs, up to the first missing pair and at most ``max_pairs``.
    """
    begun = SequentialTest(hypotheses, max_pairs)
    begun.add_outcomes(select_known_outcomes(read_outcomes(archive, run_id, max_pairs), 0))
    return begun
