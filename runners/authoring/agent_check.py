"""`qarena agents check`: a check of whether an agent keeps to the rules of the arena. Its games are not stored.

Some of the positions in which agents fail are rare in games, so the check makes such positions itself.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent
from agents.base.player import build_player
from analytics.questions.columns import format_count_per_second
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch, Block, Games, concat_game_columns
from quarto.errors import PROJECT_FOLDERS, FailureError, describe_author_error_location
from quarto.jit import uint64
from quarto.notation import format_cell, format_piece
from quarto.position import EMPTY, PackedPosition
from quarto.rng import Streams, stream
from quarto.rules import CELLS, CLASSIC, NONE, Rules
from quarto.sources import compilation_progress
from quarto.views import BatchView, Position
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.experiment import build_engine
from runners.arena.spec import AgentSpec, RunSpec
from runners.authoring.watchdog import Watchdog
from runners.config.agent_policies import describe_untrained_agents
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import load_rules, use_config_dir
from runners.hosting.guarded_agent import ILLEGAL, NO_TURN, RAISED, USED_UP, WAS_LATE, GuardedAgent, silence_forfeit_log
from runners.terminal.console import ProgressBar, print_line, print_note, show_progress_bar_or_notes

PAIRS = 10  # twenty games
PAIR_WORK, OTHER_WORK = 9, 11  # cost of each pair, and of rare positions with speed, in pairs against ``random``
QUICK_SECONDS = 10.0  # a check that takes less than this plays all games without a note
DEFAULT_SECONDS = 120.0
PLANNED_SHARE = 0.6  # share of the time to plan for: games differ in length, and first turns take longest
TIMED_SECONDS = 0.5
REMEDY = "\na turn may depend on its position and on rng alone: "
MEMORY_REMEDY = "keep nothing from other turns, and go through no set of objects, whose order is by their addresses"
RANDOMNESS_REMEDY = "it drew from random or numpy.random: draw from rng"
NO_GIFT_REMEDY = "\nin this position no piece is left to give: the gift of the last turn is -1"
SELF_PAIRING, RANDOM_PAIRING = 0, 1  # pairings: the agent against itself, and against ``random``


class TooSlowError(FailureError):
    """The error that is raised if an agent is too slow to be checked within the time limit."""


class CheckResult(NamedTuple):
    """The result of one check: its subject, whether the agent passed, and a text for the author."""

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
    """Check an agent for at most ``max_seconds``, print the results, and return whether the agent passed every check.

    ``archive_root`` is the archive with the agent's policy, if the agent needs a policy; ``config_dir`` is a folder
    with the user's agents and rules. Raises ``RequestError`` if the agent cannot be built or does not play the rules.
    """
    with use_config_dir(config_dir):
        agent, rules = agent_from_label(label, archive_root, True), load_rules(rules_name)
        for note in describe_untrained_agents([agent]):
            print_note(note)
        results = list(run_checks(agent, rules, seed, max_seconds=max_seconds))
    for line in format_check_results(results):
        print_line(line)
    return all(result.is_fine for result in results)


def format_check_results(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield the lines that show the results of checks: a line for each result, then what its text has besides."""
    for result in results:
        first_line, *other_lines = result.text.split("\n")
        yield f"{'ok' if result.is_fine else 'FAIL':<5}{result.subject}: {first_line}"
        for line in other_lines:
            yield f"      {line}"


def find_faults(folder: Path, label: str, rules: str = "classic", seed: int = 1) -> list[str]:
    """Run all checks of ``agents check`` but the speed check, and return a text for each check that the agent fails.

    The function is meant for the agent's own test. ``folder`` is the user's folder, which holds ``agent/NAME.yaml``.
    Raises ``RequestError`` if the agent cannot be built or does not play the rules.
    """
    with use_config_dir(folder):
        results = run_checks(agent_from_label(label, trusted=True), load_rules(rules), seed, with_speed=False)
        return [f"{result.subject}: {result.text}" for result in results if not result.is_fine]


def load_own_agent(folder: Path, label: str) -> Agent:
    """Build an agent from a user's folder.

    The function is meant for the agent's own test. ``label`` is, for example, ``corner`` or ``corner(safe=false)``.
    Raises ``RequestError`` if the agent does not exist or cannot be built.
    """
    with use_config_dir(folder):
        return agent_from_label(label, trusted=True).build()


