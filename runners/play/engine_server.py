"""`qarena engine`: offers an agent of this project by the engine protocol, so that other programs can use it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TextIO

import numpy as np

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent
from quarto.batch import Batch
from quarto.errors import ArenaError, RequestError
from quarto.notation import format_cell
from quarto.position import PackedPosition, board
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, Rules, find_finished_lines
from runners.arena.spec import AgentSpec
from runners.config.agents import agent_from_label
from runners.config.yaml_options import load_rules
from runners.hosting.engines.protocol import TURN_TEXTS, check_optional_seconds, parse_position_and_seed, parse_rules
from runners.hosting.guarded_agent import GuardedAgent, format_error_class_and_text

PROTOCOL_VERSIONS = ("1",)


@dataclass
class EngineServer:
    """An agent that answers as an engine, with the rules in use and the positions that wait for ``go``.

    Raises ``RequestError`` for an agent that cannot be built.
    """

    agent: AgentSpec
    rules: Rules | None = CLASSIC  # None: the last `rules` line was refused
    _waiting_positions: list[tuple[PackedPosition, int]] = field(default_factory=list)  # with their seeds
    _unused_agent: Agent | None = field(init=False)  # built early, so that a wrong agent is refused at once
    _guarded_agent: GuardedAgent | None = None  # built for the current rules when the first turn is needed

    def __post_init__(self) -> None:
        self._unused_agent = self.agent.build()

    def respond(self, line: str) -> Iterable[str]:
        """Return the lines that answer one line of the protocol.

        Raises ``RequestError`` for an invalid line, and ``EOFError`` for ``quit``.
        """
        word, _, rest = line.strip().partition(" ")
        match word:
            case "":
                return ()
            case "quarto":
                if rest.strip() not in PROTOCOL_VERSIONS:
                    raise RequestError(
                        f"protocol version {rest!r} is not supported, only {', '.join(PROTOCOL_VERSIONS)}"
                    )
                return f"name {self.agent.label}", "ready"
            case "rules":
                self._set_rules(rest)
                return ("ready",)
            case "position":
                self._waiting_positions.append(self._check_position(*parse_position_and_seed(rest)))
                return ()
            case "go":
                check_optional_seconds(rest.strip())
                return self._answer_waiting_positions()
            case "quit":
                raise EOFError
        raise RequestError(f"{word!r} is not a word of the protocol: quarto, rules, position, go, quit")

    def _set_rules(self, text: str) -> None:
        self.rules, self._guarded_agent, self._waiting_positions = None, None, []
        name, chooser, lines = parse_rules(text)
        rules = load_rules(name)
        if chooser not in ("", rules.chooser):
            raise RequestError(f"rules {name!r} have the chooser {rules.chooser!r} here, not {chooser!r}")
        if lines and lines != {frozenset(line) for line in rules.lines}:
            raise RequestError(
                f"rules {name!r} have other lines here: leave the lines out to play by those of this program"
            )
        self._ensure_guarded_agent(rules)
        self.rules = rules

    def _ensure_guarded_agent(self, rules: Rules) -> GuardedAgent:
        if self._guarded_agent is None:
            agent, self._unused_agent = self._unused_agent or self.agent.build(), None
            self._guarded_agent = GuardedAgent(agent, self.agent.label, rules)
        return self._guarded_agent

    def _require_rules(self) -> Rules:
        if self.rules is None:
            raise RequestError("the last rules were refused: name other rules first, such as 'rules classic'")
        return self.rules

    def _check_position(self, position: PackedPosition, seed: int) -> tuple[PackedPosition, int]:
        rules = self._require_rules()
        if rules.mover_chooses and position.hand != NONE:
            raise RequestError(f"under rules {rules.name!r} no piece is in hand: write - for it")
        if not (position.available or position.hand != NONE):
            raise RequestError("the board is full: nobody has a turn")
        if lines := find_finished_lines(board(position), rules):
            cells = "".join(map(format_cell, lines[0]))
            raise RequestError(f"the line {cells} is finished: the game is over, nobody has a turn")
        return position, seed

    def _answer_waiting_positions(self) -> Iterable[str]:
        """Yield one line for each waiting position: the agent's turn, or an error.

        The agent's randomness in a position depends on the position's seed.
        """
        waiting_positions, self._waiting_positions = self._waiting_positions, []
        if not waiting_positions:
            return
        rules = self._require_rules()
        guarded = self._ensure_guarded_agent(rules)
        positions, seeds = zip(*waiting_positions, strict=True)
        player, slots, errors = guarded.fork_player(), np.arange(len(positions), dtype=np.uint32), list[BaseException]()
        player.start(range(len(positions)))
        rng = Streams(np.array(seeds, np.uint64))
        turns = guarded.take_turns(player, Batch.from_positions([*positions]), rng, slots, errors.append)
        for position, cell, gift in zip(positions, turns.cells.tolist(), turns.gifts.tolist(), strict=True):
            if cell in (ERROR_CELL, LATE_CELL):
                yield f"error {format_error_class_and_text(errors.pop(0)) if errors else 'the turn took too long'}"
            else:
                places = position.hand != NONE or rules.mover_chooses
                yield TURN_TEXTS.get((cell if places else NONE, gift), f"error no turn: ({cell}, {gift})")


def serve_engine(label: str, archive_root: PurePath) -> None:
    """Answer as an engine over standard input and output, until the input ends or a line says ``quit``.

    Raises ``RequestError`` for an agent that does not exist or cannot be built.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    converse(EngineServer(agent_from_label(label, archive_root, trusted=True)), sys.stdin, sys.stdout)


def converse(server: EngineServer, lines: Iterable[str], out: TextIO) -> None:
    """Answer each of ``lines`` on ``out``, in order, until the lines end or one of them is ``quit``.

    An invalid line is answered with a line that begins with ``error``.
    """
    for line in lines:
        try:
            out.writelines(f"{answer}\n" for answer in server.respond(line))
        except ArenaError as error:
            out.write(f"error {error}\n")
        except EOFError:
            return
        out.flush()
