"""The folders of the sweeps that this process started. Nothing heavy is imported: a wrong request must fail at once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

RECORD = "job.json"  # of a job, in its output folder

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


def records() -> list[Path]:
    """The files that the jobs have written."""
    return [path for folder in folders for path in folder.rglob(RECORD)]
