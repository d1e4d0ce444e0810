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
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import event
from numba.core.caching import UserProvidedCacheLocator
from numba.extending import models, overload, register_model, typeof_impl

from quarto.sources import (
    PERMISSION_BITS,
    PRIVATE_MODE,
    cache_root,
    compilation_progress,
    create_private_folder,
    describe_foreign_access,
    files_fingerprint,
    list_kernel_sources,
    project_root,
    third_party_fingerprint,
)

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


# Casts inside kernels. numba finds NumPy's types behind these names; a type checker is told what a kernel's annotations
# say, that machine words are ints, and so checks kernels like any other function.
int64 = cast("Callable[[Any], int]", np.int64)
uint64 = cast("Callable[[Any], int]", np.uint64)
float64 = cast("Callable[[Any], float]", np.float64)


@functools.cache
def cache_directory(outside_fingerprint: str = "") -> Path:
    """Return the directory of compiled kernels: in ``$QARENA_CACHE``, or in the user's cache folder.

    It is a temporary one, with a line in the log, if others could write there or the user cannot.

    The last part of its path is a hash of the sources and of the versions of Python, NumPy and numba. ``outside_fingerprint`` is
    the fingerprint of the sources of an agent that is not the project's. All environments of a user share it.
    """
    versions = f"{sys.version} {np.__version__} {numba.__version__} {numba.config.USING_SVML}"  # a library of vectors
    stamp = hashlib.sha256(f"{files_fingerprint(list_kernel_sources())} {outside_fingerprint} {versions}".encode()).hexdigest()[:16]
    chosen = cache_root() / "kernels" / stamp
    reason = _prepare_or_describe_obstacle(chosen)
    return _create_temporary_root(reason) / stamp if reason else chosen


