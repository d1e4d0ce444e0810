"""Policies for tests: small ones of each form, and where they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from agents.learning.policy import GENOME, Policy
from analytics.store.policy_store import PolicyOrigin
from quarto.rules import CLASSIC

LEARNED = {
    "training": "0123456789ab",
    "trainer": "counting",
    "parameters": {"games": 20, "learner": {"rate": 0.5}},
    "seed": 3,
    "games": 20,
    "run_ids": ["ba9876543210"],
    "command": "qarena train trainer=counting",
}

COUNTS = Policy(
    "counts",
    {"rate": 0.5},
    {
        "board": np.array([-5, 0, 7], np.int64),
        "cell": np.array([3, 1, -1], np.int8),
        "value": np.array([0.5, -0.0, 1e300]),
    },
)
GENES = Policy(GENOME, {"alpha": 0.25, "beta": 0.75})


def origin(name: str = "mine", **other: Any) -> PolicyOrigin:
    return replace(PolicyOrigin(name, CLASSIC, {"version": "0.1.0"}, LEARNED), **other)


CURVE = pl.DataFrame({"first_game": [0, 10], "win_rate": [0.25, 0.5]})