def choose_turn(agent: Agent, position: str, seed: int = 1, rules: Rules = CLASSIC) -> tuple[int, int]:
    """Return the cell and the gift that an agent chooses in a position.

    The function is meant for the agent's own test. ``position`` is the text of a position; ``seed`` is the seed of this
    turn. Exceptions that the agent raises are not caught.
    """
    view = Position.parse(position, rules)
    turns = build_player(agent, rules, type(agent).__name__).play(
        Batch.from_positions([view.packed]), Streams(np.array([seed], np.uint64))
    )
    return int(turns.cells[0]), int(turns.gifts[0])


def run_checks(
    agent: AgentSpec,
    rules: Rules,
    seed: int,
    with_speed: bool = True,
    max_seconds: float = DEFAULT_SECONDS,
    opening_plies: int = 0,
) -> Iterator[CheckResult]:
    """Check an agent in games against itself, in games against ``random``, and in rare positions; yield the results.

    The agent plays twenty games against each of the two opponents, or fewer if it is so slow that the checks would take
    longer than ``max_seconds``. Each game begins with ``opening_plies`` imposed plies. With ``with_speed``, the last
    result reports the agent's speed.
    """
    spec = RunSpec(rules, (agent, _build_random_opponent(agent)), ((0, 0), (0, 1)), seed, opening_plies)
    results, printed = list[CheckResult](), io.StringIO()
    with (
        silence_forfeit_log(),
        show_progress_bar_or_notes(f"checking {agent.label}", "games") as bar,
        # A turn with a limit of its own ends by itself, and is reported as late.
        Watchdog(max_seconds, with_notes=agent.limits.turn_seconds is None) as watch,
        _capture_output_except_notices(printed),
    ):
        try:
            results.extend(_run_own_and_game_checks(spec, watch, bar, printed))
            if with_speed and len(results) > 1:
                results.append(_measure_speed(spec))
        except TooSlowError as error:
            results.append(CheckResult("in time", False, str(error)))
        except KeyboardInterrupt as error:
            if not watch.end_reason:
                raise
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            results.append(
                CheckResult("in time", False, f"{watch.end_reason}{_format_location_outside_project(error)}{notes}")
            )
    yield from results


def _format_location_outside_project(error: BaseException) -> str:
    """Return the text ``, at FILE:LINE`` for the line of code that raised the error.

    If that line is in this project, the text is empty.
    """
    line = describe_author_error_location(error)
    return "" if str(Path(line).absolute()).startswith(PROJECT_FOLDERS) else f", at {line}"


def _run_own_and_game_checks(
    spec: RunSpec, watch: Watchdog, bar: ProgressBar, captured_output: io.StringIO
) -> Iterator[CheckResult]:
    """Run all checks but the speed check, and yield their results.

    An agent may have checks of its own: a method ``own_checks(rules)`` that returns pairs (name, fault), where None
    means that the check is passed. If the first of the agent's own checks fails, only its result is yielded, and no
    game is played.
    """
    own_results = (
        CheckResult(name, fault is None, fault or "kept")
        for name, fault in getattr(spec.agents[0].build(), "own_checks", lambda _rules: ())(spec.rules)
    )
    first_result = next(own_results, None)
    if first_result is not None and not first_result.is_fine:
        yield first_result
        return
    pairs = _count_affordable_pairs(_build_watched_engine(spec, watch), watch)
    engine, second_engine = _build_watched_engine(spec, watch), _build_watched_engine(spec, watch)
    bar.start(3 * 4 * pairs)
    random_states = _read_random_states()
    blocks = _play_block_per_pairing(engine, pairs, bar)
    draws_outside_rng = _read_random_states() != random_states
    has_taken_a_turn = _has_taken_a_turn(blocks, spec.rules)
    rare_turns = count_rare_turns_recording_faults(engine.guarded_agents[0], spec.seed) if has_taken_a_turn else 0
    writes_gifts = not spec.agents[0].runs_programs  # a gift of -1 is for agents in Python only
    yield from _build_fault_results(
        engine.guarded_agents[0], has_taken_a_turn, 4 * pairs, rare_turns, NO_GIFT_REMEDY if writes_gifts else ""
    )
    repeated_blocks = _play_block_per_pairing(second_engine, pairs, bar)
    reordered_blocks = _play_pairs_in_reverse_order(engine, pairs, bar)
    yield from filter(None, (first_result, *own_results))
    difference = describe_first_difference(blocks, repeated_blocks)
    yield CheckResult(
        "repeatable",
        difference is None,
        f"{difference}{REMEDY}{RANDOMNESS_REMEDY if draws_outside_rng else MEMORY_REMEDY}"
        if difference
        else "another one plays the same games",
    )
    if difference is None:
        difference = describe_first_difference(blocks, reordered_blocks)
        text = (
            f"{difference}{REMEDY}{MEMORY_REMEDY}"
            if difference
            else "the same games pair by pair, in the opposite order"
        )
        yield CheckResult("no memory between games", difference is None, text)
    players = [watched.guarded_agents[0].fork_player() for watched in (engine, second_engine)]
    logged_text = "".join(player.printed for player in players)
    yield _build_prints_result(captured_output.getvalue(), logged_text)


