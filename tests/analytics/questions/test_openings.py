from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analytics import open_archive
from analytics.questions import decision_counts, openings
from analytics.questions.openings import EMPTY_BOARD, OpeningsQuery, explore_position, run_openings_query
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.statistics.tally import wilson_interval
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.definitions import derive_stored_positions
from quarto.canonical import canonical_position
from quarto.errors import RequestError
from quarto.notation import format_position, parse_cell, parse_game, parse_piece, parse_position
from quarto.position import position_from_plies
from quarto.rules import NONE, Rules
from tests.analytics.indexed import index
from tests.analytics.naive_games import PAIRINGS, Game, build_spec, pack_games, random_game, record, store
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_turns import Form, build_cell_maps, build_piece_maps, canonical_form, list_turns, outcome
from tests.quarto.test_turns import board_of

Kept = list[tuple[int, Game]]


TWO = PAIRINGS[:2]


def write_similar_games(
    root: Path, rules: Rules, opening: int = 0, pairs: int = 60, most: int = 32
) -> tuple[ArchiveStore, Kept]:
    """Write an archive of one run of two pairings whose games often begin alike.

    Return it with its games and their ids.
    """
    dice = random.Random(f"{rules.name} {opening}")
    archive = ArchiveStore.open(root, create=True)
    run = record(build_spec(rules, TWO, opening_plies=opening))
    archive.write_run_and_unit_count(run)
    games = [[random_game(dice, rules) for _ in range(2 * pairs)] for _ in TWO]
    blocks = [pack_games(pairing_games, pairing, 0, opening) for pairing, pairing_games in enumerate(games)]
    store(archive, run.run_id, blocks, TWO, most)
    return archive, [
        ((pairing << 32) + i, game)
        for pairing, pairing_games in enumerate(games)
        for i, game in enumerate(pairing_games)
    ]


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OpenArchive, Kept]]:
    """Open an archive that is indexed to ply 6, and return it with its games. No test changes it."""
    archive, kept = write_similar_games(tmp_path_factory.mktemp("classic") / "archive", PRESETS["classic"])
    with open_archive(index_first_plies(archive).root) as opened:
        yield opened, kept


def index_first_plies(archive: ArchiveStore) -> ArchiveStore:
    """Index the decisions to ply 6."""
    index(archive, 6)
    return archive


@cache
def form(board: tuple[tuple[int, int], ...], decided: tuple[int, int, int], rules: Rules) -> Form:
    return canonical_form(dict(board), *decided, rules)


def form_of_decision(turn: tuple[dict[int, int], int, int, int], by: str, rules: Rules) -> Form:
    """Return the naive form of a turn without what the decision leaves open."""
    board, hand, cell, piece = turn
    decided = {"position": (hand, NONE, NONE), "gift": (hand, NONE, NONE), "placement": (hand, cell, NONE)}
    return form(tuple(sorted(board.items())), decided.get(by, (hand, cell, piece)), rules)


def naive_openings(kept: Kept, text: str, by: str, rules: Rules) -> list[tuple[int, ...]]:
    """Count the decisions in a position by replay: games, wins, draws, losses and the first game of each decision."""
    position, _ = parse_position(text)
    board = board_of(position)
    hands = [position.hand]
    if position.hand == NONE and not rules.mover_chooses:
        hands = [piece for piece in range(16) if piece not in board.values()]
    forms = {form_of_decision((board, hand, NONE, NONE), "position", rules) for hand in hands}
    groups: dict[Form, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 1 << 62])
    for game_id, game in kept:
        turns, ply = list_turns(game, rules), position.occupied.bit_count()
        if len(turns) > ply and form_of_decision(turns[ply], "position", rules) in forms:
            row = groups[form_of_decision(turns[ply], by, rules)]
            result = -outcome(game, ply) if by == "gift" else outcome(game, ply)
            row[0] += 1
            row[2 - result] += 1
            row[4] = min(row[4], game_id)
    return sorted(tuple(row) for row in groups.values())


def found_rows(frame: pl.DataFrame) -> list[tuple[int, ...]]:
    return sorted(frame.select("games", "wins", "draws", "losses", "game_id").rows())


def positions_of_game(kept: Kept, rules: Rules) -> list[str]:
    """Return positions of the longest game: with a hand and without, early and late."""
    _, game = max(kept, key=lambda game: len(game[1]["plies"]))
    plies = game["plies"]
    hands = [(0, NONE), (1, plies[1][0]), (2, NONE), (4, plies[4][0]), (7, NONE), (11, plies[11][0])]
    return [
        format_position(position_from_plies(plies[:ply], NONE if rules.mover_chooses else hand), rules.name)
        for ply, hand in hands
    ]


