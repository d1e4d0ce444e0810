"""Episodes in plain Python from the text of docs/exchange.md: the slow twin of the kernels."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from quarto.batch import FORFEIT_ILLEGAL
from quarto.rules import Rules
from tests.analytics.naive_games import Game, has_line

NO_PREFIX = 16
SEATS = {"mover": (0, 1), "seat_0": (0,), "seat_1": (1,)}


class Event(NamedTuple):
    """One thing that a player does."""

    seat: int
    kind: str  # gift, placement, or (where the mover chooses) both
    ply: int


class Step(NamedTuple):
    observation: list[int]
    action: int | None  # None: not known, or nothing was decided
    imposed: bool
    legal: set[int]


class Episode(NamedTuple):
    steps: list[Step]  # those with an action, then the final one
    rewards: list[int]
    terminated: bool


def events(game: Game, opening: int, rules: Rules, imposed: bool) -> list[Event]:
    """List the turns of players, imposed ones only if ``imposed``."""
    plies = range(len(game["plies"]))
    if rules.mover_chooses:
        listed = [Event((ply + 1) % 2, "both", ply) for ply in plies]
    else:
        pairs = [(Event(ply % 2, "gift", ply), Event((ply + 1) % 2, "placement", ply)) for ply in plies]
        listed = [event for both in pairs for event in both]
    return [event for event in listed if imposed or event.ply >= opening]


def naive_episode(game: Game, opening: int, rules: Rules, perspective: str, imposed: bool) -> Episode | None:
    """Build the episode of a game, or None if it has no step."""
    finished = game["ending"] < FORFEIT_ILLEGAL
    turns = [list(turn) for _, turn in groupby(events(game, opening, rules, imposed), key=lambda event: event.seat)]
    steps = [(turn[0].seat, naive_step(game, turn, opening, rules)) for turn in turns]
    if not finished and rules.mover_chooses:  # the position on which somebody failed is known: nothing is in hand
        board = naive_board(game, len(game["plies"]))
        steps.append((1 - len(game["plies"]) % 2, Step([*board, -1], None, False, legal(board, -1, rules))))
    own_steps = [step for seat, step in steps if seat in SEATS[perspective]]
    if finished:
        own_steps.append(Step([*naive_board(game, len(game["plies"])), -1], None, False, set()))
    if len(own_steps) < 2:
        return None
    rewards = [0] * (len(own_steps) - 1)
    if finished and game["winner"] != -1:
        rewards[-1] = 1 if game["winner"] in SEATS[perspective] else -1
    return Episode(own_steps, rewards, finished)


def naive_step(game: Game, turn: Iterable[Event], opening: int, rules: Rules) -> Step:
    """Build a step from a turn: what was seen before it, and what was done."""
    first, *_ = turn = list(turn)
    board = naive_board(game, first.ply)
    hand = game["plies"][first.ply][0] if first.kind == "placement" else -1
    cell = gift = NO_PREFIX
    for event in turn:
        if event.kind != "gift":
            cell = game["plies"][event.ply][1]
        if event.kind != "placement":
            gift = game["plies"][event.ply][0]
    action = 17 * cell + gift
    return Step([*board, hand], action, any(event.ply < opening for event in turn), legal(board, hand, rules))


def naive_board(game: Game, plies: int) -> list[int]:
    board = [-1] * 16
    for piece, cell in game["plies"][:plies]:
        board[cell] = piece
    return board


def legal(board: list[int], hand: int, rules: Rules) -> set[int]:
    """Return the actions that may be chosen."""
    available = [piece for piece in range(16) if piece not in board and piece != hand]
    empty = [cell for cell in range(16) if board[cell] == -1]
    if rules.mover_chooses:
        return {17 * cell + piece for cell in empty for piece in available}
    if hand == -1:
        return {17 * NO_PREFIX + piece for piece in available}
    actions = set()
    for cell in empty:
        after = {at: piece for at, piece in enumerate(board) if piece != -1} | {cell: hand}
        over = has_line(after, rules) or not available
        actions |= {17 * cell + NO_PREFIX} if over else {17 * cell + piece for piece in available}
    return actions
