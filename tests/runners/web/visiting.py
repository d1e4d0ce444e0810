"""A visitor of the pages for tests: sends requests without a network, and reads what a page says."""

from __future__ import annotations

import html
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any
from urllib.parse import parse_qs, urlsplit

from runners.web.application import build_application
from runners.web.site import ServerOptions, Site

HOME = "http://127.0.0.1:8000"
PATIENCE = 120  # seconds: kernels may have to be compiled first


class Visitor:
    """Somebody whose browser runs no scripts."""

    def __init__(self, client: Any, site: Site) -> None:
        self.client = client
        self.site = site

    def get(self, path: str, **values: str) -> Page:
        """Get the page at an address, after all redirections."""
        return Page(self.client.get(path, params=values or None))

    def ready(self, path: str, **values: str) -> Page:
        """Get a page, and reload it until it no longer refreshes itself."""
        page, end = self.get(path, **values), time.monotonic() + PATIENCE
        while page.refreshes:
            assert time.monotonic() < end, page.text
            time.sleep(0.02)
            page = self.get(page.url)
        return page

    def send(self, path: str, **values: str) -> Page:
        """Send a form of our own pages, and get the page that follows when it is ready."""
        sent = Page(self.client.post(path, data={"token": self.site.token, **values}))
        return self.ready(sent.url) if sent.refreshes else sent

    def begin(
        self, agent: str = "dumb", rules: str = "classic", seat: int = 1, parameters: Mapping[str, str] | None = None
    ) -> Page:
        """Begin a game and get its page."""
        setup = {"agent": agent, "rules": rules, "seat": str(seat), "seed": "3", "name": "ada"}
        return self.send("/play", **setup, **(parameters or {}))


class Page:
    """A response, with what a reader finds in it."""

    def __init__(self, answer: Any) -> None:
        self.status: int = answer.status_code
        self.text: str = answer.text
        self.headers = answer.headers
        self.url = str(answer.url).removeprefix(HOME)

    @property
    def refreshes(self) -> bool:
        """Whether the page reloads itself."""
        return " data-refresh=" in self.text

    @property
    def query(self) -> dict[str, str]:
        """Parameters of the address by name."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.url).query).items()}

    @property
    def says(self) -> str:
        """Text that the page announces to screen readers."""
        match = re.search(r"data-announce>(.*?)</div>", self.text, re.DOTALL)
        return plain(match[1]) if match else ""

    @property
    def line(self) -> str:
        """Message of an error page."""
        match = re.search(r'role="alert">(.*?)</p>', self.text, re.DOTALL)
        return plain(match[1]) if match else ""

    def decisions(self) -> list[str]:
        """List the decisions that the buttons of the page send."""
        return [html.unescape(decision) for decision in re.findall(r'name="decision" value="([^"]+)"', self.text)]

    def labels(self) -> dict[str, str]:
        """Map each cell and piece to its label."""
        labels = re.findall(r'data-name="(\w+)" aria-label="([^"]+)"', self.text)
        return {name: html.unescape(label) for name, label in labels}


def plain(part: str) -> str:
    """Convert HTML to text."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


@contextmanager
def visitor(archive: PurePath, **settings: Any) -> Iterator[Visitor]:
    """Open a site over an archive, and yield a visitor of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer client than the one that is locked
        from starlette.testclient import TestClient

    app = build_application(ServerOptions(archive, name="ada", megabytes=4, **settings))
    with TestClient(app, base_url=HOME, headers={"origin": HOME}, raise_server_exceptions=False) as client:
        yield Visitor(client, app.state.site)
