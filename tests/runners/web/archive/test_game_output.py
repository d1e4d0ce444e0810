"""`qarena show`: a game with its boards, its plies, and what each decision gave up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.questions.columns import format_expected_value, format_short_game_name
from analytics.report.board_svg import FINISHED_COLOUR, LAST_COLOUR, render_animated_game_svg, render_stroke_path
from analytics.store.archive import ArchiveStore
from quarto import solve
from quarto.game import Game
from quarto.rules import CLASSIC
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

FROM = 12  # pieces from which the decisions are judged
GAMES = 4


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play games by two rules, and judge those by classic rules from twelve pieces on."""
    folder = tmp_path_factory.mktemp("archive")
    for rules in ("classic", "own_piece"):
        play(folder, "agents=[random,semi_random]", f"games={GAMES}", "opening_plies=4", f"rules={rules}", "threads=1")
    archive = ArchiveStore.open(folder)
    annotate_runs(archive, [of_rules(folder, "classic")], AnnotationOptions(from_pieces=FROM, megabytes=1.0, threads=2))
    return folder


def of_rules(root: Path, rules: str) -> str:
    return next(record.run_id for record in ArchiveStore.open(root).load_runs() if record.rules.name == rules)


def rows(root: Path, question: str) -> list[dict[str, Any]]:
    with open_archive(root) as archive:
        return archive.sql(question).to_dicts()


def read_board_rows(ply: int, out: str) -> list[str]:
    """Read the rows of the board under ``ply``, without marks."""
    lines = out.splitlines()
    top = next(number for number, line in enumerate(lines) if re.search(rf"\bply {ply}(\s\s|$)", line))
    column = re.search(rf"\bply {ply}(\s\s|$)", lines[top]).start()  # type: ignore[union-attr]  # it was found
    return [line[column + 2 : column + 10].ljust(8)[1::2] for line in lines[top + 2 : top + 6]]


def test_a_picture_has_the_board_after_each_ply(qarena: Qarena, root: Path, tmp_path: Path) -> None:
    run = of_rules(root, "classic")
    game = rows(root, f"FROM games WHERE run_id = '{run}' AND ending = 'line' ORDER BY game_id LIMIT 1")[0]
    words = (
        "show",
        *format_short_game_name(run, game["game_id"]).split(),
        "--archive",
        str(root),
        "--output",
        "game.svg",
    )
    assert qarena(*words).code == 0
    picture = ET.fromstring((tmp_path / "game.svg").read_text(encoding="utf-8"))  # noqa: S314  (our own)
    name = "{http://www.w3.org/2000/svg}"
    boards = picture.findall(f"{name}g/{name}g")
    assert [len(board.findall(f"{name}use")) for board in boards] == [*range(1, game["plies"] + 1)]
    fills = [[cell.get("fill") for cell in board.findall(f"{name}rect")] for board in boards]
    assert [(len(cells), cells.count(LAST_COLOUR), cells.count(FINISHED_COLOUR) >= 4) for cells in fills[:-1]] == [
        (16, 1, False)
    ] * (game["plies"] - 1)
    assert fills[-1].count(FINISHED_COLOUR) >= 4
    assert "game.svg exists" in qarena(*words).err


@pytest.mark.parametrize("rules", ["classic", "own_piece"])
def test_a_game_leaves_as_a_picture_that_moves(qarena: Qarena, root: Path, tmp_path: Path, rules: str) -> None:
    run = of_rules(root, rules)
    game = rows(root, f"FROM games WHERE run_id = '{run}' AND ending = 'line' ORDER BY game_id LIMIT 1")[0]
    words = ("show", run, str(game["game_id"]), "--archive", str(root), "--animate")
    assert "--animate is about a picture: write --output FILE.svg" in qarena(*words).refusal
    assert qarena(*words, "--output", "game.svg").code == 0
    text = (tmp_path / "game.svg").read_text(encoding="utf-8")
    moving = [element.attrib["id"] for element in ET.fromstring(text).iter() if element.get("class") == "moves"]  # noqa: S314
    assert sorted(moving) == sorted(re.findall(r"#(\w+)\{animation-name:\1\}", text))
    assert [text.count(f'id="{kind}') for kind in ("stroke", "piece", "text")] == [1, 16 + game["plies"], game["plies"]]
    assert "<script" not in text
    assert "<style>@media (prefers-reduced-motion:no-preference){" in text


