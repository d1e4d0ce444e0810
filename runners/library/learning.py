"""Learning and judging: ``train``, ``build_policy``, ``rebuild_policy``, ``judge``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from analytics.store.files.backend import DEFAULT_ARCHIVE, parse_location
from runners.library.calls import (
    Location,
    Setting,
    build_call,
    check_are_labels,
    check_is_named,
    find_archive_root,
    format_words,
    take_turn,
)

if TYPE_CHECKING:
    from analytics.report.result import Result
    from analytics.store.policy_cards import PolicyCard


def train(
    *,
    archive: Location | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Learn from games and store a policy, as ``qarena train`` does, and return the policy's learning curve.

    An agent can use the policy by its name or id: ``run(f"policy(policy={result.policy_id})", "random")``. After
    Ctrl-C, ``KeyboardInterrupt`` is raised; the same call continues the training if the trainer can continue.

    Args:
        archive: The archive, its folder or its URL. Default: ``QARENA_ARCHIVE``, else ``data/archive``.
        overrides: Settings as the command line takes them, such as ``"trainer.games=20_000"``.
        config_dir: A folder, or several, with yamls and agents of your own.
        settings: Those settings of the command whose keys have no dot: ``trainer="q_placement"``, ``seed=7``.

    Returns:
        The learning curve of the policy, as ``Archive.learning_curve`` returns it, or the policy's row in the view
        ``policies`` if it has no curve. ``policy_id`` is the policy's id.

    Raises:
        RequestError: A setting is wrong; the message says which.
        FailureError: The archive cannot be written.

    Examples:
        >>> import tempfile, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> settings = {"trainer": "q_placement", "progress": False}
        >>> learned = runners.train(overrides=["trainer.games=20"], archive=root, **settings)
        >>> learned.frame["policy_id"].item() == learned.policy_id
        True

    """
    from runners.config.schemas import TrainConfig
    from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
    from runners.learning.training.request import (
        check_training_and_create_archive,
        save_policy,
        training_request_from_config,
    )
    from runners.terminal.console import show_progress_bar_or_notes

    words = format_words(settings, overrides)
    call = build_call("train", words, archive, config_dir)
    check_is_named(call.words, ("trainer", "experiment"), "no trainer is named: name one, train(trainer='q_placement')")
    with call.compose(TrainConfig) as cfg:
        request = training_request_from_config(cfg, cfg.hydra.runtime.choices, call.command)
        check_training_and_create_archive(request)
        with (
            stop_on_signal_then_interrupt_then_exit() as stop,
            show_progress_bar_or_notes("training", "games", request.progress) as progress,
        ):
            outcome = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        if outcome.policy is None:
            raise KeyboardInterrupt("the training is not complete: the same call continues where the trainer can")
        card = save_policy(request, outcome, outcome.policy)
        root = parse_location(cfg.archive.root)
    return _build_policy_result(root, card, request.notes)