def _read_random_states() -> tuple[object, str]:
    """Return the states of the global generators of ``random`` and ``numpy.random``, which change with every draw."""
    return random.getstate(), str(np.random.get_state())  # noqa: NPY002  (an agent may draw from it)


def _build_watched_engine(spec: RunSpec, watch: Watchdog) -> BatchEngine:
    """Build the engine of a run whose first agent is watched by ``watch``."""
    agents = [agent.build() for agent in spec.agents]
    engine = build_engine(spec, agents)
    watch.watch_agent(engine, agents[0])
    return engine


def _count_affordable_pairs(engine: BatchEngine, watch: Watchdog) -> int:
    """Play a pair or two against ``random``, and return how many pairs against each opponent the time allows.

    The opponents are the agent itself and ``random``. The number is at most ``PAIRS``; if it is smaller, a note is
    printed. Raises ``TooSlowError`` if there is not even time for one pair, because turns are slow or exceed a limit.
    """
    for _ in range(2):  # kernels are compiled the first time
        seconds = engine.play_block(PairRange(RANDOM_PAIRING, 0, 1)).seconds
        if seconds * (PAIRS * PAIR_WORK + OTHER_WORK) < QUICK_SECONDS:
            return PAIRS
    pairs = min(PAIRS, int((PLANNED_SHARE * watch.seconds_left / seconds - OTHER_WORK) / PAIR_WORK))
    pace = f"two games against random took {seconds:.1f} seconds"
    if pairs < 1:
        late_turns = engine.guarded_agents[0].list_faults_by_frequency(WAS_LATE, USED_UP)
        if late_turns:  # more time would show nothing else
            raise TooSlowError(late_turns[0].description)
        needed = watch.seconds - watch.seconds_left + seconds * (PAIR_WORK + OTHER_WORK) / PLANNED_SHARE
        raise TooSlowError(f"{pace}: this check needs up to {needed:.0f} seconds; --seconds {needed:.0f} allows them")
    if pairs < PAIRS:
        watch.print_to_screen(
            f"{pace}, so this check plays {4 * pairs} games and not {4 * PAIRS}; --seconds allows more"
        )
    return pairs


def _build_random_opponent(agent: AgentSpec) -> AgentSpec:
    """Build the spec of the agent ``random``.

    If the checked agent has the label ``random`` too, the opponent gets another label.
    """
    opponent = load_agent("random")
    if opponent.label == agent.label:
        return AgentSpec("random, the opponent", opponent.target, opponent.params)
    return opponent


def _play_block_per_pairing(engine: BatchEngine, pairs: int, bar: ProgressBar) -> list[Block]:
    """Play ``pairs`` pairs of each of the two pairings, and return a block for each pairing."""
    blocks = []
    for pairing in (SELF_PAIRING, RANDOM_PAIRING):
        blocks.append(engine.play_block(PairRange(pairing, 0, pairs)))
        bar.advance(2 * pairs)
    return blocks


def _play_pairs_in_reverse_order(engine: BatchEngine, pairs: int, bar: ProgressBar) -> list[Block]:
    """Play the pairs of each pairing one by one, from the last to the first; return a block for each pairing.

    The games of a block are in the usual order.
    """
    blocks = []
    for pairing in (SELF_PAIRING, RANDOM_PAIRING):
        games = list[Games]()
        for pair in reversed(range(pairs)):
            games.insert(0, engine.play_block(PairRange(pairing, pair, 1)).games)
            bar.advance(2)
        blocks.append(Block(pairing, 0, 0, concat_game_columns(games)))
    return blocks


@contextmanager
def _capture_output_except_notices(buffer: io.StringIO) -> Iterator[None]:
    """Collect in ``buffer`` what is printed inside the context, except the notice that kernels are being compiled."""
    screen, notice = sys.stderr, compilation_progress.announce

    def print_compilation_notice_to_screen() -> None:
        with redirect_stderr(screen):
            notice()

    compilation_progress.announce = print_compilation_notice_to_screen
    try:
        with redirect_stdout(buffer), redirect_stderr(buffer):
            yield
    finally:
        compilation_progress.announce = notice


