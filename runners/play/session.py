"""One game of a person against an agent: its turns, undo, and its entry in the archive.

A person's games are one run for each player, agent, rules, seat and seed, with one unit per game. Games in which the
person asked for a hint or took a turn back belong to runs of their own, whose labels say so: ``human:anna(hint,undo)``.
So they are never mistaken for games without help.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple, Protocol

import numpy as np

from agents.base.agent import ERROR_CELL, LATE_CELL, Agent
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import build_game
from analytics.store.range_files import write_game_tables
from analytics.store.ranges import first_game_id, list_gaps, merge_ranges
from analytics.store.records import LABEL, PERSON_PREFIX, run_id_to_stream_key
from analytics.store.schema import MAX_PAIRS
from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, Batch, Block, Turns
from quarto.errors import ArenaError, RequestError
from quarto.game import Game, NextDecision
from quarto.jit import uint64
from quarto.position import PackedPosition
from quarto.rng import Streams, stream, turn_seed_offset_in_python
from quarto.rules import Rules
from runners.arena.code_fingerprints import build_code_record, describe_code_differences
from runners.arena.experiment import record_status_and_seconds, save_run_start
from runners.arena.spec import AgentSpec, RunSpec
from runners.hosting.guarded_agent import GuardedAgent, format_error_class_and_text

logger = logging.getLogger(__name__)


class AgentFailedError(Exception):
    """The error raised if an agent raises an exception or is late instead of taking its turn.

    The message says why, and ``ending`` is the index of the game's ending in ``ENDINGS``.
    """

    def __init__(self, reason: str, ending: int) -> None:
        super().__init__(reason)
        self.ending = ending


class Opponent(Protocol):
    """The person's opponent."""

    @property
    def label(self) -> str: ...

    def take_turn(self, game: Game) -> tuple[int, int]:
        """Return the opponent's turn as a cell and a gift.

        Raises ``AgentFailedError`` if the opponent fails to take its turn.
        """
        ...


class AgentOpponent:
    """An agent that plays one game of a run, with the random stream that belongs to this game of the run."""

    def __init__(self, guarded_agent: GuardedAgent, run_stream_key: int, game_number: int) -> None:
        self.label = guarded_agent.label
        self._guarded = guarded_agent
        self._player = guarded_agent.fork_player()
        self._raised: list[BaseException] = []
        self._stream = np.array([stream(uint64(run_stream_key), game_number, 0)], np.uint64)

    def take_turn(self, game: Game) -> tuple[int, int]:
        if self._guarded.game_words:  # its memory may include turns that were taken back, so replay the game
            self._player.start(range(1))
            for turn_number in range(game.turn % 2, game.turn, 2):
                self._request_turn(turn_number, game.position_before(turn_number))
        turns = self._request_turn(game.turn, game.position)
        if turns.cells[0] == ERROR_CELL:
            raise AgentFailedError(f"it raised {format_error_class_and_text(self._raised[-1])}", FORFEIT_ERROR)
        if turns.cells[0] == LATE_CELL:
            raise AgentFailedError("its turn took too long", FORFEIT_TIME)
        return int(turns.cells[0]), int(turns.gifts[0])

    def _request_turn(self, turn_number: int, position: PackedPosition) -> Turns:
        rng = Streams(self._stream + turn_seed_offset_in_python(turn_number))
        return self._guarded.take_turns(
            self._player, Batch.from_positions([position]), rng, np.zeros(1, np.uint32), self._raised.append
        )


class Session:
    """A game in progress, with the history that ``undo`` needs; ``seat`` is the person's seat."""

    def __init__(self, rules: Rules, seat: int, opponent: Opponent) -> None:
        self.seat = seat
        self.opponent = opponent
        self.game = Game(rules)
        self.reason = ""  # why the agent forfeited; "" as long as it has not
        self.aids: set[str] = set()  # "hint", "undo": what the person has used
        self._turns: list[Game] = []  # the game at the beginning of each turn that the person took

    @property
    def is_over(self) -> bool:
        return self.game.next_decision is NextDecision.NOTHING

    @property
    def is_agent_to_act(self) -> bool:
        return not self.is_over and self.game.seat != self.seat

    def advance_to(self, game: Game) -> None:
        """Replace the current game with ``game``, which is the game after a decision of the person."""
        if not self.game.is_gift_due:
            self._turns.append(self.game)
        self.game = game

    def play_agent_turn(self) -> None:
        """Let the agent take its turn; an exception, an illegal turn or a late turn forfeits the game."""
        try:
            cell, gift = self.opponent.take_turn(self.game)
        except AgentFailedError as error:
            self.reason = str(error)
            self.game = self.game.with_forfeit(error.ending)
            return
        try:
            for step in _play_steps(self.game, cell, gift):
                self.game = step
        except RequestError as error:
            self.reason = f"its turn was illegal: {error}"
            self.game = self.game.with_forfeit(FORFEIT_ILLEGAL)

    def undo(self) -> bool:
        """Go back to the start of the person's last turn, and return whether there was such a turn."""
        if not self._turns:
            return False
        self.game = self._turns.pop()
        self.aids.add("undo")
        return True


