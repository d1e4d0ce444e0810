"""The opening explorer on a board: the decisions made in a position, with their results on every cell and piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import polars as pl

from analytics.derived_tables.position_index import POSITIONS_TABLE, counts_turns_of
from analytics.derived_tables.positions import turns_in
from analytics.query.openings import Explored, OpeningsQuery, checked, explore
from analytics.report.content import Cell, PageTable
from analytics.results.columns import interval, percent
from analytics.sql.database import OpenArchive
from analytics.store.records import RunRecord
from quarto.errors import ArenaError, FailureError, RequestError
from quarto.notation import CLASSIC_NAME, format_cell, format_piece, format_position, parse_cell, parse_piece
from quarto.position import Position, board
from quarto.rules import CELLS, NONE, PIECES, Rules
from runners.browse import links

MOST_REPLAYED = 2_000_000  # games that are counted here without an index: a second or two
MOST_ROWS = 60
DECIDERS = {"gift": "the giver", "placement": "the mover", "turn": "the mover"}


class OpeningTile(NamedTuple):
    """A cell of the board, or a piece that may be given, with what came of it."""

    name: str
    piece: int  # that is on the cell, or the piece to give; NONE: an empty cell
    link: str = ""  # the explorer after this decision; "": it cannot be made
    games: int = 0
    share: float = 0.0
    score: float | None = None  # of the player that decides, a draw counting half; None: never played


class Explorer(NamedTuple):
    """A page of the explorer."""

    text: str  # of the position
    position: Position
    rules: Rules
    by: str
    decider: str
    games: int
    cells: list[OpeningTile]  # [16]
    gifts: list[OpeningTile]  # pieces that may be given next; none if a cell is to be chosen
    table: PageTable | None
    more: int  # rows that are not shown
    missing: str = ""  # why there is nothing to show
    damaged: bool = False  # that is a damaged file


def explorer(opened: OpenArchive, asked: OpeningsQuery) -> Explorer:
    """The explorer in a position. Raises ``RequestError`` for a text that is no live position, and unknown filters."""
    position, by, records = checked(opened.archive, asked)
    rules = records[0].rules
    _require_indexed(opened, records, position)
    try:
        found = explore(opened, asked)
    except ArenaError as error:  # the board is shown whatever the archive is like
        shown = _page(position, rules, by, asked, None, str(error))
        return shown._replace(damaged=isinstance(error, FailureError))
    return _page(position, rules, by, asked, found, "")


def _require_indexed(opened: OpenArchive, records: list[RunRecord], position: Position) -> None:
    """Raise ``RequestError`` for a question that would replay too many games."""
    games, ply = 0, position.occupied.bit_count()
    for record in records:
        _, lacking = opened.files.derived(POSITIONS_TABLE, record.run_id, partial(counts_turns_of, ply))
        games += sum(each.units for each in lacking) * record.line.games_a_pair
    if games > MOST_REPLAYED:
        raise RequestError(
            f"{games:,} of these games are not indexed as deep as {ply} pieces: run 'qarena archive index', with "
            f"--plies {ply + 1} beyond the opening, or choose a run"
        )


def _page(
    position: Position, rules: Rules, by: str, asked: OpeningsQuery, found: Explored | None, missing: str
) -> Explorer:
    kept = _query(asked)
    results = _results(found, position, rules)
    gives = position.hand == NONE and not rules.mover_chooses
    cells = [
        OpeningTile(format_cell(cell), piece) if piece != NONE or gives else _cell(cell, position, rules, kept, results)
        for cell, piece in enumerate(board(position))
    ]
    gifts = [
        _gift(piece, position, rules, kept, results)
        for piece in range(PIECES)
        if gives and position.available >> piece & 1
    ]
    table, more = (None, 0) if found is None else _table(found, kept)
    games = 0 if found is None else found.games
    text = format_position(position, rules.name)
    return Explorer(text, position, rules, by, DECIDERS[by], games, cells, gifts, table, more, missing)


def _query(asked: OpeningsQuery) -> dict[str, object]:
    """The filters as parameters of an address."""
    games = asked.games
    return {
        "agent": games.agent,
        "opponent": games.opponent,
        "run": games.runs[0] if games.runs else None,
        "least": asked.least if asked.least > 1 else None,
        "imposed": "yes" if asked.imposed else None,
    }


Results = dict[str, tuple[int, float, float]]  # by cell or piece, equivalent ones too: games, share, score


def _results(found: Explored | None, position: Position, rules: Rules) -> Results:
    """The results of each cell or piece: those of the equivalent decision that is named."""
    if found is None or (found.by == "turn" and not rules.mover_chooses):
        return {}
    column = "gift" if found.by == "gift" else "cell"
    by_name: Results = {}
    for row in found.rows.to_dicts():
        games, share, points = by_name.get(row[column], (0, 0.0, 0.0))
        score = row["wins"] + row["draws"] / 2
        by_name[row[column]] = games + row["games"], share + row["share"], points + score
    named = {name: (games, share, points / games) for name, (games, share, points) in by_name.items()}
    if found.by == "turn":
        return named
    return {each: named[least] for each, least in _least(position, rules, column).items() if least in named}


def _least(position: Position, rules: Rules, column: str) -> dict[str, str]:
    """For each cell or piece the one that stands for all equivalent ones."""
    same, own, text = (
        (["board"], "own_hand", format_piece) if column == "gift" else (["board", "cell"], "own_cell", format_cell)
    )
    turns = turns_in(position, rules)
    named = turns.with_columns(least=pl.col(own).min().over(same)).select(own, "least").unique()
    return {text(each): text(least) for each, least in named.iter_rows()}


def _cell(cell: int, position: Position, rules: Rules, kept: dict[str, object], results: Results) -> OpeningTile:
    name = format_cell(cell)
    link = "" if rules.mover_chooses else _after(position, rules, cell, kept)
    return OpeningTile(name, NONE, link, *results.get(name, ()))


def _gift(piece: int, position: Position, rules: Rules, kept: dict[str, object], results: Results) -> OpeningTile:
    name = format_piece(piece)
    given = position._replace(hand=piece, available=position.available & ~(1 << piece))
    return OpeningTile(
        name, piece, links.openings_page(format_position(given, rules.name), **kept), *results.get(name, ())
    )


def _after(position: Position, rules: Rules, cell: int, kept: dict[str, object]) -> str:
    """The explorer after the piece in hand was placed on a cell."""
    pieces = board(position)
    pieces[cell] = position.hand
    digits = ["." if piece == NONE else format_piece(piece) for piece in pieces]
    rows = "/".join("".join(digits[start : start + 4]) for start in range(0, CELLS, 4))
    text = f"{rows} -" + ("" if rules.name == CLASSIC_NAME else f" {rules.name}")
    return links.openings_page(text, **kept)


def _table(found: Explored, kept: dict[str, object]) -> tuple[PageTable, int]:
    known = ("piece",) if found.position.hand != NONE else ()  # the piece in hand
    names = [name for name in ("piece", "cell", "gift") if name in found.rows.columns and name not in known]
    rows = [_row(found, row, names, kept) for row in found.rows.head(MOST_ROWS).to_dicts()]
    headings = [*names, "alike", "games", "share, %", "won, %", "95 % interval", "drawn, %", "lost, %", "sample game"]
    caption = f"{found.by.capitalize()}s in {found.games:,} games, most played first; results for {DECIDERS[found.by]}"
    return PageTable(caption, headings, rows, tuple(range(len(names)))), max(0, len(found.rows) - MOST_ROWS)


def _row(found: Explored, row: dict[str, object], names: Sequence[str], kept: dict[str, object]) -> list[str | Cell]:
    made = found.position.occupied.bit_count()
    plies = made if found.by == "gift" else made + 1
    run_id, game_id = str(row["run_id"]), int(str(row["game_id"]))
    if found.rules.mover_chooses and row.get("piece") is not None:  # the cell leads to the board after the whole turn
        found = replace(found, position=found.position._replace(hand=parse_piece(str(row["piece"]))), by="placement")
    return [
        *(_decided(found, name, row[name], kept) for name in names),
        f"{row['alike']:,}",
        f"{row['games']:,}",
        percent(_number(row["share"])),
        percent(_number(row["win_rate"])),
        interval(_number(row["win_low"]), _number(row["win_high"]), percent),
        percent(_number(row["draw_rate"])),
        percent(_number(row["loss_rate"])),
        links.game_cell(run_id, game_id, plies),
    ]


def _number(value: object) -> float:
    assert isinstance(value, float)  # noqa: S101  (a rate)
    return value


def _decided(found: Explored, name: str, value: object, kept: dict[str, object]) -> str | Cell:
    """A piece with its picture, a cell; with a link to the position after it."""
    if value is None:
        return "·"
    text, position, rules = str(value), found.position, found.rules
    if name == "cell":
        link = "" if position.hand == NONE or found.by == "turn" else _after(position, rules, parse_cell(text), kept)
        return Cell(text, link=link)
    piece = parse_piece(text)
    gives = found.by == "gift" and name == "gift"
    return Cell(text, piece=piece, link=_gift(piece, position, rules, kept, {}).link if gives else "")
