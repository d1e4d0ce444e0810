"""Published figures beside ours: whether they agree; tables, charts, document and page of ``qarena reproduce``."""

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
from analytics.statistics.tally import ResultCounts as Counts

LEGEND = (
    "Student studies published how often their players win. Here the same players, written anew, play again: "
    "games won, in %, with 95 % intervals. “Ours by the text” plays as the study's text says. “Ours by the code” "
    "plays as its program does (`faithful: true`), in the figure's version; it stands where text and program are "
    "known to differ. A rate agrees if it is within three points of the published rate, or if the two intervals "
    "overlap. No parameter was tuned to come closer to a published figure."
)


@dataclass(frozen=True)
class MeasuredRate:
    """The result of a published pairing, played by two of our agents."""

    player: str  # labels
    opponent: str
    games: int  # those in which the player had the published seat
    rate: Estimate  # of wins, with draws counted as in the study
    draws: float  # share of games
    agrees: bool


@dataclass(frozen=True)
class ComparedRate:
    """A published figure and ours. None: not played yet, or ``code`` is not known to differ from ``text``."""

    figure: PublishedRate
    text: MeasuredRate | None
    code: MeasuredRate | None

    @property
    def notes(self) -> Sequence[Note]:
        return select_notes(self.figure.figure)


def build_measured_rate(figure: PublishedRate, player: str, opponent: str, results: Counts) -> MeasuredRate:
    """The result to compare with a figure. ``results`` are ``player``'s (losses, draws, wins) in the published seat."""
    rate = estimate_win_rate(results, figure.draws_for)
    games = sum(results)
    return MeasuredRate(player, opponent, games, rate, results[DRAW] / max(1, games), is_in_agreement(figure, rate))


NOT_AVAILABLE = "·"  # not known, or not played yet


@dataclass(frozen=True)
class Reproduction:
    """Comparisons and their notes, which are numbered in the order of their first use."""

    comparisons: tuple[ComparedRate, ...]

    @property
    def comparisons_by_study(self) -> Iterator[tuple[Study, list[ComparedRate]]]:
        """Each study that occurs, with its comparisons."""
        for study in read_studies():
            own = [each for each in self.comparisons if each.figure.study == study.study]
            if own:
                yield study, own

    @cached_property
    def notes(self) -> list[Note]:
        """The notes in the order of the figures that they explain; the first one has number 1."""
        return list(dict.fromkeys(note for each in self.comparisons for note in each.notes))

    def build_columns(self, comparisons: Sequence[ComparedRate]) -> dict[str, ResultColumn]:
        """Comparisons as columns of texts by name, those without any value left out; ``note`` has numbers of notes."""
        figures, ours = [each.figure for each in comparisons], [each.text or each.code for each in comparisons]
        pairs = [*zip(figures, ours, strict=True)]
        texts, codes = [each.text for each in comparisons], [each.code for each in comparisons]
        drawn = [
            f"{of.draw.text} : {format_percent_tenths(one.draws)}" if of.draw and one else NOT_AVAILABLE
            for of, one in pairs
        ]
        found = {
            "figure": text_column("", [each.figure for each in figures]),
            "player": text_column("player", [each.player for each in figures]),
            "opponent": text_column("opponent", [each.opponent for each in figures]),
            "seat": text_column("seat", [each.seat for each in figures]),
            "published": ResultColumn(
                "published",
                [f"{each.win.text} ({_format_interval(estimate_published_rate(each))})" for each in figures],
            ),
            "text": ResultColumn("ours by the text", [_format_rate(one) for one in texts]),
            "text_agrees": text_column("agrees", [_format_agreement(one) for one in texts]),
            "code": ResultColumn("ours by the code", [_format_rate(one) for one in codes]),
            "code_agrees": text_column("agrees", [_format_agreement(one) for one in codes]),
            "draws": ResultColumn("draws published : ours", drawn),
            "games": ResultColumn("games", [f"{one.games:,}" if one else NOT_AVAILABLE for one in ours]),
            "note": text_column("note", [" ".join(map(str, self.list_note_numbers(each))) for each in comparisons]),
            "where": text_column("where published", ["; ".join(filter(None, (of.where, of.remark))) for of in figures]),
        }
        return {name: column for name, column in found.items() if {*column.texts} - {"", NOT_AVAILABLE}}

    def list_note_numbers(self, comparison: ComparedRate) -> list[int]:
        """The numbers of the notes on a comparison."""
        return [1 + self.notes.index(note) for note in comparison.notes]

    def describe_agreement_counts(self) -> str:
        """The number of figures that agree, in a sentence."""
        compared = [each for each in self.comparisons if each.text or each.code]
        text = sum(each.text is not None and each.text.agrees for each in compared)
        either = sum(any(one is not None and one.agrees for one in (each.text, each.code)) for each in compared)
        left = len(self.comparisons) - len(compared)
        counts = f"{text} of {len(compared)} published figures agree with ours by the text, {either}"
        sentence = f"{counts} by the text or by the code"
        return f"{sentence}; {left} have not been played yet" if left else sentence


