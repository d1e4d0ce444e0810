"""The site: the options of a server, the services that its pages share, and the checks that every request must pass.

Any page open in the user's browser can send requests to a server on the same machine. So every request must name
this server in ``Host``; this defeats foreign host names that resolve to this machine. A form must come from our own
pages: it needs a matching ``Origin`` and a token that only our pages contain. Other sites may link to our pages, but
cannot embed or load them. Our pages load only what this server sends.
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
    name: str = "somebody"  # of the person, unless a form has another; games are logged as human:NAME
    config_dir: Path | None = None  # folder with the user's own agents and rules
    trust_agents: bool = False  # agents named on a page may run third-party code
    megabytes: float = 64.0  # of memory for solved positions, for each set of rules
    command: str = "qarena serve"  # the command line, for the run's record

    @property
    def local(self) -> bool:
        """Whether only this machine can connect to the server."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class Site:
    """The state that all pages of a server share: its options, the token of its forms, and one service of each type."""

    def __init__(self, settings: ServerOptions) -> None:
        self.options = settings
        self.token = secrets.token_urlsafe(24)  # in every form: foreign pages can send forms, but cannot read ours
        self._services: dict[Callable[[Site], Any], Any] = {}
        self._lock = threading.RLock()

    def get_or_create_service(self, service_type: Callable[[Site], Service]) -> Service:
        """Return the site's service of this type; the first call creates it as ``service_type(site)``."""
        with self._lock:
            if service_type not in self._services:
                self._services[service_type] = service_type(self)
            service: Service = self._services[service_type]
            return service

    def close(self) -> None:
        """Close every service that has a ``close`` method."""
        with self._lock:
            for service in self._services.values():
                if hasattr(service, "close"):
                    service.close()


def find_site(request: Request) -> Site:
    """Return the site that serves a request."""
    site: Site = request.app.state.site
    return site


SAFE_METHODS = ("GET", "HEAD")
MAX_REQUEST_BYTES = 1 << 20

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
    """Build the header that forbids an SVG picture to load anything.

    The only exception is the picture's own style sheet, which the header identifies by its hash.
    """
    style = svg.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {CSP_HEADER: f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'"}


class SecurityMiddleware:
    """Middleware that refuses requests from other sites' pages, and sets the security headers of responses."""

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
                cacheable = scope["path"].startswith("/static/") and scope["query_string"]
                headers.setdefault("cache-control", "max-age=31536000, immutable" if cacheable else "no-store")
            await send(message)

        reason = find_refusal_reason(scope["method"], Headers(scope=scope), self.settings)
        if reason is None:
            await self.app(scope, receive, send_with_headers)
        else:
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send_with_headers)


def find_refusal_reason(method: str, headers: Headers, settings: ServerOptions) -> str | None:
    """Return the reason why a request with these headers is refused, or None if it is allowed."""
    host = headers.get("host", "")
    if not is_own_host(host, settings):
        return f"Host {host[:100]!r} does not name this server: open http://{settings.host}:{settings.port}/"
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
    """Return whether the ``Host`` header names this server.

    The port in the header is ignored, because ports may be forwarded.
    """
    name = host_header.rpartition(":")[0] if host_header.count(":") == 1 or "]:" in host_header else host_header
    name = name.strip("[]").lower()
    if name in (*LOOPBACK, settings.host.lower()):
        return True
    if settings.local:
        return False
    if name == socket.gethostname().lower():
        return True
    try:  # a numeric address cannot be a foreign name that resolves to this machine
        ip_address(name)
    except ValueError:
        return False
    return True


async def check_token(request: Request) -> None:
    """Refuse a form that lacks this site's token.

    Every router depends on this function. Raises ``HTTPException`` with status 403.
    """
    if request.method in SAFE_METHODS:
        return
    token = (await request.form()).get("token")
    if not isinstance(token, str) or not secrets.compare_digest(token.encode(), find_site(request).token.encode()):
        raise HTTPException(
            403, "This page is from before the server was started again: reload it and send the form once more"
        )
