"""Tables of the pages about the archive: runs, games, results, sweeps and policies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import polars as pl
import pytest
from msgspec import structs

from analytics.questions.columns import MISSING, Table, format_percent, format_percent_tenths_below_ten
from analytics.questions.head_to_head import compute_head_to_head
from analytics.questions.logged_games import GIFT, PLACEMENT, ValueChange, list_decisions, load_logged_game
from analytics.questions.openings import OpeningsQuery, run_openings_query
from analytics.questions.ratings import compute_ratings
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import MAX_COMPARED, run_condition_sql
from analytics.report import style
from analytics.report.report_data import select_report_data
from analytics.report.result import Result
from analytics.report.sections.runs import build_runs_section
from analytics.report.style import Figure
from analytics.store.archive import ArchiveStore
from analytics.store.records import SweepJob
from analytics.store.snapshot import Snapshot
from quarto.batch import ENDINGS
from quarto.errors import FailureError, RequestError
from runners.learning.policies.lineage import POLICY, RUN, LineageNode
from runners.web.archive import charts, sweeps, urls
from runners.web.archive.agents import build_openings_section, rate_agents
from runners.web.archive.archive_page import ArchivePage
from runners.web.archive.charts import ChartPlan, build_chart, plan_chart
from runners.web.archive.explorer import build_decisions_table, explore_position_if_readable
from runners.web.archive.games import NO_GAMES, format_ending, list_games_page_of_newest_runs
from runners.web.archive.policies import (
    BOX_HEIGHT,
    BOX_WIDTH,
    COLUMN_GAP,
    build_lineage_figure,
    build_policies_table,
    build_policy_page,
)
from runners.web.archive.runs import list_rules_and_agent_names, list_runs, select_runs
from runners.web.archive.sections import (
    build_mistakes_table,
    build_section,
    includes_trainings_by_default,
)
from runners.web.archive.snapshots import SnapshotService
from runners.web.archive.sql_pool import build_answer_table
from runners.web.archive.urls import build_url, games_url
from runners.web.runs import columns
from runners.web.runs.run_page import build_run_page
from tests.analytics import naive_games
from tests.analytics.indexed import decide
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

ROUND_ROBIN, SQUARE, IMPOSED = "8d1cb3670fa3", "2a6d3741319d", "a0a7dbeb5972"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenArchive]:
    """Open a copy of the sample archive; it is a copy because questions about openings write an index."""
    root = shutil.copytree(SAMPLE, tmp_path_factory.mktemp("opened") / "sample")
    with OpenArchive(root) as archive:
        yield archive


def test_plies_of_mistakes_have_their_numbers_from_0(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "sample")
    decided = decide(ArchiveStore.open(tmp_path / "sample"), SQUARE)
    wrong = {
        (row["game_id"], row["ply"])
        for row in decided.iter_rows(named=True)
        if row["value_before"] > row["value_after"]
    }
    with OpenArchive(tmp_path / "sample") as archive:
        for ply in (None, 3):
            rows = build_mistakes_table(archive, GameFilter(runs=(SQUARE,)), ply=ply).cell_rows
            shown = [(int(row[0].text.split()[1]), int(row[3].text)) for row in rows]
            assert len(shown) == 25
            assert set(shown) <= wrong
            assert ply is None or {shown_ply for _, shown_ply in shown} == {ply}


def texts(table: object) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.cell_rows]  # type: ignore[attr-defined]


def table_of(page: ArchivePage, title: str) -> Table:
    (table,) = (part for part in page.parts if isinstance(part, Table) and part.title.startswith(title))
    return table


def test_runs_are_listed_and_filtered(opened: OpenArchive) -> None:
    rows = list_runs(opened)
    assert sorted(row.run_id for row in rows) == opened.archive.list_recorded_run_ids()
    assert sum(row.games for row in rows) == 16_000
    assert [row.run_id for row in select_runs(rows, GameFilter(agent="dumb"))] == [ROUND_ROBIN]
    assert {row.rules for row in select_runs(rows, GameFilter(rules="square"))} == {"square"}
    assert [row.run_id for row in select_runs(rows, GameFilter(), search_text="2A6D")] == [SQUARE]
    assert not select_runs(rows, GameFilter(), "running")
    assert list_rules_and_agent_names(rows) == (("classic", "square"), ("dumb", "random", "rule_based", "semi_random"))
    table = columns.build_runs_table(opened, rows, "Runs", columns.choose_columns(rows, columns.DEFAULT_CHOSEN))
    assert [row[0].link for row in table.cell_rows] == [f"/browse/runs/{row.run_id}" for row in rows]


def test_the_score_of_a_run_is_that_of_the_agent_named_first(tmp_path: Path, qarena: Qarena) -> None:
    """Put a person in the default seat: the spec names the person first, the pairing second."""
    archive = ArchiveStore.open(tmp_path / "games", create=True)
    first_agents = {}
    for seed, pairing in ((1, ("oracle", "human:ada")), (2, ("human:ada", "oracle"))):
        run = naive_games.record(naive_games.build_spec(pairings=[pairing], seed=seed), games=6)
        assert run.labels == ("human:ada", "oracle")
        archive.write_run_and_unit_count(run)
        naive_games.store(archive, run.run_id, [naive_games.random_block(seed, pairs=3)], run.pairings)
        first_agents[run.run_id] = run.pairings[0][0]
    with OpenArchive(archive.root) as opened:
        all_rows = list_runs(opened)
        chosen = columns.choose_columns(all_rows, columns.DEFAULT_CHOSEN)
        rows = columns.sort_runs(opened, all_rows, chosen, f"-{columns.SCORE_COLUMN.heading}")
        table = columns.build_runs_table(opened, rows, "Runs", chosen)
        assert {row.run_id: row.agents[0] for row in rows} == first_agents
        assert [next(part.text for part in cells[1].parts) for cells in table.cell_rows] == [
            row.agents[0] for row in rows
        ]
        scores = dict(
            opened.sql(
                "SELECT run_id, sum(wins + draws / 2) / sum(results.games) FROM results JOIN runs "
                "USING (run_id) WHERE agent = agents[1] GROUP BY ALL"
            ).rows()
        )
        assert [cells[2].text for cells in table.cell_rows] == [format_percent(scores[row.run_id]) for row in rows]
        assert [*scores.values()] != [0.5, 0.5]
        assert [scores[row.run_id] for row in rows] == sorted(scores.values(), reverse=True)
        data = select_report_data(opened)
        named = next(column for column in build_runs_section(data).tables[0].columns if column.heading == "agents")
        assert [text.split(", ")[0] for text in named.texts] == [first_agents[run_id] for run_id in data.records]
    text = qarena("archive", "ls", f"--archive={archive.root}", "--format", "json").out
    listed = {row["run_id"]: row["agents"][0] for row in json.loads(text)}
    assert listed == first_agents


def test_many_runs_are_chosen_as_few_are(opened: OpenArchive) -> None:
    other_ids = [f"{number:012x}" for number in range(MAX_COMPARED)]
    few, many = (
        f"SELECT * FROM plies WHERE {run_condition_sql([SQUARE, *more])} ORDER BY ALL" for more in ([], other_ids)
    )
    assert few != many
    assert opened.sql(few).equals(opened.sql(many))


def test_a_run_has_its_results_and_unknown_ones_an_error(opened: OpenArchive) -> None:
    page = build_run_page(opened, ROUND_ROBIN)
    assert (page.title, page.lead, page.links) == (f"Run `{ROUND_ROBIN}`", "12,000 games by classic rules", {})
    properties = table_of(page, "Properties of the run")
    (games,) = [cells[1] for cells in properties.cell_rows if f"{cells[0]}" == "games"]
    assert (games.text, games.link) == ("12,000", games_url(run=ROUND_ROBIN))
    (crosstable,) = (part for part in page.parts if isinstance(part, Result))
    assert crosstable.note.startswith("Points in percent")
    assert "Blue is better" in crosstable.note
    pairings = table_of(page, "Results of the first agent, in %")
    assert len(pairings.text_rows) == 6
    first = texts(pairings)[0]
    assert first[:4] == ["random", "dumb", "2,000", "37.85"]
    with pytest.raises(RequestError, match="run 'x' is not in archive"):
        build_run_page(opened, "x")


def test_games_are_filtered_sorted_and_paged(opened: OpenArchive) -> None:
    rows = list_runs(opened)
    everything = list_games_page_of_newest_runs(opened, rows, GameFilter())
    assert (everything.total, len(everything.table.text_rows)) == (16_000, 50)
    won = list_games_page_of_newest_runs(opened, rows, GameFilter(agent="random", opponent="dumb"), "won")
    seats = "SELECT count(*) FROM seats WHERE agent = 'random' AND opponent = 'dumb' AND score = 1"
    assert won.total == opened.sql(seats).item()
    assert {row[3] for row in texts(won.table)} == {"random"}
    drawn = list_games_page_of_newest_runs(opened, rows, GameFilter(rules="classic"), "drawn")
    assert drawn.total == 64
    longest = list_games_page_of_newest_runs(opened, rows, GameFilter(runs=(SQUARE,)), order="longest")
    plies = [int(row[4]) for row in texts(longest.table)]
    assert plies == sorted(plies, reverse=True)
    second = list_games_page_of_newest_runs(opened, rows, GameFilter(), page=2)
    assert texts(second.table)[0] not in texts(everything.table)
    assert list_games_page_of_newest_runs(opened, rows, GameFilter(agent="nobody")) == NO_GAMES
    with pytest.raises(RequestError, match="a result is one of won, drawn, lost"):
        list_games_page_of_newest_runs(opened, rows, GameFilter(), "best")


def test_endings_are_formatted_for_people() -> None:
    endings = [format_ending(ending) for ending in ENDINGS]
    assert endings[:4] == ["line", "full board", "forfeit: illegal", "forfeit: error"]


def test_decisions_of_a_game(opened: OpenArchive) -> None:
    game = load_logged_game(opened, IMPOSED, 0)
    assert game.opening == 2
    decisions = list_decisions(game, {(2, GIFT): ValueChange(1, -1)})
    assert [decision.imposed for decision in decisions[:6]] == [True, True, True, True, False, False]
    assert [(decision.seat, decision.kind) for decision in decisions[:3]] == [(0, GIFT), (1, PLACEMENT), (1, GIFT)]
    assert decisions[4].judgement == ValueChange(1, -1)
    with pytest.raises(RequestError, match="has no game 123456"):
        load_logged_game(opened, IMPOSED, 123_456)


def test_the_crosstable_leads_to_the_games(opened: OpenArchive) -> None:
    shown = build_section(opened, "crosstable", GameFilter(rules="classic", trainings=False))
    table = shown.section.table
    assert table is not None
    met = compute_head_to_head(opened, GameFilter(rules="classic"))
    assert shown.games == met.games == 14_000
    linked = [cell.link for row in table.cell_rows for cell in row[1:] if cell.link]
    assert len(linked) == 12
    assert table.cell_rows[0][0].link == "/browse/agent?agent=semi_random&rules=classic"
    assert "/browse/games?agent=semi_random&opponent=rule_based&rules=classic" in linked
    with pytest.raises(RequestError, match="'x' is no section of a report"):
        build_section(opened, "x", GameFilter())


def openings_of(opened: OpenArchive, agent: str, rules: str = "classic") -> Table:
    table = build_openings_section(opened, agent, rules).numbers
    assert table is not None
    return table


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            ("policy", "build", "kind=mc_afterstate", "kind.least=3", "name=cells"),
            {"parameter least": "3"},
        ),
        (
            ("train", "trainer=rl_encoded", "trainer.games=40", "policy.name=learned"),
            {"trainer games": "40", "trainer learner.discount": "0.7", "trainer opponent": "semi_random"},
        ),
    ],
    ids=["built", "trained"],
)
def test_the_page_of_a_policy_has_all_parameters(
    tmp_path: Path, qarena: Qarena, command: tuple[str, ...], expected: dict[str, str]
) -> None:
    play(tmp_path, "agents=[random,semi_random]", "games=200", "threads=1")
    answer = qarena(*command, f"archive.root={tmp_path}")
    assert answer.code == 0, answer.err
    with OpenArchive(tmp_path) as archive:
        (card,) = archive.archive.load_cards()
        table = table_of(build_policy_page(archive, card.name), "Parameters of the policy")
    shown = {str(row[0]): str(row[1]) for row in table.text_rows}
    assert shown.items() >= expected.items()


def test_the_openings_of_an_agent_have_its_score_after_each(opened: OpenArchive) -> None:
    table = openings_of(opened, "dumb")
    assert len(table.cell_rows) == 10
    scores = [float(row[4].text) for row in table.cell_rows]
    assert scores == sorted(scores, reverse=True)
    plies = opened.sql(
        "SELECT game_id, list(piece ORDER BY ply) AS pieces, first(cell ORDER BY ply) AS cell, "
        "first(outcome ORDER BY ply) AS outcome FROM plies WHERE ply < 2 AND run_id = $run GROUP BY game_id",
        {"run": ROUND_ROBIN},
    )
    games = opened.sql("SELECT game_id, agent_0, agent_1 FROM games WHERE run_id = $run", {"run": ROUND_ROBIN})
    counted: dict[tuple[str, ...], list[float]] = {}
    for _, (first, second), cell, outcome, zero, one in plies.join(games, "game_id").rows():
        if "dumb" not in (zero, one):
            continue
        alike = "0137F"[(first ^ second).bit_count()]
        place = "a1" if cell in (0, 3, 5, 6, 9, 10, 12, 15) else "b1"  # corners are like the middle
        score = (1 + outcome) / 2
        side, of_agent = ("itself", score) if one == "dumb" else ("its opponent", 1 - score)
        counted.setdefault((side, place, alike), []).append(of_agent)
    for row in table.cell_rows:
        row_scores = counted[tuple(cell.text for cell in row[:3])]
        assert (row[3].text, row[4].text) == (f"{len(row_scores):,}", f"{100 * sum(row_scores) / len(row_scores):.2f}")


def test_games_of_trainings_are_left_out_where_strength_is_the_subject(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "sample")
    with OpenArchive(tmp_path / "sample") as archive:
        before = rate_agents(archive, "classic")
        archive.archive.update_run_and_unit_count(
            IMPOSED, lambda record: record and structs.replace(record, training=True)
        )
        archive.refresh()
        after = rate_agents(archive, "classic")
        rated = compute_ratings(archive, rules="classic").ratings
        found_runs = {}
        for slug in ("crosstable", "ratings", "lengths", "placements", "mistakes", "learning"):
            found_runs[slug] = build_section(
                archive, slug, GameFilter(trainings=includes_trainings_by_default(slug))
            ).runs
        assert found_runs == dict.fromkeys(found_runs, 5) | {"crosstable": 4, "ratings": 4}
    assert after is not None
    assert before is not None
    assert [(rating.agent, rating.elo.mean) for rating in after.ratings] == [
        (rating.agent, rating.elo.mean) for rating in rated
    ]
    assert after.ratings != before.ratings


def test_openings_of_an_agent_begin_with_the_first_free_decision(tmp_path: Path) -> None:
    play(tmp_path, "agents=[random,semi_random]", "games=40", "opening_plies=2", "threads=1")
    note = "each game counts at its first free decision: ply 2 in 40 games; the plies before were imposed"
    with OpenArchive(tmp_path) as archive:
        table = openings_of(archive, "random")
        assert table.title.endswith(f"; {note}")
        headings = [column.heading for column in table.columns[:5]]
        assert headings == ["decides", "position", "cell", "gift", "games"]
        answer = run_openings_query(archive, OpeningsQuery(by="turn", games=GameFilter(agent="random")))
        chosen = dict(zip(answer.rows.select("position", "cell", "gift").rows(), answer.rows["score"], strict=True))
        own_rows = [row for row in table.cell_rows if row[0].text == "itself"]
        assert own_rows
        for row in own_rows:
            key = row[1].text, row[2].text, None if row[3].text == "·" else row[3].text
            assert row[5].text == format_percent(chosen[key])
            assert row[1].link == urls.openings_url(row[1].text)
    play(tmp_path, "agents=[random,semi_random]", "games=10", "seed=2", "threads=1")
    with OpenArchive(tmp_path) as archive:  # all games are there, each at its ply
        table = openings_of(archive, "random")
        assert table.title.endswith("ply 0 in 10 games, ply 2 in 40 games; the plies before were imposed")
    play(tmp_path, "agents=[random,semi_random]", "games=40", "rules=own_piece", "threads=1")
    with OpenArchive(tmp_path) as archive:
        table = openings_of(archive, "random", "own_piece")
        assert [column.heading for column in table.columns[:3]] == ["places first", "cell", "games"]


def test_equivalent_decisions_have_the_results_of_the_one_that_has_a_row(opened: OpenArchive) -> None:
    start = explore_position_if_readable(opened, OpeningsQuery())
    (every,) = start.results
    assert (every.choice, len(every.alike), every.games, every.share) == ("0", 15, 13_000, 1)
    text = "0.../..../..../.... F"
    result = explore_position_if_readable(opened, OpeningsQuery(text))
    (b1,) = (choice for choice in result.results if choice.choice == "b1")
    assert "a2" in b1.alike
    assert result.explored is not None
    assert result.explored.rows["games"].sum() == result.explored.games
    table = build_decisions_table(result.explored, lambda word: f"/{word}")
    assert [row[0].link for row in table.cell_rows] == [f"/{cell}" for cell in result.explored.rows["cell"]]
    assert table.cell_rows[0][-1].link.endswith("?ply=2")
    assert len(build_decisions_table(result.explored, str, brief=True).columns) == 5
    of_turns = explore_position_if_readable(opened, OpeningsQuery(text, by="turn"))
    assert of_turns.explored is not None
    assert {cell.link for cell in build_decisions_table(of_turns.explored, str).cell_rows[0][:2]} == {""}
    of_gifts = explore_position_if_readable(opened, OpeningsQuery(by="gift"))
    assert of_gifts.explored is not None
    (piece, *_) = build_decisions_table(of_gifts.explored, str).cell_rows[0]
    assert (piece.piece, piece.link) == (0, "0")
    assert explore_position_if_readable(opened, OpeningsQuery("0F1E/..../..../.... 3")).missing.startswith(
        "no decision was made"
    )
    with pytest.raises(RequestError, match="2 or 3"):
        explore_position_if_readable(opened, OpeningsQuery("x"))


@pytest.mark.extras
@pytest.mark.parametrize("position", ["..../..../..../.... -", "0.../..../..../.... F", "01../..../..../.... F"])
def test_shares_of_openings_add_up_on_the_board_in_the_table_and_in_files(
    opened: OpenArchive, position: str, qarena: Qarena
) -> None:
    """Count equivalent cells once.

    When each of three corners showed the shared count of 58 %, the shares added up to 287 %.
    """
    from runners.web.analyse.view import build_share_and_score_badges

    answer = explore_position_if_readable(opened, OpeningsQuery(position))
    assert answer.explored is not None
    text = qarena("openings", position, f"--archive={opened.archive.root}", "--format", "json").out
    column = "gift" if answer.explored.by == "gift" else "cell"
    listed = {row[column]: row["share"] for row in json.loads(text)}
    assert sum(listed.values()) == pytest.approx(1)
    table = build_decisions_table(answer.explored, str)
    at = [table_column.heading for table_column in table.columns].index("share")
    assert {row[0].text: row[at].text for row in table.cell_rows} == {
        choice: format_percent(share) for choice, share in listed.items()
    }
    badges = build_share_and_score_badges(answer.results)
    counted = {choice: badge for choice, badge in badges.items() if not badge.text.startswith("= ")}
    assert len(badges) == sum(answer.explored.rows["alike"])
    assert {choice: badge.text.split()[0] for choice, badge in counted.items()} == {
        choice: format_percent_tenths_below_ten(share) for choice, share in listed.items()
    }
    assert {badge.text[2:] for badge in badges.values() if badge.text.startswith("= ")} <= {*counted}


def test_a_sweep_of_two_settings_is_a_heat_map(opened: OpenArchive) -> None:
    (row,) = sweeps.list_sweeps(opened)
    assert (row.jobs, row.complete, row.settings) == (4, 4, ("opening_plies", "rules"))
    sweep = sweeps.build_sweep_page(opened, row.sweep_id)
    (figure,) = (part for part in sweep.parts if isinstance(part, Figure))
    assert figure.title == "score, % by opening_plies and rules"
    assert all(text in figure.svg for text in ("classic", "square", "96.95", "97.9"))
    assert {*re.findall(r'fill-opacity="([\d.]+)"', figure.svg)} == {"0"}  # all four intervals hold the mean
    assert sweep.lead.endswith("varied; the same in all jobs: `experiment=openings`, `games=1000`")
    with pytest.raises(RequestError, match="sweep 'x' is not in archive"):
        sweeps.build_sweep_page(opened, "x")


def test_a_tile_is_shaded_where_its_interval_leaves_out_the_mean() -> None:
    frame = pl.DataFrame({"x": [0, 1, 2], "y": ["a"] * 3, "v": [40.0, 50.0, 60.0]})
    with_intervals = frame.with_columns(low=pl.col("v") - 5, high=pl.col("v") + 5)
    for rows, plan in ((frame, ()), (with_intervals, ("low", "high"))):
        svg = build_chart(rows, ChartPlan("heat map", "x", "y", "v", *plan), "").svg
        tiles = re.findall(r'fill="(#\w+)"[^>]*fill-opacity="([\d.]+)"', svg)
        assert [(colour, float(shade) > 0) for colour, shade in tiles] == [
            (style.SECOND_COLOUR, True),
            (style.FIRST_COLOUR, False),
            (style.FIRST_COLOUR, True),
        ]


def test_a_job_that_failed_has_a_word_in_the_table_and_its_reason_below(
    opened: OpenArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, error = opened.archive.load_sweep_jobs(), "run x was begun by other code"
    jobs[1] = structs.replace(jobs[1], run_id=None, status="failed", error=error)
    monkeypatch.setattr(Snapshot, "load_sweep_jobs", lambda _self: jobs)
    sweep = sweeps.build_sweep_page(opened, jobs[0].sweep_id)
    assert texts(table_of(sweep, "Why jobs failed")) == [[str(jobs[1].job), error]]
    assert texts(table_of(sweep, "Jobs"))[1][-5:] == ["failed", *[MISSING] * 4]


@pytest.mark.parametrize(("last", "ticks"), [("full", {"0", "118", "full"}), ("9" * 50, {"0", "110"})])
def test_a_sweep_is_drawn_whatever_the_setting_of_a_late_job(
    opened: OpenArchive, monkeypatch: pytest.MonkeyPatch, last: str, ticks: set[str]
) -> None:
    job = opened.archive.load_sweep_jobs()[0]
    jobs = [structs.replace(job, job=number, overrides={"depth": str(number)}) for number in range(120)]
    jobs[-1] = structs.replace(jobs[-1], overrides={"depth": last})
    monkeypatch.setattr(Snapshot, "load_sweep_jobs", lambda _self: jobs)
    (figure,) = (part for part in sweeps.build_sweep_page(opened, job.sweep_id).parts if isinstance(part, Figure))
    assert figure.title == "score, % by depth"
    assert ticks <= {*re.findall(">([^<>]+)<", figure.svg)}


@pytest.mark.parametrize("most", [4, 64])  # units of a file: the shorter training ends between two, or within one
def test_a_job_of_a_training_has_its_own_games_although_a_longer_one_continued_its_run(
    tmp_path: Path, most: int
) -> None:
    archive = ArchiveStore.open(tmp_path / "games", create=True)
    pairing = ("learner", "random")
    run = naive_games.record(naive_games.build_spec(pairings=[pairing], learner=0), training=True)
    archive.write_run_and_unit_count(run)
    blocks = [naive_games.random_block(1, pairs=10)]
    naive_games.store(archive, run.run_id, blocks, run.pairings, most)
    game_counts = (7, 8, 20)
    for number, games in enumerate(game_counts):
        settings = {"trainer.games": str(games)}
        archive.write_sweep_job(SweepJob("trainings", number, settings, run.run_id, games=games, jobs=3))
    with OpenArchive(archive.root) as opened:
        table = table_of(sweeps.build_sweep_page(opened, "trainings"), "Jobs")
        listed = opened.sql("SELECT job, games, (wins + draws / 2) / games AS score FROM sweeps ORDER BY job").rows()
        played = opened.sql("SELECT pair_id, agent_0, winner FROM games").rows()
    points = [
        (pair, 0.5 if winner not in (0, 1) else float((agent == "learner") == (winner == 0)))
        for pair, agent, winner in played
    ]
    assert [score for _, _, score in listed] == [
        pytest.approx(mean(point for pair, point in points if pair < pairs)) for pairs in (4, 4, 10)
    ]
    assert [games for _, games, _ in listed] == [8, 8, 20]
    shown = [[cell.text for cell in row] for row in table.cell_rows]
    headings = [column.heading for column in table.columns]
    assert [row[headings.index("games")] for row in shown] == ["8", "8", "20"]
    assert [row[headings.index("score, %")] for row in shown] == [format_percent(score) for _, _, score in listed]


def test_whole_numbers_on_an_axis_are_a_step_apart() -> None:
    frame = pl.DataFrame({"plies": [4, 6], "score": [0.25, 0.75]})
    labels = re.findall(r">(\d+)</text>", charts.build_chart(frame, plan_chart(frame), "t").svg)
    assert labels == ["4", "5", "6"]


def test_long_names_are_cut_in_labels_and_never_in_data() -> None:
    name = "rl_encoded(policy=a_rather_long_name,epsilon=0.{})"
    agents = [name.format(number) for number in range(5)]
    scores = pl.DataFrame({"agent": agents, "score": [0.5, 0.6, 0.7, 0.8, 0.9]})
    svg = charts.build_chart(scores, plan_chart(scores, "bars"), "t").svg
    tops = {float(top) for top in re.findall(r"translate\(0,(-?[\d.]+)\)", svg)}
    assert tops  # there is an axis
    assert len(re.findall(r'fill="#0072b2"', svg)) == 5  # a bar each
    assert "1.5" not in re.findall(r">([\d.]+)</text>", svg)  # the axis ends above the greatest score, not a sum
    pairs = [(one, other) for one in agents for other in agents]
    met = pl.DataFrame(pairs, schema=["agent", "opponent"], orient="row").with_columns(games=pl.int_range(25))
    svg = charts.build_chart(met, plan_chart(met, "heat map", "agent", "opponent", "games"), "t").svg
    assert set(map(str, range(25))) <= set(re.findall(r">(\d+)</text>", svg))  # no tile lies on another
    twice = pl.concat([scores, scores])
    for plan in (ChartPlan("bars", "agent", "score"), ChartPlan("heat map", "agent", "agent", "score")):
        with pytest.raises(RequestError, match="several rows have the same agent"):
            charts.build_chart(twice, plan, "t")


def test_a_chart_follows_from_the_columns() -> None:
    frame = pl.DataFrame({"agent": ["a", "a", "b"], "opponent": ["b", "c", "c"], "score": [0.5, 0.25, 1.0]})
    assert plan_chart(frame) == ChartPlan("bars", "agent", "score", "opponent")
    assert plan_chart(frame, "heat map") == ChartPlan("heat map", "agent", "opponent", "score")
    assert plan_chart(frame.with_columns(n=pl.Series([3, 1, 2])), x="n") == ChartPlan("line", "n", "score")
    svg = charts.build_chart(frame, plan_chart(frame), "t").svg
    assert svg.startswith("<svg")
    assert "style=" not in svg  # which the policy of our pages forbids
    assert not re.search(r"https?:", svg)
    hostile = pl.DataFrame({"a.b[0]": ["<script>", "'\"&"], "y": [1.0, float("nan")]})
    assert "<script" not in charts.build_chart(hostile, plan_chart(hostile), "t").svg
    wrong = {"chart 'pie'": {"kind": "pie"}, "column 'z'": {"x": "z"}, "no numbers": {"y": "agent"}}
    wrong |= {
        "column 'opponent' has no numbers": {"kind": "heat map", "x": "agent", "y": "score", "colour": "opponent"}
    }
    for complaint, request in wrong.items():
        with pytest.raises(RequestError, match=complaint):
            plan_chart(frame, **request)
    with pytest.raises(RequestError, match="a chart needs rows"):
        plan_chart(frame.head(0))


def test_answers_lead_to_runs_games_and_positions() -> None:
    frame = pl.DataFrame(
        {"run_id": [SQUARE], "game_id": [7], "position": ["..../..../..../.... F"], "text": ["x" * 500], "none": [None]}
    )
    (row,) = build_answer_table(frame).cell_rows
    assert [cell.link for cell in row] == [
        f"/browse/runs/{SQUARE}",
        f"/browse/games/{SQUARE}/7",
        build_url("/analyse", {"text": "..../..../..../.... F"}),
        "",
        "",
    ]
    assert len(row[3].text) == 120
    wide = pl.DataFrame({f"c{number}": range(1000) for number in range(50)})
    table = build_answer_table(wide)
    assert table.title == "The first 60 of 1,000 rows, the first 40 of 50 columns"


def test_a_lineage_is_drawn_with_what_a_policy_comes_from_on_its_right() -> None:
    def node(kind: str, name: str, came: str | None, note: str = "held") -> LineageNode:
        return LineageNode(kind, name, came, 0, f"{kind} <{name}>", name, note)

    nodes = [
        node(POLICY, "c", None),
        node(RUN, "played-by-a", "c"),
        node(POLICY, "a", "played-by-a", ""),
        node(RUN, "played-by-b", "c"),
        node(POLICY, "b", "played-by-b"),
        node(RUN, "played-by-a", "b"),
        node(POLICY, "a", "played-by-a"),
    ]
    svg = build_lineage_figure(nodes).svg
    left_edges = {name: int(x) for name, x in re.findall(r"<title>\w+ &lt;([\w-]+)&gt;</title><rect x=\"(\d+)\"", svg)}
    columns = {name: x // (BOX_WIDTH + COLUMN_GAP) for name, x in left_edges.items()}
    assert columns == {"c": 0, "played-by-b": 1, "b": 2, "played-by-a": 3, "a": 4}
    assert svg.count("<path") == 5
    assert set(re.findall('href="([^"]+)"', svg)) == {
        *("/browse/policies/c", "/browse/policies/b", "/browse/runs/played-by-a", "/browse/runs/played-by-b")
    }
    assert "not in this archive" in svg
    places = [tuple(map(int, corner)) for corner in re.findall(r'<rect x="(\d+)" y="(\d+)"', svg)]
    flat = re.findall(r'd="M[^"]*? (\d+) (\d+)H(\d+)C', svg)  # where a line runs past other columns
    assert flat
    for left_end, lane, right_end in (map(int, coordinates) for coordinates in flat):
        behind = [x for x, y in places if left_end < x + BOX_WIDTH and x < right_end and y <= lane <= y + BOX_HEIGHT]
        assert not behind
    build_lineage_figure([*nodes, node(RUN, "played-by-b", "a")])  # records that contradict each other are drawn too


def test_there_are_no_policies_in_the_sample(opened: OpenArchive) -> None:
    assert build_policies_table(opened).text_rows == []


def test_a_library_shows_what_is_there_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.web.archive.snapshots.CHECK_SECONDS", 0.0)
    root = tmp_path / "games"
    library = SnapshotService(root)
    assert library.load_snapshot() is None  # there is no archive
    shutil.copytree(SAMPLE, root)
    content = library.load_snapshot()
    assert content is not None
    assert len(content.compute_once(list_runs)) == 5
    assert content.compute_once(list_runs) is content.compute_once(list_runs)
    (root / "runs" / f"{SQUARE}.json").unlink()
    shutil.rmtree(root / "games" / f"run={SQUARE}")
    content.seconds = 0.0
    changed = library.load_snapshot()
    assert changed is not None
    assert len(changed.compute_once(list_runs)) == 4
    next((root / "games" / f"run={ROUND_ROBIN}").iterdir()).unlink()
    changed.seconds = 0.0
    with pytest.raises(FailureError, match=r"lacks units .*, which were there"):
        library.load_snapshot()
    library.close()
