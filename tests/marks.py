"""Marks of single cases of a test."""

from __future__ import annotations

from typing import Any

import pytest


def seldom(*cases: Any) -> list[Any]:
    """Return cases for ``parametrize`` that only ``make test-all`` runs: a tuple is a case of several arguments."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]
