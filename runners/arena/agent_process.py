"""The child's side of an isolated agent, see ``runners.hosting.limits``: each request is a batch of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base.agent import BatchAgent, KernelAgent
from agents.base.player import PythonAgent, choosers_of, ready
from agents.learning.policy import Policy
from quarto.batch import Thoughts
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.hosting.child_program import Message, Serve
from runners.hosting.compile_clock import load_views, record_compiling
from runners.hosting.limits import batch_of


def serve(setup: dict[str, Any], content: bytes) -> tuple[Message, Serve]:
    """Make an agent, and return the fields of ``AgentFacts`` and what answers for it: first rules, then positions."""
    record_compiling(setup["compiling"])
    policy = setup["policy"] and _policy(setup["policy"], content)
    described = setup["label"], setup["target"], setup["params"]
    agent: Any = AgentSpec(*described, policy=policy, trusted=setup["trusted"]).build()
    player: list[PythonAgent] = []  # once the rules are known
    facts = {
        "batches": isinstance(agent, BatchAgent),
        "choosers": choosers_of(agent),
        "jitted": isinstance(agent, KernelAgent),
        "data_files": [str(each) for each in getattr(agent, "data_files", ())],
    }

    def answer(rules: dict[str, Any] | None, question: bytes) -> Message:
        if rules is not None:
            player[:] = [ready(agent, Rules(**rules), setup["label"])]
            load_views(Rules(**rules), player[0].batches)
            return None, b""
        batch, rng = batch_of(question)
        told = Thoughts.none(len(batch.lanes))
        answers = player[0].answers(batch, rng, told)
        return None, b"".join(each.astype(np.int64).tobytes() for each in (*answers, *told))

    return (facts, b""), answer


def _policy(described: dict[str, Any], content: bytes) -> Policy:
    table, start = {}, 0
    for name, dtype, size in described["columns"]:
        table[name] = np.frombuffer(content, dtype, size, start).copy()  # aligned
        start += table[name].nbytes
    return Policy(described["kind"], described["parameters"], table)
