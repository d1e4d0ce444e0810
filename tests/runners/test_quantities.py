"""The contract: a quantity of an archive is the same number in Python, files, the terminal, report, pages, notebooks.

The archive is awkward on purpose. A quantity is a row of ``QUANTITIES``, a place is a reader in ``READERS``: whoever
adds one, adds a row or a reader. People's places are compared as texts, in the unit and form of ``columns.QUANTITIES``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import analytics
from analytics.questions.columns import (
    MISSING,
    format_count,
    format_elo,
    format_expected_value,
    format_half_points,
    format_percent,
    format_plies,
    format_seconds,
    format_value_error,
)
from analytics.questions.ranking import RANKING_RULE
from analytics.report import style
from quarto.errors import FailureError
from tests.analytics.awkward_archive import (
    ALPHA,
    GAMMA,
    LEARNER,
    PERSON,
    QUITTER,
    RARE,
    SECONDS,
    STAR,
    damage_a_run,
    write_awkward_archive,
)
from tests.runners.conftest import Qarena
from tests.runners.places import (
    PLACES,
    READERS,
    Key,
    Places,
    Quantity,
    read_html_tables,
    read_printed_tables,
    read_text,
)


def _finite(value: Any) -> Any:
    """Replace infinities, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_missing(form: Callable[[Any], str], missing: str = MISSING) -> Callable[[Any], str]:
    return lambda value: missing if value is None else form(value)


def _split_agent(key: Key) -> Key:
    """Split ``classic, all agents`` as a row of a frame does."""
    (both, *rest) = key
    rules, _, agent = both.partition(", ")
    return rules, "" if agent == "all agents" else agent, *rest


CLASSIC = ("--rules", "classic")
PAIRING = Quantity(
    "score",
    lambda archive: archive.crosstable(rules="classic"),
    "score",
    "score",
    format_percent,
    ("first", "second"),
    ("first", "second"),
    ("crosstable", *CLASSIC),
    "crosstable--classic",
    "/browse/results/crosstable?rules=classic",
)
RATING = Quantity(
    "ratings",
    lambda archive: archive.ratings(rules="classic"),
    "elo",
    "Elo",
    format_missing(format_elo, "?"),
    ("agent",),
    ("agent",),
    ("rate", *CLASSIC),
    "ratings--classic",
    "/browse/results/ratings?rules=classic",
)
POSITION = "..../..../..../.... 0"
OPENING = Quantity(
    "share of a placement",
    lambda archive: archive.openings(POSITION),
    "share",
    "share",
    format_percent,
    ("cell",),
    ("cell",),
    ("openings", POSITION, "--by", "placement"),
    page=f"/browse/openings?position={POSITION.replace(' ', '+')}",
)
FIRST_FREE = Quantity(
    "share of a first free gift",
    lambda archive: archive.openings(by="gift", first_free=True, run=find_imposed_run(archive)),
    "share",
    "share",
    format_percent,
    ("position", "gift"),
    ("position", "gift"),
    ("openings", "--by", "gift", "--first-free", "--run", "IMPOSED"),
    page="/browse/openings?by=gift&run=IMPOSED",
    words=dict.fromkeys(
        ("terminal", "print", "notebook", "page"),
        "ach game counts at its first free decision: ply 2 in 40 games; the plies before were imposed",
    ),
)
FIRST_PLY = Quantity(
    "share of a first placement",
    lambda archive: archive.first_plies(),
    "share",
    "share, %",
    format_percent,
    ("rules", "agent", "ply", "cell"),
    ("rules, agent", "ply", "cell"),
    section="First-placements".lower(),
    page="/browse/insights?rules=classic",
    on_page=lambda key: not key[1],  # all agents together, unless the page is about one
    shown=_split_agent,
)
MISTAKE = Quantity(
    "regret",
    lambda archive: archive.mistakes(),
    "regret",
    "mean regret",
    format_half_points,
    ("agent", "kind"),
    ("agent", "decision"),
    ("mistakes",),
    "mistakes",
    "/browse/results/mistakes?rules=classic",
    rows=lambda row: row["ply"] is None,
)
EVALUATION = Quantity(
    "evaluation",
    lambda archive: archive.evaluations(),
    "value",
    "value",
    format_expected_value,
    ("agent",),
    ("agent",),
    section="evaluations",
    page="/browse/insights?rules=classic",
    rows=lambda row: row["ply"] is None,
)
LENGTH = Quantity(
    "share of a length",
    lambda archive: archive.lengths(),
    "share",
    "share, %",
    format_percent,
    ("rules", "agent", "plies"),
    ("rules, agent", "plies"),
    section="game-lengths",
    page="/browse/insights?rules=classic",
    rows=lambda row: row["games"] or row["random"],
    shown=_split_agent,
)
CURVE = Quantity(
    "win rate while learning",
    lambda archive: archive.learning_curve(),
    "value",
    "value",
    format_percent,
    ("policy", "series", "step"),
    ("policy", "series", "step"),
    section="learning-curves",
    page="/browse/insights?rules=classic",
)
GIFT = replace(
    FIRST_PLY,
    name="share of a first gift",
    ask=lambda archive: archive.first_plies("gift"),
    keys=("rules", "agent", "ply", "piece"),
    key_headings=("rules, agent", "ply", "piece"),
    section="first-gifts",
    page="/browse/insights?rules=classic",
)
BY_PLY = replace(
    MISTAKE,
    name="regret by ply",
    keys=("agent", "kind", "ply"),
    key_headings=("agent", "decision", "ply"),
    rows=lambda row: row["ply"] is not None,
    unprinted="he table 'By ply' is not printed",
)


