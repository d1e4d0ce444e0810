"""Agents think for one page of a browser at a time, and nobody thinks for pages that were closed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from runners.play.session import AgentOpponent
from runners.web import background
from runners.web.play import games
from tests.runners.web.visiting import HOME, Page, Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.extras
SETUP = {"rules": "classic", "seat": "1", "seed": "3", "name": "ada"}


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """``semi_random`` thinks until this is set."""
    go_on, turn = threading.Event(), AgentOpponent.turn

    def slowly(self: AgentOpponent, game: object) -> tuple[int, int]:
        assert self.label != "semi_random" or go_on.wait(120)
        return turn(self, game)  # type: ignore[arg-type]

    monkeypatch.setattr(AgentOpponent, "turn", slowly)
    yield go_on
    go_on.set()


def begin(visitor: Visitor, agent: str) -> Page:
    return Page(visitor.client.post("/play", data={"token": visitor.site.token, "agent": agent, **SETUP}))


def another(ada: Visitor) -> Visitor:
    """Somebody at another browser."""
    from starlette.testclient import TestClient

    guest = Visitor(TestClient(ada.client.app, base_url=HOME, headers={"origin": HOME}), ada.site)
    guest.get("/play")  # a page gives the cookie
    return guest


def test_many_games_of_one_browser_do_not_keep_another_from_playing(ada: Visitor, released: threading.Event) -> None:
    ada.get("/play")
    slow = [begin(ada, "semi_random") for _ in range(games.MOST_THINKING + 1)]
    assert all("The agent is being set up" in page.text for page in slow)
    assert "others are served first" in slow[-1].text
    assert another(ada).begin("dumb").says.endswith("Your turn: place piece 0 on an empty cell.")
    released.set()
    assert "gives you" in ada.ready(slow[-1].url).says


def test_who_closes_the_page_of_a_slow_agent_can_play_another_one(
    ada: Visitor, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "POLL_SECONDS", 0.005)
    ada.get("/play")
    jobs = ada.site.service(games.HeldGames)._background
    begin(ada, "semi_random")
    while not jobs._working:
        time.sleep(0.01)
    monkeypatch.setattr(jobs, "_idle_seconds", 0.0)  # nobody asks for its page
    while not jobs._left:
        time.sleep(0.01)
    monkeypatch.setattr(jobs, "_idle_seconds", games.IDLE_SECONDS)
    assert ada.begin("dumb").says.endswith("Your turn: place piece 0 on an empty cell.")
    assert len(jobs._left) == 1
    released.set()
