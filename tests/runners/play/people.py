"""Helpers of the tests of playing: random input, a screen that records, whole games as input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial

from agents.base.agent import Agent
from analytics.store.records import run_id_to_stream_key
from quarto.game import Game, NextDecision
from quarto.notation import format_cell, format_piece
from quarto.rules import Rules
from runners.config.agents import agent_from_label
from runners.hosting.guarded_agent import GuardedAgent
from runners.play.dialogue import Dialogue
from runners.play.game_series import find_login_name
from runners.play.screens import Screen
from runners.play.session import AgentOpponent, Session, build_human_run_spec

SEED = 77


def any_line(game: Game, dice: random.Random) -> str:
    """A random legal input: a whole turn or a part of one, in upper or lower case."""
    if game.next_decision is NextDecision.GIFT:
        return format_piece(dice.choice(game.pieces_left))
    cell = format_cell(dice.choice(game.empty_cells))
    if game.next_decision is NextDecision.PLY:
        return f"{format_piece(dice.choice(game.pieces_left))}@{cell}"
    line = f"{cell} {format_piece(dice.choice(game.pieces_left))}" if game.pieces_left and dice.random() < 0.7 else cell
    return line if dice.random() < 0.5 else f"  {line.upper()}\t"


named = cache(partial(agent_from_label, trusted=True))  # reading the configuration takes longer than a game


def session(rules: Rules, seat: int, agent: Agent | str, run: int = SEED, number: int = 0) -> Session:
    """A game of a person in ``seat`` against an agent, or the one of a name, in the run of a word."""
    label = agent if isinstance(agent, str) else type(agent).__name__
    made = named(agent).build() if isinstance(agent, str) else agent
    return Session(rules, seat, AgentOpponent(GuardedAgent(made, label, rules), run, number))


class Notes(Screen):
    """A screen that records its output. Its input is a list of lines, or random lines for the game that it shows."""

    def __init__(self, lines: Sequence[str] | random.Random) -> None:
        super().__init__()
        self.lines = lines if isinstance(lines, random.Random) else iter(lines)
        self.game: Game | None = None
        self.news: list[str] = []
        self.written: list[str] = []
        self.typed: list[str] = []
        self.requests: list[str] = []
        self.boards = 0

    def print_heading(self, heading: str) -> None:
        self.written.append(heading)

    def show_game(self, game: Game, news: Sequence[str]) -> None:
        self.game = game
        self.news += news
        self.boards += 1

    def print_text(self, text: str, unwrapped: bool = False) -> None:
        self.written.append(text)

    def prompt(self, request: str) -> str:
        self.requests.append(request)
        if isinstance(self.lines, random.Random):
            assert self.game is not None
            line = any_line(self.game, self.lines)
        else:
            try:
                line = next(self.lines)
            except StopIteration:
                raise EOFError from None
        self.typed.append(line)
        return line

    def show_waiting(self, activity: str) -> AbstractContextManager[object]:
        return nullcontext()


def typed_ahead(
    rules: Rules, seat: int, agent: str, seed: int, number: int = 0, name: str | None = None
) -> tuple[list[str], Game]:
    """The lines of a whole game that ``qarena play`` logs, and the game that they lead to."""
    run = run_id_to_stream_key(build_human_run_spec(rules, name or find_login_name(), named(agent), seat, seed).run_id)
    held, screen = session(rules, seat, agent, run, number), Notes(random.Random(seed + number))
    assert Dialogue(held, screen).play_to_end()
    return screen.typed, held.game
