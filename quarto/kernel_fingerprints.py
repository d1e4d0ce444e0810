"""Fingerprints of kernels: hashes of all that determines the machine code of a kernel.

numba's own cache notices an edit of the file that a kernel is in, but no edit of what the kernel calls or reads in
other files. A fingerprint covers both, and nothing else: the bytecode of the kernel, the bytecode of every function
that becomes a part of the kernel, and the values of all globals that these functions read. So an edit of a comment, a
docstring or another function compiles nothing again.

A value of a kind that is not known here stands for the file that defines it, or for all sources of the project.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np
from numba import types

from quarto.sources import KERNEL_PACKAGES, files_fingerprint, is_local_module, is_project_module, source_fingerprint

CONSTANTS = (type(None), EllipsisType, bool, int, float, complex, str, bytes, np.generic, np.dtype)
HIDDEN_IN_TYPES = re.compile(r" at 0x[0-9a-f]+")


@dataclasses.dataclass(frozen=True)
class FunctionContents:
    """What a function contributes to the fingerprint of a kernel: a text, and the functions that it calls."""

    text: str
    callees: tuple[FunctionType, ...]


def compute_kernel_fingerprint(function: FunctionType, conditions: Iterable[str]) -> str:
    """Return a hash of all that determines the machine code of a kernel: SHA-256 in hex.

    ``conditions`` are texts that describe what is not in the code of ``function``, such as numba's options. The hash
    covers the fields of named tuples. It does not cover the argument types of calls, because numba itself stores
    machine code separately for each combination of types.
    """
    digest = hashlib.sha256()
    for condition in conditions:
        digest.update(f"{condition}\n".encode())
    for contents in sorted(read_function(reached).text for reached in list_reached_functions(function)):
        digest.update(f"{len(contents)} {contents}\n".encode())
    return digest.hexdigest()


def list_reached_functions(function: FunctionType) -> list[FunctionType]:
    """Return a function and all functions that become a part of it when it is compiled, each once."""
    reached, queue = {function: None}, [function]
    while queue:
        for callee in read_function(queue.pop()).callees:
            if callee not in reached:
                reached[callee] = None
                queue.append(callee)
    return [*reached]


@functools.cache
def read_function(function: FunctionType) -> FunctionContents:
    """Return what one function contributes to fingerprints."""
    lines, callees = (
        [f"{function.__module__}.{function.__qualname__}", *describe_code(function.__code__, function.__doc__)],
        [],
    )
    for name, value in _iterate_read_values(function):
        if callee := _find_callee(value):
            callees.append(callee)
            lines.append(f"{name} calls {callee.__module__}.{callee.__qualname__}")
        else:
            lines.append(f"{name} = {describe_value(value)}")
    return FunctionContents("\n".join(lines), tuple(callees))


def _find_callee(value: object) -> FunctionType | None:
    """Return the function that a global stands for, or None if it is not compiled into callers.

    The global may be a kernel or an inline function (which has ``py_func``), an intrinsic (which has ``__wrapped__``),
    or the function itself. Kernels and inline functions are followed in installed packages, too, because they may call
    functions of this project; other functions of libraries are not.
    """
    if isinstance(value, type):
        return None
    if isinstance(function := getattr(value, "py_func", None), FunctionType):
        return function
    for function in (value, getattr(value, "__wrapped__", None)):
        if isinstance(function, FunctionType) and is_local_module(function.__module__):
            return function
    return None


def _iterate_read_values(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the name and the value of everything that a function reads: globals, closure variables and defaults.

    If a value is a module of the project, the attributes of this module whose names occur in the function follow.
    """
    names = sorted({*list_code_names(function.__code__), *_list_annotation_names(function.__annotations__)})
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value
            if isinstance(value, ModuleType) and is_project_module(value.__name__):
                yield from ((f"{name}.{other}", vars(value)[other]) for other in names if other in vars(value))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"outer {name}", cell.cell_contents
    yield "defaults", (function.__defaults__ or (), *(function.__kwdefaults__ or {}).items())


def list_code_names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function's code, and in the code of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from list_code_names(constant)


def _list_annotation_names(annotations: Mapping[str, object]) -> Iterator[str]:
    """Yield all names in the annotations of a function or class.

    Some may be the names of named tuples, whose fields belong in the fingerprint.
    """
    for annotation in annotations.values():
        yield from re.findall(
            r"\w+", annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        )


def describe_code(code: CodeType, docstring: str | None) -> Iterator[str]:
    """Yield lines that describe a function's code. They do not depend on the docstring or on the place in the file."""
    yield f"code {code.co_argcount} {code.co_kwonlyargcount} {code.co_flags} {code.co_code.hex()}"
    yield f"names {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    for number, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from describe_code(constant, None)
        elif not (number == 0 and constant is not None and constant == docstring):
            yield describe_value(constant)


def describe_value(value: object) -> str:
    """Return a text that is equal for values from which numba compiles the same machine code.

    A kernel that is called by its address is described by its name and signature only, because its code does not become
    a part of its callers.
    """
    if isinstance(value, CONSTANTS):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (tuple, frozenset)):
        parts = [describe_value(part) for part in value]
        return f"{type(value).__qualname__} ({', '.join(sorted(parts) if isinstance(value, frozenset) else parts)})"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype!r} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, types.Type):
        return describe_type(value)
    if isinstance(value, type):
        return _describe_class(value)
    return _describe_by_source(value, getattr(value, "__qualname__", getattr(value, "__name__", "")))


def describe_type(numba_type: types.Type) -> str:
    """Describe a numba type, including the fields of any named tuples in it. Equal types have equal descriptions."""
    text = HIDDEN_IN_TYPES.sub("", f"{type(numba_type).__name__} {numba_type}")
    if isinstance(numba_type, types.BaseNamedTuple):
        parts = (
            f"{name}: {describe_type(part)}" for name, part in zip(numba_type.fields, numba_type.types, strict=True)
        )
        return f"{text} ({', '.join(parts)})"
    if isinstance(numba_type, types.BaseTuple):
        return f"{text} ({', '.join(map(describe_type, numba_type))})"
    return text


def describe_signature(signature: object) -> str:
    """Describe a declared signature, with the fields of its named tuples. Returns an empty text for None."""
    arguments = getattr(signature, "args", None)
    if arguments is None:
        return "" if signature is None else str(signature)
    return f"{describe_type(signature.return_type)} of {', '.join(map(describe_type, arguments))}"  # type: ignore[attr-defined]


def _describe_class(cls: type) -> str:
    """Describe a named tuple by its fields, a class of a library by its name, and any other class by its file."""
    if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        return _describe_by_source(cls, cls.__qualname__)
    annotations = cls.__annotations__
    namespace = vars(sys.modules.get(cls.__module__, sys))
    nested = sorted({*_list_annotation_names(annotations)} - {cls.__name__})
    fields = [describe_value(namespace[name]) for name in nested if isinstance(namespace.get(name), type)]
    return f"{cls.__module__}.{cls.__qualname__} {annotations} {cast('Any', cls)._field_defaults} {fields}"


def _describe_by_source(value: object, name: str) -> str:
    """Describe a value by its name, and by the file that defines it if the file is part of the project.

    If the defining file is unknown, the sources of all packages with kernels are used instead.
    """
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return f"{type(value).__qualname__} {name} {source_fingerprint(KERNEL_PACKAGES)}"
    if not is_project_module(module):
        return f"{module} {name}"
    file = getattr(sys.modules.get(module), "__file__", None)
    source = files_fingerprint([Path(file)]) if file else source_fingerprint(KERNEL_PACKAGES)
    return f"{module} {name} {source}"
