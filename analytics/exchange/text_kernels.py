"""Kernels that write and read games as text, ``F@b1 3@b2 7@c4``: the form of ``quarto.notation``, by the million."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.sequence import Heading
from analytics.exchange.tags import GAME, ending_tags, heading_tags
from quarto.batch import ENDINGS, Games
from quarto.bits import spread
from quarto.jit import inlined, int64, kernel, uint64
from quarto.notation import COLUMN_LETTERS, PIECE_DIGITS, ROW_DIGITS
from quarto.rules import NONE, PIECES, SIDE, finishes_line

PLY_BYTES = 5  # a space, the piece, @, the cell
DIGITS = np.frombuffer(PIECE_DIGITS.encode(), np.uint8)
COLUMNS, ROWS = (np.frombuffer(text.encode(), np.uint8) for text in (COLUMN_LETTERS, ROW_DIGITS))
SPACE, TAB, RETURN, NEWLINE, AT, LOWER_CASE, ZERO, BRACKET = 32, 9, 13, 10, 64, 32, 48, 93
ID_BYTES = 20  # of a game's id and the end of its tag, at most
NO_IDS = np.empty(0, np.int64)


class Prefixes(NamedTuple):
    """The text before the plies of a game, one for each winner and ending."""

    text: NDArray[np.uint8]  # [15, W] by 5 * (winner + 1) + ending
    lengths: NDArray[np.int64]  # [15]

    @staticmethod
    def from_texts(texts: list[bytes]) -> Prefixes:
        """From 15 texts, by 5 * (winner + 1) + ending."""
        rows = np.zeros((len(texts), max(1, *map(len, texts))), np.uint8)
        for row, text in zip(rows, texts, strict=True):
            row[: len(text)] = np.frombuffer(text, np.uint8)
        return Prefixes(rows, np.array([len(text) for text in texts]))


def lines_of(games: Games, prefixes: Prefixes, game_id: NDArray[np.int64] = NO_IDS) -> bytes:
    """A line for each game: its prefix and its plies, separated by spaces, and a newline.

    With ``game_id`` [G] the prefix is an open tag, which the id ends.
    """
    longest = int(prefixes.lengths.max()) + ID_BYTES + PIECES * PLY_BYTES + 1
    out = np.empty(len(games.plies) * longest, np.uint8)
    return out[: _write(games, prefixes, game_id, out)].tobytes()


def text_of(heading: Heading, games: Games, run_id: str = "", game_id: NDArray[np.int64] = NO_IDS) -> bytes:
    """The lines of games of one heading; those of a run with ``run_id`` name their ``game_id`` [G] too."""
    common, named = heading_tags(heading._asdict()), f" [{GAME}={run_id} " if run_id else ""
    endings = [ending_tags(winner, ending) for winner in (NONE, 0, 1) for ending in range(len(ENDINGS))]
    return lines_of(games, Prefixes.from_texts([f"{common} {tags}{named}".encode() for tags in endings]), game_id)


@inlined
def _write_id(game_id: int, at: int, out: NDArray[np.uint8]) -> int:
    """Write a number and the end of its tag; returns where they end."""
    size = int64(1)
    while size < ID_BYTES - 1 and game_id >= 10**size:
        size += 1
    for place in range(size):
        out[at + size - 1 - place] = ZERO + game_id % 10
        game_id //= 10
    out[at + size] = BRACKET
    return at + size + 1


@kernel()
def _write(games: Games, prefixes: Prefixes, game_id: NDArray[np.int64], out: NDArray[np.uint8]) -> int:
    at = int64(0)
    for game in range(games.plies.shape[0]):
        outcome = len(ENDINGS) * (int64(games.winner[game]) + 1) + int64(games.ending[game])
        start = at
        for i in range(prefixes.lengths[outcome]):
            out[at] = prefixes.text[outcome, i]
            at += 1
        if game_id.shape[0]:
            at = _write_id(game_id[game], at, out)
        for ply in range(games.plies[game]):
            if at > start:
                out[at] = SPACE
                at += 1
            cell = int64(games.cells[ply, game])
            out[at] = DIGITS[games.pieces[ply, game]]
            out[at + 1] = AT
            out[at + 2] = COLUMNS[cell % SIDE]
            out[at + 3] = ROWS[cell // SIDE]
            at += PLY_BYTES - 1
        out[at] = NEWLINE
        at += 1
    return at


@inlined
def _is_blank(byte: int) -> bool:
    return byte == SPACE or byte == TAB or byte == RETURN  # noqa: PLR1714  (numba does not compile the tuple)


@kernel()
def read_plies(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], games: Games
) -> NDArray[np.bool_]:
    """Read the plies between ``start`` and ``end`` [G] of ``text`` [N] into ``games``.

    Returns [G], true for a text that is not a game: ``quarto.notation.parse_game`` finds the error in it.
    """
    bad = np.zeros(start.shape[0], np.bool_)
    for game in range(start.shape[0]):
        at, ply, used, occupied = start[game], int64(0), int64(0), int64(0)
        while at < end[game]:
            if _is_blank(text[at]):
                at += 1
                continue
            after = at + PLY_BYTES - 1
            if after > end[game] or (after < end[game] and not _is_blank(text[after])) or text[at + 1] != AT:
                bad[game] = True
                break
            digit = int64(text[at])
            piece = digit - 48 if digit <= 57 else (digit | LOWER_CASE) - 97 + 10
            column = (int64(text[at + 2]) | LOWER_CASE) - 97
            row = int64(text[at + 3]) - 49
            cell = SIDE * row + column
            legal = 0 <= piece < PIECES and (digit < 58 or piece >= 10) and 0 <= column < SIDE and 0 <= row < SIDE
            if not legal or (used >> piece) & 1 or (occupied >> cell) & 1:
                bad[game] = True
                break
            used |= 1 << piece
            occupied |= 1 << cell
            games.pieces[ply, game] = piece
            games.cells[ply, game] = cell
            ply += 1
            at = after
        games.plies[game] = ply
    return bad


@kernel()
def first_line_plies(games: Games, which: NDArray[np.int64], rules: Any) -> NDArray[np.int64]:
    """[W] the first ply that finishes a line in each of the games ``which`` [W], -1 for none."""
    found = np.full(which.shape[0], -1, np.int64)
    for i in range(which.shape[0]):
        game = which[i]
        lanes, occupied = uint64(0), int64(0)
        for ply in range(games.plies[game]):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            lanes |= spread(piece) << uint64(cell)
            occupied |= 1 << cell
            if finishes_line(lanes, occupied, piece, cell, rules):
                found[i] = ply
                break
    return found
