"""The slow twin of canonical turns: every image under every symmetry is looked at, and the least one counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import permutations

from quarto.rules import NONE, Rules
from quarto.symmetry import build_symmetries
from tests.analytics.naive_games import Game

Form = tuple[int, ...]


@cache
def build_piece_maps() -> list[list[int]]:
    """List all 384 maps of pieces: XOR with a constant, then a permutation of the attributes."""
    return [
        [sum(((piece ^ constant) >> source & 1) << place for place, source in enumerate(order)) for piece in range(16)]
        for constant in range(16)
        for order in permutations(range(4))
    ]


@cache
def build_cell_maps(rules: Rules) -> list[list[int]]:
    maps: list[list[int]] = build_symmetries(rules).cells.tolist()
    return maps


def mask(cells: Iterable[int]) -> int:
    return sum(1 << cell for cell in cells)


def canonical_form(board: dict[int, int], hand: int, cell: int, piece: int, rules: Rules) -> Form:
    """Return a turn's occupied, four lanes from the last on, hand, cell, piece; what is not there stays NONE."""
    moved = {(tuple(move[at] for at in board), NONE if cell == NONE else move[cell]) for move in build_cell_maps(rules)}
    changed = {
        tuple(NONE if piece_number == NONE else change[piece_number] for piece_number in (*board.values(), hand, piece))
        for change in build_piece_maps()
    }
    least = min(mask(cells) for cells, _ in moved)
    forms = []
    for cells, image in moved:
        if mask(cells) == least:
            for *pieces, in_hand, gift in changed:
                on = list(zip(cells, pieces, strict=True))
                lanes = [mask(at for at, piece_number in on if piece_number >> bit & 1) for bit in (3, 2, 1, 0)]
                forms.append((*lanes, in_hand, image, gift))
    return (least, *min(forms))


def list_turns(game: Game, rules: Rules) -> list[tuple[dict[int, int], int, int, int]]:
    """List board, hand, cell and piece of each turn of a game."""
    board: dict[int, int] = {}
    turns = []
    for ply, (piece, cell) in enumerate(game["plies"]):
        gift = game["plies"][ply + 1][0] if ply + 1 < len(game["plies"]) else NONE
        turns.append((dict(board), NONE, cell, piece) if rules.mover_chooses else (dict(board), piece, cell, gift))
        board[cell] = piece
    return turns


def outcome(game: Game, ply: int) -> int:
    """Return the game's outcome for the player who placed at a ply."""
    return 0 if game["winner"] == NONE else 1 if game["winner"] == (ply + 1) % 2 else -1


Counts = dict[tuple[int, int, int, Form], list[int]]


def naive_counts(games: Sequence[tuple[int, Game]], rules: Rules, plies: range = range(16)) -> Counts:
    """Count games, wins, draws, and the least game id, by ply, pairing, who (0 the pairing's first agent) and turn.

    ``games`` are (game_id, game).
    """
    counts: Counts = defaultdict(lambda: [0, 0, 0, 1 << 62])
    for game_id, game in games:
        for ply, turn in enumerate(list_turns(game, rules)):
            if ply in plies:
                second = (ply + 1) % 2 ^ game_id % 2
                row = counts[ply, game_id >> 32, second, canonical_form(*turn, rules)]
                row[0] += 1
                row[1] += outcome(game, ply) == 1
                row[2] += outcome(game, ply) == 0
                row[3] = min(row[3], game_id)
    return counts
