"""A guard against modules of entries in this process: a sandboxed entry is imported in its sandbox alone.

The folder of entries is on the import path, where fingerprints find the sources of an entry, and where its sandbox
finds its modules. Without the guard, a module that is named like an optional dependency of a library, such as
``pyarrow``, would be imported by this process, with all rights of the user.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType


class _RefusingLoader(SourceFileLoader):
    """A loader that reads the source of a module, but refuses to load it."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ImportError(
            f"{spec.name} is a module of an entry, which is imported in its sandbox alone", name=spec.name
        )


class _EntryFinder(MetaPathFinder):
    """A finder that finds the modules of entries, so that their sources can be read, but lets nobody load them."""

    def __init__(self, folder: Path, allowed_modules: Collection[str]) -> None:
        self._folder, self._allowed_modules = str(folder.resolve()), {*allowed_modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in self._allowed_modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not Path(spec.origin).resolve().is_relative_to(self._folder):
            return None
        spec.loader = _RefusingLoader(fullname, spec.origin)
        return spec


@contextmanager
def refuse_imports_of_entries(folder: Path | None, allowed_modules: Collection[str] = ()) -> Iterator[None]:
    """Refuse to import modules below ``folder`` into this process while the context lasts.

    Args:
        folder: The folder of entries; None refuses nothing.
        allowed_modules: Modules that may be imported, because the league says that they play in this process.

    """
    if folder is None:
        yield
        return
    finder = _EntryFinder(folder, allowed_modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
