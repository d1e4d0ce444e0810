"""Published figures beside ours: whether they agree, and the tables, charts and documents of ``qarena reproduce``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from analytics.questions.columns import Cell, ResultColumn, Table, format_interval, format_percent_tenths, text_column
from analytics.report.published import SEATS, Note, PublishedRate, Study, read_studies, select_notes
from analytics.report.rendering import render_template
from analytics.report.style import INK, render_inline_svg
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative, range_end
from analytics.statistics.tally import DRAW, WIN, Estimate, ResultCounts, Tally, wilson_interval

LEGEND = (
    "Student studies published how often their players win. We wrote the same players anew and let them play again. "
    "The tables have the share of its games that the player won, in %, with 95 % intervals. “Ours by the text” plays "
    "as the study's text says. “Ours by the code” plays as the study's program did when the figure was measured "
    "(`faithful: true`); the column holds `·` if text and program are not known to differ. A rate agrees if it is "
    "within three points of the published rate, or if the two intervals overlap. We tuned no parameter to come closer "
    "to a published figure.\n\n"
    "Seat 0 gives the first piece, seat 1 places it. In study D the mover chooses the piece: “first” is the player "
    "that places first, “second” the other one. `(training)` marks games from which the player learned while it played "
    "them. Some studies published a range, such as `80-84`: a rate agrees if it is within three points of the range. "
    "Others published the wins in each block of 200, 300 or 1,000 games in a row: the published rate is then the "
    "mean of the blocks. Study A counted a drawn game as won by the opponent (by the player where the table says "
    "“measured as”), so our rates of study A do the same. A note begins with “Proven” if an experiment of ours shows "
    "the cause, and with “Likely” if we only infer it."
)


@dataclass(frozen=True)
class MeasuredRate:
    """The result of a published pairing when two of our agents play it."""

    player: str  # label
    opponent: str
    games: int  # games in which the player had the published seat
    rate: Estimate  # share of games won, with draws counted as in the study
    draws: float  # share of games
    agrees: bool


@dataclass(frozen=True)
class ComparedRate:
    """A published figure, and the rates that our agents reach in the same pairing.

    ``text`` is the rate of the agents that follow the study's text, and ``code`` is that of the agents that follow its
    code.
    """

    figure: PublishedRate
    text: MeasuredRate | None  # None: not played yet
    code: MeasuredRate | None  # None: not played yet, or not known to differ from ``text``

    @property
    def notes(self) -> Sequence[Note]:
        """The notes that explain the published figure."""
        return select_notes(self.figure.figure)


def build_measured_rate(figure: PublishedRate, player: str, opponent: str, results: ResultCounts) -> MeasuredRate:
    """Build our result for a published figure, and determine whether the two agree.

    ``player`` and ``opponent`` are the labels of our agents. ``results`` are the losses, draws and wins of ``player``
    in the published seat.
    """
    rate = estimate_win_rate(results, figure.draws_for)
    games = sum(results)
    return MeasuredRate(player, opponent, games, rate, results[DRAW] / max(1, games), is_in_agreement(figure, rate))


NOT_AVAILABLE = "·"  # not known, or not played yet


@dataclass(frozen=True)
class Reproduction:
    """Comparisons of published figures with ours. Notes are numbered in the order of their first use."""

    comparisons: tuple[ComparedRate, ...]

    @property
    def comparisons_by_study(self) -> Iterator[tuple[Study, list[ComparedRate]]]:
        """Each study that has comparisons, together with these comparisons, in the order of ``read_studies``."""
        for study in read_studies():
            comparisons = [rate for rate in self.comparisons if rate.figure.study == study.study]
            if comparisons:
                yield study, comparisons

    @cached_property
    def notes(self) -> list[Note]:
        """The notes, in the order of the figures that they explain. The first note has number 1."""
        return list(dict.fromkeys(note for comparison in self.comparisons for note in comparison.notes))

    def build_columns(self, comparisons: Sequence[ComparedRate]) -> dict[str, ResultColumn]:
        """Build the columns of a table of comparisons, by name; the column ``note`` has the numbers of the notes.

        A column without any value is left out.
        """
        figures = [comparison.figure for comparison in comparisons]
        texts, codes = [comparison.text for comparison in comparisons], [comparison.code for comparison in comparisons]
        ours = [text or code for text, code in zip(texts, codes, strict=True)]
        draws = [
            f"{figure.draw.text} : {format_percent_tenths(measured.draws)}"
            if figure.draw and measured
            else NOT_AVAILABLE
            for figure, measured in zip(figures, ours, strict=True)
        ]
        columns = {
            "figure": text_column("", [figure.figure for figure in figures]),
            "player": text_column("player", [figure.player for figure in figures]),
            "opponent": text_column("opponent", [figure.opponent for figure in figures]),
            "seat": text_column("seat", [figure.seat for figure in figures]),
            "published": ResultColumn(
                "published",
                [f"{figure.win.text} ({_format_interval(estimate_published_rate(figure))})" for figure in figures],
            ),
            "text": ResultColumn("ours by the text", [_format_rate_and_interval(measured) for measured in texts]),
            "text_agrees": text_column("agrees", [_format_agreement(measured) for measured in texts]),
            "code": ResultColumn("ours by the code", [_format_rate_and_interval(measured) for measured in codes]),
            "code_agrees": text_column("agrees", [_format_agreement(measured) for measured in codes]),
            "draws": ResultColumn("draws published : ours", draws),
            "games": ResultColumn("games", [f"{measured.games:,}" if measured else NOT_AVAILABLE for measured in ours]),
            "note": text_column("note", [" ".join(map(str, self.list_note_numbers(rate))) for rate in comparisons]),
            "where": text_column(
                "where published", ["; ".join(filter(None, (figure.where, figure.remark))) for figure in figures]
            ),
        }
        return {name: column for name, column in columns.items() if {*column.texts} - {"", NOT_AVAILABLE}}

    def list_note_numbers(self, comparison: ComparedRate) -> list[int]:
        """List the numbers of the notes that explain a comparison."""
        return [1 + self.notes.index(note) for note in comparison.notes]

    def describe_agreement_counts(self) -> str:
        """Describe in a sentence how many published figures agree with ours.

        If there are figures whose games our agents have not played yet, the sentence says how many.
        """
        played = [rate for rate in self.comparisons if rate.text or rate.code]
        by_text = sum(rate.text is not None and rate.text.agrees for rate in played)
        by_either = sum(any(ours is not None and ours.agrees for ours in (rate.text, rate.code)) for rate in played)
        missing = len(self.comparisons) - len(played)
        counts = f"{by_text} of {len(played)} published figures agree with ours by the text, {by_either}"
        sentence = f"{counts} by the text or by the code"
        return f"{sentence}; {missing} have not been played yet" if missing else sentence


def _format_interval(estimate: Estimate) -> str:
    return format_interval(estimate.low, estimate.high, format_percent_tenths)


def _format_rate_and_interval(measured_rate: MeasuredRate | None) -> str:
    """Format our rate and its interval in percent, or return ``NOT_AVAILABLE`` if it was not measured."""
    return (
        NOT_AVAILABLE
        if measured_rate is None
        else f"{format_percent_tenths(measured_rate.rate.mean)} ({_format_interval(measured_rate.rate)})"
    )


def _format_agreement(measured_rate: MeasuredRate | None) -> str:
    """Return "yes" if our rate agrees with the published one, and "no" if not.

    Return ``NOT_AVAILABLE`` if our rate was not measured.
    """
    return NOT_AVAILABLE if measured_rate is None else "yes" if measured_rate.agrees else "no"


def render_markdown(reproduction: Reproduction, command_note: str) -> str:
    """Render all comparisons as a Markdown document; ``command_note`` says which command produced it."""
    parts = ["# Published figures and ours", command_note, LEGEND, f"{reproduction.describe_agreement_counts()}."]
    for study, comparisons in reproduction.comparisons_by_study:
        table = Table("", [*reproduction.build_columns(comparisons).values()]).markdown
        parts += [f"## Study {study.study}: {study.title}", f"Source: {study.source}", table]
    if reproduction.notes:
        listed = enumerate(reproduction.notes, 1)
        parts += ["## Notes", "\n".join(f"{number}. {format_certainty_and_note(note)}" for number, note in listed)]
    return "\n\n".join(parts) + "\n"


def format_certainty_and_note(note: Note) -> str:
    """Format a note, with its certainty in front."""
    return f"{note.certainty.capitalize()}: {note.note}"


AGREEMENT_MARGIN = 0.03  # rates that differ by at most this agree, even if their intervals do not overlap


def count_results_in_seat(tally: Tally, seat: str) -> ResultCounts:
    """Count the losses, draws and wins of a tally's first agent in ``seat``, which is a key of ``published.SEATS``."""
    results = (tally.losses_draws_wins_in_game(number) for number in SEATS[seat])
    losses, draws, wins = (sum(counts) for counts in zip(*results, strict=True))
    return losses, draws, wins


