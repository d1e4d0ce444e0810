"""Requests that do not come from our own pages are refused, and our pages load nothing from other servers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.routing import Route

from quarto.errors import RequestError
from runners.authoring.new_agent import create_and_describe_agent_files
from runners.web.application import ROUTERS
from runners.web.page_rendering import parse_whole_number
from runners.web.play.games import WebGameService
from tests.runners.web.visiting import Page, visitor

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runners.web.visiting import Visitor


pytestmark = pytest.mark.extras


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "192.168.0.7:8000"]
)
def test_a_foreign_host_is_refused(reader: Visitor, host: str) -> None:
    answer = reader.client.get("/play", headers={"host": host})
    assert answer.status_code == 403
    assert answer.text.count("\n") == 1
    assert "does not name this server" in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:9000", "[::1]:8000", "LOCALHOST"])
def test_our_own_names_are_served_through_any_port(reader: Visitor, host: str) -> None:
    assert reader.client.get("/play", headers={"host": host}).status_code == 200


def test_where_others_may_connect_only_names_that_are_no_addresses_are_foreign(tmp_path: Path) -> None:
    with visitor(tmp_path / "games", host="0.0.0.0") as ada:  # noqa: S104  (the test is about it)
        for host, status in (("192.168.0.7:8000", 200), ("[fe80::1]:8000", 200), ("evil.example", 403)):
            assert ada.client.get("/play", headers={"host": host}).status_code == status


def test_where_others_may_connect_only_built_in_agents_play(tmp_path: Path) -> None:
    create_and_describe_agent_files("corner", "choose", tmp_path / "mine")
    folder = write_stranger(tmp_path)
    with visitor(tmp_path / "games", host="0.0.0.0", config_dir=tmp_path / "mine") as ada:  # noqa: S104  (as above)
        offered = ada.get("/play").text
        assert ">rule_based</option>" in offered
        for name in ("polito", "corner"):
            assert f">{name}</option>" not in offered
            assert "it runs third-party code" in ada.get("/play", agent=name).line
        polito = f"polito(folder={folder},player=stranger.Player)"
        for label in ("polito", polito, "corner", f"oracle(horizon=4,below='{polito}')", "oracle(below=corner)"):
            page = ada.begin(label)
            assert page.status == 400, label
            assert re.search("it runs third-party code|code that this project does not vouch for", page.line), label
    assert not (folder / "ran").exists()


def test_a_link_of_another_site_starts_no_program_and_writes_nothing(tmp_path: Path) -> None:
    folder = write_stranger(tmp_path)
    from_elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with visitor(tmp_path / "games", trust_agents=True) as ada:
        setup = {"agent": f"polito(folder={folder},player=stranger.Player)", "rules": "classic", "seat": "0"}
        query = {**setup, "seed": "1", "name": "me", "number": "0", "id": "A" * 22, "moves": "F"}
        for path in ("/play", "/play/game", "/play/game?hint=1", "/play/begun/AAAAAAAAAAAAAAAAAAAAAA"):
            answer = ada.client.get(path, params=query, headers=from_elsewhere)
            assert answer.status_code == (404 if "begun" in path else 200)
        assert "Continue this game?" in ada.get("/play/game", **query).text
        assert not (tmp_path / "games").exists()
        assert not (folder / "ran").exists()
        ada.send(ada.get("/play/game", **query).url, command="open")
        assert (folder / "ran").exists()


def test_a_form_starts_no_program_either_unless_the_server_was_told_so(tmp_path: Path) -> None:
    create_and_describe_agent_files("corner", "choose", tmp_path / "mine")
    folder = write_stranger(tmp_path)
    with visitor(tmp_path / "games", config_dir=tmp_path / "mine") as ada:
        for label in (f"polito(folder={folder},player=stranger.Player)", "corner", "oracle(below=corner)"):
            page = ada.begin(label)
            assert (page.status, "allow it with --trust-agents" in page.line) == (400, True), label
    assert not (folder / "ran").exists()


def write_stranger(tmp_path: Path) -> Path:
    """Write a player whose module creates a file when it is imported, and return its folder."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "stranger.py").write_text(
        "import quarto, pathlib\n"
        "pathlib.Path(__file__).with_name('ran').touch()\n"
        "class Player(quarto.Player):\n"
        "    def choose_piece(self): return 0\n"
        "    def place_piece(self): return 0, 0\n"
    )
    return folder


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:9999", "http://localhost:8000"]
)
def test_a_form_of_another_site_is_refused(reader: Visitor, origin: str | None) -> None:
    before = dict(reader.client.headers)
    del reader.client.headers["origin"]
    try:
        headers = {} if origin is None else {"origin": origin}
        answer = reader.client.post("/play", data={"token": reader.site.token}, headers=headers)
    finally:
        reader.client.headers.update(before)
    assert answer.status_code == 403
    assert "is not one of this server's own pages" in answer.text


