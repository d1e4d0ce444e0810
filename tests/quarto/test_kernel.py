from __future__ import annotations

import ast
import copy
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba import types
from numba.extending import typeof_impl
from numpy.typing import NDArray

from quarto import jit as kernel_module
from quarto.bits import float_bits, lowest_bit, nth_bit, nth_bit_by_table, popcount
from quarto.jit import function_value, kernel, load_kernel
from quarto.sources import KERNEL_PACKAGES, OTHER_PACKAGES, third_party_fingerprint
from tests.marks import seldom
from tests.paths import ROOT


@kernel()
def every_bit(masks: NDArray[np.int64]) -> NDArray[np.int64]:
    """List each mask's number of ones, its lowest one, and twice all of them in order: [N, 34]."""
    bits = np.full((masks.shape[0], 34), -1, np.int64)
    for i in range(masks.shape[0]):
        bits[i, 0] = popcount(masks[i])
        if masks[i]:
            bits[i, 1] = lowest_bit(masks[i])
        for n in range(bits[i, 0]):
            bits[i, 2 + n] = nth_bit(masks[i], n)  # by whatever this processor does best
            bits[i, 18 + n] = nth_bit_by_table(masks[i], n)
    return bits


@kernel()
def bits_of_floats(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    bits = np.zeros(numbers.shape[0], np.int64)
    for i in range(numbers.shape[0]):
        bits[i] = float_bits(numbers[i])
    return bits


def test_bits_of_all_masks_equal_those_counted_one_by_one() -> None:
    kernel_bits = every_bit(np.arange(1 << 16))
    for mask in range(1 << 16):
        bits = [bit for bit in range(16) if mask >> bit & 1]
        padded = [*bits, *[-1] * (16 - len(bits))]
        assert kernel_bits[mask].tolist() == [len(bits), bits[0] if bits else -1, *padded, *padded]


READ_ONLY = types.Array(types.int64, 1, "C", readonly=True)


class Start(NamedTuple):
    number: int


@kernel(types.int64(READ_ONLY, numba.typeof(Start(0))))
def sum_from(values: NDArray[np.int64], start: Start) -> int:
    total = start.number
    for value in values:
        total += value
    return total


class LoadingNumber(int):
    """A number whose type is asked for while another thread, here the same one, completes the kernel."""


@typeof_impl.register(LoadingNumber)  # type: ignore[untyped-decorator]
def type_of_loading_number(_number: LoadingNumber, _context: object) -> types.Type:
    load_kernel(sum_from)
    return types.int64


def test_a_kernel_that_is_completed_while_it_is_called_converts_its_arguments() -> None:
    """Check a race: numba asks whether arguments must match exactly, then for their types, then what may be converted.

    A thread that completed the kernel in between made the call fail with "No matching definition for argument type(s)".
    """
    writable = np.arange(4)  # the kernel reads a read-only array: a conversion
    assert sum_from(writable, Start(LoadingNumber(3))) == 9


@kernel()
def add_one(number: int) -> int:
    return number + 1


@kernel("int64(int64)")
def add_two(number: int) -> int:
    return add_one(add_one(number))


@kernel("int64(int64)")
def count_down(number: int) -> int:
    return 0 if number == 0 else 1 + count_down(number - 1)


@function_value("int64(int64)")
def add_three(number: int) -> int:
    return add_two(number) + 1


@kernel(types.int64(types.FunctionType(types.int64(types.int64)), types.int64))
def call_twice(function: Callable[[int], int], number: int) -> int:
    return function(function(number))


def test_kernels_call_kernels_themselves_and_function_values() -> None:
    assert (add_two(1), count_down(5), call_twice(load_kernel(add_three), 1)) == (3, 5, 7)
    with pytest.raises(TypeError, match=r"give another kernel load\(add_three\)"):
        call_twice(add_three, 1)
    with pytest.raises(TypeError, match="called by kernels alone"):
        add_three(1)


def test_a_copied_kernel_is_the_kernel() -> None:
    for original in (sum_from, add_one, add_three):
        assert copy.deepcopy(original) is pickle.loads(pickle.dumps(original)) is original  # noqa: S301


def test_a_kernel_without_a_source_file_is_compiled_without_a_cache() -> None:
    namespace: dict[str, Any] = {"kernel": kernel}
    exec("@kernel()\ndef double(number):\n    return 2 * number\n", namespace)  # noqa: S102  (as in a notebook)
    assert namespace["double"](4) == 8


DOCUMENTED = {"numba.core.event", "numba.core.caching.UserProvidedCacheLocator"}  # of numba.core, as of numba 0.68


def test_numbas_private_parts_are_left_alone() -> None:
    """Check that we use none: numba's dispatcher calls them in an order that threads and new versions can break."""
    root = Path(kernel_module.__file__).parent.parent
    paths = [path for package in (*KERNEL_PACKAGES, *OTHER_PACKAGES) for path in root.glob(f"{package}/**/*.py")]
    for path in (path for path in paths if "numba.core" in path.read_text()):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("numba.core"):
                assert {f"{node.module}.{alias.name}" for alias in node.names} <= DOCUMENTED, path
    private = [
        node
        for node in ast.walk(ast.parse(Path(kernel_module.__file__).read_text()))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    assert {ast.unparse(node.value) for node in private} == {"self"}


EDITS = {  # of quarto/rng.py and quarto/bits.py: the file, its text, what it becomes, and whether that is compiled
    "one": ("rng.py", "", "", True),
    "two": ("rng.py", "", "", False),
    "moved and commented": ("rng.py", "from __future__", "# An edit that moves every line.\n\nfrom __future__", False),
    "another docstring": ("rng.py", '"""Return', '"""Really return', False),
    "another constant": (
        "rng.py",
        "GAMMA = uint64(0x9E37_79B9_7F4A_7C15)",
        "GAMMA = uint64(0x9E37_79B9_7F4A_7C17)",
        True,
    ),
}


@pytest.mark.parametrize("names", [("one", "two"), *seldom((tuple(EDITS),))])
def test_only_an_edit_that_changes_a_kernel_compiles_it_again(names: tuple[str, ...], tmp_path: Path) -> None:
    """Import copies, as other environments of the same user have them, and edited ones, as an upgrade has them."""
    script = (
        "import quarto, sys, numpy as np; from quarto import rng, sources; rng.Streams(np.zeros(1, np.uint64)).draw(0);"
        "print(quarto.__file__, sources.compilation_progress.compiled)"
    )
    for name in names:
        file, old, new, compiles = EDITS[name]
        shutil.copytree(ROOT / "quarto", tmp_path / name / "quarto")
        edited = tmp_path / name / "quarto" / file
        assert old in edited.read_text()
        edited.write_text(edited.read_text().replace(old, new))
        environment = os.environ | {"PYTHONPATH": str(tmp_path / name), "QARENA_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-c", script]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        imported, compiled = ended.stdout.rsplit(maxsplit=1)
        assert Path(imported).is_relative_to(tmp_path / name)
        assert (int(compiled) > 0) == compiles, name


def test_bits_of_floats_are_those_of_ieee_754_and_grow_with_those_not_negative() -> None:
    numbers = np.array([-np.inf, 0.0, 5e-324, 0.1, 0.1 + 2.0**-55, 1.0, 1.5, 1e300, np.inf])
    bits = bits_of_floats(numbers)
    assert bits.tolist() == numbers.view(np.int64).tolist()
    assert bits[1:].tolist() == sorted(set(bits[1:].tolist()))
    assert bits[0] < bits[1]


def test_an_edit_of_what_an_outside_kernel_imports_makes_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    agent, helper = tmp_path / "own_kernel.py", tmp_path / "own_kernel_helper.py"
    agent.write_text("import own_kernel_helper\n")
    helper.write_text("answer = 1\n")
    before = third_party_fingerprint("own_kernel", agent)
    assert before == third_party_fingerprint("own_kernel", agent) != ""
    assert third_party_fingerprint("__main__", agent) not in (before, "")  # a script's name is not its file's
    helper.write_text("answer = 2\n")
    assert third_party_fingerprint("own_kernel", agent) != before
