"""Charts as specifications of Vega-Lite, which vl-convert draws: plain values of JSON.

A. Satyanarayan et al., "Vega-Lite: A Grammar of Interactive Graphics" (2017); its documentation names all keys. Altair
would make the same values of objects, for half of the time of a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

Spec = dict[str, Any]


def inline_data(rows: pl.DataFrame | Iterable[Mapping[str, Any]]) -> Spec:
    """The rows that a chart or a layer shows."""
    return {"values": rows.to_dicts() if isinstance(rows, pl.DataFrame) else [*rows]}


def quantitative(column: str, **more: Any) -> Spec:
    """A channel that shows a column of numbers, as position x or y does."""
    return {"field": column, "type": "quantitative", **more}


def ordinal(column: str, **more: Any) -> Spec:
    """A channel that shows a column of values in their order."""
    return {"field": column, "type": "ordinal", **more}


def nominal(column: str, **more: Any) -> Spec:
    """A channel that shows a column of names."""
    return {"field": column, "type": "nominal", **more}


def range_end(column: str) -> Spec:
    """The other end of what a channel shows from, as ``y2`` is of ``y``."""
    return {"field": column}


def layer(mark: str, encoding: Spec, **look: Any) -> Spec:
    """Marks of one kind in a chart: what their channels show beside those of the chart, and how they look."""
    return {"mark": {"type": mark, **look}, "encoding": encoding}
