"""The source files that kernels are made of, and their fingerprints."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from quarto.imports import imported_modules

KERNEL_PACKAGES = ("quarto", "agents")  # every file of these may hold a kernel, or a constant that one reads
OTHER_PACKAGES = ("runners", "analytics")  # of these only the files that import from ``quarto.jit``


@functools.cache
def project_root() -> Path:
    """The folder that holds the project's packages."""
    return Path(__file__).resolve().parent.parent


@functools.cache
def source_fingerprint(packages: tuple[str, ...]) -> str:
    """Hex SHA-256 over the paths and bytes of every Python file in ``packages`` (folders beside this one)."""
    return fingerprint_of(_sources(packages))


def kernel_sources() -> list[Path]:
    """The project's files that decide what its kernels do: an edit to any other one compiles nothing anew."""
    importing = (path for path in _sources(OTHER_PACKAGES) if b"from quarto.jit import" in path.read_bytes())
    return [*_sources(KERNEL_PACKAGES), *importing]


def _sources(packages: tuple[str, ...]) -> list[Path]:
    return [path for package in packages for path in sorted((project_root() / package).rglob("*.py"))]


def is_ours(module: str, packages: tuple[str, ...] = (*KERNEL_PACKAGES, *OTHER_PACKAGES)) -> bool:
    """Whether a module is in one of the project's own packages."""
    return module.partition(".")[0] in packages


def outside_fingerprint(module: str, source: Path) -> str:
    """Hex SHA-256 over a user's own module and all that it imports, see ``imported_modules``; empty for one of ours.

    Modules of ``quarto`` and ``agents`` are left out: they are among ``kernel_sources``.
    """
    if is_ours(module):
        return ""
    return fingerprint_of_modules(
        imported_modules(module, lambda _importing, imported: not is_ours(imported, KERNEL_PACKAGES), source)
    )


def fingerprint_of_modules(modules: Mapping[str, bytes]) -> str:
    """Hex SHA-256 over names and contents of modules, in any order."""
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(f"{name} {len(modules[name])}\n".encode())
        digest.update(modules[name])
    return digest.hexdigest()


def fingerprint_of(paths: Iterable[Path]) -> str:
    """Hex SHA-256 over the paths and the bytes of these files of the project."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(project_root()).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
