"""Comparisons of runs: learning curves over each other in one picture, one colour a run; names, links and ids."""

from __future__ import annotations

import html
import re
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("fastapi")

from analytics import open_archive
from analytics.report import style
from analytics.report.sections.learning import load_curves_of_training_runs
from analytics.statistics.tally import wilson_interval
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import CARD
from analytics.store.run_notes import update_note
from tests.analytics.chosen_games import BY_GAMES, BY_GENERATIONS
from tests.runners.web.runs.training_runs import write_policy, write_run
from tests.runners.web.visiting import Visitor, plain, visitor

STRENGTH = pl.DataFrame(
    {"generation": [0, 1], "games": [9, 9], "strength": [0.5, 0.75], "v a": [0.5, 0.75]}
    | {"v a low": [0.4, 0.6], "v a high": [0.6, 0.9]}
)
PASSES = pl.DataFrame({"pieces": [9, 9], "pass": [1, 2], "boards": [5, 5], "not_lost": [0.4, 0.3], "won": [0.3, 0.2]})


@pytest.fixture
def archive(tmp_path: Path) -> ArchiveStore:
    return ArchiveStore.open(tmp_path / "games", create=True)


def compare(archive: ArchiveStore, *run_ids: str) -> str:
    with visitor(archive.root) as guest:
        return read_comparison(guest, *run_ids)


def read_comparison(guest: Visitor, *run_ids: str) -> str:
    page = guest.ready("/browse/compare?" + "&".join(f"run={run_id}" for run_id in run_ids))
    assert page.status == 200, page.line
    return page.text


def find_pictures(text: str) -> list[str]:
    """Return the pictures of learning curves on a page."""
    return re.findall(r'<figure role="group" aria-label="Learning curves">.*?</figure>', text, re.DOTALL)


def list_lines(picture: str) -> list[str]:
    """List the colours of the lines in a picture; symbols of the legend and marks are no lines."""
    return sorted(re.findall(r'<path d="M[^"]*" stroke="(#\w+)" stroke-width="2"/>', picture))


def test_three_trainings_share_one_picture_with_a_line_and_a_name_each(archive: ArchiveStore) -> None:
    run_ids = [write_run(archive, seed) for seed in (1, 2, 3)]
    for number, run_id in enumerate(run_ids):
        better = BY_GAMES.with_columns(
            wins=pl.col("wins") + number, win_rate=(pl.col("wins") + number) / pl.col("games")
        )
        write_policy(archive, f"policy{number}", [run_id], better)
    update_note(archive, run_ids[0], "<b>first</b> & best")
    update_note(archive, run_ids[1], "a name that is much too long for a legend")
    text = compare(archive, *run_ids)
    (picture,) = find_pictures(text)
    colours = [light for light, _ in style.AGENT_COLOURS[:3]]
    assert list_lines(picture) == sorted(colours)
    assert sorted(re.findall(r'<path d="M[^"]*" fill="(#\w+)" opacity="0.15"/>', picture)) == sorted(
        colours
    )  # intervals
    names = ("&lt;b&gt;first&lt;/b&gt; &amp; best", "a name that is much too …", run_ids[2][:6])
    assert all(f">{name}</text>" in picture for name in names)
    assert "The share of games that the learner won, of each 10. Bands are 95 % intervals." in plain(picture)
    assert "Run a name that is much too long for a legend" in plain(text)
    assert "along the run" not in plain(text)  # the learning curves show the same


def test_runs_without_learning_curves_have_no_such_picture(archive: ArchiveStore) -> None:
    run_ids = [write_run(archive, seed) for seed in (1, 2, 3)]
    write_policy(archive, "lone", run_ids[:1], BY_GAMES)
    write_policy(archive, "derived", run_ids, PASSES)
    text = compare(archive, *run_ids)
    assert find_pictures(text) == []
    assert "along the run" in plain(text)
    played = [write_run(archive, seed, training=False) for seed in (4, 5)]
    write_policy(archive, "other", played[:1], BY_GAMES)
    write_policy(archive, "another", played[1:], BY_GAMES)
    assert find_pictures(compare(archive, *played)) == []


def test_each_measure_has_a_picture_and_colours_stay_with_runs(archive: ArchiveStore) -> None:
    by_games, bred, improved = ([write_run(archive, seed) for seed in seeds] for seeds in ((1, 2), (3, 4, 5), (6, 7)))
    for number, run_id in enumerate(by_games):
        write_policy(archive, f"games{number}", [run_id], BY_GAMES)
    write_policy(archive, "bred", bred[:2], BY_GENERATIONS)
    write_policy(archive, "bred2", bred[2:], BY_GENERATIONS)
    for number, run_id in enumerate(improved):
        write_policy(archive, f"improved{number}", [run_id], STRENGTH)
    pictures = find_pictures(compare(archive, *by_games, *bred, *improved))
    colours = [light for light, _ in style.AGENT_COLOURS]
    assert [list_lines(picture) for picture in pictures] == [
        sorted(colours[:2]),
        sorted(colours[5:7]),
        sorted(colours[2:5]),
    ]
    words = f"{bred[0][:6]} and {bred[1][:6]} are runs of one training."
    assert [words in plain(picture) for picture in pictures] == [False, False, True]
    assert all(name[:6] not in pictures[0] for name in (*bred, *improved))  # the legend has only what is drawn


