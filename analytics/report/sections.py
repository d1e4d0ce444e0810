"""The sections of a report as values: each has a note, tables and figures, or the reason why it is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from analytics.query.selection import repeated_games
from analytics.report import style
from analytics.report.figures import learning, lengths, openings, strength, thoughts
from analytics.report.figures.reported_games import ReportedGames
from analytics.report.style import Figure, Panel
from analytics.results.columns import (
    ITSELF,
    MISSING,
    Cell,
    ResultColumn,
    Table,
    column,
    decision_columns,
    elo,
    interval,
    intervals,
    opponent_columns,
    percent,
    rating_columns,
    standing_columns,
    tenths_of_percent,
    words,
)
from analytics.store.records import RunRecord
from quarto.notation import format_cell, format_piece

MOST_RUNS = 50  # rows of the table of runs


@dataclass(frozen=True)
class ReportSection:
    """A part of a report. ``missing``, if not empty, says why there is nothing to show."""

    title: str
    note: str = ""  # how to read it
    table: Table | None = None
    figures: Sequence[Figure] = ()
    numbers: Table | None = None  # the figures' values, shown on request
    beside: bool = False  # figures and table side by side
    missing: str = ""
    legend: Sequence[str] = ()  # of the figures: results, and "random play"

    @property
    def anchor(self) -> str:
        """The section's id in the page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def agent_cells(chosen: ReportedGames, agents: Iterable[str], ranked: bool = False) -> list[Cell]:
    """Labels of agents, marked with their colours; with their ranks in front of them."""
    return [
        Cell(agent, f"{rank} " if ranked else "", colour=chosen.agents.index(agent))
        for rank, agent in enumerate(agents, 1)
    ]


def drawn(chosen: ReportedGames, prefix: str, panels: Sequence[Panel], notes: Sequence[str] = ()) -> list[Figure]:
    """Panels as figures, each with its note. ``prefix`` keeps their ids apart from those of other figures in a page."""
    return [
        Figure(
            panel.title,
            panel.picture,
            f"{prefix}{number}-",
            notes[number] if notes else "",
            None if panel.agent is None else chosen.agents.index(panel.agent),
        )
        for number, panel in enumerate(panels)
    ]


def crosstable_section(chosen: ReportedGames) -> ReportSection:
    """The score of each agent against each other one."""
    frame = strength.standings(chosen).frame()
    if frame.is_empty():
        return ReportSection("Crosstable", missing="no two different agents played each other")
    agents, totals, against = frame["agent"], standing_columns(frame), opponent_columns(frame)
    tinted = [
        ResultColumn(str(rank), _tinted(column, frame[f"v {column.heading}"])) for rank, column in enumerate(against, 1)
    ]
    columns = [words("agent", agent_cells(chosen, agents, ranked=True)), *totals[:2], *tinted, *totals[2:]]
    note = (
        "Points in percent, a draw counting half: over all games with others, and against each agent by its rank "
        f"({MISSING} never met, hatched: itself); then the shares of games won, drawn and lost. "
        f"Intervals are normal, over {_unit(chosen)}."
    )
    caption = "Scores of all agents against each other, in %"
    return ReportSection("Crosstable", note, Table(caption, columns))


def _unit(chosen: ReportedGames) -> str:
    """The unit of variance of the crosstable, with the reason for it."""
    if chosen.shared is not None:
        return "openings, since pairings of one seed share them"
    return "pairs, since games of a pair share an opening" if any(r.by_pairs for r in chosen.results) else "games"


def _tinted(column: ResultColumn, scores: Iterable[float | None]) -> list[Cell]:
    """The scores against one agent, on the colour of a win or of a loss."""
    return [
        Cell("", hint="itself", itself=True)
        if text == ITSELF
        else Cell(text, hint="never met")
        if score is None
        else Cell(text, tint=2 * score - 1)
        for text, score in zip(column.texts, scores, strict=True)
    ]


def ratings_section(chosen: ReportedGames) -> ReportSection:
    """The strength of each agent."""
    fit = strength.fitted(chosen)
    if fit is None:
        return ReportSection("Ratings", missing="no two different agents played each other")
    frame, several = strength.frame_of(fit), fit.groups > 1
    above = column("above the next, %", frame["above_next"], tenths_of_percent)
    columns = [words("agent", agent_cells(chosen, frame["agent"])), *rating_columns(frame), above]
    note = (
        "One joint fit of all results (Bradley-Terry with draws and seats, after Davidson and Beaver); the mean of "
        f"{'each group' if several else 'the agents'} is 0, intervals are from resampled "
        f"{'openings' if chosen.shared else 'pairs'}. Seat 0, which gives first, is worth {elo(fit.seat.mean)} Elo "
        f"({interval(fit.seat.low, fit.seat.high, elo)})."
    )
    note += " Above the next: how likely an agent is stronger than the one below it."
    if not frame["bounded"].all():
        note += " No bound: it won or lost all of its games."
    apart = f" There are {fit.groups} groups of agents that never met: ratings of different groups do not compare."
    note += "".join(
        f" {agent} forfeited all of its {games:,} games and is not rated." for agent, games in fit.forfeited
    )
    figures = drawn(chosen, f"ratings-{chosen.rules[0]}-", [strength.ratings_panel(frame, chosen)])
    table = Table("Ratings in Elo", columns)
    return ReportSection("Ratings", note + (apart if several else ""), table, figures, beside=True)


