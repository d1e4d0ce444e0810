"""The content of a folder, and files of it changed by hand."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from analytics.store.archive import ArchiveStore
from analytics.store.records import CHECKSUM, add_checksum


def snapshot(root: Path) -> dict[Path, bytes]:
    """Read every file below a folder."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def read_contents(archive: ArchiveStore) -> dict[PurePath, bytes]:
    """Read every file of an archive, wherever it is."""
    return {path: archive.backend.read(path) for path in archive.backend.list_files_below(archive.root)}


def copy_archive(archive: ArchiveStore, place: Path) -> ArchiveStore:
    """Open the same archive in another folder."""
    return ArchiveStore(Path(shutil.copytree(archive.root, place)))


def forge(path: Path, change: Mapping[str, Any] | Callable[[dict[str, Any]], object]) -> None:
    """Change a stored record and make its checksum fit, so that only what it says can be wrong."""
    values = json.loads(path.read_bytes())
    del values[CHECKSUM]
    change(values) if callable(change) else values.update(change)
    path.write_text(json.dumps(add_checksum(values)))


def list_table_files(archive: ArchiveStore, run_id: str, table: str) -> list[Path]:
    """List the files of ``games`` or ``plies`` that count, by unit; of an archive in a folder."""
    return [
        Path(archive.find_path_of_containing_file(table, run_id, stored))
        for stored in archive.list_effective_ranges(run_id)
    ]