def _play_steps(game: Game, cell: int, gift: int) -> Iterator[Game]:
    """Yield the game after each step of a turn.

    The steps are the placement and the gift, or a whole ply if the mover chooses the piece. A gift after the end of the
    game is ignored.
    """
    if game.next_decision is NextDecision.PLY:
        yield game.play(gift, cell)
        return
    if game.next_decision is NextDecision.PLACEMENT:
        game = game.place(cell)
        yield game
    if game.next_decision is NextDecision.GIFT:
        yield game.give(gift)


# The log.

HUMAN = "runners.play.Human"
LOCK_SECONDS = 10.0  # how long to wait while another process or thread logs a game of the same run
AID_COMBINATIONS = ((), ("hint",), ("undo",), ("hint", "undo"))  # aids that a person may have used in a game


def build_human_run_spec(rules: Rules, person_name: str, agent: AgentSpec, seat: int, seed: int) -> RunSpec:
    """Build the spec of the run for a person's games against an agent; the person has ``seat`` in all of them.

    Raises ``RequestError`` for a name that cannot be part of a label.
    """
    label = f"{PERSON_PREFIX}{person_name}"
    longest = _add_aids_to_label(label, AID_COMBINATIONS[-1])
    if not person_name.strip() or not LABEL.fullmatch(longest):
        raise RequestError(
            f"name {person_name!r} is not a printable text of at most {200 - len(longest) + len(person_name)} "
            "characters"
        )
    pairing = (0, 1) if seat == 0 else (1, 0)
    return RunSpec(rules, (AgentSpec(label, HUMAN, {}), agent), (pairing,), seed, opening_plies=0, seats="fixed")


def _add_aids_to_label(label: str, aids: Collection[str]) -> str:
    return f"{label}({','.join(sorted(aids))})" if aids else label


def build_block(game: Game, game_number: int) -> Block:
    """Build a block that holds one finished game, for the archive. Raises ``ValueError`` if the game is not over."""
    if game.ending is None:
        raise ValueError("the game is not over")
    return Block(0, game_number, 0, build_game(game.plies, game.winner, game.ending), swapped=False)


class LogEntry(NamedTuple):
    """The run and the number under which a game is logged in its archive."""

    run_id: str
    game_number: int


