"""The sections of a report as values: each has a note, tables and figures, or the reason why it is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from analytics.report import style
from analytics.report.content import Cell, Figure, Section, Table
from analytics.report.figures import learning, lengths, openings, regret, strength
from analytics.report.figures.reported_games import ReportedGames
from analytics.report.figures.strength import NEVER_MET
from analytics.report.style import Panel
from quarto.notation import format_cell, format_piece

MOST_RUNS = 50  # rows of the table of runs
MOST_NAMED = 4  # agents of a run


def agent_cell(chosen: ReportedGames, agent: str, prefix: str = "") -> Cell:
    """An agent's label, marked with its colour."""
    return Cell(agent, prefix, colour=chosen.agents.index(agent))


def percent(share: float, digits: int = 1) -> str:
    """``62.3 %``."""
    return f"{100 * share:.{digits}f} %"


def interval(low: float, high: float, form: Callable[[float], str]) -> str:
    """The two ends of an interval, each formatted by ``form``."""
    return f"{form(low)} to {form(high)}"


def drawn(chosen: ReportedGames, prefix: str, panels: Sequence[Panel], notes: Sequence[str] = ()) -> list[Figure]:
    """Panels as figures, each with its note. ``prefix`` keeps their ids apart from those of other figures in a page."""
    return [
        Figure(
            panel.title,
            style.inline(panel.picture, f"{prefix}{number}-"),
            notes[number] if notes else "",
            None if panel.agent is None else chosen.agents.index(panel.agent),
        )
        for number, panel in enumerate(panels)
    ]


def crosstable_section(chosen: ReportedGames) -> Section:
    """The score of each agent against each other one."""
    standings = strength.standings(chosen).standings
    if not standings:
        return Section("Crosstable", missing="no two different agents played each other")
    forfeits = ["forfeits"] if any(standing.forfeits for standing in standings) else []
    scores = {(row["agent"], row["opponent"]): row["score"] for row in strength.crosstable_frame(chosen).to_dicts()}
    rows: list[list[str | Cell]] = [
        [
            agent_cell(chosen, standing.agent, f"{place} "),
            f"{100 * standing.score.mean:.1f}",
            interval(standing.score.low, standing.score.high, lambda value: f"{100 * value:.1f}"),
            *(_score(scores.get((standing.agent, other.agent)), standing is other) for other in standings),
            f"{standing.games:,}",
            *(percent(count / standing.games) for count in (standing.wins, standing.draws, standing.losses)),
            *([f"{standing.forfeits:,}"] if forfeits else []),
        ]
        for place, standing in enumerate(standings, 1)
    ]
    places = [str(place) for place in range(1, len(standings) + 1)]
    headings = ["agent", "score", "95 %", *places, "games", "won", "drawn", "lost", *forfeits]
    note = (
        "Points in percent, a draw counting half: over all games with others, and against each agent by its place "
        f"({NEVER_MET} never met, hatched: itself). "
        f"Intervals are normal, over {_unit(chosen)}."
    )
    return Section("Crosstable", note, Table("Scores of all agents against each other", headings, rows))


def _unit(chosen: ReportedGames) -> str:
    """The unit of variance of the crosstable, with the reason for it."""
    if chosen.shared is not None:
        return "openings, since pairings of one seed share them"
    return "pairs, since games of a pair share an opening" if any(r.by_pairs for r in chosen.results) else "games"


def _score(score: float | None, itself: bool) -> Cell:
    if score is None:
        return Cell("", hint="itself", itself=True) if itself else Cell(NEVER_MET, hint="never met")
    return Cell(f"{100 * score:.1f}", tint=2 * score - 1)


def ratings_section(chosen: ReportedGames) -> Section:
    """The strength of each agent."""
    fit = strength.fitted(chosen)
    if fit is None:
        return Section("Ratings", missing="no two different agents played each other")
    frame = strength.frame_of(fit)
    several = fit.groups > 1
    rows: list[list[str | Cell]] = [
        [
            agent_cell(chosen, row["agent"]),
            _elo(row["elo"]) if row["bounded"] else "no bound",
            interval(row["low"], row["high"], _elo) if row["bounded"] else "",
            f"{row['games']:,}",
            "" if row["above_next"] is None else percent(row["above_next"]),
            *([str(row["group"] + 1)] if several else []),
        ]
        for row in frame.iter_rows(named=True)
    ]
    headings = ["agent", "Elo", "95 %", "games", "above the next", *(["group"] if several else [])]
    note = (
        "One joint fit of all results (Bradley-Terry with draws and seats, after Davidson and Beaver); the mean of "
        f"{'each group' if several else 'the agents'} is 0, intervals are from resampled "
        f"{'openings' if chosen.shared else 'pairs'}. Seat 0, which gives first, is worth {_elo(fit.seat.mean)} Elo "
        f"({interval(fit.seat.low, fit.seat.high, _elo)})."
    )
    apart = f" There are {fit.groups} groups of agents that never met: ratings of different groups do not compare."
    note += "".join(
        f" {agent} forfeited all of its {games:,} games and is not rated." for agent, games in fit.forfeited
    )
    figures = drawn(chosen, "ratings", [strength.ratings_panel(frame, chosen)])
    return Section("Ratings", note + (apart if several else ""), Table("Ratings", headings, rows), figures, beside=True)