def game_lengths_section(chosen: ReportedGames) -> ReportSection:
    """The lengths of each agent's games."""
    frame = lengths.lengths_frame(chosen)
    if frame.is_empty():
        return ReportSection("Game lengths", missing="all games were forfeited")
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
    numbers = Table("Games by length", _length_columns(frame))
    return ReportSection("Game lengths", note, figures=figures, numbers=numbers, legend=(*style.RESULTS, "random play"))


def _length_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    rows = frame.filter((pl.col("games") > 0) | (pl.col("random") > 0))
    return [
        words("rules, agent", rows.select(pl.format("{}, {}", "rules", "agent")).to_series()),
        *(column(name, rows[name]) for name in ("plies", "games")),
        *(column(heading, rows[name]) for heading, name in (("won", "wins"), ("drawn", "draws"), ("lost", "losses"))),
        column("share, %", rows["share"], percent),
        intervals(rows["low"], rows["high"]),
        column("random play, %", rows["random"], percent),
    ]


def _mean_length(rows: pl.DataFrame) -> str:
    games, plies = (int(rows.select(each).item()) for each in (pl.col("games").sum(), pl.col("games").dot("plies")))
    text = f"{games:,} {'game' if games == 1 else 'games'}, {plies / games:.2f} plies on average"
    if rows["random"].null_count():
        return text
    return f"{text} (random {(rows['plies'] * rows['random']).sum():.2f})"


def first_placements_section(chosen: ReportedGames) -> ReportSection:
    """The cells of the first placements."""
    note = (
        "Where the first pieces are placed, and the score of the mover against all its opponents, both in percent; a "
        "draw counts half. First all agents together, by ply; then the first ply of each agent in seat 1."
    )
    return _openings(chosen, openings.PLACEMENTS, "Openings: first placements", note)


def first_gifts_section(chosen: ReportedGames) -> ReportSection:
    """The pieces that are given first."""
    note = (
        "Which pieces are given first, and the score of the giver, both in percent. A piece is a hexadecimal digit, "
        "8 high, 4 coloured, 2 solid, 1 square: coloured pieces are purple with light bands, those that are not solid "
        "have a hole. "
        "By symmetry no first gift is better than another: what differs is how agents answer it."
    )
    return _openings(chosen, openings.GIFTS, "Openings: first gifts", note)


def _openings(chosen: ReportedGames, kind: openings.Kind, title: str, note: str) -> ReportSection:
    frame = openings.openings_frame(chosen, kind)
    if frame.is_empty():
        return ReportSection(
            title, missing=f"the first {openings.PLIES} plies of all games were imposed, or none was played"
        )
    imposed = sorted({record.spec["opening_plies"] for record in chosen.records.values()} - {0})
    left_out = f" Imposed plies are left out (runs with {', '.join(map(str, imposed))} of them)." if imposed else ""
    choices = [(format_cell if kind is openings.PLACEMENTS else format_piece)(choice) for choice in frame[kind.column]]
    gifts = [Cell(text, piece=piece) for text, piece in zip(choices, frame[kind.column], strict=True)]
    columns = [
        words(
            "rules, agent",
            [f"{rules}, {agent or 'all agents'}" for rules, agent in frame.select("rules", "agent").rows()],
        ),
        column("ply", frame["ply"]),
        ResultColumn(kind.column, choices if kind is openings.PLACEMENTS else gifts),
        column("games", frame["games"]),
        column("share, %", frame["share"], percent),
        column("score, %", frame["score"], percent),
        intervals(frame["low"], frame["high"]),
    ]
    figures = drawn(chosen, kind.column, openings.openings_panels(frame, kind))
    return ReportSection(title, note + left_out, figures=figures, numbers=Table(title, columns))


def learning_curves_section(chosen: ReportedGames) -> ReportSection:
    """The learning curves of the policies that learned in these runs."""
    found = learning.curves(chosen)
    if not found:
        return ReportSection("Learning curves", missing="no policy was learned in these runs")
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
    return ReportSection(
        "Learning curves", note, figures=drawn(chosen, "learning", learning.learning_panels(found), notes)
    )


