"""The code in docs/reports.md runs as it is printed there."""

from __future__ import annotations

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
    assert (tmp_path / "lengths.svg").read_text().startswith("<svg")
