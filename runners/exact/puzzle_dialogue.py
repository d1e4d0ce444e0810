"""Puzzles for people: `qarena puzzles play` at the terminal, and the solver's verdict on a turn in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analytics.exact.puzzle_themes import (
    ANY_PUZZLE,
    NumberedPuzzle,
    PuzzleFilter,
    list_safe_gifts,
    number_puzzles,
    select_puzzles,
)
from analytics.exact.puzzles import Puzzle
from analytics.questions.columns import format_percent_whole
from analytics.report.line_families import render_line_families
from analytics.store.texts import format_count_with_noun
from quarto.errors import NotFoundError, RequestError
from quarto.game import Game, NextDecision, format_cells, format_prompt, game_from_position
from quarto.notation import CLASSIC_NAME, format_cell, format_piece
from quarto.rules import NONE, Rules
from quarto.solver.solution import Solution, SolvedTurn, turn_sort_key
from quarto.views import Position
from runners.config.yaml_options import load_rules, read_option_comment
from runners.exact.solutions import SolveOptions, SolveRequest, Solvers, run_search, solve
from runners.play.dialogue import parse_and_play_decision, quote_input
from runners.play.screens import Screen

TABLE_MEGABYTES = 64.0  # of the table of solved boards
HELP = "Type the cell and the gift, such as b2 7. 'answer' shows the turn, 'quit' leaves."


def find_puzzle_by_number(puzzles: Sequence[Puzzle], number: int) -> Puzzle:
    """Return the puzzle with this number, counted from 1. Raises ``NotFoundError`` if there is none."""
    if not 1 <= number <= len(puzzles):
        raise NotFoundError(f"there is no puzzle {number}: this set has 1 to {len(puzzles)}")
    return puzzles[number - 1]


def describe_task(puzzle: Puzzle) -> str:
    """Describe in one sentence what the person has to do in a puzzle."""
    contrast = "no other does" if puzzle.value else "every other loses"
    return f"You place {format_piece(puzzle.position.hand)} and give a piece. One turn {puzzle.goal}s, {contrast}."


def describe_theme(puzzle: Puzzle, rules: Rules) -> str:
    """Describe in one or two sentences what the right turn of a puzzle achieves, and whether it has a quiet gift."""
    if puzzle.value:
        achieved = (
            "A trap: every reply loses at once."
            if puzzle.depth == 3
            else f"A win in {format_count_with_noun(puzzle.depth, 'placement')}."
        )
    elif puzzle.depth == 2:
        achieved = "The only safe turn: every other loses at once."
    else:
        achieved = "The only turn that holds the draw."
    safe = len(list_safe_gifts(puzzle, rules))
    quiet = f" A quiet gift: {safe} gifts are safe, and one of them {puzzle.goal}s." if safe > 1 else ""
    return f"{achieved}{quiet}"


def describe_miss_rate(puzzle: Puzzle) -> str:
    """Describe in one sentence how often agents missed the right turn."""
    return f"Agents missed it in {format_percent_whole(puzzle.missed)} % of their tries."


def describe_whether_turn_is_right(puzzle: Puzzle, game_after: Game) -> str:
    """Describe in one sentence whether the turn that led to ``game_after`` is right.

    No search is needed, because a puzzle knows its right turn.
    """
    gift = "" if game_after.hand == NONE else format_piece(game_after.hand)
    turn = f"{format_cell(game_after.plies[-1][1])} {gift}".strip()
    if is_right_turn(puzzle, game_after):
        return f"Right: {turn} is the only turn that {puzzle.goal}s."
    return f"Wrong: {turn} does not {puzzle.goal}."


def describe_turn_consequences(
    puzzle: Puzzle, game_after: Game, solution: Solution, turns: Sequence[SolvedTurn]
) -> list[str]:
    """Describe in one or two sentences what a turn leads to.

    Args:
        puzzle: The puzzle in which the turn was taken.
        game_after: The game after the turn.
        solution: The exact value of ``game_after`` and, if known, the distance to the end and the opponent's turns.
        turns: All turns of the puzzle, or an empty sequence until they are solved.

    Returns:
        The outcome of the turn and, if it is the right turn, the outcomes of the other turns.

    """
    lines = [describe_outcome(puzzle.value, game_after, solution)]
    if is_right_turn(puzzle, game_after) and turns:
        values = Counter(turn.value for turn in turns)
        draws = [format_count_with_noun(values[0], "draw")] if puzzle.value and values[0] else []
        losses = [format_count_with_noun(values[-1], "loss", "losses")] if values[-1] else []
        lines.append(f"The other turns: {', '.join(draws + losses)}.")
    return lines


def is_right_turn(puzzle: Puzzle, game_after: Game) -> bool:
    """Return whether the turn that led to ``game_after`` is the puzzle's right turn."""
    return (game_after.plies[-1][1], game_after.hand) == (puzzle.cell, puzzle.gift)


