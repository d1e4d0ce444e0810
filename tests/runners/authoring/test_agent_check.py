"""`qarena agents check` finds what an agent does wrong, and nothing in one that does nothing wrong."""

from __future__ import annotations

import itertools
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from agents.base.agent import AgentLimits
from analytics.store.marker import MARKER_NAME
from quarto.rng import Streams
from quarto.rules import CLASSIC
from quarto.views import BatchView, Position
from runners.arena.batch_engine import BatchEngine
from runners.arena.spec import AgentSpec
from runners.authoring import agent_check, watchdog
from runners.authoring.agent_check import run_checks, sample_rare_positions
from tests.naive import PRESETS
from tests.runners.conftest import Qarena
from tests.runners.hosting.polito import folders
from tests.runners.players import Batched, OneByOne

HERE = __name__


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "TIMED_SECONDS", 0.02)


class Chatty(OneByOne):
    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        print("thinking")  # noqa: T201  (that is what it does wrong)
        return super().choose(position, rng)


class OwnDice(OneByOne):
    """Draws from Python's generator instead of its own stream."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        _, gift = super().choose(position, rng)
        return random.choice(position.free or [-1]), gift


class OwnArrayDice(OneByOne):
    """Draws from NumPy's generator of the process."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        _, gift = super().choose(position, rng)
        return int(np.random.choice(position.free or [-1])), gift  # noqa: NPY002


class Numbered(OneByOne):
    """Plays by how many turns it has taken in this process, whatever its object."""

    turns = itertools.count()

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        _, gift = super().choose(position, rng)
        return position.free[next(Numbered.turns) % len(position.free)] if position.free else -1, gift


class Together(Batched):
    """Looks at the other positions of the batch."""

    def play(self, batch: BatchView, rng: Streams) -> tuple[Any, Any]:
        cells, gifts = super().play(batch, rng)
        if len(cells) < 3:
            return cells, gifts
        return 15 - batch.free[:, ::-1].argmax(axis=1), gifts


class Remembering(OneByOne):
    """Plays by what it saw in other games."""

    def __init__(self) -> None:
        self.asked = 0

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        self.asked += 1
        cell, gift = super().choose(position, rng)
        return position.free[-1] if self.asked % 7 == 0 and cell >= 0 else cell, gift


class Cheat(OneByOne):
    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return position.free[0], 99


class Fragile(OneByOne):
    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        no_turns: dict[int, tuple[int, int]] = {}
        return no_turns[position.packed.occupied]


class CellOnly:
    def choose(self, position: Position, rng: np.random.Generator) -> int:
        return 3


class Nested:
    def choose(self, position: Position, rng: np.random.Generator) -> Any:
        return ((0, 1), 5)


class NoDice:
    def choose(self, position: Position) -> tuple[int, int]:
        return position.free[0], 0


class Narrow(Batched):
    def play(self, batch: BatchView, rng: Streams) -> tuple[Any, Any]:
        return super().play(batch, rng)[0][:, None], batch.hand


class Forgetful:
    """Forgets that there is no gift after the last piece."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        cell = int(rng.choice(position.winning_cells() or position.free))
        return cell, int(rng.choice(position.safe_gifts(cell) or position.available))


class Confused(OneByOne):
    """Asks the project for what does not exist."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return position.free[0], position.winning_cells(99)[0]


class Slow(OneByOne):
    """Thinks for a long time about one position."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        if len(position.free) == 14:
            time.sleep(0.2)
        return super().choose(position, rng)


class Endless(OneByOne):
    """Never answers in one kind of position."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        while len(position.free) == 14:
            time.sleep(0.001)
        return super().choose(position, rng)


