"""Sets of positions with the exact value of every turn: drawing, writing and reading them, and judging agents by them.

The positions of a set depend on the rules, the seed and the logged games alone. The positions with one number of
pieces do not depend on the positions with other numbers of pieces. A position and its images under the symmetries count
as one, but each position is stored as it was drawn. So an agent that takes the first free cell is not judged on boards
that the canonical form has sorted.

A file has one row for each turn, ordered by position, cell and gift: see ``SCHEMA`` and data/README.md. The bytes that
the encoder writes depend on the rows alone, so the same positions give the same file everywhere.

A placement and a gift are judged apart, as in the view ``decisions``. The regret of a placement is the value of the
position less the value of the board that it makes, if the best gift follows. The regret of a gift is the value of that
board less the value of the gift. So they add up to the regret of the whole turn, and a gift is judged on the board that
the agent's own placement made. A placement that ends the game has no gift. An illegal answer or an exception forfeits a
game and counts as a loss. An illegal cell is a lost placement, an illegal piece after a legal cell a lost gift.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.exact.position_texts import parse_positions
from analytics.exact.tablebase import find_largest_tablebase, is_same_rules_except_name, load_tablebase_index
from analytics.statistics.tally import ClusterSums, Estimate, mean_over_clusters
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import explain_errors
from analytics.store.game_tables import merge_games
from analytics.store.parquet import encoder
from analytics.store.range_files import read_games
from analytics.store.records import Count, JsonRecord, encode_canonical, parse_record
from analytics.tables.derived.threads import run_on_threads
from quarto.batch import Batch, Games, Turns, concat_game_columns
from quarto.canonical import canonical_forms
from quarto.errors import Advice, RequestError
from quarto.notation import format_position
from quarto.position import ALL_PIECES, PackedPosition
from quarto.rng import Streams, stream
from quarto.rules import ATTRIBUTES, CELLS, NONE, PIECES, Rules
from quarto.solver.solution import SolvedTurn
from quarto.solver.solver import ILLEGAL, Solver
from quarto.symmetry import build_symmetries

SHIPPED_FOLDER = Path(__file__).resolve().parent / "position_sets"  # of the sets that ship
FORMAT = "quarto-arena positions"
ResultT = TypeVar("ResultT")
SOURCES = ("canonical", "logged")
NO_GIFT_COLUMN = PIECES  # the column of ``values`` for a placement that ends the game and gives nothing
COLUMN_MEANINGS = {
    "position": "before the turn, with a piece in hand: four rows of pieces or dots, then the hand",
    "pieces": "on the board",
    "source": "canonical: drawn from all positions up to symmetry; logged: met in a game",
    "last_cell": "that was filled last",
    "cell": "where the turn places the piece in hand: 4 row + column, from a1",
    "gift": "the piece that it gives; -1: the placement ends the game",
    "value": "for the player whose turn it is: 1 won, 0 drawn, -1 lost",
}
SCHEMA: dict[str, Any] = {
    name: pl.String() if name in ("position", "source") else pl.Int8() for name in COLUMN_MEANINGS
}
ROW_GROUP_ROWS = 1 << 16


class SetOrigin(JsonRecord, frozen=True):
    """The settings from which a set was built, and a checksum; they are stored in the metadata of the set's file."""

    format: str
    rules: Mapping[str, Any]  # the fields of ``Rules``
    seed: Count
    each: Count  # positions of each source and number of pieces, at most
    turns: str = ""  # the SHA-256 of the rows, see ``_compute_digest``

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format!r} is not {FORMAT!r}")
        Rules(**self.rules)


class PositionSet(NamedTuple):
    """``P`` positions with a piece in hand, grouped by number of pieces on the board, with every turn's exact value."""

    origin: SetOrigin
    batch: Batch  # [P]
    logged: NDArray[np.bool_]  # [P] from a logged game; the others were drawn from all positions
    values: NDArray[
        np.int8
    ]  # [P, 16, 17] by cell and gift (NO_GIFT_COLUMN: the game is over), for the player; or ILLEGAL

    @property
    def rules(self) -> Rules:
        return Rules(**self.origin.rules)

    @property
    def piece_counts(self) -> NDArray[np.int8]:
        """The number of pieces on the board in each position, [P]."""
        return np.bitwise_count(self.batch.occupied).astype(np.int8)


