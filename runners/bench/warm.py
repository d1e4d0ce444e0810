"""Compile all kernels ahead of time."""

from __future__ import annotations

import importlib
import io
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agents.base.player import choosers_of
from analytics import open_archive
from analytics.exact.annotate import AnnotationSettings, annotate_runs
from analytics.exchange.export import ExportRequest, episodes, export_to
from analytics.exchange.text import Tags, read_text
from analytics.policies.derived.dataset import dataset_of
from analytics.questions.openings import EMPTY_BOARD, openings
from analytics.questions.selection import select
from analytics.store.archive import Archive
from analytics.tables.derived.tables import POSITIONS_TABLE, index_runs
from analytics.tables.verify.archive import verify
from quarto.jit import load_all
from runners.arena.executors.base import Stop, Task
from runners.arena.executors.processes import Processes
from runners.arena.playing import execute
from runners.arena.request import Request
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import ArchiveSettings
from runners.config.agents import load_agent
from runners.config.options import KIND_GROUP, load_rules, names, settings_of
from runners.hosting.guarded_agent import GuardedAgent
from runners.learning.training.derive import derivation_of
from runners.play.hints import hint
from runners.play.session import AgentOpponent, Session

Step = tuple[str, Callable[[], object]]

OTHER_AGENTS = ("oracle", "random")  # whose games an archive needs for what is made of it here
FROM_PIECES = 12  # on the board, from which decisions are judged: nothing is left to search, but all is compiled


def warm() -> Iterator[tuple[str, float]]:
    """Play every agent into a temporary archive, verify it, use it; yields a name and the seconds of each step.

    Two processes share the steps, because numba compiles one kernel at a time in a process. One has the agents and what
    plays them. The other has what is made of an archive, and the solver. They take as long and share few kernels.
    """
    with TemporaryDirectory(prefix="quarto-arena-warm-") as folder:
        other, root = Path(folder, "other"), Path(folder, "rest")
        steps: list[Step] = [
            *((name, partial(play_itself, name, number, root)) for number, name in enumerate(names("agent"))),
            ("python", lambda: play_in_python(root)),
            ("players", load_players),
        ]
        executor = Processes()
        pool = executor.pool(WarmTask(str(other)), 1, threading.Event())
        try:
            pool.begin(None)
            yield from (timed(*step) for step in steps if step[0] not in OTHER_AGENTS)
            while pool.pending:
                yield from itertools.chain.from_iterable(pool.answers())
        finally:
            pool.end()
            executor.close()
        yield timed("others", load_all)


@dataclass(frozen=True)
class WarmTask(Task):
    """Makes what an archive is for, and the solver: the steps of the other process, in one part."""

    root: str

    def __call__(self, part: None, stop: Stop) -> list[tuple[str, float]]:  # noqa: ARG002  (its process is ended)
        """Carry out the steps; returns the name and the seconds of each."""
        other = Path(self.root)
        steps: list[Step] = [
            *((name, partial(play_itself, name, number, other)) for number, name in enumerate(OTHER_AGENTS)),
            ("annotate", partial(annotate_once, other)),
            ("play", ask_once),
            ("exchange", partial(exchange_once, other)),
            ("openings", partial(look_at_openings, other)),
            ("verify", partial(verify_once, other)),
            ("policies", partial(derive_once, other)),
        ]
        return [timed(*step) for step in steps]


def timed(name: str, step: Callable[[], object]) -> tuple[str, float]:
    """Carry out a step; returns its name and its seconds."""
    started = time.perf_counter()
    step()
    return name, time.perf_counter() - started


def play_itself(name: str, seed: int, root: Path) -> None:
    """Play an agent against itself, with two imposed plies."""
    agent = load_agent(name)
    play(RunSpec(load_rules(rules_played_by(agent)), (agent, agent), ((0, 1),), seed, 2), root)


def play_in_python(root: Path) -> None:
    """Play agents in Python, so that what positions tell them is compiled."""
    agents = tuple(
        AgentSpec(interface, f"runners.authoring.templates.{interface}.Template", {}, trusted=True)
        for interface in ("choose", "play")
    )
    play(RunSpec(load_rules("classic"), agents, ((0, 1),), 0, 2), root)


def load_players() -> None:
    """Load the kernels of agents, for all values of their parameters, of trainings and of environments."""
    for module in ("runners.learning.training.online", "runners.learning.environments.stepping"):
        importlib.import_module(module)
    for name in names("agent"):
        load_agent(name).build()
    load_all(("agents", "runners"))


def exchange_once(root: Path) -> None:
    """Export the games of an archive as episodes and as text, and read the text."""
    text = io.BytesIO()
    with open_archive(root) as opened:
        next(episodes(opened, ExportRequest("d3rlpy", perspective="mover")))
        export_to(opened, ExportRequest("text"), text)
    read_text(text.getvalue(), Tags(), load_rules)


def look_at_openings(root: Path) -> None:
    """Index an archive and look up the empty board."""
    archive = Archive.open(root)
    index_runs(archive, archive.run_ids())
    run_id = archive.run_ids()[0]
    parts = [POSITIONS_TABLE.parts(archive, run_id, each) for each in archive.ranges(run_id, POSITIONS_TABLE.name)]
    POSITIONS_TABLE.parent(parts, archive.known_run(run_id), (0, 1))
    with open_archive(root) as opened:
        openings(opened, EMPTY_BOARD, imposed=True)


def derive_once(root: Path) -> None:
    """Derive a policy of each kind from the games of an archive by classic rules; none is stored."""
    with open_archive(root) as opened:
        dataset = dataset_of(select(opened, "agent_0 = 'random'"))
    for kind in names(KIND_GROUP):
        derivation_of(kind, settings_of(KIND_GROUP, kind)).derive(dataset, 1)
    derivation_of("line_values", {**settings_of(KIND_GROUP, "line_values"), "method": "cloning"}).derive(dataset, 1)


def annotate_once(root: Path) -> None:
    """Find the exact values of the last decisions in the games of an archive."""
    archive = Archive.open(root)
    annotate_runs(archive, archive.run_ids(), AnnotationSettings(from_pieces=FROM_PIECES, threads=1))


def verify_once(root: Path) -> None:
    """Verify an archive with its derived tables."""
    verify(Archive.open(root))


def ask_once() -> None:
    """Begin a person's game against an agent, with a hint for either part of a turn."""
    rules, agent = load_rules("classic"), load_agent("random")
    session = Session(rules, 1, AgentOpponent(GuardedAgent(agent.build(), agent.label, rules), run=1, number=0))
    session.answer()
    hint(session.game)
    hint(session.game.place(0))


def play(spec: RunSpec, root: Path, games: int = 2, threads: int = 1) -> float:
    """Play games into an archive without a progress bar or a table; returns the seconds of playing and writing."""
    request = Request(spec, games, threads, ArchiveSettings(root, other_code="extend"), progress=False)
    return execute(request, "qarena warm", threading.Event()).seconds


def rules_played_by(agent: AgentSpec) -> str:
    """The name of rules that an agent plays: classic, unless it plays only where the mover chooses the piece."""
    return "classic" if "opponent" in choosers_of(agent.build()) else "own_piece"
