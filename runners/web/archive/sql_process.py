"""The subprocess that answers SQL queries for ``runners.web.archive.sql_pool``.

DuckDB interrupts most queries at the time limit; the parent process ends this one if DuckDB does not.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.query_execution import QueryLimits
from analytics.store.files.backend import parse_location
from quarto.errors import RequestError
from runners.hosting.subprocess_program import Message, RequestHandler
from runners.web.archive.snapshots import read_archive_stamp

NICENESS = 5  # below the pages


def build_handler(setup: dict[str, Any], _: bytes) -> tuple[Message, RequestHandler]:
    """Return the greeting of this process, and the function that handles the requests to it.

    ``setup`` has the location of the archive and the limits of each query. The request None opens the archive, or
    reopens it if it has changed. Any other request is an SQL query, which is answered with rows in Arrow's format.
    """
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    root = parse_location(setup["archive"])
    limits = QueryLimits(setup["memory"], setup["spill"], setup["seconds"], options=False)
    opened: OpenArchive | None = None
    stamp: object = None

    def refresh_archive_or_answer(question_or_none_to_refresh: str | None, _: bytes) -> Message:
        """Open or refresh the archive if ``question_or_none_to_refresh`` is None; otherwise answer the query."""
        nonlocal opened, stamp
        if question_or_none_to_refresh is not None and opened is not None:
            return None, _encode_arrow(
                opened.read_first_rows(question_or_none_to_refresh, setup["rows"] + 1), setup["bytes"]
            )
        current_stamp = read_archive_stamp(root)
        if opened is None:
            opened = OpenArchive(root, limits, vocabulary_only=True)
        elif current_stamp == stamp:
            return None, b""
        else:
            opened.refresh()
        opened.read_first_rows("SELECT run_id FROM games LIMIT 0", 1)  # starts DuckDB before a query's time begins
        stamp = current_stamp
        return None, b""

    return (None, b""), refresh_archive_or_answer


def _encode_arrow(frame: Any, max_bytes: int) -> bytes:
    """Encode a frame in Arrow's file format. Raises ``RequestError`` if the result exceeds ``max_bytes``."""
    content = io.BytesIO()
    frame.write_ipc(content)  # uncompressed, so that reading it takes no more memory than its size
    if content.tell() > max_bytes:
        raise RequestError(f"SQL: the answer is larger than {max_bytes / 1e6:g} MB: ask for fewer columns or rows")
    return content.getvalue()
