"""The pages in a real browser, with and without a mouse. All tests of this file share one browser and one server."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from analytics import open_archive
from analytics.exact.puzzles import load_shipped_puzzles
from quarto.notation import CLASSIC_NAME
from tests.runners.web.browsing import (
    PATIENCE,
    RunningServer,
    act_and_wait,
    begin,
    is_over,
    needs_chromium,
    wait_until_settled,
)

GAME = "C@d2 B@a3 4@c2 0@b3 F@d3 3@a2 8@b4 E@c1 1@a1 6@d4 9@a4"
ROUND_ROBIN, SWEEP = "8d1cb3670fa3", "fe6afc128298"
PAGES = (
    "/play/how-to-play",
    *("/", "/play?agent=mcts", f"/analyse?text={GAME}", f"/analyse?text={GAME[:29]}", "/analyse?text=F@b1%0A3@b9"),
    *(
        "/puzzles",
        "/puzzles?theme=quiet&level=3",
        "/puzzles/1",
        "/puzzles/130?turn=c3.6",
        "/puzzles/position?position=.41B/0FC8/.A.7/563. D&turn=a1.2",
        "/puzzles/61?turn=a1",
        "/puzzles/61?turn=a1.5",
        "/puzzles/61?answer=yes",
    ),
    *("/nothing", "/browse", f"/browse/runs/{ROUND_ROBIN}", "/browse/agent?agent=dumb", "/browse/games"),
    *(f"/browse/games/{ROUND_ROBIN}/8", "/browse/openings", "/browse/openings?position=0.../..../..../.... F"),
    "/browse/compare?run=d2a027fc112c&run=2a6d3741319d",
    *(f"/browse/results/{slug}" for slug in ("crosstable", "ratings")),
    *("/browse/insights", "/browse/insights?agent=dumb"),
    *(f"/browse/sweeps/{SWEEP}", "/browse/policies", "/ask?question=2"),
)
pytestmark = [pytest.mark.extras, needs_chromium]


def read_logged_plies(tab: Any, running_server: RunningServer) -> list[tuple[int, int]]:
    """Read the plies of the logged game with the SQL query that its page shows."""
    tab.get_by_text(re.compile("Logged as game")).wait_for()
    question = re.search(r'"(SELECT .*)"', tab.locator("#sql pre").text_content())
    assert question
    with open_archive(running_server.archive) as opened:
        plies = opened.sql(question[1])
        run_id = re.search(r"run_id = '(\w+)'", question[1])
        assert run_id
        (labels,) = opened.sql(f"SELECT agent_0, agent_1 FROM games WHERE run_id = '{run_id[1]}' LIMIT 1").rows()
        assert labels == ("rule_based", "human:ada")
    return [(piece, cell) for _, _, piece, cell in plies.rows()]


def read_shown_plies(tab: Any) -> list[tuple[int, int]]:
    """Read the plies that the page shows."""
    from quarto.notation import parse_game

    return parse_game(tab.locator(".plies").text_content())


def test_a_whole_game_by_keyboard_alone_is_found_by_sql(tab: Any, running_server: RunningServer) -> None:
    tab.goto("/play")
    press = tab.keyboard.press
    tab.locator("[data-focus]").focus()
    press("Enter")
    tab.wait_for_url("**/play/game?**")
    wait_until_settled(tab)
    assert tab.evaluate("document.activeElement.id") == "cell-a1"  # the first empty cell
    press("ArrowRight")
    press("ArrowDown")
    assert tab.evaluate("document.activeElement.id") == "cell-b2"
    press("c")
    press("3")
    assert tab.evaluate("document.activeElement.id") == "cell-c3"
    act_and_wait(tab, lambda: press("Enter"))
    assert tab.locator("#live").text_content().endswith("Your turn: give a piece.")
    while not is_over(tab):
        if tab.locator("[data-typing=piece]").count():
            name = tab.locator("[data-typing=piece] button[name=decision]").first.get_attribute("data-name")
            press(name.lower())
            assert tab.evaluate("document.activeElement.dataset.name") == name
        act_and_wait(tab, lambda: press("Enter"))
    assert tab.evaluate("document.activeElement.textContent") == "Rematch"
    assert read_logged_plies(tab, running_server) == read_shown_plies(tab)
    act_and_wait(tab, lambda: press("Enter"))
    assert not is_over(tab)


def begin_with_help(tab: Any) -> None:
    tab.goto("/play/how-to-play")
    tab.get_by_role("button", name="Play a first game with help").click()
    tab.wait_for_url("**/play/game?**")
    wait_until_settled(tab)


def test_a_first_game_with_help_and_another_without_are_played_and_reviewed(tab: Any) -> None:
    begin_with_help(tab)
    while not tab.get_by_role("button", name="Rematch without help").count():
        assert tab.get_by_label("Help").inner_text()
        recommended = tab.locator("button.hinted[name=decision]")
        decisions = recommended if recommended.count() else tab.locator("button[name=decision]")
        act_and_wait(tab, decisions.last.click)
    assert "ada made" in tab.locator(".review-summary").inner_text()
    act_and_wait(tab, tab.get_by_role("button", name="Rematch without help").click)
    while not is_over(tab):
        act_and_wait(tab, tab.locator("button[name=decision]").first.click)
    result = {"You won": "ada 1, random 0", "You lost": "ada 0, random 1", "A draw": "ada ½, random ½"}
    assert tab.locator(".score").inner_text().startswith(result[tab.title().partition(" · ")[0]])
    assert tab.locator(".value-graph a").count() == 2 * len(read_shown_plies(tab))
    before = tab.locator(".mistakes a[data-quick]").count()
    tab.get_by_role("link", name="Analyse from here").click()
    tab.wait_for_url("**/analyse?**")
    wait_until_settled(tab)
    assert "which turned a" in tab.locator(".status").inner_text()
    assert tab.locator(".moves b").count() == before
    tab.go_back()
    tab.wait_for_url("**/play/game?**")
    act_and_wait(tab, tab.get_by_role("button", name="Play again with the other seat").click)
    assert "seat=0" in tab.url


def test_choosing_rules_shows_their_lines_and_keeps_what_was_typed(tab: Any) -> None:
    tab.goto("/play?agent=alpha_beta")
    tab.locator("#more summary").click()
    tab.get_by_role("textbox", name="depth").fill("2")
    tab.locator("#rules").focus()
    act_and_wait(tab, lambda: tab.locator("#rules").select_option("square"))
    label = tab.locator("label[for=rules]")
    assert label.locator("svg.line-family").count() == 1  # squares of 2x2
    assert label.get_by_role("link", name="square rules").get_attribute("href") == "/play/how-to-play#rules-square"
    assert tab.get_by_role("textbox", name="depth").input_value() == "2"
    assert tab.evaluate("document.activeElement.id") == "rules"  # so that arrow keys reach the next option


def test_without_script_every_form_works(browser: Any, running_server: RunningServer) -> None:
    context = browser.new_context(base_url=running_server.home, java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto("/play")
    page.get_by_role("combobox", name="Opponent").select_option("dumb")
    page.get_by_role("button", name="Choose").click()
    page.get_by_text("Parameters of dumb").wait_for()
    assert "token" not in page.url
    page.get_by_role("button", name="Begin the game").click()
    page.get_by_role("button", name="d4, empty").click()
    page.get_by_role("button", name="Give F").click()
    page.get_by_text("dumb places F on a1 and gives you 1.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Your turn: place piece 0").wait_for()
    page.goto("/analyse")
    page.get_by_role("textbox").fill(GAME)
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.get_by_role("link", name="One decision on").click()
    page.wait_for_url("**at=1")
    context.close()


def test_a_logged_game_is_replayed_by_keys(tab: Any) -> None:
    tab.goto(f"/analyse?text={GAME}")
    wait_until_settled(tab)
    press = tab.keyboard.press
    for _ in range(3):
        act_and_wait(tab, lambda: press("ArrowRight"))
    assert "at=3" in tab.url
    act_and_wait(tab, lambda: press("ArrowLeft"))
    assert "at=2" in tab.url
    mistakes = []
    while tab.locator("a[data-key=n]").count():
        act_and_wait(tab, lambda: press("n"))
        mistakes.append(int(re.search(r"at=(\d+)", tab.url)[1]))  # type: ignore[index]
    assert mistakes == sorted(mistakes)
    assert "which turned a" in tab.locator(".status").text_content()
    act_and_wait(tab, lambda: press("Shift+N"))
    assert f"at={mistakes[-2]}" in tab.url
    act_and_wait(tab, lambda: press("End"))
    assert "has won" in tab.locator(".status").text_content()
    act_and_wait(tab, tab.go_back)
    assert f"at={mistakes[-2]}" in tab.url
    tab.goto(f"/browse/games/{ROUND_ROBIN}/8?ply=0")
    wait_until_settled(tab)
    act_and_wait(tab, lambda: press("n"))
    assert tab.locator(".move b").count() == 5
    act_and_wait(tab, lambda: press("."))  # the best decision instead of the mistake
    assert "branch=" in tab.url


def take_puzzle_turn(tab: Any, cell: str, gift: str) -> None:
    act_and_wait(tab, tab.locator(f"a#cell-{cell}").click)
    act_and_wait(tab, tab.locator(f"a#piece-button-{gift}").click)


def read_progress(tab: Any) -> dict[str, int]:
    """Read what a page says about the reader's results: streak, best, solved, first."""
    return {count.get_attribute("data-count"): int(count.inner_text()) for count in tab.locator("[data-count]").all()}


