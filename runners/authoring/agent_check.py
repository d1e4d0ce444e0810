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

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent
from agents.base.player import build_player
from analytics.questions.columns import format_count_per_second
from quarto.batch import Batch, Block, Games, concat_game_columns
from quarto.errors import PROJECT_FOLDERS, FailureError, find_error_location
from quarto.jit import uint64
from quarto.notation import format_cell, format_piece
from quarto.position import EMPTY, Position
from quarto.rng import Streams, stream
from quarto.rules import CELLS, CLASSIC, NONE, Rules
from quarto.sources import compilation_progress
from quarto.views import BatchView, PositionView
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.experiment import build_engine
from runners.arena.spec import AgentSpec, RunSpec
from runners.authoring.watchdog import Watchdog
from runners.config.agent_policies import describe_untrained_agents
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import load_rules, use_config_dir
from runners.hosting.guarded_agent import ILLEGAL, NO_TURN, RAISED, WAS_LATE, GuardedAgent, silence_forfeit_log
from runners.terminal.console import ProgressBar, print_line, print_note, show_progress_bar

PAIRS = 10  # twenty games
PAIR_WORK, OTHER_WORK = 9, 11  # in pairs against ``random``: for each pair; rare positions and speed
QUICK_SECONDS = 10.0  # in which all is checked without a word
DEFAULT_SECONDS = 120.0
PLANNED_SHARE = 0.6  # of the time, by a plan: games differ in length, and the first turns take longest
TIMED_SECONDS = 0.5
REMEDY = "\na turn may depend on its position and on rng alone: "
MEMORY_REMEDY, RANDOMNESS_REMEDY = "keep nothing from other turns", "it drew from random or numpy.random: draw from rng"
SELF_PAIRING, RANDOM_PAIRING = 0, 1  # pairings: the agent against itself, and against ``random``


class TooSlowError(FailureError):
    """An agent is too slow for the seconds that its check may take."""


class CheckResult(NamedTuple):
    """One thing that was looked at."""

    subject: str
    is_fine: bool
    text: str


def check_agent_and_print(
    label: str,
    rules_name: str,
    seed: int,
    archive_root: PurePath,
    config_dir: Path | None,
    max_seconds: float = DEFAULT_SECONDS,
) -> bool:
    """Check an agent for at most so many seconds and print what was found; whether all is fine.

    ``archive_root`` has its policy, if it plays by one; ``config_dir``: agents and rules of the user's own. Raises
    ``RequestError`` for an agent that cannot be made or does not play the rules.
    """
    with use_config_dir(config_dir):
        agent, rules = agent_from_label(label, archive_root, True), load_rules(rules_name)
        for note in describe_untrained_agents([agent]):
            print_note(note)
        findings = list(run_checks(agent, rules, seed, max_seconds=max_seconds))
    for finding in findings:
        first, *more = finding.text.split("\n")
        print_line(f"{'ok' if finding.is_fine else 'FAIL':<5}{finding.subject}: {first}")
        for line in more:
            print_line(f"      {line}")
    return all(finding.is_fine for finding in findings)


def find_faults(folder: Path, label: str, rules: str = "classic", seed: int = 1) -> list[str]:
    """The faults of an agent of a user's own folder, for its test: each finding of ``agents check`` that is not fine.

    ``folder`` has ``agent/NAME.yaml``. Raises ``RequestError`` for an agent that cannot be made or does not play the
    rules.
    """
    with use_config_dir(folder):
        found = run_checks(agent_from_label(label, trusted=True), load_rules(rules), seed, with_speed=False)
        return [f"{finding.subject}: {finding.text}" for finding in found if not finding.is_fine]


def load_own_agent(folder: Path, label: str) -> Agent:
    """An agent of a user's own folder, for its test: ``corner``, ``corner(safe=false)``.

    Raises ``RequestError`` for an agent that does not exist or cannot be made.
    """
    with use_config_dir(folder):
        return agent_from_label(label, trusted=True).build()


def choose_turn(agent: Agent, position: str, seed: int = 1, rules: Rules = CLASSIC) -> tuple[int, int]:
    """The turn of an agent in a position, (cell, gift), for its test; ``seed`` is that of the turn's randomness.

    Raises what the agent raises.
    """
    view = PositionView.parse(position, rules)
    turns = build_player(agent, rules, type(agent).__name__).play(
        Batch.from_positions([view.packed]), Streams(np.array([seed], np.uint64))
    )
    return int(turns.cells[0]), int(turns.gifts[0])


