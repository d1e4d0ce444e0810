"""The slow twins of features of lines, of the update of their weights and of who plays by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from quarto.rules import Rules
from quarto.symmetry import build_symmetries
from tests import naive
from tests.naive import NONE, Board, View

Feature = tuple[Any, ...]  # the group, then what is counted


@cache
def class_of_line(line: tuple[int, ...], rules: Rules) -> tuple[int, ...]:
    """Return the first line, by its cells as a mask, among the images of a line."""
    images = [tuple(sorted(int(image[cell]) for cell in line)) for image in build_symmetries(rules).cells]
    return min(images, key=lambda cells: sum(1 << cell for cell in cells))


@cache
def class_of_cell(cell: int, rules: Rules) -> int:
    return min(int(image[cell]) for image in build_symmetries(rules).cells)


def shared(pieces: Sequence[int]) -> set[tuple[int, int]]:
    """Return the values (attribute, 0 or 1) that all of these pieces have."""
    return {(bit, value) for bit in range(4) for value in (0, 1) if all(piece >> bit & 1 == value for piece in pieces)}


def dangers(board: Board, rules: Rules) -> set[tuple[int, int]]:
    """Return the values with which a piece would finish a line."""
    found = set[tuple[int, int]]()
    for line in naive.lines(rules):
        pieces = [board[cell] for cell in line if board[cell] != NONE]
        if len(pieces) == 3:
            found |= shared(pieces)
    return found


class Afterstate(NamedTuple):
    """A board with the gift in the opponent's hand."""

    board: Board
    gift: int
    rules: Rules

    @property
    def left(self) -> list[int]:
        return [piece for piece in range(16) if piece != self.gift and piece not in self.board]


def line_features(after: Afterstate) -> Iterator[Feature]:
    board, gift, rules = after
    safe = len(naive.safe_pieces(board, after.left, rules))
    threes, twos, hot = 0, 0, set[int]()
    for line in naive.lines(rules):
        pieces = [board[cell] for cell in line if board[cell] != NONE]
        if len(pieces) == 4:
            continue
        values = shared(pieces)
        alike = sum(gift >> bit & 1 == value for bit, value in values) if pieces else 0
        unlike = len(values) - alike if pieces else 0
        having = sum(any(piece >> bit & 1 == value for bit, value in values) for piece in after.left)
        yield "line", class_of_line(line, rules), len(pieces), alike, unlike, having
        if values and len(pieces) == 3:
            threes += 1
            hot |= {cell for cell in line if board[cell] == NONE}
        twos += bool(values) and len(pieces) == 2
    yield "danger", len(dangers(board, rules)), safe
    yield "threes", min(threes, 9), min(twos, 10), safe
    yield "hot", len(hot), safe


def attribute_features(after: Afterstate) -> Iterator[Feature]:
    board, gift, rules = after
    safe, states = len(naive.safe_pieces(board, after.left, rules)), []
    on_lines = [(line, [board[cell] for cell in line if board[cell] != NONE]) for line in naive.lines(rules)]
    alive = [line for line, pieces in on_lines if len(pieces) == 3 and shared(pieces)]
    hot = {cell for line in alive for cell in line if board[cell] == NONE}
    for bit in range(4):
        match, oppose = (bit, gift >> bit & 1), (bit, 1 - (gift >> bit & 1))
        twos = [shared(pieces) for _, pieces in on_lines if len(pieces) == 2]
        cells = {c for line, on in on_lines if len(on) == 3 and oppose in shared(on) for c in line if board[c] == NONE}
        having = sum(piece >> bit & 1 == oppose[1] for piece in after.left)
        counts = min(sum(match in each for each in twos), 3), min(sum(oppose in each for each in twos), 3)
        yield "attribute", having, *counts, min(len(cells), 3), len(hot) > 2, safe
        states.append((oppose in dangers(board, rules), having))
    yield "supply", *sorted(states)


