"""``qarena archive replay``: plays a run again from its record, and compares the games."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from agents.base import AgentLimits
from analytics.results.columns import game_name
from analytics.store.archive import Archive, readable
from analytics.store.blocks import RangeGames
from analytics.store.range_files import FingerprintsOfRun, contradictions, read_games
from analytics.store.ranges import Range
from analytics.store.records import RunRecord
from quarto.batch import ENDINGS
from quarto.errors import RequestError
from quarto.notation import format_game
from quarto.rules import Rules
from runners.arena.agent_policies import with_policy
from runners.arena.code import differences
from runners.arena.config import Request
from runners.arena.config_groups import ArchiveSettings, as_written
from runners.arena.experiment import prepare
from runners.arena.playing import Progress, carry_out
from runners.arena.spec import POLICY_PARAMETERS, AgentSpec, RunSpec
from runners.hosting.interruption import INTERRUPTED, interruptible
from runners.terminal.console import print_line, print_note, progress_bar


@dataclass(frozen=True)
class Replayed:
    """The comparison of a run with the same run played again."""

    record: RunRecord
    games: int  # played again
    other_code: str  # how this code differs from that of the run; empty: it does not
    differing: Range | None = None  # the first units whose games differ
    first: tuple[int, str, str] | None = None  # the first game that differs: its id, as it is stored, as it was played
    interrupted: bool = False


def replay(
    root: PurePath, run_id: str, threads: int, trusted: bool, stop: threading.Event, progress: Progress | None
) -> Replayed:
    """Play a run again, in a temporary folder, and compare.

    Raises ``RequestError`` for a run that is not there, whose games are no function of its record, whose agents do not
    exist here, or which names code of others (unless ``trusted``); ``FailureError`` for damaged games.
    """
    archive = Archive.open(root)
    record = archive.run_named(run_id)
    spec, ranges = spec_of(readable(record), archive, trusted), archive.ranges(run_id)
    games = -(-int(ranges.ends[-1]) // spec.line.pairings) * spec.games_a_pair if len(ranges) else 0
    if not games:
        raise RequestError(f"run {run_id} has no games: there is nothing to compare")
    with tempfile.TemporaryDirectory(prefix="qarena-replay-") as folder:
        storage = ArchiveSettings(Path(folder) / "archive")
        experiment = prepare(Request(spec, games, threads, storage, progress is not None))
        outcome = carry_out(experiment, "", stop, progress)
        other_code, again = differences(record, experiment.code), experiment.archive
        mine, theirs = (FingerprintsOfRun(each, run_id, each.ranges(run_id)) for each in (archive, again))
        span = next((span for span, _ in contradictions(mine, theirs)), None)
        first = None if span is None else _first_difference(archive, again, run_id, span)
        return Replayed(record, outcome.played, other_code, span, first, outcome.interrupted)


def spec_of(record: RunRecord, archive: Archive, trusted: bool) -> RunSpec:
    """The specification that a run's record describes.

    Raises ``RequestError`` for a run that cannot be repeated, and for one that this program describes otherwise.
    """
    described = record.spec
    if "imported" in described:
        raise RequestError(f"run {record.run_id} was imported: its games cannot be played again")
    if described.get("learner") is not None:
        raise RequestError(f"run {record.run_id} was played by an agent while it learned: repeat its training instead")
    known = {key: described[key] for key in ("seed", "opening_plies", "seats", "salt") if key in described}
    spec = RunSpec(
        rules=Rules(**described["rules"]),
        agents=tuple(_agent(agent, archive, trusted) for agent in described["agents"]),
        pairings=tuple((first, second) for first, second in described["pairings"]),
        training=record.training,
        **known,
    )
    if not spec.repeatable:
        raise RequestError(f"run {record.run_id} cannot be repeated: a person played, or the clock limited turns")
    if spec.run_id != record.run_id:
        raise RequestError(f"the record of run {record.run_id} describes run {spec.run_id} here: it was changed")
    return spec


def _agent(described: Mapping[str, Any], archive: Archive, trusted: bool) -> AgentSpec:
    """The agent that a record describes, with its policy from the archive."""
    limits = AgentLimits(**described.get("limits", {}))
    spec = AgentSpec(described["label"], described["target"], described["params"], limits=limits, trusted=trusted)
    policy_id = described.get("policy_id")
    if policy_id is None:
        return spec
    own = next((own for own in as_written("agent").values() if own.get("_target_") == spec.target), {})
    found = with_policy(spec, own, archive.root) if any(each in spec.params for each in POLICY_PARAMETERS) else spec
    return replace(found, policy_id=policy_id)


def _first_difference(archive: Archive, again: Archive, run_id: str, span: Range) -> tuple[int, str, str]:
    """The first game in some units that two archives hold differently: its id, and the game in each."""
    line = archive.known_run(run_id).line
    stored, played = (
        _texts(read_games(each, run_id, found).within(line, *span) for found in each.ranges(run_id).inside(*span))
        for each in (archive, again)
    )
    game = min(game for game in stored if stored[game] != played.get(game))
    return game, stored[game], played.get(game, "not played")


def _texts(parts: Iterable[RangeGames]) -> dict[int, str]:
    """Games by their ids: the plies, and how each ended."""
    texts = {}
    for part in parts:
        for index, game in enumerate(part.game_id.tolist()):
            plies = zip(part.games.pieces[:, index].tolist(), part.games.cells[:, index].tolist(), strict=True)
            played = format_game(islice(plies, int(part.games.plies[index])))
            texts[game] = f"{played} ({ENDINGS[part.games.ending[index]]})"
    return texts


def show_replay(root: PurePath, run_id: str, threads: int, trusted: bool) -> int:
    """``replay``, and print what came of it; returns the exit code. Raises as ``replay`` does."""
    with interruptible() as stop, progress_bar("playing again", "games") as bar:
        found = replay(root, run_id, threads, trusted, stop, bar)
    if found.other_code:
        print_note(f"the run was played by other code ({found.other_code})")
    if found.differing and found.first:
        (first, end), (game, stored, played) = found.differing, found.first
        units, name = f"from units {first} to {end - 1} on", game_name(run_id, game)
        print_line(f"differs: run {run_id}, {units}; the first game that differs is {name}")
        print_line(f"  in the archive  {stored}\n  played again    {played}")
        return 1
    if found.interrupted:
        print_line(f"interrupted after {found.games:,} games, which are the same")
        return INTERRUPTED
    print_line(f"identical: run {run_id}, {found.games:,} games played again")
    return 0
