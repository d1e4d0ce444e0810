"""The jit decorators of the project, and the directory that keeps what they compile.

A kernel is compiled, or read from the cache, when it is first needed, not when its module is imported. So a command
waits only for the kernels that it runs.

numba's own cache does not notice an edit in a callee of another file. The cache therefore lives in a directory named by
a hash of every source file that can change a kernel. After such an edit the old machine code is not looked at.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import event
from numba.core.caching import UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel.models import OpaqueModel
from numba.core.registry import CPUDispatcher
from numba.extending import register_model

from quarto.sources import (
    cache_root,
    compiling,
    find,
    fingerprint_of,
    kernel_sources,
    outside_fingerprint,
    project_root,
)

F = TypeVar("F", bound=Callable[..., Any])


# Casts inside kernels. numba finds NumPy's types behind these names; a type checker is told what a kernel's annotations
# say, that machine words are ints, and so checks kernels like any other function.
int64 = cast("Callable[[Any], int]", np.int64)
uint64 = cast("Callable[[Any], int]", np.uint64)
float64 = cast("Callable[[Any], float]", np.float64)


@functools.cache
def cache_directory(outside: str = "") -> Path:
    """The directory of compiled kernels: in ``$QARENA_CACHE``, else in the user's cache folder, else a temporary one.

    The last part of its path is a hash of the sources and of the versions of Python, NumPy and numba. ``outside`` is
    the fingerprint of the sources of an agent that is not the project's. All environments of a user share it.
    """
    versions = f"{sys.version} {np.__version__} {numba.__version__} {numba.config.USING_SVML}"  # a library of vectors
    stamp = hashlib.sha256(f"{fingerprint_of(kernel_sources())} {outside} {versions}".encode()).hexdigest()[:16]
    chosen = cache_root() / "kernels" / stamp
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


@functools.cache
def import_implementations() -> None:
    """Import numba's implementations of NumPy's functions, which it needs for all machine code.

    The module imports all of ``scipy.linalg``, a tenth of a second, only to learn whether SciPy is installed. Here it
    is told without the import. numba imports ``scipy.linalg`` when it compiles a kernel that calls BLAS. Callers hold
    ``global_compiler_lock``.
    """
    linalg: Any = import_module("numba.np.linalg")
    asked = linalg.ensure_blas
    linalg.ensure_blas = _require_scipy
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = asked


def _require_scipy() -> None:
    if find("scipy") is None:
        raise ImportError("SciPy is not installed")


class KernelLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Where numba keeps a kernel: the same place for each copy of the project. numba itself asks for the whole path."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a module: below the project, or a name, as ``cache_directory`` tells other sources apart."""
        folder = Path(py_file).resolve().parent
        inside = folder.is_relative_to(project_root())
        return folder.relative_to(project_root()).as_posix() if inside else folder.name


# ``forceinline`` is named although it is off: a kernel that an inlined function calls is compiled while that function
# is, and numba lets it inherit what it does not name. The result was ten times the machine code and minutes of LLVM.
KERNEL_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "forceinline": False}


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function: its machine code is read from the cache, or made, when it is needed first.

    With a ``declared`` signature there is machine code for those argument types only, and numba converts arguments to
    them. Without one there is machine code for each combination of types that it is called with.
    """

    def __init__(self, function: Callable[..., Any], declared: Any = None, from_python: bool = True) -> None:
        wrappers = {"no_cfunc_wrapper": declared is None, "no_cpython_wrapper": not from_python}
        super().__init__(function, targetoptions=KERNEL_OPTIONS | wrappers)
        self.declared = declared

    def load(self) -> None:
        """Have the machine code of the declared signature from now on. Raises what numba raises in compiling it."""
        if self.declared is None or self.overloads:
            return
        with global_compiler_lock:
            if not self.overloads:  # another thread may have been first
                self._prepare()
                super().compile(self.declared)
                self.disable_compile()

    def compile(self, sig: Any) -> Any:
        """The entry point for these argument types, which numba asks for; the declared one, if there is one."""
        if self.declared is not None:
            return self.get_compile_result(self.declared).entry_point
        with global_compiler_lock:
            self._prepare()
            return super().compile(sig)

    def get_compile_result(self, sig: Any) -> Any:
        """The machine code of this signature, which numba asks for when the kernel is passed as a function value.

        numba asks four times in a call of ``play_out``, and would compare signatures for a fifth of a millisecond.
        """
        if self.declared is None:
            return super().get_compile_result(sig)
        self.load()
        return next(iter(self.overloads.values()))

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Called by numba in place of the kernel if it has no fitting machine code yet."""
        if self.declared is None:
            return super()._compile_for_args(*args, **kws)
        self.load()
        return self

    def _search_new_conversions(self, *args: Any, **kws: Any) -> bool:
        """Called by numba if no machine code fits: registers conversions of the arguments, and tells it to look again.

        It looks again only if there were new ones. Another thread may have registered them a moment ago.
        """
        super()._search_new_conversions(*args, **kws)
        return True

    def _prepare(self) -> None:
        """Have what machine code is made with, and read from."""
        import_implementations()
        self._cache_on_disk()
        load_entries(self.py_func)

    def _cache_on_disk(self) -> None:
        """Make numba read and write machine code in our directory; other code keeps its own."""
        if self._cache.cache_path is not None:
            return
        before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
        outside = outside_fingerprint(self.py_func.__module__, Path(self.py_func.__code__.co_filename))
        numba.config.CACHE_DIR = str(cache_directory(outside))
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{KernelLocator.__name__}"
        try:
            self.enable_caching()
        finally:
            numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before


_kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()  # all those of imported modules


def kernel(signature: Any = None) -> Callable[[F], F]:
    """Compile a function that Python calls: cached on disk, without the interpreter lock, divisions as in NumPy.

    With ``signature`` it is compiled for those argument types only.
    """

    def decorate(function: F) -> F:
        compiled = Kernel(function, signature)
        _kernels.add(compiled)
        return cast("F", compiled)

    return decorate


class FunctionValue(Kernel):
    """A kernel that other kernels are given, as they are given numbers: there is nothing by which Python calls it."""

    def __init__(self, function: Callable[..., Any], declared: Any) -> None:
        super().__init__(function, declared, from_python=False)

    def __call__(self, *_arguments: Any) -> Any:
        """Raises ``TypeError``."""
        raise TypeError(f"{self.__qualname__} is called by kernels alone: give it to one (docs/agents.md)")


def function_value(signature: Any) -> Callable[[F], F]:
    """Compile a function that kernels are given as a value, for one signature: cached and so on as with ``kernel``."""

    def decorate(function: F) -> F:
        compiled = FunctionValue(function, signature)
        _kernels.add(compiled)
        return cast("F", compiled)

    return decorate


class Entry(types.ExternalFunction):  # type: ignore[misc]
    """A kernel with a declared signature as other kernels call it: by the address of its machine code.

    numba copies a kernel that is called as such into each of its callers, and LLVM optimises every copy. Twenty kernels
    ask the solver, whose compilation takes a second and a half. A call by address costs two nanoseconds.
    """

    def __init__(self, called: Kernel) -> None:
        super().__init__(f"{called.__module__}.{called.__qualname__}", called.declared)
        self.called = called
        self._known = False

    def load(self) -> None:
        """Have the machine code, and let LLVM know its address: it ends the process if a caller's code comes first."""
        if not self._known:
            compiled = self.called.get_compile_result(self.called.declared)
            address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
            binding.add_symbol(self.symbol, address)
            self._known = True

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel from Python."""
        return self.called(*arguments)


register_model(Entry)(OpaqueModel)  # as of every external function: it has no value of its own


def entry(function: F) -> F:
    """The kernel ``function``, to be called by other kernels without becoming a part of each: see ``Entry``."""
    return cast("F", Entry(cast("Kernel", function)))


def load_entries(function: FunctionType) -> None:
    """Load every entry that a function calls, or that a function calls which becomes a part of it."""
    for each in _entries_in(function):
        each.load()


@functools.cache
def _entries_in(function: FunctionType) -> frozenset[Entry]:
    found, seen, waiting = set[Entry](), {function}, [function]
    while waiting:
        current = waiting.pop()
        for value in map(current.__globals__.get, _names_in(current.__code__)):
            if isinstance(value, Entry):
                found.add(value)
            elif isinstance(value, CPUDispatcher) and value.py_func not in seen:
                seen.add(value.py_func)
                waiting.append(value.py_func)
    return frozenset(found)


def _names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function's code, and in the code of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def load(function: Callable[..., Any]) -> None:
    """Compile a kernel with a declared signature now, or read it from the cache, so that its first call is no slower.

    Raises what numba raises for a function that it cannot compile.
    """
    if isinstance(function, Kernel | Entry):
        function.load()


def load_all(packages: tuple[str, ...] = ("",)) -> None:
    """``load`` every kernel of the modules that have been imported, or of those in some packages."""
    for each in list(_kernels):
        if each.__module__.startswith(packages):
            each.load()


# Wrappers are how Python and function values call machine code; LLVM takes as long for them as for a small function.
INLINED_OPTIONS = KERNEL_OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Inlined(CPUDispatcher):  # type: ignore[misc]
    """A function that becomes a part of the kernels that call it; a call from Python compiles a kernel of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions=INLINED_OPTIONS)

    def get_call_template(self, args: Iterable[Any], kws: Mapping[str, Any]) -> Any:
        """Called by numba for a call in a kernel: a constant argument is a number like any other until LLVM inlines it.

        numba itself would compile a version for each constant.
        """
        kws = {name: types.unliteral(each) for name, each in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)

    @functools.cached_property
    def _kernel(self) -> Kernel:
        return Kernel(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function from Python, as tests do."""
        return self._kernel(*arguments)


def inlined(function: F) -> F:
    """Compile a small function that only kernels call; LLVM is told to inline it, so it costs no call."""
    return cast("F", Inlined(function))


class _Listener(event.Listener):  # type: ignore[misc]
    """Calls ``compiling.announce`` whenever numba compiles what the cache lacks, and counts it in ``compiling``.

    numba compiles in one thread at a time, and what a kernel inlines while it compiles the kernel.
    """

    def __init__(self) -> None:
        self._depth, self._since = 0, 0.0

    def on_start(self, _event: event.Event) -> None:
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1
        compiling.announce()

    def on_end(self, _event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            compiling.compiled += 1
            compiling.seconds += time.perf_counter() - self._since


event.register("numba:compile", _Listener())
