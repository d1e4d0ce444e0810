"""The source files that kernels and agents are made of, their fingerprints, and the folder of compiled kernels.

Which modules a module imports, and which these import, is read from their texts: nothing is imported to find out. So
the answer depends on the files and on the import path alone, not on what this process has imported so far. Imports
inside functions count too, and so does ``import_module('name')``; a name that a program computes cannot be seen.

This module imports nothing heavy. So a command line can ask to be told about compiling
(``compilation_progress.announce``) before it knows whether it needs kernels.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import os
import pkgutil
import stat
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path

KERNEL_PACKAGES = ("quarto", "agents")  # any of their files may hold a kernel, or a constant that one reads
OTHER_PACKAGES = ("runners", "analytics")  # they hold kernels, but no kernel of the packages above reads them
INSTALLATION_FOLDERS = ("site-packages", "dist-packages")  # folders whose packages have versions of their own
SOURCE_SUFFIXES = (".py", ".pyw")
IMPORT_FUNCTIONS = ("import_module", "__import__")
PRIVATE_MODE = 0o700  # the mode of a folder that nobody else may enter
PERMISSION_BITS = 0o777  # the bits of a mode that say who may do what
ROOT_USER = 0  # root's user id and group id
STAR_SUFFIX = ".*"  # follows the name of a module from which everything is imported


def cache_root() -> Path:
    """Return the folder of the project's cache: ``$QARENA_CACHE`` or, by default, a folder in the user's cache folder.

    The folder may not exist yet. It holds files that the project can make again.
    """
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    setting = os.path.expanduser(os.environ.get("QARENA_CACHE", ""))  # noqa: PTH111  (no error if there is no such user)
    return Path(setting or user_cache / "quarto-arena")


def create_missing_folders_privately(folder: Path) -> None:
    """Create a folder and its missing parent folders so that no other user can enter them.

    Folders that exist are left as they are. Raises ``OSError`` if a folder cannot be created.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(PRIVATE_MODE, exist_ok=True)


