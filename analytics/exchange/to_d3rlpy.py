"""Export for d3rlpy: the flat arrays of its ``MDPDataset`` in one ``.npz`` file, which NumPy alone can read.

Source of the layout: d3rlpy's documentation, "Create your dataset": the steps of all episodes, the last of each
marked in ``terminals`` or, where it was cut off, in ``timeouts``, never in both.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from analytics.exchange.turns import ACTIONS, OBSERVED, Episodes

BLOCK = 1 << 20  # bytes copied at a time
LEVEL = 1  # of deflate: a board is mostly -1
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file, so that the same games are the same bytes


class _Array(NamedTuple):
    """One array of the file."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]  # of a step


ARRAYS = {
    "observations": _Array(np.dtype(np.int8), (OBSERVED,)),
    "actions": _Array(np.dtype(np.int64), ()),
    "rewards": _Array(np.dtype(np.float32), ()),
    "terminals": _Array(np.dtype(np.float32), ()),
    "timeouts": _Array(np.dtype(np.float32), ()),
}
IMPOSED = {"imposed": _Array(np.dtype(np.bool_), ())}
MASKS = {"action_masks": _Array(np.dtype(np.bool_), (ACTIONS,))}


def arrays_of(episodes: Episodes, imposed: bool, masks: bool) -> dict[str, NDArray[np.generic]]:
    """The arrays of some episodes, ``S`` rows each. This format has no final observations."""
    decided = np.ones(len(episodes.observations), np.bool_)
    decided[episodes.final] = False
    terminals, timeouts = np.zeros((2, len(episodes.actions)), np.float32)
    terminals[episodes.last], timeouts[episodes.last] = episodes.terminated, ~episodes.terminated
    arrays: dict[str, NDArray[np.generic]] = {
        "observations": episodes.observations[decided],
        "actions": episodes.actions,
        "rewards": episodes.rewards,
        "terminals": terminals,
        "timeouts": timeouts,
    }
    arrays |= {"imposed": episodes.imposed} if imposed else {}
    return arrays | ({"action_masks": episodes.masks[decided]} if masks else {})


def write_d3rlpy(parts: Iterable[Episodes], imposed: bool, masks: bool, path: Path, aside: Path) -> None:
    """Write episodes to ``path``. ``aside`` is an empty folder for arrays whose length is not known yet.

    Raises ``OSError``.
    """
    arrays = ARRAYS | (IMPOSED if imposed else {}) | (MASKS if masks else {})
    steps = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((aside / name).open("wb")) for name in arrays}
        for episodes in parts:
            steps += len(episodes.actions)
            for name, array in arrays_of(episodes, imposed, masks).items():
                files[name].write(np.ascontiguousarray(array).data)
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as packed:
        for name, kind in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(entry, "w", force_zip64=True) as out, (aside / name).open("rb") as rows:
                _write_header(out, kind, steps)
                shutil.copyfileobj(rows, out, BLOCK)


def _write_header(out: IO[bytes], kind: _Array, steps: int) -> None:
    header = {"descr": npy.dtype_to_descr(kind.dtype), "fortran_order": False, "shape": (steps, *kind.shape)}
    npy.write_array_header_1_0(out, header)