@pytest.mark.parametrize("token", [None, "", "wrong", "\N{SNOWMAN}"])
def test_a_form_without_our_token_is_refused(reader: Visitor, token: str | None) -> None:
    page = Page(reader.client.post("/play", data={} if token is None else {"token": token}))
    assert (page.status, page.line[:39]) == (403, "This page is from before the server was")
    assert "Access-Control-Allow-Origin" not in page.headers


def test_other_sites_can_link_to_us_and_load_nothing(reader: Visitor) -> None:
    def status(path: str, site: str, mode: str, destination: str) -> int:
        headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": destination}
        return int(reader.client.get(path, headers=headers).status_code)

    assert status("/play", "cross-site", "navigate", "document") == 200
    assert status("/play", "none", "navigate", "document") == 200
    assert status("/play", "same-origin", "cors", "empty") == 200
    for mode, destination in (("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty"), ("no-cors", "script")):
        assert status("/play", "cross-site", mode, destination) == 403
        assert status("/static/board.js", "same-site", mode, destination) == 403


@pytest.mark.parametrize("path", ["/", "/play", "/analyse", "/nothing", "/static/board.js"])
def test_every_answer_allows_our_own_files_and_nothing_else(reader: Visitor, path: str) -> None:
    page = reader.ready(path)
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {value for name, value in policy.items() if name.endswith("-src")} == {"'none'", "'self'"}
    assert policy["frame-ancestors"] == "'none'"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cross-origin-resource-policy"] == "same-origin"
    if path != "/static/board.js":
        assert not re.search(r"https?://|<style|<script>| style=| on\w+=|javascript:", page.text)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../application.py",
        "/static/%2e%2e/application.py",
        "/static/..%2fapplication.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/",
        "/static",
    ],
)
def test_no_path_leads_out_of_the_static_files(reader: Visitor, path: str) -> None:
    answer = reader.client.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text
    assert "root:" not in answer.text


def test_a_request_that_is_too_large_is_refused(reader: Visitor) -> None:
    assert reader.client.post("/play", data={"token": "x" * (1 << 21)}).status_code == 413

    def endless() -> object:
        for _ in range(40):
            yield b"x" * (1 << 16)

    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert reader.client.post("/play", content=endless(), headers=headers).status_code == 413


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_do_nothing(reader: Visitor, method: str) -> None:
    assert reader.client.request(method, "/play").status_code in (403, 405)


def test_an_unexpected_error_is_one_line(reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    from runners.web.agents_and_rules import AgentsAndRules

    def fail(_self: object, _name: str) -> None:
        raise ZeroDivisionError("half\nway")

    monkeypatch.setattr(AgentsAndRules, "list_agent_parameters", fail)
    page = reader.get("/play")
    assert page.status == 500
    assert page.headers["content-security-policy"]
    assert page.line == "ZeroDivisionError: half way (unexpected; the terminal of qarena serve shows where)"


def test_texts_of_an_address_are_escaped(reader: Visitor) -> None:
    for path in ("/analyse?text=<script>alert(1)</script>/", "/play?agent=<script>", "/<script>alert(1)</script>"):
        page = reader.get(path)
        assert page.status in (400, 404)
        assert "<script>" not in page.text
        assert "script" in page.line


VALUES = {
    "run_id": "8d1cb3670fa3",
    "game_id": "8",
    "sweep_id": "fe6afc128298",
    "slug": "crosstable",
    "identity": "A" * 22,
    "policy": "none",
    "number": "7",
    "puzzle_id": "00000000",
}
LINK = {"agent": "minimax(depth=16)", "rules": "classic", "seat": "1", "seed": "1", "name": "me", "number": "0"}
QUERIES: tuple[dict[str, str], ...] = (
    {},
    LINK | {"id": "A" * 22, "hint": "1"},
    {"q": "SELECT 1 AS x"},
    {"question": "1", "chart": "bars"},
    {"position": ".41B/0FC8/.A.7/563. D", "answer": "yes"},
)


def list_file_times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_no_get_starts_a_program_or_an_agent_or_writes(reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = reader.site.options.archive
    before, started = list_file_times(archive), []  # type: ignore[arg-type]
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: started.append(arguments))
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]
    paths = {"/", *(route.path for route in routes if "GET" in (route.methods or ()))}
    assert {"/play", "/play/game", "/ask", "/ask.csv", "/analyse", "/browse/openings"} <= paths
    for path in sorted(paths):
        for query in QUERIES:
            page = reader.ready(path.format(**VALUES), **query)
            assert page.status < 500, (path, query, page.line)
    jobs = reader.site.get_or_create_service(WebGameService)._background
    assert not started
    assert not jobs._jobs
    assert list_file_times(archive) == before  # type: ignore[arg-type]


def test_a_whole_number_of_an_address_fits_64_bits() -> None:
    largest = (1 << 63) - 1
    assert parse_whole_number({"game_id": str(largest)}, "game_id") == largest
    for text in (str(largest + 1), "-1", "1.0", "\N{ARABIC-INDIC DIGIT ONE}"):
        with pytest.raises(RequestError, match="is not a whole number from 0 to"):
            parse_whole_number({"game_id": text}, "game_id")
