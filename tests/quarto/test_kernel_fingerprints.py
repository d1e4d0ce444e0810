"""A fingerprint changes with all that can change a kernel's machine code, and with nothing else."""

from __future__ import annotations

import importlib
import textwrap
from types import ModuleType
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import types

from quarto import kernel_fingerprints
from quarto.jit import Kernel
from quarto.kernel_fingerprints import compute_kernel_fingerprint, describe_signature, describe_value
from quarto.sources import KERNEL_PACKAGES, OTHER_PACKAGES
from tests.paths import ROOT

SOURCE = '''
    """A module."""
    from typing import NamedTuple
    import numpy as np
    from quarto import bits
    from quarto.jit import inline_function, kernel, uint64

    FACTOR = 3
    TABLE = np.arange(4)
    SHIFTS = (1, uint64(2))

    class Pair(NamedTuple):
        first: int
        second: int

    def make_offset(offset):
        @inline_function
        def add_offset(number):
            return number + offset

        return add_offset

    add_offset = make_offset(5)

    @inline_function
    def scale(number):
        """Scale a number."""
        return add_offset(number) * FACTOR + TABLE[0] + bits.lowest_bit(number)

    @kernel()
    def read(pair: Pair, step=1):
        for index in range(3):
            if pair.first > SHIFTS[0] and np.uint64(index) < SHIFTS[1]:
                return scale(pair.second + step)
        return 0

    @kernel()
    def other():
        return 1
'''


def fingerprint(source: str, name: str = "read", module_name: str = "agents.edited") -> str:
    module = ModuleType(module_name)
    exec(compile(textwrap.dedent(source), "agents/edited.py", "exec", dont_inherit=True), vars(module))  # noqa: S102
    return compute_kernel_fingerprint(getattr(module, name).py_func, ())


SAME = {
    "a comment": ("return 0", "return 0  # a comment"),
    "moved lines": ("FACTOR = 3", "# A line.\n    FACTOR = 3"),
    "a docstring": ('"""Scale a number."""', '"""Multiply a number."""'),
    "another function": ("return 1", "return 2"),
    "what nobody reads": ("FACTOR = 3", "FACTOR = 3\n    UNUSED = 4"),
    "equal values": ("np.arange(4)", "np.array([0, 1, 2, 3])"),
}
OTHER = {
    "an operator": ("pair.first > SHIFTS", "pair.first >= SHIFTS"),
    "a constant in the code": ("return 0", "return 7"),
    "a global": ("FACTOR = 3", "FACTOR = 4"),
    "the type of a global": ("FACTOR = 3", "FACTOR = 3.0"),
    "a value in a table": ("np.arange(4)", "np.array([0, 1, 2, 4])"),
    "the type of a table": ("np.arange(4)", "np.arange(4, dtype=np.int32)"),
    "a value in a tuple": ("(1, uint64(2))", "(1, uint64(3))"),
    "the type of a value in a tuple": ("(1, uint64(2))", "(1, 2)"),
    "an inlined function": ("add_offset(number) *", "add_offset(number) +"),
    "a variable of an outer function": ("make_offset(5)", "make_offset(6)"),
    "an operation of another module": ("bits.lowest_bit", "bits.popcount"),
    "the order of a named tuple's fields": (
        "first: int\n        second: int",
        "second: int\n        first: int",
    ),
    "a default": ("step=1", "step=2"),
}


@pytest.mark.parametrize("edit", SAME)
def test_an_edit_without_effect_leaves_the_fingerprint(edit: str) -> None:
    old, new = SAME[edit]
    assert SOURCE.count(old) == 1
    assert fingerprint(SOURCE.replace(old, new)) == fingerprint(SOURCE)


@pytest.mark.parametrize("edit", OTHER)
def test_an_edit_with_an_effect_changes_the_fingerprint(edit: str) -> None:
    old, new = OTHER[edit]
    assert SOURCE.count(old) == 1
    assert fingerprint(SOURCE.replace(old, new)) != fingerprint(SOURCE)
    assert fingerprint(SOURCE.replace(old, new), "other") == fingerprint(SOURCE, "other")


def test_what_an_installed_package_inlines_is_followed() -> None:
    """Follow inline functions of packages of others, because they may call functions that this project changes."""
    old, new = OTHER["an inlined function"]
    fingerprints = {fingerprint(source, module_name="numpy.agents") for source in (SOURCE, SOURCE.replace(old, new))}
    assert len(fingerprints) == 2


class Old(NamedTuple):
    first: int
    second: int


class New(NamedTuple):
    second: int
    first: int


def test_the_fields_of_declared_named_tuples_are_described() -> None:
    texts = [
        describe_signature(types.int64(numba.typeof(pair), numba.typeof((pair,)))) for pair in (Old(1, 2), New(1, 2))
    ]
    assert texts[0].replace("Old", "New") != texts[1]
    assert describe_signature(None) == ""
    assert describe_signature("int64(int64)") == "int64(int64)"


def test_records_are_described_by_their_fields() -> None:
    one, other = np.dtype([("a", "i4"), ("b", "i4")]), np.dtype([("b", "i4"), ("a", "i4")])
    assert describe_value(one) != describe_value(other)
    assert describe_value(numba.from_dtype(one)) != describe_value(numba.from_dtype(other))


def find_kernels() -> dict[str, Kernel]:
    """Import every module of the project that may hold kernels, and return the kernels by their names."""
    kernels = {}
    for package in (*KERNEL_PACKAGES, *OTHER_PACKAGES):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "from quarto.jit import" in path.read_text() and "templates" not in path.parts:
                module = importlib.import_module(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
                for value in vars(module).values():
                    if isinstance(value, Kernel):
                        kernels[f"{value.__module__}.{value.__qualname__}"] = value
    return kernels


def test_no_kernel_of_the_project_depends_on_a_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that each value that a kernel reads is of a known kind, so an edit of a docstring compiles nothing."""

    def fail(*_arguments: object) -> str:
        raise AssertionError("a value stands for the file that defines it")

    kernels = find_kernels()
    assert len(kernels) > 100
    kernel_fingerprints.read_function.cache_clear()
    monkeypatch.setattr(kernel_fingerprints, "files_fingerprint", fail)
    monkeypatch.setattr(kernel_fingerprints, "source_fingerprint", fail)
    fingerprints = {name: compute_kernel_fingerprint(kernel.py_func, ()) for name, kernel in kernels.items()}
    assert len(set(fingerprints.values())) == len(kernels)
