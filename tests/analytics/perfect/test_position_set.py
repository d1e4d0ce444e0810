"""Sets of positions: the one that ships is what the command makes, and its values are those of playing out."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from analytics.perfect import position_set
from analytics.perfect.position_set import (
    ENDS,
    NUMBERS,
    Candidates,
    LoggedPlies,
    PositionSet,
    batch_of,
    drawn,
    logged_plies,
    met,
)
from analytics.store.archive import Archive
from quarto.canonical import canonical_position
from quarto.errors import RequestError
from quarto.notation import parse_position
from quarto.position import board, from_plies
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import ILLEGAL
from runners.judge.judging import SetOptions, make_frame, make_set
from tests.analytics.exchange.archives import archive_of
from tests.naive import PRESETS, has_line
from tests.naive_solver import turns_of
from tests.paths import ROOT, SAMPLE

SHIPPED = ROOT / "analytics/perfect/position_sets/classic.parquet"

MADE_WITH = SetOptions(CLASSIC)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return pl.read_parquet(SHIPPED)


@pytest.fixture(scope="module")
def shipped() -> PositionSet:
    return position_set.read(SHIPPED)


def test_a_slice_of_the_set_that_ships_is_made_again(frame: pl.DataFrame) -> None:
    made = make_frame(Archive.open(SAMPLE), MADE_WITH._replace(numbers=(9, 14), megabytes=4.0))
    assert made.equals(frame.filter(pl.col("pieces").is_in([9, 14])))


@pytest.mark.slow
def test_the_set_that_ships_is_made_again_to_the_byte(tmp_path: Path) -> None:
    make_set(SAMPLE, MADE_WITH._replace(threads=2), tmp_path / "classic.parquet")
    assert (tmp_path / "classic.parquet").read_bytes() == SHIPPED.read_bytes()


def test_the_set_has_each_number_of_pieces_from_both_sources_and_no_position_twice(frame: pl.DataFrame) -> None:
    ones = frame.unique("position", maintain_order=True)
    assert SHIPPED.stat().st_size <= 2_000_000
    counts = {(pieces, source): count for pieces, source, count in ones.group_by("pieces", "source").len().iter_rows()}
    assert {pieces for pieces, _ in counts} == set(NUMBERS) == set(range(1, 16))
    assert (counts[1, "canonical"], counts[2, "canonical"]) == (8, 148)  # all there are: docs/theory.md
    assert {counts[pieces, source] for pieces in range(3, 14) for source in position_set.SOURCES} == {500}
    some = [parse_position(text)[0] for text in ones["position"].gather_every(7)]
    assert len({canonical_position(each, CLASSIC)._replace(available=0) for each in some}) == len(some)


def test_every_position_is_live_and_has_all_of_its_turns(shipped: PositionSet) -> None:
    pieces = shipped.pieces.astype(int)
    left = 15 - pieces
    for i in range(0, len(pieces), 50):
        assert not has_line(board(shipped.batch.position(i)), CLASSIC)
        assert shipped.batch.occupied[i] >> int(shipped.batch.last_cell[i]) & 1
    ends = (shipped.values[:, :, ENDS] != ILLEGAL).sum(axis=1)
    gifts = (shipped.values[:, :, :ENDS] != ILLEGAL).sum(axis=(1, 2))
    assert np.array_equal(gifts, (16 - pieces - ends) * left)


def test_values_are_those_of_playing_out(shipped: PositionSet) -> None:
    late = np.flatnonzero(shipped.pieces >= 12)[::60]
    assert len(late) > 40
    for i in late:
        expected = {turn: solved.value for turn, solved in turns_of(shipped.batch.position(i), CLASSIC).items()}
        table = shipped.values[i]
        found = {(int(c), int(g) if g != ENDS else NONE): int(table[c, g]) for c, g in np.argwhere(table != ILLEGAL)}
        assert found == expected


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
def test_arrangements_without_a_line_are_drawn_and_become_positions(rules: object) -> None:
    found = next(drawn(rules, 6, 3))  # type: ignore[arg-type]
    tried = position_set.DRAWN_AT_ONCE
    assert 0 < len(found.cells) < tried
    batch = batch_of(found)
    for i in range(0, len(found.cells), 500):
        plies = list(zip(found.pieces[i, :-1].tolist(), found.cells[i].tolist(), strict=True))
        position = from_plies(plies, int(found.pieces[i, -1]))
        assert batch.position(i) == position
        assert not has_line(board(position), rules)  # type: ignore[arg-type]


def test_sets_are_made_for_other_rules() -> None:
    square = PRESETS["square"]
    made = make_frame(Archive.open(SAMPLE), SetOptions(square, each=4, numbers=(12,), megabytes=1.0))
    assert made["position"].n_unique() == 8
    for (text,), rows in made.group_by("position"):
        expected = {turn: solved.value for turn, solved in turns_of(parse_position(str(text))[0], square).items()}
        assert {
            (cell, gift): value for cell, gift, value in rows.select("cell", "gift", "value").iter_rows()
        } == expected


def test_arrangements_with_a_line_are_left_out() -> None:
    row = Candidates(np.array([[0, 1, 2, 3, 15], [0, 1, 2, 15, 3]]), np.array([[0, 1, 2, 3]] * 2))
    assert position_set._has_line(row, CLASSIC).tolist() == [True, False]


def test_logged_positions_are_those_of_the_games() -> None:
    games = logged_plies(Archive.open(SAMPLE), CLASSIC)
    known = {tuple(column) for column in np.concatenate([games.pieces[:9], games.cells[:8]]).T.tolist()}
    found = next(met(games, 8, 1))
    assert len(found.cells) == min((games.plies > 8).sum(), position_set.DRAWN_AT_ONCE)
    assert {(*held, *filled) for held, filled in zip(found.pieces.tolist(), found.cells.tolist(), strict=True)} <= known
    none = LoggedPlies(games.pieces[:, :0], games.cells[:, :0], games.plies[:0])
    assert list(met(none, 8, 1)) == []


def test_logged_games_have_one_order_whatever_files_they_are_in(tmp_path: Path) -> None:
    whole, scattered = (
        logged_plies(Archive.open(archive_of(tmp_path / str(most), most)), CLASSIC) for most in (1 << 20, 2)
    )
    for one, other in zip(whole, scattered, strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(RequestError, match="has no games under rules 'torus'"):
        logged_plies(Archive.open(tmp_path / "2"), PRESETS["torus"])


def test_duckdb_reads_what_polars_does(frame: pl.DataFrame) -> None:
    asked = "SELECT source, count(*), sum(value), count(DISTINCT position) FROM read_parquet(?) GROUP BY 1 ORDER BY 1"
    rows = duckdb.connect().execute(asked, [str(SHIPPED)]).fetchall()
    expected = frame.group_by("source").agg(pl.len(), pl.col("value").cast(int).sum(), pl.col("position").n_unique())
    assert rows == expected.sort("source").rows()


def test_a_changed_file_and_another_file_are_refused(tmp_path: Path, frame: pl.DataFrame) -> None:
    path = tmp_path / "set.parquet"
    content = bytearray(SHIPPED.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(RequestError, match="was changed since it was made"):
        position_set.read(path)
    frame.head(100).write_parquet(path)
    with pytest.raises(RequestError, match="no set of positions"):
        position_set.read(path)
    path.write_bytes(b"position,cell")
    with pytest.raises(RequestError, match="no set of positions"):
        position_set.read(path)


def test_rules_without_a_set_and_archives_without_games_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"no set of positions for rules 'torus'.*policy positions --rules torus"):
        position_set.path_for("torus")
    with pytest.raises(RequestError, match="no games under rules 'torus'"):
        make_frame(Archive.open(SAMPLE), MADE_WITH._replace(rules=PRESETS["torus"], numbers=(14,)))
    with pytest.raises(RequestError, match="the mover chooses the piece"):
        make_frame(Archive.open(SAMPLE), MADE_WITH._replace(rules=PRESETS["own_piece"]))
