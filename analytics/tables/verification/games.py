"""Verifies the games of one range of units: ids, labels, openings, fingerprint, and each game replayed by the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import PlyColumns
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.table_files import build_games, build_games_without_plies, read_parts_or_raise_value_error
from analytics.store.texts import format_count_with_noun
from analytics.tables.verification.game_faults import FAULT_TEXTS, FINE, MISPLACED, find_faults
from quarto.batch import GAME_BITS
from quarto.rules import CELLS, PIECES

REPORTED_GAMES = 10  # the most wrong games of a file that are reported one by one
REMEDY = "restore it from a copy, or remove the file in games and give the command of the run again, which plays them"


@dataclass(frozen=True)
class Problem:
    """A description of what is wrong with a file, or with one of its games."""

    file: PurePath
    fault: str
    game_id: int | None = None

    def __str__(self) -> str:
        game = "" if self.game_id is None else f" game {self.game_id}:"
        return f"{self.file}:{game} {self.fault}"


@dataclass(frozen=True)
class RangeFiles:
    """For verification: the two files that hold the games and the plies of one range that readers use.

    ``analytics.tables.upkeep.garbage.RunTableFiles`` has the files of a whole run, including those that no reader uses.
    """

    archive: ArchiveStore
    record: RunRecord
    stored: StoredRange

    @property
    def games(self) -> PurePath:
        return self.archive.folder("games", self.record.run_id) / self.stored.name

    @property
    def plies(self) -> PurePath:
        """The path of the range's file of plies. Raises ``FileNotFoundError`` if there is no such file."""
        return self.archive.find_path_of_containing_file("plies", self.record.run_id, self.stored)


def read_sound_tables_and_problems(files: RangeFiles) -> tuple[dict[str, pl.DataFrame], list[Problem]]:
    """Read the tables whose files exist and are sound; return them by name, and the problems of the other files."""
    frames, problems = {}, []
    for table in TABLE_SCHEMAS:
        path = files.archive.folder(table, files.record.run_id) / f"{files.stored.games_stem}.*.parquet"
        try:
            path = getattr(files, table)
            parts = [*read_parts_or_raise_value_error(files.archive.backend, path, TABLE_SCHEMAS[table])]
            frames[table] = pl.concat(parts) if parts else pl.DataFrame(schema=TABLE_SCHEMAS[table])
        except FileNotFoundError:
            problems.append(Problem(path, f"missing: {REMEDY}"))
        except ValueError as error:
            problems.append(Problem(path, f"{error}; {REMEDY}"))
    return frames, problems


def verify_rows(files: RangeFiles, games: pl.DataFrame, plies: pl.DataFrame) -> Iterator[Problem]:
    """Yield the problems in the rows of a range whose files can be read."""
    misplaced = [*_verify_ids(files, games["game_id"].to_numpy())]
    possible = games.select(pl.col("plies").is_between(0, PIECES) & pl.col("winner").is_between(-1, 1)).to_series()
    if misplaced:
        yield from misplaced
    elif not possible.all():
        at = int(np.argmin(possible.to_numpy()))
        yield Problem(files.games, "plies is not 0 to 16, or winner not -1, 0 or 1", games["game_id"][at])
    else:
        problems = [*_verify_pairings_and_labels(files, games), *_verify_games(files, games, plies)]
        yield from problems or _verify_fingerprint(files, games, plies)


def _verify_ids(files: RangeFiles, game_id: NDArray[np.int64]) -> Iterator[Problem]:
    """Yield a problem unless the ids are those of all games of the units in the file's name, in ascending order."""
    record, (first, end) = files.record, files.stored[:2]
    unit = record.unit_line.compute_units(game_id)
    wrong = (unit < first) | (unit >= end) | (game_id >> GAME_BITS >= len(record.pairings)) | (game_id < 0)
    wrong |= np.diff(game_id, prepend=-1) <= 0
    if not record.swapped:
        wrong |= game_id & 1 == 1
    if wrong.any():
        at = int(np.argmax(wrong))
        yield Problem(files.games, f"row {at}: the games are not, in order, those of its units", int(game_id[at]))
    elif len(game_id) != (end - first) * record.unit_line.games_a_pair or len(np.unique(unit)) != end - first:
        fault = (
            f"it has {format_count_with_noun(len(game_id), 'game')} of "
            f"{format_count_with_noun(len(np.unique(unit)), 'unit')}, its name says {end - first}"
        )
        yield Problem(files.games, fault)


