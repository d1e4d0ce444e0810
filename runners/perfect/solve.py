"""What `qarena solve` prints: one position as a table or JSON, a file of them as lines of JSON, the whole game."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from quarto.errors import FailureError, RequestError
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE
from quarto.solver.solver import Solution, Turn
from runners.arena.config_groups import load_rules
from runners.arena.machine import MEBIBYTE, available_cores, check_tables
from runners.perfect.solvers import (
    VALUE_NAMES,
    Question,
    Solvers,
    Wanted,
    answers,
    as_line,
    as_mapping,
    attended,
    prove,
    question,
    solve,
)
from runners.terminal import console

LEGEND = "+n wins and -n loses in n placements, = draws, · is no legal turn; best first"
SHORT_LEGEND = "+ wins, - loses, = draws, · is no legal turn; best first"


def solve_position(text: str, wanted: Wanted, megabytes: float, json: bool) -> None:
    """Print what a position is worth. Raises ``RequestError`` for what is none."""
    asked = question(text)
    check_tables(megabytes)
    solvers = Solvers(megabytes)
    started = time.perf_counter()
    with _watching(solvers, started) as look:
        solution = attended(solvers, lambda: solve(asked, wanted, solvers), look)
    if json:
        console.out().print(as_line(as_mapping(asked, solution, wanted)), markup=False, soft_wrap=True)
        return
    console.out().print(sentence(asked, solution), markup=False, soft_wrap=True)
    if solution.turns:
        console.show([turns_table(asked, solution)])
        console.out().print(LEGEND if wanted.distance else SHORT_LEGEND, markup=False, soft_wrap=True)
    console.say(f"{solvers.nodes:,} positions searched in {time.perf_counter() - started:.2f} s")


def solve_file(path: Path, wanted: Wanted, megabytes: float) -> int:
    """Print an answer a line, in order; returns how many lines could not be answered.

    Blank lines ask nothing. Raises ``RequestError`` when the file cannot be read.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    check_tables(megabytes, max(1, len({line.split()[2] if len(line.split()) == 3 else "" for _, line in lines})))
    bad = 0
    with _bar(len(lines)) as advance:
        for answer in answers(lines, wanted, Solvers(megabytes), available_cores()):
            _write_line(as_line(answer.content))
            if answer.wrong is not None:
                bad += 1
                console.say(f"line {answer.line}: {answer.wrong}")
            advance()
    return bad


def solve_game(rules_name: str, megabytes: float, json: bool) -> None:
    """Prove the value of the whole game and say what it took."""
    rules = load_rules(rules_name)
    check_tables(megabytes)
    solvers = Solvers(megabytes, based=False)
    with _watching(solvers, time.perf_counter()) as look:
        proof = prove(rules, solvers, look)
    peak = peak_megabytes()
    if json:
        content = {"rules": rules.name, "value": proof.value, "nodes": proof.nodes, "seconds": round(proof.seconds, 3)}
        _write_line(as_line(content | {"megabytes": round(peak, 1)}))
        return
    first = "who moves first" if rules.mover_chooses else "who gives the first piece"
    columns = [
        console.Column("rules", [rules.name], right=False),
        console.Column("value", [f"{VALUE_NAMES[proof.value]} for {first}"], right=False),
        console.Column("positions searched", [f"{proof.nodes:,}"]),
        console.Column("seconds", [f"{proof.seconds:.1f}"]),
        console.Column("memory, MB", [f"{peak:,.0f}"]),
    ]
    console.show([console.tabulated(columns)])


