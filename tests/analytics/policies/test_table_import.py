"""A table that was learned elsewhere becomes the policy that its slow twin makes of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from agents.policy import FITTED_Q, MC_AFTERSTATE, Q_TABLE, PolicyAgent
from analytics.exact.position_set import find_existing_shipped_set
from analytics.policies.table_import import ImportOptions, parse_policy_table, read_policy_table
from quarto.errors import RequestError
from quarto.notation import format_cell, format_game, format_piece, format_position
from quarto.position import position_from_plies
from quarto.rules import CLASSIC, NONE, Rules
from tests import naive
from tests.naive_players.agreement import same_bytes
from tests.naive_policies.games import key_of, position_of
from tests.positions import build_view, list_positions

TEXT = "...F/.3../..../.... 7"
Row = tuple[str, int | None, int | None, float]


def value_of(key: tuple[int, int]) -> float:
    """Return some value that depends on the afterstate alone."""
    return ((key[0] * 31 + key[1]) % 2001 - 1000) / 1000


def table(rules: Rules, games: int) -> tuple[list[Row], dict[tuple[int, int], float], int]:
    """List all turns in some positions, the values of their afterstates, and how many turns need no value."""
    rows: list[Row] = []
    values: dict[tuple[int, int], float] = {}
    decided = 0
    for position in list_positions(rules, games):
        view = build_view(position, rules)
        cells: list[int | None] = [*naive.empty_cells(view.board)[:3]] if view.hand != NONE else [None]
        gifts: list[int | None] = [*view.available[-3:]] or [None]
        for cell, gift in product(cells, gifts):
            after = view.board if cell is None else naive.with_piece(view.board, view.hand, cell)
            key = key_of(position_of(after, NONE if gift is None else gift), rules)
            rows.append((format_position(position, rules.name), cell, gift, value_of(key)))
            if gift is None or naive.has_line(after, rules):
                decided += 1
            else:
                values[key] = value_of(key)
    return rows, values, decided


def frame(rows: list[Row], **columns: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, ["position", "cell", "gift", "value"], orient="row").with_columns(**columns)


def read(rows: list[Row], kind: str = Q_TABLE, rules: Rules = CLASSIC, **options: Any) -> Any:
    return parse_policy_table(frame(rows), ImportOptions(kind, rules, **options))


@pytest.mark.parametrize(("kind", "column"), [(Q_TABLE, "value"), (FITTED_Q, "value"), (MC_AFTERSTATE, "mean")])
def test_each_afterstate_has_its_value_under_its_canonical_form(kind: str, column: str) -> None:
    rows, values, decided = table(CLASSIC, 3)
    parsed = read(rows, kind)
    learned = parsed.policy.table
    keys = list(zip(learned["lanes"].tolist(), learned["occupied"].tolist(), strict=True))
    assert keys == sorted(values)
    assert learned[column].tolist() == [values[key] for key in keys]
    assert (parsed.rows, parsed.skipped_rows, parsed.conflicts, parsed.example) == (len(rows), decided, 0, "")
    assert decided > 0
    if "count" in learned:
        assert learned["count"].sum() == len(rows) - decided
    PolicyAgent(parsed.policy).knowledge(CLASSIC)  # which refuses a table that is not in form


def test_a_conflict_is_named_and_resolved_as_asked() -> None:
    # The second and the fourth row are images of the first: the board turned over, the cell and pieces with it.
    rows: list[Row] = [
        (TEXT, 0, 1, 0.5),
        ("..../..../..3./F... 7", 15, 1, -0.25),
        (TEXT, 0, 8, 0.125),
        ("..../..../..3./F... 7", 15, 1, 0.5),
    ]
    with pytest.raises(RequestError) as refused:
        read(rows)
    assert str(refused.value).startswith(
        f"different values, up to symmetry, of 1 turn; the furthest apart: row 1 ({TEXT}: a1 1) has 0.5, "
        "row 2 (..../..../..3./F... 7: d4 1) has -0.25: conflicts=mean "
    )
    for conflicts, value in (("mean", 0.25), ("first", 0.5)):
        parsed = read(rows, MC_AFTERSTATE, conflicts=conflicts)
        assert sorted(
            zip(parsed.policy.table["mean"].tolist(), parsed.policy.table["count"].tolist(), strict=True)
        ) == ([(0.125, 1), (value, 3)])
        assert parsed.conflicts == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((TEXT, 3, 1, 0.0), "cell d1 is not empty in ...F/"),
        ((TEXT, None, 1, 0.0), "no cell for the piece in hand in ...F/"),
        ((TEXT, 0, 7, 0.0), "piece 7 is not among those left in ...F/"),
        ((TEXT, 0, None, 0.0), "no gift in ...F/"),
        ((TEXT.replace("7", "-"), 0, 1, 0.0), "cell a1, and no piece in hand"),
        ((TEXT.replace("7", "3"), 0, 1, 0.0), "piece '3' is in hand and on b2"),
        ((TEXT.replace("F", "x"), 0, 1, 0.0), "piece 'x' is not a hex digit 0-F"),
        ((TEXT.replace("/", "|", 1), 0, 1, 0.0), "rows with / between them: 3 instead of 4"),
        ((f"{TEXT} torus", 0, 1, 0.0), "is one of rules 'torus', not of rules 'classic'"),
        (("0123/..../..../.... 7", 4, 8, 0.0), "a line is finished in 0123/..../..../.... 7 under rules 'classic'"),
        ((TEXT, 0, 1, float("nan")), "value nan is not a finite number"),
        (
            (TEXT, 0, 1, 4.0),
            "value 4 is not from -1 (a loss for the player who makes the turn) to 1 (a win); scale=0.2",
        ),
        ((None, 0, 1, 0.0), "the position is missing"),
    ],
)
def test_a_row_that_cannot_be_is_named(row: Any, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        read([(TEXT, 0, 1, 0.0), (TEXT, 0, 1, 0.0), row])
    assert str(refused.value).startswith("row 3: ")
    assert message in str(refused.value)


def test_plies_with_the_piece_in_hand_are_positions_too() -> None:
    plies = [(15, 3), (3, 5)]
    cases: list[tuple[str, int, int | None]] = [(f"{format_game(plies)} 7", 7, 0), (format_game(plies), NONE, None)]
    cases += [("", NONE, None), ("A", 10, 3)]
    for text, hand, cell in cases:
        parsed = parse_policy_table(
            frame([(text, cell, 1, 0.5)]).rename({"position": "plies"}), ImportOptions(Q_TABLE, CLASSIC)
        )
        same = format_position(position_from_plies(plies if "@" in text else [], hand))
        assert same_bytes(parsed.policy, read([(f" {same.lower()}  classic", cell, 1, 0.5)]).policy)
    wrong = frame([(cases[0][0], 0, 1, 0.5), ("F@b1 3@c1 3", 0, 1, 0.5)]).rename({"position": "plies"})
    with pytest.raises(RequestError, match="row 2: the piece in hand, 3, was placed before"):
        parse_policy_table(wrong, ImportOptions(Q_TABLE, CLASSIC))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "is neither a .parquet nor a .csv file"),
        ("a.parquet", "no parquet", "cannot be read: "),
        ("a.csv", "position,cell,gift\nx,1,2\n", "has no column 'value'"),
        ("a.csv", "cell,gift,value\n1,2,3\n", "and has neither; its columns: cell, gift, value"),
        ("a.csv", "position,plies,cell,gift,value\nx,y,1,2,3\n", "and has both"),
        ("a.csv", "position,cell,gift,value\n", "has no rows"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(RequestError) as refused:
        read_policy_table(tmp_path / name)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_positions_that_ship_become_a_policy_of_exact_values() -> None:
    """Check that rows with a placement that wins need no gift."""
    table = read_policy_table(find_existing_shipped_set("classic"))
    few = table.filter(pl.col("position").is_in(table["position"].unique(maintain_order=True)[::64].implode()))
    parsed = parse_policy_table(few, ImportOptions(Q_TABLE, CLASSIC))
    assert parsed.conflicts == 0 < parsed.skipped_rows
    assert set(parsed.policy.table["value"].tolist()) <= {-1.0, 0.0, 1.0}


def test_cells_and_gifts_are_numbers_or_texts_in_either_form_of_file(tmp_path: Path) -> None:
    rows, _, _ = table(CLASSIC, 1)
    texts = frame(rows, note=pl.lit("more columns do not matter")).with_columns(
        cell=pl.Series([None if cell is None else format_cell(cell).upper() for _, cell, _, _ in rows]),
        gift=pl.Series(["-" if gift is None else format_piece(gift).lower() for _, _, gift, _ in rows]),
    )
    frame(rows).write_csv(tmp_path / "numbers.csv")
    texts.write_csv(tmp_path / "texts.csv")
    texts.write_parquet(tmp_path / "texts.parquet")
    for path in tmp_path.iterdir():
        assert same_bytes(
            parse_policy_table(read_policy_table(path), ImportOptions(Q_TABLE, CLASSIC)).policy, read(rows).policy
        )
