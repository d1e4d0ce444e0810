"""What agents in Python are told of a position and of a batch is what their slow twins find."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.position import EMPTY, PackedPosition
from quarto.rng import Streams
from quarto.rules import NONE, Rules
from quarto.views import BatchView, Position
from tests import naive
from tests.naive import PRESETS
from tests.paths import ROOT
from tests.positions import build_view, list_positions

GAMES = 4
TEXT = "...F/.3../..../.... 7"
DRAWN = """\
   a b c d
1  . . . F
2  . 3 . .
3  . . . .
4  . . . .
hand 7  left 0 1 2 4 5 6 8 9 A B C D E"""


@pytest.fixture(params=PRESETS.values(), ids=lambda rules: rules.name)
def rules(request: pytest.FixtureRequest) -> Rules:
    preset: Rules = request.param
    return preset


def members(row: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(row).tolist())


def safe_after(position: PackedPosition, cell: int | None, rules: Rules) -> tuple[int, ...]:
    view = build_view(position, rules)
    placed = cell is not None and view.hand != NONE
    board = naive.with_piece(view.board, view.hand, cell) if placed and cell is not None else view.board
    return tuple(naive.safe_pieces(board, view.available, rules))


def test_one_position_tells_what_its_twin_finds(rules: Rules) -> None:
    for packed in list_positions(rules, GAMES):
        view, twin = Position(packed, rules), build_view(packed, rules)
        assert (view.board, view.hand, view.last_cell) == (tuple(twin.board), twin.hand, twin.last_cell)
        assert (view.free, view.available) == (tuple(naive.empty_cells(twin.board)), tuple(twin.available))
        for piece in (0, 7, 15):
            assert view.winning_cells(piece) == tuple(naive.winning_cells(twin.board, piece, rules))
        assert view.winning_cells() == (view.winning_cells(view.hand) if view.hand != NONE else ())
        for cell in (None, view.free[0], view.free[-1]):
            assert view.safe_gifts(cell) == safe_after(packed, cell, rules)


def test_a_batch_tells_the_same_of_each_of_its_positions(rules: Rules) -> None:
    positions = list_positions(rules, GAMES)
    batch = BatchView(Batch.from_positions(positions), rules)
    cells = np.array([view.free[len(view.free) // 2] for view in batch])
    gifts = np.array([(*view.available, NONE)[0] for view in batch])
    after = batch.with_turns(cells, gifts)
    assert len(batch) == len(positions) > 40
    assert batch.packed.list_positions() == positions
    for i, view in enumerate(batch):
        assert tuple(batch.board[i].tolist()) == view.board
        assert (members(batch.free[i]), members(batch.available[i])) == (view.free, view.available)
        assert (batch.hand[i], batch.last_cell[i]) == (view.hand, view.last_cell)
        assert members(batch.winning_cells()[i]) == view.winning_cells()
        assert members(batch.winning_cells(9)[i]) == view.winning_cells(9)
        assert members(batch.safe_gifts()[i]) == view.safe_gifts()
        assert members(batch.safe_gifts(cells)[i]) == view.safe_gifts(cells[i])
        assert after[i].packed == view.with_turn(cells[i], gifts[i]).packed
    assert members(batch.winning_cells(batch.board[:, 0])[0]) == ()  # NONE: no piece finishes no line


def test_the_text_of_a_position_is_a_drawing() -> None:
    view = Position.parse(TEXT)
    assert str(view) == DRAWN
    assert repr(view) == f"<{TEXT}>"
    assert str(Position(EMPTY)).endswith("\nhand none  left 0 1 2 3 4 5 6 7 8 9 A B C D E F")
    batch = BatchView(Batch.from_positions([view.packed] * 5))
    assert str(batch) == "\n\n".join([DRAWN] * 3 + ["and 2 more"])
    assert str(BatchView(Batch.from_positions([view.packed]))) == DRAWN
    assert (str(BatchView(Batch.allocate(0))), repr(batch)) == ("no positions", "<positions: 5, rules classic>")


def test_the_example_of_the_page_on_agents_is_true() -> None:
    page = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
    (parsed,) = re.findall(r'Position\.parse\("(.*)"\)', page)
    position = Position.parse(parsed)
    assert f"```\n{position}\n```" in page
    examples = re.findall(r"^position\.(\w+)\((\d*)\) +# (\(.*?\)):", page, re.MULTILINE)
    assert len(examples) == 4
    for method, argument, answer in examples:
        assert getattr(position, method)(*map(int, filter(None, [argument]))) == ast.literal_eval(answer)
    for view, heading in ((Position, "### Positions"), (BatchView, "### Batches")):
        section = page.partition(heading)[2].partition("\n#")[0]
        named = set(re.findall(r"`(\w+)", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))))
        public = {name for name in {*dir(view), "hand", "last_cell", "rules", "packed"} if name[0] != "_"}
        assert public - named <= {"parse", "rules", "packed"}


def test_a_turn_that_is_not_possible_is_refused_alone_and_in_a_batch() -> None:
    view = Position.parse(TEXT)
    for method, arguments, message in (
        ("winning_cells", (16,), "piece 16 is not in 0..15"),
        ("safe_gifts", (3,), "cell 3 is not empty in ...F/"),
        ("safe_gifts", (-1,), "cell -1 is not in 0..15"),
        ("with_turn", (5,), "cell 5 is not empty"),
        ("with_turn", (0, 15), "piece 15 is not among those left"),
        ("with_turn", (0, 7), "piece 7 is not among those left"),
    ):
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            getattr(view, method)(*arguments)
    batch = BatchView(Batch.from_positions([view.packed] * 3))
    with pytest.raises(ValueError, match=r"cell 5 is not empty in position 1, \.\.\.F"):
        batch.safe_gifts(np.array([0, 5, 3]))
    with pytest.raises(ValueError, match="cell 16 is not empty in position 2"):
        batch.safe_gifts(np.array([0, 1, 16]))
    with pytest.raises(ValueError, match="piece 15 is not among those left in position 2"):
        batch.with_turns(0, np.array([0, 1, 15]))
    with pytest.raises(ValueError, match=r"shape \(2,\) is neither one number nor one for each of 3"):
        batch.winning_cells(np.array([1, 2]))
    with pytest.raises(IndexError, match="no position 3: the batch has 3"):
        batch[3]
    with pytest.raises(RequestError, match="is one of rules 'torus', not of rules 'classic'"):
        Position.parse(f"{TEXT} torus")


def test_a_choice_is_uniform_among_what_is_allowed_and_follows_from_the_word() -> None:
    rng = Streams(np.arange(4000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    allowed = np.zeros((4000, 16), np.bool_)
    allowed[:, [2, 5, 11]] = True
    allowed[0] = False
    chosen = rng.choice(3, allowed)
    assert chosen[0] == NONE
    assert set(chosen[1:].tolist()) == {2, 5, 11}
    assert np.bincount(chosen[1:])[[2, 5, 11]].min() > 1200
    ranks = rng.integers(3, 3)
    assert np.array_equal(chosen[1:], np.array([2, 5, 11])[ranks[1:]])
    assert np.array_equal(rng.choice(3, allowed[1]), rng.choice(3, np.tile(allowed[1], (4000, 1))))  # for all games
    allowed = np.random.default_rng(1).random((4000, 20)) < 0.2
    counts = allowed.sum(axis=1)
    ranks = rng.integers(0, np.maximum(counts, 1))
    members = [[*np.flatnonzero(row), NONE] for row in allowed]
    assert rng.choice(0, allowed).tolist() == [row[rank] for row, rank in zip(members, ranks, strict=True)]
