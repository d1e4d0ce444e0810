"""``qarena policy compare``: the rows that two policies share, their differences, how often their turns are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.base.player import build_player
from agents.learning.policy import Policy
from agents.policy import VALUE_COLUMNS
from agents.random import Random
from agents.rl_tabular import COUNTERS
from analytics.questions.columns import ResultColumn, format_percent, property_columns
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from quarto.batch import Batch, Turns
from quarto.canonical import canonical_forms
from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece, format_position
from quarto.position import ALL_PIECES, Position, board_piece_mask, position_from_plies
from quarto.rng import Streams
from quarto.rules import ATTRIBUTES, CELLS, NONE, Rules
from quarto.symmetry import build_symmetries
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.config.agent_policies import build_policy_agent
from runners.terminal import console

EVIDENCE_COLUMNS = (
    "count",
    "losses",
)  # columns that show how much evidence a value has, unless they are the value itself
MAX_POSITIONS = 20_000  # in which both policies choose
RANDOM_PAIRS = 500  # their positions are used if neither table has any
MAX_ROWS = 5
SEEDS = 4  # each policy chooses with each seed: equal turns show that it does not choose at random


@dataclass(frozen=True)
class TurnComparison:
    """The turns that two policies choose in some positions, compared up to symmetry."""

    description: str  # which positions these are
    positions: list[Position]
    turns: tuple[Turns, Turns]
    same_board: NDArray[np.bool_]  # the placements make the same board
    same_turn: NDArray[np.bool_]  # and the gifts too
    deterministic: NDArray[np.bool_]  # both turns are the same with every seed


def print_comparison(root: PurePath, one: str, other: str) -> None:
    """Print how two policies compare. Raises ``RequestError`` for policies of different rules."""
    archive = ArchiveStore.open(root)
    both = [policy_store.read(archive, wanted) for wanted in (one, other)]
    cards, learned = [card for card, _ in both], [policy for _, policy in both]
    rules = Rules(**cards[0].rules)
    if rules.lines != Rules(**cards[1].rules).lines:
        names = " and ".join(f"{card.name} ({card.rules['name']})" for card in cards)
        raise RequestError(f"policies {names} were learned under different rules: their positions are not the same")
    compared = [("policies", " and ".join(f"{card.name} ({card.policy_id}, {card.kind})" for card in cards))]
    common = join_rows(*learned)
    if common is not None:
        compared += _describe_rows(learned, common)
    choices = compare_turns(learned[0], learned[1], rules)
    compared += _describe_agreement(choices)
    tables = [console.build_table(property_columns(dict(compared)), "compared")]
    if common is not None and common["difference"].sum():
        tables.append(console.build_table(_build_difference_columns(common, cards), "Largest differences"))
    if (choices.deterministic & ~choices.same_turn).any():
        tables.append(console.build_table(_build_turn_columns(choices, cards), "Different turns"))
    console.print_tables(tables)


def join_rows(one: Policy, other: Policy) -> pl.DataFrame | None:
    """The rows that both have, with both values and their ``difference``; None if the columns do not compare."""
    kinds = {one.kind, other.kind}
    if not (one.table and other.table) or not (len(kinds) == 1 or kinds <= VALUE_COLUMNS.keys()):
        return None
    frames = [pl.DataFrame(dict(policy.table)) for policy in (one, other)]
    values = [_find_value_column(policy) for policy in (one, other)]
    keys, others = (
        [name for name in frame.columns if name not in (value, *EVIDENCE_COLUMNS)]
        for frame, value in zip(frames, values, strict=True)
    )
    if keys != others:
        return None
    left, right = (
        frame.select(*keys, pl.col(value).alias(name)) for frame, value, name in zip(frames, values, "ab", strict=True)
    )
    common = left.join(right, on=keys, how="inner", maintain_order="left")
    return common.with_columns((pl.col("a") - pl.col("b")).abs().alias("difference"))


def _find_value_column(policy: Policy) -> str:
    """The column with a policy's values: the one of floats or, where all are integers, the counts."""
    return next((name for name, column in policy.table.items() if column.dtype.kind == "f"), "count")


def _describe_rows(learned: list[Policy], common: pl.DataFrame) -> Iterator[tuple[str, str]]:
    rows = [len(next(iter(policy.table.values()))) for policy in learned]
    yield "rows", f"{rows[0]:,} and {rows[1]:,}, {len(common):,} in common"
    if len(common):
        same = int((common["difference"] == 0).sum())
        mean = float(np.mean(common["difference"].to_numpy()))
        yield "difference", f"{mean:.4f} on average" + (f", none in {same:,} rows" if same else "")


def _describe_agreement(choices: TurnComparison) -> Iterator[tuple[str, str]]:
    yield "asked", choices.description
    yield "same placement", f"{format_percent(choices.same_board.mean())} %, up to symmetry"
    yield "same turn", f"{format_percent(choices.same_turn.mean())} %"
    decided = choices.deterministic
    share = f", the same in {format_percent(choices.same_turn[decided].mean())} %" if decided.any() else ""
    yield "neither at random", f"{int(decided.sum()):,} positions{share}"