def run_checks(
    agent: AgentSpec, rules: Rules, seed: int, with_speed: bool = True, max_seconds: float = DEFAULT_SECONDS
) -> Iterator[CheckResult]:
    """The findings of twenty games of an agent with itself, twenty with ``random``, and rare positions.

    With ``with_speed`` its speed too. A slow agent plays fewer games, so that the check ends within ``max_seconds``.
    """
    spec = RunSpec(rules, (agent, _build_random_opponent(agent)), ((0, 0), (0, 1)), seed, opening_plies=0)
    findings, printed = list[CheckResult](), io.StringIO()
    with (
        silence_forfeit_log(),
        show_progress_bar("checking", "games") as bar,
        Watchdog(max_seconds) as watch,
        _capture_output(printed),
    ):
        try:
            findings.extend(_run_game_checks(spec, watch, bar, printed))
            if with_speed and len(findings) > 1:
                findings.append(_measure_speed(spec))
        except TooSlowError as error:
            findings.append(CheckResult("in time", False, str(error)))
        except KeyboardInterrupt as error:
            if not watch.end_reason:
                raise
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            findings.append(CheckResult("in time", False, f"{watch.end_reason}{_format_author_line(error)}{notes}"))
    yield from findings


def _format_author_line(error: BaseException) -> str:
    """The line of an agent's author at which an exception came; nothing if it came elsewhere, or in another process."""
    line = find_error_location(error)
    return "" if str(Path(line).absolute()).startswith(PROJECT_FOLDERS) else f", at {line}"


def _run_game_checks(
    spec: RunSpec, watch: Watchdog, bar: ProgressBar, captured_output: io.StringIO
) -> Iterator[CheckResult]:
    """All findings but the speed. If the first of an agent's own checks fails, there are no others.

    An agent may have ``own_checks``: names of what it looks at, each with what is wrong.
    """
    own = (
        CheckResult(name, wrong is None, wrong or "kept")
        for name, wrong in getattr(spec.agents[0].build(), "own_checks", lambda _rules: ())(spec.rules)
    )
    first = next(own, None)
    if first is not None and not first.is_fine:
        yield first
        return
    pairs = _count_affordable_pairs(_build_watched_engine(spec, watch), watch)
    engine, other = _build_watched_engine(spec, watch), _build_watched_engine(spec, watch)
    bar.start(3 * 4 * pairs)
    dice = _read_random_states()
    played = _play_all_at_once(engine, pairs, bar)
    draws = _read_random_states() != dice
    has_taken_a_turn = _has_taken_a_turn(played, spec.rules)
    asked = take_and_count_rare_turns(engine.guarded_agents[0], spec.seed) if has_taken_a_turn else 0
    yield from _build_fault_results(engine.guarded_agents[0], has_taken_a_turn, 4 * pairs, asked)
    again, parts = _play_all_at_once(other, pairs, bar), _play_pair_by_pair(engine, pairs, bar)
    yield from filter(None, (first, *own))
    changed = describe_first_difference(played, again)
    yield CheckResult(
        "repeatable",
        changed is None,
        f"{changed}{REMEDY}{RANDOMNESS_REMEDY if draws else MEMORY_REMEDY}"
        if changed
        else "another one plays the same games",
    )
    if changed is None:
        changed = describe_first_difference(played, parts)
        text = f"{changed}{REMEDY}{MEMORY_REMEDY}" if changed else "the same games pair by pair, in the opposite order"
        yield CheckResult("no memory between games", changed is None, text)
    logged = "".join(getattr(each.guarded_agents[0].fork_player(), "printed", "") for each in (engine, other))
    yield _build_prints_result(captured_output.getvalue(), logged)


def _read_random_states() -> tuple[object, str]:
    """The states of the generators that a process has: whoever draws from them changes them."""
    return random.getstate(), str(np.random.get_state())  # noqa: NPY002  (theirs, not ours)


def _build_watched_engine(spec: RunSpec, watch: Watchdog) -> BatchEngine:
    agents = [agent.build() for agent in spec.agents]
    engine = build_engine(spec, agents)
    watch.watch_agent(engine, agents[0])
    return engine


def _count_affordable_pairs(engine: BatchEngine, watch: Watchdog) -> int:
    """The pairs of each pairing that fit into the time that is left, by the pace of one pair against ``random``.

    Raises ``TooSlowError`` if none fits.
    """
    for _ in range(2):  # kernels are compiled the first time
        seconds = engine.play_block(PairRange(RANDOM_PAIRING, 0, 1)).seconds
        if seconds * (PAIRS * PAIR_WORK + OTHER_WORK) < QUICK_SECONDS:
            return PAIRS
    pairs = min(PAIRS, int((PLANNED_SHARE * watch.seconds_left / seconds - OTHER_WORK) / PAIR_WORK))
    pace = f"two games against random took {seconds:.1f} seconds"
    if pairs < 1:
        needed = watch.seconds - watch.seconds_left + seconds * (PAIR_WORK + OTHER_WORK) / PLANNED_SHARE
        raise TooSlowError(f"{pace}: this check needs up to {needed:.0f} seconds; --seconds {needed:.0f} allows them")
    if pairs < PAIRS:
        watch.print_to_screen(
            f"{pace}, so this check plays {4 * pairs} games and not {4 * PAIRS}; --seconds allows more"
        )
    return pairs


