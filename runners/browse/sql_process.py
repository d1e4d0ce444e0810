"""The program that answers strangers' questions: ``python -m runners.browse.sql_process QUESTIONS ANSWERS LIFELINE``.

The arguments are numbers of open pipes. SETUP, in JSON, says which archive and within which limits. ASKED is a question
in SQL: READY says that the archive is open and the time begins, then come ANSWERED with the rows in Arrow's format, or
FAILED with one line. DuckDB interrupts most questions at the time limit; whoever started the process ends it if not.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import PurePath
from typing import Any

from runners.hosting.framing import (
    ANSWERED,
    ASKED,
    FAILED,
    READY,
    SETUP,
    belong_to_run,
    limit_memory,
    read_message,
    write_message,
)

NICENESS = 5  # pages come first


class Answering:
    """An archive that is opened for questions, and opened again when it has changed."""

    def __init__(self, setup: dict[str, Any]) -> None:
        from analytics.files.location import location_of
        from analytics.sql.limits import Limits

        self._root: PurePath = location_of(setup["archive"])
        self._limits = Limits(setup["memory"], setup["spill"], setup["seconds"], options=False)
        self._rows, self._bytes = int(setup["rows"]), int(setup["bytes"])
        self._stamp: object = None
        self._opened: Any = None

    def open(self) -> None:
        """Open the archive, or open it again if it has changed. Raises ``RequestError`` and ``FailureError``."""
        from analytics.sql.database import OpenArchive
        from runners.browse.library import stamp_of

        stamp = stamp_of(self._root)
        if self._opened is None:
            self._opened = OpenArchive(self._root, self._limits, vocabulary_only=True)
        elif stamp != self._stamp:
            self._opened.refresh()
        else:
            return
        self._opened.first("SELECT run_id FROM games LIMIT 0", 1)  # its views are made now, not in a question's time
        self._stamp = stamp

    def answer(self, question: str) -> bytes:
        """The first rows of an answer, in Arrow's format. Raises ``RequestError`` and ``FailureError``."""
        from quarto.errors import RequestError

        found = self._opened.first(question, self._rows + 1)
        content = io.BytesIO()
        found.write_ipc(content)  # not compressed: whoever reads it must not need more memory than it has bytes
        if content.tell() > self._bytes:
            raise RequestError(
                f"SQL: the answer is larger than {self._bytes / 1e6:g} MB: ask for fewer columns or rows"
            )
        return content.getvalue()


def main(questions: int, replies: int, lifeline: int) -> None:
    """Answer questions until they end."""
    belong_to_run(lifeline)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    kind, content = read_message(questions)
    assert kind == SETUP  # noqa: S101  (the protocol)
    setup = json.loads(content)
    answering = Answering(setup)
    limited = False
    while True:
        try:
            kind, content = read_message(questions)
        except EOFError:
            os._exit(0)
        assert kind == ASKED  # noqa: S101  (the protocol)
        if not limited and sys.platform == "linux":
            limit_memory(setup["megabytes"])
            limited = True
        kind, content = _answered(answering, content.decode(), replies)
        write_message(replies, kind, content)


def _answered(answering: Answering, question: str, replies: int) -> tuple[int, bytes]:
    """The message that answers a question."""
    from quarto.errors import ArenaError, RequestError

    try:
        answering.open()
        write_message(replies, READY, b"")
        return ANSWERED, answering.answer(question)
    except ArenaError as error:
        return FAILED, json.dumps({"wrong": isinstance(error, RequestError), "line": str(error)}).encode()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
