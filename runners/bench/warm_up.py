"""Steps that use every kernel once, so that all are compiled ahead of time."""

from __future__ import annotations

import hashlib
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
from typing import NamedTuple

import numpy as np
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

from agents.base.player import list_accepted_choosers
from agents.learning.line_features import build_feature_words
from agents.learning.policy import compute_checked_board_pieces
from agents.learning.position_rows import build_row_knowledge, enlarge_rows
from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.exchange.export import ExportRequest, read_episodes, write_export_to_stream
from analytics.exchange.text import Tags, parse_games
from analytics.policies.kinds.dataset import load_dataset
from analytics.policies.kinds.line_fit import build_stage_fit
from analytics.questions.openings import EMPTY_BOARD, explore_position
from analytics.questions.selection import select_games
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.definitions import POSITIONS_TABLE
from analytics.tables.derived.indexing import index_runs
from analytics.tables.derived.turn_counts import TurnCounts, sum_turn_counts
from analytics.tables.verification.archive import verify_archive
from quarto.batch import Batch
from quarto.jit import ensure_usable_cache_directory, load_imported_kernels
from quarto.perft import decode_board_keys, generate_key_layers, perft
from quarto.rng import Streams
from quarto.sources import KERNEL_PACKAGES, OTHER_PACKAGES, source_fingerprint
from quarto.views import BatchView, Position
from runners.arena.execution import execute_request
from runners.arena.executors.base import Task, Worker
from runners.arena.executors.processes import Processes
from runners.arena.request import RunRequest
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import ArchiveOptions
from runners.config.agents import load_agent
from runners.config.yaml_options import KIND_GROUP, list_options, load_option, load_rules
from runners.hosting.guarded_agent import GuardedAgent
from runners.learning.training.policy_build import build_kind
from runners.play.hints import find_hint
from runners.play.session import AgentOpponent, Session

WarmUpStep = tuple[str, Callable[[], object]]  # name and action

ARCHIVE_AGENTS = ("oracle", "random")  # agents whose games the steps on an archive need
FROM_PIECES = 12  # least pieces on boards whose decisions are judged: quick to search, and every kernel is compiled


class StepTime(NamedTuple):
    """The name of a step and the time that it took."""

    name: str
    seconds: float


def time_warm_up_steps() -> Iterator[StepTime]:
    """Let every agent play, with a temporary archive for the games, use that archive, and yield the time of each step.

    The steps are divided between two processes, because numba compiles only one kernel at a time in each process. In
    one process the agents play; the other one solves positions and works on an archive. Both take about as long, and
    they share few kernels. Finally a marker is written, by which ``are_all_kernels_compiled`` knows that the warm-up is
    complete.
    """
    with TemporaryDirectory(prefix="quarto-arena-warm-") as folder:
        executor = Processes()
        pool = executor.open_pool(WarmUpTask(str(Path(folder, "other"))), 1, threading.Event())
        try:
            pool.submit(None)
            yield from (time_step(*step) for step in list_player_steps(Path(folder, "rest")))
            while pool.pending:
                yield from itertools.chain.from_iterable(pool.wait_for_results())
        finally:
            pool.release_workers_abandoning_chunks()
            executor.close()
        yield time_step("others", load_imported_kernels)
    _build_marker_path().touch()


def count_warm_up_steps() -> int:
    """Return the number of steps that ``time_warm_up_steps`` takes."""
    return len(list_player_steps(Path())) + len(list_archive_steps(Path())) + 1


def are_all_kernels_compiled() -> bool:
    """Return whether ``time_warm_up_steps`` has already compiled all kernels of these sources for this processor."""
    return _build_marker_path().exists()


def _build_marker_path() -> Path:
    conditions = (
        f"{source_fingerprint((*KERNEL_PACKAGES, *OTHER_PACKAGES))} {get_host_cpu_name()} {get_host_cpu_features()}"
    )
    return ensure_usable_cache_directory() / f"all-{hashlib.sha256(conditions.encode()).hexdigest()[:16]}"


