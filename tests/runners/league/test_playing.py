"""Playing a league: every match is a run of two entries, so whatever happens plays only what is missing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from quarto.rules import CLASSIC
from runners.arena.code_fingerprints import build_code_record, fingerprint_agent_code, fingerprint_run_code
from runners.arena.execution import RunOutcome, execute_experiment
from runners.arena.experiment import Experiment
from runners.arena.spec import RunSpec
from runners.config.agents import load_agent
from runners.config.requests import load_executor
from runners.league import playing
from runners.league.budget import share_games
from runners.league.entry_reports import read_entry_report, remove_league_path
from runners.league.matches import read_notes
from runners.league.playing import LeaguePlayOptions, play_missing_games
from runners.league.standings import load_league_results
from tests.marks import seldom
from tests.runners.league.leagues import HERE, QUICK, StopAfter, opened, play, write_league, write_own_agent

THREE = ("name: ann, agent: rule_based", "name: bob, agent: semi_random", "name: carl, agent: random")


def read_standings(folder: Path) -> pl.DataFrame:
    with opened(folder) as league, open_archive(league.root) as archive:
        return load_league_results(league, archive).standings.drop("milliseconds")


def list_files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


def test_a_new_entry_plays_its_matches_and_nothing_else(tmp_path: Path) -> None:
    first = play(write_league(tmp_path, *THREE))
    assert (first.matches, first.played_matches, first.games) == (3, 3, 12)
    assert ArchiveStore.open(tmp_path / "archive").list_recorded_run_ids() == sorted(first.run_ids)
    again = play(tmp_path)
    assert (again.matches, again.played_matches, again.run_ids) == (3, 0, first.run_ids)
    files = list_files(tmp_path)
    more = play(write_league(tmp_path, "name: dan, agent: dumb", *THREE))
    assert (more.matches, more.played_matches, more.games) == (6, 3, 12)
    assert {*first.run_ids} < {*more.run_ids}
    assert files.items() <= list_files(tmp_path).items()


@pytest.mark.slow  # 78 runs
def test_a_thirteenth_entry_plays_twelve_matches(tmp_path: Path) -> None:
    entries = [f"name: e{number}, agent: {'random' if number % 2 else 'dumb'}" for number in range(13)]
    settings = QUICK.replace("4", "2")
    first = play(write_league(tmp_path, *entries[:12], settings=settings))
    assert (first.matches, first.played_matches, first.games) == (66, 66, 132)
    files = list_files(tmp_path)
    more = play(write_league(tmp_path, *entries, settings=settings))
    assert (more.matches, more.played_matches, more.games) == (78, 12, 24)
    assert files.items() <= list_files(tmp_path).items()
    new_notes = [note for note in read_notes(tmp_path).matches if note.run_id not in first.run_ids]
    assert all("e12" in (note.first, note.second) for note in new_notes)


@pytest.mark.parametrize("executor", ["threads", *seldom("processes")])
def test_the_table_is_the_same_on_several_threads_and_processes(tmp_path: Path, executor: str) -> None:
    settings = "games: 20\nregret: false\nisolation: process\n"
    own = (f"name: own, agent: league_first, {HERE}", f"name: cheat, agent: league_cheat, {HERE}")
    folders = [write_league(tmp_path / name, *THREE, *own, settings=settings) for name in ("one", "several")]
    play(folders[0])
    with opened(folders[1]) as league:
        options = LeaguePlayOptions(threads=2, executor=load_executor(executor, None))
        play_missing_games(league, options, threading.Event())
    assert_frame_equal(*map(read_standings, folders))


def test_the_progress_names_the_match_that_is_played(tmp_path: Path) -> None:
    stop = threading.Event()
    progress = StopAfter(stop, 100)
    play(write_league(tmp_path, *THREE), stop, progress)
    assert progress.total == 12
    assert progress.descriptions == [
        "playing ann against bob, match 1 of 3",
        "playing ann against carl, match 2 of 3",
        "playing bob against carl, match 3 of 3",
    ]


@pytest.mark.parametrize("games", [2, 4])
def test_matches_that_lack_fewer_pairs_than_threads_are_played_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, games: int
) -> None:
    meeting, threads = threading.Barrier(2 if games == 2 else 1), list[int]()

    def execute_beside_another(experiment: Experiment, *arguments: Any) -> RunOutcome:
        meeting.wait(60)
        threads.append(experiment.request.threads)
        assert (threading.current_thread() is threading.main_thread()) == (games == 4)
        return execute_experiment(experiment, *arguments)

    monkeypatch.setattr(playing, "execute_experiment", execute_beside_another)
    four = (*THREE, "name: dan, agent: dumb")
    settings = f"games: {games}\nregret: false\n"
    with opened(write_league(tmp_path / "several", *four, settings=settings)) as league:
        outcome = play_missing_games(league, LeaguePlayOptions(threads=2), threading.Event())
    assert (outcome.played_matches, threads) == (6, [games // 2] * 6)
    monkeypatch.undo()
    play(write_league(tmp_path / "one", *four, settings=settings))
    assert_frame_equal(read_standings(tmp_path / "several"), read_standings(tmp_path / "one"))


def test_matches_share_their_openings(tmp_path: Path) -> None:
    play(write_league(tmp_path, *THREE))
    with open_archive(tmp_path / "archive") as archive:
        openings = archive.sql(
            "SELECT opening_number, count(DISTINCT imposed) AS openings, count(*) AS games FROM games JOIN "
            "(SELECT run_id, game_id, list((piece, cell) ORDER BY ply) AS imposed FROM plies WHERE ply < 2 "
            "GROUP BY ALL) USING (run_id, game_id) GROUP BY ALL"
        )
    assert openings["games"].sum() == 12
    assert openings["openings"].to_list() == [1, 1]


def test_a_league_that_was_stopped_gives_the_same_table(tmp_path: Path) -> None:
    settings = "games: 40\nregret: false\n"
    whole = write_league(tmp_path / "whole", *THREE, settings=settings)
    play(whole)
    stopped = write_league(tmp_path / "stopped", *THREE, settings=settings)
    calls = 0
    while True:
        stop = threading.Event()
        outcome = play(stopped, stop, StopAfter(stop, 1))
        if not outcome.games:
            break
        calls += 1
    assert calls >= 3
    assert_frame_equal(read_standings(stopped), read_standings(whole))


def test_a_changed_entry_plays_its_matches_again_and_old_games_stay(tmp_path: Path) -> None:
    entries = (f"name: own, agent: league_first, {HERE}", *THREE[:2])
    first = play(write_league(tmp_path, *entries))
    code = tmp_path / "entries" / "league_first" / "league_first.py"
    code.write_text(f"{code.read_text()}\n# better now\n")
    changed = play(tmp_path)
    assert (changed.played_matches, changed.games) == (2, 8)
    assert len({*first.run_ids} & {*changed.run_ids}) == 1
    with open_archive(tmp_path / "archive") as archive:
        assert archive.runs().frame["games"].sum() == 20
    assert read_standings(tmp_path)["games"].to_list() == [8, 8, 8]


def test_broken_entries_do_not_stop_the_others(tmp_path: Path) -> None:
    folder = write_league(
        tmp_path,
        *THREE[:2],
        f"name: lost, agent: league_lost, {HERE}",
        "name: nowhere, agent: polito, folder: entries/nobody, player: main.Player",
        f"name: cheat, agent: league_cheat, {HERE}",
        f"name: hot, agent: league_hot, {HERE}",
        f"name: yaml, agent: league_yaml, {HERE}",
    )
    write_own_agent(folder, "league_yaml", "", "_target_: [\n")
    outcome = play(folder)
    assert outcome.errors.keys() == {"lost", "nowhere", "yaml"}
    assert (outcome.matches, outcome.games) == (6, 24)
    assert "no_such_module_of_a_student" in read_entry_report(folder, "lost")
    assert "'entries/nobody' is no folder in" in read_entry_report(folder, "nowhere")
    standings = read_standings(folder)
    assert {*standings["entry"][:2]} == {"ann", "bob"}
    remarks = dict(standings.select("entry", "remark").iter_rows())
    assert remarks["lost"].startswith("cannot play: ")
    assert "(entries/league_lost/league_lost.py:1)" in remarks["lost"]  # no path of this machine, for all to see
    assert str(tmp_path) not in "".join(filter(None, remarks.values())) + read_entry_report(folder, "lost")
    assert "answered with an illegal turn" in remarks["cheat"]
    assert "raised RuntimeError: <script>alert(1)</script>" in remarks["hot"]
    assert "\x1b" not in remarks["hot"]
    assert not remarks["hot"].endswith("times")  # of its first match
    forfeits = dict(standings.select("entry", "forfeits").iter_rows())
    assert forfeits["cheat"] + forfeits["hot"] == 20  # all of their games: one of the two forfeits where they meet
    assert (forfeits["ann"], forfeits["lost"]) == (0, 0)


def test_the_path_of_the_league_is_removed_where_it_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("ata")
    text = f"'{tmp_path}/ata/entries/a.py' (ata/entries/a.py:3) in /elsewhere/ata/x, data/x and ata"
    expected = "'entries/a.py' (entries/a.py:3) in /elsewhere/ata/x, data/x and ata"
    assert remove_league_path(folder, text) == remove_league_path(tmp_path / "ata", text) == expected
    assert remove_league_path(Path(), f"{tmp_path}/entries/a.py ./b.py") == "entries/a.py ./b.py"


@pytest.mark.slow  # a process starts for each turn
def test_a_process_that_dies_forfeits_and_the_league_goes_on(tmp_path: Path) -> None:
    folder = write_league(tmp_path, *THREE[:2], "name: crash, agent: league_crash", settings=QUICK.replace("4", "2"))
    outcome = play(folder)
    assert (outcome.games, outcome.errors) == (6, {})
    standings = read_standings(folder)
    assert standings.filter(entry="crash")["forfeits"].item() == 4


def test_a_match_has_the_code_that_its_run_records() -> None:
    specs = load_agent("mcts"), load_agent("random")
    agents = [spec.build() for spec in specs]
    record = build_code_record(RunSpec(CLASSIC, specs, ((0, 1),), 1, 0), agents)
    codes = [fingerprint_agent_code(spec, agent) for spec, agent in zip(specs, agents, strict=True)]
    assert codes == [*record["agents"].values()]
    assert fingerprint_run_code(codes) == record["fingerprint"]


def test_notes_of_another_seed_are_left_out(tmp_path: Path) -> None:
    play(write_league(tmp_path, *THREE))
    assert len(read_notes(tmp_path).matches) == 3
    write_league(tmp_path, *THREE, settings=f"{QUICK}seed: 2\n")
    assert read_standings(tmp_path)["games"].sum() == 0
    assert play(tmp_path).games == 12
    assert read_standings(tmp_path)["games"].sum() == 24


# Budgets.


def test_under_a_budget_slow_matches_get_fewer_games() -> None:
    paces = {"slow": 10.0, "quick": 0.01, "middle": 1.0}
    full = dict.fromkeys(paces, 100)
    assert share_games(paces, {}, full, 1e6) == full
    games = share_games(paces, {}, full, 200.0)
    assert games == {"slow": 8, "quick": 100, "middle": 98}
    assert sum(paces[match] * count for match, count in games.items()) <= 200.0
    fewer = {**full, "middle": 40}  # what it leaves over goes to the slow one
    assert share_games(paces, {}, fewer, 200.0) == {"slow": 14, "quick": 100, "middle": 40}


@pytest.mark.parametrize("budget", [0.0, 1.0, 33.3, 500.0])
def test_games_under_a_budget_are_even_and_never_fewer_than_played(budget: float) -> None:
    games = share_games({"one": 3.0, "two": 0.7}, {"one": 8}, {"one": 50, "two": 50}, budget)
    assert all(count % 2 == 0 and 2 <= count <= 50 for count in games.values())
    assert games["one"] >= 8


def test_a_league_with_a_budget_plays_at_least_a_pair_of_each_match(tmp_path: Path) -> None:
    outcome = play(write_league(tmp_path, *THREE, settings="games: 40\nregret: false\nbudget: 0.000001s\n"))
    assert outcome.games == 6
    outcome = play(write_league(tmp_path, *THREE, settings="games: 40\nregret: false\nbudget: 2h\n"))
    assert outcome.games == 3 * 40 - 6


@pytest.mark.parametrize("budget", ["", "budget: 2h\n"])
def test_each_match_has_the_games_of_its_own_plan(tmp_path: Path, budget: str) -> None:
    slow = "name: slow, agent: dumb, meets: anchors, games: 2"
    outcome = play(write_league(tmp_path, *THREE, slow, settings=f"{QUICK}anchors: [carl]\n{budget}"))
    assert (outcome.matches, outcome.games) == (4, 3 * 4 + 2)
    assert dict(read_standings(tmp_path).select("entry", "games").iter_rows()) == {
        "ann": 8,
        "bob": 8,
        "carl": 10,
        "slow": 2,
    }


def test_a_match_is_complete_with_its_share_of_a_budget_whatever_its_run_asked_for(tmp_path: Path) -> None:
    def count_missing_matches() -> int:
        with opened(tmp_path) as league, open_archive(league.root) as archive:
            return load_league_results(league, archive).missing_matches

    play(write_league(tmp_path, *THREE))
    assert (count_missing_matches(), {note.games for note in read_notes(tmp_path).matches}) == (0, {4})
    stop = threading.Event()
    play(write_league(tmp_path, *THREE, settings=QUICK.replace("4", "8")), stop, StopAfter(stop, 1))
    assert (count_missing_matches(), {note.games for note in read_notes(tmp_path).matches}) == (2, {8})
    write_league(tmp_path, *THREE, settings=f"{QUICK.replace('4', '8')}budget: 0.000001s\n")
    stop.set()
    play(tmp_path, stop)
    assert count_missing_matches() == 2  # its shares are not known yet
    play(tmp_path)
    assert (count_missing_matches(), {note.games for note in read_notes(tmp_path).matches}) == (0, {4, 8})


def test_an_entry_that_breaks_when_it_is_set_up_has_no_match_that_lacks_games(tmp_path: Path) -> None:
    rules = f"{QUICK}rules: own_piece\n"  # under which the mover chooses, and some agents do not play
    folder = write_league(tmp_path, "name: a, agent: random", "name: b, agent: dumb", THREE[0], settings=rules)
    outcome = play(folder)
    assert outcome.errors.keys() == {"ann"}
    assert read_entry_report(folder, "ann").startswith("cannot play: ")
    with opened(folder) as league, open_archive(league.root) as archive:
        results = load_league_results(league, archive)
        assert (len(results.match_notes), results.missing_matches) == (1, 0)
