"""`qarena annotate` and `qarena mistakes`: every decision is judged once, and shown."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics import open_archive
from analytics.exact.annotation import (
    AnnotationOptions,
    AnnotationSummary,
    Annotator,
    annotate_runs,
    list_annotation_chunks,
)
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.decisions import AnnotationExtent, record_annotated_units
from analytics.tables.derived.range_table import Chunk
from analytics.tables.derived.threads import StoppedError
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_replaced_files
from analytics.tables.verification.archive import verify_archive
from quarto.position import position_from_plies
from quarto.rules import NONE, Rules
from runners.web.archive.agents import build_own_mistakes_section, build_regret_section
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_solver import Solved, list_turns, solve_position
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

OPENING = 11  # plies: positions after them take the slow twin milliseconds
QUICK = AnnotationOptions(megabytes=1.0, threads=2)
COUNTED = AnnotationOptions(choices=True, megabytes=1.0, threads=2)


@pytest.fixture(scope="module")
def played_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an archive with 24 games in three files or more."""
    folder = tmp_path_factory.mktemp("played") / "archive"
    for games in (8, 16, 24):
        play(folder, "agents=[random,semi_random]", f"games={games}", f"opening_plies={OPENING}", "threads=1")
    return folder


@pytest.fixture
def root(played_archive: Path, tmp_path: Path) -> Path:
    """Copy the archive, so that a test may change it."""
    return shutil.copytree(played_archive, tmp_path / "archive")


def annotate_archive(root: Path, settings: AnnotationOptions = QUICK) -> AnnotationSummary:
    archive = ArchiveStore.open(root)
    return annotate_runs(archive, archive.list_ids_of_runs_with_games(), settings)


def naive_decisions(plies: list[tuple[int, int]], rules: Rules) -> list[tuple[int, str, int, int, int, int]]:
    """List the decisions of a game after its opening: (ply, kind, before, after, choices, saving), by the slow twin."""
    decisions = []
    for ply in range(OPENING, len(plies)):
        piece, cell = plies[ply]
        board = position_from_plies(plies[:ply])
        value = solve_position(board, rules).value
        if rules.mover_chooses:
            turns = list_turns(board, rules)
            saving = sum(solved.value == value for solved in turns.values())
            decisions.append((ply, "placement", value, turns[cell, piece].value, len(turns), saving))
            continue
        gifts = list_turns(board, rules)
        saving = sum(solved.value == value for solved in gifts.values())
        decisions.append((ply, "gift", value, gifts[NONE, piece].value, len(gifts), saving))
        hand = position_from_plies(plies[:ply], piece)
        by_cell: dict[int, list[Solved]] = {}
        for (to, _), solved in list_turns(hand, rules).items():
            by_cell.setdefault(to, []).append(solved)
        values = {to: max(solved.value for solved in turns) for to, turns in by_cell.items()}
        best = max(values.values())
        saving = sum(cell_value == best for cell_value in values.values())
        decisions.append((ply, "placement", best, values[cell], len(values), saving))
    return decisions


@pytest.mark.parametrize("name", ["square", "own_piece", *seldom(*sorted({*PRESETS} - {"square", "own_piece"}))])
def test_every_decision_has_the_values_and_choices_that_playing_every_game_out_gives_it(
    name: str, tmp_path: Path
) -> None:
    folder, rules = tmp_path / "archive", PRESETS[name]
    play(folder, "agents=[random,semi_random]", "games=12", f"opening_plies={OPENING}", f"rules={name}", "threads=1")
    annotate_archive(folder, COUNTED)
    with open_archive(folder) as archive:
        rows = archive.sql("SELECT game_id, ply, piece, cell FROM plies ORDER BY game_id, ply").rows()
        decisions = archive.sql(
            "SELECT game_id, ply, kind, value_before, value_after, choices, saving, regret, seat, agent FROM decisions"
        ).rows()
        agents = {game: of for game, *of in archive.sql("SELECT game_id, agent_0, agent_1 FROM games").rows()}
    plies: dict[int, list[tuple[int, int]]] = {}
    for game, _, piece, cell in rows:
        plies.setdefault(game, []).append((piece, cell))
    expected = {(game, *decision) for game, of_game in plies.items() for decision in naive_decisions(of_game, rules)}
    assert {row[:7] for row in decisions} == expected
    assert len(decisions) == len(expected) > 12
    for game, ply, kind, before, after, _, _, regret, seat, agent in decisions:
        assert regret == before - after
        assert seat == (ply + (kind == "placement")) % 2
        assert agent == agents[game][seat]
    assert len({row[7] for row in decisions}) > 1


