"""Decodes tables of integers from many small files, of which most column chunks are equal to those of another file.

Polars needs 6 microseconds for a column of a file, even for one row. Thousands of small files of tallies have the same
footer, apart from statistics, and their columns have few different values. A column chunk (a column of a row group)
with the same bytes under the same footer holds the same values, so it is decoded only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.parquet.metadata import Footer


class FilesToDecode(NamedTuple):
    """The files to decode of ``F`` files, and where the values of all files are found in them."""

    indices: NDArray[np.intp]  # [D] the files to decode, ascending
    sources: NDArray[np.intp]  # [F, columns] the position in ``indices`` of a file with the same values in a column
    rows: NDArray[np.int64]  # [F] the number of rows of each file

    def expand(self, decoded: pl.DataFrame) -> list[NDArray[np.integer]]:
        """Return the columns of all files, file after file, from the rows of the files to decode.

        ``decoded`` has these rows, file after file. Its columns are integers without nulls.
        """
        starts = np.cumsum(self.rows[self.indices]) - self.rows[self.indices]
        within = np.arange(self.rows.sum()) - np.repeat(np.cumsum(self.rows) - self.rows, self.rows)  # row of its file
        return [
            column.to_numpy()[np.repeat(starts[self.sources[:, number]], self.rows) + within]
            for number, column in enumerate(decoded.iter_columns())
        ]


def select_files_to_decode(contents: Sequence[bytes], footers: Sequence[Footer]) -> FilesToDecode:
    """Select files that hold every column chunk of all files.

    ``footers`` are the results of ``read_footer``, which returns the same object for files whose footers agree. Raises
    ``ValueError`` unless all files have the same columns.
    """
    if len({footer.columns for footer in footers}) > 1:
        raise ValueError("does not have the columns of the other files")
    first_files: dict[tuple[int, int, bytes], int] = {}  # by footer, column and bytes: the first file with the chunk
    sources = np.empty((len(contents), len(footers[0].columns)), np.intp)
    for index, (content, footer) in enumerate(zip(contents, footers, strict=True)):
        if len(footer.chunks) == 1:
            sources[index] = [
                first_files.setdefault((id(footer), column, content[place]), index)
                for column, place in enumerate(footer.chunks[0])
            ]
        else:
            sources[index] = index
    indices, positions = np.unique(sources, return_inverse=True)
    rows = np.fromiter((footer.rows for footer in footers), np.int64, len(footers))
    return FilesToDecode(indices, positions.reshape(sources.shape), rows)