def describe_foreign_access(folder: Path) -> str:
    """Describe who else can change what is in ``folder``. Returns an empty text if only the user and root can.

    Whoever may write to a folder can replace what is in it, so all folders and links on the path are checked. In a
    folder with the sticky bit, such as ``/tmp``, other users cannot rename or remove files that are not theirs. Raises
    ``OSError`` if the path cannot be examined.
    """
    user_id, leaf = os.geteuid(), folder.stat()
    if leaf.st_uid != user_id:
        return f"{folder} belongs to user id {leaf.st_uid}"
    for path, status in _list_folders_and_links_to(folder):
        if status.st_uid not in (user_id, ROOT_USER):
            kind = "the link " if stat.S_ISLNK(status.st_mode) else ""
            return f"{kind}{path} belongs to user id {status.st_uid}"
        sticky = status.st_mode & stat.S_ISVTX and not os.path.samestat(status, leaf)
        if stat.S_ISDIR(status.st_mode) and not sticky and _is_writable_beyond_own_group(status):
            return f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def _list_folders_and_links_to(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder and link on the way from the root to an existing path, with its status.

    If a link is on the way, the folders and links on the way to its target are yielded too.
    """
    path = path.absolute()
    for step in (*reversed(path.parents), path):
        status = step.lstat()
        yield step, status
        if stat.S_ISLNK(status.st_mode):
            yield from _list_folders_and_links_to(step.parent.resolve() / step.readlink())


def _is_writable_beyond_own_group(status: os.stat_result) -> bool:
    """Return whether other users may write to a file or folder with this status.

    Write permission for a group does not count if the group is root's, or if it is the user's own group, which has the
    user's name and no other members.
    """
    if status.st_mode & stat.S_IWOTH or not status.st_mode & stat.S_IWGRP:
        return bool(status.st_mode & stat.S_IWOTH)
    if status.st_gid == ROOT_USER:
        return False
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.geteuid())
    except KeyError:  # without a name, as in some containers
        return True
    return not (group.gr_name == user.pw_name and user.pw_gid == group.gr_gid and set(group.gr_mem) <= {user.pw_name})


class NotebookNotice:
    """A note that kernels are being compiled, for a person who waits in a notebook or an interactive interpreter.

    The note is printed if nothing was compiled in the last ``PAUSE_SECONDS``, so each call that compiles prints it
    once. Scripts and worker processes print nothing.
    """

    PAUSE_SECONDS = 5.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._last_call = clock, -self.PAUSE_SECONDS

    def __call__(self) -> None:
        """Print the note if it is due."""
        if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
            now = self._clock()
            if now - self._last_call >= self.PAUSE_SECONDS:
                sys.stderr.write(
                    "Compiling the kernels that this call needs, which may take a minute. "
                    "Later calls find them ready.\n"
                )
            self._last_call = now


@dataclass
class CompilationProgress:
    """The number of kernels that this process has compiled, and the time that this took.

    A compilation is announced when it begins.
    """

    compiled: int = 0  # kernels that the cache lacked
    seconds: float = 0.0  # spent on compiling
    # Called before numba compiles a function that the cache lacks. The command line has its own notice.
    announce: Callable[[], None] = field(default_factory=NotebookNotice)


compilation_progress = CompilationProgress()


@functools.cache
def project_root() -> Path:
    """Return the folder that holds the project's packages."""
    return Path(__file__).resolve().parent.parent


@functools.cache
def source_fingerprint(packages: tuple[str, ...]) -> str:
    """Return a hash of the paths and contents of all Python files in ``packages``: SHA-256 in hex.

    ``packages`` are folders of the project.
    """
    return files_fingerprint(_list_sources(packages))


@functools.cache
def read_package_files_by_module(package: str) -> Mapping[str, bytes]:
    """Read all Python files of one of the project's packages, and return their contents by module name."""
    contents = {}
    for path in _list_sources((package,)):
        name = path.relative_to(project_root()).with_suffix("").as_posix().replace("/", ".")
        contents[name.removesuffix(".__init__")] = path.read_bytes()
    return contents


@functools.cache
def read_files_of_modules_and_parents(modules: tuple[str, ...]) -> Mapping[str, bytes]:
    """Read the files of the project's ``modules`` and of their parent packages, and return the contents by name.

    Modules that are not found, and modules without a file, are left out.
    """
    specs = ((name, find_module_spec(name)) for name in _add_parent_packages_and_starred_submodules(modules))
    contents = {name: _read_content(spec) for name, spec in specs if spec is not None}
    return {name: content for name, content in contents.items() if content is not None}


def _list_sources(packages: tuple[str, ...]) -> list[Path]:
    return [path for package in packages for path in sorted((project_root() / package).rglob("*.py"))]


def is_project_module(module: str, packages: tuple[str, ...] = (*KERNEL_PACKAGES, *OTHER_PACKAGES)) -> bool:
    """Return whether a module is in one of ``packages``, by default in one of the project's own packages."""
    return module.partition(".")[0] in packages


@functools.cache
def is_local_module(module: str) -> bool:
    """Return whether a module belongs to the project or to a user, rather than to a library or to Python itself."""
    return is_project_module(module) or module == "__main__" or _is_local(find_module_spec(module.partition(".")[0]))


def third_party_fingerprint(module: str, source: Path) -> str:
    """Return a hash of a user's own module, whose file is ``source``, and of all that it imports: SHA-256 in hex.

    For a module of the project the result is an empty text. ``read_imported_modules`` determines what the module
    imports. Modules of ``quarto`` and ``agents`` are left out, because a kernel's own fingerprint covers the parts of
    them that it uses.
    """
    if is_project_module(module):
        return ""
    return modules_fingerprint(
        read_imported_modules(
            module, lambda _importing, imported: not is_project_module(imported, KERNEL_PACKAGES), source
        )
    )


def modules_fingerprint(modules: Mapping[str, bytes]) -> str:
    """Return a hash of the names and contents of modules, regardless of their order: SHA-256 in hex."""
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(f"{name} {len(modules[name])}\n".encode())
        digest.update(modules[name])
    return digest.hexdigest()


def files_fingerprint(paths: Iterable[Path]) -> str:
    """Return a hash of the paths and contents of files of the project, in the given order: SHA-256 in hex."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(project_root()).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_imported_modules(
    module: str,
    follow: Callable[[str, str], bool] = lambda _importing, _imported: True,
    source: Path | None = None,
) -> dict[str, bytes]:
    """Read the files of ``module`` and of all modules that it imports, and return their contents by name.

    The names are in no fixed order. Modules of the standard library and of installed packages are left out; if
    ``module`` itself belongs to an installed package, the modules of this package are read. ``follow(importing,
    imported)`` returns whether an import is followed.

    ``source`` is the file of ``module`` if that module cannot be found by its name, such as ``__main__``. If ``source``
    is None, such a module is left out.
    """
    return (
        dict(_read_project_module_and_imports_once(module, follow))
        if is_project_module(module)
        else _read_imports(module, follow, source)
    )


@functools.lru_cache(maxsize=256)  # a training asks the same of its players in each generation
def _read_project_module_and_imports_once(module: str, follow: Callable[[str, str], bool]) -> Mapping[str, bytes]:
    """Read the imports of a module of the project, or return what an earlier call has read.

    The project's files are assumed not to change while a process runs.
    """
    return _read_imports(module, follow, None)


def _read_imports(module: str, follow: Callable[[str, str], bool], source: Path | None) -> dict[str, bytes]:
    own_package, contents, specs = module.partition(".")[0], dict[str, bytes](), dict[str, ModuleSpec | None]()
    queue = list(_add_parent_packages_and_starred_submodules([module]))
    seen = set(queue)
    while queue:
        name = queue.pop()
        if (outermost := name.partition(".")[0]) != own_package and not _is_local(find_module_spec(outermost, specs)):
            continue  # its submodules are not local either: most imported names are numba's and NumPy's
        spec = find_module_spec(name, specs)
        if spec is None and name == module and source is not None and source.is_file():
            spec = ModuleSpec(name, SourceFileLoader(name, str(source)), origin=str(source))
        if spec is None or not (outermost == own_package or _is_local(spec)):
            continue
        content = _read_content(spec)
        if content is None:  # a package without a file: only its modules have content
            continue
        contents[name] = content
        if Path(str(spec.origin)).suffix in SOURCE_SUFFIXES:
            package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
            for other in _add_parent_packages_and_starred_submodules(_list_absolute_imported_names(content, package)):
                if other not in seen and follow(name, other):
                    seen.add(other)
                    queue.append(other)
    return contents


def find_module_spec(module: str, cache: dict[str, ModuleSpec | None] | None = None) -> ModuleSpec | None:
    """Return the spec that says where a module would be imported from, or None if the module is not found.

    Unlike ``importlib.util.find_spec``, this imports no packages. ``cache`` has earlier specs by name and receives new
    ones.
    """
    cache = {} if cache is None else cache
    if module not in cache:
        package, dot, tail = module.rpartition(".")
        around = find_module_spec(package, cache) if package else None
        paths = around.submodule_search_locations if around else None
        cache[module] = _find_spec_by_finders(module, paths) if tail and not (dot and paths is None) else None
    return cache[module]


def _find_spec_by_finders(name: str, paths: Sequence[str] | None) -> ModuleSpec | None:
    """Return the first spec that one of Python's finders gives for a module, or None if no finder knows the module.

    ``paths`` are the folders of the parent package; None stands for the import path. If the module is a package without
    an ``__init__`` file, the ``submodule_search_locations`` of its spec are the package's folders.
    """
    first_spec: ModuleSpec | None = None
    with suppress(KeyError):  # raised for a package without a file inside a package that is not imported
        finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        specs = (find_spec(name, paths, None) for find_spec in finders if find_spec)
        first_spec = next((spec for spec in specs if spec is not None), None)
    if first_spec is not None and (first_spec.origin is not None or first_spec.submodule_search_locations is None):
        return first_spec
    # A package without a file. Python's own list of its folders can be read only if the package around it is imported.
    tail = name.rpartition(".")[2]
    folders = [Path(path or ".") / tail for path in (sys.path if paths is None else paths)]
    package = ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = [str(folder) for folder in folders if _is_folder(folder)]
    return package if package.submodule_search_locations else first_spec


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except PermissionError:  # in a folder that this user may not look into
        return False


def _is_local(spec: ModuleSpec | None) -> bool:
    """Return whether a module is a user's own: not built in, not in the standard library and not installed."""
    if spec is None:
        return False
    if spec.origin is None:
        return True
    if not spec.has_location:
        return False
    path = Path(spec.origin).resolve()
    return not (
        any(part in INSTALLATION_FOLDERS for part in path.parts)
        or any(map(path.is_relative_to, _list_standard_library_folders()))
    )


@functools.cache
def _list_standard_library_folders() -> tuple[Path, ...]:
    return tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


def _read_content(spec: ModuleSpec) -> bytes | None:
    """Return the contents of a module's file, which may be in an archive of modules, or None if there is no file."""
    get_data = getattr(spec.loader, "get_data", None)
    if spec.origin is None or get_data is None:
        return None
    content: bytes = get_data(spec.origin)
    return content


def _add_parent_packages_and_starred_submodules(names: Iterable[str]) -> Iterator[str]:
    """Yield each name after the names of its parent packages, which Python imports first.

    If a name stands for a star import, the names of the submodules follow it.
    """
    for name in names:
        base = name.removesuffix(STAR_SUFFIX)
        parts = base.split(".")
        yield from (".".join(parts[: depth + 1]) for depth in range(len(parts)))
        spec = find_module_spec(base) if base != name else None
        if spec is not None and spec.submodule_search_locations is not None:  # its ``__all__`` may name any submodule
            yield from (
                f"{base}.{submodule.name}" for submodule in pkgutil.iter_modules(spec.submodule_search_locations)
            )


@functools.lru_cache(maxsize=1024)  # agents share modules, and parsing takes a millisecond or two
def _list_absolute_imported_names(content: bytes, package: str) -> tuple[str, ...]:
    """Return, without repetitions, the names that a module's source may import: see ``_list_possible_imports``."""
    return tuple(dict.fromkeys(_list_possible_imports(content, package)))


def _list_possible_imports(content: bytes, package: str) -> Iterator[str]:
    """Yield the absolute names that the source ``content`` of a module may import; some names are yielded repeatedly.

    They name modules or objects in modules; the source alone does not tell which. ``package`` is the package to which
    relative imports refer.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # whoever imports the module gets the error
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve_name("." * node.level + (node.module or ""), package)
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function_name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = _resolve_name(node.args[0].value, package) if function_name in IMPORT_FUNCTIONS else ""
            if name:
                yield name


def _resolve_name(name: object, package: str) -> str:
    """Return the absolute form of a name that may be relative to ``package``.

    The result is empty if the name leads out of the package, or if ``name`` is not a text.
    """
    try:
        return importlib.util.resolve_name(name, package or None) if isinstance(name, str) else ""
    except ImportError:
        return ""
