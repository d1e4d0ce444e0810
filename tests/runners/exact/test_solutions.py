"""`qarena solve`: questions, output, and Ctrl-C, which ends a search at once."""

from __future__ import annotations

import json
import random
import re
import threading
from pathlib import Path

import pytest

from quarto.notation import format_cell, format_piece, format_position
from quarto.position import EMPTY
from quarto.rules import CLASSIC, NONE, Rules
from quarto.solver.solver import Solver
from runners.arena.executors import base
from runners.exact import solutions
from runners.exact.solutions import (
    SolveOptions,
    Solvers,
    find_whole_game_rules_name,
    output_game_value,
    parse_solve_request,
    run_search,
    solve_lines,
)
from tests.naive import PRESETS
from tests.naive_solver import list_turns, solve_position
from tests.quarto.solver.test_solver import live_positions
from tests.runners.conftest import Qarena

POSITION = "0.F./35.6/.9A./C.87 1"  # classic, twelve pieces
BAD = {
    "1..1/..../..../.... -": "piece '1' is on a1 and on d1 (position '1..1/..../..../.... -', field 1)",
    "0123/..../..../.... -": "a line is finished, so the game is over (position '0123/..../..../.... -', field 1)",
    "1.../..../..../.... 1": "piece '1' is in hand and on a1 (position '1.../..../..../.... 1', field 2)",
    "1../..../..../.... -": "row 1 '1..' has cells: 3 instead of 4 (position '1../..../..../.... -', field 1)",
    "1.../..../..../.... 5 own_piece": (
        "piece '5' is in hand, but under rules own_piece the mover chooses the piece: write - "
        "(position '1.../..../..../.... 5 own_piece', field 2)"
    ),
    "1.../..../..../.... - own": "rules 'own' does not exist; did you mean 'own_piece'? "
    "valid: classic, own_piece, square, torus, torus_square",
}


def expected_moves(text: str) -> set[tuple[str | None, str | None, int, int]]:
    """List cells and gifts as text with value and distance, by playing every game out."""
    question = parse_solve_request(text)
    return {
        (None if cell == NONE else format_cell(cell), None if gift == NONE else format_piece(gift), *solved)
        for (cell, gift), solved in list_turns(question.position, question.rules).items()
    }


@pytest.mark.parametrize("hand", ["1", "-"])
def test_json_holds_value_distance_and_every_move(qarena: Qarena, hand: str) -> None:
    text = POSITION[:-1] + hand
    result = qarena("solve", text, "--json", "-", "--memory", "1MiB")
    assert result.code == 0
    answer = json.loads(result.out)
    assert (answer["value"], answer["distance"]) == solve_position(parse_solve_request(text).position, CLASSIC)
    moves = answer["moves"]
    assert {(m.get("cell"), m.get("gift"), m["value"], m["distance"]) for m in moves} == expected_moves(text)
    assert [move["value"] for move in moves] == sorted((move["value"] for move in moves), reverse=True)
    assert answer["position"] == text


def test_what_is_not_asked_for_is_not_there(qarena: Qarena) -> None:
    def keys(*flags: str) -> tuple[set[str], set[str]]:
        answer = json.loads(qarena("solve", POSITION, "--json", "-", "--memory", "1MiB", *flags).out)
        return set(answer), {key for move in answer.get("moves", []) for key in move}

    assert keys("--no-turns") == ({"position", "value", "distance"}, set())
    assert keys("--no-turns", "--no-distance") == ({"position", "value"}, set())
    assert keys("--no-distance") == ({"position", "value", "moves"}, {"cell", "gift", "value"})


def test_the_table_has_a_row_a_cell_and_a_column_a_gift(qarena: Qarena) -> None:
    result = qarena("solve", POSITION, "--memory", "1MiB")
    assert result.code == 0
    rows = [re.findall(r"[^ │┃]+", line) for line in result.out.splitlines() if re.match(r"[│┃]", line)]
    gifts = rows[0][2:]
    marks = {
        (row[0], gift): value for row in rows[1:] for gift, value in zip(gifts, row[2:], strict=True) if value != "·"
    }
    expected = {
        (cell, gift): "=" if value == 0 else f"{value * distance:+d}"
        for cell, gift, value, distance in expected_moves(POSITION)
        if gift is not None
    }
    assert marks == expected
    assert re.search(r"(no|[\d,]+) positions searched in [\d.]+ s", result.err)

    text = POSITION[:-1] + "-"  # gifts alone are a list
    result = qarena("solve", text, "--memory", "1MiB")
    listed = re.findall(r"│ (\w) +│ (\w+) +│ +(\d+) │", result.out)
    names = {1: "win", 0: "draw", -1: "loss"}
    assert set(listed) == {
        (str(gift), names[value], str(distance)) for _, gift, value, distance in expected_moves(text)
    }

    full = next(position for position in live_positions(CLASSIC, 16, 1, 1))
    answer = json.loads(qarena("solve", format_position(full), "--json", "-", "--memory", "1MiB").out)
    assert answer == {"position": format_position(full), "value": 0, "distance": 0, "moves": []}


