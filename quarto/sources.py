"""The source files that kernels are made of, and their fingerprints."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

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


def outside_fingerprint(source: Path) -> str:
    """Hex SHA-256 over all sources that a user's own agent may call: the package, or the folder, that its file is in.

    Empty for a file of the project's own packages.
    """
    source = source.resolve()
    if any(source.is_relative_to(project_root() / package) for package in (*KERNEL_PACKAGES, *OTHER_PACKAGES)):
        return ""
    folder = source.parent
    if not (folder / "__init__.py").exists():
        return fingerprint_of(sorted(folder.glob("*.py")))
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return fingerprint_of(sorted(folder.rglob("*.py")))


def fingerprint_of(paths: Iterable[Path]) -> str:
    """Hex SHA-256 over the paths (of the project's files; of others the names) and the bytes of these files."""
    digest = hashlib.sha256()
    for path in paths:
        inside = path.is_relative_to(project_root())
        digest.update(path.relative_to(project_root()).as_posix().encode() if inside else path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
