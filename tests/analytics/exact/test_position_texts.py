"""Many positions parsed at once are the positions parsed one by one, and wrong ones are refused with the same words."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from analytics.exact.position_set import find_existing_shipped_set
from analytics.exact.position_texts import parse_positions
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.notation import parse_position

USUAL = pl.read_parquet(find_existing_shipped_set("classic"))["position"].unique().gather_every(37).cast(pl.String)


@pytest.mark.parametrize(
    "texts",
    [
        USUAL.to_list(),
        ["..../..../..../.... 0", "0123/4567/89AB/CDE. F"],
        [*USUAL[:3], "..../.a../..../.... b torus"],
        ["..../..../..../.... -"],
        [],
    ],
    ids=["of a set", "with few and many pieces", "in other forms", "without a hand", "none"],
)
def test_positions_are_those_parsed_one_by_one(texts: list[str]) -> None:
    expected = Batch.from_positions([parse_position(text)[0] for text in texts])
    for column, expected_column in zip(parse_positions(texts), expected, strict=True):
        assert np.asarray(column).dtype == np.asarray(expected_column).dtype
        np.testing.assert_array_equal(column, expected_column)


@pytest.mark.parametrize("wrong", ["0..0/..../..../.... 1", "0.../..../..../.... 0", "0.../..../.... 1", "x.../..../"])
def test_a_wrong_position_is_refused_as_elsewhere(wrong: str) -> None:
    with pytest.raises(RequestError) as expected:
        parse_position(wrong)
    with pytest.raises(RequestError) as refused:
        parse_positions([*USUAL[:3], wrong])
    assert str(refused.value) == str(expected.value)