def test_names_in_a_moving_picture_are_text_and_no_markup() -> None:
    game = Game(CLASSIC, ((0, 0), (1, 1)))
    svg = render_animated_game_svg(game, ["<script>", "a&b" * 20], "<title>")
    texts = [element.text for element in ET.fromstring(svg).iter() if element.tag.endswith("tspan")]  # noqa: S314  (our own)
    assert texts[0] == "0: <script> gives 0"
    assert texts[1] == "a&ba&ba&ba&ba&ba&b… places it on a1"


def test_a_stroke_goes_through_the_middles_of_its_cells_and_over_the_edges() -> None:
    assert render_stroke_path((0, 1, 2, 3)) == "M0.125 0.5L1.5 0.5L2.5 0.5L3.5 0.5l0.375 0.0"
    assert render_stroke_path((0, 1, 4, 5)) == "M0.5 0.5L1.5 0.5L1.5 1.5L0.5 1.5L0.5 0.5l0.0 -0.0"
    assert render_stroke_path((1, 6, 11, 12)) == "M1.125 0.125L2.5 1.5L3.5 2.5L4.0 3.0M0.0 3.0L0.5 3.5l0.375 0.375"
    assert "L1.5 0.0M1.5 4.0L1.5 3.5" in render_stroke_path((0, 1, 12, 13))


