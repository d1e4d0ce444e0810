"""Engines: programs in any language play over a pipe, and every way to break the protocol is one clear line."""

from __future__ import annotations

import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from agents.base.agent import AgentLimits, SomeTurnsFailedError
from analytics import open_archive
from quarto.batch import Batch, Turns
from quarto.errors import RequestError
from quarto.notation import format_position, parse_position
from quarto.rng import Streams
from quarto.rules import CLASSIC, Rules
from runners.authoring import agent_check
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import load_rules
from runners.hosting.engines.agent import Engine, EnginePlayer
from runners.hosting.engines.protocol import (
    TURNS_BY_LINE,
    format_position_lines,
    format_rules_line,
    parse_position_and_seed,
    parse_rules,
)
from runners.play.engine_server import EngineServer, converse
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

EXAMPLES = ROOT / "runners/hosting/engines/examples"
BARE = f"{sys.executable} -I -S"  # begins in a fifth of the time: these scripts need no libraries
CAREFUL = f"{sys.executable} {EXAMPLES / 'careful.py'}"
# It keeps the protocol, but for FAULT at the third position that it is asked for.
FAULTY = """
import sys, time
FAULT, asked = sys.argv[1], 0
def say(text):
    print(text, flush=FAULT != "held" and (FAULT != "held_turns" or text == "ready"))
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "quarto":
        if FAULT == "greeting":
            say("hello")
        if FAULT == "no start":
            sys.exit("no network at weights.bin")
        if FAULT == "mute":
            continue
        say("ready")
    if word == "rules":
        say("error I play own_piece only" if FAULT == "rules" else "ready")
    if word == "position":
        asked += 1
    if word == "go":
        for number in range(asked):
            if number == 2 and FAULT == "dies":
                print("Segmentation", file=sys.stderr)
                sys.exit(3)
            if number == 2 and FAULT == "panics":
                print("loaded\\nthread 'main' panicked at eng.rs:9:\\nno such piece\\n" + "at\\n" * 12, file=sys.stderr)
                sys.exit(101)
            if number == 2 and FAULT == "memory":
                hog = bytearray(10**9)
            if number == 2 and FAULT == "value":
                say("info value 250 nodes 3")
            if number == 2 and FAULT == "leaves out":
                continue
            if number == 2 and FAULT == "hangs":
                time.sleep(60)
            if number == 2 and FAULT == "long":
                say("x" * 100000)
            if number == 2 and FAULT == "information":
                say("info value 0\\n" * 20000)
            say({"no turn": "b2 7", "error": "error I am lost", "twice": "turn b2 7\\nturn b2 7",
                 "cell": "turn a1 7"}.get(FAULT, "turn b2 7") if number == 2 else "info value 0\\nTurn  B2 7\\r")
        asked = 0
    if word == "quit" and FAULT != "stays":
        break
if FAULT == "stays":
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "faulty.py"
    path.write_text(FAULTY)
    return path


def build_engine_player(command: str, rules: Rules = CLASSIC, limits: AgentLimits | None = None) -> EnginePlayer:
    return Engine(command, limits).build_player(rules, "engine")


def build_batch(*texts: str) -> tuple[Batch, Streams]:
    positions = [parse_position(text)[0] for text in texts]
    return Batch.from_positions(positions), Streams(np.arange(len(texts), dtype=np.uint64) + 7)


FIVE = ("0.../.1../..../.... 2",) * 5


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("no turn", "AnswerError", r"it answered 'b2 7', not 'turn CELL PIECE'"),
        ("error", "EngineError", r"it answered 'error I am lost'"),
        ("dies", "EngineError", r"its process ended with exit code 3: Segmentation"),
        ("long", "EngineError", r"it wrote a line of more than 4,096 bytes"),
        ("panics", "EngineError", r"with exit code 101: thread 'main' panicked at eng.rs:9: no such piece"),
        pytest.param(
            *("memory", "EngineError", r"with exit code 1, and megabytes=300 limits its memory: MemoryError"),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only"),
        ),
        (
            "value",
            "EngineError",
            r"it wrote 'info value 250 nodes 3', and a value is a number from -1 (lost) to 1 (won)",
        ),
        ("information", "EngineError", r"it wrote more than 10,000 lines 'info' before a turn"),
        ("hangs", "TurnTimeoutError", r"turn_seconds=0.3"),
    ],
)
def test_a_fault_costs_the_game_whose_turn_is_owed(faulty: Path, fault: str, kind: str, text: str) -> None:
    limits = {"hangs": AgentLimits(turn_seconds=0.3), "memory": AgentLimits(megabytes=300)}.get(fault)
    engine_player = build_engine_player(f"{BARE} {faulty} '{fault}'", limits=limits)
    with pytest.raises(SomeTurnsFailedError) as caught:
        engine_player.play(*build_batch(*FIVE))
    assert list(caught.value.failures) == [2]
    error = caught.value.failures[2]
    assert type(error).__name__ == kind
    assert text in str(error)
    if fault == "panics":  # the log gets the last lines of standard error
        assert error.__notes__[0].splitlines() == ["The end of its standard error:", *["at"] * 10]
    assert caught.value.turns.cells[[0, 1, 3, 4]].tolist() == [5] * 4  # a new process plays the rest
    assert caught.value.turns.gifts[[0, 1, 3, 4]].tolist() == [7] * 4


def test_an_interrupted_turn_says_how_many_have_come(faulty: Path) -> None:
    engine_player = build_engine_player(f"{BARE} {faulty} 'leaves out'")
    main = threading.main_thread().ident or 0
    threading.Timer(0.5, signal.pthread_kill, [main, signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        engine_player.play(*build_batch(*FIVE))
    (note,) = caught.value.__notes__
    assert note == "4 of 5 turns have come: it may leave an answer out, or not flush its output"


def test_a_turn_that_nobody_asked_for_costs_a_game_and_the_next_are_right(faulty: Path) -> None:
    engine_player = build_engine_player(f"{BARE} {faulty} twice")
    engine_player.play(*build_batch(*FIVE))
    (process,) = engine_player._idle
    while not process._lines and not select.select([process._output], [], [], 1)[0]:
        pass  # the turn may still be on its way
    with pytest.raises(SomeTurnsFailedError, match="1 of 2") as caught:
        engine_player.play(*build_batch(*FIVE[:2]))
    assert "without being asked" in str(caught.value.failures[0])
    assert caught.value.turns.cells[1] == 5


def test_a_command_whose_engine_cannot_begin_is_refused_in_one_line(faulty: Path, qarena: Qarena) -> None:
    for fault, text in {
        "no start": "its process ended with exit code 1: no network at weights.bin",
        "greeting": "it answered 'quarto 1' with 'hello' instead of 'ready'",
        "rules": "it answered 'rules classic' with 'error I play own_piece only'",
    }.items():
        with pytest.raises(RequestError, match=text):
            build_engine_player(f"{BARE} {faulty} '{fault}'")
    for command, text in {
        "": "is no program that can be run; write the program and its arguments",
        "nothing_there --depth 3": "'nothing_there' is no program",
        "'": "cannot be split into words",
    }.items():
        with pytest.raises(RequestError, match=text):
            Engine(command)
    result = qarena("run", "engine", "random", f"a.command='{BARE} {faulty} rules'", "games=2")
    assert "I play own_piece only" in result.refusal


def test_an_engine_that_does_not_answer_may_not_flush(faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.hosting.engines.process.FIRST_SECONDS", 0.5)
    monkeypatch.setattr("runners.hosting.engines.process.GREETING_SECONDS", 0.5)
    with pytest.raises(RequestError, match=r"did not answer 'quarto 1' within 0.5 seconds: it may .* not flush its"):
        build_engine_player(f"{BARE} {faulty} mute")


def test_a_check_ends_soon_if_the_engine_does_not_flush(
    faulty: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    for module in ("process", "compliance"):
        monkeypatch.setattr(f"runners.hosting.engines.{module}.FIRST_SECONDS", 1.0)
        monkeypatch.setattr(f"runners.hosting.engines.{module}.AGAIN_SECONDS", 1.5)
    result = qarena("agents", "check", f"engine(command={BARE} {faulty} held)")
    assert result.code == 1
    text = "within 1.5 seconds: 'ready' came only when its input had ended, so it does not flush its output"
    assert result.out.startswith("FAIL answers are flushed: ")
    assert text in result.out
    result = qarena("agents", "check", f"engine(command={BARE} {faulty} held_turns)")
    assert "no turn came within 1.5 seconds: 'info value 0' came only when" in result.out
    unended = "import sys; sys.stdout.write('ready'); sys.stdout.flush(); sys.stdin.read()"
    with pytest.raises(RequestError, match="it wrote 'ready', and no end of the line"):
        build_engine_player(shlex.join([sys.executable, "-c", unended]))


def test_an_engine_that_loads_slowly_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.hosting.engines.process.FIRST_SECONDS", 0.1)
    script = tmp_path / "slow.py"
    script.write_text(f"import time\ntime.sleep(0.5)\nexec(open({str(EXAMPLES / 'careful.py')!r}).read())\n")
    build_engine_player(f"{BARE} {script}").play(*build_batch(*FIVE))


def test_an_engine_gets_the_python_path_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "of/the/user")
    script = "import os; print('error', os.environ['PYTHONPATH'])"
    with pytest.raises(RequestError, match="with 'error of/the/user'"):
        build_engine_player(shlex.join([sys.executable, "-c", script]))


def test_a_command_with_signs_of_hydra_is_told_how_to_quote(qarena: Qarena) -> None:
    for value, message in {
        "./mine --depth=3": """needs double quotes inside the single ones, a.command='"./mine --depth=3"'""",
        "./mine a,b": """needs double quotes inside the single ones, a.command='"./mine a,b"'""",
    }.items():
        assert message in qarena("run", "engine", "random", f"a.command={value}").refusal
    label = "engine(command=./mine --depth=3)"
    assert 'needs double quotes, command="./mine --depth=3"' in qarena("agents", "check", label).refusal
    assert agent_from_label('engine(command="./mine a,b --depth=3")').params == {"command": "./mine a,b --depth=3"}


def test_an_engine_is_limited_in_memory_without_another_key(faulty: Path) -> None:
    label = f"engine(command={BARE} {faulty},megabytes=300)"
    assert agent_from_label(label, trusted=True).build()._limits == AgentLimits(megabytes=300)  # type: ignore[union-attr]


def test_an_engine_ends_when_its_run_is_killed(tmp_path: Path) -> None:
    note, script = tmp_path / "pid", tmp_path / "sleeper.py"
    script.write_text(
        f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\nprint('ready', flush=True)\n"
        "input(); print('ready', flush=True)\ntime.sleep(60)\n"
    )
    lines = "from runners.hosting.engines.agent import Engine\nfrom quarto.rules import CLASSIC\nimport time\n"
    lines += f"process = Engine({f'{sys.executable} {script}'!r}).start_process(CLASSIC)\n"
    lines += "print('up', flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", lines], stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{note.read_text()}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("rules", ["classic", "own_piece", "torus_square"])
def test_texts_of_positions_and_rules_are_those_of_the_project(rules: str) -> None:
    named_rules = load_rules(rules)
    name, chooser, lines = parse_rules(format_rules_line(named_rules).removeprefix("rules "))
    assert (name, chooser, lines) == (rules, named_rules.chooser, {frozenset(line) for line in named_rules.lines})
    positions, rng = build_batch(
        "..../..../..../.... -", "0123/4567/89AB/CDE. F", "F..0/..../.A../.... -", ".E../..../..../...3 4"
    )
    text = format_position_lines(positions, rng.seeds).decode()
    for index, line in enumerate(text.splitlines()):
        position, seed = parse_position_and_seed(line.removeprefix("position "))
        assert (position, seed) == (positions.position(index)._replace(last_cell=-1), 7 + index)
        assert f"position {format_position(position)} " in line
    assert len(TURNS_BY_LINE) == 17 * 17


def test_the_same_games_come_again_on_any_number_of_threads(tmp_path: Path) -> None:
    rows = []
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        play(folder, f"agents=[{{agent: engine, command: {CAREFUL}}},random]", "games=20", f"threads={threads}")
        with open_archive(folder) as archive:
            rows.append(archive.sql("SELECT * EXCLUDE (run_id) FROM plies ORDER BY ALL"))
            label, won = archive.sql(
                "SELECT agent, avg((score = 1)::INT) FROM seats WHERE agent <> 'random' GROUP BY ALL"
            ).row(0)
    assert rows[0].equals(rows[1])
    assert label == f"engine(command={Path(sys.executable).name} careful.py)"
    assert won > 0.8


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_engine_in_c_keeps_the_rules_of_the_protocol(
    tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_check, "PAIRS", 2)
    monkeypatch.setattr(agent_check, "TIMED_SECONDS", 0.02)
    program = tmp_path / "centre"
    subprocess.run(["cc", "-O2", "-o", str(program), str(EXAMPLES / "centre.c")], check=True)
    assert all(fault is None for _, fault in Engine(str(program)).own_checks(load_rules("own_piece")))
    result = qarena("agents", "check", f"engine(command={program})")
    assert result.code == 0, result.out
    for name in ("legal", "turns are legal", "answers keep their order", "silence without go", "quit ends it"):
        assert f"ok   {name}: " in result.out


def test_check_names_the_rules_that_are_broken(faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_faults(fault: str, last: str = "quit ends it") -> dict[str, str]:
        """Return the faults by rule, as far as the rule ``last``."""
        faults = dict[str, str]()
        for name, rule_fault in Engine(f"{BARE} {faulty} '{fault}'").own_checks(CLASSIC):
            faults |= {name: rule_fault} if rule_fault else {}
            if name == last:
                break
        return faults

    assert "without being asked" in find_faults("twice", name := "answers keep their order")[name]
    stay_faults = find_faults("stays")
    # It places on b2 whatever lies there.
    assert stay_faults["turns are legal"] == "position .F../.3../..../.... 0: turn b2 7: b2 is occupied"
    assert stay_faults["quit ends it"] == "it did not end within 1 s after 'quit'"
    assert stay_faults.keys() == {"turns are legal", "quit ends it"}
    monkeypatch.setattr("runners.hosting.engines.compliance.ANSWER_SECONDS", 0.5)
    text = "5 of 6 turns have come, and no more within 0.5 seconds: it may leave an answer out, or not flush its output"
    assert find_faults("leaves out", name := "turns are legal")[name] == text


def test_a_program_that_data_name_does_not_start(faulty: Path) -> None:
    with pytest.raises(RequestError, match="would run code that this project does not vouch for"):
        agent_from_label(f"engine(command={BARE} {faulty})").build()


def test_a_file_that_the_command_names_is_part_of_the_code(faulty: Path) -> None:
    assert Engine(f"{sys.executable} {faulty} --net={faulty}").data_files == [
        Path(sys.executable).resolve(),
        faulty.resolve(),
        faulty.resolve(),
    ]


def converse_with(agent: str, text: str) -> list[str]:
    import io

    out = io.StringIO()
    converse(EngineServer(load_agent(agent)), io.StringIO(text), out)
    return out.getvalue().splitlines()


def test_an_agent_of_ours_answers_other_programs() -> None:
    lines = converse_with(
        "rule_based", "quarto 1\nrules classic\nposition 0123/..../..../.... 4\ngo\ngo\nquit\nposition"
    )
    assert lines[:3] == ["name rule_based", "ready", "ready"]
    assert len(lines) == 4
    errors = converse_with(
        "random",
        "quarto 2\n\nrules clasic\nrules classic mover a1b1c1d1\nposition x\nposition 0/1 2 g\nfoo\n"
        "rules own_piece\nposition ..../..../..../.... 3\nposition ..../..../..../.... -\ngo 1\n",
    )
    assert [line.partition(" ")[0] for line in errors] == ["error"] * 6 + ["ready", "error", "turn"]
    assert "did you mean 'classic'" in errors[1]


def test_wrong_lines_of_other_programs_are_answered_by_errors() -> None:
    empty = "position ..../..../..../.... -"
    lines = converse_with(
        "random",
        f"rules classic mover\n{empty}\ngo\nrules classic opponent\n{empty}\ngo fast\ngo -1\ngo 0.5\n"
        "position 0123/..../..../.... F\nrules own_piece\nposition 0123/..../..../.... -\n",
    )
    assert lines[0] == "error rules 'classic' have the chooser 'opponent' here, not 'mover'"
    assert lines[1].startswith("error the last rules were refused")
    assert lines[2] == "ready"
    assert lines[3:5] == [f"error 'go {text}': '{text}' is not a number of seconds above 0" for text in ("fast", "-1")]
    assert lines[5].startswith("turn - ")
    assert lines[6] == "error the line a1b1c1d1 is finished: the game is over, nobody has a turn"
    assert lines[7:] == ["ready", lines[6]]
    with pytest.raises(RequestError, match="iterations=0"):
        EngineServer(agent_from_label("mcts(iterations=0)"))


def test_an_agent_behind_the_protocol_plays_as_it_plays_in_a_run() -> None:
    command = f"{sys.executable} -c 'from runners.cli.main import main; main()' engine rule_based"
    positions, rng = build_batch("..../..../..../.... -", "0.../.1../..../.... 2", "01../..../..../...5 3")
    by_protocol = build_engine_player(command).play(positions, rng)
    direct: Turns = (
        EngineServer(load_agent("rule_based"))._ensure_guarded_agent(CLASSIC).fork_player().play(positions, rng)
    )
    assert by_protocol.gifts.tolist() == direct.gifts.tolist()
    assert by_protocol.cells.tolist()[1:] == direct.cells.tolist()[1:]
