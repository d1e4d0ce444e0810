"""A text that was pasted: a position as `qarena solve` reads it, or games as `qarena archive import` does."""

from __future__ import annotations

from typing import NamedTuple

from analytics.exchange.text import UNKNOWN, Tags, parse_tags
from quarto.errors import RequestError
from quarto.notation import format_game, parse_game, parse_piece, parse_position
from quarto.rules import NONE
from runners.play.game import Game
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.analyse.line import AnalysisLine, start_of, words_of

MOST_LINES = 200


class Pasted(NamedTuple):
    """A game or a position of a text, or the error in its line."""

    number: int  # of the line, from 1
    text: str
    line: AnalysisLine | None
    error: str = ""


def read_pasted(text: str, rules_name: str, choices: AgentsAndRules) -> list[Pasted]:
    """The contents of a text, one game or position a line; empty lines and those that begin with # are skipped.

    ``rules_name`` are the rules where a line names none. Raises ``RequestError`` for a text without any, with too many,
    and for one line that cannot be read.
    """
    lines = [(number, line.strip().lstrip("\ufeff")) for number, line in enumerate(text.splitlines(), 1)]
    wanted = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not wanted:
        raise RequestError(
            "nothing was pasted: a position such as ...F/.3../..../.... 7, or a game such as F@b1 3@b2 7@c4"
        )
    if len(wanted) > MOST_LINES:
        raise RequestError(f"{len(wanted)} lines are more than {MOST_LINES}: qarena archive import takes any number")
    if len(wanted) == 1:
        return [Pasted(wanted[0][0], _title(wanted[0][1]), read_line(wanted[0][1], rules_name, choices))]
    return [_read(number, line, rules_name, choices) for number, line in wanted]


def _read(number: int, text: str, rules_name: str, choices: AgentsAndRules) -> Pasted:
    try:
        return Pasted(number, _title(text), read_line(text, rules_name, choices))
    except RequestError as error:
        return Pasted(number, text[:60], None, str(error))


def _title(text: str) -> str:
    """The players of a game, if its tags name them, and the game."""
    size = text.rfind("]") + 1
    try:
        tags = parse_tags(text[:size], Tags())
    except RequestError:
        return text
    players = "" if tags.agent_0 == tags.agent_1 == UNKNOWN else f"{tags.agent_0} and {tags.agent_1}: "
    return f"{players}{text[size:].strip()}"


def read_line(text: str, rules_name: str, choices: AgentsAndRules) -> AnalysisLine:
    """The line of one text, at the beginning of a finished game and at the end of any other.

    A game may stop anywhere, and end with a gift alone. Raises ``RequestError``.
    """
    size = text.rfind("]") + 1
    tags = parse_tags(text[:size], Tags(rules=rules_name))
    rest = text[size:].strip()
    if "/" in rest:
        name = parse_position(rest)[1] if len(rest.split()) == 3 else tags.rules
        rules = choices.rules(name)
        return AnalysisLine(rules, start_of(rest, rules))
    rules, words, hand = choices.rules(tags.rules), rest.split(), NONE
    if words and len(words[-1]) == 1 and not rules.mover_chooses:
        hand = parse_piece(words.pop())
    plies = parse_game(" ".join(words))
    if hand != NONE and hand in [piece for piece, _ in plies]:
        raise RequestError(f"the last gift {words!r} is on the board already (game {format_game(plies)!r})")
    line = AnalysisLine(rules, Game(rules), words_of(plies, hand, rules))
    finished = line.games[-1].ending is not None  # raises if a decision is illegal
    return line if finished else line.stepped(len(line.words))