def mobility_features(after: Afterstate) -> Iterator[Feature]:
    board, gift, rules = after
    safe, numbers, union = len(naive.safe_pieces(board, after.left, rules)), [], set[int]()
    for cell in naive.empty_cells(board):
        then = naive.with_piece(board, gift, cell)
        gifts = naive.safe_pieces(then, after.left, rules)
        numbers.append(len(gifts))
        union |= set(gifts)
        yield "cell", class_of_cell(cell, rules), len(gifts), len(dangers(then, rules))
    cells, (most, second, third, *_) = sum(number > 0 for number in numbers), sorted([*numbers, 0, 0, 0])[::-1]
    parity = sum(number % 2 for number in numbers), sum(number > 0 and number % 2 == 0 for number in numbers)
    yield "widest", min(cells, 15), most, safe
    yield "few", min(numbers.count(0), 15), min(numbers.count(1), 7), min(numbers.count(2), 7)
    yield "parity", *parity
    yield "total", min(sum(numbers), 127)
    yield "spread", min(most, 7), min(second, 7), min(third, 7), min(cells, 7)
    yield "union", min(cells, 15), len(union)


WON, DRAWN, LOST = "won", "drawn", "lost"  # how a game ends for the giver


class Reply(NamedTuple):
    """A placement of the gift and a safe gift."""

    cell: int
    piece: int
    gifts: list[set[int]]  # the safe gifts of the first giver after each placement

    @property
    def turns(self) -> int:
        return sum(len(each) for each in self.gifts)


def replies_to(after: Afterstate) -> Iterator[Reply]:
    for cell in naive.empty_cells(after.board):
        then = naive.with_piece(after.board, after.gift, cell)
        for piece in naive.safe_pieces(then, after.left, after.rules):
            rest = [other for other in after.left if other != piece]
            boards = [naive.with_piece(then, piece, own) for own in naive.empty_cells(then)]
            yield Reply(cell, piece, [set(naive.safe_pieces(each, rest, after.rules)) for each in boards])


def answers_to(after: Afterstate, reply: Reply) -> list[int] | None:
    """Count the opponent's turns after each surviving answer of the giver; None without a sharp reply.

    An answer survives if the opponent has no turn after it that leaves the giver none, though pieces are left.
    """
    if len(after.left) < 3 or (reply.turns > 6 and len(after.left) > 4):
        return None
    sharp = Afterstate(naive.with_piece(after.board, after.gift, reply.cell), reply.piece, after.rules)
    surviving = []
    for answer in replies_to(sharp):
        then = Afterstate(naive.with_piece(sharp.board, sharp.gift, answer.cell), answer.piece, after.rules)
        if len(then.left) == 1 or all(turn.turns > 0 for turn in replies_to(then)):
            surviving.append(answer.turns)
    return surviving


def decided(after: Afterstate) -> str | None:
    """Return the end of the game, if the replies show it; with fewer than seven pieces nobody looks."""
    if 16 - after.board.count(NONE) < 7:
        return None
    replies, left = list(replies_to(after)), len(after.left)
    answers = [answers_to(after, reply) for reply in replies]
    if left > 1 and (any(reply.turns == 0 for reply in replies) or [] in answers):
        return LOST
    if left > 0 and all(each is not None and 0 in each for each in answers):
        return WON
    return DRAWN if left < 5 else None


def reply_features(after: Afterstate) -> Iterator[Feature]:
    replies, safe = list(replies_to(after)), naive.safe_pieces(after.board, after.left, after.rules)
    answers, turns = [answers_to(after, reply) for reply in replies], dict[tuple[int, int], int]()
    for reply, each in zip(replies, answers, strict=True):
        turns[reply.cell, reply.piece] = reply.turns if each is None else len(each)
        if each is not None:
            yield "sharp", reply.turns, len(each), min(*each, 15)
    refuted = sum(each is not None and 0 in each for each in answers)
    yield "refuted", min(refuted, 15), min(len(answers) - refuted, 15)
    for _, piece, gifts in replies:
        one, two = ([len(each) for each in gifts].count(number) for number in (1, 2))
        more = sum(len(each) > 2 for each in gifts)
        yield "reply", *(min(each, 7) for each in (one, two, more, len(set().union(*gifts)))), piece in safe
    of_cells = [[each for each in replies if each.cell == cell] for cell in range(16)]
    of_pieces = [[each for each in replies if each.piece == piece] for piece in range(16)]
    groups = [("of cell", of_cells), ("of piece", of_pieces), ("all", [replies])]
    for name, parts in groups:
        for part in parts:
            if part:
                yield name, min(31, *(turns[each.cell, each.piece] for each in part), 31), min(len(part), 15)


