"""Playing stored games again and comparing them ply by ply: all games of a run, or a sample of them.

A whole run is compared file by file: the fingerprint of the games that were played is compared with the fingerprint in
the file's name, so stored games are read only where something differs. A sample is read game by game.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import RangeGames, concat_blocks_into_large_parts
from analytics.store.range_files import read_games
from analytics.store.ranges import MODULUS, Ranges, StoredRange, UnitLine, compute_game_ids
from quarto.batch import ENDINGS, GAME_BITS
from quarto.notation import format_game
from runners.arena.batch_engine import BatchEngine, Pace, PairRange
from runners.arena.progress import Progress
from runners.hosting.guarded_agent import silence_forfeit_log

SAMPLE_UNITS = 256  # units of a sample, unless the run has more pairings: then two rounds of all pairings
SAMPLE_FILES = 4  # files from which most of a sample is drawn, because each is read as a whole
SAMPLE_SECONDS = 1.0  # time of playing after which a sample ends if it has a unit of each pairing
MAX_SAMPLE_SECONDS = 20.0  # time of playing after which a sample ends even if it only has a unit of each agent


class GameDifference(NamedTuple):
    """A game that came out differently when it was played again."""

    game_id: int
    ply: int  # the first differing ply, from 0; the number of plies if only the ending differs
    stored: str  # the plies and the ending, as text
    played: str

    @property
    def pairing(self) -> int:
        """The index of the game's pairing in its run."""
        return self.game_id >> GAME_BITS

    @property
    def first_change_text(self) -> str:
        """The difference as a clause for messages: the first ply that differs or, if all plies agree, the ending."""
        was, is_now = (text.split()[self.ply] for text in (self.stored, self.played))
        return f"ply {self.ply} was {was} and is now {is_now}"


class Replay(NamedTuple):
    """The result of comparing stored games with the same games played again."""

    games: int = 0  # compared games
    pairings: int = 0  # pairings with compared games
    difference: GameDifference | None = None  # the first game that came out differently
    interrupted: bool = False


# All games of a run.


def replay_run(
    archive: ArchiveStore,
    run_id: str,
    engine: BatchEngine,
    line: UnitLine,
    threads: int,
    stop: threading.Event,
    progress: Progress | None = None,
) -> Replay:
    """Play all games of a run again, up to the end of the first file whose games come out differently.

    Args:
        archive: Archive that holds the run. It is only read.
        run_id: Id of the run.
        engine: Engine of the run. It should be built for this purpose only, because it counts forfeits.
        line: Layout of the run's units: its number of pairings, and the number of games in a pair.
        threads: Number of threads that play.
        stop: Event that ends the replay early. The games that were played until then are compared.
        progress: Display of the number of games played, if there is one.

    Raises:
        FailureError: A file that has to be read is damaged.

    """
    ranges, pace, compared = archive.list_effective_ranges(run_id), Pace(), 0
    if progress:
        progress.start(line.count_games(stored[:2] for stored in ranges))
    with silence_forfeit_log():
        for stored in ranges:
            fingerprints = _compute_replay_fingerprints(engine, line, stored, pace, threads, stop, progress)
            games = line.games_a_pair * sum(pair_range.pairs for pair_range in fingerprints)
            is_complete = games == line.count_games([stored[:2]])
            if not is_complete or sum(fingerprints.values()) % MODULUS != stored.fingerprint:
                difference = _find_first_difference(archive, run_id, engine, stored, fingerprints)
                if difference or not is_complete:
                    return Replay(compared + games, line.pairings, difference, interrupted=not difference)
            compared += games
    return Replay(compared, line.pairings)


def _compute_replay_fingerprints(
    engine: BatchEngine,
    line: UnitLine,
    stored_range: StoredRange,
    pace: Pace,
    threads: int,
    stop: threading.Event,
    progress: Progress | None,
) -> dict[PairRange, int]:
    """Play the games of a range again, and return the fingerprint of each block, keyed by the block's pairs."""
    fingerprints = dict[PairRange, int]()

    def show_turns() -> None:
        if progress:
            progress.report_turns(engine.turns)

    for block in engine.play_in_any_order(_list_pair_ranges(line, stored_range, pace), threads, stop, show_turns):
        pace.add_block_time(block.pairing, block.pairs, block.seconds)
        fingerprints[PairRange(block.pairing, block.first_pair, block.pairs)] = sum(
            games.fingerprint for games in concat_blocks_into_large_parts([block])
        )
        if progress:
            progress.advance(len(block.games.plies))
    return fingerprints


