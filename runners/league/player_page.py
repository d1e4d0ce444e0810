"""The page of one entry: its results, its faults, its worst mistakes, its openings and some of its games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

import polars as pl

from analytics.questions.columns import (
    VALUE_NAMES,
    Cell,
    Table,
    format_percent,
    format_short_game_name,
    pairing_columns,
    text_column,
)
from analytics.questions.mistakes import Mistake, find_worst_mistakes_by_agent
from analytics.questions.pairings import pairings_frame
from analytics.questions.selection import read_plies
from analytics.report.board_svg import build_boards_picture
from analytics.report.rendering import render_template
from analytics.report.style import Figure
from analytics.store.texts import format_count_with_noun
from quarto.game import Game
from quarto.notation import format_cell, format_game, format_piece
from quarto.rules import NONE, Rules
from runners.league.entry_reports import read_entry_report
from runners.league.standings import LeagueResults, build_standings_table

MISTAKES, OPENINGS = 6, 3  # on a page: worst mistakes; best and worst openings of each
RESULTS = {1.0: "won", 0.5: "drawn", 0.0: "lost"}  # by score
Plies = tuple[tuple[int, int], ...]

OPENING_SCORES = """
    SELECT agent, opening_number, min(opening) AS imposed, count(*) AS games, avg(score) AS score,
        min({{'run_id': run_id, 'game_id': game_id}}) AS sample
    FROM seats WHERE opening_number IS NOT NULL AND ({condition}) GROUP BY ALL ORDER BY ALL
"""
SAMPLE_GAMES = """
    SELECT agent, score, min({{'place': place, 'run_id': run_id, 'game_id': game_id}}) AS sample
    FROM seats JOIN places USING (opponent) WHERE ending NOT LIKE 'forfeit%' AND ({condition})
    GROUP BY ALL ORDER BY agent, score DESC
"""


class SamplePly(NamedTuple):
    """A ply of a sample game, with the board after it."""

    piece: int
    text: str
    svg: str


class SampleGame(NamedTuple):
    """A game on the page of an entry, to be stepped through."""

    title: str
    name: str  # the beginning of the ids of its plies
    moves: str
    plies: list[SamplePly]


class PlayerGames:
    """The games from which the pages of all entries are made, asked for once for all entries.

    Attributes:
        mistakes: The worst mistakes of each entry that made any, by name.
        openings: Rows of the best and the worst openings of each entry, the best first.
        samples: Rows of a game of each result of each entry.
        plies: The plies of all these games, by run and id.

    """

    def __init__(self, results: LeagueResults) -> None:
        opened, condition = results.data.opened, results.data.selection.condition
        places = results.standings.select(opponent="entry").with_row_index("place")
        scores = opened.sql(OPENING_SCORES.format(condition=condition)).unnest("sample")
        self.openings = _select_best_and_worst_openings(scores)
        self.samples = opened.sql(SAMPLE_GAMES.format(condition=condition), places=places).unnest("sample")
        self.mistakes = find_worst_mistakes_by_agent(opened, condition, MISTAKES) if results.regrets else {}
        keys = {(mistake.run_id, mistake.game_id) for mistakes in self.mistakes.values() for mistake in mistakes}
        keys |= {key for rows in (self.openings, self.samples) for key in rows.select("run_id", "game_id").iter_rows()}
        self.plies: Mapping[tuple[str, int], Plies] = {
            key: tuple(plies) for key, plies in read_plies(opened, sorted(keys)).items()
        }


def _select_best_and_worst_openings(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of the best and the worst openings of each agent, the best first."""
    place, openings = pl.int_range(pl.len()).over("agent"), pl.len().over("agent")
    ordered = scores.sort("agent", "score", "opening_number", descending=[False, True, False])
    return ordered.filter((place < OPENINGS) | (place >= openings - OPENINGS))


def render_player_page(results: LeagueResults, games: PlayerGames | None, name: str) -> str:
    """Render the page of an entry; ``games`` is None if the league has no games yet."""
    standings = results.standings
    row = standings.filter(entry=name)
    parts = _build_parts_from_games(results, games, name) if games else {"mistakes": [], "openings": [], "games": []}
    return render_template(
        "league_player.html",
        title=name,
        league=results.league.title,
        standing=build_standings_table(row, "Standing"),
        opponents=_build_opponents_table(results, name),
        error=results.notes.error_by_entry.get(name, ""),
        faults=results.list_faults(name),
        forfeits=_describe_forfeits(row["forfeits"].item()),
        check=read_entry_report(results.league.folder, name),
        no_mistakes="None was found." if results.regrets else "No decision is judged yet.",
        **parts,
    )


