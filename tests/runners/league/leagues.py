"""Leagues of the tests: folders with a file, and with agents of their own that are quick, or go wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.league.entries import open_league
from runners.league.league_file import League
from runners.league.playing import LeagueOutcome, LeaguePlayOptions, play_missing_games

QUICK = "games: 4\nregret: false\nisolation: process\n"
HERE = "isolation: thread, turn_seconds: null, megabytes: null"  # keys of an entry that plays in this process
OWN_AGENTS = {
    "league_first": "class Player:\n    def choose(self, position, rng):\n"
    "        return position.free[0], (*position.available, -1)[0]\n",
    "league_cheat": "class Player:\n    def choose(self, position, rng):\n        return 99, 99\n",
    "league_hot": "class Player:\n    def choose(self, position, rng):\n"
    '        raise RuntimeError("<script>alert(1)</script> \\x1b[31m")\n',
    "league_follower": "class Player:\n    def choose(self, position, rng):\n"
    "        if position.hand < 0 and len(position.free) < 16:\n"
    '            raise RuntimeError("this is no beginning")\n'
    "        return position.free[0], (*position.available, -1)[0]\n",
    "league_sleepy": "import time\n\nclass Player:\n    def choose(self, position, rng):\n        time.sleep(60)\n",
    "league_lost": "import no_such_module_of_a_student\n\nclass Player:\n    pass\n",
    "league_crash": "import os\n\nclass Player:\n    def choose(self, position, rng):\n        os._exit(3)\n",
}


def write_league(folder: Path, *entries: str, settings: str = QUICK) -> Path:
    """Write a league; each entry is the content of a mapping. Agents of its own come from ``OWN_AGENTS``."""
    for name, code in OWN_AGENTS.items():
        write_own_agent(folder, name, code)
    lines = "".join(f"  - {{{entry}}}\n" for entry in entries)
    (folder / "league.yaml").write_text(f"{settings}entries:\n{lines}")
    return folder


def write_own_agent(league: Path, name: str, code: str, yaml: str = "") -> Path:
    """Write an agent of a league's own in a folder of its own, and return this folder."""
    folder = league / "entries" / name
    (folder / "agent").mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    (folder / "agent" / f"{name}.yaml").write_text(yaml or f"_target_: {name}.Player\n")
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[League]:
    with open_league(folder) as league:
        yield league


def play(folder: Path, stop: threading.Event | None = None, progress: StopAfter | None = None) -> LeagueOutcome:
    """Play what a league lacks, on one thread."""
    with open_league(folder) as league:
        return play_missing_games(league, LeaguePlayOptions(), stop or threading.Event(), progress)


class StopAfter:
    """A progress that asks to stop after some games."""

    def __init__(self, stop: threading.Event, games: int) -> None:
        self._stop, self._left, self.total, self.descriptions = stop, games, 0, list[str]()

    def start(self, games: int) -> None:
        self.total = games

    def advance(self, games: int) -> None:
        self._left -= games
        if self._left <= 0:
            self._stop.set()

    def report_turns(self, turns: int) -> None:
        pass

    def set_description(self, text: str) -> None:
        self.descriptions.append(text)
