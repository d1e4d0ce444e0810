"""The strength of an agent is the same in commands, files, the report and the pages."""

from __future__ import annotations

import html
import io
import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from msgspec import structs

from analytics import open_archive
from analytics.questions.columns import (
    MISSING,
    Table,
    format_elo,
    format_interval,
    format_percent,
    format_percent_whole,
)
from analytics.questions.head_to_head import compute_head_to_head
from analytics.questions.ranking import FEW_GAMES, MIN_RANKED_GAMES, RANKING_RULE, WON_ALL
from analytics.questions.ratings import Ratings, compute_ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import run_condition_sql
from analytics.report import style
from analytics.report.page import render_report
from analytics.report.report_data import MAX_AGENTS, select_report_data
from analytics.store.archive import ArchiveStore
from runners.web.archive.agents import build_agent_header, build_opponents_section, rate_agents
from runners.web.archive.sections import build_section
from tests.analytics.naive_games import build_spec, pack_games, random_block, random_game, record, store
from tests.analytics.uneven_games import LEAGUE, PARTNER, PERSON, RARE, SECONDS, STAR, write_uneven_archive
from tests.runners.terminal.test_results import parse_rows

if TYPE_CHECKING:
    from tests.runners.conftest import Qarena

CLASSIC = GameFilter(rules="classic", trainings=False)
DICE = random.Random(3)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenArchive]:
    root = tmp_path_factory.mktemp("uneven") / "games"
    write_uneven_archive(root)
    with open_archive(root) as archive:
        yield archive


@pytest.fixture(scope="module")
def strengths(opened: OpenArchive) -> Ratings:
    return compute_ratings(opened, rules="classic")


def read_cells(table: Table | None) -> dict[str, dict[str, str]]:
    """Map the first cell of each row and the heading to the text of the cell."""
    assert table is not None
    headings = [column.heading for column in table.columns]
    return {row[0].text: dict(zip(headings, map(str, row), strict=True)) for row in table.cell_rows}


def format_rows(ratings: Ratings) -> dict[str, tuple[str, str]]:
    """Format the rank and the rating of each agent as people see them."""
    return {
        rating.agent: (MISSING if rating.rank is None else str(rating.rank), format_elo(rating.elo.mean))
        for rating in ratings.ratings
    }


def test_the_archive_is_as_hard_as_the_tests_need(strengths: Ratings) -> None:
    assert len(strengths.ratings) > MAX_AGENTS + 3
    reasons: Mapping[str, tuple[str, ...]] = {
        rating.agent: rating.unranked for rating in strengths.ratings if rating.unranked
    }
    assert reasons.keys() == {STAR, RARE, PERSON, PARTNER}
    assert reasons[STAR] == (WON_ALL,)
    assert FEW_GAMES in reasons[RARE]
    assert reasons[PARTNER] == (FEW_GAMES,)  # of 140 games 120 were against a person
    assert reasons[PERSON] == ("a person",)
    assert {rating.agent for rating in strengths.ranked} == {*LEAGUE}
    assert [rating.rank for rating in strengths.ranked] == [*range(1, 15)]
    assert min(rating.games for rating in strengths.ranked) == 104 >= MIN_RANKED_GAMES
    assert PERSON in [rating.agent for rating in strengths.ratings[:3]]  # among the best of all that have a bound


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_command_writes_the_ratings(qarena: Qarena, opened: OpenArchive, strengths: Ratings, form: str) -> None:
    where = ("--archive", str(opened.archive.root), "--rules", "classic")
    result = qarena("rate", *where, "--format", form)
    assert result.code == 0
    if form == "csv":
        frame = pl.read_csv(io.StringIO(result.out), infer_schema_length=None)
        assert frame.rows() == strengths.to_frame().rows()
        return
    finite = strengths.to_frame().with_columns(pl.when(pl.col("elo").is_finite()).then(pl.col("elo", "low", "high")))
    names = ("rank", "agent", "elo", "low", "high", "games", "bounded", "unranked")
    assert [[row[name] for name in names] for row in json.loads(result.out)] == [
        *map(list, finite.select(names).rows())
    ]


