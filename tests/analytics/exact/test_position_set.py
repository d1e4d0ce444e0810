"""Sets of positions: the one that ships is what the command makes, its values and regrets are those of playing out."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from analytics.exact import position_set
from analytics.exact.position_set import (
    NO_GIFT_COLUMN,
    PIECE_COUNTS,
    PositionSet,
    compute_regrets_and_forfeits,
    estimate_mean_over_positions,
    read_logged_games,
    read_position_set,
    sample_limited_positions_without_line,
    sample_logged_positions,
    select_positions,
    summarise_regrets,
    to_batch,
)
from analytics.store.archive import ArchiveStore
from quarto.batch import Games, Turns
from quarto.canonical import canonical_position
from quarto.errors import RequestError
from quarto.notation import parse_position
from quarto.position import board, position_from_plies
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import ILLEGAL
from runners.exact.verdicts import PositionSetOptions, build_position_frame, create_position_set
from tests.analytics.exchange.archives import archive_of
from tests.naive import PRESETS, has_line
from tests.naive_solver import list_turns
from tests.paths import ROOT, SAMPLE

SHIPPED = ROOT / "analytics/exact/position_sets/classic.parquet"

MADE_WITH = PositionSetOptions(CLASSIC)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return pl.read_parquet(SHIPPED)


@pytest.fixture(scope="module")
def shipped() -> PositionSet:
    return read_position_set(SHIPPED)


def test_a_slice_of_the_set_that_ships_is_made_again(frame: pl.DataFrame) -> None:
    built = build_position_frame(ArchiveStore.open(SAMPLE), MADE_WITH._replace(piece_counts=(12, 14), megabytes=4.0))
    assert built.equals(frame.filter(pl.col("pieces").is_in([12, 14])))


@pytest.mark.slow
def test_the_set_that_ships_is_made_again_to_the_byte(tmp_path: Path) -> None:
    create_position_set(SAMPLE, MADE_WITH._replace(threads=2), tmp_path / "classic.parquet")
    assert (tmp_path / "classic.parquet").read_bytes() == SHIPPED.read_bytes()


def test_the_set_has_each_number_of_pieces_from_both_sources_and_no_position_twice(frame: pl.DataFrame) -> None:
    ones = frame.unique("position", maintain_order=True)
    assert SHIPPED.stat().st_size <= 2_000_000
    counts = {(pieces, source): count for pieces, source, count in ones.group_by("pieces", "source").len().iter_rows()}
    assert {pieces for pieces, _ in counts} == set(PIECE_COUNTS) == set(range(1, 16))
    assert (counts[1, "canonical"], counts[2, "canonical"]) == (8, 148)  # all there are: docs/theory.md
    assert {counts[pieces, source] for pieces in range(3, 14) for source in position_set.SOURCES} == {500}
    some = [parse_position(text)[0] for text in ones["position"].gather_every(7)]
    assert len({canonical_position(position, CLASSIC)._replace(available=0) for position in some}) == len(some)


def test_every_position_is_live_and_has_all_of_its_turns(shipped: PositionSet) -> None:
    pieces = shipped.piece_counts.astype(int)
    available = 15 - pieces
    for i in range(0, len(pieces), 50):
        assert not has_line(board(shipped.batch.position(i)), CLASSIC)
        assert shipped.batch.occupied[i] >> int(shipped.batch.last_cell[i]) & 1
    ends = (shipped.values[:, :, NO_GIFT_COLUMN] != ILLEGAL).sum(axis=1)
    gifts = (shipped.values[:, :, :NO_GIFT_COLUMN] != ILLEGAL).sum(axis=(1, 2))
    assert np.array_equal(gifts, (16 - pieces - ends) * available)


def test_values_are_those_of_playing_out(shipped: PositionSet) -> None:
    late = np.flatnonzero(shipped.piece_counts >= 12)[::60]
    assert len(late) > 40
    for i in late:
        expected = {turn: solved.value for turn, solved in list_turns(shipped.batch.position(i), CLASSIC).items()}
        table = shipped.values[i]
        stored = {
            (int(c), int(g) if g != NO_GIFT_COLUMN else NONE): int(table[c, g])
            for c, g in np.argwhere(table != ILLEGAL)
        }
        assert stored == expected


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
def test_arrangements_without_a_line_are_drawn_and_become_positions(rules: object) -> None:
    candidates = next(sample_limited_positions_without_line(rules, 6, 3))  # type: ignore[arg-type]
    tried = position_set.SAMPLE_BLOCK
    assert 0 < len(candidates.cells) < tried
    batch = to_batch(candidates)
    for i in range(0, len(candidates.cells), 500):
        plies = list(zip(candidates.pieces[i, :-1].tolist(), candidates.cells[i].tolist(), strict=True))
        position = position_from_plies(plies, int(candidates.pieces[i, -1]))
        assert batch.position(i) == position
        assert not has_line(board(position), rules)  # type: ignore[arg-type]


def test_sets_are_made_for_other_rules() -> None:
    square = PRESETS["square"]
    built = build_position_frame(
        ArchiveStore.open(SAMPLE), PositionSetOptions(square, positions_per_source=4, piece_counts=(12,), megabytes=1.0)
    )
    assert built["position"].n_unique() == 8
    for (text,), rows in built.group_by("position"):
        expected = {turn: solved.value for turn, solved in list_turns(parse_position(str(text))[0], square).items()}
        assert {
            (cell, gift): value for cell, gift, value in rows.select("cell", "gift", "value").iter_rows()
        } == expected


def test_logged_positions_are_those_of_the_games() -> None:
    games = read_logged_games(ArchiveStore.open(SAMPLE), CLASSIC)
    logged = {tuple(column) for column in np.concatenate([games.pieces[:9], games.cells[:8]]).T.tolist()}
    candidates = next(sample_logged_positions(games, 8, 1))
    assert len(candidates.cells) == min((games.plies > 8).sum(), position_set.SAMPLE_BLOCK)
    assert {
        (*held, *filled) for held, filled in zip(candidates.pieces.tolist(), candidates.cells.tolist(), strict=True)
    } <= logged
    none = Games.allocate(0)
    assert list(sample_logged_positions(none, 8, 1)) == []


def test_logged_games_have_one_order_whatever_files_they_are_in(tmp_path: Path) -> None:
    single, scattered = (
        read_logged_games(ArchiveStore.open(archive_of(tmp_path / str(most), most)), CLASSIC) for most in (1 << 20, 2)
    )
    for one, other in zip(single, scattered, strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(RequestError, match="has no games under rules 'torus'"):
        read_logged_games(ArchiveStore.open(tmp_path / "2"), PRESETS["torus"])


def test_a_changed_file_and_another_file_are_refused(tmp_path: Path, frame: pl.DataFrame) -> None:
    path = tmp_path / "set.parquet"
    content = bytearray(SHIPPED.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(RequestError, match="was changed since it was made"):
        read_position_set(path)
    frame.head(100).write_parquet(path)
    with pytest.raises(RequestError, match="not a set of positions"):
        read_position_set(path)
    path.write_bytes(b"position,cell")
    with pytest.raises(RequestError, match="not a set of positions"):
        read_position_set(path)


def test_rules_without_a_set_and_archives_without_games_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"no set of positions for rules 'torus'.*policy positions --rules torus"):
        position_set.find_existing_shipped_set("torus")
    with pytest.raises(RequestError, match="no games under rules 'torus'"):
        build_position_frame(ArchiveStore.open(SAMPLE), MADE_WITH._replace(rules=PRESETS["torus"], piece_counts=(14,)))
    with pytest.raises(RequestError, match="the mover chooses the piece"):
        build_position_frame(ArchiveStore.open(SAMPLE), MADE_WITH._replace(rules=PRESETS["own_piece"]))


@pytest.fixture(scope="module")
def late(shipped: PositionSet) -> PositionSet:
    """Select a few dozen positions of the set that ships, from nine pieces on."""
    return select_positions(shipped, (shipped.piece_counts >= 9) & (np.arange(len(shipped.piece_counts)) % 90 == 0))


def naive_regret(table: NDArray[np.int8], cell: int, gift: int) -> tuple[int, int]:
    """Return the regrets of a placement and of its gift, by loops; -1: no gift was decided."""

    def best(column: int) -> int:
        return max(int(value) for value in table[column] if value != ILLEGAL)

    free = [column for column in range(16) if any(value != ILLEGAL for value in table[column])]
    value = max(best(column) for column in free)
    if cell not in free:
        return value + 1, -1
    if table[cell][NO_GIFT_COLUMN] != ILLEGAL:
        return value - int(table[cell][NO_GIFT_COLUMN]), -1
    gift_value = int(table[cell][gift]) if 0 <= gift < 16 and table[cell][gift] != ILLEGAL else -1
    return value - best(cell), best(cell) - gift_value


def test_regrets_are_those_of_the_slow_twin_for_any_answers(late: PositionSet) -> None:
    answers = np.random.default_rng(1).integers(-3, 18, (2, len(late.logged), 40)).astype(np.int8)
    regrets = compute_regrets_and_forfeits(late.values, Turns(*answers))
    expected = np.array(
        [[naive_regret(late.values[i], *answers[:, i, k]) for k in range(40)] for i in range(len(late.logged))]
    )
    assert np.array_equal(regrets.placement, expected[..., 0])
    assert np.array_equal(regrets.gift, expected[..., 1])
    assert np.array_equal(regrets.turn, expected[..., 0] + np.maximum(expected[..., 1], 0))
    legal = np.take_along_axis((late.values != ILLEGAL).any(axis=2), answers[0].clip(0, 15).astype(int), 1)
    legal &= (answers[0] >= 0) & (answers[0] < 16)
    assert regrets.forfeits > (~legal).sum() > 0
    assert {0, 1, 2} <= set(np.unique(regrets.placement)) | set(np.unique(regrets.gift))


def test_figures_are_by_kind_source_and_pieces(late: PositionSet) -> None:
    best = late.values.reshape(len(late.values), -1).argmax(axis=1)
    cells, gifts = best // 17, best % 17
    turns = Turns(
        *(
            np.column_stack([column] * 2).astype(np.int8)
            for column in (cells, np.where(gifts == NO_GIFT_COLUMN, -1, gifts))
        )
    )
    turns.cells[::2, 1] = -1  # every second position is forfeited once
    frame = summarise_regrets(late, compute_regrets_and_forfeits(late.values, turns))
    totals = {
        row["kind"]: row for row in frame.filter(frame["source"].is_null() & frame["pieces"].is_null()).to_dicts()
    }
    values = late.values.max(axis=(1, 2))
    assert totals["placement"]["decisions"] == 2 * len(values) == totals["turn"]["decisions"]
    expected = (values[::2] + 1).sum() / (2 * len(values))
    assert math.isclose(totals["turn"]["regret"], expected)
    assert totals["gift"]["optimal"] == 1.0
    assert totals["gift"]["regret"] == 0.0
    by_pieces = frame.filter(frame["kind"] == "placement", frame["pieces"].is_not_null())
    assert by_pieces["decisions"].sum() == 2 * len(values)
    assert set(by_pieces["pieces"]) == set(late.piece_counts.tolist())
    assert set(frame.filter(frame["kind"] == "gift")["pieces"].drop_nulls()) <= {
        pieces + 1 for pieces in late.piece_counts.tolist()
    }
    assert set(frame["source"].drop_nulls()) == {"canonical", "logged"}


def test_intervals_are_those_of_means_over_positions() -> None:
    totals, counts = np.array([0, 1, 2, 1, 0, 0]), np.ones(6, int)
    estimate = estimate_mean_over_positions(totals, counts, 2.0)
    assert math.isclose(estimate.mean, 4 / 6)
    assert math.isclose(estimate.high - estimate.mean, 1.959964 * totals.std(ddof=1) / math.sqrt(6), rel_tol=1e-6)
    doubled = estimate_mean_over_positions(2 * totals, 2 * counts, 2.0)  # the same decision twice is no second position
    assert np.allclose(doubled, estimate)
    assert estimate_mean_over_positions(np.zeros(9, int), np.ones(9, int), 2.0)[:2] == (0.0, 0.0)
    assert (
        estimate_mean_over_positions(2 * counts, counts, 2.0).mean
        == estimate_mean_over_positions(2 * counts, counts, 2.0).high
        == 2.0
    )
