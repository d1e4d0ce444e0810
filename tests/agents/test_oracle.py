"""oracle plays perfectly: no result is below the value of the position it was in, and it wins soonest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from agents.base.agent import Agent
from agents.base.player import build_player
from agents.oracle import Oracle
from agents.random import Random
from quarto.batch import Batch, Games
from quarto.errors import RequestError
from quarto.position import PackedPosition, position_from_plies
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, Rules
from quarto.solver.solver import Solver
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import list_options
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players.agreement import list_endgames
from tests.naive_solver import Solved, list_turns, solve_position
from tests.positions import list_positions
from tests.quarto.solver.test_solver import live_positions

LATE = 9  # plies of an opening from which a game takes a millisecond


def results(games: Games, first: Sequence[int]) -> list[int]:
    """Return 1, 0 or -1 for the given seat of each game."""
    return [0 if winner < 0 else 1 if winner == seat else -1 for winner, seat in zip(games.winner, first, strict=True)]


def play(rules: Rules, agents: Sequence[Agent], plies: int, pairs: int, seed: int = 1) -> tuple[Games, list[int]]:
    """Play games of two agents from random openings; return also the value of each opening for seat 0."""
    games = BatchEngine(rules, agents, ["a", "b"], [(0, 1)], seed, seed, plies).play_block(PairRange(0, 0, pairs)).games
    solver, values = Solver(rules, 16.0), []
    acts = (plies + rules.mover_chooses) % 2
    for game in range(2 * pairs):
        opening = [(int(games.pieces[ply, game]), int(games.cells[ply, game])) for ply in range(plies)]
        value = solver.value(position_from_plies(opening))
        values.append(value if acts == 0 else -value)
    return games, values


@pytest.mark.parametrize("ties", [*seldom("distance"), "trap"])
@pytest.mark.parametrize("name", PRESETS)
def test_against_itself_a_game_ends_as_its_openings_value_says(name: str, ties: str) -> None:
    if PRESETS[name].mover_chooses and ties == "trap":
        ties = "distance"
    plies = 7 if PRESETS[name].mover_chooses else LATE  # there, later openings are all won
    games, values = play(PRESETS[name], (Oracle(ties), Oracle(ties)), plies, 150)
    assert results(games, [0] * 300) == values
    assert len(set(values)) > 1


OPPONENTS = [name for name in list_options("agent") if name != "oracle"]


@pytest.mark.parametrize(("plies", "pairs"), [(11, 6), *seldom((6, 50))])
@pytest.mark.parametrize("opponent", OPPONENTS)
def test_no_agent_takes_anything_from_it_in_either_seat(opponent: str, plies: int, pairs: int) -> None:
    agent = load_agent(opponent).build()
    rules = CLASSIC if "opponent" in getattr(agent, "choosers", ("opponent",)) else PRESETS["own_piece"]
    games, values = play(rules, (Oracle(), agent), plies, pairs)
    for game, (of_seat_0, value) in enumerate(zip(results(games, [0] * 2 * pairs), values, strict=True)):
        seat = game % 2  # the oracle has seat 0 in game 0 of each pair
        assert of_seat_0 >= value if seat == 0 else of_seat_0 <= value, game


def turns(agent: Agent, rules: Rules, position: PackedPosition, seeds: int) -> list[tuple[int, int]]:
    """Ask an agent for its turns with this many seeds. A cell or gift that is ignored is NONE."""
    player = build_player(agent, rules, "it")
    cells, gifts = player.play(
        Batch.from_positions([position] * seeds), Streams(np.array([naive.mix(i) for i in range(seeds)], np.uint64))
    )
    gift_only = position.hand == NONE and not rules.mover_chooses
    answers = {(turn.cell, turn.gift) for turn in Solver(rules, 1.0).turns(position, distance=False)}
    return [
        (cell, NONE) if (cell, NONE) in answers else (cell, gift)
        for cell, gift in zip([NONE] * seeds if gift_only else cells.tolist(), gifts.tolist(), strict=True)
    ]


def best_turns(position: PackedPosition, rules: Rules) -> set[tuple[int, int]]:
    """Return every turn that keeps the value and wins soonest or loses latest."""
    value, distance = solve_position(position, rules)
    return {turn for turn, solved in list_turns(position, rules).items() if solved == Solved(value, distance)}


@pytest.mark.parametrize("name", PRESETS)
def test_it_wins_soonest_and_loses_latest(name: str) -> None:
    rules = PRESETS[name]
    for pieces, count in ((15, 20), (14, 30), (12, 12), (11, 4)):
        for position in live_positions(rules, pieces, count, 3):
            assert set(turns(Oracle(), rules, position, 3)) <= best_turns(position, rules), position


@pytest.mark.parametrize("name", ["classic", "own_piece"])
def test_what_is_tied_is_drawn_among_all_of_it(name: str) -> None:
    rules = PRESETS[name]
    for position in live_positions(rules, 13, 6, 4):
        assert set(turns(Oracle(), rules, position, 400)) == best_turns(position, rules), position


def saving(position: PackedPosition, turn: tuple[int, int]) -> int:
    """Count the opponent's turns that keep the value, after a turn that does not end the game."""
    cell, gift = turn
    lanes, occupied = position.lanes, position.occupied
    if cell != NONE:
        placed = position_from_plies([(position.hand, cell)])
        lanes, occupied = lanes | placed.lanes, occupied | placed.occupied
    after = PackedPosition(lanes, occupied, position.available & ~(1 << gift), gift, NONE)
    values = [reply.value for reply in list_turns(after, CLASSIC).values()]
    return values.count(max(values))


