"""Rendering of templates and error pages, and parsing of values in addresses. Templates escape every text."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analytics.report.board_svg import render_stroke_path
from analytics.report.line_families import list_families_unlike_classic
from analytics.report.pieces import piece_symbols, render_piece_from_symbols
from analytics.store.texts import escape_hidden, format_count_with_noun
from quarto.errors import ArenaError, NotFoundError, RequestError
from runners.web.archive.snapshots import BusyError
from runners.web.archive.urls import build_url
from runners.web.site import SAFE_METHODS, find_site

# Path of each subject in the navigation.
NAVIGATION = {
    "Play": "/play",
    "Puzzles": "/puzzles",
    "Analyse": "/analyse",
    "Browse": "/browse",
    "Ask": "/ask",
}
MACRO_TEMPLATES = ("report/parts", "forms", "pieces", "paste", "review_parts", "rules_parts")  # in every template
STATIC_FOLDER = Path(__file__).parent / "static"
RETRY_SECONDS = 3  # after which a browser should repeat a request to a busy server
SESSION_COOKIE = "session"  # identifies a browser until it is closed
SEE_OTHER = 303  # after a form: reloading the page that follows does not send the form again


def render_page(request: Request, template: str, status: int = 200, **values: object) -> Response:
    """Render a template as a response.

    Besides ``values``, every template receives ``token``, the value of the hidden field of its forms, and ``here``, the
    path of the page. A response with status 503 asks the browser to try again. A browser without a session cookie is
    given one.
    """
    site = find_site(request)
    common_values = {
        "token": site.token,
        "here": request.url.path,
        "subjects": NAVIGATION,
        "archive": str(site.options.archive),
        "refresh": None,
        "typed": False,  # the page has fields to type in, so without the script it must not reload itself
        "tabs": (),
        "damaged": (),
    }
    headers = {"retry-after": str(RETRY_SECONDS)} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    answer = HTMLResponse(
        build_template_environment().get_template(template).render(common_values | values), status, headers
    )
    if SESSION_COOKIE not in request.cookies:
        answer.set_cookie(SESSION_COOKIE, secrets.token_urlsafe(16), httponly=True, samesite="strict")
    return answer


def find_session_or_client_address(request: Request) -> str:
    """Return the session cookie of the browser that sent a request or, without a cookie, its network address."""
    return request.cookies.get(SESSION_COOKIE) or (request.client.host if request.client else "")


async def read_form_text_fields(request: Request) -> dict[str, str]:
    """Return the text fields of the form that a request sends. Uploaded files are ignored."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


FormFields = Annotated[dict[str, str], Depends(read_form_text_fields)]


def redirect_to(path: str, **query: object) -> Response:
    """Return a redirect to a page after a form was processed; reloading that page does not send the form again."""
    return RedirectResponse(build_url(path, query), SEE_OTHER)


@cache
def build_template_environment() -> Environment:
    """Build the template environment, with the functions and macros that all templates may use."""
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("runners.web"), PrefixLoader({"report": PackageLoader("analytics.report")})]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_hidden_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "static": build_static_url,
        "render_piece_from_symbols": render_piece_from_symbols,
        "piece_symbols": piece_symbols,
        "stroke": render_stroke_path,
        "list_families_unlike_classic": list_families_unlike_classic,
        "address": lambda path, **query: build_url(path, query),
    }
    for macros in (
        "report/parts",
        "forms",
        "pieces",
        "paste",
        "review_parts",
        "rules_parts",
    ):  # available in every template
        environment.globals[macros.rpartition("/")[2]] = environment.get_template(f"{macros}.html").module
    return environment


def _escape_hidden_characters(value: object) -> object:
    """Return a text with its invisible characters escaped, except line breaks and tabs, which text areas need.

    Any other value is returned unchanged.
    """
    return escape_hidden(value, keep="\r\n\t") if type(value) is str else value


