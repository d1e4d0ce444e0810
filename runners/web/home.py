"""The first page."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from quarto.notation import parse_position
from quarto.position import board
from quarto.rules import CLASSIC, finished_lines
from runners.web.pages import page

router = APIRouter()

SHOWN = "3.9./.F../E.2./..B. -"


@router.get("/")
def first_page(request: Request) -> Response:
    """A position, and the ways to the other pages."""
    pieces = board(parse_position(SHOWN)[0])
    lines = {cell for line in finished_lines(pieces, CLASSIC) for cell in line}
    return page(request, "home.html", board=pieces, lines=lines)
