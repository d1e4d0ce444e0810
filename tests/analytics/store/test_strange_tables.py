"""Tables from strangers: rows are counted before a column is read, by every reader, so none of them takes memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analytics.policies.table_import import read_policy_table
from analytics.questions.sql.database import OpenArchive
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.parquet import metadata
from analytics.store.parquet.encoder import ColumnChunk, ParquetBuilder, allocate_buffer, allocate_facts, encode_parquet
from analytics.store.parquet.metadata import (
    BINARY,
    BYTE,
    DOUBLE,
    I32,
    I64,
    LIST,
    STRUCT,
    THIRD_PARTY_STORAGE,
    decode_struct,
    encode_struct,
    encode_varint,
    encode_zigzag,
    i32_field,
    read_footer,
    struct_field,
)
from analytics.store.parquet.packing import pack_int64_as_deltas
from analytics.store.range_files import read_rows, read_tallies
from analytics.store.schema import TABLE_SCHEMAS
from analytics.tables.derived.definitions import DERIVED_TABLES
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from tests.analytics.folders import forge
from tests.analytics.naive_games import RUN_ID
from tests.analytics.stored_policies import COUNTS, origin
from tests.analytics.tables.verification.damage import forged
from tests.paths import SAMPLE

MANY = 2_000_000
SCHEMAS = TABLE_SCHEMAS | {name: table.schema for name, table in DERIVED_TABLES.items()}


def parquet(frame: pl.DataFrame, **options: Any) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **options)
    return buffer.getvalue()


def repeated(schema: pl.Schema, rows: int = MANY) -> bytes:
    """Encode a table of many equal rows, in some kilobytes."""
    columns = {name: pl.repeat(0, rows, dtype=pl.Int8(), eager=True).cast(kind) for name, kind in schema.items()}
    return parquet(pl.DataFrame(columns), row_group_size=rows)


def with_number(content: bytes, number: int, other: int) -> bytes:
    """Replace a number by a smaller one wherever a file's footer has it."""
    length, old = int.from_bytes(content[-8:-4], "little"), encode_zigzag(number)
    new = bytes(
        [*(byte | 0x80 for byte in encode_zigzag(other)), *[0x80] * (len(old) - len(encode_zigzag(other)) - 1), 0]
    )
    footer = content[-8 - length : -8]
    assert old in footer
    return content[: -8 - length] + footer.replace(old, new) + content[-8:]


def denied() -> bytes:
    """Encode a table of a few rows, as its footer says, whose page unpacks to 16 MB."""
    values = np.zeros(MANY)
    values[:1000] = np.random.default_rng(5).random(1000)
    content = parquet(pl.DataFrame({"value": values}), row_group_size=MANY, data_page_size=(1 << 31) - 100)
    content = with_number(content, MANY, 10)
    length = int.from_bytes(content[-8:-4], "little")
    size = next(
        candidate for candidate in range(8 * MANY, 8 * MANY + 500) if encode_zigzag(candidate) in content[-8 - length :]
    )
    return with_number(content, size, 10)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make reading a column an error."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("a table is read that was not counted")

    monkeypatch.setattr(pl, "read_parquet", read)
    monkeypatch.setattr(pl, "scan_parquet", read)
    return monkeypatch


def put(archive: ArchiveStore, content: bytes, rows: int) -> None:
    """Put other bytes in the place of a policy's table. Its card says how many rows there are, and all else fits."""
    folder = Path(archive.root) / "policies" / policy_store.save(archive, COUNTS, origin()).policy_id
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"table-{digest[:16]}.parquet").write_bytes(content)
    table = {"rows": rows, "bytes": len(content), "sha256": digest}
    forge(folder / "card.json", lambda card: card["files"].update({"table.parquet": table}))


VALUE = pl.Schema({"value": pl.Float64()})


def short() -> bytes:
    return bytes(encode_parquet([pl.DataFrame({"value": [1, 2, 3]})], {"value": pl.Int64()}))


