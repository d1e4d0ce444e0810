"""The page on reinforcement learning: its programs run as they are shown, with fewer steps, and so do its commands."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from runners.cli.main import app
from tests.paths import ROOT

pytestmark = pytest.mark.extras

PAGE = (ROOT / "docs/rl.md").read_text(encoding="utf-8")
PROGRAMS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS: list[str] = re.findall(r"^(?:PYTHONPATH=\. )?qarena (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
STEPS, GAMES = "20_000", "40"


def program(beginning: str) -> str:
    """The one program that has a text."""
    (found,) = (each for each in PROGRAMS if beginning in each)
    return found


def run_program(text: str, folder: Path) -> None:
    path = folder / "program.py"
    path.write_text(text)
    runpy.run_path(str(path), run_name="__main__")


def command(name: str, **changed: str) -> str:
    """The arguments of a command on the page; ``changed`` replaces texts in it."""
    (words,) = (each for each in COMMANDS if each.startswith(name))
    for old, new in changed.items():
        assert old in words
        words = words.replace(old, new)
    return words


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, from which modules are imported too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("beginning", "printed"), [("environment = env(", "in hand: -"), ('info["game"]', "@")])
def test_short_programs_run(beginning: str, printed: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_program(program(beginning), folder)
    assert printed in capsys.readouterr().out


def test_a_network_is_trained_logged_and_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = program("# train_dqn.py")
    assert "= 1_700_000, 256," in shown
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # threads that wait for each other in products of small matrices cost most of the time
        run_program(shown.replace("= 1_700_000, 256,", f"= {STEPS}, 256,"), folder)
    assert re.search(r"20,\d\d\d steps, [\d,]+ updates", capsys.readouterr().out)

    app(shlex.split(command("archive import")), standalone_mode=False)
    assert re.search(r"run \w{12} \(classic\): [\d,]+ games added", capsys.readouterr().out)
    app(shlex.split(command("sql")), standalone_mode=False)
    assert "ten_thousand" in capsys.readouterr().out

    (folder / "my_agents").mkdir()
    (folder / "my_agents/__init__.py").touch()
    (folder / "my_agents/dqn.py").write_text(program("# my_agents/dqn.py"))
    (folder / "my_conf/agent").mkdir(parents=True)
    (yaml,) = re.findall(r"^printf '(.*)' > my_conf/agent/dqn.yaml$", PAGE, re.MULTILINE)
    (folder / "my_conf/agent/dqn.yaml").write_text(yaml.replace("\\n", "\n"))
    app(shlex.split(command("run", **{"2000": GAMES})), standalone_mode=False)
    (run_id,) = re.findall(r"run (\w{12}) in", capsys.readouterr().out)

    app([*shlex.split(command("annotate", RUN=run_id)), "--from-pieces", "4"], standalone_mode=False)
    app(shlex.split(command("mistakes", RUN=run_id)), standalone_mode=False)
    assert re.search(r"│ dqn +│ placement +│", capsys.readouterr().out)


@pytest.mark.slow
def test_stable_baselines_learns_from_legal_actions_alone(folder: Path) -> None:
    pytest.importorskip("sb3_contrib")
    shown = program("MaskablePPO(")
    assert "60_000" in shown
    run_program(shown.replace("60_000", "2_048"), folder)
    games = (folder / "ppo_games.txt").read_text().splitlines()
    assert len(games) > 50
    assert not [game for game in games if "forfeit" in game]
