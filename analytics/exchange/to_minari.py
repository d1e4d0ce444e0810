"""Export as a Minari dataset: a folder that ``minari.load_dataset`` and ``MinariDataset`` read.

Source of the layout: Minari's documentation, "Dataset standards", and its reader. The HDF5 file has a group for each
episode; arrays that episodes have in common are stored once and linked to.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exchange import hdf5
from analytics.exchange.sequence import GameChunk
from analytics.exchange.turns import ACTIONS, OBSERVED, Episodes
from quarto.errors import RequestError
from quarto.rules import CELLS, NONE, PIECES

DATASET_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*-v[0-9]+")
DATA = "data"  # the folder inside a dataset's folder
MAIN, METADATA = "main_data.hdf5", "metadata.json"
VERSION = "0.5.0"  # of Minari: the first with this layout
INFOS = ("imposed", "action_mask")
INT = np.dtype(np.int64)
MOST_STEPS = CELLS + 1  # of an episode: a turn a ply, and the first gift
ENDS = (  # columns that end episodes, and what they end with
    ("rewards", np.float32, (-1, 0, 1)),
    ("terminations", np.bool_, (0, 1)),
    ("truncations", np.bool_, (0, 1)),
)


def check_name(name: str) -> None:
    """Raise ``RequestError`` unless Minari accepts a folder of this name as a dataset."""
    if not DATASET_ID.fullmatch(name):
        raise RequestError(f"a Minari dataset is named like quarto-v0, and {name!r} is not: change --output")


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a Minari dataset and nothing else."""
    inside = {path.name for path in folder.iterdir()}
    return inside == {DATA} and {path.name for path in (folder / DATA).iterdir()} <= {MAIN, METADATA}


def write_minari(
    parts: Iterable[tuple[GameChunk, Episodes]], imposed: bool, masks: bool, folder: Path, about: Mapping[str, Any]
) -> None:
    """Write episodes, each part with the games that it was made from, to a new dataset in ``folder``.

    ``about`` has Minari's ``dataset_id`` and ``description``, and more of its metadata if there is. Raises ``OSError``.
    """
    (folder / DATA).mkdir(parents=True)
    main = folder / DATA / MAIN
    with main.open("xb") as out:
        writer = _Writer(hdf5.File(out), imposed, masks)
        for chunk, episodes in parts:
            writer.add(episodes, chunk.chosen.game_id[episodes.game], chunk.record.run_id)
        writer.finish()
    size = round(main.stat().st_size / 1e6, 1)
    metadata = _metadata(writer.episodes, writer.steps) | {**about, "dataset_size": size}
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


class _Alike(NamedTuple):
    """``N`` episodes of the same length and end."""

    template: hdf5.Template
    columns: dict[str, NDArray[Any]]  # [N, …] each
    places: dict[str, int]  # in the template, of columns and notes
    group: int  # where in the template an episode's group begins


