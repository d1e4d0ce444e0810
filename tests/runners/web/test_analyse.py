"""The analysis pages say what `qarena solve` and `qarena openings` say, and their searches end."""

from __future__ import annotations

import html
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics import open_archive
from analytics.questions.openings import explore_position
from analytics.store.marker import read_marker_content
from quarto.notation import format_position
from quarto.rules import CLASSIC
from quarto.solver.solver import Solver
from runners.web.analyse import searches
from runners.web.background import IDLE_REASON
from tests.naive import PRESETS
from tests.positions import list_positions
from tests.runners.experiments import play
from tests.runners.web.visiting import PATIENCE, Page, plain, visitor

if TYPE_CHECKING:
    from tests.runners.conftest import Qarena
    from tests.runners.web.visiting import Visitor

pytestmark = pytest.mark.extras

GAME = "C@d2 B@a3 4@c2 0@b3 F@d3 3@a2 8@b4 E@c1 1@a1 6@d4 9@a4"
HARD = "..../..../..../.... - own_piece"  # no tablebase ships: twenty seconds


def read_badges(page: Page) -> dict[str, str]:
    """Read the value in the label of each cell and piece."""
    matches = {name: re.search(r": ((?:win|loss) in \d+|draw)$", label) for name, label in page.labels().items()}
    return {name: value[1] for name, value in matches.items() if value}


def format_value(value: int, distance: int) -> str:
    return "draw" if value == 0 else f"{'win' if value > 0 else 'loss'} in {distance}"


def parse_solved_values(answer: dict[str, Any]) -> dict[str, str]:
    """Find the value of each cell or gift in an answer of `qarena solve`, which lists the best turns first."""
    values: dict[str, str] = {}
    for move in answer["moves"]:
        text = format_value(move["value"], move["distance"])
        for name in (move.get("cell"), move.get("gift")) if "cell" not in move else (move["cell"],):
            if name:
                values.setdefault(name, text)
    return values


def test_twenty_positions_have_the_values_that_qarena_solve_gives(
    reader: Visitor, qarena: Qarena, tmp_path: Path
) -> None:
    texts = [format_position(position) for position in list_positions(CLASSIC, 3) if position.occupied.bit_count() > 4][
        ::2
    ]
    texts = texts[:20]
    assert len(texts) == 20
    (tmp_path / "positions.txt").write_text("\n".join(texts))
    answers = [
        json.loads(line) for line in qarena("solve", "--file", "positions.txt", "--memory", "4MiB").out.splitlines()
    ]
    for text, answer in zip(texts, answers, strict=True):
        page = reader.ready("/analyse", text=text)
        value = format_value(answer["value"], answer["distance"])
        assert page.says.partition(".")[0].endswith(f": {value}")
        assert read_badges(page) == parse_solved_values(answer), text
        rows = re.findall(r"<tr>(.*?)</tr>", page.text, re.DOTALL)
        for move in (move for move in answer["moves"] if "cell" in move and "gift" in move):
            shown = next(row for row in rows if f">{move['cell']}</a>" in row)
            kept = [plain(cell) for cell in re.findall("<td>(.*?)</td>", shown, re.DOTALL)][2:]
            gifts = sorted({turn["gift"] for turn in answer["moves"] if "gift" in turn})
            assert kept[gifts.index(move["gift"])] == format_value(move["value"], move["distance"]).replace(" in", "")


def test_where_the_mover_chooses_the_piece_each_piece_and_then_each_cell_has_its_value(
    reader: Visitor, qarena: Qarena
) -> None:
    rules = PRESETS["own_piece"]
    position = next(candidate for candidate in list_positions(rules, 3) if candidate.occupied.bit_count() == 9)
    text = format_position(position, rules.name)
    answer = json.loads(qarena("solve", text, "--json", "-", "--memory", "4MiB").out)
    page = reader.ready("/analyse", text=text)
    of_pieces: dict[str, str] = {}
    for move in answer["moves"]:
        of_pieces.setdefault(move["gift"], format_value(move["value"], move["distance"]))
    assert {name: value for name, value in read_badges(page).items() if len(name) == 1} == of_pieces
    piece = next(iter(of_pieces))
    chosen = reader.ready(f"{page.url}&piece={piece}")
    cells = {
        move["cell"]: format_value(move["value"], move["distance"]) for move in answer["moves"] if move["gift"] == piece
    }
    assert {name: value for name, value in read_badges(chosen).items() if len(name) == 2} == cells


def test_the_share_of_safe_gifts_and_of_those_that_keep_the_value(reader: Visitor) -> None:
    page = reader.ready("/analyse", text="F@b1 3@b2 7@b4")
    assert "Safe gifts: 4 of 13 (31 %). Gifts that keep the value: 4 of 13." in page.says
    assert "Safe gifts" not in reader.ready("/analyse", text="F@b1 3@b2 7@b4 0").says


