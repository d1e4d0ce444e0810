"""The name and the note that people give to a run: one small file beside the run's record.

They say nothing about the games, so they are no part of the run's identity: naming a run changes neither its id nor any
other file. If several writers name a run at once, the last one wins.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Annotated

import msgspec
from msgspec import structs

from analytics.store import marker
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import explain_errors
from analytics.store.records import (
    LABEL,
    RUN_ID,
    RecordError,
    RunId,
    StoredRecord,
    check_time,
    encode_record,
    format_current_time,
    parse_record,
    parse_record_file,
    pattern_constraint,
)
from analytics.store.texts import TABS_AND_LINE_ENDS, escape_hidden
from quarto.errors import FailureError, RequestError

MAX_NAME, MAX_NOTE = 80, 2000  # characters
NOTE_SUFFIX = ".note.json"  # of a file beside the run's record
NOTE_FILE = re.compile(rf"({RUN_ID.pattern}){re.escape(NOTE_SUFFIX)}")
MAX_CLOCK_ERROR = timedelta(days=1)  # by which the clock of another machine may be fast
NOTE_REMEDY = "restore it from a copy, or remove it and name the run again"


class RunNote(StoredRecord, frozen=True):
    """The name and the note of a run. Either may be empty. Raises ``ValueError`` for an invalid time."""

    run_id: RunId
    name: Annotated[str, msgspec.Meta(max_length=MAX_NAME), pattern_constraint(re.compile(f"|{LABEL.pattern}"))] = ""
    note: Annotated[str, msgspec.Meta(max_length=MAX_NOTE)] = ""  # may have several lines
    written: str = "1970-01-01T00:00:00+00:00"  # ISO 8601, UTC; when archives are merged, the later note stays

    def __post_init__(self) -> None:
        check_time(self.written)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a name nor a note."""
        return not (self.name or self.note)

    @property
    def time(self) -> datetime:
        """The time at which the note was written.

        A note from the future counts as the oldest: otherwise it would replace all others whenever it is merged.
        """
        time = datetime.fromisoformat(self.written)
        return time if time <= datetime.now(UTC) + MAX_CLOCK_ERROR else datetime.fromtimestamp(0, UTC)


def check_name_and_note(name: str | None, note: str | None) -> None:
    """Raise ``RequestError`` if a name or a note is too long or has hidden characters. None stands for no change."""
    for kind, text, most, visible in (("name", name, MAX_NAME, ""), ("note", note, MAX_NOTE, TABS_AND_LINE_ENDS)):
        if text is None:
            continue
        if len(text) > most:
            raise RequestError(f"{kind} {text[:20]!r}… has {len(text):,} characters, and a {kind} has at most {most:,}")
        if escape_hidden(text, visible) != text:
            lines = " in one line" if kind == "name" else ""
            raise RequestError(f"{kind} {text[:40]!a} has characters that are not shown: write plain text{lines}")


def note_path(archive: ArchiveStore, run_id: str) -> PurePath:
    """Return the path of the file with a run's name and note."""
    return archive.root / "runs" / f"{run_id}{NOTE_SUFFIX}"


def list_ids_of_runs_with_notes(archive: ArchiveStore) -> list[str]:
    """List the ids of the runs that have a file with a name and a note, even a damaged one, sorted."""
    with explain_errors("list", archive.root / "runs"):
        names = archive.backend.list_names(archive.root / "runs")
    return sorted(match[1] for name in names if (match := NOTE_FILE.fullmatch(name)))


def load_note(archive: ArchiveStore, run_id: str) -> RunNote:
    """Load the name and the note of a run; both are empty if nobody has named it.

    Raises ``FailureError`` if the file is damaged.
    """
    path = note_path(archive, run_id)
    with explain_errors("read", path):
        try:
            content = archive.backend.read(path)
        except FileNotFoundError:
            return RunNote(run_id)
    return parse_note(archive, run_id, content)


def parse_note(archive: ArchiveStore, run_id: str, content: bytes) -> RunNote:
    """Parse the content of the file with a run's note. Raises ``FailureError`` if the file is damaged."""
    path = note_path(archive, run_id)
    note = parse_record_file(path, content, RunNote, NOTE_REMEDY)
    if note.run_id != run_id:
        raise FailureError(f"{path} is damaged (it is the note of run {note.run_id}): {NOTE_REMEDY}")
    return note


def update_note(archive: ArchiveStore, run_id: str, name: str | None = None, note: str | None = None) -> None:
    """Give a run a name or a note, in one step. None leaves the present one as it is, and "" removes it.

    A damaged file is replaced. Raises ``RequestError`` for a text that is too long or has hidden characters.
    """
    note = note if note is None else "\n".join(note.split("\r\n")).strip()
    name = name if name is None else name.strip()
    check_name_and_note(name, note)

    def change(content: bytes | None) -> bytes | None:
        present = RunNote(run_id)
        with suppress(RecordError):
            present = present if content is None else parse_record(content, RunNote)
        changed = RunNote(
            run_id,
            present.name if name is None else name,
            present.note if note is None else note,
            present.written,
        )
        if changed == present:
            return None
        return encode_record(structs.replace(changed, written=format_current_time()))

    with explain_errors("write to", archive.root):
        archive.backend.update(note_path(archive, run_id), archive.root / marker.MARKER_NAME, change)


def copy_later_note(source: ArchiveStore, target: ArchiveStore, run_id: str) -> bool:
    """Copy a run's name and note to another archive unless it has a later one. Return whether they were copied.

    Raises ``FailureError`` if the file in ``source`` is damaged.
    """
    return write_later_note(target, load_note(source, run_id))


def write_later_note(target: ArchiveStore, note: RunNote) -> bool:
    """Write a note that comes from elsewhere unless the archive has a later one. Return whether it was written.

    A damaged file is replaced.
    """
    present = unnamed = RunNote(note.run_id)
    with suppress(FailureError):
        present = load_note(target, note.run_id)
    if note == present or (present != unnamed and note.time <= present.time):
        return False
    target.write_record(note_path(target, note.run_id), note)
    return True