def mistakes_section(chosen: ReportedGames) -> ReportSection:
    """The value that agents give up against perfect play."""
    totals = strength.mistakes_frame(chosen, by_ply=False)
    if totals.is_empty():
        return ReportSection("Mistakes", missing="no decision of these games is judged ('qarena annotate' does that)")
    by_ply = strength.mistakes_frame(chosen, by_ply=True)
    note = (
        "Decisions judged by the exact value of the position. Regret is what a decision gave up in half-points, from 0 "
        f"to 2; a blunder gives up something. The pictures show blunders by ply. {strength.HOW}"
    )
    figures = drawn(chosen, "mistakes", strength.mistakes_panels(by_ply, chosen))
    tables = [
        Table(caption, [words("agent", agent_cells(chosen, frame["agent"])), *decision_columns(frame)[1:]])
        for caption, frame in (("Regret in half-points, and blunders", totals), ("The same by ply", by_ply))
    ]
    return ReportSection("Mistakes", note, tables[0], figures, tables[1])


def thoughts_section(chosen: ReportedGames) -> ReportSection:
    """The results that the agents expected of their turns."""
    totals = thoughts.thoughts_frame(chosen, by_ply=False)
    if totals.is_empty():
        return ReportSection(
            "Thoughts", missing="no agent was asked what it thinks ('archive.thoughts=true' does that)"
        )
    by_ply = thoughts.thoughts_frame(chosen, by_ply=True)
    note = (
        "What agents expected of their turns: 1 won, 0 drawn, -1 lost, for the agent itself. The error is the root of "
        "the mean square of value less result; who expects a draw of every won or lost game has 1. Times are by the "
        f"clock. {thoughts.HOW}"
    )
    tables = [
        Table(caption, [words("agent", agent_cells(chosen, frame["agent"])), *_thought_columns(frame)])
        for caption, frame in (("Values and times of turns", totals), ("The same by ply", by_ply))
    ]
    return ReportSection(
        "Thoughts", note, tables[0], drawn(chosen, "thoughts", thoughts.thoughts_panels(by_ply, chosen)), tables[1]
    )


def _thought_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    ply = [column("ply", frame["ply"], str)] if frame["ply"].is_not_null().any() else []
    return [
        *ply,
        column("turns", frame["turns"]),
        column("with a value", frame["told"]),
        *(column(name, frame[name], "{:+.3f}".format) for name in ("value", "result")),
        column("error", frame["error"], "{:.3f}".format),
        column("exact", frame["exact"], "{:+.3f}".format),
        column("mean, s", frame["seconds"], "{:.3g}".format),
        column("slowest, s", frame["slowest"], "{:.3g}".format),
    ]


def runs_section(chosen: ReportedGames) -> ReportSection:
    """The runs that the games come from, and the parameters of their agents."""
    records = list(chosen.records.values())
    rows = list(zip(records, chosen.selection.counts, strict=True))[:MOST_RUNS]
    columns = [
        _code_column("run", [record.run_id for record, _ in rows]),
        words("begun", [record.created[:10] for record, _ in rows]),
        words("rules", [record.rules.name for record, _ in rows]),
        column("games", [games for _, games in rows]),
        column("seed", [record.spec["seed"] for record, _ in rows], str),
        column("imposed plies", [record.spec["opening_plies"] for record, _ in rows]),
        words("seats", ["swapped" if record.swapped else "fixed" for record, _ in rows]),
        words("agents", [", ".join(record.labels) for record, _ in rows]),
        _code_column("code", [_code(record) for record, _ in rows]),
        _code_column("command", [record.command for record, _ in rows]),
    ]
    oldest = [f"The oldest {MOST_RUNS} of {len(records)} runs."] if len(records) > MOST_RUNS else []
    notes = [*chosen.names.notes, *repeated_games(chosen.opened, chosen.records)]
    note = " ".join([*oldest, *(f"{note[0].upper()}{note[1:]}." for note in notes)])
    table = Table("Runs of the chosen games", columns)
    return ReportSection("Runs", note, table, numbers=_parameters([record for record, _ in rows]))


def _code_column(heading: str, texts: Iterable[str]) -> ResultColumn:
    return words(heading, [Cell(text, code=True) for text in texts])


def _code(record: RunRecord) -> str:
    """The version and the fingerprint of the code that played a run."""
    known = (str(record.code.get(name, "")) for name in ("version", "fingerprint"))
    return " ".join(filter(None, known))


def _parameters(records: Iterable[RunRecord]) -> Table:
    """Each agent of some runs with all of its parameters, those that its label leaves out too."""
    agents = dict.fromkeys(
        (
            str(agent["label"]),
            ", ".join(f"{name}={value}" for name, value in agent.get("params", {}).items()),
            str((record.code.get("agents") or {}).get(agent["label"], "")),
        )
        for record in records
        for agent in record.spec["agents"]
    )
    labels, settings, codes = zip(*sorted(agents), strict=True)
    return Table("Agents of these runs", [words("agent", labels), words("parameters", settings), words("code", codes)])


SECTIONS = (
    game_lengths_section,
    first_placements_section,
    first_gifts_section,
    learning_curves_section,
    mistakes_section,
    thoughts_section,
    runs_section,
)
