"""Checking a league: each entry gets a report for its author, and the organiser a summary."""

from __future__ import annotations

from pathlib import Path

import pytest

import runners
from quarto.errors import RequestError
from runners.authoring.agent_check import CheckResult
from runners.league import checking
from runners.league.checking import CANNOT_PLAY, FINE, FORFEITS, PLAYS, EntryCheck, check_entries, list_summary_lines
from runners.league.entry_reports import read_entry_report
from tests.runners.conftest import Qarena
from tests.runners.league.leagues import HERE, QUICK, opened, write_league

THREE = ("name: ann, agent: rule_based", "name: bob, agent: semi_random", "name: carl, agent: random")


def test_each_entry_is_checked_and_its_report_lies_beside_it(tmp_path: Path) -> None:
    folder = write_league(
        tmp_path, THREE[0], f"name: hot, agent: league_hot, {HERE}", f"name: lost, agent: league_lost, {HERE}"
    )
    with opened(folder) as league:
        checks = {check.name: check for check in check_entries(league, "process", 30.0)}
    assert [check.is_fine for check in checks.values()] == [True, False, False]
    assert "checks/hot.txt" in checks["hot"].summary
    assert "raised RuntimeError" in read_entry_report(folder, "hot")
    assert "no_such_module_of_a_student" in read_entry_report(folder, "lost")
    assert read_entry_report(folder, "ann").startswith("ann is ready to play.\n\nok   legal: every turn")


@pytest.mark.parametrize(("plies", "fault"), [(0, ""), (2, "raised RuntimeError: this is no beginning")])
def test_an_entry_is_checked_from_the_openings_of_the_league(tmp_path: Path, plies: int, fault: str) -> None:
    settings = f"{QUICK}opening_plies: {plies}\n"
    folder = write_league(tmp_path, THREE[0], f"name: begins, agent: league_follower, {HERE}", settings=settings)
    with opened(folder) as league:
        *_, check = check_entries(league, "process", 30.0)
    assert check.is_fine == (not fault)
    assert fault in read_entry_report(folder, "begins")


@pytest.mark.slow  # a process starts
def test_an_entry_is_checked_within_the_limits_of_the_league(tmp_path: Path) -> None:
    settings = f"{QUICK}limits: {{turn_seconds: 0.2}}\n"
    folder = write_league(tmp_path, "name: late, agent: league_sleepy", THREE[0], settings=settings)
    with opened(folder) as league:
        check = next(iter(check_entries(league, "process", 30.0)))
    assert not check.is_fine
    assert "took too long for a turn (turn_seconds=0.2), first in position" in read_entry_report(folder, "late")


@pytest.mark.parametrize(
    ("results", "consequence", "verdict"),
    [
        ([CheckResult("legal", True, "every turn")], FINE, "ann is ready to play."),
        ([CheckResult("repeatable", False, "game 3 differs")], PLAYS, "ann plays and forfeits nothing, but "),
        ([CheckResult("prints", False, "1 line")], PLAYS, "ann plays and forfeits nothing, but "),
        (
            [CheckResult("repeatable", False, "game 3 differs"), CheckResult("exceptions", False, "raised")],
            FORFEITS,
            "ann plays, and forfeits every game in which a fault marked FAIL occurs.",
        ),
        ([CheckResult("can play", False, "no module")], CANNOT_PLAY, "ann cannot play until the fault marked FAIL is "),
    ],
)
def test_a_report_says_what_the_faults_mean_and_where_to_read_on(
    results: list[CheckResult], consequence: int, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "run_checks", lambda *_args, **_options: iter(results))
    with opened(write_league(tmp_path, *THREE)) as league:
        (check,) = check_entries(league, "process", names=["ann"])
    assert (check.consequence, check.is_fine) == (consequence, consequence == FINE)
    report = read_entry_report(tmp_path, "ann")
    assert report.startswith(verdict)
    advice = '\n\nWhat to do: docs/agents.md, "Checking".\nCheck it again: qarena league check DIR ann'
    assert report.endswith(advice) == (consequence != FINE)


def test_the_advice_depends_on_the_kind_of_an_entry(tmp_path: Path) -> None:
    (tmp_path / "bob").mkdir()
    folder = write_league(
        tmp_path,
        "name: bob, agent: polito, folder: bob, player: main.Player",
        "name: carl, agent: engine, command: nowhere",
    )
    with opened(folder) as league:
        assert [check.consequence for check in check_entries(league, "process", 10.0)] == [CANNOT_PLAY] * 2
    assert 'docs/players_of_others.md, "If a player forfeits"' in read_entry_report(folder, "bob")
    assert 'docs/engines.md, "Check it"' in read_entry_report(folder, "carl")


def test_the_summary_says_what_faults_mean_for_the_league(tmp_path: Path) -> None:
    consequences = {"ann": FINE, "bob": FORFEITS, "carl": CANNOT_PLAY, "dan": PLAYS, "eve": FORFEITS}
    checks = [EntryCheck(name, value == FINE, "", value) for name, value in consequences.items()]
    with opened(write_league(tmp_path / "course", *THREE)) as league:
        assert [*list_summary_lines(league, checks)] == [
            f"Nothing is wrong with 1 of 5 entries. {tmp_path}/course/checks has a report for each author.",
            "  cannot play, so the league goes on without: carl",
            "  forfeit the games in which such a fault occurs: bob, eve",
            "  forfeit nothing, but may play other games another time: dan",
        ]
        assert [*list_summary_lines(league, checks[:1])] == []


def test_named_entries_are_checked_alone(qarena: Qarena, tmp_path: Path) -> None:
    folder = write_league(tmp_path, *THREE[1:], f"name: lost, agent: league_lost, {HERE}")
    result = qarena("league", "check", str(folder), "bob", "lost", "--trust-agents")
    assert result.code == 1
    assert [line[:9] for line in result.out.splitlines()[:2]] == ["ok   bob ", "FAIL lost"]
    assert result.out.splitlines()[-1] == "  cannot play, so the league goes on without: lost"
    assert read_entry_report(folder, "carl") == ""
    assert runners.check_league(folder, entries=["bob"]).frame["entry"].to_list() == ["bob"]
    with opened(folder) as league, pytest.raises(RequestError, match="has no entry 'bobb'; did you mean 'bob'"):
        next(check_entries(league, "process", names=["bobb"]))
