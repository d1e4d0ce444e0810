"""Are the indexed positions what the games give? Each shard's are made again and compared, row by row."""

from __future__ import annotations

from collections.abc import Iterator

from analytics.store.archive import Archive
from analytics.store.position_index import VERSION, Index, Shard, index_files, load_index, table_of
from analytics.store.problems import Problem, read_checked
from analytics.store.records import Commit, RunRecord
from analytics.store.schema import POSITIONS
from quarto.errors import FailureError


def verify_positions(archive: Archive, record: RunRecord) -> tuple[int, list[Problem]]:
    """How many rows of positions a run has, and what is wrong with them or with the files that name them."""
    try:
        commits = {commit.shard: commit for commit in archive.commits(record.run_id)}
    except FailureError:  # reported with the games
        return 0, []
    count, problems = 0, []
    for path in index_files(archive, record.run_id):
        try:
            index = load_index(path)
        except FailureError as error:
            problems.append(Problem(path, str(error)))
            continue
        commit = commits.get(index.shard)
        if index.shard != int(path.stem):
            problems.append(Problem(path, f"it says shard {index.shard}"))
        elif commit is None or commit.plies.sha256 != index.plies:
            problems.append(Problem(path, "it indexes games that are not in the archive: remove it"))
        elif index.version == VERSION:  # of another one nothing is read, and it is replaced
            count += index.positions.rows
            problems += _shard(archive, record, commit, index)
    return count, problems


def _shard(archive: Archive, record: RunRecord, commit: Commit, index: Index) -> Iterator[Problem]:
    path = archive.file("positions", record.run_id, index.positions)
    frame = read_checked(path, index.positions, POSITIONS)
    if isinstance(frame, Problem):
        yield Problem(frame.file, f"{frame.what}; remove it and run 'qarena archive index'")
        return
    try:
        expected = table_of(archive, Shard(record, commit, index), range(index.end_ply))
    except FailureError:  # reported with the games
        return
    if not frame.equals(expected):
        yield Problem(path, "its rows are not what the shard's games give: remove it and run 'qarena archive index'")
