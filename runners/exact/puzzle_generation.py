"""`qarena puzzles make`: puzzles from the annotated games of an archive, graded by how many agents miss them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics import open_archive
from analytics.exact import puzzles
from analytics.exact.position_set import CandidatePositions, TurnSolver, select_unseen_positions
from analytics.exact.puzzles import OnlyTurn, Puzzle
from analytics.questions.selection import GameFilter, read_ply_rows
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import run_condition_sql
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.position import PackedPosition
from quarto.rules import NONE, Rules
from runners.arena.executors.base import check_solver_memory
from runners.config.agents import agent_from_label
from runners.exact.verdicts import JudgeOptions, TurnCollector
from runners.hosting.guarded_agent import silence_forfeit_log
from runners.terminal import console
from runners.terminal.console import format_annotate_command, show_progress_bar_or_notes
from runners.terminal.files import write_file

AGENT_PANEL = (
    *("rule_based", "semi_random", "minimax", "mixed", "alpha_beta", "alpha_beta(depth=4)"),
    *("mcts", "mcts(iterations=1000,solver=true)"),
)
TRIES = 8  # of each agent of the panel in each position
PIECE_COUNTS = range(
    3, 14
)  # pieces on the board: with fewer, several turns always keep the value; with more, there are at most two turns
MAX_CANDIDATES = 1000  # positions that are solved for each rule set and number of pieces


class PuzzleOptions(NamedTuple):
    """The number of puzzles to make, the seed, and the threads and the memory to use."""

    max_puzzles: int = 300
    seed: int = 1
    threads: int = 1
    megabytes: float = 128.0


def create_puzzle_file(root: PurePath, games: GameFilter, options: PuzzleOptions, path: Path) -> None:
    """Make puzzles from the annotated games, and write them to ``path``.

    An existing file is replaced. Check before the call that ``path`` can be written, because writing comes last, after
    long work. Raises ``RequestError`` if the archive has no annotated games under rules that let the opponent choose
    the piece.
    """
    check_solver_memory(options.megabytes)
    candidate_puzzles: list[Puzzle] = []
    with open_archive(root) as opened:
        runs_by_rules: dict[Rules, list[str]] = {}
        for record in games.select_runs(opened.archive):
            if not record.rules.mover_chooses:
                runs_by_rules.setdefault(record.rules, []).append(record.run_id)
        candidates = {
            rules: select_likely_only_turn_positions(opened, runs, rules, options.seed)
            for rules, runs in runs_by_rules.items()
        }
    if not any(candidates.values()):
        raise RequestError(
            f"there is no annotated position to make puzzles of in archive {root}: play games by rules under which the "
            f"opponent chooses the piece, and judge them: {format_annotate_command(root, games, choices=True)}"
        )
    with silence_forfeit_log():
        for rules, positions in candidates.items():
            candidate_puzzles += _build_puzzles(rules, positions, options)
    selected = puzzles.select_varied_easiest_first(candidate_puzzles, options.max_puzzles)
    write_file(path, puzzles.format_csv(selected))
    levels = ", ".join(str(sum(puzzle.level == level for puzzle in selected)) for level in puzzles.LEVELS)
    count = format_count_with_noun(len(selected), "puzzle")
    console.print_line(f"{count} of {len(candidate_puzzles):,}, by level {levels}: {path}")
    if len(selected) < options.max_puzzles:
        console.print_note(f"fewer than {options.max_puzzles} were found: annotate more games, with --choices")


def select_likely_only_turn_positions(
    opened: OpenArchive, runs: Sequence[str], rules: Rules, seed: int
) -> list[PackedPosition]:
    """Select positions from annotated games in which it is likely that only one cell keeps the value.

    All ``runs`` have the same ``rules``. The positions are sorted by number of pieces. No two of them are equivalent by
    symmetry, and their order depends only on the games and the seed. Where the annotations lack the number of choices
    that keep the value, every position that is not lost is selected.
    """
    order = f"md5(concat_ws('-', {seed}, run_id, game_id))"
    decisions = opened.sql(
        f"SELECT run_id, game_id, ply FROM decisions WHERE {run_condition_sql(runs)} "  # noqa: S608  (ids and numbers)
        "AND kind = 'placement' AND value_before >= 0 "
        f"AND coalesce(saving, 1) = 1 AND ply BETWEEN {PIECE_COUNTS[0]} AND {PIECE_COUNTS[-1]} "
        f"QUALIFY row_number() OVER (PARTITION BY ply ORDER BY {order}) <= {MAX_CANDIDATES} ORDER BY ply, {order}"
    )
    plies = read_ply_rows(opened, decisions.select("run_id", "game_id"))
    seen_forms: set[tuple[int, int]] = set()
    positions = []
    for (pieces,), rows in decisions.partition_by("ply", maintain_order=True, as_dict=True).items():
        plies_until = rows.rename({"ply": "at"}).join(plies, on=("run_id", "game_id"), maintain_order="left_right")
        plies_until = plies_until.filter(pl.col("ply") <= pl.col("at"))
        piece, cell = (
            plies_until[name].to_numpy().reshape(len(rows), -1).astype(np.int64) for name in ("piece", "cell")
        )
        positions += select_unseen_positions(
            iter([CandidatePositions(piece, cell[:, :pieces])]), len(rows), rules, seen_forms
        )
    return positions


def _build_puzzles(rules: Rules, positions: Sequence[PackedPosition], options: PuzzleOptions) -> list[Puzzle]:
    """Solve the positions, and build a puzzle from each position in which exactly one turn keeps the value."""
    solver = TurnSolver(rules, options.threads, options.megabytes, PIECE_COUNTS[0])
    with show_progress_bar_or_notes(f"solving {rules.name}", "positions") as bar:
        bar.start(len(positions))
        turns = solver.search_positions(positions, bar.advance, puzzles.find_only_turn_if_puzzle)
    only_turns = [(position, turn) for position, turn in zip(positions, turns, strict=True) if turn]
    with show_progress_bar_or_notes("trying", "turns") as bar:
        bar.start(len(AGENT_PANEL) * TRIES * len(only_turns))
        missed = _measure_panel_miss_rates(rules, only_turns, options, bar.advance)
    return [
        Puzzle(position._replace(last_cell=NONE), rules.name, *turn, round(share, 3))
        for (position, turn), share in zip(only_turns, missed.tolist(), strict=True)
    ]


def _measure_panel_miss_rates(
    rules: Rules,
    solved: Sequence[tuple[PackedPosition, OnlyTurn]],
    options: PuzzleOptions,
    progress: Callable[[int], None],
) -> NDArray[np.float64]:
    """Measure how often the agents of ``AGENT_PANEL`` miss the only good turn of each position.

    Returns, for each of the ``P`` positions, the share of tries in which the turn was missed, from 0 to 1, [P].
    ``progress`` is called with the number of turns taken since the last call.
    """
    judge_options = JudgeOptions(TRIES, games=0, seed=options.seed, threads=options.threads)
    batch = Batch.from_positions([position for position, _ in solved])
    cells, gifts = (np.array([[turn[i]] for _, turn in solved], np.int8).reshape(-1, 1) for i in (0, 1))
    miss_rates = np.zeros(len(solved))
    for label in AGENT_PANEL:
        turns, _ = TurnCollector(agent_from_label(label), rules, batch, options.seed).collect_turns(
            judge_options, threading.Event(), progress
        )
        miss_rates += ((turns.cells != cells) | (turns.gifts != gifts)).mean(axis=1)
    return miss_rates / len(AGENT_PANEL)