def compare_turns(one: Policy, other: Policy, rules: Rules) -> TurnComparison:
    """The turns of both policies in the positions that both tables have or, if there are none, in those of either."""
    sets = [_list_canonical_forms(policy, rules) for policy in (one, other)]
    known = [each for each in sets if each is not None]
    if not known:
        asked, positions = f"positions of {2 * RANDOM_PAIRS:,} random games", _play_random_positions(rules)
    else:
        shared = set.intersection(*known)
        chosen = sorted(shared or set.union(*known))
        which = ("both have" if shared else "either has") if len(known) > 1 else "only one of them has"
        step = max(1, -(-len(chosen) // MAX_POSITIONS))
        positions = [_to_position(*each) for each in chosen[::step]]
        asked = f"{len(positions):,} of {len(chosen):,} positions that {which}"
    players, batch = (
        [build_player(build_policy_agent(policy), rules, "policy") for policy in (one, other)],
        Batch.from_positions(positions),
    )
    turns, decided = [], np.ones(len(positions), np.bool_)
    for player in players:
        answers = [player.play(batch, _build_streams(seed, len(positions))) for seed in range(SEEDS)]
        turns.append(answers[0])
        for answer in answers[1:]:
            decided &= (answer.cells == answers[0].cells) & (answer.gifts == answers[0].gifts)
    boards, afters = zip(*(_find_resulting_forms(positions, each, rules) for each in turns), strict=True)
    return TurnComparison(
        asked, positions, (turns[0], turns[1]), boards[0] == boards[1], afters[0] == afters[1], decided
    )


def _build_streams(seed: int, size: int) -> Streams:
    """A stream for each position."""
    return Streams(np.random.default_rng(seed).integers(0, 1 << 64, size, np.uint64))


def _list_canonical_forms(policy: Policy, rules: Rules) -> set[tuple[int, int]] | None:
    """The positions with a piece in hand that a table is about: lanes and occupied of their forms, in which it is 0."""
    if "lanes" not in policy.table or policy.kind == COUNTERS:
        return None
    lanes, occupied = policy.table["lanes"].view(np.uint64), policy.table["occupied"].astype(np.uint16)
    hand = policy.table.get("hand", np.zeros(len(lanes), np.int8))
    least, minimal = canonical_forms(lanes, occupied, hand, build_symmetries(rules))
    return set(zip(least.tolist(), minimal.tolist(), strict=True))


def _to_position(lanes: int, occupied: int) -> Position:
    """A canonical form as a position."""
    return Position(lanes, occupied, ALL_PIECES & ~int(board_piece_mask(lanes, occupied)) & ~1, 0, NONE)


def _play_random_positions(rules: Rules) -> list[Position]:
    engine = BatchEngine(rules, [Random(), Random()], ["one", "other"], [(0, 1)], seed=1, run=1)
    games = engine.play_block(PairRange(0, 0, RANDOM_PAIRS)).games
    positions = []
    for game in range(len(games.plies)):
        plies = list(zip(games.pieces[:, game].tolist(), games.cells[:, game].tolist(), strict=True))
        positions += [position_from_plies(plies[:ply], plies[ply][0]) for ply in range(int(games.plies[game]))]
    return positions


def _find_resulting_forms(positions: list[Position], turns: Turns, rules: Rules) -> tuple[NDArray[Any], NDArray[Any]]:
    """The forms of the boards that turns make, and of these with the gifts: each [B] of two words."""
    batch, cells = Batch.from_positions(positions), turns.cells.astype(np.uint64)
    lanes, hands = batch.lanes.copy(), batch.hand.astype(np.uint64)
    for attribute in range(ATTRIBUTES):
        lanes |= (hands >> np.uint64(attribute) & np.uint64(1)) << (np.uint64(CELLS * attribute) + cells)
    occupied = batch.occupied | (np.uint64(1) << cells).astype(np.uint16)
    words = []
    for hand in (np.full(len(positions), NONE, np.int8), turns.gifts):
        forms = canonical_forms(lanes, occupied, hand, build_symmetries(rules))
        words.append(np.rec.fromarrays(forms))
    return words[0], words[1]


def _build_difference_columns(common: pl.DataFrame, cards: list[PolicyCard]) -> list[ResultColumn]:
    """The rows in which values differ most."""
    keys = [name for name in common.columns if name not in ("a", "b", "difference")]
    rows = common.sort("difference", *keys, descending=[True] + [False] * len(keys)).head(MAX_ROWS)
    columns = []
    if "lanes" in keys:
        hands = rows["hand"].to_list() if "hand" in keys else [0] * len(rows)
        texts = [
            _format_form(*each) for each in zip(rows["lanes"].to_list(), rows["occupied"].to_list(), hands, strict=True)
        ]
        columns.append(ResultColumn("position", texts, right_aligned=False))
        keys = [key for key in keys if key not in ("lanes", "occupied", "hand")]
    columns += [ResultColumn(key, [str(value) for value in rows[key].to_list()]) for key in keys]
    for card, name in zip(cards, "ab", strict=True):
        columns.append(ResultColumn(card.name, [f"{value:.4g}" for value in rows[name].to_list()]))
    return columns


def _format_form(lanes: int, occupied: int, hand: int) -> str:
    return format_position(Position(lanes % (1 << 64), occupied, 0, hand, NONE))


def _build_turn_columns(choices: TurnComparison, cards: list[PolicyCard]) -> list[ResultColumn]:
    """The first positions in which the turns differ, although neither is chosen at random."""
    rows = np.flatnonzero(choices.deterministic & ~choices.same_turn)[:MAX_ROWS].tolist()
    columns = [ResultColumn("position", [format_position(choices.positions[row]) for row in rows], right_aligned=False)]
    for card, turns in zip(cards, choices.turns, strict=True):
        texts = [_format_turn(int(turns.cells[row]), int(turns.gifts[row])) for row in rows]
        columns.append(ResultColumn(card.name, texts, right_aligned=False))
    return columns


def _format_turn(cell: int, gift: int) -> str:
    return format_cell(cell) + (f" gives {format_piece(gift)}" if gift != NONE else "")
