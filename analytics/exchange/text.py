r"""Games as text, written and read: ``[agent_0=alice] [agent_1=bob] [result=0-1] F@b1 3@b2 7@c4``.

A line has tags, then the plies. It is checked against the rules and its own tags when it is read.

A tag is ``[name=value]``; in a value ``]`` and ``\`` are written ``\]`` and ``\\``. Spaces separate tags. Tags are
written in the order of ``TAG_NAMES``. Each may be left out. Tags that follow from the plies are checked against them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.store.game_tables import select_games
from analytics.store.records import RecordError, RunRecord, parse_record
from analytics.store.run_notes import RunNote
from analytics.store.texts import format_count_with_noun
from quarto.batch import ENDINGS, FORFEIT_ILLEGAL, FORFEIT_RESIGNED, Games
from quarto.bits import piece_to_lanes
from quarto.errors import RequestError, suggest_valid_names
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.notation import CLASSIC_NAME, format_cell, format_piece, parse_game
from quarto.rules import CELLS, NONE, PIECES, SIDE, Rules, has_finished_line_at

GAME_TAG = "game"  # the tag with the ids of a run and a game, for a game of a run whose record the text also has
TAG_NAMES = ("rules", "event", "date", "agent_0", "agent_1", "opening", "result", "ending")
WINNERS_BY_RESULT = {"1-0": 0, "0-1": 1, "1/2-1/2": NONE}  # the winner's seat; seat 0 gives the first piece
RESULTS_BY_WINNER = {winner: text for text, winner in WINNERS_BY_RESULT.items()}
UNKNOWN_AGENT = "unknown"  # the label of an agent without a tag
MAX_CHARACTERS = 200  # the most characters in the value of a tag, and in a label

ROWS_AT_ONCE = 1 << 14
_PLY_TEXTS = np.array(
    [f" {format_piece(piece)}@{format_cell(cell)}" for piece in range(PIECES) for cell in range(CELLS)], "S"
)  # by 16 * piece + cell

_TAG_PATTERN = re.compile(r"\s*\[([^=\[\]]*)=((?:[^\]\\]|\\.)*)\]")
_VALUE_PATTERN = re.compile(r"[^\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class Tags:
    """The tags of a game. A tag that the game's line lacks has a default value, which may be empty (None or "")."""

    rules: str = CLASSIC_NAME
    event: str = ""
    date: str = ""  # ISO 8601
    agent_0: str = UNKNOWN_AGENT
    agent_1: str = UNKNOWN_AGENT
    opening: int = 0
    winner: int | None = None  # seat, or NONE for a draw
    ending: int | None = None  # index into ENDINGS


class Heading(NamedTuple):
    """The values that all games of a sequence share. Exported games are sorted by heading."""

    rules: str
    event: str  # "" where it is not known
    date: str  # ISO 8601, or ""
    opening: int
    agent_0: str
    agent_1: str


def format_games(heading: Heading, games: Games, run_id: str = "", game_id: NDArray[np.int64] | None = None) -> bytes:
    """Format games with the same heading: one line for each game, with its tags and plies.

    If ``run_id`` is given, each line also has this id, and the game's id from ``game_id`` [G].
    """
    common, named = format_agent_and_nondefault_tags(heading._asdict()), f" [{GAME_TAG}={run_id} " if run_id else ""
    tags = [format_result_and_forfeit_tags(winner, ending) for winner in (NONE, 0, 1) for ending in range(len(ENDINGS))]
    prefixes = np.array([f"{common} {ending_tags}{named}".encode() for ending_tags in tags], "S")
    outcome = len(ENDINGS) * (games.winner.astype(np.intp) + 1) + games.ending
    ids = [] if game_id is None else [game_id.astype("S20"), np.full(len(game_id), b"]")]
    return _concat_text_columns([prefixes[outcome], *ids, *_format_ply_columns(games), np.full(len(outcome), b"\n")])


def format_plies(games: Games) -> list[str]:
    """Format the plies of each game as a text, with spaces between the plies; return the list of texts [G]."""
    lines = _concat_text_columns([*_format_ply_columns(games), np.full(len(games.plies), b"\n")]).decode()
    return [line[1:] for line in lines.split("\n")[:-1]]