LEGAL, REPEATABLE = ["legal", "exceptions"], ["repeatable"]
WRONG: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "tests.runners.players.OneByOne": ([], ()),
    "tests.runners.players.Batched": ([], ()),
    "Chatty": (["prints"], ("'thinking'",)),
    "OwnDice": (REPEATABLE, ("on rng alone: it drew from random or numpy.random: draw from rng",)),
    "OwnArrayDice": (REPEATABLE, ("on rng alone: it drew from random or numpy.random: draw from rng",)),
    "Numbered": (REPEATABLE, ("against itself differs at ply 0: 0@", "on rng alone: keep nothing from other turns, ")),
    "Together": (["no memory between games"], ("against itself differs at ply 0: 0@d4, then 0@a1",)),
    "Remembering": (["no memory between games"], ("differs at ply ",)),
    "Cheat": (["legal"], ("answered: (cell, gift) = (0, 99): piece 99 is not among those left",)),
    "Fragile": (LEGAL, ("no turn was taken\nraised KeyError: 0 (",)),
    "Confused": (LEGAL, ("raised ValueError: piece 99 is not in 0..15 (tests/runners/authoring/",)),
    "CellOnly": (
        LEGAL,
        ("gave no turn: choose returned 3, not (cell, gift): a cell is a number from 0 to 15, 4 * row + column, and",),
    ),
    "Nested": (LEGAL, ("choose returned ((0, 1), 5), not (cell, gift)", "a cell is a number from 0 to 15")),
    "NoDice": (LEGAL, ("choose cannot be called as it should: NoDice.choose() takes 2 ",)),
    "Narrow": (LEGAL, ("play returned cells of shape (1, 1), not (1,)",)),
}


@pytest.mark.parametrize("agent", WRONG)
def test_what_an_agent_does_wrong_is_found(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "PAIRS", 4)
    wrong, texts = WRONG[agent]
    target = agent if "." in agent else f"{HERE}.{agent}"
    results = list(run_checks(AgentSpec("it", target, {}, trusted=True), CLASSIC, seed=1))
    assert [result.subject for result in results if not result.is_fine] == wrong
    texts_of_faults = "\n".join(result.text for result in results if not result.is_fine)
    assert [text for text in texts if text not in texts_of_faults] == []
    assert results[-1].subject == "speed"


def test_positions_that_games_rarely_reach_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "PAIRS", 1)  # four games, which end before the board is full
    forgetful = AgentSpec("it", f"{HERE}.Forgetful", {}, trusted=True)
    (fault,) = [result for result in run_checks(forgetful, CLASSIC, 1, with_speed=False) if not result.is_fine]
    assert fault.subject == "exceptions"
    line = rf"test_agent_check\.py:{Forgetful.choose.__code__.co_firstlineno + 2}"
    text = rf"raised ValueError: a cannot be empty.* \(\S*{line}\), first in position [0-9A-F./]+ [0-9A-F]: 8 times"
    first_line, remedy = fault.text.splitlines()
    assert re.fullmatch(text, first_line)
    assert remedy == "in this position no piece is left to give: the gift of the last turn is -1"


@pytest.mark.parametrize("name", PRESETS)
def test_rare_positions_are_those_in_which_agents_fail(name: str) -> None:
    rules, kinds = PRESETS[name], Counter[str]()
    for position in sample_rare_positions(rules, 7):
        view = Position(position, rules)
        gifts = {gift for cell in view.free for gift in view.safe_gifts(cell)}
        kinds["first"] += len(view.free) == 16
        kinds["last piece"] += len(view.free) == 1
        kinds["last two"] += len(view.free) == 2
        kinds["no safe gift"] += not rules.mover_chooses and not gifts and len(view.free) > 2
        kinds["one safe gift"] += len(gifts) == 1
    assert kinds["first"] == 1
    expected_kinds = ("last piece", "last two", *(() if rules.mover_chooses else ("no safe gift", "one safe gift")))
    assert all(kinds[kind] >= 8 for kind in expected_kinds), kinds


def test_a_slow_turn_is_noted_while_it_is_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(agent_check, "PAIRS", 1)
    slow = AgentSpec("it", f"{HERE}.Slow", {}, trusted=True)
    assert not any("slow" in result.text for result in run_checks(slow, CLASSIC, 1))
    notes = capsys.readouterr().err.splitlines()
    pattern = (
        r"after 0\.1 seconds the agent has not answered in position ([0-9A-F.]{4}/?){4} [0-9A-F]; it goes on until "
    )
    assert re.match(pattern, notes[0])
    assert "turn_seconds=1" in notes[0]
    slow_turns = [line for line in notes if line.startswith("after 0.1 seconds")]
    assert len(slow_turns) == watchdog.MAX_NOTES
    assert slow_turns[-1].endswith("More such turns are not noted")