def peak_megabytes() -> float:
    """The most memory that this process has had, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEBIBYTE


def sentence(asked: Question, solution: Solution) -> str:
    """The value in words."""
    acts = (
        "the player to give" if asked.position.hand == NONE and not asked.rules.mover_chooses else "the player to move"
    )
    value = f"{asked.text}: {VALUE_NAMES[solution.value]} for {acts}"
    if solution.distance is None:
        return value
    placements = f"{solution.distance} placement{'' if solution.distance == 1 else 's'}"
    return f"{value}, {'the board is full' if solution.distance == 0 else f'over in {placements}'}"


def turns_table(asked: Question, solution: Solution) -> Table:
    """Every turn: a list of gifts, or a row a cell and a column a piece, the best first."""
    if solution.turns[0].cell == NONE:
        return _gifts_table(solution.turns)
    by_cell: dict[int, dict[int, Turn]] = {}
    for turn in solution.turns:  # best first, so that the order of cells is that of their best turns
        by_cell.setdefault(turn.cell, {})[turn.gift] = turn
    cells = sorted(by_cell, key=lambda cell: _promise(list(by_cell[cell].values())))
    pieces = sorted({turn.gift for turn in solution.turns} - {NONE})
    best = [mark(next(iter(by_cell[cell].values()))) for cell in cells]
    columns = [console.Column("cell", [format_cell(cell) for cell in cells], right=False), console.Column("best", best)]
    for piece in pieces:
        marks = [mark(by_cell[cell][piece]) if piece in by_cell[cell] else "·" for cell in cells]
        columns.append(console.Column(format_piece(piece), marks))
    what = "piece" if asked.rules.mover_chooses else "gift"
    return console.tabulated(columns, f"Cells by {what}")


def _promise(turns: Sequence[Turn]) -> tuple[int, ...]:
    """Cells whose turns win or, at least, draw come first, those with more such turns before others."""
    best = max(turn.value for turn in turns)
    distances = [turn.distance or 0 for turn in turns if turn.value == best]
    soonest = min(distances) if best > 0 else -max(distances)
    good = sum(turn.value == best for turn in turns)
    return -best, soonest, -good if best >= 0 else 0, turns[0].cell


def _gifts_table(turns: Sequence[Turn]) -> Table:
    columns = [
        console.Column("gift", [format_piece(turn.gift) for turn in turns], right=False),
        console.Column("value", [VALUE_NAMES[turn.value] for turn in turns], right=False),
    ]
    if turns[0].distance is not None:
        columns.append(console.Column("placements", [str(turn.distance) for turn in turns]))
    return console.tabulated(columns)


def mark(turn: Turn) -> str:
    """A turn's value and distance in three characters."""
    if turn.value == 0:
        return "="
    return ("+" if turn.value > 0 else "-") + ("" if turn.distance is None else str(turn.distance))


def _write_line(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise SystemExit(0) from None  # whoever reads has seen enough


@contextmanager
def _watching(solvers: Solvers, started: float) -> Iterator[Callable[[], None]]:
    """A line on the terminal that says how far a search is; nothing elsewhere."""
    terminal = Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield lambda: None
        return
    with terminal.status("searching") as status:
        yield lambda: status.update(f"{solvers.nodes:,} positions searched, {time.perf_counter() - started:.0f} s")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    terminal = Console(stderr=True)
    if not terminal.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("solving"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("solving", total=total)
        yield lambda: bar.advance(task)


def check_request(position: str | None, file: Path | None, game: bool, rules: str | None) -> str | None:
    """The name of the rules whose game is to be proven, None for positions. Raises ``RequestError`` for a muddle."""
    if position is not None and position.startswith("rules="):
        rules, position = position.removeprefix("rules="), None
    if sum((position is not None, file is not None, game)) != 1:
        raise RequestError(
            "name one thing to solve: a position in quotes, such as '...F/.3../..../.... 7', --file FILE, or --game"
        )
    if rules is not None and not game:
        raise RequestError(f"--rules {rules} goes with --game: a position names its rules itself, as its last field")
    return (rules or "classic") if game else None


def report_bad(bad: int) -> None:
    """Raise ``FailureError`` if some lines could not be answered."""
    if bad:
        raise FailureError(f"{bad} line(s) could not be answered; all others were")