def _format_ply_columns(games: Games) -> list[NDArray[np.bytes_]]:
    """Format the first ply of all games, then the second ply, and so on; return a column of texts [G] for each ply.

    Each text begins with a space. If a game is over before a ply, its text in that column is empty.
    """
    numbers = (CELLS * games.pieces.astype(np.intp) + games.cells) % len(_PLY_TEXTS)
    most = int(games.plies.max(initial=0))
    return [np.where(ply < games.plies, _PLY_TEXTS[numbers[ply]], b"") for ply in range(most)]


def _concat_text_columns(columns: list[NDArray[np.bytes_]]) -> bytes:
    """Concatenate columns of texts [G] row by row, and drop the zero bytes with which NumPy pads texts.

    Nothing else is lost, because no label contains a zero byte.
    """
    chunks = []
    for start in range(0, len(columns[0]), ROWS_AT_ONCE):
        some = (np.ascontiguousarray(column[start : start + ROWS_AT_ONCE]) for column in columns)
        texts = np.hstack([column.view(np.uint8).reshape(len(column), -1) for column in some])
        chunks.append(texts[texts != 0].tobytes())
    return b"".join(chunks)


def parse_tags(text: str, defaults: Tags) -> Tags:
    """Parse a text that consists of tags. A tag that the text omits is taken from ``defaults``.

    Raises ``RequestError`` with the name of the tag that is wrong.
    """
    values: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        match = _TAG_PATTERN.match(text, at)
        if not match:
            raise RequestError(
                f"{_quote_shortened(text[at:].strip())} is not a tag: write [name=value], and \\] for a ] in a value"
            )
        name, value = match[1], re.sub(r"\\(.)", r"\1", match[2])
        if name == GAME_TAG:
            raise RequestError(
                f"tag {name!r}: {_quote_shortened(value)} is not a run and a game's id, such as fd0da72c3fbb 555"
            )
        if name not in TAG_NAMES:
            raise RequestError(f"tag {name!r} is not known{suggest_valid_names(name, TAG_NAMES)}")
        if name in values:
            raise RequestError(f"tag {name!r} is given twice")
        values[name] = check_label(f"tag {name!r}", value)
        at = match.end()
    return _build_tags(values, defaults)


def check_label(subject: str, value: str) -> str:
    """Return ``value`` unchanged if it can be a label or the name of an event; otherwise raise ``RequestError``.

    The error message begins with ``subject``, which says where ``value`` was found.
    """
    if not value.strip() or len(value) > MAX_CHARACTERS or not _VALUE_PATTERN.fullmatch(value):
        raise RequestError(
            f"{subject}: {_quote_shortened(value)} is not a printable text of 1 to {MAX_CHARACTERS} characters"
        )
    return value


def _build_tags(texts: Mapping[str, str], defaults: Tags) -> Tags:
    values: dict[str, Any] = {name: texts[name] for name in texts if name not in ("result", "ending", "opening")}
    if "result" in texts:
        if texts["result"] not in WINNERS_BY_RESULT:
            raise RequestError(
                f"tag 'result': {_quote_shortened(texts['result'])} is not one of {', '.join(WINNERS_BY_RESULT)}"
            )
        values["winner"] = WINNERS_BY_RESULT[texts["result"]]
    if "ending" in texts:
        ending = texts["ending"]
        if ending not in ENDINGS:
            raise RequestError(
                f"tag 'ending': {_quote_shortened(ending)} is not known{suggest_valid_names(ending, ENDINGS)}"
            )
        values["ending"] = ENDINGS.index(ending)
    if "opening" in texts:
        if not re.fullmatch("[0-9]{1,2}", texts["opening"]) or int(texts["opening"]) > PIECES:
            raise RequestError(
                f"tag 'opening': {_quote_shortened(texts['opening'])} is not a number of plies, 0 to {PIECES}"
            )
        values["opening"] = int(texts["opening"])
    if "date" in texts:
        check_iso_date(texts["date"])
    return replace(defaults, **values)


def check_iso_date(text: str) -> None:
    """Raise ``RequestError`` unless ``text`` is an ISO 8601 date."""
    try:
        if date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise RequestError(f"tag 'date': {_quote_shortened(text)} is not a day such as 2026-11-21")


