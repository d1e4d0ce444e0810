"""SQL queries from untrusted visitors: a subprocess answers each one within limits and can be ended at any time.

DuckDB's own limits are not enough for a page that anybody may use: ``len(range(1000000000))`` took 8 GB where 256 MB
were allowed, and ``levenshtein`` of two long texts went on for 84 seconds after DuckDB was told to stop. So the
system limits the address space of the subprocess, and the subprocess is ended when its time is up; another one
starts at once. ``analytics.questions.sql.vocabulary`` decides what a query may read.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from queue import Empty, LifoQueue
from typing import Any

import polars as pl

from agents.base.agent import TurnTimeoutError
from analytics.questions.columns import Cell, ResultColumn, Table, format_significant
from analytics.questions.sql.connection import ScratchFolder
from analytics.report.text_tables import format_value_or_dot
from analytics.store.records import RUN_ID
from quarto.errors import FailureError, RemoteError, RequestError
from quarto.notation import parse_position
from runners.hosting.subprocess_client import Subprocess, SubprocessDiedError
from runners.hosting.subprocesses import Limits
from runners.web.archive import urls
from runners.web.archive.snapshots import BusyError

PROCESS_TARGET = "runners.web.archive.sql_process:build_handler"
MAX_ERROR_BYTES = 1 << 20  # of an error message, such as a traceback
GRACE_SECONDS = 0.5  # after DuckDB should have interrupted a query, before its process is ended
OPEN_SECONDS = 120.0  # that opening the archive may take
MAX_QUESTION_CHARACTERS = 20_000
MAX_ROWS = 200  # on a page; the CSV file has all rows
MAX_COLUMNS = 40
MAX_CELL_LETTERS = 120
MAX_CELLS = 2_400  # on a page


@dataclass(frozen=True)
class QuestionLimits:
    """The limits of each SQL query, and of all queries together."""

    rows: int = 10_000
    bytes: int = 32_000_000  # of an answer
    seconds: float = 10.0
    memory: str = "512MiB"  # for DuckDB, and below for its temporary files
    spill: str = "1GiB"
    megabytes: int = 2_048  # of address space for the process, in addition to what its imports take
    processes: int = 2  # queries that can be answered at the same time
    waiting_seconds: float = 30.0  # for a free process, after which a query is refused


class SqlAnswer:
    """The answer to an SQL query: at most ``max_rows`` of its rows, and whether rows were left out."""

    def __init__(self, frame: pl.DataFrame, max_rows: int) -> None:
        self.cut = frame.height > max_rows  # rows were left out
        self.frame = frame.head(max_rows)


class SqlProcessPool:
    """A pool of subprocesses that answer SQL queries about one archive.

    Several threads may use the pool at once.
    """

    def __init__(self, archive_root: PurePath, limits: QuestionLimits | None = None) -> None:
        self._archive = archive_root
        self.limits = limits or QuestionLimits()
        self._closed = False
        self._slots: LifoQueue[_ProcessSlot] = (
            LifoQueue()
        )  # last in, first out: the slot used last has its archive open
        self._all = [_ProcessSlot() for _ in range(self.limits.processes)]
        for slot in self._all:
            self._slots.put(slot)

    def request_answer(self, question: str) -> SqlAnswer:
        """Run an SQL query in a subprocess, and return the answer.

        Raises ``RequestError`` if the query is not allowed, is invalid or exceeds a limit; ``FailureError`` if the
        archive is damaged; and ``BusyError`` if no process becomes free in time.
        """
        if not question.strip():
            raise RequestError("SQL: there is no question: write a SELECT, or take one of the questions below")
        if "\0" in question:
            raise RequestError("SQL: the question holds the character with number 0: leave it out")
        if len(question) > MAX_QUESTION_CHARACTERS:
            raise RequestError(
                f"SQL: the question has {len(question):,} characters, more than {MAX_QUESTION_CHARACTERS:,}"
            )
        try:
            slot = self._slots.get(timeout=self.limits.waiting_seconds)
        except Empty:
            raise BusyError("the server is answering other SQL queries: try again in a moment") from None
        try:
            return SqlAnswer(self._request_frame(slot, question), self.limits.rows)
        finally:
            self._slots.put(slot)

    def close(self) -> None:
        """End all processes of the pool."""
        self._closed = True
        for slot in self._all:
            slot.stop()

    def _start_process(self, slot: _ProcessSlot) -> Subprocess:
        """Start a process in a slot and return the process.

        The process opens the archive at once, so that the next query need not wait.
        """
        limits = {name: getattr(self.limits, name) for name in ("rows", "bytes", "seconds", "memory", "spill")}
        slot.scratch = ScratchFolder()
        slot.process = Subprocess(
            PROCESS_TARGET,
            {"archive": str(self._archive), **limits},
            limits=Limits(self.limits.megabytes, output_bytes=self.limits.bytes + MAX_ERROR_BYTES),
            # Each thread's own arena would take 64 MB of the address space.
            variables={"MALLOC_ARENA_MAX": "1", "TMPDIR": str(slot.scratch.folder)},
            is_quiet=True,
        )
        slot.process.send(None)
        slot.pending_responses = 2
        return slot.process

    def _request_frame(self, slot: _ProcessSlot, question: str) -> pl.DataFrame:
        opened = False
        try:
            process = slot.process or self._start_process(slot)
            if not slot.pending_responses:
                process.send(None)
                slot.pending_responses = 1
            while slot.pending_responses:
                slot.pending_responses -= 1
                process.receive(type(None), OPEN_SECONDS)
            opened = True
            text = question.encode(errors="replace").decode()
            return pl.read_ipc(process.request(text, b"", type(None), self.limits.seconds + GRACE_SECONDS)[1])
        except BaseException as error:
            if isinstance(error, RemoteError) and error.details.exit_code is not None:
                raise error.restore_or_wrap_arena_error("SQL") from None
            slot.stop()
            if opened and not self._closed:
                self._start_process(slot)  # now, so that the next query does not wait for it
            match error:
                case TurnTimeoutError():
                    raise self._build_late_error(opened) from None
                case SubprocessDiedError() | RemoteError():
                    raise self._build_death_error(opened, error) from None
            raise

    def _build_late_error(self, opened: bool) -> RequestError | FailureError:
        if not opened:
            return FailureError(f"the archive took longer than {OPEN_SECONDS:g} seconds to open: try again in a moment")
        return RequestError(
            f"SQL: the question took longer than {self.limits.seconds:g} seconds: ask about fewer games"
        )

    def _build_death_error(self, opened: bool, error: Exception) -> RequestError | FailureError:
        if not opened:
            return FailureError(f"the archive could not be opened for the query ({error})")
        return RequestError(f"SQL: the question needs more memory than it may use ({error}): ask about fewer games")


class _ProcessSlot:
    """A slot for one subprocess, which is started when it is needed and answers one query at a time."""

    process: Subprocess | None = None
    scratch: ScratchFolder  # for temporary files, because an ended process cannot remove them
    pending_responses: int = 0  # due before the process takes a query: about its start, and about the archive

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.stop()
            self.scratch.remove()


def build_answer_table(frame: pl.DataFrame) -> Table:
    """Build a human-readable table of the first rows and columns of an SQL query's answer."""
    visible = frame[:, :MAX_COLUMNS]
    visible = visible.head(min(MAX_ROWS, max(10, MAX_CELLS // max(1, visible.width))))
    rows = visible.to_dicts()
    columns = [
        ResultColumn(name, [_build_cell(name, row[name], row) for row in rows], right_aligned=kind.is_numeric())
        for name, kind in visible.schema.items()
    ]
    caption = f"{frame.height:,} {'row' if frame.height == 1 else 'rows'}"
    if visible.height < frame.height:
        caption = f"The first {visible.height:,} of {caption}"
    if visible.width < frame.width:
        caption += f", the first {visible.width} of {frame.width} columns"
    return Table(caption, columns)


def _build_cell(name: str, value: Any, row: dict[str, Any]) -> Cell:
    text = _format_number(name, value) if isinstance(value, int | float | Decimal) else format_value_or_dot(value)
    short = text if len(text) <= MAX_CELL_LETTERS else f"{text[: MAX_CELL_LETTERS - 1]}…"
    return Cell(short, link=_build_link(name, value, row))


def _format_number(name: str, value: float | Decimal) -> str:
    """Format a number from the column ``name`` as people read it, for example as 321,000 or 0.03133.

    Ids, seeds and booleans are written unchanged.
    """
    if isinstance(value, bool) or name.endswith("_id") or name in {"sample_game", "seed"}:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    decimal = float(value)
    return f"{decimal:,.1f}" if abs(decimal) >= 1000 else format_significant(decimal)


def _build_link(name: str, value: Any, row: dict[str, Any]) -> str:
    run_id = row.get("run_id")
    if isinstance(run_id, str) and RUN_ID.fullmatch(run_id):
        if name == "run_id":
            return urls.run_url(run_id)
        if name in ("game_id", "sample_game") and isinstance(value, int):
            return urls.game_url(run_id, value)
    if isinstance(value, str) and "position" in name:
        try:
            parse_position(value)
        except RequestError:
            return ""
        return urls.analysis_url(value)
    return ""
