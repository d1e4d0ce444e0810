"""Comparisons: the rule of agreement; the table's rows, Markdown, the page and its plots."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest

from analytics.report.published import (
    DRAWS_FOR,
    SEATS,
    Note,
    PercentRange,
    PublishedRate,
    find_implementation_or_last_version,
    read_implementations,
    read_notes,
    read_published_rates,
    read_studies,
    select_notes,
)
from analytics.report.published import reproduction as comparisons
from analytics.report.published.reproduction import (
    ComparedRate,
    MeasuredRate,
    Reproduction,
    build_chart,
    build_measured_rate,
    count_results_in_seat,
    estimate_published_rate,
    estimate_win_rate,
    is_in_agreement,
    render_charts,
    render_markdown,
    render_page,
)
from analytics.report.style import render_svg
from analytics.statistics.tally import Estimate, Tally, wilson_interval

TO = "\N{EN DASH}"  # within an interval

FIRST = Note(("A01", "A02"), "proven", "A <first> note with `code` on two figures.")
SECOND = Note(("A02",), "likely", "A second note.")

FIGURE = PublishedRate(
    figure="A01",
    study="A",
    player="ga5",
    opponent="rule_based",
    rules="classic",
    seat="both",
    games=1000,
    win=PercentRange("28.2", 28.2, 28.2),
    draw=None,
    draws_for="opponent",
    version="earlier",
    where="README",
    remark="",
)

# 100 pairs; the first agent's (losses, draws, wins) are (30, 10, 60) in seat 0 and (50, 20, 30) in seat 1.
TALLY = Tally(pairs=((20, 5, 5), (5, 5, 0), (25, 10, 25)))


def figure(win: str = "28.2", games: int = 1000, seat: str = "both", draws_for: str = "opponent") -> PublishedRate:
    """Return ``FIGURE`` with other values."""
    span = PercentRange.parse(win)
    assert span
    return replace(FIGURE, win=span, games=games, seat=seat, draws_for=draws_for)


def ours(of: PublishedRate, tally: Tally = TALLY) -> MeasuredRate:
    return build_measured_rate(of, of.player, of.opponent, count_results_in_seat(tally, of.seat))


def comparison(of: PublishedRate, text: bool = True, code: bool = False) -> ComparedRate:
    return ComparedRate(of, ours(of) if text else None, ours(of, TALLY.with_agents_swapped) if code else None)


@pytest.fixture
def reproduction(monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    """Build three figures of two studies, with notes: played by text and code, by the text alone, and not yet."""
    notes = {"A01": [FIRST], "A02": [FIRST, SECOND]}
    monkeypatch.setattr(comparisons, "select_notes", lambda figure: notes.get(figure, []))
    drawn = replace(
        figure("44.4"), figure="A02", opponent="random", seat="0", remark="of two", draw=PercentRange("0-0.5", 0.0, 0.5)
    )
    unplayed = replace(FIGURE, figure="C01", study="C", player="rl_encoded(training)")
    return Reproduction(
        (comparison(figure("44.4"), code=True), comparison(drawn), comparison(unplayed, text=False)),
    )


def rows_of(reproduction: Reproduction) -> list[tuple[str, ...]]:
    columns = reproduction.build_columns(reproduction.comparisons)
    return [*zip(*(column.texts for column in columns.values()), strict=True)]


def test_a_row_has_both_variants_with_intervals_and_verdicts(reproduction: Reproduction) -> None:
    first, second, third = rows_of(reproduction)
    assert first == (
        *("A01", "ga5", "rule_based", "both", f"44.4 (41.3{TO}47.5)"),
        *(f"45.0 (38.3{TO}51.9)", "yes", f"40.0 (33.5{TO}46.9)", "yes", "·", "200", "1", "README"),
    )
    assert second[4:] == (
        *(f"44.4 (41.3{TO}47.5)", f"60.0 (50.2{TO}69.1)", "no", "·", "·", "0-0.5 : 10.0", "100", "1 2"),
        "README; of two",
    )
    assert third[5:] == ("·", "·", "·", "·", "·", "·", "", "README")


def test_columns_that_say_nothing_are_left_out(reproduction: Reproduction) -> None:
    every = [*reproduction.build_columns(reproduction.comparisons)]
    assert len(every) == 13
    assert [*reproduction.build_columns(reproduction.comparisons[:1])] == [name for name in every if name != "draws"]
    alone = ["figure", "player", "opponent", "seat", "published", "where"]
    assert [*reproduction.build_columns(reproduction.comparisons[2:])] == alone


def test_agreeing_figures_are_counted(reproduction: Reproduction) -> None:
    sentence = "1 of 2 published figures agree with ours by the text, 1 by the text or by the code"
    assert reproduction.describe_agreement_counts() == f"{sentence}; 1 have not been played yet"
    assert Reproduction(reproduction.comparisons[:2]).describe_agreement_counts() == sentence
    away = figure("90")
    agreeing_by_code = comparison(replace(figure("40"), figure="A03"), code=True)
    far = replace(agreeing_by_code, text=comparison(away).text)
    assert far.text
    assert not far.text.agrees
    assert (
        Reproduction((far,))
        .describe_agreement_counts()
        .startswith("0 of 1 published figures agree with ours by the text, 1 by")
    )


def test_the_document_has_a_table_a_study_and_the_notes(reproduction: Reproduction) -> None:
    text = render_markdown(reproduction, "Made by hand.")
    assert text.startswith("# Published figures and ours\n\nMade by hand.\n\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[-1] == "Notes"
    assert "## Study A: Rules of thumb and minimax\n\nSource: github.com/lorenzobellino/quarto-player\n\n|" in text
    assert "1. Proven: A <first> note with `code` on two figures.\n2. Likely: A second note.\n" in text
    tables = [block.split("\n") for block in text.split("\n\n") if block.startswith("|")]
    assert [len(table) for table in tables] == [4, 3]
    for table in tables:
        assert len({line.count("|") for line in table}) == 1
    heading, marks, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in tables[0])
    assert heading[4:7] == ["published", "ours by the text", "agrees"]
    assert marks[4].endswith("-:")
    assert rows[1][5:7] == [f"60.0 (50.2{TO}69.1)", "no"]


def test_the_page_has_the_same_tables_and_needs_nothing_from_elsewhere(reproduction: Reproduction) -> None:
    plots = render_charts(reproduction)
    assert list(plots) == ["A", "C"]
    text = render_page(reproduction, "Made by `hand` & eye.", plots)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in text.split("<tr")]
    rows = [tuple(unescape(re.sub("<.*?>", "", cell)).strip() for cell in row) for row in cells if row and row[0]]
    assert [row[:3] for row in rows] == [
        ("A01", "ga5", "rule_based"),
        ("A02", "ga5", "random"),
        ("C01", "rl_encoded(training)", "rule_based"),
    ]
    assert rows_of(reproduction)[1] == rows[1]
    assert "Made by <code>hand</code> &amp; eye." in text
    assert '<li id="note-1">Proven: A &lt;first&gt; note with <code>code</code>' in text
    assert set(re.findall(r'(?:href|src|data)="([^"]*)"', text)) == {"#note-1", "#note-2"}
    assert not re.search("<(script|link|img|iframe)", text)
    assert not re.search(r"@import|url\(", text.replace("url(#", ""))
    assert "//" not in text
    assert text.count("<svg") == len(plots)


def test_a_panel_shows_each_rate_with_its_interval(reproduction: Reproduction) -> None:
    plots = {
        study.study: render_svg(build_chart(comparisons)) for study, comparisons in reproduction.comparisons_by_study
    }
    for study, points in (("A", 5), ("C", 1)):
        drawing = ET.fromstring(plots[study])  # noqa: S314  (made here)
        marks = [element.get("class", "") for element in drawing.iter()]
        assert sum("mark-rule role-mark" in mark for mark in marks) == 1
        described = [element.get("aria-label", "") for element in drawing.iter() if element.tag.endswith("path")]
        assert sum("series: " in text for text in described) == points
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plots["A"])
    assert "A02 ga5 v random, seat 0" in [" ".join(text.split()) for text in texts]
    assert "games won, % (95 % interval)" in texts


def test_a_panel_has_rates_and_ends_of_intervals_in_percent() -> None:
    compared = comparison(figure("44.4"))
    assert compared.text is not None
    rates = [estimate_published_rate(compared.figure), compared.text.rate]
    points = build_chart([compared])["data"]["values"]
    estimates = [(point["rate"], point["low"], point["high"]) for point in points]
    assert estimates == [pytest.approx((100 * rate.mean, 100 * rate.low, 100 * rate.high)) for rate in rates]


def test_every_published_figure_can_be_told() -> None:
    """Render real names, ranges and notes in all three forms, as before anything is played."""
    every = Reproduction(tuple(comparison(rate, text=False) for rate in read_published_rates()))
    text = render_markdown(every, "")
    assert all(f"| {rate.figure} |" in text for rate in read_published_rates())
    assert all(name in render_page(every, "", {}) for name in ("A34", "B10", "C01", "D03", "E11"))


@pytest.mark.parametrize(
    ("seat", "expected"),
    [
        ("0", (30, 10, 60)),
        ("1", (50, 20, 30)),
        ("first", (50, 20, 30)),  # seat 1 places first
        ("second", (30, 10, 60)),
        ("both", (80, 30, 90)),
    ],
)
def test_results_in_the_published_seat(seat: str, expected: tuple[int, int, int]) -> None:
    assert count_results_in_seat(TALLY, seat) == expected
    alone = Tally(singles=((0, 0, 0), (4, 1, 5)))
    assert count_results_in_seat(alone, "1") == count_results_in_seat(alone, "both") == (4, 1, 5)
    assert count_results_in_seat(alone, "0") == (0, 0, 0)


@pytest.mark.parametrize(("draws_for", "won"), [("player", 120), ("opponent", 90), ("nobody", 90)])
def test_a_draw_counts_for_whom_the_study_counted_it(draws_for: str, won: int) -> None:
    estimate = estimate_win_rate((80, 30, 90), draws_for)
    assert estimate.mean == won / 200
    assert (estimate.low, estimate.high) == wilson_interval(won, 200)
    assert estimate_win_rate((0, 0, 0), draws_for) == Estimate(0.0, 0.0, 1.0)


def test_a_published_figure_has_the_interval_of_its_games() -> None:
    estimate = estimate_published_rate(figure("28.2", games=1000))
    assert estimate.mean == pytest.approx(0.282)
    assert (estimate.low, estimate.high) == pytest.approx((0.2550, 0.3107), abs=5e-4)  # Wilson's, by hand
    few = estimate_published_rate(figure("60.0", games=10))
    assert (few.low, few.high) == pytest.approx((0.3127, 0.8318), abs=5e-4)
    # A range reaches from the lower end of one interval to the upper end of the other.
    estimate, one, two = (estimate_published_rate(figure(win)) for win in ("80-84", "80", "84"))
    assert estimate.mean == pytest.approx(0.82)
    assert (estimate.low, estimate.high) == (one.low, two.high)


@pytest.mark.parametrize(
    ("win", "games", "rate", "reach", "expected"),
    [
        ("50", 1_000_000, 0.5299, 0.0, True),  # within three points
        ("50", 1_000_000, 0.5301, 0.0, False),
        ("50", 1_000_000, 0.4701, 0.0, True),
        ("50", 1_000_000, 0.4699, 0.0, False),
        ("50", 1_000_000, 0.54, 0.045, True),  # our interval reaches theirs
        ("50", 100, 0.59, 0.0, True),  # theirs reaches us: 40.4 to 59.6
        ("50", 100, 0.60, 0.0, False),
        ("50", 100, 0.39, 0.02, True),
        ("40-60", 1_000_000, 0.62, 0.0, True),  # of a range, the nearer end counts
        ("40-60", 1_000_000, 0.50, 0.0, True),
        ("40-60", 1_000_000, 0.38, 0.0, True),
        ("40-60", 1_000_000, 0.64, 0.0, False),
        ("40-60", 1_000_000, 0.36, 0.0, False),
        ("100", 1_000_000, 0.97, 0.0, True),
        ("0", 1_000_000, 0.04, 0.0, False),
    ],
)
def test_rates_agree_within_three_points_or_their_intervals(
    win: str, games: int, rate: float, reach: float, expected: bool
) -> None:
    assert is_in_agreement(figure(win, games), Estimate(rate, rate - reach, rate + reach)) is expected


# The tables of figures are consistent with each other and with what the studies say.


def test_figures_are_named_after_their_study_and_numbered() -> None:
    counts: Counter[str] = Counter()
    for figure in read_published_rates():
        counts[figure.study] += 1
        assert figure.figure == f"{figure.study}{counts[figure.study]:02d}"
    assert [*counts] == [study.study for study in read_studies()]


def test_figures_are_consistent() -> None:
    for figure in read_published_rates():
        assert figure.games > 0
        assert figure.seat in SEATS
        assert figure.draws_for in DRAWS_FOR
        assert figure.where
        assert 0 <= figure.win.least <= figure.win.most <= 100
        assert figure.draw is None or 0 <= figure.draw.least <= figure.draw.most <= 100 - figure.win.least


def test_wins_draws_and_losses_add_up() -> None:
    text = (files("analytics.report.published") / "figures.csv").read_text(encoding="utf-8")
    complete_rows = [row for row in csv.DictReader(text.splitlines()) if row["loss"]]
    assert len(complete_rows) > 40
    for row in complete_rows:
        assert float(row["win"]) + float(row["draw"] or 0) + float(row["loss"]) == pytest.approx(100), row["figure"]


def test_some_published_figures_are_those_of_the_studies() -> None:
    """Compare figures with those copied from the studies' texts by hand; each is published in another way."""
    figures = {figure.figure: figure for figure in read_published_rates()}
    chosen = ("A01", "A27", "B01", "B06", "B09", "C01", "D03", "E11")
    assert [(figures[name].player, figures[name].win.text, figures[name].games) for name in chosen] == [
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
    figure_names = {figure.figure for figure in read_published_rates()}
    assert read_notes()
    for note in read_notes():
        assert note.figures
        assert figure_names.issuperset(note.figures)
        assert note.certainty in ("proven", "likely")
        assert re.fullmatch(r"[A-Z`].{30,}\.", note.note)
        assert all(note in select_notes(figure) for figure in note.figures)


def test_every_implementation_is_of_a_player_of_some_figure() -> None:
    players = {
        (label, figure.version) for figure in read_published_rates() for label in (figure.player, figure.opponent)
    }
    met = {
        (implementation.player, implementation.version)
        for player in players
        if (implementation := find_implementation_or_last_version(*player))
    }
    assert met == read_implementations().keys()
