"""The pages of the reference are those of the docstrings, and every public name is on one."""

from __future__ import annotations

import runpy
from importlib import import_module
from typing import Any

import pytest

from tests.paths import ROOT

PROGRAM: dict[str, Any] = runpy.run_path(str(ROOT / "docs/reference_pages.py"))


@pytest.mark.parametrize("package", PROGRAM["PACKAGES"])
def test_the_reference_is_current_and_whole(package: str) -> None:
    page = (ROOT / f"docs/reference/{package}.md").read_text(encoding="utf-8")
    assert page == PROGRAM["render_page"](package), "run make reference"
    names = {*dir(import_module(package))} - {*PROGRAM["PACKAGES"][package], "__version__"}
    assert [name for name in names if f"\n## `{package}.{name}`\n" not in page] == []


def test_sections_of_a_docstring_are_tables_and_examples() -> None:
    doc = """Count.\n\nArgs:\n    one: The first\n        of them | more.\n    two: The second.

Returns:\n    A number.

Raises:\n    ValueError: It is wrong.\n\nExamples:\n    >>> 1\n    1\n\n"""
    text = "\n".join(PROGRAM["render_docstring"](doc))
    assert "| argument | meaning |\n|---|---|\n| `one` | The first of them \\| more. |\n| `two` | The second. |" in text
    assert "**Returns:** A number." in text
    assert "| `ValueError` | It is wrong. |" in text
    assert "```pycon\n>>> 1\n1\n```" in text
