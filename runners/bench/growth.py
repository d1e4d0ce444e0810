"""`qarena bench --growth`: how the time and the memory of commands grow with the size of an archive.

Each axis makes archives of increasing size in a temporary folder and runs the same commands on each of them, every
command in a process of its own. Growth is given as an exponent: the logarithm of the ratio of two processor times,
divided by the logarithm of the ratio of the two sizes. An exponent above 1 means that a command grows faster than its
input. While the start of a process dominates, the exponent is near 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from analytics.questions.columns import ResultColumn, Table
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.executors.base import MEBIBYTE
from runners.bench.growth_archives import write_files, write_policies, write_runs
from runners.bench.timing import QARENA_PROGRAM, Figures, ProcessUsage, measure_process
from runners.terminal.console import build_escaped_table, print_tables, show_progress_bar_or_notes
from runners.terminal.files import is_standard_stream_dash
from runners.terminal.tables import write_json

ARCHIVE_NAME = "archive"
HOME_PROGRAM = "import sys; from runners.web.home_visit import visit_home_page; visit_home_page(sys.argv[1])"

# The commands that are run on every archive, in this order, because `openings` needs the index, and `verify` and
# `compact` read all derived tables.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "random", "dumb", "games=20", "seed=1"),
    "sql": ("sql", "SELECT count(*) AS games FROM games"),
    "crosstable": ("crosstable",),
    "rate": ("rate",),
    "index": ("archive", "index"),
    "openings": ("openings",),
    "annotate": ("annotate", "--from-pieces", "15"),
    "report": ("report", "--output", "report.html", "--force"),
    "home": (),
    "verify": ("archive", "verify"),
    "compact": ("archive", "compact", "--age", "0"),
}


@dataclass(frozen=True)
class Axis:
    """A property of an archive that grows, with the sizes that are measured."""

    noun: str
    sizes: tuple[int, ...]
    write: Callable[[Path, int], None] | None = None  # writes an archive of this size; None: a measured command does
    command: Callable[[int], list[str]] | None = None  # the measured command that fills the archive


def _build_tournament_command(agents: int) -> list[str]:
    names = ",".join(f"{{agent: random, name: a{number}}}" for number in range(agents))
    return ["run", "experiment=round_robin", f"agents=[{names}]", "games=2"]


AXES: Mapping[str, Axis] = {
    "runs": Axis("runs of 20 games", (10, 300, 3_000), write=write_runs),
    "agents": Axis("agents, all against all", (10, 100, 300), command=_build_tournament_command),
    "jobs": Axis(
        "jobs of a sweep",
        (1, 30, 3_000),
        command=lambda jobs: ["sweep", "rule_based", "random", "games=20", f"seed=range({jobs})"],
    ),
    "files": Axis("files of one run", (10, 1_000, 100_000), write=write_files),
    "policies": Axis("policies", (10, 1_000, 10_000), write=write_policies),
    "games": Axis(
        "games", (10_000, 1_000_000, 100_000_000), command=lambda games: ["run", "random", "dumb", f"games={games}"]
    ),
}


class Measurement(NamedTuple):
    """What one command needed on an archive of one size."""

    axis: str
    size: int
    command: str
    usage: ProcessUsage


def run_growth_benchmark(axis: str, largest: int | None, file: Path | None) -> None:
    """Measure the axis with this name, or all axes if it is ``all``, and print a table for each axis.

    Sizes above ``largest`` are left out. If ``file`` is given, the figures are also written to it as JSON, and not
    printed if it is the standard output. Raises ``RequestError`` for an unknown axis, and if no size is left.
    """
    if axis not in (*AXES, "all"):
        raise RequestError(f"--growth {axis} is not an axis{suggest_valid_names(axis, [*AXES, 'all'])}")
    measurements: list[Measurement] = []
    for name in AXES if axis == "all" else [axis]:
        axis_measurements = [*measure_axis(name, largest)]
        measurements += axis_measurements
        if not is_standard_stream_dash(file):
            print_tables([build_growth_table(axis_measurements)])
    if file:
        write_json(_build_figures(measurements), file)


def measure_axis(name: str, largest: int | None = None) -> Iterator[Measurement]:
    """Yield the measurements of all commands on the archives of an axis, the smallest archive first.

    Raises ``RequestError`` if ``largest`` leaves no size, and ``FailureError`` if a command fails.
    """
    axis = AXES[name]
    sizes = [size for size in axis.sizes if largest is None or size <= largest]
    if not sizes:
        raise RequestError(f"--largest {largest} leaves no size: the smallest archive has {axis.sizes[0]:,} {name}")
    with show_progress_bar_or_notes(f"measuring {name}", "commands") as bar:
        bar.start(len(sizes) * (len(COMMANDS) + (axis.command is not None)))
        for size in sizes:
            with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
                for command, usage in _measure_commands(axis, size, Path(folder)):
                    yield Measurement(name, size, command, usage)
                    bar.advance()


def _measure_commands(axis: Axis, size: int, folder: Path) -> Iterator[tuple[str, ProcessUsage]]:
    """Write an archive into ``folder``, and yield the name of each command with what it needed."""
    option = ["--archive", ARCHIVE_NAME]
    if axis.write is not None:
        axis.write(folder / ARCHIVE_NAME, size)
    if axis.command is not None:
        filling_words = axis.command(size)
        yield f"{filling_words[0]} (all)", measure_process([*filling_words, *option], folder)
    for name, words in COMMANDS.items():
        if name == "home":
            if find_spec("fastapi") is not None:  # part of the extra ``web``
                yield name, measure_process([ARCHIVE_NAME], folder, program=HOME_PROGRAM)
        else:
            yield name, measure_process([*words, *option], folder, program=QARENA_PROGRAM)


def compute_growth_exponent(smaller: Measurement, larger: Measurement) -> float:
    """Compute the exponent by which a command's processor time grows from one size to the next."""
    return math.log(larger.usage.processor_seconds / smaller.usage.processor_seconds) / math.log(
        larger.size / smaller.size
    )


