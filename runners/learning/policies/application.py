"""`qarena policy build` as a Hydra application: derives a policy from logged games and stores it.

The modules that derive policies are imported late, because Hydra refuses most wrong requests before they are needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig

from analytics import format_archive_option
from analytics.store.files.backend import parse_location
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError, suggest_valid_names
from runners.config.application import (
    Application,
    CommandOutcome,
    Launch,
    PreparedRequest,
    build_one_row_columns,
)
from runners.config.schemas import PolicyBuildConfig
from runners.config.yaml_options import KIND_GROUP, list_user_folders, load_option, to_plain_dict
from runners.hosting.work_clock import WorkClock
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes

if TYPE_CHECKING:
    from analytics.questions.selection import Selection
    from analytics.store.policy_cards import PolicyCard
    from runners.learning.training.policy_build import BuildRequest


def build_request_from_config(cfg: DictConfig, choices: Mapping[str, str], command: str) -> BuildRequest:
    """Check a composed configuration and build the request that it describes.

    ``choices`` are the group options that Hydra chose, such as ``{"kind": "gift"}``. Raises ``RequestError`` for the
    first invalid value.
    """
    kind, settings = choices[KIND_GROUP], to_plain_dict(cfg.kind)
    for key in settings:
        if key not in (valid := load_option(KIND_GROUP, kind)):
            raise RequestError(f"kind '{kind}' has no parameter {key!r}{suggest_valid_names(key, valid)}")
    from analytics.store import policy_store
    from runners.config.agents import find_stored_label_or_same
    from runners.config.requests import build_executor, resolve_thread_count
    from runners.learning.training.policy_build import BuildRequest

    root = parse_location(cfg.archive.root)
    if isinstance(settings.get("agent"), str):
        settings["agent"] = find_stored_label_or_same(root, settings["agent"])
    name = kind if cfg.name is None else cfg.name
    policy_store.check_name(name, "name")
    return BuildRequest(
        kind=kind,
        settings=settings,
        name=name,
        where=cfg.where,
        threads=resolve_thread_count(cfg),
        executor=build_executor(cfg),
        root=root,
        command=command,
    )


def _count_rows(card: PolicyCard) -> int:
    from analytics.store.policy_cards import TABLE

    return card.files[TABLE].rows or 0


def _print_summary(card: PolicyCard, root: PurePath, seconds: float) -> None:
    """Print the size and the source of the policy, and a command that plays with it."""
    from analytics.store import policy_cards
    from analytics.store.archive import ArchiveStore

    learned = card.learned
    ids, archive = learned["run_ids"], ArchiveStore(root)
    runs = format_count_with_noun(len(ids), "run") if len(ids) > 1 else f"run {ids[0]}"
    if trainings := sum(archive.load_run(run_id).training for run_id in ids):
        runs += f" ({trainings} of them trainings)" if len(ids) > 1 else " (a training)"
    config_options = "".join(f" --config-dir {shlex.quote(folder)}" for folder in list_user_folders())
    rows = format_count_with_noun(_count_rows(card), "row")
    description = f"{rows} from {format_count_with_noun(learned['games'], 'game')} of {runs} in {seconds:.1f} s"
    for line in (
        f"{learned['trainer']}: {description}; the policy is in {policy_cards.policy_folder(archive, card.policy_id)}.",
        *_describe_play_command(card, f"{format_archive_option(root)}{config_options}"),
    ):
        console.print_line(line)


def _describe_play_command(card: PolicyCard, options: str) -> list[str]:
    """Return the lines that tell how to play with the policy; ``options`` are added to the command.

    If no agent can play by the policy, the lines say instead what the yaml of such an agent would need.
    """
    from runners.config.agent_policies import list_reader_names

    if list_reader_names(card.kind):
        return ["Play by it:", f"  {console.find_program()} run 'policy(policy={card.name})' random{options}"]
    yaml = f"reads: [{card.kind}] and default_player: true"
    return [f"No agent plays by policies of kind '{card.kind}' yet: one whose yaml has {yaml} would."]


class BuildApplication(Application):
    """The application that derives a policy from logged games and stores it."""

    config_name = "policy_build"
    schema = PolicyBuildConfig

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig, launch: Launch) -> PreparedRequest:
        request = build_request_from_config(cfg, hydra_cfg.runtime.choices, launch.command)
        from runners.learning.training.policy_build import check_and_select_build_games

        return partial(_execute_build, request, check_and_select_build_games(request))


def _execute_build(request: BuildRequest, selection: Selection) -> CommandOutcome:
    """Derive a policy from the selected games and store it under the name in the request."""
    from runners.learning.training.policy_build import build_policy

    for note in request.notes:
        console.print_note(note)
    clock = WorkClock()
    with show_progress_bar_or_notes("learning", "games"):
        card = build_policy(request, selection)
    seconds = clock.seconds
    row = {"policy": card.name, "games": f"{card.learned['games']:,}", "rows": f"{_count_rows(card):,}"}
    return CommandOutcome(None, lambda: _print_summary(card, request.root, seconds), columns=build_one_row_columns(row))


BUILD = BuildApplication()