def _describe_forfeits(games: int) -> str:
    if not games:
        return "It forfeited no game."
    return f"It forfeited {format_count_with_noun(games, 'game')}."


def _build_opponents_table(results: LeagueResults, name: str) -> Table | None:
    """Build the table of an entry's results against each opponent, from its own view; None if it has no games.

    Opponents are in the order of the standings, and each links to its page.
    """
    pairings = [result for result in results.data.results_summed_over_runs if name in (result.first, result.second)]
    if not pairings:
        return None
    # No two entries meet twice on the same openings, so no view has clusters.
    own_view = [result if result.first == name else result.with_agents_swapped for result in pairings]
    places = {entry: place for place, entry in enumerate(results.standings["entry"])}
    frame = pairings_frame(sorted(own_view, key=lambda result: places[result.second]))
    _, _, *columns = pairing_columns(frame)  # without the entry itself
    opponents = [Cell(opponent, link=f"{quote(opponent)}.html") for opponent in frame["second"]]
    return Table("Results against each opponent, in %", [text_column("opponent", opponents), *columns])


def _build_parts_from_games(results: LeagueResults, games: PlayerGames, name: str) -> dict[str, list[object]]:
    rules, plies, mistakes = results.league.rules, games.plies, games.mistakes.get(name, [])
    openings, samples = games.openings.filter(agent=name), games.samples.filter(agent=name)
    return {
        "mistakes": [
            _build_mistake_figure(mistake, rules, plies[mistake.run_id, mistake.game_id], number)
            for number, mistake in enumerate(mistakes)
        ],
        "openings": [
            _build_opening_figure(opening, rules, plies[opening["run_id"], opening["game_id"]], number)
            for number, opening in enumerate(openings.iter_rows(named=True))
        ],
        "games": [
            _build_sample_game(results, name, sample, plies[sample["run_id"], sample["game_id"]], number)
            for number, sample in enumerate(samples.iter_rows(named=True))
        ],
    }


def _build_mistake_figure(mistake: Mistake, rules: Rules, plies: Plies, number: int) -> Figure:
    """Build the boards of a mistake as it was played: of a placement, before and after; of a gift, with the piece."""
    before, (piece, cell) = plies[: mistake.ply], plies[mistake.ply]
    if mistake.kind == "gift":
        boards, choice = [Game(rules, before, piece)], f"gave {format_piece(piece)}"
    else:
        hand = NONE if rules.mover_chooses else piece
        boards = [Game(rules, before, hand), Game(rules, plies[: mistake.ply + 1])]
        choice = f"placed {format_piece(piece)} on {format_cell(cell)}"
    change = f"a {VALUE_NAMES[mistake.value]} became a {VALUE_NAMES[mistake.value - mistake.regret]}"
    saving = "" if mistake.saving is None else f"; {mistake.saving} of {mistake.choices} choices keep it"
    game = format_short_game_name(mistake.run_id, mistake.game_id)
    note = f"{change}{saving}; game {game}"
    return Figure(f"Ply {mistake.ply}: {choice}", build_boards_picture(boards), f"mistake{number}-", note)


def _build_opening_figure(opening: Mapping[str, object], rules: Rules, plies: Plies, number: int) -> Figure:
    board = Game(rules, plies[: int(str(opening["imposed"]))])
    title = f"Score {format_percent(float(str(opening['score'])))} %"
    note = f"{format_count_with_noun(int(str(opening['games'])), 'game')}, opening {opening['opening_number']}"
    return Figure(title, build_boards_picture([board]), f"opening{number}-", note)


def _build_sample_game(
    results: LeagueResults, name: str, sample: Mapping[str, object], plies: Plies, number: int
) -> SampleGame:
    record = results.data.records[str(sample["run_id"])]
    opponent = next(label for label in record.labels if label != name)
    result = RESULTS[float(str(sample["score"]))]
    title = f"{result.capitalize()} against {opponent} in {format_count_with_noun(len(plies), 'ply', 'plies')}"
    return SampleGame(title, f"game{number}", format_game(plies), _build_sample_plies(record.rules, plies))


def _build_sample_plies(rules: Rules, plies: Plies) -> list[SamplePly]:
    """Build the plies of a game, each with its board, which also names the piece that is given next."""
    gifts = [NONE if rules.mover_chooses else piece for piece, _ in plies[1:]]
    return [
        SamplePly(
            plies[ply][0],
            format_game([plies[ply]]),
            Figure("", build_boards_picture([Game(rules, plies[: ply + 1], gift)])).svg,
        )
        for ply, gift in enumerate([*gifts, NONE])
    ]
