"""Code that is not trusted is locked in: what it attacks stays whole, it forfeits its games, and the run goes on."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.base.agent import ISOLATIONS, AgentLimits, SomeTurnsFailedError, TurnTimeoutError
from agents.dumb import Dumb
from quarto.batch import ENDINGS, Batch
from quarto.errors import RequestError
from quarto.position import EMPTY
from quarto.rng import Streams
from quarto.rules import CLASSIC
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.spec import AgentSpec
from runners.hosting import sandbox
from runners.hosting.engines.agent import Engine
from runners.hosting.polito.agent import Polito
from runners.hosting.sandbox import build_sandbox, is_within, list_surroundings
from runners.hosting.subprocesses import PIPE, start_command
from tests.marks import seldom
from tests.paths import ROOT
from tests.runners.experiments import run_qarena

HOSTILE = Path(__file__).parent / "hostile"
OBSTACLE = sandbox.find_sandbox_obstacle()
NEEDS_SANDBOX = pytest.mark.skipif(bool(OBSTACLE), reason=f"no sandbox here: {OBSTACLE}")
LATEST_SECONDS = 10.0  # to wait for what must happen: a failure takes so long, a success does not
LIMITS: dict[str, Any] = {"turn_seconds": 20.0, "megabytes": 500, "processes": 80}
DENIED = "(PermissionError|FileNotFoundError)"


@dataclass
class Entry:
    """A hostile player in a folder of its own, and what it attacks."""

    folder: Path
    marker: str  # an argument of the process that it leaves behind
    outside: Path  # the file that it tries to write, in a folder that others may write to
    server: socket.socket

    def build(self, kind: str, attack: str, **limits: Any) -> Any:
        """Build an agent of this ``kind`` that attacks in this way."""
        agent_limits = AgentLimits(**{**LIMITS, "isolation": "sandbox", **limits})
        if kind == "engine":
            return Engine(f"{sys.executable} -I -S {self.folder / 'hostile_engine.py'} {attack}", agent_limits)
        if kind == "polito":
            kwargs = {"attack": attack}
            return Polito(str(self.folder), "hostile_player.HostilePlayer", kwargs, limits=agent_limits)
        target = "hostile_agent.HostileAgent"
        return AgentSpec("it", target, {"attack": attack}, limits=agent_limits, trusted=True).build()


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entry]:
    folder, home, neighbour = tmp_path / "entry", tmp_path / "home", tmp_path / "neighbour"
    shutil.copytree(HOSTILE, folder, ignore=shutil.ignore_patterns("__pycache__", "__init__.py"))
    for file in (home / ".ssh" / "id_rsa", neighbour / "player.py"):
        file.parent.mkdir(parents=True)
        file.write_text("secret", encoding="utf-8")
    for path in tmp_path.rglob("*"):  # whoever replaces root could read them, if they were there
        path.chmod(0o777)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("QARENA_PASSWORD", "secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        marker = f"{1000 + os.getpid() % 1000}.{time.monotonic_ns()}"
        outside = ROOT / f"written-{marker}"
        facts = {
            "secret": str(home / ".ssh" / "id_rsa"),
            "neighbour": str(neighbour / "player.py"),
            "outside": str(outside),
            "port": server.getsockname()[1],
            "marker": marker,
        }
        (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        yield Entry(folder, marker, outside, server)
        outside.unlink(missing_ok=True)


def play(agent: Any) -> tuple[list[str], str]:
    """Play two games of an agent against ``dumb``; return how the games ended, and why the agent forfeited."""
    engine = BatchEngine(CLASSIC, [agent, Dumb()], ["it", "dumb"], [(0, 1)], seed=3, run=3, opening_plies=2)
    endings = [ENDINGS[ending] for ending in engine.play_block(PairRange(0, 0, 1)).games.ending]
    return endings, "\n".join(engine.describe_misbehaviour())


def list_processes(marker: str) -> list[str]:
    """Return the ids of processes, other than this one, in whose command there is a text."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if marker.encode() in command:
                pids.append(folder.name)
    return pids


