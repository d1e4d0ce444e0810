"""Games from text: each line is read and checked against the rules and its own tags."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.text import GAME, Tags, outcome_of, parse_tags
from analytics.store.blocks import games_at
from analytics.store.records import RecordError, RunRecord, parse
from quarto.batch import Games
from quarto.bits import spread
from quarto.errors import RequestError
from quarto.jit import inlined, int64, kernel, uint64
from quarto.notation import parse_game
from quarto.rules import PIECES, SIDE, Rules, finishes_line

_GAME = re.compile(rb" *\[%s=([0-9a-f]{12}) ([0-9]{1,18})\]" % GAME.encode())
PLY_BYTES = 4  # the piece, @, the cell
SPACE, TAB, RETURN, AT, LOWER_CASE = 32, 9, 13, 64, 32
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some editors write at the start of UTF-8


class BadLine(NamedTuple):
    """A line that is not a game, and the error."""

    line: int  # counted from 1
    reason: str


class Lines(NamedTuple):
    """The ``G`` lines of a text that are games."""

    number: NDArray[np.int64]  # [G] counted from 1
    start: NDArray[np.int64]  # [G] offset of the plies in the text
    end: NDArray[np.int64]  # [G]
    tags: NDArray[np.int64]  # [G] index into the distinct prefixes of lines
    run: NDArray[np.int64]  # [G] its run, or -1: see ``ParsedText``
    game_id: NDArray[np.int64]  # [G] in that run


class ParsedText(NamedTuple):
    """The games of a text, the records of runs in it, and its bad lines."""

    games: Games  # G of them, in the order of the lines
    tags: NDArray[np.int64]  # [G] index into ``known``
    known: list[Tags]  # the distinct tags of lines
    run: NDArray[np.int64]  # [G] the run of the game, its id as a number; -1: not given
    game_id: NDArray[np.int64]  # [G] in that run
    records: list[RunRecord]
    bad: list[BadLine]

    def taken(self, rows: NDArray[np.bool_]) -> ParsedText:
        """The games of a mask [G]."""
        return self._replace(
            games=games_at(self.games, rows), tags=self.tags[rows], run=self.run[rows], game_id=self.game_id[rows]
        )


def read_text(content: bytes, defaults: Tags, rules_of: Callable[[str], Rules]) -> ParsedText:
    """The games of a text, one a line. Empty lines and lines that begin with # are skipped.

    A line that begins with { is the record of a run. ``defaults`` has the tags that a line leaves out. ``rules_of``
    returns rules by name or raises ``RequestError``.
    """
    content = content.removeprefix(BYTE_ORDER_MARK)
    found: dict[bytes, int] = {}
    records, bad = _records(content)
    lines = _lines(content, found)
    parsed = [_tags(prefix, defaults, rules_of) for prefix in found]
    games = Games.zeros(len(lines.number))
    unreadable = read_plies(np.frombuffer(content or b" ", np.uint8), lines.start, lines.end, games)
    reasons: dict[int, str] = {}
    for game in np.flatnonzero(unreadable).tolist():
        reasons[game] = _parse_error(content[lines.start[game] : lines.end[game]].strip())
    reasons |= _set_outcomes(games, lines.tags, parsed, unreadable)
    bad += [BadLine(int(lines.number[game]), reason) for game, reason in reasons.items()]
    good = np.ones(len(lines.number), np.bool_)
    good[list(reasons)] = False
    known = [entry[0] if not isinstance(entry, str) else defaults for entry in parsed]
    return ParsedText(games, lines.tags, known, lines.run, lines.game_id, records, sorted(bad)).taken(good)


def _records(content: bytes) -> tuple[list[RunRecord], list[BadLine]]:
    """The records of runs in a text, and the lines that begin like one and are not."""
    records, bad = list[RunRecord](), list[BadLine]()
    for number, line in enumerate(content.split(b"\n"), 1) if b"{" in content else ():
        if line.startswith(b"{"):
            try:
                records.append(parse(line, RunRecord))
            except RecordError as error:
                bad.append(BadLine(number, f"this record of a run cannot be read: {error}"))
    return records, bad


def _lines(content: bytes, found: dict[bytes, int]) -> Lines:
    """Where games are in a text. Adds each distinct prefix (the tags of a line) to ``found`` with its index."""
    rows: list[tuple[int, ...]] = []
    start = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith((b"#", b"{")):
            size = line.rfind(b"]") + 1
            prefix, run, game = line[:size], -1, 0
            if named := _GAME.search(prefix):
                prefix, run, game = prefix[: named.start()] + prefix[named.end() :], int(named[1], 16), int(named[2])
            rows.append((number, start + size, start + len(line), found.setdefault(prefix, len(found)), run, game))
        start += len(line) + 1
    return Lines(*np.array(rows, np.int64).reshape(-1, len(Lines._fields)).T.copy())


def _tags(prefix: bytes, defaults: Tags, rules_of: Callable[[str], Rules]) -> tuple[Tags, Rules] | str:
    """The tags of a line and their rules, or the error in them."""
    try:
        tags = parse_tags(prefix.decode(), defaults)
        return tags, rules_of(tags.rules)
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the line is not UTF-8: save the file as UTF-8"
    except RequestError as error:
        return str(error)


def _parse_error(plies: bytes) -> str:
    try:
        parse_game(plies.decode("utf-8", errors="replace"))
    except RequestError as error:
        return str(error)
    return "it holds a character that cannot be part of a game: separate the plies by spaces"


def _set_outcomes(
    games: Games, tags: NDArray[np.int64], parsed: list[tuple[Tags, Rules] | str], unreadable: NDArray[np.bool_]
) -> dict[int, str]:
    """Set winner and ending of each readable game by the rules. Returns the errors by game, also those in tags."""
    reasons: dict[int, str] = {}
    for at, entry in enumerate(parsed):
        if isinstance(entry, str):
            reasons |= dict.fromkeys(np.flatnonzero(tags == at).tolist(), entry)
            continue
        rows = np.flatnonzero((tags == at) & ~unreadable)
        line_at = first_line_plies(games, rows, entry[1].tables)
        # Games with the same tags and length whose line is at the same ply have one outcome, or one error.
        kinds, kind = np.unique(games.plies[rows] * np.int64(2 * PIECES) + line_at + 1, return_inverse=True)
        for number, (plies, line) in enumerate(divmod(value, 2 * PIECES) for value in kinds.tolist()):
            same = rows[kind == number]
            try:
                games.winner[same], games.ending[same] = outcome_of(entry[0], plies, line - 1)
            except RequestError as error:
                reasons |= dict.fromkeys(same.tolist(), str(error))
    return reasons


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
            after = at + PLY_BYTES
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
