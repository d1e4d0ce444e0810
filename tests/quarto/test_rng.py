from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quarto.jit import uint64
from quarto.rng import (
    OPENING_STREAM,
    Streams,
    TurnGenerator,
    draw,
    integer_below,
    second_integer_below,
    stream,
    turn_seed_offset,
    turn_seed_offset_in_python,
    unit_float,
)
from tests import naive

words = st.integers(0, (1 << 64) - 1)
turns = st.integers(0, 16)

# The first outputs of SplitMix64 seeded with 1234567, as published with its reference implementations
# (rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64).
SPLITMIX64 = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)


def test_draws_are_the_published_outputs_of_splitmix64() -> None:
    assert tuple(int(draw(uint64(1234567), index)) for index in range(1, 6)) == SPLITMIX64
    assert tuple(naive.draw(1234567, index) for index in range(1, 6)) == SPLITMIX64


@given(words, st.integers(0, (1 << 62) - 1), st.sampled_from([0, 1, OPENING_STREAM]))
def test_stream_equals_the_naive_twin(seed: int, pair: int, game: int) -> None:
    assert int(stream(uint64(seed), pair, game)) == naive.stream(seed, pair, game)


@given(words, turns, st.integers(0, (1 << 40) - 1))
def test_draws_of_a_turn_equal_the_naive_twin(word: int, turn: int, index: int) -> None:
    seed = naive.turn_seed(word, turn)
    assert (word + int(turn_seed_offset(turn))) % (1 << 64) == seed
    assert turn_seed_offset_in_python(turn) == turn_seed_offset(turn)
    assert int(draw(uint64(seed), index)) == naive.draw(seed, index)


@given(words, st.integers(1, 16))
def test_choices_equal_the_naive_twin_and_are_in_range(word: int, count: int) -> None:
    assert 0 <= integer_below(uint64(word), count) == naive.below(word, count) < count
    assert 0 <= second_integer_below(uint64(word), count) == naive.below_again(word, count) < count


@given(words)
def test_unit_is_below_one_and_keeps_53_bits(word: int) -> None:
    assert unit_float(uint64(word)) == (word >> 11) / (1 << 53)
    assert 0 <= unit_float(uint64((1 << 64) - 1)) < 1


def test_choices_are_uniform_and_the_two_of_one_word_independent() -> None:
    streams = Streams(np.array([naive.stream(1, pair, 0) for pair in range(20_000)], np.uint64))
    drawn = streams.draw(0)
    first = streams.integers(0, 4)
    second = np.array([second_integer_below(word, 4) for word in drawn])
    counts = np.bincount(4 * first + second, minlength=16)
    expected = len(drawn) / 16
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 37.7  # the 0.1 % point at 15 degrees of freedom; the draw is fixed, so this never varies


def test_streams_of_a_batch_equal_those_of_its_games() -> None:
    seeds = [naive.stream(5, pair, 1) for pair in range(50)]
    streams = Streams(np.array(seeds, np.uint64))
    assert streams.draw(3).tolist() == [naive.draw(seed, 3) for seed in seeds]
    assert streams.integers(3, 7).tolist() == [naive.below(naive.draw(seed, 3), 7) for seed in seeds]
    counts = np.arange(1, 51)
    integers = [naive.below(naive.draw(seed, 2), int(count)) for seed, count in zip(seeds, counts, strict=True)]
    assert streams.integers(2, counts).tolist() == integers


def test_a_generator_depends_on_its_own_game_only() -> None:
    many = Streams(np.array([11, 22, 33], np.uint64))
    alone = Streams(np.array([22], np.uint64))
    assert many.generator(1).random(5).tolist() == alone.generator(0).random(5).tolist()
    assert many.generator(1).random(5).tolist() != many.generator(2).random(5).tolist()


def test_the_numbers_of_a_turn_depend_on_its_seed_alone() -> None:
    generator, key = TurnGenerator(), (1 << 64) - 2
    draws: list[Callable[[np.random.Generator], Any]] = [
        lambda rng: rng.integers(5, dtype=np.uint32),
        lambda rng: rng.random(3),
        lambda rng: rng.spawn(2),
    ]
    for early in draws:
        early(generator.begin_turn(7))  # leaves half a word, some of a block, and two children behind
        turn, fresh = generator.begin_turn(key), np.random.Generator(np.random.Philox(key=key))
        assert turn.integers(9, size=50).tolist() == fresh.integers(9, size=50).tolist()
        assert turn.normal() == fresh.normal()


def test_generators_that_a_turn_spawns_depend_on_its_seed_alone() -> None:
    generator = TurnGenerator()
    (first,) = generator.begin_turn(7).spawn(1)
    (other,) = generator.begin_turn(8).spawn(1)
    again = copy.deepcopy(generator).begin_turn(7).spawn(2)
    assert first.random(3).tolist() == again[0].random(3).tolist()
    assert len({rng.random() for rng in (*again, other)}) == 3
