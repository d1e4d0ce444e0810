"""`qarena benchmark make`: the datasets of the offline benchmark, as archives and in Minari's format.

Games are played into an archive in a hidden folder, where an interrupted command continues. When all games are played,
they become one file of a new archive, whose Parquet files depend only on the games, and then the Minari dataset. Both
get their final names when they are complete.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from analytics import open_archive
from analytics.exchange import formats
from analytics.exchange.export import ExportRequest, write_export
from analytics.exchange.export_blocks import FIRST_AGENT
from analytics.questions.selection import select_games
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.files.backend import explain_errors
from analytics.store.files.local_files import create_folder
from analytics.store.game_tables import merge_games
from analytics.store.marker import check_outside_archives, remember_archive
from analytics.store.range_files import write_range
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError, RequestError, suggest_valid_names
from quarto.rules import CLASSIC
from runners.arena.code_fingerprints import project_version
from runners.arena.execution import execute_experiment
from runners.arena.experiment import open_experiment
from runners.arena.request import RunRequest
from runners.arena.spec import RunSpec
from runners.arena.storage import ArchiveOptions
from runners.learning.benchmark.score import (
    EXPERT_PLAYER,
    OPPONENT,
    RANDOM_PLAYER,
    REFERENCE_GAMES,
    REFERENCE_SECONDS,
    ReferenceReturns,
    build_player_spec,
    measure_references,
)
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes

NAMESPACE = "quarto"  # of the datasets' ids, and the folder that has them
ARCHIVES_FOLDER = "parquet"  # the folder with the same games as archives
OPENING_PLIES = 2  # imposed on every game, in the datasets and where what was learned is judged
MEDIUM_PLAYERS = ("semi_random", "alpha_beta", "mcts(iterations=1000)")
ALL_PLAYERS = (RANDOM_PLAYER, *MEDIUM_PLAYERS, EXPERT_PLAYER)
VALIDATION_SEED = 1 << 30  # added to the seed of a validation split, so that it has other openings
VALIDATION_ONE_IN = 10  # a validation split has a tenth of the games of the training split, rounded up


WORK_FOLDER = ".making"  # the hidden folder of incomplete datasets
BYTES_A_GAME = 15_000  # of both forms together, roughly
WRITING_SECONDS_PER_THOUSAND = 2.7  # for 1,000 games in Minari's format, on one thread
ENVIRONMENT_ID = "quarto-arena/QuartoTurns-v0"
MIN_SECONDS_FOR_MINUTES = 90  # longer durations are printed in minutes
AUTHOR = "The quarto-arena authors"
SOURCE_KEY = "benchmark"  # key of the metadata that names the run of a dataset


class BenchmarkDataset(NamedTuple):
    """A dataset: the players whose turns it records, and the opponents against which they play."""

    name: str
    players: Sequence[str]  # labels
    opponents: Sequence[str]  # labels; each player meets each of them, also itself if it is among them
    description: str
    seconds_per_thousand_games: float  # of processor time for 1,000 games, measured

    @property
    def pairing_count(self) -> int:
        return len(self.players) * len(self.opponents)


DATASETS = (
    BenchmarkDataset("random-v0", (RANDOM_PLAYER,), (RANDOM_PLAYER,), "a random player against itself", 0.1),
    BenchmarkDataset(
        "medium-v0", MEDIUM_PLAYERS, MEDIUM_PLAYERS, "every pairing of three players of middling strength", 0.5
    ),
    BenchmarkDataset("expert-v0", (EXPERT_PLAYER,), ALL_PLAYERS, "perfect play against weaker players and itself", 1.3),
    BenchmarkDataset("mixed-v0", ALL_PLAYERS, ALL_PLAYERS, "every pairing of all players, from random to perfect", 1.0),
)


class DatasetSplit(NamedTuple):
    """The training or validation split of a dataset, with the requested number of games and the seed."""

    dataset: BenchmarkDataset
    validation: bool
    games: int  # as requested
    seed: int

    @property
    def name(self) -> str:
        """The name of the split, such as ``medium-v0`` or ``medium-validation-v0``, in archives and in Minari."""
        stem, _, version = self.dataset.name.rpartition("-")
        return f"{stem}-validation-{version}" if self.validation else self.dataset.name

    @property
    def dataset_id(self) -> str:
        """The id of the split in Minari, which is also its path inside a folder of datasets."""
        return f"{NAMESPACE}/{self.name}"

    @property
    def games_a_pairing(self) -> int:
        """The number of games of each pairing, rounded up to whole pairs."""
        games = -(-self.games // VALIDATION_ONE_IN) if self.validation else self.games
        return 2 * -(-games // (2 * self.dataset.pairing_count))

    @property
    def total_games(self) -> int:
        return self.games_a_pairing * self.dataset.pairing_count

    def minari_folder(self, folder: Path) -> Path:
        return folder / NAMESPACE / self.name

    def archive_folder(self, folder: Path) -> Path:
        return folder / ARCHIVES_FOLDER / self.name

    def build_run_spec(self) -> RunSpec:
        """Build the spec of the run that plays this split; in each pairing, the first agent is the recorded player."""
        labels = [*dict.fromkeys((*self.dataset.players, *self.dataset.opponents))]
        pairings = product(map(labels.index, self.dataset.players), map(labels.index, self.dataset.opponents))
        seed = self.seed + (VALIDATION_SEED if self.validation else 0)
        return RunSpec(CLASSIC, tuple(map(build_player_spec, labels)), tuple(pairings), seed, OPENING_PLIES)


def select_datasets(names: Sequence[str]) -> list[BenchmarkDataset]:
    """Select the datasets with these names, which may include the namespace; if no name is given, select all.

    Raises ``RequestError`` if no dataset has one of the names.
    """
    valid_names = [dataset.name for dataset in DATASETS]
    selected_names = [name.removeprefix(f"{NAMESPACE}/") for name in names]
    for name in selected_names:
        if name not in valid_names:
            raise RequestError(f"{name!r} is not a dataset of the benchmark{suggest_valid_names(name, valid_names)}")
    return [dataset for dataset in DATASETS if not selected_names or dataset.name in selected_names]


def list_splits(datasets: Sequence[BenchmarkDataset], games: int, seed: int) -> list[DatasetSplit]:
    """List the training and validation splits of each dataset.

    ``games`` is the requested number of games of a training split, before it is rounded up to whole pairs. The seeds of
    all splits are derived from ``seed``.
    """
    return [DatasetSplit(dataset, validation, games, seed) for dataset in datasets for validation in (False, True)]


class DatasetRequest(NamedTuple):
    """The datasets to make, and the folder in which to store them."""

    folder: Path
    splits: Sequence[DatasetSplit]
    threads: int
    command: str
    permalink: str | None = None  # of the code


def create_datasets_unless_stopped(request: DatasetRequest, stop: threading.Event) -> bool:
    """Make the splits that do not exist yet, and return whether all splits exist in the end.

    If ``stop`` is set before then, the games played so far are kept, so that the same request can continue the work.
    Raises ``RequestError`` if the folder already holds a dataset with different games or if Minari is not installed,
    and ``FailureError`` if the disk cannot be written to.
    """
    folder = request.folder
    check_outside_archives(folder)
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file: name a folder")
    missing = [split for split in request.splits if not (_has_games(split, folder) and _has_episodes(split, folder))]
    for split in request.splits:
        if split not in missing:
            console.print_line(f"{split.dataset_id} is there already")
    if missing:
        formats.check_minari_library()
        console.print_line(_describe_games_size_and_duration(missing, request.threads))
    with explain_errors("write to", folder):
        for path in (folder / NAMESPACE, folder / ARCHIVES_FOLDER, folder / WORK_FOLDER):
            create_folder(path)
    references = measure_references(build_player_spec(OPPONENT), request.threads, stop) if missing else None
    for split in missing:
        if references is None or stop.is_set() or not _create_split_unless_stopped(split, request, references, stop):
            return False
    with explain_errors("write to", folder):
        if not any((folder / WORK_FOLDER).iterdir()):
            (folder / WORK_FOLDER).rmdir()
    return True


def _describe_games_size_and_duration(splits: Sequence[DatasetSplit], threads: int) -> str:
    """Describe the work that remains: the number of games, their size on disk and the expected duration."""
    games = sum(split.total_games for split in splits)
    playing = sum(split.total_games * split.dataset.seconds_per_thousand_games / 1000 for split in splits)
    seconds = (REFERENCE_SECONDS + playing) / threads + WRITING_SECONDS_PER_THOUSAND * games / 1000
    size = games * BYTES_A_GAME / 1e6
    duration = f"{round(seconds / 60):,} min" if seconds >= MIN_SECONDS_FOR_MINUTES else f"{max(1, round(seconds))} s"
    return (
        f"{format_count_with_noun(games, 'game')}, some {max(1, size):,.0f} MB: about "
        f"{duration} on {format_count_with_noun(threads, 'thread')}"
    )


def _create_split_unless_stopped(
    split: DatasetSplit, request: DatasetRequest, references: ReferenceReturns, stop: threading.Event
) -> bool:
    """Make one split as an archive and as a Minari dataset.

    Returns whether both were made before ``stop`` was set.
    """
    folder, spec = request.folder, split.build_run_spec()
    work_folder = folder / WORK_FOLDER / f"{split.name}-{spec.run_id}"
    if not _has_games(split, folder):
        if not _play_games_unless_stopped(split, spec, request, work_folder, stop):
            return False
        _write_archive(split, spec, work_folder, folder)
    if stop.is_set():
        return False
    with explain_errors("write to", folder):
        shutil.rmtree(work_folder, ignore_errors=True)
        work_folder.mkdir()
        with (
            open_archive(split.archive_folder(folder)) as opened,
            show_progress_bar_or_notes(f"writing {split.name}", "games") as bar,
        ):
            bar.start(split.total_games)
            summary = write_export(
                opened,
                ExportRequest("minari", perspective=FIRST_AGENT),
                work_folder / split.name,
                False,
                bar.advance,
                build_metadata(split, spec, request, references),
            )
        (work_folder / split.name).rename(split.minari_folder(folder))
        work_folder.rmdir()
    console.print_line(
        f"{split.dataset_id}: {format_count_with_noun(summary.episodes or 0, 'episode')}, "
        f"{format_count_with_noun(summary.steps or 0, 'step')}"
    )
    return True


def _play_games_unless_stopped(
    split: DatasetSplit, spec: RunSpec, request: DatasetRequest, work_folder: Path, stop: threading.Event
) -> bool:
    """Play the missing games of a split, and return whether all were played before ``stop`` was set."""
    storage = ArchiveOptions(work_folder / "played", other_code="extend")
    experiment = open_experiment(RunRequest(spec, split.games_a_pairing, request.threads, storage, progress=False))
    if experiment.request.notes:
        raise RequestError(f"{work_folder} has games that other code has played: remove this folder to begin anew")
    with show_progress_bar_or_notes(f"playing {split.name}", "games") as bar:
        outcome = execute_experiment(experiment, request.command, stop, bar)
    for line in outcome.misbehaviour:
        raise FailureError(f"{split.name}: {line}")
    return not outcome.interrupted


def _write_archive(split: DatasetSplit, spec: RunSpec, work_folder: Path, folder: Path) -> None:
    """Write the games of a split as a single file to a new archive in ``folder``."""
    source, staging_folder = ArchiveStore.open(work_folder / "played"), work_folder / "archive"
    record = source.find_run(spec.run_id)
    if record is None:
        raise FailureError(f"{work_folder} has lost the record of its run: remove this folder to begin anew")
    shutil.rmtree(staging_folder, ignore_errors=True)
    target = ArchiveStore.open(staging_folder, create=True)
    target.write_run_and_unit_count(structs.replace(check_record_format(record), games=split.games_a_pairing, units=0))
    with open_archive(work_folder / "played") as opened:
        blocks = [games for _, games in select_games(opened, f"run_id = '{spec.run_id}'").read_blocks()]
    span = 0, record.unit_line.count_units_of_all_pairings(split.games_a_pairing)
    write_range(target, record, span, merge_games(blocks).select_units(record.unit_line, *span))
    with explain_errors("write to", folder):
        staging_folder.rename(split.archive_folder(folder))
    remember_archive(split.archive_folder(folder))  # under its final name


def build_source_run_record(split: DatasetSplit, spec: RunSpec) -> dict[str, Any]:
    """Build the record that identifies the games of a split by their run, their seed and their number."""
    return {"run_id": spec.run_id, "seed": split.seed, "games": split.total_games, "opening_plies": OPENING_PLIES}


def build_metadata(
    split: DatasetSplit, spec: RunSpec, request: DatasetRequest, references: ReferenceReturns
) -> dict[str, Any]:
    """Build the metadata of a split for Minari. Its reference scores are mean returns against ``OPPONENT``."""
    environment: dict[str, Any] = {
        "id": ENVIRONMENT_ID,
        "entry_point": "runners.learning.environments.single:QuartoEnv",
        "reward_threshold": None,
        "nondeterministic": False,
        "max_episode_steps": None,
        "order_enforce": True,
        "disable_env_checker": False,
        "kwargs": {"opponent": OPPONENT, "opening_plies": OPENING_PLIES, "turns": True},
        "additional_wrappers": [],
        "vector_entry_point": None,
    }
    players, opponents = (", ".join(labels) for labels in (split.dataset.players, split.dataset.opponents))
    return {
        "dataset_id": split.dataset_id,
        "description": (
            f"Quarto, {split.dataset.description}: {format_count_with_noun(split.total_games, 'game')} "
            f"after {OPENING_PLIES} random plies, "
            f"{'for validation' if split.validation else 'for training'}. Each episode has the turns of one player "
            f"({players}) against one opponent ({opponents}), in seat game_id % 2. Observation: the piece on each of "
            "16 cells, then that in hand, -1 for none. Action: 17 * cell + gift, 16 where there is none. Reward at the "
            f"end: 1 won, 0 drawn, -1 lost. Reference scores are mean returns against {OPPONENT}."
        ),
        "env_spec": json.dumps(environment),
        "code_permalink": request.permalink
        or f"quarto-arena {project_version()}, qarena benchmark make --seed {split.seed}",
        "algorithm_name": players,
        "author": [AUTHOR],
        "author_email": [],
        "requirements": ["quarto-arena[rl]"],
        "ref_min_score": references.least,
        "ref_max_score": references.greatest,
        "num_episodes_average_score": REFERENCE_GAMES,
        SOURCE_KEY: build_source_run_record(split, spec),
    }


def _has_games(split: DatasetSplit, folder: Path) -> bool:
    """Return whether the archive of a split exists.

    Raises ``RequestError`` if the archive exists but does not hold the games of the split.
    """
    path, spec = split.archive_folder(folder), split.build_run_spec()
    if not path.exists():
        return False
    record = ArchiveStore.open(path).find_run(spec.run_id)
    if record is None or record.games != split.games_a_pairing:
        raise _build_other_games_error(path)
    return True


def _has_episodes(split: DatasetSplit, folder: Path) -> bool:
    """Return whether the Minari dataset of a split exists.

    Raises ``RequestError`` if the dataset holds different games.
    """
    path = split.minari_folder(folder)
    if not path.exists():
        return False
    try:
        stored: Mapping[str, Any] = json.loads(
            (path / formats.MINARI_DATA_FOLDER / formats.MINARI_METADATA_FILE).read_bytes()
        )
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} cannot be read ({error}): remove it, or name another folder") from error
    if stored.get(SOURCE_KEY) != build_source_run_record(split, split.build_run_spec()):
        raise _build_other_games_error(path)
    return True


def _build_other_games_error(path: Path) -> RequestError:
    return RequestError(
        f"{path} was made with another --games or --seed: name another folder, or remove it to make it anew"
    )
