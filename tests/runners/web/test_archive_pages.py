"""The pages about the archive are small, link to working pages, and show what their filters select."""

from __future__ import annotations

import html
import os
import re
import shutil
import threading
import time
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from analytics import open_archive
from analytics.questions.columns import format_elo
from analytics.questions.openings import explore_position as asked_openings
from analytics.questions.ranking import RANKING_RULE
from analytics.questions.ratings import compute_ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import ArchiveStore
from analytics.store.records import format_current_time
from runners.web.archive import snapshots
from runners.web.archive.snapshots import SnapshotService
from runners.web.archive.sql_pool import QuestionLimits, SqlProcessPool
from runners.web.archive_reader import ArchiveService
from runners.web.sql_page import QuestionService
from tests.analytics.naive_games import RUN_ID, random_block, record, store
from tests.analytics.uneven_games import write_uneven_archive
from tests.paths import SAMPLE
from tests.runners.web.visiting import PATIENCE, plain, visitor

if TYPE_CHECKING:
    from analytics.store.files.backend import ObjectUrl
    from tests.runners.web.visiting import Page, Visitor

pytestmark = pytest.mark.extras

ROUND_ROBIN, SQUARE, SWEEP = "8d1cb3670fa3", "2a6d3741319d", "fe6afc128298"
GAME = f"/browse/games/{ROUND_ROBIN}/8"
PAGES = (
    "/",
    "/browse",
    "/browse/agent?agent=semi_random",
    f"/browse/runs/{ROUND_ROBIN}",
    f"/browse/compare?run=d2a027fc112c&run={SQUARE}",
    "/browse/games",
    GAME,
    "/browse/openings?position=0.../..../..../.... F",
    *(f"/browse/results/{slug}" for slug in ("crosstable", "ratings", "mistakes")),
    "/browse/insights",
    "/browse/insights?agent=dumb",
    "/browse/sweeps",
    f"/browse/sweeps/{SWEEP}",
    "/browse/policies",
    "/ask",
)
MOST_BYTES = 200_000
FROM_ELSEWHERE = re.compile(r'(?:src|href|action)="(?:https?:)?//|url\(|\sstyle="|<style|<script(?! src="/static/)')


def links(page: Page) -> set[str]:
    return {html.unescape(link).partition("#")[0] for link in re.findall(r'href="(/(?:browse|ask)[^"]*)"', page.text)}


def test_runs_that_are_ticked_are_compared(reader: Visitor) -> None:
    runs = reader.ready("/browse").text
    assert re.findall(r'name="run" value="([0-9a-f]{12})"', runs).count(SQUARE) == 1
    page = reader.ready(f"/browse/compare?run=d2a027fc112c&run={SQUARE}").text
    assert "rules: squares" in page
    for wrong, status in ((f"?run={SQUARE}", 400), ("", 400), (f"?run={SQUARE}&run=000000000000", 404)):
        assert reader.ready(f"/browse/compare{wrong}").status == status