def crossing_features(after: Afterstate) -> Iterator[Feature]:
    board, gift, rules = after
    for cell in naive.empty_cells(board):
        through = [[board[on] for on in line if board[on] != NONE] for line in naive.lines(rules) if cell in line]
        for pair in combinations(through, 2):
            orders = []
            for ordered in (pair, pair[::-1]):
                values = [shared(pieces) for pieces in ordered]
                states = [
                    tuple(((bit, (gift >> bit & 1) ^ other) in each) for each in values for other in (0, 1))
                    for bit in range(4)
                ]
                orders.append((*map(len, ordered), *sorted(states)))
            yield "crossing", *min(orders)


def features(after: Afterstate) -> list[Feature]:
    found = [*line_features(after), *attribute_features(after)]
    pieces = 16 - after.board.count(NONE)
    found += mobility_features(after) if pieces >= 4 else ()
    return found + ([*reply_features(after), *crossing_features(after)] if pieces >= 7 else [])


class Learner:
    """AdaGrad in single precision on one stage: weights by feature, each with those of both heads and of the units."""

    def __init__(self, weights: np.ndarray, outputs: np.ndarray) -> None:
        self.weights, self.outputs = weights.copy(), outputs.copy()  # [F, 2 + units], [2, units] float32
        self.squares = np.zeros((len(weights), 3), np.float32)
        self.output_squares = np.zeros_like(outputs)

    def forward(self, found: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the logits of the heads and the sums of the units."""
        sums = np.zeros(self.weights.shape[1], np.float32)
        for feature in found:
            sums += self.weights[feature]
        logits = sums[:2].copy()
        for head in range(2):
            for unit, value in enumerate(sums[2:]):
                logits[head] += self.outputs[head, unit] * max(value, np.float32(0))
        return logits, sums[2:]

    def learn(self, found: Sequence[int], targets: Sequence[float], rate: float, chance: Any) -> None:
        logits, units = self.forward(found)
        errors = [np.float32(targets[head] - chance(float(logits[head]))) for head in range(2)]
        self.change(found, units, errors, rate)

    def change(self, found: Sequence[int], units: np.ndarray, errors: Sequence[Any] | np.ndarray, rate: float) -> None:
        """Change the weights by the gradients of the logits; ``units`` are the sums of the units before."""
        slopes = np.zeros(len(units), np.float32)
        for unit, value in enumerate(units):
            if value > 0:
                for head in range(2):
                    slopes[unit] += errors[head] * self.outputs[head, unit]
                    gradient = errors[head] * value
                    self.output_squares[head, unit] += gradient * gradient
                    step = np.sqrt(self.output_squares[head, unit] + np.float32(4))
                    self.outputs[head, unit] += np.float32(rate) * gradient / step
        mean = np.float32(0)
        for slope in slopes:
            mean += slope * slope
        mean /= np.float32(max(len(units), 1))
        for feature in found:
            for head in range(2):
                self.squares[feature, head] += errors[head] * errors[head]
                step = np.sqrt(self.squares[feature, head] + np.float32(4))
                self.weights[feature, head] += np.float32(rate) * errors[head] / step
            if len(units):
                self.squares[feature, 2] += mean
                self.weights[feature, 2:] += (
                    np.float32(rate) / np.sqrt(self.squares[feature, 2] + np.float32(0.05)) * slopes
                )


class LineValues:
    """The turn of the greatest value by weights, which are found by the feature's name."""

    def __init__(self, value_of: Any) -> None:
        self.value_of = value_of  # of an afterstate, for the player who made the turn

    def turn(self, view: View, seed: int) -> tuple[int, int]:
        if view.hand != NONE and naive.winning_cells(view.board, view.hand, view.rules):
            return naive.SemiRandom().turn(view, seed)
        turns = safe_turns(view.board, view.hand, view.available, view.rules)
        best = max(turns, key=lambda turn: self.value_of(turn[2]), default=None)
        return best[:2] if best else naive.SemiRandom().turn(view, seed)


def safe_turns(board: Board, hand: int, available: list[int], rules: Rules) -> list[tuple[int, int, Afterstate]]:
    """List every turn that gives no win away, by cell, then by gift, and its afterstate."""
    boards = [(NONE, board)]
    if hand != NONE:
        boards = [(cell, naive.with_piece(board, hand, cell)) for cell in naive.empty_cells(board)]
    return [
        (cell, gift, Afterstate(then, gift, rules))
        for cell, then in boards
        for gift in naive.safe_pieces(then, available, rules)
    ]
