"""The jit decorators of the project, and the directory that keeps what they compile.

numba's own cache does not notice an edit in a callee of another file. The cache therefore lives in a directory named
by a hash of every source file that can change a kernel: after such an edit the old machine code is not looked at.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

KERNEL_PACKAGES = ("quarto", "agents")  # every file of these may hold a kernel, or a constant that one reads
OTHER_PACKAGES = ("runners", "analytics")  # of these only the files that import the decorators below

# Casts inside kernels. numba finds NumPy's types behind these names; a type checker is told what a kernel's annotations
# say, that machine words are ints, and so checks kernels like any other function.
int64 = cast("Callable[[Any], int]", np.int64)
uint64 = cast("Callable[[Any], int]", np.uint64)
float64 = cast("Callable[[Any], float]", np.float64)


@functools.cache
def project_root() -> Path:
    """The folder that holds the project's packages."""
    return Path(__file__).resolve().parent.parent


@functools.cache
def source_fingerprint(packages: tuple[str, ...]) -> str:
    """Hex SHA-256 over the paths and bytes of every Python file in ``packages`` (folders beside this one)."""
    return _fingerprint(_sources(packages))


def kernel_sources() -> list[Path]:
    """The project's files that decide what its kernels do: an edit to any other one compiles nothing anew."""
    importing = (path for path in _sources(OTHER_PACKAGES) if b"from quarto.kernel import" in path.read_bytes())
    return [*_sources(KERNEL_PACKAGES), *importing]


def _sources(packages: tuple[str, ...]) -> list[Path]:
    return [path for package in packages for path in sorted((project_root() / package).rglob("*.py"))]


def outside_fingerprint(source: Path) -> str:
    """The same over whatever an agent from elsewhere may call: all of the package, or folder, that its file is in.

    Empty for a file of the project's own packages.
    """
    source = source.resolve()
    if any(source.is_relative_to(project_root() / package) for package in (*KERNEL_PACKAGES, *OTHER_PACKAGES)):
        return ""
    folder = source.parent
    if not (folder / "__init__.py").exists():
        return _fingerprint(sorted(folder.glob("*.py")))
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return _fingerprint(sorted(folder.rglob("*.py")))


def _fingerprint(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        inside = path.is_relative_to(project_root())
        digest.update(path.relative_to(project_root()).as_posix().encode() if inside else path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def cache_directory(outside: str = "") -> Path:
    """Where compiled kernels are kept: ``$QARENA_CACHE``, else the user's cache folder, else a temporary one.

    The last part of the path names the sources (``outside`` those of an agent from elsewhere), the Python and the numba
    they were compiled by.
    """
    stamp = hashlib.sha256(
        f"{_fingerprint(kernel_sources())} {outside} {sys.version} {numba.__version__} {sys.prefix}".encode()
    ).hexdigest()[:16]
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    chosen = Path(os.environ.get("QARENA_CACHE") or user_cache / "quarto-arena") / "kernels" / stamp
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        writable = os.access(chosen, os.W_OK)
    except OSError:
        writable = False
    if writable:
        return chosen
    # A read-only home: compile anew in each process, in a private folder. Never in a shared one that another user could
    # have filled: numba unpickles what it finds there.
    chosen = Path(tempfile.mkdtemp(prefix="quarto-arena-"))
    atexit.register(shutil.rmtree, chosen, ignore_errors=True)
    return chosen


def kernel(signature: Any = None) -> Callable[[F], F]:
    """Compile a function that Python calls: cached on disk, without the interpreter lock, divisions as in NumPy.

    With ``signature`` it is compiled (or read from the cache) at once, for those argument types only.
    """

    def decorate(function: F) -> F:
        before = numba.config.CACHE_DIR
        outside = outside_fingerprint(Path(function.__code__.co_filename))
        numba.config.CACHE_DIR = str(cache_directory(outside))  # read while numba decorates: other code keeps its own
        try:
            compiled: F = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function)
        finally:
            numba.config.CACHE_DIR = before
        return compiled

    return decorate


def inlined(function: F) -> F:
    """Compile a small function that only kernels call; LLVM is told to inline it, so it costs no call."""
    compiled: F = numba.njit(forceinline=True, error_model="numpy")(function)
    return compiled


@intrinsic  # type: ignore[untyped-decorator]
def popcount(typing_context: Any, word: Any) -> Any:
    """Number of set bits of an integer, as the same integer type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return word(word), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Index of the lowest set bit of an integer, as the same integer type; undefined for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return word(word), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_bits(typing_context: Any, number: Any) -> Any:
    """The 64 bits of a float64 as int64. Among numbers that are not negative, greater ones have greater bits.

    LLVM compares integers many at a time; the largest of floats it looks for one by one, because of NaN.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def array_pointer(typing_context: Any, address: Any) -> Any:
    """An integer address as ``void*``, for ``numba.carray``: how a kernel reaches an array that a record names."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line at an integer address, to be read soon: nothing waits for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), kind)
        builder.call(fetch, [pointer, number(0), number(3), number(1)])  # to read, into every cache, data
        return context.get_dummy_value()

    return types.void(address), generate


def _bit_positions() -> NDArray[np.uint8]:
    """[256 x 8] by byte and n: the index of the n-th set bit of the byte."""
    positions = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        of_byte = [bit for bit in range(8) if byte >> bit & 1]
        positions[byte, : len(of_byte)] = of_byte
    return positions.reshape(-1)


BIT_POSITIONS = _bit_positions()


@inlined
def nth_bit_by_table(mask: int, n: int) -> int:
    """``nth_bit`` on any processor.

    Which half holds it is decided without a branch: a random ``n`` would be mispredicted half of the time.
    """
    low = popcount(uint64(mask) & uint64(0xFF))
    upper = uint64(uint64(n) >= low)
    shift = upper << uint64(3)
    byte = (uint64(mask) >> shift) & uint64(0xFF)
    position = BIT_POSITIONS[(byte << uint64(3)) + uint64(n) - low * upper]
    return int64(uint64(position) + shift)


@intrinsic  # type: ignore[untyped-decorator]
def deposit_bits(typing_context: Any, word: Any, mask: Any) -> Any:
    """The low bits of ``word`` put where ``mask`` has ones (both uint64): the instruction PDEP of x86-64 with BMI2."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 2)
        return builder.call(builder.module.declare_intrinsic("llvm.x86.bmi.pdep.64", (), kind), arguments)

    return types.uint64(types.uint64, types.uint64), generate


@inlined
def nth_bit_by_deposit(mask: int, n: int) -> int:
    """``nth_bit`` in two instructions; random play is a seventh faster."""
    return int64(lowest_bit(deposit_bits(uint64(1) << uint64(n), uint64(mask))))


def _deposits_bits() -> bool:
    """Whether numba compiles for this machine's own processor, and that has PDEP."""
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        return False
    return platform.machine() in ("x86_64", "AMD64") and bool(get_host_cpu_features().get("bmi2"))


# Index of the n-th (from 0) set bit of a 16-bit mask; n must be below its number of set bits.
nth_bit = nth_bit_by_deposit if _deposits_bits() else nth_bit_by_table