@cache
def build_static_url(name: str) -> str:
    """Build the address of a static file.

    The address changes with the file's content, so that browsers may cache the file for a year.
    """
    digest = hashlib.sha256((STATIC_FOLDER / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"


logger = logging.getLogger(__name__)

# The first class of which the error is an instance decides.
ERROR_STATUSES = (
    (BusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (ArenaError, HTTPStatus.INTERNAL_SERVER_ERROR),
)


def add_error_pages(app: FastAPI) -> None:
    """Make the application answer errors with pages that have a fitting HTTP status.

    The status is 400 for an invalid request, 404 for something that does not exist, 500 for a failure, and 503 for a
    busy server.
    """
    app.add_exception_handler(
        ArenaError, lambda request, error: _render_error_page(request, find_error_status(error), error.for_command_line)
    )
    app.add_exception_handler(HTTPException, _render_http_error)
    app.add_exception_handler(RequestValidationError, _render_form_error)
    app.add_middleware(UnexpectedErrorMiddleware)


def find_error_status(error: Exception) -> int:
    """Return the HTTP status with which the server answers an ``ArenaError``."""
    return next(status for kind, status in ERROR_STATUSES if isinstance(error, kind))


def _render_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (it is registered for this class alone)
    unknown = error.status_code == HTTPStatus.NOT_FOUND and error.detail == HTTPStatus.NOT_FOUND.phrase
    line = f"There is no page {request.url.path[:100]} here" if unknown else error.detail
    return _render_error_page(request, error.status_code, line)


def _render_form_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  (it is registered for this class alone)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    return _render_error_page(request, 400, f"{field}={str(first.get('input', ''))[:60]!r}: {first['msg']}")


class UnexpectedErrorMiddleware:
    """Middleware that answers an unexpected exception with a page and logs the traceback.

    Starlette's own handler would run outside ``SecurityMiddleware``, so its response would lack the security headers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_and_record_start(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_record_start)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            logger.exception("%s %s", scope["method"], scope["path"])
            line = f"{type(error).__name__}: {error} (unexpected; the terminal of qarena serve shows where)"
            await _render_error_page(Request(scope, receive), 500, line)(scope, receive, send)


def _render_error_page(request: Request, status: int, line: str) -> Response:
    busy = status == HTTPStatus.SERVICE_UNAVAILABLE
    address, reads = f"{request.url.path}?{request.url.query}".removesuffix("?"), request.method in SAFE_METHODS
    return render_page(
        request,
        "error.html",
        status,
        title="One moment" if busy else "That does not work" if status < 500 else "Something failed",
        line=" ".join(line.split()),
        again=address if busy and reads else "",
        back=address if not reads and status not in (404, 405) else "",
        subject=next((name for name, path in NAVIGATION.items() if request.url.path.startswith(path)), ""),
    )


_DECISION = re.compile(r"[0-9A-F]|[a-d][1-4]|[0-9A-F]@[a-d][1-4]")


def parse_whole_number(values: Mapping[str, str], name: str, maximum: int = (1 << 63) - 1, default: str = "") -> int:
    """Parse the value called ``name`` as a whole number from 0 to ``maximum``, both included.

    If the value is missing or empty, ``default`` is parsed instead. Raises ``RequestError`` if the text is not such a
    number.
    """
    text = values.get(name) or default
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > maximum:
        raise RequestError(f"{name} {text[:40]!r} is not a whole number from 0 to {maximum}")
    return int(text)


def check_decision_words(name: str, words: Sequence[str], max_words: int, *other_words: str) -> tuple[str, ...]:
    """Return the words as a tuple if each has the form of a decision or is one of ``other_words``.

    Whether a decision is legal is not checked here. ``name`` is what error messages call the words. Raises
    ``RequestError`` for a word with another form, and for more than ``max_words`` words.
    """
    if len(words) > max_words:
        raise RequestError(f"{name}: {format_count_with_noun(len(words), 'decision')} are more than a game has")
    for word in words:
        if not _DECISION.fullmatch(word) and word not in other_words:
            forms = ", ".join(("a cell a1 to d4", "a piece 0 to F", "piece@cell", *other_words))
            raise RequestError(f"{name}: {word[:40]!r} is not a decision: {forms}")
    return tuple(words)
