"""`qarena agents check`: does an agent keep to the rules of the arena? Its games are not stored.

Games rarely reach some positions in which agents fail: these are made here.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import ERROR, LATE, Agent
from agents.base.player import lift
from analytics.questions.columns import format_pace
from quarto.batch import Batch, Block, Games, side_by_side
from quarto.errors import OURS, FailureError, raised_at
from quarto.jit import uint64
from quarto.notation import format_cell, format_piece
from quarto.position import EMPTY, Position
from quarto.rng import Streams, stream
from quarto.rules import CELLS, CLASSIC, NONE, Rules
from quarto.sources import compiling
from quarto.views import BatchView, PositionView
from runners.arena.engine import BatchEngine, Order
from runners.arena.experiment import engine_of
from runners.arena.spec import AgentSpec, RunSpec
from runners.authoring.watch import Watch
from runners.config.agent_policies import untrained
from runners.config.agents import agent_named, load_agent
from runners.config.options import load_rules, user_config_dir
from runners.hosting.guarded_agent import ILLEGAL, NO_TURN, RAISED, WAS_LATE, GuardedAgent, unlogged
from runners.terminal.console import ProgressBar, print_line, print_note, progress_bar

PAIRS = 10  # twenty games
PAIR_WORK, OTHER_WORK = 9, 11  # in pairs against ``random``: for each pair; rare positions and speed
QUICK_SECONDS = 10.0  # in which all is checked without a word
SECONDS = 120.0
FILLED = 0.6  # of the time, by a plan: games differ in length, and the first turns take longest
TIMED_SECONDS = 0.5
REMEDY = "\na turn may depend on its position and on rng alone: "
KEEPS, DRAWS = "keep nothing from other turns", "it drew from random or numpy.random: draw from rng"
ITSELF, RANDOM = 0, 1  # pairings: the agent against itself, and against ``random``


class TooSlowError(FailureError):
    """An agent is too slow for the seconds that its check may take."""


class CheckFinding(NamedTuple):
    """One thing that was looked at."""

    subject: str
    is_fine: bool
    text: str


def check(
    label: str, rules_name: str, seed: int, archive: PurePath, config_dir: Path | None, seconds: float = SECONDS
) -> bool:
    """Check an agent for at most so many seconds and print what was found; whether all is fine.

    ``archive`` has its policy, if it plays by one; ``config_dir``: agents and rules of the user's own. Raises
    ``RequestError`` for an agent that cannot be made or does not play the rules.
    """
    with user_config_dir(config_dir):
        agent, rules = agent_named(label, archive, True), load_rules(rules_name)
        for note in untrained([agent]):
            print_note(note)
        findings = list(findings_of(agent, rules, seed, seconds=seconds))
    for finding in findings:
        first, *more = finding.text.split("\n")
        print_line(f"{'ok' if finding.is_fine else 'FAIL':<5}{finding.subject}: {first}")
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


def findings_of(
    agent: AgentSpec, rules: Rules, seed: int, timed: bool = True, seconds: float = SECONDS
) -> Iterator[CheckFinding]:
    """The findings of twenty games of an agent with itself, twenty with ``random``, and rare positions.

    With ``timed`` its speed too. A slow agent plays fewer games, so that the check ends within ``seconds``.
    """
    spec = RunSpec(rules, (agent, _opponent(agent)), ((0, 0), (0, 1)), seed, opening_plies=0)
    findings, printed = list[CheckFinding](), io.StringIO()
    with unlogged(), progress_bar("checking", "games") as bar, Watch(seconds) as watch, _captured(printed):
        try:
            findings.extend(_findings(spec, watch, bar, printed))
            if timed and len(findings) > 1:
                findings.append(_speed(spec))
        except TooSlowError as error:
            findings.append(CheckFinding("in time", False, str(error)))
        except KeyboardInterrupt as error:
            if not watch.ended:
                raise
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            findings.append(CheckFinding("in time", False, f"{watch.ended}{_line_of_author(error)}{notes}"))
    yield from findings


def _line_of_author(error: BaseException) -> str:
    """The line of an agent's author at which an exception came; nothing if it came elsewhere, or in another process."""
    line = raised_at(error)
    return "" if str(Path(line).absolute()).startswith(OURS) else f", at {line}"


def _findings(spec: RunSpec, watch: Watch, bar: ProgressBar, printed: io.StringIO) -> Iterator[CheckFinding]:
    """All findings but the speed. If the first of an agent's own checks fails, there are no others.

    An agent may have ``own_checks``: names of what it looks at, each with what is wrong.
    """
    own = (
        CheckFinding(name, wrong is None, wrong or "kept")
        for name, wrong in getattr(spec.agents[0].build(), "own_checks", lambda _rules: ())(spec.rules)
    )
    first = next(own, None)
    if first is not None and not first.is_fine:
        yield first
        return
    pairs = _pairs_that_fit(_watched_engine(spec, watch), watch)
    engine, other = _watched_engine(spec, watch), _watched_engine(spec, watch)
    bar.start(3 * 4 * pairs)
    dice = _dice()
    played = _whole(engine, pairs, bar)
    draws = _dice() != dice
    has_taken_a_turn = _has_taken_a_turn(played, spec.rules)
    asked = ask_rarely(engine.guarded[0], spec.seed) if has_taken_a_turn else 0
    yield from _forfeits(engine.guarded[0], has_taken_a_turn, 4 * pairs, asked)
    again, parts = _whole(other, pairs, bar), _one_by_one(engine, pairs, bar)
    yield from filter(None, (first, *own))
    changed = difference(played, again)
    yield CheckFinding(
        "repeatable",
        changed is None,
        f"{changed}{REMEDY}{DRAWS if draws else KEEPS}" if changed else "another one plays the same games",
    )
    if changed is None:
        changed = difference(played, parts)
        text = f"{changed}{REMEDY}{KEEPS}" if changed else "the same games pair by pair, in the opposite order"
        yield CheckFinding("no memory between games", changed is None, text)
    logged = "".join(getattr(each.guarded[0].player(), "printed", "") for each in (engine, other))
    yield _prints(printed.getvalue(), logged)