def find_existing_shipped_set(rules: str) -> Path:
    """Return the path of the set that this project ships for the rules named ``rules``.

    Raises ``RequestError`` if the project ships no set for these rules.
    """
    path = SHIPPED_FOLDER / f"{rules}.parquet"
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in SHIPPED_FOLDER.glob("*.parquet"))) or "none"
        command = f"'qarena policy positions --rules {rules} --output FILE' makes one"
        raise RequestError(
            Advice(
                f"there is no set of positions for rules {rules!r} (there is one for: {names})",
                f"{command}, --positions FILE judges by it",
                f"in a terminal {command}, and 'qarena policy judge … --positions FILE' judges by it",
            )
        )
    return path


def build_origin_without_digest(rules: Rules, seed: int, max_positions: int) -> SetOrigin:
    """Build the origin of a new set, without the checksum of its turns, which are not known yet.

    ``max_positions`` is the largest number of positions that the set may have for each source and number of pieces.
    """
    return SetOrigin(FORMAT, asdict(rules), seed, max_positions)


def encode_position_set(frame: pl.DataFrame, origin: SetOrigin) -> bytes:
    """Encode a set as the bytes of its file, and add a checksum of the turns to the stored origin.

    ``frame`` has the schema ``SCHEMA`` and a row for each turn; the turns of one position are adjacent.
    """
    stamped = msgspec.structs.replace(origin, turns=_compute_digest(frame))
    texts = {name: frame[name].unique(maintain_order=True) for name, kind in SCHEMA.items() if kind == pl.String()}
    enums = frame.with_columns(pl.col(name).cast(pl.Enum(categories)) for name, categories in texts.items())
    described = encode_canonical(msgspec.structs.asdict(stamped)).decode()
    return bytes(encoder.encode_parquet(enums.iter_slices(ROW_GROUP_ROWS), enums.schema, {FORMAT: described}))


def _compute_digest(frame: pl.DataFrame) -> str:
    """Return the SHA-256, as 64 hex digits, of the rows of ``frame`` written as CSV without a header."""
    return hashlib.sha256(frame.write_csv(include_header=False).encode()).hexdigest()


def read_position_set(path: Path) -> PositionSet:
    """Read a position set from a file.

    Raises ``FailureError`` if the file cannot be read, and ``RequestError`` if it is not a position set or has been
    changed.
    """
    with explain_errors("read", path):
        content = path.read_bytes()
    origin, frame = _parse_position_set(path, content)
    first = frame["position"].rle_id().to_numpy()
    starts = np.flatnonzero(np.diff(first, prepend=-1))
    batch = parse_positions(frame["position"].gather(starts).to_list())
    batch.last_cell[:] = frame["last_cell"].gather(starts).to_numpy()
    values = np.full((len(starts), CELLS, PIECES + 1), ILLEGAL, np.int8)
    gift = frame["gift"].to_numpy()
    values[first, frame["cell"].to_numpy(), np.where(gift == NONE, NO_GIFT_COLUMN, gift)] = frame["value"].to_numpy()
    return PositionSet(origin, batch, (frame["source"].gather(starts) == "logged").to_numpy(), values)


def _parse_position_set(path: Path, content: bytes) -> tuple[SetOrigin, pl.DataFrame]:
    """Parse the bytes of a file into the origin and the turns of a position set.

    ``path`` names the file in messages. Raises ``RequestError`` if ``content`` is not a position set or has been
    changed.
    """
    wrong = f"{path} is not a set of positions, or was changed since it was made"
    remedy = "make it again with 'qarena policy positions'"
    try:
        origin = parse_record(pl.read_parquet_metadata(io.BytesIO(content))[FORMAT].encode(), SetOrigin)
        frame = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, KeyError, ValueError, OSError) as error:
        raise RequestError(f"{wrong} ({' '.join(str(error).split())[:80]}): {remedy}") from error
    if frame.schema != pl.Schema(SCHEMA) or origin.turns != _compute_digest(frame):
        raise RequestError(f"{wrong} (its turns are not those that it was made with): {remedy}")
    return origin, frame


def select_positions(position_set: PositionSet, rows: NDArray[np.bool_]) -> PositionSet:
    """Return a position set with only the positions for which ``rows`` [P] is true."""
    return PositionSet(
        position_set.origin, position_set.batch.select(rows), position_set.logged[rows], position_set.values[rows]
    )


PIECE_COUNTS = range(1, PIECES)  # of pieces on the board: without any, all turns are equal up to symmetry
SAMPLE_BLOCK = 8192
MAX_SAMPLES = 64 * SAMPLE_BLOCK  # arrangements of one number of pieces: under some rules hardly any is without a line
SOLVE_BLOCK = 8


class CandidatePositions(NamedTuple):
    """``C`` positions with ``n`` pieces on the board and one in hand, in the order in which they were drawn."""

    pieces: NDArray[np.int64]  # [C, n + 1] the last is in hand
    cells: NDArray[np.int64]  # [C, n] the last was filled last


def read_logged_games(archive: ArchiveStore, rules: Rules) -> Games:
    """Read all games of an archive under the given rules, sorted by run id and then by game id.

    The order of the games does not depend on how they are spread over files. Rules are the given ones if they have the
    same lines and the same player chooses the piece, whatever their name. Raises ``RequestError`` if there are no such
    games, and ``FailureError`` for a file that is missing or damaged.
    """
    parts = [
        merge_games(
            [read_games(archive, record.run_id, stored) for stored in archive.list_effective_ranges(record.run_id)]
        ).games
        for record in sorted(archive.load_runs(), key=lambda run: run.run_id)
        if is_same_rules_except_name(record.rules, rules) and len(archive.list_effective_ranges(record.run_id))
    ]
    if not parts:
        raise RequestError(f"archive {archive.root} has no games under rules {rules.name!r}: name one with --archive")
    return concat_game_columns(parts)


def sample_limited_positions_without_line(rules: Rules, piece_count: int, seed: int) -> Iterator[CandidatePositions]:
    """Yield batches of random positions with ``piece_count`` pieces on the board and no finished line.

    All such positions are equally likely, because positions are drawn uniformly and those with a finished line are
    rejected. The iterator ends after ``MAX_SAMPLES`` draws.
    """
    first = stream(seed, piece_count, 0)
    for start in range(0, MAX_SAMPLES, SAMPLE_BLOCK):
        words = Streams(np.arange(start, start + SAMPLE_BLOCK, dtype=np.uint64) + first)
        drawn_words = np.stack([words.draw(number) for number in range(2 * PIECES)]).reshape(2, PIECES, -1)
        order = np.argsort(drawn_words, axis=1, kind="stable").transpose(0, 2, 1)  # [2, B, 16] of sixteen things
        candidates = CandidatePositions(order[0][:, : piece_count + 1], order[1][:, :piece_count])
        live = ~_has_line(candidates, rules)
        yield CandidatePositions(candidates.pieces[live], candidates.cells[live])


def sample_logged_positions(games: Games, piece_count: int, seed: int) -> Iterator[CandidatePositions]:
    """Yield batches of logged positions with ``piece_count`` pieces on the board and a piece in hand.

    The games come in a random order. Only positions in which the piece in hand was then placed are taken.
    """
    first = stream(seed, piece_count, 1)
    words = Streams(np.arange(len(games.plies), dtype=np.uint64) + first).draw(0)
    order = np.argsort(words, kind="stable")
    order = order[games.plies[order] > piece_count]
    for start in range(0, len(order), SAMPLE_BLOCK):
        chosen = order[start : start + SAMPLE_BLOCK]
        held, filled = games.pieces[: piece_count + 1, chosen], games.cells[:piece_count, chosen]
        yield CandidatePositions(held.T.astype(np.int64), filled.T.astype(np.int64))


