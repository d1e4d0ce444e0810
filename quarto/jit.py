"""The jit decorators of the project, and the directory that keeps what they compile.

A kernel is compiled, or read from the cache, when it is first needed, not when its module is imported. So a command
waits only for the kernels that it runs.

In the cache a kernel is found by its fingerprint (``quarto.kernel_fingerprints``), because numba's own cache does not
notice an edit in a callee of another file, and does not survive an edit of a comment.
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
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, TypeVar, cast

import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import event
from numba.core.caching import UserProvidedCacheLocator
from numba.extending import models, overload, register_model, typeof_impl

from quarto.kernel_fingerprints import (
    compute_kernel_fingerprint,
    describe_code,
    describe_signature,
    list_code_names,
    list_reached_functions,
)
from quarto.sources import (
    PERMISSION_BITS,
    PRIVATE_MODE,
    cache_root,
    compilation_progress,
    create_missing_folders_privately,
    describe_foreign_access,
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
def ensure_usable_cache_directory() -> Path:
    """Create the cache directory for compiled kernels if it is missing, and return it.

    It is in ``$QARENA_CACHE`` or in the user's cache folder. If other users can write to that place, or this user
    cannot, a temporary directory is used instead, and the reason is logged.

    The last part of its path is a hash of the versions of Python, NumPy and numba. All environments of a user with the
    same versions share the directory, because different kernels have files with different names: see ``KernelLocator``.
    """
    versions = f"{sys.version} {np.__version__} {numba.__version__} {numba.config.USING_SVML}"  # a library of vectors
    stamp = hashlib.sha256(versions.encode()).hexdigest()[:16]
    directory = cache_root() / "kernels" / stamp
    obstacle = _create_folder_or_describe_obstacle(directory)
    return _create_temporary_root(obstacle) / stamp if obstacle else directory


@functools.cache
def _create_temporary_root(reason: str) -> Path:
    """Create a folder that replaces the cache in this process, and log the reason."""
    logger.warning(
        "the kernel cache is not used, because %s: kernels are compiled again in each process; "
        "make that folder your own (chmod go-w), or set QARENA_CACHE to a folder of your own",
        reason,
    )
    root = Path(tempfile.mkdtemp(prefix="quarto-arena-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _create_folder_or_describe_obstacle(folder: Path) -> str:
    """Create a folder of the cache that only this user can enter.

    Returns an empty text, or the reason why the folder cannot be used. The folder must be private because numba
    unpickles the files in it: whoever can write to it can run any code as this user.
    """
    try:
        create_missing_folders_privately(folder)
        foreign, mode = describe_foreign_access(folder), folder.stat().st_mode & PERMISSION_BITS
        if not foreign and mode & ~PRIVATE_MODE:
            folder.chmod(mode & PRIVATE_MODE)  # numba's folders inside have the user's usual mode
    except OSError as error:
        return f"{error.filename or folder} cannot be used ({error.strerror})"
    return foreign or ("" if os.access(folder, os.W_OK) else f"{folder} cannot be written")


class KernelLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """The place where numba caches a kernel, and the fingerprint by which numba recognises the cached machine code.

    By default numba would use the source file's path, the hash of its content and a line number. It would then
    recompile a kernel when only a comment had changed, but not when the kernel calls a function of another file and
    that function had changed.
    """

    fingerprint: ClassVar[str] = ""  # of the kernel whose dispatcher is being built

    def __init__(self, function: FunctionType, file: str) -> None:
        super().__init__(function, file)
        self._fingerprint = self.fingerprint

    def get_source_stamp(self) -> str:
        """Return the kernel's fingerprint. numba uses cached machine code only if its stamp equals this fingerprint."""
        return self._fingerprint

    def get_disambiguator(self) -> str:
        """Return the first 16 characters of the fingerprint, which become a part of the names of cache files.

        Different versions of a kernel thus have different files.
        """
        return self._fingerprint[:16]

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the subfolder of the cache for the source file ``py_file``: the path of its folder within the project.

        For a file outside the project, return only the name of its folder, because the fingerprint tells such files
        apart.
        """
        folder = Path(py_file).resolve().parent
        inside = folder.is_relative_to(project_root())
        return folder.relative_to(project_root()).as_posix() if inside else folder.name


# ``forceinline`` is named although it is off: a kernel that an inlined function calls is compiled together with that
# function, and numba lets it inherit the options that it does not name. The result was ten times the machine code and
# minutes of LLVM.
KERNEL_OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": False}

_dispatcher_lock = threading.RLock()  # one thread builds a dispatcher. Taken before numba's own lock, never inside it
_configuration_lock = threading.Lock()  # one thread lends numba our cache; nothing is compiled meanwhile


class _Compilations(threading.local):
    """The dispatchers of the kernels that this thread is compiling, needed because a kernel may call itself.

    Only kernels with a declared signature are included.
    """

    def __init__(self) -> None:
        self.dispatchers: dict[Kernel, Any] = {}


_compilations = _Compilations()


def _build_dispatcher(function: FunctionType, options: Mapping[str, Any], declared: Any) -> Any:
    """Build numba's dispatcher of a function, and let it keep its machine code in the project's cache directory.

    ``options`` are options of numba, and ``declared`` is the declared signature, or None. A function without a source
    file, as in ``python -c``, is not cached and so is compiled in each process.
    """
    source = Path(function.__code__.co_filename)
    if not source.is_file():
        return numba.njit(**options)(function)
    fingerprint = compute_kernel_fingerprint(
        function,
        (
            *describe_code(InlineFunction.__init__.__code__, None),  # how numba is told to compile what is inlined
            f"{sorted(options.items())} {sorted(INLINE_OPTIONS.items())}",
            describe_signature(declared),
            third_party_fingerprint(function.__module__, source),
        ),
    )
    with _configuration_lock:
        usual_settings = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_DIR = str(ensure_usable_cache_directory())
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{KernelLocator.__name__}"
        KernelLocator.fingerprint = fingerprint
        try:
            return numba.njit(cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = usual_settings


class Kernel:
    """A function whose machine code is compiled, or read from the cache, when it is first needed.

    With a ``declared`` signature, there is machine code for its argument types only, and numba converts arguments to
    these types. Without one, there is machine code for each combination of argument types in calls. ``from_python``
    says whether Python can call the kernel.

    Callers get numba's dispatcher only when it is complete, because a call may fail if another thread completes the
    dispatcher during it. At the beginning of a call, numba decides whether it may convert arguments; it may not while
    the dispatcher can still compile. numba would then look for machine code for the exact types of the arguments, which
    the complete dispatcher may not have and can no longer compile.
    """

    def __init__(self, function: Callable[..., Any], declared: Any = None, from_python: bool = True) -> None:
        functools.update_wrapper(self, function)
        self.py_func = cast("FunctionType", function)
        self.declared = declared
        self._options = KERNEL_OPTIONS | {"no_cfunc_wrapper": declared is None, "no_cpython_wrapper": not from_python}
        self._dispatcher: Any = None

    def load(self) -> Any:
        """Return numba's dispatcher of the kernel, which can be passed to other kernels as an argument.

        The first call compiles the kernel or reads it from the cache. Raises numba's error if the declared signature
        cannot be compiled.
        """
        if self._dispatcher is None:
            with _dispatcher_lock:
                self.load_while_compiling()
        return self._dispatcher

    @property
    def is_loaded(self) -> bool:
        """Whether the kernel has been called or loaded in this process."""
        return self._dispatcher is not None

    def load_while_compiling(self) -> Any:
        """Load the kernel in a thread that may be compiling a caller of this kernel, and return numba's dispatcher.

        Such a thread holds numba's lock. Unlike ``load``, this method therefore does not wait for ``_dispatcher_lock``,
        because waiting could deadlock.
        """
        if self._dispatcher is None:
            dispatcher = _build_dispatcher(self.py_func, self._options, self.declared)
            for external_kernel in _find_all_kernels_called_by_address(self.py_func):
                external_kernel.load_while_compiling()
            if self.declared is not None:
                self._compile_only_declared_signature(dispatcher)
            self._dispatcher = dispatcher
        return self._dispatcher

    def _compile_only_declared_signature(self, dispatcher: Any) -> None:
        _compilations.dispatchers[self] = dispatcher
        try:
            dispatcher.compile(self.declared)
        finally:
            del _compilations.dispatchers[self]
        dispatcher.disable_compile()

    def __call__(self, *arguments: Any) -> Any:
        dispatcher = self._dispatcher
        return (self.load() if dispatcher is None else dispatcher)(*arguments)

    def __reduce__(self) -> str:
        """Return the name of the kernel in its module, by which ``copy`` and ``pickle`` find it."""
        return self.__qualname__

    __qualname__: str


@typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
def _resolve_kernel_type(callee: Kernel, context: Any) -> Any:
    """Return the numba type of a kernel that another kernel calls.

    Raises ``TypeError`` for a kernel that is passed as an argument.
    """
    if context.purpose.name == "argument":
        raise TypeError(f"{callee.__qualname__} is a kernel: give another kernel load({callee.__qualname__})")
    dispatcher = _compilations.dispatchers.get(callee)
    return numba.typeof(callee.load_while_compiling() if dispatcher is None else dispatcher)


_kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()  # all kernels of imported modules


def kernel(signature: Any = None) -> Callable[[F], F]:
    """Return a decorator that turns a function into a kernel, which Python and other kernels can call.

    The machine code is cached on disk and runs without the interpreter lock. Division by zero follows NumPy's rules.

    Args:
        signature: A signature of numba. With it, the function is compiled for these argument types only.

    """

    def decorate(function: F) -> F:
        compiled = Kernel(function, signature)
        _kernels.add(compiled)
        return cast("F", compiled)

    return decorate


class FunctionValue(Kernel):
    """A kernel that other kernels receive as an argument. Python cannot call it."""

    def __init__(self, function: Callable[..., Any], declared: Any) -> None:
        super().__init__(function, declared, from_python=False)

    def __call__(self, *_arguments: Any) -> Any:
        """Raise ``TypeError``, because only kernels call function values."""
        name = self.__qualname__
        raise TypeError(f"{name} is called by kernels alone: give one of them load({name}) (docs/agents.md)")


def function_value(signature: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a function for one signature, so that it can be an argument of other kernels.

    The machine code is cached as with ``kernel``. The argument to pass is what ``load`` returns, not the function
    itself.
    """

    def decorate(function: F) -> F:
        compiled = FunctionValue(function, signature)
        _kernels.add(compiled)
        return cast("F", compiled)

    return decorate