def build_policy(
    kind: str,
    *,
    archive: Location | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Derive a policy from logged games and store it, as ``qarena policy build`` does; return its row in ``policies``.

    An agent can use the policy by its name or id: ``run(f"policy(policy={result.policy_id})", "random")``.

    Args:
        kind: A kind of policy in ``conf/kind``, such as ``"gift"``.
        archive: The archive, its folder or its URL. Default: ``QARENA_ARCHIVE``, else ``data/archive``.
        overrides: Settings as the command line takes them, such as ``"kind.least=2"``.
        config_dir: A folder, or several, with yamls of your own.
        settings: Settings of the command whose keys have no dot: ``name`` (the policy's name) and ``where`` (a
            condition on the view ``games``).

    Returns:
        The policy's row in the view ``policies`` or, if the kind learns in several passes, the policy's learning curve.
        ``policy_id`` is the policy's id.

    Raises:
        RequestError: A setting is wrong, or no game meets the condition.
        FailureError: A file is damaged or cannot be written.

    Examples:
        >>> import tempfile, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> played = runners.run("rule_based", "random", games=20, progress=False, archive=root)
        >>> policy = runners.build_policy("gift", name="gifts", where="winner >= 0", archive=root)
        >>> policy.frame["policy_id"].item() == policy.policy_id
        True

    """
    from runners.config.schemas import PolicyBuildConfig
    from runners.learning.policies.application import build_request_from_config
    from runners.learning.training import policy_build

    words = [f"kind={kind}", *format_words(settings, overrides)]
    call = build_call("policy build", words, archive, config_dir)
    with call.compose(PolicyBuildConfig) as cfg:
        request = build_request_from_config(cfg, cfg.hydra.runtime.choices, call.command)
        card = policy_build.build_policy(request, policy_build.check_and_select_build_games(request))
    return _build_policy_result(request.root, card, request.notes)


def rebuild_policy(policy: str, archive: Location = DEFAULT_ARCHIVE, *, threads: int | None = None) -> Result:
    """Learn a policy again from the same games, as ``qarena policy rebuild`` does, and compare it with the stored one.

    Args:
        policy: The policy's name or id.
        archive: The archive, its folder or its URL.
        threads: The number of threads; None means one for each core.

    Returns:
        A result with a row for each difference, in the column ``difference``. If there are no rows, the new policy and
        the stored one are identical bit for bit. ``policy_id`` is the id of the stored policy.

    Raises:
        RequestError: The policy does not exist or cannot be learned again.
        FailureError: A file is damaged.

    Examples:
        >>> import tempfile, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> played = runners.run("rule_based", "random", games=20, progress=False, archive=root)
        >>> policy = runners.build_policy("gift", archive=root)
        >>> runners.rebuild_policy(policy.policy_id, root).frame.is_empty()
        True

    """
    import polars as pl

    from analytics.questions.columns import Table, text_column
    from analytics.report.result import Result
    from runners.learning.policies import rebuilding

    with take_turn():
        rebuilt = rebuilding.rebuild_policy(find_archive_root(archive), policy, threads)
    differences, card = [*rebuilt.differences], rebuilt.card
    facts = {
        "policy": f"{card.name} ({card.policy_id})",
        "size": rebuilt.size,
        "games": f"{card.learned['games']:,}",
        "learned again": "differs" if differences else "identical",
    }
    return Result(
        table=Table("", [text_column(heading, [fact]) for heading, fact in facts.items()]),
        numbers=Table("Differences", [text_column("difference", differences)]),
        title=f"Policy {card.name} learned again",
        frame=pl.DataFrame({"difference": differences}, schema={"difference": pl.String}),
        policy_id=card.policy_id,
    )


def judge(
    *agents: str,
    archive: Location = DEFAULT_ARCHIVE,
    rules: str | None = None,
    draws: int = 4,
    games: int = 200,
    seed: int = 1,
    threads: int | None = None,
) -> Result:
    """Judge agents and policies by the exact values of positions, as ``qarena policy judge`` does.

    After Ctrl-C, ``KeyboardInterrupt`` is raised.

    Args:
        agents: Labels of agents, or names of policies.
        archive: The archive that has the policies and stores the verdicts, its folder or its URL.
        rules: The rules of the positions; None means classic.
        draws: The number of turns that each agent takes in each position.
        games: The number of games that each agent plays against the oracle; 0 means none.
        seed: The seed of the turns and the games.
        threads: The number of threads; None means one for each core.

    Returns:
        A row for each ``agent``, each ``kind`` of decision (turn, placement or gift) and each group of positions. The
        columns ``source`` (canonical or logged) and ``pieces`` (the number of pieces on the board) name the group; null
        means that the group is not restricted by this column. Further columns: ``decisions``, their number;
        ``optimal``, the share of decisions that keep the exact value (0 to 1); and ``regret``, the mean in half-points.
        ``optimal`` and ``regret`` have 95 % intervals (``_low``, ``_high``). The other columns are equal in all rows of
        an agent: ``draws``, the share of drawn games (0 to 1, with a 95 % interval) among the ``oracle_games`` against
        the oracle, null without games; and ``turns_a_second``, the agent's speed on one thread.

    Raises:
        RequestError: An agent or a policy does not exist, or does not play these rules.
        FailureError: The archive cannot be written.

    Examples:
        >>> import tempfile, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> match = runners.run("semi_random", "random", games=2, progress=False, archive=root)
        >>> verdicts = runners.judge("semi_random", archive=root, draws=1, games=0).frame
        >>> verdicts.filter(verdicts["source"].is_null() & verdicts["pieces"].is_null())["kind"].to_list()
        ['turn', 'placement', 'gift']

    """
    from analytics.report.result import Result
    from runners.arena.executors.base import available_cores
    from runners.exact.verdict_tables import build_frame_by_kind_and_pieces, build_tables
    from runners.exact.verdicts import JudgeOptions, JudgeRequest, judge_agents
    from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit

    check_are_labels(agents)
    request = JudgeRequest(agents, find_archive_root(archive), rules=rules)
    with take_turn(), stop_on_signal_then_interrupt_then_exit() as stop:
        judgement = judge_agents(request, JudgeOptions(draws, games, seed, threads or available_cores()), stop)
    if judgement is None:
        raise KeyboardInterrupt("interrupted before any agent was judged: make the same call again")
    table, by_pieces = build_tables(judgement)
    frame = build_frame_by_kind_and_pieces(judgement.verdicts)
    return Result(table=table, numbers=by_pieces, title="Agents against exact values", frame=frame)


def _build_policy_result(root: PurePath, card: PolicyCard, notes: Sequence[str]) -> Result:
    """Build the result with the learning curve of a policy or, if it has none, with its row in the view ``policies``.

    ``root`` is the archive, ``card`` is the policy's card, and ``notes`` are appended to ``Result.note``.
    """
    from analytics import open_archive
    from analytics.report.advice import word_for_python
    from analytics.report.answers import build_policies_result

    with open_archive(root) as archive:
        if "curve.parquet" in card.files:
            result = archive.learning_curve(run=card.learned["run_ids"])
        else:
            result = build_policies_result(archive.scan("policies").filter(policy_id=card.policy_id).collect())
    note = " ".join([result.note, *map(word_for_python, notes)]).strip()
    run_ids = card.learned["run_ids"]
    run_id = run_ids[0] if len(run_ids) == 1 else ""
    return replace(result, title=f"Policy {card.name}", note=note, run_id=run_id, policy_id=card.policy_id)
