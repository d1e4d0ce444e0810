"""The sandbox for code that is not trusted: bubblewrap (``bwrap``), on Linux.

A program in the sandbox has no network and no user's rights. It sees the system's programs and libraries, the Python
interpreter, this project's packages and what its caller names, all of it read-only. It can write only to an empty home
and a small /tmp, which are in memory and end with it. ``sandbox_supervisor`` starts the sandbox and ends with it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from quarto.errors import RequestError
from quarto.sources import project_root
from runners.hosting.sandbox_supervisor import build_rights_command
from runners.hosting.subprocesses import PIPE, Limits, Sandbox, read_command_output_until_limit, start_command

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
SYSTEM_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "java*")  # in /etc
PACKAGES = ("quarto", "agents", "analytics", "runners", "conf")  # of this project
# The environment variables that a program in the sandbox gets; others may hold passwords.
VARIABLES = re.compile(r"PATH|LANG|LC_\w+|TZ|LD_LIBRARY_PATH|JAVA_HOME|(OMP|OPENBLAS|MKL|NUMBA|NUMEXPR)_NUM_THREADS")
PYTHON = re.compile(r"python[\d.]*")  # the name of a Python interpreter, or of a shim
TMP, HOME = "/tmp", "/tmp/home"  # noqa: S108  (a folder that only the sandbox has)
TMP_MEGABYTES = 64  # for /tmp with the home in it, and as much for /dev/shm
MIN_PROCESSES, PROCESSES_A_CORE = 64, 2  # threads count too, and libraries of arrays start one for each core
OLDEST_LINUX = (5, 14)  # earlier ones count the processes of a user across all namespaces
PROBE_SECONDS = 20.0
MAX_PATH_BYTES = 4096
INSTEAD = "isolation=process plays without a sandbox, with your rights"


def build_sandbox(visible: Iterable[Path], processes: int | None = None, folder: Path | None = None) -> Sandbox:
    """Build a sandbox.

    Args:
        visible: Files and folders that the program may read, besides the system's, the interpreter's and the project's.
        processes: Processes and threads that may exist in the sandbox at a time; None means a number that suits the
            machine.
        folder: Current folder of the program. It is empty except for what is visible. None means /tmp.

    Raises:
        RequestError: There can be no sandbox on this machine, or it could not read a visible file or folder.

    """
    processes = processes or MIN_PROCESSES + PROCESSES_A_CORE * (os.cpu_count() or 1)
    sandbox = Sandbox(_build_command([*_list_own_paths(), *visible], folder), _build_variables(), processes)
    obstacle = find_sandbox_obstacle()
    if obstacle:
        raise RequestError(f"isolation=sandbox: {obstacle}; {INSTEAD}")
    return sandbox


@functools.cache
def find_sandbox_obstacle() -> str:
    """Return in one line why there can be no sandbox on this machine, or "" if there can be one."""
    if sys.platform != "linux":
        return "there are sandboxes on Linux only"
    for program, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            return f"there is no program {program}: install it (apt install {package})"
    version = tuple(int(word) for word in re.findall(r"\d+", platform.release())[:2])
    if os.getuid() and version < OLDEST_LINUX:
        return f"Linux {platform.release()} cannot count the processes of a sandbox: 5.14 is needed, or root"
    return _try_sandbox()


def _try_sandbox() -> str:
    """Run a program that does nothing in a sandbox, and return why this fails, or ""."""
    command = [*_build_command([], None), *build_rights_command(MIN_PROCESSES), "true"]
    process = start_command(command, stdout=PIPE, stderr=subprocess.STDOUT)
    try:
        if process.wait_and_kill_group(PROBE_SECONDS) == 0:
            return ""
        assert process.stdout is not None  # noqa: S101  (for the type checker)
        output = os.read(process.stdout.fileno(), 1000).decode(errors="replace")
        return f"bubblewrap fails ({' '.join(output.split()) or 'it says nothing'})"
    finally:
        process.stop()


def _build_variables() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name)}
    return {"PATH": os.defpath, **kept, "HOME": HOME, "TMPDIR": TMP}


def _build_command(visible: Sequence[Path], folder: Path | None) -> list[str]:
    """Return the beginning of the command that carries out its further arguments in a sandbox."""
    command = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
    command += [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup-try")]
    command += ["--unshare-user"] if os.getuid() else []
    tmpfs = ["--perms", "1777", "--size", str(TMP_MEGABYTES << 20), "--tmpfs"]
    command += ["--proc", "/proc", "--dev", "/dev", *tmpfs, "/dev/shm", *tmpfs, TMP, "--perms", "1777", "--dir", HOME]  # noqa: S108
    command += ["--perms", "0755", "--dir", "/etc"]  # as the outer folders below
    for path in [*map(Path, SYSTEM_FOLDERS), *_list_system_settings()]:
        if path.is_symlink() and path.parent == Path("/"):
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            command += ["--ro-bind", str(path), str(path)]
    paths, current = _list_both_forms(visible), folder or Path(TMP)
    for parent in _list_outer_folders([*paths, current / "file"], paths):
        command += ["--perms", "0755", "--dir", str(parent)]  # by default only root could enter them
    for path in paths:
        _check_readable_in_sandbox(path)
        command += ["--ro-bind", str(path), str(path)]
    return [*command, "--chdir", str(current), "--remount-ro", "/dev", "--remount-ro", "/", "--"]


def _list_outer_folders(paths: Iterable[Path], visible: Sequence[Path]) -> list[Path]:
    """List the folders above ``paths`` that are not in a visible or system folder, the outer folders first."""
    existing = [*map(Path, SYSTEM_FOLDERS), *visible]
    parents = {parent for path in paths for parent in path.parents}
    return sorted(
        parent
        for parent in parents
        if not any(parent.is_relative_to(folder) for folder in existing) and parent not in {Path("/"), Path(TMP)}
    )


def _list_system_settings() -> list[Path]:
    return [path for pattern in SYSTEM_SETTINGS for path in sorted(Path("/etc").glob(pattern))]


def _list_both_forms(paths: Iterable[Path]) -> list[Path]:
    """Return each path as it is written and with its links resolved, the outer folders first.

    Paths in the system's folders and settings are left out, because they are visible anyway, and so are those that do
    not exist.
    """
    visible_anyway = [*map(Path, SYSTEM_FOLDERS), *_list_system_settings()]
    existing = [path.absolute() for path in paths if path.exists()]
    forms = {*existing, *(path.resolve() for path in existing)}
    return sorted(path for path in forms if not any(path.is_relative_to(folder) for folder in visible_anyway))


def is_readable_in_sandbox(path: Path) -> bool:
    """Return whether the user of a sandbox, who replaces root, can read a file or folder."""
    needed = 0o005 if path.is_dir() else 0o004
    return os.getuid() != 0 or path.stat().st_mode & needed == needed


def _check_readable_in_sandbox(path: Path) -> None:
    """Raise ``RequestError`` if the user of a sandbox cannot read a file or folder."""
    if not is_readable_in_sandbox(path):
        raise RequestError(
            f"isolation=sandbox: {path} can be read by its owner only, and root's sandbox belongs to another user: "
            f"chmod -R o+rX {path}"
        )


# What is visible.


@functools.cache
def _list_own_paths() -> tuple[Path, ...]:
    """Return this project's packages, the interpreter that runs them, and the folders of installed packages."""
    packages = [project_root() / name for name in PACKAGES]
    installed = [Path(path) for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    return (*packages, *list_program_paths(sys.executable), Path(sys.prefix), Path(sys.base_prefix), *installed)


def list_program_paths(program: str) -> list[Path]:
    """List what a program needs: its file and, for an interpreter, its environment or the folder of its installation.

    Such a folder has the program in ``bin``, and libraries in ``lib``.
    """
    paths = []
    for path in _follow_links(Path(program).absolute()):
        prefix = path.parent.parent
        is_installation = path.parent.name == "bin" and (prefix / "lib").is_dir() and not _is_protected(prefix)
        paths.append(prefix if is_installation else path)
    return paths


def find_interpreter_behind_shim(program: str) -> str:
    """Return the path of the Python interpreter that a program named ``python…`` starts, or else ``program``.

    Managers of versions, such as pyenv, put programs (shims) on the path for programs, which start the version that is
    set. A sandbox has neither these settings nor the folders of all versions, so the shim is asked outside. It must
    therefore be a program of the user's path, and not a file that belongs to a player.

    Args:
        program: The path of the program.

    """
    target = Path(program).resolve()
    if not PYTHON.fullmatch(Path(program).name):
        return program
    with target.open("rb") as file:
        is_interpreter = PYTHON.fullmatch(target.name) and file.read(2) != b"#!"
    return program if is_interpreter else _ask_shim(program)


@functools.cache
def _ask_shim(program: str) -> str:
    """Return the path of the interpreter that a shim starts, or the shim if it starts none."""
    command = [program, "-I", "-c", "import sys; sys.stdout.write(sys.executable)"]
    output = os.fsdecode(read_command_output_until_limit(command, PROBE_SECONDS, Limits(output_bytes=MAX_PATH_BYTES)))
    return output if os.path.isfile(output) else program  # noqa: PTH113  (false for any text, where Path may raise)


def _follow_links(path: Path) -> Iterator[Path]:
    """Yield a path, and all paths to which its last part leads by links."""
    yield path
    with suppress(OSError):  # it is no link
        yield from _follow_links(path.parent / path.readlink())


def list_surroundings(path: Path) -> list[Path]:
    """Return the folder of a file, or the file alone if that folder holds more than what belongs to the file.

    A player may need the files beside it, but it must not see what it could find from your home or current folder. A
    folder is returned unless it is such a folder; the list is also empty if there is nothing at ``path``.
    """
    path = path.absolute()
    if path.is_dir():
        return [] if _is_protected(path) else [path]
    return [path if _is_protected(path.parent) else path.parent] if path.exists() else []


def _is_protected(folder: Path) -> bool:
    """Return whether a folder is, or contains, the home, the current folder, the project or the folder for programs."""
    home = Path.home()
    private = [home, home / ".local", Path.cwd(), project_root(), Path("/tmp")]  # noqa: S108
    return any(path.is_relative_to(form) for path in private for form in (folder, folder.resolve()))


def is_within(file: str, folders: Iterable[Path]) -> bool:
    """Return whether a text is the path of a regular file that is, or is inside, one of ``folders``."""
    path = Path(file).resolve()
    return path.is_file() and any(path.is_relative_to(folder.resolve()) for folder in folders)


def find_module_folder(name: str) -> Path | None:
    """Return what an agent's module can be read from: see ``list_surroundings``. None if there is no such module.

    No module is imported to find out.
    """
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return next(iter(list_surroundings(Path(spec.origin))), None) if spec.origin else None
