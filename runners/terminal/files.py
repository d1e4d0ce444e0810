"""Files that a command line names: reading, checking before long work, and writing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from analytics.store.files.backend import expand_home_if_known
from quarto.errors import FailureError, RequestError, suggest_valid_names

STANDARD_STREAM = "-"  # a name that means the standard input or output
# table, md, html and svg are for people, svg only if the answer has a picture; spreadsheet is csv in which no text is
# read as a formula.
TABLE_FORMATS = ("table", "csv", "spreadsheet", "json", "parquet", "md", "html", "svg")


def read_file(name: str) -> bytes:
    """Return the bytes of the file at path ``name``, or of standard input if ``name`` is ``-``.

    Raises ``RequestError`` if the file cannot be read.
    """
    if name == STANDARD_STREAM:
        return sys.stdin.buffer.read()
    try:
        return expand_home_if_known(name).read_bytes()
    except OSError as error:
        raise RequestError(
            f"cannot read {name}: {error.strerror or error}; name a text file, or - for standard input"
        ) from error


def check_output_file(path: Path, force: bool) -> None:
    """Raise ``RequestError`` if an output file must not be written, or if writing it is already known to fail.

    The check is meant to come before long work. No command may write an output file inside an archive. An existing file
    may be replaced only with ``force``.
    """
    from analytics.store.marker import check_outside_archives

    if is_standard_stream_dash(path):
        return
    check_outside_archives(path)
    if path.is_dir():
        raise RequestError(f"{path} is a folder: name a file")
    if _is_stream(path):
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise RequestError(f"{path} has no folder: name a file in a folder that exists")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RequestError(f"{path} cannot be written: its folder is not writable; name a file elsewhere")
    if path.exists() and not force:
        raise RequestError(f"{path} exists: name another file, or replace it with --force")


def is_standard_stream_dash(path: Path | None) -> bool:
    """Return whether a path is ``-``, which stands for standard input or output; return False for None."""
    return path is not None and str(path) == STANDARD_STREAM


def _is_stream(path: Path) -> bool:
    """Return whether a path is ``-``, a device or a pipe, such as /dev/stdout, which output must not replace."""
    return is_standard_stream_dash(path) or (path.exists() and not path.is_file())


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the context, the file there replaces ``path`` in one step.

    If an error occurs inside the context, ``path`` stays as it was. If ``path`` is a device or a pipe, the context
    yields ``path`` itself. Raises ``FailureError`` in place of an ``OSError``.
    """
    from analytics.store.files.local_files import sync_file, use_temporary_path

    try:
        if _is_stream(path):
            yield path
            return
        target = path.resolve()  # the target of a symbolic link is replaced, not the link
        with use_temporary_path(target) as temporary:
            yield temporary
            if target.exists():
                shutil.copymode(target, temporary)
            sync_file(temporary)
            temporary.replace(target)
    except OSError as error:
        raise FailureError(f"cannot write {path}: {error.strerror or error}") from error


def write_file(path: Path, content: bytes) -> None:
    """Write content to a file in one step, or to standard output if the path is ``-``.

    Raises ``FailureError`` if the file cannot be written; an existing file is then unchanged.
    """
    if is_standard_stream_dash(path):
        sys.stdout.write(content.decode())
        sys.stdout.flush()
        return
    with replace_file(path) as temporary:
        temporary.write_bytes(content)


class TableOutput(NamedTuple):
    """The format in which a table is printed or written, and the file to which it goes."""

    form: str = "table"  # one of TABLE_FORMATS; json is one array of objects
    path: Path | None = None  # None: standard output
    wide: bool | None = None  # keep all columns of a printed table; None: the command has no such option

    @property
    def is_table_for_people_on_stdout(self) -> bool:
        """Whether the output is a table for people on standard output."""
        return self.form == "table" and self.path is None


TERMINAL_OUTPUT = TableOutput()
FORMATS_BY_ENDING = {  # formats by the ending of a file's name
    "txt": "table",
    **{form: form for form in TABLE_FORMATS if form not in ("table", "spreadsheet")},
}


def build_table_output(
    form: str | None, path: Path | None, force: bool = False, wide: bool | None = None
) -> TableOutput:
    """Build the output in the format ``form`` or, if that is None, in the format that the suffix of ``path`` implies.

    If there is no suffix either, the output is a table. ``wide`` says whether a printed table keeps all columns; None
    means that the command has no such option. Raises ``RequestError`` for an unknown format or suffix, for a file
    inside an archive, and, unless ``force``, for a file that exists.
    """
    if form is not None and form not in TABLE_FORMATS:
        raise RequestError(
            f"format {form!r} is not one of {', '.join(TABLE_FORMATS)}{suggest_valid_names(form, TABLE_FORMATS)}"
        )
    if is_standard_stream_dash(path):
        path = None
    ending = path.suffix[1:] if path else ""
    if not form and ending and ending not in FORMATS_BY_ENDING:
        raise RequestError(
            f"--output {path}: its format is not known, name it with --format or let it end with one of "
            f"{', '.join(f'.{name}' for name in FORMATS_BY_ENDING)}{suggest_valid_names(ending, FORMATS_BY_ENDING)}"
        )
    if path is not None:
        check_output_file(path, force)
    return TableOutput(form or FORMATS_BY_ENDING.get(ending, TABLE_FORMATS[0]), path, wide)