class KernelCalledByAddress(types.ExternalFunction):  # type: ignore[misc]
    """A kernel with a declared signature that other kernels call by the address of its machine code.

    numba copies an ordinary kernel into each of its callers, and LLVM optimises every copy. Twenty kernels call the
    solver, whose compilation takes a second and a half. A call by address costs two nanoseconds.
    """

    def __init__(self, callee: Kernel) -> None:
        super().__init__(f"{callee.__module__}.{callee.__qualname__}", callee.declared)
        self.callee = callee
        self._has_address = False

    def load(self) -> None:
        """Compile the machine code and tell LLVM its address.

        This must happen before the code of a caller is loaded: LLVM ends the process if it does not know the address.
        """
        with _dispatcher_lock:
            self.load_while_compiling()

    def load_while_compiling(self) -> None:
        """Load the kernel in a thread that may be compiling a caller of this kernel.

        See ``Kernel.load_while_compiling``.
        """
        if not self._has_address:
            compiled = types.CompileResultWAP(
                self.callee.load_while_compiling().get_compile_result(self.callee.declared)
            )
            binding.add_symbol(self.symbol, compiled.address)
            self._has_address = True

    def __call__(self, *arguments: Any) -> Any:
        return self.callee(*arguments)


register_model(KernelCalledByAddress)(models.OpaqueModel)  # as for every external function: it has no value of its own


