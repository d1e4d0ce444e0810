from __future__ import annotations

import subprocess
import sys
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


# Kernels that only other kernels call, which contain them, and those of a method that needs games with evaluations.
KERNELS_THAT_NO_STEP_LOADS = {
    "fill_best_safe_turns",
    "replay_placements",
    "_find_end_fault",
    "_find_row_fault",
    "compute_values_fingerprint",
    "learn_and_count_stage_boards",
}
LIST_UNLOADED_KERNELS = """
import gc, sys
from pathlib import Path
from quarto.jit import Kernel, load_imported_kernels
from runners.bench import warm_up
root = Path(sys.argv[1])
for _, step in [*warm_up.list_player_steps(root / "players"), *warm_up.list_archive_steps(root / "archive")]:
    step()
load_imported_kernels()
kernels = [one for one in gc.get_objects() if type(one) is Kernel and one.__module__.partition(".")[0] != "tests"]
print(len(kernels), *(one.__name__ for one in kernels if not one.is_loaded))
"""


@pytest.mark.slow
def test_the_steps_load_every_kernel_that_python_calls(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIST_UNLOADED_KERNELS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    count, *unloaded = ran.stdout.splitlines()[-1].split()
    assert int(count) > 100
    assert set(unloaded) <= KERNELS_THAT_NO_STEP_LOADS
