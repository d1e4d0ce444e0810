"""`qarena annotate` and `qarena mistakes`: every decision is judged once, and shown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.derived_tables.decisions import ANNOTATIONS, AnnotationExtent, decisions_of, first_plies
from analytics.derived_tables.exact_values import ExactValues
from analytics.perfect.annotate import AnnotationSettings, AnnotationSummary, annotate_runs
from analytics.store.archive import Archive
from analytics.store.range_files import read_games
from analytics.verify.archive import verify
from analytics.verify.garbage import unreferenced_files
from quarto.errors import FailureError
from quarto.position import from_plies
from quarto.rules import NONE, Rules
from tests.naive import PRESETS
from tests.naive_solver import Solved, solve_position, turns_of
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

OPENING = 11  # plies: positions after them take the slow twin milliseconds
QUICK = AnnotationSettings(megabytes=1.0, threads=2)
COUNTED = AnnotationSettings(choices=True, megabytes=1.0, threads=2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An archive with 24 games in three shards."""
    folder = tmp_path / "archive"
    agents = "agents=[random,semi_random]"
    for games in (8, 16, 24):
        play(folder, agents, f"games={games}", f"opening_plies={OPENING}", "threads=1")
    return folder


def annotated(root: Path, settings: AnnotationSettings = QUICK) -> AnnotationSummary:
    archive = Archive.open(root)
    return annotate_runs(archive, archive.run_ids(), settings)


def naive_decisions(plies: list[tuple[int, int]], rules: Rules) -> list[tuple[int, str, int, int, int, int]]:
    """Every decision of a game after its opening as (ply, kind, before, after, choices, saving), by the slow twin."""
    found = []
    for ply in range(OPENING, len(plies)):
        piece, cell = plies[ply]
        board = from_plies(plies[:ply])
        value = solve_position(board, rules).value
        if rules.mover_chooses:
            turns = turns_of(board, rules)
            saving = sum(solved.value == value for solved in turns.values())
            found.append((ply, "placement", value, turns[cell, piece].value, len(turns), saving))
            continue
        gifts = turns_of(board, rules)
        saving = sum(solved.value == value for solved in gifts.values())
        found.append((ply, "gift", value, gifts[NONE, piece].value, len(gifts), saving))
        hand = from_plies(plies[:ply], piece)
        by_cell: dict[int, list[Solved]] = {}
        for (to, _), solved in turns_of(hand, rules).items():
            by_cell.setdefault(to, []).append(solved)
        values = {to: max(solved.value for solved in turns) for to, turns in by_cell.items()}
        best = max(values.values())
        saving = sum(each == best for each in values.values())
        found.append((ply, "placement", best, values[cell], len(values), saving))
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_every_decision_has_the_values_and_choices_that_playing_every_game_out_gives_it(
    name: str, tmp_path: Path
) -> None:
    folder, rules = tmp_path / "archive", PRESETS[name]
    play(folder, "agents=[random,semi_random]", "games=12", f"opening_plies={OPENING}", f"rules={name}", "threads=1")
    annotated(folder, COUNTED)
    with open_archive(folder) as archive:
        rows = archive.sql("SELECT game_id, ply, piece, cell FROM plies ORDER BY game_id, ply").rows()
        found = archive.sql(
            "SELECT game_id, ply, kind, value_before, value_after, choices, saving, regret, seat, agent FROM decisions"
        ).rows()
        agents = {game: of for game, *of in archive.sql("SELECT game_id, agent_0, agent_1 FROM games").rows()}
    plies: dict[int, list[tuple[int, int]]] = {}
    for game, _, piece, cell in rows:
        plies.setdefault(game, []).append((piece, cell))
    expected = {(game, *each) for game, of_game in plies.items() for each in naive_decisions(of_game, rules)}
    assert {row[:7] for row in found} == expected
    assert len(found) == len(expected) > 12
    for game, ply, kind, before, after, _, _, regret, seat, agent in found:
        assert regret == before - after
        assert seat == (ply + (kind == "placement")) % 2
        assert agent == agents[game][seat]
    assert len({row[7] for row in found}) > 1