def to_kernel_called_by_address(function: F) -> F:
    """Turn a kernel into one that other kernels call by its address, so that it is not copied into each of them.

    See ``KernelCalledByAddress``.
    """
    return cast("F", KernelCalledByAddress(cast("Kernel", function)))


@functools.cache
def _find_all_kernels_called_by_address(function: FunctionType) -> frozenset[KernelCalledByAddress]:
    """Return all kernels that a function, or a function that becomes a part of it, calls by their address."""
    return frozenset(
        value
        for reached in list_reached_functions(function)
        for value in map(reached.__globals__.get, list_code_names(reached.__code__))
        if isinstance(value, KernelCalledByAddress)
    )


def load_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel ahead of its first call, or load its machine code from the cache.

    Returns the compiled function, which can be passed to other kernels as an argument, or None if the kernel is called
    by its address. A kernel without a declared signature is still compiled only when it is called. A function that is
    not a kernel is returned unchanged. Raises numba's error if the kernel cannot be compiled.
    """
    return function.load() if isinstance(function, Kernel | KernelCalledByAddress) else function


def load_imported_kernels(packages: tuple[str, ...] = ("",)) -> None:
    """Load every kernel with a declared signature in the imported modules.

    Only modules whose names begin with one of ``packages`` are considered; by default all are.
    """
    for imported_kernel in list(_kernels):
        if imported_kernel.declared is not None and imported_kernel.__module__.startswith(packages):
            imported_kernel.load()


# Wrappers are how Python and function values call machine code; LLVM takes as long for them as for a small function.
INLINE_OPTIONS = KERNEL_OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class InlineFunction:
    """A function that becomes a part of the kernels that call it. Python can call it too, as a kernel of its own.

    numba compiles it as an overload, so that calls with different constant arguments share one compilation.
    ``numba.njit`` would compile a separate version for each constant. LLVM uses the constant when it inlines the
    function.
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
    """Decorate a small function so that LLVM inlines it into the kernels that call it, and calls cost nothing."""
    return cast("F", InlineFunction(function))


class _CompilationListener(event.Listener):  # type: ignore[misc]
    """A listener that announces and counts the kernels that numba compiles because the cache lacks them.

    It calls ``compilation_progress.announce`` when a compilation begins, and adds the kernel and the seconds to
    ``compilation_progress`` when it ends.

    To compile a kernel, numba also compiles the functions that are inlined in it. Such nested compilations count as a
    part of the outermost one. numba compiles in only one thread at a time, so one counter of the nesting is enough.
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