def test_a_streak_of_five_puzzles_is_kept_in_the_browser_and_no_puzzle_counts_twice(tab: Any) -> None:
    turns = [puzzle.turn.split() for puzzle in load_shipped_puzzles()[:7]]
    tab.goto(f"/puzzles/7?turn={'.'.join(turns[6])}")  # who opens the address of an answer has not found it
    wait_until_settled(tab)
    assert not tab.locator("[data-progress]").is_visible()
    tab.goto("/puzzles")
    act_and_wait(tab, lambda: tab.keyboard.press("n"))
    for number, (cell, gift) in enumerate(turns[:5], 1):
        assert tab.url.endswith(f"/puzzles/{number}")
        take_puzzle_turn(tab, cell, gift)
        assert read_progress(tab) == {"streak": number, "best": number, "solved": number, "first": number}
        act_and_wait(tab, lambda: tab.keyboard.press("n"))

    wrong = next(name for name in load_cell_names(tab) if name != turns[5][0])
    act_and_wait(tab, tab.locator(f"a#cell-{wrong}").click)
    act_and_wait(tab, tab.locator("a.slot").first.click)
    missed = {"streak": 0, "best": 5, "solved": 5, "first": 5}
    assert read_progress(tab) == missed
    for _ in range(2):  # a second wrong turn changes nothing
        act_and_wait(tab, lambda: tab.keyboard.press("u"))
        act_and_wait(tab, tab.locator(f"a#cell-{wrong}").click)
        act_and_wait(tab, tab.locator("a.slot").first.click)
        assert read_progress(tab) == missed
    act_and_wait(tab, lambda: tab.keyboard.press("u"))
    take_puzzle_turn(tab, *turns[5])
    tab.reload()
    wait_until_settled(tab)
    assert read_progress(tab) == missed | {"solved": 6}
    assert tab.locator(".ticks").inner_text().split() == ["✓"] * 5 + ["✗"]

    act_and_wait(tab, tab.get_by_role("link", name="All puzzles").click)
    assert read_progress(tab) == missed | {"solved": 6}
    assert tab.locator(".themes tbody tr").first.inner_text().split() == [
        *("All", "puzzles", "6/300", "6/60", *("0/60",) * 4),
    ]
    assert tab.locator("ol.puzzle-map .solved").all_inner_texts() == ["1", "2", "3", "4", "5"]
    assert tab.get_by_role("link", name="Puzzle 6, solved later").get_attribute("class") == "later"
    act_and_wait(tab, tab.get_by_role("link", name="Continue").click)
    assert tab.url.endswith("/puzzles/7")
    act_and_wait(tab, tab.get_by_role("link", name="Show the answer").click)
    assert read_progress(tab) == missed | {"solved": 6}
    assert tab.locator(".ticks").inner_text().split() == ["✓"] * 5 + ["✗"] * 2