def _format_interval(estimate: Estimate) -> str:
    return format_interval(estimate.low, estimate.high, format_percent_tenths)


def _format_rate(measured_rate: MeasuredRate | None) -> str:
    return (
        NOT_AVAILABLE
        if measured_rate is None
        else f"{format_percent_tenths(measured_rate.rate.mean)} ({_format_interval(measured_rate.rate)})"
    )


def _format_agreement(measured_rate: MeasuredRate | None) -> str:
    return NOT_AVAILABLE if measured_rate is None else "yes" if measured_rate.agrees else "no"


def render_markdown(reproduction: Reproduction, command_note: str) -> str:
    """All comparisons as a Markdown document; ``command_note`` says by which command."""
    parts = ["# Published figures and ours", command_note, LEGEND, f"{reproduction.describe_agreement_counts()}."]
    for study, comparisons in reproduction.comparisons_by_study:
        table = Table("", [*reproduction.build_columns(comparisons).values()]).markdown
        parts += [f"## Study {study.study}: {study.title}", f"Source: {study.source}", table]
    if reproduction.notes:
        listed = enumerate(reproduction.notes, 1)
        parts += ["## Notes", "\n".join(f"{number}. {format_note(note)}" for number, note in listed)]
    return "\n\n".join(parts) + "\n"


def format_note(note: Note) -> str:
    """A note after its certainty."""
    return f"{note.certainty.capitalize()}: {note.note}"


AGREEMENT_MARGIN = 0.03  # rates that differ by at most this agree, even if their intervals do not overlap


def count_results_in_seat(tally: Tally, seat: str) -> ResultCounts:
    """The first agent's (losses, draws, wins) in the games where it had ``seat``, a key of ``published.SEATS``."""
    losses, draws, wins = (sum(counts) for counts in zip(*(tally.results(each) for each in SEATS[seat]), strict=True))
    return losses, draws, wins


def estimate_win_rate(results: ResultCounts, draws_for: str) -> Estimate:
    """The share of games that (losses, draws, wins) count as won, with Wilson's interval; (0, 0, 1) without games.

    ``draws_for='player'``: drawn games count as won, as in a study that counts them for the player.
    """
    games, won = sum(results), results[WIN] + (results[DRAW] if draws_for == "player" else 0)
    return Estimate(won / games if games else 0.0, *wilson_interval(won, games))


def estimate_published_rate(figure: PublishedRate) -> Estimate:
    """The published share of games won with Wilson's interval for as many games.

    For a range: its middle, and an interval that covers those of both ends.
    """
    least, most = figure.win.least / 100, figure.win.most / 100
    low, _ = wilson_interval(least * figure.games, figure.games)
    _, high = wilson_interval(most * figure.games, figure.games)
    return Estimate((least + most) / 2, low, high)


def is_in_agreement(figure: PublishedRate, ours: Estimate) -> bool:
    """Whether our rate is within three points of the published figure or range, or the two intervals overlap."""
    theirs = estimate_published_rate(figure)
    away = max(figure.win.least / 100 - ours.mean, ours.mean - figure.win.most / 100, 0.0)
    return away <= AGREEMENT_MARGIN + 1e-12 or (ours.low <= theirs.high and theirs.low <= ours.high)


TINTS = {"yes": 0.5, "no": -0.5}  # behind the answer to whether rates agree


