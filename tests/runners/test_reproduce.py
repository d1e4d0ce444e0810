"""``qarena reproduce``: published pairings are played once, compared, shown, written; wrong requests change nothing."""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from analytics.published import TRAINING, Figure, figures, notes_on
from quarto.errors import RequestError
from runners import reproduce
from runners.config import agent_named
from runners.meetings import CODE, TEXT, Meetings, Terms, sides, trainings, with_parameter
from runners.spec import label_of
from runners.training.online import Online
from runners.training.published import Learned, learn
from tests.analytics.folders import snapshot
from tests.runners.conftest import Qarena

REPORT = Path(__file__).resolve().parents[2] / "docs/reproduction.md"  # of all figures, as found


def terms(root: Path, games: int = 20) -> Terms:
    return Terms(games, 1, root, 2, "refuse", "reproduce")


def of_study(study: str) -> list[Figure]:
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


def test_by_the_code_somebody_plays_otherwise_than_by_the_text() -> None:
    for figure in figures():
        text, code = sides(figure, TEXT), sides(figure, CODE)
        assert text
        assert text != code


def test_a_policy_is_named_in_a_label() -> None:
    assert with_parameter("rl_encoded", None) == "rl_encoded"
    assert with_parameter("rl_encoded", "mine") == label_of("rl_encoded", {"policy": "mine"}, {})
    assert with_parameter("rl_encoded(gift_rule=mean)", "mine") == "rl_encoded(gift_rule=mean,policy=mine)"


# From the command line.


def test_a_study_is_played_shown_and_written_and_then_only_read(qarena: Qarena, tmp_path: Path) -> None:
    typed = ("reproduce", "study=D", "games=20", "archive.root=games", "--markdown", "d.md", "--html", "d.html")
    found = qarena(*typed)
    assert (found.code, found.err) == (0, "")
    assert re.search(r"Study D: The mover chooses the piece .*\(games won, in %\)", found.out)
    assert re.search(r"│ D01 │ random +│ random +│ first +│ +47\.6 \(44\.5.50\.7\) │", found.out)
    assert re.search(
        r"^\d of 3 published figures agree with ours by the text, \d by the text or by the code\.$",
        found.out,
        re.MULTILINE,
    )
    assert "60 games played, all of them in games." in found.out
    before = snapshot(tmp_path / "games")
    text, html = (tmp_path / "d.md").read_text(), (tmp_path / "d.html").read_text()
    assert "Made by `qarena reproduce study=D games=20" in text
    assert "| D03 | own_piece_alpha_beta | random   | second |" in text
    assert html.count("<svg") == 1
    again = qarena("reproduce", "--study", "d", "--games", "20", "--archive", "games")
    assert (again.code, again.err) == (0, "")
    assert "Nothing to play: games has all games." in again.out
    assert again.out.split("Nothing")[0] == found.out.split("60 games")[0]
    assert snapshot(tmp_path / "games") == before


def test_more_games_extend_what_there_is(qarena: Qarena) -> None:
    assert "60 games played" in qarena("reproduce", "study=D", "games=20").out
    assert "60 games played" in qarena("reproduce", "study=D", "games=40").out
    found = qarena("reproduce", "study=D", "games=3")
    assert found.err == "games=3 is odd; games come in pairs with the seats swapped, so 4 it is\n"
    assert "Nothing to play" in found.out


