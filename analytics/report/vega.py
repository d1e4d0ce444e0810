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
    """Return rows as the inline data of a chart or a layer."""
    return {"values": rows.to_dicts() if isinstance(rows, pl.DataFrame) else [*rows]}


def quantitative(column: str, **more: Any) -> Spec:
    """Return a channel, such as the x or y position, that shows a column of numbers."""
    return {"field": column, "type": "quantitative", **more}


def ordinal(column: str, **more: Any) -> Spec:
    """Return a channel that shows a column of ordered values."""
    return {"field": column, "type": "ordinal", **more}


def nominal(column: str, **more: Any) -> Spec:
    """Return a channel that shows a column of names."""
    return {"field": column, "type": "nominal", **more}


def range_end(column: str) -> Spec:
    """Return a channel for the second end of a range, such as ``y2``, which belongs to ``y``."""
    return {"field": column}


def layer(mark: str, encoding: Spec, **look: Any) -> Spec:
    """Return a layer of a chart: marks of one kind with their look, and channels in addition to those of the chart."""
    return {"mark": {"type": mark, **look}, "encoding": encoding}
