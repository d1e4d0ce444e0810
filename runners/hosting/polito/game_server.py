"""The subprocess side of a Politecnico player: its live games, see ``runners.hosting.polito.player``.

This module and those that it imports need only the standard library of Python 3.7, because they run in the player's own
interpreter too. What the player unpickles by itself, it unpickles here and nowhere else.
"""

from __future__ import annotations

import gc
import io
import mmap
import os
import select
import signal
import struct
import sys
import time
from array import array
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from quarto.errors import RequestError, format_error_with_location, to_error_details
from runners.hosting.polito.live_game import NONE, AnswerChecker, LiveGame
from runners.hosting.polito.player_factory import (
    PlayerFactory,
    list_player_modules,
    load_player_factory,
    simulate_main_in_folder,
)
from runners.hosting.polito.randomness import StreamPool, patch_random_returning_state_factory
from runners.hosting.subprocess_program import Handler, Message

# A request for a turn in one position: its fields and their formats, as ``struct`` and NumPy name them.
QUESTION_FORMATS = {
    "slot": "<I",  # number of the game
    "seed": "<Q",  # of this turn; the seed of a game's first turn seeds the whole game
    "lanes": "<Q",  # the pieces on the board: bit 16 a + c is set if the piece on cell c has attribute a
    "occupied": "<H",
    "hand": "<b",  # -1 for the request of the first gift
}
SLOT_FORMAT = "<I"
ANSWER_FORMAT = "b"  # cells, then gifts, [B] each

# Indices of the int64 words that subprocess and run share in memory: the index of the current question; the start of
# the current turn by time.monotonic_ns(), or 0 while no turn is timed. Then the number of words.
QUESTION_INDEX, TURN_START, SHARED_WORDS = 0, 1, 2
QUICK_SECONDS = 0.2  # a player that is built faster is built twice, to measure its memory without its imports
GC_THRESHOLD = 10_000  # new objects before garbage is collected; many, because live games are not garbage
TRIAL_SECONDS = 2.0  # time after which a trial game is ended, so that a slow player begins soon
MAX_OUTPUT_BYTES = 100_000  # size of a player's output that is kept


class OutOfTimeError(BaseException):
    """The exception that interrupts a turn that takes too long.

    It is not an ``Exception``, because a player might catch that.
    """


class TurnAnswers(NamedTuple):
    """The answers to several requests for turns.

    ``remarks`` has the fields of ``player.Remarks`` except ``printed``. ``turns`` holds all cells and then all gifts,
    each in the format ``ANSWER_FORMAT``.
    """

    remarks: dict[str, Any]
    turns: bytes


