"""The questions in docs/sql.md and docs/cookbook.md have the answers that are printed there, on the sample archive."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.sql.database import OpenArchive
from analytics.sql.syntax import read_by
from analytics.sql.views import VIEWS
from runners.terminal.tables import as_text
from tests.paths import ROOT, SAMPLE
from tests.runners.conftest import Qarena

VOCABULARY, COOKBOOK = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("sql.md", "cookbook.md"))
ANSWERED = re.compile(r"^```sql\n(.*?)\n```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def prepared(qarena: Qarena, folder: Path) -> Path:
    """A copy of the sample on which the commands at the top of the cookbook were carried out."""
    commands = re.findall(r"^```sh\n(.*?)^```$", COOKBOOK, re.MULTILINE | re.DOTALL)[0]
    copy, *rest = map(shlex.split, commands.splitlines())
    assert copy == ["cp", "-r", "data/sample", "games"]
    shutil.copytree(SAMPLE, folder / "games")
    assert len(rest) == 4
    for words in rest:
        found = qarena(*words[1:])
        assert found.code == 0, found.err
    return folder / "games"


def answer(opened: OpenArchive, question: str) -> str:
    return as_text(opened.sql(question)).decode()


def test_every_answer_is_the_one_that_is_printed(qarena: Qarena, tmp_path: Path) -> None:
    with open_archive(prepared(qarena, tmp_path)) as opened:
        for page in (VOCABULARY, COOKBOOK):
            for question, printed in ANSWERED.findall(page):
                assert answer(opened, question) == printed, question


def test_there_are_forty_questions_each_with_its_answer_and_time() -> None:
    titles = re.findall(r"^### (\d+)\. .*\?$", COOKBOOK, re.MULTILINE)
    assert titles == [str(number) for number in range(1, 41)]
    assert len(ANSWERED.findall(COOKBOOK)) == 40
    assert len(re.findall(r"^```$\n\nTen million games: \d+\.\d\d s\.$", COOKBOOK, re.MULTILINE)) == 40
    assert COOKBOOK.count("```sql") == 40


def test_each_view_and_macro_has_an_example(tmp_path: Path) -> None:
    questions = [question for question, _ in ANSWERED.findall(VOCABULARY)]
    assert len(questions) == VOCABULARY.count("```sql")
    with open_archive(SAMPLE) as opened:
        macros = opened.sql("""
            SELECT function_name AS name FROM duckdb_functions()
            WHERE schema_name = 'main' AND database_name <> 'system' AND function_type IN ('macro', 'table_macro')
              AND NOT starts_with(function_name, '_') AND function_name <> 'opening_text'""")["name"].to_list()
        assert {"cell_name", "shared", "policy", "ordered_openings", "wilson_high"} <= set(macros)
        assert opened._connection is not None
        read = {view for text in questions for view in read_by(opened._connection.duckdb, text, VIEWS).views}
    assert read == set(VIEWS)
    assert not [name for name in macros if not any(re.search(rf"\b{name}\(", question) for question in questions)]


@pytest.mark.slow
def test_the_notebook_example_runs() -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", VOCABULARY, re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, check=True)