@pytest.mark.parametrize("rules", ["classic", "own_piece"])
def test_a_game_is_shown_board_by_board_and_ply_by_ply(qarena: Qarena, root: Path, rules: str) -> None:
    run = of_rules(root, rules)
    for game in rows(root, f"FROM games WHERE run_id = '{run}'"):
        plies = rows(root, f"FROM plies WHERE run_id = '{run}' AND game_id = {game['game_id']} ORDER BY ply")
        out = qarena("show", *format_short_game_name(run, game["game_id"]).split(), "--archive", str(root)).out
        board = ["."] * 16
        for ply in plies:
            board[ply["cell"]] = f"{ply['piece']:X}"
            assert read_board_rows(ply["ply"], out) == ["".join(board[row : row + 4]) for row in range(0, 16, 4)]
        table = [[word.strip() for word in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
        assert [int(row[0]) for row in table] == [ply["ply"] for ply in plies]
        assert all(game[f"agent_{(ply + 1) % 2}"] in row for ply, row in enumerate(table))
        result = next(line for line in out.splitlines() if re.match(r"A draw|.* wins ", line))
        if game["winner"] < 0:
            assert result.startswith("A draw")
        else:
            winner = game[f"agent_{game['winner']}"]
            assert result.startswith(f"{winner} (seat {game['winner']}) wins at ply {len(plies) - 1}: ")
            assert f"{'abcd'[plies[-1]['cell'] % 4]}{plies[-1]['cell'] // 4 + 1}" in result


def test_the_values_and_losses_are_those_of_the_view_decisions(qarena: Qarena, root: Path) -> None:
    run, regrets = of_rules(root, "classic"), 0
    for game in rows(root, f"FROM games WHERE run_id = '{run}'"):
        decisions = rows(root, f"FROM decisions WHERE run_id = '{run}' AND game_id = {game['game_id']} ORDER BY ply")
        out = qarena("show", f"{run} {game['game_id']}", "--archive", str(root)).out
        for seat in (0, 1):
            lost = [row["regret"] for row in decisions if row["seat"] == seat and row["regret"]]
            regrets += len(lost)
            if decisions:
                assert f"(seat {seat}) lost {sum(lost) or 'no'} half-point" in out
                assert f" in {len(lost) or 'no'} mistake" in out
        words = ("show", run, str(game["game_id"]), "--archive", str(root))
        shown = json.loads(qarena(*words, "--format", "json").out)
        judged = {(row["ply"], row["kind"]): row["regret"] for row in shown if row["regret"] is not None}
        assert judged == {(row["ply"], row["kind"]): row["regret"] for row in decisions}
        with open_archive(root) as archive:
            answer = archive.game(run, game["game_id"])
        assert pl.DataFrame(shown, schema=answer.frame.schema).equals(answer.frame)
        for row in shown:  # the position is the one that the decision was taken in
            if row["value_before"] is not None:
                assert solve(row["position"]).value == row["value_before"]
        assert answer.note.splitlines()[0] in qarena(*words, "--format", "md").out
    assert regrets


def test_evaluations_are_in_columns_and_in_json(qarena: Qarena, tmp_path: Path) -> None:
    games = tmp_path / "games"
    agents = "agents=[{agent:oracle,horizon:9},random]"
    run = play(games, agents, "games=2", "opening_plies=9", "threads=1", "archive.evaluations=true").run_id
    logged = rows(games, f"FROM evaluations WHERE run_id = '{run}' AND game_id = 0 AND ply > 8 ORDER BY ply")
    out = qarena("show", run, "0", "--archive", str(games)).out
    assert "evaluation: the result that the mover expected of its turn" in out
    values = [
        "" if evaluation["value"] is None else format_expected_value(evaluation["value"]) for evaluation in logged
    ]
    table = [re.split(r"\s*[│|]\s*", line.strip()) for line in out.splitlines() if re.match(r"\s*[│|]\s+\d", line)]
    assert [row[-3] for row in table[9:]] == values
    assert any(values)
    decisions = json.loads(qarena("show", run, "0", "--format", "json", "--archive", str(games)).out)
    placements = [row for row in decisions if row["kind"] == "placement"]
    assert [row["evaluation"] for row in placements[9:]] == [row["value"] for row in logged]
    assert [row["seconds"] for row in placements[9:]] == [row["seconds"] for row in logged]
    assert decisions[0]["evaluation"] is None


def test_a_game_is_named_by_a_part_of_its_run_or_with_an_option(qarena: Qarena, root: Path, tmp_path: Path) -> None:
    where, run = ("--archive", str(root)), of_rules(root, "classic")
    shown = qarena("show", run[:6], "3", *where).out
    assert shown.startswith(f"Game {run[:6]} 3: ")
    for other in ((f"{run[:6]} 3",), (run, "3"), ("--run", run, "3")):
        assert qarena("show", *other, *where).out == shown
    assert qarena("show", "3", *where).refusal.startswith("error: there are several runs, name one: ")
    assert f"'qarena archive ls --archive {root}' lists its runs" in qarena("show", "x", "3", *where).refusal
    assert f"run {run} has no game {GAMES} in this archive" in qarena("show", run, str(GAMES), *where).refusal
    assert "write the run and the game's id" in qarena("show", run, "3", "4", *where).refusal
    assert "write the run and the game's id" in qarena("show", run, "third", *where).refusal
    alone = tmp_path / "alone"
    play(alone, "agents=[random,semi_random]", "games=2", "threads=1")
    assert qarena("show", "1", "--archive", str(alone)).out.startswith("Game ")


def test_what_is_not_judged_is_named_with_the_command_that_judges_it(qarena: Qarena, root: Path) -> None:
    run = of_rules(root, "own_piece")
    result = qarena("show", run, "0", "--archive", str(root))
    assert f"qarena annotate --run {run} --where 'game_id = 0' --archive {root}\n" in result.err
    assert "lost" not in result.out
