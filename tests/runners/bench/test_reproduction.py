"""``qarena reproduce``: published pairings are played once, whichever side a figure takes, and shown and written."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.questions.pairings import load_results
from analytics.report.published import TRAINING_SUFFIX, PublishedRate, read_notes, read_published_rates, select_notes
from analytics.report.published.reproduction import LEGEND
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from runners.arena.storage import ArchiveOptions
from runners.bench import reproduction
from runners.bench.reproduction import (
    CODE,
    TEXT,
    PairingOptions,
    Pairings,
    TrainingResult,
    add_policy_to_label,
    find_sides_unless_same_as_text,
    list_training_overrides,
    train_if_missing,
)
from runners.config.agents import agent_from_label
from runners.learning.training.online import Online
from tests.analytics.folders import snapshot
from tests.marks import seldom
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import Watcher


def pairing_options(root: Path, games: int = 20) -> PairingOptions:
    return PairingOptions(games, 1, 2, ArchiveOptions(root), "reproduce")


def select_study(study: str) -> list[PublishedRate]:
    return [figure for figure in read_published_rates() if figure.study == study]


LABELS = sorted(
    {
        side.label
        for figure in read_published_rates()
        for variant in (TEXT, CODE)
        for side in find_sides_unless_same_as_text(figure, variant) or ()
        if not side.label.endswith(TRAINING_SUFFIX)
    }
)


def test_every_player_of_a_figure_can_be_made_and_by_the_code_differs_from_the_one_by_the_text() -> None:
    for label in LABELS:
        agent_from_label(label).build()
    for figure in read_published_rates():
        assert find_sides_unless_same_as_text(figure, TEXT) not in (None, find_sides_unless_same_as_text(figure, CODE))


def test_a_pairing_seen_from_either_side_is_played_once_and_progress_is_that_of_one_run(tmp_path: Path) -> None:
    figures = {figure.figure: figure for figure in read_published_rates()}
    chosen = [figures["A01"], figures["A04"]]  # ga5 v rule_based, rule_based v ga5
    pairings, progress = Pairings(pairing_options(tmp_path / "games", 200), {}), Watcher()
    pairings.open_experiments(chosen)
    assert len(pairings.experiments) == 2  # by the text and by the code
    assert pairings.missing_game_count == 400
    assert pairings.play(threading.Event(), progress) == 400
    assert (progress.started, progress.games) == ([400], 400)
    assert pairings.missing_game_count == 0
    comparisons = [pairings.compare_figure(figure) for figure in chosen]
    assert all(comparison.code for comparison in comparisons)
    rule_based_opponent, rule_based_player = (comparison.text for comparison in comparisons)
    assert rule_based_opponent
    assert rule_based_player
    assert rule_based_opponent.rate.mean < 0.5
    assert rule_based_player.rate.mean == pytest.approx(
        1 - rule_based_opponent.rate.mean
    )  # drawn games count for rule_based in both


def test_a_figure_is_compared_with_the_version_of_the_program_that_it_is_of() -> None:
    figures = {figure.figure: figure for figure in read_published_rates()}
    sides_by_figure = {
        name: find_sides_unless_same_as_text(figures[name], CODE) for name in ("A01", "A27")
    }  # ga5 v rule_based, at two times
    assert {name: [side.label for side in sides or ()] for name, sides in sides_by_figure.items()} == {
        "A01": ["ga5(faithful=true)", "rule_based(faithful=true,version=earlier)"],
        "A27": ["ga5(faithful=true)", "rule_based(faithful=true)"],
    }


# Trainings.


def train(root: Path, overrides: str, is_stopped: bool = False, other_code: str = "refuse") -> TrainingResult | None:
    stop = threading.Event()
    if is_stopped:
        stop.set()
    return train_if_missing(overrides, ArchiveOptions(root, other_code=other_code), "qarena reproduce", stop, None)


@pytest.mark.parametrize(
    "training",
    [list_training_overrides(read_published_rates())[0], *seldom(*list_training_overrides(read_published_rates())[1:])],
)
def test_every_training_of_a_figure_can_begin_and_be_stopped(training: str, tmp_path: Path) -> None:
    assert train(tmp_path / "games", training, is_stopped=True) is None


def test_a_training_is_carried_out_once_and_its_games_are_compared_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = "trainer=rl_encoded trainer.games=60"
    training_result = train(tmp_path, overrides)
    assert training_result
    assert (training_result.policy, training_result.learner, training_result.opponent) == (
        "published_rl_encoded",
        "rl_encoded(training)",
        "semi_random",
    )
    assert (training_result.played, sum(training_result.results)) == (60, 60)
    assert agent_from_label(add_policy_to_label("rl_encoded", training_result.policy), tmp_path).policy_id
    with monkeypatch.context() as patched:
        patched.setattr(Online, "train", lambda *_arguments: pytest.fail("it was trained again"))
        assert train(tmp_path, overrides) == replace(training_result, played=0)
    (figure,) = select_study("C")
    pairings = Pairings(pairing_options(tmp_path), {"trainer=rl_encoded": training_result})
    pairings.open_experiments([figure])
    assert pairings.missing_game_count == 0
    measured_rate = pairings.compare_figure(figure).text
    assert measured_rate
    assert (measured_rate.player, measured_rate.games, measured_rate.rate.mean) == (
        "rl_encoded(training)",
        60,
        training_result.results[2] / 60,
    )
    assert Pairings(pairing_options(tmp_path), {}).compare_figure(figure).text is None
    shorter = train(tmp_path, "trainer=rl_encoded trainer.games=20")  # of the same run, which holds 60
    assert shorter
    assert (sum(shorter.results), shorter.played) == (20, 0)


@pytest.mark.slow
def test_a_training_by_other_code_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = "trainer=rl_encoded trainer.games=20"
    assert train(tmp_path, overrides)
    monkeypatch.setattr(
        "runners.learning.training.request.build_class_code_record", lambda *_args, **_more: {"fingerprint": "0" * 16}
    )
    monkeypatch.setattr("runners.arena.experiment.build_code_record", lambda *_: {"fingerprint": "0" * 16})
    for more in ("", " trainer.games=40"):
        with pytest.raises(RequestError, match="begun by other code"):
            train(tmp_path, overrides + more)
    again = train(tmp_path, overrides, other_code="extend")  # learned anew, from games that are all there
    assert again
    assert again.played == 0
    card = policy_store.find_by_name(ArchiveStore.open(tmp_path), again.policy)
    assert card
    assert card.code["fingerprint"] == "0" * 16


def test_an_agent_that_has_not_been_trained_does_not_play_and_results_are_the_learners(tmp_path: Path) -> None:
    training_result = train(tmp_path, "trainer=q_placement trainer.games=20")
    assert training_result
    assert (training_result.learner, training_result.opponent) == ("q_placement(training)", "ga2")
    (record,) = ArchiveStore.open(tmp_path).load_runs()
    (result,) = load_results(ArchiveStore.open(tmp_path), record.run_id)
    assert result.first == "ga2"  # which has seat 0
    assert training_result.results == result.tally.with_agents_swapped.losses_draws_wins_in_game(1)
    chosen = [figure for figure in select_study("B") if figure.player == "q_placement"]
    pairings = Pairings(pairing_options(tmp_path), {"trainer=q_placement": training_result})
    pairings.open_experiments(chosen)
    assert {(key.first, key.second) for key in pairings.experiments} == {
        ("ga2", "q_placement(policy=published_q_placement)"),
        ("q_placement(policy=published_q_placement)", "random"),
    }
    assert [pairings.compare_figure(figure).code for figure in chosen] == [None, None]


REPORT = ROOT / "docs/reproduction.md"  # of all figures, as found


def test_a_study_is_played_shown_and_written_and_then_only_read(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena(
        *["reproduce", "--study", "D", "--games", "20", "--archive", "games", "--markdown", "d.md", "--html", "d.html"]
    )
    assert (result.code, result.err) == (0, "")
    assert re.search(r"Study D: The mover chooses the piece .*\(games won, in %\)", result.out)
    assert re.search(r"│ D01 │ random +│ random +│ first +│ +47\.6 \(44\.5.50\.7\) │", result.out)
    assert re.search(
        r"^\d of 3 published figures agree with ours by the text, \d by the text or by the code\.$",
        result.out,
        re.MULTILINE,
    )
    assert "60 games played, all of them in games." in result.out
    before = snapshot(tmp_path / "games")
    text, html = (tmp_path / "d.md").read_text(), (tmp_path / "d.html").read_text()
    assert "Made by `qarena reproduce --study D --games 20" in text
    assert "| D03 | own_piece_alpha_beta | random | second |" in text
    assert html.count("<svg") == 1
    again = qarena("reproduce", "--study", "d", "--games", "20", "--archive", "games")
    assert (again.code, again.err) == (0, "")
    assert "Nothing to play: games has all games." in again.out
    assert again.out.split("Nothing")[0] == result.out.split("60 games")[0]
    assert snapshot(tmp_path / "games") == before
    assert "60 games played" in qarena("reproduce", "--study", "D", "--games", "40", "--archive", "games").out
    odd = qarena("reproduce", "--study", "D", "--games", "3", "--archive", "games")
    assert odd.err == "--games=3 is odd; games come in pairs with the seats swapped, so 4 will be played\n"
    assert "Nothing to play" in odd.out


def test_ctrl_c_says_how_to_continue(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def set_stop() -> Iterator[threading.Event]:
        stop = threading.Event()
        stop.set()
        yield stop

    with monkeypatch.context() as patched:
        patched.setattr(reproduction, "stop_on_signal_then_interrupt_then_exit", set_stop)
        result = qarena("reproduce", "--study", "D", "--games", "20", "--seed", "7")
    assert result.code == 130
    assert result.err == (
        "interrupted; all games played so far are in the archive. To continue:\n"
        "  qarena reproduce --study D --games 20 --seed 7\n"
    )
    assert re.search(r"│ D01 │ random +│ random +│ first +│ +47\.6 \(44\.5.50\.7\) │$", result.out, re.MULTILINE)
    assert "3 have not been played yet." in result.out


def parse_verdicts(report: str) -> dict[str, tuple[str, ...]]:
    """Parse a Markdown report into verdicts by figure: "yes" or "no" by the text and, if that differs, by the code."""
    rows = [re.split(r" *\| *", line) for line in report.splitlines() if re.match(r"\| [A-E]\d\d ", line)]
    return {cells[1]: tuple(cell for cell in cells if cell in ("yes", "no")) for cells in rows}


def test_the_report_in_the_documentation_is_of_all_figures_and_explains_what_differs() -> None:
    text = REPORT.read_text(encoding="utf-8")
    assert LEGEND in text
    assert not [note for note in read_notes() if note.note not in text]
    verdicts_by_figure = parse_verdicts(text)
    assert verdicts_by_figure.keys() == {figure.figure for figure in read_published_rates()}
    for name, figure_verdicts in verdicts_by_figure.items():
        assert figure_verdicts
        assert figure_verdicts[0] == "yes" or select_notes(name), f"{name} differs by the text and nobody says why"


@pytest.mark.slow
def test_all_figures_at_the_default_number_of_games_keep_their_verdicts(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("reproduce", "--archive", "games", "--markdown", "all.md")
    progress = r"playing: .* games after \d+ s\n"  # which a slow machine shows once a minute
    assert (result.code, re.sub(progress, "", result.err)) == (0, "")
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert parse_verdicts(text) == parse_verdicts(REPORT.read_text(encoding="utf-8"))
