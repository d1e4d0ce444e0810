"""The dialogue: every command, and that a wrong line changes nothing."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from quarto.batch import FORFEIT_RESIGNED
from quarto.rules import CLASSIC, Rules
from quarto.views import PositionView
from runners.play.dialogue import HELP, Dialogue
from runners.play.game import Game
from runners.play.session import Session
from tests.naive import PRESETS
from tests.runners.experiments import OneByOne
from tests.runners.play.people import Notes, session


def hold(*lines: str, rules: Rules = CLASSIC, seat: int = 1) -> tuple[Session, Notes, bool | None]:
    """A dialogue against ``dumb`` until the lines are used up (None), or it is over or left."""
    playing, screen = session(rules, seat, "dumb"), Notes(lines)
    try:
        return playing, screen, Dialogue(playing, screen).run()
    except EOFError:
        return playing, screen, None


def test_whole_and_half_turns_lead_to_the_same_game() -> None:
    whole, _, _ = hold("d4 F", "d3 E")
    halves, screen, _ = hold("d4", "F", "d3", "E")
    assert whole.game == halves.game
    assert screen.requests == ["place 0", "give a piece", "place 1", "give a piece", "place 2"]
    assert screen.news[:4] == [
        "dumb gives you 0.",
        "You place 0 on d4.",
        "You give F.",
        "dumb places F on a1 and gives you 1.",
    ]


@pytest.mark.parametrize("wrong", ["", "foo", "a1 9", "c9", "d4 0", "d4 d3", "\N{GRINNING FACE}", "x" * 10_000])
def test_a_wrong_line_is_explained_and_asked_again(wrong: str) -> None:
    right, _, _ = hold("a1 5", "d4 F")
    playing, screen, _ = hold("a1 5", wrong, wrong, "d4 F")
    assert playing.game == right.game
    assert screen.requests[1:4] == ["place 1"] * 3
    assert len(screen.written) == 2
    assert all(text.endswith(".") for text in screen.written)


def test_undo_takes_back_a_turn_and_its_answer() -> None:
    once, _, _ = hold("d4 F")
    again, screen, _ = hold("d4 F", "d3 E", "undo")
    assert again.game == once.game
    assert screen.news[-1] == "Taken back: 2 plies. It is your turn again."
    halfway, screen, _ = hold("d4 F", "d3", "UNDO")
    assert halfway.game == once.game
    assert screen.news[-1] == "Taken back: 1 ply. It is your turn again."
    start, screen, _ = hold("undo")
    assert start.game == Game(CLASSIC, hand=0)
    assert screen.written == ["There is nothing to undo: you have not played yet."]
    gift, screen, _ = hold("7", "undo", seat=0)
    assert gift.game == Game(CLASSIC)
    assert screen.news[-1] == "Taken back: 1 ply. It is your turn again."


def test_resigning_ends_the_game_wherever_the_person_stands() -> None:
    for lines, plies in (([], 0), (["d4"], 1), (["d4 F"], 2), (["d4 F", "d3"], 3)):
        playing, screen, over = hold(*lines, "resign")
        assert over
        assert (len(playing.game.plies), playing.game.ending, playing.game.winner) == (plies, FORFEIT_RESIGNED, 0)
        assert screen.news[-1] == "You resign, and dumb wins."
        assert screen.game == playing.game


@pytest.mark.parametrize("rules", [PRESETS["classic"], PRESETS["own_piece"]], ids=lambda rules: rules.name)
def test_help_hint_and_board_change_nothing(rules: Rules) -> None:
    playing, screen, _ = hold("help", "hint", "board", "?", rules=rules, seat=1)
    assert len(playing.game.plies) == 0
    assert screen.written[1 : 1 + len(HELP)] == list(HELP)
    assert screen.written[0].endswith(("such as a1 1.", "such as 0@a1."))
    assert "finishes" in screen.written[1 + len(HELP)]
    assert screen.boards == 2


class Slow(OneByOne):
    """An opponent that thinks until the test stops it."""

    def __init__(self) -> None:
        self.thinking = threading.Event()
        self.stop = threading.Event()

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        self.thinking.set()
        self.stop.wait(60)
        return super().choose(position, rng)


def test_ctrl_c_is_heard_while_the_agent_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Slow()
    playing, screen = session(CLASSIC, 1, agent), Notes([])

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(screen, "waiting", press)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Dialogue(playing, screen).run()
    assert agent.thinking.is_set()
    assert time.monotonic() - started < 30
    agent.stop.set()