def list_player_steps(root: Path) -> list[WarmUpStep]:
    """List the steps of the first process.

    In these steps the agents that do not solve positions play, and their games are stored in the archive at ``root``.
    """
    names = ((number, name) for number, name in enumerate(list_options("agent")) if name not in ARCHIVE_AGENTS)
    return [
        *((name, partial(play_agent_against_itself, name, number, root)) for number, name in names),
        ("python", partial(play_python_agents, root)),
        ("players", load_agent_and_training_kernels),
    ]


def list_archive_steps(root: Path) -> list[WarmUpStep]:
    """List the steps of the second process: solve positions, and work on an archive at ``root``."""
    return [
        *((name, partial(play_agent_against_itself, name, number, root)) for number, name in enumerate(ARCHIVE_AGENTS)),
        ("annotate", partial(annotate_last_decisions, root)),
        ("play", play_session_with_hints),
        ("exchange", partial(export_and_read_games, root)),
        ("openings", partial(index_and_query_openings, root)),
        ("verify", partial(verify_archive_ignoring_problems, root)),
        ("policies", partial(derive_policies, root)),
        ("tables", build_and_enlarge_policy_tables),
        ("questions", partial(ask_questions, root)),
        ("boards", count_and_list_boards),
    ]


@dataclass(frozen=True)
class WarmUpTask(Task[None, list[StepTime]]):
    """The task of the second warm-up process, which carries out all its steps as one chunk.

    The archive of these steps is in the folder ``root``.
    """

    root: str

    def build_worker(self) -> Worker[None, list[StepTime]]:
        # The pool ends the process to stop it.
        return lambda _chunk, _stop: [time_step(*step) for step in list_archive_steps(Path(self.root))]


def time_step(name: str, step: Callable[[], object]) -> StepTime:
    """Carry out a step and return its name and the time that it took."""
    started = time.perf_counter()
    step()
    return StepTime(name, time.perf_counter() - started)


def play_agent_against_itself(name: str, seed: int, root: Path) -> None:
    """Play two games of an agent against itself, and store them in the archive at ``root``.

    Their opening has two imposed plies.
    """
    agent = load_agent(name)
    play_games(RunSpec(load_rules(choose_rules_name(agent)), (agent, agent), ((0, 1),), seed, 2), root)


def play_python_agents(root: Path) -> None:
    """Let agents written in Python play, so that the kernels behind ``Position`` and ``BatchView`` are compiled."""
    agents = tuple(
        AgentSpec(interface, f"runners.authoring.templates.{interface}.{interface.title()}Template", {}, trusted=True)
        for interface in ("choose", "play")
    )
    play_games(RunSpec(load_rules("classic"), agents, ((0, 1),), 0, 2), root)
    batch = BatchView(Batch.from_positions([Position.parse("0.6F/.3A./..5./C..9 7").packed]), load_rules("classic"))
    for pieces in (None, np.zeros(1, np.int64)):
        batch.winning_cells(pieces)
    Streams(np.zeros(1, np.uint64)).draw(0)


def load_agent_and_training_kernels() -> None:
    """Load the kernels of agents, for all values of their parameters, and the kernels of trainings and environments."""
    for module in ("runners.learning.training.online", "runners.learning.environments.step_kernels"):
        importlib.import_module(module)
    for name in list_options("agent"):
        load_agent(name).build()
    load_imported_kernels(("agents", "runners"))


def export_and_read_games(root: Path) -> None:
    """Export the games of an archive as episodes and as text, and read the text."""
    text = io.BytesIO()
    with open_archive(root) as opened:
        next(read_episodes(opened, ExportRequest("d3rlpy", perspective="mover")))
        write_export_to_stream(opened, ExportRequest("text"), text)
    parse_games(text.getvalue(), Tags(), load_rules)


