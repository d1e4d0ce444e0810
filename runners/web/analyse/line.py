"""Lines: a start position, decisions from there, perhaps a branch, and the position that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from analytics.exchange.text import UNKNOWN_AGENT, Tags, parse_tags
from analytics.questions.logged_games import ArchivedGame
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from quarto.game import Game, game_from_position
from quarto.notation import (
    CLASSIC_NAME,
    format_cell,
    format_game,
    format_piece,
    format_position,
    parse_game,
    parse_piece,
    parse_position,
)
from quarto.rules import CELLS, NONE, Rules
from runners.play.dialogue import parse_and_play_decision
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.archive import urls
from runners.web.page_rendering import check_decision_words, parse_whole_number
from runners.web.tiles import strip_person_prefix

ANALYSE_PATH = "/analyse"
MAX_DECISIONS = 2 * CELLS + 1  # of a game
SEARCH_SECONDS = (5, 20, 60, 300)  # time limits of a search to choose from
DEFAULT_SEARCH_SECONDS = 20


@dataclass(frozen=True)
class AnalysisLine:
    """A sequence of decisions to analyse, with at most one branch.

    A decision is written as a word: a cell, a piece, or piece@cell under rules that let the mover choose the piece.
    """

    rules: Rules
    start: Game
    main: tuple[str, ...] = ()
    fork: int = 0  # decisions of the main line before the branch
    branch: tuple[str, ...] = ()  # decisions that replace the rest of the main line
    at: int = 0  # decisions before the position that is shown
    seconds: int = DEFAULT_SEARCH_SECONDS  # time limit of a search
    logged: ArchivedGame | None = None  # the logged game whose decisions are the main line
    filters: Mapping[str, object] | None = None  # of the opening explorer; None on a page of exact values
    players: tuple[str, str] = ("Seat 0", "Seat 1")  # names of the players, unless the game is a logged one
    forfeit: int | None = None  # as in ``Game``: how the game ended after the last decision, if a seat forfeited it

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all decisions of the line.

        A branch replaces all decisions of the main line after the first ``fork`` decisions.
        """
        return self.main[: self.fork] + self.branch if self.branch else self.main

    @cached_property
    def games(self) -> list[Game]:
        """The games before the first decision and after each decision.

        Raises ``RequestError`` for an illegal decision.
        """
        games = [self.start]
        for word in self.words:
            games.append(parse_and_play_decision(word, games[-1]))
        return games

    @property
    def game(self) -> Game:
        """The game up to the position that is shown."""
        return self.games[self.at]

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two players, with that of seat 0 first."""
        label_0, label_1 = self.logged.agents if self.logged else self.players
        return strip_person_prefix(label_0), strip_person_prefix(label_1)

    @property
    def imposed_decision_count(self) -> int:
        """The number of imposed decisions at the beginning of the line."""
        return self.logged.opening * (1 if self.rules.mover_chooses else 2) if self.logged else 0

    def with_position(self, decision_count: int) -> AnalysisLine:
        """Return a copy of the line that shows the position after ``decision_count`` decisions.

        If the number is negative, the copy shows the line's first position; if it is beyond the end of the line, the
        last position.
        """
        return replace(self, at=min(max(decision_count, 0), len(self.words)))

    def with_decision(self, word: str) -> AnalysisLine:
        """Return a copy of the line that shows the position after the decision ``word``.

        If the line already continues with this decision, only the position changes. Otherwise, the decision is appended
        to the line or begins a branch.
        """
        words, at = self.words, self.at
        if at < len(words) and words[at] == word:
            return self.with_position(at + 1)
        if at < len(self.main) and self.main[:at] == words[:at] and self.main[at] == word:
            return replace(self, branch=(), fork=0, at=at + 1)
        if not self.branch and at == len(self.main) and self.logged is None:
            return replace(self, main=(*self.main, word), at=at + 1)
        fork = min(at, self.fork) if self.branch else at
        return replace(self, fork=fork, branch=(*words[fork:at], word), at=at + 1)

    def drop_branch(self) -> AnalysisLine:
        """Return a copy of the line that has no branch and shows the position where the branch began."""
        return replace(self, branch=(), at=self.fork, fork=0)

    @property
    def url(self) -> str:
        """The address of the page that shows this position of the line.

        The page is the opening explorer if the line has filters, the page of the logged game if the line belongs to a
        logged game, and otherwise the analysis page.
        """
        if self.filters is not None:
            return urls.openings_url(format_game_position(self.game), **self.filters)
        query: dict[str, object] = {
            "fork": self.fork if self.branch else None,
            "branch": ".".join(self.branch),
            "at": self.at or None,
            "seconds": None if self.seconds == DEFAULT_SEARCH_SECONDS else self.seconds,
        }
        if self.logged is not None:
            at_end = not self.branch and self.at == len(self.main)
            page = urls.game_url(self.logged.record.run_id, self.logged.game_id)
            return urls.build_url(page, query | {"at": None if at_end else self.at})
        begins_empty = not self.start.plies and self.start.hand == NONE
        start = format_game_position(self.start).rsplit(" " + self.rules.name, 1)[0]
        rules = None if self.rules.name == CLASSIC_NAME else self.rules.name
        main = {"rules": rules, "start": None if begins_empty else start, "line": ".".join(self.main)}
        return urls.build_url(ANALYSE_PATH, main | query)


def parse_address_line(values: Mapping[str, str], choices: AgentsAndRules) -> AnalysisLine:
    """Build the analysis line that ``values``, the query parameters of an address, describe.

    If a value is invalid, raises a ``RequestError`` that names it.
    """
    rules = choices.load_rules(values.get("rules") or CLASSIC_NAME)
    start = parse_start_position(values["start"], rules) if values.get("start") else Game(rules)
    return _parse_branch_position_and_seconds(AnalysisLine(rules, start, _parse_decisions(values, "line")), values, "0")


def parse_game_line(game: ArchivedGame, values: Mapping[str, str]) -> AnalysisLine:
    """Build the analysis line of a logged game, with the branch and the position that an address names.

    ``values`` are the query parameters of the address. The parameter ``at`` is the number of decisions before the
    position; if it is missing, ``ply`` is the number of plies to show. If both are missing, the position is the end of
    the game. If a value is invalid, raises a ``RequestError`` that names it.
    """
    rules, total = game.record.rules, len(game.plies)
    line = AnalysisLine(rules, Game(rules), format_decisions(game.plies, NONE, rules), logged=game)
    at = len(line.main)
    if values.get("ply"):
        plies = min(parse_whole_number(values, "ply"), total)
        at = plies if rules.mover_chooses else min(at, 2 * plies + 1)
    return _parse_branch_position_and_seconds(line, values, str(at))


def _parse_branch_position_and_seconds(
    line: AnalysisLine, values: Mapping[str, str], default_position: str
) -> AnalysisLine:
    """Return the line with the branch, the position and the search time that an address names.

    ``values`` are the query parameters of the address. If they name no position, ``default_position`` is parsed
    instead: a number of decisions, as text. Raises ``RequestError`` if a value is invalid or a decision of the main
    line is illegal.
    """
    line = replace(line, branch=_parse_decisions(values, "branch"), seconds=_parse_seconds(values))
    fork = parse_whole_number(values, "fork", len(line.main), "0")
    line = replace(line, fork=fork if line.branch else 0)
    replace(line, branch=()).games  # noqa: B018  (the main line too must be legal)
    return replace(line, at=parse_whole_number(values, "at", len(line.words), default_position))


def parse_start_position(text: str, rules: Rules) -> Game:
    """Parse a position in text form, and return a game that begins in this position.

    Raises ``RequestError`` for an invalid text, and for a position that is impossible under the given rules.
    """
    position, name = parse_position(text)
    if name not in (CLASSIC_NAME, rules.name):
        raise RequestError(f"position {text[:60]!r} names rules {name!r}, and the rules chosen are {rules.name!r}")
    if rules.mover_chooses and position.hand != NONE:
        raise RequestError(
            f"under rules {rules.name} the mover chooses the piece: write - for the hand ({text[:60]!r})"
        )
    return game_from_position(position, rules)


def format_game_position(game: Game) -> str:
    """Format the current position of a game as text."""
    return format_position(game.position, game.rules.name)


def format_decisions(plies: Sequence[tuple[int, int]], hand: int, rules: Rules) -> tuple[str, ...]:
    """Format the plies of a game as decision words, followed by the gift ``hand`` unless ``hand`` is NONE."""
    words: list[str] = []
    for piece, cell in plies:
        if rules.mover_chooses:
            words.append(f"{format_piece(piece)}@{format_cell(cell)}")
        else:
            words += [format_piece(piece), format_cell(cell)]
    return (*words, format_piece(hand)) if hand != NONE else tuple(words)


def _parse_decisions(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    return parse_decision_words(values.get(name) or "", name, MAX_DECISIONS)


def parse_decision_words(text: str, name: str, max_words: int) -> tuple[str, ...]:
    """Split a text at its dots into decision words. The empty text has no words.

    ``name`` is what error messages call the text. Raises ``RequestError`` for a word that cannot be a decision, and for
    more than ``max_words`` words.
    """
    return check_decision_words(name, text.split(".") if text else (), max_words)


def _parse_seconds(values: Mapping[str, str]) -> int:
    text = values.get("seconds") or str(DEFAULT_SEARCH_SECONDS)
    if text not in map(str, SEARCH_SECONDS):
        raise RequestError(f"seconds {text[:20]!r} is not one of {', '.join(map(str, SEARCH_SECONDS))}")
    return int(text)


MAX_PASTED_LINES = 200


class PastedLine(NamedTuple):
    """One line of a pasted text, with the game or position in it, or the reason why the line is invalid."""

    number: int  # of the line in the text, from 1
    text: str
    line: AnalysisLine | None
    error: str = ""


def parse_pasted_text(text: str, rules_name: str, choices: AgentsAndRules) -> list[PastedLine]:
    """Parse a text with one game or position on each line.

    Empty lines and lines that begin with # are skipped. ``rules_name`` applies to lines that do not name rules. If the
    text has several lines, an invalid line is returned with its error. Raises ``RequestError`` if the text has no game
    or position, has too many lines, or consists of one invalid line.
    """
    lines = [(number, line.strip().lstrip("\ufeff")) for number, line in enumerate(text.splitlines(), 1)]
    entries = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not entries:
        raise RequestError(
            "nothing was pasted: a position such as ...F/.3../..../.... 7, or a game such as F@b1 3@b2 7@c4"
        )
    if len(entries) > MAX_PASTED_LINES:
        raise RequestError(
            f"{format_count_with_noun(len(entries), 'line')} are more than {MAX_PASTED_LINES}: "
            "qarena archive import takes any number"
        )
    if len(entries) == 1:
        return [
            PastedLine(
                entries[0][0],
                _format_players_and_plies(entries[0][1]),
                parse_text_line(entries[0][1], rules_name, choices),
            )
        ]
    return [_parse_pasted_line(number, line, rules_name, choices) for number, line in entries]


def _parse_pasted_line(line_number: int, text: str, rules_name: str, choices: AgentsAndRules) -> PastedLine:
    try:
        return PastedLine(line_number, _format_players_and_plies(text), parse_text_line(text, rules_name, choices))
    except RequestError as error:
        return PastedLine(line_number, text[:60], None, str(error))


def _format_players_and_plies(text: str) -> str:
    """Return the title of a pasted game: its players, if its tags name them, and its plies.

    If the tags are invalid, the title is the whole text.
    """
    size = text.rfind("]") + 1
    try:
        tags = parse_tags(text[:size], Tags())
    except RequestError:
        return text
    players = "" if tags.agent_0 == tags.agent_1 == UNKNOWN_AGENT else f"{tags.agent_0} and {tags.agent_1}: "
    return f"{players}{text[size:].strip()}"


def parse_text_line(text: str, rules_name: str, choices: AgentsAndRules) -> AnalysisLine:
    """Parse one line of text, which holds a game or a position, as an analysis line.

    A game need not be finished, and its last decision may be a gift. For a finished game, the analysis line shows the
    first position; for any other text, the last one. ``rules_name`` applies if the text does not name rules. Raises
    ``RequestError`` for an invalid text or an illegal game.
    """
    size = text.rfind("]") + 1
    tags = parse_tags(text[:size], Tags(rules=rules_name))
    rest = text[size:].strip()
    if "/" in rest:
        name = parse_position(rest)[1] if len(rest.split()) == 3 else tags.rules
        rules = choices.load_rules(name)
        return AnalysisLine(rules, parse_start_position(rest, rules))
    rules, words, hand = choices.load_rules(tags.rules), rest.split(), NONE
    if words and len(words[-1]) == 1 and not rules.mover_chooses:
        hand = parse_piece(words.pop())
    plies = parse_game(" ".join(words))
    if hand != NONE and hand in [piece for piece, _ in plies]:
        raise RequestError(f"the last gift {words!r} is on the board already (game {format_game(plies)!r})")
    line = AnalysisLine(rules, Game(rules), format_decisions(plies, hand, rules))
    finished = line.games[-1].ending is not None  # raises if a decision is illegal
    return line if finished else line.with_position(len(line.words))
