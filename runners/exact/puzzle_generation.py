"""`qarena puzzles make`: puzzles from the annotated games of an archive, rated by how many agents miss them."""

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
from analytics.exact.position_set import CandidatePositions, TurnSolver, select_new_positions
from analytics.exact.puzzles import OnlyTurn, Puzzle
from analytics.questions.columns import format_count_with_noun
from analytics.questions.selection import GameFilter, read_ply_rows
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import run_condition_sql
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.position import Position
from quarto.rules import NONE, Rules
from runners.arena.executors.base import check_solver_memory
from runners.config.agents import agent_from_label
from runners.exact.verdicts import JudgeOptions, TurnCollector
from runners.hosting.guarded_agent import silence_forfeit_log
from runners.terminal import console
from runners.terminal.console import format_annotate_command, show_progress_bar
from runners.terminal.files import write_file

AGENT_PANEL = (
    *("rule_based", "semi_random", "minimax", "mixed", "alpha_beta", "alpha_beta(depth=4)"),
    *("mcts", "mcts(iterations=1000,solver=true)"),
)
TRIES = 8  # of each agent of the panel in each position
PIECE_COUNTS = range(
    3, 14
)  # of pieces on the board: with fewer no turn is the only one, with more there are two at most
MAX_CANDIDATES = 1000  # positions of each rules and number of pieces that are looked at


class PuzzleOptions(NamedTuple):
    """The puzzles to make, and the means."""

    max_puzzles: int = 300
    seed: int = 1
    threads: int = 1
    megabytes: float = 128.0


def create_puzzle_file(root: PurePath, games: GameFilter, options: PuzzleOptions, path: Path) -> None:
    """Make puzzles and write their file, which the caller has checked.

    Raises ``RequestError`` for an archive without annotated games in which the opponent chooses the piece.
    """
    check_solver_memory(options.megabytes)
    found: list[Puzzle] = []
    with open_archive(root) as opened:
        of_rules: dict[Rules, list[str]] = {}
        for record in games.select_runs(opened.archive):
            if not record.rules.mover_chooses:
                of_rules.setdefault(record.rules, []).append(record.run_id)
        met = {rules: select_candidates(opened, runs, rules, options.seed) for rules, runs in of_rules.items()}
    if not any(met.values()):
        raise RequestError(
            f"there is no annotated position to make puzzles of in archive {root}: play games by rules under which the "
            f"opponent chooses the piece, and judge them: {format_annotate_command(root, games, choices=True)}"
        )
    with silence_forfeit_log():
        for rules, positions in met.items():
            found += _build_puzzles(rules, positions, options)
    chosen = puzzles.select_varied(found, options.max_puzzles)
    write_file(path, puzzles.format_csv(chosen))
    levels = ", ".join(str(sum(each.level == level for each in chosen)) for level in puzzles.LEVELS)
    console.print_line(f"{format_count_with_noun(len(chosen), 'puzzle')} of {len(found):,}, by level {levels}: {path}")
    if len(chosen) < options.max_puzzles:
        console.print_note(f"fewer than {options.max_puzzles} were found: annotate more games, with --choices")


def select_candidates(opened: OpenArchive, runs: Sequence[str], rules: Rules, seed: int) -> list[Position]:
    """Positions of annotated games in which one cell may be the only one that keeps the value, by pieces on the board.

    All runs are by these rules. No two positions are images of each other. Their order depends on the games and the
    seed alone. Where annotations count no choices, all positions that are not lost are candidates.
    """
    order = f"md5(concat_ws('-', {seed}, run_id, game_id))"
    chosen = opened.sql(
        f"SELECT run_id, game_id, ply FROM decisions WHERE {run_condition_sql(runs)} "  # noqa: S608  (ids and numbers)
        "AND kind = 'placement' AND value_before >= 0 "
        f"AND coalesce(saving, 1) = 1 AND ply BETWEEN {PIECE_COUNTS[0]} AND {PIECE_COUNTS[-1]} "
        f"QUALIFY row_number() OVER (PARTITION BY ply ORDER BY {order}) <= {MAX_CANDIDATES} ORDER BY ply, {order}"
    )
    plies = read_ply_rows(opened, chosen.select("run_id", "game_id"))
    seen: set[tuple[int, int]] = set()
    found = []
    for (pieces,), rows in chosen.partition_by("ply", maintain_order=True, as_dict=True).items():
        until = rows.rename({"ply": "at"}).join(plies, on=("run_id", "game_id"), maintain_order="left_right")
        until = until.filter(pl.col("ply") <= pl.col("at"))
        piece, cell = (until[name].to_numpy().reshape(len(rows), -1).astype(np.int64) for name in ("piece", "cell"))
        found += select_new_positions(iter([CandidatePositions(piece, cell[:, :pieces])]), len(rows), rules, seen)
    return found


def _build_puzzles(rules: Rules, positions: Sequence[Position], options: PuzzleOptions) -> list[Puzzle]:
    """The puzzles among positions."""
    solver = TurnSolver(rules, options.threads, options.megabytes, PIECE_COUNTS[0])
    with show_progress_bar(f"solving {rules.name}", "positions") as bar:
        bar.start(len(positions))
        solved = solver.search_positions(positions, bar.advance, puzzles.find_only_turn)
    kept = [(position, turn) for position, turn in zip(positions, solved, strict=True) if turn]
    with show_progress_bar("trying", "turns") as bar:
        bar.start(len(AGENT_PANEL) * TRIES * len(kept))
        missed = _measure_miss_rates(rules, kept, options, bar.advance)
    return [
        Puzzle(position._replace(last_cell=NONE), rules.name, *turn, round(share, 3))
        for (position, turn), share in zip(kept, missed.tolist(), strict=True)
    ]


def _measure_miss_rates(
    rules: Rules,
    solved: Sequence[tuple[Position, OnlyTurn]],
    options: PuzzleOptions,
    progress: Callable[[int], None],
) -> NDArray[np.float64]:
    """[P] the share of the panel's tries that are not the only turn of each of ``P`` positions."""
    asked = JudgeOptions(TRIES, games=0, seed=options.seed, threads=options.threads)
    batch = Batch.from_positions([position for position, _ in solved])
    cells, gifts = (np.array([[turn[i]] for _, turn in solved], np.int8).reshape(-1, 1) for i in (0, 1))
    missed = np.zeros(len(solved))
    for label in AGENT_PANEL:
        turns, _ = TurnCollector(agent_from_label(label), rules, batch, options.seed).collect_turns(
            asked, threading.Event(), progress
        )
        missed += ((turns.cells != cells) | (turns.gifts != gifts)).mean(axis=1)
    return missed / len(AGENT_PANEL)
