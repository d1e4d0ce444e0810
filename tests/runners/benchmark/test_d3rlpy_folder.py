"""The folder `docs/d3rlpy`: what is wrong costs one line, also if the library is missing."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.paths import ROOT
from tests.runners.conftest import Qarena

FOLDER = str(ROOT / "docs" / "d3rlpy")


@pytest.mark.skipif(importlib.util.find_spec("d3rlpy") is not None, reason="the library is installed")
def test_a_missing_library_is_named_with_its_extra(qarena: Qarena) -> None:
    assert qarena("run", "agent@a=random", "agent@b=random", "games=4").code == 0
    typed = ("policy", "build", "--config-dir", FOLDER, "kind=d3rlpy", "name=mine")
    for more, message in (
        ((), "kind d3rlpy needs d3rlpy: pip install 'quarto-arena[d3rlpy]'"),
        (("kind.algorithm=ppo",), "algorithm='ppo' is not one of bc, dqn, cql"),
    ):
        found = qarena(*typed, *more)
        assert found.code == 2
        assert re.fullmatch(r"[^\n]+\n", found.err), found.err
        assert message in found.err
