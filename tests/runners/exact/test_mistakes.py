"""`qarena mistakes`: of one agent too, with a game to each of the worst mistakes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.questions.mistakes import find_worst_mistakes, find_worst_mistakes_by_agent
from analytics.questions.selection import read_plies
from analytics.store.archive import ArchiveStore
from quarto.canonical import canonical_position
from quarto.notation import format_position
from quarto.position import position_from_plies
from quarto.rules import NONE
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

COUNTED = AnnotationOptions(choices=True, megabytes=1.0, threads=2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an archive with games by two rule sets, whose decisions are judged and whose choices are counted."""
    folder = tmp_path_factory.mktemp("archive")
    for rules, opening in (("classic", 9), ("own_piece", 10)):
        agents, openings = "agents=[random,semi_random]", f"opening_plies={opening}"
        play(folder, agents, "games=100", openings, f"rules={rules}", "threads=1")
    archive = ArchiveStore.open(folder)
    annotate_runs(archive, archive.list_ids_of_runs_with_games(), COUNTED)
    return folder


def test_the_worst_mistakes_are_those_that_counting_one_by_one_finds(root: Path) -> None:
    with open_archive(root) as archive:
        mistakes = find_worst_mistakes(archive, "true", 1000)
        rows = archive.sql(
            "SELECT run_id, game_id, ply, kind, regret, value_before, saving, choices FROM decisions WHERE regret > 0"
        ).rows()
        plies = read_plies(archive, [(run_id, game_id) for run_id, game_id, *_ in rows])
        rules = {record.run_id: record.rules for record in archive.archive.load_runs()}

    def text(run_id: str, game_id: int, ply: int, kind: str) -> str:
        game, of_run = plies[run_id, game_id], rules[run_id]
        held = kind == "placement" and not of_run.mover_chooses
        position = canonical_position(position_from_plies(game[:ply], game[ply][0] if held else NONE), of_run)
        return format_position(position, of_run.name)

    expected = Counter((text(*row[:4]), row[3], *row[5:]) for row in rows)
    assert (
        Counter({(mistake.position_text, mistake.kind, *mistake[4:7]): mistake.missed for mistake in mistakes})
        == expected
    )
    worst = dict[str, int]()
    for *key, regret, _, _, _ in rows:
        worst[text(*key)] = max(regret, worst.get(text(*key), 0))
    assert {mistake.position_text: mistake.regret for mistake in mistakes} == worst
    assert all(
        mistake.position_text == text(mistake.run_id, mistake.game_id, mistake.ply, mistake.kind)
        for mistake in mistakes
    )
    keys = [(-mistake.regret, -(mistake.saving or 0) / mistake.choices, -mistake.missed) for mistake in mistakes]
    assert keys == sorted(keys)
    assert {mistake.rules.name for mistake in mistakes} == {"classic", "own_piece"}


def test_the_worst_mistakes_of_all_agents_are_those_of_each(root: Path) -> None:
    with open_archive(root) as archive:
        mistakes = find_worst_mistakes_by_agent(archive, "ply < 15", 7)
        expected = {
            agent: find_worst_mistakes(archive, f"agent = '{agent}' AND ply < 15", 7)
            for agent in ("random", "semi_random")
        }
        assert find_worst_mistakes_by_agent(archive, "agent = 'nobody'", 7) == {}
    assert mistakes == expected
    assert [len(of_agent) for of_agent in mistakes.values()] == [7, 7]


def test_the_mistakes_of_one_agent_are_shown_alone(qarena: Qarena, root: Path) -> None:
    where = ("--archive", str(root))
    shown = qarena("mistakes", "--agent", "semi_random", *where).out
    assert re.findall(r"^│ (random|semi_random) ", shown, re.MULTILINE).count("semi_random") >= 2
    assert "│ random " not in shown
    data = qarena("mistakes", "--agent", "random", "--format", "csv", *where).out
    decided = [line.split(",")[0] for line in data.split()]
    assert set(decided) == {"agent", "random"}
    games = re.findall(r"│ +(\d+) │ ([0-9a-f]{6}) (\d+) +│ +(\d+) │$", shown, re.MULTILINE)
    assert len(games) == 10
    with open_archive(root) as archive:
        for _, run, game_id, ply in games:
            judged = archive.sql(
                "SELECT max(regret) FROM decisions WHERE agent = 'semi_random' AND starts_with(run_id, ?) "
                "AND game_id = ? AND ply = ?",
                [run, int(game_id), int(ply)],
            )
            assert judged.item() > 0
    refused = qarena("mistakes", "--agent", "semirandom", *where)
    assert "did you mean 'semi_random'?" in refused.refusal


def test_columns_copies_of_one_game_and_decisions_under_several_rules_are_explained(qarena: Qarena, root: Path) -> None:
    result = qarena("mistakes", "--archive", str(root))
    assert "different rules, classic, own_piece (--rules NAME chooses one)" in result.err
    lines = result.out.splitlines()
    below = [lines[number + 1].split(":")[0] for number, line in enumerate(lines) if line.startswith("└")]
    assert below == ["regret", "most regret first, then the easiest; value"]
    alone = qarena("mistakes", "--rules", "own_piece", "--positions", "0", "--archive", str(root))
    assert (alone.err, "│ gift" in alone.out) == ("the table 'By ply' is not printed; --output FILE for all\n", False)
    copies = "40 games of dumb and dumb in run"
    assert copies in qarena("run", "agent@a=dumb", "agent@b=dumb", "games=40").err
    assert copies in qarena("crosstable").err
    qarena("report", "--output", "report.html")
    assert copies.capitalize() in Path("report.html").read_text()
