"""Pages of a report, rendered from templates."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from analytics.report import style
from analytics.report.pieces import piece_symbols, render_piece_from_symbols

if TYPE_CHECKING:
    from jinja2 import Environment


def render_template(template: str, **values: object) -> str:
    """Render the template with this name and these values.

    Raises ``jinja2.UndefinedError`` if the template needs a value that is not given.
    """
    return _build_environment().get_template(template).render(values)


@cache
def _build_environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape  # needed for pages only

    environment = Environment(
        loader=PackageLoader("analytics.report"),
        autoescape=select_autoescape(["html"]),  # style sheets are our own text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["render_piece_from_symbols"] = render_piece_from_symbols
    environment.globals["piece_symbols"] = piece_symbols
    environment.globals["agent_colours"] = style.AGENT_COLOURS
    environment.globals["result_colours"] = style.RESULT_COLOURS
    environment.globals["page_colours"] = {style.INK: "--ink", style.FAINT: "--faint", style.GRID: "--rule"}
    return environment
