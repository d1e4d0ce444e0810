"""Environments of one game and of many: each game is the one that is played by itself, decision by decision."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from quarto.batch import ENDINGS
from quarto.errors import RequestError
from quarto.notation import parse_game
from runners.cli.main import app
from tests.runners.players import Greedy

pytestmark = pytest.mark.extras


def make(turns: bool = False, **options: Any) -> Any:
    import gymnasium

    from quarto.env import ENV_ID, TURNS_ID

    return gymnasium.make(TURNS_ID if turns else ENV_ID, **options)


def play_randomly(environment: Any, seed: int | None, chance: np.random.Generator) -> tuple[float, dict[str, Any], int]:
    """Play a game of random legal actions; return its last reward and info, and the number of steps."""
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

    check_env(make(**options).unwrapped, skip_render_check=True)


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
    from tests.runners.learning.environments.one_game import OneGame  # needs Gymnasium

    one, other, chance = make(**options), OneGame(**options), np.random.default_rng(8)
    for seed in (3, None, 4, None, None):
        (seen, info), (expected, expected_info) = one.reset(seed=seed), other.reset(seed)
        outcome: list[Any] = [0.0, False, False]
        same = [0.0, False, False]
        while True:
            assert np.array_equal(seen, expected)
            assert outcome == same
            assert info.pop("action_mask").tolist() == expected_info.pop("action_mask").astype(int).tolist()
            assert info == expected_info
            if any(outcome[1:]):
                break
            legal = one.get_wrapper_attr("action_masks")()
            action = int(chance.integers(16)) if chance.random() < 0.03 else int(chance.choice(np.flatnonzero(legal)))
            (seen, *outcome, info), (expected, *same, expected_info) = one.step(action), other.step(action)


def test_rewards_and_infos_agree_with_the_game() -> None:
    environment, chance = make(), np.random.default_rng(1)
    rewards = []
    for seed in range(60):
        reward, info, _ = play_randomly(environment, seed, chance)
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
        return [play_randomly(environment, seed, chance)[1]["game"] for seed in seeds]

    first = games(make(), [7, None, None])
    assert games(make(), [7, None, None]) == first
    assert len(set(first)) == 3


class Resigns:
    """An agent that raises at its second turn."""

    def choose(self, position: Any, rng: Any) -> tuple[int, int]:
        if position.last_cell >= 0:
            raise RuntimeError("no more")
        return 0, 15


class Illegal:
    """An agent that places on an occupied cell."""

    def choose(self, position: Any, rng: Any) -> tuple[int, int]:
        return 0, min(position.available)


@pytest.mark.parametrize(("opponent", "ending"), [(Resigns(), "forfeit_error"), (Illegal(), "forfeit_illegal")])
def test_a_forfeit_of_the_opponent_truncates_with_reward_0(
    opponent: Any, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    environment, chance = make(opponent=opponent, seat=0), np.random.default_rng(4)
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
        environment = make(opponent=label, record=tmp_path / "games.txt", seat=0)
        play_randomly(environment, 1, chance)
        written = (tmp_path / "games.txt").read_text().splitlines()[-1]
        assert written.startswith(f"[agent_0=learner] [agent_1={label}] [result=")
    agent_folder = tmp_path / "conf" / "agent"
    agent_folder.mkdir(parents=True)
    (agent_folder / "mine.yaml").write_text("_target_: agents.random.Random\n")
    play_randomly(make(opponent="mine", config_dir=tmp_path / "conf"), 1, chance)


def test_wrong_requests_are_refused_in_a_line() -> None:
    for options, message in (
        ({"opponent": "randm"}, r"agent 'randm' does not exist; did you mean 'random'"),
        ({"opponent": "mcts(iteration=5)"}, r"agent 'mcts' has no parameter 'iteration'; did you mean 'iterations'"),
        ({"opponent": "rule_based", "rules": "own_piece"}, r"agent 'rule_based' does not play rules 'own_piece'"),
        ({"opponent": object()}, r"agent 'object' .* neither play\(batch, rng\) nor choose"),
    ):
        with pytest.raises(RequestError, match=message):
            make(**options)
    with pytest.raises(RequestError, match="the mover chooses the piece"):
        make(turns=True, rules="own_piece")
    with pytest.raises(ValueError, match="seat=2 is not 0"):
        make(seat=2)


GAMES = 24


class SamePly:
    """The first cell and the last piece; notes at which plies it was asked at once."""

    def __init__(self) -> None:
        self.plies: set[tuple[int, ...]] = set()

    def play(self, batch: Any, rng: Any) -> tuple[Any, Any]:
        self.plies.add(tuple(np.unique((~batch.free).sum(axis=1)).tolist()))
        return batch.free.argmax(axis=1), 15 - batch.available[:, ::-1].argmax(axis=1)


def make_many(count: int = GAMES, **options: Any) -> Any:
    import gymnasium

    from quarto.env import ENV_ID

    return gymnasium.make_vec(ENV_ID, num_envs=count, **options)


def choose_actions(masks: Any, chance: np.random.Generator, illegal: float = 0.0) -> Any:
    """Choose random legal actions or, with probability ``illegal``, any actions."""
    legal = (chance.random(masks.shape) * masks).argmax(axis=1)
    return np.where(chance.random(len(masks)) < illegal, chance.integers(16, size=len(masks)), legal)


@pytest.mark.parametrize(
    "options",
    [
        {"opponent": "random"},
        {"opponent": "random", "rules": "own_piece"},
        {"opponent": "random", "rules": "torus_square", "seat": 1},
        {"opponent": "rule_based(faithful=true)"},  # remembers the game
        {"opponent": "mcts(iterations=4,reuse=true)"},  # keeps its tree
        {"opponent": "polito"},  # in a process of its own, with a live game in each slot
        {"opponent": Greedy()},  # always illegal after a while
        {"opponent": SamePly(), "seat": 0},  # in Python, answers to batches
        {"opponent": None},  # the learner plays both seats
        {"opponent": None, "rules": "own_piece", "opening_plies": 3},
        {"opponent": "random", "turns": True, "opening_plies": 2},
        {"opponent": None, "turns": True, "rules": "square"},
    ],
    ids=lambda options: ",".join(str(value) if isinstance(value, str | int) else "own" for value in options.values()),
)
def test_each_game_is_the_one_that_is_played_by_itself(options: dict[str, Any]) -> None:
    from tests.runners.learning.environments.one_game import OneGame  # needs Gymnasium

    many, alone = make_many(**options), [OneGame(**options) for _ in range(GAMES)]
    chance = np.random.default_rng(1)
    observations, infos = many.reset(seed=5)
    starts = [game.reset(seed=5 + i) for i, game in enumerate(alone)]
    assert np.array_equal(observations, [seen for seen, _ in starts])
    assert np.array_equal(infos["action_mask"], [info["action_mask"] for _, info in starts])
    over = np.zeros(GAMES, bool)
    ended = 0
    for _ in range(45):
        actions = choose_actions(infos["action_mask"], chance, illegal=0.02)
        observations, rewards, terminated, truncated, infos = many.step(actions)
        for i, game in enumerate(alone):
            if over[i]:
                (seen, info), reward, ends = game.reset(), 0.0, [False, False]
            else:
                seen, reward, *ends, info = game.step(int(actions[i]))
            assert np.array_equal(observations[i], seen)
            assert (rewards[i], terminated[i], truncated[i]) == (reward, *ends)
            assert np.array_equal(infos["action_mask"][i], info["action_mask"])
            assert infos["seat"][i] == info["seat"]
            over[i] = any(ends)
            if over[i]:
                assert ENDINGS[infos["ending"][i]] == info["ending"]
                ended += 1
    assert ended > GAMES


@pytest.mark.parametrize("opponent", ["random", "mcts(iterations=4,reuse=true)", "polito", None], ids=str)
def test_a_game_that_begins_at_once_is_the_one_that_would_begin_next(opponent: str | None) -> None:
    """Compare the same games, without the steps in which games begin."""
    one, other = make_many(1, opponent=opponent), make_many(1, opponent=opponent, autoreset_mode="SameStep")
    seen, infos = one.reset(seed=3)
    assert np.array_equal(other.reset(seed=3)[0], seen)
    ended = 0
    for word in np.random.default_rng(6).integers(1 << 40, size=150).tolist():
        legal = np.flatnonzero(infos["action_mask"][0])
        action = [legal[word % len(legal)]]
        seen, *outcome, infos = one.step(action)
        at_once, *same, same_infos = other.step(action)
        assert [values.tolist() for values in same] == [values.tolist() for values in outcome]
        if infos.get("_ending", [False])[0]:
            assert np.array_equal(same_infos["final_obs"], seen)
            assert same_infos["_final_obs"].tolist() == [True]
            assert same_infos["ending"] == infos["ending"]
            seen, *_, infos = one.step([0])
            ended += 1
        assert np.array_equal(at_once, seen)
        assert np.array_equal(same_infos["action_mask"], infos["action_mask"])
        assert same_infos["seat"] == infos["seat"]
    assert ended > 5


def test_agents_in_python_are_asked_for_games_of_one_ply_at_a_time() -> None:
    opponent = SamePly()
    environment, chance = make_many(opponent=opponent), np.random.default_rng(2)
    _, infos = environment.reset(seed=1)
    for _ in range(40):
        *_, infos = environment.step(choose_actions(infos["action_mask"], chance))
    assert all(len(plies) == 1 for plies in opponent.plies)
    assert len(opponent.plies) > 8


def test_its_games_are_imported_into_an_archive(tmp_path: Path) -> None:
    environment, chance = make_many(record=tmp_path / "games.txt", name="mine"), np.random.default_rng(4)
    _, infos = environment.reset(seed=1)
    rewards, ended = [], 0
    while ended < 100:
        _, reward, terminated, truncated, infos = environment.step(
            choose_actions(infos["action_mask"], chance, illegal=0.01)
        )
        rewards += reward[terminated].tolist()
        ended += int((terminated | truncated).sum())
    arguments = ["archive", "import", str(tmp_path / "games.txt"), "--archive", str(tmp_path / "archive")]
    app(arguments, standalone_mode=False)
    archive = ArchiveStore.open(tmp_path / "archive")
    (record,) = archive.load_runs()
    assert {label for pair in record.pairings for label in pair} == {"mine", "random"}
    assert archive.count_games(record.run_id) == ended
    with open_archive(tmp_path / "archive") as opened:
        won, lost = opened.sql(
            "SELECT count(*) FILTER ((winner = 0 AND agent_0 = 'mine') OR (winner = 1 AND agent_1 = 'mine')),"
            " count(*) FILTER ((winner = 1 AND agent_0 = 'mine') OR (winner = 0 AND agent_1 = 'mine')) FROM games"
        ).row(0)
    assert (won, lost) == (rewards.count(1.0), rewards.count(-1.0))


def test_wrong_requests_for_many_games_are_refused_in_a_line() -> None:
    with pytest.raises(RequestError, match="num_envs=0 is not a number of games"):
        make_many(0)
    with pytest.raises(RequestError, match=r"render_mode 'human' does not exist; .*valid: ansi, rgb_array"):
        make_many(render_mode="human")
    with pytest.raises(RequestError, match=r"autoreset_mode=Disabled is not offered; .*valid: NextStep, SameStep"):
        make_many(autoreset_mode="Disabled")
    with pytest.raises(RequestError, match="opening_plies=16 is not a number of plies from 0 to 15"):
        make_many(opening_plies=16)
    environment = make_many(3)
    environment.reset()
    with pytest.raises(ValueError, match=r"actions have shape \(2,\), not \(3,\)"):
        environment.step([1, 2])


def test_a_batch_of_games_has_the_steps_of_one_game_unless_others_are_asked_for() -> None:
    from runners.learning.environments.vector import QuartoVectorEnv

    cases: list[dict[str, Any]] = [{}, {"turns": True}]
    for keys in cases:
        one, batch = make(**keys), QuartoVectorEnv(2, **keys)
        assert batch.single_action_space == one.action_space
        assert batch.single_observation_space == one.observation_space