@pytest.mark.parametrize(("isolation", "seconds"), [("thread", 2), pytest.param("process", 20, marks=pytest.mark.slow)])
def test_a_turn_that_never_ends_is_named_when_the_time_is_over(isolation: str, seconds: int) -> None:
    endless = AgentSpec("it", f"{HERE}.Endless", {}, limits=AgentLimits(isolation=isolation), trusted=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as it is for a job in the background
    try:
        (fault,) = run_checks(endless, CLASSIC, 1, max_seconds=seconds)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (fault.subject, fault.is_fine) == ("in time", False)
    pattern = r"the agent has been asked for \d+\.\d seconds in position ([0-9A-F.]{4}/?){4} [0-9A-F]"
    first = Endless.choose.__code__.co_firstlineno
    at = rf", at \S*test_agent_check\.py:({first + 1}|{first + 2})" if isolation == "thread" else ""
    assert re.fullmatch(rf"the check was not over after {seconds} seconds \(--seconds\): {pattern}{at}", fault.text)


def test_a_slow_agent_plays_the_games_that_its_time_allows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds, pairs in ((0.001, 10), (2.0, 2), (0.5, 10)):  # of two games against random, in a check of 120 seconds
        paced = SimpleNamespace(play_block=lambda _order, seconds=seconds: SimpleNamespace(seconds=seconds))
        assert agent_check._count_affordable_pairs(cast("BatchEngine", paced), watchdog.Watchdog(120)) == pairs
    assert "took 2.0 seconds, so this check plays 8 games and not 40; --seconds allows more" in capsys.readouterr().err
    one = AgentSpec("it", "tests.runners.players.OneByOne", {}, trusted=True)
    with monkeypatch.context() as patched:
        patched.setattr(agent_check, "_count_affordable_pairs", lambda _engine, _watch: 1)
        assert next(run_checks(one, CLASSIC, 1)).text.startswith("every turn of 4 games and in ")
    monkeypatch.setattr(agent_check, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(agent_check, "OTHER_WORK", 10**9)
    (late,) = run_checks(one, CLASSIC, 1)
    assert (late.subject, late.is_fine) == ("in time", False)
    assert re.search(r"took \d\.\d seconds: this check needs up to \d+ seconds; --seconds \d+ allows", late.text)


class Late(OneByOne):
    """Takes longer than its limit for every turn."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        time.sleep(0.05)
        return super().choose(position, rng)


def test_an_agent_that_exceeds_its_limit_is_told_so_and_not_that_the_check_needs_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_check, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(agent_check, "OTHER_WORK", 10**9)
    monkeypatch.setattr("runners.hosting.timed_agents.MAX_STUCK_TURNS", 1000)
    limits = AgentLimits(0.001)
    (late,) = run_checks(AgentSpec("it", f"{HERE}.Late", {}, limits=limits, trusted=True), CLASSIC, 1)
    assert late.text.startswith("took too long for a turn (turn_seconds=0.001), first in position")


def test_what_a_player_of_another_package_prints_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "PAIRS", 1)
    settings = {"folder": str(folders.write(tmp_path, folders.LEARNER)), "player": "learner.Learner"}
    agent = AgentSpec("it", "runners.polito.agent.Polito", settings, trusted=True)
    prints = next(result for result in run_checks(agent, CLASSIC, 1, with_speed=False) if result.subject == "prints")
    assert prints == ("prints", True, "18 lines for the log of a run: 'game 1 of 3'")


def test_the_command_prints_what_it_found_and_stores_nothing(qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/cheat.yaml").write_text(f"_target_: {HERE}.Cheat\n")
    fine = qarena("agents", "check", "random")
    assert (fine.code, fine.err) == (0, "")
    assert [line[:5] for line in fine.out.splitlines()] == ["ok   "] * 6
    result = qarena("agents", "check", "cheat", "--config-dir", "own")
    assert result.code == 1
    assert re.search(r"FAIL legal: answered with an illegal turn .*, first in position .*: \d\d times\n", result.out)
    assert "legal pieces: 0 (0), 1 (1)" in result.out
    assert result.err == ""
    assert not list(tmp_path.rglob(MARKER_NAME))