def test_wrong_requests_and_positions_that_are_none_are_refused_in_one_line(qarena: Qarena) -> None:
    for text, complaint in BAD.items():
        assert qarena("solve", text) == (2, "", f"error: {complaint}\n")
    for typed in ([], [POSITION, "--game"], ["--game", "--file", "x"], [POSITION, "rules=torus"]):
        result = qarena("solve", *typed)
        assert (result.code, result.out) == (2, "")
    result = qarena("solve", POSITION, "--rules", "torus")
    assert "--rules torus goes with --game: a position names its rules itself" in result.refusal
    lost = "cannot read none.txt: No such file or directory; name a text file, or - for standard input"
    assert qarena("solve", "--file", "none.txt").refusal == f"error: {lost}\n"


def test_a_table_larger_than_memory_is_refused_with_the_largest_that_fits(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "available_megabytes", lambda: 200.0)
    result = qarena("solve", POSITION, "--memory", "256MiB")
    assert result.code == 2
    assert result.err == (
        "error: --memory 256MiB takes 320 MB of memory and 200 MB are free: at most --memory 128MiB fits\n"
    )
    assert qarena("solve", POSITION, "--memory", "128MiB", "--no-turns").code == 0
    assert "'-1MiB' is not a size" in qarena("solve", POSITION, "--memory", "-1MiB").err


def test_a_file_is_answered_line_by_line_and_a_bad_one_does_not_keep_the_others(qarena: Qarena, tmp_path: Path) -> None:
    dice, texts = random.Random(5), []
    for name, rules in PRESETS.items():
        texts += [f"{format_position(position, name)}" for position in live_positions(rules, 12, 12, 7)]
    dice.shuffle(texts)
    texts[17] = next(iter(BAD))
    (tmp_path / "positions.txt").write_text("\n\n".join(texts) + "\n")
    result = qarena("solve", "--file", "positions.txt", "--no-turns", "--memory", "1MiB")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 1
    assert lines[17] == {"line": 35, "error": BAD[texts[17]]}
    assert f"line 35: {BAD[texts[17]]}\n" in result.err
    assert "1 line could not be answered" in result.err
    for text, line in zip(texts, lines, strict=True):
        if text != texts[17]:
            question = parse_solve_request(text)
            value, distance = solve_position(question.position, question.rules)
            assert line == {"position": text, "value": value, "distance": distance}


def test_an_interruption_ends_the_search_at_once() -> None:
    solvers, looks = Solvers(4.0, use_tablebase=False), 0

    def interrupt() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_search(
            solvers, lambda: solvers.get_solver_of_thread(CLASSIC).value(EMPTY), interrupt
        )  # half a minute if nobody stopped it
    assert 0 < solvers.nodes < 10**8


EARLY = "1.../..../..../.... 2"


def test_answers_that_nobody_waits_for_are_not_searched() -> None:
    solvers = Solvers(4.0, use_tablebase=False)
    easy = [(number, POSITION) for number in range(1, 17)]
    hard = [(number, EARLY) for number in range(17, 200)]
    answers = solve_lines(easy + hard, SolveOptions(turns=False), solvers, 1)
    waiting = threading.Timer(20.0, solvers.stop_current_and_later_searches)
    waiting.start()
    for _ in range(16):
        assert "error" not in next(answers)
    answers.close()
    assert waiting.is_alive()
    waiting.cancel()


def test_the_whole_game_is_that_of_classic_rules_unless_others_are_named() -> None:
    assert [find_whole_game_rules_name(None, None, True, rules) for rules in (None, "torus")] == ["classic", "torus"]


def test_the_value_of_the_whole_game_is_proven_by_search_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_rules: Rules) -> None:
        raise AssertionError("a tablebase was asked for")

    monkeypatch.setattr(solutions, "load_tablebase_index", refuse)
    monkeypatch.setattr(Solver, "value", lambda _self, position: int(position != EMPTY))  # takes hours
    output_game_value("torus", 1.0, Path("-"))
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rules"], answer["value"], answer["nodes"]) == ("torus", 0, 0)
