"""Charts as specifications of Vega-Lite, which vl-convert draws. A specification consists of plain JSON values.

A. Satyanarayan et al., "Vega-Lite: A Grammar of Interactive Graphics" (2017); its documentation names all keys. Altair
would build the same values from objects, but that takes half as long as drawing the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

Spec = dict[str, Any]


def inline_data(rows: pl.DataFrame | Iterable[Mapping[str, Any]]) -> Spec:
    """Return rows in the form of a chart's or a layer's inline data."""
    return {"values": rows.to_dicts() if isinstance(rows, pl.DataFrame) else [*rows]}


def quantitative(column: str, **more: Any) -> Spec:
    """Return a channel, such as the x position, that shows a column of numbers; ``more`` are further properties."""
    return {"field": column, "type": "quantitative", **more}


def ordinal(column: str, **more: Any) -> Spec:
    """Return a channel that shows a column of ordered values; ``more`` are further properties."""
    return {"field": column, "type": "ordinal", **more}


def nominal(column: str, **more: Any) -> Spec:
    """Return a channel that shows a column of names; ``more`` are further properties."""
    return {"field": column, "type": "nominal", **more}


def range_end(column: str) -> Spec:
    """Return the channel for the second end of a range, for example ``y2`` for a range that begins at channel ``y``."""
    return {"field": column}


def layer(mark: str, encoding: Spec, **look: Any) -> Spec:
    """Return a layer of a chart: marks of the kind ``mark``, with the properties ``look``.

    ``encoding`` has the layer's channels, in addition to those of the chart.
    """
    return {"mark": {"type": mark, **look}, "encoding": encoding}
