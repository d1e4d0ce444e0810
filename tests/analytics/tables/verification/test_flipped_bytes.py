"""Whichever bit of a file that counts flips, a question or ``verify`` names the file, or all is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from analytics.store.archive import ArchiveStore
from analytics.store.snapshot import Snapshot
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.indexed import derive_all
from tests.analytics.naive_games import BLOCKS
from tests.analytics.tables.verification.damage import one_pairing
from tests.marks import seldom

FOLDERS = (
    *("games", "plies", "tallies", "decisions", "positions", "first_plies"),
    *("runs", "sweeps", "verdicts", "policies"),
)


@pytest.fixture
def complete(tmp_path: Path) -> ArchiveStore:
    """Write a small archive with files of every kind."""
    archive = ArchiveStore.open(tmp_path / "archive", create=True)
    derive_all(archive, one_pairing(archive, BLOCKS[:1]), from_pieces=14)
    assert {path.relative_to(archive.root).parts[0] for path in one_of_each_kind(archive)} == {"archive.json", *FOLDERS}
    return archive


def one_of_each_kind(archive: ArchiveStore) -> Iterator[Path]:
    """Yield the marker, and a file of each folder; of a policy all."""
    yield Path(archive.root) / "archive.json"
    for folder in FOLDERS:
        files = [path for path in sorted((Path(archive.root) / folder).rglob("*")) if path.is_file()]
        yield from files if folder == "policies" else files[:1]


def said(root: Path) -> Any:
    """Read what the records say; those of tables are compared by ``verify``, row by row or byte by byte."""
    archive = Snapshot(root)
    cards = [structs.asdict(card) for card in archive.load_cards()]
    return archive.load_runs(), archive.load_sweep_jobs(), archive.load_verdicts_unless_any_missing(), cards


def complaints(root: Path) -> list[str]:
    """List what a reader, or ``verify``, finds wrong."""
    try:
        return [str(problem) for problem in verify_archive(ArchiveStore.open(root)).problems]
    except (FailureError, RequestError) as error:
        return [str(error)]


@pytest.mark.parametrize("samples", [2, *seldom(400)])
def test_whichever_bit_flips_the_file_is_named_or_nothing_has_changed(complete: ArchiveStore, samples: int) -> None:
    root = Path(complete.root)
    assert complaints(root) == []
    before, harmless = said(root), 0
    for path in one_of_each_kind(complete):
        content = path.read_bytes()
        for at in range(0, len(content), max(1, -(-len(content) // samples))):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
            named_faults = complaints(root)
            if named_faults:
                assert any(path.name in complaint for complaint in named_faults), (path, at, named_faults)
            else:
                harmless += 1
                assert path.suffix == ".json", (path, at)
                assert said(root) == before, (path, at)
        path.write_bytes(content)
    assert complaints(root) == []
    assert harmless <= 1 + samples // 10  # spaces, and the end of a line
