"""Learning and judging: ``train``, ``build_policy``, ``rebuild_policy``, ``judge``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from analytics.store.files.backend import DEFAULT_ARCHIVE, parse_location
from runners.library.calls import Setting, build_call, format_setting, take_turn

if TYPE_CHECKING:
    from analytics.report.result import Result
    from analytics.store.policy_cards import PolicyCard


def train(
    *,
    archive: str | PurePath | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Learn from games and store a policy, as ``qarena train`` does, and return its learning curve.

    ``title`` names the policy, by which agents play: ``run("policy(policy=NAME)", "random")``. Arguments are those of
    ``run``: ``train(trainer="q_placement", overrides=["trainer.games=20_000"])``. Raises ``KeyboardInterrupt`` after
    Ctrl-C; the same call goes on where that is possible.
    """
    from runners.config.schemas import TrainConfig
    from runners.hosting.interruption import stop_on_signal
    from runners.learning.training.request import (
        check_training_and_create_archive,
        save_policy,
        training_request_from_config,
    )
    from runners.terminal.console import show_progress_bar

    call = build_call("train", [*map(format_setting, settings.items()), *overrides], archive, config_dir)
    with call.compose(TrainConfig) as cfg:
        request = training_request_from_config(cfg, cfg.hydra.runtime.choices, call.command)
        check_training_and_create_archive(request)
        with stop_on_signal() as stop, show_progress_bar("training", "games", request.progress) as progress:
            trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        if trained.policy is None:
            raise KeyboardInterrupt("the training is not complete: the same call goes on where that is possible")
        card = save_policy(request, trained, trained.policy)
        root = parse_location(cfg.archive.root)
    return _build_policy_result(root, card, request.notes)


def build_policy(
    kind: str,
    *,
    archive: str | PurePath | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Derive a policy from logged games and store it, as ``qarena policy build`` does; return its row in ``policies``.

    ``kind`` is one of ``conf/kind``, such as ``"gift"``; other arguments are those of ``run``:
    ``build_policy("gift", name="gifts", where="winner >= 0")``. ``title`` names the policy.
    """
    from runners.config.schemas import PolicyBuildConfig
    from runners.learning.policies.application import build_request_from_config
    from runners.learning.training import policy_build

    words = [f"kind={kind}", *map(format_setting, settings.items()), *overrides]
    call = build_call("policy build", words, archive, config_dir)
    with call.compose(PolicyBuildConfig) as cfg:
        request = build_request_from_config(cfg, cfg.hydra.runtime.choices, call.command)
        card = policy_build.build_policy(request, policy_build.select_build_games(request))
    return _build_policy_result(request.root, card, request.notes)


def rebuild_policy(policy: str, archive: str | PurePath = DEFAULT_ARCHIVE, *, threads: int | None = None) -> Result:
    """Learn a policy again from the same games, as ``qarena policy rebuild`` does; return what differs, a row each.

    A result without rows says that the policy is identical to the last bit.
    """
    import polars as pl

    from analytics.report.answers import build_list_result
    from runners.learning.policies import rebuilding

    with take_turn():
        rebuilt = rebuilding.rebuild_policy(parse_location(archive), policy, threads)
    frame = pl.DataFrame({"difference": [*rebuilt.differences]}, schema={"difference": pl.String})
    result = build_list_result(f"Policy {rebuilt.card.name} learned again", frame)
    note = result.note if rebuilt.differences else f"identical: {rebuilt.size} of policy {rebuilt.card.policy_id}"
    return replace(result, note=note)


def judge(
    *agents: str,
    archive: str | PurePath = DEFAULT_ARCHIVE,
    rules: str | None = None,
    draws: int = 4,
    games: int = 200,
    seed: int = 1,
    threads: int | None = None,
) -> Result:
    """Judge agents and policies by positions with exact values, as ``qarena policy judge`` does.

    Each agent takes ``draws`` turns in each position, and plays ``games`` games against the oracle.
    ``runners.exact.verdict_tables.build_verdict_frame`` has the columns. Raises ``KeyboardInterrupt`` after Ctrl-C.
    """
    from analytics.report.answers import build_list_result
    from runners.arena.executors.base import available_cores
    from runners.exact.verdict_tables import build_verdict_frame
    from runners.exact.verdicts import JudgeOptions, JudgeRequest, judge_agents
    from runners.hosting.interruption import stop_on_signal

    request = JudgeRequest(agents, parse_location(archive), rules=rules)
    with take_turn(), stop_on_signal() as stop:
        judged = judge_agents(request, JudgeOptions(draws, games, seed, threads or available_cores()), stop)
    if judged is None:
        raise KeyboardInterrupt("no agent is judged")
    return build_list_result("Agents against exact values", build_verdict_frame(judged.verdicts))


def _build_policy_result(root: PurePath, card: PolicyCard, notes: Sequence[str]) -> Result:
    """The learning curve of a policy, or its row in the view ``policies`` if it has none."""
    from analytics import open_archive
    from analytics.report.answers import build_list_result

    with open_archive(root) as archive:
        if "curve.parquet" in card.files:
            result = archive.learning_curve(run=card.learned["run_ids"])
        else:
            result = build_list_result("", archive.scan("policies").filter(policy_id=card.policy_id).collect())
    return replace(result, title=f"Policy {card.name}", note=" ".join([result.note, *notes]).strip())