def test_the_command_prints_the_ratings(qarena: Qarena, opened: OpenArchive, strengths: Ratings) -> None:
    result = qarena("rate", "--archive", str(opened.archive.root), "--rules", "classic", "--wide")
    rows = {row[1]: (row[0], row[2]) for row in parse_rows(result.out)}
    assert rows == format_rows(strengths)
    lines = result.out.splitlines()
    assert f"Without a rank, a person: {PERSON}." in lines
    assert f"Without a rank, {FEW_GAMES}: {PARTNER}, {RARE}." in lines


def test_report_and_page_show_some_of_the_agents_with_the_ratings_of_all(
    opened: OpenArchive, strengths: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "_render_spec", lambda _: "<svg></svg>")  # drawing takes longer than all the rest
    of_rules = {part.rules[0]: part for part in select_report_data(opened).rated_parts_by_rules}
    classic = of_rules["classic"]
    assert classic.rate_agents().ratings == strengths.ratings
    assert of_rules["square"].rate_agents().ratings == compute_ratings(opened, rules="square").ratings
    expected = format_rows(strengths)
    best = [rating.agent for rating in strengths.ranked[:MAX_AGENTS]]
    section = build_section(opened, "ratings", CLASSIC).section
    rows = read_cells(section.table)
    assert [*rows] == best
    assert {agent: (row["rank"], row["Elo"]) for agent, row in rows.items()} == {
        agent: expected[agent] for agent in best
    }
    assert RANKING_RULE in section.note
    # The report has other agents, the best under either rules, and the same values.
    page = render_report(opened)
    (of_classic,) = re.findall(r'<section id="ratings--classic">.*?</table>', page, re.DOTALL)
    matches = re.findall(
        r"<th[^>]*>(?:<span[^>]*></span>)?([^<]+)</th><td[^>]*>([^<]+)</td><td[^>]*>([^<]+)</td>", of_classic
    )
    assert {agent: (rank, elo) for agent, rank, elo in matches} == {
        agent: expected[agent] for agent in classic.shown_agents
    }
    assert len(classic.shown_agents) == MAX_AGENTS
    assert {LEAGUE[13], LEAGUE[0]} < {
        *classic.shown_agents
    }  # one of the last under classic rules, and third under the others
    assert f"Shown are the {MAX_AGENTS} best agents of 18, those with a rank first: {RANKING_RULE}" in page


def test_the_page_of_an_agent_has_its_rating_and_rank(opened: OpenArchive, strengths: Ratings) -> None:
    for agent, (rank, elo) in format_rows(strengths).items():
        lead = build_agent_header(opened, agent, "classic").lead
        if rank != MISSING:
            assert lead.startswith(f"{elo} Elo, rank {rank} of {len(LEAGUE)} under classic rules")
        else:
            (rating,) = [candidate for candidate in strengths.ratings if candidate.agent == agent]
            unranked = f"without a rank ({', '.join(rating.unranked)})"
            games = f"{rating.games} game{'' if rating.games == 1 else 's'}"
            unbounded = f"every point of its {games} under classic rules, so its Elo has no bound"
            verb = "Won" if agent == STAR else "Lost"
            expected = f"{elo} Elo under classic rules" if rating.has_finite_elo else f"{verb} {unbounded}"
            assert lead.startswith(expected)
            assert unranked in lead
    first = rate_agents(opened, "classic")
    assert first is not None
    assert [(candidate.agent, candidate.rank, candidate.elo.mean) for candidate in first.ratings] == [
        (candidate.agent, candidate.rank, candidate.elo.mean) for candidate in strengths.ratings
    ]


