"""The program of an agent's own process: ``python -m runners.arena.agent_process QUESTIONS ANSWERS LIFELINE``.

The arguments are numbers of open pipes. The first message on QUESTIONS says which agent to make, for which rules; each
further one is a batch of positions. Each is answered by one message on ANSWERS. On LIFELINE nothing is ever written:
when its other end closes, because the run has ended in whatever way, the kernel ends this process too.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

import msgspec
import numpy as np

from agents.base import BatchAgent, KernelAgent
from agents.learning.policy import Policy
from agents.lift import PythonAgent, choosers_of, ready
from quarto.errors import ArenaError
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.hosting.framing import (
    ANSWERED,
    FAILED,
    READY,
    belong_to_run,
    limit_memory,
    read_message,
    write_message,
)
from runners.hosting.messages import Failed, Ready, Setup, batch_of
from runners.hosting.raised_at import raised_at


def main(questions: int, replies: int, lifeline: int) -> None:
    """Answer until the questions end."""
    belong_to_run(lifeline)
    _, first = read_message(questions)
    setup = msgspec.json.decode(first, type=Setup)
    columns = [np.frombuffer(read_message(questions)[1], column.dtype) for column in setup.columns]
    try:
        agent, player = _made(setup, columns)
    except BaseException as error:  # noqa: BLE001  (the run tells of it)
        write_message(replies, FAILED, msgspec.json.encode(_failure(error)))
        return
    about = Ready(
        isinstance(agent, BatchAgent),
        list(choosers_of(agent)),
        isinstance(agent, KernelAgent),
        [str(each) for each in getattr(agent, "data_files", ())],
    )
    write_message(replies, READY, msgspec.json.encode(about))
    while True:
        try:
            _, question = read_message(questions)
        except EOFError:
            return
        batch, rng = batch_of(question)
        try:
            numbers = [_integers(each, len(rng.seeds)) for each in _asked(player).answers(batch, rng)]
        except BaseException as error:  # noqa: BLE001  (an agent may raise anything; the run tells of it)
            write_message(replies, FAILED, msgspec.json.encode(_failure(error)))
        else:
            write_message(replies, ANSWERED, b"".join(each.tobytes() for each in numbers))


def _made(setup: Setup, columns: list[Any]) -> tuple[Any, PythonAgent | None]:
    """The agent, and itself ready to play by the rules, if it is to play and is in Python."""
    if setup.megabytes is not None:
        limit_memory(setup.megabytes)
    table = {column.name: values for column, values in zip(setup.columns, columns, strict=True)}
    policy = Policy(setup.policy_kind, setup.policy_parameters, table) if setup.policy_kind is not None else None
    agent = AgentSpec(setup.label, setup.target, setup.params, policy=policy).build()
    if setup.rules is None or isinstance(agent, KernelAgent):
        return agent, None
    return agent, ready(agent, Rules(**setup.rules), setup.label)


def _asked(player: PythonAgent | None) -> PythonAgent:
    """``player``. Raises ``TypeError`` if there is none: the agent was made to be asked about, not to play."""
    if player is None:
        raise TypeError("this process was not told the rules to play by")
    return player


def _integers(values: Any, size: int) -> Any:
    """Answers as [size] int64. Raises ``TypeError`` or ``ValueError`` for those of another form."""
    array = np.asarray(values)
    if array.shape != (size,):
        raise ValueError(f"an answer has shape {array.shape}, not ({size},)")
    if array.dtype.kind not in "iu":
        raise TypeError(f"an answer has dtype {array.dtype}, not an integer one")
    return array.astype(np.int64)


def _failure(error: BaseException) -> Failed:
    text = "".join(traceback.format_exception(error))
    return Failed(type(error).__name__, str(error), raised_at(error), text, isinstance(error, ArenaError))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
