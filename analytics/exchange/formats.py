"""The formats of exported games: tables of plies or games, and episodes for offline learning.

``TABLE_FORMATS`` has the formats that are streams of bytes, ``EPISODE_FORMATS`` those that are datasets of other
libraries. Each is a function that consumes the same stream of games. The libraries are imported when a dataset is made.

Sources of the layouts:

- d3rlpy's documentation, "Create your dataset": the flat arrays of its ``MDPDataset`` in one ``.npz`` file, which NumPy
  alone can read. The last step of an episode is marked in ``terminals`` or, if the episode was cut off, in
  ``timeouts``, never in both.
- A Minari dataset is written by Minari itself: a folder that ``minari.load_dataset`` and ``MinariDataset`` read.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from msgspec import UNSET, structs
from numpy.lib import format as npy
from numpy.typing import NDArray

from analytics.exchange.episodes import BOTH_SEATS, OBSERVATION_SIZE, Episodes
from analytics.exchange.export_blocks import ExportBlock
from analytics.exchange.text import format_games, format_plies
from analytics.questions.columns import to_escaped_csv
from analytics.store.records import RunRecord, encode_record
from analytics.store.run_notes import RunNote
from quarto.batch import ENDINGS
from quarto.errors import RequestError, require_extra
from quarto.observations import TURN_CODES
from quarto.rules import NONE, PIECES

COPY_BYTES = 1 << 20  # bytes copied at a time
COMPRESSION_LEVEL = 1  # level of deflate: it suffices, because a board is mostly -1
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file, so that the same games are the same bytes

DATASET_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*-v[0-9]+")
MINARI_DATA_FOLDER = "data"  # the folder inside a dataset's folder
MINARI_MAIN_FILE, MINARI_METADATA_FILE = "main_data.hdf5", "metadata.json"
MINARI_PACKAGES = ("gymnasium", "h5py", "PIL", "minari")  # Minari imports h5py and Pillow without asking for them
MINARI_SET_KEYS = ("author", "author_email")  # metadata that Minari takes as sets
MINARI_BATCH = 1000  # episodes for which there must be room on the disk
FREE_BYTES = 64 << 20  # bytes that a batch needs at most, with what the library still has in memory
ZEROS = bytes(1 << 20)

Item = TypeVar("Item")


class ExportTarget(NamedTuple):
    """The place to which episodes are written, and the metadata to write with them."""

    path: Path  # of the new file or folder
    scratch: Path  # an empty folder for intermediate files
    metadata: Mapping[str, Any]  # metadata of a Minari dataset: ``dataset_id``, ``description`` and perhaps more


# Tables.


def format_text_lines(blocks: Iterable[ExportBlock], _by_game: bool, _perspective: str) -> Iterator[bytes]:
    """Yield the games of each block as lines of text.

    If a run is exported whole, a line with its record comes before its first game, and then a line with its name and
    note if it has any. The unused parameters belong to the interface of table formats: text has neither rows by game
    nor a perspective.
    """
    recorded = set[str]()
    for chunk in blocks:
        if chunk.whole_run_number and chunk.record.run_id not in recorded:
            recorded.add(chunk.record.run_id)
            yield format_record_line_without_counts(chunk.record, chunk.whole_run_number)
            if not chunk.note.is_empty:
                yield _format_record_line(chunk.note)
        named = (chunk.record.run_id, chunk.range_games.game_id) if chunk.whole_run_number else ()
        yield format_games(chunk.heading, chunk.range_games.games, *named)


def format_record_line_without_counts(record: RunRecord, number: int) -> bytes:
    """Format a run's record as a line of JSON, without the counts that say how much of the run is in this archive.

    ``number`` is the place of the run in the order in which the exported runs began.
    """
    plain = structs.replace(record, number=number, units=0, annotated=0, verdicts=(), derived=UNSET)
    return _format_record_line(plain)


def _format_record_line(record: RunRecord | RunNote) -> bytes:
    return json.dumps(json.loads(encode_record(record)), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def format_csv_lines(
    blocks: Iterable[ExportBlock], by_game: bool, perspective: str, for_spreadsheet: bool = False
) -> Iterator[bytes]:
    """Yield the games of each block as CSV, with a row for each ply or, with ``by_game``, a row for each game.

    The row of a game has its plies as text; the row of a ply has the outcome as ``perspective`` sees it. With
    ``for_spreadsheet``, texts are written so that a spreadsheet does not take them for formulas or numbers.
    """
    for number, chunk in enumerate(blocks):
        rows = _build_game_rows(chunk) if by_game else _build_ply_rows(chunk, perspective)
        yield to_escaped_csv(rows, number == 0, for_spreadsheet)


def _build_game_columns(block: ExportBlock) -> pl.DataFrame:
    """Build a frame with a row for each game, [G], and the columns that describe the game as a whole."""
    heading, record, chosen, *_ = block
    games = chosen.games
    return pl.DataFrame(
        {
            "run_id": record.run_id,
            "game_id": chosen.game_id,
            "rules": heading.rules,
            "agent_0": heading.agent_0,
            "agent_1": heading.agent_1,
            "winner": games.winner.astype(np.int32),
            "plies": games.plies.astype(np.int32),
            "opening": chosen.opening.astype(np.int32),
            "ending": pl.Series(ENDINGS).gather(games.ending.astype(np.uint32)),
        }
    )


def _build_game_rows(block: ExportBlock) -> pl.DataFrame:
    """Build a frame with a row for each game, [G]; its last column has the game's plies as text."""
    return _build_game_columns(block).with_columns(
        game=pl.Series(format_plies(block.range_games.games), dtype=pl.String)
    )