def index_and_query_openings(root: Path) -> None:
    """Index the games of an archive, and look up the empty board in the index."""
    archive = ArchiveStore.open(root)
    index_runs(archive, archive.list_ids_of_runs_with_games())
    run_id = archive.list_ids_of_runs_with_games()[0]
    frames = [
        POSITIONS_TABLE.read_frames(archive, run_id, indexed_range)
        for indexed_range in archive.list_effective_ranges(run_id, POSITIONS_TABLE.name)
        for _ in range(2)  # tables with equal keys, which are merged row by row
    ]
    for _ in sum_turn_counts([[TurnCounts.empty(1)], [TurnCounts.empty(1)]]):  # as with several files of games
        pass
    POSITIONS_TABLE.build_parent(frames, archive.load_run(run_id), (0, 1))
    with open_archive(root) as opened:
        explore_position(opened, EMPTY_BOARD, imposed=True)


def derive_policies(root: Path) -> None:
    """Derive a policy of each kind from the games of an archive under classic rules, without storing the policy."""
    with open_archive(root) as opened:
        dataset = load_dataset(select_games(opened, "agent_0 = 'random'"))
    for kind in list_options(KIND_GROUP):
        build_kind(kind, load_option(KIND_GROUP, kind)).derive(dataset, 1)
    build_kind("line_values", {**load_option(KIND_GROUP, "line_values"), "method": "cloning"}).derive(dataset, 1)
    build_stage_fit(build_feature_words(dataset.rules), units=1, seed=0)  # with hidden units, as from 50,000 games on


def build_and_enlarge_policy_tables() -> None:
    """Check the board of a learned policy, as when a policy is loaded, and enlarge a table of such boards."""
    lanes, occupied, hand, widths = (np.full(1, number, np.int64) for number in (0, 1, 1, 15))
    compute_checked_board_pieces(lanes, occupied)
    knowledge, _ = build_row_knowledge(np.zeros(1), (lanes, occupied, hand), widths)
    enlarge_rows(knowledge)


def ask_questions(root: Path) -> None:
    """Ask an archive the questions that replay its games."""
    with open_archive(root) as opened:
        opened.mistakes()
        opened.ordered_openings(2).collect()
        opened.sql("SELECT * FROM boards LIMIT 1")


def count_and_list_boards() -> None:
    """Count games and boards of a few pieces, and list the boards as a tablebase does."""
    rules = load_rules("classic")
    perft(rules, 2)
    for keys in generate_key_layers(rules, 2):
        decode_board_keys(keys, rules)


def annotate_last_decisions(root: Path) -> None:
    """Annotate the last decisions in the games of an archive with exact values."""
    archive = ArchiveStore.open(root)
    annotate_runs(archive, archive.list_ids_of_runs_with_games(), AnnotationOptions(from_pieces=FROM_PIECES, threads=1))


def verify_archive_ignoring_problems(root: Path) -> None:
    """Verify an archive with its derived tables. Problems are ignored."""
    verify_archive(ArchiveStore.open(root))


def play_session_with_hints() -> None:
    """Begin a game of a person against an agent, and ask for hints for a placement and for a gift."""
    rules, agent = load_rules("classic"), load_agent("random")
    session = Session(
        rules, 1, AgentOpponent(GuardedAgent(agent.build(), agent.label, rules), run_stream_key=1, game_number=0)
    )
    session.play_agent_turn()
    find_hint(session.game)
    find_hint(session.game.place(0))


def play_games(spec: RunSpec, root: Path, games: int = 2, threads: int = 1) -> float:
    """Play games and write them to an archive; return how many seconds playing and writing took.

    Neither a progress bar nor tables are shown.
    """
    request = RunRequest(spec, games, threads, ArchiveOptions(root, other_code="extend"), progress=False)
    return execute_request(request, "qarena warm", threading.Event()).seconds


def choose_rules_name(agent: AgentSpec) -> str:
    """Return the name of rules that an agent plays: ``classic`` if it plays them, otherwise ``own_piece``."""
    return "classic" if "opponent" in list_accepted_choosers(agent.build()) else "own_piece"
