"""A visitor of the pages for tests: requests in the process of the tests, and what a page says."""

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
    """Somebody with a browser without scripts."""

    def __init__(self, client: Any, site: Site) -> None:
        self.client = client
        self.site = site

    def get(self, path: str, **values: str) -> Page:
        """The page at an address, redirections followed."""
        return Page(self.client.get(path, params=values or None))

    def ready(self, path: str, **values: str) -> Page:
        """The page once it no longer loads itself again."""
        page, end = self.get(path, **values), time.monotonic() + PATIENCE
        while page.refreshes:
            assert time.monotonic() < end, page.text
            time.sleep(0.02)
            page = self.get(page.url)
        return page

    def send(self, path: str, **values: str) -> Page:
        """What follows a form of our own pages."""
        sent = Page(self.client.post(path, data={"token": self.site.token, **values}))
        return self.ready(sent.url) if sent.refreshes else sent

    def begin(
        self, agent: str = "dumb", rules: str = "classic", seat: int = 1, others: Mapping[str, str] | None = None
    ) -> Page:
        """A new game."""
        setup = {"agent": agent, "rules": rules, "seat": str(seat), "seed": "3", "name": "ada"}
        return self.send("/play", **setup, **(others or {}))


class Page:
    """An answer."""

    def __init__(self, answer: Any) -> None:
        self.status: int = answer.status_code
        self.text: str = answer.text
        self.headers = answer.headers
        self.url = str(answer.url).removeprefix(HOME)

    @property
    def refreshes(self) -> bool:
        return " data-refresh=" in self.text

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.url).query).items()}

    @property
    def says(self) -> str:
        """What it announces."""
        found = re.search(r"data-announce>(.*?)</div>", self.text, re.DOTALL)
        return plain(found[1]) if found else ""

    @property
    def line(self) -> str:
        """The line of an error page."""
        found = re.search(r'role="alert">(.*?)</p>', self.text, re.DOTALL)
        return plain(found[1]) if found else ""

    def decisions(self) -> list[str]:
        """The decisions that its buttons send."""
        return [html.unescape(each) for each in re.findall(r'name="decision" value="([^"]+)"', self.text)]

    def labels(self) -> dict[str, str]:
        """The labels of cells and pieces by name."""
        found = re.findall(r'data-name="(\w+)" aria-label="([^"]+)"', self.text)
        return {name: html.unescape(label) for name, label in found}


def plain(part: str) -> str:
    """HTML as text."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


@contextmanager
def visitor(archive: PurePath, **settings: Any) -> Iterator[Visitor]:
    """A visitor of a site over an archive."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer client than the one that is locked
        from starlette.testclient import TestClient

    app = build_application(ServerOptions(archive, name="ada", megabytes=4, **settings))
    with TestClient(app, base_url=HOME, headers={"origin": HOME}, raise_server_exceptions=False) as client:
        yield Visitor(client, app.state.site)