def _list_pair_ranges(line: UnitLine, stored_range: StoredRange, pace: Pace) -> Iterator[PairRange]:
    """Yield the pairs of a range. Each part that is yielded has as many pairs as the pace allows at that moment."""
    for pairing in range(line.pairings):
        pair, end = line.pair_range(pairing, stored_range.first, stored_range.end)
        while pair < end:
            pairs = min(pace.next_pair_count(pairing), end - pair)
            yield PairRange(pairing, pair, pairs)
            pair += pairs


def _find_first_difference(
    archive: ArchiveStore,
    run_id: str,
    engine: BatchEngine,
    stored_range: StoredRange,
    played_fingerprints: dict[PairRange, int],
) -> GameDifference | None:
    """Return the first game of a range that came out differently, or None if all games came out the same.

    ``played_fingerprints`` has the fingerprint of each block that was played again, keyed by the block's pairs.
    """
    games = read_games(archive, run_id, stored_range)
    differing = [
        pair_range
        for pair_range in sorted(played_fingerprints)
        if _select_games(games, pair_range).fingerprint != played_fingerprints[pair_range]
    ]
    return next(filter(None, (find_replay_difference(games, engine, pair_range) for pair_range in differing)), None)


# One block.


def find_replay_difference(
    stored_games: RangeGames, engine: BatchEngine, pair_range: PairRange
) -> GameDifference | None:
    """Play a block of pairs again, and return the first game that differs from its stored game.

    ``stored_games`` contains the games of these pairs. The result is None if no game differs.
    """
    games = _select_games(stored_games, pair_range)
    (played,) = concat_blocks_into_large_parts([engine.play_block(pair_range)])
    plies = _find_first_differing_ply_per_game(games, played)
    for index in np.flatnonzero(plies >= 0)[:1].tolist():
        texts = _format_game(games, index), _format_game(played, index)
        return GameDifference(int(games.game_id[index]), int(plies[index]), *texts)
    return None


def _select_games(stored_games: RangeGames, pair_range: PairRange) -> RangeGames:
    """Select the games of ``pair_range`` from ``stored_games``.

    They are contiguous there, because ``stored_games`` is sorted by game id.
    """
    ids = compute_game_ids(*pair_range, both_games=True)
    low, high = np.searchsorted(stored_games.game_id, [ids[0], ids[-1] + 1]).tolist()
    return stored_games.select_as_contiguous_arrays(slice(low, high))


def _find_first_differing_ply_per_game(stored_games: RangeGames, played_games: RangeGames) -> NDArray[np.intp]:
    """Find the first ply that differs between the stored and the played version of each game, [G]; -1 if they agree.

    If only the ending differs, the result is the number of plies.

    Raises:
        ValueError: The ids of the stored and the played games are not the same.

    """
    if not np.array_equal(stored_games.game_id, played_games.game_id):
        raise ValueError("stored and played games have different ids")
    stored, played = stored_games.games, played_games.games
    shortest = np.minimum(stored.plies, played.plies)
    differs = (stored.pieces != played.pieces) | (stored.cells != played.cells)  # [16, G]
    differs &= np.arange(len(differs))[:, None] < shortest
    first = np.where(differs.any(axis=0), differs.argmax(axis=0), shortest)
    ends_otherwise = (
        (stored.plies != played.plies) | (stored.winner != played.winner) | (stored.ending != played.ending)
    )
    plies: NDArray[np.intp] = np.where(differs.any(axis=0) | ends_otherwise, first, -1)
    return plies


def _format_game(games: RangeGames, index: int) -> str:
    """Format the plies and the ending of the game with the index ``index``."""
    plies = zip(games.games.pieces[:, index].tolist(), games.games.cells[:, index].tolist(), strict=True)
    text = format_game(islice(plies, int(games.games.plies[index])))
    return f"{text} ({ENDINGS[games.games.ending[index]]})"


# A sample.