def test_a_shard_is_judged_once_and_again_only_to_count_choices(root: Path) -> None:
    first = annotated(root)
    assert (first.shards, first.games) == (3, 24)
    assert annotated(root) == AnnotationSummary(0, 0, 0)
    assert annotated(root, COUNTED) == first
    assert annotated(root) == annotated(root, COUNTED) == AnnotationSummary(0, 0, 0)
    with open_archive(root) as archive:
        assert archive.sql("SELECT count(*), count(saving) FROM decisions").row(0) == (first.decisions,) * 2
    assert len(unreferenced_files(Archive.open(root))) == 3  # the files without choices


def test_two_writers_never_store_a_shard_twice(root: Path) -> None:
    archive = Archive.open(root)
    (run_id,) = archive.run_ids()
    shard, extent = ANNOTATIONS.shards(archive, [run_id])[0], AnnotationExtent()
    games = read_games(archive, run_id, shard.commit)
    values = ExactValues.empty(len(games.game_id))
    frame = decisions_of(games, first_plies(games, extent), values, PRESETS["classic"])
    assert ANNOTATIONS.store(archive, shard, frame, extent._asdict(), extent.is_in)
    assert not ANNOTATIONS.store(archive, shard, frame, extent._asdict(), extent.is_in)
    assert len(list(Path(archive.folder("decisions", run_id)).iterdir())) == len(ANNOTATIONS.files(archive)) == 1


def test_what_was_stored_before_an_interruption_stays_and_the_rest_is_judged_later(root: Path) -> None:
    archive, done = Archive.open(root), 0

    def progress(games: int) -> None:
        nonlocal done
        done += games
        if done == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate_runs(archive, archive.run_ids(), QUICK, progress)
    assert len(ANNOTATIONS.files(archive)) == 1
    assert unreferenced_files(archive) == []
    assert annotated(root).shards == 2
    assert verify(archive).problems == []


def test_more_games_of_a_run_are_judged_when_they_come(root: Path) -> None:
    annotated(root)
    agents = "agents=[random,semi_random]"
    play(root, agents, "games=32", f"opening_plies={OPENING}", "threads=1")
    assert annotated(root).games == 8


def test_decisions_on_boards_with_few_pieces_can_be_left_out(root: Path) -> None:
    annotated(root, AnnotationSettings(megabytes=1.0, from_pieces=13))
    with open_archive(root) as archive:
        assert archive.sql("SELECT min(ply) FROM decisions").item() == 13
    annotated(root)
    with open_archive(root) as archive:
        assert archive.sql("SELECT min(ply) FROM decisions").item() == OPENING


def test_nothing_that_was_judged_is_lost_by_asking_for_less(root: Path) -> None:
    def first_and_counted() -> tuple[int, int]:
        with open_archive(root) as archive:
            row: tuple[int, int] = archive.sql("SELECT min(ply), count(saving) FROM decisions").row(0)
            return row

    annotated(root, AnnotationSettings(megabytes=1.0, from_pieces=13))
    annotated(root, AnnotationSettings(megabytes=1.0, from_pieces=14, choices=True))
    first, counted = first_and_counted()
    assert first == 13
    assert counted > 0
    annotated(root)
    assert first_and_counted()[0] == OPENING
    assert first_and_counted()[1] > counted


def test_decisions_whose_file_is_gone_are_stored_again(root: Path) -> None:
    annotated(root)
    archive = Archive.open(root)
    path = ANNOTATIONS.files(archive)[1]
    before = Path(path).read_bytes()
    Path(path).unlink()
    assert annotated(root).shards == 1
    assert Path(ANNOTATIONS.files(archive)[1]).read_bytes() == before
    assert verify(archive).problems == []


def test_games_that_are_damaged_are_not_annotated(root: Path) -> None:
    path = Archive.open(root).committed_files("plies")[0]
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    with pytest.raises(FailureError, match=rf"{path.name} has .*: see 'qarena archive verify'"):
        annotated(root)


