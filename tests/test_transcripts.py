"""Transcripts: what a page shows after ``$ command`` in a block ``console`` is what the command prints.

A page's commands run from top to bottom in one folder, with the sample in ``data/sample``. A line ``…`` stands for
lines that are left out. Figures that depend on the machine or the moment are compared in form (``VARYING``).
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.marks import seldom
from tests.pages import PAGES, format_page_name
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena, handlers_that_others_made, no_first_notes, prepared_once, qarena

__all__ = ["handlers_that_others_made", "no_first_notes", "prepared_once", "qarena"]  # fixtures

VARYING = (
    (r"\d[\d,.]* s\b", "SECONDS"),
    (r"[\d,.]+( million)? (games|steps|turns) a second", r"SPEED \2 a second"),
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "DATE"),
    (r"(?m)[ \t]+$", ""),
    (r"\S*/?(python|pytest|qarena)(?= (sql|run|archive|tablebase|policy) )", "qarena"),
)


def find_transcripts(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page's transcripts, each with what the page shows below it."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    pairs = []
    for block in blocks:
        for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            pairs.append((re.sub(r" +# .*$", "", command), expected))
    return pairs


def replace_varying(text: str) -> str:
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return "\n".join(line for line in text.splitlines() if line)


def is_match(expected: str, printed: str) -> bool:
    """Return whether a page shows what was printed; ``…`` stands for lines that are left out."""
    parts = [re.escape(part.strip("\n")) for part in re.split(r"^…$", replace_varying(expected), flags=re.MULTILINE)]
    return re.fullmatch(r"\n?(.*\n)?".join(parts) + r"\n?", replace_varying(printed) + "\n", re.DOTALL) is not None


# Pages that train, judge or check an agent, or count positions: they take longer than all others together.
SLOW = {f"docs/{name}.md" for name in ("agents", "decisions", "policies", "solver", "sweeps", "training", "tutorial")}
SHOWN = {format_page_name(page): steps for page in PAGES if (steps := find_transcripts(page))}


@pytest.mark.parametrize("page", [*sorted({*SHOWN} - SLOW), *seldom(*sorted(SLOW))])
def test_a_page_shows_what_its_commands_print(page: str, qarena: Qarena, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data/sample")
    for command, expected in SHOWN[page]:
        words = shlex.split(command)
        assert words[0] == "qarena", f"{page}: only qarena is run: {command}"
        result = qarena(*words[1:])
        printed = (result.out, result.out + result.err, result.err + result.out)
        expected_form, printed_form = replace_varying(expected), replace_varying(result.out + result.err)
        assert any(is_match(expected, text) for text in printed), (
            f"{page}: $ {command}\n--- shown\n{expected_form}\n--- printed\n{printed_form}"
        )


def test_a_wrong_figure_is_found() -> None:
    assert is_match("a  12\n…\nin 1.5 s", "a  12\nb 3\nin 0.2 s\n")
    assert is_match("all", "all\n")
    assert is_match("…\na  12\n…", "title\na  12\nb 3\n")
    assert not is_match("a  12\n…\nin 1.5 s", "a  13\nb 3\nin 0.2 s\n")
    assert not is_match("a", "a\nb\n")
