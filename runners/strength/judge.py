"""`qarena policy judge` and `positions`: how close to perfect agents play, and the positions that tell."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import polars as pl

from analytics.perfect.position_draw import NUMBERS, TurnSolver, logged_plies, positions, rows_of
from analytics.perfect.position_set import PositionSet, encoded, origin_of, path_for, read
from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.arena.config_groups import load_rules
from runners.executors.machine import check_tables
from runners.hosting.guarded_agent import unlogged
from runners.strength.judged import judged
from runners.strength.judging import Judgement, JudgeOptions, judge
from runners.terminal import console
from runners.terminal.files import write_file
from runners.terminal.progress import progress_bar


class SetOptions(NamedTuple):
    """The positions to draw, and the means to solve them."""

    rules: Rules
    each: int = 500  # of each source and number of pieces, at most
    seed: int = 2026
    numbers: Sequence[int] = NUMBERS  # of pieces on the board
    threads: int = 1
    megabytes: float = 128.0


def make_frame(archive: Archive, options: SetOptions) -> pl.DataFrame:
    """The positions and the value of every turn in them.

    Raises ``RequestError`` where the mover chooses the piece and for an archive without games under these rules.
    """
    rules = options.rules
    if rules.mover_chooses:
        raise RequestError(
            f"under rules {rules.name!r} the mover chooses the piece: sets of positions are for rules under which the "
            "opponent does"
        )
    check_tables(options.megabytes)
    games = logged_plies(archive, rules)
    solver = TurnSolver(rules, options.threads, options.megabytes, min(options.numbers))
    frames = []
    with progress_bar("solving", "positions") as bar:
        bar.start(2 * options.each * len(options.numbers))
        for pieces in options.numbers:
            for source, found in positions(rules, games, pieces, options.each, options.seed):
                frames.append(rows_of(source, found, solver.solved(found, bar.advance)))
    return pl.concat(frames)


def make_set(root: PurePath, options: SetOptions, path: Path) -> None:
    """Draw a set of positions, solve it and write its file, which the caller has checked."""
    frame = make_frame(Archive.open(root), options)
    content = encoded(frame, origin_of(options.rules, options.seed, options.each))
    write_file(path, content)
    count = frame["position"].n_unique()
    console.print_line(f"{count:,} positions, {len(frame):,} turns, {len(content):,} bytes: {path}")


class JudgeRequest(NamedTuple):
    """The agents to judge, and by which positions."""

    names: Sequence[str]
    root: PurePath  # of the archive
    everything: bool = False  # all agents and policies
    rules: str | None = None  # None: classic, or those of the file
    file: Path | None = None  # of the positions; None: the set that ships


def carry_out(request: JudgeRequest, options: JudgeOptions, stop: threading.Event) -> Judgement | None:
    """Judge agents; None once ``stop`` is set. Raises ``RequestError`` for what is not there."""
    positions = _positions(request)
    found = judged(request.names, request.root, positions.rules, request.everything)
    for note in found.notes:
        console.print_note(note)
    verdicts = []
    with unlogged(), progress_bar("judging", "turns") as bar:
        bar.start(len(found.agents) * options.draws * len(positions.logged))
        for agent in found.agents:
            bar.describe(agent.label)
            verdict = judge(agent, positions, options, stop, bar.advance)
            if verdict is None:
                return None
            verdicts.append(verdict)
    for verdict in verdicts:
        for note in verdict.notes:
            console.print_note(note)
    return Judgement(verdicts, positions)


def _positions(request: JudgeRequest) -> PositionSet:
    """The set of positions to judge by."""
    wanted = request.rules or "classic"
    if request.file is None:
        return read(path_for(load_rules(wanted).name))
    positions = read(request.file)
    if request.rules is not None and positions.rules != load_rules(wanted):
        raise RequestError(f"{request.file} holds positions of rules {positions.rules.name!r}, not {wanted!r}")
    return positions
