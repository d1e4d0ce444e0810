"""Another distribution with a package of one of our names: the command says so in one line, whatever it replaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.test_house import PACKAGES

# Without the current folder, and without ``site``, whose finder of an editable installation also finds modules below
# packages of others.
PROGRAM = "from runners.cli.start import main; main()"


def start(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Start ``qarena --version`` with these folders first on the import path."""
    path = os.pathsep.join(map(str, [*paths, sysconfig.get_path("purelib")]))
    return subprocess.run(
        [sys.executable, "-P", "-S", "-c", PROGRAM, "--version"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_starts_with_our_packages() -> None:
    done = start(ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("qarena ")


@pytest.mark.parametrize("name", sorted({*PACKAGES} - {"runners"}))
def test_a_package_that_comes_first_is_named_before_anything_is_imported(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    done = start(folder, ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {folder / name} hides the project's own package '{name}': it belongs to another distribution, which "
        "needs an environment of its own\n"
    )


def test_a_package_that_was_installed_over_ours_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / name / "__init__.py", folder / name)
    (folder / "runners/cli").mkdir()
    for file in ("runners/cli/__init__.py", "runners/cli/start.py", "analytics/shadowing.py"):
        shutil.copy(ROOT / file, folder / file)
    (folder / "agents/__init__.py").write_text('"""An SDK."""\n')
    done = start(folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {folder / 'agents'} was replaced: it belongs to another distribution, which needs an environment of "
        "its own; then install quarto-arena again\n"
    )