def format_agent_and_nondefault_tags(values: Mapping[str, str | int]) -> str:
    """Format the tags in ``values``, which are keyed by tag. A tag with its default value is left out.

    The tags of the agents are always written.
    """
    defaults = Tags()
    names = [
        name for name in TAG_NAMES if name in values and (values[name] != getattr(defaults, name) or name[0] == "a")
    ]
    return " ".join(_format_bracketed_assignment(name, str(values[name])) for name in names)


def format_result_and_forfeit_tags(winner: int, ending: int) -> str:
    """Format the tag ``result`` and, for a forfeit, also the tag ``ending``, which does not follow from the plies."""
    result = _format_bracketed_assignment("result", RESULTS_BY_WINNER[winner])
    return (
        f"{result} {_format_bracketed_assignment('ending', ENDINGS[ending])}" if ending >= FORFEIT_ILLEGAL else result
    )


class GameOutcome(NamedTuple):
    """The winner and the ending of a game."""

    winner: int  # seat, or NONE for a draw
    ending: int  # index into ENDINGS


def find_outcome(tags: Tags, ply_count: int, line_ply: int) -> GameOutcome:
    """Find the winner and ending of a game from its ``ply_count`` plies or, if it was forfeited, from its tags.

    ``line_ply`` is the first ply that finishes a line, or -1. Raises ``RequestError`` if the game continues after a
    line, contradicts its tags, or stops early although no tag says who won.
    """
    if 0 <= line_ply < ply_count - 1:
        raise RequestError(f"ply {line_ply} finishes a line and the game goes on (ply {line_ply + 1})")
    if tags.opening > ply_count:
        raise RequestError(f"tag 'opening': imposed plies: {tags.opening}, and plies of the game: {ply_count}")
    if line_ply < 0 and ply_count < PIECES:
        return _find_forfeit_outcome(tags, ply_count)
    winner, ending = (ply_count & 1, 0) if line_ply >= 0 else (NONE, 1)  # the seat of ply k is (k + 1) & 1
    if tags.winner not in (None, winner):
        raise _contradiction_error("result", RESULTS_BY_WINNER[tags.winner or 0], RESULTS_BY_WINNER[winner])
    if tags.ending not in (None, ending):
        raise _contradiction_error("ending", ENDINGS[tags.ending or 0], ENDINGS[ending])
    return GameOutcome(winner, ending)


def _contradiction_error(name: str, value: str, actual_value: str) -> RequestError:
    return RequestError(f"tag {name!r}: {value} contradicts the plies, which say {actual_value}")


def _find_forfeit_outcome(tags: Tags, ply_count: int) -> GameOutcome:
    if tags.winner is None:
        raise RequestError(
            f"the game is not over after {format_count_with_noun(ply_count, 'ply', 'plies')} and "
            "has no tag 'result': add [result=1-0] or [result=0-1] "
            "if a player gave up"
        )
    if tags.winner == NONE:
        raise RequestError(
            f"tag 'result': 1/2-1/2 after {format_count_with_noun(ply_count, 'ply', 'plies')}: "
            "a game is drawn on a full board only"
        )
    ending = FORFEIT_RESIGNED if tags.ending is None else tags.ending
    if ending < FORFEIT_ILLEGAL:
        raise RequestError(
            f"tag 'ending': {ENDINGS[ending]} contradicts the plies: the game is not over after {ply_count}"
        )
    return GameOutcome(tags.winner, ending)