def _build_ply_rows(block: ExportBlock, perspective: str) -> pl.DataFrame:
    """Build a frame with a row for each ply, [R]. The plies of a game are consecutive.

    One column has the outcome of the game as ``perspective`` sees it: 1 for a win, 0 for a draw, -1 for a loss.
    """
    games = block.range_games.games
    game, ply = np.nonzero(np.arange(PIECES) < games.plies[:, None])
    seat = (ply + 1) % 2
    player = (
        seat
        if block.perspective_seat_or_both(perspective) == BOTH_SEATS
        else block.perspective_seat_or_both(perspective)
    )
    winner = games.winner[game]
    outcome = np.where(winner == NONE, 0, np.where(winner == player, 1, -1))
    return _build_game_columns(block)[game].with_columns(
        ply=ply.astype(np.int32),
        seat=seat.astype(np.int32),
        imposed=(ply < block.range_games.opening[game]).astype(np.int32),
        piece=games.pieces[ply, game].astype(np.int32),
        cell=games.cells[ply, game].astype(np.int32),
        **{f"outcome_{perspective}": outcome.astype(np.int32)},
    )


# Episodes.


def _build_d3rlpy_arrays(episodes: Episodes) -> dict[str, NDArray[np.generic]]:
    """Build the arrays that d3rlpy needs for ``episodes``, each with ``S`` rows, keyed by name.

    The final observation of each episode is left out, because this format has no place for it.
    """
    decided = np.ones(len(episodes.observations), np.bool_)
    decided[episodes.final_observation] = False
    terminals, timeouts = np.zeros((2, len(episodes.actions)), np.float32)
    terminals[episodes.last_step], timeouts[episodes.last_step] = episodes.terminated, ~episodes.terminated
    arrays: dict[str, NDArray[np.generic]] = {
        "observations": episodes.observations[decided],
        "actions": episodes.actions,
        "rewards": episodes.rewards,
        "terminals": terminals,
        "timeouts": timeouts,
    }
    arrays |= {"imposed": episodes.imposed} if episodes.options.imposed else {}
    return arrays | ({"action_masks": episodes.masks[decided]} if episodes.options.masks else {})


def write_d3rlpy_npz(blocks: Iterable[tuple[ExportBlock, Episodes]], target: ExportTarget) -> None:
    """Write episodes to an ``.npz`` file of flat arrays.

    The lengths of the arrays are known only after the last episode, so their rows are first collected in
    ``target.scratch``. Raises ``OSError`` if a file cannot be written.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    steps = 0
    for _, episodes in blocks:
        steps += len(episodes.actions)
        arrays = _build_d3rlpy_arrays(episodes)
        for name, array in arrays.items():
            with (target.scratch / name).open("ab") as rows:
                rows.write(np.ascontiguousarray(array).data)
    with zipfile.ZipFile(target.path, "x", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as packed:
        for name, array in arrays.items():  # the arrays of all parts differ only in their lengths
            entry = zipfile.ZipInfo(f"{name}.npy", ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(entry, "w", force_zip64=True) as out, (target.scratch / name).open("rb") as rows:
                shape = steps, *array.shape[1:]
                header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
                npy.write_array_header_1_0(out, header)
                shutil.copyfileobj(rows, out, COPY_BYTES)


def check_minari_name_and_library(name: str) -> None:
    """Raise ``RequestError`` unless Minari is installed and accepts ``name`` as the name of a dataset's folder."""
    if not DATASET_ID.fullmatch(name):
        raise RequestError(f"a Minari dataset is named like quarto-v0, and {name!r} is not: change --output")
    check_minari_library()


def check_minari_library() -> None:
    """Raise ``RequestError`` unless all packages that Minari needs for writing are installed."""
    with require_extra("minari", "a Minari dataset"):
        for name in MINARI_PACKAGES:
            import_module(name)


