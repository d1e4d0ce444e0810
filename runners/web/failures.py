"""Errors as pages with one clear line."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from quarto.errors import ArenaError, RequestError
from runners.web.pages import page
from runners.web.settings import site_of

logger = logging.getLogger(__name__)


def add_error_pages(app: FastAPI) -> None:
    """Answer errors with pages: a wrong request 400, a failure 500, an unknown address 404."""
    app.add_exception_handler(ArenaError, _of_ours)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_form)
    app.add_exception_handler(Exception, _unexpected)


def _of_ours(request: Request, error: Exception) -> Response:
    return _page(request, 400 if isinstance(error, RequestError) else 500, str(error))


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


def _unexpected(request: Request, error: Exception) -> Response:
    if site_of(request).settings.debug:
        logger.error("%s %s", request.method, request.url.path, exc_info=error)
    text = f"{type(error).__name__}: {error}"
    return _page(request, 500, f"{text} (unexpected; qarena serve --debug prints where)")


def _page(request: Request, status: int, line: str) -> Response:
    title = "That does not work" if status < 500 else "Something failed"
    return page(request, "error.html", status, title=title, line=" ".join(line.split()))