def test_games_are_judged_once_and_again_only_to_count_choices(root: Path) -> None:
    first = annotate_archive(root)
    assert (first.units, first.games) == (12, 24)
    assert annotate_archive(root) == AnnotationSummary(0, 0, 0)
    assert annotate_archive(root, COUNTED) == first
    assert annotate_archive(root) == annotate_archive(root, COUNTED) == AnnotationSummary(0, 0, 0)
    with open_archive(root) as archive:
        assert archive.sql("SELECT count(*), count(saving) FROM decisions").row(0) == (first.decisions,) * 2
    assert (
        len(list_unneeded_files(ArchiveStore.open(root))) == len(list_decision_files(root)) // 2
    )  # the files without choices
    (run,) = ArchiveStore.open(root).load_runs()
    assert run.annotated == 12
    play(root, "agents=[random,semi_random]", "games=32", f"opening_plies={OPENING}", "threads=1")
    assert annotate_archive(root).games == 8  # those that came later


def test_parts_of_a_file_count_when_all_are_there_and_only_what_is_missing_is_made(root: Path, tmp_path: Path) -> None:
    """Interrupt the command after every chunk, and repeat it."""
    shutil.copytree(root, tmp_path / "whole")
    annotate_archive(tmp_path / "whole")
    archive = ArchiveStore.open(root)
    (run_id,) = archive.list_ids_of_runs_with_games()
    compact_run(archive, run_id)
    remove_replaced_files(archive, run_id, 0.0)
    assert len(archive.list_effective_ranges(run_id)) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analytics.exact.annotation.TASK_GAMES", 4)
        patch.setattr("analytics.exact.annotation.CHUNK_GAMES", 4)
        chunks = [*list_annotation_chunks(archive, [run_id], QUICK)]
        assert len(chunks) > 4
        for number, chunk in enumerate(chunks):
            assert [*list_annotation_chunks(archive, [run_id], QUICK)] == chunks[number:]
            with open_archive(root) as opened:
                assert opened.sql("SELECT count(*) FROM decisions").item() == 0
            assert list_unneeded_files(archive) == []
            Annotator(archive, QUICK).annotate(chunk)
        assert [*list_annotation_chunks(archive, [run_id], QUICK)] == []
    record_annotated_units(archive, run_id)
    assert verify_archive(archive).problems == []
    query = "FROM decisions ORDER BY ALL"
    with open_archive(root) as opened, open_archive(tmp_path / "whole") as uninterrupted:
        assert opened.sql(query).equals(uninterrupted.sql(query))
    before = len(archive.list_effective_ranges(run_id, "decisions"))
    for _ in range(2):
        compact_run(archive, run_id)
        remove_replaced_files(archive, run_id, 0.0)
    assert len(archive.list_effective_ranges(run_id, "decisions")) == 1 < before
    with open_archive(root) as opened, open_archive(tmp_path / "whole") as uninterrupted:
        assert opened.sql(query).equals(uninterrupted.sql(query))


def test_searches_that_another_part_ended_store_nothing(tmp_path: Path) -> None:
    """Stop the shared search: the threads of a process share solved positions, so one failure ends all searches."""
    play(tmp_path, "agents=[random,semi_random]", "games=8", "opening_plies=7", "threads=1")
    archive = ArchiveStore.open(tmp_path)
    chunk = next(list_annotation_chunks(archive, archive.list_ids_of_runs_with_games(), QUICK))
    annotator = Annotator(archive, QUICK)
    annotator._find_or_build_solver(archive.load_run(chunk.run_id).rules)._shared.stop()
    with pytest.raises(StoppedError):
        annotator.annotate(chunk)
    assert list_decision_files(tmp_path) == []
    assert annotate_archive(tmp_path).games == 8