class LiveGames:
    """The games that this process is playing for one player."""

    def __init__(
        self,
        player_factory: PlayerFactory,
        answer_checker: AnswerChecker,
        streams: StreamPool,
        setup: dict[str, Any],
        shared: memoryview,
    ) -> None:
        self._player_factory = player_factory
        self._answer_checker = answer_checker
        self._turn_nanoseconds = None if setup["turn_seconds"] is None else int(setup["turn_seconds"] * 1e9)
        self._reused_pair: tuple[Any, Any] | None = None
        self._reuse: bool = setup["reuse"]
        self._shared = shared
        self._streams = streams
        self._games: dict[int, LiveGame] = {}
        self._failures: list[dict[str, Any]] = []

    def measure_game_bytes(self) -> int:
        """Build a player, and return how many bytes of memory each further live game takes.

        Raises what the player raises.
        """
        started, bytes_before = time.monotonic(), _read_resident_bytes()
        self._begin_game_ending_others_if_reused(0, 0, 0)
        if not self._reuse and time.monotonic() - started < QUICK_SECONDS:
            bytes_before = _read_resident_bytes()
            self._begin_game_ending_others_if_reused(1, 0, 0)
        growth = _read_resident_bytes() - bytes_before
        self.end_all_games()
        return growth

    def find_missing_attribute_in_trial_game(self) -> str:
        """Play a trial game in seat 0, and name the Python attribute that the player needs but its game object lacks.

        Returns "" if no attribute is missing. All other errors are ignored here, because they are reported in the games
        that they end.
        """
        live, hand = self._begin_game_ending_others_if_reused(0, 0, 0), NONE
        board: dict[int, int] = {}
        try:
            while not live.is_over:
                lanes = sum((piece >> a & 1) << 16 * a + cell for cell, piece in board.items() for a in range(4))
                cell, gift = live.take_turn(lanes, sum(1 << cell for cell in board), hand)
                if cell != NONE:
                    board[cell] = hand
                if gift == NONE or gift in board.values():
                    break
                board[next(cell for cell in range(16) if cell not in board)] = gift
                hand = next(piece for piece in range(16) if piece not in board.values())
        except BaseException as error:  # noqa: BLE001  (other errors are reported in the games that they end)
            advice = self._player_factory.describe_missing_game_attribute(error)
            return advice and f"{format_error_with_location(error)}{advice}"
        return ""

    def end_all_games(self) -> None:
        """End all games. New games then begin in their slots."""
        for live in self._games.values():
            self._streams.release(live.streams)
        self._games.clear()

    def take_turns(self, questions: Iterable[tuple[int, ...]]) -> TurnAnswers:
        """Ask the player for the turn in the position of each question, in order.

        ``QUESTION_FORMATS`` defines the fields of a question. If a turn fails, both its cell and its gift are NONE, and
        the remarks describe the failure.
        """
        cells, gifts = [], []
        self._failures = []
        for i, question in enumerate(questions):
            self._shared[QUESTION_INDEX] = i
            cell, gift = self._take_turn(i, *question)
            cells.append(cell)
            gifts.append(gift)
        remarks = {"failed": self._failures, **self._answer_checker.take_counts()}
        return TurnAnswers(remarks, array(ANSWER_FORMAT, [*cells, *gifts]).tobytes())

    def _take_turn(self, i: int, slot: int, seed: int, lanes: int, occupied: int, hand: int) -> tuple[int, int]:
        turn_start = 0
        try:
            pieces = bin(occupied).count("1") + (hand != NONE)  # Python 3.7 has no bit_count
            live = self._games.get(slot) or self._begin_game_ending_others_if_reused(slot, seed, pieces & 1)
            if self._turn_nanoseconds is None:
                answer = live.take_turn(lanes, occupied, hand)
            else:
                turn_start = self._shared[TURN_START] = time.monotonic_ns()
                answer = live.take_turn(lanes, occupied, hand)
                self._shared[TURN_START] = 0
                if time.monotonic_ns() - turn_start > self._turn_nanoseconds:
                    raise OutOfTimeError  # noqa: TRY301  (handled like an interruption)
            if live.is_over:
                self._discard_game(slot)
        except BaseException as error:  # noqa: BLE001  (a player may raise anything)
            self._shared[TURN_START] = 0
            self._failures.append(self._build_failure_with_lateness(i, error, turn_start))
            self._discard_game(slot)
            return NONE, NONE
        return answer

    def _begin_game_ending_others_if_reused(self, slot: int, seed: int, seat: int) -> LiveGame:
        """Begin a live game in a slot. If the player is reused, its other games are ended first."""
        if self._reuse:
            self.end_all_games()
        streams = self._streams.acquire(seed)
        if self._reused_pair is None:
            game, player = self._player_factory.build_game_and_player(seat)
            self._reused_pair = (game, player) if self._reuse else None
        else:
            game, player = self._reused_pair
            game.reset()
            self._player_factory.seat_player(game, player, seat)
        self._games[slot] = LiveGame(game, player, seat, streams, self._answer_checker)
        return self._games[slot]

    def end_games(self, slots: list[int]) -> None:
        """End the games in ``slots``, so that new games begin there. All other games go on."""
        for slot in slots:
            self._discard_game(slot)

    def _discard_game(self, slot: int) -> None:
        live = self._games.pop(slot, None)
        if live is not None:
            self._streams.release(live.streams)

    def interrupt_late_turn(self) -> None:
        """Raise ``OutOfTimeError`` if the turn in progress takes too long."""
        turn_start = self._shared[TURN_START]
        if (
            turn_start
            and self._turn_nanoseconds is not None
            and time.monotonic_ns() - turn_start >= self._turn_nanoseconds
        ):
            raise OutOfTimeError

    def _build_failure_with_lateness(self, i: int, error: BaseException, turn_start: int) -> dict[str, Any]:
        """Build the fields of ``player.GameFailure`` for question ``i``, which ended with ``error`` instead of a turn.

        The failure counts as a late turn if the turn took too long, whatever ``error`` is. ``turn_start`` is in
        nanoseconds, or 0 if the turn was not timed.
        """
        is_late = (
            turn_start
            and self._turn_nanoseconds is not None
            and time.monotonic_ns() - turn_start > self._turn_nanoseconds
        )
        failure = asdict(to_error_details(error))
        failure["text"] += self._player_factory.describe_missing_library_or_attribute(error)
        return {"index": i, "late": bool(is_late) or isinstance(error, OutOfTimeError), **failure}


