"""The child that answers strangers' questions in SQL, see ``runners.web.archive.sql_pool``.

DuckDB interrupts most questions at the time limit; whoever started the process ends it if not.
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

NICENESS = 5  # pages come first


def build_handler(setup: dict[str, Any], _: bytes) -> tuple[Message, RequestHandler]:
    """Serve questions. None opens the archive, or opens it again if it has changed; a question gets rows for Arrow."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    root = parse_location(setup["archive"])
    limits = QueryLimits(setup["memory"], setup["spill"], setup["seconds"], options=False)
    opened: OpenArchive | None = None
    stamp: object = None

    def respond(question: str | None, _: bytes) -> Message:
        nonlocal opened, stamp
        if question is not None and opened is not None:
            return None, _encode_arrow(opened.read_first_rows(question, setup["rows"] + 1), setup["bytes"])
        found = read_archive_stamp(root)
        if opened is None:
            opened = OpenArchive(root, limits, vocabulary_only=True)
        elif found == stamp:
            return None, b""
        else:
            opened.refresh()
        opened.read_first_rows("SELECT run_id FROM games LIMIT 0", 1)  # DuckDB starts now, not in a question's time
        stamp = found
        return None, b""

    return (None, b""), respond


def _encode_arrow(frame: Any, max_bytes: int) -> bytes:
    """A frame in Arrow's format. Raises ``RequestError`` for one of too many bytes."""
    content = io.BytesIO()
    frame.write_ipc(content)  # not compressed: whoever reads it must not need more memory than it has bytes
    if content.tell() > max_bytes:
        raise RequestError(f"SQL: the answer is larger than {max_bytes / 1e6:g} MB: ask for fewer columns or rows")
    return content.getvalue()