@pytest.mark.parametrize(
    ("content", "rows", "complaint"),
    [
        (lambda: repeated(VALUE), 10, "would unpack to 16,0"),
        (lambda: repeated(VALUE), MANY, "would unpack to 16,0"),
        (denied, 10, "would unpack to 16,0"),
        (short, 10, "has 3 rows, its card says 10"),
        (lambda: with_number(short(), 3, 2)[:-1] + b"2", 2, "its footer is damaged"),
    ],
    ids=["fewer on the card", "as many on the card", "pages", "another number", "magic"],
)
@pytest.mark.usefixtures("unread")
def test_a_policys_table_is_counted_before_it_is_read(
    archive: ArchiveStore, content: Callable[[], bytes], rows: int, complaint: str
) -> None:
    put(archive, content(), rows)
    (problem,) = verify_of_policies(archive)
    assert complaint in problem
    with pytest.raises(RequestError, match=complaint):
        policy_store.read(archive, "mine")
    with OpenArchive(archive.root) as opened:
        for question in ("FROM policy('mine')", "SELECT count(*) FROM policy('mine')"):
            with pytest.raises(FailureError, match="damaged: run 'qarena archive verify"):
                opened.sql(question)


def verify_of_policies(archive: ArchiveStore) -> list[str]:
    card = policy_store.find(archive, "mine")
    return [problem for _, problem in policy_store.list_problems(archive, card.policy_id)]