# By attack: how the games end, and the reason of an agent or player in Python, and of an engine.
ATTACKS: dict[str, tuple[str, str, str]] = {
    "read_secret": ("forfeit_error", DENIED, DENIED),
    "list_neighbours": ("forfeit_error", DENIED, DENIED),
    "write_outside": (
        "forfeit_error",
        "Read-only file system|PermissionError",
        "Read-only file system|PermissionError",
    ),
    "write_inside": ("forfeit_error", "Read-only file system", "Read-only file system"),
    "connect": ("forfeit_error", "ConnectionRefusedError|Network is unreachable", "Connection refused|unreachable"),
    "send_variables": ("forfeit_error", "LookupError: no password", "LookupError: no password"),
    "fork_without_end": ("forfeit_error", "BlockingIOError", "BlockingIOError"),
    "fill_tmp": ("forfeit_error", "No space left on device", "No space left on device"),
    "fill_shared_memory": ("forfeit_error", "No space left on device", "No space left on device"),
    "allocate_without_end": ("forfeit_error", "MemoryError", "megabytes=500 limits its memory"),
    "ignore_signals": ("forfeit_time", "took too long", "took too long"),
    "write_garbage": ("forfeit_error", "wrote what is no answer", "answered|wrote"),
    "close_descriptors": ("forfeit_error", "closed its pipes", "closed its standard output"),
    "end_supervisor": ("forfeit_error", r"signal 9 \(SIGKILL\)", r"signal 9 \(SIGKILL\)"),
}


CASES = [("engine", attack) for attack in ATTACKS] + [("polito", "connect"), ("polito", "ignore_signals")]
OTHER_CASES = [(kind, attack) for kind in ("polito", "agent") for attack in ATTACKS if (kind, attack) not in CASES]


@NEEDS_SANDBOX
@pytest.mark.parametrize(("kind", "attack"), [*CASES, *seldom(*OTHER_CASES)])
def test_an_attack_harms_nothing_and_forfeits(entry: Entry, kind: str, attack: str) -> None:
    ending, python_reason, engine_reason = ATTACKS[attack]
    endings, reason = play(entry.build(kind, attack, **({"turn_seconds": 0.5} if attack == "ignore_signals" else {})))
    assert endings == [ending] * 2
    assert re.search(engine_reason if kind == "engine" else python_reason, reason), reason
    assert not entry.outside.exists()
    assert not (entry.folder / "written").exists()
    with pytest.raises(BlockingIOError):
        entry.server.accept()