@pytest.mark.parametrize("name", ["own_piece", *seldom(*sorted({*PRESETS} - {"own_piece"}))])
def test_what_was_decided_is_what_a_naive_replay_counts(name: str, tmp_path: Path) -> None:
    rules = PRESETS[name]
    archive, kept = write_similar_games(tmp_path / "archive", rules, pairs=5 if "torus" in name else 10)
    with open_archive(index_first_plies(archive).root) as opened:  # the last two positions are deeper than the index
        for text in positions_of_game(kept, rules):
            kinds = {"placement", "turn"} | ({"gift"} if " -" in text and not rules.mover_chooses else set())
            for by in sorted(kinds):
                rows = explore_position(opened, text, by)
                assert found_rows(rows) == naive_openings(kept, text, by, rules), (text, by)


def test_symmetric_positions_have_the_same_answer(classic: tuple[OpenArchive, Kept]) -> None:
    opened, kept = classic
    dice = random.Random(1)
    for text in positions_of_game(kept, Rules()):
        position, _ = parse_position(text)
        move, change = dice.choice(build_cell_maps(Rules())), dice.choice(build_piece_maps())
        moved = [(change[piece], move[cell]) for cell, piece in board_of(position).items()]
        image = format_position(position_from_plies(moved, NONE if position.hand == NONE else change[position.hand]))
        here, there = (
            explore_position(opened, position, "turn").drop("piece", "cell", "gift", "sample")
            for position in (text, image)
        )
        assert here.sort("game_id").equals(there.sort("game_id"))


def test_an_archive_without_index_is_replayed_to_the_same_answer(tmp_path: Path) -> None:
    archive, kept = write_similar_games(tmp_path / "archive", Rules(), pairs=10, most=8)  # units 0 to 19, three ranges

    def answers() -> list[pl.DataFrame]:
        with open_archive(archive.root) as opened:
            return [explore_position(opened, text) for text in positions_of_game(kept, Rules())]

    before = answers()
    index(archive, 3, lambda stored: stored.first == 0)
    index(archive, 16, lambda stored: stored.first == 16)  # and one that is indexed in part
    between = answers()
    index(archive, 16)
    for one, two, three in zip(before, between, answers(), strict=True):
        assert one.equals(two)
        assert one.equals(three)