def _elo(value: float) -> str:
    return style.signed(value, 1)


def game_lengths_section(chosen: ReportedGames) -> Section:
    """The lengths of each agent's games."""
    frame = lengths.lengths_frame(chosen)
    if frame.is_empty():
        return Section("Game lengths", missing="all games were forfeited")
    unknown = frame.filter(pl.col("random").is_null())["rules"].unique().sort().to_list()
    without = f" That is known for the classic lines only, not for {', '.join(unknown)}." if unknown else ""
    forfeits = chosen.ask("lengths").filter(pl.col("forfeited"))["games"].sum()
    left_out = f" {forfeits:,} forfeited games are left out." if forfeits else ""
    note = (
        "How many plies an agent's games take: bars are shares of its games, with 95 % intervals. "
        f"{lengths.HOW}{without}{left_out}"
    )
    notes = [_mean_length(rows) for _, rows in frame.group_by("rules", "agent", maintain_order=True)]
    figures = drawn(chosen, "lengths", lengths.lengths_panels(frame), notes)
    numbers = Table("Games by length", _LENGTHS, _length_rows(frame))
    return Section("Game lengths", note, figures=figures, numbers=numbers, legend=(*style.RESULTS, "random play"))


_LENGTHS = ("rules, agent", "plies", "games", "won", "drawn", "lost", "share", "95 %", "random play")


def _length_rows(frame: pl.DataFrame) -> list[list[str]]:
    return [
        [
            f"{row['rules']}, {row['agent']}",
            str(row["plies"]),
            *(f"{row[name]:,}" for name in ("games", "wins", "draws", "losses")),
            percent(row["share"], 2),
            interval(row["low"], row["high"], lambda share: percent(share, 2)),
            "" if row["random"] is None else percent(row["random"], 2),
        ]
        for row in frame.filter((pl.col("games") > 0) | (pl.col("random") > 0)).iter_rows(named=True)
    ]


def _mean_length(rows: pl.DataFrame) -> str:
    games, plies = (int(rows.select(each).item()) for each in (pl.col("games").sum(), pl.col("games").dot("plies")))
    text = f"{games:,} {'game' if games == 1 else 'games'}, {plies / games:.2f} plies on average"
    if rows["random"].null_count():
        return text
    return f"{text} (random {(rows['plies'] * rows['random']).sum():.2f})"


def first_placements_section(chosen: ReportedGames) -> Section:
    """The cells of the first placements."""
    note = (
        "Where the first pieces are placed, in percent, and the mean outcome for the mover (1 won, 0 drew, -1 lost) "
        "against all its opponents. First all agents together, by ply; then the first ply of each agent in seat 1."
    )
    return _openings(chosen, openings.PLACEMENTS, "Openings: first placements", note)


def first_gifts_section(chosen: ReportedGames) -> Section:
    """The pieces that are given first."""
    note = (
        "Which pieces are given first, in percent, and the mean outcome for the giver. A piece is a hexadecimal digit, "
        "8 high, 4 coloured, 2 solid, 1 square: coloured pieces are purple with light bands, those that are not solid "
        "have a hole. "
        "By symmetry no first gift is better than another: what differs is how agents answer it."
    )
    return _openings(chosen, openings.GIFTS, "Openings: first gifts", note)


