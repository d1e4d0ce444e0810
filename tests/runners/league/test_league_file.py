"""The file of a league: what is wrong in it is one line that names the file, the value and what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quarto.errors import RequestError
from runners.league import entries
from runners.league.entries import choose_isolation, open_league
from runners.league.league_file import League
from tests.runners.league.leagues import QUICK, opened, write_league

TWO = "entries: [random, rule_based]\n"
MISTAKES = [
    ("games: 5\n" + TWO, "games: 5 is odd, and games come in pairs with the seats swapped: write 6"),
    ("gmaes: 4\n" + TWO, "has no key 'gmaes'; did you mean 'games'?"),
    ("limits: {turn_second: 4}\n" + TWO, "limits has no key 'turn_second'; did you mean 'turn_seconds'?"),
    ("limits: {turn_seconds: -1}\n" + TWO, "limits.turn_seconds -1"),
    ("plan: swiss\n" + TWO, "plan: 'swiss' does not exist"),
    ("plan: gauntlet\n" + TWO, "plan: gauntlet needs anchors"),
    ("plan: gauntlet\nanchors: [mcts]\n" + TWO, "anchors: 'mcts' is no entry"),
    ("anchors: [random]\n" + TWO, "anchors have no effect with plan: round_robin"),
    ("entries: [random, {agent: mcts, meets: anchors}]\n", "entry 'mcts': meets: anchors needs anchors"),
    ("entries: [random, {agent: mcts, meets: anchor}]\n", "entry 'mcts': meets: 'anchor' is neither all nor anchors"),
    ("entries: [random, {agent: mcts, games: 7}]\n", "entry 'mcts': games: 7 is odd, and games come in pairs"),
    ("entries: [random, {agent: mcts, games: 0}]\n", "entry 'mcts': games: 0 is no even number from 2 to"),
    ("entries: [random, {agent: mcts, games: true}]\n", "entry 'mcts': games: True is no even number from 2 to"),
    (
        "anchors: [mcts]\nentries: [random, {agent: mcts, meets: anchors}]\n",
        "entry 'mcts': meets: anchors is not for an anchor, which all meet",
    ),
    ("budget: soon\n" + TWO, "budget: 'soon' is not a time: write a number and s, min, h or d, such as 2h"),
    ("rules: clasic\n" + TWO, "rules 'clasic' does not exist; did you mean 'classic'?"),
    ("entries: [random]\n", "a league has 2 to 1,000 entries, and this one has 1"),
    ("games: 4\n", "required field entries"),
    ("entries: [random, Random]\n", "2 entries are named 'random' (capital letters do not count)"),
    ("entries: [random, {name: two, agnt: random}]\n", "entry 'two' names no agent"),
    ("entries: [random, {name: two, agent: randon}]\n", "entry 'two': agent 'randon' does not exist; did you mean"),
    ("entries: [random, {name: two, agent: mcts, iteration: 5}]\n", "entry 'two' has no key 'iteration'; did you mean"),
    ("entries: [random, {name: two, agent: 'mcts(iterations=5)'}]\n", "write its parameters as keys beside agent"),
    ("entries: [random, {name: two, agent: random, _target_: os.abort}]\n", "key '_target_' belongs into the yaml"),
    ("entries: [random, {name: ../up, agent: random}]\n", "name: '../up' cannot be the name of an entry"),
    ("entries: [random, {name: <script>, agent: random}]\n", "name: '<script>' cannot be the name of an entry"),
    ("entries: [random, {name: '', agent: random}]\n", "name: '' cannot be the name of an entry"),
    ("entries: [random, 5]\n", "entries[1] 5"),
    ("entries: &x [random]\nanchors: *x\n", "has an alias (*NAME)"),
    ("games: 2\ngames: 4\n" + TWO, "not valid"),
    ("[random]", "holds no keys"),
    ("entries: [random\n", "is not valid YAML"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_a_mistake_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "league.yaml").write_text(text)
    with pytest.raises(RequestError) as error, open_league(tmp_path):
        pass
    assert message in str(error.value)
    assert str(tmp_path / "league.yaml") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_the_file_is_no_league(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"is no league, because it has no league\.yaml"), open_league(tmp_path):
        pass


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "league.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(RequestError, match="more than 1,048,576 bytes"), open_league(tmp_path):
        pass


def list_matches(league: League) -> list[tuple[str, str]]:
    names = [entry.name for entry in league.entries]
    return [(first, second) for first, second, _ in league.list_planned_matches(names)]


def test_all_meet_all_and_in_a_gauntlet_the_anchors(tmp_path: Path) -> None:
    names = [f"name: {name}, agent: random" for name in "dcba"]
    with opened(write_league(tmp_path / "round", *names)) as league:
        assert sorted(list_matches(league)) == [(a, b) for a in "abcd" for b in "abcd" if a < b]
    gauntlet = f"{QUICK}plan: gauntlet\nanchors: [a, c]\n"
    with opened(write_league(tmp_path / "gauntlet", *names, settings=gauntlet)) as league:
        assert {frozenset(pair) for pair in list_matches(league)} == {*map(frozenset, ("ab", "ac", "ad", "cb", "cd"))}


def test_an_entry_may_meet_the_anchors_only_and_have_a_number_of_games_of_its_own(tmp_path: Path) -> None:
    entries = (
        "name: a",
        "name: b",
        "name: c, games: 8",
        "name: d, meets: anchors, games: 2",
        "name: e, meets: anchors",
    )
    lines = [f"{entry}, agent: random" for entry in entries]
    with opened(write_league(tmp_path / "mixed", *lines, settings=f"{QUICK}anchors: [a, c]\n")) as league:
        games = {f"{first}{second}": games for first, second, games in league.list_planned_matches("abcde")}
    assert games == {"ab": 4, "ac": 8, "ad": 2, "ae": 4, "bc": 8, "cd": 2, "ce": 8}
    gauntlet = f"{QUICK}plan: gauntlet\nanchors: [a]\n"
    lines = [f"name: {name}, agent: random" for name in ("a", "b", "c, meets: all", "d, meets: all")]
    with opened(write_league(tmp_path / "gauntlet", *lines, settings=gauntlet)) as league:
        assert list_matches(league) == [("a", "b"), ("a", "c"), ("a", "d"), ("c", "d")]


@pytest.mark.parametrize(
    "obstacle", ["there is no program bwrap: install it (apt install bubblewrap)", "bubblewrap fails (no permissions)"]
)
def test_without_a_sandbox_entries_of_others_must_be_trusted(
    tmp_path: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "find_sandbox_obstacle", lambda: obstacle)
    own = write_league(
        tmp_path / "own", "name: a, agent: league_first", "name: b, agent: random", settings="games: 2\n"
    )
    with opened(own) as league:
        with pytest.raises(RequestError, match=rf"{re.escape(obstacle)}; .*entries would run as you.*--trust-agents"):
            choose_isolation(league, trust_agents=False)
        isolation, note = choose_isolation(league, trust_agents=True)
        assert (isolation, obstacle in note) == ("process", True)
        monkeypatch.setattr(entries, "find_sandbox_obstacle", lambda: "")
        assert choose_isolation(league, trust_agents=False) == ("sandbox", "")
    monkeypatch.setattr(entries, "find_sandbox_obstacle", lambda: obstacle)
    shipped = write_league(tmp_path / "ours", "name: a, agent: mcts", "name: b, agent: random", settings="games: 2\n")
    with opened(shipped) as league:
        assert choose_isolation(league, trust_agents=False) == ("process", "")


def test_limits_are_those_of_the_league_unless_an_entry_has_its_own(tmp_path: Path) -> None:
    settings = "limits: {turn_seconds: 3, megabytes: 500}\n"
    folder = write_league(
        tmp_path,
        "name: own, agent: league_first",
        "name: freed, agent: league_first, turn_seconds: null",
        "name: ours, agent: rule_based",
        "name: engine, agent: engine, command: python3 entries/league_first/league_first.py",
        settings=settings,
    )
    with opened(folder) as league:
        specs = {entry.name: entries.build_entry_spec(league, entry, "process") for entry in league.entries}
    assert specs["own"].limits.turn_seconds == specs["engine"].limits.turn_seconds == 3
    assert (specs["freed"].limits.turn_seconds, specs["freed"].limits.megabytes) == (None, 500)
    assert not specs["ours"].limits.is_limited
    assert specs["engine"].params["command"] == f"python3 {folder / 'entries' / 'league_first' / 'league_first.py'}"
    assert [spec.label for spec in specs.values()] == ["own", "freed", "ours", "engine"]


def test_the_number_of_processes_is_limited_in_sandboxes_only(tmp_path: Path) -> None:
    entries_ = ("agent: league_first", "name: here, agent: league_first, isolation: thread", "agent: random")
    with opened(write_league(tmp_path, *entries_, settings="limits: {processes: 20, megabytes: 500}\n")) as league:
        specs = [entries.build_entry_spec(league, league.entries[0], isolation) for isolation in ("sandbox", "process")]
        specs.append(entries.build_entry_spec(league, league.entries[1], "sandbox"))
    assert [spec.limits.processes for spec in specs] == [20, None, None]
    assert {str(spec.record_with_shortened_paths["limits"]) for spec in specs} == {"{'megabytes': 500}"}  # of one run


def test_a_limit_gives_the_same_run_whether_the_league_or_the_entry_has_it(tmp_path: Path) -> None:
    limit = "turn_seconds: 20"
    folders = (
        write_league(tmp_path / "a", "agent: league_first", "agent: random", settings=f"limits: {{{limit}}}\n"),
        write_league(tmp_path / "b", f"agent: league_first, {limit}", "agent: random"),
    )
    records = []
    for folder in folders:
        with opened(folder) as league:
            spec = entries.build_entry_spec(league, league.entries[0], "process")
            records.append(str(spec.record_with_shortened_paths))  # as text, because 20 == 20.0
    assert records[0] == records[1]
