"""The notebooks of docs/notebooks use the public library only, and the tour runs without any extra."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.py"))
OPTIONAL = {"altair", "marimo", "pandas"}  # libraries of the extras
OURS = {"agents", "analytics", "quarto", "runners"}


def list_imports(node: ast.AST) -> Iterator[str]:
    """List the modules that a program imports."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""


def list_cells(notebook: Path) -> list[ast.FunctionDef]:
    program = ast.parse(notebook.read_text(encoding="utf-8"))
    return [node for node in program.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_imports_public_names_only(notebook: Path) -> None:
    for module in list_imports(ast.parse(notebook.read_text(encoding="utf-8"))):
        package, _, inner = module.partition(".")
        assert package not in OURS or not inner, module


def test_the_tour_runs_without_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, object] = {}
    for cell in list_cells(ROOT / "docs/notebooks/tour.py"):
        if not OPTIONAL.intersection(list_imports(cell)):
            statements: list[ast.stmt] = [line for line in cell.body if not isinstance(line, ast.Return)]
            exec(compile(ast.Module(statements, []), "tour.py", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    for text in ("WinOrFirst", "Ratings in Elo", "identical", "Policy q_placement", "mcts(iterations=2)"):
        assert text in printed
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("multirun")] == []
