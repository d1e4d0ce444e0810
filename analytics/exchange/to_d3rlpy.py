"""Export for d3rlpy: the flat arrays of its ``MDPDataset`` in one ``.npz`` file, which NumPy alone can read.

Source of the layout: d3rlpy's documentation, "Create your dataset". It has the steps of all episodes. The last step of
an episode is marked in ``terminals`` or, if the episode was cut off, in ``timeouts``, never in both.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from analytics.exchange.turns import Episodes

BLOCK = 1 << 20  # bytes copied at a time
LEVEL = 1  # of deflate: a board is mostly -1
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file, so that the same games are the same bytes


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
    arrays: dict[str, NDArray[np.generic]] = {}
    steps = 0
    for episodes in parts:
        steps += len(episodes.actions)
        arrays = arrays_of(episodes, imposed, masks)
        for name, array in arrays.items():
            with (aside / name).open("ab") as rows:
                rows.write(np.ascontiguousarray(array).data)
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as packed:
        for name, array in arrays.items():  # the arrays of all parts differ only in their lengths
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(entry, "w", force_zip64=True) as out, (aside / name).open("rb") as rows:
                shape = steps, *array.shape[1:]
                header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
                npy.write_array_header_1_0(out, header)
                shutil.copyfileobj(rows, out, BLOCK)
