from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarto.sources import compilation_progress
from runners.arena.executors.processes import Processes
from runners.bench import warm_up
from tests.runners.conftest import Qarena


def test_kernels_are_compiled_once_with_a_note_that_the_command_may_be_ended(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check what ``make run`` prints after its tournament; a second time it compiles nothing and takes no step."""
    monkeypatch.setattr(compilation_progress, "announce", compilation_progress.announce)
    monkeypatch.setattr(warm_up, "ensure_usable_cache_directory", lambda: tmp_path)
    taken = []

    def take_step(name: str) -> Iterator[tuple[str, object]]:
        yield name, lambda: taken.append(name)

    monkeypatch.setattr(warm_up, "list_player_steps", lambda _root: [*take_step("players")])
    monkeypatch.setattr(warm_up, "list_archive_steps", lambda _root: [*take_step("archive")])
    monkeypatch.setattr(warm_up, "load_imported_kernels", lambda: taken.append("others"))
    monkeypatch.setattr(Processes, "open_pool", lambda *_arguments: EmptyPool())
    first, second = qarena("warm"), qarena("warm")
    assert (first.code, first.out) == (second.code, second.out) == (0, "All kernels are compiled.\n")
    assert "Ctrl-C is fine" in first.err
    assert second.err == ""
    assert taken == ["players", "others"]


class EmptyPool:
    """A pool whose process has done its steps at once."""

    pending = 0

    def submit(self, chunk: object) -> None:
        assert chunk is None

    def release_workers_abandoning_chunks(self) -> None:
        pass


def test_the_number_of_steps_is_known_beforehand() -> None:
    steps = len(warm_up.list_player_steps(Path())) + len(warm_up.list_archive_steps(Path()))
    assert warm_up.count_warm_up_steps() == steps + 1
    assert steps > 30