def describe_outcome(value_before: int, game_after: Game, solution: Solution) -> str:
    """Describe the outcome of a turn from the exact value of ``game_after``, in which the opponent moves next.

    ``value_before`` is the value of the position before the turn, for the player who took it: 1 won, 0 drawn. A wrong
    turn is refuted by a reply: the one that wins soonest or, if the turn had to win, one that draws.
    """
    at_once = Position(game_after.position, game_after.rules).winning_cells() if solution.value > 0 else ()
    if at_once:
        return f"It loses at once: {format_piece(game_after.hand)} finishes a line on {format_cells(at_once)}."
    if solution.value == 0:
        holding = sorted((turn for turn in solution.turns if turn.value == 0), key=turn_sort_key)
        if not holding or value_before == 0:
            return "It draws, if both sides play perfectly from there."
        alone = "alone holds" if len(holding) == 1 else f"holds, as do {len(holding) - 1} others"
        return f"It draws: the reply {holding[0].text} {alone}."
    within = "" if solution.distance is None else f" in {format_count_with_noun(solution.distance + 1, 'placement')}"
    if solution.value < 0:
        return f"It wins{within}, whatever the opponent does."
    best = min(solution.turns, key=turn_sort_key, default=None)
    reply = "" if best is None or solution.distance is None else f": the best reply is {best.text}"
    return f"It loses{within}{reply}."


class SolvedPuzzleTurn(NamedTuple):
    """The solver's results for a turn in a puzzle."""

    solution: Solution  # of the game after the turn
    puzzle_turns: Sequence[SolvedTurn]  # all turns of the puzzle


