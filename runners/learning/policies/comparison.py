"""``qarena policy compare``: the rows that two policies share, how their values differ, how often their turns agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.base.player import build_player
from agents.learning.policy import Policy
from agents.policy import VALUE_COLUMNS
from agents.random import Random
from agents.rl_tabular import COUNTERS
from analytics.questions.columns import ResultColumn, format_percent, format_significant, property_columns
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch, Turns
from quarto.canonical import canonical_forms
from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece, format_position
from quarto.position import ALL_PIECES, PackedPosition, board_piece_mask, position_from_plies
from quarto.rng import Streams
from quarto.rules import ATTRIBUTES, CELLS, NONE, Rules
from quarto.symmetry import build_symmetries
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.config.agent_policies import build_policy_agent
from runners.terminal import console

EVIDENCE_COLUMNS = (
    "count",
    "losses",
)  # columns that show how much evidence a value has, unless one of them is the value itself
MAX_POSITIONS = 20_000  # positions in which turns are compared
RANDOM_PAIRS = 500  # pairs of random games, whose positions are used if neither table has positions
MAX_ROWS = 5
SEEDS = 4  # each policy chooses with each seed: if its turns are equal, it does not choose at random


@dataclass(frozen=True)
class TurnComparison:
    """A comparison, up to symmetry, of the turns that two policies choose in the same positions."""

    description: str  # of the positions, in words
    positions: list[PackedPosition]  # P of them
    turns: tuple[Turns, Turns]  # [P] each
    same_board: NDArray[np.bool_]  # [P] whether the placements lead to the same board
    same_turn: NDArray[np.bool_]  # [P] whether the gifts are the same too
    deterministic: NDArray[np.bool_]  # [P] whether each policy chooses the same turn with every seed


def print_comparison(root: PurePath, one: str, other: str) -> None:
    """Print a comparison of two policies. Raises ``RequestError`` if they were learned under different rules."""
    archive = ArchiveStore.open(root)
    stored_policies = [policy_store.read(archive, name) for name in (one, other)]
    cards, learned = [card for card, _ in stored_policies], [policy for _, policy in stored_policies]
    rules = Rules(**cards[0].rules)
    if rules.lines != Rules(**cards[1].rules).lines:
        names = " and ".join(f"{card.name} ({card.rules['name']})" for card in cards)
        raise RequestError(f"policies {names} were learned under different rules: their positions are not the same")
    properties = [("policies", " and ".join(f"{card.name} ({card.policy_id}, {card.kind})" for card in cards))]
    common = join_rows(*learned)
    if common is not None:
        properties += _describe_row_counts_and_differences(learned, common)
    choices = compare_turns_in_table_positions(learned[0], learned[1], rules)
    properties += _describe_agreement(choices)
    tables = [console.build_escaped_table(property_columns(dict(properties)), "compared")]
    if common is not None and common["difference"].sum():
        tables.append(console.build_escaped_table(_build_difference_columns(common, cards), "Largest differences"))
    if (choices.deterministic & ~choices.same_turn).any():
        tables.append(console.build_escaped_table(_build_turn_columns(choices, cards), "Different turns"))
    console.print_tables(tables)


def join_rows(one: Policy, other: Policy) -> pl.DataFrame | None:
    """Join the rows that occur in both policies, or return None if the columns of the two tables do not match.

    The columns ``a`` and ``b`` hold the values of the two policies, and ``difference`` holds the absolute difference.
    """
    kinds = {one.kind, other.kind}
    if not (one.table and other.table) or not (len(kinds) == 1 or kinds <= VALUE_COLUMNS.keys()):
        return None
    frames = [pl.DataFrame(dict(policy.table)) for policy in (one, other)]
    values = [_find_value_column(policy) for policy in (one, other)]
    keys, other_keys = (
        [name for name in frame.columns if name not in (value, *EVIDENCE_COLUMNS)]
        for frame, value in zip(frames, values, strict=True)
    )
    if keys != other_keys:
        return None
    rows, other_rows = (
        frame.select(*keys, pl.col(value).alias(name)) for frame, value, name in zip(frames, values, "ab", strict=True)
    )
    common = rows.join(other_rows, on=keys, how="inner", maintain_order="left")
    return common.with_columns((pl.col("a") - pl.col("b")).abs().alias("difference"))


def _find_value_column(policy: Policy) -> str:
    """Return the name of the column that holds a policy's values.

    This is the column of floats or, if all columns are integers, the column of counts.
    """
    return next((name for name, column in policy.table.items() if column.dtype.kind == "f"), "count")


def _describe_row_counts_and_differences(learned: list[Policy], common: pl.DataFrame) -> Iterator[tuple[str, str]]:
    rows = [len(next(iter(policy.table.values()))) for policy in learned]
    yield "rows", f"{rows[0]:,} and {rows[1]:,}, {len(common):,} in common"
    if len(common):
        same = int((common["difference"] == 0).sum())
        mean = float(np.mean(common["difference"].to_numpy()))
        yield (
            "difference",
            f"{mean:.4f} on average" + (f", none in {format_count_with_noun(same, 'row')}" if same else ""),
        )


def _describe_agreement(choices: TurnComparison) -> Iterator[tuple[str, str]]:
    yield "asked", choices.description
    yield "same placement", f"{format_percent(choices.same_board.mean())} %, up to symmetry"
    yield "same turn", f"{format_percent(choices.same_turn.mean())} %"
    decided = choices.deterministic
    share = f", the same in {format_percent(choices.same_turn[decided].mean())} %" if decided.any() else ""
    yield "neither at random", f"{format_count_with_noun(int(decided.sum()), 'position')}{share}"


def compare_turns_in_table_positions(one: Policy, other: Policy, rules: Rules) -> TurnComparison:
    """Compare the turns that two policies choose in the positions of their tables.

    The comparison uses the positions that both tables have or, if they share none, the positions of either table. If
    there are more than ``MAX_POSITIONS``, it uses an evenly spaced selection. If neither table is about positions, it
    uses positions from random games.
    """
    sets = [_list_canonical_forms(policy, rules) for policy in (one, other)]
    form_sets = [forms for forms in sets if forms is not None]
    if not form_sets:
        description, positions = f"positions of {2 * RANDOM_PAIRS:,} random games", _play_random_positions(rules)
    else:
        shared = set.intersection(*form_sets)
        selected = sorted(shared or set.union(*form_sets))
        owner = ("both have" if shared else "either has") if len(form_sets) > 1 else "only one of them has"
        step = max(1, -(-len(selected) // MAX_POSITIONS))
        positions = [_to_position_with_piece_0(*form) for form in selected[::step]]
        description = f"{len(positions):,} of {len(selected):,} positions that {owner}"
    players, batch = (
        [build_player(build_policy_agent(policy), rules, "policy") for policy in (one, other)],
        Batch.from_positions(positions),
    )
    turns, deterministic = [], np.ones(len(positions), np.bool_)
    for player in players:
        turns_by_seed = [player.play(batch, _build_streams(seed, len(positions))) for seed in range(SEEDS)]
        first_turns = turns_by_seed[0]
        turns.append(first_turns)
        for seed_turns in turns_by_seed[1:]:
            deterministic &= (seed_turns.cells == first_turns.cells) & (seed_turns.gifts == first_turns.gifts)
    forms, other_forms = (_find_resulting_forms(positions, policy_turns, rules) for policy_turns in turns)
    return TurnComparison(
        description,
        positions,
        (turns[0], turns[1]),
        forms.boards == other_forms.boards,
        forms.boards_with_gifts == other_forms.boards_with_gifts,
        deterministic,
    )


def _build_streams(seed: int, size: int) -> Streams:
    """Build a random stream for each of ``size`` positions."""
    return Streams(np.random.default_rng(seed).integers(0, 1 << 64, size, np.uint64))


def _list_canonical_forms(policy: Policy, rules: Rules) -> set[tuple[int, int]] | None:
    """Return the canonical forms of the positions in a policy's table.

    Each form is a pair of integers, the words ``lanes`` and ``occupied`` of a ``PackedPosition``, and has piece 0 in
    hand. Returns None if the rows of the table are not positions.
    """
    if "lanes" not in policy.table or policy.kind == COUNTERS:
        return None
    lanes, occupied = policy.table["lanes"].view(np.uint64), policy.table["occupied"].astype(np.uint16)
    hand = policy.table.get("hand", np.zeros(len(lanes), np.int8))
    least, minimal = canonical_forms(lanes, occupied, hand, build_symmetries(rules))
    return set(zip(least.tolist(), minimal.tolist(), strict=True))


def _to_position_with_piece_0(lanes: int, occupied: int) -> PackedPosition:
    """Convert the words of a canonical form to a position with piece 0 in hand."""
    return PackedPosition(lanes, occupied, ALL_PIECES & ~int(board_piece_mask(lanes, occupied)) & ~1, 0, NONE)


def _play_random_positions(rules: Rules) -> list[PackedPosition]:
    engine = BatchEngine(rules, [Random(), Random()], ["one", "other"], [(0, 1)], seed=1, run=1)
    games = engine.play_block(PairRange(0, 0, RANDOM_PAIRS)).games
    positions = []
    for game in range(len(games.plies)):
        plies = list(zip(games.pieces[:, game].tolist(), games.cells[:, game].tolist(), strict=True))
        positions += [position_from_plies(plies[:ply], plies[ply][0]) for ply in range(int(games.plies[game]))]
    return positions


class ResultingForms(NamedTuple):
    """The canonical forms of the boards that result from one turn in each of ``P`` positions.

    ``boards`` are without the gift, and ``boards_with_gifts`` have the gift in hand. Each array [P] is a record array
    with two fields for the words ``lanes`` and ``occupied`` of a ``PackedPosition``.
    """

    boards: NDArray[Any]
    boards_with_gifts: NDArray[Any]


def _find_resulting_forms(positions: list[PackedPosition], turns: Turns, rules: Rules) -> ResultingForms:
    """Return the canonical forms of the boards after ``turns`` [P] in ``positions``, without and with the gifts."""
    batch, cells = Batch.from_positions(positions), turns.cells.astype(np.uint64)
    lanes, hands = batch.lanes.copy(), batch.hand.astype(np.uint64)
    for attribute in range(ATTRIBUTES):
        lanes |= (hands >> np.uint64(attribute) & np.uint64(1)) << (np.uint64(CELLS * attribute) + cells)
    occupied = batch.occupied | (np.uint64(1) << cells).astype(np.uint16)
    words = []
    for hand in (np.full(len(positions), NONE, np.int8), turns.gifts):
        forms = canonical_forms(lanes, occupied, hand, build_symmetries(rules))
        words.append(np.rec.fromarrays(forms))
    return ResultingForms(*words)


def _build_difference_columns(common: pl.DataFrame, cards: list[PolicyCard]) -> list[ResultColumn]:
    """Build the columns of a table that shows the rows in which the values of the two policies differ most.

    ``common`` is the frame that ``join_rows`` returns.
    """
    keys = [name for name in common.columns if name not in ("a", "b", "difference")]
    rows = common.sort("difference", *keys, descending=[True] + [False] * len(keys)).head(MAX_ROWS)
    columns = []
    if "lanes" in keys:
        hands = rows["hand"].to_list() if "hand" in keys else [0] * len(rows)
        texts = [
            _format_form(*form) for form in zip(rows["lanes"].to_list(), rows["occupied"].to_list(), hands, strict=True)
        ]
        columns.append(ResultColumn("position", texts, right_aligned=False))
        keys = [key for key in keys if key not in ("lanes", "occupied", "hand")]
    columns += [ResultColumn(key, [str(value) for value in rows[key].to_list()]) for key in keys]
    for card, name in zip(cards, "ab", strict=True):
        columns.append(ResultColumn(card.name, [*map(format_significant, rows[name].to_list())]))
    return columns


def _format_form(lanes: int, occupied: int, hand: int) -> str:
    return format_position(PackedPosition(lanes % (1 << 64), occupied, 0, hand, NONE))


def _build_turn_columns(choices: TurnComparison, cards: list[PolicyCard]) -> list[ResultColumn]:
    """Build the columns of a table that shows the first positions in which the two policies choose different turns.

    Positions in which either policy chooses at random are left out.
    """
    rows = np.flatnonzero(choices.deterministic & ~choices.same_turn)[:MAX_ROWS].tolist()
    columns = [ResultColumn("position", [format_position(choices.positions[row]) for row in rows], right_aligned=False)]
    for card, turns in zip(cards, choices.turns, strict=True):
        texts = [_format_turn(int(turns.cells[row]), int(turns.gifts[row])) for row in rows]
        columns.append(ResultColumn(card.name, texts, right_aligned=False))
    return columns


def _format_turn(cell: int, gift: int) -> str:
    return format_cell(cell) + (f" gives {format_piece(gift)}" if gift != NONE else "")
