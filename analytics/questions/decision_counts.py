"""Counts of decisions by position and turn, up to symmetry.

They come from the position index or, for ranges that are not indexed, from the games. ``analytics.questions.openings``
asks for the decisions in one position, or in every position of a ply.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import polars as pl

from analytics.questions.selection import GameFilter, read_file_rows
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.marker import VerifiableFile
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.tables.derived.definitions import POSITIONS_TABLE, derive_stored_positions, is_ply_within_extent
from analytics.tables.derived.positions import CHOSEN_TURN, list_canonical_turns
from quarto.batch import GAME_BITS
from quarto.canonical import HAND_BITS
from quarto.errors import FailureError
from quarto.notation import format_position
from quarto.position import PackedPosition, position_from_plies
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, Rules

MAX_THREADS = 8  # each replays a range, which takes some hundred megabytes

# The columns that are read from ``positions``.
INDEX_COLUMNS = pl.Schema(
    {"run_id": pl.String()}
    | dict.fromkeys(
        (
            *("pairing", "second", "occupied", "board", "cell", "piece"),
            *("imposed", "games", "wins", "draws", "sample"),
        ),
        pl.Int64(),
    )
)

# The columns of the canonical turn that identify a decision.
_BOARD = ["occupied", "board"]
DECISION_COLUMNS = {"gift": _BOARD, "placement": [*_BOARD, "cell"], "turn": [*_BOARD, "cell", "piece"]}


def read_decisions_in_position(
    opened: OpenArchive, records: Sequence[RunRecord], position: PackedPosition, turns: pl.DataFrame
) -> pl.DataFrame:
    """Read the decisions that were made in a position in all games of some runs.

    The result has the column ``run_id``, followed by the columns of the table ``positions``. ``turns`` has the turns in
    ``position``, as ``list_canonical_turns`` returns them.
    """
    occupied, boards = turns["occupied"][0], turns["board"].to_list()  # boards that differ in the hand are neighbours
    where = f"occupied = {occupied} AND board BETWEEN {min(boards)} AND {max(boards)}"
    return _read_decisions(opened, records, position.occupied.bit_count(), where)


def read_first_free_decisions(opened: OpenArchive, records: Sequence[RunRecord]) -> pl.DataFrame:
    """Read the first free decision of each game in some runs.

    The first free decision of a game is at the ply that follows its imposed plies. The result has the column
    ``run_id``, followed by the columns of the table ``positions``.
    """
    runs: dict[int, list[RunRecord]] = {}
    for record in records:
        runs.setdefault(record.spec["opening_plies"], []).append(record)
    free = f"imposed = {CHOSEN_TURN}"
    return pl.concat(
        [
            pl.DataFrame(schema=INDEX_COLUMNS),
            *(_read_decisions(opened, runs[ply], ply, free) for ply in sorted(runs) if ply < PIECES),
        ]
    )


def _read_decisions(opened: OpenArchive, records: Sequence[RunRecord], ply: int, condition: str) -> pl.DataFrame:
    """Read the decisions at the ply ``ply`` that meet ``condition``, a condition in SQL.

    They come from the position index or, for ranges whose index does not include this ply, from the games.
    """
    where = f"ply = {ply} AND {condition}"
    files, unindexed_ranges = list[VerifiableFile](), list[tuple[RunRecord, StoredRange]]()
    for record in records:
        indexed, unindexed = opened.files.list_derived_files_and_gaps(
            POSITIONS_TABLE, record.run_id, partial(is_ply_within_extent, ply)
        )
        files += indexed
        unindexed_ranges += [(record, stored) for stored in unindexed]
    frames = [read_file_rows(opened, files, list(INDEX_COLUMNS)[1:], where).cast(INDEX_COLUMNS)] if files else []
    return pl.concat(
        [
            pl.DataFrame(schema=INDEX_COLUMNS),
            *frames,
            *_count_unindexed_decisions(opened.archive, unindexed_ranges, ply, where),
        ]
    )


def _count_decisions(
    archive: ArchiveStore, record: RunRecord, stored: StoredRange, ply: int, where: str
) -> pl.DataFrame:
    """Count the decisions at a ply in the games of one range, and return the rows that meet the condition ``where``."""
    counts = derive_stored_positions(archive, record, stored, range(ply, ply + 1))
    # A filter may return a slice, which would keep the whole table of every file in memory.
    rows = counts[counts.select(pl.arg_where(pl.sql_expr(where))).to_series()]
    return rows.with_columns(run_id=pl.lit(record.run_id)).select(*INDEX_COLUMNS).cast(INDEX_COLUMNS)


MAX_CACHED_FRAMES = 1 << 14  # frames of some rows
MAX_CACHED_ROWS = 1 << 10  # of a frame: one position has fewer, a whole ply may have millions

# The counts from the games of a file, by run, file name and condition. The name determines the games.
_decision_cache: dict[tuple[str, str, str], pl.DataFrame] = {}


def _count_unindexed_decisions(
    archive: ArchiveStore, ranges: Sequence[tuple[RunRecord, StoredRange]], ply: int, where: str
) -> list[pl.DataFrame]:
    """Count the decisions at a ply in ranges whose index does not include this ply; return a frame for each range."""

    def get_counted_decisions(run_and_range: tuple[RunRecord, StoredRange]) -> pl.DataFrame:
        record, stored = run_and_range
        key = record.run_id, stored.name, where
        if key in _decision_cache:
            return _decision_cache[key]
        rows = _count_decisions(archive, record, stored, ply, where)
        if len(rows) <= MAX_CACHED_ROWS:
            if len(_decision_cache) >= MAX_CACHED_FRAMES:
                _decision_cache.clear()
            _decision_cache[key] = rows
        return rows

    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS)) as pool:
        return list(pool.map(get_counted_decisions, ranges))


def select_decisions_by_agent(
    decisions: pl.DataFrame, records: Sequence[RunRecord], kind: str, game_filter: GameFilter
) -> pl.DataFrame:
    """Select the decisions that the filter's agent made in games against the filter's opponent.

    If the filter names no agent, decisions of any agent are selected. If it names no opponent, games against all
    opponents are included. ``kind`` is the kind of decision, which determines whether the giver or the mover decided.
    """
    if game_filter.agent is None and game_filter.opponent is None:
        return decisions
    is_gift = kind == "gift"  # ``second`` is the seat of the mover, the giver's opponent
    deciders = [
        (record.run_id, number, second ^ is_gift)
        for record in records
        for number, pairing in enumerate(record.pairings)
        for second, label in enumerate(pairing)
        if game_filter.agent in (None, label) and game_filter.opponent in (None, pairing[1 - second])
    ]
    names = ("run_id", "pairing", "second")
    deciders_frame = pl.DataFrame(deciders, schema={name: INDEX_COLUMNS[name] for name in names}, orient="row")
    return decisions.join(deciders_frame, on=names, how="semi")


def sum_symmetric_decisions(
    archive: ArchiveStore, decisions: pl.DataFrame, turns: pl.DataFrame, kind: str, records: Sequence[RunRecord]
) -> pl.DataFrame:
    """Sum the counts of decisions that are equivalent by symmetry, with one row for each group of such decisions.

    Each row names the decision of its group that comes first in ``turns``, and has the summed counts, the number of
    openings and the first game of the whole group. ``turns`` has all turns in one position or in several. For several
    positions, ``turns`` has a column ``position`` with the text of each position, and the result has this column, too.
    Raises ``FailureError`` if the index has a turn that cannot be played.
    """
    key_columns = DECISION_COLUMNS[kind]
    own_columns = ["own_hand", "own_cell", "own_piece"][: len(key_columns) - len(_BOARD) + 1]
    texts = [name for name in ("position",) if name in turns.columns]
    alike = pl.struct(own_columns).n_unique().cast(pl.Int64)
    names = turns.group_by(key_columns, maintain_order=True).agg(pl.first(*own_columns, *texts), alike=alike)
    rows = (
        decisions.with_columns(game_id=pl.col("pairing") * (1 << GAME_BITS) + pl.col("sample"))
        .sort("run_id", "game_id")
        .group_by(key_columns, maintain_order=True)
        .agg(pl.sum("games", "wins", "draws"), pl.first("run_id", "game_id"))
        .join(names, on=key_columns, how="left", validate="1:1")
        .join(
            _count_fewest_possible_openings(decisions, key_columns, records), on=key_columns, how="left", validate="1:1"
        )
    )
    if rows["alike"].null_count():
        raise FailureError(
            f"the index holds turns that cannot be played: run {archive.format_command('archive verify')}"
        )
    rows = rows.with_columns(losses=pl.col("games") - pl.col("wins") - pl.col("draws"))
    if kind == "gift":  # wins and losses were counted for the mover
        rows = rows.rename({"wins": "losses", "losses": "wins"})
    return rows.sort("games", *texts, *own_columns, descending=[True, *[False] * len([*texts, *own_columns])])


def _count_fewest_possible_openings(
    decisions: pl.DataFrame, key_columns: Sequence[str], records: Sequence[RunRecord]
) -> pl.DataFrame:
    """Return, in the column ``openings``, the least possible number of distinct openings of each decision's games.

    Without imposed plies, each game counts as an opening of its own. With imposed plies, the same opening recurs in the
    two games of a pair, in other pairings, and in other runs with the same seed. But within one pairing of one run, the
    games in which the same agent made the decision all have different openings. For each seed, these games are
    therefore counted for each run, pairing and agent, and the largest count is the least possible number of openings.

    This number may be too small, for example if the games of a pair diverge, and then intervals are wider than
    necessary. A number that is too large would make the intervals too narrow, which is worse.
    """
    seeds = {record.run_id: str(record.opening_seed) for record in records if record.opening_seed is not None}
    origin = pl.col("run_id").replace_strict(seeds, default=None, return_dtype=pl.String)
    games_by_decider = (
        decisions.group_by(*key_columns, "run_id", "pairing", "second").agg(pl.sum("games")).with_columns(seed=origin)
    )
    openings_of_seed = pl.when(pl.col("seed").is_null()).then(pl.sum("games")).otherwise(pl.max("games")).first()
    return (
        games_by_decider.group_by(*key_columns, "seed")
        .agg(openings=openings_of_seed)
        .group_by(key_columns)
        .agg(pl.sum("openings"))
    )


def list_turns_of_most_played_positions(
    decisions: pl.DataFrame, kind: str, rules: Rules, max_positions: int
) -> pl.DataFrame:
    """List every turn, with its canonical form, in the ``max_positions`` positions that have the most games.

    For gifts, the positions have no piece in hand. The result has the columns of ``list_canonical_turns``, and the
    column ``position``, the position as text.
    """
    handless = kind == "gift" or rules.mover_chooses
    with_hand = pl.lit(NONE) if handless else pl.col("board") & (1 << HAND_BITS) - 1
    positions = (
        decisions.group_by("occupied", word=pl.col("board").floordiv(1 << HAND_BITS), hand=with_hand)
        .agg(pl.sum("games"))
        .sort("games", "occupied", "word", "hand", descending=[True, False, False, False])
        .head(max_positions)
    )
    turns = []
    for occupied, word, hand in positions.select("occupied", "word", "hand").iter_rows():
        position = _decode_position(occupied, word, hand)
        text = pl.lit(format_position(position, rules.name)).alias("position")
        turns.append(list_canonical_turns(position, rules).with_columns(text))
    return pl.concat(turns)


def _decode_position(occupied: int, word: int, hand: int) -> PackedPosition:
    """Decode a position from the numbers that the index stores for it.

    The bits of ``occupied`` are the occupied cells. ``word`` is the column ``board`` without the bits of the hand: the
    pieces of a canonical board, as ``quarto.canonical.squeeze_lanes`` packs them. ``hand`` is the piece in hand or
    NONE.
    """
    cells = [cell for cell in range(CELLS) if occupied >> cell & 1]
    pieces = [
        sum((word >> (attribute * len(cells) + index) & 1) << attribute for attribute in range(ATTRIBUTES))
        for index in range(len(cells))
    ]
    return position_from_plies(zip(pieces, cells, strict=True), hand)