def estimate_win_rate(results: ResultCounts, draws_for: str) -> Estimate:
    """Estimate the share of games won, with Wilson's interval; ``results`` are the losses, draws and wins.

    If ``draws_for`` is ``'player'``, a draw counts as a win, as in some studies; otherwise, it counts as not won.
    Without games, the estimate is 0, and its interval is from 0 to 1.
    """
    games, won = sum(results), results[WIN] + (results[DRAW] if draws_for == "player" else 0)
    return Estimate(won / games if games else 0.0, *wilson_interval(won, games))


def estimate_published_rate(figure: PublishedRate) -> Estimate:
    """Estimate the published share of games won, with Wilson's interval for the published number of games.

    If the study published a range, the estimate is its middle, and the interval covers the intervals of both ends.
    """
    least, most = figure.win.least / 100, figure.win.most / 100
    low, _ = wilson_interval(least * figure.games, figure.games)
    _, high = wilson_interval(most * figure.games, figure.games)
    return Estimate((least + most) / 2, low, high)


def is_in_agreement(figure: PublishedRate, ours: Estimate) -> bool:
    """Return whether our rate agrees with the published rate or range.

    They agree if they are at most three percentage points apart, or if their intervals overlap.
    """
    theirs = estimate_published_rate(figure)
    distance = max(figure.win.least / 100 - ours.mean, ours.mean - figure.win.most / 100, 0.0)
    return distance <= AGREEMENT_MARGIN + 1e-12 or (ours.low <= theirs.high and theirs.low <= ours.high)


