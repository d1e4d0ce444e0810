"""The code in docs/reports.md runs as it is printed there."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

TEXT = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_notebook_example_runs(tmp_path: Path) -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    shutil.copytree(ROOT / "data" / "sample", tmp_path / "data" / "sample")
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{source}"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "crosstable.svg").read_text().startswith("<svg")


def test_every_frame_that_is_named_is_there() -> None:

    for module, names in re.findall(r"`figures\.(\w+)(?:`: |\.)(.*?) \|$", TEXT, re.MULTILINE):
        found = importlib.import_module(f"analytics.report.figures.{module}")
        for name in re.findall(r"\b(\w*(?:_frame|curves)|PLACEMENTS|GIFTS)\b", names):
            assert hasattr(found, name), (module, name)
