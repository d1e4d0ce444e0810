"""Errors as pages with one clear line."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarto.errors import ArenaError, NotFoundError, RequestError
from runners.browse.library import BusyError
from runners.web.pages import SUBJECTS, page
from runners.web.security import SAFE

logger = logging.getLogger(__name__)

# The first class that fits decides.
STATUSES = (
    (BusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (ArenaError, HTTPStatus.INTERNAL_SERVER_ERROR),
)


def add_error_pages(app: FastAPI) -> None:
    """Answer errors with pages: a wrong request 400, what is not there 404, a failure 500, a busy server 503."""
    app.add_exception_handler(ArenaError, lambda request, error: _page(request, status_of(error), str(error)))
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_form)
    app.add_middleware(LastResort)


def status_of(error: Exception) -> int:
    """The status of the page that shows an error."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (it is registered for this class alone)
    unknown = error.status_code == HTTPStatus.NOT_FOUND and error.detail == HTTPStatus.NOT_FOUND.phrase
    line = f"There is no page {request.url.path[:100]} here" if unknown else error.detail
    return _page(request, error.status_code, line)


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
    busy = status == HTTPStatus.SERVICE_UNAVAILABLE
    address, reads = f"{request.url.path}?{request.url.query}".removesuffix("?"), request.method in SAFE
    return page(
        request,
        "error.html",
        status,
        title="One moment" if busy else "That does not work" if status < 500 else "Something failed",
        line=" ".join(line.split()),
        again=address if busy and reads else "",
        back=address if not reads and status not in (404, 405) else "",
        subject=next((name for name, path in SUBJECTS.items() if request.url.path.startswith(path)), ""),
    )
