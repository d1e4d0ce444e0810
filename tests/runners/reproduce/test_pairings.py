"""Every agent of a published figure can be made; each pairing is played once, whichever side a figure takes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from analytics.published import TRAINING, PublishedFigure, figures
from runners.arena.config import agent_named
from runners.arena.schemas import ArchiveSettings
from runners.arena.spec import label_of
from runners.reproduce.pairings import CODE, TEXT, Pairings, PlaySettings, sides, train, with_policy
from tests.runners.experiments import Watcher


def settings(root: Path, games: int = 20) -> PlaySettings:
    return PlaySettings(games, 1, 2, ArchiveSettings(root), "reproduce")


def of_study(study: str) -> list[PublishedFigure]:
    return [figure for figure in figures() if figure.study == study]


LABELS = sorted(
    {
        side.label
        for figure in figures()
        for variant in (TEXT, CODE)
        for side in sides(figure, variant) or ()
        if not side.label.endswith(TRAINING)
    }
)


@pytest.mark.parametrize("label", LABELS)
def test_every_player_of_a_figure_can_be_made(label: str) -> None:
    agent_named(label).build()


def test_by_the_code_an_agent_differs_from_the_one_by_the_text() -> None:
    for figure in figures():
        text, code = sides(figure, TEXT), sides(figure, CODE)
        assert text
        assert text != code


def test_a_policy_is_named_in_a_label() -> None:
    assert with_policy("rl_encoded", None) == "rl_encoded"
    assert with_policy("rl_encoded", "mine") == label_of("rl_encoded", {"policy": "mine"}, {})
    assert with_policy("rl_encoded(gift_rule=mean)", "mine") == "rl_encoded(gift_rule=mean,policy=mine)"


def test_each_pairing_is_played_once_and_progress_is_that_of_one_run(tmp_path: Path) -> None:
    pairings, progress = Pairings(settings(tmp_path / "games"), {}), Watcher()
    chosen = of_study("E")
    pairings.prepare(chosen)
    assert len(pairings.experiments) == 8  # four players, by the text and by the code, for eleven figures
    assert pairings.games_left == 160
    assert pairings.play(threading.Event(), progress) == 160
    assert (progress.started, progress.games) == ([160], 160)
    found = [pairings.comparison(figure) for figure in chosen]
    assert all(each.text and each.code for each in found)
    assert found[0].text == found[1].text
    assert pairings.games_left == 0


def test_a_pairing_seen_from_either_side_is_one_run(tmp_path: Path) -> None:
    known = {figure.figure: figure for figure in figures()}
    one, other = known["A01"], known["A04"]  # ga5 v rule_based, rule_based v ga5
    pairings = Pairings(settings(tmp_path / "games", 200), {})
    pairings.prepare([one, other])
    assert len(pairings.experiments) == 2
    pairings.play(threading.Event(), None)
    ours, theirs = (pairings.comparison(figure).text for figure in (one, other))
    assert ours
    assert theirs
    assert ours.rate.mean < 0.5
    assert theirs.rate.mean == pytest.approx(1 - ours.rate.mean)  # drawn games count for rule_based in both


def test_a_figure_is_compared_with_the_version_of_the_program_that_it_is_of() -> None:
    known = {figure.figure: figure for figure in figures()}
    of_both = {name: sides(known[name], CODE) for name in ("A01", "A27")}  # ga5 v rule_based, at two times
    assert {name: [side.label for side in both or ()] for name, both in of_both.items()} == {
        "A01": ["ga5(faithful=true)", "rule_based(faithful=true,version=earlier)"],
        "A27": ["ga5(faithful=true)", "rule_based(faithful=true)"],
    }


def test_games_that_a_player_learned_from_are_compared_as_they_are(tmp_path: Path) -> None:
    (figure,) = of_study("C")
    trained = train("trainer=rl_encoded trainer.games=60", ArchiveSettings(tmp_path), "", threading.Event(), None)
    assert trained
    pairings = Pairings(settings(tmp_path), {"trainer=rl_encoded": trained})
    pairings.prepare([figure])
    assert pairings.games_left == 0
    found = pairings.comparison(figure).text
    assert found
    assert (found.player, found.games) == ("rl_encoded(training)", 60)
    assert found.rate.mean == trained.results[2] / 60
    assert Pairings(settings(tmp_path), {}).comparison(figure).text is None


def test_an_agent_that_has_not_been_trained_does_not_play(tmp_path: Path) -> None:
    chosen = [figure for figure in of_study("B") if figure.player == "q_placement"]
    trained = train("trainer=q_placement trainer.games=20", ArchiveSettings(tmp_path), "", threading.Event(), None)
    assert trained
    pairings = Pairings(settings(tmp_path), {"trainer=q_placement": trained})
    pairings.prepare(chosen)
    assert {(key.first, key.second) for key in pairings.experiments} == {
        ("ga2", "q_placement(policy=published_q_placement)"),
        ("q_placement(policy=published_q_placement)", "random"),
    }
    assert [pairings.comparison(figure).code for figure in chosen] == [None, None]
