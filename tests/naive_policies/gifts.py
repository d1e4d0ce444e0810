"""The slow twin of the kind 'gift' and of who plays by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, Board, View, draw
from tests.naive_policies.games import Game, steps

Features = tuple[int, int, int, int]  # pieces, wins, safe, dangers


def dangers(board: Board, rules: Rules) -> int:
    """Count the attribute values that a line has on its three occupied cells, of eight, the fourth cell being empty."""
    values = set()
    for line in naive.lines(rules):
        pieces = [board[cell] for cell in line if board[cell] != NONE]
        if len(pieces) == 3:
            for bit in range(4):
                of_pieces = {piece >> bit & 1 for piece in pieces}
                if len(of_pieces) == 1:
                    values.add((bit, of_pieces.pop()))
    return len(values)


def features(board: Board, gift: int, others: list[int], rules: Rules) -> Features:
    wins, safe = len(naive.winning_cells(board, gift, rules)), len(naive.safe_pieces(board, others, rules))
    return sum(piece != NONE for piece in board), wins, safe, dangers(board, rules)


def gift(games: Iterable[Game], rules: Rules, smoothing: float) -> dict[Features, tuple[int, int, float]]:
    """Return count, losses and risk by features."""
    counts, losses = Counter[Features](), Counter[Features]()
    for game in games:
        for ply, step in enumerate(steps(game, rules)):
            if ply >= game.opening:
                others = [piece for piece in range(16) if piece != step.hand and piece not in step.board]
                seen = features(step.board, step.hand, others, rules)
                counts[seen] += 1
                losses[seen] += game.winner == 1 - step.mover
    return {
        seen: (count, losses[seen], (losses[seen] + smoothing) / (count + 2 * smoothing))
        for seen, count in counts.items()
    }


class Gifts:
    """The gift of the least risk; a win if there is one."""

    def __init__(self, risks: Mapping[Features, float]) -> None:
        self.risks = risks

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        word, cell, board = draw(seed, 0), NONE, view.board
        if view.hand != NONE:
            wins = naive.winning_cells(board, view.hand, view.rules)
            cell = wins[0] if wins else naive.any_cell(word, naive.empty_cells(board))
            board = naive.with_piece(board, view.hand, cell)
        unseen = sum(self.risks[seen] for seen in sorted(self.risks)) / len(self.risks)
        order = [(word + i) % 16 for i in range(16)]
        gifts = [piece for piece in order if piece in view.available]

        def risk(piece: int) -> float:
            others = [other for other in view.available if other != piece]
            return self.risks.get(features(board, piece, others, view.rules), unseen)

        return cell, min(gifts, key=risk, default=NONE)