def _openings(chosen: ReportedGames, kind: openings.Kind, title: str, note: str) -> Section:
    frame = openings.openings_frame(chosen, kind)
    if frame.is_empty():
        return Section(title, missing=f"the first {openings.PLIES} plies of all games were imposed, or none was played")
    imposed = sorted({record.spec["opening_plies"] for record in chosen.records.values()} - {0})
    left_out = f" Imposed plies are left out (runs with {', '.join(map(str, imposed))} of them)." if imposed else ""
    format_choice = format_cell if kind is openings.PLACEMENTS else format_piece
    rows: list[list[str | Cell]] = [
        [
            f"{row['rules']}, {row['agent'] or 'all agents'}",
            str(row["ply"]),
            Cell(format_choice(row[kind.column]), piece=row[kind.column] if kind is openings.GIFTS else None),
            f"{row['games']:,}",
            percent(row["share"], 2),
            style.signed(row["mean_outcome"], 3),
            interval(row["low"], row["high"], lambda value: style.signed(value, 3)),
        ]
        for row in frame.iter_rows(named=True)
    ]
    headings = ["rules, agent", "ply", kind.column, "games", "share", "mean outcome", "95 %"]
    figures = drawn(chosen, kind.column, openings.openings_panels(frame, kind))
    return Section(title, note + left_out, figures=figures, numbers=Table(title, headings, rows))


def learning_curves_section(chosen: ReportedGames) -> Section:
    """The learning curves of the policies that learned in these runs."""
    found = learning.curves(chosen)
    if not found:
        return Section("Learning curves", missing="no policy was learned in these runs")
    count = len(learning.cards_of(chosen))
    newest = f" Shown are the newest {len(found)} of {count} policies." if count > len(found) else ""
    note = (
        "How agents fared while they learned, over the whole of each training: the share of games won with its 95 % "
        f"interval, or fitness by generation.{newest}"
    )
    notes = [
        f"{card.kind}, {card.rules['name']} rules, seed {card.learned['seed']}, {card.learned['games']:,} games"
        for card, _ in found
    ]
    return Section("Learning curves", note, figures=drawn(chosen, "learning", learning.learning_panels(found), notes))


def mistakes_section(chosen: ReportedGames) -> Section:
    """The value that agents give up against perfect play."""
    totals = regret.mistakes_frame(chosen, by_ply=False)
    if totals.is_empty():
        return Section("Mistakes", missing="no decision of these games is judged ('qarena annotate' does that)")
    by_ply = regret.mistakes_frame(chosen, by_ply=True)
    note = (
        "Decisions judged by the exact value of the position. Regret is what a decision gave up in half-points, from 0 "
        f"to 2; a blunder gives up something. The pictures show blunders by ply. {regret.HOW}"
    )
    figures = drawn(chosen, "mistakes", regret.mistakes_panels(by_ply, chosen))
    total_table = Table("Regret and blunders", ["agent", "decision", *_REGRET], _regret_rows(chosen, totals), (1,))
    headings = ["agent", "decision", "ply", *_REGRET]
    numbers = Table("Regret and blunders by ply", headings, _regret_rows(chosen, by_ply), (1,))
    return Section("Mistakes", note, total_table, figures, numbers)


_REGRET = ("decisions", "mean regret", "95 %", "blunders", "95 %")


def _regret_rows(chosen: ReportedGames, frame: pl.DataFrame) -> list[list[str | Cell]]:
    return [
        [
            agent_cell(chosen, row["agent"]),
            row["kind"],
            *([] if row["ply"] is None else [str(row["ply"])]),
            f"{row['decisions']:,}",
            f"{row['regret']:.4f}",
            interval(row["regret_low"], row["regret_high"], lambda value: f"{value:.4f}"),
            percent(row["blunders"], 2),
            interval(row["blunders_low"], row["blunders_high"], lambda share: percent(share, 2)),
        ]
        for row in frame.iter_rows(named=True)
    ]


def runs_section(chosen: ReportedGames) -> Section:
    """The runs that the games come from."""
    records = list(chosen.records.values())
    rows = [
        [
            Cell(record.run_id, code=True),
            record.created[:10],
            record.rules.name,
            f"{count:,}",
            str(record.spec["seed"]),
            str(record.spec["opening_plies"]),
            "swapped" if record.swapped else "fixed",
            str(record.code.get("version", "")),
            _agents_of(record.labels),
        ]
        for record, count in list(zip(records, chosen.selection.counts, strict=True))[:MOST_RUNS]
    ]
    headings = ["run", "begun", "rules", "games", "seed", "imposed plies", "seats", "code", "agents"]
    oldest = [f"The oldest {MOST_RUNS} of {len(records)} runs."] if len(records) > MOST_RUNS else []
    note = " ".join([*oldest, *(f"{note[0].upper()}{note[1:]}." for note in chosen.names.notes)])
    return Section("Runs", note, Table("Runs of the chosen games", headings, rows, (1, 2, 6, 8)))


def _agents_of(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= MOST_NAMED else f"{labels[0]} and {len(labels) - 1} others"


SECTIONS = (
    crosstable_section,
    ratings_section,
    game_lengths_section,
    first_placements_section,
    first_gifts_section,
    learning_curves_section,
    mistakes_section,
    runs_section,
)
