"""Games to letters and back, by the million: ``F@b1 3@b2 7@c4``, as ``quarto.notation`` has it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.batch import ENDINGS, Games
from quarto.jit import inlined, int64, kernel, uint64
from quarto.lanes import spread
from quarto.notation import COLUMN_LETTERS, PIECE_DIGITS, ROW_DIGITS
from quarto.rules import PIECES, SIDE, finishes_line

PLY_LETTERS = 5  # a space, the piece, @, the cell
DIGITS = np.frombuffer(PIECE_DIGITS.encode(), np.uint8)
COLUMNS, ROWS = (np.frombuffer(letters.encode(), np.uint8) for letters in (COLUMN_LETTERS, ROW_DIGITS))
SPACE, TAB, RETURN, NEWLINE, AT, LOWER_CASE = 32, 9, 13, 10, 64, 32


class Endings(NamedTuple):
    """What stands before the plies of a game, by how it ended: one text for each winner and ending."""

    letters: NDArray[np.uint8]  # [15, W] by 5 * (winner + 1) + ending
    lengths: NDArray[np.int64]  # [15]

    @staticmethod
    def of(texts: list[bytes]) -> Endings:
        """From 15 texts."""
        letters = np.zeros((len(texts), max(1, *map(len, texts))), np.uint8)
        for row, text in zip(letters, texts, strict=True):
            row[: len(text)] = np.frombuffer(text, np.uint8)
        return Endings(letters, np.array([len(text) for text in texts]))


def lines_of(games: Games, endings: Endings) -> bytes:
    """A line for each game: what its ending says, then its plies, with spaces between; a newline ends it."""
    longest = int(endings.lengths.max()) + PIECES * PLY_LETTERS + 1
    out = np.empty(len(games.plies) * longest, np.uint8)
    return out[: _write(games, endings, out)].tobytes()


@kernel()
def _write(games: Games, endings: Endings, out: NDArray[np.uint8]) -> int:
    at = int64(0)
    for game in range(games.plies.shape[0]):
        ended = len(ENDINGS) * (int64(games.winner[game]) + 1) + int64(games.ending[game])
        start = at
        for i in range(endings.lengths[ended]):
            out[at] = endings.letters[ended, i]
            at += 1
        for ply in range(games.plies[game]):
            if at > start:
                out[at] = SPACE
                at += 1
            cell = int64(games.cells[ply, game])
            out[at] = DIGITS[games.pieces[ply, game]]
            out[at + 1] = AT
            out[at + 2] = COLUMNS[cell % SIDE]
            out[at + 3] = ROWS[cell // SIDE]
            at += PLY_LETTERS - 1
        out[at] = NEWLINE
        at += 1
    return at


@inlined
def _is_blank(letter: int) -> bool:
    return letter == SPACE or letter == TAB or letter == RETURN  # noqa: PLR1714  (numba compiles no tuple of letters)


@kernel()
def read_plies(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], games: Games
) -> NDArray[np.bool_]:
    """The plies of games written from ``start`` to ``end`` [G] of ``text`` [N] into ``games``; [G] what is no game.

    What is wrong with those, ``quarto.notation.parse_game`` says.
    """
    bad = np.zeros(start.shape[0], np.bool_)
    for game in range(start.shape[0]):
        at, ply, used, occupied = start[game], int64(0), int64(0), int64(0)
        while at < end[game]:
            if _is_blank(text[at]):
                at += 1
                continue
            after = at + PLY_LETTERS - 1
            if after > end[game] or (after < end[game] and not _is_blank(text[after])) or text[at + 1] != AT:
                bad[game] = True
                break
            digit = int64(text[at])
            piece = digit - 48 if digit <= 57 else (digit | LOWER_CASE) - 97 + 10
            column = (int64(text[at + 2]) | LOWER_CASE) - 97
            row = int64(text[at + 3]) - 49
            legal = 0 <= piece < PIECES and (digit < 58 or piece >= 10)
            if not (legal and 0 <= column < SIDE and 0 <= row < SIDE):
                bad[game] = True
                break
            cell = SIDE * row + column
            if (used >> piece) & 1 or (occupied >> cell) & 1:
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
def first_lines(games: Games, which: NDArray[np.int64], rules: Any) -> NDArray[np.int64]:
    """[W] for each of the games ``which`` [W]: the first ply that finishes a line, or -1."""
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
