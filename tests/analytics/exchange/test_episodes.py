from __future__ import annotations

import random

import numpy as np
import pytest

from analytics.exchange.episodes import PERSPECTIVES, EpisodeOptions, Episodes, build_episodes
from quarto.batch import FORFEIT_ILLEGAL
from quarto.rules import Rules
from tests import naive
from tests.analytics.exchange.naive_turns import Episode, Step, naive_episode
from tests.analytics.naive_games import Game, pack_games, random_game

SOME_RULES = ("classic", "torus_square", "own_piece")


def random_games(rules: Rules, count: int = 60) -> list[tuple[Game, int]]:
    """Draw games and how many of their plies were imposed; among them every length that a forfeit can leave."""
    dice = random.Random(f"turns {rules.name}")
    games = [random_game(dice, rules, forfeits=0.4) for _ in range(count)]
    return [(game, dice.choice((0, 0, 1, 2, 5, len(game["plies"])))) for game in games] + [
        ({"plies": game["plies"][:plies], "winner": plies % 2, "ending": FORFEIT_ILLEGAL}, imposed)
        for game in games[:4]
        for plies in range(min(4, len(game["plies"])))
        for imposed in range(plies + 1)
    ]


def episodes(games: list[tuple[Game, int]], rules: Rules, perspective: str, imposed: bool = False) -> Episodes:
    opening = np.array([min(imposed, len(game["plies"])) for game, imposed in games], np.int8)
    played = pack_games([game for game, _ in games]).games
    options = EpisodeOptions(PERSPECTIVES[perspective], imposed, 1, rules.mover_chooses)
    return build_episodes(opening, played, options, rules.tables)


def unpacked(packed: Episodes) -> dict[int, Episode]:
    """Unpack the arrays as the twin has them, by game."""
    result, row, step = {}, 0, 0
    for game, steps, terminated in zip(*(column.tolist() for column in packed[:3]), strict=True):
        steps_found = []
        for i in range(steps + 1):
            action = int(packed.actions[step + i]) if i < steps else None
            flag = bool(packed.imposed[step + i]) if i < steps else False
            mask = set(np.flatnonzero(packed.masks[row + i]).tolist())
            steps_found.append(Step(packed.observations[row + i].tolist(), action, flag, mask))
        result[game] = Episode(steps_found, packed.rewards[step : step + steps].astype(int).tolist(), terminated)
        row, step = row + steps + 1, step + steps
    assert (row, step) == (len(packed.observations), len(packed.actions))
    return result


@pytest.mark.parametrize("imposed", [False, True])
@pytest.mark.parametrize("perspective", PERSPECTIVES)
@pytest.mark.parametrize("name", SOME_RULES)
def test_episodes_equal_the_naive_twin(name: str, perspective: str, imposed: bool) -> None:
    rules = naive.PRESETS[name]
    games = random_games(rules)
    expected = {}
    for number, (game, opening) in enumerate(games):
        slow_episode = naive_episode(game, min(opening, len(game["plies"])), rules, perspective, imposed)
        if slow_episode is not None:
            final = slow_episode.steps[-1]._replace(action=None, imposed=False)
            expected[number] = slow_episode._replace(steps=[*slow_episode.steps[:-1], final])
    unpacked_episodes = unpacked(episodes(games, rules, perspective, imposed))
    assert unpacked_episodes == expected
    assert len({episode.terminated for episode in unpacked_episodes.values()}) == 2
    assert {reward for episode in unpacked_episodes.values() for reward in episode.rewards} >= {0, 1}
