"""Slow agents: life is shown, finished games are stored, and little is lost whatever ends the run."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.random import Random
from analytics.store.archive import Archive
from analytics.store.records import Commit
from analytics.verify.archive import verify
from quarto.batch import Block
from quarto.rules import CLASSIC
from quarto.views import PositionView
from runners.arena import engine
from runners.arena.engine import Engine, Order
from runners.arena.playing import execute
from runners.contestants import crew, interruption
from tests.runners.experiments import QARENA, Dice, OneByOne, environment_with, request, stored_at

STUBBORN = """
import time

class Player:
    turns = 0

    def choose(self, position, rng):
        self.turns += 1
        while self.turns > 40:
            try:
                time.sleep(0.01)
            except BaseException:
                pass
        return position.free[0], (*position.available, -1)[0]
"""


class Watcher:
    """Does ``when_idle`` whenever it hears that no game ends, with the number of turns."""

    def __init__(self, when_idle: Callable[[int], None], on_games: Callable[[int], None] = lambda _: None) -> None:
        self.idle = when_idle
        self.advance = on_games

    def start(self, games: int) -> None:
        """Do nothing."""


class Waiting(OneByOne):
    """Waits in its fortieth turn until it is released."""

    turns = 0
    go_on = threading.Event()

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        Waiting.turns += 1
        if Waiting.turns == 40:
            assert self.go_on.wait(20)
        return super().choose(position, rng)


def test_while_a_turn_takes_long_turns_are_told_and_finished_games_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "IDLE_SECONDS", 0.01)
    told = []

    def when_idle(turns: int) -> None:
        told.append(turns)
        if list(tmp_path.glob("commits/*/*.json")) and turns > 40:  # those of dumb count too
            Waiting.go_on.set()

    waiting = f"{{agent:random,_target_:{__name__}.Waiting,name:waiting}}"
    asked = request(f"agents=[{waiting},dumb]", "games=20", "threads=1", "archive.shard_seconds=0.02")
    outcome = execute(stored_at(tmp_path, asked), "", threading.Event(), Watcher(when_idle))
    assert Waiting.go_on.is_set()
    assert sorted(told) == told
    assert outcome.played == 20


def parts(pairs: int, cut: Callable[[], bool]) -> list[Block]:
    """What is handed out of a block of an agent in Python against ``random``; each game is the right one."""
    arena = Engine(CLASSIC, [Dice(), Random()], ["it", "random"], [(0, 1)], seed=3, run=3)
    whole = arena.play_block(Order(0, 0, pairs)).block.games
    found = [each.block for each in arena.play_parts(Order(0, 0, pairs), cut)]
    for block in found:
        columns = slice(2 * block.first_pair, 2 * (block.first_pair + block.pairs))
        for name in ("plies", "winner", "ending"):
            assert (getattr(block.games, name) == getattr(whole, name)[columns]).all()
        for column in range(2 * block.pairs):
            plies = block.games.plies[column]
            for mine, all_of in ((block.games.pieces, whole.pieces), (block.games.cells, whole.cells)):
                assert (mine[:plies, column] == all_of[:plies, columns][:, column]).all()
    return found


def numbers(blocks: Sequence[Block]) -> list[int]:
    return [pair for block in blocks for pair in range(block.first_pair, block.first_pair + block.pairs)]


def test_a_block_that_takes_long_is_handed_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HAND_OUT_SECONDS", -1)
    blocks = parts(60, lambda: False)
    assert len(blocks) > 3
    assert sorted(numbers(blocks)) == list(range(60))


@pytest.mark.parametrize("turns", [1, 20, 26])
def test_of_a_block_that_is_cut_the_finished_pairs_remain(turns: int) -> None:
    calls = iter(range(1000))
    found = numbers(parts(60, lambda: next(calls) >= turns))
    assert len(set(found)) == len(found) < 60
    assert (len(found) > 0) == (turns > 1)


def test_a_kill_loses_no_more_than_a_shard_a_thread_another_one_and_the_blocks_in_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, committed, most, threads = Archive.commit, list[int](), 64, 2

    def slowly(archive: Archive, run_id: str, blocks: Sequence[Block], pairings: Any) -> Commit | None:
        time.sleep(0.005)
        games = [len(block.games.plies) for block in blocks]
        assert sum(games) <= most
        assert max(games) <= most // 8
        found = commit(archive, run_id, blocks, pairings)
        committed.append(sum(games))
        return found

    monkeypatch.setattr(Archive, "commit", slowly)
    taken = []

    def on_games(games: int) -> None:
        taken.append(games)
        assert sum(taken) - sum(committed) <= (threads + 1) * most

    asked = request("agent@a=dumb", "games=1000", f"threads={threads}", f"archive.shard_games={most}")
    execute(stored_at(tmp_path, asked), "", threading.Event(), Watcher(lambda _: None, on_games))
    assert sum(taken) == sum(committed) == 1000


def test_a_second_ctrl_c_ends_the_process_even_if_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    left, ended = [], threading.Event()

    def leave(code: int) -> None:
        left.append(code)
        ended.set()

    monkeypatch.setattr(interruption, "LAST_SECONDS", 0.01)
    monkeypatch.setattr(interruption, "leave", leave)
    with interruption.interruptible() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert ended.wait(10)  # an agent in the main thread may go on after any exception
        signal.raise_signal(signal.SIGINT)  # a third one changes nothing
    assert left == [130]


@pytest.mark.slow
def test_an_agent_that_never_returns_cannot_hold_up_the_second_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/stubborn.yaml").write_text("_target_: stubborn.Player\n")
    (tmp_path / "own/stubborn.py").write_text(STUBBORN)
    command = [QARENA, "run", "--config-dir", "own", "agent@a=stubborn", "agent@b=random", "games=100"]
    with subprocess.Popen(
        [*command, "archive.root=games", "archive.shard_seconds=0"],
        cwd=tmp_path,
        env=environment_with(PYTHONPATH=str(tmp_path / "own")),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("games/commits/*/*.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        insisted = time.monotonic()
        _, err = process.communicate(timeout=20)
        assert time.monotonic() - insisted < 2
    assert process.returncode == 130
    assert "what was not committed yet is dropped" in err
    archive = Archive.open(tmp_path / "games")
    assert verify(archive).problems == []
    assert archive.covered(archive.run_ids()[0])