def _format_bracketed_assignment(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("]", "\\]")
    return f"[{name}={escaped}]"


def _quote_shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


# Reading.

_GAME_TAG_PATTERN = re.compile(rb" *\[%s=([0-9a-f]{12}) ([0-9]{1,18})\]" % GAME_TAG.encode())
PLY_BYTES = 4  # the piece, @, the cell
SPACE, TAB, RETURN, AT, LOWER_CASE = 32, 9, 13, 64, 32
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some editors write at the start of UTF-8


class BadLine(NamedTuple):
    """A line that cannot be parsed, and the reason why."""

    line: int  # counted from 1
    reason: str


class GameLines(NamedTuple):
    """The ``G`` lines of a text that hold games."""

    number: NDArray[np.int64]  # [G] counted from 1
    start: NDArray[np.int64]  # [G] offset of the plies in the text
    end: NDArray[np.int64]  # [G]
    tags: NDArray[np.int64]  # [G] index into the distinct prefixes of lines
    run: NDArray[np.int64]  # [G] the game's run as in ``ParsedText``, or -1
    game_id: NDArray[np.int64]  # [G] the game's id in this run


class ParsedText(NamedTuple):
    """The content of a text: its games, its records of runs, and the lines that could not be parsed."""

    games: Games  # G of them, in the order of the lines
    tags: NDArray[np.int64]  # [G] index into ``distinct_tags``
    distinct_tags: list[Tags]  # the distinct tags of lines
    run: NDArray[np.int64]  # [G] the run of the game, its id as a number; -1: not given
    game_id: NDArray[np.int64]  # [G] in that run
    records: list[RunRecord]
    notes: list[RunNote]  # names and notes of runs
    bad_lines: list[BadLine]

    def select(self, rows: NDArray[np.bool_]) -> ParsedText:
        """Return a copy with only the games that the mask ``rows`` [G] selects."""
        return self._replace(
            games=select_games(self.games, rows), tags=self.tags[rows], run=self.run[rows], game_id=self.game_id[rows]
        )


def parse_games(content: bytes, defaults: Tags, find_rules: Callable[[str], Rules]) -> ParsedText:
    """Parse a text with one game in each line. Empty lines and lines that begin with # are skipped.

    A line that begins with { is the record of a run, or its name and note. If a line omits a tag, its value is taken
    from ``defaults``.
    ``find_rules`` returns the rules with a given name, or raises ``RequestError``.
    """
    content = content.removeprefix(BYTE_ORDER_MARK)
    prefixes: dict[bytes, int] = {}
    records, notes, bad = _parse_records(content)
    lines = _find_game_lines(content, prefixes)
    parsed = [_parse_line_tags(prefix, defaults, find_rules) for prefix in prefixes]
    games = Games.allocate(len(lines.number))
    unreadable = parse_plies(np.frombuffer(content or b" ", np.uint8), lines.start, lines.end, games)
    reasons: dict[int, str] = {}
    for game in np.flatnonzero(unreadable).tolist():
        reasons[game] = _describe_parse_error(content[lines.start[game] : lines.end[game]].strip())
    reasons |= _set_outcomes_and_list_errors(games, lines.tags, parsed, unreadable)
    bad += [BadLine(int(lines.number[game]), reason) for game, reason in reasons.items()]
    good = np.ones(len(lines.number), np.bool_)
    good[list(reasons)] = False
    distinct_tags = [entry[0] if not isinstance(entry, str) else defaults for entry in parsed]
    return ParsedText(games, lines.tags, distinct_tags, lines.run, lines.game_id, records, notes, sorted(bad)).select(
        good
    )


def _parse_records(content: bytes) -> tuple[list[RunRecord], list[RunNote], list[BadLine]]:
    """Parse the records of runs in a text, and their names and notes.

    Returns both, and the lines that begin like a record but are not valid. A record has a spec, which a note lacks.
    """
    records, notes, bad = list[RunRecord](), list[RunNote](), list[BadLine]()
    for number, line in enumerate(content.split(b"\n"), 1) if b"{" in content else ():
        if line.startswith(b"{"):
            is_note = b'"written"' in line and b'"spec"' not in line
            try:
                if is_note:
                    notes.append(parse_record(line, RunNote))
                else:
                    records.append(parse_record(line, RunRecord))
            except RecordError as error:
                kind = "name and note" if is_note else "record"
                bad.append(BadLine(number, f"this {kind} of a run cannot be read: {error}"))
    return records, notes, bad


def _find_game_lines(content: bytes, prefix_indices: dict[bytes, int]) -> GameLines:
    """Find the lines of a text that hold games.

    The prefix of such a line is the part that contains its tags. Each distinct prefix is added to ``prefix_indices``
    with an index, counted from 0.
    """
    rows: list[tuple[int, ...]] = []
    start = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith((b"#", b"{")):
            size = line.rfind(b"]") + 1
            prefix, run, game = line[:size], -1, 0
            if named := _GAME_TAG_PATTERN.search(prefix):
                prefix, run, game = prefix[: named.start()] + prefix[named.end() :], int(named[1], 16), int(named[2])
            rows.append(
                (
                    number,
                    start + size,
                    start + len(line),
                    prefix_indices.setdefault(prefix, len(prefix_indices)),
                    run,
                    game,
                )
            )
        start += len(line) + 1
    return GameLines(*np.array(rows, np.int64).reshape(-1, len(GameLines._fields)).T.copy())


class LineTags(NamedTuple):
    """The tags of a game's line, and the rules that the tags name."""

    tags: Tags
    rules: Rules


def _parse_line_tags(prefix: bytes, defaults: Tags, find_rules: Callable[[str], Rules]) -> LineTags | str:
    """Parse the tags of a line and find the rules that they name; return both, or an error message."""
    try:
        tags = parse_tags(prefix.decode(), defaults)
        return LineTags(tags, find_rules(tags.rules))
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the line is not UTF-8: save the file as UTF-8"
    except RequestError as error:
        return str(error)


def _describe_parse_error(plies: bytes) -> str:
    try:
        parse_game(plies.decode("utf-8", errors="replace"))
    except RequestError as error:
        return str(error)
    return "it holds a character that cannot be part of a game: separate the plies by spaces"


def _set_outcomes_and_list_errors(
    games: Games, tags: NDArray[np.int64], parsed: list[LineTags | str], unreadable: NDArray[np.bool_]
) -> dict[int, str]:
    """Set each game's winner and ending as the rules demand; return the error messages, keyed by the game's index.

    ``tags`` [G] has the index of each game's tags in ``parsed``; an entry of ``parsed`` that is a string is the error
    message for tags that cannot be parsed. The mask ``unreadable`` [G] marks the games whose plies cannot be parsed.
    These games keep their outcome, and for them only errors in the tags are reported.
    """
    reasons: dict[int, str] = {}
    for at, entry in enumerate(parsed):
        if isinstance(entry, str):
            reasons |= dict.fromkeys(np.flatnonzero(tags == at).tolist(), entry)
            continue
        rows = np.flatnonzero((tags == at) & ~unreadable)
        line_at = find_first_line_plies(games, rows, entry.rules.tables)
        # Games with the same tags and length whose line is at the same ply have one outcome, or one error.
        kinds, kind = np.unique(games.plies[rows] * np.int64(2 * PIECES) + line_at + 1, return_inverse=True)
        for number, (plies, line) in enumerate(divmod(value, 2 * PIECES) for value in kinds.tolist()):
            same = rows[kind == number]
            try:
                games.winner[same], games.ending[same] = find_outcome(entry.tags, plies, line - 1)
            except RequestError as error:
                reasons |= dict.fromkeys(same.tolist(), str(error))
    return reasons


@inline_function
def _is_blank(byte: int) -> bool:
    return byte == SPACE or byte == TAB or byte == RETURN  # noqa: PLR1714  (numba does not compile the tuple)


@kernel()
def parse_plies(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], games: Games
) -> NDArray[np.bool_]:
    """Parse the plies of each game, and write them to ``games``.

    The plies of a game are the bytes of ``text`` [N] from ``start`` [G] up to but not including ``end`` [G]. Returns a
    mask [G] of the games that cannot be parsed; ``quarto.notation.parse_game`` explains what is wrong with such a game.
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
def find_first_line_plies(games: Games, game_indices: NDArray[np.int64], rules: Any) -> NDArray[np.int64]:
    """Find the first ply that finishes a line in each game of ``game_indices`` [W], or -1 in a game without a line."""
    first_plies = np.full(game_indices.shape[0], -1, np.int64)
    for i in range(game_indices.shape[0]):
        game = game_indices[i]
        lanes, occupied = uint64(0), int64(0)
        for ply in range(games.plies[game]):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            lanes |= piece_to_lanes(piece) << uint64(cell)
            occupied |= 1 << cell
            if has_finished_line_at(lanes, occupied, piece, cell, rules):
                first_plies[i] = ply
                break
    return first_plies
