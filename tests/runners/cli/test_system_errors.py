"""Odd surroundings: streams that are closed or full, folders that may not be read, limits. One line says what to do."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.store.archive import ArchiveStore
from quarto.errors import FailureError
from runners.cli.system_errors import explain_system_error
from tests.another_user import another_user, visible_folder
from tests.marks import seldom
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import QARENA, build_shell_environment

DENIED = r"(.*\n)*.*(permission denied|is not writable|may not|Permission denied).*\n"


@pytest.fixture
def visible_archive() -> Iterator[Path]:
    """Yield a copy of the sample archive in a folder into which other users may look."""
    with visible_folder() as folder:
        yield Path(shutil.copytree(SAMPLE, folder / "archive"))


@pytest.mark.parametrize("table", ["games", "plies", "runs", "policies", "positions", "sweeps"])
def test_verify_names_a_folder_that_may_not_be_read(table: str, visible_archive: Path, qarena: Qarena) -> None:
    ArchiveStore.open(
        visible_archive.parent / "empty", create=True
    )  # verified first, because some modules only root may import
    assert qarena("archive", "verify", "--archive", str(visible_archive.parent / "empty")).code == 0
    (visible_archive / table).mkdir(exist_ok=True)
    (visible_archive / table).chmod(0)
    with another_user():
        result = qarena("archive", "verify", "--archive", str(visible_archive))
    (visible_archive / table).chmod(0o755)
    assert result.code == 1
    assert f"cannot list {visible_archive / table}: permission denied: let this user read it" in result.err


@pytest.mark.parametrize(
    "command",
    [
        ("archive", "ls"),
        ("archive", "compact"),
        ("archive", "compact", "--dry-run"),
        ("archive", "index"),
        ("archive", "export", "--format", "text", "--output", "-"),
        ("crosstable", "--rules", "classic"),
        ("sql", "SELECT count(*) FROM games"),
        ("policy", "ls"),
    ],
    ids=" ".join,
)
def test_a_command_that_may_not_read_what_it_needs_says_so(
    command: tuple[str, ...], visible_archive: Path, qarena: Qarena
) -> None:
    (visible_archive / "policies").mkdir(exist_ok=True)
    words = (*command, "--archive", str(visible_archive))
    assert qarena(*words).code == 0  # imports what only root may
    folders = [visible_archive / name for name in ("games", "runs", "policies")]
    for folder in folders:
        folder.chmod(0)
    with another_user():
        result = qarena(*words)
    for folder in folders:
        folder.chmod(0o755)
    assert result.code in {1, 2}
    assert "(unexpected" not in result.err
    assert re.fullmatch(DENIED, result.err)


# Streams, which only a process has.


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("agents <&- >&- 2>&-", 0, ""),
        ("run nosuch 2>/dev/full", 2, ""),
        *seldom(
            ("agents >&-", 0, ""),
            ("run nosuch 2>&-", 2, ""),
            ("play random --plain <&-", 1, r"error: the input ended before the game did, so it is not logged\n"),
        ),
        ("agents > /dev/full", 1, r"error: .* cannot be written: no space left on device: free some space, .*\n"),
    ],
)
def test_streams_that_are_closed_or_full(words: str, code: int, error: str, tmp_path: Path) -> None:
    if "/dev/full" in words and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = subprocess.run(
        ["sh", "-c", f"exec {QARENA} {words}"],
        cwd=tmp_path,
        env=build_shell_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    assert re.fullmatch(error, done.stderr)


TABLE = Path(__file__).with_name("surroundings.txt").read_text(encoding="utf-8")
ROWS = [line.split("  |  ") for line in TABLE.splitlines() if not line.startswith("# ")]
UNEXPECTED = re.compile(r"\(unexpected|Traceback|resource_tracker|Exception ignored")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("bash") is None, reason="needs bash and Linux")
@pytest.mark.parametrize(("code", "line"), ROWS, ids=[line for _, line in ROWS])
def test_no_odd_surroundings_end_in_an_error_that_nobody_expected(code: str, line: str, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "s")
    (tmp_path / "file").write_text("x")
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=build_shell_environment(W=str(tmp_path), Q=QARENA),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=300,
    )
    assert not UNEXPECTED.search(done.stdout + done.stderr), done.stderr
    assert done.returncode == int(code), done.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left"), "cannot be written: no space left on device: free some space"),
        (OSError(errno.EMFILE, "Too many"), "too many files are open: raise their limit ('ulimit -n', now "),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), "a/b: permission denied: let this user read"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", b"a/b"), "a/b: not a directory: a file stands where"),
        (RuntimeError("can't start new thread"), "no thread can be started: raise 'ulimit -u'"),
        (MemoryError(), "there is not enough memory"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_of_the_system_is_a_line_with_a_remedy(error: Exception, line: str) -> None:
    explanation = explain_system_error(error)
    assert explanation is not None
    assert line in explanation


@pytest.mark.parametrize(
    "error", [OSError("half"), RuntimeError("a bug"), FailureError("known"), OSError(errno.EBADF, "")]
)
def test_other_errors_are_left_to_others(error: Exception) -> None:
    assert explain_system_error(error) is None
