"""The program of the process: ``python -m runners.polito.program QUESTIONS ANSWERS LIFELINE SHARED``.

The arguments are numbers of open pipes and of a file in shared memory (``contents``). The first message on QUESTIONS
says which player of which folder to make. Then each START begins new games, in all slots or in those that it lists as
uint32, and each ASKED is an array of ``contents.QUESTION``, answered by one message on ANSWERS. Nothing that is read or
written is pickled; what a player unpickles by itself, it unpickles here and nowhere else.
"""

from __future__ import annotations

import gc
import json
import mmap
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from runners.hosting.framing import (
    ANSWERED,
    FAILED,
    READY,
    START,
    belong_to_run,
    limit_memory,
    read_message,
    write_message,
)
from runners.hosting.raised_at import raised_at
from runners.polito.contents import ANSWER, ASKED_ABOUT, BEGUN, QUESTION, SHARED_WORDS
from runners.polito.live_game import NONE, Answers, LiveGame
from runners.polito.loading import Loaded, LoadError, enter, load, own_modules, told
from runners.polito.prints import swallow
from runners.polito.randomness import StreamPool, install

QUICK_SECONDS = 0.2  # a player that is made faster is made twice, to see what it takes without its imports


LIVE_OBJECTS = 10_000  # new ones after which garbage is looked for: hundreds of live games are none


class OutOfTimeError(BaseException):
    """Raised within a turn that takes too long: not an ``Exception``, which a player might catch."""


class Table:
    """The live games of this process."""

    def __init__(self, loaded: Loaded, answers: Answers, setup: dict[str, Any], shared: memoryview) -> None:
        self._loaded = loaded
        self._answers = answers
        self._limit = None if setup["turn_seconds"] is None else int(setup["turn_seconds"] * 1e9)
        self._reused: tuple[Any, Any] | None = None
        self._reuse: bool = setup["reuse"]
        self._shared = shared
        self._streams = StreamPool()
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

    def start(self) -> None:
        """Begin new games."""
        for live in self._games.values():
            self._streams.end(live.streams)
        self._games.clear()

    def answer(self, questions: list[tuple[int, ...]]) -> tuple[bytes, dict[str, Any]]:
        """The answers to questions, see ``contents.ANSWER``, and remarks on them."""
        cells, gifts = [], []
        self._failed = []
        for i, question in enumerate(questions):
            self._shared[ASKED_ABOUT] = i
            cell, gift = self._turn(i, *question)
            cells.append(cell)
            gifts.append(gift)
        return np.array([*cells, *gifts], ANSWER).tobytes(), {"failed": self._failed} | self._answers.taken()

    def _turn(self, i: int, slot: int, seed: int, lanes: int, occupied: int, hand: int) -> tuple[int, int]:
        begun = 0
        try:
            live = self._games.get(slot) or self._begin(slot, seed, (occupied.bit_count() + (hand != NONE)) & 1)
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
        return {"index": i, "late": bool(late) or isinstance(error, OutOfTimeError)} | failure(error)


def failure(error: BaseException) -> dict[str, Any]:
    """The fields of ``messages.Failed``."""
    return {
        "kind": type(error).__name__,
        "text": printable(str(error)),
        "place": raised_at(error),
        "traceback": printable("".join(traceback.format_exception(error))),
        "ours": isinstance(error, LoadError),
    }


def printable(text: str) -> str:
    """A text as UTF-8 can have it."""
    return text.encode(errors="backslashreplace").decode()


def main(questions: int, replies: int, lifeline: int, shared_file: int) -> None:
    """Answer until the questions end."""
    belong_to_run(lifeline)
    setup = json.loads(read_message(questions)[1])
    shared = memoryview(mmap.mmap(shared_file, 8 * SHARED_WORDS)).cast("q")
    kept = swallow(setup["kept_bytes"])
    try:
        table, ready = _set_up(setup, shared)
    except BaseException as error:  # noqa: BLE001  (the run tells of it)
        write_message(replies, FAILED, json.dumps(failure(error)).encode())
        return
    write_message(replies, READY, json.dumps(ready | {"printed": kept.take()}).encode())
    with suppress(EOFError):
        while True:
            kind, content = read_message(questions)
            if kind == START:
                table.restart(np.frombuffer(content, np.uint32).tolist()) if content else table.start()
            else:
                answers, remarks = table.answer(np.frombuffer(content, QUESTION).tolist())
                write_message(replies, ANSWERED, answers + json.dumps(remarks | {"printed": kept.take()}).encode())


def _set_up(setup: dict[str, Any], shared: memoryview) -> tuple[Table, dict[str, Any]]:
    """The table, and the fields of ``player.Seated``."""
    if setup["megabytes"] is not None:
        limit_memory(setup["megabytes"])
    install()
    enter(setup["folder"])
    loaded = load(setup["folder"], setup["player"], setup["kwargs"])
    table = Table(loaded, Answers(setup["lines"], setup["most_asks"], loaded.current), setup, shared)
    try:
        game_bytes = table.probe()
    except BaseException as error:  # a constructor may raise anything
        raise LoadError(f"player={setup['player']}: it cannot be made: {told(error)}") from error
    if setup["turn_seconds"] is not None:
        signal.signal(signal.SIGUSR1, lambda *_: table.interrupt())
    gc.collect()
    gc.freeze()  # what is imported stays: it need not be looked at again and again
    gc.set_threshold(LIVE_OBJECTS, 10, 10)
    files = [Path(str(module.__file__)).resolve() for module in own_modules()]
    return table, {"game_bytes": game_bytes, "files": [str(file) for file in files if file.is_file()]}


def _resident() -> int:
    """The bytes of memory that this process takes, on Linux; elsewhere 0."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
