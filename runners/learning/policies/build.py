"""`qarena policy build` as Hydra runs it: derive a policy from logged games, store it, print how to play by it.

What derives is imported when something is to be derived: Hydra refuses most wrong requests before that.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from hydra.conf import HydraConf
from omegaconf import DictConfig

from analytics import archive_option
from analytics.store.files.backend import location_of
from quarto.errors import RequestError, nearest
from runners.config.application import Application, Finished, Work, one_row, typed_command
from runners.config.options import KIND_GROUP, own_folders, plain, settings_of
from runners.config.schemas import PolicyBuildConfig
from runners.terminal import console
from runners.terminal.console import progress_bar

if TYPE_CHECKING:
    from analytics.store.policy_cards import PolicyCard
    from runners.learning.training.derive import BuildRequest, PreparedBuild


def build_request_of(cfg: DictConfig, choices: Mapping[str, str], command: str) -> BuildRequest:
    """Check a composed configuration. ``choices`` are Hydra's: ``{'kind': 'gift', ...}``.

    Raises ``RequestError`` for the first invalid value.
    """
    kind, settings = choices[KIND_GROUP], plain(cfg.kind)
    for key in settings:
        if key not in (own := settings_of(KIND_GROUP, kind)):
            raise RequestError(f"kind '{kind}' has no parameter {key!r}{nearest(key, own)}")
    from analytics.store import policy_store
    from runners.config.agents import stored_label
    from runners.config.requests import executor_of, threads_of
    from runners.learning.training.derive import BuildRequest

    root = location_of(cfg.archive.root)
    if isinstance(settings.get("agent"), str):
        settings["agent"] = stored_label(root, settings["agent"])
    name = kind if cfg.name is None else cfg.name
    policy_store.check_name(name, "name")
    return BuildRequest(
        kind=kind,
        settings=settings,
        name=name,
        where=cfg.where,
        threads=threads_of(cfg),
        executor=executor_of(cfg),
        root=root,
        command=command,
    )


def _rows(card: PolicyCard) -> int:
    from analytics.store.policy_cards import TABLE

    return card.files[TABLE].rows or 0


def _show(card: PolicyCard, root: PurePath, seconds: float) -> None:
    """Print the size and the source of the policy, and a command that plays by it."""
    from analytics.store import policy_cards
    from analytics.store.archive import Archive

    learned = card.learned
    ids, archive = learned["run_ids"], Archive(root)
    runs = f"{len(ids)} runs" if len(ids) > 1 else f"run {ids[0]}"
    if trainings := sum(archive.known_run(run_id).training for run_id in ids):
        runs += f" ({trainings} of them trainings)" if len(ids) > 1 else " (a training)"
    own = "".join(f" --config-dir {shlex.quote(folder)}" for folder in own_folders())
    what = f"{_rows(card):,} rows from {learned['games']:,} games of {runs} in {seconds:.1f} s"
    for line in (
        f"{learned['trainer']}: {what}; the policy is in {policy_cards.folder_of(archive, card.policy_id)}.",
        *_how_to_play(card, f"{archive_option(root)}{own}"),
    ):
        console.print_line(line)


def _how_to_play(card: PolicyCard, more: str) -> list[str]:
    """A command that plays by the policy; if no agent does, how one would."""
    from runners.config.agent_policies import readers_of

    if readers_of(card.kind):
        return ["Play by it:", f"  {console.program()} run 'policy(policy={card.name})' random{more}"]
    yaml = f"reads: [{card.kind}] and default_player: true"
    return [f"No agent plays by policies of kind '{card.kind}' yet: one whose yaml has {yaml} would."]


class BuildApplication(Application):
    """Derives a policy from logged games and stores it."""

    config = "policy_build"
    schema = PolicyBuildConfig

    def prepare(self, cfg: DictConfig, hydra_cfg: HydraConf | DictConfig) -> Work:
        request = build_request_of(cfg, hydra_cfg.runtime.choices, typed_command())
        from runners.learning.training.derive import prepare

        return partial(_built, prepare(request))


def _built(prepared: PreparedBuild) -> Finished:
    """The outcome of a derivation that was ready."""
    from runners.learning.training.derive import build

    for note in prepared.request.notes:
        console.print_note(note)
    started = time.perf_counter()
    with progress_bar("learning", "games"):
        card = build(prepared)
    seconds = time.perf_counter() - started
    shown = {"policy": card.name, "games": f"{card.learned['games']:,}", "rows": f"{_rows(card):,}"}
    return Finished(None, lambda: _show(card, prepared.request.root, seconds), columns=one_row(shown))


BUILD = BuildApplication()
