"""Tablebases: files with the values of all canonical boards of up to n pieces without a finished line.

A tablebase is two files of one name. ``RULES-N.parquet`` has the columns ``key`` (int64: ``board_key``), ``pieces`` and
``value`` (int8), ordered by pieces and key. The value is 1 won, 0 drawn, -1 lost for the player to act. That is before
a gift or, where the mover chooses, before a turn. ``RULES-N.json`` is its card. Some ship with the project, others are
built on the user's machine.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.files.backend import expand_home_if_known, explain_errors
from analytics.store.files.local_files import replace_file
from analytics.store.parquet import encoder
from analytics.store.records import Count, Duration, JsonRecord, Sha256, encode_record, load_record
from quarto.errors import FailureError
from quarto.rules import Rules
from quarto.solver.table import TablebaseIndex, build_tablebase_index

FORMAT = "quarto-arena tablebase"
SHIPPED_FOLDER = Path(__file__).resolve().parent / "tablebases"
SCHEMA = pl.Schema({"key": pl.Int64(), "pieces": pl.Int8(), "value": pl.Int8()})
ROW_GROUP_ROWS = 1 << 20
VALUES = (1, 0, -1)


def user_folder() -> Path:
    """Return the folder of the user's own tablebases.

    This is ``$QARENA_TABLEBASE`` or, if that is not set, a folder in the user's data folder.
    """
    data = Path(os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser())
    return expand_home_if_known(os.environ.get("QARENA_TABLEBASE") or data / "quarto-arena" / "tablebases")


class TablebaseCard(JsonRecord, frozen=True):
    """The card of a tablebase, with its contents and its origin. Raises ``ValueError`` for an invalid value."""

    format: str
    rules: Mapping[str, Any]  # the fields of ``Rules``
    pieces: Count  # of the largest boards
    boards: Sequence[Count]  # how many have 0, 1, ... pieces
    won: Sequence[Count]
    drawn: Sequence[Count]
    lost: Sequence[Count]
    bytes: Count  # of the Parquet file
    sha256: Sha256  # of the Parquet file
    created: str  # ISO 8601, UTC
    seconds: Duration  # of one thread that building took, resumed builds included
    code: Mapping[str, str]  # version and fingerprint of what built it

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format!r} is not {FORMAT!r}")
        Rules(**self.rules)
        datetime.fromisoformat(self.created)
        by_value = self.won, self.drawn, self.lost
        for counts in (self.boards, *by_value):
            if len(counts) != self.pieces + 1:
                raise ValueError(f"{counts!r} is not a count for each of 0 to {self.pieces} pieces")
        if any(sum(parts) != boards for boards, *parts in zip(self.boards, *by_value, strict=True)):
            raise ValueError("boards is not the sum of won, drawn and lost for each number of pieces")

    @property
    def layer_slices(self) -> list[slice]:
        """The rows of the table that hold the boards with 0, 1, ... pieces, one slice for each number of pieces."""
        ends = accumulate(self.boards)
        return [slice(end - count, end) for end, count in zip(ends, self.boards, strict=True)]


class Tablebase(NamedTuple):
    """A tablebase on disk, with its card; the table itself has not been read yet."""

    path: Path  # of the Parquet file
    card: TablebaseCard

    @property
    def rules(self) -> Rules:
        return Rules(**self.card.rules)

    @property
    def is_shipped(self) -> bool:
        return self.path.parent == SHIPPED_FOLDER


class BoardTable(NamedTuple):
    """The table of a tablebase: ``N`` boards, sorted by number of pieces, then by key."""

    keys: NDArray[np.uint64]  # [N]
    pieces: NDArray[np.int8]  # [N]
    values: NDArray[np.int8]  # [N]

    def to_tablebase_index(self, max_pieces: int) -> TablebaseIndex:
        """Convert the boards with up to ``max_pieces`` pieces to the index that a ``Solver`` reads."""
        count = np.searchsorted(self.pieces, max_pieces, side="right")
        return build_tablebase_index(self.keys[:count], self.values[:count], max_pieces)


def tablebase_name(rules: Rules, pieces: int) -> str:
    """Return the file name, without a suffix, of the tablebase for these rules and this number of pieces."""
    plain = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in rules.name)
    return f"{plain}-{pieces}"


def open_tablebase(path: Path) -> Tablebase:
    """Open a tablebase, given by the path of its Parquet file or its card.

    Raises ``FailureError`` if the card cannot be read.
    """
    return Tablebase(path.with_suffix(".parquet"), load_record(path.with_suffix(".json"), TablebaseCard))


def list_tablebases(folders: Sequence[Path] | None = None) -> Iterator[Tablebase]:
    """Yield the tablebases in ``folders``, sorted by name within each folder.

    By default, the folders are the user's own and then the folder that ships with the project. Raises ``FailureError``
    for a damaged card.
    """
    for folder in folders or (user_folder(), SHIPPED_FOLDER):
        for card in sorted(folder.glob("*-*.json")):
            yield open_tablebase(card)


def is_same_rules_except_name(a: Rules, b: Rules) -> bool:
    """Return whether two rule sets are the same, apart from their names."""
    return set(a.lines) == set(b.lines) and a.chooser == b.chooser


def find_largest_tablebase(rules: Rules) -> Tablebase | None:
    """Return the tablebase of these rules with the most pieces, or None if there is none.

    If two tablebases have the same size, the user's own takes precedence over the one that ships with the project.
    """
    return max(
        (tablebase for tablebase in list_tablebases() if is_same_rules_except_name(tablebase.rules, rules)),
        key=lambda tablebase: (tablebase.card.pieces, not tablebase.is_shipped),
        default=None,
    )


def load_tablebase_index(rules: Rules, max_pieces: int | None = None) -> TablebaseIndex | None:
    """Return the index, for a ``Solver``, of the largest tablebase of these rules, or None if there is none.

    Boards with more than ``max_pieces`` pieces are left out. Each board takes 16 bytes: 4 MB in all for 5 pieces, 64 MB
    for 6. Raises ``FailureError`` for a damaged tablebase.
    """
    tablebase = find_largest_tablebase(rules)
    if tablebase is None:
        return None
    with explain_errors("read", tablebase.path):
        status = tablebase.path.stat()
    most = tablebase.card.pieces if max_pieces is None else min(max_pieces, tablebase.card.pieces)
    return _load_cached_index(tablebase.path, tablebase.card.sha256, status.st_mtime_ns, status.st_size, most)


@functools.lru_cache(maxsize=2)  # a tablebase is read and checked once in a process, and again when its file changes
def _load_cached_index(path: Path, _sha256: str, _changed: int, _size: int, max_pieces: int) -> TablebaseIndex:
    return read_tablebase(open_tablebase(path)).to_tablebase_index(max_pieces)


def read_tablebase(tablebase: Tablebase) -> BoardTable:
    """Read the table of a tablebase. Raises ``FailureError``, which names the file, if any byte has changed."""
    path, card = tablebase
    with explain_errors("read", path):
        content = path.read_bytes()
    if len(content) != card.bytes or hashlib.sha256(content).hexdigest() != card.sha256:
        raise FailureError(
            f"{path} is damaged ({len(content):,} bytes that differ from the {card.bytes:,} of its card): "
            "restore it from a copy, or remove it with its card and build it again"
        )
    frame = pl.read_parquet(io.BytesIO(content))
    if frame.schema != SCHEMA or len(frame) != sum(card.boards):
        raise FailureError(f"{path} does not hold the boards that its card lists: remove both and build it again")
    return BoardTable(frame["key"].to_numpy().astype(np.uint64), frame["pieces"].to_numpy(), frame["value"].to_numpy())


class LayerValues(NamedTuple):
    """The keys and the values of all boards that have the same number of pieces; both are [B]."""

    keys: NDArray[np.uint64]  # canonical
    values: NDArray[np.int8]


def write_tablebase(
    path: Path,
    rules: Rules,
    layers: Sequence[LayerValues],
    card_fields: Mapping[str, Any],
) -> Tablebase:
    """Write the table and the card of a tablebase; ``layers[n]`` holds the boards with ``n`` pieces.

    ``card_fields`` holds the fields ``created``, ``seconds`` and ``code`` of the card. The bytes of the table depend on
    the boards and their values only. Raises ``FailureError`` if a file cannot be written.
    """
    counts = [len(layer.keys) for layer in layers]
    columns = {
        "key": np.concatenate([layer.keys for layer in layers]).astype(np.int64),
        "pieces": np.repeat(np.arange(len(layers), dtype=np.int8), counts),
        "value": np.concatenate([layer.values for layer in layers]),
    }
    content = encoder.encode_parquet(pl.DataFrame(columns, schema=SCHEMA).iter_slices(ROW_GROUP_ROWS), SCHEMA)
    won, drawn, lost = ([int((layer.values == value).sum()) for layer in layers] for value in VALUES)
    digest = hashlib.sha256(content).hexdigest()
    card = TablebaseCard(
        FORMAT, asdict(rules), len(layers) - 1, counts, won, drawn, lost, len(content), digest, **card_fields
    )
    card_content = encode_record(card)
    with explain_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
        replace_file(path.with_suffix(".json"), card_content)
    return Tablebase(path, card)
