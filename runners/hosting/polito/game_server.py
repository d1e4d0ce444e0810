"""The child's side: live games of a player, see ``runners.hosting.polito.player``.

This and what it imports need the standard library of Python 3.7 only. It serves the player's own interpreter and ours.
What the player unpickles by itself, it unpickles here and nowhere else.
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
from typing import Any

from quarto.errors import RequestError, format_error, to_error_details
from runners.hosting.polito.live_game import NONE, AnswerChecker, LiveGame
from runners.hosting.polito.player_factory import (
    PlayerFactory,
    list_player_modules,
    load_player_factory,
    simulate_main_in_folder,
)
from runners.hosting.polito.randomness import StreamPool, patch_random_returning_state_factory
from runners.hosting.subprocess_program import Message, RequestHandler

# A position that a player is asked about, and whose it is: fields and their formats, as ``struct`` and NumPy name them.
QUESTION_FORMATS = {
    "slot": "<I",  # of its game
    "seed": "<Q",  # of this turn: that of a game's first turn seeds the game
    "lanes": "<Q",  # the pieces on the board: bit 16 a + c is set if the piece on cell c has attribute a
    "occupied": "<H",
    "hand": "<b",  # -1: the first piece is asked for
}
SLOT_FORMAT = "<I"
ANSWER_FORMAT = "b"  # cells, then gifts, [B] each

# What child and run share in memory, int64 each.
QUESTION_INDEX, TURN_START, SHARED_WORDS = (
    0,
    1,
    2,
)  # the question's index; since when (time.monotonic_ns()), 0: it is not timed
QUICK_SECONDS = 0.2  # a player that is made faster is made twice, to see what it takes without its imports
GC_THRESHOLD = 10_000  # new objects before garbage is looked for: live games are not garbage
TRIAL_SECONDS = 2.0  # after which a trial game is ended: a slow player begins soon all the same
MAX_OUTPUT_BYTES = 100_000  # of a player's output


class OutOfTimeError(BaseException):
    """Raised within a turn that takes too long: not an ``Exception``, which a player might catch."""


class LiveGames:
    """The live games of this process."""

    def __init__(
        self,
        player_factory: PlayerFactory,
        answer_checker: AnswerChecker,
        streams: StreamPool,
        setup: dict[str, Any],
        shared: memoryview,
    ) -> None:
        self._loaded = player_factory
        self._answers = answer_checker
        self._limit = None if setup["turn_seconds"] is None else int(setup["turn_seconds"] * 1e9)
        self._reused: tuple[Any, Any] | None = None
        self._reuse: bool = setup["reuse"]
        self._shared = shared
        self._streams = streams
        self._games: dict[int, LiveGame] = {}
        self._failed: list[dict[str, Any]] = []

    def measure_game_bytes(self) -> int:
        """Make a player, and return the bytes that a further live game takes. Raises what the player raises."""
        started, before = time.monotonic(), _read_resident_bytes()
        self._begin_game(0, 0, 0)
        if not self._reuse and time.monotonic() - started < QUICK_SECONDS:
            before = _read_resident_bytes()
            self._begin_game(1, 0, 0)
        growth = _read_resident_bytes() - before
        self.end_all_games()
        return growth

    def find_trial_fault(self) -> str:
        """Play a game in seat 0; the message on an attribute that the game lacks, or nothing."""
        live, hand = self._begin_game(0, 0, 0), NONE
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
        except BaseException as error:  # noqa: BLE001  (any other is told in the game that it ends)
            advice = self._loaded.describe_missing_attribute(error)
            return advice and f"{format_error(error)}{advice}"
        return ""

    def end_all_games(self) -> None:
        """Begin new games."""
        for live in self._games.values():
            self._streams.release(live.streams)
        self._games.clear()

    def take_turns(self, questions: Iterable[tuple[int, ...]]) -> tuple[dict[str, Any], bytes]:
        """Remarks on the answers to questions, see ``player.Remarks``, and these themselves, see ``ANSWER``."""
        cells, gifts = [], []
        self._failed = []
        for i, question in enumerate(questions):
            self._shared[QUESTION_INDEX] = i
            cell, gift = self._take_turn(i, *question)
            cells.append(cell)
            gifts.append(gift)
        return {"failed": self._failed, **self._answers.take_counts()}, array(ANSWER_FORMAT, [*cells, *gifts]).tobytes()

    def _take_turn(self, i: int, slot: int, seed: int, lanes: int, occupied: int, hand: int) -> tuple[int, int]:
        begun = 0
        try:
            pieces = bin(occupied).count("1") + (hand != NONE)  # Python 3.7 has no bit_count
            live = self._games.get(slot) or self._begin_game(slot, seed, pieces & 1)
            if self._limit is None:
                answer = live.take_turn(lanes, occupied, hand)
            else:
                begun = self._shared[TURN_START] = time.monotonic_ns()
                answer = live.take_turn(lanes, occupied, hand)
                self._shared[TURN_START] = 0
                if time.monotonic_ns() - begun > self._limit:
                    raise OutOfTimeError  # noqa: TRY301  (the same end as where it is interrupted)
            if live.is_over:
                self._end_game(slot)
        except BaseException as error:  # noqa: BLE001  (a player may raise anything)
            self._shared[TURN_START] = 0
            self._failed.append(self._build_failure(i, error, begun))
            self._end_game(slot)
            return NONE, NONE
        return answer

    def _begin_game(self, slot: int, seed: int, seat: int) -> LiveGame:
        """A new live game, in place of any other if the player is reused."""
        if self._reuse:
            self.end_all_games()
        streams = self._streams.acquire(seed)
        if self._reused is None:
            game, player = self._loaded.build_game_and_player(seat)
            self._reused = (game, player) if self._reuse else None
        else:
            game, player = self._reused
            game.reset()
            self._loaded.seat_player(game, player, seat)
        self._games[slot] = LiveGame(game, player, seat, streams, self._answers)
        return self._games[slot]

    def end_games(self, slots: list[int]) -> None:
        """Begin new games in some slots; the other games go on."""
        for slot in slots:
            self._end_game(slot)

    def _end_game(self, slot: int) -> None:
        live = self._games.pop(slot, None)
        if live is not None:
            self._streams.release(live.streams)

    def interrupt_late_turn(self) -> None:
        """Raise ``OutOfTimeError`` if the turn that is being taken takes too long."""
        begun = self._shared[TURN_START]
        if begun and self._limit is not None and time.monotonic_ns() - begun >= self._limit:
            raise OutOfTimeError

    def _build_failure(self, i: int, error: BaseException, begun: int) -> dict[str, Any]:
        """The event in place of an answer; a turn that took too long did so, whatever it made of the signal."""
        late = begun and self._limit is not None and time.monotonic_ns() - begun > self._limit
        failed = asdict(to_error_details(error))
        failed["text"] += self._loaded.describe_remedy(error)
        return {"index": i, "late": bool(late) or isinstance(error, OutOfTimeError), **failed}


class OutputCapture(io.RawIOBase):
    """Keeps the first bytes that are written and drops the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MAX_OUTPUT_BYTES
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview | bytes) -> int:  # type: ignore[override]
        """Take all of ``data``, and keep what there is room for."""
        if self._left > 0:
            part = bytes(data[: self._left])
            self._left -= len(part)
            self._parts.append(part if self._left else part + b"\n(no more is kept)")
        return len(data)

    def take_text(self) -> str:
        """The text kept since the last call."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a player may have closed it or replaced it by anything
                stream.flush()
        text = b"".join(self._parts).decode(errors="backslashreplace")
        self._parts.clear()
        return text


def build_handler(setup: dict[str, Any], _: bytes) -> tuple[Message, RequestHandler]:
    """Make a player, and return the fields of ``player.PlayerFacts`` and what answers for it.

    A request is an array of ``QUESTION``. One of the value ``begin`` has no answer: it begins new games, in all slots
    or in those that it lists as ``SLOT_FORMAT``.
    """
    output = OutputCapture()
    raw: io.RawIOBase = output
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace") for _ in range(2)
    )
    question = struct.Struct("<" + "".join(each[1:] for each in QUESTION_FORMATS.values()))
    games, facts = _set_up_games_and_facts(setup)

    def handle_request(value: str | None, content: bytes) -> Message | None:
        if value == "begin":
            games.end_games(
                [slot for (slot,) in struct.iter_unpack(SLOT_FORMAT, content)]
            ) if content else games.end_all_games()
            return None
        remarks, answers = games.take_turns(question.iter_unpack(content))
        return {**remarks, "printed": output.take_text()}, answers

    return ({**facts, "printed": output.take_text()}, b""), handle_request


def _set_up_games_and_facts(setup: dict[str, Any]) -> tuple[LiveGames, dict[str, Any]]:
    shared = memoryview(mmap.mmap(setup["shared_file"], 8 * SHARED_WORDS)).cast("q")
    streams = StreamPool(patch_random_returning_state_factory())
    simulate_main_in_folder(setup["folder"])
    loaded = load_player_factory(setup)
    games = LiveGames(
        loaded,
        AnswerChecker(setup["lines"], setup["most_asks"], loaded.current_player_attribute),
        streams,
        setup,
        shared,
    )
    try:
        game_bytes = games.measure_game_bytes()
    except BaseException as error:  # a constructor may raise anything
        raise RequestError(
            f"player={setup['player']}: it cannot be made: {format_error(error)}{loaded.describe_remedy(error)}"
        ) from error
    lacks = _find_trial_fault_in_fork(games) if setup["trial"] else ""
    if lacks:
        raise RequestError(f"player={setup['player']}: it cannot play its games: {lacks}")
    if setup["turn_seconds"] is not None:
        signal.signal(signal.SIGUSR1, lambda *_: games.interrupt_late_turn())
    gc.collect()
    gc.freeze()  # what is imported stays: it need not be looked at again and again
    gc.set_threshold(GC_THRESHOLD, 10, 10)
    files = [Path(str(module.__file__)).resolve() for module in list_player_modules()]
    return games, {"game_bytes": game_bytes, "files": [str(file) for file in files if file.is_file()]}


def _find_trial_fault_in_fork(games: LiveGames) -> str:
    """What a trial game says: played by a copy of this process, so that the player learns nothing from it."""
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        os.write(writer, games.find_trial_fault().encode())
        os._exit(0)
    os.close(writer)
    answers, _, _ = select.select([reader], [], [], TRIAL_SECONDS)
    said = os.read(reader, select.PIPE_BUF) if answers else b""
    os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    os.close(reader)
    return said.decode(errors="replace")


def _read_resident_bytes() -> int:
    """The bytes of memory that this process takes, on Linux; elsewhere 0."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE
