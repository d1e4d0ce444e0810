"""Another user than root, who may read and write everything: file modes stop this one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def another_user() -> Iterator[None]:
    """Make this process, if it is root's, that of a user without rights or groups.

    Not a process of its own under ``setpriv``: that user may often not read root's Python.
    """
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@contextmanager
def visible_folder() -> Iterator[Path]:
    """Make a temporary folder that others may look into: those of pytest are closed to them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