def test_a_trap_leaves_the_opponent_the_fewest_saving_replies() -> None:
    choosy = 0
    for position in [position for pieces in (13, 12, 11) for position in live_positions(CLASSIC, pieces, 25, 5)]:
        value = solve_position(position, CLASSIC).value
        if value > 0:
            continue
        kept = {
            turn: saving(position, turn)
            for turn, solved in list_turns(position, CLASSIC).items()
            if solved.value == value
        }
        if any(gift == NONE for _, gift in kept):
            continue
        for turn in turns(Oracle("trap"), CLASSIC, position, 3):
            assert kept[turn] == min(kept.values()), position
        choosy += len(set(kept.values())) > 1
    assert choosy > 10


@pytest.mark.parametrize(
    ("rules", "horizon"), [(CLASSIC, 12), (PRESETS["square"], None), *seldom((PRESETS["own_piece"], 12))]
)
def test_before_the_horizon_another_agent_plays(rules: Rules, horizon: int | None) -> None:
    agent, below = Oracle(horizon=horizon, below=Random()), Random()
    first = 4 if horizon is None else horizon
    few = [position for position in list_positions(rules, 20) if position.occupied.bit_count() < first]
    for position in few:
        rng = Streams(np.array([naive.mix(7)], np.uint64))
        players = build_player(agent, rules, "it"), build_player(below, rules, "it")
        one, other = (player.play(Batch.from_positions([position]), rng) for player in players)
        assert (one.cells.tolist(), one.gifts.tolist()) == (other.cells.tolist(), other.gifts.tolist())
    assert len(few) > 50
    for position in live_positions(rules, 13, 10, 6):
        assert set(turns(agent, rules, position, 2)) <= best_turns(position, rules)


def test_what_plays_before_the_horizon_is_part_of_the_agents_identity() -> None:
    named = agent_from_label('oracle(horizon=9,below="mcts(iterations=20)")')
    assert named.label == "oracle(below=mcts(iterations=20),horizon=9)"
    assert agent_from_label(named.label) == named
    assert named.params["below"]["params"]["iterations"] == 20
    agent = named.build()
    assert isinstance(agent, Oracle)
    assert type(agent.below).__name__ == "Mcts"
    assert load_agent("oracle").label == "oracle"
    with pytest.raises(RequestError, match=r"^agent 'nobody' does not exist"):
        agent_from_label("oracle(below=nobody)")


def slips(position: PackedPosition, rules: Rules) -> set[tuple[int, int]]:
    """Return the turns that give exact value up, and neither miss a win at once nor allow one."""
    solved = Solver(rules, 16.0).solve(position)
    at_once = 1 if position.hand == NONE and not rules.mover_chooses else 2
    if any((turn.value, turn.distance) == (1, 1) for turn in solved.turns):
        return set()
    later = [turn for turn in solved.turns if turn.distance is None or turn.distance > at_once]
    return {(turn.cell, turn.gift) for turn in later if turn.value < solved.value}


@pytest.mark.parametrize("name", PRESETS)
def test_a_slip_gives_value_up_and_no_win_at_once(name: str) -> None:
    rules, slipped = PRESETS[name], 0
    for position in list_endgames(rules, 8, 60):
        expected = slips(position, rules)
        oracle_turns = set(turns(Oracle(slip=1.0), rules, position, 10))
        assert oracle_turns <= (expected or set(turns(Oracle(), rules, position, 200))), position
        slipped += bool(expected)
    assert slipped >= 5, slipped


def test_a_slip_is_as_frequent_as_asked_and_never_early() -> None:
    position = next(position for position in list_endgames(CLASSIC, 8, 200) if slips(position, CLASSIC))
    offered = slips(position, CLASSIC)
    slipped = [turn in offered for turn in turns(Oracle(slip=0.25), CLASSIC, position, 2000)]
    assert 400 < sum(slipped) < 600
    for early in live_positions(CLASSIC, 7, 3, 7):
        assert turns(Oracle(slip=1.0), CLASSIC, early, 3) == turns(Oracle(), CLASSIC, early, 3)
