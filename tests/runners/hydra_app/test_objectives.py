"""Objectives: what a run is judged by, against the same numbers asked for in SQL; wrong ones are refused early."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.ratings.ratings import ratings
from analytics.results.pairings import PairingResult
from quarto.errors import FailureError, RequestError
from quarto.rules import CELLS, NONE, finished_lines
from runners.arena.config_groups import load_rules
from runners.arena.experiment import Experiment, prepare
from runners.arena.objectives import Elo, Regret, Score, WinRate, agent_in, random_game
from tests.runners.conftest import Qarena
from tests.runners.experiments import play, request, stored_at

MATCH = ("agent@a=semi_random", "agent@b=rule_based", "games=40", "seed=3")
TOURNAMENT = ("agents=[dumb,random,semi_random]", "games=20")
Played = tuple[Experiment, Sequence[PairingResult]]


def printed(out: str) -> tuple[str, str]:
    """The heading and the value in the output of a single run."""
    ((heading, value),) = re.findall(r"^Objective: (.*): (.*)$", out, re.MULTILINE)
    return heading, value


def in_sql(root: Path, question: str) -> float:
    with open_archive(root) as archive:
        return float(archive.sql(question).item())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, ...], Played]]:
    """An archive of ``MATCH`` and ``TOURNAMENT``: each with its results."""
    root = tmp_path_factory.mktemp("played")
    return root, {
        asked: (prepare(stored_at(root, request(*asked))), play(root, *asked).results) for asked in (MATCH, TOURNAMENT)
    }


def test_the_objectives_of_a_run_are_those_of_all_games_of_the_agent(
    played: tuple[Path, dict[tuple[str, ...], Played]],
) -> None:
    root, runs = played
    for asked, label in ((MATCH, "rule_based"), (TOURNAMENT, "random")):
        experiment, results = runs[asked]
        of = f"FROM seats WHERE run_id = '{experiment.run_id}' AND agent = '{label}'"
        for objective, column in ((WinRate(label), "(score = 1)::INT"), (Score(label), "score")):
            assert objective.value(experiment, results) == in_sql(root, f"SELECT avg({column}) {of}")
    # The first agent is judged unless another is named.
    experiment, results = runs[MATCH]
    first, a, b = (Score(agent).value(experiment, results) for agent in (None, "a", "b"))
    assert first == a == results[0].score.mean == pytest.approx(1 - b)
    assert a != b
    # Elo is that of the ratings over the anchor.
    experiment, results = runs[TOURNAMENT]
    with open_archive(root) as archive:
        rated = ratings(archive, f"run_id = '{experiment.run_id}'", anchor="dumb", samples=0)
    expected = {each.agent: each.elo.mean for each in rated.ratings}
    for agent in ("random", "semi_random"):
        assert Elo(agent, "dumb").value(experiment, results) == expected[agent] != 0
    with pytest.raises(RequestError, match=r"objective=elo needs objective.anchor=LABEL in a tournament"):
        Elo().check(experiment.request.spec)
    assert Elo().text(float("inf")) == "∞"
    assert agent_in(request("agents=[random,mcts]").spec, "mcts(iterations=200)", "objective.agent") == 1  # its default


def test_regret_is_the_mean_over_the_decisions_of_the_agent(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena("run", *MATCH, "objective=regret", "objective.agent=b")
    assert found.code == 0
    heading, text = printed(found.out)
    assert heading == "regret of b"
    expected = in_sql(tmp_path / "data/archive", "SELECT avg(regret) FROM decisions WHERE agent = 'rule_based'")
    assert text == f"{expected:.4f}"
    late = qarena("run", *MATCH, "objective=regret", "objective.agent=b", "objective.from_pieces=8")
    of_late = "SELECT avg(regret) FROM decisions WHERE agent = 'rule_based' AND ply >= 8"
    assert printed(late.out)[1] == f"{in_sql(tmp_path / 'data/archive', of_late):.4f}" != text


def test_games_that_cannot_be_judged_in_time_are_one_line(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early if one game shows it, else when the run is judged."""
    slow = ("objective=regret", "objective.seconds=0")
    found = qarena("run", *MATCH, *slow)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error: one random game under rules classic from 0 pieces on cannot be judged exactly ")
    assert "within 0 s (objective=regret): leave out early boards with objective.from_pieces=N" in found.err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(Regret, "probe", lambda *_: None)
    late = qarena("run", *MATCH, *slow)
    assert (late.code, late.out) == (1, "")
    assert re.match(r"error: the games of run [0-9a-f]{12} cannot be judged exactly within 0 s", late.err)


def test_the_game_that_is_judged_early_is_a_whole_one_by_the_rules() -> None:
    for name in ("classic", "own_piece", "torus_square"):
        rules = load_rules(name)
        for least in (0, 8):
            game = random_game(rules, least, seed=least)
            assert game is not None
            plies = int(game.plies[0])
            assert plies > least
            pieces, cells = game.pieces[:plies, 0].tolist(), game.cells[:plies, 0].tolist()
            assert len({*pieces}) == len({*cells}) == plies
            board = [NONE] * CELLS
            for ply, (piece, cell) in enumerate(zip(pieces, cells, strict=True), 1):
                board[cell] = piece
                assert bool(finished_lines(board, rules)) == (ply == plies and game.winner[0] != NONE)
            assert game.winner[0] in (NONE, plies & 1)


def test_an_agent_without_decisions_has_no_regret(tmp_path: Path) -> None:
    asked = ("agent@a=semi_random", "games=2", "opening_plies=2")
    experiment, results = prepare(stored_at(tmp_path, request(*asked))), play(tmp_path, *asked).results
    with pytest.raises(FailureError, match=r"'semi_random' has no decision in run .* from 15 pieces on"):
        Regret(from_pieces=15).value(experiment, results)