TINTS = {"yes": 0.5, "no": -0.5}  # tints of the cells that say whether rates agree


def render_page(reproduction: Reproduction, command_note: str, plots: Mapping[str, str]) -> str:
    """Render the HTML page with all comparisons.

    ``command_note`` says which command produced the page. ``plots`` has a chart of each study as SVG; the key is the
    study's letter.
    """
    return render_template(
        "reproduction.html",
        title="Published figures and ours",
        made=command_note,
        legend=LEGEND.split("\n\n"),
        summary=reproduction.describe_agreement_counts(),
        studies=[
            {
                "title": f"Study {study.study}: {study.title}",
                "source": study.source,
                "svg": plots.get(study.study),
                "table": _build_study_table(reproduction, study, comparisons),
            }
            for study, comparisons in reproduction.comparisons_by_study
        ],
        notes=[format_certainty_and_note(note) for note in reproduction.notes],
    )


def _build_study_table(reproduction: Reproduction, study: Study, comparisons: Sequence[ComparedRate]) -> Table:
    """Build the table of a study; the labels of our agents appear as hints when the pointer rests on our rates."""
    columns = reproduction.build_columns(comparisons)
    cells = {
        "text": _build_tinted_cells(columns, "text", hints=[_format_agent_labels(rate.text) for rate in comparisons]),
        "code": _build_tinted_cells(columns, "code", hints=[_format_agent_labels(rate.code) for rate in comparisons]),
        "text_agrees": _build_tinted_cells(columns, "text_agrees"),
        "code_agrees": _build_tinted_cells(columns, "code_agrees"),
        "note": [Cell("", notes=tuple(reproduction.list_note_numbers(rate))) for rate in comparisons],
    }
    visible_columns = [column._replace(texts=cells.get(name, column.texts)) for name, column in columns.items()]
    return Table(f"Study {study.study}: games won, in %", visible_columns)