def _verify_pairings_and_labels(files: RangeFiles, games: pl.DataFrame) -> Iterator[Problem]:
    """Yield problems in those columns of ``games`` that follow from the game id and the run's record."""
    labels = files.record.pairings
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
        yield Problem(files.games, "pair_id or pairing does not follow from game_id", game)
    derived = derived.with_columns(pairing=pairing)
    groups = derived.group_by("pairing", "odd", "agent_0", "agent_1", maintain_order=True).agg(pl.first("game_id"))
    for number, odd, *agents, game in groups.iter_rows():
        if tuple(agents) != (labels[number] if odd == 0 else labels[number][::-1]):
            fault = f"agents {agents[0]!r} and {agents[1]!r} are not those of pairing {number}"
            yield Problem(files.games, fault, game)


def _verify_games(files: RangeFiles, games: pl.DataFrame, plies: pl.DataFrame) -> Iterator[Problem]:
    """Yield a problem for games that break the rules or whose opening is wrong.

    An opening is wrong if its number of plies is not the one in the run's record, or if games that should share an
    opening have different ones.
    """
    game_id, opening = games["game_id"].to_numpy(), games["opening"].to_numpy()
    faulty = [*_verify_replay(files, games, plies)]
    yield from faulty
    imposed = files.record.spec["opening_plies"]
    other = np.flatnonzero(opening != imposed)
    if other.size:
        fault = (
            f"its opening has plies: {opening[other[0]]}, the run's {imposed} (one of "
            f"{format_count_with_noun(other.size, 'such game')})"
        )
        yield Problem(files.games, fault, int(game_id[other[0]]))
    elif not faulty:  # sound games have all their imposed plies, and these come first
        yield from _verify_shared_openings(files, game_id, plies)


def _verify_replay(files: RangeFiles, games: pl.DataFrame, plies: pl.DataFrame) -> Iterator[Problem]:
    game_id, played = games["game_id"].to_numpy(), build_games_without_plies(games)
    if len(plies) != int(played.plies.sum(dtype=np.int64)):
        reason = (
            f"has {format_count_with_noun(len(plies), 'row')}, the games have "
            f"{format_count_with_noun(int(played.plies.sum()), 'ply', 'plies')}"
        )
        yield Problem(files.plies, reason)
    columns = PlyColumns(*(plies[name].to_numpy() for name in PlyColumns._fields))
    fault = find_faults(game_id, games["opening"].to_numpy(), played, columns, files.record.rules.tables)
    wrong = np.flatnonzero(fault != FINE)
    if (fault == MISPLACED).any():  # the faults of other games may follow from the row that is out of place
        wrong = np.flatnonzero(fault == MISPLACED)
    for game in wrong[:REPORTED_GAMES]:
        yield Problem(files.plies, FAULT_TEXTS[fault[game]], int(game_id[game]))
    if len(wrong) > REPORTED_GAMES:
        yield Problem(files.plies, f"and {format_count_with_noun(len(wrong) - REPORTED_GAMES, 'more wrong game')}")


def _verify_shared_openings(files: RangeFiles, game_id: NDArray[np.int64], plies: pl.DataFrame) -> Iterator[Problem]:
    """Yield a problem unless games that should share an opening have the same imposed plies.

    Both games of a pair have the same opening. So do all pairs with the same number in different pairings.
    """
    imposed = int(files.record.spec["opening_plies"])
    size = (imposed, len(game_id))
    piece, cell = (plies[name][: imposed * len(game_id)].to_numpy().reshape(size) for name in ("piece", "cell"))
    turns = piece.astype(np.int64) * CELLS + cell  # [imposed, G]
    if files.record.swapped:
        for i in np.flatnonzero((turns[:, 0::2] != turns[:, 1::2]).any(axis=0))[:1]:
            fault = "its opening is not that of the other game of its pair"
            yield Problem(files.plies, fault, int(game_id[2 * i + 1]))
        turns, game_id = turns[:, 0::2], game_id[0::2]
    number = (game_id & ((1 << GAME_BITS) - 1)) >> 1
    order = np.argsort(number, kind="stable")
    before, after = order[:-1], order[1:]
    differ = (turns[:, before] != turns[:, after]).any(axis=0)
    for i in np.flatnonzero((number[before] == number[after]) & differ)[:1]:
        pairing = int(game_id[before[i]]) >> GAME_BITS
        fault = f"its opening is not that of pair {number[after[i]]} of pairing {pairing}"
        yield Problem(files.plies, fault, int(game_id[after[i]]))


def _verify_fingerprint(files: RangeFiles, games: pl.DataFrame, plies: pl.DataFrame) -> Iterator[Problem]:
    """Compute the fingerprint of sound games again, and yield a problem if the file's name has another one."""
    fingerprint = build_games(games, plies).fingerprint
    if fingerprint != files.stored.fingerprint:
        yield Problem(files.games, f"its games have the fingerprint {fingerprint:016x}, which its name does not say")