def test_what_is_kept_of_a_file_does_not_keep_all_of_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the few rows of each file, but not the table that they are from.

    A billion games without an index took all memory, because the rows of each file were a slice of its table.
    """
    archive, kept = write_similar_games(tmp_path, PRESETS["classic"], pairs=20)
    counted: list[pl.DataFrame] = []

    def count(*of: Any) -> pl.DataFrame:
        counted.append(derive_stored_positions(*of))
        return counted[-1]

    monkeypatch.setattr(decision_counts, "derive_stored_positions", count)
    monkeypatch.setattr(decision_counts, "_decision_cache", {})
    with open_archive(archive.root) as opened:
        explore_position(opened, positions_of_game(kept, PRESETS["classic"])[2], imposed=True)
    rows = list(decision_counts._decision_cache.values())
    assert len(rows) == len(counted) > 1
    assert 0 < sum(map(len, rows)) < sum(map(len, counted))
    for counts in counted:
        assert not any(np.shares_memory(counts["games"].to_numpy(), frame["games"].to_numpy()) for frame in rows)


def test_alike_counts_every_legal_decision(classic: tuple[OpenArchive, Kept]) -> None:
    opened, _ = classic
    assert explore_position(opened)["alike"].to_list() == [16]
    assert sorted(explore_position(opened, EMPTY_BOARD, "placement")["alike"].to_list()) == [128, 128]
    assert explore_position(opened, EMPTY_BOARD, "turn").drop_nulls("gift")["alike"].sum() == 16 * 16 * 15
    rows = explore_position(opened, "..../..../..../.... 5", "turn").drop_nulls("gift")
    assert dict(rows.group_by("cell").agg(pl.sum("alike")).rows()) == {"a1": 8 * 15, "b1": 8 * 15}
    assert set(rows["piece"]) == {"5"}


def test_rows_say_rates_intervals_and_a_sample(classic: tuple[OpenArchive, Kept]) -> None:
    opened, kept = classic
    games, rows = dict(kept), explore_position(opened, EMPTY_BOARD, "turn")
    assert rows["games"].to_list() == sorted(rows["games"].to_list(), reverse=True)
    assert rows["share"].sum() == pytest.approx(1)
    for row in rows.drop_nulls("gift").iter_rows(named=True):
        for rate, count in (("win", "wins"), ("draw", "draws"), ("loss", "losses")):
            assert row[f"{rate}_rate"] == row[count] / row["games"]
            assert (row[f"{rate}_low"], row[f"{rate}_high"]) == wilson_interval(row[count], row["games"])
        assert row["run_id"] == opened.archive.list_ids_of_runs_with_games()[0]
        plies = parse_game(row["sample"])
        played = games[row["game_id"]]["plies"]
        assert [*map(tuple, plies)] == [*map(tuple, played)]
        decision = [(parse_piece(row["piece"]), parse_cell(row["cell"]))]
        decided, shown = (
            canonical_position(position_from_plies(turn, gift), Rules())
            for turn, gift in ((decision, parse_piece(row["gift"])), (plies[:1], plies[1][0]))
        )
        assert decided == shown


@pytest.mark.parametrize("by", ["gift", "placement", "turn"])
def test_a_sample_game_passes_through_the_position_of_its_row(classic: tuple[OpenArchive, Kept], by: str) -> None:
    opened, kept = classic
    longest = max((game["plies"] for _, game in kept), key=len)
    hand = NONE if by == "gift" else longest[3][0]
    position = position_from_plies(longest[:3], hand)
    for row in explore_position(opened, format_position(position, "classic"), by).iter_rows(named=True):
        plies = parse_game(row["sample"])
        passed = position_from_plies(plies[:3], hand if hand == NONE else plies[3][0])
        assert canonical_position(passed, Rules()) == canonical_position(position, Rules())


def test_intervals_count_openings_not_games(tmp_path: Path) -> None:
    archive, kept = write_similar_games(tmp_path / "archive", PRESETS["classic"], opening=2)  # pairs 0 to 59, twice
    played = Counter((game_id >> 32, game_id & 1) for game_id, game in kept if game["plies"])
    number = max(played.values())  # the games in which one agent of one pairing gave first have an opening each
    assert 50 < number <= 60
    assert played.total() > 200
    with open_archive(archive.root) as opened:
        (row,) = explore_position(opened, by="gift", imposed=True).to_dicts()
    assert row["games"] == played.total()
    assert (row["win_low"], row["win_high"]) == wilson_interval(row["wins"] * number / row["games"], number)
    other = record(build_spec(PRESETS["classic"], TWO[:1], opening_plies=2, seed=8))
    archive.write_run_and_unit_count(other)
    store(archive, other.run_id, [pack_games([kept[0][1]] * 20, 0, 0, 2)], TWO[:1])
    with open_archive(archive.root) as opened:
        (row,) = explore_position(opened, by="gift", imposed=True).to_dicts()
    number += 10  # openings of another seed
    assert (row["draw_low"], row["draw_high"]) == wilson_interval(row["draws"] * number / row["games"], number)


def test_filters_choose_who_which_and_when(classic: tuple[OpenArchive, Kept]) -> None:
    opened, kept = classic
    run = opened.archive.load_runs()[0]
    against = sum(bool(game["plies"]) and number & 1 == 1 and number >> 32 == 0 for number, game in kept)
    game_filter = GameFilter(agent="random", opponent="rule_based")
    assert run_openings_query(opened, OpeningsQuery(EMPTY_BOARD, "placement", game_filter)).games == against

    def games(by: str | None = None, **filters: Any) -> int:
        return run_openings_query(opened, OpeningsQuery(EMPTY_BOARD, by, GameFilter(**filters))).games

    started = sum(bool(game["plies"]) for _, game in kept)
    assert games(runs=(run.run_id,)) == games() == started
    # The first agent of a pairing gives the first piece in game 0 of a pair and places it in game 1. random is the
    # first of both pairings, rule_based the second of one.
    for by, agent, theirs in (
        ("gift", "random", [game for game in kept if game[0] & 1 == 0]),
        ("placement", "random", [game for game in kept if game[0] & 1 == 1]),
        ("placement", "rule_based", [game for game in kept if game[0] >> 32 == 0 and game[0] & 1 == 0]),
    ):
        rows = explore_position(opened, EMPTY_BOARD, by, GameFilter(agent=agent))
        assert found_rows(rows) == naive_openings(theirs, EMPTY_BOARD, by, Rules())
    assert games(since=run.created[:10], until=run.created[:10]) == games()
    assert games(since=run.created) == games()
    least = sorted(explore_position(opened, EMPTY_BOARD, "turn")["games"].to_list())[2]
    assert explore_position(opened, EMPTY_BOARD, "turn", min_games=least)["games"].min() == least
    with pytest.raises(RequestError, match="no gift was chosen at least 1,000,000 times"):
        explore_position(opened, min_games=10**6)
    with pytest.raises(RequestError, match="no runs of that period"):
        games(until="2020-01-31")


def test_imposed_plies_are_counted_only_if_asked_for(tmp_path: Path) -> None:
    archive, kept = write_similar_games(tmp_path / "archive", Rules(), opening=2, pairs=10)
    started = sum(1 for _, game in kept if game["plies"])
    with open_archive(index_first_plies(archive).root) as opened:
        with pytest.raises(
            RequestError,
            match=f"but {started} were imposed: decisions are free from positions with 2 pieces on, and imposed=True",
        ):
            explore_position(opened, "..../..../..../.... 0")
        assert run_openings_query(opened, OpeningsQuery(EMPTY_BOARD, "turn", imposed=True)).games == started
        _, game = kept[0]
        after = format_position(position_from_plies(game["plies"][:2]))
        assert run_openings_query(opened, OpeningsQuery(after)).games >= 1


def naive_first_decisions(kept: Kept, by: str, rules: Rules, opening: int) -> list[tuple[int, ...]]:
    """Count the decisions at the ply after the imposed ones by replay, in the form of ``naive_openings``."""
    groups: dict[Form, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 1 << 62])
    for game_id, game in kept:
        turns = list_turns(game, rules)
        if len(turns) > opening:
            row = groups[form_of_decision(turns[opening], by, rules)]
            result = -outcome(game, opening) if by == "gift" else outcome(game, opening)
            row[0] += 1
            row[2 - result] += 1
            row[4] = min(row[4], game_id)
    return sorted(tuple(row) for row in groups.values())


@pytest.mark.parametrize("name", ["classic", "own_piece", *seldom("torus")])
@pytest.mark.parametrize("opening", [2, 7])  # within the index, and beyond it
def test_after_imposed_plies_games_count_at_their_first_free_decision(
    tmp_path: Path, name: str, opening: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings, "MAX_POSITIONS", 1000)
    rules = PRESETS[name]
    start = format_position(parse_position(EMPTY_BOARD)[0], rules.name)
    archive, kept = write_similar_games(tmp_path / "archive", rules, opening, pairs=15)
    free = sum(len(list_turns(game, rules)) > opening for _, game in kept)
    with open_archive(index_first_plies(archive).root) as opened:
        for by in ("placement", "turn") if rules.mover_chooses else ("gift", "placement", "turn"):
            answer = run_openings_query(opened, OpeningsQuery(start, by))
            assert found_rows(answer.rows) == naive_first_decisions(kept, by, rules, opening)
            assert (answer.first_free, answer.games, answer.rows["games"].sum()) == (True, free, free)
            assert answer.rows["ply"].unique().to_list() == [opening]
            note = f"each game counts at its first free decision: ply {opening} in {free} games; "
            assert answer.notes == (f"{note}the plies before were imposed",)
            assert answer.rows["share"].sum() == pytest.approx(1)
            # The rows of a position are the answer about this position.
            position = answer.rows["position"][0]
            there = answer.rows.filter(position=position)
            alone = explore_position(opened, position, by)
            same = ["alike", "games", "wins", "draws", "losses", "score", "game_id", "sample"]
            assert there.select(same).sort("game_id").equals(alone.select(same).sort("game_id"))
        with pytest.raises(RequestError, match="no decision was free"):
            run_openings_query(opened, OpeningsQuery(start, first_free=False))


def test_what_imposed_openings_leave_out_is_said(tmp_path: Path) -> None:
    archive, kept = write_similar_games(tmp_path / "archive", Rules(), opening=2, pairs=10)
    run = record(build_spec(Rules(), TWO, seed=9))
    archive.write_run_and_unit_count(run)
    game = next(game for _, game in kept if len(game["plies"]) > 4)
    store(archive, run.run_id, [pack_games([game, game], 0)], TWO)
    imposed, free = (sum(len(game["plies"]) > ply for _, game in kept) for ply in (0, 2))
    with open_archive(index_first_plies(archive).root) as opened:
        mixed = run_openings_query(opened, OpeningsQuery())
        assert (mixed.games, mixed.first_free) == (2, False)
        hint = "--first-free counts all games at their first free decision"
        assert mixed.notes == (f"left out, because nobody chose here: {imposed} games with 2 imposed plies ({hint})",)
        every = run_openings_query(opened, OpeningsQuery(by="turn", first_free=True))
        assert every.games == free + 2
        assert sorted(every.rows["ply"].unique()) == [0, 2]
        assert every.notes[0].startswith(
            f"each game counts at its first free decision: ply 0 in 2 games, ply 2 in {free} games"
        )
        assert run_openings_query(opened, OpeningsQuery(imposed=True)).notes == ()
        of_agent = run_openings_query(opened, OpeningsQuery(games=GameFilter(agent="dumb(depth=2)")))
        assert of_agent.first_free  # it played no game without imposed plies
        for query, reason in (
            (OpeningsQuery("0.../..../..../.... -", first_free=True), "leave it out, or first_free=True"),
            (OpeningsQuery(imposed=True, first_free=True), "leave out imposed=True or first_free=True"),
        ):
            with pytest.raises(RequestError, match=reason):
                run_openings_query(opened, query)


def test_of_many_positions_those_with_the_most_games_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, _ = write_similar_games(tmp_path / "archive", Rules(), opening=2, pairs=20)
    with open_archive(index_first_plies(archive).root) as opened:
        every = run_openings_query(opened, OpeningsQuery(by="placement"))
        most = every.rows.group_by("position").agg(pl.sum("games")).sort("games", descending=True)["games"].head(3)
        monkeypatch.setattr(openings, "MAX_POSITIONS", 3)
        some = run_openings_query(opened, OpeningsQuery(by="placement"))
        assert (some.games, some.rows["position"].n_unique(), some.rows["games"].sum()) == (every.games, 3, most.sum())
        assert some.notes[1] == (
            "only the 3 positions with the most games are counted: "
            f"{every.games - most.sum()} games had their first free decision in others"
        )


WRONG: tuple[tuple[str, str | None, dict[str, Any], str], ...] = (
    ("..../....", None, {}, "must have 2 or 3 fields and has 1"),
    ("0123/..../..../.... -", None, {}, "the game is over"),
    ("..../..../..../.... 3", "gift", {}, "the piece is already given"),
    ("..../..../..../.... 3", "cell", {}, "by 'cell' is not one of gift, placement, turn"),
    ("..../..../..../.... - square", None, {}, "by rules 'square' here, only by: classic"),
    (EMPTY_BOARD, None, {"agent": "randm"}, "agent 'randm' is not in these runs; did you mean 'random'"),
    (EMPTY_BOARD, None, {"runs": ("abc",)}, "run 'abc' is not in archive"),
    (EMPTY_BOARD, None, {"since": "soon"}, "since 'soon' is not a day or a moment"),
    (EMPTY_BOARD, None, {"until": "2026-02-30"}, "until '2026-02-30' is not a day"),
    (EMPTY_BOARD, None, {"where": "true"}, "decisions are counted by run"),
    ("0F../.7../..A./..1E 6", None, {}, "no decision was made in"),
)


def test_a_wrong_question_is_a_wrong_request(classic: tuple[OpenArchive, Kept]) -> None:
    for position, by, filters, complaint in WRONG:
        with pytest.raises(RequestError) as caught:
            explore_position(classic[0], position, by, GameFilter(**filters))
        assert complaint in str(caught.value)


def test_where_the_mover_chooses_nobody_gives(tmp_path: Path) -> None:
    archive, _ = write_similar_games(tmp_path / "archive", PRESETS["own_piece"], pairs=5)
    with open_archive(index_first_plies(archive).root) as opened:
        assert explore_position(opened, "..../..../..../.... - own_piece").columns[:3] == ["piece", "cell", "alike"]
        with pytest.raises(RequestError, match="no piece is given"):
            explore_position(opened, "..../..../..../.... 3 own_piece")
        with pytest.raises(RequestError, match="there are no gifts"):
            explore_position(opened, "..../..../..../.... - own_piece", "gift")


def test_rules_of_one_name_must_be_the_same(tmp_path: Path) -> None:
    archive, _ = write_similar_games(tmp_path / "archive", Rules(), pairs=5)
    other = record(build_spec(Rules(diagonals="none")))
    archive.write_run_and_unit_count(other)
    with open_archive(archive.root) as opened:
        with pytest.raises(RequestError, match="not the same in all runs: choose with run=…"):
            explore_position(opened)
        assert (
            explore_position(opened, games=GameFilter(runs=(archive.list_ids_of_runs_with_games()[0],)))["games"].sum()
            > 0
        )
