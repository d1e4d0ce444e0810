"""The sections of a report: each a few words, pictures and tables about the chosen games, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import polars as pl

from analytics.report import style
from analytics.report.figures import learning, lengths, openings, regret, strength
from analytics.report.figures.chosen_games import Subject
from analytics.report.html import Html, Tinted, details, element, figure, joined, note, panels, table
from analytics.report.style import Panel
from quarto.notation import format_cell, format_piece

MOST_RUNS = 50  # rows of the table of runs
MOST_NAMED = 4  # agents of a run


class Section(NamedTuple):
    """A part of the report. One without a body is left out, and ``missing`` says why."""

    title: str
    body: Html
    missing: str = ""


def chip(of: Subject, agent: str) -> Html:
    """A square in an agent's colour."""
    return element("span", class_=f"chip agent-{of.agents.index(agent)}", aria_hidden="true")


def named(of: Subject, agent: str) -> Html:
    """An agent's label after its square."""
    return joined([chip(of, agent), agent])


def percent(share: float, digits: int = 1) -> str:
    """``62.3 %``."""
    return f"{100 * share:.{digits}f} %"


def between(low: float, high: float, form: Callable[[float], str]) -> str:
    """The ends of an interval."""
    return f"{form(low)} to {form(high)}"


def drawn(of: Subject, prefix: str, found: Sequence[Panel], notes: Sequence[str] = ()) -> Html:
    """Panels as figures, each with its note; ``prefix`` makes their ids differ from those of other figures."""
    figures = []
    for number, panel in enumerate(found):
        title = joined([chip(of, panel.agent), panel.title]) if panel.agent is not None else panel.title
        picture = style.inline(panel.picture, f"{prefix}{number}-")
        figures.append(figure(picture, title, notes[number] if notes else ""))
    return panels(figures)


def crosstable(of: Subject) -> Section:
    """Who beats whom."""
    standings = strength.standings(of).standings
    if not standings:
        return Section("Crosstable", Html(""), "nobody met anybody else")
    forfeits = ["forfeits"] if any(standing.forfeits for standing in standings) else []
    scores = {(row["agent"], row["opponent"]): row["score"] for row in strength.crosstable_frame(of).to_dicts()}
    rows: list[list[str | Tinted]] = [
        [
            joined([f"{place} ", named(of, standing.agent)]),
            f"{100 * standing.score.mean:.1f}",
            between(standing.score.low, standing.score.high, lambda value: f"{100 * value:.1f}"),
            *(_score(scores.get((standing.agent, other.agent))) for other in standings),
            f"{standing.games:,}",
            *(percent(count / standing.games) for count in (standing.wins, standing.draws, standing.losses)),
            *([f"{standing.forfeits:,}"] if forfeits else []),
        ]
        for place, standing in enumerate(standings, 1)
    ]
    places = [str(place) for place in range(1, len(standings) + 1)]
    headings = ["agent", "score", "95 %", *places, "games", "won", "drawn", "lost", *forfeits]
    words = (
        "Points in percent, a draw counting half: over all games with others, and against each agent by its place. "
        f"Intervals are normal, over {'pairs, since games of a pair share an opening' if of.by_pairs else 'games'}."
    )
    return Section("Crosstable", joined([note(words), table("Who scores how much against whom", headings, rows)]))


def _score(score: float | None) -> str | Tinted:
    return "" if score is None else Tinted(f"{100 * score:.1f}", 2 * score - 1)


def ratings(of: Subject) -> Section:
    """How strong each agent is."""
    fit = strength.fitted(of)
    if fit is None:
        return Section("Ratings", Html(""), "nobody met anybody else")
    frame = strength.frame_of(fit)
    several = fit.groups > 1
    rows = [
        [
            named(of, row["agent"]),
            style.signed(row["elo"], 1) if row["bounded"] else "no bound",
            between(row["low"], row["high"], _elo) if row["bounded"] else "",
            f"{row['games']:,}",
            "" if row["above_next"] is None else percent(row["above_next"]),
            *([str(row["group"] + 1)] if several else []),
        ]
        for row in frame.iter_rows(named=True)
    ]
    headings = ["agent", "Elo", "95 %", "games", "above the next", *(["group"] if several else [])]
    words = (
        "One joint fit of all results (Bradley-Terry with draws and seats, after Davidson and Beaver); the mean of "
        f"{'each group' if several else 'the agents'} is 0, intervals are from resampled pairs. Seat 0, which gives "
        f"first, is worth {style.signed(fit.seat.mean, 1)} Elo ({between(fit.seat.low, fit.seat.high, _elo)})."
    )
    apart = f" There are {fit.groups} groups of agents that never met: ratings of different groups do not compare."
    picture = drawn(of, "ratings", [strength.ratings_panel(frame, of)])
    return Section(
        "Ratings",
        joined(
            [
                note(words, apart if several else ""),
                element("div", picture, table("Ratings", headings, rows), class_="beside"),
            ]
        ),
    )


