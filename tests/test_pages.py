"""The pages are followed from top to bottom: each command, question and program that they show is run, or listed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from tests.pages import (
    BEFORE,
    ELSEWHERE,
    EXITS,
    EXTRAS,
    NOT_RUN,
    SMALLER,
    STEPS,
    Step,
    is_listed,
    shrink_command,
    strip_comment,
)
from tests.paths import ROOT, SAMPLE
from tests.runners.conftest import Qarena, handlers_that_others_made, prepared_once, qarena

__all__ = ["handlers_that_others_made", "prepared_once", "qarena"]  # fixtures

SHELL = re.compile(r"[|&><*$]|^(?!qarena )")  # what only a shell can do
QUICK = {"docs/troubleshooting.md"}  # runs in `make test`; the others are test-all's


def is_run(step: Step) -> bool:
    return not is_listed(step, NOT_RUN) and (step.page, step.language) not in ELSEWHERE


RUN = [step for step in STEPS if is_run(step)]
FOLLOWED = sorted({step.page for step in RUN})


class Reader:
    """Somebody who follows a page in a folder."""

    def __init__(self, folder: Path, qarena: Qarena) -> None:
        self._folder = folder
        self._qarena = qarena
        self._names: dict[str, object] = {"__name__": "page"}
        shutil.copytree(
            SAMPLE, folder / "data/sample"
        )  # not a link: what a page writes must not reach the project's own

    def follow(self, step: Step) -> None:
        {"shell": self._type, "sql": self._ask, "python": self._execute}[step.language](step.text)

    def _type(self, printed: str) -> None:
        line = shrink_command(printed)
        if re.search(r"\bRUN\b", line):
            last = max(ArchiveStore.open(self._folder / "data/archive").load_runs(), key=lambda record: record.number)
            line = re.sub(r"\bRUN\b", last.run_id, line)
        if SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            self._shell(line)
            return
        result = self._qarena(*shlex.split(line)[1:])
        assert result.code in self._exits(line), f"{printed}\n{result.out}\n{result.err}"

    def _shell(self, line: str) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "ROOT": str(ROOT)}
        ended = subprocess.run(
            ["bash", "-c", line], cwd=self._folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode in self._exits(line), f"{line}\n{ended.stdout}\n{ended.stderr}"

    @staticmethod
    def _exits(line: str) -> tuple[int, ...]:
        return next((codes for beginning, codes in EXITS.items() if line.startswith(beginning)), (0,))

    def _ask(self, question: str) -> None:
        if ".parquet'" in question:  # a question to a file, which is DuckDB's alone
            assert duckdb.execute(question).fetchall()
            return
        archives = (self._folder / "data" / name for name in ("archive", "sample"))
        with open_archive(next(path for path in archives if path.exists())) as archive:
            assert len(archive.sql(question)) > 0

    def _execute(self, program: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(program, "page", "exec"), self._names)  # noqa: S102  (the project's own pages)


def list_pages() -> list[object]:
    """Return the pages that are followed; all but a few are slow."""
    return [pytest.param(page, marks=[] if page in QUICK else [pytest.mark.slow]) for page in FOLLOWED]


@pytest.mark.parametrize("page", list_pages())
def test_a_page_can_be_followed(page: str, qarena: Qarena, tmp_path: Path) -> None:
    follow([step for step in RUN if step.page == page and not is_listed(step, EXTRAS)], page, qarena, tmp_path)


@pytest.mark.slow
@pytest.mark.extras
@pytest.mark.parametrize("page", sorted({page for page, _ in EXTRAS}))
def test_what_needs_an_extra_can_be_followed(page: str, qarena: Qarena, tmp_path: Path) -> None:
    follow([step for step in RUN if is_listed(step, EXTRAS) and step.page == page], page, qarena, tmp_path)


def follow(steps: list[Step], page: str, qarena: Qarena, folder: Path) -> None:
    assert steps
    reader = Reader(folder, qarena)
    for line in BEFORE.get(page, ()):
        reader.follow(Step(page, "python" if line.startswith("import") else "shell", line))
    for step in steps:
        reader.follow(step)


def test_every_step_is_run_or_listed_and_nothing_else_is_listed() -> None:
    assert len(STEPS) > 150
    for page, beginning in (*NOT_RUN, *EXTRAS):
        assert any(step.page == page and step.text.startswith(beginning) for step in STEPS), (page, beginning)
    for (page, language), test in ELSEWHERE.items():
        assert any((step.page, step.language) == (page, language) for step in STEPS)
        assert page.removeprefix("docs/") in (ROOT / test).read_text(encoding="utf-8")
    for pattern, _ in SMALLER:
        assert any(re.search(pattern, strip_comment(step.text)) for step in STEPS if step.language == "shell"), pattern
    assert {step for step in STEPS if not is_run(step)} | set(RUN) == set(STEPS)
    assert len(RUN) > 100  # besides the transcripts, which tests/test_transcripts.py runs