def test_a_condition_chooses_the_files_in_which_a_game_meets_it(qarena: Qarena, root: Path) -> None:
    words = ("annotate", "--archive", str(root), "--memory", "1MiB", "--where")
    assert " decisions of 8 games judged in " in qarena(*words, "game_id = 0").out
    with open_archive(root) as archive:
        assert archive.sql("SELECT DISTINCT game_id FROM decisions ORDER BY ALL").to_series().to_list() == [*range(8)]
    assert qarena(*words, "game_id < 8").out.startswith("Nothing to judge: all decisions of these files in ")
    assert "has no game with where='plies > 16'" in qarena(*words, "plies > 16").refusal
    assert "winer" in qarena(*words, "winer = 1").refusal
    assert " decisions of 16 games judged in " in qarena(*words, "true").out


def test_an_interrupted_command_keeps_what_it_judged_and_goes_on(
    qarena: Qarena, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Press Ctrl-C while the second chunk is judged."""
    annotate, begun = Annotator.annotate, list[Chunk[AnnotationExtent]]()

    def annotate_and_interrupt(self: Annotator, part: Chunk[AnnotationExtent], *rest: Any) -> AnnotationSummary:
        begun.append(part)
        if len(begun) == 2:
            signal.raise_signal(signal.SIGINT)
        return annotate(self, part, *rest)

    words = ("annotate", "--archive", str(root), "--threads", "1", "--memory", "1MiB")
    with monkeypatch.context() as patch:
        patch.setattr(Annotator, "annotate", annotate_and_interrupt)
        result = qarena(*words)
    assert (result.code, result.out) == (130, "")
    assert result.err.endswith("interrupted: judged decisions are kept; run the same command again to judge the rest\n")
    kept = len(list_decision_files(root))
    assert 1 <= kept <= 2
    (run,) = ArchiveStore.open(root).load_runs()
    assert run.annotated == sum(part.games.units for part in begun[:kept])
    rest = 24 - 2 * run.annotated
    assert f" decisions of {rest} games judged in " in qarena(*words).out
    assert qarena(*words).out.startswith("Nothing to judge")


def test_the_commands_judge_and_show_what_is_given_up(
    qarena: Qarena, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MEASURED_SECONDS", "LONG_SECONDS"):  # a long time is announced
        monkeypatch.setattr(f"runners.terminal.console.{limit}", 0.0)
    where = ("--archive", str(root))
    nothing = qarena("mistakes", *where)
    assert nothing.refusal.endswith(f"this judges them: qarena annotate --archive {root}\n")
    (run_id,) = ArchiveStore.open(root).list_ids_of_runs_with_games()
    of_run = qarena("mistakes", "--run", run_id, *where)
    assert of_run.refusal.endswith(f"this judges them: qarena annotate --run {run_id} --archive {root}\n")
    result = qarena("annotate", "--run", run_id, *where, "--memory", "1MiB")
    assert result.code == 0
    assert re.fullmatch(r"The \d+ games left take about \d+ min \(you can stop .*\)\n", result.err)
    assert f"'qarena mistakes --run {run_id} --archive {root}'" in result.out
    decisions, games = re.findall(r"^([\d,]+) decisions of (\d+) games judged in", result.out)[0]
    assert games == "24"
    assert f", {decisions} decisions: no problem" in qarena("archive", "verify", *where).out
    assert qarena("annotate", *where).out.startswith("Nothing to judge")
    without = qarena("mistakes", *where)
    assert "? of " in without.out.partition("Worst mistakes")[2]
    assert f"are not counted everywhere ('qarena annotate --choices --archive {root}' does that)\n" in without.err
    again = qarena("annotate", *where, "--choices", "--memory", "1MiB")
    assert "; --run RUN judges the games of one run" in again.err
    shown = qarena("mistakes", *where)
    assert (shown.code, "? of " in shown.out) == (0, False)
    numbers = r"│ +(\d+) │ +([\d.]+) │ ([\d.]+)–([\d.]+) │"  # noqa: RUF001
    rows = re.findall(rf"^│ (random|semi_random) +│ (gift|placement) +{numbers}", shown.out, re.MULTILINE)
    assert len(rows) == 4
    for agent, kind, count, mean, low, high in rows:
        with open_archive(root) as archive:
            expected = archive.sql(
                f"SELECT count(*), avg(regret) FROM decisions WHERE agent = '{agent}' AND kind = '{kind}'"
            ).row(0)
        assert int(count) == expected[0]
        assert float(mean) == pytest.approx(expected[1], abs=1e-4)
        assert float(low) <= float(mean) <= float(high)
    data = qarena("mistakes", *where, "--format", "csv").out.splitlines()
    assert data[0] == "agent,kind,ply,decisions,regret,regret_low,regret_high,blunders,blunders_low,blunders_high"
    assert [line.split(",")[3] for line in data[1:5]] == [row[2] for row in rows]
    row = r"^│ ([0-9A-F./]+ [-0-9A-F]) +│ (gift|placement) +│ +[12] │ (win|draw) +│ +(\d+) of"
    worst = re.findall(row, shown.out, re.MULTILINE)
    assert len(worst) == 10
    for text, _, value, _ in worst:
        answer = qarena("solve", text, "--json", "-", "--no-turns", "--memory", "1MiB").out
        assert f'"value": {int(value == "win")}' in answer
    assert "is not in archive" in qarena("annotate", "--run", "000000000000", *where).err


def test_the_command_that_is_proposed_judges_what_was_asked_for(qarena: Qarena, tmp_path: Path) -> None:
    """Follow the proposals of the command, of the agent's page and of a game."""
    agents = ("random", "dumb", "semi_random")
    for number, first in enumerate(agents):
        second = agents[number - 1]
        play(tmp_path / "games", f"agents=[{first},{second}]", "games=8", f"opening_plies={OPENING}", "threads=1")
    where = ("--archive", "games")
    request = ("mistakes", "--agent", "dumb", "--rules", "classic", *where)
    proposed = qarena(*request).refusal.strip().partition("this judges them: qarena ")[2]
    with open_archive(Path("games")) as opened:
        assert f"`qarena {proposed}` does that" in build_regret_section(opened, "dumb", "classic").missing
    assert " of 16 games judged in " in qarena(*shlex.split(proposed), "--memory", "1MiB").out
    assert qarena(*request).code == 0
    with open_archive(Path("games")) as opened:
        judged = opened.sql("SELECT DISTINCT run_id FROM decisions")["run_id"]
        regret, mistakes = (
            build(opened, "dumb", "classic") for build in (build_regret_section, build_own_mistakes_section)
        )
        assert not regret.missing
        assert len(regret.figures) == 1
        assert mistakes.numbers is not None
        assert [column.heading for column in mistakes.numbers.columns] == ["game", "decision", "ply", "value"]
        rest = opened.sql("SELECT run_id, game_id FROM games ORDER BY ALL").filter(~pl.col("run_id").is_in([*judged]))
    assert len(judged) == 2
    run_id, game_id = rest.row(-1)
    shown = qarena("show", run_id, str(game_id), *where)
    proposed = shown.err.partition("the games in the same file: qarena ")[2]
    assert " of 8 games judged in " in qarena(*shlex.split(proposed), "--memory", "1MiB").out
    assert "judges the rest" not in qarena("show", run_id, str(game_id), *where).err


def list_decision_files(root: Path) -> list[Path]:
    """List all files of decisions, also those that readers do not use, by unit."""
    return sorted(root.glob("decisions/*/*.parquet"))


def test_nothing_that_was_judged_is_lost_by_asking_for_less(root: Path) -> None:
    def first_and_counted() -> tuple[int, int]:
        with open_archive(root) as archive:
            row: tuple[int, int] = archive.sql("SELECT min(ply), count(saving) FROM decisions").row(0)
            return row

    annotate_archive(root, AnnotationOptions(megabytes=1.0, from_pieces=13))
    annotate_archive(root, AnnotationOptions(megabytes=1.0, from_pieces=14, choices=True))
    first, counted = first_and_counted()
    assert first == 13
    assert counted > 0
    annotate_archive(root)
    assert first_and_counted()[0] == OPENING
    assert first_and_counted()[1] > counted
