"""Random games in plain Python, and the rows that the archive should hold of them: the slow twin of the writer."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import TableBytes, concat_blocks_into_large_parts, encode_game_tables, select_games
from analytics.store.range_files import write_game_tables
from analytics.store.ranges import LARGEST_RANGE, Range, StoredRange, UnitLine, merge_ranges, split_into_files
from analytics.store.records import RunRecord, compute_run_id, format_current_time
from quarto.batch import ENDINGS, FORFEIT_ERROR, FORFEIT_ILLEGAL, FULL_BOARD, LINE, Block, Games
from quarto.rules import CELLS, CLASSIC, NONE, PIECES, Rules
from tests.naive import share_a_value

Pairings = Sequence[tuple[str, str]]
Game = dict[str, Any]  # plies: list of (piece, cell); winner; ending

PAIRINGS = [("random", "rule_based"), ("random", "dumb(depth=2)"), ("dumb(depth=2)", "rule_based")]


def has_line(board: dict[int, int], rules: Rules) -> bool:
    complete = (line for line in rules.lines if all(map(board.__contains__, line)))
    return any(share_a_value(*(board[cell] for cell in line)) for line in complete)


def random_game(dice: random.Random, rules: Rules = CLASSIC, forfeits: float = 0.1) -> Game:
    """Play a legal random game; some stop early because a player forfeits, even before the first ply."""
    board: dict[int, int] = {}
    plies: list[tuple[int, int]] = []
    pieces, cells = list(range(PIECES)), list(range(CELLS))
    stop = dice.randrange(PIECES) if dice.random() < forfeits else PIECES + 1
    while pieces:
        if len(plies) == stop:
            return {
                "plies": plies,
                "winner": dice.randrange(2),
                "ending": dice.choice((FORFEIT_ILLEGAL, FORFEIT_ERROR)),
            }
        piece = pieces.pop(dice.randrange(len(pieces)))
        cell = cells.pop(dice.randrange(len(cells)))
        board[cell] = piece
        plies.append((piece, cell))
        if has_line(board, rules):
            return {"plies": plies, "winner": len(plies) % 2, "ending": LINE}
    return {"plies": plies, "winner": NONE, "ending": FULL_BOARD}


def pack_games(
    games: Sequence[Game], pairing: int = 0, first_pair: int = 0, opening: int = 0, swapped: bool = True
) -> Block:
    """Pack games as the engine hands them over; what lies beyond a game's plies is rubbish on purpose."""
    packed = Games(
        np.full((16, len(games)), 77, np.int8),
        np.full((16, len(games)), -77, np.int8),
        np.array([len(game["plies"]) for game in games], np.int8),
        np.array([game["winner"] for game in games], np.int8),
        np.array([game["ending"] for game in games], np.int8),
    )
    for i, game in enumerate(games):
        for ply, (piece, cell) in enumerate(game["plies"]):
            packed.pieces[ply, i] = piece
            packed.cells[ply, i] = cell
    return Block(pairing, first_pair, opening, packed, swapped)


def random_block(
    seed: int, pairing: int = 0, first_pair: int = 0, pairs: int = 8, rules: Rules = CLASSIC, forfeits: float = 0.1
) -> Block:
    dice = random.Random(f"{seed} {pairing} {first_pair}")
    return pack_games([random_game(dice, rules, forfeits) for _ in range(2 * pairs)], pairing, first_pair)


def single_games(seed: int, pairing: int = 0, first_pair: int = 0, pairs: int = 8) -> Block:
    """Play random games of a run in which seats are fixed: each pair is one game."""
    dice = random.Random(f"{seed} {pairing} {first_pair}")
    return pack_games([random_game(dice) for _ in range(pairs)], pairing, first_pair, swapped=False)


def naive_rows(blocks: Sequence[Block], pairings: Pairings) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows of ``games`` and ``plies``, in order, cell by cell from the text of data/README.md."""
    games, plies = [], []
    for block in blocks:
        for i in range(len(block.games.plies)):
            pair, game = divmod(i, 2) if block.swapped else (i, 0)
            pair += block.first_pair
            game_id = block.pairing * 2**32 + 2 * pair + game
            agents = pairings[block.pairing] if game == 0 else pairings[block.pairing][::-1]
            winner, count = int(block.games.winner[i]), int(block.games.plies[i])
            ending = ENDINGS[block.games.ending[i]]
            games.append((game_id, game_id // 2, block.pairing, *agents, winner, count, block.opening, ending))
            for ply in range(count):
                seat = (ply + 1) % 2
                outcome = 0 if winner == -1 else 1 if winner == seat else -1
                piece, cell = int(block.games.pieces[ply, i]), int(block.games.cells[ply, i])
                plies.append((game_id, block.pairing, ply, seat, piece, cell, outcome))
    return sorted(games), sorted(plies, key=lambda row: (row[2], row[0]))


def build_spec(rules: Rules = CLASSIC, pairings: Pairings = PAIRINGS, **other: Any) -> dict[str, Any]:
    """Return a run's spec as JSON values; ``other`` replaces and adds."""
    labels = sorted({label for pairing in pairings for label in pairing})
    return {
        "rules": asdict(rules),
        "agents": [{"label": label, "target": f"agents.{label}", "params": {}} for label in labels],
        "pairings": [[labels.index(first), labels.index(second)] for first, second in pairings],
        "seed": 7,
        "opening_plies": 0,
    } | other