def load_cell_names(tab: Any) -> list[str]:
    """List the empty cells of the puzzle on the page."""
    return [cell.get_attribute("data-name") for cell in tab.locator("a.cell").all()]


def test_puzzles_of_a_theme_follow_one_another_and_results_are_forgotten_on_demand(tab: Any) -> None:
    puzzles = load_shipped_puzzles()
    numbers = [number for number, puzzle in enumerate(puzzles, 1) if puzzle.rules != CLASSIC_NAME and puzzle.level == 1]
    tab.goto("/puzzles")
    act_and_wait(tab, tab.locator(".themes tr", has_text="Other rules").get_by_role("link").nth(1).click)
    assert tab.locator("ol.puzzle-map a").all_inner_texts() == [str(number) for number in numbers]
    for number in numbers[:3]:
        act_and_wait(tab, lambda: tab.keyboard.press("n"))
        assert tab.url.endswith(f"/puzzles/{number}?theme=rules&level=1")
    act_and_wait(tab, tab.get_by_role("link", name="Show the answer").click)
    act_and_wait(tab, tab.get_by_role("link", name="Other rules of level 1").click)
    assert tab.get_by_role("link", name=f"Puzzle {numbers[2]}, not solved yet").count() == 1
    tab.get_by_text("Forget your results").click()
    tab.get_by_role("button", name="Forget all results").click()
    tab.get_by_role("link", name="Begin").wait_for()
    assert not tab.locator("[data-progress]").is_visible()
    assert tab.evaluate("localStorage.getItem('puzzles')") is None