class OutputCapture(io.RawIOBase):
    """A stream that keeps the first bytes written to it and drops the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._remaining_bytes = MAX_OUTPUT_BYTES
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview | bytes) -> int:  # type: ignore[override]
        """Accept all of ``data``, but keep only what fits within the limit. Return the length of ``data``."""
        if self._remaining_bytes > 0:
            chunk = bytes(data[: self._remaining_bytes])
            self._remaining_bytes -= len(chunk)
            self._chunks.append(chunk if self._remaining_bytes else chunk + b"\n(no more is kept)")
        return len(data)

    def take_text(self) -> str:
        """Return the text that was captured since the last call."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a player may have closed it or replaced it by anything
                stream.flush()
        text = b"".join(self._chunks).decode(errors="backslashreplace")
        self._chunks.clear()
        return text


def build_handler(setup: dict[str, Any], _: bytes) -> Handler:
    """Build a player in this subprocess, and return a function that handles requests for its turns.

    The first response has the fields of ``player.PlayerFacts``. A request is an array of questions with the fields of
    ``QUESTION_FORMATS``. A request with the value ``begin`` begins new games in the slots that it lists in
    ``SLOT_FORMAT``, or in all slots if it lists none; it has no response.
    """
    output = OutputCapture()
    raw_output: io.RawIOBase = output
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(raw_output), encoding="utf-8", errors="backslashreplace") for _ in range(2)
    )
    question_format = struct.Struct("<" + "".join(field_format[1:] for field_format in QUESTION_FORMATS.values()))
    games, facts = _set_up_games_and_facts(setup)

    def begin_games_or_answer_questions(value: str | None, content: bytes) -> Message | None:
        if value == "begin":
            games.end_games(
                [slot for (slot,) in struct.iter_unpack(SLOT_FORMAT, content)]
            ) if content else games.end_all_games()
            return None
        remarks, answers = games.take_turns(question_format.iter_unpack(content))
        return {**remarks, "printed": output.take_text()}, answers

    return Handler(({**facts, "printed": output.take_text()}, b""), begin_games_or_answer_questions)


def _set_up_games_and_facts(setup: dict[str, Any]) -> tuple[LiveGames, dict[str, Any]]:
    shared_words = memoryview(mmap.mmap(setup["shared_file"], 8 * SHARED_WORDS)).cast("q")
    streams = StreamPool(patch_random_returning_state_factory())
    simulate_main_in_folder(setup["folder"])
    player_factory = load_player_factory(setup)
    games = LiveGames(
        player_factory,
        AnswerChecker(setup["lines"], setup["most_asks"], player_factory.current_player_attribute),
        streams,
        setup,
        shared_words,
    )
    try:
        game_bytes = games.measure_game_bytes()
    except BaseException as error:  # a constructor may raise anything
        raise RequestError(
            f"player={setup['player']}: it cannot be made: {format_error_with_location(error)}"
            f"{player_factory.describe_missing_library_or_attribute(error)}"
        ) from error
    trial_fault = _find_trial_fault_in_fork(games) if setup["trial"] else ""
    if trial_fault:
        raise RequestError(f"player={setup['player']}: it cannot play its games: {trial_fault}")
    if setup["turn_seconds"] is not None:
        signal.signal(signal.SIGUSR1, lambda *_: games.interrupt_late_turn())
    gc.collect()
    gc.freeze()  # imported modules stay, so collections need not visit them
    gc.set_threshold(GC_THRESHOLD, 10, 10)
    files = [Path(str(module.__file__)).resolve() for module in list_player_modules()]
    return games, {"game_bytes": game_bytes, "files": [str(file) for file in files if file.is_file()]}


def _find_trial_fault_in_fork(games: LiveGames) -> str:
    """Play a trial game in a fork of this process, and return its fault, or "" if it has none.

    The fork keeps the player in this process from learning anything in the trial game. A game that takes longer than
    ``TRIAL_SECONDS`` is ended, and counts as faultless.
    """
    reader, writer = os.pipe()
    fork_pid = os.fork()
    if not fork_pid:
        os.write(writer, games.find_missing_attribute_in_trial_game().encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], TRIAL_SECONDS)
    message = os.read(reader, select.PIPE_BUF) if ready else b""
    os.kill(fork_pid, signal.SIGKILL)
    os.waitpid(fork_pid, 0)
    os.close(reader)
    return message.decode(errors="replace")


def _read_resident_bytes() -> int:
    """Return how many bytes of memory this process takes, on Linux; return 0 elsewhere."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE
