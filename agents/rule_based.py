"""Study A's rules of thumb: win, mirror the opponent, give a safe or an opposite piece.

The study's program (``lorenzobellino/quarto-player``), which ``faithful`` players follow, compares the board with the
board that it remembers from its own last turn. As the opponent's last cell it takes the first cell that differs, in the
last row that has such a cell. It plays the point reflection of this cell if that was empty on the remembered board,
otherwise the first cell that was empty there. (The program means to play the farthest cell, but it computes one
distance for all cells.) If the chosen cell is occupied by now, the program is asked again, although it then remembers a
board on which its piece is already there. After a turn that the search found, it remembers only the placement, with row
and column exchanged.

The earlier version of the program (until 15 February 2023) made the study's first tables of results. It takes a random
cell where the last version takes the first one. It always takes a random cell if it did not give the first piece of the
game.

A gift is the first of one or two safe pieces, otherwise the first of the pieces that are most unlike the piece just
placed. Before the program's first placement it is random. Pieces are in ascending order here, and in the order of
Python's sets in the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base.agent import KernelAgent, Knowledge, TurnKernel, encode_turn, memory, params, turn
from agents.base.parameters import check_flag, check_version
from agents.random import random_cell, random_piece
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition, piece_at, place_piece
from quarto.rng import draw
from quarto.rules import CELLS, NONE, SIDE, Rules
from quarto.threats import safe_pieces, winning_cells

LAST, EARLIER = "last", "earlier"
VERSIONS = (LAST, EARLIER)

FEW_SAFE_GIFTS = 2  # up to this many, the first of them is given; the study ignores safety beyond
PIECES_REMEMBERED, CELLS_REMEMBERED = range(2)  # words of a game: four bits a cell; occupied cells, and the flag below
GAME_WORDS = 2
GAVE_FIRST = 1 << CELLS  # whether it gave the first piece, by its rule for a mirror piece


@inline_function
def pack_pieces(position: PackedPosition) -> int:
    """Pack the pieces on the board into one word, with four bits for each cell; the bits of an empty cell are 0."""
    packed, rest = uint64(0), position.occupied
    while rest != 0:
        cell = lowest_bit(rest)
        packed |= uint64(piece_at(position.lanes, cell)) << uint64(4 * cell)
        rest &= rest - 1
    return packed


@inline_function
def remember_piece(cell: int, piece: int, agent: Any) -> None:
    """Write a piece on a cell of the remembered board, whatever was there before."""
    remembered, shift = memory(agent), uint64(4 * cell)
    other_pieces = remembered[PIECES_REMEMBERED] & ~(uint64(15) << shift)
    remembered[PIECES_REMEMBERED] = other_pieces | (uint64(piece) << shift)
    remembered[CELLS_REMEMBERED] |= uint64(1) << uint64(cell)


@inline_function
def remember_search_turn_transposed(position: PackedPosition, cell: int, agent: Any) -> None:
    """Record, on the board that the player remembers, the placement of a turn that the search found.

    The player compares this board with the real one in its next turn, as the study's program does. Like the program, it
    records the placement with the row and the column of the cell exchanged.
    """
    remember_piece(SIDE * (cell % SIDE) + cell // SIDE, position.hand, agent)


@inline_function
def first_changed_cell_of_last_row(packed: int, occupied: int, agent: Any) -> int:
    """Return the first changed cell of the last row in which the board differs from the remembered board.

    ``packed`` and ``occupied`` are the pieces (``pack_pieces``) and the occupied cells of the present board. The result
    is NONE if no cell differs.
    """
    remembered = memory(agent)
    cells = int64(remembered[CELLS_REMEMBERED]) & ALL_CELLS
    changed, both, pieces = occupied ^ cells, occupied & cells, packed ^ remembered[PIECES_REMEMBERED]
    while both != 0:
        cell = lowest_bit(both)
        changed |= int64((pieces >> uint64(4 * cell)) & uint64(15) != 0) << cell
        both &= both - 1
    for row in range(SIDE - 1, -1, -1):
        in_row = (changed >> SIDE * row) & 0xF
        if in_row != 0:
            return int64(SIDE * row + lowest_bit(in_row))
    return int64(NONE)


@inline_function
def mirror_or_remembered_free_cell(changed: int, earlier_program: bool, word: int, agent: Any) -> int:
    """Return the cell that the study's program plays in reply to the opponent's placement on the cell ``changed``.

    The returned cell may be occupied on the real board, because the program consults only the board that it remembers.
    If ``changed`` is NONE, the cell is random. ``earlier_program`` selects the earlier version of the program.
    """
    remembered = int64(memory(agent)[CELLS_REMEMBERED])
    free, mirror = ~remembered & ALL_CELLS, CELLS - 1 - changed
    if changed == NONE:
        return random_cell(word, ALL_CELLS)
    if (free >> mirror) & 1 and (not earlier_program or remembered & GAVE_FIRST != 0):
        return int64(mirror)
    return random_cell(word, free) if earlier_program else int64(lowest_bit(free))


@inline_function
def mirror_until_free_and_remember(position: PackedPosition, earlier_program: bool, seed: int, agent: Any) -> int:
    """Return the cell that the study's program picks if no cell wins.

    The program picks a cell by ``mirror_or_remembered_free_cell``, and tries again until the picked cell is empty. Each
    try is remembered as the present board with the piece in hand on the picked cell. Try n, from 0, draws on the turn's
    random word n. ``earlier_program`` selects the earlier version of the program.
    """
    packed, answers = pack_pieces(position), int64(0)
    while True:
        changed = first_changed_cell_of_last_row(packed, position.occupied, agent)
        cell = mirror_or_remembered_free_cell(changed, earlier_program, draw(seed, answers), agent)
        remembered = memory(agent)
        remembered[PIECES_REMEMBERED] = packed
        remembered[CELLS_REMEMBERED] = (remembered[CELLS_REMEMBERED] & uint64(GAVE_FIRST)) | uint64(position.occupied)
        remember_piece(cell, position.hand, agent)
        if not (position.occupied >> cell) & 1:
            return cell
        answers += 1


@inline_function
def most_different_piece(available: int, piece: int) -> int:
    """Return the available piece that differs from ``piece`` in the most attributes; on ties the first.

    Return NONE if no piece is available.
    """
    best, most, rest = int64(NONE), int64(-1), int64(available)
    while rest != 0:
        gift = lowest_bit(rest)
        rest &= rest - 1
        different = popcount(int64(gift ^ piece))
        if different > most:
            best, most = gift, different
    return best


@inline_function
def first_of_one_or_two_safe_gifts(lanes: int, occupied: int, available: int, rules: Any) -> int:
    """Return the first safe piece if one or two of the available pieces are safe, otherwise NONE."""
    safe = available & safe_pieces(lanes, occupied, rules)
    return lowest_bit(safe) if 0 < popcount(safe) <= FEW_SAFE_GIFTS else int64(NONE)


@inline_function
def rule_of_thumb_gift(position: PackedPosition, cell: int, rules: Any) -> int:
    """Return the gift that ``rule_based`` chooses after the piece in hand is placed on ``cell``."""
    lanes = place_piece(position.lanes, position.hand, cell)
    gift = first_of_one_or_two_safe_gifts(lanes, position.occupied | (int64(1) << cell), position.available, rules)
    return gift if gift != NONE else most_different_piece(position.available, position.hand)


@inline_function
def few_safe_or_random_opening_gift(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    """Return the opening gift: the first safe piece if one or two pieces are safe, otherwise a random piece.

    The lower half of word 0 gives the random piece. Only if the piece was random does the player remember that it gave
    the opening gift.
    """
    gift = first_of_one_or_two_safe_gifts(position.lanes, position.occupied, position.available, rules)
    if gift != NONE:
        return gift
    memory(agent)[CELLS_REMEMBERED] |= uint64(GAVE_FIRST)
    return random_piece(draw(seed, 0), position.available)


@inline_function
def farthest_cell(empty: int, origin: int) -> int:
    """Return the cell of a non-empty 16-bit mask that is farthest from ``origin`` (Manhattan); on ties the first."""
    best, best_distance = int64(NONE), int64(-1)
    for cell in range(CELLS):
        distance = abs(cell // SIDE - origin // SIDE) + abs(cell % SIDE - origin % SIDE)
        if (empty >> cell) & 1 and distance > best_distance:
            best, best_distance = int64(cell), int64(distance)
    return best


@inline_function
def mirror_or_farthest_cell(position: PackedPosition, word: int) -> int:
    """Return the point reflection of the opponent's last cell if it is empty.

    Otherwise return the empty cell that is farthest from the opponent's last cell. On an empty board, return a random
    cell.
    """
    empty, mirror = ~position.occupied & ALL_CELLS, CELLS - 1 - position.last_cell
    if position.last_cell == NONE:
        return random_cell(word, empty)
    return mirror if (empty >> mirror) & 1 else farthest_cell(empty, position.last_cell)


@turn
def rule_based_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word = draw(seed, 0)
    if position.hand == NONE:
        return encode_turn(NONE, random_piece(word, position.available))
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    cell = lowest_bit(wins) if wins != 0 else mirror_or_farthest_cell(position, word)
    return encode_turn(cell, rule_of_thumb_gift(position, cell, rules))


@turn
def rule_based_program_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    if position.hand == NONE:
        return encode_turn(NONE, few_safe_or_random_opening_gift(position, seed, rules, agent))
    wins = winning_cells(position.lanes, position.occupied, position.hand, rules)
    cell = (
        int64(lowest_bit(wins))
        if wins != 0
        else mirror_until_free_and_remember(position, params(agent)[0] != 0.0, seed, agent)
    )
    return encode_turn(cell, rule_of_thumb_gift(position, cell, rules))


class RuleBased(KernelAgent):
    """Study A's ``rule_based`` (``lorenzobellino/quarto-player``).

    Cell: the first that wins, otherwise the point reflection of the opponent's last cell. If the reflection is
    occupied, the player takes the empty cell that is farthest from the opponent's last cell; on ties the first. On an
    empty board the cell is random. Gift: the first safe piece if one or two pieces are safe, otherwise the piece that
    differs in the most attributes from the piece just placed, the first on ties. At the opening the gift is random.

    With ``faithful``, it follows the last version of the study's program. With ``version='earlier'``, it follows the
    version with which the study's first results were made. ``agents/rule_based.py`` describes the differences.

    Word 0 of a turn gives the opening gift (lower half) or a cell (upper half). With ``faithful``, the program chooses
    again while the cell that it chose is occupied; the n-th choice, from 0, uses word n. Raises ``ValueError`` for an
    unknown version, or for an earlier version without ``faithful``.
    """

    kernel = rule_based_turn

    def __init__(self, faithful: bool = False, version: str = LAST) -> None:
        self.faithful = check_flag("faithful", faithful)
        self.version = check_version(version, faithful, VERSIONS)

    def turn_kernel(self) -> TurnKernel:
        return rule_based_program_turn if self.faithful else rule_based_turn

    def knowledge(self, rules: Rules) -> Knowledge:
        if not self.faithful:
            return Knowledge()
        return Knowledge(params=np.array([float(self.version == EARLIER)]), game_words=GAME_WORDS)