def count_rare_turns_recording_faults(guarded: GuardedAgent, seed: int) -> int:
    """Let an agent take a turn in positions that games rarely reach, and return the number of these positions.

    Illegal turns, exceptions and late turns are noted in ``guarded``.
    """
    player, rules = guarded.fork_player(), guarded.rules
    positions = sample_rare_positions(rules, seed)
    for number, position in enumerate(positions):
        player.start(range(1))
        rng = Streams(np.array([stream(uint64(seed), number, 0)], np.uint64))
        turns = guarded.take_turns(player, Batch.from_positions([position]), rng, np.zeros(1, np.uint32))
        cell, gift = int(turns.cells[0]), int(turns.gifts[0])
        if cell not in (ERROR_CELL, LATE_CELL) and not _is_legal(Position(position, rules), cell, gift):
            guarded.log_first_illegal_turn(player, position, int(rng.seeds[0]), (cell, gift))
            guarded.add_illegal_turn()
    return len(positions)


def _is_legal(view: Position, cell: int, gift: int) -> bool:
    """Return whether a turn is legal. A gift after the last placement or after a winning placement is ignored."""
    gives_only = view.hand == NONE and not view.rules.mover_chooses
    can_place = gives_only or cell in view.free
    return can_place and (gift in view.available or not view.available or cell in view.winning_cells())


def _has_taken_a_turn(blocks: Sequence[Block], rules: Rules) -> bool:
    """Return whether the agent has taken any turn in the games of the blocks.

    The agent has taken one if a ply was completed. If seat 1 forfeits before any ply is complete, seat 0 has still
    taken the first turn, which is only a gift.
    """
    has_given = not rules.mover_chooses and (blocks[SELF_PAIRING].games.winner == 0).any()
    return bool(has_given or any(block.games.plies.any() for block in blocks))


def _build_fault_results(
    guarded: GuardedAgent, has_taken_a_turn: bool, games: int, rare_positions: int, no_gift_remedy: str
) -> Iterator[CheckResult]:
    """Yield the results of the checks for illegal turns, exceptions and late turns.

    The faults are those noted in ``guarded``. If the agent has not taken a turn, the check for illegal turns fails,
    too. ``games`` and ``rare_positions`` appear only in the text of a passed check. ``no_gift_remedy`` is added to an
    exception that is raised when no piece is left to give.
    """
    illegal = [
        f"{fault.description}\n{guarded.first_illegal_report}" for fault in guarded.list_faults_by_frequency(ILLEGAL)
    ]
    success_text = (
        f"every turn of {format_count_with_noun(games, 'game')} and in "
        f"{format_count_with_noun(rare_positions, 'rare position')}"
        if has_taken_a_turn
        else ""
    )
    yield CheckResult(
        "legal", has_taken_a_turn and not illegal, "\n".join(illegal) or success_text or "no turn was taken"
    )
    exceptions = [
        f"{fault.description}{'' if _has_gift(fault.position, guarded.rules) else no_gift_remedy}"
        for fault in guarded.list_faults_by_frequency(RAISED, NO_TURN)
    ]
    yield CheckResult("exceptions", not exceptions, "\n".join(exceptions) or "none")
    for fault in guarded.list_faults_by_frequency(WAS_LATE, USED_UP):
        yield CheckResult("in time", False, fault.description)


def _has_gift(position: str, rules: Rules) -> bool:
    """Return whether a piece is left to give in the position of a fault, whose text may end with the name of rules."""
    return bool(Position.parse(" ".join(position.split()[:2]), rules).available)


def describe_first_difference(one: Sequence[Block], other: Sequence[Block]) -> str | None:
    """Describe the first difference between two series of blocks, or return None if they are equal."""
    for block, twin in zip(one, other, strict=True):
        against = "itself" if block.pairing == SELF_PAIRING else "random"
        for game in range(len(block.games.plies)):
            plies, twin_plies = _format_plies_and_ending(block.games, game), _format_plies_and_ending(twin.games, game)
            if plies != twin_plies:
                ply = next(i for i in range(CELLS + 1) if plies[i : i + 1] != twin_plies[i : i + 1])
                texts = [line[ply] if ply < len(line) else "no ply" for line in (plies, twin_plies)]
                return f"game {game} against {against} differs at ply {ply}: {texts[0]}, then {texts[1]}"
    return None


def _format_plies_and_ending(games: Games, game: int) -> list[str]:
    """Format each ply of a game as piece and cell; the last entry of the list is the game's ending."""
    count = int(games.plies[game])
    pieces_and_cells = zip(games.pieces[:count, game].tolist(), games.cells[:count, game].tolist(), strict=True)
    return [f"{format_piece(piece)}@{format_cell(cell)}" for piece, cell in pieces_and_cells] + [
        f"ending {games.ending[game]}"
    ]


