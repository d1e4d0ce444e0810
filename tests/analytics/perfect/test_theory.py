"""The counts of tablebases, compared with another way of counting."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.perfect import theory
from analytics.perfect.tablebase import SHIPPED, open_tablebase
from analytics.perfect.theory import GameProof, TablebaseFinding, finding, proofs, report
from quarto.notation import parse_position
from quarto.perft import perft
from quarto.position import EMPTY, board
from quarto.rules import finished_lines
from quarto.solver.solver import Solver
from quarto.symmetry import symmetries
from tests.analytics.perfect.test_tablebase import QUICK, Watched, job
from tests.naive import PRESETS
from tests.naive_quarto import ORACLES

(CLASSIC,) = SHIPPED.glob("classic-[0-9].parquet")


@pytest.fixture(scope="module")
def classic() -> TablebaseFinding:
    return finding(open_tablebase(CLASSIC), 4)  # six pieces take half a minute


def test_boards_and_positions_are_counted_completely(classic: TablebaseFinding) -> None:
    live = ORACLES["boards_with_k_pieces_and_no_completed_line"]
    for pieces, boards in enumerate(classic.boards):
        assert sum(boards.every) == live[pieces]
    for pieces, positions in enumerate(classic.positions):
        assert sum(positions.every) == live[pieces] * (16 - pieces)
        if pieces < 4:  # beyond that the known numbers count boards with a line too
            assert sum(positions.canonical) == ORACLES["canonical_boards_with_hand_including_won_k_0_to_5"][pieces]


def test_the_page_says_whose_the_value_is(classic: TablebaseFinding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "finding", lambda _base: classic)
    assert "## classic\n\nThe game is drawn for the first giver.\n" in report([open_tablebase(CLASSIC)])


def test_the_first_turns_are_complete(classic: TablebaseFinding) -> None:
    assert sum(times for _, times, _ in classic.turns) == 16 * 15
    assert len({example for example, _, _ in classic.turns}) == len(classic.turns) == 8


@pytest.mark.slow
def test_examples_have_the_value_they_are_listed_under(tmp_path: Path) -> None:
    built = Watched().build(job(tmp_path, pieces=4))
    assert built is not None
    found, solver = finding(built), Solver(QUICK, 1.0)
    assert [sum(each.canonical) for each in found.boards] == [each.canonical_live_boards for each in perft(QUICK, 4)]
    assert found.positions == []
    assert set(found.examples) == {"board won", "board drawn", "board lost"}
    for kind, example in found.examples.items():
        position, _ = parse_position(example)
        assert not finished_lines(board(position), QUICK)
        assert {1: "board won", 0: "board drawn", -1: "board lost"}[solver.value(position)] == kind
    assert sum(times for _, times, _ in found.turns) == 256
    text = report([built])
    assert "## quick" in text
    assert "for the player who moves first." in text
    assert "| 3 | 157 | 157 | 0 | 0 | " in text


def test_the_value_of_each_game_is_the_one_in_its_tablebase() -> None:
    assert {proof.rules for proof in proofs()} == set(PRESETS)
    values = {proof.rules: proof.value for proof in proofs()}
    for path in SHIPPED.glob("*.json"):
        card = open_tablebase(path.with_suffix(".parquet")).card
        assert (card.won[0], card.drawn[0], card.lost[0]).index(1) == 1 - values[card.rules["name"]]
    for proof in proofs():
        rules = PRESETS[proof.rules]
        assert (proof.lines, proof.symmetries) == (len(rules.lines), len(symmetries(rules).cells))


@pytest.mark.slow
@pytest.mark.parametrize("proof", proofs(), ids=[proof.rules for proof in proofs()])
def test_each_game_is_proven_again(proof: GameProof) -> None:
    solver = Solver(PRESETS[proof.rules])
    assert solver.value(EMPTY) == proof.value
    assert solver.nodes == proof.positions
