"""Files of the encoder, read by Polars and DuckDB."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.store.parquet.encoder import encode_parquet

INT8 = st.integers(-128, 127)
INT32 = st.integers(-(2**31), 2**31 - 1)
ROW_GROUP = st.sampled_from([1, 7, 8, 33, 129, 1000])


def frame_of(small: Sequence[int], medium: Sequence[int], large: Sequence[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"small": small, "medium": medium, "large": large},
        schema={"small": pl.Int8, "medium": pl.Int32, "large": pl.Int64},
    )


def encoded(frame: pl.DataFrame, rows: int) -> bytes:
    """Encode a frame in row groups of ``rows`` rows."""
    return bytes(encode_parquet(frame.iter_slices(rows), frame.schema))


def read_by_duckdb(content: bytes, folder: Path) -> list[tuple[int, ...]]:
    path = folder / "file.parquet"
    path.write_bytes(content)
    with duckdb.connect() as connection:
        return connection.execute("FROM read_parquet($1)", [str(path)]).fetchall()


@settings(max_examples=15)  # each is read by Polars and by DuckDB
@given(
    rows=st.lists(st.tuples(INT8, INT32, st.integers(1 - 2**62, 2**62 - 1)), max_size=300),
    repeats=st.integers(1, 40),
    row_group=ROW_GROUP,
)
def test_any_integers_read_back(
    rows: list[tuple[int, int, int]], repeats: int, row_group: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Check repeated rows, which give runs, few different values (small dictionaries), and wide ranges (none)."""
    repeated = [row for row in rows for _ in range(repeats)][:2000]
    frame = frame_of(*zip(*repeated, strict=True)) if repeated else frame_of([], [], [])
    content = encoded(frame, row_group)
    assert pl.read_parquet(io.BytesIO(content)).equals(frame)
    assert pl.read_parquet(io.BytesIO(content)).schema == frame.schema
    assert read_by_duckdb(content, tmp_path_factory.mktemp("parquet")) == repeated


@given(width=st.integers(0, 16), count=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_every_width_of_a_dictionary_reads_back(width: int, count: int, seed: int) -> None:
    values = [(seed * (i + 1) ** 3 >> 3) % (1 << width) - 5 for i in range(count)]
    frame = frame_of([0] * count, values, values)
    assert pl.read_parquet(io.BytesIO(encoded(frame, 1000))).equals(frame)


@given(width=st.integers(0, 7), least=st.integers(-128, 0), count=st.integers(1, 80), seed=st.integers(0, 2**32))
def test_bytes_of_every_width_read_back(width: int, least: int, count: int, seed: int) -> None:
    """Check that 1, 2 and 4 bits, packed eight values at a time, may leave a rest of up to seven values."""
    values = [(seed * (i + 1) ** 3 >> 3) % (1 << width) + least for i in range(count)]
    frame = frame_of(values, [0] * count, [0] * count)
    assert pl.read_parquet(io.BytesIO(encoded(frame, 1000))).equals(frame)


def test_jumps_of_any_size_between_ascending_numbers_read_back() -> None:
    for jump in (2**k + d for k in (1, 8, 31, 32, 55, 56, 57, 61) for d in (-1, 0, 1)):
        frame = frame_of([1] * 500, [2] * 500, [*range(200), *range(jump, jump + 200), *range(100)])
        assert pl.read_parquet(io.BytesIO(encoded(frame, 1000))).equals(frame)


def test_game_ids_take_a_few_bits() -> None:
    """Check gaps of 1 to 4, as between games of which some have ended: two bits each beside blocks and headers."""
    ascending = [2 * i + i % 3 for i in range(60_000)]
    content = encoded(pl.DataFrame({"game_id": ascending}), 65536)
    assert len(content) < 60_000 * 0.35


def test_row_groups_carry_the_least_and_largest_value(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(encoded(frame_of([-3, 5, 7, 7], [9] * 4, [1, 2, 2**40, -1]), 2))
    query = """SELECT path_in_schema, row_group_id, stats_min_value, stats_max_value, stats_null_count
        FROM parquet_metadata($1) ORDER BY ALL"""
    with duckdb.connect() as connection:
        statistics = connection.execute(query, [str(path)]).fetchall()
    assert statistics == [
        ("large", 0, "1", "2", 0),
        ("large", 1, "-1", str(2**40), 0),
        ("medium", 0, "9", "9", 0),
        ("medium", 1, "9", "9", 0),
        ("small", 0, "-3", "5", 0),
        ("small", 1, "7", "7", 0),
    ]


def test_enums_read_back_as_texts_and_metadata_as_it_was() -> None:
    texts = [f"{number:03d}" for number in range(300)]
    frame = pl.DataFrame({"text": texts, "n": range(300)}, schema={"text": pl.Enum(texts[::-1]), "n": pl.Int32()})
    content = encode_parquet(frame.iter_slices(128), frame.schema, {"origin": "here"})
    assert pl.read_parquet(io.BytesIO(content))["text"].to_list() == texts
    assert pl.read_parquet_metadata(io.BytesIO(content))["origin"] == "here"


@pytest.mark.parametrize("rows", [2, 10_001])
def test_more_labels_than_a_dictionary_of_integers_may_have_read_back(rows: int) -> None:
    labels = [f"label {number:05}" for number in range(70_000)]
    column = pl.Series([labels[number * 69_999 // (rows - 1)] for number in range(rows)], dtype=pl.Enum(labels))
    frame = pl.DataFrame({"label": column})
    assert pl.read_parquet(io.BytesIO(encoded(frame, rows)))["label"].cast(pl.String).to_list() == column.to_list()


def test_other_types_are_refused() -> None:
    with pytest.raises(KeyError):
        encoded(pl.DataFrame({"text": ["a"]}), 10)


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Decode a signed number of Thrift's compact protocol, and where it ends."""
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def thrift(content: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Decode a struct of 32-bit numbers and structs, by field, and where it ends."""
    fields: dict[int, Any] = {}
    field = 0
    while content[at]:
        field, kind = field + (content[at] >> 4), content[at] & 15
        fields[field], at = thrift(content, at + 1) if kind == 12 else varint(content, at + 1)
    return fields, at + 1


def test_the_pages_of_a_column_fill_its_place(tmp_path: Path) -> None:
    content = encoded(frame_of(range(64), [i << 20 for i in range(64)], range(64)), 40)
    (tmp_path / "file.parquet").write_bytes(content)
    with duckdb.connect() as connection:
        query = (
            "SELECT least(coalesce(dictionary_page_offset, data_page_offset), data_page_offset), total_compressed_size"
        )
        rows = connection.execute(f"{query} FROM parquet_metadata($1)", [str(tmp_path / "file.parquet")]).fetchall()
    pages = 0
    for start, size in rows:
        at = start
        while at < start + size:
            header, begin = thrift(content, at)
            at = begin + header[3]
            assert header[2] == header[3]  # nothing is compressed
            pages += 1
        assert at == start + size
    assert pages == 2 * (2 + 1 + 1)  # of two row groups; only small columns have a dictionary
