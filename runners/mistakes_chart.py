"""The share of blunders by ply as a chart. Altair is an extra: it is imported here and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from analytics.mistakes import Record
from quarto.errors import FailureError, RequestError


def write_charts(found: Sequence[Record], paths: Sequence[Path]) -> None:
    """Write a chart of records by ply to each path, whose name ends with html or svg.

    Raises ``RequestError`` where the extra is not installed, ``FailureError`` when a file cannot be written.
    """
    try:
        altair = importlib.import_module("altair")
        for path in paths:
            importlib.import_module("vl_convert" if path.suffix == ".svg" else "altair")
    except ImportError as error:
        raise RequestError(
            f"charts need the extra plots ({error.name} is missing): pip install 'quarto-arena[plots]'"
        ) from error
    rows = [
        {
            "agent": each.agent,
            "kind": each.kind,
            "ply": each.ply,
            "blunders": each.blunders.mean,
            "low": each.blunders.low,
            "high": each.blunders.high,
        }
        for each in found
    ]
    base = altair.Chart(altair.Data(values=rows)).encode(x=altair.X("ply:O"), color=altair.Color("agent:N"))
    line = base.mark_line(point=True).encode(y=altair.Y("blunders:Q", title="blunders", axis=altair.Axis(format="%")))
    band = base.mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q")
    chart = (band + line).facet(column="kind:N")
    for path in paths:
        try:
            chart.save(str(path))
        except OSError as error:
            raise FailureError(f"cannot write {path}: {error.strerror or error}") from error
