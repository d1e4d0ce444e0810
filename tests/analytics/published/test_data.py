"""The tables of published figures are consistent with each other and with what the studies say."""

from __future__ import annotations

import csv
import re
from collections import Counter
from importlib.resources import files

import pytest

from analytics.published import (
    DRAWS_FOR,
    SEATS,
    figures,
    implementation,
    implementations,
    notes,
    notes_on,
    studies,
)


def test_figures_are_named_after_their_study_and_numbered() -> None:
    counts: Counter[str] = Counter()
    for figure in figures():
        counts[figure.study] += 1
        assert figure.figure == f"{figure.study}{counts[figure.study]:02d}"
    assert [*counts] == [study.study for study in studies()]


def test_figures_are_consistent() -> None:
    for figure in figures():
        assert figure.games > 0
        assert figure.seat in SEATS
        assert figure.draws_for in DRAWS_FOR
        assert figure.where
        assert 0 <= figure.win.least <= figure.win.most <= 100
        assert figure.draw is None or 0 <= figure.draw.least <= figure.draw.most <= 100 - figure.win.least


def test_wins_draws_and_losses_add_up() -> None:
    text = (files("analytics.published") / "figures.csv").read_text(encoding="utf-8")
    whole = [row for row in csv.DictReader(text.splitlines()) if row["loss"]]
    assert len(whole) > 40
    for row in whole:
        assert float(row["win"]) + float(row["draw"] or 0) + float(row["loss"]) == pytest.approx(100), row["figure"]


def test_some_published_figures_are_those_of_the_studies() -> None:
    """Copied from the studies' texts by hand, each another way of publishing."""
    known = {figure.figure: figure for figure in figures()}
    chosen = ("A01", "A27", "B01", "B06", "B09", "C01", "D03", "E11")
    assert [(known[name].player, known[name].win.text, known[name].games) for name in chosen] == [
        ("ga5", "28.2", 1000),
        ("ga5", "25.3", 1000),
        ("ga2(beta=0.2)", "83.2", 1000),
        ("ga_minimax(depth=1)", "75-80", 1000),
        ("q_placement", "73.69", 30000),
        ("rl_encoded(training)", "54.43", 9800),
        ("own_piece_alpha_beta", "98.0", 50),
        ("genetic_minimax", "46.66", 15),
    ]


def test_every_note_is_of_rows_that_exist_and_says_something() -> None:
    known = {figure.figure for figure in figures()}
    assert notes()
    for note in notes():
        assert note.figures
        assert known.issuperset(note.figures)
        assert note.certainty in ("proven", "likely")
        assert re.fullmatch(r"[A-Z`].{30,}\.", note.note)
        assert all(note in notes_on(figure) for figure in note.figures)


def test_every_implementation_is_of_a_player_of_some_figure() -> None:
    players = {(label, figure.version) for figure in figures() for label in (figure.player, figure.opponent)}
    met = {(each.player, each.version) for player in players if (each := implementation(*player))}
    assert met == implementations().keys()
