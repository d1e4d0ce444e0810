"""Many small tables are decoded as if each were read alone, although equal column chunks are decoded once."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from analytics.store.parquet.encoder import encode_parquet
from analytics.store.parquet.metadata import read_footer
from analytics.store.parquet.repeated_chunks import FilesToDecode, select_files_to_decode

SCHEMA = pl.Schema({"pairing": pl.Int32(), "wins": pl.Int64(), "losses": pl.Int64()})


def table(generator: np.random.Generator) -> pl.DataFrame:
    rows = int(generator.integers(1, 4))
    columns = {"pairing": np.arange(rows), **{name: generator.integers(0, 3, rows) for name in ("wins", "losses")}}
    return pl.DataFrame(columns, SCHEMA)


def encode(frame: pl.DataFrame, group_rows: int = 8) -> bytes:
    return bytes(encode_parquet(frame.iter_slices(group_rows), SCHEMA))


def select(contents: list[bytes]) -> FilesToDecode:
    return select_files_to_decode(contents, [read_footer(io.BytesIO(content)) for content in contents])


def test_columns_of_many_files_are_those_of_each_file_read_alone() -> None:
    generator = np.random.default_rng(7)
    tables = [table(generator) for _ in range(500)]
    contents = [encode(frame, 1 if index % 50 == 0 else 8) for index, frame in enumerate(tables)]
    selection = select(contents)
    assert len(selection.indices) < 300
    decoded = pl.concat([pl.read_parquet(contents[index]) for index in selection.indices])
    columns = pl.DataFrame([*map(pl.Series, SCHEMA, selection.expand(decoded))])
    assert columns.equals(pl.concat(tables))
    ends = np.cumsum([0, *selection.rows])
    assert all(columns[a:b].equals(frame) for (a, b), frame in zip(pairwise(ends.tolist()), tables, strict=True))


def test_equal_bytes_of_another_column_or_under_another_footer_are_not_taken_as_equal() -> None:
    one = pl.DataFrame({"pairing": [0], "wins": [1], "losses": [2]}, SCHEMA)
    swapped = pl.DataFrame({"pairing": [0], "wins": [2], "losses": [1]}, SCHEMA)
    assert [*select([encode(one), encode(swapped), encode(one)]).indices] == [0, 1]
    other = pl.DataFrame({"pairing": [0, 1], "wins": [1, 1], "losses": [2, 2]}, SCHEMA)
    assert [*select([encode(one), encode(other)]).indices] == [0, 1]


def test_files_with_other_columns_are_refused() -> None:
    frame = table(np.random.default_rng(1))
    other = bytes(encode_parquet([frame.drop("losses")], frame.drop("losses").schema))
    with pytest.raises(ValueError, match="does not have the columns of the other files"):
        select([encode(frame), other])
