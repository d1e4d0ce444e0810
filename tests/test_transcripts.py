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
from tests.pages import PAGES, name_of
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena, handlers_that_others_made, prepared_once, qarena

__all__ = ["handlers_that_others_made", "prepared_once", "qarena"]  # fixtures

VARYING = (
    (r"\d[\d,.]* s\b", "SECONDS"),
    (r"[\d,.]+( million)? (games|steps|turns) a second", r"SPEED \2 a second"),
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "DATE"),
    (r"(?m)[ \t]+$", ""),
    (r"\S*/?(python|pytest|qarena)(?= (sql|run|archive|tablebase|policy) )", "qarena"),
)


def transcripts(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page's transcripts, each with what the page shows below it."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = []
    for block in blocks:
        for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found.append((re.sub(r" +# .*$", "", command), shown))
    return found


def in_form(text: str) -> str:
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return "\n".join(line for line in text.splitlines() if line)


def matches(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed; ``…`` stands for lines that are left out."""
    parts = [re.escape(part.strip("\n")) for part in re.split(r"^…$", in_form(shown), flags=re.MULTILINE)]
    return re.fullmatch(r"\n?(.*\n)?".join(parts) + r"\n?", in_form(printed) + "\n", re.DOTALL) is not None


# Pages that train, judge or check an agent, or count positions: they take longer than all others together.
SLOW = {f"docs/{name}.md" for name in ("agents", "decisions", "policies", "solver", "sweeps", "training", "tutorial")}
SHOWN = {name_of(page): steps for page in PAGES if (steps := transcripts(page))}


@pytest.mark.parametrize("page", [*sorted({*SHOWN} - SLOW), *seldom(*sorted(SLOW))])
def test_a_page_shows_what_its_commands_print(page: str, qarena: Qarena, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data/sample")
    for command, shown in SHOWN[page]:
        words = shlex.split(command)
        assert words[0] == "qarena", f"{page}: only qarena is run: {command}"
        found = qarena(*words[1:])
        printed = (found.out, found.out + found.err, found.err + found.out)
        assert any(matches(shown, text) for text in printed), (
            f"{page}: $ {command}\n--- shown\n{in_form(shown)}\n--- printed\n{in_form(found.out + found.err)}"
        )


def test_a_wrong_figure_is_found() -> None:
    assert matches("a  12\n…\nin 1.5 s", "a  12\nb 3\nin 0.2 s\n")
    assert matches("all", "all\n")
    assert matches("…\na  12\n…", "title\na  12\nb 3\n")
    assert not matches("a  12\n…\nin 1.5 s", "a  13\nb 3\nin 0.2 s\n")
    assert not matches("a", "a\nb\n")
