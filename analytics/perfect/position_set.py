"""Sets of positions with the exact value of every turn, by which agents are judged: Parquet files, and reading them.

A file has one row a turn, ordered by position, cell and gift: see ``SCHEMA`` and data/README.md. It is written by an
encoder whose bytes depend on the rows alone, so the same positions give the same file everywhere.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.files.atomic import explained
from analytics.parquet import encoder
from analytics.store.records import Count, JsonRecord, canonical, parse
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.notation import parse_position
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.solver.solver import ILLEGAL

FOLDER = Path(__file__).resolve().parent / "position_sets"  # of the sets that ship
FORMAT = "quarto-arena positions"
SOURCES = ("canonical", "logged")
ENDS = PIECES  # the column of ``values`` for a placement that ends the game and gives nothing
SCHEMA: dict[str, Any] = {
    "position": pl.String(),  # in notation, a piece in hand; the name of the rules is in the metadata
    "pieces": pl.Int8(),  # on the board
    "source": pl.String(),  # one of SOURCES
    "last_cell": pl.Int8(),  # the cell that was filled last
    "cell": pl.Int8(),  # where the turn places the piece in hand
    "gift": pl.Int8(),  # the piece that it gives; NONE if the placement ends the game
    "value": pl.Int8(),  # for the player whose turn it is: 1 won, 0 drawn, -1 lost
}
ROW_GROUP_ROWS = 1 << 16


class SetOrigin(JsonRecord, frozen=True):
    """The origin of a set, in the metadata of its file."""

    format: str
    rules: Mapping[str, Any]  # the fields of ``Rules``
    seed: Count
    each: Count  # positions of each source and number of pieces, at most
    turns: str = ""  # the SHA-256 of the rows, see ``_digest``

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format!r} is not {FORMAT!r}")
        Rules(**self.rules)


class PositionSet(NamedTuple):
    """``P`` positions with a piece in hand, by pieces on the board, and the exact value of every turn in each."""

    origin: SetOrigin
    batch: Batch  # [P]
    logged: NDArray[np.bool_]  # [P] from a logged game; the others were drawn from all positions
    values: NDArray[np.int8]  # [P, 16, 17] by cell and gift (ENDS: the game is over), for the player; or ILLEGAL

    @property
    def rules(self) -> Rules:
        return Rules(**self.origin.rules)

    @property
    def pieces(self) -> NDArray[np.int8]:
        """[P] pieces on the board."""
        return np.bitwise_count(self.batch.occupied).astype(np.int8)


def path_for(rules: str) -> Path:
    """The file of the set that ships for the rules of this name. Raises ``RequestError`` if there is none."""
    path = FOLDER / f"{rules}.parquet"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.parquet"))) or "none"
        raise RequestError(
            f"there is no set of positions for rules {rules!r} (there is one for: {known}): "
            f"'qarena policy positions --rules {rules} --output FILE' makes one, --positions FILE judges by it"
        )
    return path


def origin_of(rules: Rules, seed: int, each: int) -> SetOrigin:
    """The origin of a set that is being made."""
    return SetOrigin(FORMAT, asdict(rules), seed, each)


def encoded(frame: pl.DataFrame, origin: SetOrigin) -> bytes:
    """A set as the bytes of its file: turns by the schema ``SCHEMA``, those of one position side by side."""
    stamped = msgspec.structs.replace(origin, turns=_digest(frame))
    texts = {name: frame[name].unique(maintain_order=True) for name, kind in SCHEMA.items() if kind == pl.String()}
    enums = frame.with_columns(pl.col(name).cast(pl.Enum(each)) for name, each in texts.items())
    described = canonical(msgspec.structs.asdict(stamped)).decode()
    return encoder.encode(enums, ROW_GROUP_ROWS, {FORMAT: described})


def _digest(frame: pl.DataFrame) -> str:
    """64 hex digits: the SHA-256 of the rows as CSV without a header."""
    return hashlib.sha256(frame.write_csv(include_header=False).encode()).hexdigest()


def read(path: Path) -> PositionSet:
    """The set in a file.

    Raises ``FailureError`` if it cannot be read, ``RequestError`` if it is no such file or was changed.
    """
    with explained("read", path):
        content = path.read_bytes()
    origin, frame = _checked(path, content)
    first = frame["position"].rle_id().to_numpy()
    starts = np.flatnonzero(np.diff(first, prepend=-1))
    positions = [parse_position(text)[0] for text in frame["position"].gather(starts)]
    batch = Batch.of(positions)
    batch.last_cell[:] = frame["last_cell"].gather(starts).to_numpy()
    values = np.full((len(positions), CELLS, PIECES + 1), ILLEGAL, np.int8)
    gift = frame["gift"].to_numpy()
    values[first, frame["cell"].to_numpy(), np.where(gift == NONE, ENDS, gift)] = frame["value"].to_numpy()
    return PositionSet(origin, batch, (frame["source"].gather(starts) == "logged").to_numpy(), values)


def _checked(path: Path, content: bytes) -> tuple[SetOrigin, pl.DataFrame]:
    """The origin and the turns in the bytes of a file."""
    wrong = f"{path} is no set of positions, or was changed since it was made"
    remedy = "make it again with 'qarena policy positions'"
    try:
        origin = parse(pl.read_parquet_metadata(io.BytesIO(content))[FORMAT].encode(), SetOrigin)
        frame = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, KeyError, ValueError, OSError) as error:
        raise RequestError(f"{wrong} ({' '.join(str(error).split())[:80]}): {remedy}") from error
    if frame.schema != pl.Schema(SCHEMA) or origin.turns != _digest(frame):
        raise RequestError(f"{wrong} (its turns are not those that it was made with): {remedy}")
    return origin, frame


def taken(whole: PositionSet, rows: NDArray[np.bool_]) -> PositionSet:
    """Some of the positions of a set: those for which ``rows`` [P] holds."""
    return PositionSet(whole.origin, whole.batch.chosen(rows), whole.logged[rows], whole.values[rows])
