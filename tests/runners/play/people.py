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


def draw_line(game: Game, dice: random.Random) -> str:
    """Draw a random legal input: a whole turn or a part of one, in upper or lower case."""
    if game.next_decision is NextDecision.GIFT:
        return format_piece(dice.choice(game.pieces_left))
    cell = format_cell(dice.choice(game.empty_cells))
    if game.next_decision is NextDecision.PLY:
        return f"{format_piece(dice.choice(game.pieces_left))}@{cell}"
    line = f"{cell} {format_piece(dice.choice(game.pieces_left))}" if game.pieces_left and dice.random() < 0.7 else cell
    return line if dice.random() < 0.5 else f"  {line.upper()}\t"


load_agent_once = cache(partial(agent_from_label, trusted=True))  # reading the configuration takes longer than a game


def build_session(rules: Rules, seat: int, agent: Agent | str, run: int = SEED, number: int = 0) -> Session:
    """Build a session of a person in ``seat`` against an agent object or a label; ``run`` is its stream key."""
    label = agent if isinstance(agent, str) else type(agent).__name__
    instance = load_agent_once(agent).build() if isinstance(agent, str) else agent
    return Session(rules, seat, AgentOpponent(GuardedAgent(instance, label, rules), run, number))


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

    def begin_game_with_heading(self, heading: str) -> None:
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
            line = draw_line(self.game, self.lines)
        else:
            try:
                line = next(self.lines)
            except StopIteration:
                raise EOFError from None
        self.typed.append(line)
        return line

    def show_waiting(self, activity: str) -> AbstractContextManager[object]:
        return nullcontext()


def play_typed_game(
    rules: Rules, seat: int, agent: str, seed: int, number: int = 0, name: str | None = None
) -> tuple[list[str], Game]:
    """Play a game that ``qarena play`` would log; return the lines to type and the game that they lead to."""
    run = run_id_to_stream_key(
        build_human_run_spec(rules, name or find_login_name(), load_agent_once(agent), seat, seed).run_id
    )
    played_session, screen = build_session(rules, seat, agent, run, number), Notes(random.Random(seed + number))
    assert Dialogue(played_session, screen).play_to_end()
    return screen.typed, played_session.game
