"""Puzzles for people: the verdict on a turn as the solver explains it, and `qarena puzzles play` at the terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from analytics.exact.puzzles import Puzzle
from quarto.errors import NotFoundError, RequestError
from quarto.notation import format_cell, format_piece
from quarto.rules import NONE
from quarto.solver.solver import Solution, SolvedTurn
from quarto.views import PositionView
from runners.config.options import load_rules
from runners.exact.solve import Question, SolveOptions, Solvers, best_first, run_search, solve
from runners.play.dialogue import game_after, shown
from runners.play.game import Game, NextDecision, cells_text, game_at, request
from runners.play.screens import Screen
from runners.terminal.console import number_of

MEGABYTES = 64.0  # of the table of solved boards
HELP = "Type the cell and the gift, such as b2 7. 'answer' shows the turn, 'quit' leaves."


def puzzle_numbered(puzzles: Sequence[Puzzle], number: int) -> Puzzle:
    """The puzzle of a number, from 1. Raises ``NotFoundError`` if there is none."""
    if not 1 <= number <= len(puzzles):
        raise NotFoundError(f"there is no puzzle {number}: this set has 1 to {len(puzzles)}")
    return puzzles[number - 1]


def task(puzzle: Puzzle) -> str:
    """The task in a sentence."""
    others = "no other does" if puzzle.value else "every other loses"
    return f"You place {format_piece(puzzle.position.hand)} and give a piece. One turn {puzzle.goal}s, {others}."


def theme(puzzle: Puzzle) -> str:
    """The kind of a puzzle, as a sentence."""
    if puzzle.value:
        return "A trap: every reply loses at once." if puzzle.depth == 3 else f"A win in {puzzle.depth} placements."
    return (
        "The only safe turn: every other loses at once." if puzzle.depth == 2 else "The only turn that holds the draw."
    )


def missed(puzzle: Puzzle) -> str:
    """The share of tries in which agents missed the turn, as a sentence."""
    return f"Agents missed it in {puzzle.missed:.0%} of their tries."


def verdict(puzzle: Puzzle, after: Game) -> str:
    """A sentence about the turn that led to the game ``after``, which needs no search."""
    turn = f"{format_cell(after.plies[-1][1])} {'' if after.hand == NONE else format_piece(after.hand)}".strip()
    if is_right(puzzle, after):
        return f"Right: {turn} is the only turn that {puzzle.goal}s."
    return f"Wrong: {turn} does not {puzzle.goal}."


def explanation(puzzle: Puzzle, after: Game, solution: Solution, turns: Sequence[SolvedTurn]) -> list[str]:
    """Sentences about that turn. ``solution``: of the game after it, as far as it is known.

    ``turns``: those of the puzzle, none while they are not known.
    """
    lines = [_outcome(after, solution)]
    if is_right(puzzle, after) and turns:
        values = Counter(turn.value for turn in turns)
        draws = [number_of(values[0], "draw")] if puzzle.value and values[0] else []
        losses = [number_of(values[-1], "loss", "losses")] if values[-1] else []
        lines.append(f"The other turns: {', '.join(draws + losses)}.")
    return lines


def is_right(puzzle: Puzzle, after: Game) -> bool:
    """Whether the turn that led to a game is the only one."""
    return (after.plies[-1][1], after.hand) == (puzzle.cell, puzzle.gift)


def _outcome(after: Game, solution: Solution) -> str:
    """A sentence about what a turn comes to; ``solution`` is for the opponent."""
    at_once = PositionView(after.position, after.rules).winning_cells() if solution.value > 0 else ()
    if at_once:
        return f"It loses at once: {format_piece(after.hand)} finishes a line on {cells_text(at_once)}."
    if solution.value == 0:
        return "It draws, if both sides play perfectly from there."
    within = "" if solution.distance is None else f" in {number_of(solution.distance + 1, 'placement')}"
    if solution.value < 0:
        return f"It wins{within}, whatever the opponent does."
    best = min(solution.turns, key=best_first, default=None)
    reply = "" if best is None or solution.distance is None else f": the best reply is {_turn_text(best)}"
    return f"It loses{within}{reply}."


def _turn_text(turn: SolvedTurn) -> str:
    return format_cell(turn.cell) + ("" if turn.gift == NONE else f" {format_piece(turn.gift)}")


class PuzzleDialogue:
    """Asks a person for turns until every puzzle is solved or the person leaves."""

    def __init__(self, puzzles: Sequence[Puzzle], screen: Screen) -> None:
        self._puzzles, self._screen = puzzles, screen
        self._solvers = Solvers(MEGABYTES)
        self._rules = {name: load_rules(name) for name in {each.rules for each in puzzles}}
        self.solved = self.seen = 0  # solved: by the first turn

    def run(self, number: int) -> None:
        """Ask from one puzzle on. Raises ``EOFError`` at the end of the input."""
        for current in range(number, len(self._puzzles) + 1):
            puzzle = self._puzzles[current - 1]
            heading = f"Puzzle {current} of {len(self._puzzles)}, level {puzzle.level}, {puzzle.rules} rules."
            if self._ask(puzzle, heading) or self._screen.ask("Enter for the next puzzle, or quit").strip():
                return

    def _ask(self, puzzle: Puzzle, heading: str) -> bool:
        """Ask until a puzzle is solved or its answer shown; whether the person leaves."""
        start = game = game_at(puzzle.position, self._rules[puzzle.rules])
        self._screen.show(start, [f"{heading} {task(puzzle)}"])
        tries = 0
        while True:
            line = self._screen.ask("your turn" if game is start else request(game))
            command = line.strip().lower()
            if command in {"quit", "exit"}:
                return True
            if command == "help" or (re.fullmatch("[a-z]{2,}", command) and command != "answer"):
                unknown = "" if command == "help" else f"{shown(command)} is not a command. "
                self._screen.write(f"{unknown}{HELP}")
                continue
            try:
                game = start.place(puzzle.cell).give(puzzle.gift) if command == "answer" else game_after(line, game)
            except RequestError as error:
                self._screen.write(f"{error}.")
                continue
            if game.asked is NextDecision.GIFT:
                continue
            self._explain(puzzle, game, f"The answer is {puzzle.turn}." if command == "answer" else "")
            self.seen += tries == 0
            if is_right(puzzle, game):
                self.solved += tries == 0 and command != "answer"
                return False
            tries, game = tries + 1, start

    def _explain(self, puzzle: Puzzle, after: Game, answer: str) -> None:
        self._screen.write(answer or verdict(puzzle, after))
        if after.asked is NextDecision.NOTHING:
            return
        with self._screen.waiting("Solving"):
            found = run_search(self._solvers, lambda: self._searched(puzzle, after))
        for line in explanation(puzzle, after, *found):
            self._screen.write(line)
        if is_right(puzzle, after):
            self._screen.write(f"{theme(puzzle)} {missed(puzzle)}")

    def _searched(self, puzzle: Puzzle, after: Game) -> tuple[Solution, Sequence[SolvedTurn]]:
        before = solve(Question(puzzle.position, after.rules), SolveOptions(distance=False), self._solvers)
        return solve(Question(after.position, after.rules), SolveOptions(), self._solvers), before.turns


def play(puzzles: Sequence[Puzzle], number: int, screen: Screen) -> None:
    """Ask a person for the turns of puzzles, from one number on.

    Raises ``NotFoundError`` if there is no such puzzle.
    """
    puzzle_numbered(puzzles, number)
    dialogue = PuzzleDialogue(puzzles, screen)
    screen.greet("In a puzzle one turn keeps the value of the position.")
    try:
        dialogue.run(number)
    except EOFError:
        screen.write("")
    screen.write(f"Solved by the first turn: {dialogue.solved} of {dialogue.seen}.")