def record(spec: dict[str, Any] | None = None, **other: Any) -> RunRecord:
    spec = spec or build_spec()
    code = {"version": "0.1.0", "fingerprint": "ab" * 32, "python": "3.11", "numba": "0.68", "numpy": "2.4"}
    fields = {
        "run_id": compute_run_id(spec),
        "games": 100,
        "created": format_current_time(),
        "command": "qarena run",
        **other,
    }
    return RunRecord(spec=spec, code=code, **fields)


RUN_ID = record().run_id


def tables(blocks: Sequence[Block], pairings: Pairings) -> tuple[TableBytes, TableBytes]:
    """Encode the files ``games`` and ``plies`` of blocks."""
    ordered = sorted(blocks, key=lambda block: (block.pairing, block.first_pair))
    return encode_game_tables(
        concat_blocks_into_large_parts(ordered), sorted({block.pairing for block in blocks if block.pairs}), pairings
    )


def frames(blocks: Sequence[Block], pairings: Pairings) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables ``games`` and ``plies`` of blocks, as they are read from the files that hold them."""
    games, plies = (pl.read_parquet(io.BytesIO(table)) for table in tables(blocks, pairings))
    return games, plies


# Pairs 0 to 7 of each of PAIRINGS, units 0 to 23: with draws, forfeits of both kinds, and a game without plies.
SEED = 16
BLOCKS = [random_block(SEED, pairing, 0) for pairing in range(3)]


def list_units(block: Block, line: UnitLine) -> list[int]:
    """Return the units of a block's pairs."""
    pairs = range(block.first_pair, block.first_pair + block.pairs)
    return [*pairs] if line.pairings == 1 else [pair * line.pairings + block.pairing for pair in pairs]


def select_pairs(block: Block, line: UnitLine, span: Range) -> Block:
    """Keep the pairs of a block that are in a range of units."""
    pairs = [pair for pair, unit in enumerate(list_units(block, line)) if span[0] <= unit < span[1]]
    rows = slice(pairs[0] * block.games_per_pair, (pairs[-1] + 1) * block.games_per_pair) if pairs else slice(0)
    games = Games(*map(np.ascontiguousarray, select_games(block.games, rows)))
    return block._replace(first_pair=block.first_pair + (pairs[0] if pairs else 0), games=games)


@cache
def build_random_blocks(seed: int, pairs: int) -> list[Block]:
    """Return the games of so many pairs of each of PAIRINGS; another seed gives other games."""
    return [random_block(seed, pairing, 0, pairs) for pairing in range(len(PAIRINGS))]


def store_span(
    archive: ArchiveStore, span: Range, blocks: Sequence[Block] = BLOCKS, run_id: str = RUN_ID
) -> StoredRange:
    """Store the games that blocks have of a range of units, as one file of every table."""
    run = archive.load_run(run_id)
    mine = [part for block in blocks if (part := select_pairs(block, run.unit_line, span)).pairs]
    return write_game_tables(archive, run_id, run.unit_line, run.pairings, span, mine)


def store(
    archive: ArchiveStore,
    run_id: str,
    blocks: Sequence[Block],
    pairings: Pairings = PAIRINGS,
    most: int = LARGEST_RANGE,
) -> list[StoredRange]:
    """Store the games of blocks in a run that has a record.

    Consecutive units become aligned ranges of at most ``most`` units, each a file of every table: the units of one of
    three pairings are no neighbours, so each of its pairs becomes a file.
    """
    line = archive.load_run(run_id).unit_line
    ranges = merge_ranges((unit, unit + 1) for block in blocks for unit in list_units(block, line))
    return [
        store_span(archive, span, blocks, run_id)
        for first, end in ranges
        for span in split_into_files(first, end, 0, most)
    ]
