"""`qarena puzzles make`: the puzzles of annotated games, the file that ships, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.exact.puzzles import (
    COLUMNS,
    LEVELS,
    OnlyTurn,
    Puzzle,
    find_only_turn_if_puzzle,
    load_shipped_puzzles,
    parse_puzzles,
    select_varied_easiest_first,
)
from analytics.store.archive import ArchiveStore
from quarto.canonical import canonical_position
from quarto.errors import RequestError
from quarto.notation import parse_position
from quarto.position import PackedPosition, position_from_plies
from quarto.rules import CLASSIC, NONE, Rules
from quarto.solver.solver import Solver
from runners.config.yaml_options import load_rules
from runners.exact.puzzle_generation import select_likely_only_turn_positions
from tests.marks import seldom
from tests.naive_solver import list_turns
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

OPENING = 11  # plies: positions after them take the slow twin milliseconds


def naive_only_turn(position: PackedPosition, rules: Rules) -> OnlyTurn | None:
    """Find the only turn that keeps the value by playing every game out, the twin of ``find_only_turn_if_puzzle``."""
    turns = list_turns(position, rules)
    value = max(solved.value for solved in turns.values())
    kept = [turn for turn, solved in turns.items() if solved.value == value]
    if value < 0 or len(kept) != 1 or kept[0][1] == NONE:
        return None
    (only,) = kept
    other_distances = [solved.distance for turn, solved in turns.items() if turn != only and solved.value < 0]
    return OnlyTurn(*only, value, turns[only].distance if value else max(other_distances))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an archive of late games by two rule sets, annotated with choices, and games where the mover chooses."""
    folder = tmp_path_factory.mktemp("archive")
    for rules, games in (("classic", 150), ("square", 150), ("own_piece", 4)):
        play(folder, "agents=[random,semi_random]", f"games={games}", f"opening_plies={OPENING}", f"rules={rules}")
    archive = ArchiveStore.open(folder)
    annotate_runs(
        archive, archive.list_ids_of_runs_with_games(), AnnotationOptions(choices=True, megabytes=1.0, threads=2)
    )
    return folder


@pytest.mark.parametrize("name", ["classic", *seldom("square")])
def test_the_candidates_hold_every_puzzle_that_naive_search_finds_in_the_games(root: Path, name: str) -> None:
    rules = load_rules(name)
    with open_archive(root) as opened:
        runs = [record.run_id for record in opened.archive.load_runs() if record.rules.name == name]
        solver, candidates = Solver(rules, 1.0), select_likely_only_turn_positions(opened, runs, rules, 1)
        rows = opened.sql(f"SELECT game_id, ply, piece, cell FROM plies WHERE run_id = '{runs[0]}' ORDER BY ALL").rows()
    games: dict[int, list[tuple[int, int]]] = {}
    for game_id, _, piece, cell in rows:
        games.setdefault(game_id, []).append((piece, cell))
    plies = [(game, ply) for game in games.values() for ply in range(OPENING, min(len(game), 14))]
    positions = [position_from_plies(game[:ply], game[ply][0]) for game, ply in plies]
    expected = {canonical_position(position, rules) for position in positions if naive_only_turn(position, rules)}
    assert {
        canonical_position(position, rules) for position in candidates if find_only_turn_if_puzzle(solver, position)
    } == expected
    assert len(expected) > 3
    assert len({canonical_position(position, rules) for position in candidates}) == len(candidates)
    assert [find_only_turn_if_puzzle(solver, position) for position in candidates] == [
        naive_only_turn(position, rules) for position in candidates
    ]


def test_the_same_games_and_options_give_the_same_bytes(root: Path, qarena: Qarena) -> None:
    for name, threads in (("one.csv", "1"), ("two.csv", "2")):
        result = qarena(
            "puzzles", "make", "--archive", str(root), "--output", name, "--count", "8", "--threads", threads
        )
        assert result.code == 0
    assert "8 puzzles of " in result.out
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    puzzles = parse_puzzles(Path("one.csv").read_text(), "one.csv")
    assert {puzzle.rules for puzzle in puzzles} == {"classic", "square"}
    assert [puzzle.level for puzzle in puzzles] == sorted(puzzle.level for puzzle in puzzles)


