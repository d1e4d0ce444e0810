"""Charts as specifications of Vega-Lite, which vl-convert draws: plain values of JSON.

A. Satyanarayan et al., "Vega-Lite: A Grammar of Interactive Graphics" (2017); its documentation names all keys. Altair
would make the same values from objects, but in half of the time that a picture takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

Spec = dict[str, Any]


def inline_data(rows: pl.DataFrame | Iterable[Mapping[str, Any]]) -> Spec:
    """Return the data of a chart or a layer: its rows."""
    return {"values": rows.to_dicts() if isinstance(rows, pl.DataFrame) else [*rows]}


def quantitative(column: str, **more: Any) -> Spec:
    """Return a channel, such as position x or y, that shows a column of numbers."""
    return {"field": column, "type": "quantitative", **more}


def ordinal(column: str, **more: Any) -> Spec:
    """Return a channel that shows a column of ordered values."""
    return {"field": column, "type": "ordinal", **more}


def nominal(column: str, **more: Any) -> Spec:
    """Return a channel that shows a column of names."""
    return {"field": column, "type": "nominal", **more}


def range_end(column: str) -> Spec:
    """Return the channel of the other end of a range, as ``y2`` is that of ``y``."""
    return {"field": column}


def layer(mark: str, encoding: Spec, **look: Any) -> Spec:
    """Return a layer of a chart: marks of one kind, their own channels beside those of the chart, and their look."""
    return {"mark": {"type": mark, **look}, "encoding": encoding}
