"""The table ``tallies``: how the pairs of each pairing ended in a range of units. Rows of ranges add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from analytics.statistics.tally import Tally, summed
from analytics.store.schema import FORFEIT_COLUMNS, PAIR_COLUMNS, SINGLE_COLUMNS, TALLIES


def tallies_frame(tallies: Mapping[int, Tally]) -> pl.DataFrame:
    """Tallies by pairing as a table by the schema ``TALLIES``, by pairing."""
    rows = [(pairing, *_counts(tallies[pairing])) for pairing in sorted(tallies)]
    return pl.DataFrame(rows, schema=TALLIES, orient="row")


def _counts(tally: Tally) -> Iterable[int]:
    forfeits = (tally.illegal, tally.errors, tally.late)
    return *(n for row in (*tally.pairs, *tally.singles, *forfeits) for n in row), tally.plies


def tallies_of(frame: pl.DataFrame) -> dict[int, Tally]:
    """The tallies by pairing of one such table, or of several in one frame."""
    return dict(sorted(summed((row["pairing"], _tally(row)) for row in frame.iter_rows(named=True)).items()))


def _tally(row: Mapping[str, int]) -> Tally:
    pairs = [row[name] for name in PAIR_COLUMNS]
    singles = [row[name] for name in SINGLE_COLUMNS]
    forfeits = [row[name] for name in FORFEIT_COLUMNS]
    return Tally(
        (_row(pairs[:3]), _row(pairs[3:6]), _row(pairs[6:])),
        (_row(singles[:3]), _row(singles[3:])),
        illegal=(forfeits[0], forfeits[1]),
        errors=(forfeits[2], forfeits[3]),
        plies=row["plies"],
        late=(forfeits[4], forfeits[5]),
    )


def _row(counts: list[int]) -> tuple[int, int, int]:
    return counts[0], counts[1], counts[2]
