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
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterable

from quarto.errors import RequestError, failed_by, one_line
from runners.hosting.child_program import Message, Serve
from runners.hosting.polito.live_game import NONE, Answers, LiveGame
from runners.hosting.polito.loading import Loaded, enter, load, own_modules
from runners.hosting.polito.randomness import StreamPool, install

# A position that a player is asked about, and whose it is: fields and their formats, as ``struct`` and NumPy name them.
QUESTION = {
    "slot": "<I",  # of its game
    "seed": "<Q",  # of this turn: that of a game's first turn seeds the game
    "lanes": "<Q",  # the pieces on the board: bit 16 a + c is set if the piece on cell c has attribute a
    "occupied": "<H",
    "hand": "<b",  # -1: the first piece is asked for
}
SLOT = "<I"
ANSWER = "b"  # cells, then gifts, [B] each

# What child and run share in memory, int64 each.
ASKED_ABOUT, BEGUN, SHARED_WORDS = 0, 1, 2  # the question's index; since when (time.monotonic_ns()), 0: it is not timed
QUICK_SECONDS = 0.2  # a player that is made faster is made twice, to see what it takes without its imports
LIVE_OBJECTS = 10_000  # new objects before garbage is looked for: live games are not garbage
TRIAL_SECONDS = 2.0  # after which a trial game is ended: a slow player begins soon all the same
KEPT_BYTES = 100_000  # of a player's output


class OutOfTimeError(BaseException):
    """Raised within a turn that takes too long: not an ``Exception``, which a player might catch."""


class LiveGames:
    """The live games of this process."""

    def __init__(
        self, loaded: Loaded, answers: Answers, streams: StreamPool, setup: dict[str, Any], shared: memoryview
    ) -> None:
        self._loaded = loaded
        self._answers = answers
        self._limit = None if setup["turn_seconds"] is None else int(setup["turn_seconds"] * 1e9)
        self._reused: tuple[Any, Any] | None = None
        self._reuse: bool = setup["reuse"]
        self._shared = shared
        self._streams = streams
        self._games: dict[int, LiveGame] = {}
        self._failed: list[dict[str, Any]] = []

    def probe(self) -> int:
        """Make a player, and return the bytes that a further live game takes. Raises what the player raises."""
        started, before = time.monotonic(), _resident()
        self._begin(0, 0, 0)
        if not self._reuse and time.monotonic() - started < QUICK_SECONDS:
            before = _resident()
            self._begin(1, 0, 0)
        growth = _resident() - before
        self.start()
        return growth

    def trial(self) -> str:
        """Play a game in seat 0; the message on an attribute that the game lacks, or nothing."""
        live, hand = self._begin(0, 0, 0), NONE
        board: dict[int, int] = {}
        try:
            while not live.over:
                lanes = sum((piece >> a & 1) << 16 * a + cell for cell, piece in board.items() for a in range(4))
                cell, gift = live.turn(lanes, sum(1 << cell for cell in board), hand)
                if cell != NONE:
                    board[cell] = hand
                if gift == NONE or gift in board.values():
                    break
                board[next(cell for cell in range(16) if cell not in board)] = gift
                hand = next(piece for piece in range(16) if piece not in board.values())
        except BaseException as error:  # noqa: BLE001  (any other is told in the game that it ends)
            advice = self._loaded.lacking(error)
            return advice and f"{one_line(error)}{advice}"
        return ""

    def start(self) -> None:
        """Begin new games."""
        for live in self._games.values():
            self._streams.end(live.streams)
        self._games.clear()

    def answer(self, questions: Iterable[tuple[int, ...]]) -> tuple[dict[str, Any], bytes]:
        """Remarks on the answers to questions, see ``player.Remarks``, and these themselves, see ``ANSWER``."""
        cells, gifts = [], []
        self._failed = []
        for i, question in enumerate(questions):
            self._shared[ASKED_ABOUT] = i
            cell, gift = self._turn(i, *question)
            cells.append(cell)
            gifts.append(gift)
        return {"failed": self._failed, **self._answers.taken()}, array(ANSWER, [*cells, *gifts]).tobytes()

    def _turn(self, i: int, slot: int, seed: int, lanes: int, occupied: int, hand: int) -> tuple[int, int]:
        begun = 0
        try:
            live = self._games.get(slot) or self._begin(slot, seed, (bin(occupied).count("1") + (hand != NONE)) & 1)
            if self._limit is None:
                answer = live.turn(lanes, occupied, hand)
            else:
                begun = self._shared[BEGUN] = time.monotonic_ns()
                answer = live.turn(lanes, occupied, hand)
                self._shared[BEGUN] = 0
                if time.monotonic_ns() - begun > self._limit:
                    raise OutOfTimeError  # noqa: TRY301  (the same end as where it is interrupted)
            if live.over:
                self._end(slot)
        except BaseException as error:  # noqa: BLE001  (a player may raise anything)
            self._shared[BEGUN] = 0
            self._failed.append(self._failure(i, error, begun))
            self._end(slot)
            return NONE, NONE
        return answer

    def _begin(self, slot: int, seed: int, seat: int) -> LiveGame:
        """A new live game, in place of any other if the player is reused."""
        if self._reuse:
            self.start()
        streams = self._streams.begin(seed)
        if self._reused is None:
            game, player = self._loaded.begin(seat)
            self._reused = (game, player) if self._reuse else None
        else:
            game, player = self._reused
            game.reset()
            self._loaded.seat(game, player, seat)
        self._games[slot] = LiveGame(game, player, seat, streams, self._answers)
        return self._games[slot]

    def restart(self, slots: list[int]) -> None:
        """Begin new games in some slots; the other games go on."""
        for slot in slots:
            self._end(slot)

    def _end(self, slot: int) -> None:
        live = self._games.pop(slot, None)
        if live is not None:
            self._streams.end(live.streams)

    def interrupt(self) -> None:
        """Raise ``OutOfTimeError`` if the turn that is being taken takes too long."""
        begun = self._shared[BEGUN]
        if begun and self._limit is not None and time.monotonic_ns() - begun >= self._limit:
            raise OutOfTimeError

    def _failure(self, i: int, error: BaseException, begun: int) -> dict[str, Any]:
        """The event in place of an answer; a turn that took too long did so, whatever it made of the signal."""
        late = begun and self._limit is not None and time.monotonic_ns() - begun > self._limit
        failed = asdict(failed_by(error))
        failed["text"] += self._loaded.advice(error)
        return {"index": i, "late": bool(late) or isinstance(error, OutOfTimeError), **failed}