def wait_until_ended(marker: str) -> None:
    """Wait until no process has a text in its command, or fail."""
    deadline = time.monotonic() + LATEST_SECONDS
    while list_processes(marker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@NEEDS_SANDBOX
@pytest.mark.parametrize("kind", ["engine", *seldom("polito", "agent")])
def test_what_a_player_leaves_behind_ends_with_it(entry: Entry, kind: str) -> None:
    endings, reason = play(entry.build(kind, "leave_grandchild"))
    assert not any("forfeit" in ending for ending in endings), reason
    wait_until_ended(entry.marker)


@NEEDS_SANDBOX
def test_a_late_turn_of_a_player_is_interrupted_in_its_sandbox(entry: Entry) -> None:
    agent = entry.build("polito", "wait", turn_seconds=0.05)
    player = agent.build_player(CLASSIC, "it")
    with pytest.raises(SomeTurnsFailedError) as raised:
        player.play(Batch.from_positions([EMPTY]), Streams(np.array([1], np.uint64)))
    assert [type(error) for error in raised.value.failures.values()] == [TurnTimeoutError]
    first_pid = player._subprocess.pid
    with pytest.raises(SomeTurnsFailedError):
        player.play(Batch.from_positions([EMPTY]), Streams(np.array([2], np.uint64)))
    assert player._subprocess.pid == first_pid  # it was not ended


@pytest.mark.parametrize("attack", ["read_secret", "list_neighbours", "write_outside", "write_inside", "connect"])
def test_without_a_sandbox_the_attacks_succeed(entry: Entry, attack: str) -> None:
    if attack == "write_outside" and not os.access(entry.outside.parent, os.W_OK):
        pytest.skip("whoever runs this cannot write there either")
    endings, reason = play(entry.build("polito", attack, isolation="process", processes=None))
    assert not any("forfeit" in ending for ending in endings), reason


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up as on Linux")
def test_without_a_sandbox_a_process_stays_behind(entry: Entry) -> None:
    play(entry.build("engine", "leave_grandchild", isolation="process", processes=None))
    survivors = list_processes(entry.marker)
    for pid in survivors:
        os.kill(int(pid), signal.SIGKILL)
    assert survivors


# How a run is killed while its sandbox lives; the thread that started the sandbox has ended by then.
RUN = """
import sys, threading, time
from pathlib import Path
from runners.hosting.sandbox import build_sandbox
from runners.hosting.subprocesses import PIPE, start_command
started = []
def start():
    started.append(start_command(sys.argv[1:], sandbox=build_sandbox([]), stdin=PIPE, stdout=PIPE))
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].stdout.readline().decode(), flush=True)
started[0].stdin.write(b"go\\n")
print(started[0].stdout.readline().decode(), flush=True)
time.sleep(1000)
"""
INSIDE = "import time, sys; print('here', flush=True); print(input(), flush=True); time.sleep({})"


@NEEDS_SANDBOX
def test_a_sandbox_outlives_the_thread_that_started_it_but_not_the_run() -> None:
    marker = f"{2000 + os.getpid() % 1000}.{time.monotonic_ns()}"
    program = [sys.executable, "-c", RUN, sys.executable, "-I", "-S", "-c", INSIDE.format(marker)]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        lines = [run.stdout.readline().strip() for _ in range(4)]
        assert [line for line in lines if line] == [b"here", b"go"]
        assert len(list_processes(marker)) > 1
        run.kill()
    wait_until_ended(marker)


@NEEDS_SANDBOX
def test_only_a_few_variables_and_folders_are_in_a_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    code = "import os; print(sorted(os.environ)); print(os.listdir(os.environ['HOME'])); print(os.getcwd())"
    process = start_command([sys.executable, "-c", code], sandbox=build_sandbox([], folder=tmp_path), stdout=PIPE)
    assert process.stdout is not None
    variables, home, folder, *_ = process.stdout.read().decode().splitlines()
    process.stop()
    assert (home, folder) == ("[]", str(tmp_path))
    assert {"HOME", "PATH", "TMPDIR"} <= {*ast.literal_eval(variables)}
    assert "AWS_SECRET_ACCESS_KEY" not in variables


@NEEDS_SANDBOX
def test_programs_by_alternatives_and_their_settings_are_in_a_sandbox() -> None:
    """/usr/bin/java leads by /etc/alternatives, and the sandbox of root belongs to a user who must be able to enter."""
    links = sorted(path for path in Path("/etc/alternatives").glob("*") if path.is_file())[:1]
    visible = [form for link in links for form in sandbox.list_program_paths(str(link))]
    built = build_sandbox(visible)
    process = start_command(["cat", "/etc/ld.so.cache", *map(str, links)], sandbox=built, stdout=PIPE)
    try:
        assert process.wait_and_kill_group(LATEST_SECONDS) == 0
    finally:
        process.stop()


@NEEDS_SANDBOX
def test_a_run_does_not_import_what_is_in_a_sandbox(entry: Entry, tmp_path: Path) -> None:
    """The module writes a file when it is imported outside the sandbox, and the games are stored nevertheless."""
    imported = tmp_path / "imported"
    agent = (entry.folder / "hostile_agent.py").read_text(encoding="utf-8")
    attempt = f"print('printed inside')\ntry:\n    open({str(imported)!r}, 'w').close()\nexcept OSError:\n    pass\n"
    (entry.folder / "importing.py").write_text(agent + attempt, encoding="utf-8")
    (entry.folder / "agent").mkdir()
    (entry.folder / "agent" / "it.yaml").write_text("# it\n_target_: importing.HostileAgent\nattack: write_inside\n")
    names = ["it", "dumb", "games=4", "--keep-going", "a.isolation=sandbox"]
    completed = run_qarena(tmp_path, "run", *names, "--config-dir", str(entry.folder))
    assert completed.returncode == 0, completed.stderr
    assert "4 games in" in completed.stdout
    assert "raised OSError: [Errno 30] Read-only file system" in completed.stdout + completed.stderr
    assert "printed inside" not in completed.stdout + completed.stderr  # it has no terminal
    assert not imported.exists()


def test_isolation_is_no_part_of_a_run(entry: Entry) -> None:
    agents = [AgentSpec("it", "a.B", {}, limits=AgentLimits(isolation=isolation)) for isolation in ISOLATIONS]
    assert len({json.dumps(agent.to_record()) for agent in agents}) == 1
    sandboxed = AgentLimits(2.0, "sandbox", 100, 9.0, 40)
    assert sandboxed.to_dict_without_isolation() == {"turn_seconds": 2.0, "game_seconds": 9.0, "megabytes": 100}


@pytest.mark.parametrize(
    ("platform", "programs", "text"),
    [
        ("darwin", {"bwrap"}, "there are sandboxes on Linux only; isolation=process plays without a sandbox"),
        ("linux", set(), r"there is no program bwrap: install it \(apt install bubblewrap\); isolation=process"),
    ],
)
def test_where_there_is_no_sandbox_one_line_says_so(
    platform: str, programs: set[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.find_sandbox_obstacle.cache_clear()
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in programs else None)
    try:
        with pytest.raises(RequestError, match=f"^isolation=sandbox: {text}") as raised:
            build_sandbox([])
    finally:
        sandbox.find_sandbox_obstacle.cache_clear()
    assert "\n" not in str(raised.value)


@NEEDS_SANDBOX
@pytest.mark.skipif(os.getuid() != 0, reason="only root's sandbox belongs to another user")
def test_a_folder_that_only_root_can_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(RequestError, match=f"chmod -R o\\+rX {tmp_path}"):
        build_sandbox([tmp_path])


def write_program(path: Path, text: str) -> Path:
    """Write a program that a shell runs."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@NEEDS_SANDBOX
def test_an_engine_in_python_plays_where_python_is_a_shim(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = write_program(entry.folder.parent / "manager" / "launcher", f'exec {sys.executable} "$@"')
    shim = write_program(entry.folder.parent / "shims" / "python3", f'exec {launcher} "$@"')
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    limits = AgentLimits(**{**LIMITS, "isolation": "sandbox"})
    script = shutil.copy(ROOT / "runners/hosting/engines/examples/careful.py", entry.folder)
    endings, reason = play(Engine(f"python3 -I -S {script}", limits))
    assert ("forfeit" in f"{endings}", reason) == (False, "")
    with pytest.raises(RequestError, match=r"exit code 127 \(a program that it starts is not in the sandbox"):
        play(Engine(f"{shim} {script}", limits))  # no program of the path: it may belong to a player, so it is not run


def test_only_what_is_named_python_is_asked_for_its_interpreter(tmp_path: Path) -> None:
    started = tmp_path / "started"
    other = write_program(tmp_path / "bin" / "engine", f"touch {started}")
    assert sandbox.find_interpreter_behind_shim(str(other)) == str(other)
    assert sandbox.find_interpreter_behind_shim(sys.executable) == sys.executable
    assert not started.exists()
    silent = write_program(tmp_path / "bin" / "python3.9", f"touch {started}")
    assert sandbox.find_interpreter_behind_shim(str(silent)) == str(silent)
    assert started.exists()


def test_a_limit_of_processes_needs_a_sandbox() -> None:
    with pytest.raises(RequestError, match="processes=9 limits a sandbox: set isolation=sandbox"):
        AgentLimits(isolation="process", processes=9)


def test_what_is_beside_a_file_is_visible_unless_it_is_more_than_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "entry" / "engine"
    engine.parent.mkdir()
    engine.touch()
    assert list_surroundings(engine) == list_surroundings(engine.parent) == [engine.parent]
    assert list_surroundings(engine.parent / "missing") == []
    monkeypatch.chdir(engine.parent)
    assert list_surroundings(engine) == [engine]
    assert list_surroundings(Path()) == []  # of an argument that ends with =
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", str(engine.parent / "home"))
    assert list_surroundings(engine) == [engine]
    assert list_surroundings(engine.parent) == []


def test_only_files_that_a_player_can_read_are_its_data(tmp_path: Path) -> None:
    """A player in a sandbox may name any file as its data, and the run reads what it names."""
    folder, outside = tmp_path / "entry", tmp_path / "outside"
    folder.mkdir()
    for file in (folder / "weights", outside):
        file.touch()
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    assert is_within(str(folder / "weights"), [folder])
    names = [str(outside), str(folder / "link"), str(folder / "pipe"), "/dev/zero", str(folder / ".." / "outside")]
    assert not any(is_within(name, [folder]) for name in names)