def _build_random_opponent(agent: AgentSpec) -> AgentSpec:
    opponent = load_agent("random")
    if opponent.label == agent.label:
        return AgentSpec("random, the opponent", opponent.target, opponent.params)
    return opponent


def _play_all_at_once(engine: BatchEngine, pairs: int, bar: ProgressBar) -> list[Block]:
    """The games of each pairing, all at once."""
    blocks = []
    for pairing in (SELF_PAIRING, RANDOM_PAIRING):
        blocks.append(engine.play_block(PairRange(pairing, 0, pairs)))
        bar.advance(2 * pairs)
    return blocks


def _play_pair_by_pair(engine: BatchEngine, pairs: int, bar: ProgressBar) -> list[Block]:
    """The same games pair by pair, the last first."""
    blocks = []
    for pairing in (SELF_PAIRING, RANDOM_PAIRING):
        parts = list[Games]()
        for pair in reversed(range(pairs)):
            parts.insert(0, engine.play_block(PairRange(pairing, pair, 1)).games)
            bar.advance(2)
        blocks.append(Block(pairing, 0, 0, concat_game_columns(parts)))
    return blocks


@contextmanager
def _capture_output(buffer: io.StringIO) -> Iterator[None]:
    """Collects printed text in ``buffer``, except for the notice that kernels are compiled."""
    screen, notice = sys.stderr, compilation_progress.announce

    def print_notice() -> None:
        with redirect_stderr(screen):
            notice()

    compilation_progress.announce = print_notice
    try:
        with redirect_stdout(buffer), redirect_stderr(buffer):
            yield
    finally:
        compilation_progress.announce = notice


def take_and_count_rare_turns(guarded: GuardedAgent, seed: int) -> int:
    """Ask for turns in positions that games rarely reach; returns how many there are."""
    player, rules = guarded.fork_player(), guarded.rules
    positions = sample_rare_positions(rules, seed)
    for number, position in enumerate(positions):
        player.start(range(1))
        rng = Streams(np.array([stream(uint64(seed), number, 0)], np.uint64))
        turns = guarded.take_turns(player, Batch.from_positions([position]), rng, np.zeros(1, np.uint32))
        cell, gift = int(turns.cells[0]), int(turns.gifts[0])
        if cell not in (ERROR_CELL, LATE_CELL) and not _is_legal(PositionView(position, rules), cell, gift):
            guarded.log_first_illegal_turn(player, position, int(rng.seeds[0]), (cell, gift))
            guarded.add_illegal_turn()
    return len(positions)


def _is_legal(view: PositionView, cell: int, gift: int) -> bool:
    """Whether a turn is legal. A gift after the last placement, or after one that wins, counts for nothing."""
    gives_only = view.hand == NONE and not view.rules.mover_chooses
    placed = gives_only or cell in view.free
    return placed and (gift in view.available or not view.available or cell in view.winning_cells())


def _has_taken_a_turn(blocks: Sequence[Block], rules: Rules) -> bool:
    """Whether the agent has taken any turn. The first of a game shows no ply: it is a gift, and seat 1 then failed."""
    given = not rules.mover_chooses and (blocks[SELF_PAIRING].games.winner == 0).any()
    return bool(given or any(block.games.plies.any() for block in blocks))


def _build_fault_results(
    guarded: GuardedAgent, has_taken_a_turn: bool, games: int, rare_positions: int
) -> Iterator[CheckResult]:
    """Its faults in ``games`` games, of which it plays half with itself, and in ``rare_positions`` rare positions."""
    illegal = [f"{fault.description}\n{guarded.first_illegal_report}" for fault in guarded.list_faults(ILLEGAL)]
    fine = f"every turn of {games} games and in {rare_positions} rare positions" if has_taken_a_turn else ""
    yield CheckResult("legal", has_taken_a_turn and not illegal, "\n".join(illegal) or fine or "no turn was taken")
    raised = [fault.description for fault in guarded.list_faults(RAISED, NO_TURN)]
    yield CheckResult("exceptions", not raised, "\n".join(raised) or "none")
    for fault in guarded.list_faults(WAS_LATE):
        yield CheckResult("in time", False, fault.description)


