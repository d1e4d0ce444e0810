"""The exact solver inside an agent: its record travels in the agent's keys, and each thread works on a copy."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from agents.base.agent import Knowledge, keys
from quarto.bits import array_pointer
from quarto.jit import inline_function, uint64
from quarto.rules import CELLS, Rules
from quarto.solver.table import CHILD_FIELDS, SEARCH, TablebaseIndex, allocate_table, build_search_record

MEGABYTES = 64.0  # of the table that all players of these rules share
RECORD_WORDS = SEARCH.itemsize // 8  # the first of the agent's keys, and of its scratch
SOLVER_WORDS = RECORD_WORDS + (CELLS + 1) * CELLS * CHILD_FIELDS  # of scratch


@inline_function
def copy_search_record_to_scratch_once(agent: Any) -> Any:
    """Return the solver's search record for this thread, which lies in the agent's scratch.

    The first call in a thread copies the record there from the shared one, and gives it memory in which the solver
    lists child positions.
    """
    search = numba.carray(array_pointer(agent.scratch_address), 1, SEARCH)[0]
    if search.images == uint64(0):
        shared_words, record_words = (
            keys(agent),
            numba.carray(array_pointer(agent.scratch_address), RECORD_WORDS, np.uint64),
        )
        for i in range(RECORD_WORDS):
            record_words[i] = shared_words[i]
        search.children = agent.scratch_address + uint64(8 * RECORD_WORDS)
    return search


@functools.lru_cache(maxsize=4)
def _get_shared_proof_tables(rules: Rules) -> dict[str, NDArray[np.uint64]]:
    """Return the tables of proofs under these rules, which all players of this process share.

    They can be shared because proofs depend only on the rules. The first call for a set of rules allocates the tables,
    and later calls return the same ones. Only the tables of the four sets of rules that were used last are kept.
    """
    return {"table": allocate_table(MEGABYTES), "distances": allocate_table(MEGABYTES / 4)}


@dataclass(frozen=True)
class SolverKnowledge(Knowledge):
    """Knowledge whose ``keys`` begin with the solver's search record (of dtype ``SEARCH``).

    It also holds references to the arrays to which the record points, so that they are not freed.
    """

    owned_arrays: tuple[Any, ...] = ()


def build_solver_record(rules: Rules, base: TablebaseIndex | None = None) -> tuple[NDArray[np.uint64], tuple[Any, ...]]:
    """Build the solver's record under these rules, and return it with the arrays to which it points.

    The record is [RECORD_WORDS] uint64. ``base`` is the tablebase of the rules, or None. The caller must keep the
    arrays alive as long as the record is used.
    """
    arrays: dict[str, Any] = {
        **_get_shared_proof_tables(rules),
        "stop": np.zeros(1, np.int64),
        **({"base": base.words} if base else {}),
    }
    search = build_search_record(rules, arrays)
    if base:
        search["base_pieces"] = base.pieces
    return search.view(np.uint64), tuple(arrays.values())
