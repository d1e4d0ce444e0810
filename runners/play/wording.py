"""Pieces, turns and results in words, for all screens. Pure."""

from __future__ import annotations

from typing import NamedTuple

from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, FULL_BOARD, LINE
from quarto.notation import ATTRIBUTE_WORDS, format_cell, format_piece
from quarto.rules import ATTRIBUTES, NONE, Line
from runners.play.game import Game, NextDecision, cells_text


class Players(NamedTuple):
    """The person's seat and the agent's label."""

    seat: int
    agent: str


def attributes(piece: int) -> list[str]:
    """Words for a piece's attributes, such as ``high, coloured, solid, square``."""
    bits = (piece >> attribute & 1 for attribute in reversed(range(ATTRIBUTES)))
    return [words[0] if bit else words[1] for words, bit in zip(ATTRIBUTE_WORDS, bits, strict=True)]


def turn_text(before: Game, after: Game, players: Players) -> str:
    """A sentence about what the seat to act in ``before`` did until ``after``; empty if it did nothing."""
    you = before.seat == players.seat
    subject, places, gives = ("you", "place", "give") if you else (players.agent, "places", "gives you")
    done = [
        f"{places} {format_piece(piece)} on {format_cell(cell)}" for piece, cell in after.plies[len(before.plies) :]
    ]
    if after.hand not in (NONE, before.hand):
        done.append(f"{gives} {format_piece(after.hand)}")
    return _sentence(f"{subject} {' and '.join(done)}") if done else ""


def result(game: Game, players: Players, reason: str = "") -> str:
    """A sentence about the end of a game; ``reason`` says why the agent forfeited, if it did."""
    you_won = game.winner == players.seat
    wins = "you win" if you_won else f"{players.agent} wins"
    if game.ending == LINE:
        return _sentence(f"{wins}: {'; '.join(line_text(game, line) for line in game.lines)}")
    if game.ending == FULL_BOARD:
        return "A draw: the board is full and no line is finished."
    if game.ending in (FORFEIT_ILLEGAL, FORFEIT_ERROR, FORFEIT_TIME):
        return _sentence(f"{players.agent} forfeits the game, and {wins}: {reason}")
    return _sentence(f"you resign, and {wins}")


def line_text(game: Game, line: Line) -> str:
    """A finished line and the attributes that its pieces share."""
    of_pieces = [set(attributes(game.board[cell])) for cell in line]
    shared = [word for words in ATTRIBUTE_WORDS for word in words if all(word in each for each in of_pieces)]
    return f"{cells_text(line)}, all {' and '.join(shared)}"


def request(game: Game) -> str:
    """The prompt for the next decision."""
    if game.asked is NextDecision.PLACEMENT:
        return f"place {format_piece(game.hand)}"
    return "give a piece" if game.asked is NextDecision.GIFT else "place piece@cell"


def _sentence(text: str) -> str:
    """``text`` with a full stop and, unless it begins with a label, a capital letter."""
    first = text[0].upper() if text.startswith("you") else text[0]
    return f"{first}{text[1:]}{'' if text.endswith('.') else '.'}"
