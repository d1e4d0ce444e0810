"""The texts of single games of an archive, as samples."""

from __future__ import annotations

from collections.abc import Sequence

from analytics.query.database import OpenArchive
from analytics.query.views import RUN_OF_FILE, quoted
from analytics.store.records import Commit
from quarto.batch import GAME_BITS
from quarto.notation import format_game


def game_texts(opened: OpenArchive, games: Sequence[tuple[str, int]]) -> list[str]:
    """The texts (``F@b1 3@b2 ...``) of games given by ``run_id`` and ``game_id``; empty for a game without plies.

    Reads only their shards. Raises ``FailureError`` for a damaged file.
    """
    files = {
        opened.archive.file("plies", shard.record.run_id, shard.commit.plies).absolute()
        for shard in opened.shards()
        if any(run_id == shard.record.run_id and _holds(shard.commit, game_id) for run_id, game_id in games)
    }
    if not files:
        return ["" for _ in games]
    listed = ", ".join(quoted(str(path)) for path in sorted(files))
    wanted = ", ".join(str(game_id) for game_id in sorted({game_id for _, game_id in games}))
    found = opened.sql(
        f"SELECT {RUN_OF_FILE} AS run_id, game_id, piece, cell "  # noqa: S608  (paths and numbers of our own)
        f"FROM read_parquet([{listed}], filename = true, hive_partitioning = false) "
        f"WHERE game_id IN ({wanted}) ORDER BY ply"
    )
    plies: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for run_id, game_id, piece, cell in found.iter_rows():
        plies.setdefault((run_id, game_id), []).append((piece, cell))
    return [format_game(plies.get(game, [])) for game in games]


def _holds(commit: Commit, game_id: int) -> bool:
    pairing, pair = game_id >> GAME_BITS, (game_id & ((1 << GAME_BITS) - 1)) >> 1
    return any(part.pairing == pairing and part.first_pair <= pair < part.end_pair for part in commit.slices)
