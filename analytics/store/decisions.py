"""The stored table of decisions: every placement and gift of a run's games with what it kept and gave up.

A shard of decisions belongs to one shard of games and counts once an annotation, a file with that shard's number, names
it. Like a commit it appears whole; that of a shard whose choices are counted later takes the place of the one before.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.archive import Archive, commit_files, now, store
from analytics.store.atomic import create, explained, make_folder, replace
from analytics.store.exact_values import Judged, Record, scatter
from analytics.store.json_records import Count, JsonRecord, dump, load
from analytics.store.records import Commit, Sha256, StoredFile
from analytics.store.schema import DECISIONS, GIFT, PLACEMENT
from quarto.rules import CELLS, PIECES, Rules

FIRST_PIECES_MOVER = 5  # where the mover chooses the piece, earlier positions take minutes each


class Annotation(JsonRecord, frozen=True):
    """A shard of decisions that counts."""

    shard: Count  # of the games
    plies: Sha256  # of that shard's file of plies
    decisions: StoredFile
    choices: bool  # saving choices are counted
    from_pieces: Count  # decisions on boards with fewer are left out
    created: str  # ISO 8601, UTC

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)


def annotation_files(archive: Archive, run_id: str) -> list[Path]:
    """The annotations of a run, damaged or not, by shard."""
    return commit_files(archive.folder("annotations", run_id))


def annotations_of(archive: Archive, run_id: str) -> dict[int, Annotation]:
    """The annotations of a run by shard, without those of shards that are not there (any more).

    Raises ``FailureError`` naming a damaged file.
    """
    plies = {commit.shard: commit.plies.sha256 for commit in archive.commits(run_id)}
    found = (load(path, Annotation) for path in annotation_files(archive, run_id))
    return {each.shard: each for each in found if plies.get(each.shard) == each.plies}


def decision_files(archive: Archive) -> list[Path]:
    """All files of decisions that count."""
    return [
        archive.file("decisions", run_id, annotation.decisions)
        for run_id in archive.run_ids()
        for annotation in annotations_of(archive, run_id).values()
    ]


def first_pieces(rules: Rules) -> int:
    """From how many pieces on decisions are judged unless somebody asks for others."""
    return FIRST_PIECES_MOVER if rules.mover_chooses else 0


def record_of(archive: Archive, run_id: str, commit: Commit, from_pieces: int) -> tuple[NDArray[np.int64], Record]:
    """The games of a shard, [G] ids and their plies. Raises ``FailureError`` when a file cannot be read."""
    frames = []
    for table, columns in (("games", ["game_id", "plies", "opening"]), ("plies", ["piece", "cell"])):
        path = archive.file(table, run_id, getattr(commit, table))
        with explained("read", path):
            frames.append(pl.read_parquet(path, columns=columns, hive_partitioning=False))
    games, rows = frames
    plies = np.array(games["plies"])  # a copy: kernels take arrays that may be written to
    matrices = []
    for column in ("piece", "cell"):
        matrices.append(np.zeros((CELLS, len(plies)), np.int8))
        scatter(np.array(rows[column]), plies, matrices[-1])
    first = np.maximum(games["opening"].to_numpy(), np.int8(from_pieces))
    return games["game_id"].to_numpy(), Record(matrices[0], matrices[1], plies, first)


def frame_of(game_id: NDArray[np.int64], record: Record, judged: Judged, rules: Rules) -> pl.DataFrame:
    """The decisions of judged games: by ply, then gifts before placements, then game."""
    parts = [
        _part(game_id, record, judged, ply, kind, rules)
        for ply in range(PIECES)
        for kind in ((PLACEMENT,) if rules.mover_chooses else (GIFT, PLACEMENT))
    ]
    return pl.concat(parts)


def _part(
    game_id: NDArray[np.int64], record: Record, judged: Judged, ply: int, kind: int, rules: Rules
) -> pl.DataFrame:
    """The decisions of one kind at one ply."""
    at = np.flatnonzero((record.plies > ply) & (record.first <= ply))
    ended = record.plies[at] == ply + 1
    if kind == GIFT:
        before, after, saving = judged.given[ply, at], -judged.held[ply, at], judged.saving_gifts[ply, at]
        legal = PIECES - ply
    else:
        following = -judged.held[min(ply + 1, 15), at] if rules.mover_chooses else judged.given[ply + 1, at]
        before, after = judged.held[ply, at], np.where(ended, judged.last[at], following)
        saving, legal = judged.saving_cells[ply, at], (CELLS - ply) * (PIECES - ply if rules.mover_chooses else 1)
    seat = (ply + kind) & 1
    columns = {
        "game_id": game_id[at],
        "ply": np.full(len(at), ply, np.int8),
        "kind": np.full(len(at), kind, np.int8),
        "seat": np.full(len(at), seat, np.int8),
        "value_before": before,
        "value_after": after.astype(np.int8),
        "saving": saving.astype(np.int32),
        "legal": np.full(len(at), legal, np.int32),
    }
    return pl.DataFrame(columns, schema=DECISIONS)


def missing(archive: Archive, run_id: str, choices: bool, from_pieces: int) -> Iterator[Commit]:
    """The shards of a run whose decisions are not there yet as they are wanted; looked up anew before each."""
    for commit in archive.commits(run_id):
        known = annotations_of(archive, run_id).get(commit.shard)
        if known is None or (choices and not known.choices) or known.from_pieces > from_pieces:
            yield commit


def no_less(archive: Archive, run_id: str, commit: Commit, settings: tuple[bool, int]) -> tuple[bool, int]:
    """How a shard is to be judged so that nothing is lost of what was asked for now and of what was judged before.

    ``settings`` as for ``annotate``.
    """
    known = annotations_of(archive, run_id).get(commit.shard)
    return settings if known is None else (settings[0] or known.choices, min(settings[1], known.from_pieces))


def annotate(
    archive: Archive,
    run_id: str,
    commit: Commit,
    frame: pl.DataFrame,
    settings: tuple[bool, int],
) -> bool:
    """Store the decisions of a shard, unless somebody was faster: then nothing is left and the answer is False.

    ``settings``: whether choices are counted, and from how many pieces on decisions are judged. Raises
    ``FailureError`` when the disk refuses.
    """
    choices, from_pieces = settings
    target = archive.folder("annotations", run_id) / f"{commit.shard:06d}.json"
    path = archive.folder("decisions", run_id) / f"part-{commit.shard:06d}-{uuid.uuid4().hex}.parquet"
    with explained("write to", archive.root):
        made = False
        try:
            stored = store(path, frame)
            make_folder(target.parent)
            content = dump(Annotation(commit.shard, commit.plies.sha256, stored, choices, from_pieces, now()))
            made = create(target, content)
            if not made and _is_less(archive, run_id, commit, settings):
                replace(target, content)
                made = True
        finally:
            if not made:
                path.unlink(missing_ok=True)
    return made


def _is_less(archive: Archive, run_id: str, commit: Commit, settings: tuple[bool, int]) -> bool:
    """Whether what is there of a shard holds less than these settings ask for, or is of another shard."""
    known = annotations_of(archive, run_id).get(commit.shard)
    return known is None or (settings[0] and not known.choices) or known.from_pieces > settings[1]