def _has_line(candidates: CandidatePositions, rules: Rules) -> NDArray[np.bool_]:
    """Return whether each candidate has a finished line, [C].

    A byte represents each piece, with one bit for each value of each attribute. On a finished line, the bitwise AND of
    the four bytes is not 0.
    """
    features = np.zeros((len(candidates.cells), CELLS), np.uint8)
    placed = candidates.pieces[:, :-1]
    np.put_along_axis(features, candidates.cells, (placed | (~placed & 15) << ATTRIBUTES).astype(np.uint8), axis=1)
    lines = [np.bitwise_and.reduce(features[:, line], axis=1) != 0 for line in rules.lines]
    finished: NDArray[np.bool_] = np.any(lines, axis=0)
    return finished


def to_batch(candidates: CandidatePositions) -> Batch:
    """Convert candidate positions to a batch of positions."""
    one = np.uint64(1)
    placed, cells = candidates.pieces[:, :-1].astype(np.uint64), candidates.cells.astype(np.uint64)
    lanes = np.zeros(len(cells), np.uint64)
    for attribute in range(ATTRIBUTES):
        bits = (placed >> np.uint64(attribute) & one) << (cells + np.uint64(CELLS * attribute))
        lanes |= np.bitwise_or.reduce(bits, axis=1)
    occupied = np.bitwise_or.reduce(one << cells, axis=1).astype(np.uint16)
    gone = np.bitwise_or.reduce(1 << candidates.pieces, axis=1)
    hand, last_cell = candidates.pieces[:, -1].astype(np.int8), candidates.cells[:, -1].astype(np.int8)
    return Batch(lanes, occupied, (ALL_PIECES & ~gone).astype(np.uint16), hand, last_cell)


def sample_new_positions_by_source(
    rules: Rules, games: Games, piece_count: int, max_positions: int, seed: int
) -> list[tuple[str, list[PackedPosition]]]:
    """Sample at most ``max_positions`` positions from each source; return each source's name with its positions.

    The sources are random positions without a finished line, and the positions of the logged ``games``. Each position
    has ``piece_count`` pieces on the board. No two of the returned positions are equivalent under the symmetries of the
    rules, not even across sources.
    """
    seen: set[tuple[int, int]] = set()
    sources = (
        sample_limited_positions_without_line(rules, piece_count, seed),
        sample_logged_positions(games, piece_count, seed),
    )
    return [
        (name, select_unseen_positions(source, max_positions, rules, seen))
        for name, source in zip(SOURCES, sources, strict=True)
    ]


def select_unseen_positions(
    source: Iterator[CandidatePositions], max_positions: int, rules: Rules, seen_canonical_forms: set[tuple[int, int]]
) -> list[PackedPosition]:
    """Select the first ``max_positions`` positions whose canonical forms are not in ``seen_canonical_forms``.

    The canonical forms of the selected positions are added to ``seen_canonical_forms``.
    """
    kept: list[PackedPosition] = []
    for candidates in source:
        batch = to_batch(candidates)
        forms = canonical_forms(batch.lanes, batch.occupied, batch.hand, build_symmetries(rules))
        for i, form in enumerate(zip(*(column.tolist() for column in forms), strict=True)):
            if len(kept) < max_positions and form not in seen_canonical_forms:
                seen_canonical_forms.add(form)
                kept.append(batch.position(i))
        if len(kept) == max_positions:
            break
    return kept


def solve_all_turns(solver: Solver, position: PackedPosition) -> list[SolvedTurn]:
    """Return the exact value of every turn in a position, without the distance to the end of the game."""
    return list(solver.turns(position, distance=False))


