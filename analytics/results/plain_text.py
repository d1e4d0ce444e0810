"""Texts as data for others: nothing in them commands a terminal, and for a spreadsheet nothing in them is a formula.

A label comes from anybody's archive, and a question in SQL makes any text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# Spreadsheets read cells that begin so as formulas; some read the wide signs of Chinese and Japanese too.
_FORMULA = "^[=+@\n\uff1d\uff0b\uff0d\uff20-]"
# Control and bidirectional characters, which a terminal obeys or hides. Line ends stay.
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """A text in which control and bidirectional characters are visible."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escaped_json(text: str) -> str:
    """The same JSON without control and bidirectional characters."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def csv_of(frame: pl.DataFrame, header: bool = True, for_spreadsheet: bool = False) -> bytes:
    """Comma-separated values, their control characters visible.

    ``for_spreadsheet``: a text that would be read as a formula begins with an apostrophe. Numbers stay numbers.
    """
    import polars as pl  # the command line imports this module, and few commands write tables

    names = pl.Series(frame.columns, dtype=pl.String)
    texts = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    shown = texts.with_columns(_plain(each, for_spreadsheet) for each in texts if each.dtype == pl.String)
    shown.columns = _plain(names, for_spreadsheet).to_list()
    return shown.write_csv(include_header=header).encode()


def _plain(texts: pl.Series, for_spreadsheet: bool) -> pl.Series:
    import polars as pl

    if texts.str.contains(_OBEYED.pattern).any():
        texts = texts.map_elements(escaped, pl.String)
    if not for_spreadsheet:
        return texts
    formulas = texts.str.contains(_FORMULA)
    return pl.select(pl.when(formulas).then("'" + texts).otherwise(texts).alias(texts.name)).to_series()