def replay_sample(
    archive: ArchiveStore,
    run_id: str,
    engine: BatchEngine,
    line: UnitLine,
    clock: Callable[[], float] = time.perf_counter,
) -> Replay:
    """Play a sample of a run's games again, up to the first game that differs; see ``select_sample_units``.

    The replay ends after ``SAMPLE_SECONDS``, but not before it has played a unit of each pairing. If this takes longer
    than ``MAX_SAMPLE_SECONDS``, because the agents are slow, the replay ends once each agent has played.

    Raises:
        FailureError: A file of the run is damaged.

    """
    units = select_sample_units(archive.list_effective_ranges(run_id), engine.pairings, run_id)
    games_by_file = _read_games_of_files_by_unit(archive, run_id, line, units)
    needed = _count_until_all_agents(units, engine.pairings)
    started, pairings, difference = clock(), set[int](), None
    with silence_forfeit_log():
        for number, unit in enumerate(units):
            seconds, has_each = clock() - started, number >= line.pairings
            if (seconds > SAMPLE_SECONDS and has_each) or (seconds > MAX_SAMPLE_SECONDS and number >= needed):
                return Replay(number * line.games_a_pair, len(pairings))
            pair_range = PairRange(unit % line.pairings, unit // line.pairings, 1)
            pairings.add(pair_range.pairing)
            difference = find_replay_difference(games_by_file[unit], engine, pair_range)
            if difference:
                return Replay((number + 1) * line.games_a_pair, len(pairings), difference)
    return Replay(len(units) * line.games_a_pair, len(pairings))


def select_sample_units(ranges: Ranges, pairings: Sequence[tuple[int, int]], run_id: str) -> list[int]:
    """Select units of a run for a sample, in the order in which to play them; the same files give the same units.

    A round has one unit of each pairing that has stored games. The first round begins at the first stored unit, the
    second round consists of the run's last units, and each further round begins at a unit that is drawn with the run's
    id as seed.

    Args:
        ranges: The ranges of games that readers use.
        pairings: Indices of the two agents of each pairing.
        run_id: Id of the run.

    """
    if not ranges:
        return []
    count, first, end = len(pairings), ranges[0].first, ranges[-1].end
    generator = random.Random(run_id)
    files = [ranges[0], ranges[-1], *generator.choices(ranges, [file.units for file in ranges], k=SAMPLE_FILES - 2)]
    rounds = [first, max(first, end - count)]
    for _ in range(SAMPLE_UNITS // count - len(rounds)):
        file = generator.choice(files)
        rounds.append(file.first + generator.randrange(file.units))
    units = [_put_new_agents_first(_select_one_per_pairing(ranges, count, start), pairings) for start in rounds]
    return list(dict.fromkeys(unit for round_units in units for unit in round_units))


def _select_one_per_pairing(ranges: Ranges, pairing_count: int, start_unit: int) -> list[int]:
    """Select one stored unit of each pairing: the first one from ``start_unit`` on.

    If a pairing has no stored unit from there on, its first stored unit is selected.
    """
    units, number = dict[int, int](), int(np.searchsorted(ranges.ends, start_unit, "right"))
    for index in chain(range(number, len(ranges)), range(number + 1)):
        first_unit = max(start_unit, ranges[index].first) if index >= number else ranges[index].first
        for unit in range(first_unit, min(ranges[index].end, first_unit + pairing_count)):
            units.setdefault(unit % pairing_count, unit)
        if len(units) == pairing_count:
            break
    return [*units.values()]


def _put_new_agents_first(units: Iterable[int], pairings: Sequence[tuple[int, int]]) -> list[int]:
    """Move to the front the units in which an agent occurs for the first time; otherwise, the order stays."""
    agents, first, rest = set[int](), list[int](), list[int]()
    for unit in units:
        pairing = pairings[unit % len(pairings)]
        (rest if agents.issuperset(pairing) else first).append(unit)
        agents.update(pairing)
    return [*first, *rest]


def _count_until_all_agents(units: Sequence[int], pairings: Sequence[tuple[int, int]]) -> int:
    """Return how many units must be taken from the beginning of ``units`` to include all agents that occur in it."""
    agents, needed = set[int](), 0
    for number, unit in enumerate(units):
        pairing = pairings[unit % len(pairings)]
        if not agents.issuperset(pairing):
            agents.update(pairing)
            needed = number + 1
    return needed


def _read_games_of_files_by_unit(
    archive: ArchiveStore, run_id: str, line: UnitLine, units: Sequence[int]
) -> dict[int, RangeGames]:
    """Read the stored games of ``units``, and return games for each unit, keyed by unit.

    Units in the same file share one value, which has the games of all of them. Units that are not stored are left out.
    """
    ranges, by_file = archive.list_effective_ranges(run_id), dict[StoredRange, list[int]]()
    for unit in units:
        stored = ranges.find_range(unit)
        if stored is not None:
            by_file.setdefault(stored, []).append(unit)
    games = dict[int, RangeGames]()
    for stored, file_units in by_file.items():
        games |= dict.fromkeys(file_units, read_games(archive, run_id, stored, _list_game_ids(line, file_units)))
    return games


def _list_game_ids(line: UnitLine, units: Sequence[int]) -> NDArray[np.int64]:
    """Return the ids of all games in ``units``."""
    unit = np.array(units, np.int64)
    first = ((unit % line.pairings) << GAME_BITS) | (2 * (unit // line.pairings))
    return np.concatenate([first + game for game in range(line.games_a_pair)])