def _build_tinted_cells(columns: Mapping[str, ResultColumn], name: str, hints: Sequence[str] = ()) -> list[Cell]:
    """Build the cells of the column with this name; ``hints`` has a hint for each cell, or is empty.

    Cells that say "yes" or "no" are tinted.
    """
    texts = columns[name].texts if name in columns else ()
    return [Cell(text, hint=hint, tint=TINTS.get(text)) for text, hint in zip_longest(texts, hints, fillvalue="")]


def _format_agent_labels(measured_rate: MeasuredRate | None) -> str:
    """Format the labels of our two agents, or return "" if nothing was measured."""
    return f"{measured_rate.player} v {measured_rate.opponent}" if measured_rate else ""


SERIES = ["published", "ours by the text", "ours by the code"]
COLOURS = [INK, "#0072b2", "#d55e00"]  # colour-blind readers can distinguish them (Okabe and Ito), also by shape
SHAPES = ["diamond", "circle", "square"]
ROW_HEIGHT = 30  # pixels
WIDTH = 620
LABEL_WIDTH = 260  # pixels: wide enough for every label, so that all charts have the same left edge


def render_charts(reproduction: Reproduction) -> Mapping[str, str]:
    """Render a chart for each study, as SVG to be embedded in a page; return the charts by the study's letter."""
    return {
        study.study: render_inline_svg(build_chart(comparisons), f"study{study.study}-")
        for study, comparisons in reproduction.comparisons_by_study
    }


def build_chart(comparisons: Sequence[ComparedRate]) -> Spec:
    """Build the chart of comparisons, with a row for each comparison."""
    names = [_format_figure_label(rate.figure) for rate in comparisons]
    labels = {"labelLimit": LABEL_WIDTH, "minExtent": LABEL_WIDTH, "grid": True, "tickBand": "extent"}
    series_options = {"sort": SERIES, "title": None}
    scale, axis = {"domain": [0, 100], "nice": False}, {"values": [*range(0, 101, 10)]}
    interval = {
        "x": quantitative("low", scale=scale, axis=axis, title="games won, % (95 % interval)"),
        "x2": range_end("high"),
    }
    point = {
        "x": quantitative("rate", scale=scale),
        "shape": nominal("series", scale={"domain": SERIES, "range": SHAPES}, **series_options),
    }
    return {
        "width": WIDTH,
        "height": {"step": ROW_HEIGHT, "for": "position"},
        "data": inline_data(point for rate in comparisons for point in _list_points(rate)),
        "encoding": {
            "y": nominal("figure", sort=names, title=None, axis=labels),
            "yOffset": nominal("series", sort=SERIES, scale={"paddingOuter": 0.4}),
            "color": nominal("series", scale={"domain": SERIES, "range": COLOURS}, **series_options),
        },
        "layer": [
            layer("rule", interval, strokeWidth=2),
            layer("point", point, filled=True, size=55, opacity=1),
        ],
    }


def _format_figure_label(figure: PublishedRate) -> str:
    seat = "" if figure.seat == "both" else f", {figure.seat if figure.seat.isalpha() else f'seat {figure.seat}'}"
    return f"{figure.figure}  {figure.player} v {figure.opponent}{seat}"


def _list_points(comparison: ComparedRate) -> list[dict[str, Any]]:
    """List the points of a comparison in the chart: the published rate and those of our rates that were measured."""
    ours = [measured.rate if measured else None for measured in (comparison.text, comparison.code)]
    rates: list[Estimate | None] = [estimate_published_rate(comparison.figure), *ours]
    return [
        {
            "figure": _format_figure_label(comparison.figure),
            "series": series,
            "rate": 100 * rate.mean,
            "low": 100 * rate.low,
            "high": 100 * rate.high,
        }
        for series, rate in zip(SERIES, rates, strict=True)
        if rate
    ]
