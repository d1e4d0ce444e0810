"""The frames beneath the sections of a report equal what plain Python counts in the same games."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics import open_archive
from analytics.questions.columns import format_interval, format_percent
from analytics.questions.ratings import fit_ratings
from analytics.questions.sql.database import OpenArchive
from analytics.report import report_data, style
from analytics.report.report_data import MAX_AGENTS, select_report_data
from analytics.report.result import render_only_result_svg
from analytics.report.sections import evaluations, form, learning, lengths, mistakes, openings, strength
from analytics.statistics.tally import Tally, mean_score, wilson_interval
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from tests.analytics.chosen_games import (
    BY_GAMES,
    BY_GENERATIONS,
    CHOICES,
    RUNS,
    Row,
    add_decisions,
    add_policies,
    select_rows,
    write_archive,
)
from tests.analytics.indexed import write_draw_evaluations
from tests.analytics.naive_games import build_spec, random_block, record, store
from tests.analytics.subject_sections import build_subject_sections
from tests.naive_quarto import ORACLES

Keep = Callable[[Row], bool]
each_choice = pytest.mark.parametrize(("where", "keep"), CHOICES, ids=["all", "agent", "run", "part"])


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> ArchiveStore:
    return write_archive(tmp_path_factory.mktemp("figures") / "archive")


@pytest.fixture(scope="module")
def opened(archive: ArchiveStore) -> OpenArchive:
    return open_archive(archive.root)


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few bootstrap samples, because the bootstrap takes longer than all the rest, and has tests of its own."""
    monkeypatch.setattr(report_data, "fit_ratings", partial(fit_ratings, samples=10))


def result_of(row: Row, agent_seat: int) -> int:
    """Return the result for the agent in a seat: 0 lost, 1 drew, 2 won."""
    return 1 if row["winner"] == -1 else 2 * (row["winner"] == agent_seat)


def naive_tallies(games: list[Row]) -> dict[tuple[str, int], Counter[tuple[object, ...]]]:
    """Count pairs by the two results of the first agent, by run and pairing.

    The result of a missing game is None.
    """
    pairs: dict[tuple[str, int], dict[int, list[int | None]]] = defaultdict(lambda: defaultdict(lambda: [None, None]))
    for row in games:
        first_seat = row["game_id"] % 2  # the pairing's first agent holds seat 0 in game 0
        pairs[row["run_id"], row["pairing"]][row["pair_id"]][first_seat] = result_of(row, first_seat)
    return {key: Counter(map(tuple, results.values())) for key, results in pairs.items()}


def count_pairs(tally: Tally) -> Counter[tuple[object, ...]]:
    """Count the pairs of a tally by the two results of the first agent, in the form of ``naive_tallies``."""
    both: dict[tuple[object, ...], int] = {(a, b): tally.pairs[a][b] for a, b in product(range(3), repeat=2)}
    alone: dict[tuple[object, ...], int] = {(result, None): tally.singles[0][result] for result in range(3)}
    other: dict[tuple[object, ...], int] = {(None, result): tally.singles[1][result] for result in range(3)}
    return +Counter(both | alone | other)


@each_choice
def test_tallies_are_those_of_the_chosen_pairs(opened: OpenArchive, where: str | None, keep: Keep) -> None:
    games, _ = select_rows(RUNS, keep)
    chosen = select_report_data(opened, where)
    assert {key: count_pairs(result.tally) for key, result in chosen.results_by_pairing.items()} == naive_tallies(games)
    assert chosen.total_tally.games == len(games)
    assert chosen.total_tally.plies == sum(row["plies"] for row in games)
    for kind in ("illegal", "errors"):
        ended = sum(row["ending"] == {"illegal": "forfeit_illegal", "errors": "forfeit_error"}[kind] for row in games)
        assert sum(getattr(chosen.total_tally, kind)) == ended
    played = Counter(agent for row in games for agent in {row["agent_0"], row["agent_1"]})
    assert chosen.games_by_agent == played
    assert list(chosen.games_by_agent) == sorted(played, key=lambda agent: (-played[agent], agent))


