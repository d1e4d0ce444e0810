"""What tests of strength have come to: a small file beside the run whose games decided it, and that follows from them.

A verdict is a function of the run's first pairs, in the order of their numbers, and of what was tested; it can be
found again at any time (``trial``), and ``qarena archive verify`` does so.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analytics.statistics.sprt import PAIR_SCORES, Hypotheses, Trial, checked_counts, pair_outcomes
from analytics.store.archive import Archive, load, now
from analytics.store.atomic import explained, make_folder, replace
from analytics.store.blocks import read_table
from analytics.store.problems import Problem
from analytics.store.records import RunRecord, to_json
from analytics.store.schema import MAX_PAIRS, SCHEMA_VERSION, TABLES
from quarto.batch import GAME_BITS
from quarto.errors import FailureError, RequestError

FOLDER = "verdicts"
VERDICT_ID = re.compile(r"[0-9a-f]{12}")
ACCEPTED = ("elo0", "elo1", None)
UNKNOWN = -1  # the outcome of a pair that is not there
SAME = 1e-6  # ratios that differ by less differ by rounding


def verdict_id_of(hypotheses: Hypotheses, most_pairs: int) -> str:
    """Twelve hex digits: the same for the same test of the same run."""
    tested = {**{name: float(value) for name, value in asdict(hypotheses).items()}, "most_pairs": most_pairs}
    text = json.dumps(tested, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Verdict:
    """What a test has come to. Raises ``ValueError`` (``KeyError``, ``TypeError``) for a value that makes no sense."""

    verdict_id: str
    run_id: str
    hypotheses: Hypotheses
    most_pairs: int  # it was to end after so many at the latest
    accepted: str | None  # elo0, elo1; None: undecided after the most pairs
    pairs: int  # after which it ended
    counts: tuple[int, ...]  # of these, by points of the first agent: LL, LD, DD or WL, WD, WW
    ratio: float  # log-likelihood ratio
    created: str  # ISO 8601, UTC
    command: str  # as it was typed
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)
        if self.verdict_id != verdict_id_of(self.hypotheses, self.most_pairs):
            raise ValueError(f"verdict_id {self.verdict_id!r} is not that of what was tested")
        if self.accepted not in ACCEPTED or not math.isfinite(self.ratio):
            raise ValueError(f"accepted {self.accepted!r} or ratio {self.ratio!r} is no outcome of a test")
        if len(self.counts) != len(PAIR_SCORES) or sum(self.counts) != self.pairs:
            raise ValueError(f"{self.pairs} pairs are not counts {self.counts}")
        if not 0 < self.pairs <= self.most_pairs <= MAX_PAIRS or not isinstance(self.command, str):
            raise ValueError(f"{self.pairs} pairs of at most {self.most_pairs}, or command not a text")

    @staticmethod
    def of(run_id: str, ended: Trial, command: str) -> Verdict:
        """What a trial that has ended came to."""
        name = verdict_id_of(ended.hypotheses, ended.most)
        return Verdict(
            name,
            run_id,
            ended.hypotheses,
            ended.most,
            ended.accepted,
            ended.pairs,
            ended.counts,
            ended.ratio,
            now(),
            command,
        )

    def as_mapping(self) -> dict[str, Any]:
        """The fields as JSON values; ``Verdict.of_mapping`` reads them."""
        return asdict(self)

    @staticmethod
    def of_mapping(mapping: Mapping[str, Any]) -> Verdict:
        """The verdict that ``as_mapping`` wrote. Raises one of ``MALFORMED`` for anything else."""
        try:
            counts, hypotheses = checked_counts(mapping["counts"]), Hypotheses(**mapping["hypotheses"])
        except RequestError as error:
            raise ValueError(str(error)) from error
        return Verdict(**{**mapping, "counts": counts, "hypotheses": hypotheses})


def path_of(archive: Archive, run_id: str, verdict_id: str) -> Path:
    """Where a verdict is kept."""
    return archive.folder(FOLDER, run_id) / f"{verdict_id}.json"


def save(archive: Archive, verdict: Verdict) -> None:
    """Store a verdict in one step, unless the same is there. Raises ``FailureError`` when it cannot be written."""
    path = path_of(archive, verdict.run_id, verdict.verdict_id)
    with suppress(FailureError):  # one that is damaged or absent is written anew: it follows from the games
        if _said(read(path)) == _said(verdict):
            return
    with explained("write", path):
        make_folder(path.parent)
        replace(path, to_json(verdict.as_mapping()))


def _said(verdict: Verdict) -> tuple[str | None, tuple[int, ...]]:
    return verdict.accepted, verdict.counts


def read(path: Path) -> Verdict:
    """The verdict in a file. Raises ``FailureError`` for a damaged one, or one that belongs elsewhere."""
    verdict = load(path, Verdict.of_mapping)
    if (f"run={verdict.run_id}", verdict.verdict_id) != (path.parent.name, path.stem):
        raise FailureError(f"{path} is damaged (it is verdict {verdict.verdict_id} of run {verdict.run_id})")
    return verdict


def files(archive: Archive) -> list[Path]:
    """The files that are named like verdicts, damaged or not, sorted."""
    return sorted(path for path in archive.root.glob(f"{FOLDER}/run=*/*.json") if VERDICT_ID.fullmatch(path.stem))


def outcomes(archive: Archive, run_id: str, most: int) -> NDArray[np.int8]:
    """[P] what the first agent of a run's first pairing got of its first pairs; ``UNKNOWN`` for one that is not there.

    ``P`` is ``most`` at most. One shard is in memory at a time. Raises ``FailureError`` for a damaged file.
    """
    end = min(most, max((pairs for _, pairs in archive.covered(run_id).get(0, [])), default=0))
    found = np.full(end, UNKNOWN, np.int8)
    for commit in archive.commits(run_id):
        if not any(part.pairing == 0 and part.first_pair < end for part in commit.slices):
            continue
        path = archive.file("games", run_id, commit.games)
        try:
            frame = read_table(path, commit.games, TABLES["games"])
        except ValueError as error:
            raise FailureError(f"{path} {error}: see 'qarena archive verify'") from error
        frame = frame.filter(frame["pairing"] == 0)
        pair = (frame["game_id"].to_numpy()[::2] & ((1 << GAME_BITS) - 1)) >> 1
        here = pair < end
        found[pair[here]] = pair_outcomes(frame["winner"].to_numpy())[here]
    return found


def known(found: NDArray[np.int8], first: int) -> NDArray[np.int8]:
    """Those of ``outcomes`` that follow one another from pair ``first`` on."""
    unknown = np.flatnonzero(found[first:] == UNKNOWN)
    return found[first : first + unknown[0]] if len(unknown) else found[first:]


def trial(archive: Archive, run_id: str, hypotheses: Hypotheses, most: int) -> Trial:
    """A test by the games that are there by now."""
    begun = Trial(hypotheses, most)
    begun.take(known(outcomes(archive, run_id, most), 0))
    return begun


def problems(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """How many verdicts a run has, and what is wrong with them: each is found again from its games."""
    paths = [path for path in files(archive) if path.parent.name == f"run={record.run_id}"]
    return len(paths), [problem for path in paths for problem in _problems(archive, record, path)]


def _problems(archive: Archive, record: RunRecord, path: Path) -> Iterator[Problem]:
    if not record.swapped:
        yield Problem(path, "the run has no pairs: its seats are fixed")
        return
    try:
        verdict = read(path)
        again = trial(archive, record.run_id, verdict.hypotheses, verdict.most_pairs)
    except FailureError as error:
        yield Problem(path, str(error))
        return
    if not again.ended:
        yield Problem(
            path, f"of the {verdict.pairs} pairs that it follows from, only the first {again.pairs} are there"
        )
    elif (again.accepted, again.counts) != (verdict.accepted, verdict.counts) or abs(
        again.ratio - verdict.ratio
    ) > SAME:
        yield Problem(path, f"its games come to {again.accepted or 'no decision'} after {again.pairs} pairs")