def has_only_minari_dataset(folder: Path) -> bool:
    """Return whether a folder holds a Minari dataset and nothing else."""
    inside = {path.name for path in folder.iterdir()}
    return inside == {MINARI_DATA_FOLDER} and {path.name for path in (folder / MINARI_DATA_FOLDER).iterdir()} <= {
        MINARI_MAIN_FILE,
        MINARI_METADATA_FILE,
    }


def write_minari(blocks: Iterable[tuple[ExportBlock, Episodes]], target: ExportTarget) -> None:
    """Write episodes to a new Minari dataset.

    Raises ``OSError`` if the dataset cannot be written, and ``RequestError`` if Minari is not installed.
    """
    check_minari_library()
    import minari
    from gymnasium.spaces import Box, Discrete
    from minari.dataset.minari_storage import MinariStorage

    target.path.mkdir(parents=True)
    observations, actions = Box(NONE, PIECES - 1, (OBSERVATION_SIZE,), np.int8), Discrete(TURN_CODES)
    data = target.path.resolve() / MINARI_DATA_FOLDER  # Minari does not know the size of a dataset in a relative folder
    storage = MinariStorage.new(data, observations, actions, data_format="hdf5")
    run_game_ids = list[tuple[np.bytes_, NDArray[np.int64]]]()
    storage.update_episodes(_yield_with_disk_checks(_build_episode_buffers_noting_game_ids(blocks, run_game_ids), data))
    episodes = ({"run_id": run, "game_id": game} for run, games in run_game_ids for game in games)
    storage.update_episode_metadata(_yield_with_disk_checks(episodes, data))
    sets = {name: set(target.metadata[name]) for name in MINARI_SET_KEYS if name in target.metadata}
    storage.update_metadata({"minari_version": minari.__version__, **target.metadata, **sets})


def _yield_with_disk_checks(items: Iterable[Item], folder: Path) -> Iterator[Item]:
    """Yield ``items``, one for each episode, and check regularly that the disk that holds ``folder`` has free space.

    Raises ``OSError`` before the disk is full, because Minari would crash on a full disk.
    """
    for number, item in enumerate(items):
        if number % MINARI_BATCH == 0:
            with TemporaryFile(dir=folder, buffering=0) as file:
                file.seek((folder / MINARI_MAIN_FILE).stat().st_size)  # a limit on the size of files is met here too
                for _ in range(FREE_BYTES // len(ZEROS)):
                    file.write(ZEROS)
        yield item


def _build_episode_buffers_noting_game_ids(
    blocks: Iterable[tuple[ExportBlock, Episodes]], run_game_ids: list[tuple[np.bytes_, NDArray[np.int64]]]
) -> Iterator[Any]:
    """Yield Minari's buffer for each episode; append each block's run id and game ids to ``run_game_ids``."""
    from minari.data_collector import EpisodeBuffer

    for block, episodes in blocks:
        run_game_ids.append((np.bytes_(block.record.run_id), block.range_games.game_id[episodes.game]))
        for number, last in enumerate(episodes.last_step.tolist()):
            yield EpisodeBuffer(**_build_buffer_arrays(episodes, number, last))


def _build_buffer_arrays(episodes: Episodes, episode: int, last_step: int) -> dict[str, Any]:
    """Build the arrays of one episode, keyed by the parameters of Minari's buffer.

    ``episode`` is the number of the episode in ``episodes``, and ``last_step`` is the index of its last step. The
    arrays in ``infos`` have one more entry than there are steps, like the observations.
    """
    steps, over = int(episodes.steps[episode]), bool(episodes.terminated[episode])
    taken = slice(last_step + 1 - steps, last_step + 1)
    seen = slice(taken.start + episode, taken.stop + episode + 1)
    at_end = np.arange(1, steps + 1) == steps
    infos: dict[str, Any] = {}
    if episodes.options.imposed:
        infos["imposed"] = np.append(episodes.imposed[taken], False)
    if episodes.options.masks:
        infos["action_mask"] = episodes.masks[seen]
    return {
        "observations": episodes.observations[seen],
        "actions": episodes.actions[taken],
        "rewards": episodes.rewards[taken],
        "terminations": at_end & over,
        "truncations": at_end & (not over),
        "infos": infos,
    }


TABLE_FORMATS: Mapping[str, Callable[[Iterable[ExportBlock], bool, str], Iterator[bytes]]] = {
    "text": format_text_lines,
    "csv": format_csv_lines,
    "spreadsheet": partial(format_csv_lines, for_spreadsheet=True),
}
EPISODE_FORMATS: Mapping[str, Callable[[Iterable[tuple[ExportBlock, Episodes]], ExportTarget], None]] = {
    "minari": write_minari,
    "d3rlpy": write_d3rlpy_npz,
}
