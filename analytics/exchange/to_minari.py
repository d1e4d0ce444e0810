"""Export as a Minari dataset, by Minari itself: a folder that ``minari.load_dataset`` and ``MinariDataset`` read.

The library is imported when a dataset is made: the extra ``minari`` brings it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.sequence import GameChunk
from analytics.exchange.turns import OBSERVED, Episodes
from quarto.errors import RequestError, of_extra
from quarto.observations import TURNS
from quarto.rules import NONE, PIECES

DATASET_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*-v[0-9]+")
DATA = "data"  # the folder inside a dataset's folder
MAIN, METADATA = "main_data.hdf5", "metadata.json"
NEEDED = ("gymnasium", "h5py", "PIL", "minari")  # Minari imports h5py and Pillow without asking for them
SETS = ("author", "author_email")  # metadata that Minari takes as sets
BATCH = 1000  # episodes for which there must be room on the disk
ROOM = 64 << 20  # bytes that a batch needs at most, with what the library still has in memory
ZEROS = bytes(1 << 20)

Item = TypeVar("Item")


def check_name(name: str) -> None:
    """Raise ``RequestError`` unless Minari accepts a folder of this name as a dataset, and is installed."""
    if not DATASET_ID.fullmatch(name):
        raise RequestError(f"a Minari dataset is named like quarto-v0, and {name!r} is not: change --output")
    check_library()


def check_library() -> None:
    """Raise ``RequestError`` unless all that Minari needs to write is installed."""
    with of_extra("minari", "a Minari dataset"):
        for name in NEEDED:
            import_module(name)


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a Minari dataset and nothing else."""
    inside = {path.name for path in folder.iterdir()}
    return inside == {DATA} and {path.name for path in (folder / DATA).iterdir()} <= {MAIN, METADATA}


def write_minari(
    parts: Iterable[tuple[GameChunk, Episodes]], imposed: bool, masks: bool, folder: Path, about: Mapping[str, Any]
) -> None:
    """Write episodes, each part with the games that it was made from, to a new dataset in ``folder``.

    ``about`` has Minari's ``dataset_id`` and ``description``, and more of its metadata if there is. Raises ``OSError``,
    and ``RequestError`` if Minari is not installed.
    """
    check_library()
    import minari
    from gymnasium.spaces import Box, Discrete
    from minari.dataset.minari_storage import MinariStorage

    folder.mkdir(parents=True)
    observations, actions = Box(NONE, PIECES - 1, (OBSERVED,), np.int8), Discrete(TURNS)
    data = folder.resolve() / DATA  # Minari does not know the size of a dataset in a relative folder
    storage = MinariStorage.new(data, observations, actions, data_format="hdf5")
    known = list[_EpisodeGames]()
    storage.update_episodes(_with_room(_buffers(parts, imposed, masks, known), data))
    episodes = ({"run_id": run, "game_id": game} for run, games in known for game in games)
    storage.update_episode_metadata(_with_room(episodes, data))
    sets = {name: set(about[name]) for name in SETS if name in about}
    storage.update_metadata({"minari_version": minari.__version__, **about, **sets})


def _with_room(items: Iterable[Item], data: Path) -> Iterator[Item]:
    """The same items, one an episode. Raises ``OSError`` before the disk is full: the library would crash."""
    for number, item in enumerate(items):
        if number % BATCH == 0:
            with TemporaryFile(dir=data, buffering=0) as file:
                file.seek((data / MAIN).stat().st_size)  # a limit on the size of files is met here too
                for _ in range(ROOM // len(ZEROS)):
                    file.write(ZEROS)
        yield item


class _EpisodeGames(NamedTuple):
    """The games of some episodes."""

    run_id: np.bytes_
    game_id: NDArray[np.int64]  # [E]


def _buffers(
    parts: Iterable[tuple[GameChunk, Episodes]], imposed: bool, masks: bool, known: list[_EpisodeGames]
) -> Iterator[Any]:
    """Minari's buffer of each episode; ``known`` grows by their games."""
    from minari.data_collector import EpisodeBuffer

    for chunk, episodes in parts:
        known.append(_EpisodeGames(np.bytes_(chunk.record.run_id), chunk.chosen.game_id[episodes.game]))
        for number, last in enumerate(episodes.last.tolist()):
            yield EpisodeBuffer(**_arrays(episodes, number, last, imposed, masks))


def _arrays(episodes: Episodes, number: int, last: int, imposed: bool, masks: bool) -> dict[str, Any]:
    """The arrays of one episode, whose last step is ``last``. Infos have one entry more than there are steps."""
    steps, over = int(episodes.steps[number]), bool(episodes.terminated[number])
    taken = slice(last + 1 - steps, last + 1)
    seen = slice(taken.start + number, taken.stop + number + 1)
    at_end = np.arange(1, steps + 1) == steps
    infos: dict[str, Any] = {}
    if imposed:
        infos["imposed"] = np.append(episodes.imposed[taken], False)
    if masks:
        infos["action_mask"] = episodes.masks[seen]
    return {
        "observations": episodes.observations[seen],
        "actions": episodes.actions[taken],
        "rewards": episodes.rewards[taken],
        "terminations": at_end & over,
        "truncations": at_end & (not over),
        "infos": infos,
    }
