"""`qarena policy judge`: judges agents by exact values, in solved positions and by draws against the oracle.

Agents are policies by name, agents by label, or all there are. `qarena policy positions` makes a set of positions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import polars as pl

from agents.base.player import BatchPlayer, list_accepted_choosers
from analytics.exact.position_set import (
    PIECE_COUNTS,
    PositionSet,
    Regrets,
    TurnSolver,
    build_origin_without_digest,
    build_turn_rows,
    compute_regrets_and_forfeits,
    encode_position_set,
    find_existing_shipped_set,
    read_logged_games,
    read_position_set,
    sample_new_positions_by_source,
    summarise_regrets,
)
from analytics.statistics.tally import DRAW, LOSS, WIN, Estimate, Tally, tally_by_pairing, win_rate
from analytics.store import marker
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard, load_readable_cards
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch, Turns
from quarto.errors import Advice, RequestError, suggest_valid_names
from quarto.rng import Streams
from quarto.rules import Rules
from runners.arena.batch_engine import GAME_MEMORY_BYTES, PairRange
from runners.arena.executors.base import THREADS, StopSignal, check_solver_memory
from runners.arena.experiment import build_engine
from runners.arena.spec import AgentSpec, RunSpec
from runners.config.agent_policies import describe_untrained_agents, list_policy_readers
from runners.config.agents import agent_from_entry, agent_from_label, load_agent, parse_label
from runners.config.yaml_options import list_options, load_rules
from runners.hosting.guarded_agent import GuardedAgent, silence_forfeit_log
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import write_file

ORACLE = "oracle"
OPENING_PLIES = 2  # imposed on the games against the oracle or another opponent
SEED_SHIFT = 20  # bits below the seed, for the numbers of a million positions
CHUNK_POSITIONS = 512  # positions of a chunk: enough that the overhead of a chunk does not matter for cheap turns
POLICY_PLAYER = "policy"  # the agent that plays by any policy


class SelectedAgents(NamedTuple):
    """The agents to judge, and notes on the selection for the user."""

    agents: list[AgentSpec]
    notes: list[str]


def select_agents(names: Sequence[str], root: PurePath, rules: Rules, include_all: bool) -> SelectedAgents:
    """Select the agents that ``names`` denote; with ``include_all``, add all agents and policies for these rules.

    A name is the name or id of a policy in the archive at ``root``, or an agent's label. Raises ``RequestError`` for
    any other name, and if neither a name nor ``include_all`` is given.
    """
    if not (names or include_all):
        examples = "'rule_based' or 'mcts(iterations=400)'"
        raise RequestError(Advice("name a policy or an agent to judge", f"{examples}, or give --all", examples, ", "))
    cards, damaged = (
        load_readable_cards(ArchiveStore.open(root)) if marker.read_marker_content(root) is not None else ([], [])
    )
    agents, notes = [], [str(error) for error in damaged]
    for name in names:
        agents.append(_build_agent_by_name(name, root, cards))
        if _is_policy(name, cards) and name in list_options("agent"):
            notes.append(f"{name} is the policy; the agent of that name is judged as '{name}()'")
    if include_all:
        policies = sorted({card.name for card in cards if Rules(**card.rules) == rules})
        agents += [*_list_agents_without_missing_policy(rules), *(_build_policy_agent(name, root) for name in policies)]
    distinct = list({agent.label: agent for agent in agents}.values())
    return SelectedAgents(distinct, [*notes, *describe_untrained_agents(distinct)])


def _is_policy(name: str, cards: Sequence[PolicyCard]) -> bool:
    return any(name in {card.name, card.policy_id} for card in cards)


def _build_agent_by_name(name: str, root: PurePath, cards: Sequence[PolicyCard]) -> AgentSpec:
    """Build the specification of the agent that ``name`` denotes: a policy's name or id, or an agent's label."""
    if _is_policy(name, cards):
        return _build_policy_agent(name, root)
    agents = list_options("agent")
    if parse_label(name, "agent")[0] not in agents:
        names = [*agents, *(card.name for card in cards)]
        raise RequestError(
            f"{name!r} is neither a policy in archive {root} nor an agent{suggest_valid_names(name, names)}"
        )
    return agent_from_label(name, root, trusted=True)


def _build_policy_agent(policy: str, root: PurePath) -> AgentSpec:
    """Build the specification of the agent that plays by ``policy``, which is the name or the id of a policy."""
    return agent_from_entry({"agent": POLICY_PLAYER, "policy": policy}, root, trusted=True)


def _list_agents_without_missing_policy(rules: Rules) -> list[AgentSpec]:
    """List the agents that can play these rules, each with the default parameters of its yaml.

    Agents that need a policy, but have none by default, are left out.
    """
    policy_readers = {reader.name for reader in list_policy_readers() if reader.kinds}
    agents = {name: load_agent(name) for name in list_options("agent") if name != POLICY_PLAYER}
    ready = [
        agent
        for name, agent in agents.items()
        if not (name in policy_readers and agent.params.get("policy", "") is None)
    ]
    return [agent for agent in ready if rules.chooser in list_accepted_choosers(agent.build())]


class JudgeOptions(NamedTuple):
    """The options of a judgement: the numbers of turns and games, the seed, and the number of threads."""

    turns_per_position: int = 4  # turns in each position, each with randomness of its own
    games: int = 200  # against the oracle; 0: none
    seed: int = 1
    threads: int = 1


class AgentVerdict(NamedTuple):
    """The judgement of one agent. The verdict of a sequential test (``qarena sprt``) is something else."""

    agent: AgentSpec
    figures: pl.DataFrame  # see ``analytics.exact.position_set.summarise_regrets``
    turns_a_second: float  # of one thread
    tally: Tally  # against the oracle
    notes: Sequence[str]  # on forfeited turns and games

    @property
    def draw_estimate(self) -> Estimate | None:
        """The share of games drawn against ``oracle``, which plays perfectly, with its interval; None without games."""
        return estimate_draw_rate(self.tally) if self.tally.games else None


class Verdicts(NamedTuple):
    """The judgements of several agents, and the positions in which the agents were judged."""

    verdicts: list[AgentVerdict]
    positions: PositionSet


class _TurnChunk(NamedTuple):
    """A request for one turn in each of several positions."""

    turn_number: int
    rows: slice


class _TimedTurns(NamedTuple):
    """The turns of a chunk, and the seconds that one thread took for them."""

    chunk: _TurnChunk
    turns: Turns
    seconds: float


class CollectedTurns(NamedTuple):
    """The turns of one agent in all positions, and its speed."""

    turns: Turns  # [P, D]: D turns in each of P positions
    turns_a_second: float  # of one thread


class OpponentTallyAndNotes(NamedTuple):
    """The tally of an agent's games against one opponent, and notes on forfeits."""

    tally: Tally  # from the agent's point of view
    notes: list[str]  # on forfeits