def _elo(value: float) -> str:
    return style.signed(value, 1)


def game_lengths(of: Subject) -> Section:
    """How long games are."""
    frame = lengths.lengths_frame(of)
    if frame.is_empty():
        return Section("Game lengths", Html(""), "all games were forfeited")
    words = "How many plies an agent's games take: bars are shares of its games, with 95 % intervals. "
    unknown = frame.filter(pl.col("random").is_null())["rules"].unique().sort().to_list()
    without = f" It is known for the classic lines only, not for {', '.join(unknown)}." if unknown else ""
    forfeits = of.ask("lengths").filter(pl.col("forfeited"))["games"].sum()
    left_out = f" {forfeits:,} forfeited games are left out." if forfeits else ""
    notes = [_mean_length(rows) for _, rows in frame.group_by("rules", "agent", maintain_order=True)]
    pictures = drawn(of, "lengths", lengths.lengths_panels(frame, of), notes)
    numbers = details("The numbers", table("Games by length", _LENGTHS, _length_rows(frame)))
    return Section("Game lengths", joined([note(words, lengths.HOW, without, left_out), pictures, numbers]))


_LENGTHS = ("rules, agent", "plies", "games", "won", "drawn", "lost", "share", "95 %", "random play")


def _length_rows(frame: pl.DataFrame) -> list[list[str]]:
    return [
        [
            f"{row['rules']}, {row['agent']}",
            str(row["plies"]),
            *(f"{row[name]:,}" for name in ("games", "wins", "draws", "losses")),
            percent(row["share"], 2),
            between(row["low"], row["high"], lambda share: percent(share, 2)),
            "" if row["random"] is None else percent(row["random"], 2),
        ]
        for row in frame.filter((pl.col("games") > 0) | (pl.col("random") > 0)).iter_rows(named=True)
    ]


def _mean_length(rows: pl.DataFrame) -> str:
    games, plies = (int(rows.select(each).item()) for each in (pl.col("games").sum(), pl.col("games").dot("plies")))
    text = f"{games:,} games, {plies / games:.2f} plies on average"
    if rows["random"].null_count():
        return text
    return f"{text} (random {(rows['plies'] * rows['random']).sum():.2f})"


def first_placements(of: Subject) -> Section:
    """Where the first pieces go."""
    words = (
        "Where the first pieces are placed, in percent, and the mean outcome for who placed (1 won, 0 drew, -1 lost) "
        "against whoever it met. First all agents together, by ply; then the first ply of each agent in seat 1."
    )
    return _openings(of, openings.PLACEMENTS, "Openings: first placements", words)


def first_gifts(of: Subject) -> Section:
    """Which pieces are given first."""
    words = (
        "Which pieces are given first, in percent, and the mean outcome for who gave. A piece is a hexadecimal digit, "
        "8 high, 4 coloured, 2 solid, 1 square: high pieces are in the lower half, square ones in every other column. "
        "By symmetry no first gift is better than another: what differs is how agents answer it."
    )
    return _openings(of, openings.GIFTS, "Openings: first gifts", words)