def _vary(quantity: Quantity, name: str, column: str, heading: str, form: Callable[[Any], str]) -> Quantity:
    return replace(quantity, name=name, column=column, heading=heading, form=form)


FORM = Quantity(
    "score in a run",
    lambda archive: archive.form(rules="classic"),
    "score",
    "score",
    format_percent,
    ("agent", "run_id"),
    ("agent", "run"),
)
QUANTITIES = (
    PAIRING,
    FORM,
    _vary(FORM, "expected score in a run", "expected", "expected", format_missing(format_percent)),
    _vary(PAIRING, "win rate", "win_rate", "win", format_percent),
    _vary(PAIRING, "games of a pairing", "games", "games", format_count),
    RATING,
    _vary(RATING, "rank", "rank", "rank", format_missing(format_count)),
    _vary(RATING, "rated games", "games", "games", format_count),
    OPENING,
    _vary(OPENING, "games of a placement", "games", "games", format_count),
    _vary(OPENING, "score of a placement", "score", "score", format_percent),
    FIRST_FREE,
    _vary(FIRST_FREE, "score of a first free gift", "score", "score", format_percent),
    FIRST_PLY,
    _vary(FIRST_PLY, "games of a first placement", "games", "games", format_count),
    _vary(FIRST_PLY, "score of a first placement", "score", "score, %", format_percent),
    GIFT,
    MISTAKE,
    BY_PLY,
    _vary(MISTAKE, "blunders", "blunders", "blunders, %", format_percent),
    _vary(MISTAKE, "decisions", "decisions", "decisions", format_count),
    EVALUATION,
    _vary(EVALUATION, "turns", "turns", "turns", format_count),
    _vary(EVALUATION, "error of an evaluation", "error", "error", format_value_error),
    _vary(EVALUATION, "seconds of a turn", "seconds", "mean, s", format_seconds),
    LENGTH,
    _vary(LENGTH, "games of a length", "games", "games", format_count),
    CURVE,
)


def find_imposed_run(archive: analytics.Archive) -> str:
    (run_id,) = archive.sql("SELECT run_id FROM runs WHERE opening_plies > 0")["run_id"]
    return str(run_id)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("awkward") / "games"
    write_awkward_archive(root)
    return root


@pytest.fixture(scope="module")
def imposed_run(root: Path) -> str:
    with analytics.open_archive(root) as archive:
        return find_imposed_run(archive)