def test_without_the_extra_there_is_all_but_the_plots(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "altair" else real(name, package)

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    found = qarena("reproduce", "study=D", "games=2", "html=d.html")
    assert found.code == 0
    assert found.err == "the page has no plots; for them: pip install 'quarto-arena[plots]', in a clone -e '.[plots]'\n"
    html = (tmp_path / "d.html").read_text()
    assert "<svg" not in html
    assert "own_piece_alpha_beta" in html


def test_ctrl_c_says_how_to_go_on(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopped() -> Iterator[threading.Event]:
        stop = threading.Event()
        stop.set()
        yield stop

    with monkeypatch.context() as patched:
        patched.setattr(reproduce, "interruptible", stopped)
        found = qarena("reproduce", "study=D", "games=20", "--seed", "7")
    assert found.code == 130
    assert found.err == (
        "interrupted; everything played is in the archive. To go on:\n  qarena reproduce study=D games=20 --seed 7\n"
    )
    assert re.search(r"│ D01 │ random +│ random +│ first +│ +47\.6 \(44\.5.50\.7\) │$", found.out, re.MULTILINE)
    assert "60 games played" in qarena("reproduce", "study=D", "games=20", "--seed", "7").out


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("study=Z", "study 'Z' does not exist; valid: A, B, C, D, E"),
        ("--study A,F", "study 'F' does not exist; valid: A, B, C, D, E"),
        ("games=0", "games=0 is out of range: it must be at least 1"),
        ("games=many", "games='many' is not a whole number"),
        ("--games 99999999999", "games=99999999999 is out of range: it must be at most 4294967296"),
        ("seed=-1", "seed=-1 is out of range: it must be at least 0"),
        ("threads=0", "threads=0 is out of range: it must be at least 1"),
        ("archive.other_code=perhaps", "archive.other_code=perhaps does not exist; valid: extend, new, refuse"),
        ("D", "'D' is not key=value: write study=D for one study"),
        ("study=D stdy=D", "key 'stdy' does not exist; did you mean 'study'?"),
        ("study=D --study E", "study is given twice: study=E and study=D"),
        ("html=nowhere/page.html", "nowhere/page.html has no folder: name a file in a folder that exists"),
        ("--markdown .", ". is a folder: name a file in a folder that exists and may be written to"),
        ("study=D archive.root=/dev/null/here", "/dev/null/here"),
    ],
)
def test_a_wrong_request_is_one_line_and_changes_nothing(typed: str, line: str, qarena: Qarena, tmp_path: Path) -> None:
    found = qarena("reproduce", *typed.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error: ")
    assert line in found.err
    assert found.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_says_what_can_be_set(qarena: Qarena) -> None:
    found = qarena("reproduce", "--help")
    assert (found.code, found.err) == (0, "")
    for word in ("[KEY=VALUE]", "--study", "--games", "--archive", "--markdown", "--html", "--seed", "--threads"):
        assert word in found.out


# What is played.


class Heard:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.games = 0

    def start(self, games: int) -> None:
        self.started.append(games)

    def advance(self, games: int) -> None:
        self.games += games


def test_each_meeting_is_played_once_and_told_of_as_one(tmp_path: Path) -> None:
    meetings, heard = Meetings(terms(tmp_path / "games"), {}), Heard()
    chosen = of_study("E")
    meetings.arrange(chosen)
    assert len(meetings.experiments) == 8  # four players, by the text and by the code, for eleven figures
    assert meetings.games_left == 160
    assert meetings.play(threading.Event(), heard) == 160
    assert (heard.started, heard.games) == ([160], 160)
    found = [meetings.comparison(figure) for figure in chosen]
    assert all(each.text and each.code for each in found)
    assert found[0].text == found[1].text
    assert meetings.games_left == 0


def test_a_meeting_seen_from_either_side_is_one(tmp_path: Path) -> None:
    known = {figure.figure: figure for figure in figures()}
    one, other = known["A05"], known["A30"]  # rule_based v random, random v rule_based
    meetings = Meetings(terms(tmp_path / "games", 200), {})
    meetings.arrange([one, other])
    assert len(meetings.experiments) == 2
    meetings.play(threading.Event(), None)
    ours, theirs = (meetings.comparison(figure).text for figure in (one, other))
    assert ours
    assert theirs
    assert ours.rate.mean > 0.85
    assert theirs.rate.mean == pytest.approx(1 - ours.rate.mean - ours.draws)


# Who is trained for it.


def taught(root: Path, overrides: str, stopped: bool = False) -> Learned | None:
    stop = threading.Event()
    if stopped:
        stop.set()
    return learn(overrides, {"archive.root": root}, "qarena reproduce", stop, None)


@pytest.mark.parametrize("training", trainings(figures()))
def test_every_training_of_a_figure_can_begin_and_be_stopped(training: str, tmp_path: Path) -> None:
    assert taught(tmp_path / "games", training, stopped=True) is None


def test_a_training_is_carried_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = "trainer=rl_encoded trainer.games=40"
    found = taught(tmp_path, overrides)
    assert found
    assert (found.policy, found.learner, found.opponent) == ("rl_encoded", "rl_encoded(training)", "semi_random")
    assert (found.played, found.tally.games) == (40, 40)
    assert agent_named(f"rl_encoded(policy={found.policy})", tmp_path).policy_id
    with monkeypatch.context() as patched:
        patched.setattr(Online, "train", lambda *_arguments: pytest.fail("it was trained again"))
        assert taught(tmp_path, overrides) == replace(found, played=0)
    other = taught(tmp_path, f"{overrides} seed=2")
    assert other
    assert (other.policy, other.played) == ("rl_encoded_seed-2", 40)


def test_a_training_by_other_code_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = "trainer=rl_encoded trainer.games=20"
    assert taught(tmp_path, overrides)
    monkeypatch.setattr("runners.training.config.code_by", lambda *_args, **_more: {"fingerprint": "0" * 16})
    monkeypatch.setattr("runners.experiment.code_of", lambda _spec: {"fingerprint": "0" * 16})
    with pytest.raises(RequestError, match="begun by other code"):
        taught(tmp_path, f"{overrides} trainer.games=40")
    again = taught(tmp_path, f"{overrides} archive.other_code=extend")
    assert again
    assert again.played == 0


def test_a_learner_is_seen_in_the_seat_that_it_had(tmp_path: Path) -> None:
    found = taught(tmp_path, "trainer=q_placement trainer.games=30")
    assert found
    assert (found.learner, found.opponent) == ("q_placement(training)", "ga2")
    assert sum(found.tally.results(0)) == 0
    assert sum(found.tally.results(1)) == 30


def test_games_that_a_player_learned_from_are_compared_as_they_are(tmp_path: Path) -> None:
    (figure,) = of_study("C")
    learned = taught(tmp_path, "trainer=rl_encoded trainer.games=60")
    assert learned
    meetings = Meetings(terms(tmp_path), {"trainer=rl_encoded": learned})
    meetings.arrange([figure])
    assert meetings.games_left == 0
    found = meetings.comparison(figure).text
    assert found
    assert (found.player, found.games) == ("rl_encoded(training)", 60)
    assert found.rate.mean == learned.tally.wins / 60
    assert Meetings(terms(tmp_path), {}).comparison(figure).text is None


def test_who_has_not_been_trained_does_not_play(tmp_path: Path) -> None:
    chosen = [figure for figure in of_study("B") if figure.player == "q_placement"]
    learned = taught(tmp_path, "trainer=q_placement trainer.games=20")
    assert learned
    meetings = Meetings(terms(tmp_path), {"trainer=q_placement": learned})
    meetings.arrange(chosen)
    assert {key.first for key in meetings.experiments} == {"ga2", "q_placement(policy=q_placement)"}
    assert [meetings.comparison(figure).code for figure in chosen] == [None, None]


def verdicts(report: str) -> dict[str, tuple[str, ...]]:
    """What a Markdown report says of each figure: yes or no by the text and, if that differs, by the code."""
    rows = [re.split(r" *\| *", line) for line in report.splitlines() if re.match(r"\| [A-E]\d\d ", line)]
    return {cells[1]: tuple(cell for cell in cells if cell in ("yes", "no")) for cells in rows}


def test_the_report_in_the_documentation_is_of_all_figures_and_explains_what_differs() -> None:
    found = verdicts(REPORT.read_text(encoding="utf-8"))
    assert found.keys() == {figure.figure for figure in figures()}
    for name, said in found.items():
        assert said
        assert said[0] == "yes" or notes_on(name), f"{name} differs by the text and nobody says why"


@pytest.mark.slow
def test_all_figures_at_the_default_number_of_games_keep_their_verdicts(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena("reproduce", "archive.root=games", "markdown=all.md")
    assert (found.code, found.err) == (0, "")
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert verdicts(text) == verdicts(REPORT.read_text(encoding="utf-8"))