@functools.cache
def _create_temporary_root(reason: str) -> Path:
    """Make a folder for this process instead of the cache, and say why."""
    logger.warning(
        "the kernel cache is not used, because %s: kernels are compiled again in each process; "
        "make that folder your own (chmod go-w), or set QARENA_CACHE to a folder of your own",
        reason,
    )
    root = Path(tempfile.mkdtemp(prefix="quarto-arena-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _prepare_or_describe_obstacle(folder: Path) -> str:
    """Make a folder of the cache, for this user alone; say what is against using it, if anything is.

    numba unpickles what it finds there, so whoever can write there can run any code as this user.
    """
    try:
        create_private_folder(folder)
        foreign, mode = describe_foreign_access(folder), folder.stat().st_mode & PERMISSION_BITS
        if not foreign and mode & ~PRIVATE_MODE:
            folder.chmod(mode & PRIVATE_MODE)  # numba's folders inside have the user's usual mode
    except OSError as error:
        return f"{error.filename or folder} cannot be used ({error.strerror})"
    return foreign or ("" if os.access(folder, os.W_OK) else f"{folder} cannot be written")


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
KERNEL_OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": False}

_dispatcher_lock = threading.RLock()  # one thread makes a dispatcher. Taken before numba's own lock, never inside it
_configuration_lock = threading.Lock()  # one thread lends numba our cache; nothing is compiled meanwhile


class _Compilations(threading.local):
    """The dispatchers of kernels with a declared signature that this thread compiles: a kernel may call itself."""

    def __init__(self) -> None:
        self.dispatchers: dict[Kernel, Any] = {}


_compilations = _Compilations()


def _build_dispatcher(function: FunctionType, options: Mapping[str, Any]) -> Any:
    """Build numba's dispatcher of a function, which keeps machine code in our directory; other code keeps its own.

    A function without a source file, as in ``python -c``, is compiled in each process.
    """
    source = Path(function.__code__.co_filename)
    if not source.is_file():
        return numba.njit(**options)(function)
    with _configuration_lock:
        before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_DIR = str(cache_directory(third_party_fingerprint(function.__module__, source)))
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{KernelLocator.__name__}"
        try:
            return numba.njit(cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before


class Kernel:
    """A compiled function: its machine code is read from the cache, or made, when it is needed first.

    With a ``declared`` signature there is machine code for those argument types only, and numba converts arguments to
    them. Without one there is machine code for each combination of types that it is called with.

    numba's dispatcher is shown to callers only when it is complete. In a call numba first decides whether arguments
    must match exactly, as they must while it may compile, then finds their types, and then looks for a match. If
    another thread ended the compiling in between, the call would be refused.
    """

    def __init__(self, function: Callable[..., Any], declared: Any = None, from_python: bool = True) -> None:
        functools.update_wrapper(self, function)
        self.py_func = cast("FunctionType", function)
        self.declared = declared
        self._options = KERNEL_OPTIONS | {"no_cfunc_wrapper": declared is None, "no_cpython_wrapper": not from_python}
        self._dispatcher: Any = None

    def load(self) -> Any:
        """Return numba's dispatcher, which kernels are given as a function value.

        Raises what numba raises in compiling the declared signature.
        """
        if self._dispatcher is None:
            with _dispatcher_lock:
                self.load_while_compiling()
        return self._dispatcher

    def load_while_compiling(self) -> Any:
        """``load`` for a thread that may be compiling a caller: it has numba's lock, and must not wait for ours."""
        if self._dispatcher is None:
            dispatcher = _build_dispatcher(self.py_func, self._options)
            for each in _find_external_kernels(self.py_func):
                each.load_while_compiling()
            if self.declared is not None:
                self._compile(dispatcher)
            self._dispatcher = dispatcher
        return self._dispatcher

    def _compile(self, dispatcher: Any) -> None:
        _compilations.dispatchers[self] = dispatcher
        try:
            dispatcher.compile(self.declared)
        finally:
            del _compilations.dispatchers[self]
        dispatcher.disable_compile()

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel from Python."""
        dispatcher = self._dispatcher
        return (self.load() if dispatcher is None else dispatcher)(*arguments)

    def __reduce__(self) -> str:
        """Copy and pickle a kernel as what it is: a name in its module."""
        return self.__qualname__

    __qualname__: str


@typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
def _resolve_kernel_type(called: Kernel, context: Any) -> Any:
    """Tell numba the type of a kernel that a kernel calls."""
    if context.purpose.name == "argument":
        raise TypeError(f"{called.__qualname__} is a kernel: give another kernel load({called.__qualname__})")
    dispatcher = _compilations.dispatchers.get(called)
    return numba.typeof(called.load_while_compiling() if dispatcher is None else dispatcher)


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
        name = self.__qualname__
        raise TypeError(f"{name} is called by kernels alone: give one of them load({name}) (docs/agents.md)")


def function_value(signature: Any) -> Callable[[F], F]:
    """Compile a function that kernels are given as a value, for one signature: cached and so on as with ``kernel``.

    Kernels are given what ``load`` returns.
    """

    def decorate(function: F) -> F:
        compiled = FunctionValue(function, signature)
        _kernels.add(compiled)
        return cast("F", compiled)

    return decorate


class ExternalKernel(types.ExternalFunction):  # type: ignore[misc]
    """A kernel with a declared signature as other kernels call it: by the address of its machine code.

    numba copies a kernel that is called as such into each of its callers, and LLVM optimises every copy. Twenty kernels
    ask the solver, whose compilation takes a second and a half. A call by address costs two nanoseconds.
    """

    def __init__(self, called: Kernel) -> None:
        super().__init__(f"{called.__module__}.{called.__qualname__}", called.declared)
        self.called = called
        self._has_address = False

    def load(self) -> None:
        """Have the machine code, and let LLVM know its address: it ends the process if a caller's code comes first."""
        with _dispatcher_lock:
            self.load_while_compiling()

    def load_while_compiling(self) -> None:
        """``load`` for a thread that may be compiling a caller, see ``Kernel.build``."""
        if not self._has_address:
            compiled = types.CompileResultWAP(self.called.load_while_compiling().get_compile_result(self.called.declared))
            binding.add_symbol(self.symbol, compiled.address)
            self._has_address = True

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel from Python."""
        return self.called(*arguments)


register_model(ExternalKernel)(models.OpaqueModel)  # as of every external function: it has no value of its own


def to_external_kernel(function: F) -> F:
    """The kernel ``function``, called by other kernels without becoming a part of each: see ``ExternalKernel``."""
    return cast("F", ExternalKernel(cast("Kernel", function)))


@functools.cache
def _find_external_kernels(function: FunctionType) -> frozenset[ExternalKernel]:
    """Every entry that a function calls, or that a function calls which becomes a part of it."""
    found, seen, waiting = set[ExternalKernel](), {function}, [function]
    while waiting:
        current = waiting.pop()
        for value in map(current.__globals__.get, _list_code_names(current.__code__)):
            if isinstance(value, ExternalKernel):
                found.add(value)
            elif isinstance(value, Kernel | InlineFunction) and value.py_func not in seen:
                seen.add(value.py_func)
                waiting.append(value.py_func)
    return frozenset(found)


def _list_code_names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function's code, and in the code of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_code_names(constant)


def load_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel with a declared signature now, or read it from the cache, so that its first call is no slower.

    Returns what other kernels are given as a function value. Raises what numba raises for a function that it cannot
    compile.
    """
    return function.load() if isinstance(function, Kernel | ExternalKernel) else function


def load_kernels(packages: tuple[str, ...] = ("",)) -> None:
    """``load`` every kernel of the modules that have been imported, or of those in some packages."""
    for each in list(_kernels):
        if each.declared is not None and each.__module__.startswith(packages):
            each.load()


# Wrappers are how Python and function values call machine code; LLVM takes as long for them as for a small function.
INLINE_OPTIONS = KERNEL_OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class InlineFunction:
    """A function that becomes a part of the kernels that call it; a call from Python compiles a kernel of its own.

    To numba it is an overload. So a constant argument is a number like any other until LLVM inlines it; of a function
    compiled by ``numba.njit`` numba compiles a version for each constant.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = cast("FunctionType", function)
        overload(self, jit_options=INLINE_OPTIONS, strict=False)(lambda *_arguments: function)

    @functools.cached_property
    def _kernel(self) -> Kernel:
        return Kernel(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function from Python, as tests do."""
        return self._kernel(*arguments)


def inline_function(function: F) -> F:
    """Compile a small function that only kernels call; LLVM is told to inline it, so it costs no call."""
    return cast("F", InlineFunction(function))


class _CompilationListener(event.Listener):  # type: ignore[misc]
    """Calls ``compilation_progress.announce`` whenever numba compiles what the cache lacks, and counts it there.

    numba compiles in one thread at a time, and what a kernel inlines while it compiles the kernel.
    """

    def __init__(self) -> None:
        self._depth, self._since = 0, 0.0

    def on_start(self, _event: event.Event) -> None:
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1
        compilation_progress.announce()

    def on_end(self, _event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            compilation_progress.compiled += 1
            compilation_progress.seconds += time.perf_counter() - self._since


event.register("numba:compile", _CompilationListener())
