"""`qarena engine`: an agent of this project behind the engine protocol, for boards and programs of others."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TextIO

import numpy as np

from agents.base.agent import ERROR, LATE, Agent
from quarto.batch import Batch
from quarto.errors import ArenaError, RequestError
from quarto.notation import format_cell
from quarto.position import Position, board
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, Rules, finished_lines
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_named
from runners.config.options import load_rules
from runners.hosting.engines.protocol import TURN_TEXTS, check_seconds, parsed_position, parsed_rules
from runners.hosting.guarded_agent import GuardedAgent, exception_text

VERSIONS = ("1",)


@dataclass
class EngineServer:
    """The engine's side of a conversation: it keeps the rules and the positions that wait for ``go``.

    Raises ``RequestError`` for an agent that cannot be made.
    """

    agent: AgentSpec
    rules: Rules | None = CLASSIC  # None: those that were named last were refused
    _waiting: list[tuple[Position, int]] = field(default_factory=list)  # with their seeds
    _built: Agent | None = field(init=False)  # until it is used
    _guarded: GuardedAgent | None = None  # made when it is needed, by the rules

    def __post_init__(self) -> None:
        self._built = self.agent.build()

    def answers(self, line: str) -> Iterable[str]:
        """The lines that answer a line. Raises ``RequestError`` for one that is wrong, ``EOFError`` for ``quit``."""
        word, _, rest = line.strip().partition(" ")
        match word:
            case "":
                return ()
            case "quarto":
                if rest.strip() not in VERSIONS:
                    raise RequestError(f"protocol version {rest!r} is not known, only {', '.join(VERSIONS)}")
                return f"name {self.agent.label}", "ready"
            case "rules":
                self._begin(rest)
                return ("ready",)
            case "position":
                self._waiting.append(self._checked(*parsed_position(rest)))
                return ()
            case "go":
                check_seconds(rest.strip())
                return self._turns()
            case "quit":
                raise EOFError
        raise RequestError(f"{word!r} is not a word of the protocol: quarto, rules, position, go, quit")

    def _begin(self, text: str) -> None:
        self.rules, self._guarded, self._waiting = None, None, []
        name, chooser, lines = parsed_rules(text)
        rules = load_rules(name)
        if chooser not in ("", rules.chooser):
            raise RequestError(f"rules {name!r} have the chooser {rules.chooser!r} here, not {chooser!r}")
        if lines and lines != {frozenset(line) for line in rules.lines}:
            raise RequestError(f"rules {name!r} have other lines here: leave the lines out to play by these")
        self._player(rules)
        self.rules = rules

    def _player(self, rules: Rules) -> GuardedAgent:
        if self._guarded is None:
            agent, self._built = self._built or self.agent.build(), None
            self._guarded = GuardedAgent(agent, self.agent.label, rules)
        return self._guarded

    def _rules(self) -> Rules:
        if self.rules is None:
            raise RequestError("the rules that were named last were refused: name others first, rules classic")
        return self.rules

    def _checked(self, position: Position, seed: int) -> tuple[Position, int]:
        rules = self._rules()
        if rules.mover_chooses and position.hand != NONE:
            raise RequestError(f"under rules {rules.name!r} no piece is in hand: write - for it")
        if not (position.available or position.hand != NONE):
            raise RequestError("the board is full: nobody has a turn")
        if lines := finished_lines(board(position), rules):
            cells = "".join(map(format_cell, lines[0]))
            raise RequestError(f"the line {cells} is finished: the game is over, nobody has a turn")
        return position, seed

    def _turns(self) -> Iterable[str]:
        """A turn for each position that waits; the seeds decide what is left to chance."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        rules = self._rules()
        guarded = self._player(rules)
        positions, seeds = zip(*waiting, strict=True)
        player, slots, raised = guarded.player(), np.arange(len(positions), dtype=np.uint32), list[BaseException]()
        player.start(range(len(positions)))
        rng = Streams(np.array(seeds, np.uint64))
        turns = guarded.ask(player, Batch.of([*positions]), rng, slots, raised.append)
        for position, cell, gift in zip(positions, turns.cells.tolist(), turns.gifts.tolist(), strict=True):
            if cell in (ERROR, LATE):
                yield f"error {exception_text(raised.pop(0)) if raised else 'the turn took too long'}"
            else:
                places = position.hand != NONE or rules.mover_chooses
                yield TURN_TEXTS.get((cell if places else NONE, gift), f"error no turn: ({cell}, {gift})")


def serve_engine(label: str, policies: PurePath) -> None:
    """Speak the protocol over standard input and output until one of them ends.

    Raises ``RequestError`` for an agent that does not exist or cannot be made.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    converse(EngineServer(agent_named(label, policies, trusted=True)), sys.stdin, sys.stdout)


def converse(server: EngineServer, questions: Iterable[str], out: TextIO) -> None:
    """Answer lines until they end. What is wrong in one is answered with a line ``error``."""
    for line in questions:
        try:
            out.writelines(f"{answer}\n" for answer in server.answers(line))
        except ArenaError as error:
            out.write(f"error {error}\n")
        except EOFError:
            return
        out.flush()
