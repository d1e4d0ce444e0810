"""``qarena archive replay``: play a run again from its record, and compare the games."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from analytics.questions.columns import format_short_game_name
from analytics.store.archive import ArchiveStore, check_record_format, find_run_id
from analytics.store.records import OBJECT_TARGET, RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.arena.code_fingerprints import build_code_record, describe_code_differences
from runners.arena.experiment import build_engine
from runners.arena.progress import Progress
from runners.arena.replay import Replay, replay_run
from runners.arena.spec import POLICY_PARAMETERS, AgentSpec, RunSpec
from runners.config.agent_policies import attach_policy
from runners.config.yaml_options import load_raw_options
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.terminal.console import print_line, print_note, show_progress_bar_or_notes


class RunReplay(NamedTuple):
    """The comparison of a run with the same run played again."""

    record: RunRecord
    replay: Replay
    other_code: str  # how the present code differs from the code that played the run; empty if it does not


def replay_and_compare(
    root: PurePath, run_id: str, threads: int, trusted: bool, stop: threading.Event, progress: Progress | None
) -> RunReplay:
    """Play a run again and compare its games with the stored ones, without writing to the archive.

    The comparison ends early when ``stop`` is set. Raises ``RequestError`` if the run does not exist or cannot be
    repeated, if one of its agents does not exist here, or if it names third-party code and ``trusted`` is false. Raises
    ``FailureError`` for damaged games.
    """
    archive = ArchiveStore.open(root)
    run_id = find_run_id(archive, run_id)
    record = archive.load_run(run_id)
    spec = build_run_spec(check_record_format(record), archive, trusted)
    if not archive.list_effective_ranges(run_id):
        raise RequestError(f"run {run_id} has no games: there is nothing to compare")
    agents = [agent.build() for agent in spec.agents]
    other_code = describe_code_differences(record, build_code_record(spec, agents))
    engine = build_engine(spec, agents)
    return RunReplay(record, replay_run(archive, run_id, engine, spec.unit_line, threads, stop, progress), other_code)


def build_run_spec(record: RunRecord, archive: ArchiveStore, trusted: bool) -> RunSpec:
    """Build the specification that a run's record describes.

    Raises ``RequestError`` for a run that cannot be repeated, for a record that was changed, and for third-party code
    unless ``trusted`` is true.
    """
    stored_spec = record.spec
    if "imported" in stored_spec:
        raise RequestError(f"run {record.run_id} was imported: its games cannot be played again")
    if stored_spec.get("learner") is not None:
        raise RequestError(f"run {record.run_id} was played by an agent while it learned: repeat its training instead")
    options = {key: stored_spec[key] for key in ("seed", "opening_plies", "seats", "salt") if key in stored_spec}
    objects = [agent["label"] for agent in stored_spec["agents"] if agent["target"] == OBJECT_TARGET]
    if objects:
        raise RequestError(
            f"run {record.run_id} cannot be repeated: {objects[0]} was an object in a program, of which "
            "there is no description"
        )
    spec = RunSpec(
        rules=Rules(**stored_spec["rules"]),
        agents=tuple(_build_agent_spec(agent, archive, trusted) for agent in stored_spec["agents"]),
        pairings=tuple((first, second) for first, second in stored_spec["pairings"]),
        training=record.training,
        **options,
    )
    if not spec.is_repeatable:
        raise RequestError(f"run {record.run_id} cannot be repeated: a person played, or the clock limited turns")
    if spec.run_id != record.run_id:
        raise RequestError(f"the record of run {record.run_id} describes run {spec.run_id} here: it was changed")
    return spec


def _build_agent_spec(agent_record: Mapping[str, Any], archive: ArchiveStore, trusted: bool) -> AgentSpec:
    """Build the specification of the agent that a record describes, with the agent's policy from the archive."""
    spec = AgentSpec.from_record(agent_record, trusted)
    policy_id = spec.policy_id
    if policy_id is None:
        return spec
    spec = replace(spec, policy_id=None)
    if any(name in spec.params for name in POLICY_PARAMETERS):
        yamls = load_raw_options("agent").values()
        yaml_settings = next((settings for settings in yamls if settings.get("_target_") == spec.target), {})
        spec = attach_policy(spec, yaml_settings, archive.root)
    return replace(spec, policy_id=policy_id)


def print_replay(root: PurePath, run_id: str, threads: int, trusted: bool) -> int:
    """Play a run again, print the comparison with the stored games, and return the exit code.

    The code is 0 if the games are the same, and 1 if they differ. If a signal ends the comparison before a difference
    is found, the code is that of an interrupted command. Raises as ``replay_and_compare`` does.
    """
    with stop_on_signal_then_interrupt_then_exit() as stop, show_progress_bar_or_notes("playing again", "games") as bar:
        record, replay, other_code = replay_and_compare(root, run_id, threads, trusted, stop, bar)
        run_id = record.run_id
    if other_code:
        print_note(f"the run was played by other code ({other_code})")
    if replay.difference:
        labels = " against ".join(record.pairings[replay.difference.pairing])
        name = format_short_game_name(run_id, replay.difference.game_id)
        print_line(
            f"differs: run {run_id}, {labels}, {replay.difference.first_change_text}; "
            f"the first game that differs is {name}"
        )
        print_line(f"  in the archive  {replay.difference.stored}\n  played again    {replay.difference.played}")
        return 1
    if replay.interrupted:
        print_line(f"interrupted after {format_count_with_noun(replay.games, 'game')}, which are the same")
        return exit_code()
    print_line(f"identical: run {run_id}, {format_count_with_noun(replay.games, 'game')} played again")
    return 0
