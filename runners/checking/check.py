"""`qarena agents check`: does an agent keep to the rules of the arena? Its games are not stored.

Games rarely reach some positions in which agents fail: these are made here.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import ERROR, LATE, Agent, BatchAgent, GameAgent, KernelAgent
from agents.lift import LiftedPlayer, lift
from quarto import caches
from quarto.batch import Batch, Block, Games, Turns
from quarto.jit import uint64
from quarto.notation import format_cell, format_piece, format_position
from quarto.position import EMPTY, Position
from quarto.rng import Streams, stream
from quarto.rules import CELLS, CLASSIC, NONE, Rules
from quarto.views import BatchView, PositionView
from runners.arena.agent_policies import untrained
from runners.arena.config import agent_named, load_agent
from runners.arena.config_groups import load_rules, user_config_dir
from runners.arena.engine import Engine, Order
from runners.arena.experiment import engine_of
from runners.arena.spec import AgentSpec, RunSpec
from runners.hosting.guarded_agent import ILLEGAL, NO_TURN, RAISED, WAS_LATE, GuardedAgent, unlogged
from runners.terminal.console import print_line, print_note

PAIRS = 10  # twenty games
TIMED_SECONDS = 0.5
SLOW_SECONDS = 5.0
MOST_NOTES = 3  # on slow turns
REMEDY = "\na turn may depend on its position and on rng alone: keep nothing from other turns"
ITSELF, RANDOM = 0, 1  # pairings: the agent against itself, and against ``random``


class CheckFinding(NamedTuple):
    """One thing that was looked at."""

    subject: str
    is_fine: bool
    text: str


def check(label: str, rules_name: str, seed: int, archive: PurePath, config_dir: Path | None) -> bool:
    """Check an agent and print what was found; whether all is fine.

    ``archive`` has its policy, if it plays by one; ``config_dir``: agents and rules of the user's own. Raises
    ``RequestError`` for an agent that cannot be made or does not play the rules.
    """
    with user_config_dir(config_dir):
        agent, rules = agent_named(label, archive, True), load_rules(rules_name)
        for note in untrained([agent]):
            print_note(note)
        findings = list(findings_of(agent, rules, seed))
    for finding in findings:
        first, *more = finding.text.split("\n")
        print_line(f"{'ok' if finding.is_fine else 'NOT':<4}{finding.subject}: {first}")
        for line in more:
            print_line(f"      {line}")
    return all(finding.is_fine for finding in findings)


def faults(folder: Path, label: str, rules: str = "classic", seed: int = 1) -> list[str]:
    """The faults of an agent of a user's own folder, for its test: each finding of ``agents check`` that is not fine.

    ``folder`` has ``agent/NAME.yaml``. Raises ``RequestError`` for an agent that cannot be made or does not play the
    rules.
    """
    with user_config_dir(folder):
        found = findings_of(agent_named(label, trusted=True), load_rules(rules), seed, timed=False)
        return [f"{finding.subject}: {finding.text}" for finding in found if not finding.is_fine]


def agent_in(folder: Path, label: str) -> Agent:
    """An agent of a user's own folder, for its test: ``corner``, ``corner(safe=false)``.

    Raises ``RequestError`` for an agent that does not exist or cannot be made.
    """
    with user_config_dir(folder):
        return agent_named(label, trusted=True).build()


def turn_of(agent: Agent, position: str, seed: int = 1, rules: Rules = CLASSIC) -> tuple[int, int]:
    """The turn of an agent in a position, (cell, gift), for its test; ``seed`` is that of the turn's randomness.

    Raises what the agent raises.
    """
    view = PositionView.parse(position, rules)
    turns = lift(agent, rules, type(agent).__name__).play(Batch.of([view.packed]), Streams(np.array([seed], np.uint64)))
    return int(turns.cells[0]), int(turns.gifts[0])


def findings_of(agent: AgentSpec, rules: Rules, seed: int, timed: bool = True) -> Iterator[CheckFinding]:
    """The findings of twenty games of an agent with itself, twenty with ``random``, and rare positions.

    With ``timed`` its speed too.
    """
    spec = RunSpec(rules, (agent, _opponent(agent)), ((0, 0), (0, 1)), seed, opening_plies=0)
    printed, note = io.StringIO(), _note_on(sys.stderr)
    with unlogged(), _captured(printed):
        engine, other = _observed_engine(spec, note), _observed_engine(spec, note)
        played = _whole(engine)
        has_taken_a_turn = _has_taken_a_turn(played, rules)
        asked = ask_rarely(engine.guarded[0], seed) if has_taken_a_turn else 0
        findings = [*_forfeits(engine.guarded[0], has_taken_a_turn, asked)]
        again, parts = _whole(other), _one_by_one(engine)
    yield from findings
    for name, wrong in getattr(agent.build(), "own_checks", _no_checks)(rules):
        yield CheckFinding(name, wrong is None, wrong or "kept")
    changed = difference(played, again)
    yield CheckFinding(
        "repeatable", changed is None, f"{changed}{REMEDY}" if changed else "another one plays the same games"
    )
    if changed is None:
        changed = difference(played, parts)
        text = f"{changed}{REMEDY}" if changed else "the same games pair by pair, in the opposite order"
        yield CheckFinding("no memory between games", changed is None, text)
    logged = "".join(getattr(each.guarded[0].player(), "printed", "") for each in (engine, other))
    yield _prints(printed.getvalue(), logged)
    if timed:
        yield CheckFinding(
            "speed", True, f"{_turns_a_second(spec):,.0f} turns a second on one thread, alone with itself"
        )


def _no_checks(_rules: Rules) -> Iterator[tuple[str, str | None]]:
    """An agent may have ``own_checks``: names of what it looks at, each with what is wrong."""
    return iter(())


class ObservedPlayer(LiftedPlayer):
    """Plays as ``player`` does, and calls ``note`` once for each turn that takes longer than ``SLOW_SECONDS``."""

    def __init__(self, player: LiftedPlayer, alone: bool, note: Callable[[str], None]) -> None:
        """``alone``: it is asked for one position at a time, so that a note can say which."""
        self._player, self._note = player, note
        self.alone, self.game_words = alone or player.alone, player.game_words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def start(self, slots: range) -> None:
        self._player.start(slots)

    def restart(self, slots: NDArray[np.integer]) -> None:
        self._player.restart(slots)

    def fork(self) -> ObservedPlayer:
        return ObservedPlayer(self._player.fork(), self.alone, self._note)

    def play(self, batch: Batch, rng: Streams, slots: NDArray[Any] | None = None) -> Turns:
        slow = threading.Timer(SLOW_SECONDS, self._describe, [batch.copy()])
        slow.daemon = True
        slow.start()
        try:
            return self._player.play(batch, rng, slots)
        finally:
            slow.cancel()

    def _describe(self, batch: Batch) -> None:
        size, first = len(batch.lanes), format_position(batch.position(0))
        self._note(
            f"after {SLOW_SECONDS:g} seconds the agent has not answered in position {first}"
            f"{f' and {size - 1} others' if size > 1 else ''}; it goes on. Ctrl-C ends this check. In a run, "
            "turn_seconds=1 lets such a turn forfeit its game"
        )


def _note_on(screen: IO[str]) -> Callable[[str], None]:
    """A function that prints the first notes on ``screen``, whatever standard error is then."""
    left = MOST_NOTES

    def note(text: str) -> None:
        nonlocal left
        if left:
            left -= 1
            with redirect_stderr(screen):
                print_note(text if left else f"{text}. More such turns are not noted")

    return note


def _observed_engine(spec: RunSpec, note: Callable[[str], None]) -> Engine:
    """The engine of a run that notes slow turns of its first agent, if that is in Python."""
    agents = [agent.build() for agent in spec.agents]
    engine = engine_of(spec, agents)
    if not isinstance(agents[0], KernelAgent):
        alone = isinstance(agents[0], GameAgent) and not isinstance(agents[0], BatchAgent)
        engine.replace_player(0, ObservedPlayer(engine.guarded[0].player(), alone, note))
    return engine


def _opponent(agent: AgentSpec) -> AgentSpec:
    opponent = load_agent("random")
    if opponent.label == agent.label:
        return AgentSpec("random, the opponent", opponent.target, opponent.params)
    return opponent


def _whole(engine: Engine) -> list[Block]:
    """Twenty games of each pairing, all at once."""
    return [engine.play_block(Order(pairing, 0, PAIRS)).block for pairing in (ITSELF, RANDOM)]


def _one_by_one(engine: Engine) -> list[Block]:
    """The same games pair by pair, the last first."""
    blocks = []
    for pairing in (ITSELF, RANDOM):
        parts = [engine.play_block(Order(pairing, pair, 1)).block.games for pair in reversed(range(PAIRS))][::-1]
        games = Games(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))
        blocks.append(Block(pairing, 0, 0, games))
    return blocks


@contextmanager
def _captured(printed: io.StringIO) -> Iterator[None]:
    """Collects printed text in ``printed``, except for the notice that kernels are compiled."""
    screen, notice = sys.stderr, caches.before_compiling

    def noticed() -> None:
        with redirect_stderr(screen):
            notice()

    caches.before_compiling = noticed
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    finally:
        caches.before_compiling = notice


def ask_rarely(guarded: GuardedAgent, seed: int) -> int:
    """Ask for turns in positions that games rarely reach; returns how many there are."""
    player, rules = guarded.player(), guarded.rules
    positions = rare_positions(rules, seed)
    for number, position in enumerate(positions):
        player.start(range(1))
        rng = Streams(np.array([stream(uint64(seed), number, 0)], np.uint64))
        turns = guarded.ask(player, Batch.of([position]), rng, np.zeros(1, np.uint32))
        cell, gift = int(turns.cells[0]), int(turns.gifts[0])
        if cell not in (ERROR, LATE) and not _is_legal(PositionView(position, rules), cell, gift):
            guarded.describe_illegal(player, position, int(rng.seeds[0]), (cell, gift))
            guarded.count_illegal()
    return len(positions)


def _is_legal(view: PositionView, cell: int, gift: int) -> bool:
    """Whether a turn is legal. A gift after the last placement, or after one that wins, counts for nothing."""
    gives_only = view.hand == NONE and not view.rules.mover_chooses
    placed = gives_only or cell in view.free
    return placed and (gift in view.available or not view.available or cell in view.winning_cells())


def _has_taken_a_turn(played: Sequence[Block], rules: Rules) -> bool:
    """Whether the agent has taken any turn. The first of a game shows no ply: it is a gift, and seat 1 then failed."""
    given = not rules.mover_chooses and (played[ITSELF].games.winner == 0).any()
    return bool(given or any(block.games.plies.any() for block in played))


def _forfeits(guarded: GuardedAgent, has_taken_a_turn: bool, asked: int) -> Iterator[CheckFinding]:
    """Its faults in forty games, of which it plays twenty with itself, and in ``asked`` rare positions."""
    illegal = [f"{fault.counted}\n{guarded.first_illegal}" for fault in guarded.faults(ILLEGAL)]
    fine = f"every turn of {4 * PAIRS} games and in {asked} rare positions" if has_taken_a_turn else ""
    yield CheckFinding("legal", has_taken_a_turn and not illegal, "\n".join(illegal) or fine or "no turn was taken")
    raised = [fault.counted for fault in guarded.faults(RAISED, NO_TURN)]
    yield CheckFinding("exceptions", not raised, "\n".join(raised) or "none")
    for fault in guarded.faults(WAS_LATE):
        yield CheckFinding("in time", False, fault.counted)


def difference(one: Sequence[Block], other: Sequence[Block]) -> str | None:
    """Where games that should be the same differ first; None if they do not."""
    for block, twin in zip(one, other, strict=True):
        against = "itself" if block.pairing == ITSELF else "random"
        for game in range(2 * PAIRS):
            mine, theirs = _plies(block.games, game), _plies(twin.games, game)
            if mine != theirs:
                ply = next(i for i in range(CELLS + 1) if mine[i : i + 1] != theirs[i : i + 1])
                texts = [plies[ply] if ply < len(plies) else "no ply" for plies in (mine, theirs)]
                return f"game {game} against {against} differs at ply {ply}: {texts[0]}, then {texts[1]}"
    return None


def _plies(games: Games, game: int) -> list[str]:
    count = int(games.plies[game])
    both = zip(games.pieces[:count, game].tolist(), games.cells[:count, game].tolist(), strict=True)
    return [f"{format_piece(piece)}@{format_cell(cell)}" for piece, cell in both] + [f"ending {games.ending[game]}"]


def _prints(text: str, logged: str) -> CheckFinding:
    """Whether it prints; ``logged``: what a process of its own keeps for the log."""
    lines, kept = text.splitlines(), logged.splitlines()
    if lines:
        found = f"{len(lines):,} lines, which slow a run down and mix with its output: {lines[0]!r}"
    else:
        found = f"{len(kept):,} lines, which go to the log of a run: {kept[0]!r}" if kept else "nothing"
    return CheckFinding("prints", not lines, found)


def _turns_a_second(spec: RunSpec) -> float:
    """Turns a second of the agent against itself, in one thread, in blocks that grow."""
    turns, seconds, pairs, first = 0, 0.0, 1, 0
    with unlogged(), _captured(io.StringIO()):
        engine = engine_of(spec)
        engine.play_block(Order(ITSELF, first, pairs))  # what is compiled or loaded at the first turn is no speed
        while seconds < TIMED_SECONDS:
            started = time.perf_counter()
            games = engine.play_block(Order(ITSELF, first, pairs)).block.games
            seconds += time.perf_counter() - started
            turns += int(games.plies.sum()) + len(games.plies)
            first, pairs = first + pairs, min(2 * pairs, 8192)
    return turns / seconds


GAMES = 1024  # that are played at random, without finishing a line
LAST = 8  # positions with one piece left, and as many with two
OTHERS = 2  # of each other kind, for each number of pieces on the board


def rare_positions(rules: Rules, seed: int) -> list[Position]:
    """The first turn, boards on which one gift is safe or none, and the last two pieces.

    Gifts matter where the opponent chooses the piece. Under rules whose boards of a kind are hardly ever met, positions
    of this kind are missing.
    """
    found = [EMPTY]
    for ply, view in enumerate(_games(rules, np.random.default_rng(seed))):
        if ply >= CELLS - 2:
            found += [each.packed for each in view][:LAST]
        elif not rules.mover_chooses:
            safe = _safe_gifts(view).sum(axis=1)
            lost = ~view.winning_cells().any(axis=1)
            for wanted in (0, 1):
                found += [view[i].packed for i in np.flatnonzero(lost & (safe == wanted))[:OTHERS].tolist()]
    return found


def _games(rules: Rules, rng: np.random.Generator) -> Iterator[BatchView]:
    """The positions before each ply of random games in which no line is finished; those that cannot go on are gone."""
    view = BatchView(Batch.of([EMPTY] * GAMES), rules)
    for _ in range(CELLS):
        given = _any_of(view.available, rng)
        if not rules.mover_chooses:
            view = view.after(NONE, given)
        yield view
        quiet = view.free & ~view.winning_cells(given)
        going: NDArray[np.bool_] = np.asarray(quiet.any(axis=1))
        view, given, quiet = BatchView(view.packed.chosen(going), rules), given[going], quiet[going]
        cells = _any_of(quiet, rng)
        view = view.after(cells, given if rules.mover_chooses else NONE)


def _any_of(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """A true column of each row, at random."""
    columns: NDArray[np.int64] = np.argmax(allowed * (1.0 + rng.random(allowed.shape)), axis=1)
    return columns


def _safe_gifts(view: BatchView) -> NDArray[np.bool_]:
    """Whether each piece is safe to give after some placement of the piece in hand: [B, 16]."""
    safe = np.zeros((len(view), CELLS), bool)
    for cell in range(CELLS):
        free = view.free[:, cell]
        safe |= view.safe_gifts(np.where(free, cell, NONE)) & free[:, None]
    return safe