def test_scores_are_over_all_games_with_others_everywhere(qarena: Qarena, opened: OpenArchive) -> None:
    root = str(opened.archive.root)
    printed = qarena("crosstable", "--archive", root, "--rules", "classic", "--wide").out
    rows = {row[1]: row[2] for row in parse_rows(printed.partition("Head to head")[0])}
    runs = run_condition_sql(run.run_id for run in CLASSIC.select_runs(opened.archive))
    scores = dict(opened.sql(f"SELECT agent, avg(score) FROM seats WHERE {runs} GROUP BY agent").rows())
    assert rows == {agent: format_percent(score) for agent, score in scores.items()}
    shown = read_cells(build_section(opened, "crosstable", CLASSIC).section.table)
    assert {agent: row["score"] for agent, row in shown.items()} == {agent: rows[agent] for agent in shown}
    assert len(shown) == len(scores) > MAX_AGENTS  # a crosstable needs no colours of agents
    table = pl.read_csv(
        io.StringIO(qarena("crosstable", "--archive", root, "--rules", "classic", "--format", "csv").out)
    )
    pairs = build_section(opened, "crosstable", CLASSIC).section.numbers
    assert pairs is not None
    csv_scores = {
        (first, second): format_percent(score)
        for first, second, score in table.select("first", "second", "score").rows()
    }
    page_scores = {(str(row[0]), str(row[1])): str(row[3]) for row in pairs.cell_rows}
    assert page_scores.items() <= csv_scores.items()


def test_a_score_of_the_crosstable_has_a_colour_only_if_its_interval_excludes_one_half(opened: OpenArchive) -> None:
    section = build_section(opened, "crosstable", CLASSIC).section
    assert section.table is not None
    frame = compute_head_to_head(opened, CLASSIC).to_frame()
    expected = {}
    for row in frame.rows(named=True):
        counts = row["wins"], row["draws"], row["losses"]
        ends = row["score"], row["score_low"], row["score_high"]
        expected[row["first"], row["second"]] = (*ends, *counts)
        expected[row["second"], row["first"]] = (1 - ends[0], 1 - ends[2], 1 - ends[1], *counts[::-1])
    rotated = [column for column in section.table.columns if column.rotated]
    agents = [cell.text for cell in section.table.columns[0].cells]
    assert [column.heading.split(" ", 1)[1] for column in rotated] == agents
    tints = set()
    for opponent, column in zip(agents, rotated, strict=True):
        for agent, cell in zip(agents, column.cells, strict=True):
            if (agent, opponent) not in expected:
                assert cell.is_diagonal or (cell.text, cell.tint) == (MISSING, None)
                continue
            score, low, high, wins, draws, losses = expected[agent, opponent]
            assert cell.text == format_percent_whole(score)
            assert cell.tint is not None
            assert (cell.tint > 0, cell.tint < 0) == (low > 0.5, high < 0.5)
            assert cell.hint == f"{format_interval(low, high)} %; {wins} won, {draws} drawn, {losses} lost"
            assert f"agent={agent}&opponent={opponent}" in cell.link
            tints.add((cell.tint > 0) - (cell.tint < 0))
    assert tints == {-1, 0, 1}


@pytest.fixture
def by_seat(tmp_path: Path) -> Path:
    """Write an archive in which A beats B twice, and C and D each win once, with seat 0.

    No two games form a pair, as after an import.
    """
    pairings = [("A", "B"), ("B", "A"), ("C", "D"), ("D", "C")]
    archive = ArchiveStore.open(tmp_path / "by_seat", create=True)
    run = record(build_spec(pairings=pairings, seats="fixed"), games=1, status="complete")
    archive.write_run_and_unit_count(run)
    games = [random_game(DICE, forfeits=0.0) for _ in range(40)]
    won = [[game for game in games if game["winner"] == seat] for seat in (0, 1)]
    played = [won[0][0], won[1][0], won[0][1], won[0][2]]
    blocks = [pack_games([game], pairing, swapped=False) for pairing, game in enumerate(played)]
    store(archive, run.run_id, blocks, pairings)
    return tmp_path / "by_seat"