def test_every_page_is_small_and_leads_to_pages_that_are_there(reader: Visitor) -> None:
    seen: set[str] = set()
    for path in PAGES:
        page = reader.ready(path)
        assert (page.status, page.line) == (200, ""), path
        assert len(page.text.encode()) < MOST_BYTES, path
        assert not FROM_ELSEWHERE.search(page.text), path
        assert page.text.count("<h1") == 1
        kinds = {re.sub(r"[0-9a-f]{12}|\d+", "N", link.partition("?")[0]): link for link in links(page)}
        for kind, link in kinds.items():
            if kind not in seen:
                seen.add(kind)
                assert reader.get(link).status == 200, link
    assert len(seen) > 15


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/browse/runs/abc", "404 run 'abc' is not in archive"),
        ("/browse/results/luck", "404 'luck' is no section of a report; valid: crosstable"),
        ("/browse/results/crosstable?rules=chess", "400 no games were played by rules 'chess' here"),
        (f"/browse/games/{ROUND_ROBIN}/123456", "404 run 8d1cb3670fa3 has no game 123456"),
        (f"/browse/games/{ROUND_ROBIN}/x", "400 game_id='x'"),
        ("/browse/openings?position=x", "must have 2 or 3 fields"),
        ("/browse/sweeps/x", "404 sweep 'x' is not in archive"),
        ("/browse/policies/x", "404 policy 'x' is not in archive"),
        ("/browse/agent?agent=semi_randon", "404 agent 'semi_randon' has not played in this archive; did you mean"),
        ("/browse/agent?agent=dumb&rules=square", "404 agent 'dumb' has not played in this archive under square rules"),
        (
            "/browse?sort=luck",
            "400 runs cannot be sorted by 'luck'; valid: agents, begun (UTC), code, first one's score, %",
        ),
        ("/browse?show=luck", "400 column 'luck' does not exist; valid: begun (UTC), code"),
    ],
)
def test_a_wrong_address_is_one_line(reader: Visitor, path: str, line: str) -> None:
    page = reader.get(path)
    assert line in f"{page.status} {page.line}"
    assert '<a class="button" href="/browse">Browse</a>' in page.text


def test_filters_that_no_game_meets_stay_in_their_form(reader: Visitor) -> None:
    for query, status, line in (
        ("agent=nobody", 200, ""),
        ("agent=nobody&run=abc", 404, "run 'abc' is not in archive"),
        ("agent=nobody&result=best", 400, "a result is one of won, drawn, lost"),
        ("agent=nobody", 400, "agent 'nobody' is not in these runs"),
    ):
        page = reader.get(f"/browse/{'games' if 'not in these' not in line else 'openings'}?{query}")
        assert page.status == status
        assert page.line.startswith(line)
        assert 'name="agent" value="nobody"' in page.text


