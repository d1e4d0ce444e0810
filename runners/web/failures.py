"""Errors as pages with one clear line."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarto.errors import ArenaError, RequestError
from runners.browse.busy import BusyError
from runners.web.pages import page
from runners.web.security import SAFE

logger = logging.getLogger(__name__)


def add_error_pages(app: FastAPI) -> None:
    """Answer errors with pages: a wrong request 400, a failure 500, a busy server 503, an unknown address 404."""
    app.add_exception_handler(ArenaError, _of_ours)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_form)
    app.add_middleware(LastResort)


def status_of(error: ArenaError) -> int:
    """The status of the page that shows an error."""
    if isinstance(error, BusyError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.BAD_REQUEST if isinstance(error, RequestError) else HTTPStatus.INTERNAL_SERVER_ERROR


def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, ArenaError)  # noqa: S101  (it is registered for this class alone)
    return _page(request, status_of(error), str(error))


def _of_http(request: Request, error: Exception) -> Response:
    status, detail = getattr(error, "status_code", 500), str(getattr(error, "detail", ""))
    if status == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = f"There is no page {request.url.path[:100]} here"
    return _page(request, status, detail)


def _of_form(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  (it is registered for this class alone)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    return _page(request, 400, f"{field}={str(first.get('input', ''))[:60]!r}: {first['msg']}")


class LastResort:
    """Answers an unexpected error with a page, and logs its traceback.

    Starlette's own way would answer outside of the guard, without the headers of other answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            logger.exception("%s %s", scope["method"], scope["path"])
            line = f"{type(error).__name__}: {error} (unexpected; the terminal of qarena serve shows where)"
            await _page(Request(scope, receive), 500, line)(scope, receive, send)


def _page(request: Request, status: int, line: str) -> Response:
    title = "That does not work" if status < 500 else "Something failed"
    title = "One moment" if status == HTTPStatus.SERVICE_UNAVAILABLE else title
    busy = status == HTTPStatus.SERVICE_UNAVAILABLE and request.method in SAFE
    address = f"{request.url.path}?{request.url.query}".removesuffix("?")
    return page(
        request,
        "error.html",
        status,
        title=title,
        line=" ".join(line.split()),
        again=address if busy else "",
        back=address if request.method not in SAFE and _has_page(request) else "",
        section=next((each for each in request.app.state.sections if request.url.path.startswith(each.path)), None),
    )


def _has_page(request: Request) -> bool:
    """Whether the address of a request is also that of a page: then a refused form leads back to it."""
    page_there = {**request.scope, "method": "GET"}
    routes = (route for route in request.app.routes if not isinstance(route, Mount))  # files take any method
    return any(route.matches(page_there)[0] is Match.FULL for route in routes)
