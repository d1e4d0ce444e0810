"""The adapter for Stable-Baselines3, whose library has an environment of its own: `make test-sb3`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quarto.errors import MissingExtraError
from tests.paths import ROOT

pytestmark = pytest.mark.extras

INSTALLED = importlib.util.find_spec("stable_baselines3") is not None
needs_library = pytest.mark.skipif(not INSTALLED, reason="the library is not installed: make test-sb3")
PROGRAMS: list[str] = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/rl.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(INSTALLED, reason="the library is installed")
def test_a_missing_library_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"needs stable_baselines3: install its extra: .*'\.\[sb3\]'"):
        importlib.import_module("runners.learning.environments.stable_baselines")


def make(count: int, **keys: Any) -> Any:
    from runners.learning.environments.stable_baselines import QuartoVecEnv

    return QuartoVecEnv(count, **keys)


@needs_library
@pytest.mark.parametrize("opponent", ["random", None], ids=str)
def test_its_games_are_those_of_gymnasiums_environments_in_a_dummy_vec_env(opponent: str | None) -> None:
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv

    from quarto.env import ENV_ID

    many = make(8, opponent=opponent)
    alone = DummyVecEnv([lambda: gymnasium.make(ENV_ID, opponent=opponent)] * 8)
    many.seed(4)
    alone.seed(4)
    chance, ended = np.random.default_rng(1), 0
    assert np.array_equal(many.reset(), alone.reset())
    for _ in range(80):
        masks = np.stack(many.env_method("action_masks"))
        assert np.array_equal(masks, np.stack(alone.env_method("action_masks")))
        actions = (chance.random(masks.shape) * masks).argmax(axis=1)
        *values, infos = many.step(actions)
        *expected, expected_infos = alone.step(actions)
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(values, expected, strict=True))
        for info, expected_info, over in zip(infos, expected_infos, values[2], strict=True):
            assert ("terminal_observation" in info) == over
            if over:
                assert np.array_equal(info["terminal_observation"], expected_info["terminal_observation"])
                assert info["TimeLimit.truncated"] == expected_info["TimeLimit.truncated"]
                ended += 1
    assert ended > 20


@needs_library
def test_the_program_of_the_page_learns_from_legal_actions_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = (text for text in PROGRAMS if "MaskablePPO(" in text)
    assert "5_000_000" in program
    (tmp_path / "program.py").write_text(program.replace("5_000_000", "40_000"))
    import runpy

    runpy.run_path(str(tmp_path / "program.py"))
    games = (tmp_path / "ppo_games.txt").read_text().splitlines()
    assert len(games) > 500
    assert not [game for game in games if "forfeit" in game]


@needs_library
def test_the_library_accepts_whole_turns_and_both_seats() -> None:
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.utils import is_masking_supported

    environment = make(16, opponent=None, turns=True)
    assert is_masking_supported(environment)
    assert environment.env_is_wrapped(object) == [False] * 16
    MaskablePPO("MlpPolicy", environment, n_steps=8, batch_size=32, seed=1).learn(256)
    with pytest.raises(AttributeError, match="share all keys"):
        environment.set_attr("seat", 1)
    with pytest.raises(AttributeError, match="no method 'reset' of single games"):
        environment.env_method("reset")
