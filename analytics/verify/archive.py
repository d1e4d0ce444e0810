"""Verifies an archive: checksums, types, order, numbering, and every game replayed by the rules.

A file that no commit names is not part of the archive and is not read here: see ``analytics.verify.garbage``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.decisions import ANNOTATIONS
from analytics.policies import policy_store
from analytics.statistics.tally import tally_of
from analytics.store import inventory, policy_cards, sprt_verdicts
from analytics.store.archive import Archive, commit_files, sweep_job
from analytics.store.blocks import PlyColumns, read_table
from analytics.store.commit_log import commit_in, overlapping
from analytics.store.ranges import Range, merged, overlaps
from analytics.store.records import Commit, RunRecord, Slice, StoredFile, run_id_of
from analytics.store.schema import SCHEMA_VERSION, TABLES, game_ids
from analytics.store.range_files import games_at
from analytics.verify.checkpoints import verify_checkpoints
from analytics.verify.derived_tables import verify_decisions, verify_positions, verify_verdicts
from analytics.verify.problems import Problem
from analytics.verify.replay import FAULTS, FINE, MISPLACED, faults
from quarto.batch import GAME_BITS, Block, Games
from quarto.errors import FailureError
from quarto.rules import CELLS, PIECES

NAMED_GAMES = 10  # of one file, wrong games that are reported one by one


@dataclass
class Verification:
    """Counts of what was checked, and the problems that were found."""

    runs: int = 0
    shards: int = 0
    games: int = 0
    plies: int = 0
    decisions: int = 0
    positions: int = 0  # rows
    policies: int = 0
    verdicts: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class _Shard:
    """One commit and the folder its files lie in."""

    archive: Archive
    record: RunRecord
    commit: Commit
    path: PurePath

    def file(self, table: str) -> PurePath:
        return self.archive.file(table, self.record.run_id, self.stored(table))

    def stored(self, table: str) -> StoredFile:
        stored: StoredFile = getattr(self.commit, table)
        return stored

    @cached_property
    def slices(self) -> list[Slice]:
        return sorted(self.commit.slices, key=lambda part: (part.pairing, part.first_pair))


def verify(archive: Archive) -> Verification:
    """Check all records, and all files that commits name, one shard at a time.

    Problems are returned, never raised.
    """
    found, archive = Verification(), Archive(archive.root)
    archive.may_checkpoint = False  # who looks for damage changes nothing
    for run_id in sorted({*archive.run_ids(), *archive.recorded()}):
        found.runs += 1
        record = _record(archive, run_id, found)
        held: dict[int, list[Range]] = {}
        commits = _commits(archive, run_id, found)
        replaced = merged(each for commit in commits.values() for each in commit.replaces)
        counting = {p: c for p, c in commits.items() if not overlaps(replaced, c.shard, c.shard + 1)}
        for path, commit in counting.items():
            found.shards += 1
            found.problems += [Problem(path, what) for what in overlapping(commit, held)]
            if record is not None:
                found.problems += _shard(_Shard(archive, record, commit, path), found)
        found.problems += _replaced(commits, counting, held)
        found.problems += _lost(archive, run_id, record, held, replaced)
        found.problems += verify_checkpoints(archive, run_id, commits.values())
        if record is not None:
            decisions, problems = verify_decisions(archive, record)
            found.decisions += decisions
            found.problems += problems
            verdicts, problems = verify_verdicts(archive, record)
            found.verdicts += verdicts
            found.problems += problems
            positions, problems = verify_positions(archive, record)
            found.positions += positions
            found.problems += problems
    found.problems += _sweeps(archive)
    for path in sprt_verdicts.files(archive):
        if path.parent.name.removeprefix("run=") not in archive.recorded():
            found.problems.append(Problem(path, "its run has no record"))
    found.problems += [Problem(path, what) for path, what in policy_store.without_card(archive)]
    for policy_id in policy_cards.policy_ids(archive):
        found.policies += 1
        found.problems += [Problem(path, what) for path, what in policy_store.problems(archive, policy_id)]
    return found


def _commits(archive: Archive, run_id: str, found: Verification) -> dict[PurePath, Commit]:
    """The sound commits of a run by path, each read from its own file."""
    commits = {}
    for path in commit_files(archive, archive.folder("commits", run_id)):
        try:
            commits[path] = commit_in(archive.backend, path)
        except FailureError as error:
            found.problems.append(Problem(path, str(error)))
    return commits


def _replaced(
    commits: Mapping[PurePath, Commit], counting: Mapping[PurePath, Commit], held: Mapping[int, list[Range]]
) -> Iterator[Problem]:
    """Commits that were replaced, of which some pairs are in no commit that counts (``held``)."""
    for path, commit in commits.items():
        for part in () if path in counting else commit.slices:
            known = held.get(part.pairing, [])
            if not any(first <= part.first_pair and part.end_pair <= end for first, end in known):
                pairs = f"pairs {part.first_pair} to {part.end_pair - 1} of pairing {part.pairing}"
                yield Problem(path, f"it was replaced, and no commit has all of its {pairs}")


def _record(archive: Archive, run_id: str, found: Verification) -> RunRecord | None:
    path = archive.record_file(run_id)
    try:
        record = archive.run(run_id)
    except FailureError as error:
        found.problems.append(Problem(path, str(error)))
        return None
    if record is None:
        found.problems.append(
            Problem(path, "missing: without it the games of this run cannot be checked; restore it from a copy")
        )
    elif record.schema_version != SCHEMA_VERSION:
        what = f"its schema version is {record.schema_version}, which this program does not read"
        found.problems.append(Problem(path, what))
    elif run_id_of(record.spec) != run_id:
        what = f"its spec is that of run {run_id_of(record.spec)}: it was changed after the run was named"
        found.problems.append(Problem(path, what))
    return record


def _sweeps(archive: Archive) -> Iterator[Problem]:
    files = archive.sweep_files()
    for path in files:
        try:
            sweep_job(archive, path)
        except FailureError as error:
            yield Problem(path, str(error))
    for folder in dict.fromkeys(path.parent for path in files):
        numbers = {int(path.stem) for path in files if path.parent == folder}
        for lost in sorted(set(range(max(numbers, default=0))) - numbers):
            what = "missing: the sweep was killed before this job ended, or the file was removed; sweep again"
            yield Problem(folder / f"{lost}.json", what)


def _lost(
    archive: Archive, run_id: str, record: RunRecord | None, held: dict[int, list[Range]], replaced: Sequence[Range]
) -> Iterator[Problem]:
    """The things that a run had when its record was written, and has no longer.

    ``held`` are the pairs of its sound commits that count, ``replaced`` the numbers of those that do not.
    """
    commits = archive.folder("commits", run_id)
    gone_since = {number for first, end in replaced for number in range(first, end)}
    for lost in inventory.lost_commits(record, gone_since.union(archive.numbers(run_id)), held):
        yield Problem(commits / f"{lost:06d}.json", inventory.LOST)
    if record is None:
        return
    annotated = {int(path.stem) for path in ANNOTATIONS.manifest_files(archive, run_id)}
    gone = record.annotations - len(annotated | gone_since)  # what was replaced may have had an annotation
    if gone > 0:
        what = f"{gone} of the {record.annotations} annotations of this run are missing: run '{ANNOTATIONS.command}'"
        yield Problem(archive.folder(ANNOTATIONS.manifests, run_id), what)
    for verdict_id in record.verdicts:
        path = sprt_verdicts.path_of(archive, run_id, verdict_id)
        if archive.backend.status(path) is None:
            yield Problem(path, "missing: restore it from a copy, or give the command of the test again")


def _shard(shard: _Shard, found: Verification) -> Iterator[Problem]:
    frames = {}
    for table in TABLES:
        try:
            frames[table] = read_table(shard.archive.backend, shard.file(table), shard.stored(table), TABLES[table])
        except ValueError as error:
            yield Problem(shard.file(table), str(error))
    if len(frames) == len(TABLES):
        found.games += len(frames["games"])
        found.plies += len(frames["plies"])
        yield from _rows(shard, frames["games"], frames["plies"])


def _rows(shard: _Shard, games: pl.DataFrame, plies: pl.DataFrame) -> Iterator[Problem]:
    path = shard.file("games")
    game_id = games["game_id"].to_numpy()
    swapped = shard.record.swapped
    ids = [game_ids(part.pairing, part.first_pair, part.pairs, swapped) for part in shard.slices]
    expected = np.concatenate([np.empty(0, np.int64), *ids])
    if not np.array_equal(game_id, expected):
        same = game_id[: len(expected)] == expected[: len(game_id)]
        at = int(np.argmin(same)) if not same.all() else len(same)
        wrong = int(game_id[at]) if at < len(game_id) else int(expected[at])
        yield Problem(path, f"row {at}: the games are not, in order, those of the commit's slices", wrong)
        return
    out_of_range = games.select(pl.col("plies").is_between(0, PIECES) & pl.col("winner").is_between(-1, 1))
    if not out_of_range.to_series().all():
        at = int(np.argmin(out_of_range.to_series().to_numpy()))
        yield Problem(path, "plies is not 0 to 16, or winner not -1, 0 or 1", int(game_id[at]))
        return
    yield from _labels(shard, games)
    played, opening = _games(games), games["opening"].to_numpy()
    faulty = list(_replay(shard, game_id, opening, played, plies))
    yield from faulty
    yield from _tallies(shard, played)
    imposed = shard.record.spec["opening_plies"]
    other = np.flatnonzero(opening != imposed)
    if other.size:
        what = f"its opening is of {opening[other[0]]} plies, the run's of {imposed} (one of {other.size} such games)"
        yield Problem(path, what, int(game_id[other[0]]))
    elif not faulty:  # sound games have all their imposed plies, and these come first
        yield from _openings(shard, game_id, plies)


def _games(games: pl.DataFrame) -> Games:
    nothing = np.empty((PIECES, 0), np.int8)
    ending = games["ending"].to_physical().cast(pl.Int8).to_numpy()
    return Games(nothing, nothing, games["plies"].to_numpy(), games["winner"].to_numpy(), ending)


def _labels(shard: _Shard, games: pl.DataFrame) -> Iterator[Problem]:
    """Check the columns of ``games`` that follow from the game id and the run."""
    path = shard.file("games")
    labels = shard.record.pairings
    derived = games.select(
        "game_id",
        "pair_id",
        "pairing",
        odd=pl.col("game_id") & 1,
        agent_0=pl.col("agent_0").cast(pl.String),
        agent_1=pl.col("agent_1").cast(pl.String),
    )
    pair_id, pairing = pl.col("game_id") // 2, pl.col("game_id") // (1 << GAME_BITS)
    wrong = derived.filter((pl.col("pair_id") != pair_id) | (pl.col("pairing") != pairing))
    for game in wrong["game_id"].head(1):
        yield Problem(path, "pair_id or pairing does not follow from game_id", game)
    groups = derived.group_by("pairing", "odd", "agent_0", "agent_1", maintain_order=True).agg(pl.first("game_id"))
    for pairing, odd, *agents, game in groups.iter_rows():
        if pairing >= len(labels):
            yield Problem(path, f"the run has no pairing {pairing}", game)
        elif tuple(agents) != (labels[pairing] if odd == 0 else labels[pairing][::-1]):
            yield Problem(path, f"agents {agents[0]!r} and {agents[1]!r} are not those of pairing {pairing}", game)


def _replay(
    shard: _Shard, game_id: NDArray[np.int64], opening: NDArray[np.int8], played: Games, plies: pl.DataFrame
) -> Iterator[Problem]:
    path = shard.file("plies")
    if len(plies) != int(played.plies.sum(dtype=np.int64)):
        yield Problem(path, f"has {len(plies)} rows, the games have {int(played.plies.sum(dtype=np.int64))} plies")
    columns = PlyColumns(*(plies[name].to_numpy() for name in PlyColumns._fields))
    fault = faults(game_id, opening, played, columns, shard.record.rules.tables)
    wrong = np.flatnonzero(fault != FINE)
    if (fault == MISPLACED).any():  # the faults of other games may follow from the row that is out of place
        wrong = np.flatnonzero(fault == MISPLACED)
    for game in wrong[:NAMED_GAMES]:
        yield Problem(path, FAULTS[fault[game]], int(game_id[game]))
    if len(wrong) > NAMED_GAMES:
        yield Problem(path, f"and {len(wrong) - NAMED_GAMES} more games that are wrong")


def _openings(shard: _Shard, game_id: NDArray[np.int64], plies: pl.DataFrame) -> Iterator[Problem]:
    """Check that both games of a pair, and the pairs of one number in all pairings, have the same imposed plies."""
    path, imposed = shard.file("plies"), int(shard.record.spec["opening_plies"])
    size = (imposed, len(game_id))
    piece, cell = (plies[name][: imposed * len(game_id)].to_numpy().reshape(size) for name in ("piece", "cell"))
    turns = piece.astype(np.int64) * CELLS + cell  # [imposed, G]
    if shard.record.swapped:
        for i in np.flatnonzero((turns[:, 0::2] != turns[:, 1::2]).any(axis=0))[:1]:
            what = f"its first {imposed} plies are not those of the other game of its pair"
            yield Problem(path, what, int(game_id[2 * i + 1]))
        turns, game_id = turns[:, 0::2], game_id[0::2]
    number = (game_id & ((1 << GAME_BITS) - 1)) >> 1
    order = np.argsort(number, kind="stable")
    before, after = order[:-1], order[1:]
    differ = (turns[:, before] != turns[:, after]).any(axis=0)
    for i in np.flatnonzero((number[before] == number[after]) & differ)[:1]:
        pairing = int(game_id[before[i]]) >> GAME_BITS
        what = f"its first {imposed} plies are not those of pair {number[after[i]]} of pairing {pairing}"
        yield Problem(path, what, int(game_id[after[i]]))


def _tallies(shard: _Shard, played: Games) -> Iterator[Problem]:
    start = 0
    for part in shard.slices:
        end = start + part.pairs * (1 + shard.record.swapped)
        block = Block(part.pairing, part.first_pair, 0, games_at(played, slice(start, end)), shard.record.swapped)
        if tally_of(block) != part.tally:
            what = f"the tally of pairing {part.pairing} from pair {part.first_pair} on is not that of its games"
            yield Problem(shard.path, what)
        start = end