def test_a_game_is_stepped_through_with_its_mistakes(reader: Visitor, qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "games.txt").write_text(f"[agent_0=a] [agent_1=b] {GAME}\n")
    assert qarena("archive", "import", "games.txt", "--archive", "games").code == 0
    assert qarena("annotate", "--archive", "games").code == 0
    with open_archive("games") as opened:
        wrong = opened.sql(
            "SELECT 2 * ply + (kind = 'placement')::INT, regret FROM decisions WHERE regret > 0 ORDER BY 1"
        )
    assert len(wrong) > 1
    page = reader.ready("/analyse", text=f"[agent_0=a] [agent_1=b] {GAME}")
    marks = re.findall(r'class="move [^>]*>\s*(\w+)(?:<b>(\?+)</b>)?', page.text.partition("legend")[0])
    assert [word for word, _ in marks] == GAME.replace("@", " ").split()
    assert [(at, len(mark)) for at, (_, mark) in enumerate(marks) if mark] == wrong.rows()
    at = []
    while "Next mistake" in page.text:
        match = re.search(r'href="([^"]+)" data-key="n"', page.text)
        if not match:
            break
        page = reader.ready(match[1].replace("&amp;", "&"))
        at.append(int(page.query["at"]))
        assert "which turned a" in page.says
    assert at == wrong.to_series(0).to_list()
    match = re.search(r'href="([^"]+)" data-key="N"', page.text)
    assert match
    assert f"at={at[-2]}" in match[1]


def test_what_the_players_expected_goes_through_the_graph_and_not_through_a_branch(tmp_path: Path) -> None:
    players = "agents=[{agent:alpha_beta,depth:2},{agent:alpha_beta,depth:1}]"
    run = play(
        tmp_path / "games", players, "games=2", "opening_plies=1", "threads=1", "archive.evaluations=true"
    ).run_id
    with open_archive(tmp_path / "games") as opened:
        logged = opened.sql(
            "SELECT ply, seat, value FROM evaluations WHERE game_id = 0 AND value IS NOT NULL ORDER BY ply"
        )
        last = opened.sql("SELECT 2 * plies - 1 FROM games WHERE game_id = 0").item()
    with visitor(tmp_path / "games") as reader:
        page = reader.ready(f"/browse/games/{run}/0")
        for seat, sign in ((0, 1), (1, -1)):
            points = [
                f"{min(2 * ply + 2, last) + 0.5:g},{1 - sign * value:.3f}"
                for ply, of, value in logged.rows()
                if of == seat
            ]
            drawn = re.search(rf'<polyline class="of-{seat}" points="([^"]*)"', page.text)
            assert (drawn[1] if drawn else "") == (" ".join(points) if len(points) > 1 else "")
        assert "<polyline" in page.text
        branch = re.search(r'href="([^"]+branch=[^"]+)"', reader.ready(f"/browse/games/{run}/0?at=4").text)
        assert branch
        assert "<polyline" not in reader.ready(branch[1].replace("&amp;", "&")).text


def test_another_decision_begins_a_branch_and_one_can_leave_it(reader: Visitor) -> None:
    page = reader.ready("/analyse", text=f"{GAME}")
    page = reader.ready(f"{page.url}&at=4")
    assert 'id="piece-button-4" class="slot left played"' in page.text

    def link(name: str) -> str:
        match = re.search(rf'data-name="{name}" aria-label="[^"]*" data-quick href="([^"]+)"', page.text)
        assert match, name
        return match[1].replace("&amp;", "&")

    assert "branch" not in link("4")
    page = reader.ready(link("5"))
    assert (page.query["fork"], page.query["branch"], page.query["at"]) == ("4", "5", "5")
    page = reader.ready(link("d4"))
    assert page.query["branch"] == "5.d4"
    assert "<code>C@d2 B@a3 5@d4</code>" in page.text
    leave = re.search(r'href="([^"]+)" data-key="ArrowUp"', page.text)
    assert leave
    back = reader.ready(leave[1].replace("&amp;", "&"))
    assert (back.query.get("branch"), back.query["at"]) == (None, "4")


