"""The settings of a server, and what its pages share."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path, PurePath
from typing import Any, TypeVar

from starlette.requests import Request

from analytics.store.archive import Archive
from analytics.store.marker import content_of

Service = TypeVar("Service")

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServerSettings:
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

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.token = secrets.token_urlsafe(24)  # in every form: pages of others can send a form, but not read ours
        self._services: dict[Callable[[Site], Any], Any] = {}
        self._lock = threading.RLock()

    def service(self, make: Callable[[Site], Service]) -> Service:
        """The service that ``make`` (a class, say) made of this site when it was first asked for."""
        with self._lock:
            if make not in self._services:
                self._services[make] = make(self)
            found: Service = self._services[make]
            return found

    def close(self) -> None:
        """Close the services that can be closed."""
        with self._lock:
            for service in self._services.values():
                if hasattr(service, "close"):
                    service.close()

    def existing_archive(self) -> Archive | None:
        """The archive, or None where there is none yet. Raises ``RequestError`` for one of another version."""
        root = self.settings.archive
        return None if content_of(root) is None else Archive.open(root)


def site_of(request: Request) -> Site:
    """The site that answers a request."""
    site: Site = request.app.state.site
    return site
