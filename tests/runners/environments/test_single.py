from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quarto.errors import RequestError
from quarto.notation import parse_game

pytestmark = pytest.mark.extras


def made(turns: bool = False, **options: Any) -> Any:
    import gymnasium

    from quarto.env import ENV_ID, TURNS_ID

    return gymnasium.make(TURNS_ID if turns else ENV_ID, **options)


def played(environment: Any, seed: int | None, chance: np.random.Generator) -> tuple[float, dict[str, Any], int]:
    """Reward, infos and steps of a game of random legal actions."""
    _, info = environment.reset(seed=seed)
    steps = 0
    while True:
        steps += 1
        _, reward, terminated, truncated, info = environment.step(chance.choice(np.flatnonzero(info["action_mask"])))
        if terminated or truncated:
            return reward, info, steps


@pytest.mark.parametrize(
    "options",
    [{}, {"rules": "own_piece"}, {"opponent": "rule_based", "seat": 1}, {"turns": True, "opening_plies": 2}],
    ids=str,
)
def test_gymnasium_accepts_it(options: dict[str, Any]) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(made(**options).unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    "options",
    [
        {"opponent": "rule_based", "seat": 1},
        {"opponent": None},
        {"opponent": "random"},
        {"opponent": "random", "turns": True, "opening_plies": 2},
    ],
    ids=str,
)
def test_it_is_the_game_that_is_played_by_itself(options: dict[str, Any]) -> None:
    from tests.runners.environments.one_game import OneGame  # needs Gymnasium

    one, other, chance = made(**options), OneGame(**options), np.random.default_rng(8)
    for seed in (3, None, 4, None, None):
        (seen, info), (expected, known) = one.reset(seed=seed), other.reset(seed)
        outcome: list[Any] = [0.0, False, False]
        same = [0.0, False, False]
        while True:
            assert np.array_equal(seen, expected)
            assert outcome == same
            assert info.pop("action_mask").tolist() == known.pop("action_mask").astype(int).tolist()
            assert info == known
            if any(outcome[1:]):
                break
            legal = one.get_wrapper_attr("action_masks")()
            action = int(chance.integers(16)) if chance.random() < 0.03 else int(chance.choice(np.flatnonzero(legal)))
            (seen, *outcome, info), (expected, *same, known) = one.step(action), other.step(action)


def test_rewards_and_infos_agree_with_the_game() -> None:
    environment, chance = made(), np.random.default_rng(1)
    rewards = []
    for seed in range(60):
        reward, info, _ = played(environment, seed, chance)
        plies = parse_game(info["game"])
        assert info["ending"] == "line" or (len(plies) == 16 and reward == 0)
        if info["ending"] == "line":
            assert reward == (1 if len(plies) & 1 == info["seat"] else -1)
        assert info["action_mask"].all()
        rewards.append(reward)
    assert {1.0, -1.0} <= set(rewards)


def test_a_seed_repeats_the_game_and_no_seed_goes_on_to_the_next() -> None:
    def games(environment: Any, seeds: list[int | None]) -> list[str]:
        chance = np.random.default_rng(2)
        return [played(environment, seed, chance)[1]["game"] for seed in seeds]

    first = games(made(), [7, None, None])
    assert games(made(), [7, None, None]) == first
    assert len(set(first)) == 3


def test_the_seat_is_as_wished_or_random() -> None:
    for seat in (0, 1):
        assert {made(seat=seat).reset(seed=seed)[1]["seat"] for seed in range(8)} == {seat}
    either = made()
    assert {either.reset(seed=seed)[1]["seat"] for seed in range(20)} == {0, 1}
    observation, _ = made(seat=1).reset(seed=1)
    assert observation[16].any()  # the opponent gave a piece
    assert not made(seat=0).reset(seed=1)[0].any()


class Resigns:
    """Raises at its second turn."""

    def choose(self, position: Any, rng: Any) -> tuple[int, int]:
        if position.last_cell >= 0:
            raise RuntimeError("no more")
        return 0, 15


class Illegal:
    """Places on an occupied cell."""

    def choose(self, position: Any, rng: Any) -> tuple[int, int]:
        return 0, min(position.available)


@pytest.mark.parametrize(("opponent", "ending"), [(Resigns(), "forfeit_error"), (Illegal(), "forfeit_illegal")])
def test_a_forfeit_of_the_opponent_truncates_with_reward_0(
    opponent: Any, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    environment, chance = made(opponent=opponent, seat=0), np.random.default_rng(4)
    with caplog.at_level(logging.CRITICAL):
        _, info = environment.reset(seed=1)
        for _ in range(40):
            action = int(chance.choice(np.flatnonzero(info["action_mask"])))
            _, reward, terminated, truncated, info = environment.step(action)
            if terminated or truncated:
                break
    assert (reward, terminated, truncated, info["ending"]) == (0.0, False, True, ending)


def test_any_agent_of_the_project_plays_with_its_parameters(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    for label in ("mcts(iterations=5)", "rule_based(faithful=true)", "dumb"):
        environment = made(opponent=label, record=tmp_path / "games.txt", seat=0)
        played(environment, 1, chance)
        written = (tmp_path / "games.txt").read_text().splitlines()[-1]
        assert written.startswith(f"[agent_0=learner] [agent_1={label}] [result=")
    own = tmp_path / "conf" / "agent"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text("_target_: agents.random.Random\n")
    played(made(opponent="mine", config_dir=tmp_path / "conf"), 1, chance)


def test_wrong_requests_are_refused_in_a_line() -> None:
    for options, message in (
        ({"opponent": "randm"}, r"agent 'randm' does not exist; did you mean 'random'"),
        ({"opponent": "mcts(iteration=5)"}, r"agent 'mcts' has no parameter 'iteration'; did you mean 'iterations'"),
        ({"opponent": "rule_based", "rules": "own_piece"}, r"agent 'rule_based' does not play rules 'own_piece'"),
        ({"opponent": object()}, r"agent 'object' .* neither play\(batch, rng\) nor choose"),
    ):
        with pytest.raises(RequestError, match=message):
            made(**options)
    with pytest.raises(RequestError, match="the mover chooses the piece"):
        made(turns=True, rules="own_piece")
    with pytest.raises(ValueError, match="seat=2 is not 0"):
        made(seat=2)
