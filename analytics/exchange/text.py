r"""Games as text: ``[agent_0=alice] [agent_1=bob] [result=0-1] F@b1 3@b2 7@c4``, tags and then the plies.

A tag is ``[name=value]``; in a value ``]`` and ``\`` are written ``\]`` and ``\\``. Spaces separate tags. Tags are
written in the order of ``NAMES``. Each may be left out. Tags that follow from the plies are checked against them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.batch import ENDINGS, FORFEIT_ILLEGAL, FORFEIT_RESIGNED, Games
from quarto.errors import RequestError, nearest
from quarto.notation import CLASSIC_NAME, format_cell, format_piece
from quarto.rules import CELLS, NONE, PIECES

GAME = "game"  # the tag of a game of a run whose record the text has too: the run and the game's id
NAMES = ("rules", "event", "date", "agent_0", "agent_1", "opening", "result", "ending")
RESULTS = {"1-0": 0, "0-1": 1, "1/2-1/2": NONE}  # the winner's seat; seat 0 gives the first piece
RESULT_OF = {winner: text for text, winner in RESULTS.items()}
UNKNOWN = "unknown"  # the label of an agent without a tag
MAX_CHARACTERS = 200  # of a value, as of a label

ROWS_AT_ONCE = 1 << 14
_PLIES = np.array(
    [f" {format_piece(piece)}@{format_cell(cell)}" for piece in range(PIECES) for cell in range(CELLS)], "S"
)  # by 16 * piece + cell

_TAG = re.compile(r"\s*\[([^=\[\]]*)=((?:[^\]\\]|\\.)*)\]")
_VALUE = re.compile(r"[^\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class Tags:
    """The tags of a game; None or "" where there is none."""

    rules: str = CLASSIC_NAME
    event: str = ""
    date: str = ""  # ISO 8601
    agent_0: str = UNKNOWN
    agent_1: str = UNKNOWN
    opening: int = 0
    winner: int | None = None  # seat, or NONE for a draw
    ending: int | None = None  # index into ENDINGS


class Heading(NamedTuple):
    """The values that neighbouring games have in common. Exported games are in the order of their headings."""

    rules: str
    event: str  # "" where it is not known
    date: str  # ISO 8601, or ""
    opening: int
    agent_0: str
    agent_1: str


def text_of(heading: Heading, games: Games, run_id: str = "", game_id: NDArray[np.int64] | None = None) -> bytes:
    """A line for each game of one heading: tags and plies. With a run, the line names it and ``game_id`` [G] too."""
    common, named = heading_tags(heading._asdict()), f" [{GAME}={run_id} " if run_id else ""
    tags = [ending_tags(winner, ending) for winner in (NONE, 0, 1) for ending in range(len(ENDINGS))]
    prefixes = np.array([f"{common} {each}{named}".encode() for each in tags], "S")
    outcome = len(ENDINGS) * (games.winner.astype(np.intp) + 1) + games.ending
    ids = [] if game_id is None else [game_id.astype("S20"), np.full(len(game_id), b"]")]
    return _joined([prefixes[outcome], *ids, *_plies_of(games), np.full(len(outcome), b"\n")])


def plies_text(games: Games) -> list[str]:
    """[G] the plies of each game, separated by spaces."""
    lines = _joined([*_plies_of(games), np.full(len(games.plies), b"\n")]).decode()
    return [line[1:] for line in lines.split("\n")[:-1]]


def _plies_of(games: Games) -> list[NDArray[np.bytes_]]:
    """Each ply of all games [G], a space before it; empty for games that have ended."""
    numbers = (CELLS * games.pieces.astype(np.intp) + games.cells) % len(_PLIES)
    most = int(games.plies.max(initial=0))
    return [np.where(ply < games.plies, _PLIES[numbers[ply]], b"") for ply in range(most)]


def _joined(columns: list[NDArray[np.bytes_]]) -> bytes:
    """Columns of texts [G] row by row. NumPy fills texts up with zero bytes, which no label has."""
    found = []
    for start in range(0, len(columns[0]), ROWS_AT_ONCE):
        some = (np.ascontiguousarray(column[start : start + ROWS_AT_ONCE]) for column in columns)
        texts = np.hstack([column.view(np.uint8).reshape(len(column), -1) for column in some])
        found.append(texts[texts != 0].tobytes())
    return b"".join(found)


def parse_tags(text: str, defaults: Tags) -> Tags:
    """Parse a text of tags alone; those that it leaves out are as in ``defaults``.

    Raises ``RequestError`` naming the tag.
    """
    found: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        match = _TAG.match(text, at)
        if not match:
            raise RequestError(
                f"{_shown(text[at:].strip())} is not a tag: write [name=value], and \\] for a ] in a value"
            )
        name, value = match[1], re.sub(r"\\(.)", r"\1", match[2])
        if name == GAME:
            raise RequestError(f"tag {name!r}: {_shown(value)} is not a run and a game's id, such as fd0da72c3fbb 555")
        if name not in NAMES:
            raise RequestError(f"tag {name!r} is not known{nearest(name, NAMES)}")
        if name in found:
            raise RequestError(f"tag {name!r} is given twice")
        found[name] = checked_text(f"tag {name!r}", value)
        at = match.end()
    return _tags(found, defaults)


def checked_text(what: str, value: str) -> str:
    """``value``, if it can be a label or the name of an event; else raises ``RequestError``."""
    if not value.strip() or len(value) > MAX_CHARACTERS or not _VALUE.fullmatch(value):
        raise RequestError(f"{what}: {_shown(value)} is not a printable text of 1 to {MAX_CHARACTERS} characters")
    return value


def _tags(found: Mapping[str, str], defaults: Tags) -> Tags:
    values: dict[str, Any] = {name: found[name] for name in found if name not in ("result", "ending", "opening")}
    if "result" in found:
        if found["result"] not in RESULTS:
            raise RequestError(f"tag 'result': {_shown(found['result'])} is not one of {', '.join(RESULTS)}")
        values["winner"] = RESULTS[found["result"]]
    if "ending" in found:
        ending = found["ending"]
        if ending not in ENDINGS:
            raise RequestError(f"tag 'ending': {_shown(ending)} is not known{nearest(ending, ENDINGS)}")
        values["ending"] = ENDINGS.index(ending)
    if "opening" in found:
        if not re.fullmatch("[0-9]{1,2}", found["opening"]) or int(found["opening"]) > PIECES:
            raise RequestError(f"tag 'opening': {_shown(found['opening'])} is not a number of plies, 0 to {PIECES}")
        values["opening"] = int(found["opening"])
    if "date" in found:
        check_date(found["date"])
    return replace(defaults, **values)


def check_date(text: str) -> None:
    """Raise ``RequestError`` unless ``text`` is a day in ISO 8601."""
    try:
        if date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise RequestError(f"tag 'date': {_shown(text)} is not a day such as 2026-11-21")


def heading_tags(values: Mapping[str, str | int]) -> str:
    """The tags of a heading. Those with default values are left out, but for the agents."""
    defaults = Tags()
    names = [name for name in NAMES if name in values and (values[name] != getattr(defaults, name) or name[0] == "a")]
    return " ".join(_tag(name, str(values[name])) for name in names)


def ending_tags(winner: int, ending: int) -> str:
    """The tag ``result`` and, where the ending does not follow from the plies (a forfeit), the tag ``ending``."""
    result = _tag("result", RESULT_OF[winner])
    return f"{result} {_tag('ending', ENDINGS[ending])}" if ending >= FORFEIT_ILLEGAL else result


def outcome_of(tags: Tags, plies: int, line_at: int) -> tuple[int, int]:
    """The winner and the ending of a game of ``plies`` plies; ``line_at`` is its first ply to finish a line, or -1.

    Raises ``RequestError`` if the game goes on after a line, contradicts its tags, or stops without a result.
    """
    if 0 <= line_at < plies - 1:
        raise RequestError(f"ply {line_at} finishes a line and the game goes on (ply {line_at + 1})")
    if tags.opening > plies:
        raise RequestError(f"tag 'opening': {tags.opening} plies were imposed, and the game has {plies}")
    if line_at < 0 and plies < PIECES:
        return _forfeited(tags, plies)
    winner, ending = (plies & 1, 0) if line_at >= 0 else (NONE, 1)  # the seat of ply k is (k + 1) & 1
    if tags.winner not in (None, winner):
        raise _contradiction("result", RESULT_OF[tags.winner or 0], RESULT_OF[winner])
    if tags.ending not in (None, ending):
        raise _contradiction("ending", ENDINGS[tags.ending or 0], ENDINGS[ending])
    return winner, ending


def _contradiction(name: str, value: str, found: str) -> RequestError:
    return RequestError(f"tag {name!r}: {value} contradicts the plies, which say {found}")


def _forfeited(tags: Tags, plies: int) -> tuple[int, int]:
    if tags.winner is None:
        raise RequestError(
            f"the game is not over after {plies} plies and has no tag 'result': add [result=1-0] or [result=0-1] if "
            "a player gave up"
        )
    if tags.winner == NONE:
        raise RequestError(f"tag 'result': 1/2-1/2 after {plies} plies: a game is drawn on a full board only")
    ending = FORFEIT_RESIGNED if tags.ending is None else tags.ending
    if ending < FORFEIT_ILLEGAL:
        raise RequestError(f"tag 'ending': {ENDINGS[ending]} contradicts the plies: the game is not over after {plies}")
    return tags.winner, ending


def _tag(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("]", "\\]")
    return f"[{name}={escaped}]"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
