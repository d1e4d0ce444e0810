"""The equations of Newton's method are solved as NumPy solves them, also if the games determine hardly anything."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.statistics.davidson import _solve_symmetric


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_symmetric_equations_are_solved_from_the_lower_half(size: int) -> None:
    dice = np.random.default_rng(size)
    factor = dice.normal(size=(size, size))
    matrix, vector = factor @ factor.T + np.eye(size), dice.normal(size=size)
    solution = vector.copy()
    _solve_symmetric(np.tril(matrix) + np.triu(np.full((size, size), np.nan), 1), solution, 1e-9)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, vector), rtol=1e-9)


def test_a_pivot_that_rounding_made_too_small_keeps_the_step_finite() -> None:
    """Equal rows leave nothing for the second pivot but the ridge, which is lost beside 1e9."""
    solution = np.array([1e9, 1e9])
    _solve_symmetric(np.full((2, 2), 1e9), solution, 1e-12)
    np.testing.assert_allclose(solution, [1.0, 0.0])