def test_what_the_seat_decided_is_unknown_alike_everywhere(qarena: Qarena, by_seat: Path) -> None:
    names = ["agent", "elo", "low", "high", "bounded", "unranked"]
    table = pl.read_csv(io.StringIO(qarena("rate", "--archive", str(by_seat), "--format", "csv").out))
    assert table.filter(pl.col("agent").is_in(["C", "D"])).select("elo", "low", "high").null_count().row(0) == (2, 2, 2)
    assert table.select("above C", "above D").rows()[2:] == [(0.5, 0.5), (0.5, 0.5)]
    rows = {row["agent"]: row for row in json.loads(qarena("rate", "--archive", str(by_seat), "--format", "json").out)}
    for row in table.select(names).rows(named=True):
        finite = {name: value if value not in (float("inf"), -float("inf")) else None for name, value in row.items()}
        assert {name: rows[row["agent"]][name] for name in names} == finite
    printed = {row[1]: row[2:4] for row in parse_rows(qarena("rate", "--archive", str(by_seat), "--wide").out)}
    assert printed["C"] == printed["D"] == ["?", "no bound"]
    assert printed["B"] == ["−∞", "no bound"]  # noqa: RUF001  (a minus sign)
    with open_archive(by_seat) as opened:
        section = build_section(opened, "ratings", CLASSIC).section
        shown = read_cells(section.table)
        assert {agent: [row["Elo"], row["95 % interval"]] for agent, row in shown.items()} == printed
        assert shown["C"]["above the next, %"] == "50.0"
        assert build_agent_header(opened, "C").lead.startswith("Not rated under classic rules")


def test_an_agent_of_several_codes_has_a_rating_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "_render_spec", lambda _: "<svg></svg>")
    pairings = [("a", "b")]
    archive = ArchiveStore.open(tmp_path / "codes", create=True)
    for seed, code in enumerate(("1" * 64, "2" * 64)):
        run = record(build_spec(pairings=pairings, seed=seed), games=120, status="complete")
        archive.write_run_and_unit_count(structs.replace(run, code={**run.code, "agents": {"a": code, "b": "3" * 64}}))
        store(archive, run.run_id, [random_block(seed, pairs=60)], pairings)
    with open_archive(tmp_path / "codes") as opened:
        strengths = compute_ratings(opened)
        lead = build_agent_header(opened, "a").lead
        assert {candidate.agent for candidate in strengths.ratings} == {"a@111111", "a@222222", "b"}
        for rating in (candidate for candidate in strengths.ratings if candidate.agent != "b"):
            assert f"{rating.agent}: {format_elo(rating.elo.mean)} Elo, rank {rating.rank} of 3" in lead
        table = build_opponents_section(opened, "a", "classic").table
        assert table is not None
        met = compute_head_to_head(opened)
        expected = {result.first: ["b", format_percent(result.score.mean)] for result in met.results}
        assert {cells[1].text: [cells[0].text, cells[3].text] for cells in table.cell_rows} == expected
        assert "played by 2 codes, shown as a@111111 and a@222222" in html.unescape(render_report(opened))
        ratings = build_section(opened, "ratings", CLASSIC).section.table
        assert ratings is not None
        links = {row[0].text: row[0].link for row in ratings.cell_rows}
        assert links["a@111111"] == "/browse/agent?agent=a&rules=classic"


def test_the_pace_of_an_agent_leaves_out_games_against_people(qarena: Qarena, opened: OpenArchive) -> None:
    games = 52 * len(LEAGUE)
    assert f"; {games / SECONDS:,.0f} games a second" in build_agent_header(opened, LEAGUE[2], "classic").lead
    assert "games a second" not in build_agent_header(opened, PERSON, "classic").lead
    ids = [record.run_id for record in opened.archive.load_runs() if {PERSON, LEAGUE[9]} & {*record.labels}]
    result = qarena("compare", *ids, "--archive", str(opened.archive.root), "--wide")
    speeds = {row[0]: row[3] for row in parse_rows(result.out) if row[0] in ids and len(row) == 4}
    assert speeds == {
        run_id: f"{games / SECONDS:,.0f}" if LEAGUE[9] in opened.archive.load_run(run_id).labels else MISSING
        for run_id in ids
    }