@pytest.mark.parametrize("kept", ["nonsense", '{"id": 1}', '[null, 3, {"id": 5}, {"id": "0", "right": true}]'])
def test_results_that_something_else_has_written_break_no_page(tab: Any, kept: str) -> None:
    tab.goto("/puzzles/1")
    tab.evaluate("kept => localStorage.setItem('puzzles', kept)", kept)
    tab.reload()
    take_puzzle_turn(tab, *load_shipped_puzzles()[0].turn.split())
    assert read_progress(tab)["solved"] == 1


def test_puzzles_are_solved_without_a_script_and_without_storage(browser: Any, running_server: RunningServer) -> None:
    from playwright.sync_api import expect

    forbid = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    for scripted in (False, True):
        context = browser.new_context(base_url=running_server.home, java_script_enabled=scripted)
        context.add_init_script(forbid)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto("/puzzles")
        page.get_by_role("link", name="Begin").click()
        take_puzzle_turn(page, *load_shipped_puzzles()[0].turn.split())
        expect(page).to_have_title(re.compile("Right · Puzzle 1"), timeout=PATIENCE)
        assert not page.locator("[data-progress]").is_visible()
        page.get_by_role("link", name="Next puzzle").click()
        page.wait_for_url("**/puzzles/2")
        context.close()


def test_nothing_is_wrong_for_those_who_use_other_means(browser: Any, running_server: RunningServer) -> None:
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    wrong: list[tuple[str, ...]] = []
    for scheme, width in (("light", 1400), ("dark", 390)):
        context = browser.new_context(
            base_url=running_server.home,
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            reduced_motion="reduce",
            bypass_csp=True,  # axe itself is a script from elsewhere
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)

        def look(name: str, page: Any = page, scheme: str = scheme, width: int = width) -> None:
            violations = axe.run(page).response["violations"]
            wrong.extend((name, scheme, violation["id"], violation["nodes"][0]["html"]) for violation in violations)
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), (name, width)

        for path in PAGES:
            page.goto(path)
            wait_until_settled(page)
            look(path)
        page.goto("/puzzles/1")
        take_puzzle_turn(page, *load_shipped_puzzles()[0].turn.split())
        look("a solved puzzle")
        act_and_wait(page, page.get_by_role("link", name="Next puzzle").click)
        act_and_wait(page, page.get_by_role("link", name="Show the answer").click)
        page.goto("/puzzles")
        look("puzzles with results")
        begin(page, "dumb")
        page.get_by_role("button", name="Hint").click()
        page.locator(".hinted").wait_for()
        look("a game with a hint")
        page.get_by_text("Resign …").click()
        act_and_wait(page, page.get_by_role("button", name="Resign this game").click)
        look("the end of a game")
        begin_with_help(page)
        look("a game with help")
        while not page.locator(".status.won, .status.lost, .status.drawn").count():
            act_and_wait(page, page.locator("button[name=decision]").first.click)
        look("a reviewed game")
        moving = "getComputedStyle(document.querySelector('.button')).transitionDuration"
        assert page.evaluate(moving) == "0s"
        context.close()
    assert wrong == []


