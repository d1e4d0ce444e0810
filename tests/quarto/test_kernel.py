from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from quarto import jit as kernel_module
from quarto.bits import float_bits, lowest_bit, nth_bit, nth_bit_by_table, popcount
from quarto.jit import kernel
from quarto.sources import kernel_sources, outside_fingerprint
from tests.marks import seldom
from tests.paths import ROOT


@kernel()
def every_bit(masks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each mask its number of ones, its lowest one, and all of them in order by their number, twice: [N, 34]."""
    found = np.full((masks.shape[0], 34), -1, np.int64)
    for i in range(masks.shape[0]):
        found[i, 0] = popcount(masks[i])
        if masks[i]:
            found[i, 1] = lowest_bit(masks[i])
        for n in range(found[i, 0]):
            found[i, 2 + n] = nth_bit(masks[i], n)  # by whatever this processor does best
            found[i, 18 + n] = nth_bit_by_table(masks[i], n)
    return found


@kernel()
def bits_of_floats(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    found = np.zeros(numbers.shape[0], np.int64)
    for i in range(numbers.shape[0]):
        found[i] = float_bits(numbers[i])
    return found


def test_bits_of_all_masks_equal_those_counted_one_by_one() -> None:
    found = every_bit(np.arange(1 << 16))
    for mask in range(1 << 16):
        bits = [bit for bit in range(16) if mask >> bit & 1]
        padded = [*bits, *[-1] * (16 - len(bits))]
        assert found[mask].tolist() == [len(bits), bits[0] if bits else -1, *padded, *padded]


KERNELS_WITH_AND_WITHOUT_BLAS = """
import sys
import numpy as np
from quarto.jit import kernel

@kernel("int64(int64)")
def next_of(number):
    return number + 1

@kernel("float64(float64[::1], float64[::1])")
def product(left, right):
    return np.dot(left, right)

assert next_of(2) == 3
assert "scipy.linalg" not in sys.modules
assert product(np.arange(6.0), np.arange(6.0)) == 55
assert "scipy.linalg" in sys.modules
"""


@pytest.mark.extras
@pytest.mark.slow  # the first half is in the test of copies too
def test_scipys_algebra_is_imported_by_kernels_that_need_it_only(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KERNELS_WITH_AND_WITHOUT_BLAS)
    subprocess.run([sys.executable, script], check=True)


@pytest.mark.parametrize("edits", [(), *seldom((("edited",),))])
def test_another_copy_of_the_same_sources_compiles_nothing(edits: tuple[str, ...], tmp_path: Path) -> None:
    """As another environment of the same user has it; an edited copy compiles its own."""
    script = (
        "import quarto, sys, numpy as np; from quarto import rng, sources; rng.Streams(np.zeros(1, np.uint64)).draw(0);"
        "print(quarto.__file__, sources.compiling.compiled); assert 'scipy.linalg' not in sys.modules"
    )
    found = []
    for name in ("one", "two", *edits):
        shutil.copytree(ROOT / "quarto", tmp_path / name / "quarto")
        if name == "edited":
            (tmp_path / name / "quarto/rules.py").write_text((ROOT / "quarto/rules.py").read_text() + "# edited\n")
        environment = os.environ | {"PYTHONPATH": str(tmp_path / name), "QARENA_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-c", script]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        file, compiled = ended.stdout.split()
        assert Path(file).is_relative_to(tmp_path / name)
        found.append(int(compiled) > 0)
    assert found == [True, False, True][: 2 + len(edits)]


def test_bits_of_floats_are_those_of_ieee_754_and_grow_with_those_not_negative() -> None:
    numbers = np.array([-np.inf, 0.0, 5e-324, 0.1, 0.1 + 2.0**-55, 1.0, 1.5, 1e300, np.inf])
    found = bits_of_floats(numbers)
    assert found.tolist() == numbers.view(np.int64).tolist()
    assert found[1:].tolist() == sorted(set(found[1:].tolist()))
    assert found[0] < found[1]


def test_an_edit_of_what_an_outside_kernel_imports_makes_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    agent, helper = tmp_path / "own_kernel.py", tmp_path / "own_kernel_helper.py"
    agent.write_text("import own_kernel_helper\n")
    helper.write_text("answer = 1\n")
    before = outside_fingerprint("own_kernel", agent)
    assert before == outside_fingerprint("own_kernel", agent) != ""
    assert outside_fingerprint("__main__", agent) not in (before, "")  # a script's name is not its file's
    helper.write_text("answer = 2\n")
    assert outside_fingerprint("own_kernel", agent) != before


def test_whatever_a_kernel_reads_is_part_of_its_fingerprint() -> None:
    root = Path(kernel_module.__file__).parent.parent
    sources = set(kernel_sources())
    covered = {path.relative_to(root).with_suffix("").as_posix().replace("/", ".") for path in sources}
    read_by_kernels = set()
    for path in [*root.glob("runners/**/*.py"), *root.glob("analytics/**/*.py")]:
        if not re.search(r"@(kernel|inlined|turn)\b", path.read_text()):
            continue
        tree = ast.parse(path.read_text())
        origin = {
            alias.asname or alias.name: str(node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and any(map(compiles, function.decorator_list)):
                assert path in sources, path
                names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                read_by_kernels |= {origin[name] for name in names & origin.keys()}
    ours = {
        module for module in read_by_kernels if module.split(".")[0] in ("quarto", "agents", "runners", "analytics")
    }
    assert {"quarto.rules", "analytics.store.blocks"} <= ours <= covered


def compiles(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(name, ast.Name) and name.id in ("kernel", "inlined", "turn")