def describe_first_difference(one: Sequence[Block], other: Sequence[Block]) -> str | None:
    """Where games that should be the same differ first; None if they do not."""
    for block, twin in zip(one, other, strict=True):
        against = "itself" if block.pairing == SELF_PAIRING else "random"
        for game in range(len(block.games.plies)):
            mine, theirs = _format_plies(block.games, game), _format_plies(twin.games, game)
            if mine != theirs:
                ply = next(i for i in range(CELLS + 1) if mine[i : i + 1] != theirs[i : i + 1])
                texts = [plies[ply] if ply < len(plies) else "no ply" for plies in (mine, theirs)]
                return f"game {game} against {against} differs at ply {ply}: {texts[0]}, then {texts[1]}"
    return None


def _format_plies(games: Games, game: int) -> list[str]:
    count = int(games.plies[game])
    both = zip(games.pieces[:count, game].tolist(), games.cells[:count, game].tolist(), strict=True)
    return [f"{format_piece(piece)}@{format_cell(cell)}" for piece, cell in both] + [f"ending {games.ending[game]}"]


def _build_prints_result(printed_text: str, logged_text: str) -> CheckResult:
    """Whether it prints; ``logged_text``: what a process of its own keeps for the log."""
    lines, kept = printed_text.splitlines(), logged_text.splitlines()
    if lines:
        found = f"{len(lines):,} lines, which slow a run down and mix with its output: {lines[0]!r}"
    else:
        found = f"{len(kept):,} lines, which go to the log of a run: {kept[0]!r}" if kept else "nothing"
    return CheckResult("prints", not lines, found)


def _measure_speed(spec: RunSpec) -> CheckResult:
    """Turns a second of the agent against itself, in one thread, in blocks that grow."""
    turns, seconds, pairs, first = 0, 0.0, 1, 0
    engine = build_engine(spec)
    engine.play_block(PairRange(SELF_PAIRING, first, pairs))  # what is compiled or loaded at the first turn is no speed
    while seconds < TIMED_SECONDS:
        block = engine.play_block(PairRange(SELF_PAIRING, first, pairs))
        seconds += block.seconds
        turns += int(block.games.plies.sum()) + len(block.games.plies)
        first, pairs = first + pairs, min(2 * pairs, 8192)
    return CheckResult(
        "speed", True, f"{format_count_per_second(turns, seconds)} turns a second on one thread, alone with itself"
    )


RANDOM_GAMES = 1024  # that are played at random, without finishing a line
LAST_PIECES_POSITIONS = 8  # positions with one piece left, and as many with two
POSITIONS_PER_KIND = 2  # of each other kind, for each number of pieces on the board


def sample_rare_positions(rules: Rules, seed: int) -> list[Position]:
    """The first turn, boards on which one gift is safe or none, and the last two pieces.

    Gifts matter where the opponent chooses the piece. Under rules whose boards of a kind are hardly ever met, positions
    of this kind are missing.
    """
    found = [EMPTY]
    for ply, view in enumerate(_sample_unfinished_positions_by_ply(rules, np.random.default_rng(seed))):
        if ply >= CELLS - 2:
            found += [each.packed for each in view][:LAST_PIECES_POSITIONS]
        elif not rules.mover_chooses:
            safe = _find_gifts_safe_after_placing(view).sum(axis=1)
            lost = ~view.winning_cells().any(axis=1)
            for wanted in (0, 1):
                found += [view[i].packed for i in np.flatnonzero(lost & (safe == wanted))[:POSITIONS_PER_KIND].tolist()]
    return found


def _sample_unfinished_positions_by_ply(rules: Rules, rng: np.random.Generator) -> Iterator[BatchView]:
    """The positions before each ply of random games in which no line is finished; those that cannot go on are gone."""
    view = BatchView(Batch.from_positions([EMPTY] * RANDOM_GAMES), rules)
    for _ in range(CELLS):
        given = _sample_columns(view.available, rng)
        if not rules.mover_chooses:
            view = view.with_turns(NONE, given)
        yield view
        quiet = view.free & ~view.winning_cells(given)
        going: NDArray[np.bool_] = np.asarray(quiet.any(axis=1))
        view, given, quiet = BatchView(view.packed.select(going), rules), given[going], quiet[going]
        cells = _sample_columns(quiet, rng)
        view = view.with_turns(cells, given if rules.mover_chooses else NONE)


def _sample_columns(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """A true column of each row, at random."""
    columns: NDArray[np.int64] = np.argmax(allowed * (1.0 + rng.random(allowed.shape)), axis=1)
    return columns


def _find_gifts_safe_after_placing(view: BatchView) -> NDArray[np.bool_]:
    """Whether each piece is safe to give after some placement of the piece in hand: [B, 16]."""
    safe = np.zeros((len(view), CELLS), bool)
    for cell in range(CELLS):
        free = view.free[:, cell]
        safe |= view.safe_gifts(np.where(free, cell, NONE)) & free[:, None]
    return safe
