"""Games from text: every line is read, checked against the rules and its own tags, or named with what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.letters import first_lines, read_plies
from analytics.exchange.tags import Tags, ended, parse_tags
from quarto.batch import Games
from quarto.errors import RequestError
from quarto.notation import parse_game
from quarto.rules import NONE, PIECES, Rules

MARK = b"\xef\xbb\xbf"  # that some editors put before a text in UTF-8


class Bad(NamedTuple):
    """A line that is no game."""

    line: int  # counted from 1
    reason: str


class Lines(NamedTuple):
    """``G`` lines of a text that are not empty and no comment."""

    number: NDArray[np.int64]  # [G] counted from 1
    start: NDArray[np.int64]  # [G] of the plies in the text
    end: NDArray[np.int64]  # [G]
    tags: NDArray[np.int64]  # [G] index into what the tags before the plies were found to be


class Text(NamedTuple):
    """What a text holds."""

    games: Games  # G of them, in the order of the lines
    tags: NDArray[np.int64]  # [G] index into ``known``
    known: list[Tags]  # each but once
    bad: list[Bad]


def read_text(content: bytes, usual: Tags, rules_of: Callable[[str], Rules]) -> Text:
    """The games of a text, one a line; lines that begin with # and empty ones are passed over.

    ``usual`` are the tags of a line that has none, ``rules_of`` finds rules by their name or raises ``RequestError``.
    """
    content = content.removeprefix(MARK)
    found: dict[bytes, int] = {}
    lines = _lines(content, found)
    parsed = [_tags(prefix, usual, rules_of) for prefix in found]
    games = Games.zeros(len(lines.number))
    unreadable = read_plies(np.frombuffer(content or b" ", np.uint8), lines.start, lines.end, games)
    reasons: dict[int, str] = {}
    for game in np.flatnonzero(unreadable).tolist():
        reasons[game] = _unreadable(content[lines.start[game] : lines.end[game]].strip())
    reasons |= _settle(games, lines.tags, parsed, unreadable)
    for tags, entry in enumerate(parsed):
        if isinstance(entry, str):
            reasons |= dict.fromkeys(np.flatnonzero(lines.tags == tags).tolist(), entry)
    bad = [Bad(int(lines.number[game]), reasons[game]) for game in sorted(reasons)]
    good = np.ones(len(lines.number), np.bool_)
    good[list(reasons)] = False
    pieces, cells, *columns = games
    kept = Games(pieces[:, good], cells[:, good], *(column[good] for column in columns))
    known = [entry[0] if not isinstance(entry, str) else usual for entry in parsed]
    return Text(kept, lines.tags[good], known, bad)


def _lines(content: bytes, found: dict[bytes, int]) -> Lines:
    """Where the games of a text are; ``found`` learns what stands before their plies, each prefix but once."""
    rows: list[tuple[int, int, int, int]] = []
    start = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith(b"#"):
            size = line.rfind(b"]") + 1
            rows.append((number, start + size, start + len(line), found.setdefault(line[:size], len(found))))
        start += len(line) + 1
    return Lines(*np.array(rows, np.int64).reshape(-1, 4).T.copy())


def _tags(prefix: bytes, usual: Tags, rules_of: Callable[[str], Rules]) -> tuple[Tags, Rules] | str:
    """What stands before the plies of a line, or what is wrong with it."""
    try:
        tags = parse_tags(prefix.decode(), usual)
        return tags, rules_of(tags.rules)
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the line is not UTF-8: save the file as UTF-8"
    except RequestError as error:
        return str(error)


def _unreadable(plies: bytes) -> str:
    try:
        parse_game(plies.decode("utf-8", errors="replace"))
    except RequestError as error:
        return str(error)
    return "it holds a character that is no part of a game: separate the plies by spaces"


def _settle(
    games: Games,
    tags: NDArray[np.int64],
    parsed: list[tuple[Tags, Rules] | str],
    unreadable: NDArray[np.bool_],
) -> dict[int, str]:
    """Find out by the rules how each readable game ended; what is wrong with those that cannot have."""
    line_at = np.full(len(tags), NONE, np.int64)
    for rules, which in _by_rules(tags, parsed, unreadable):
        line_at[which] = first_lines(games, which, rules.tables)
    reasons: dict[int, str] = {}
    for at, entry in enumerate(parsed):
        if isinstance(entry, str):
            continue
        rows = np.flatnonzero((tags == at) & ~unreadable)
        # Games of the same tags and length, with their line at the same ply, have ended the same way, or are as wrong.
        kinds, kind = np.unique(games.plies[rows] * np.int64(2 * PIECES) + line_at[rows] + 1, return_inverse=True)
        for number, (plies, line) in enumerate(divmod(value, 2 * PIECES) for value in kinds.tolist()):
            same = rows[kind == number]
            try:
                games.winner[same], games.ending[same] = ended(entry[0], plies, line - 1)
            except RequestError as error:
                reasons |= dict.fromkeys(same.tolist(), str(error))
    return reasons


def _by_rules(
    tags: NDArray[np.int64], parsed: list[tuple[Tags, Rules] | str], unreadable: NDArray[np.bool_]
) -> Iterator[tuple[Rules, NDArray[np.int64]]]:
    """The readable games of each rules."""
    by_rules: dict[Rules, list[int]] = {}
    for at, entry in enumerate(parsed):
        if not isinstance(entry, str):
            by_rules.setdefault(entry[1], []).append(at)
    for rules, indices in by_rules.items():
        yield rules, np.flatnonzero(np.isin(tags, indices) & ~unreadable)