@each_choice
def test_lengths_are_those_of_each_agents_games(opened: OpenArchive, where: str | None, keep: Keep) -> None:
    games, _ = select_rows(RUNS, keep)
    chosen = select_report_data(opened, where)
    expected: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in games:
        if not row["ending"].startswith("forfeit"):
            for seat in {row["agent_0"]: 0, row["agent_1"]: 1} if row["agent_0"] != row["agent_1"] else {"": 0}:
                at = 0 if row["agent_0"] == row["agent_1"] else int(seat == row["agent_1"])
                expected[row["rules"], row[f"agent_{at}"], row["plies"]][result_of(row, at)] += 1
    frame = lengths.lengths_by_rules_and_agent_frame(chosen)
    totals: Counter[tuple[str, str]] = Counter()
    for (rules, agent, _), counts in expected.items():
        totals[rules, agent] += sum(counts)
    counts_by_key = {}
    for row in frame.iter_rows(named=True):
        key = row["rules"], row["agent"]
        counts = [row["losses"], row["draws"], row["wins"]]
        assert row["games"] == sum(counts)
        assert row["share"] == pytest.approx(row["games"] / totals[key])
        assert (row["low"], row["high"]) == pytest.approx(wilson_interval(row["games"], totals[key]))
        if any(counts):
            counts_by_key[*key, row["plies"]] = counts
    assert counts_by_key == expected
    assert {*frame.select("rules", "agent").unique().rows()} == {*totals}
    assert len(frame) == 13 * len(totals)


def test_random_play_stands_beside_the_lengths_where_it_is_known(opened: OpenArchive) -> None:
    frame = lengths.lengths_by_rules_and_agent_frame(select_report_data(opened))
    assert {*frame.filter(frame["random"].is_null())["rules"]} == {"square"}
    shares = frame.filter(rules="classic", agent="random")["random"].to_list()
    assert shares[:12] == pytest.approx(ORACLES["random_play"]["win_probability_at_placement_4_to_16"][:12], abs=1e-6)
    assert sum(shares) == pytest.approx(1)


@each_choice
@pytest.mark.parametrize("kind", [openings.PLACEMENTS, openings.GIFTS], ids=["placements", "gifts"])
def test_first_choices_are_those_that_were_chosen(
    opened: OpenArchive, where: str | None, keep: Keep, kind: openings.DecisionKind
) -> None:
    _, plies = select_rows(RUNS, keep)
    mover_chooses = {played.rules.name: played.rules.mover_chooses for played in RUNS}
    expected: dict[tuple[str, str, int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in plies:
        if 0 <= row["ply"] - row["opening"] < 3:
            gave = kind is openings.GIFTS and not mover_chooses[row["rules"]]
            seat = 1 - row["seat"] if gave else row["seat"]
            for agent in (openings.ALL_AGENTS, row[f"agent_{seat}"]):
                expected[row["rules"], agent, row["ply"], row[kind.column]][result_of(row, seat)] += 1
    frame = openings.openings_frame(select_report_data(opened, where), kind)
    counts_by_key = {}
    together: Counter[tuple[str, str, int]] = Counter()
    for row in frame.iter_rows(named=True):
        counts = [row["losses"], row["draws"], row["wins"]]
        counts_by_key[row["rules"], row["agent"], row["ply"], row[kind.column]] = counts
        together[row["rules"], row["agent"], row["ply"]] += row["games"]
        assert row["games"] == sum(counts)
        score = mean_score(counts)
        assert [row["score"], row["low"], row["high"]] == pytest.approx([*score])
    assert counts_by_key == expected
    for row in frame.iter_rows(named=True):
        assert row["share"] == pytest.approx(row["games"] / together[row["rules"], row["agent"], row["ply"]])


@each_choice
def test_the_crosstable_scores_every_game_between_two_agents(
    opened: OpenArchive, where: str | None, keep: Keep
) -> None:
    games, _ = select_rows(RUNS, keep)
    points: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in games:
        for seat in (0, 1):
            if row["agent_0"] != row["agent_1"]:
                points[row[f"agent_{seat}"], row[f"agent_{1 - seat}"]].append(result_of(row, seat) / 2)
    frame = strength.build_shown_crosstable(select_report_data(opened, where)).to_frame()
    against = frame.unpivot([f"v {agent}" for agent in frame["agent"]], index="agent").drop_nulls()
    scores = {(agent, opponent.removeprefix("v ")): score for agent, opponent, score in against.iter_rows()}
    assert scores == pytest.approx({both: sum(scored) / len(scored) for both, scored in points.items()})
    merged: dict[str, list[float]] = defaultdict(list)
    for (agent, _), scored in points.items():
        merged[agent] += scored
    for row in frame.iter_rows(named=True):
        assert row["games"] == len(merged[row["agent"]])
        assert row["low"] <= row["score"] <= row["high"]
    order = sorted(merged, key=lambda agent: (-sum(merged[agent]) / len(merged[agent]), agent))
    assert frame["agent"].to_list() == order


def test_pairs_are_the_unit_where_openings_were_imposed(opened: OpenArchive) -> None:
    chosen = select_report_data(opened, f"run_id = '{RUNS[1].record.run_id}'")
    (first, *_) = strength.build_shown_crosstable(chosen).standings
    seen = (
        chosen.results_summed_over_runs[0].tally
        if RUNS[1].pairings[0][0] == first.agent
        else chosen.results_summed_over_runs[0].tally.with_agents_swapped
    )
    assert first.score == mean_score(seen.pentanomial)
    assert "over pairs," in strength.build_crosstable_section(chosen).note
    alone = f"run_id = '{RUNS[0].record.run_id}'"
    assert "over games." in strength.build_crosstable_section(select_report_data(opened, alone)).note


def test_ratings_are_those_of_the_joint_fit(opened: OpenArchive) -> None:
    chosen = select_report_data(opened)
    for part in chosen.rated_parts_by_rules:
        fit = fit_ratings(dict(sorted(part.tallies_by_agents.items())), samples=10)
        frame = strength.ratings_frame(part.rate_agents(), part.shown_agents)
        assert frame.select("agent", "elo", "low", "high").rows() == [
            (rating.agent, *rating.elo) for rating in fit.ratings
        ]
        following = zip(fit.ratings, fit.ratings[1:], strict=False)
        sure = [
            fit.superiority[row, row + 1] if one.group == two.group else None
            for row, (one, two) in enumerate(following)
        ]
        assert frame["above_next"].to_list() == [*sure, None]
    assert "different rules" in strength.build_ratings_section(chosen).missing
    alone = select_report_data(opened, "agent_0 = agent_1").rated_parts_by_rules[0]
    assert "no games between different agents" in strength.build_ratings_section(alone).missing


def test_choosing_shown_agents_reads_no_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, run = ArchiveStore.open(tmp_path / "shared", create=True), record(build_spec(seed=3, opening_plies=2))
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(1, pairing) for pairing in range(3)])
    with open_archive(archive.root) as opened:
        chosen = select_report_data(opened)
        assert chosen.shared_openings is not None  # games are read for the intervals
        expected = {(result.first, result.second): result.tally for result in chosen.results_summed_over_runs}
        again = select_report_data(opened)
        questions = count_questions(monkeypatch)
        assert again.shown_agents == chosen.shown_agents
        assert again.tallies_by_agents == expected
        assert not questions


