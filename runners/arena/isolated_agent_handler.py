"""An isolated agent in its subprocess, see ``runners.hosting.limited_agents``: each request is a batch of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base.agent import BatchAgent, KernelAgent
from agents.base.player import PythonAgent, list_choosers, set_up_python_agent
from agents.learning.policy import Policy
from quarto.batch import Evaluations
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.hosting.compile_clock import load_view_kernels, record_compile_time
from runners.hosting.limited_agents import decode_batch
from runners.hosting.subprocess_program import Message, RequestHandler


def build_handler(setup: dict[str, Any], policy_bytes: bytes) -> tuple[Message, RequestHandler]:
    """Make an agent, and return the fields of ``AgentFacts`` and what answers for it: first rules, then positions."""
    record_compile_time(setup["compiling"])
    policy = setup["policy"] and _decode_policy(setup["policy"], policy_bytes)
    described = setup["label"], setup["target"], setup["params"]
    agent: Any = AgentSpec(*described, policy=policy, trusted=setup["trusted"]).build()
    player: list[PythonAgent] = []  # once the rules are known
    facts = {
        "batches": isinstance(agent, BatchAgent),
        "choosers": list_choosers(agent),
        "jitted": isinstance(agent, KernelAgent),
        "data_files": [str(each) for each in getattr(agent, "data_files", ())],
    }

    def handle_request(rules: dict[str, Any] | None, question: bytes) -> Message:
        if rules is not None:
            player[:] = [set_up_python_agent(agent, Rules(**rules), setup["label"])]
            load_view_kernels(Rules(**rules), player[0].takes_batches)
            return None, b""
        batch, rng = decode_batch(question)
        evaluations = Evaluations.blank(len(batch.lanes))
        answers = player[0].choose_turns(batch, rng, evaluations)
        return None, b"".join(each.astype(np.int64).tobytes() for each in (*answers, *evaluations))

    return (facts, b""), handle_request


def _decode_policy(policy_fields: dict[str, Any], policy_bytes: bytes) -> Policy:
    table, start = {}, 0
    for name, dtype, size in policy_fields["columns"]:
        table[name] = np.frombuffer(policy_bytes, dtype, size, start).copy()  # aligned
        start += table[name].nbytes
    return Policy(policy_fields["kind"], policy_fields["parameters"], table)
