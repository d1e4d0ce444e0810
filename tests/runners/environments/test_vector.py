from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analytics import open_archive
from analytics.store.archive import Archive
from quarto.batch import ENDINGS
from quarto.errors import RequestError
from runners.cli.main import app
from tests.runners.players import Greedy

pytestmark = pytest.mark.extras

GAMES = 24


class SamePly:
    """The first cell and the last piece; notes at which plies it was asked at once."""

    def __init__(self) -> None:
        self.plies: set[tuple[int, ...]] = set()

    def play(self, batch: Any, rng: Any) -> tuple[Any, Any]:
        self.plies.add(tuple(np.unique((~batch.free).sum(axis=1)).tolist()))
        return batch.free.argmax(axis=1), 15 - batch.available[:, ::-1].argmax(axis=1)


def made(count: int = GAMES, **options: Any) -> Any:
    import gymnasium

    from quarto.env import ENV_ID

    return gymnasium.make_vec(ENV_ID, num_envs=count, **options)


def chosen(masks: Any, chance: np.random.Generator, illegal: float = 0.0) -> Any:
    """Random legal actions, sometimes any."""
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
    from tests.runners.environments.one_game import OneGame  # needs Gymnasium

    many, alone = made(**options), [OneGame(**options) for _ in range(GAMES)]
    chance = np.random.default_rng(1)
    observations, infos = many.reset(seed=5)
    starts = [each.reset(seed=5 + i) for i, each in enumerate(alone)]
    assert np.array_equal(observations, [seen for seen, _ in starts])
    assert np.array_equal(infos["action_mask"], [info["action_mask"] for _, info in starts])
    over = np.zeros(GAMES, bool)
    ended = 0
    for _ in range(45):
        actions = chosen(infos["action_mask"], chance, illegal=0.02)
        observations, rewards, terminated, truncated, infos = many.step(actions)
        for i, each in enumerate(alone):
            if over[i]:
                (seen, info), reward, ends = each.reset(), 0.0, [False, False]
            else:
                seen, reward, *ends, info = each.step(int(actions[i]))
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
    """The same games, without the step in which one begins."""
    one, other = made(1, opponent=opponent), made(1, opponent=opponent, autoreset_mode="SameStep")
    seen, infos = one.reset(seed=3)
    assert np.array_equal(other.reset(seed=3)[0], seen)
    ended = 0
    for word in np.random.default_rng(6).integers(1 << 40, size=150).tolist():
        legal = np.flatnonzero(infos["action_mask"][0])
        action = [legal[word % len(legal)]]
        seen, *outcome, infos = one.step(action)
        at_once, *same, known = other.step(action)
        assert [each.tolist() for each in same] == [each.tolist() for each in outcome]
        if infos.get("_ending", [False])[0]:
            assert np.array_equal(known["final_obs"], seen)
            assert known["_final_obs"].tolist() == [True]
            assert known["ending"] == infos["ending"]
            seen, *_, infos = one.step([0])
            ended += 1
        assert np.array_equal(at_once, seen)
        assert np.array_equal(known["action_mask"], infos["action_mask"])
        assert known["seat"] == infos["seat"]
    assert ended > 5


def test_agents_in_python_are_asked_for_games_of_one_ply_at_a_time() -> None:
    opponent = SamePly()
    environment, chance = made(opponent=opponent), np.random.default_rng(2)
    _, infos = environment.reset(seed=1)
    for _ in range(40):
        *_, infos = environment.step(chosen(infos["action_mask"], chance))
    assert all(len(plies) == 1 for plies in opponent.plies)
    assert len(opponent.plies) > 8


def test_its_games_are_imported_into_an_archive(tmp_path: Path) -> None:
    environment, chance = made(record=tmp_path / "games.txt", name="mine"), np.random.default_rng(4)
    _, infos = environment.reset(seed=1)
    rewards, ended = [], 0
    while ended < 100:
        _, reward, terminated, truncated, infos = environment.step(chosen(infos["action_mask"], chance, illegal=0.01))
        rewards += reward[terminated].tolist()
        ended += int((terminated | truncated).sum())
    arguments = ["archive", "import", str(tmp_path / "games.txt"), "--archive", str(tmp_path / "archive")]
    app(arguments, standalone_mode=False)
    archive = Archive.open(tmp_path / "archive")
    (record,) = archive.runs()
    assert {label for pair in record.pairings for label in pair} == {"mine", "random"}
    assert archive.games_held(record.run_id) == ended
    with open_archive(tmp_path / "archive") as opened:
        won, lost = opened.sql(
            "SELECT count(*) FILTER ((winner = 0 AND agent_0 = 'mine') OR (winner = 1 AND agent_1 = 'mine')),"
            " count(*) FILTER ((winner = 1 AND agent_0 = 'mine') OR (winner = 0 AND agent_1 = 'mine')) FROM games"
        ).row(0)
    assert (won, lost) == (rewards.count(1.0), rewards.count(-1.0))


def test_wrong_requests_are_refused_in_a_line() -> None:
    with pytest.raises(RequestError, match="num_envs=0 is not a number of games"):
        made(0)
    with pytest.raises(RequestError, match=r"render_mode 'human' does not exist; .*valid: ansi, rgb_array"):
        made(render_mode="human")
    with pytest.raises(RequestError, match=r"autoreset_mode=Disabled is not offered; .*valid: NextStep, SameStep"):
        made(autoreset_mode="Disabled")
    with pytest.raises(RequestError, match="opening_plies=16 is not a number of plies from 0 to 15"):
        made(opening_plies=16)
    environment = made(3)
    environment.reset()
    with pytest.raises(ValueError, match=r"actions have shape \(2,\), not \(3,\)"):
        environment.step([1, 2])
