"""What is wrong with an entry, in a text beside it: ``checks/NAME.txt``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from analytics.store.texts import TABS_AND_LINE_ENDS, escape_hidden
from quarto.errors import FailureError
from runners.terminal.files import write_file

REPORTS_FOLDER = "checks"
MAX_REPORT_CHARACTERS = 20_000


def report_path(folder: Path, name: str) -> Path:
    """Return the path of the report on an entry of the league in ``folder``."""
    return folder / REPORTS_FOLDER / f"{name}.txt"


def remove_league_path(folder: Path, text: str) -> str:
    """Remove the path of the league's folder, absolute or from the current folder, from the paths in a text.

    A page for everybody shows the text, and it is the same wherever the league is.
    """
    paths = {str(folder.absolute()), str(folder.resolve()), os.path.relpath(folder)} - {"."}
    pattern = "|".join(re.escape(path) for path in sorted(paths))
    return re.sub(rf"(?<![\w./-])({pattern})/", "", text)


def write_entry_report(folder: Path, name: str, text: str) -> None:
    """Write the report on an entry. Raises ``FailureError`` if it cannot be written."""
    path = report_path(folder, name)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise FailureError(f"{path.parent} cannot be written: {error.strerror or error}") from error
    text = remove_league_path(folder, text)
    visible = escape_hidden(text[:MAX_REPORT_CHARACTERS].rstrip("\n"), TABS_AND_LINE_ENDS)
    write_file(path, f"{visible}\n".encode(errors="replace"))


def read_entry_report(folder: Path, name: str) -> str:
    """Return the report on an entry, or "" if there is none. Raises ``FailureError`` if it cannot be read."""
    path = report_path(folder, name)
    try:
        with path.open("rb") as file:
            text = file.read(4 * MAX_REPORT_CHARACTERS).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise FailureError(f"{path} cannot be read: {error.strerror or error}") from error
    return escape_hidden(text, TABS_AND_LINE_ENDS).rstrip("\n")