def _dice() -> tuple[object, str]:
    """The states of the generators that a process has: whoever draws from them changes them."""
    return random.getstate(), str(np.random.get_state())  # noqa: NPY002  (theirs, not ours)


def _watched_engine(spec: RunSpec, watch: Watch) -> BatchEngine:
    agents = [agent.build() for agent in spec.agents]
    engine = engine_of(spec, agents)
    watch.over(engine, agents[0])
    return engine


def _pairs_that_fit(engine: BatchEngine, watch: Watch) -> int:
    """The pairs of each pairing that fit into the time that is left, by the pace of one pair against ``random``.

    Raises ``TooSlowError`` if none fits.
    """
    for _ in range(2):  # kernels are compiled the first time
        seconds = engine.play_block(Order(RANDOM, 0, 1)).seconds
        if seconds * (PAIRS * PAIR_WORK + OTHER_WORK) < QUICK_SECONDS:
            return PAIRS
    pairs = min(PAIRS, int((FILLED * watch.seconds_left / seconds - OTHER_WORK) / PAIR_WORK))
    pace = f"two games against random took {seconds:.1f} seconds"
    if pairs < 1:
        needed = watch.seconds - watch.seconds_left + seconds * (PAIR_WORK + OTHER_WORK) / FILLED
        raise TooSlowError(f"{pace}: this check needs up to {needed:.0f} seconds; --seconds {needed:.0f} allows them")
    if pairs < PAIRS:
        watch.note(f"{pace}, so this check plays {4 * pairs} games and not {4 * PAIRS}; --seconds allows more")
    return pairs


def _opponent(agent: AgentSpec) -> AgentSpec:
    opponent = load_agent("random")
    if opponent.label == agent.label:
        return AgentSpec("random, the opponent", opponent.target, opponent.params)
    return opponent


def _whole(engine: BatchEngine, pairs: int, bar: ProgressBar) -> list[Block]:
    """The games of each pairing, all at once."""
    blocks = []
    for pairing in (ITSELF, RANDOM):
        blocks.append(engine.play_block(Order(pairing, 0, pairs)).block)
        bar.advance(2 * pairs)
    return blocks


def _one_by_one(engine: BatchEngine, pairs: int, bar: ProgressBar) -> list[Block]:
    """The same games pair by pair, the last first."""
    blocks = []
    for pairing in (ITSELF, RANDOM):
        parts = list[Games]()
        for pair in reversed(range(pairs)):
            parts.insert(0, engine.play_block(Order(pairing, pair, 1)).block.games)
            bar.advance(2)
        blocks.append(Block(pairing, 0, 0, side_by_side(parts)))
    return blocks


@contextmanager
def _captured(printed: io.StringIO) -> Iterator[None]:
    """Collects printed text in ``printed``, except for the notice that kernels are compiled."""
    screen, notice = sys.stderr, compiling.announce

    def noticed() -> None:
        with redirect_stderr(screen):
            notice()

    compiling.announce = noticed
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    finally:
        compiling.announce = notice


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


def _forfeits(guarded: GuardedAgent, has_taken_a_turn: bool, games: int, asked: int) -> Iterator[CheckFinding]:
    """Its faults in ``games`` games, of which it plays half with itself, and in ``asked`` rare positions."""
    illegal = [f"{fault.counted}\n{guarded.first_illegal}" for fault in guarded.faults(ILLEGAL)]
    fine = f"every turn of {games} games and in {asked} rare positions" if has_taken_a_turn else ""
    yield CheckFinding("legal", has_taken_a_turn and not illegal, "\n".join(illegal) or fine or "no turn was taken")
    raised = [fault.counted for fault in guarded.faults(RAISED, NO_TURN)]
    yield CheckFinding("exceptions", not raised, "\n".join(raised) or "none")
    for fault in guarded.faults(WAS_LATE):
        yield CheckFinding("in time", False, fault.counted)


def difference(one: Sequence[Block], other: Sequence[Block]) -> str | None:
    """Where games that should be the same differ first; None if they do not."""
    for block, twin in zip(one, other, strict=True):
        against = "itself" if block.pairing == ITSELF else "random"
        for game in range(len(block.games.plies)):
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


def _speed(spec: RunSpec) -> CheckFinding:
    """Turns a second of the agent against itself, in one thread, in blocks that grow."""
    turns, seconds, pairs, first = 0, 0.0, 1, 0
    engine = engine_of(spec)
    engine.play_block(Order(ITSELF, first, pairs))  # what is compiled or loaded at the first turn is no speed
    while seconds < TIMED_SECONDS:
        played = engine.play_block(Order(ITSELF, first, pairs))
        seconds += played.seconds
        turns += int(played.block.games.plies.sum()) + len(played.block.games.plies)
        first, pairs = first + pairs, min(2 * pairs, 8192)
    return CheckFinding("speed", True, f"{format_pace(turns, seconds)} turns a second on one thread, alone with itself")


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
