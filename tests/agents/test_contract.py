"""The contract of all agents, tested for every yaml in ``conf/agent``: a new one needs no change here."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from agents.base.player import BatchPlayer, KernelPlayer, build_player
from agents.random import Random
from quarto.batch import ENDINGS, Batch
from quarto.position import PackedPosition
from quarto.rng import Streams
from quarto.rules import Rules
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.identities import to_class_path
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import list_options, load_option
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS
from tests.paths import CONF
from tests.positions import build_view, list_positions

YAMLS = {name: load_agent(name) for name in list_options("agent")}
REMEMBERING = {
    name: agent_from_label(name)
    for name in (
        "mcts(reuse=true)",
        "mcts(iterations=60,reuse=true,solver=true)",
        "rule_based(faithful=true,version=earlier)",
        "mixed(faithful=true)",
    )
}
SPECS = YAMLS | REMEMBERING
TACTICAL = {name for name in YAMLS if "\ntactical: true\n" in (CONF / "agent" / f"{name}.yaml").read_text("utf-8")}
GAMES = 12  # whose positions are asked about: about 250

PLAYED = {
    name: [
        rules for rules in PRESETS.values() if rules.chooser in getattr(spec.build(), "choosers", ("opponent", "mover"))
    ]
    for name, spec in SPECS.items()
}
CASES = [(name, rules) for name, rules_of_one in PLAYED.items() for rules in rules_of_one]
# All agents and all rules are met in `make test` too, but not each agent under each: its first and one other, in turn.
QUICK = {(name, rules[i].name) for n, (name, rules) in enumerate(PLAYED.items()) for i in (0, -1 - n % len(rules))}
# Where the mover chooses, perfect play from the first ply takes seconds: there, test_oracle.py plays from later ones.
QUICK = QUICK - {("oracle", "own_piece")} | {("oracle", "torus")}


def mark_slow(cases: Iterable[tuple[str, Rules]]) -> list[pytest.ParameterSet]:
    """Mark the cases as slow that ``make test`` leaves out."""
    slow = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(name, rules, marks=slow[(name, rules.name) in QUICK]) for name, rules in cases]


TACTICAL_CASES = mark_slow((name, rules) for name, rules in CASES if name in TACTICAL)
REMEMBERING_CASES = mark_slow((name, rules) for name, rules in CASES if name in REMEMBERING)


def label(value: str | Rules) -> str:
    return value.name if isinstance(value, Rules) else value


def streams(count: int) -> Streams:
    return Streams(np.array([naive.mix(i) for i in range(count)], np.uint64))


def player(name: str, rules: Rules) -> BatchPlayer:
    """Return a freshly built agent."""
    return build_player(SPECS[name].build(), rules, name)


def turns_of(player: BatchPlayer, rules: Rules, positions: list[PackedPosition], rng: Streams) -> list[tuple[int, int]]:
    """Return the agent's turns as (cell, gift); where only a gift was asked for, the cell is NONE."""
    turns = player.play(Batch.from_positions(positions), rng)
    gift_only = [position.hand == NONE and not rules.mover_chooses for position in positions]
    cells = np.where(gift_only, NONE, turns.cells)
    return list(zip(cells.tolist(), turns.gifts.tolist(), strict=True))


def test_every_yaml_of_the_group_is_held_to_the_contract() -> None:
    folder = CONF / "agent"
    assert set(YAMLS) == {path.stem for path in folder.glob("*.yaml")}
    assert {name for name, _ in CASES} == set(SPECS)
    assert TACTICAL


@pytest.mark.parametrize("name", YAMLS)
def test_an_agent_made_in_python_has_the_parameters_of_its_yaml(name: str) -> None:
    yaml, constructor = load_option("agent", name), pydoc.locate(to_class_path(YAMLS[name].target))
    assert callable(constructor)
    parameters = inspect.signature(constructor).parameters
    defaults: dict[str, Any] = {key: parameter.default for key, parameter in parameters.items() if key in yaml}
    if name == "oracle":  # its yaml names an agent, which other code makes
        assert defaults.pop("below") is None
    assert defaults == {key: yaml[key] for key in defaults}