def build_growth_table(measurements: list[Measurement]) -> Table:
    """Build a table of the measurements of one axis, by command and size, with the exponent since the last size."""
    commands = dict.fromkeys(measurement.command for measurement in measurements)
    rows: list[tuple[Measurement, str]] = []
    for command in commands:
        previous: Measurement | None = None
        for measurement in measurements:
            if measurement.command == command:
                exponent = "" if previous is None else f"{compute_growth_exponent(previous, measurement):.2f}"
                rows.append((measurement, exponent))
                previous = measurement
    columns = [
        ResultColumn("command", [row.command for row, _ in rows], right_aligned=False),
        ResultColumn(measurements[0].axis, [f"{row.size:,}" for row, _ in rows]),
        ResultColumn("seconds", [f"{row.usage.seconds:,.2f}" for row, _ in rows]),
        ResultColumn("processor s", [f"{row.usage.processor_seconds:,.2f}" for row, _ in rows]),
        ResultColumn("peak MiB", [f"{row.usage.peak_bytes / MEBIBYTE:,.0f}" for row, _ in rows]),
        ResultColumn("exponent", [exponent for _, exponent in rows]),
    ]
    return build_escaped_table(columns, f"Growth with the number of {AXES[measurements[0].axis].noun}")


def _build_figures(measurements: list[Measurement]) -> Figures:
    """Return the measurements as nested dictionaries: by axis, size and command."""
    figures: Figures = {}
    for axis, size, command, usage in measurements:
        figures.setdefault(axis, {}).setdefault(f"{size}", {})[command] = {
            "seconds": usage.seconds,
            "processor_seconds": usage.processor_seconds,
            "peak_memory_mib": usage.peak_bytes / MEBIBYTE,
        }
    return figures
