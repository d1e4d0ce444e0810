"""The folders of the sweeps that this process started, and the records of their jobs.

A folder may have served another sweep before. Nothing heavy is imported: a wrong request must fail at once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# An environment variable, so that processes that a launcher starts have it too: the name of this launch's output
# folders, which must differ between two launches in the same second.
LAUNCH = "QARENA_LAUNCH"

folders: list[Path] = []  # of the sweeps that this process started
_created: list[Path] = []  # those of them, and of their parents, that Hydra had to create; inner ones first


def forget() -> None:
    """Forget the sweeps of an earlier launch in the same process."""
    folders.clear()
    _created.clear()


def begin(folder: Path) -> None:
    """Remember that Hydra is about to start a sweep in ``folder``."""
    folders.append(folder)
    _created.extend(path for path in (folder, *folder.parents) if not path.exists())


def withdraw() -> None:
    """Remove the folders of a sweep that Hydra refused before its first job."""
    for folder in folders:
        (folder / "multirun.yaml").unlink(missing_ok=True)
    for path in _created:
        with suppress(OSError):  # it is not empty
            path.rmdir()


def record_name(job: int | str) -> str:
    """The name of a job's record in its output folder. Jobs of other launches have others in the same folder."""
    return f"job-{os.environ[LAUNCH].replace('/', '-')}-{job}.json"


def records() -> list[Path]:
    """The files that the jobs have written."""
    return [path for folder in folders for path in folder.rglob(record_name("*"))]