def test_a_page_of_another_site_cannot_send_a_form(browser: Any, running_server: RunningServer, tmp_path: Path) -> None:
    evil = tmp_path / "evil.html"
    evil.write_text(f'<form method="post" action="{running_server.home}/play"><button>Win</button></form>')
    page = browser.new_page()
    page.goto(evil.as_uri())
    with page.expect_response(f"{running_server.home}/play") as answer:
        page.get_by_role("button").click()
    assert answer.value.status == 403
    page.close()


def test_a_hundred_connections_and_ten_searches_do_not_block_a_move(tab: Any, running_server: RunningServer) -> None:
    begin(tab)
    hard = [f"{running_server.home}/analyse?start=..../.{piece:X}../..../....+-&rules=own_piece" for piece in range(10)]
    stop = threading.Event()
    taken: list[float] = []

    def look() -> None:
        number = 0
        while not stop.is_set():
            for url in (hard[number % 10], f"{running_server.home}/play"):
                with urlopen(url, timeout=60) as answer:  # noqa: S310  (our own server)
                    assert answer.status == 200
            number += 1
            time.sleep(1)

    port = int(running_server.home.rpartition(":")[2])
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        looking = [pool.submit(look) for _ in range(4)]
        try:
            for url in hard:
                with urlopen(url, timeout=60) as answer:  # noqa: S310  (our own server)
                    assert b"Still searching" in answer.read()
            while not is_over(tab):
                started = time.monotonic()
                act_and_wait(tab, tab.locator("button[name=decision]").first.click)
                taken.append(time.monotonic() - started)
        finally:  # or the pool would wait for them for ever
            stop.set()
        for done in looking:
            done.result()
    assert sorted(taken)[len(taken) // 2] < 5, taken


def test_pages_are_small_and_load_a_script_and_a_style_alone(tab: Any, running_server: RunningServer) -> None:
    sizes: dict[str, int] = {}
    tab.on("response", lambda response: response.ok and sizes.update({response.url: len(response.body())}))
    for path in ("/", "/play", f"/analyse?text={GAME[:29]}"):
        sizes.clear()
        tab.goto(path)
        tab.wait_for_load_state("networkidle") if "analyse" not in path else wait_until_settled(tab)
        assert sum(sizes.values()) < 200_000, json.dumps(sizes)
        assert {url.rpartition("/")[2].partition("?")[0] for url in sizes if "/static/" in url} <= {
            *("style.css", "board.js", "icon.svg"),
        }


def test_the_board_of_the_openings_shows_what_filters_choose_and_goes_on(tab: Any) -> None:
    tab.goto("/browse/openings?position=0.../..../..../.... F")
    before = tab.inner_text("caption")
    tab.click("summary:has-text('Position and filters')")
    tab.fill("input[name=agent]", "dumb")
    tab.click("button:has-text('Show')")
    tab.wait_for_url("**agent=dumb**")
    assert before != tab.inner_text("caption")
    tab.keyboard.press("d")
    tab.keyboard.press("4")
    assert tab.evaluate("document.activeElement.dataset.name") == "d4"
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=to give a piece")
    assert "agent=dumb" in tab.url
    tab.go_back()
    tab.wait_for_selector("text=to place F")
    assert "position=0" in tab.url


# Pages that load themselves again, and quick hands.


def test_a_text_that_is_typed_while_a_search_runs_stays_and_its_board_is_shown(tab: Any) -> None:
    tab.goto("/analyse?rules=torus_square")  # a search of the empty board under these rules takes long
    field = tab.get_by_role("textbox")
    field.click()
    with tab.expect_response(lambda response: "/analyse" in response.url):
        tab.keyboard.type("F@b1 3@b2 7@c4", delay=60)
    assert field.input_value() == "F@b1 3@b2 7@c4"
    tab.get_by_role("button", name="Analyse", exact=True).click()
    tab.wait_for_url("**line=**")
    tab.locator(".move[aria-current]").wait_for()
    assert -1 < tab.locator("div.board").bounding_box()["y"] < 450


def test_a_press_that_lasts_while_a_page_loads_itself_again_counts(tab: Any) -> None:
    tab.goto("/analyse?rules=torus_square&line=F.b1")
    tile = tab.locator("a.slot").first.bounding_box()
    tab.mouse.move(tile["x"] + 20, tile["y"] + 20)
    tab.mouse.down()
    with tab.expect_response(lambda response: "/analyse" in response.url):
        pass
    tab.mouse.up()
    tab.wait_for_url("**branch=*")


def test_quick_presses_of_an_arrow_are_all_obeyed(tab: Any) -> None:
    tab.goto(f"/analyse?text={GAME}")
    tab.locator(".move").first.wait_for()
    for _ in range(8):
        tab.keyboard.press("ArrowRight")
    tab.wait_for_url("**at=8")


def test_a_double_click_ends_a_game_as_a_click_does(tab: Any) -> None:
    begin(tab, "random")
    while not is_over(tab):
        act_and_wait(tab, tab.locator("button[name=decision]").first.dblclick)
    tab.get_by_text(re.compile("Logged as game")).wait_for()
    assert not tab.get_by_role("alert").count()


def test_a_form_that_comes_twice_ends_a_game_once(browser: Any, running_server: RunningServer) -> None:
    context = browser.new_context(base_url=running_server.home, java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto("/play?agent=dumb")
    page.get_by_role("button", name="Begin the game").click()
    page.get_by_text("Resign …").click()
    page.get_by_role("button", name="Resign this game").wait_for()
    token = page.locator("input[name=token]").first.get_attribute("value")
    for _ in range(2):
        fields = {"token": token, "command": "resign"}
        answer = context.request.post(page.url, form=fields, headers={"origin": running_server.home})
        assert "Rematch" in answer.text()
    context.close()


def drag(tab: Any, piece: str, target: str) -> None:
    """Drag the piece at one place to the centre of another."""
    act_and_wait(tab, lambda: tab.drag_and_drop(piece, target))


def test_a_position_is_set_up_by_dragging(tab: Any, browser: Any, running_server: RunningServer) -> None:
    tab.goto("/analyse?rules=square")
    for piece, target in (
        ("#piece-button-F", "#cell-b1"),
        ("#piece-button-0", "#cell-d4"),
        ("#cell-b1", "#cell-c3"),
        ("#piece-button-3", "#cell-d4"),  # 0 goes back to the tray
        ("#cell-c3", "#piece-button-5"),  # off the board
    ):
        drag(tab, piece, target)
    assert "start=..../..../..../...3" in tab.url
    assert "rules=square" in tab.url
    act_and_wait(tab, tab.locator("#piece-button-7").click)  # a press is still a gift
    drag(tab, ".stand", "#cell-a1")
    assert "start=7.../..../..../...3+-" in tab.url
    context = browser.new_context(base_url=running_server.home, has_touch=True, viewport={"width": 390, "height": 1200})
    page = context.new_page()
    page.goto("/analyse")
    wait_until_settled(page)
    from_, to = (page.locator(selector).bounding_box() for selector in ("#piece-button-F .piece", "#cell-b1"))
    touch = context.new_cdp_session(page)
    for kind, box in (("touchStart", from_), ("touchMove", to), ("touchEnd", None)):
        points = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}] if box else []
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_url("**start=.F../..../..../....**")
    context.close()