def test_an_empty_archive_invites(reader: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in (tmp_path / "nothing", ArchiveStore.open(tmp_path / "empty", create=True).root):
        monkeypatch.setattr(reader.site.get_or_create_service(ArchiveService), "snapshots", SnapshotService(root))
        for path in ("/browse", "/browse/openings", "/browse/results/ratings", f"/browse/runs/{SQUARE}"):
            page = reader.get(path)
            assert page.status == 200
            assert "There are no games in this archive yet" in page.text
            assert f"games=10000 --archive {reader.site.options.archive}" in page.text


def test_an_archive_that_takes_long_to_open_is_waited_for_in_sight(
    reader: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open = threading.Event()

    def slowly(*arguments: Any, **options: Any) -> OpenArchive:
        may_open.wait(60)
        return OpenArchive(*arguments, **options)

    monkeypatch.setattr("runners.web.archive.snapshots.REOPEN_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("runners.web.archive.snapshots.OpenArchive", slowly)
    late = "/analyse?line=C.d2.B.a3.4.c2.0.b3.F.d3.3.a2.8.b4.E.c1.1.a1.6.d4.9&at=21"
    with visitor(reader.site.options.archive) as guest:
        for path, text in (
            ("/browse", "Opening the archive"),
            ("/", "The archive is being opened"),
            (late, "Counting games"),
        ):
            page = guest.get(path)
            assert page.refreshes, path
            assert text in page.text
        may_open.set()
        assert "5 of 5 runs" in plain(guest.ready("/browse").text)
        assert "Latest runs" in guest.ready("/").text
        assert "Counting games" not in guest.ready(late).text


def test_a_tint_lies_on_the_colour_of_a_cell_and_does_not_replace_it(reader: Visitor) -> None:
    tints = re.findall(r"\.(?:better|worse)-\d \{ ([\w-]+):", reader.client.get("/browse/charts.css").text)
    assert tints == 10 * ["background-image"]


def test_charts_name_only_colours_that_pages_have(reader: Visitor) -> None:
    named = set(re.findall(r"var\((--\w+)\)", reader.client.get("/browse/charts.css").text))
    assert named
    assert named <= set(re.findall(r"(--\w+):", reader.client.get("/static/style.css").text))


def test_filters_change_what_is_shown(reader: Visitor) -> None:
    runs = reader.get("/browse", rules="square")
    assert "2 of 5 runs, with 2,000 games" in plain(runs.text)
    assert "No run meets these filters" in reader.get("/browse", text="nothing").text
    games = reader.get("/browse/games", agent="dumb", result="drawn")
    assert re.search(r"(\d+) games", plain(games.text))
    position = "0.../..../..../.... F"
    for agent in ("dumb", "random"):
        page = reader.get("/browse/openings", position=position, agent=agent)
        with open_archive(SAMPLE) as opened:
            rows = asked_openings(opened, position, games=GameFilter(agent=agent), with_samples=False)
        assert f"Placements in {rows['games'].sum():,} games" in page.text
        first = rows.row(0, named=True)
        assert f"{first['cell']}, empty: {first['games']:,} games" in page.text


def test_runs_are_sorted_by_the_score_of_their_first_agent(reader: Visitor) -> None:
    page = plain(reader.get("/browse?sort=-first+one's+score,+%25").text)
    scores = [float(text) for text in re.findall(r"semi_random , random (\d\d\.\d\d) ", page)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)


def test_the_page_of_an_agent_has_its_results_as_it_sees_them(reader: Visitor) -> None:
    page = plain(reader.ready("/browse/agent?agent=random&rules=classic").text)
    assert re.search(r"rank 4 of 4 under classic rules; [\d,]+ games a second", page)
    assert "Openings, the best for random first" in page
    with open_archive(SAMPLE) as opened:
        games, score = opened.sql(
            "SELECT count(*), 100 * avg(score) FROM seats JOIN games USING (run_id, game_id) JOIN runs USING (run_id) "
            "WHERE runs.rules = 'classic' AND seats.agent = 'random' AND seats.opponent = 'dumb'"
        ).row(0)
    assert f"dumb {games:,} {score:.2f} " in page


def test_the_first_page_shows_the_latest_runs_and_the_best_agents(reader: Visitor) -> None:
    page = plain(reader.ready("/").text)
    assert "Latest runs" in page
    assert re.search(r"Best agents, classic rules semi_random [\d.]+ Elo rule_based", page)
    assert "Playing now" not in page


def test_the_best_agents_of_the_first_page_are_those_with_a_rank(tmp_path: Path) -> None:
    write_uneven_archive(tmp_path / "games")
    with open_archive(tmp_path / "games") as opened:
        best = compute_ratings(opened, rules="classic").ranked[:5]
    with visitor(tmp_path / "games") as ada:
        page = plain(ada.ready("/").text)
    listed = " ".join(f"{rating.agent} {format_elo(rating.elo.mean)} Elo" for rating in best)
    assert f"Best agents, classic rules {listed} {RANKING_RULE[0].upper()}{RANKING_RULE[1:]}." in page


def test_without_an_agent_of_a_rank_the_first_page_says_so(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "games", create=True)
    archive.write_run_and_unit_count(record(status="complete"))
    store(archive, RUN_ID, [random_block(1, 0)])
    with visitor(tmp_path / "games") as ada:
        page = plain(ada.ready("/").text)
    assert f"Best agents, classic rules No agent has a rank yet: {RANKING_RULE}." in page


def test_pages_show_what_can_be_read_name_what_is_damaged_and_see_it_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(snapshots, "FAILED_PAUSE_FACTOR", 0)
    root = tmp_path / "sample"
    shutil.copytree(SAMPLE, root)
    record = root / "runs" / f"{SQUARE}.json"
    shard, games = (min((root / table / f"run={ROUND_ROBIN}").iterdir()) for table in ("plies", "games"))
    contents = {path: path.read_bytes() for path in (record, shard, games)}
    with visitor(root) as guest:
        record.write_bytes(b"{")
        for path in ("/browse", "/browse/games", "/browse/results/crosstable", "/browse/openings"):
            page = guest.ready(path)
            assert (page.status, str(record) in page.text) == (200, True), path
        assert "4 of 4 runs" in plain(guest.ready("/browse").text)
        record.write_bytes(contents[record])
        assert "5 of 5 runs" in plain(guest.ready("/browse").text)
        for file, game in ((shard, 8), (games, 9)):  # what was asked before is remembered
            file.write_bytes(contents[file][:-100])
            assert guest.ready(f"/browse/games/{ROUND_ROBIN}/{game}").status == 500
            listed = guest.ready("/browse/games")
            assert (listed.status, str(games) in listed.text) == (200, file == games)
            for board in ("/analyse?text=0.../..../..../.... F", "/browse/openings?position=0.../..../..../.... F"):
                shown = guest.ready(board)
                assert (shown.status, 'data-name="b1"' in shown.text) == (200, True)
            file.write_bytes(contents[file])
            assert guest.ready(f"/browse/games/{ROUND_ROBIN}/{game}").status == 200


def test_the_first_page_stands_and_others_name_the_damage_if_no_record_can_be_read(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "games", create=True)
    archive.write_run_and_unit_count(record())
    store(archive, RUN_ID, [random_block(1, 0, 0, 2)])
    (file,) = (tmp_path / "games" / "runs").glob("*.json")
    for damaged in (file.read_text().replace('"label": "', '"label": "\\u001b[31m', 1), "{"):
        assert damaged != file.read_text()
        file.write_text(damaged)
        with visitor(archive.root) as guest:
            assert guest.ready("/").status == 200
            for path in ("/browse/games", "/browse/openings", "/browse/results/crosstable"):
                assert f"{file.name} is damaged" in plain(guest.ready(path).text), path


def test_the_first_page_shows_the_standings_of_a_tournament_that_is_played(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "games", create=True)
    archive.write_run_and_unit_count(
        structs.replace(record(), status="running", games=10_000, created=format_current_time())
    )
    store(archive, RUN_ID, [random_block(1, 0, 0, 2)])
    with visitor(archive.root) as guest:
        page, end = guest.get("/"), time.monotonic() + PATIENCE
        while "Scores of all agents" not in page.text and time.monotonic() < end:  # it loads itself while a run plays
            time.sleep(0.05)
            page = guest.get("/")
        words = plain(page.text)
    assert f"Playing now: run {RUN_ID}" in words
    assert "4 of 30,000 games" in words
    assert "Scores of all agents against each other, in %" in words


def test_a_run_that_was_killed_does_not_say_for_ever_that_it_is_running(tmp_path: Path) -> None:
    archive = ArchiveStore.open(tmp_path / "games", create=True)
    archive.write_run_and_unit_count(
        structs.replace(record(), status="running", games=10_000, created=format_current_time())
    )
    store(archive, RUN_ID, [random_block(1, 0, 0, 2)])
    with visitor(archive.root) as guest:
        words = plain(guest.ready("/browse").text)
        assert "4 of 30,000" in words
        assert ", running" in words
    for file in (tmp_path / "games").rglob("*.parquet"):
        os.utime(file, (0, time.time() - 1100))
    archive.write_run_and_unit_count(
        structs.replace(record(), status="running", games=10_000, created="2026-01-31T12:00:00+00:00")
    )
    with visitor(archive.root) as guest:
        for path in ("/browse", f"/browse/runs/{RUN_ID}"):
            words = plain(guest.ready(path).text)
            assert "no new games for 18 min" in words
            assert "4 of 30,000" in words


def test_a_logged_game_is_replayed_with_the_mistakes_of_its_players(reader: Visitor) -> None:
    page = reader.ready(GAME)
    words = plain(page.text)
    assert "random won after 14 plies (line), classic rules" in words
    assert "random made 3 mistakes, giving up 3 half-points; dumb made 2 mistakes, giving up 4 half-points." in words
    assert page.says.startswith("random has won")
    assert len(re.findall(r'class="move [^"]*" href', page.text)) == 28
    with_mistake = re.search(r'href="([^"]+)" data-key="N"', page.text)
    assert with_mistake
    assert "which turned a" in reader.ready(html.unescape(with_mistake[1])).says
    begin = reader.ready(f"{GAME}?ply=0")
    assert begin.says.startswith("dumb to place A: draw.")
    branch = reader.ready(f"{GAME}?fork=1&branch=d4&at=2")
    assert (branch.status, branch.says.startswith("dumb to give a piece")) == (200, True)
    assert "Back to the main line" in branch.text
    for shows, texts in (("", 1), ("?shows=boards", 14), ("?shows=moving", 14)):
        assert f'href="{GAME}/picture.svg{shows}"' in page.text
        picture = reader.client.get(f"{GAME}/picture.svg{shows}")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert picture.text.count("<text") == texts
    style = re.findall(r"<style>(.*?)</style>", picture.text)[0].encode()
    allowed = f"style-src 'sha256-{b64encode(sha256(style).digest()).decode()}'"
    assert {*picture.headers["content-security-policy"].split("; ")} >= {"default-src 'none'", allowed}


def test_ten_slow_questions_do_not_keep_a_page_waiting(reader: Visitor) -> None:
    service = reader.site.get_or_create_service(QuestionService)
    usual, service.pool = (
        service.pool,
        SqlProcessPool(reader.site.options.archive, QuestionLimits(seconds=1.0, processes=2)),
    )
    reader.get("/browse")
    texts = [f"SELECT levenshtein(repeat('a', 100000), repeat('b', 100000)) + {number} AS m" for number in range(10)]
    threads = [threading.Thread(target=reader.send, args=("/ask",), kwargs={"q": text}) for text in texts]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    assert reader.get("/browse", text="random").status == 200
    waited = time.monotonic() - started
    for thread in threads:
        thread.join()
    service.pool.close()
    service.pool = usual
    assert waited < 1


def test_a_busy_server_says_when_to_ask_again(reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    content = reader.site.get_or_create_service(ArchiveService).snapshots.load_snapshot()
    assert content is not None
    monkeypatch.setattr(content, "_waiting", threading.BoundedSemaphore(1))
    assert content._waiting.acquire()
    address = "/browse/games?result=drawn&agent=dumb&rules=classic"
    page = reader.get(address)
    assert (page.status, page.headers["retry-after"]) == (503, "3")
    assert "busy with other requests" in page.line
    assert links(page) == {address, "/browse", "/ask", "/browse/charts.css"}
    service = reader.site.get_or_create_service(QuestionService)
    monkeypatch.setattr(service._background, "_most_waiting", 0)
    page = reader.send("/ask", q="SELECT 'a question that nobody asked'")
    assert (page.status, page.headers["retry-after"]) == (503, "3")
    assert "try again in a moment" in page.line


def test_an_archive_in_a_bucket_is_shown_and_opened_again_as_time_goes(
    bucket: ObjectUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ArchiveStore.open(bucket / "archive", create=True)
    archive.write_run_and_unit_count(record())
    store(archive, RUN_ID, [random_block(1, 0, 0, 2)])
    with visitor(archive.root) as guest:
        assert "1 of 1 run, with 4 games" in guest.ready("/browse").text
        game = guest.ready(f"/browse/games/{RUN_ID}/0")
        assert game.status == 200
        assert "made" in game.text
        (count,) = re.findall(r"<th[^>]*>(\d+)</th>", guest.send("/ask", q="SELECT count(*) FROM plies").text)
        assert int(count) > 8
        store(archive, RUN_ID, [random_block(1, 1, 0, 2)])
        monkeypatch.setattr(snapshots, "REMOTE_SECONDS", 0.5)
        end = time.monotonic() + PATIENCE
        while "with 8 games" not in guest.ready("/browse").text:
            assert time.monotonic() < end
            time.sleep(0.1)