@pytest.fixture(scope="module")
def known_places(root: Path) -> Iterator[Places]:
    """Keep what the places answer for the tests of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "_render_spec", lambda _: "<svg></svg>")  # drawing takes longer than all the rest
        if find_spec("fastapi") is None:
            yield Places(root)
            return
        from tests.runners.web.visiting import visitor

        with visitor(root) as found:
            yield Places(root, visitor=found)


@pytest.fixture
def places(known_places: Places, qarena: Qarena) -> Places:
    known_places.qarena = qarena
    return known_places


def _list_cases() -> Iterator[Any]:
    for quantity in QUANTITIES:
        there = {
            "json": quantity.command,
            "csv": quantity.command,
            "terminal": quantity.command,
            "report": quantity.section,
            "page": quantity.page,
        }
        for place in PLACES:
            if there.get(place, True):
                marks = [pytest.mark.extras] if place == "page" else []
                yield pytest.param(quantity, place, marks=marks, id=f"{quantity.name} in {place}")


@pytest.mark.parametrize(("quantity", "place"), [*_list_cases()])
def test_a_quantity_is_one_number_wherever_it_is_asked(
    quantity: Quantity, place: str, imposed_run: str, places: Places
) -> None:
    command = [word.replace("IMPOSED", imposed_run) for word in quantity.command]
    question = replace(quantity, command=command, page=quantity.page.replace("IMPOSED", imposed_run))
    expected = places.read_python(question).values
    assert expected
    if question.unprinted and place in ("terminal", "print"):
        with analytics.open_archive(places.root) as archive:
            text = str(question.ask(archive)) if place == "print" else places.run_command(*command, "--wide")
        assert question.unprinted in text
        assert question.key_headings not in [
            table.headings[: len(question.key_headings)] for table in read_printed_tables(text)
        ]
        return
    answer = READERS[place](places, question)
    if place == "json":
        assert answer.values == {key: _finite(value) for key, value in expected.items()}
    elif place == "csv":
        assert answer.values == expected
    elif place == "page" and "rules=classic" in question.page and "rules" in question.keys:
        assert answer.values == {
            key: question.form(value)
            for key, value in expected.items()
            if key[0] == "classic" and question.on_page(key)
        }
    else:
        assert answer.values == {key: question.form(value) for key, value in expected.items()}
    assert question.words.get(place, "") in answer.text


# Quantities that have no table of their own in every place.


def test_counts_of_runs_agents_and_games_are_the_same(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        runs, agents = archive.runs(), archive.agents().frame
        games = archive.sql("SELECT count(*) FROM games").item()
    known = dict(runs.frame.select("run_id", "games").rows())
    assert sum(known.values()) == games
    listed = json.loads(places.run_command("archive", "ls", "--format", "json", streams="out"))
    assert {row["run_id"]: row["games"] for row in listed} == known
    texts = {run_id: format_count(count) for run_id, count in known.items()}
    (printed,) = read_printed_tables(places.run_command("archive", "ls", "--wide", streams="out"))
    assert {row[0]: row[1] for row in printed.rows} == texts
    for (table,) in (read_printed_tables(str(runs)), read_html_tables(runs._repr_html_())):
        of = table.headings.index("run_id"), table.headings.index("games")
        assert {row[of[0]]: row[of[1]] for row in table.rows} == texts
    summary = f"{games:,} games between {agents['label'].n_unique()} agents in {len(known)} runs"
    assert summary in read_text(places.render_report())


@pytest.mark.extras
def test_pages_count_runs_and_games_alike_and_score_the_first_agent_of_each(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        known = dict(archive.runs().frame.select("run_id", "games").rows())
        scores = {}
        for run_id in known:
            both = archive.crosstable(run=run_id).frame.select("first", "second", "score").rows()
            scores[run_id] = (*both[0][:2], format_percent(both[0][2])) if len(both) == 1 else None
    page = places.visit("/browse")
    assert f"{len(known)} of {len(known)} runs, with {sum(known.values()):,} games" in read_text(page)
    (table,) = read_html_tables(page)
    assert table.headings[:4] == ["run", "agents", "first one's score, %", "games"]
    for run_id, agents, score, games, *_ in table.rows:
        assert games == format_count(known[run_id])
        match = scores[run_id]
        assert score == (match[2] if match else MISSING)
        assert match is None or agents == ", ".join(match[:2])  # the score is that of the agent that is named first
    assert {match[:2] for match in scores.values() if match} >= {(PERSON, ALPHA), (ALPHA, PERSON), (LEARNER, ALPHA)}


@pytest.mark.extras
def test_the_best_agents_are_those_with_a_rank(places: Places) -> None:
    ranked = json.loads(places.run_command("rate", "--rules", "classic", "--format", "json", streams="out"))
    best = [f"{row['agent']} {format_elo(row['elo'])} Elo" for row in ranked if row["rank"] is not None]
    page = places.visit("/")
    listed = re.findall(r"<ol>.*?</ol>", page, re.DOTALL)
    assert read_text(listed[0]) == " ".join(best)
    assert not {STAR, RARE, PERSON, LEARNER, QUITTER} & {row["agent"] for row in ranked if row["rank"] is not None}
    assert RANKING_RULE[1:] in read_text(page)


@pytest.mark.extras
def test_the_page_of_an_agent_has_the_numbers_of_the_questions(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        ratings = archive.ratings(rules="classic").frame
        form = archive.form(rules="classic").frame.rows(named=True)
        pairings = archive.crosstable(rules="classic").frame.to_dicts()
        (openings,) = archive.sql("SELECT count(*) FROM games WHERE agent_0 = ? OR agent_1 = ?", [GAMMA, GAMMA]).row(0)
    assert openings
    for agent in (ALPHA, GAMMA, PERSON, STAR):
        text = places.visit(f"/browse/agent?agent={agent}&rules=classic")
        (elo,) = ratings.filter(agent=agent)["elo"]
        assert (f"{format_elo(elo)} Elo" if math.isfinite(elo) else "so its Elo has no bound") in read_text(text)
        table = next(table for table in read_html_tables(text) if "expected" in table.headings)
        places_of_form = [table.headings.index(heading) for heading in ("run", "score", "expected")]
        rows = [(row["run_id"], format_percent(row["score"]), row["expected"]) for row in form if row["agent"] == agent]
        assert [tuple(row[place] for place in places_of_form) for row in table.rows] == [
            (run_id, score, format_missing(format_percent)(expected)) for run_id, score, expected in rows
        ]
        (table,) = (table for table in read_html_tables(text) if table.headings[0] == "opponent")
        expected = {}
        for row in pairings:
            if agent in (row["first"], row["second"]):
                score = row["score"] if row["first"] == agent else 1 - row["score"]
                expected[row["second"] if row["first"] == agent else row["first"]] = format_percent(score)
        of = table.headings.index("score")
        assert {row[0]: row[of] for row in table.rows} == expected
    assert "2 runs of trainings left out" in read_text(places.visit(f"/browse/agent?agent={ALPHA}&rules=classic"))
    assert "all in trainings" in read_text(places.visit(f"/browse/agent?agent={LEARNER}&rules=classic"))


@pytest.mark.extras
def test_the_page_of_openings_counts_all_games_at_their_first_free_decision(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        result = archive.openings(by="turn", first_free=True)
    words = "ach game counts at its first free decision: ply 0 in 344 games, ply 2 in 40 games"
    page = read_text(places.visit("/browse/openings?by=turn&first=yes"))
    assert words in page
    assert words in str(result)
    assert f"{result.frame['games'].sum():,} games" in page
    left_out = read_text(places.visit("/browse/openings"))
    assert "eft out, because nobody chose here: 40 games with 2 imposed plies" in left_out


def test_speeds_are_the_same_and_leave_out_games_of_people(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        league, person = (
            archive.sql("SELECT run_id FROM runs WHERE seconds = ? ORDER BY games DESC", [seconds])["run_id"][0]
            for seconds in (SECONDS, 400.0)
        )
        result = archive.compare(league, person)
    texts = (places.run_command("compare", league, person, "--wide"), str(result))
    tables = [read_printed_tables(text) for text in texts] + [read_html_tables(result._repr_html_())]
    expected = {league: f"{180 / SECONDS:,.0f}", person: MISSING}
    for of_place in tables:
        (speeds,) = (table for table in of_place if table.headings[-1] == "games a second")
        assert {row[0]: row[-1] for row in speeds.rows} == expected
    if places.visitor is not None:
        page_tables = read_html_tables(places.visit(f"/browse/compare?run={league}&run={person}"))
        values = {row[0]: row[1:] for row in page_tables[0].rows}  # of the table of what differs, by its row
        assert dict(zip(values["run"], values["games a second"], strict=True)) == expected
        page = read_text(places.visit(f"/browse/agent?agent={GAMMA}&rules=classic"))
        assert f"; {expected[league]} games a second" in page
        assert "games a second" not in read_text(places.visit(f"/browse/agent?agent={PERSON}&rules=classic"))


@pytest.mark.extras
def test_the_plies_of_a_run_are_the_mean_over_its_games(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        (run_id,) = archive.sql("SELECT run_id FROM runs WHERE games = 180")["run_id"]
        rows = archive.sql(
            "SELECT p.first, p.second, avg(g.plies) FROM games g JOIN pairs p USING (run_id, pair_id) "
            "WHERE run_id = ? GROUP BY ALL",
            [run_id],
        ).rows()
    (table,) = (
        table
        for table in read_html_tables(places.visit(f"/browse/runs/{run_id}"))
        if table.headings[-1] == "plies a game"
    )
    assert {tuple(row[:2]): row[-1] for row in table.rows} == {
        (first, second): format_plies(plies) for first, second, plies in rows
    }


def test_an_agent_with_one_opponent_has_one_interval(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        text = str(archive.crosstable(rules="classic"))
    interval = "95 % interval"
    for shown in (text, places.run_command("crosstable", "--rules", "classic", "--wide")):
        standings, pairings = read_printed_tables(shown)[:2]
        (of_agent,) = (row for row in standings.rows if row[1] == STAR)
        (of_pairing,) = (row for row in pairings.rows if row[0] == STAR)
        assert of_agent[standings.headings.index(interval)] == of_pairing[pairings.headings.index(interval)]


def test_sentences_about_agents_are_the_same_and_keep_their_labels(places: Places) -> None:
    with analytics.open_archive(places.root) as archive:
        note = str(archive.ratings(rules="classic"))
    printed = places.run_command("rate", "--rules", "classic", "--wide")
    page = read_text(places.visit("/browse/results/ratings?rules=classic")) if places.visitor else note
    for sentence in (
        f"{STAR} won every point against the agents below it: its rating has no upper bound.",
        f"Without a rank, a person: {PERSON}.",
        f"Not rated, forfeited every game: {QUITTER} (6 games).",
    ):
        assert all(sentence in text for text in (note, printed, page)), sentence
    assert "2 runs of trainings are left out" in note
    assert "2 runs of trainings are left out" in printed
    assert places.visitor is None or "without runs of trainings" in page


def test_whether_games_are_indexed_is_said_alike_and_changes_no_answer(tmp_path: Path, qarena: Qarena) -> None:
    root = tmp_path / "games"
    write_awkward_archive(root)
    places = Places(root, qarena)
    words = "are not indexed to ply 6: call runners.index("
    with analytics.open_archive(root) as archive:
        before = archive.openings(by="turn").frame
        with pytest.raises(FailureError, match=re.escape(words)):
            archive.scan("positions").collect()
        with pytest.raises(FailureError, match=re.escape(words)):
            archive.sql("SELECT count(*) FROM positions")
    indexed = places.run_command("archive", "index")
    assert " games indexed in " in indexed
    with analytics.open_archive(root) as archive:
        assert archive.openings(by="turn").frame.equals(before)
        assert archive.scan("positions").collect().height > 0
    assert places.qarena is not None
    again = qarena("archive", "index", "--archive", str(root))
    assert again.out.startswith("Nothing to index: ")


def test_a_damaged_file_is_named_in_every_place(tmp_path: Path, qarena: Qarena) -> None:
    root = tmp_path / "games"
    path = damage_a_run(write_awkward_archive(root))
    questions: dict[str, Callable[[analytics.Archive], Any]] = {
        "lengths": lambda archive: archive.lengths(),
        "games": lambda archive: archive.games(),
        "openings": lambda archive: archive.sql("SELECT count(plies) FROM games"),
    }
    for name, ask in questions.items():
        with analytics.open_archive(root) as archive, pytest.raises(FailureError) as caught:
            ask(archive)
        assert path.name in str(caught.value), name
    for words in (("sql", "SELECT sum(plies) FROM games"), ("report", "--output", str(tmp_path / "report.html"))):
        found = qarena(*words, "--archive", str(root))
        assert (found.code, path.name in found.err) == (1, True), words
    if find_spec("fastapi") is not None:
        from tests.runners.web.visiting import visitor

        with visitor(root) as reader:
            for address in ("/browse/games", "/browse/insights?rules=classic"):
                assert path.name in reader.ready(address).text, address
    # What is read from tallies or the record is not damaged, and is answered.
    with analytics.open_archive(root) as archive:
        assert RARE in archive.crosstable(rules="classic").frame["first"]
    assert qarena("crosstable", "--rules", "classic", "--archive", str(root)).code == 0
