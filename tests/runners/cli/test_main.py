"""The command line: exit codes, one-line errors, answers in every format, help without heavy imports."""

from __future__ import annotations

import csv
import errno
import io
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from analytics.store.archive import ArchiveStore
from analytics.store.ranges import compute_checksum
from quarto.errors import FailureError, RequestError
from quarto.sources import CompilationProgress
from runners.cli import options
from runners.cli.main import COMMAND_SYNONYMS, CompilingNotice
from tests.another_user import another_user, visible_folder
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import QARENA, play, run_qarena

COUNTS = "SELECT agent_0, agent_1, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module")
def made_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play an archive with 20 games of ``rule_based`` against ``random``."""
    root = tmp_path_factory.mktemp("made") / "archive"
    play(root, "games=20", "archive.shard_games=10", "threads=1")
    return root


@pytest.fixture
def played_archive(made_archive: Path, tmp_path: Path) -> Path:
    """Copy ``made_archive`` to the default archive's folder."""
    return Path(shutil.copytree(made_archive, tmp_path / "data/archive"))


# run.


def test_a_long_run_whose_number_of_games_nobody_chose_says_how_to_choose(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MEASURED_SECONDS", "LONG_SECONDS"):
        monkeypatch.setattr(f"runners.terminal.console.{limit}", 0.0)
    note = r"The [\d,]+ games left take about \d+ min; games=1000 plays fewer a pairing \(you can stop .*\)\n"
    assert re.fullmatch(note, qarena("run", "random", "dumb", "seed=5").err)
    assert qarena("run", "random", "dumb", "games=1000", "seed=6").err == ""
    monkeypatch.setattr("runners.terminal.console.LONG_SECONDS", 60.0)
    assert qarena("run", "random", "dumb", "seed=7").err == ""


def test_a_run_prints_its_tables_and_what_to_ask_next(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("run", "agents=[random,dumb,semi_random]", "games=40", "seed=7", "archive.root=some games")
    assert (result.code, result.err) == (0, "")
    assert re.search(r"│ 1 │ semi_random +│", result.out)
    assert "95 % interval" in result.out
    assert "forfeits" not in result.out
    assert re.search(r"120 games in [\d.]+ s, [\d,]+ games a second .*in some games holds 120 games", result.out)
    (question,) = re.findall(r"^Ask the archive: qarena (.*)$", result.out, re.MULTILINE)
    answer = qarena(*shlex.split(question), "--format", "csv")
    assert (answer.code, answer.err) == (0, "")
    rows = [line.split(",") for line in answer.out.splitlines()]
    assert sum(int(row[rows[0].index("games")]) for row in rows[1:]) == 120
    again = qarena("run", "agents=[random,dumb,semi_random]", "games=40", "seed=7", "archive.root=some games")
    assert "Nothing to play: run" in again.out
    more = qarena("run", "agents=[random,dumb,semi_random]", "games=42", "seed=7", "archive.root=some games")
    other = qarena("run", "random", "dumb", "games=40", "rules=own_piece", "archive.root=some games")
    for later in (again, more, other):  # it is known by now
        assert (later.code, "Ask the archive" in later.out) == (0, False)
    assert "Ask the archive: " in qarena("run", "random", "dumb", "games=40", "archive.root=others").out
    assert {path.name for path in tmp_path.iterdir()} == {"some games", "others", "outputs"}


def test_the_share_won_in_a_seat_is_one_of_the_games_in_it(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    result = qarena("run", "oracle", "random", "games=2", "opening_plies=6", "--archive", "one game in each seat")
    assert re.search(r"│ oracle │ random │ +2 │ 100\.00 │.*│ +100\.00 │ +100\.00 │ +[\d.]+ │\n", result.out)


def test_compiling_is_announced_and_goes_on_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling = CompilationProgress(seconds=25.04)
    monkeypatch.setattr("runners.cli.main.compilation_progress", compiling)
    times = iter([0.0, 1.0, 9.9, 10.0, 11.0, 25.0])
    notice = CompilingNotice(lambda: next(times))
    for compiled in range(1, 7):
        compiling.compiled = compiled
        notice()
    notice.print_total()
    first, *more = capsys.readouterr().err.splitlines()
    assert first.startswith("Compiling the kernels")
    going_on = ["… 4 kernels so far", "… 6 kernels so far"]
    assert more == [*going_on, "Compiled 6 kernels in 25.0 s. Speeds leave this time out."]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ga", ["ga2", "ga5", "ga_minimax"]),
        ("rules=s", ["rules=square"]),
        ("agent@b=rl", ["agent@b=rl_encoded", "agent@b=rl_tabular"]),
        ("+experiment=round", ["+experiment=round_robin"]),
        ("nothing", []),
    ],
)
def test_agents_and_options_of_groups_are_completed(typed: str, expected: Sequence[str]) -> None:
    assert get_args(options.Players)[1].autocompletion(typed) == expected


def test_a_folder_of_its_own_for_each_launch(qarena: Qarena, tmp_path: Path) -> None:
    for _ in range(2):
        assert qarena("run", "games=2").code == 0
    assert len(list((tmp_path / "outputs").glob("*/*"))) == 2
    assert qarena("run", "games=2", "hydra.run.dir=chosen").code == 0
    assert (tmp_path / "chosen/.hydra/config.yaml").is_file()
    assert len(list((tmp_path / "outputs").glob("*/*"))) == 2


EVENTS: list[str] = []


class FailingCallback(Callback):
    """A callback of Hydra that fails when a job ends."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        config.hydra.run.dir = "chosen"
        EVENTS.append("run starts")

    def on_run_end(self, config: DictConfig, **_: Any) -> None:
        EVENTS.append(f"run ends in {config.hydra.run.dir}")

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        EVENTS.append(f"job starts in {Path(config.hydra.runtime.output_dir).name}")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        raise ValueError("the job ends")


def test_callbacks_of_hydra_are_told_of_a_single_run_and_one_that_fails_is_a_warning(qarena: Qarena) -> None:
    with pytest.warns(UserWarning, match=r"Callback FailingCallback\.on_job_end raised ValueError: the job ends"):
        result = qarena("run", "games=2", f"+hydra.callbacks.own._target_={__name__}.FailingCallback")
    assert (result.code, "2 games in" in result.out) == (0, True)
    assert EVENTS == ["run starts", "job starts in chosen", "run ends in chosen"]


# Errors.


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RequestError("wrong"), 2, "error: wrong\n"),
        (FailureError("failed"), 1, "error: failed\n"),
        (RuntimeError("a\nbug"), 1, "error: RuntimeError: a bug (unexpected; --debug shows where)\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 0, ""),
        (BrokenPipeError(errno.EPIPE, "which Typer takes for a failure"), 0, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(wide: bool) -> None:
        raise error

    for name in ("stdout", "stderr"):  # Typer puts others there
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr("runners.authoring.agent_table.print_agents", fail)
    assert qarena("agents") == (code, "", line)


def test_a_deleted_folder_is_one_line_with_a_remedy(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "the current folder was deleted or moved: go to one that exists" in qarena("run", "games=2").refusal


@pytest.mark.parametrize("question", ["-- a = 1\nSELECT 1 AS x", "--all\tin one\nSELECT 1 AS x", "- 1"])
def test_a_question_may_begin_with_a_comment(question: str, played_archive: Path, qarena: Qarena) -> None:
    for words in (
        (question,),
        ("--format", "csv", question),
        (question, "--format=csv"),
        ("--format=csv", "--", question),
    ):
        result = qarena("sql", *words)
        if question == "- 1":
            assert "Parser Error" in result.refusal
        else:
            assert (result.code, "1" in result.out) == (0, True)
    assert "No such option: --al" in qarena("sql", "--al", "SELECT 1").refusal


def test_an_error_that_a_library_makes_of_an_interrupt_is_an_interrupt(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(wide: bool) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("runners.authoring.agent_table.print_agents", fail)
    error: Exception = AttributeError("half done")
    assert qarena("agents") == (143, "", "interrupted\n")
    error = FailureError("the disk is full")
    assert qarena("agents") == (1, "", "error: the disk is full\n")


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("rank", "rate"),
        ("Elo", "rate"),
        ("match", "run"),
        ("analyse", "solve"),
        ("list", "archive ls"),
        ("trian", "train"),
    ],
)
def test_a_word_that_is_no_command_suggests_the_one_that_does_it(word: str, command: str, qarena: Qarena) -> None:
    expected = f"error: No such command '{word}': did you mean '{command}'? (see 'qarena --help')\n"
    assert qarena(word) == (2, "", expected)


def test_every_suggested_command_exists(qarena: Qarena) -> None:
    for command, words in COMMAND_SYNONYMS.items():
        assert qarena(*command.split(), "--help").code == 0
        assert all(qarena(word).code == 2 for word in words.split())  # none has become a command


def test_debug_is_in_no_record(qarena: Qarena, tmp_path: Path) -> None:
    before = ["qarena", "run", "random", "dumb", "games=2", "--debug"]
    assert qarena(*before[1:]).code == 0
    assert sys.argv == before
    assert [record.command for record in ArchiveStore(tmp_path / "data/archive").load_runs()] == [" ".join(before[:-1])]


def test_debug_shows_where(qarena: Qarena, tmp_path: Path) -> None:
    for arguments in (["run", "games=0", "--debug"], ["--debug", "archive", "ls"]):
        result = qarena(*arguments)
        assert result.code == 2
        assert "Traceback (most recent call last)" in result.err
        assert "RequestError: " in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_no_error_shows_the_credentials_of_an_endpoint(
    debug: Sequence[str], qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(wide: bool) -> None:
        raise FailureError("no answer of https://ada:pass%2Fword@host:9000/ (ada, pass/word)")

    monkeypatch.setattr("runners.authoring.agent_table.print_agents", fail)
    for name, endpoint in (("AWS_ENDPOINT_URL", "https://ada:pass%2Fword@host:9000"), ("GOOGLE_BASE_URL", "http://[")):
        monkeypatch.setenv(name, endpoint)
    shown = qarena("agents", *debug)
    assert shown.err.endswith("error: no answer of https://***host:9000/ (ada, ***)\n")
    assert ("Traceback" in shown.err) == bool(debug)
    assert "word" not in shown.err


def test_an_archive_without_write_permission_is_refused(qarena: Qarena, played_archive: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    tmp_path.chmod(0o755)
    played_archive.chmod(0o555)
    with another_user():
        result = qarena("run", "games=40")
    played_archive.chmod(0o755)
    assert (result.code, result.out) == (2, "")
    assert re.fullmatch(r"error: archive data/archive is not writable by user id \d+ \(.*mode 555.*\n", result.err)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_may_no_longer_be_read_is_named_and_nothing_is_counted_as_less(
    qarena: Qarena, played_archive: Path
) -> None:
    with visible_folder() as outside:
        root = Path(shutil.copytree(played_archive, outside / "archive"))
        file, folder = next((root / "plies").glob("*/*.parquet")), next((root / "games").iterdir())
        for taken, question in ((file, "SELECT sum(cell) FROM plies"), (folder, "SELECT count(*) FROM games")):
            assert (
                qarena("sql", question, "--archive", str(root)).code == 0
            )  # all modules are imported: root's are root's
            mode = taken.stat().st_mode
            taken.chmod(0)
            with another_user():
                result = qarena("sql", question, "--archive", str(root))
            taken.chmod(mode)
            assert (result.code, result.out) == (1, "")
            assert re.fullmatch(rf"error: .*{taken.name}.*\n", result.err)
            assert qarena("sql", question, "--archive", str(root)).code == 0


# sql.


def test_sql_prints_or_writes_every_format(qarena: Qarena, played_archive: Path, tmp_path: Path) -> None:
    expected = [("random", "rule_based", 10), ("rule_based", "random", 10)]
    table = qarena("sql", COUNTS)
    assert (table.code, table.err) == (0, "")
    for row in expected:
        assert re.search(" +│ +".join(map(str, row)), table.out)
    _, *rows = csv.reader(io.StringIO(qarena("sql", COUNTS, "--format", "csv").out))
    assert [(first, second, int(games)) for first, second, games in rows] == expected
    objects = json.loads(qarena("sql", COUNTS, "--format", "json").out)
    assert [tuple(row_object.values()) for row_object in objects] == expected
    for form in ("table", "csv", "json", "parquet"):
        assert qarena("sql", COUNTS, "--format", form, "--output", f"answer.{form}") == (0, "", "")
    assert pl.read_csv("answer.csv").rows() == expected
    assert pl.read_json(tmp_path / "answer.json").rows() == expected
    assert pl.read_parquet("answer.parquet").rows() == expected
    assert "│ random     │ rule_based │    10 │" in (tmp_path / "answer.table").read_text()


@pytest.mark.slow
def test_parquet_may_be_piped_and_questions_come_from_a_pipe(played_archive: Path, tmp_path: Path) -> None:
    subprocess.run([QARENA, "archive", "verify"], cwd=tmp_path, capture_output=True, check=True)  # no notice about it
    typed = [QARENA, "sql", "-", "--format", "parquet"]
    done = subprocess.run(typed, cwd=tmp_path, input=COUNTS.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    assert pl.read_parquet(done.stdout)["games"].to_list() == [10, 10]


def test_a_question_may_come_from_standard_input(
    qarena: Qarena, played_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT count(*) AS games\nFROM games -- all of them\n"))
    assert qarena("sql", "-", "--format", "csv") == (0, "games\n20\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["SELECT * FROM game"], 2, "there is no table 'game'; did you mean 'games'?"),
        (["SELECT agent_2 FROM games"], 2, "agent_2"),
        (["SELEC 1"], 2, "SQL: "),
        (["DELETE FROM runs"], 2, "SQL here is one SELECT that only reads (this is: DELETE)"),
        (["SELECT 1; SELECT 2"], 2, "SQL here is one SELECT that only reads"),
        (["COPY games TO 'games.csv'"], 2, "SQL here is one SELECT that only reads"),
        (["SELECT 1", "--output", "answer.jsn"], 2, "--format or let it end with one of .txt, .csv, .json, .parquet"),
        (
            ["SELECT * FROM plies ORDER BY random()", "--memory", "1KiB"],
            2,
            "more memory than it may use: raise the limit",
        ),
        (["SELECT 1", "--format", "csv", "--output", "nowhere/answer.csv"], 2, "nowhere/answer.csv has no folder"),
        (["SELECT 1", "--output", "data/archive/answer.csv"], 2, "is inside archive"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_question_that_cannot_be_answered_is_one_line(
    arguments: list[str], code: int, expected: str, qarena: Qarena, played_archive: Path, tmp_path: Path
) -> None:
    result = qarena("sql", *arguments)
    assert (result.code, result.out) == (code, "")
    assert expected in result.err
    assert result.err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


# archive, agents, perft.


def test_a_wrong_game_is_named_with_its_file(qarena: Qarena, played_archive: Path) -> None:
    """Keep the checksum in the name right, as a forger would, so that only replaying the game finds the change."""
    archive = ArchiveStore.open(played_archive)
    (record,) = archive.load_runs()
    path = Path(
        archive.find_path_of_containing_file("plies", record.run_id, archive.list_effective_ranges(record.run_id)[0])
    )
    frame = pl.read_parquet(Path(path))
    game = frame["game_id"][0]
    cells = pl.when((pl.col("game_id") == game) & (pl.col("ply") == 1)).then(pl.col("cell").first()).otherwise("cell")
    frame.with_columns(cells.cast(pl.Int8).alias("cell")).write_parquet(path, compression="zstd")
    path = path.rename(path.with_name(f"{path.name[:42]}.{compute_checksum(path.read_bytes())}.parquet"))
    result = qarena("archive", "verify")
    assert result.code == 1
    assert f"{path.name}: game {game}: " in result.err


def test_agents_are_listed_with_a_line_of_description_each(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("agents")
    assert (result.code, result.err) == (0, "")
    assert re.search(r"│ rule_based +│ Study A: wins if it can, else mirrors the opponent. +│", result.out)
    lines = result.out.splitlines()
    assert len(lines) == 4 + len(list((ROOT / "conf/agent").glob("*.yaml")))
    assert max(map(len, lines)) <= 80
    wide = qarena("agents", "--wide").out
    assert re.search(r"│ rule_based .+│ faithful=false, version=last +│ agents.rule_based.RuleBased +│", wide)
    assert re.search(r"│ semi_random .+│ +│ agents.semi_random.SemiRandom +│", wide)
    assert qarena("agents", "show", "mcts").out == (ROOT / "conf/agent/mcts.yaml").read_text()
    assert "agent 'mtcs' does not exist; did you mean 'mcts'?" in qarena("agents", "show", "mtcs").err


def test_agents_of_ones_own_are_described_by_the_first_comment_of_their_yaml(qarena: Qarena, tmp_path: Path) -> None:
    for path, text in {
        "own_described.py": "raise SystemExit\n",
        "agent/by_yaml.yaml": f"# @package _global_.agent\n#\n# {'long and ' * 9}more.\n_target_: own_described.One\n",
        "agent/nothing.yaml": "_target_: own_nowhere.One\n",
        "agent/wrong.yaml": "depth: 2\n",
    }.items():
        (tmp_path / "own" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / path).write_text(text)
    result = qarena("agents", "--config-dir", "own")
    assert (result.code, result.err) == (0, "")
    described = dict(re.findall(r"│ (\w+) +│ (.*?) *│", result.out))
    assert described["by_yaml"] == "long and long and long and long and long and long …"
    assert described["nothing"] == described["wrong"] == ""
    assert max(map(len, result.out.splitlines())) <= 80


def test_perft_counts_under_any_rules(qarena: Qarena) -> None:
    result = qarena("perft", "2", "--rules", "square")
    assert (result.code, result.err) == (0, "")
    assert "square rules" in result.out
    assert "57,600" in result.out  # 256 x 15 x 15


# Help at once.


def test_the_version_is_printed(qarena: Qarena) -> None:
    assert re.fullmatch(r"qarena \d+\.\d+\.\d+\n", qarena("--version").out)


def test_a_distribution_that_hides_a_package_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents/__init__.py").touch()
    (folder / "some_sdk-1.0.dist-info").mkdir()
    (folder / "some_sdk-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: some-sdk\nVersion: 1.0\n")
    (folder / "some_sdk-1.0.dist-info/top_level.txt").write_text("agents\n")
    done = run_qarena(tmp_path, "run", "games=2", PYTHONPATH=str(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {folder / 'agents'} hides the project's own package 'agents': it belongs to some-sdk, which needs an "
        "environment of its own\n"
    )


def test_a_folder_that_hides_a_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    done = run_qarena(tmp_path, "run", "games=2", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'conf'} hides the project's own package 'conf': rename")