class TurnCollector:
    """A collector of one agent's turns. Each position is treated as a separate game that begins there."""

    def __init__(self, agent: AgentSpec, rules: Rules, positions: Batch, seed: int) -> None:
        self.guarded = GuardedAgent(agent.build(), agent.label, rules)
        self._positions, self._seed = positions, seed
        self._local = threading.local()
        # Processor time, because other programs may be running; but not if the agent's work is in another process.
        remote = agent.runs_programs or agent.limits.is_remote
        self._clock = time.perf_counter if remote else time.thread_time

    def list_chunks_turn_by_turn(self, turns_per_position: int) -> Iterator[_TurnChunk]:
        """Return an iterator over the chunks of a judgement.

        A chunk asks for one turn in each of its positions. First come the chunks that ask for turn 0, then those for
        turn 1, and so on.
        """
        words, size = self.guarded.game_words, len(self._positions.hand)
        max_positions = min(CHUNK_POSITIONS, max(1, GAME_MEMORY_BYTES // (8 * words))) if words else CHUNK_POSITIONS
        return (
            _TurnChunk(draw, slice(start, start + max_positions))
            for draw in range(turns_per_position)
            for start in range(0, size, max_positions)
        )

    def time_turns(self, chunk: _TurnChunk, stop: StopSignal) -> _TimedTurns:  # noqa: ARG002  (a chunk takes a second)
        """Request the turns of a chunk, and measure the seconds that the calling thread needs for them."""
        if not hasattr(self._local, "player"):
            self._local.player = self.guarded.fork_player()
            self._request_turns(_TurnChunk(chunk.turn_number, slice(0, 1)))  # warm-up is not timed
        started = self._clock()
        turns = self._request_turns(chunk)
        return _TimedTurns(chunk, turns, self._clock() - started)

    def collect_turns(
        self, options: JudgeOptions, stop: threading.Event, progress: Callable[[int], None]
    ) -> CollectedTurns:
        """Collect the turns in all positions, and measure how many turns one thread takes in a second.

        If ``stop`` was set, the result is incomplete. ``progress`` is called with the number of turns taken since the
        last call.
        """
        shape = len(self._positions.hand), options.turns_per_position
        turns = Turns(np.zeros(shape, np.int8), np.zeros(shape, np.int8))
        fastest: dict[int, float] = {}  # seconds by first position, of the turn that other programs disturbed the least
        for chunk, chunk_turns, seconds in THREADS.map(
            self.time_turns, self.list_chunks_turn_by_turn(options.turns_per_position), options.threads, stop
        ):
            for column, values in zip(turns, chunk_turns, strict=True):
                column[chunk.rows, chunk.turn_number] = values
            fastest[chunk.rows.start] = min(fastest.get(chunk.rows.start, seconds), seconds)
            progress(len(chunk_turns.cells))
        return CollectedTurns(turns, shape[0] / max(sum(fastest.values()), 1e-9))

    def describe_forfeits(self, regrets: Regrets, turns: Turns) -> Iterator[str]:
        """Yield a sentence for each way in which the agent failed to take a legal turn."""
        yield from self.guarded.describe_misbehaviour()
        if regrets.forfeits:
            yield (
                f"agent '{self.guarded.label}' took no legal turn {regrets.forfeits:,} times of {turns.cells.size:,}: "
                "that counts as a loss"
            )

    def _request_turns(self, chunk: _TurnChunk) -> Turns:
        player: BatchPlayer = self._local.player
        batch = self._positions.select_range(chunk.rows.start, chunk.rows.stop)
        first = np.uint64(self._seed << SEED_SHIFT) + np.uint64(chunk.rows.start)
        rng = Streams(Streams(np.arange(len(batch.hand), dtype=np.uint64) + first).draw(chunk.turn_number))
        player.start(range(len(batch.hand)))
        return self.guarded.take_turns(player, batch, rng, np.arange(len(batch.hand), dtype=np.uint32))


def judge_agent(
    agent: AgentSpec,
    positions: PositionSet,
    options: JudgeOptions,
    stop: threading.Event,
    progress: Callable[[int], None] = lambda _turns: None,
) -> AgentVerdict | None:
    """Judge an agent; return None if ``stop`` was set before the end.

    The same agent, positions and options give the same judgement on any number of threads, except for the measured
    speed. ``progress`` is called with the number of turns taken since the last call.

    Raises ``RequestError`` if the agent cannot be built or does not play these rules, and ``StuckError`` if too many of
    the agent's turns are still going on after their time limit.
    """
    collector = TurnCollector(agent, positions.rules, positions.batch, options.seed)
    turns, turns_a_second = collector.collect_turns(options, stop, progress)
    if stop.is_set():
        return None
    games = play_against(load_agent(ORACLE), agent, positions.rules, options, stop)
    if stop.is_set():
        return None
    regrets = compute_regrets_and_forfeits(positions.values, turns)
    notes = [*collector.describe_forfeits(regrets, turns), *games.notes]
    return AgentVerdict(agent, summarise_regrets(positions, regrets), turns_a_second, games.tally, notes)


def play_against(
    opponent: AgentSpec, agent: AgentSpec, rules: Rules, options: JudgeOptions, stop: threading.Event
) -> OpponentTallyAndNotes:
    """Play games between an agent and an opponent, and return their tally from the agent's point of view.

    These are the games that ``qarena run`` would play with the same seed.
    """
    spec = RunSpec(rules, (agent, opponent), ((0, 1),), options.seed, OPENING_PLIES)
    if not options.games:
        return OpponentTallyAndNotes(Tally(), [])
    engine, pairs = build_engine(spec), -(-options.games // 2)
    blocks = engine.play_in_any_order((PairRange(0, pair, 1) for pair in range(pairs)), options.threads, stop)
    return OpponentTallyAndNotes(tally_by_pairing(blocks).get(0, Tally()), engine.describe_misbehaviour())


def estimate_draw_rate(tally: Tally) -> Estimate:
    """Estimate the share of drawn games, with Wilson's interval.

    The interval is computed from the effective number of games, because the two games of a pair are not independent.
    """
    as_wins = [[0] * 3 for _ in range(3)]
    for i, row in enumerate(tally.pairs):
        for j, count in enumerate(row):
            as_wins[WIN if i == DRAW else LOSS][WIN if j == DRAW else LOSS] += count
    return win_rate(Tally(pairs=tuple(map(tuple, as_wins))), by_pairs=True)  # type: ignore[arg-type]  # three rows of three


class JudgeRequest(NamedTuple):
    """The agents to judge, and the positions in which to judge them."""

    names: Sequence[str]
    root: PurePath  # of the archive
    include_all: bool = False  # all agents and policies
    rules: str | None = None  # None: the rules of the file or, without a file, classic
    file: Path | None = None  # of the positions; None: the set that ships


def judge_agents(request: JudgeRequest, options: JudgeOptions, stop: threading.Event) -> Verdicts | None:
    """Judge several agents; return None if ``stop`` was set before all agents were judged.

    Raises ``RequestError`` if an agent, a policy or the file of positions does not exist.
    """
    verdicts = []
    with silence_forfeit_log(), show_progress_bar_or_notes("judging", "turns") as bar:
        positions = _load_positions(request)
        agents, notes = select_agents(request.names, request.root, positions.rules, request.include_all)
        for note in notes:
            console.print_note(note)
        bar.start(len(agents) * options.turns_per_position * len(positions.logged))
        for agent in agents:
            bar.set_description(agent.label)
            verdict = judge_agent(agent, positions, options, stop, bar.advance)
            if verdict is None:
                return None
            verdicts.append(verdict)
    for verdict in verdicts:
        for note in verdict.notes:
            console.print_note(note)
    return Verdicts(verdicts, positions)


def _load_positions(request: JudgeRequest) -> PositionSet:
    """Load the positions in which agents are judged, from the request's file or, without a file, from the shipped set.

    Raises ``RequestError`` if the file has positions of other rules than the request.
    """
    rules_name = request.rules or "classic"
    if request.file is None:
        return read_position_set(find_existing_shipped_set(load_rules(rules_name).name))
    positions = read_position_set(request.file)
    if request.rules is not None and positions.rules != load_rules(rules_name):
        raise RequestError(f"{request.file} holds positions of rules {positions.rules.name!r}, not {rules_name!r}")
    return positions


class PositionSetOptions(NamedTuple):
    """The options of a position set: the positions to draw, and the threads and the memory for solving them."""

    rules: Rules
    positions_per_source: int = 500  # of each source and number of pieces, at most
    seed: int = 2026
    piece_counts: Sequence[int] = PIECE_COUNTS  # of pieces on the board
    threads: int = 1
    megabytes: float = 128.0


def build_position_frame(archive: ArchiveStore, options: PositionSetOptions) -> pl.DataFrame:
    """Draw positions at random and solve them; return a row for each turn of each position, with its exact value.

    The sources of positions are random arrangements of pieces and the logged games of ``archive``. Raises
    ``RequestError`` for rules under which the mover chooses the piece, and for an archive without games under these
    rules.
    """
    rules = options.rules
    if rules.mover_chooses:
        raise RequestError(
            f"under rules {rules.name!r} the mover chooses the piece: sets of positions are for rules under which the "
            "opponent does"
        )
    check_solver_memory(options.megabytes)
    games = read_logged_games(archive, rules)
    solver = TurnSolver(rules, options.threads, options.megabytes, min(options.piece_counts))
    frames = []
    with show_progress_bar_or_notes("solving", "positions") as bar:
        bar.start(2 * options.positions_per_source * len(options.piece_counts))
        for pieces in options.piece_counts:
            for source, positions in sample_new_positions_by_source(
                rules, games, pieces, options.positions_per_source, options.seed
            ):
                frames.append(build_turn_rows(source, positions, solver.search_positions(positions, bar.advance)))
    return pl.concat(frames)


def create_position_set(root: PurePath, options: PositionSetOptions, path: Path) -> None:
    """Draw positions at random, solve them, and write them as a position set to ``path``.

    An existing file is replaced. Check before the call that ``path`` can be written, because writing comes last, after
    long work.
    """
    frame = build_position_frame(ArchiveStore.open(root), options)
    content = encode_position_set(
        frame, build_origin_without_digest(options.rules, options.seed, options.positions_per_source)
    )
    write_file(path, content)
    count = frame["position"].n_unique()
    console.print_line(
        f"{format_count_with_noun(count, 'position')}, {format_count_with_noun(len(frame), 'turn')}, "
        f"{len(content):,} bytes: {path}"
    )