def test_a_game_leaves_as_a_moving_picture_and_its_board_as_png(tab: Any) -> None:
    tab.goto(f"/browse/games/{ROUND_ROBIN}/8")
    tab.click("summary:has-text('Share')")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="This board as PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    tab.get_by_role("link", name="the line as it is played").click()
    tab.wait_for_url("**/picture.svg?shows=moving")
    assert tab.evaluate("document.getAnimations().length") == 2 * 14 + 1  # its style is allowed


def test_the_next_page_of_a_list_begins_at_its_top(tab: Any) -> None:
    tab.goto("/browse/games")
    tab.get_by_role("link", name="Next").click()
    tab.wait_for_url("**page=2")
    tab.get_by_text("Page 2 of").wait_for()
    assert -1 < tab.locator("table.data").bounding_box()["y"] < 450


def test_an_answer_is_sorted_and_its_question_remembered_in_the_browser(tab: Any) -> None:
    tab.goto("/ask")
    tab.locator("#q").fill("SELECT unnest([9, 1000, -20]) AS n")
    tab.keyboard.press("Control+Enter")
    rows = tab.locator("[data-sorts] tbody tr")
    rows.first.wait_for()
    heading = tab.get_by_role("button", name="n", exact=True)
    for order in (["1,000", "9", "-20"], ["-20", "9", "1,000"]):
        heading.click()
        assert [text.strip() for text in rows.all_inner_texts()] == order
    tab.goto("/ask")
    tab.get_by_text("Your questions").click()
    tab.get_by_role("button", name="Keep").click()
    tab.get_by_role("button", name="Kept").wait_for()
    act_and_wait(tab, tab.get_by_role("link", name="SELECT unnest").click)
    assert "unnest" in tab.locator("#q").input_value()


