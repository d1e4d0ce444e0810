"""The subprocess side of an isolated agent, see ``runners.hosting.limited_agents``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from agents.base.agent import BatchAgent, KernelAgent
from agents.base.player import PythonAgent, list_accepted_choosers, prepare_python_agent
from agents.learning.policy import Policy
from quarto.batch import Evaluations
from quarto.jit import ensure_usable_cache_directory
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.hosting.compile_clock import load_batch_view_kernels, record_compile_time
from runners.hosting.limited_agents import decode_batch
from runners.hosting.subprocess_program import Handler, Message


def build_handler(setup: dict[str, Any], policy_bytes: bytes) -> Handler:
    """Build an agent in this subprocess, and return a function that handles requests for its turns.

    Args:
        setup: Fields of the agent's specification, and whether compile times are measured.
        policy_bytes: Columns of the agent's policy, one after the other; empty without a policy.

    Returns:
        A first message with the fields of ``AgentFacts``, and a function that handles requests. The first request has
        the rules; each further request has a batch of positions, and its response has turns and evaluations.

    """
    if setup["kernel_cache"] is not None:
        _link_kernel_cache(Path(setup["kernel_cache"]))
    record_compile_time(setup["compiling"])
    policy = setup["policy"] and _decode_policy(setup["policy"], policy_bytes)
    spec_fields = setup["label"], setup["target"], setup["params"]
    agent: Any = AgentSpec(*spec_fields, policy=policy, trusted=setup["trusted"]).build()
    player: list[PythonAgent] = []  # once the rules are known
    facts = {
        "batches": isinstance(agent, BatchAgent),
        "choosers": list_accepted_choosers(agent),
        "jitted": isinstance(agent, KernelAgent),
        "data_files": [str(path) for path in getattr(agent, "data_files", ())],
    }

    def handle_request(rules: dict[str, Any] | None, request_bytes: bytes) -> Message:
        if rules is not None:
            player[:] = [prepare_python_agent(agent, Rules(**rules), setup["label"])]
            if player[0].takes_batches:
                load_batch_view_kernels(Rules(**rules))
            return None, b""
        batch, rng = decode_batch(request_bytes)
        evaluations = Evaluations.blank(len(batch.lanes))
        answers = player[0].choose_turns(batch, rng, evaluations)
        return None, b"".join(array.astype(np.int64).tobytes() for array in (*answers, *evaluations))

    return Handler((facts, b""), handle_request)


def _link_kernel_cache(folder: Path) -> None:
    """Fill the cache of kernels in this sandbox with links to the files of the run's cache, which it can only read.

    The sandbox's own cache is in its home, which is in memory.
    """
    for file in folder.glob("**/*.*"):
        link = ensure_usable_cache_directory() / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)


def _decode_policy(policy_fields: dict[str, Any], policy_bytes: bytes) -> Policy:
    table, start = {}, 0
    for name, dtype, size in policy_fields["columns"]:
        table[name] = np.frombuffer(policy_bytes, dtype, size, start).copy()  # aligned
        start += table[name].nbytes
    return Policy(policy_fields["kind"], policy_fields["parameters"], table)