def test_curve_of_a_run_is_that_of_the_longest_training(archive: ArchiveStore) -> None:
    run_id = write_run(archive, 1)
    twenty = BY_GAMES.head(2)
    write_policy(archive, "short", [run_id], BY_GAMES.head(1), games=10)
    write_policy(archive, "long", [run_id], twenty, games=20)
    write_policy(archive, "shorter", [run_id], BY_GAMES.head(1), games=10)
    with open_archive(archive.root) as opened:
        curve = load_curves_of_training_runs(opened, [archive.load_run(run_id)])[run_id]
    assert (curve.measure, curve.block_games) == ("win_rate", 10)
    intervals = [wilson_interval(wins, 10) for wins in twenty["wins"]]
    assert curve.rows.rows() == [
        (step, value, pytest.approx(low), pytest.approx(high))
        for step, value, (low, high) in zip((10, 20), (0.2, 0.5), intervals, strict=True)
    ]


def test_long_curves_are_thinned_as_in_the_picture_of_a_policy(archive: ArchiveStore) -> None:
    run_id, rows = write_run(archive, 1), 3 * style.MAX_POINTS
    fine = pl.DataFrame({"first_game": range(0, 10 * rows, 10), "games": 10, "wins": 5, "draws": 0, "losses": 5})
    write_policy(archive, "fine", [run_id], fine.with_columns(win_rate=pl.lit(0.5)))
    with open_archive(archive.root) as opened:
        curve = load_curves_of_training_runs(opened, [archive.load_run(run_id)])[run_id]
    assert (curve.rows.height, curve.block_games) == (style.MAX_POINTS, 30)


@pytest.mark.parametrize("file", [CARD, "curve"])
def test_damaged_curve_is_left_out_in_words(archive: ArchiveStore, file: str) -> None:
    run_ids = [write_run(archive, seed) for seed in (1, 2)]
    folders = [write_policy(archive, f"policy{seed}", [run_id], BY_GAMES) for seed, run_id in enumerate(run_ids)]
    (path,) = folders[0].glob(f"{file}*")
    path.write_bytes(path.read_bytes()[:-20])
    text = compare(archive, *run_ids)
    assert find_pictures(text) == []
    assert "Pairings in common" in text
    left_out = re.search(r'role="alert">(.*?)</p>', text, re.DOTALL)
    assert left_out
    assert "Left out: " in plain(left_out[1])
    assert ("card.json is damaged" if file == CARD else "policy 'policy0'") in plain(left_out[1])


def test_score_along_a_run_with_fixed_seats_ends_at_its_last_game(archive: ArchiveStore) -> None:
    run_ids = [write_run(archive, seed) for seed in (1, 2)]
    text = compare(archive, *run_ids)
    picture = re.search(r'aria-label="Score of [^"]*along the run">.*?</figure>', text, re.DOTALL)
    assert picture
    ticks = [int(tick) for tick in re.findall(r">(\d+)</text>", picture[0])]
    assert max(ticks) == 20


def test_pairing_that_a_run_lacks_has_no_link_and_folded_parts_have_ids_of_their_own(archive: ArchiveStore) -> None:
    run_ids = [write_run(archive, 1), write_run(archive, 2), write_run(archive, 3, pairings=[("dumb", "rule_based")])]
    text = compare(archive, *run_ids)
    table = text[text.index("Pairings in common") :]
    links = [html.unescape(link) for link in re.findall(r'href="(/browse/games\?run=[^"]*)"', table)]
    assert [re.sub(r".*run=(\w+).*", r"\1", link) for link in links] == run_ids[:2]
    assert "numbers-speed" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len({*ids})


def test_score_links_to_the_games_of_the_agents_of_its_run(archive: ArchiveStore) -> None:
    first = write_run(archive, 1)
    other = write_run(archive, 1, pairings=[("random", "learner(training,rate=2)")])
    with visitor(archive.root) as guest:
        table = read_comparison(guest, first, other)
        links = [html.unescape(link) for link in re.findall(r'href="(/browse/games\?run=[^"]*agent=[^"]*)"', table)]
        assert len(links) == 2
        assert all("20 games" in plain(guest.ready(link).text) for link in links), links