def test_a_wrong_name_is_marked_and_names_are_completed(tab: Any) -> None:
    tab.goto("/ask")
    tab.locator("#q").fill("SELECT nothing FROM gam")
    tab.keyboard.press("Control+Space")
    assert tab.locator("#q").input_value() == "SELECT nothing FROM games"
    tab.locator("#columns summary").click()
    tab.locator("[data-insert]", has_text="winner").first.click()
    tab.locator("#q").fill("SELECT nothing FROM games")
    tab.evaluate("document.getElementById('q').form.requestSubmit()")
    tab.get_by_role("alert").wait_for()
    marked = "(field => field.value.slice(field.selectionStart, field.selectionEnd))(document.getElementById('q'))"
    assert tab.evaluate(marked) == "nothing"


def test_the_form_of_a_game_offers_what_an_agent_can_play(tab: Any) -> None:
    tab.goto("/play?agent=mcts")
    assert tab.get_by_role("button", name="Begin the game").bounding_box()["y"] < 800
    tab.goto("/play?agent=alpha_beta&rules=own_piece")
    assert tab.locator("#rules option:disabled").all_text_contents() == ["own_piece"]
    assert tab.locator("#rules").input_value() == "classic"
    tab.goto("/play?agent=own_piece_alpha_beta")
    assert tab.locator("#rules").input_value() == "own_piece"


def test_three_runs_are_named_and_compared(tab: Any) -> None:
    names = {"2a6d3741319d": "square, no openings", "d2a027fc112c": "classic", "a0a7dbeb5972": "with openings"}
    for run_id, name in names.items():
        tab.goto(f"/browse/runs/{run_id[:5]}")
        assert tab.url.endswith(f"/browse/runs/{run_id}")
        tab.get_by_text("Name this run").click()
        tab.get_by_label("Name").fill(name)
        tab.get_by_label("Note").fill("one line\nanother line")
        tab.get_by_role("button", name="Save").click()
        tab.get_by_role("heading", name=name).wait_for()
    tab.goto("/browse")
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_label("seed", exact=True).check()
    tab.get_by_label("note", exact=True).check()
    tab.get_by_role("button", name="Show").click()
    tab.get_by_role("columnheader", name="seed").wait_for()
    tab.get_by_role("link", name="name", exact=True).click()
    tab.locator('th[aria-sort="ascending"]').get_by_text("name").wait_for()
    assert "show=seed" in tab.url
    assert tab.locator("tbody tr td:nth-child(2)").all_text_contents()[:3] == sorted(names.values(), key=str.casefold)
    for run_id in names:
        tab.get_by_label(f"Compare {run_id}").check()
    tab.get_by_role("button", name="Compare the checked runs").click()
    tab.get_by_role("heading", name="Runs compared").wait_for()
    for name in names.values():
        assert tab.get_by_role("columnheader", name=name, exact=True).count()
    assert tab.get_by_role("group", name="Lengths of the games").count()
    height = tab.evaluate("document.documentElement.scrollHeight")
    assert height <= 3 * 900