class KeptOutput(io.RawIOBase):
    """Keeps the first bytes that are written and drops the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._left = KEPT_BYTES
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

    def take(self) -> str:
        """The text kept since the last call."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a player may have closed it or replaced it by anything
                stream.flush()
        text = b"".join(self._parts).decode(errors="backslashreplace")
        self._parts.clear()
        return text


def serve(setup: dict[str, Any], _: bytes) -> tuple[Message, Serve]:
    """Make a player, and return the fields of ``player.PlayerFacts`` and what answers for it.

    A request is an array of ``QUESTION``. One of the value ``begin`` has no answer: it begins new games, in all slots
    or in those that it lists as ``SLOT``.
    """
    output = KeptOutput()
    raw: io.RawIOBase = output
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace") for _ in range(2)
    )
    question = struct.Struct("<" + "".join(each[1:] for each in QUESTION.values()))
    games, facts = _set_up(setup)

    def answer(value: str | None, content: bytes) -> Message | None:
        if value == "begin":
            games.restart([slot for (slot,) in struct.iter_unpack(SLOT, content)]) if content else games.start()
            return None
        remarks, answers = games.answer(question.iter_unpack(content))
        return {**remarks, "printed": output.take()}, answers

    return ({**facts, "printed": output.take()}, b""), answer


def _set_up(setup: dict[str, Any]) -> tuple[LiveGames, dict[str, Any]]:
    shared = memoryview(mmap.mmap(setup["shared_file"], 8 * SHARED_WORDS)).cast("q")
    streams = StreamPool(install())
    enter(setup["folder"])
    loaded = load(setup)
    games = LiveGames(loaded, Answers(setup["lines"], setup["most_asks"], loaded.current), streams, setup, shared)
    try:
        game_bytes = games.probe()
    except BaseException as error:  # a constructor may raise anything
        raise RequestError(
            f"player={setup['player']}: it cannot be made: {one_line(error)}{loaded.advice(error)}"
        ) from error
    lacks = _tried(games) if setup["trial"] else ""
    if lacks:
        raise RequestError(f"player={setup['player']}: it cannot play its games: {lacks}")
    if setup["turn_seconds"] is not None:
        signal.signal(signal.SIGUSR1, lambda *_: games.interrupt())
    gc.collect()
    gc.freeze()  # what is imported stays: it need not be looked at again and again
    gc.set_threshold(LIVE_OBJECTS, 10, 10)
    files = [Path(str(module.__file__)).resolve() for module in own_modules()]
    return games, {"game_bytes": game_bytes, "files": [str(file) for file in files if file.is_file()]}


def _tried(games: LiveGames) -> str:
    """What a trial game says: played by a copy of this process, so that the player learns nothing from it."""
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        os.write(writer, games.trial().encode())
        os._exit(0)
    os.close(writer)
    answers, _, _ = select.select([reader], [], [], TRIAL_SECONDS)
    said = os.read(reader, select.PIPE_BUF) if answers else b""
    os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    os.close(reader)
    return said.decode(errors="replace")


def _resident() -> int:
    """The bytes of memory that this process takes, on Linux; elsewhere 0."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE
