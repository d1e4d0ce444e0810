"""Games played with forms alone are logged as `qarena play` logs them, whatever an address claims."""

from __future__ import annotations

import html
import random
import re
import shlex
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.batch import ENDINGS
from quarto.notation import format_game
from runners.play import session
from runners.play.session import AgentOpponent
from runners.web import background
from runners.web.play import games
from runners.web.play.addresses import parse_address
from tests.naive import PRESETS
from tests.runners.play.people import play_typed_game
from tests.runners.web.visiting import HOME, Page, Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.runners.web.visiting import Visitor


pytestmark = pytest.mark.extras


def play_to_end(ada: Visitor, page: Page, seed: int = 1) -> Page:
    """Play random decisions to the end of the game."""
    dice = random.Random(seed)
    while not is_over(page):
        page = next_page(ada, page, dice)
    return page


def is_over(page: Page) -> bool:
    return "Rematch" in page.text


def next_page(ada: Visitor, page: Page, dice: random.Random) -> Page:
    """Make one random decision and get the page after it."""
    choices = [name for name, label in page.labels().items() if label.startswith("Place ")]
    if choices and not page.decisions():  # the mover chooses the piece first
        page = ada.ready(f"{page.url}&piece={dice.choice(choices)}")
    return ada.send(page.url, decision=dice.choice(page.decisions()))


def rows(ada: Visitor, question: str) -> list[tuple[object, ...]]:
    with open_archive(ada.site.options.archive) as opened:
        return opened.sql(question).rows()


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("preset", ["classic", "own_piece"])
def test_a_game_is_logged_as_qarena_play_logs_it(ada: Visitor, preset: str, seat: int) -> None:
    page = ada.begin("random", preset, seat)
    lines, game = play_typed_game(PRESETS[preset], seat, "random", 3, 0, name="ada")
    for word in " ".join(lines).split():
        if not is_over(page):
            page = ada.send(page.url, decision=word.lower() if len(word) == 2 else word[0].upper() + word[1:].lower())
    assert is_over(page), page.text
    assert "Logged as game 0 of run" in page.text
    assert format_game(game.plies) in page.text
    (row,) = rows(ada, "SELECT agent_0, agent_1, game_id, winner, ending FROM games")
    labels = ("human:ada", "random") if seat == 0 else ("random", "human:ada")
    assert row == (*labels, 0, game.winner, ENDINGS[game.ending or 0])
    plies = rows(ada, "SELECT piece, cell FROM plies ORDER BY ply")
    assert plies == list(game.plies)
    assert verify_archive(ArchiveStore.open(ada.site.options.archive)).problems == []


def test_the_page_of_a_game_is_its_address(ada: Visitor) -> None:
    page = ada.begin()
    assert page.says == "dumb gives you 0. Your turn: place piece 0 on an empty cell."
    page = ada.send(page.url, decision="d4")
    assert page.says == "You place 0 on d4. Your turn: give a piece."
    page = ada.send(page.url, decision="F")
    assert page.says.endswith("dumb places F on a1 and gives you 1. Your turn: place piece 1 on an empty cell.")
    assert page.query["moves"] == "d4.F"
    assert ada.get(page.url).text == page.text
    assert page.labels()["d4"] == "d4, 0: low, uncoloured, hollow, round"
    assert page.labels()["a2"] == "a2, empty: place 1 here"
    assert page.labels()["1"] == "1: low, uncoloured, hollow, square; in hand"


@pytest.mark.parametrize("decision", ["d4", "F", "e5", "", "5", "3@a1", "resign"])
def test_an_illegal_decision_is_one_line_and_changes_nothing(ada: Visitor, decision: str) -> None:
    page = ada.send(ada.begin().url, decision="d4")
    page = ada.send(page.url, decision="F")
    if decision == "resign":
        page = ada.send(page.url, command="resign")
        assert is_over(page)
        decision = "a1"
    wrong = ada.send(page.url, decision=decision)
    assert wrong.status == 400
    assert wrong.line
    assert ada.get(page.url).text == page.text
    assert "piece 'x' is not a hex digit" in ada.get(f"{page.url}&piece=x").line


def test_help_is_part_of_the_label_also_if_it_is_taken_by_going_back(ada: Visitor) -> None:
    first = ada.begin()
    hinted = ada.send(first.url, command="hint")
    assert "Suggestion: place it on " in hinted.text
    assert "Suggestion: place it on " not in ada.get(first.url).text
    play_to_end(ada, hinted)
    second = ada.begin()
    page = ada.send(ada.send(second.url, decision="d4").url, decision="F")
    assert ada.send(page.url, command="undo").url == second.url
    play_to_end(ada, second)
    third = ada.begin()
    ada.send(ada.send(third.url, decision="d4").url, decision="F")
    play_to_end(ada, ada.send(third.url, decision="c3"))  # from the first page, as after the browser's Back
    play_to_end(ada, ada.begin())
    labels = rows(ada, "SELECT agent_1 FROM games ORDER BY game_id")
    assert labels == [("human:ada(hint)",), ("human:ada(undo)",), ("human:ada(undo)",), ("human:ada",)]


def test_an_earlier_moment_of_a_logged_game_offers_no_decision(ada: Visitor) -> None:
    begun = ada.begin()
    end = ada.send(ada.send(begun.url, decision="d4").url, command="resign")
    for earlier in (begun, ada.get(begun.url + "&moves=d4")):
        page = ada.get(earlier.url)
        assert "This is an earlier moment of a game that is over" in page.text
        assert (page.decisions(), "Your turn" in page.text, page.refreshes) == ([], False, False)
        assert f'href="{html.escape(end.url)}">Go to the end' in page.text


def test_a_hint_keeps_the_piece_that_was_chosen(ada: Visitor) -> None:
    chosen = ada.get(ada.begin("random", "own_piece").url + "&piece=5")
    action = re.search(r'action="([^"]+)"><input[^>]*>\s*<button[^>]*value="hint"', chosen.text)
    assert action
    hinted = ada.send(html.unescape(action[1]), command="hint")
    assert "Nothing finishes a line now." in hinted.text
    assert "5@a1" in hinted.decisions()
    assert re.search(r'aria-label="[^"]*\(hint\)"', hinted.text)  # it is marked on the board


def test_resigning_loses_and_a_finished_game_is_logged_once(ada: Visitor) -> None:
    end = ada.send(ada.begin().url, command="resign")
    assert end.says == "You resign, and dumb wins."
    for _ in range(3):
        ada.get(end.url)
        ada.send(end.url, command="log")
    assert rows(ada, "SELECT winner, ending FROM games") == [(0, "forfeit_resigned")]
    assert "is over, and logged as game 0" in ada.send(end.url.partition("&moves")[0], decision="d4").line
    assert shlex.split(ArchiveStore.open(ada.site.options.archive).load_runs()[0].command) == ["qarena", "serve"]


def test_a_page_waits_for_the_log_of_the_decisions_that_count(ada: Visitor) -> None:
    address = parse_address(ada.begin().query)
    held = ada.site.get_or_create_service(games.WebGameService).find_game(address)
    assert held is not None
    assert not held.is_to_be_logged(address.moves)  # it is not over
    resigned = held.append_decision(address.moves, "resign")
    assert [held.is_to_be_logged(moves) for moves in (address.moves, resigned)] == [False, True]
    held.play_agent_turn(resigned)
    assert not held.is_to_be_logged(resigned)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"agent": "nobody"}, "agent 'nobody' does not exist"),
        ({"agent": "dumb(depth=3)"}, "agent 'dumb' has no parameter 'depth'"),
        ({"agent": ""}, "agent '' is not a text of 1 to 200 characters"),
        ({"rules": "../classic"}, "rules '../classic' does not exist"),
        ({"rules": "own_piece", "agent": "rule_based"}, "own_piece"),
        ({"seat": "2"}, "seat '2' is not a whole number from 0 to 1"),
        ({"seed": "-1"}, "seed '-1' is not a whole number"),
        ({"name": "a\x07b"}, "is not a printable text"),
        ({"number": "5"}, "game 5 was never begun here: the next one is number 0"),
        ({"id": "short"}, "id 'short' is not that of a game"),
        ({"moves": "d4.d4"}, "d4"),
        ({"moves": "d4.F." + "a1." * 40 + "a1"}, "decisions are more than a game has"),
        ({"moves": "d4.<b>"}, "'<b>' is not a decision"),
    ],
)
def test_a_forged_address_is_one_line_and_writes_nothing(ada: Visitor, change: dict[str, str], line: str) -> None:
    begun = ada.begin()
    values = {**begun.query, "id": "A" * 22, **change}
    page = ada.get("/play/game", **values)
    if page.status == 200:  # the page offers to go on with the game
        page = ada.send(page.url, command="open")
    assert (page.status, page.line.count("\n")) == (400, 0)
    assert line in page.line
    assert not rows(ada, "SELECT * FROM games")


@pytest.mark.parametrize(
    "parameters", ["," * 45_000, f"a={'[' * 20_000}", f"a={'[1,' * 30}"], ids=["long", "open", "deep"]
)
def test_a_label_in_a_link_is_checked_before_it_is_read(
    ada: Visitor, parameters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the length and depth first, because parsing would hold a lock that all readers of the site need."""
    monkeypatch.setattr(OverridesParser, "parse_override", None)
    for path in ("/play", "/play/game"):
        refused = ada.get(f"{path}?agent=random({parameters})")
        assert (refused.status, refused.line.count("\n")) == (400, 0)
        assert len(refused.line) < 200


def test_a_game_of_another_server_can_be_gone_on_with_but_not_as_one_without_help(ada: Visitor) -> None:
    page = ada.begin()
    link = ada.get("/play/game", **{**page.query, "id": "B" * 22, "moves": "d4.F"})
    assert "Continue this game?" in link.text
    stranger = ada.send(link.url, command="open")
    assert stranger.says.endswith("dumb places F on a1 and gives you 1. Your turn: place piece 1 on an empty cell.")
    play_to_end(ada, stranger)
    assert rows(ada, "SELECT agent_1 FROM games") == [("human:ada(undo)",)]
    looked_at = ada.get("/play/game", **{**page.query, "id": "C" * 22, "moves": "resign"})
    looked_at = ada.send(looked_at.url, command="open")
    assert "the game is not logged again" in looked_at.text
    assert rows(ada, "SELECT count(*) FROM games") == [(1,)]


def test_nobody_waits_for_an_agent_that_thinks(ada: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, turn = threading.Event(), threading.Event(), AgentOpponent.take_turn
    slow = ada.begin()

    def slowly(self: AgentOpponent, game: object) -> tuple[int, int]:
        begun.set()
        assert go_on.wait(60)
        return turn(self, game)  # type: ignore[arg-type]

    monkeypatch.setattr(AgentOpponent, "take_turn", slowly)
    place = ada.send(slow.url, decision="d4").url
    thinking = Page(ada.client.post(place, data={"token": ada.site.token, "decision": "F"}))
    assert begun.is_set()
    assert "dumb is thinking" in thinking.text
    assert thinking.refreshes
    assert '<noscript><meta http-equiv="refresh"' in thinking.text
    assert ada.send(thinking.url, decision="a2").line == "dumb is thinking: wait for its turn"
    monkeypatch.setattr(AgentOpponent, "take_turn", turn)
    assert ada.send(ada.begin().url, decision="d4").status == 200  # another game meanwhile
    go_on.set()
    assert "gives you 1" in ada.ready(thinking.url).says


def test_a_game_that_cannot_be_logged_says_so_and_can_be_logged_later(
    ada: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quarto.errors import FailureError

    enter = session.Logbook.log_game

    def full(*_: object) -> tuple[str, int]:
        raise FailureError("the disk is full")

    monkeypatch.setattr(session.Logbook, "log_game", full)
    page = ada.send(ada.begin().url, command="resign")
    assert page.line == "The game could not be logged: the disk is full"
    monkeypatch.setattr(session.Logbook, "log_game", enter)
    assert "Logged as game 0 of run" in ada.send(page.url, command="log").text
    assert ada.send(page.url, command="dance").line == "command 'dance' is not known: undo, hint, resign or log"


def test_parameters_of_the_form_become_the_label(ada: Visitor) -> None:
    page = ada.get("/play", agent="mcts")
    assert 'name="mcts.iterations"' in page.text
    assert "for each turn, 2 to 1,000,000" in page.text
    begun = ada.begin("mcts", parameters={"mcts.iterations": " 20 ", "mcts.c": "2.0", "mcts.reuse": "", "dumb.x": "1"})
    assert begun.query["agent"] == "mcts(iterations=20)"
    wrong = ada.begin("mcts", parameters={"mcts.iterations": "many"})
    assert wrong.status == 400
    assert "iterations" in wrong.line
    assert 'name="mcts.iterations" value="many"' in wrong.text  # the form is shown again as it was sent
    assert 'value="3" data-kept' in wrong.text
    end = ada.send(begun.url, command="resign")
    new = re.search(r'href="([^"]+)">New game', end.text)
    assert new
    assert 'name="mcts.iterations" value="20"' in ada.get(html.unescape(new[1])).text


def test_agents_of_a_users_own_play_too(tmp_path: Path) -> None:
    from runners.authoring.new_agent import create_and_describe_agent_files
    from tests.runners.web.visiting import visitor

    create_and_describe_agent_files("corner", "choose", tmp_path / "mine")
    with visitor(tmp_path / "games", config_dir=tmp_path / "mine", trust_agents=True) as ada:
        assert ">corner</option>" in ada.get("/play").text
        assert "corner gives you" in ada.begin("corner").says


SETUP = {"rules": "classic", "seat": "1", "seed": "3", "name": "ada"}


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Keep ``semi_random`` thinking until the yielded event is set."""
    go_on, turn = threading.Event(), AgentOpponent.take_turn

    def slowly(self: AgentOpponent, game: object) -> tuple[int, int]:
        assert self.label != "semi_random" or go_on.wait(120)
        return turn(self, game)  # type: ignore[arg-type]

    monkeypatch.setattr(AgentOpponent, "take_turn", slowly)
    yield go_on
    go_on.set()


def begin(visitor: Visitor, agent: str) -> Page:
    return Page(visitor.client.post("/play", data={"token": visitor.site.token, "agent": agent, **SETUP}))


def open_another_browser(ada: Visitor) -> Visitor:
    """Open the same site with another browser."""
    from starlette.testclient import TestClient

    guest = Visitor(TestClient(ada.client.app, base_url=HOME, headers={"origin": HOME}), ada.site)
    guest.get("/play")  # a page gives the cookie
    return guest


def test_many_games_of_one_browser_do_not_keep_another_from_playing(ada: Visitor, release: threading.Event) -> None:
    ada.get("/play")
    slow = [begin(ada, "semi_random") for _ in range(games.MAX_THINKING + 1)]
    assert all("The agent is being set up" in page.text for page in slow)
    assert "others are served first" in slow[-1].text
    assert open_another_browser(ada).begin("dumb").says.endswith("Your turn: place piece 0 on an empty cell.")
    release.set()
    assert "gives you" in ada.ready(slow[-1].url).says


def test_who_closes_the_page_of_a_slow_agent_can_play_another_one(
    ada: Visitor, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "POLL_SECONDS", 0.005)
    ada.get("/play")
    jobs = ada.site.get_or_create_service(games.WebGameService)._background
    begin(ada, "semi_random")
    while not jobs._working:
        time.sleep(0.01)
    monkeypatch.setattr(jobs, "_idle_seconds", 0.0)  # nobody asks for its page
    while not jobs._abandoned_jobs:
        time.sleep(0.01)
    monkeypatch.setattr(jobs, "_idle_seconds", games.IDLE_SECONDS)
    assert ada.begin("dumb").says.endswith("Your turn: place piece 0 on an empty cell.")
    assert len(jobs._abandoned_jobs) == 1
    release.set()
