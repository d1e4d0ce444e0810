"""Pages from templates: every text escaped, nothing loaded from another host."""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from http import HTTPStatus
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from analytics.report.pieces import piece_svg, piece_symbols
from analytics.results.columns import escaped
from runners.browse.links import address
from runners.web.settings import site_of

SUBJECTS = {"Play": "/play", "Analyse": "/analyse", "Browse": "/browse", "Ask": "/ask"}  # in the navigation
STATIC = Path(__file__).parent / "static"
RETRY_SECONDS = 3  # after which a busy server may be asked again
SESSION = "session"  # the cookie by which a browser is known, as long as it is open
SEE_OTHER = 303  # after a form was carried out: reloading the page that follows does not send the form again


def page(request: Request, template: str, status: int = 200, **values: object) -> Response:
    """The page that a template makes of values.

    Every template knows ``token``, the hidden field of its forms, and ``here``, the path of the page.
    """
    site = site_of(request)
    known = {
        "token": site.token,
        "here": request.url.path,
        "subjects": SUBJECTS,
        "archive": str(site.settings.archive),
        "refresh": None,
        "typed": False,  # somebody types here: without the script the page does not load itself again
        "tabs": (),
        "damaged": (),
        "charts": False,
    }
    headers = {"retry-after": str(RETRY_SECONDS)} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    answer = HTMLResponse(environment().get_template(template).render(known | values), status, headers)
    if SESSION not in request.cookies:
        answer.set_cookie(SESSION, secrets.token_urlsafe(16), httponly=True, samesite="strict")
    return answer


def session_of(request: Request) -> str:
    """The browser that sent a request; without a cookie, the machine."""
    return request.cookies.get(SESSION) or (request.client.host if request.client else "")


def go_to(path: str, **query: object) -> Response:
    """The answer to a form: another page."""
    return RedirectResponse(address(path, query), SEE_OTHER)


@cache
def environment() -> Environment:
    """The templates and what they can call."""
    made = Environment(
        loader=ChoiceLoader(
            [PackageLoader("runners.web"), PrefixLoader({"report": PackageLoader("analytics.report")})]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "static": static,
        "piece_svg": piece_svg,
        "piece_symbols": piece_symbols,
        "address": lambda path, **query: address(path, query),
    }
    return made


def _visible(value: object) -> object:
    """A value of a template without control and bidirectional characters. Line ends and tabs stay, for text areas."""
    if type(value) is not str:
        return value
    return "".join(each if each in "\r\t" else escaped(each) for each in value) if escaped(value) != value else value


@cache
def static(name: str) -> str:
    """The address of a file in ``static/``, which changes with its content: browsers may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"