def test_the_archive_says_what_was_played_here(reader: Visitor) -> None:
    for text, column in (("..../..../..../.... 0", "cell"), ("0.../..../..../.... -", "gift")):
        with open_archive(reader.site.options.archive) as opened:
            rows = explore_position(opened, text, with_samples=False)
        for page in (reader.ready("/analyse", text=text), reader.ready("/browse/openings", position=text)):
            table = page.text.partition("in %, for the")[2].partition("</table>")[0]
            shown = [
                [plain(cell) for cell in re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in table.split("<tr>")
            ]
            assert [row[0] for row in shown[2:]] == rows[column].to_list()
            assert [row[2] for row in shown[2:]] == [f"{games:,}" for games in rows["games"]]
            assert [row[4] for row in shown[2:]] == [f"{100 * score:.2f}" for score in rows["score"]]
    assert "No decision was made in" in reader.ready("/analyse", text="F@b1 0@b2 3@c3 C@d4 5@a1 A@d3 6").text


def test_an_empty_archive_names_the_command_that_fills_it(ada: Visitor) -> None:
    assert "qarena run rule_based random games=10000 fills it" in ada.ready("/analyse").text
    assert read_marker_content(ada.site.options.archive) is None


def test_several_games_of_a_text_are_a_choice(reader: Visitor) -> None:
    page = reader.get("/analyse", text=f"# games\n{GAME}\n\n[rules=square] F@b1 3@b2\nF@b9\n..../..../.3../.... 7")
    assert page.text.count("<li value=") == 4
    assert page.text.count("data-quick") == 3
    assert "cell &#39;b9&#39; is not one of a1 to d4" in page.text
    assert "rules=square&amp;line=F.b1.3.b2" in page.text


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"text": ""}, "nothing was pasted"),
        ({"text": "F@b1 3@b1"}, "cell 'b1' was already taken at ply 0"),
        ({"text": "F@b1 F"}, "is on the board already"),
        ({"text": "...F/.3../.... 7"}, "rows with / between them: 3 instead of 4"),
        ({"text": "..../..../..../.... - nothing"}, "rules 'nothing' does not exist"),
        ({"text": "[agent=a] F@b1"}, "tag 'agent' is not known"),
        ({"text": "..../..../..../.... 7 own_piece"}, "the mover chooses the piece"),
        ({"text": f"{GAME} 2@b1"}, "the game is over, and '2' comes after its end"),
        ({"text": "\n".join(["F@b1"] * 300)}, "300 lines are more than 200"),
        ({"line": "F.b1.3.b1"}, "b1 is taken by piece F"),
        ({"line": "F.3"}, "'3' is not a cell a1 to d4: place F on one of"),
        ({"line": "F.<b>"}, "'<b>' is not a decision"),
        ({"line": "F.b1", "at": "3"}, "at '3' is not a whole number from 0 to 2"),
        ({"line": "F", "fork": "-1"}, "fork '-1' is not a whole number"),
        ({"line": "F.b1", "fork": "1", "branch": "b9"}, "'b9' is not a decision"),
        ({"start": "nonsense"}, "position 'nonsense' must have 2 or 3 fields and has 1"),
        ({"seconds": "9999"}, "seconds '9999' is not one of 5, 20, 60, 300"),
        ({"rules": "../x"}, "rules '../x' does not exist"),
    ],
)
def test_a_wrong_text_or_address_is_one_line(reader: Visitor, values: dict[str, str], line: str) -> None:
    page = reader.get("/analyse", **values)
    assert page.status == 400
    assert line in page.line
    if values.get("text"):  # it can be mended where it is
        assert f"{values['text'].splitlines()[0]}" in html.unescape(page.text.partition("<textarea")[2])


def test_a_finished_game_has_no_values_and_says_who_won(reader: Visitor) -> None:
    page = reader.ready("/analyse", text=GAME)
    page = reader.ready(f"{page.url}&at=22")
    assert page.says.startswith("Seat ")
    assert "has won" in page.says
    assert read_badges(page) == {}


def test_a_search_shows_the_value_first_then_turns_then_how_soon_they_end_the_game() -> None:
    solver = Solver(CLASSIC, 1.0)
    solutions = list(searches.solve_in_stages(solver, searches.WARM_UP_POSITION))
    assert len({solution.value for solution in solutions}) == 1
    assert [bool(solution.turns) for solution in solutions] == [False, True, True]
    assert [solution.distance is not None for solution in solutions] == [False, False, True]


def count_nodes(visitor: Visitor) -> int:
    """Count the positions that the current searches have visited."""
    return sum(solver.nodes for solver in visitor.site.get_or_create_service(searches.SearchService).active_solvers)


def wait_until(done: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_search_that_nobody_looks_at_or_that_is_stopped_stops_searching(
    ada: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ada.site.get_or_create_service(searches.SearchService)
    page = ada.get("/analyse", text=HARD)
    assert page.refreshes
    assert "Still searching" in page.text
    wait_until(lambda: count_nodes(ada) > 0)
    ada.client.post(page.url, data={"token": ada.site.token, "command": "stop"})
    wait_until(lambda: not service.active_solvers)
    page = ada.get(page.url)
    assert "The search ended before it was done: you stopped it" in page.text
    assert "Search longer, 60 s" in page.text
    assert not page.refreshes
    page = Page(ada.client.post(page.url, data={"token": ada.site.token, "command": "again"}))
    assert page.refreshes
    assert "Still searching" in page.text
    ada.client.post(page.url, data={"token": ada.site.token, "command": "stop"})
    wait_until(lambda: not service.active_solvers)
    assert ada.get("/analyse", text=f"7{HARD[1:]}").refreshes
    monkeypatch.setattr(service.pool, "_idle_seconds", 0.1)
    (job,) = [candidate for candidate in service.pool._jobs.values() if not candidate.ended]
    wait_until(lambda: not service.active_solvers)
    assert job.reason == IDLE_REASON
    wait_until(lambda: job.ended)
