"""A hash of the code of a class, which changes when a cell of a notebook defines the class in another way."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

HASH_DIGITS = 6
CONSTANT_TYPES = (bool, int, float, str, bytes, type(None))


def compute_class_code_hash(agent_class: type[Any]) -> str:
    """Compute a hash of the methods and constants of a class and of its bases in the same module.

    The hash includes the functions, classes and constants (names in capitals) of that module which the methods use. It
    does not depend on comments, on the place of the class, or on values that change while the agent plays.
    """
    parts = _ClassCode(agent_class.__module__)
    parts.add_class(agent_class)
    return hashlib.sha256("\n".join(parts.texts).encode("utf-8", "backslashreplace")).hexdigest()[:HASH_DIGITS]


class _ClassCode:
    """The texts that describe the code of a class, and of what it uses in its module."""

    def __init__(self, module: str) -> None:
        self.texts: list[str] = []
        self._module = module
        self._visited = set[int]()

    def add_class(self, agent_class: type[Any]) -> None:
        """Add the attributes of a class and of its bases in the module."""
        for base in agent_class.__mro__:
            if base.__module__ == self._module and id(base) not in self._visited:
                self._visited.add(id(base))
                for name, value in sorted(vars(base).items()):
                    if not (_is_constant(value) and name.startswith("__")):  # Python sets these, some of them later
                        self._add_value(name, value)

    def _add_value(self, name: str, value: object) -> None:
        """Add a constant, or a function with what it uses; other values are left out."""
        if _is_constant(value):
            self.texts.append(f"{name}={value!r}")
        for function in _list_functions(value):
            if id(function) not in self._visited:
                self._visited.add(id(function))
                self.texts.append(f"{name}={[*filter(_is_constant, function.__defaults__ or ())]!r}")
                self._add_code(function)

    def _add_code(self, function: FunctionType) -> None:
        """Add the instructions of a function, its constants, and what it uses of its module."""
        from quarto.kernel_fingerprints import describe_code, list_code_names  # loads numba, which playing needs anyway

        self.texts += describe_code(function.__code__, function.__doc__)
        for name in list_code_names(function.__code__):
            used = function.__globals__.get(name)
            if isinstance(used, type):
                self.add_class(used)
            elif name.isupper() or getattr(used, "__module__", None) == self._module:
                self._add_value(name, used)


def _is_constant(value: object) -> bool:
    """Return whether a value or a collection is plain, so that its text is the same in every process."""
    if isinstance(value, dict):
        return all(map(_is_constant, [*value, *value.values()]))
    if isinstance(value, list | tuple):
        return all(map(_is_constant, value))
    return isinstance(value, CONSTANT_TYPES)


def _list_functions(value: object) -> Iterator[FunctionType]:
    """Yield the functions in an attribute: the function itself, those of a property, or the one that is wrapped."""
    if isinstance(value, property):
        for accessor in (value.fget, value.fset):
            yield from _list_functions(accessor)
    elif value is not None and not isinstance(value, (ModuleType, type)):
        function = getattr(value, "__func__", getattr(value, "py_func", value))
        function = inspect.unwrap(function) if callable(function) else function
        if isinstance(function, FunctionType):
            yield function
