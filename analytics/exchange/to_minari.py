"""Export as a Minari dataset: a folder that ``minari.load_dataset`` and ``MinariDataset`` read.

Source of the layout: Minari's documentation, "Dataset standards", and its reader. The HDF5 file has a group for each
episode. h5py's usual calls write a thousand groups a second, so arrays that episodes of one length have in common are
stored once and linked to, and the rest is written by h5py's low-level calls.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.sequence import GameChunk
from analytics.exchange.turns import ACTIONS, OBSERVED, Episodes
from quarto.errors import RequestError
from quarto.rules import NONE, PIECES

EXTRA = "pip install 'quarto-arena[export]'"
DATASET_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*-v[0-9]+")
DATA = "data"  # the folder inside a dataset's folder
MAIN, METADATA = "main_data.hdf5", "metadata.json"
VERSION = "0.5.0"  # of Minari: the first with this layout
NO_INFOS = ("infos",)
HDF5 = "v110"  # readable from this library version on; half the size of files that all versions read


def library() -> Any:
    """The library h5py. Raises ``RequestError`` where it is not installed."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise RequestError(f"format minari needs the extra export ({error.name} is missing): {EXTRA}") from error


def check_name(name: str) -> None:
    """Raise ``RequestError`` unless Minari accepts a folder of this name as a dataset."""
    if not DATASET_ID.fullmatch(name):
        raise RequestError(f"a Minari dataset is named like quarto-v0, and {name!r} is not: change --output")


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a Minari dataset and nothing else."""
    inside = {path.name for path in folder.iterdir()}
    return inside == {DATA} and {path.name for path in (folder / DATA).iterdir()} <= {MAIN, METADATA}


def write_minari(
    parts: Iterable[tuple[GameChunk, Episodes]], imposed: bool, masks: bool, folder: Path, about: dict[str, str]
) -> None:
    """Write episodes, each part with the games that it was made from, to a new dataset in ``folder``.

    ``about`` has Minari's ``dataset_id`` and ``description``. Raises ``OSError``.
    """
    h5py = library()
    (folder / DATA).mkdir(parents=True)
    main = folder / DATA / MAIN
    with h5py.File(main, "x", libver=(HDF5, HDF5)) as file:
        writer = _Writer(h5py, file, imposed, masks)
        for chunk, episodes in parts:
            writer.add(episodes, chunk.chosen.game_id[episodes.game], chunk.record.run_id)
    size = round(main.stat().st_size / 1e6, 1)
    metadata = _metadata(writer.episodes, writer.steps) | about | {"dataset_size": size}
    (folder / DATA / METADATA).write_text(json.dumps(metadata), encoding="utf-8")


def _metadata(episodes: int, steps: int) -> dict[str, Any]:
    """The metadata that Minari's reader needs. Spaces are serialised as Minari serialises those of Gymnasium."""
    low, high = [NONE] * OBSERVED, [PIECES - 1] * OBSERVED
    box = {"type": "Box", "dtype": "int8", "shape": [OBSERVED], "low": low, "high": high}
    return {
        "total_episodes": episodes,
        "total_steps": steps,
        "data_format": "hdf5",
        "observation_space": json.dumps(box),
        "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": ACTIONS}),
        "minari_version": VERSION,
    }


class _Writer:
    """Adds episodes to an open file, and counts them and their steps."""

    def __init__(self, h5py: Any, file: Any, imposed: bool, masks: bool) -> None:
        self._h5 = h5py
        self._root = file.id
        self._imposed, self._masks = imposed, masks
        self.episodes, self.steps = 0, 0
        h5s = h5py.h5s
        self._space = cache(lambda shape: h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR))
        self._type = cache(partial(h5py.h5t.py_create, logical=True))
        self._shared: dict[tuple[Any, ...], Any] = {}  # objects that several episodes link to
        self._small = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._small.set_layout(h5py.h5d.COMPACT)  # stored in the header of the object, without a block of its own
        self._plain = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
        for kind in (self._small, self._plain):
            kind.set_obj_track_times(False)  # the same games are the same bytes

    def add(self, episodes: Episodes, game_id: NDArray[np.int64], run_id: str) -> None:
        """Write episodes of one run; ``game_id`` [E]."""
        ends = np.cumsum(episodes.steps)
        run = np.array(run_id.encode())
        for episode, end in enumerate(ends.tolist()):
            steps = int(episodes.steps[episode])
            first, row = end - steps, end - steps + episode
            group = self._group(self._root, b"episode_%d" % self.episodes)
            self._note(group, b"id", np.array(self.episodes))
            self._note(group, b"total_steps", np.array(steps))
            self._note(group, b"run_id", run)
            self._note(group, b"game_id", game_id[episode : episode + 1].reshape(()))
            self._put(group, b"observations", episodes.observations[row : row + steps + 1])
            self._put(group, b"actions", episodes.actions[first:end])
            self._link_ends(group, steps, float(episodes.rewards[end - 1]), bool(episodes.terminated[episode]))
            self._put_infos(group, episodes, first, row, steps)
            self.episodes += 1
            self.steps += steps

    def _link_ends(self, group: Any, steps: int, reward: float, terminated: bool) -> None:
        """Rewards and ends, which most episodes of a length have in common."""
        at_end = {
            b"rewards": np.float32(reward),
            b"terminations": np.bool_(terminated),
            b"truncations": ~np.bool_(terminated),
        }
        for name, value in at_end.items():
            key = name, steps, value.item()
            if key in self._shared:
                self._h5.h5o.link(self._shared[key], group, name)
            else:
                column = np.zeros(steps, value.dtype)
                column[-1] = value
                self._shared[key] = self._put(group, name, column)

    def _put_infos(self, group: Any, episodes: Episodes, first: int, row: int, steps: int) -> None:
        """Write infos, which have one entry more than there are steps; flags of steps are false in the last entry."""
        if not self._imposed and not self._masks:
            if NO_INFOS in self._shared:
                self._h5.h5o.link(self._shared[NO_INFOS], group, b"infos")
            else:
                self._shared[NO_INFOS] = self._group(group, b"infos")
            return
        infos = self._group(group, b"infos")
        if self._imposed:
            self._put(infos, b"imposed", np.append(episodes.imposed[first : first + steps], np.False_))
        if self._masks:
            self._put(infos, b"action_mask", episodes.masks[row : row + steps + 1])

    def _group(self, parent: Any, name: bytes) -> Any:
        return self._h5.h5g.create(parent, name, gcpl=self._plain)

    def _put(self, group: Any, name: bytes, array: NDArray[Any]) -> Any:
        dataset = self._h5.h5d.create(group, name, self._type(array.dtype), self._space(array.shape), self._small)
        dataset.write(self._h5.h5s.ALL, self._h5.h5s.ALL, np.ascontiguousarray(array))
        return dataset

    def _note(self, group: Any, name: bytes, value: NDArray[Any]) -> None:
        self._h5.h5a.create(group, name, self._type(value.dtype), self._space(())).write(value)