@pytest.mark.parametrize("tables", [("games",), ("plies",), tuple(DERIVED_TABLES)], ids=lambda tables: tables[0])
def test_a_table_of_a_run_is_counted_before_it_is_read(
    full_archive: ArchiveStore, tables: Sequence[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    archive = full_archive
    for table in tables:
        plain = {name: kind if kind.is_integer() else pl.Int32() for name, kind in SCHEMAS[table].items()}
        forged(archive, table, repeated(pl.Schema(plain), 1_000_000))
    problems = verify_archive(archive).problems
    for table in tables:
        path = archive.folder(table, RUN_ID) / archive.list_effective_ranges(RUN_ID, table)[0].name
        assert any(problem.file == path and "would unpack to" in problem.fault for problem in problems), table
    request.getfixturevalue("unread")
    if tables[0] in TABLE_SCHEMAS:
        with pytest.raises(FailureError, match="would unpack to"):
            read_rows(archive, RUN_ID, archive.list_effective_ranges(RUN_ID)[0], tables[0])
    else:
        with pytest.raises(FailureError, match="would unpack to"):
            read_tallies(archive, [RUN_ID])[RUN_ID]
    monkeypatch.undo()
    with OpenArchive(archive.root) as opened:
        for table in {*tables} - {"tallies"}:
            with pytest.raises(FailureError, match="damaged: run 'qarena archive verify"):
                opened.sql(f"SELECT count(*) FROM {table}")


def test_a_table_has_no_more_rows_than_its_units_can_have(archive: ArchiveStore) -> None:
    frame = pl.DataFrame(
        {name: np.arange(10_000) % 100 for name in TABLE_SCHEMAS["plies"]}, schema=TABLE_SCHEMAS["plies"]
    )
    path = forged(archive, "plies", parquet(frame))
    (problem,) = [problem.fault for problem in verify_archive(archive).problems if problem.file == path]
    assert problem.startswith("has 10,000 rows: a table of 16 units has at most 1,024")
    with OpenArchive(archive.root) as opened, pytest.raises(FailureError, match=f"{path} is missing or damaged"):
        opened.sql("SELECT count(*) FROM plies")


def prefixed(name: str = "agent_0", rows: int = 1000, size: int = 1000) -> bytes:
    """Return a table of one long text, repeated: each value is the beginning of the one before (DELTA_BYTE_ARRAY)."""
    numbers = np.zeros((2, rows), np.int64)  # letters that are repeated, letters that are new
    numbers[0, 1:], numbers[1, 0] = size, size
    content = b""
    for row in numbers:
        room = allocate_buffer(rows)
        content += room[: pack_int64_as_deltas(row, room, 0, allocate_facts(), 0)].tobytes()
    content += b"x" * size
    of_page = struct_field(5, [i32_field(1, rows), i32_field(2, 7), i32_field(3, 3), i32_field(4, 3)])
    header = encode_struct([i32_field(1, 0), i32_field(2, len(content)), i32_field(3, len(content)), of_page])
    file = ParquetBuilder({name: pl.String()})
    file.add_row_group([ColumnChunk(b"", header, memoryview(content), (0, 3), b"x", b"x")], rows)  # it says PLAIN
    return bytes(file.finish())


def test_prefixes_unpack_to_a_thousand_times_their_bytes() -> None:
    frame = pl.read_parquet(prefixed())
    assert frame["agent_0"].to_list() == ["x" * 1000] * 1000
    assert len(prefixed()) < 2000


@pytest.mark.parametrize(
    ("content", "complaint", "imported"),
    [
        (prefixed, "'agent_0' with texts encoded as DELTA_BYTE_ARRAY", False),
        (
            lambda: parquet(pl.DataFrame({"won": [1, 2]}), compression="snappy"),
            "'won' with pages packed by SNAPPY",
            True,
        ),
        (
            lambda: parquet(pl.DataFrame({"share": pl.Series([1, 2], dtype=pl.Decimal(38))})),
            "'share' with values of type FIXED_LEN_BYTE_ARRAY",
            False,
        ),
    ],
    ids=["encoding", "codec", "type"],
)
def test_what_no_table_of_ours_is_stored_as_is_not_read(
    content: Callable[[], bytes], complaint: str, imported: bool, full_archive: ArchiveStore, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"has a column {complaint}, which is not read"):
        read_footer(io.BytesIO(content()))
    if imported:
        assert read_footer(io.BytesIO(content()), THIRD_PARTY_STORAGE).rows == 2
    else:
        (tmp_path / "values.parquet").write_bytes(content())
        with pytest.raises(RequestError, match=complaint):
            read_policy_table(tmp_path / "values.parquet")
    path = forged(full_archive, "games", content())
    assert any(problem.file == path and complaint in problem.fault for problem in verify_archive(full_archive).problems)
    with (
        OpenArchive(full_archive.root) as opened,
        pytest.raises(FailureError, match="damaged: run 'qarena archive verify"),
    ):
        opened.sql("SELECT count(*) FROM games")


@pytest.mark.usefixtures("unread")
def test_a_table_to_be_imported_is_counted_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "values.parquet"
    path.write_bytes(repeated(VALUE))
    with pytest.raises(RequestError, match=r"values\.parquet cannot be read: has .* would unpack to"):
        read_policy_table(path)


def test_footers_say_what_readers_find() -> None:
    lists = parquet(pl.DataFrame({"a": [[1, 2], [3]], "b": ["x", "y"]}))
    empty = parquet(pl.DataFrame(schema={"a": pl.Int8}))
    for content in (short(), lists, empty, *(path.read_bytes() for path in sorted(SAMPLE.rglob("*.parquet"))[::7])):
        frame, footer = pl.read_parquet(content, hive_partitioning=False), read_footer(io.BytesIO(content))
        assert footer.rows == len(frame)
        assert set(frame.columns) <= set(footer.columns)
    assert read_footer(io.BytesIO(short()))[:2] == (3, ("value",))


def test_what_is_no_parquet_file_is_said_at_once() -> None:
    for damaged in (
        *(b"", b"PAR1", b"PAR1PAR1PAR1"),
        short()[:-20],
        short()[:-8] + b"\xff\xff\xff\x7fPAR1",  # a long footer
        with_number(short(), 3, 1)[:-30],
    ):
        with pytest.raises(ValueError, match="not a readable Parquet file"):
            read_footer(io.BytesIO(damaged))
    for kind in (BYTE, DOUBLE, I64, BINARY, STRUCT):  # a list that claims more elements than there are bytes
        with pytest.raises(IndexError):
            decode_struct(bytes([0x10 | LIST, 0xF0 | kind]) + encode_varint(1 << 62) + b"\0" * 20, 0, {}, [])


def read_footer_or_error(content: bytes) -> metadata.Footer | str:
    try:
        return read_footer(io.BytesIO(content))
    except ValueError as error:
        return str(error)


def test_a_footer_that_was_read_before_tells_the_same_and_hides_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change each byte of a footer, and read it with and without having read the sound footer before."""
    sound = bytes(encode_parquet([pl.DataFrame({"value": [7, 8]}, {"value": pl.Int64()})], {"value": pl.Int64()}))
    same = bytes(encode_parquet([pl.DataFrame({"value": [5, 9]}, {"value": pl.Int64()})], {"value": pl.Int64()}))
    size = 8 + int.from_bytes(sound[-8:-4], "little")
    assert len(same) == len(sound)
    assert same[-size:] != sound[-size:]  # in their statistics
    outcomes, decoded = set[str](), list[bytes]()
    decode = metadata.decode_struct

    def count_and_decode(content: bytes, *rest: Any) -> Any:
        decoded.append(content)
        return decode(content, *rest)

    for at in range(len(sound) - size, len(sound)):
        changed = sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]
        monkeypatch.setattr(metadata, "_sound_footers", metadata._SoundFooters())
        cold = read_footer_or_error(changed)
        monkeypatch.setattr(metadata, "_sound_footers", metadata._SoundFooters())
        assert read_footer(io.BytesIO(sound)).rows == 2
        assert read_footer_or_error(changed) == cold
        outcomes.add(str(cold))
        with monkeypatch.context() as patch:
            patch.setattr(metadata, "decode_struct", count_and_decode)
            assert read_footer(io.BytesIO(same)) is read_footer(io.BytesIO(sound))
    assert len(outcomes) > 2
    assert not decoded  # the footer of the other file was not decoded


def test_footers_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MAX_CACHED_FOOTERS", 2)
    monkeypatch.setattr(metadata, "_sound_footers", footers := metadata._SoundFooters())
    for rows in (1, 2, 3, 1, 2, 3):
        frame = pl.DataFrame({"value": range(rows)}, {"value": pl.Int64()})
        assert read_footer(io.BytesIO(encode_parquet([frame], frame.schema))).rows == rows
        assert sum(len(of_mask) for masks in footers._by_mask.values() for of_mask in masks.values()) <= 2


def test_the_number_of_a_field_may_stand_beside_its_type() -> None:
    inner = b"".join(bytes([I32]) + encode_zigzag(number) + encode_zigzag(9) for number in (20, 2000)) + b"\0"
    content = (
        bytes([0x10 | STRUCT])
        + inner
        + bytes([I32])
        + encode_zigzag(300)
        + encode_zigzag(7)
        + bytes([0x10 | I64])
        + encode_zigzag(8)
        + b"\0"
    )
    assert decode_struct(content, 0, {300: I32, 301: I64}, []) == ({300: 7, 301: 8}, len(content))
    assert decode_struct(content, 0, {1: {20: I32}}, [])[0] == {1: {20: 9}}


def test_a_column_without_the_offset_of_its_values_is_damaged() -> None:
    content = parquet(pl.DataFrame({"value": [1.0, 2.0, 3.0]}), compression="uncompressed", statistics=False)
    rest = encode_zigzag(4) + b"\0"  # the offset ends what is said of the column
    before, offset, after = content.rpartition(bytes([0x20 | I64]) + rest)
    assert read_footer(io.BytesIO(before + offset + after)).rows == 3
    with pytest.raises(ValueError, match="its footer is damaged"):
        read_footer(io.BytesIO(before + bytes([0x20 | I32]) + rest + after))


def test_any_damage_of_a_footer_is_found_or_harmless_and_never_a_hang() -> None:
    content = parquet(pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    dice = np.random.default_rng(1)
    for _ in range(1000):
        damaged = bytearray(content)
        for at in dice.integers(len(content) // 2, len(content) - 8, 3):
            damaged[at] = dice.integers(256)
        with suppress(ValueError):
            assert read_footer(io.BytesIO(damaged)).rows >= 0