def test_what_cannot_be_made_is_refused_in_a_line(root: Path, qarena: Qarena, tmp_path: Path) -> None:
    Path("kept.csv").write_text("mine")
    options = ("puzzles", "make", "--archive", str(root))
    assert "kept.csv" in qarena(*options, "--output", "kept.csv").refusal
    assert "there is no annotated position" in qarena(*options, "--output", "a.csv", "--rules", "own_piece").refusal
    assert "'torus'" in qarena(*options, "--output", "a.csv", "--rules", "torus").refusal
    play(tmp_path / "bare", "agents=[random,dumb]", "games=4", "opening_plies=11")
    refusal = qarena("puzzles", "make", "--archive", "bare", "--output", "a.csv").refusal
    assert "qarena annotate --archive bare --choices" in refusal
    assert not Path("a.csv").exists()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("...F/.3../..../.... 7,d1 2,win,3,0.500,2", "d1 2 is not a turn"),
        ("...F/.3../..../.... 7,a1 7,win,3,0.500,2", "a1 7 is not a turn"),
        ("...F/.3../..../.... 7,a1,win,3,0.500,2", "not enough values"),
        ("...F/.3../..../.... 7,a1 2,loss,3,0.500,2", "'loss'"),
        ("...F/.3../..../.... 7,a1 2,win", "int"),
        ("...F/.3../.... 7,a1 2,win,3,0.500,2", "rows with / between them: 3 instead of 4"),
    ],
)
def test_a_wrong_line_of_a_file_is_named(line: str, named: str) -> None:
    with pytest.raises(RequestError, match=rf"mine.csv, line 2 is not a puzzle: .*{named}"):
        parse_puzzles(f"{','.join(COLUMNS)}\n{line}\n", "mine.csv")
    with pytest.raises(RequestError, match=r"mine.csv .* its first line is not position,turn"):
        parse_puzzles(line, "mine.csv")


def test_puzzles_are_chosen_evenly_and_in_an_order_of_their_own() -> None:
    every = [
        Puzzle(position_from_plies([(piece, piece) for piece in range(pieces)], 15), "classic", 15, 14, 1, 1, missed)
        for pieces in (5, 7, 9)
        for missed in (0.1, 0.6, 0.8, 1.0)
    ]
    chosen = select_varied_easiest_first(every, 6)
    assert chosen == select_varied_easiest_first(every[::-1], 6)
    assert [puzzle.level for puzzle in chosen] == [1, 1, 2, 2, 3, 4]
    assert len(select_varied_easiest_first(every, 100)) == len(every)


def test_the_set_that_ships_has_each_level_and_both_rules_and_no_position_twice() -> None:
    puzzles = load_shipped_puzzles()
    assert [sum(puzzle.level == level for puzzle in puzzles) for level in LEVELS] == [60] * 5
    forms = {(puzzle.rules, canonical_position(puzzle.position, load_rules(puzzle.rules))) for puzzle in puzzles}
    assert len(forms) == len(puzzles)
    assert {puzzle.rules for puzzle in puzzles} == {"classic", "square"}
    assert len({(puzzle.position.occupied.bit_count(), puzzle.value) for puzzle in puzzles}) > 12


@pytest.mark.parametrize("fewest", [9, *seldom(3)])
def test_the_only_turns_that_ship_are_those_that_the_solver_finds(fewest: int) -> None:
    solvers = {name: Solver(load_rules(name), 64.0) for name in ("classic", "square")}
    chosen = [
        puzzle
        for puzzle in load_shipped_puzzles()
        if fewest <= puzzle.position.occupied.bit_count() < 9 + 16 * (fewest == 9)
    ]
    for puzzle in chosen:
        only_turn = find_only_turn_if_puzzle(solvers[puzzle.rules], puzzle.position)
        assert only_turn == (puzzle.cell, puzzle.gift, puzzle.value, puzzle.depth), puzzle.text
    assert len(chosen) > 60


def test_the_latest_puzzles_that_ship_are_those_that_naive_search_finds() -> None:
    late = [puzzle for puzzle in load_shipped_puzzles() if puzzle.position.occupied.bit_count() > 11]
    for puzzle in late:
        only_turn = naive_only_turn(puzzle.position, load_rules(puzzle.rules))
        assert only_turn == (puzzle.cell, puzzle.gift, puzzle.value, puzzle.depth), puzzle.text
    assert len(late) > 20
    # Two turns that a symmetry exchanges are two.
    position, _ = parse_position("F3../C0../..../.... 5")
    assert find_only_turn_if_puzzle(Solver(CLASSIC, 1.0), position) is None