def test_every_description_fits_the_table_of_agents() -> None:
    first = [(CONF / "agent" / f"{name}.yaml").read_text(encoding="utf-8").partition("\n")[0] for name in YAMLS]
    assert [line for line in first if len(line.removeprefix("# ")) > 53] == []


@pytest.mark.parametrize(("name", "rules"), mark_slow(CASES), ids=label)
@pytest.mark.parametrize("opening_plies", [*seldom(0), 3])
def test_moves_are_legal_in_both_seats(name: str, rules: Rules, opening_plies: int) -> None:
    arena = BatchEngine(rules, [SPECS[name].build(), Random()], [name, "random"], [(0, 1)], 3, 3, opening_plies)
    pairs = 8 if name == "oracle" else 50  # perfect play takes its time
    games = arena.play_block(PairRange(0, 0, pairs)).games
    assert {ENDINGS[ending] for ending in games.ending} <= {"line", "full_board"}


@pytest.mark.parametrize(("name", "rules"), mark_slow(CASES), ids=label)
def test_turns_of_a_game_that_begins_depend_on_position_and_seed_only(name: str, rules: Rules) -> None:
    positions = list_positions(rules, GAMES // 4)
    rng = streams(len(positions))
    one = player(name, rules)
    assert (isinstance(one, KernelPlayer) and one.game_words > 0) == (name in REMEMBERING)
    together = turns_of(one, rules, positions, rng)
    assert turns_of(one.fork(), rules, positions[::-1], Streams(rng.seeds[::-1].copy())) == together[::-1]
    for i in range(len(positions)):
        assert turns_of(one, rules, positions[i : i + 1], Streams(rng.seeds[i : i + 1])) == together[i : i + 1]
    assert turns_of(player(name, rules), rules, positions, rng) == together


@pytest.mark.parametrize(("name", "rules"), REMEMBERING_CASES, ids=label)
def test_turns_depend_on_nothing_else_but_this_games_earlier_ones(name: str, rules: Rules) -> None:
    def play_blocks(orders: list[PairRange], threads: int) -> dict[tuple[int, int], list[list[int]]]:
        arena = BatchEngine(
            rules, [SPECS[name].build(), SPECS["semi_random"].build()], [name, "two"], [(0, 0), (0, 1)], 3, 3, 2
        )
        blocks = list(arena.play_in_any_order(orders, threads))
        columns = [(block, i) for block in blocks for i in range(2 * block.pairs)]
        return {
            (block.pairing, 2 * block.first_pair + i): [
                part[: block.games.plies[i], i].tolist() for part in (block.games.pieces, block.games.cells)
            ]
            for block, i in columns
        }

    games = play_blocks([PairRange(0, 0, 12), PairRange(1, 0, 12)], threads=1)
    parts = [PairRange(pairing, first, pairs) for pairing in (1, 0) for first, pairs in ((7, 5), (0, 1), (1, 6))]
    assert play_blocks(parts, threads=2) == games
    assert len(games) == 48


@pytest.mark.parametrize(("name", "rules"), TACTICAL_CASES, ids=label)
def test_tactical_agents_take_a_win_in_one_and_do_not_give_one(name: str, rules: Rules) -> None:
    wins, unsafe, positions = 0, 0, list_positions(rules, GAMES)
    turns = turns_of(player(name, rules), rules, positions, streams(len(positions)))
    for position, (cell, gift) in zip(positions, turns, strict=True):
        view = build_view(position, rules)
        hands = view.available if rules.mover_chooses else [hand for hand in (view.hand,) if hand != NONE]
        if any(naive.winning_cells(view.board, hand, rules) for hand in hands):
            wins += 1
            placed = gift if rules.mover_chooses else view.hand
            assert cell in naive.winning_cells(view.board, placed, rules), position
        after = view.board if view.hand == NONE else naive.with_piece(view.board, view.hand, cell)
        safe = [] if rules.mover_chooses else naive.safe_pieces(after, view.available, rules)
        if safe and not naive.has_line(after, rules):
            unsafe += len(safe) < len(view.available)
            assert gift in safe, position
    assert wins > 10
    assert rules.mover_chooses or unsafe > 10