def render_page(reproduction: Reproduction, command_note: str, plots: Mapping[str, str]) -> str:
    """The page. ``command_note`` says by which command; ``plots``: a chart as SVG by the letter of its study."""
    return render_template(
        "reproduction.html",
        title="Published figures and ours",
        made=command_note,
        legend=LEGEND,
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
        notes=[format_note(note) for note in reproduction.notes],
    )


def _build_study_table(reproduction: Reproduction, study: Study, comparisons: Sequence[ComparedRate]) -> Table:
    """For our rates the labels of the agents appear as a hint."""
    columns = reproduction.build_columns(comparisons)
    cells = {
        "text": _build_cells(columns, "text", hints=[_format_agent_labels(each.text) for each in comparisons]),
        "code": _build_cells(columns, "code", hints=[_format_agent_labels(each.code) for each in comparisons]),
        "text_agrees": _build_cells(columns, "text_agrees"),
        "code_agrees": _build_cells(columns, "code_agrees"),
        "note": [Cell("", notes=tuple(reproduction.list_note_numbers(each))) for each in comparisons],
    }
    shown = [column._replace(texts=cells.get(name, column.texts)) for name, column in columns.items()]
    return Table(f"Study {study.study}: games won, in %", shown)


def _build_cells(columns: Mapping[str, ResultColumn], name: str, hints: Sequence[str] = ()) -> list[Cell]:
    texts = columns[name].texts if name in columns else ()
    return [Cell(text, hint=hint, tint=TINTS.get(text)) for text, hint in zip_longest(texts, hints, fillvalue="")]


def _format_agent_labels(measured_rate: MeasuredRate | None) -> str:
    return f"{measured_rate.player} v {measured_rate.opponent}" if measured_rate else ""


SERIES = ["published", "ours by the text", "ours by the code"]
COLOURS = [INK, "#0072b2", "#d55e00"]  # colour-blind readers can distinguish them (Okabe and Ito), also by shape
SHAPES = ["diamond", "circle", "square"]
ROW_HEIGHT = 30  # pixels
WIDTH = 620
LABEL_WIDTH = 260  # pixels: wide enough for every label, so that all charts have the same left edge


def render_charts(reproduction: Reproduction) -> Mapping[str, str]:
    """A chart of each study as SVG for the middle of a page, by the study's letter."""
    return {
        study.study: render_inline_svg(build_chart(comparisons), f"study{study.study}-")
        for study, comparisons in reproduction.comparisons_by_study
    }


def build_chart(comparisons: Sequence[ComparedRate]) -> Spec:
    """The comparisons of one study, one row each."""
    names = [_format_figure_label(each.figure) for each in comparisons]
    labels = {"labelLimit": LABEL_WIDTH, "minExtent": LABEL_WIDTH, "grid": True, "tickBand": "extent"}
    of_series = {"sort": SERIES, "title": None}
    scale, axis = {"domain": [0, 100], "nice": False}, {"values": [*range(0, 101, 10)]}
    reach = {
        "x": quantitative("low", scale=scale, axis=axis, title="games won, % (95 % interval)"),
        "x2": range_end("high"),
    }
    point = {
        "x": quantitative("rate", scale=scale),
        "shape": nominal("series", scale={"domain": SERIES, "range": SHAPES}, **of_series),
    }
    return {
        "width": WIDTH,
        "height": {"step": ROW_HEIGHT, "for": "position"},
        "data": inline_data(point for each in comparisons for point in _list_points(each)),
        "encoding": {
            "y": nominal("figure", sort=names, title=None, axis=labels),
            "yOffset": nominal("series", sort=SERIES, scale={"paddingOuter": 0.4}),
            "color": nominal("series", scale={"domain": SERIES, "range": COLOURS}, **of_series),
        },
        "layer": [
            layer("rule", reach, strokeWidth=2),
            layer("point", point, filled=True, size=55, opacity=1),
        ],
    }


def _format_figure_label(figure: PublishedRate) -> str:
    seat = "" if figure.seat == "both" else f", {figure.seat if figure.seat.isalpha() else f'seat {figure.seat}'}"
    return f"{figure.figure}  {figure.player} v {figure.opponent}{seat}"


def _list_points(comparison: ComparedRate) -> list[dict[str, Any]]:
    ours = [one.rate if one else None for one in (comparison.text, comparison.code)]
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
