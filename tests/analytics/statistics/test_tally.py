import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.statistics.tally import Tally, tally
from quarto.batch import Block
from tests.analytics.naive_games import Game, block_of, random_block, single_games

COUNT = st.integers(0, 10**6)
ROW = st.tuples(COUNT, COUNT, COUNT)
TALLIES = st.builds(
    Tally, st.tuples(ROW, ROW, ROW), st.tuples(ROW, ROW), st.tuples(COUNT, COUNT), st.tuples(COUNT, COUNT), COUNT
)


def naive_tally(block: Block) -> Tally:
    """The tally, counted game by game."""
    pairs = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
    singles = [0, 0, 0]
    forfeits = {2: [0, 0], 3: [0, 0]}
    for pair in range(block.pairs):
        results = []
        for game in (0, 1) if block.swapped else (0,):
            i = 2 * pair + game if block.swapped else pair
            seat_of_first = game
            winner = int(block.games.winner[i])
            results.append(1 if winner == -1 else 2 if winner == seat_of_first else 0)
            if block.games.ending[i] in forfeits:
                loser = "first" if winner != seat_of_first else "second"
                forfeits[int(block.games.ending[i])][("first", "second").index(loser)] += 1
        if block.swapped:
            pairs[results[0]][results[1]] += 1
        else:
            singles[results[0]] += 1
    rows, alone = tuple(tuple(row) for row in pairs), (tuple(singles), (0, 0, 0))
    plies = int(block.games.plies.sum())
    return Tally(rows, alone, tuple(forfeits[2]), tuple(forfeits[3]), plies)  # type: ignore[arg-type]


@given(seed=st.integers(0, 10**6), pairs=st.integers(1, 20))
def test_the_tally_is_that_of_counting_game_by_game(seed: int, pairs: int) -> None:
    block = random_block(seed, pairs=pairs, forfeits=0.4)
    assert tally([block]) == {0: naive_tally(block)}
    alone = single_games(seed, pairs=pairs)
    assert tally([alone]) == {0: naive_tally(alone)}
    assert (tally([alone])[0].games, tally([alone])[0].pair_count) == (pairs, pairs)


def test_blocks_of_a_pairing_add_up() -> None:
    blocks = [random_block(1, 0, 0), random_block(1, 2, 0), random_block(1, 0, 8)]
    assert tally(blocks) == {0: naive_tally(blocks[0]) + naive_tally(blocks[2]), 2: naive_tally(blocks[1])}


def test_seats_and_sums_by_hand() -> None:
    won, lost, drawn = (Game(plies=[], winner=winner, ending=0) for winner in (0, 1, -1))
    # The first agent holds seat 0 in the games at even places, seat 1 in the others.
    counts = tally([block_of([won, lost, won, won, drawn, drawn, won, drawn])])[0]
    assert (counts.losses, counts.draws, counts.wins) == (1, 3, 4)
    assert counts.results(0) == (0, 1, 3)
    assert counts.results(1) == (1, 2, 1)
    assert counts.pentanomial == (0, 0, 2, 1, 1)
    assert counts.games == 8


@given(a=TALLIES, b=TALLIES)
def test_sums_and_views_agree(a: Tally, b: Tally) -> None:
    total = a + b
    assert total.games == a.games + b.games == sum(total.trinomial)
    assert sum(total.pentanomial) == total.pair_count - sum(map(sum, total.singles))
    assert total.swapped == a.swapped + b.swapped
    assert total.swapped.swapped == total
    assert total.swapped.trinomial == total.trinomial[::-1]
    assert total.swapped.pentanomial == total.pentanomial[::-1]
    assert total.swapped.results(0) == total.results(1)[::-1]


@given(counts=TALLIES)
def test_a_tally_survives_json(counts: Tally) -> None:
    assert msgspec.json.decode(msgspec.json.encode(counts), type=Tally) == counts


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": [[0] * 3] * 2},
        {"pairs": [[0] * 2] * 3},
        {"singles": [[0] * 3]},
        {"singles": [[0, 0, -1]] * 2},
        {"illegal": [1]},
        {"errors": [0, -1]},
        {"plies": -1},
        {"plies": None},
    ],
    ids=str,
)
def test_what_is_not_a_tally_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.structs.asdict(Tally()) | change, Tally)