class TurnSolver:
    """A solver of positions that uses several threads, which share solved boards."""

    def __init__(self, rules: Rules, threads: int, megabytes: float, min_pieces: int = 0) -> None:
        """Prepare to solve positions that have at least ``min_pieces`` pieces on the board.

        A tablebase is loaded only if it includes boards with more than ``min_pieces`` pieces. Otherwise it would not
        help, because boards are looked up only after a placement.
        """
        self._threads = threads
        tablebase = find_largest_tablebase(rules)
        self._shared = Solver(
            rules, megabytes, load_tablebase_index(rules) if tablebase and min_pieces < tablebase.card.pieces else None
        )
        self._local = threading.local()

    def search_positions(
        self,
        positions: Sequence[PackedPosition],
        progress: Callable[[int], None] = lambda _positions: None,
        search: Callable[[Solver, PackedPosition], ResultT] = solve_all_turns,  # type: ignore[assignment]  # the usual one
    ) -> list[ResultT]:
        """Apply ``search``, by default ``solve_all_turns``, to each position, and return the results in order.

        ``progress`` is called with the number of positions that have just been finished.
        """
        results: dict[int, list[ResultT]] = {}

        def keep(done: tuple[int, list[ResultT]]) -> None:
            results[done[0]] = done[1]
            progress(len(done[1]))

        starts = range(0, len(positions), SOLVE_BLOCK)
        jobs = (partial(self._search_span, search, start, positions[start : start + SOLVE_BLOCK]) for start in starts)
        run_on_threads(jobs, self._threads, keep, self._shared.stop)
        return [result for start in starts for result in results[start]]

    def _search_span(
        self, search: Callable[[Solver, PackedPosition], ResultT], start: int, positions: Sequence[PackedPosition]
    ) -> tuple[int, list[ResultT]]:
        if not hasattr(self._local, "solver"):
            self._local.solver = self._shared.fork()
        return start, [search(self._local.solver, position) for position in positions]