class PuzzleDialogue:
    """A dialogue in which a person solves puzzles, until all are solved or the person leaves."""

    def __init__(
        self, puzzles: Sequence[NumberedPuzzle], set_size: int, rules_by_name: Mapping[str, Rules], screen: Screen
    ) -> None:
        self._puzzles, self._set_size = puzzles, set_size
        self._rules, self._screen = rules_by_name, screen
        self._solvers = Solvers(TABLE_MEGABYTES)
        self.solved = self.puzzle_count = 0  # a puzzle is solved if the first turn is right
        self.streak = self.longest_streak = 0  # of puzzles that were solved one after the other

    def run(self, first_number: int) -> None:
        """Ask for the right turn in each puzzle, from number ``first_number`` on, until the person leaves.

        Raises ``EOFError`` at the end of the input.
        """
        for place, numbered in enumerate(self._puzzles, 1):
            if numbered.number >= first_number and (
                not self._try_to_finish_puzzle(numbered.puzzle, self._describe_puzzle(place, numbered))
                or self._screen.prompt("Enter for the next puzzle, or quit").strip()
            ):
                return

    def _describe_puzzle(self, place: int, numbered: NumberedPuzzle) -> list[str]:
        """Describe a puzzle, which is the one at ``place`` of the selected ones, and what it asks for.

        Rules that are not the classic ones are explained by a picture of their lines.
        """
        puzzle = numbered.puzzle
        selected = f" ({place} of {len(self._puzzles)} selected)" if len(self._puzzles) < self._set_size else ""
        heading = (
            f"Puzzle {numbered.number} of {self._set_size}{selected}, level {numbered.level}, {puzzle.rules} rules."
        )
        if puzzle.rules == CLASSIC_NAME:
            return [f"{heading} {describe_task(puzzle)}"]
        about = read_option_comment("rules", puzzle.rules)
        lines = render_line_families(self._rules[puzzle.rules])
        return [f"{heading} {about} {describe_task(puzzle)}", "", *lines]

    def _try_to_finish_puzzle(self, puzzle: Puzzle, news: Sequence[str]) -> bool:
        """Ask for a turn until the puzzle is finished, and return True; return False if the person leaves.

        A puzzle is finished when the person finds the right turn or asks for the answer. ``news`` describes it.
        """
        start = game = game_from_position(puzzle.position, self._rules[puzzle.rules])
        self._screen.show_game(start, news)
        tries = 0
        while True:
            line = self._screen.prompt("your turn" if game is start else format_prompt(game))
            command = line.strip().lower()
            if command in {"quit", "exit"}:
                return False
            if command == "help" or (re.fullmatch("[a-z]{2,}", command) and command != "answer"):
                unknown = "" if command == "help" else f"{quote_input(command)} is not a command. "
                self._screen.print_text(f"{unknown}{HELP}")
                continue
            try:
                game = (
                    start.place(puzzle.cell).give(puzzle.gift)
                    if command == "answer"
                    else parse_and_play_decision(line, game)
                )
            except RequestError as error:
                self._screen.print_text(f"{error}.")
                continue
            if game.next_decision is NextDecision.GIFT:
                continue
            self._print_explanation(puzzle, game, f"The answer is {puzzle.turn}." if command == "answer" else "")
            is_right = is_right_turn(puzzle, game)
            if tries == 0:
                self._count_first_turn(is_right and command != "answer")
            if is_right:
                return True
            tries, game = tries + 1, start

    def _count_first_turn(self, is_right: bool) -> None:
        """Count the first turn in a puzzle. Later turns in the same puzzle are not counted."""
        self.puzzle_count += 1
        self.solved += is_right
        self.streak = self.streak + 1 if is_right else 0
        self.longest_streak = max(self.longest_streak, self.streak)
        if self.streak > 1:
            self._screen.print_text(f"{self.streak} in a row.")

    def _print_explanation(self, puzzle: Puzzle, game_after: Game, answer: str) -> None:
        self._screen.print_text(answer or describe_whether_turn_is_right(puzzle, game_after))
        if game_after.next_decision is NextDecision.NOTHING:
            return
        with self._screen.show_waiting("Solving"):
            solution, turns = run_search(self._solvers, lambda: self._solve_turn(puzzle, game_after))
        for line in describe_turn_consequences(puzzle, game_after, solution, turns):
            self._screen.print_text(line)
        if is_right_turn(puzzle, game_after):
            self._screen.print_text(f"{describe_theme(puzzle, game_after.rules)} {describe_miss_rate(puzzle)}")

    def _solve_turn(self, puzzle: Puzzle, game_after: Game) -> SolvedPuzzleTurn:
        before = solve(SolveRequest(puzzle.position, game_after.rules), SolveOptions(distance=False), self._solvers)
        after = solve(SolveRequest(game_after.position, game_after.rules), SolveOptions(), self._solvers)
        return SolvedPuzzleTurn(after, before.turns)


def run_puzzles(
    puzzles: Sequence[Puzzle], first_number: int, screen: Screen, wanted: PuzzleFilter = ANY_PUZZLE
) -> None:
    """Present the puzzles that meet a filter, from number ``first_number`` on, until the person leaves.

    Raises ``RequestError`` if there is no such theme, and ``NotFoundError`` if there is no puzzle with that number, or
    if no puzzle from this number on meets the filter.
    """
    find_puzzle_by_number(puzzles, first_number)
    rules_by_name = {name: load_rules(name) for name in {puzzle.rules for puzzle in puzzles}}
    selected = select_puzzles(number_puzzles(puzzles, rules_by_name), wanted)
    last = selected[-1].number
    if last < first_number:
        raise NotFoundError(f"no puzzle from {first_number} on is of {wanted.text}: the last one is {last}")
    dialogue = PuzzleDialogue(selected, len(puzzles), rules_by_name, screen)
    screen.begin_game_with_heading("In a puzzle one turn keeps the value of the position.")
    try:
        dialogue.run(first_number)
    except EOFError:
        screen.print_text("")
    streak = f" Longest streak: {dialogue.longest_streak}." if dialogue.longest_streak > 1 else ""
    screen.print_text(f"Solved by the first turn: {dialogue.solved} of {dialogue.puzzle_count}.{streak}")