def damage(root: Path, how: str) -> None:
    archive = Archive.open(root)
    (run_id,) = archive.run_ids()
    (path,), (named, *_) = ANNOTATIONS.files(archive)[:1], ANNOTATIONS.manifest_files(archive, run_id)
    if how == "byte":
        content = bytearray(Path(path).read_bytes())
        content[100] ^= 1
        Path(path).write_bytes(content)
    elif how == "missing":
        Path(path).unlink()
    elif how == "not JSON":
        Path(named).write_text("{")
    elif how == "another number":
        shutil.move(named, named.with_name("000007.json"))
    else:
        Path(archive.folder("commits", run_id).joinpath(named.name)).unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("byte", "has another SHA-256 than its commit says"),
        ("missing", "cannot be read: No such file"),
        ("not JSON", "is damaged"),
        ("another number", "it says shard 0"),
        ("no games", "it belongs to games that are not in the archive"),
    ],
)
def test_damage_to_decisions_is_found(root: Path, how: str, message: str) -> None:
    annotated(root)
    assert verify(Archive.open(root)).decisions > 0
    damage(root, how)
    problems = verify(Archive.open(root)).problems
    assert len(problems) == (2 if how == "no games" else 1)  # the commit is missing too
    assert message in str(problems[-1])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("value_before", "value_before + 2", "a value is not -1, 0 or 1"),
        ("value_after", "1", "a decision leaves more than there was"),
        ("saving", "0", "saving is not between 1 and legal"),
        ("seat", "1 - seat", "its rows are not, in order, the decisions of the shard's games"),
        ("value_before", "1", "do not fit together"),
    ],
)
def test_decisions_that_make_no_sense_are_found(root: Path, column: str, value: str, message: str) -> None:
    archive = Archive.open(root)
    (run_id,) = archive.run_ids()
    annotated(root, COUNTED)
    frame = pl.read_parquet(Path(ANNOTATIONS.files(archive)[0]), hive_partitioning=False)
    wrong = frame.with_columns(pl.sql_expr(f"{value} AS {column}").cast(frame.schema[column]))
    Path(ANNOTATIONS.manifest_files(archive, run_id)[0]).unlink()
    shard = ANNOTATIONS.shards(archive, [run_id])[0]
    extent = AnnotationExtent(choices=True)
    assert ANNOTATIONS.store(archive, shard, wrong, extent._asdict(), extent.is_in)
    assert message in " ".join(map(str, verify(archive).problems))


def test_the_commands_judge_and_show_what_is_given_up(qarena: Qarena, root: Path) -> None:
    where = ("--archive", str(root))
    nothing = qarena("mistakes", *where)
    assert (nothing.code, nothing.out) == (2, "")
    assert "run 'qarena annotate' first" in nothing.err
    found = qarena("annotate", *where, "--megabytes", "1")
    assert found.code == 0
    decisions, games = re.findall(r"^([\d,]+) decisions of (\d+) games judged in", found.out)[0]
    assert games == "24"
    assert f", {decisions} decisions: no problem" in qarena("archive", "verify", *where).out
    assert qarena("annotate", *where).out.startswith("Nothing to judge")
    without = qarena("mistakes", *where)
    assert "Hardest" not in without.out
    assert "qarena annotate --choices" in without.err
    qarena("annotate", *where, "--choices", "--megabytes", "1")
    shown = qarena("mistakes", *where)
    assert shown.code == 0
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
    hard = re.findall(r"^│ ([0-9A-F./]+ [-0]) +│ (gift|placement) +│ (win|draw) +│ +(\d+) of", shown.out, re.MULTILINE)
    assert len(hard) == 10
    assert [int(saving) for *_, saving in hard] == sorted(int(saving) for *_, saving in hard)
    for text, _, value, _ in hard:
        answer = qarena("solve", text, "--json", "--values", "--megabytes", "1").out
        assert f'"value": {int(value == "win")}' in answer
    assert "is not in archive" in qarena("annotate", "000000000000", *where).err