def test_evaluations_are_summed_once_for_totals_and_plies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = write_archive(tmp_path / "evaluated", RUNS[:2])
    write_draw_evaluations(archive, RUNS[0].record.run_id)
    with open_archive(archive.root) as opened:
        chosen = select_report_data(opened)
        questions = count_questions(monkeypatch)
        result = evaluations.build_evaluations_overview(chosen)
        assert len(questions) == 1
        assert result.frame is not None
        turns = opened.sql("SELECT agent, count(*) FROM evaluations GROUP BY ALL ORDER BY ALL").rows()
        assert sorted(result.frame.select("agent", "turns").rows()) == turns


def count_questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each question in SQL is added from now on."""
    questions, ask = list[str](), OpenArchive.sql

    def note_and_ask(opened: OpenArchive, text: str, *arguments: Any, **frames: Any) -> pl.DataFrame:
        questions.append(text)
        return ask(opened, text, *arguments, **frames)

    monkeypatch.setattr(OpenArchive, "sql", note_and_ask)
    return questions


def test_of_many_agents_the_best_rated_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [f"agent{number:02}" for number in range(MAX_AGENTS + 2)]
    pairings = [(label, "everybody") for label in labels]
    blocks = [random_block(number, number, 0, 4) for number in range(len(labels))]
    run = record(build_spec(pairings=pairings))
    archive = ArchiveStore.open(tmp_path / "many", create=True)
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, blocks, pairings)
    with open_archive(archive.root) as opened:
        chosen = select_report_data(opened)
        best = fit_ratings(chosen.tallies_by_agents, samples=0).agents_ranked_first[:MAX_AGENTS]
        assert chosen.shown_agents == tuple(sorted(best))
        assert (
            len({chosen.find_colour_number(agent) for agent in chosen.shown_agents})
            == MAX_AGENTS
            == len(style.AGENT_COLOURS)
        )
        section = lengths.build_lengths_section(chosen)  # the choice comes after the computation
        assert {*section.frame["agent"]} == {*labels, "everybody"}
        assert len(section.figures) == MAX_AGENTS
        lengths_frame = lengths.lengths_by_rules_and_agent_frame(chosen)
        assert {*chosen.select_rows_of_shown_agents(lengths_frame)["agent"]} == {*chosen.shown_agents}
        crosstable = strength.build_crosstable_section(chosen)
        assert {*strength.build_shown_crosstable(chosen).agents} == {*labels, "everybody"}
        assert "Shown are" not in crosstable.note
        monkeypatch.setattr(strength, "MAX_CROSSTABLE_AGENTS", MAX_AGENTS)
        assert {*strength.build_shown_crosstable(chosen).agents} == {*chosen.shown_agents}
        assert f"Shown are the {MAX_AGENTS} best of 15 agents." in strength.build_crosstable_section(chosen).note


@pytest.mark.slow
def test_mistakes_are_those_of_the_judged_decisions(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive")
    with open_archive(archive.root) as opened:
        assert mistakes.mistakes_frame(select_report_data(opened), by_ply=False).is_empty()
    rows = add_decisions(archive)
    with open_archive(archive.root) as opened:
        for where, keep in CHOICES:
            if where and "game_id" not in where and "agent" not in where:
                continue  # a run that is not judged
            for by_ply in (False, True):
                expected: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
                for row in rows:
                    if keep(row):
                        expected[row["agent"], row["kind"], row["ply"] if by_ply else None].append(row["regret"])
                frame = mistakes.mistakes_frame(select_report_data(opened, where), by_ply)
                row_by_key = {(row["agent"], row["kind"], row["ply"]): row for row in frame.iter_rows(named=True)}
                assert row_by_key.keys() == expected.keys()
                for key, regrets in expected.items():
                    share = sum(regret > 0 for regret in regrets) / len(regrets)
                    assert row_by_key[key]["decisions"] == len(regrets)
                    assert row_by_key[key]["regret"] == pytest.approx(sum(regrets) / len(regrets))
                    assert row_by_key[key]["blunders"] == pytest.approx(share)
                    assert row_by_key[key]["blunders_low"] <= share <= row_by_key[key]["blunders_high"]


def test_learning_curves_are_those_of_policies_that_learned_in_the_runs(full: OpenArchive) -> None:
    curves = learning.load_training_curves(select_report_data(full, "winner = 1"))
    assert [(curve.card.name, curve.rows.columns) for curve in curves] == [
        ("rising", BY_GAMES.columns),
        ("bred", BY_GENERATIONS.columns),
    ]
    frame = learning.learning_frame(curves).select("policy", "series", "step", "value")
    assert frame.filter(policy="rising").rows() == [
        ("rising", "win_rate", *point) for point in [(10, 0.2), (20, 0.5), (25, 0.8)]
    ]
    ends = learning.learning_frame(curves).filter(policy="rising").select("value", "low", "high").rows()
    assert all(low < value < high for value, low, high in ends)  # the interval that the note promises
    table = learning.build_section_on_trained_policies(select_report_data(full, "winner = 1")).tables[-1]
    assert [column.heading for column in table.columns] == ["policy", "series", "step", "value", "95 % interval"]
    assert [row[3:] for row in table.text_rows if row[0] == "rising"] == [
        (format_percent(value), format_interval(low, high)) for value, low, high in ends
    ]
    assert {*frame.filter(policy="bred").rows()} == {
        ("bred", name, step, value) for name in ("best", "mean") for step, value in enumerate(BY_GENERATIONS[name])
    }
    assert learning.load_training_curves(select_report_data(full, f"run_id = '{RUNS[1].record.run_id}'")) == []
    passes = pl.DataFrame({"pieces": [9, 8], "pass": [1, 1], "boards": [4, 5], "won": [0.25, 0.5]})
    stages = learning.learning_frame([learning.LearningCurve(curves[0].card, passes)]).select("series", "step", "value")
    assert stages.rows() == [("won, 9 pieces", 1, 0.25), ("won, 8 pieces", 1, 0.5)]


PICTURE_TEXTS = {  # texts in the picture of each section
    "ratings": ("random", "Elo"),
    "placements": ("a1", "score, %; blue: over half"),
    "gifts": ("F", "how often, %; bluer: more"),
    "lengths": ("plies", "share of games"),
    "learning": ("generation", "games learned from"),
    "mistakes": ("ply", "blunders"),
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> OpenArchive:
    """Add judged decisions and policies to the games."""
    archive = write_archive(tmp_path_factory.mktemp("full") / "archive")
    add_decisions(archive)
    add_policies(archive)
    return open_archive(archive.root)


@pytest.mark.parametrize("slug", PICTURE_TEXTS)
def test_each_picture_says_what_it_shows(full: OpenArchive, slug: str) -> None:
    picture = render_only_result_svg(build_subject_sections(full, slug, f"run_id = '{RUNS[0].record.run_id}'"))
    for text in PICTURE_TEXTS[slug]:
        assert f">{text}</text>" in picture
    assert "NaN" not in picture


def test_long_labels_are_shown_to_their_end(tmp_path: Path) -> None:
    label = "mcts(exploration=1.41421356,iterations=40,reuse=true,safe_gifts=true)"
    pairings = [(label, "random")]
    archive = ArchiveStore.open(tmp_path / "long", create=True)
    run = record(build_spec(pairings=pairings))
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [random_block(1)], pairings)
    with open_archive(archive.root) as opened:
        texts = re.findall(
            r">([^<>]+)</t(?:ext|span)>", render_only_result_svg(build_subject_sections(opened, "ratings"))
        )
        assert label in "".join(texts)
        assert "…" not in "".join(texts)


@pytest.mark.parametrize(
    ("slug", "where", "complaint"),
    [
        ("crosstable", "agent_0 = agent_1", "no two different agents played each other"),
        ("crosstable", f"run_id = '{RUNS[0].record.run_id}'", "it is a table"),
        ("ratings", None, "Ratings: classic, .*: choose games by one set of rules"),
        ("learning", "agent_0 = agent_1", "no policy was learned in these runs"),
        ("mistakes", "agent_0 = agent_1", "no decision of these games is judged"),
        ("lengths", "ending LIKE 'forfeit%'", "were forfeited"),
        ("placements", "plies = 0", "no ply of these games was free, or none was played"),
        ("gifts", "plies = 99", "has no game with"),
        ("gits", None, "'gits' is no section of a report; did you mean 'gifts'"),
    ],
)
def test_where_there_is_no_picture_an_error_says_why(
    opened: OpenArchive, slug: str, where: str | None, complaint: str
) -> None:
    with pytest.raises(RequestError, match=complaint):
        render_only_result_svg(build_subject_sections(opened, slug, where))


def test_a_notebook_shows_a_section(full: OpenArchive) -> None:
    (section,) = build_subject_sections(full, "gifts")
    shown = section._repr_html_()
    assert all(text in shown for text in ("<h2>First gifts</h2>", "<figure", "The numbers", 'href="#piece-15"'))
    (nothing,) = build_subject_sections(full, "evaluations")
    assert "Nothing to show: no evaluations were stored" in nothing._repr_html_()


def test_dots_of_ratings_are_nearer_to_their_own_label() -> None:
    labels = ["random", "mcts(iterations=16,solver=true,reuse=true)", "dumb", "minimax"]
    frame = pl.DataFrame({"agent": labels, "elo": 1.0, "low": 0.0, "high": 2.0, "bounded": True})
    rows = strength.build_ratings_chart(frame, labels.index)["data"]["values"]
    assert [row["label"] for row in rows][:2] == [["random"], ["mcts(iterations=16,", "solver=true,reuse=true)"]]
    for row, following in pairwise(rows):
        end_of_label = row["top"] + strength.LABEL_LINE * len(row["label"])
        assert 0 < row["dot"] - end_of_label < following["top"] - row["dot"]


def test_the_form_of_an_agent_numbers_each_run_once() -> None:
    def list_ticks(run_count: int) -> list[int]:
        columns = {"agent": "a", "created": "2026-11-28T10:00", "opponents": 1, "games": 2}
        shares = {"score": 0.5, "low": 0.4, "high": 0.6, "expected": 0.5}
        frame = pl.DataFrame([columns | shares | {"run_id": f"r{number}"} for number in range(run_count)])
        values: list[int] = form.build_form_result(frame).figures[0].picture["encoding"]["x"]["axis"]["values"]  # type: ignore[index]
        return values

    assert list_ticks(2) == [1, 2]
    assert list_ticks(30) == [*range(1, 31, 3)]