class _Writer:
    """Adds episodes to a file, and counts them and their steps."""

    def __init__(self, file: hdf5.File, imposed: bool, masks: bool) -> None:
        self._file = file
        self._imposed, self._masks = imposed, masks
        self._links: Counter[int] = Counter()  # to each address
        self._stored = self._store_ends()
        self._no_infos = 0 if imposed or masks else file.put(hdf5.group({}, ()).image)
        self._addresses: list[NDArray[np.int64]] = []  # of the episodes' groups
        self.episodes, self.steps = 0, 0

    def add(self, episodes: Episodes, game_id: NDArray[np.int64], run_id: str) -> None:
        """Write episodes of one run; ``game_id`` [E]."""
        rewards = episodes.rewards[episodes.last]
        keys = np.stack((episodes.steps, rewards, episodes.terminated), axis=1).astype(np.int64)
        kinds, kind = np.unique(keys, axis=0, return_inverse=True)
        alike = [np.flatnonzero(kind == i) for i in range(len(kinds))]
        made = [
            self._alike(episodes, one, steps, reward, terminated, run_id)
            for one, (steps, reward, terminated) in zip(alike, kinds.tolist(), strict=True)
        ]
        sizes = np.array([each.template.size for each in made])[kind]
        starts = self._file.end + np.cumsum(sizes) - sizes  # in the order of the games, so that parts leave no trace
        images = [memoryview(b"")] * len(game_id)
        for one, each in zip(alike, made, strict=True):
            copies = each.template.copies(starts[one])
            hdf5.write_values(copies, each.places["id"], self.episodes + one)
            hdf5.write_values(copies, each.places["game_id"], game_id[one])
            for name, column in each.columns.items():
                hdf5.write_values(copies, each.places[name], column)
            for episode, image in zip(one.tolist(), copies, strict=True):
                images[episode] = image.data
        self._file.put(b"".join(images))
        self._addresses.append(starts + np.array([each.group for each in made])[kind])
        self.episodes += len(game_id)
        self.steps += len(episodes.actions)

    def finish(self) -> None:
        """Write what the file needs to be read."""
        for address, links in self._links.items():
            self._file.count_links(address, links)
        self._file.finish("episode_", np.concatenate(self._addresses or [np.zeros(0, np.int64)]))

    def _alike(
        self, episodes: Episodes, alike: NDArray[np.int64], steps: int, reward: int, terminated: int, run_id: str
    ) -> _Alike:
        """The episodes ``alike`` [N], which have the same steps and the same end."""
        columns = self._columns(episodes, alike, steps)
        template, places = hdf5.Template(), dict[str, int]()
        begin = {name: _add_dataset(template, places, name, column) for name, column in columns.items()}
        infos = [name for name in columns if name in INFOS]
        if infos:
            added = hdf5.group({}, infos)
            begin["infos"] = template.add(added)
            for name in infos:
                template.link(begin["infos"] + added.places[name], begin[name])
        notes = {"id": INT, "total_steps": INT, "run_id": np.dtype(f"S{len(run_id.encode())}"), "game_id": INT}
        ends = self._ends(steps, reward, terminated, len(alike))
        own = [name for name in begin if name not in INFOS]
        added = hdf5.group(notes, [*own, *ends])
        start = template.add(added)
        for name in own:
            template.link(start + added.places[name], begin[name])
        for name, address in ends.items():
            template.write(start + added.places[name], address.to_bytes(hdf5.WORD, "little"))
        template.write(start + added.places["total_steps"], steps.to_bytes(hdf5.WORD, "little"))
        template.write(start + added.places["run_id"], run_id.encode())
        return _Alike(template, columns, places | {name: start + added.places[name] for name in notes}, start)

    def _columns(self, episodes: Episodes, alike: NDArray[np.int64], steps: int) -> dict[str, NDArray[Any]]:
        """[N, …] what each episode has of its own. Infos have one entry more than there are steps."""
        first = (episodes.last + 1 - episodes.steps)[alike, None] + np.arange(steps)
        row = (episodes.final - episodes.steps)[alike, None] + np.arange(steps + 1)
        columns: dict[str, NDArray[Any]] = {
            "observations": episodes.observations[row],
            "actions": episodes.actions[first],
        }
        if self._imposed:
            columns["imposed"] = np.pad(episodes.imposed[first], ((0, 0), (0, 1)))
        if self._masks:
            columns["action_mask"] = episodes.masks[row]
        return columns

    def _ends(self, steps: int, reward: int, terminated: int, links: int) -> dict[str, int]:
        """Addresses of rewards and ends, and of infos if there are none, which get so many links more."""
        at_end = {"rewards": reward, "terminations": terminated, "truncations": 1 - terminated}
        addresses = {name: self._stored[name, steps, last] for name, last in at_end.items()}
        if self._no_infos:
            addresses["infos"] = self._no_infos
        for address in addresses.values():
            self._links[address] += links
        return addresses

    def _store_ends(self) -> dict[tuple[str, int, int], int]:
        """The addresses of all columns of zeros but for the last entry, by their names, steps and last entries."""
        stored = {}
        for name, dtype, lasts in ENDS:
            for steps in range(1, MOST_STEPS + 1):
                for last in lasts:
                    column = np.zeros(steps, dtype)
                    column[-1] = last
                    template, places = hdf5.Template(), dict[str, int]()
                    _add_dataset(template, places, name, column[None])
                    template.write(places[name], column.tobytes())
                    stored[name, steps, last] = self._file.put(template.copies(np.zeros(1, np.int64)).data)
        return stored


def _add_dataset(template: hdf5.Template, places: dict[str, int], name: str, column: NDArray[Any]) -> int:
    """Add a dataset for each of ``column`` [N, …], and the place of its data to ``places``; returns where it begins."""
    added = hdf5.dataset(column.dtype, column.shape[1:])
    begin = template.add(added)
    places[name] = begin + added.places["data"]
    return begin