def build_turn_rows(
    source: str, positions: Sequence[PackedPosition], turns: Sequence[Sequence[SolvedTurn]]
) -> pl.DataFrame:
    """Build a frame with the schema ``SCHEMA`` that has a row for each turn in the positions of one source."""
    rows = [
        (text, position.occupied.bit_count(), source, position.last_cell, turn.cell, turn.gift, turn.value)
        for position, solved in zip(positions, turns, strict=True)
        for text in [format_position(position)]
        for turn in solved
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


LOST = -1
MAX_REGRET = 2.0  # half-points: from a win to a loss
DECISION_KINDS = ("turn", "placement", "gift")
NO_DECISION = np.int8(-1)  # instead of a regret
JUDGEMENT_SCHEMA = {
    "kind": pl.String(),  # one of DECISION_KINDS
    "source": pl.String(),  # of the positions; null: of all
    "pieces": pl.Int64(),  # on the board at the decision; null: any number
    "decisions": pl.Int64(),
    "optimal": pl.Float64(),  # the share that keep the value, with its 95 % interval
    "optimal_low": pl.Float64(),
    "optimal_high": pl.Float64(),
    "regret": pl.Float64(),  # half-points that a decision gave up on average, with its 95 % interval
    "regret_low": pl.Float64(),
    "regret_high": pl.Float64(),
}


class Regrets(NamedTuple):
    """The regrets of ``D`` turns in each of ``P`` positions, in half-points; NO_DECISION where nothing was decided."""

    placement: NDArray[np.int8]  # [P, D]
    gift: NDArray[np.int8]  # [P, D]
    forfeits: int  # illegal turns

    @property
    def turn(self) -> NDArray[np.int8]:
        """The regrets of the whole turns (placement and gift together), [P, D]."""
        return self.placement + np.maximum(self.gift, 0)


def compute_regrets_and_forfeits(values: NDArray[np.int8], turns: Turns) -> Regrets:
    """Compute the regrets of ``turns`` [P, D], and count the illegal turns, which are forfeits.

    ``values`` [P, 16, 17] holds the exact value of every turn. An illegal placement or gift is judged as a loss.
    """
    cells, gifts = turns.cells.astype(np.intp), turns.gifts.astype(np.intp)
    rows = np.arange(len(values))[:, None]
    boards = np.column_stack([values.max(axis=2), np.full(len(values), ILLEGAL)])  # [P, 17] by cell, then no cell
    before = boards.max(axis=1)[:, None]
    reached = boards[rows, np.where((cells >= 0) & (cells < CELLS), cells, CELLS)]
    placed = reached != ILLEGAL
    after = np.where(placed, reached, LOST)
    cell = np.where(placed, cells, 0)
    gives = placed & (values[rows, cell, NO_GIFT_COLUMN] == ILLEGAL)
    gift_values = values[rows, cell, np.where((gifts >= 0) & (gifts < PIECES), gifts, NO_GIFT_COLUMN)]
    legal = gift_values != ILLEGAL
    gift = np.where(gives, after - np.where(legal, gift_values, LOST), NO_DECISION)
    forfeits = int((~placed).sum() + (gives & ~legal).sum())
    return Regrets((before - after).astype(np.int8), gift.astype(np.int8), forfeits)


def summarise_regrets(positions: PositionSet, regrets: Regrets) -> pl.DataFrame:
    """Summarise regrets as shares of optimal decisions and mean regrets, with the schema ``JUDGEMENT_SCHEMA``.

    Each kind of decision has a row for all decisions, one for each source, and one for each number of pieces on the
    board. For a gift, the piece that was just placed is on the board too. The 95 % intervals treat positions as
    independent, but not the decisions in one position.
    """
    rows = [
        (kind, source, pieces, *_estimate_optimal_share_and_mean_regret(getattr(regrets, kind)[chosen]))
        for kind in DECISION_KINDS
        for source, pieces, chosen in _list_summary_groups(positions, int(kind == "gift"))
        if (getattr(regrets, kind)[chosen] >= 0).any()
    ]
    return pl.DataFrame(rows, schema=JUDGEMENT_SCHEMA, orient="row")


def _list_summary_groups(
    positions: PositionSet, added_pieces: int
) -> Iterator[tuple[str | None, int | None, NDArray[np.bool_]]]:
    """Yield the source, the number of pieces and a mask [P] for each group of positions that is summarised in a row.

    None stands for all sources or all numbers of pieces. ``added_pieces`` is the number of pieces that were placed
    between the position and the decision.
    """
    yield None, None, np.ones(len(positions.logged), np.bool_)
    for source in SOURCES:
        yield source, None, positions.logged == (source == "logged")
    for pieces in np.unique(positions.piece_counts).tolist():
        yield None, pieces + added_pieces, positions.piece_counts == pieces


def _estimate_optimal_share_and_mean_regret(regret: NDArray[np.int8]) -> tuple[int | float, ...]:
    """Return the number of decisions in ``regret`` [P, D], the share of optimal decisions, and the mean regret.

    The share and the mean are each followed by the ends of their interval.
    """
    decided = regret >= 0
    count = decided.sum(axis=1)
    optimal = estimate_mean_over_positions(((regret == 0) & decided).sum(axis=1), count, 1.0)
    return (
        int(count.sum()),
        *optimal,
        *estimate_mean_over_positions(np.maximum(regret, 0).sum(axis=1), count, MAX_REGRET),
    )


def estimate_mean_over_positions(
    position_totals: NDArray[np.integer], position_counts: NDArray[np.integer], max_value: float
) -> Estimate:
    """Estimate the mean of values between 0 and ``max_value``, with its interval.

    Position ``i`` has ``position_counts[i]`` values, whose sum is ``position_totals[i]``. The interval treats positions
    as independent, but not the values in one position.
    """
    n, y = position_counts.astype(np.int64), position_totals.astype(np.int64)
    sums = (int(total) for total in (n.sum(), y.sum(), n @ n, n @ y, y @ y))
    return mean_over_clusters(ClusterSums(int((n > 0).sum()), *sums), max_value)