def _openings(of: Subject, kind: openings.Kind, title: str, words: str) -> Section:
    frame = openings.openings_frame(of, kind)
    if frame.is_empty():
        return Section(
            title, Html(""), f"the first {openings.PLIES} plies of all games were imposed, or none was played"
        )
    imposed = sorted({record.spec["opening_plies"] for record in of.records.values()} - {0})
    left_out = f" Imposed plies are left out (runs with {', '.join(map(str, imposed))} of them)." if imposed else ""
    shape = format_cell if kind is openings.PLACEMENTS else format_piece
    rows = [
        [
            f"{row['rules']}, {row['agent'] or 'everybody'}",
            str(row["ply"]),
            shape(row[kind.column]),
            f"{row['games']:,}",
            percent(row["share"], 2),
            style.signed(row["mean_outcome"], 3),
            between(row["low"], row["high"], lambda value: style.signed(value, 3)),
        ]
        for row in frame.iter_rows(named=True)
    ]
    headings = ["rules, agent", "ply", kind.column, "games", "share", "mean outcome", "95 %"]
    numbers = details("The numbers", table(title, headings, rows))
    pictures = drawn(of, kind.column, openings.openings_panels(frame, kind))
    return Section(title, joined([note(words, left_out), pictures, numbers]))


def learning_curves(of: Subject) -> Section:
    """How policies were learned in these runs."""
    found = learning.curves(of)
    if not found:
        return Section("Learning curves", Html(""), "no policy was learned in these runs")
    count = len(learning.cards_of(of))
    newest = f" Shown are the newest {len(found)} of {count} policies." if count > len(found) else ""
    words = (
        "How agents fared while they learned, over the whole of each training: the share of games won with its 95 % "
        f"interval, or fitness by generation.{newest}"
    )
    notes = [
        f"{card.kind}, {card.rules['name']} rules, seed {card.learned['seed']}, {card.learned['games']:,} games"
        for card, _ in found
    ]
    return Section(
        "Learning curves", joined([note(words), drawn(of, "learning", learning.learning_panels(found), notes)])
    )


def mistakes(of: Subject) -> Section:
    """What agents give up against perfect play."""
    totals = regret.mistakes_frame(of, by_ply=False)
    if totals.is_empty():
        return Section("Mistakes", Html(""), "no decision of these games is judged ('qarena annotate' does that)")
    by_ply = regret.mistakes_frame(of, by_ply=True)
    words = (
        "Decisions judged by the exact value of the position. Regret is what a decision gave up in half-points, from 0 "
        f"to 2; a blunder gives up something. The pictures show blunders by ply. {regret.HOW}"
    )
    pictures = drawn(of, "mistakes", regret.mistakes_panels(by_ply, of))
    everywhere = table("What is given up", ["agent", "decision", *_REGRET], _regret_rows(of, totals), left=(1,))
    by_ply_table = table(
        "What is given up, by ply", ["agent", "decision", "ply", *_REGRET], _regret_rows(of, by_ply), (1,)
    )
    return Section("Mistakes", joined([note(words), everywhere, pictures, details("The numbers", by_ply_table)]))


_REGRET = ("decisions", "mean regret", "95 %", "blunders", "95 %")


def _regret_rows(of: Subject, frame: pl.DataFrame) -> list[list[str]]:
    return [
        [
            named(of, row["agent"]),
            row["kind"],
            *([] if row["ply"] is None else [str(row["ply"])]),
            f"{row['decisions']:,}",
            f"{row['regret']:.4f}",
            between(row["regret_low"], row["regret_high"], lambda value: f"{value:.4f}"),
            percent(row["blunders"], 2),
            between(row["blunders_low"], row["blunders_high"], lambda share: percent(share, 2)),
        ]
        for row in frame.iter_rows(named=True)
    ]


def runs(of: Subject) -> Section:
    """Where the games come from."""
    records = list(of.records.values())
    rows = [
        [
            element("code", record.run_id),
            record.created[:10],
            record.rules.name,
            f"{count:,}",
            str(record.spec["seed"]),
            str(record.spec["opening_plies"]),
            "swapped" if record.swapped else "fixed",
            str(record.code.get("version", "")),
            _agents_of(record.labels),
        ]
        for record, count in list(zip(records, of.selection.counts, strict=True))[:MOST_RUNS]
    ]
    headings = ["run", "begun", "rules", "games", "seed", "imposed plies", "seats", "code", "agents"]
    more = f"The oldest {MOST_RUNS} of {len(records)} runs." if len(records) > MOST_RUNS else ""
    return Section(
        "Runs", joined([note(more) if more else "", table("Where the games come from", headings, rows, (1, 2, 6, 8))])
    )


def _agents_of(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= MOST_NAMED else f"{labels[0]} and {len(labels) - 1} others"


SECTIONS = (crosstable, ratings, game_lengths, first_placements, first_gifts, learning_curves, mistakes, runs)