class Logbook:
    """The log of a person's games in one run; if that run was begun by different code, the games go to a new run."""

    def __init__(self, archive: ArchiveStore, spec: RunSpec, agent: Agent, command: str) -> None:
        self._archive = archive
        self.root = archive.root
        self._code = build_code_record(spec, [None, agent])  # the person comes first
        self._command = command
        stored_run = archive.find_run(spec.run_id)
        has_other_code = stored_run is not None and describe_code_differences(stored_run, self._code)
        self.spec = replace(spec, salt=self._code["fingerprint"]) if has_other_code else spec

    def find_first_number_free_in_all_runs(self) -> int:
        """Return the first game number that is free in this run and in the runs of games in which the person used aids.

        Aids are hints and undo. A number is used only once in all these runs, so that no random stream is used twice.
        """
        runs = (self.build_aided_spec(aids).run_id for aids in AID_COMBINATIONS)
        used_ranges = merge_ranges(
            used_range for run_id in runs for used_range in self._archive.list_effective_ranges(run_id).covered_ranges
        )
        return list_gaps(used_ranges, MAX_PAIRS)[0][0]

    def build_aided_spec(self, aids: Collection[str]) -> RunSpec:
        """Build the spec of the run for games in which the person used ``aids``."""
        human, agent = self.spec.agents
        return replace(self.spec, agents=(replace(human, label=_add_aids_to_label(human.label, aids)), agent))

    def log_game(self, game: Game, game_number: int, seconds: float, aids: Collection[str] = ()) -> LogEntry:
        """Log and index a finished game.

        The game gets ``game_number``, or the next free number if another process has used that number meanwhile. It is
        indexed at once, because queries about positions are complete only if all games are indexed.

        Args:
            game: The finished game.
            game_number: The number that the game got when it was prepared.
            seconds: The duration of the game.
            aids: The aids that the person used, one of ``AID_COMBINATIONS``.

        Returns:
            The run and the number under which the game is logged.

        Raises:
            FailureError: The archive cannot be written to.
            RequestError: Another process keeps the run locked.

        """
        started = time.perf_counter()
        spec = self.build_aided_spec(aids)
        try:
            with self._archive.lock_run(self.spec.run_id, LOCK_SECONDS):  # runs with help share its numbers
                runs = (self.build_aided_spec(aid_combination).run_id for aid_combination in AID_COMBINATIONS)
                if any(
                    self._archive.list_effective_ranges(run_id).find_range(game_number) is not None for run_id in runs
                ):
                    game_number = self.find_first_number_free_in_all_runs()
                save_run_start(self._archive, spec, self._code, game_number + 1, self._command)
                span, block = (game_number, game_number + 1), build_block(game, game_number)
                write_game_tables(self._archive, spec.run_id, spec.unit_line, spec.pairing_labels, span, [block])
        finally:
            with suppress(ArenaError):  # the error of writing is the one to report
                record_status_and_seconds(self._archive, spec, seconds + time.perf_counter() - started)
        self._index_run(spec.run_id)
        return LogEntry(spec.run_id, game_number)

    def _index_run(self, run_id: str) -> None:
        """Index the games of a run; if that fails, only warn, because the games are logged and can be indexed later."""
        from analytics.tables.derived.indexing import index_runs  # imported late: an unfinished game does not need it

        try:
            index_runs(ArchiveStore.open(self.root), [run_id])
        except ArenaError as error:
            command = self._archive.format_command("archive index")
            logger.warning("the game is logged but not indexed (%s): run %s", error, command)


@dataclass(frozen=True)
class PreparedGame:
    """A game that is ready to begin: its players, its run, and its number in that run."""

    spec: RunSpec
    seat: int  # the person's
    opponent: AgentOpponent
    logbook: Logbook | None  # None: the game is not logged
    number: int  # of the game in its run; the agent's randomness depends on it

    def start_session_before_first_gift(self) -> Session:
        """Return a session at the beginning of the game, before any gift."""
        return Session(self.spec.rules, self.seat, self.opponent)


def prepare_game(
    spec: RunSpec,
    seat: int,
    agent_and_guard: tuple[Agent, GuardedAgent],
    archive_root: PurePath | None,
    command: str,
    game_number: int | None = None,
) -> PreparedGame:
    """Prepare a game of the run ``spec``.

    Args:
        spec: The spec of the run, as ``build_human_run_spec`` builds it.
        seat: The person's seat.
        agent_and_guard: The opponent, and the guarded agent that requests its turns.
        archive_root: The archive in which the game will be logged; it is created if it does not exist. None if the game
            is not logged.
        command: The command that the run's record names.
        game_number: The number of a game that began earlier or is not logged; None means the next free number.

    Raises:
        RequestError: The archive cannot be opened, or the number is beyond the next free one.

    """
    agent, guarded = agent_and_guard
    stream_key = run_id_to_stream_key(spec.run_id)
    if archive_root is None:
        return PreparedGame(spec, seat, AgentOpponent(guarded, stream_key, game_number or 0), None, game_number or 0)
    logbook = Logbook(ArchiveStore.open(archive_root, create=True), spec, agent, command)
    next_number = logbook.find_first_number_free_in_all_runs()
    number = next_number if game_number is None else game_number
    if number > next_number:
        raise RequestError(f"game {number} was never begun here: the next one is number {next_number}")
    return PreparedGame(spec, seat, AgentOpponent(guarded, stream_key, number), logbook, number)


def format_aids(aids: Collection[str]) -> str:
    """Format the aids in words, as in ``hints and undo``."""
    return " and ".join("hints" if aid == "hint" else aid for aid in sorted(aids))


def format_plies_sql(run_id: str, game_number: int) -> str:
    """Format an SQL query that returns the plies of a logged game."""
    game = f"run_id = '{run_id}' AND game_id = {first_game_id(0, game_number)}"
    return f"SELECT ply, seat, piece, cell FROM plies WHERE {game} ORDER BY ply"  # noqa: S608  (to be typed)
