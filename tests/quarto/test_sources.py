"""The modules behind a module: all that Python would import, whoever imported what before, and nothing is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from quarto.sources import NotebookNotice, find_module_spec, read_imported_modules

FILES = {
    "walk_agent/__init__.py": "",
    "walk_agent/player.py": """
        from __future__ import annotations
        import os, json as j, walk_top
        import walk_deep.inner.leaf
        from numba import njit
        from . import beside
        from .nested import thing
        from walk_star import *
        from walk_values import VALUE
        import walk_missing
        def choose():
            from walk_lazy import later
            import importlib
            importlib.import_module("walk_named")
            importlib.import_module(".by_hand", __package__)
            importlib.import_module("walk_" + "computed")
        """,
    "walk_agent/beside.py": "import walk_second",
    "walk_agent/alone.py": "import walk_not_reached",
    "walk_agent/by_hand.py": "",
    "walk_agent/nested/__init__.py": "from .. import beside\nfrom ..... import beyond",
    "walk_agent/nested/thing.py": "from ..beside import x",
    "walk_top.py": "import walk_agent.player  # a circle",
    "walk_second.py": "def broken(",
    "walk_deep/__init__.py": "import walk_parent",
    "walk_deep/inner/leaf.py": "",
    "walk_parent.py": "",
    "walk_star/__init__.py": "__all__ = ['some']",
    "walk_star/some.py": "import walk_of_star",
    "walk_of_star.py": "",
    "walk_values.py": "VALUE = 1",
    "walk_lazy.py": "later = 1",
    "walk_named.py": "",
    "walk_computed.py": "",
    "walk_not_reached.py": "",
}
REACHED = {
    *("walk_agent", "walk_agent.player", "walk_agent.beside", "walk_agent.by_hand"),
    *("walk_agent.nested", "walk_agent.nested.thing", "walk_top", "walk_second"),
    *("walk_deep", "walk_deep.inner.leaf", "walk_parent", "walk_star", "walk_star.some", "walk_of_star"),
    *("walk_values", "walk_lazy", "walk_named"),
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.splitlines()
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        path.write_text("\n".join(line[indent:] for line in lines))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, FILES)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_every_module_that_is_imported_is_found_and_no_other(folder: Path) -> None:
    contents = read_imported_modules("walk_agent.player")
    assert set(contents) == REACHED
    assert contents["walk_parent"] == (folder / "walk_parent.py").read_bytes()
    assert not [name for name in sys.modules if name.startswith("walk_")]


def test_what_is_imported_already_changes_nothing(folder: Path) -> None:
    """Compare with the answer of a process that has imported other modules."""
    program = "import json, walk_values, walk_computed, walk_deep.inner.leaf; from quarto.sources import *; "
    program += "print(json.dumps(sorted(read_imported_modules('walk_agent.player'))))"
    lines = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert lines.stdout.strip() == str(sorted(REACHED)).replace("'", '"')

    contents = read_imported_modules(
        "walk_agent.player", lambda importing, imported: "star" not in importing + imported
    )
    assert set(contents) == {name for name in REACHED if "star" not in name}


def test_installed_packages_and_the_standard_library_have_versions_of_their_own() -> None:
    json = {"json", "json.decoder", "json.scanner", "json.encoder"}
    assert read_imported_modules("json.decoder").keys() == json  # asked for by name
    assert "numpy" not in read_imported_modules("quarto.bits")
    assert {"quarto", "quarto.bits", "quarto.jit"} <= set(read_imported_modules("quarto.bits"))


def test_a_package_that_somebody_installed_is_theirs_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "site-packages"
    write(place, {"walk_own/__init__.py": "", "walk_own/a.py": "import walk_other, walk_own.b", "walk_own/b.py": ""})
    write(place, {"walk_other.py": ""})
    monkeypatch.syspath_prepend(place)
    assert set(read_imported_modules("walk_own.a")) == {"walk_own", "walk_own.a", "walk_own.b"}


@pytest.mark.parametrize("name", ["walk_nowhere", "walk_top.x", "json.decoder.x", "", ".", "a..b", "sys.x"])
def test_a_module_that_is_nowhere_is_not_found(name: str, folder: Path) -> None:
    assert find_module_spec(name) is None
    assert name not in read_imported_modules(name)


def test_a_person_at_a_notebook_reads_once_in_each_call_that_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 1.0, 4.0, 20.0, 21.0])
    announce = NotebookNotice(lambda: next(seconds))
    announce()
    assert capsys.readouterr() == ("", "")  # a script
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    for _ in range(3):
        announce()
    assert len(capsys.readouterr().err.splitlines()) == 1
    announce()
    announce()
    assert capsys.readouterr().err.startswith("Compiling the kernels that this call needs")