def _build_prints_result(printed_text: str, logged_text: str) -> CheckResult:
    """Build the result of the check that the agent prints nothing.

    The check fails if ``printed_text`` is not empty. ``logged_text`` is what the agent's subprocess printed. In a run
    it would go to the log, so it is reported but is no fault.
    """
    lines, logged_lines = printed_text.splitlines(), logged_text.splitlines()
    if lines:
        text = (
            f"{format_count_with_noun(len(lines), 'line')}, slowing a run down and mixing with its output: {lines[0]!r}"
        )
    else:
        text = (
            f"{format_count_with_noun(len(logged_lines), 'line')} for the log of a run: {logged_lines[0]!r}"
            if logged_lines
            else "nothing"
        )
    return CheckResult("prints", not lines, text)


def _measure_speed(spec: RunSpec) -> CheckResult:
    """Measure how many turns a second the agent takes against itself on one thread.

    The result always counts as passed.
    """
    turns, seconds, pairs, first = 0, 0.0, 1, 0
    engine = build_engine(spec)
    engine.play_block(PairRange(SELF_PAIRING, first, pairs))  # compiling and loading at the first turn are not timed
    while seconds < TIMED_SECONDS:
        block = engine.play_block(PairRange(SELF_PAIRING, first, pairs))
        seconds += block.seconds
        turns += int(block.games.plies.sum()) + len(block.games.plies)
        first, pairs = first + pairs, min(2 * pairs, 8192)
    return CheckResult(
        "speed", True, f"{format_count_per_second(turns, seconds)} turns a second on one thread, alone with itself"
    )


RANDOM_GAMES = 1024  # games of random turns that finish no line
LAST_PIECES_POSITIONS = 8  # positions with one piece left, and as many with two
POSITIONS_PER_KIND = 2  # positions of each other kind, for each number of pieces on the board


def sample_rare_positions(rules: Rules, seed: int) -> list[PackedPosition]:
    """Return the empty board and a random sample of positions that games rarely reach.

    The rare positions are those in which at most one gift is safe after some placement, and those with one or two
    pieces left. Under rules by which the mover chooses the piece, only those of the second kind are sampled, because
    safe gifts do not matter. Under rules in which random games hardly ever reach a kind, positions of this kind may be
    missing.
    """
    positions = [EMPTY]
    for ply, view in enumerate(_sample_unfinished_positions_by_ply(rules, np.random.default_rng(seed))):
        if ply >= CELLS - 2:
            positions += [position.packed for position in view][:LAST_PIECES_POSITIONS]
        elif not rules.mover_chooses:
            safe_counts = _find_gifts_safe_after_some_placement(view).sum(axis=1)
            without_win = ~view.winning_cells().any(axis=1)
            for safe_count in (0, 1):
                chosen = np.flatnonzero(without_win & (safe_counts == safe_count))[:POSITIONS_PER_KIND]
                positions += [view[i].packed for i in chosen.tolist()]
    return positions


def _sample_unfinished_positions_by_ply(rules: Rules, rng: np.random.Generator) -> Iterator[BatchView]:
    """Play random games that avoid finishing a line, and yield the positions of all remaining games before each ply.

    A game is dropped when every placement would finish a line.
    """
    view = BatchView(Batch.from_positions([EMPTY] * RANDOM_GAMES), rules)
    for _ in range(CELLS):
        gifts = _sample_columns(view.available, rng)
        if not rules.mover_chooses:
            view = view.with_turns(NONE, gifts)
        yield view
        quiet_cells = view.free & ~view.winning_cells(gifts)
        continues: NDArray[np.bool_] = np.asarray(quiet_cells.any(axis=1))
        view = BatchView(view.packed.select(continues), rules)
        gifts, quiet_cells = gifts[continues], quiet_cells[continues]
        cells = _sample_columns(quiet_cells, rng)
        view = view.with_turns(cells, gifts if rules.mover_chooses else NONE)


def _sample_columns(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return, for each row of ``allowed``, the index of a random column that is true in this row: [B]."""
    columns: NDArray[np.int64] = np.argmax(allowed * (1.0 + rng.random(allowed.shape)), axis=1)
    return columns


def _find_gifts_safe_after_some_placement(view: BatchView) -> NDArray[np.bool_]:
    """Return, for each piece, whether it is a safe gift after at least one placement of the piece in hand: [B, 16]."""
    safe = np.zeros((len(view), CELLS), bool)
    for cell in range(CELLS):
        free = view.free[:, cell]
        safe |= view.safe_gifts(np.where(free, cell, NONE)) & free[:, None]
    return safe
