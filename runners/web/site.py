"""The site: the settings of a server, what its pages share, and the requests that it refuses.

A server on this machine can be reached by every page that its user's browser shows. So a request must name this server
by ``Host``: a foreign name that was made to lead here is not ours. A form must come from our own pages: it has an
``Origin``, and a token that only our pages contain. Other sites can link to us, but not embed or load anything. A page
may load what this server sends and nothing else.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path, PurePath
from typing import Any, TypeVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Service = TypeVar("Service")

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServerOptions:
    """The options of `qarena serve`."""

    archive: PurePath
    host: str = "127.0.0.1"
    port: int = 8000
    name: str = "somebody"  # of the person, unless the form has another: games are logged as human:NAME
    config_dir: Path | None = None  # with agents and rules of the user's own
    trust_agents: bool = False  # agents that a page names may run other people's code
    megabytes: float = 64.0  # of memory for proven positions, for each variant of the rules
    command: str = "qarena serve"  # as it was typed

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class Site:
    """The state that the pages of one server share: its settings, its forms' token, and one service of each kind."""

    def __init__(self, settings: ServerOptions) -> None:
        self.options = settings
        self.token = secrets.token_urlsafe(24)  # in every form: pages of others can send a form, but not read ours
        self._services: dict[Callable[[Site], Any], Any] = {}
        self._lock = threading.RLock()

    def get_or_create_service(self, service_type: Callable[[Site], Service]) -> Service:
        """The service that ``service_type`` (a class, say) made of this site when it was first asked for."""
        with self._lock:
            if service_type not in self._services:
                self._services[service_type] = service_type(self)
            found: Service = self._services[service_type]
            return found

    def close(self) -> None:
        """Close the services that can be closed."""
        with self._lock:
            for service in self._services.values():
                if hasattr(service, "close"):
                    service.close()


def find_site(request: Request) -> Site:
    """The site that answers a request."""
    site: Site = request.app.state.site
    return site


SAFE_METHODS = ("GET", "HEAD")
MAX_REQUEST_BYTES = 1 << 20  # of a request

CSP_HEADER = "content-security-policy"
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect", "font")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    CSP_HEADER: CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def build_style_policy_headers(svg: str) -> dict[str, str]:
    """The header of a picture with one style of its own, which is allowed by its hash. Nothing else is."""
    style = svg.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {CSP_HEADER: f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'"}


class SecurityMiddleware:
    """Refuses requests that do not come from this server's own pages, and sets the headers of answers."""

    def __init__(self, app: ASGIApp, settings: ServerOptions) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                kept = scope["path"].startswith("/static/") and scope["query_string"]
                headers.setdefault("cache-control", "max-age=31536000, immutable" if kept else "no-store")
            await send(message)

        reason = find_refusal_reason(scope["method"], Headers(scope=scope), self.settings)
        if reason is None:
            await self.app(scope, receive, send_with_headers)
        else:
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send_with_headers)


def find_refusal_reason(method: str, headers: Headers, settings: ServerOptions) -> str | None:
    """The reason to refuse a request with these headers; None if there is none."""
    host = headers.get("host", "")
    if not is_own_host(host, settings):
        return f"Host {host[:100]!r} is not this server: open http://{settings.host}:{settings.port}/"
    from_elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if from_elsewhere and (headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest") != "document"):
        return "pages of other sites cannot load anything from this server"
    if method in SAFE_METHODS:
        return None
    origin = headers.get("origin")
    if from_elsewhere or origin not in (f"http://{host}", f"https://{host}"):
        return f"a form from {(origin or 'nowhere')[:100]!r} is not one of this server's own pages"
    return None


def is_own_host(host_header: str, settings: ServerOptions) -> bool:
    """Whether the header ``Host`` names this server. The port is not compared: it may be forwarded."""
    name = host_header.rpartition(":")[0] if host_header.count(":") == 1 or "]:" in host_header else host_header
    name = name.strip("[]").lower()
    if name in (*LOOPBACK, settings.host.lower()):
        return True
    if settings.local:
        return False
    if name == socket.gethostname().lower():
        return True
    try:  # an address in numbers: no name that others made lead here
        ip_address(name)
    except ValueError:
        return False
    return True


async def check_token(request: Request) -> None:
    """Refuse a form without the token of our pages. A dependency of every router."""
    if request.method in SAFE_METHODS:
        return
    given = (await request.form()).get("token")
    if not isinstance(given, str) or not secrets.compare_digest(given.encode(), find_site(request).token.encode()):
        raise HTTPException(403, "This page is older than the server, which was started again: load the page once more")
