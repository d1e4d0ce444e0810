"""What plays, for Python's users: each function composes the configuration of a command and returns a ``Result``.

The words of a call become the words of the command line, and from there on they take the same way: the same keys,
checks and messages, the same run, the same rows.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from analytics.store.files.backend import DEFAULT_ARCHIVE, parse_location

if TYPE_CHECKING:
    from types import FrameType

    from omegaconf import DictConfig

    from analytics.report.result import Result
    from analytics.store.policy_cards import PolicyCard
    from runners.arena.execution import RunOutcome

Setting = str | int | float | bool | None | Sequence["Setting"]

_TURN = threading.Lock()  # Hydra's state and the user's folders are of the process: calls take turns


def run(
    *agents: str,
    archive: str | PurePath | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Play a match or a tournament, as ``qarena run`` does, and return the results of every two agents.

    The same call extends the same run: with ``games=4_000`` after ``games=2_000`` only the missing games are played.
    Ctrl-C, or the notebook's stop button, keeps what is finished and raises ``KeyboardInterrupt``. Calls from several
    threads take turns.

    Args:
        agents: Labels, such as ``"mcts(iterations=200)"``: two are a match, more a tournament. None if an
            ``experiment`` names them.
        archive: The archive's folder or URL. Default: ``QARENA_ARCHIVE``, else ``data/archive``.
        overrides: Settings as the command line takes them, such as ``"archive.shard_games=1000"`` or ``"a.depth=2"``.
        config_dir: A folder, or several, with yamls and agents of your own.
        settings: The keys of the command without a dot: ``games=2_000``, ``seed=7``, ``rules="square"``.

    Returns:
        The crosstable of the run, as ``Archive.crosstable`` has it. ``run_id`` is the run's, ``note`` has warnings.

    Raises:
        RequestError: A setting or an agent is wrong; the message says which.
        FailureError: The disk refuses, or an agent forfeits all of its games.

    Examples:
        >>> import tempfile, runners
        >>> result = runners.run("dumb", "random", games=20, progress=False, archive=tempfile.mkdtemp() + "/archive")
        >>> result.frame["games"].to_list()
        [20]

    """
    from runners.arena.execution import execute_experiment
    from runners.arena.experiment import prepare_experiment
    from runners.config.requests import build_request
    from runners.config.schemas import RunConfig
    from runners.terminal.console import show_progress_bar

    call = _build_call("run", [*agents, *map(_format_setting, settings.items()), *overrides], archive, config_dir)
    with call.compose(RunConfig) as cfg:
        request = build_request(cfg, cfg.hydra.runtime.choices, cfg.hydra.overrides.task)
        experiment = prepare_experiment(request)
        with _stop_on_interrupt() as stop, show_progress_bar("playing", "games", request.progress) as progress:
            outcome = execute_experiment(experiment, call.command, stop, progress)
    if outcome.stopped:
        raise KeyboardInterrupt(f"run {outcome.run_id}: finished games are kept, the same call plays the rest")
    return _build_result(outcome, request.notes)


def sprt(
    *agents: str,
    archive: str | PurePath | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Play two agents until a test decides which is stronger, as ``qarena sprt`` does; return its row in ``verdicts``.

    Arguments are those of ``run``; ``elo0`` and ``elo1`` are the hypotheses in normalised Elo. ``accepted`` is null if
    as many games as were allowed did not decide. Raises ``KeyboardInterrupt`` after Ctrl-C; the same call goes on.
    """
    from runners.arena.sprt import execute_sprt
    from runners.config.requests import prepare_test
    from runners.config.schemas import SprtConfig
    from runners.terminal.console import show_progress_bar

    call = _build_call("sprt", [*agents, *map(_format_setting, settings.items()), *overrides], archive, config_dir)
    with call.compose(SprtConfig) as cfg:
        prepared = prepare_test(cfg, cfg.hydra.runtime.choices, cfg.hydra.overrides.task)
        request = prepared.experiment.request
        with _stop_on_interrupt() as stop, show_progress_bar("testing", "games", request.progress) as bar:
            bar.start(request.games)
            outcome = execute_sprt(prepared, call.command, stop, lambda trial: bar.set_done(2 * trial.pairs))
    if not outcome.trial.ended:
        raise KeyboardInterrupt(f"run {prepared.experiment.run_id}: games are kept, the same call goes on")
    return _build_verdict_result(request.storage.root, prepared.experiment.run_id, request.notes)


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
    from runners.learning.training.request import (
        check_training_and_create_archive,
        save_policy,
        training_request_from_config,
    )
    from runners.terminal.console import show_progress_bar

    call = _build_call("train", [*map(_format_setting, settings.items()), *overrides], archive, config_dir)
    with call.compose(TrainConfig) as cfg:
        request = training_request_from_config(cfg, cfg.hydra.runtime.choices, call.command)
        check_training_and_create_archive(request)
        with _stop_on_interrupt() as stop, show_progress_bar("training", "games", request.progress) as progress:
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

    words = [f"kind={kind}", *map(_format_setting, settings.items()), *overrides]
    call = _build_call("policy build", words, archive, config_dir)
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

    with _TURN:
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

    request = JudgeRequest(agents, parse_location(archive), rules=rules)
    with _TURN, _stop_on_interrupt() as stop:
        judged = judge_agents(request, JudgeOptions(draws, games, seed, threads or available_cores()), stop)
    if judged is None:
        raise KeyboardInterrupt("no agent is judged")
    return build_list_result("Agents against exact values", build_verdict_frame(judged.verdicts))


def annotate(
    archive: str | PurePath = DEFAULT_ARCHIVE,
    *,
    run: str | Sequence[str] = (),
    where: str | None = None,
    choices: bool = False,
    threads: int | None = None,
) -> Result:
    """Judge the decisions of games by exact values, as ``qarena annotate`` does, and return ``Archive.mistakes``.

    What is judged already is not judged again. Ctrl-C keeps what is finished and raises ``KeyboardInterrupt``.

    Args:
        archive: The archive's folder or URL.
        run: Ids of runs; none: all.
        where: A condition on the view ``games``; whole files in which a game meets it are judged.
        choices: Also count the choices that keep the value, which takes longer.
        threads: None: all cores.

    Raises:
        RequestError: A run is not there, or no game meets the condition.
        FailureError: A file is damaged, or cannot be written.

    """
    import typer

    from analytics import open_archive
    from analytics.exact.annotation import AnnotationOptions
    from analytics.questions.selection import GameFilter
    from runners.arena.executors.base import THREADS
    from runners.exact.annotation import annotate_games

    root, runs = parse_location(archive), (run,) if isinstance(run, str) else tuple(run)
    with _TURN:
        try:
            annotate_games(root, GameFilter(where, runs), AnnotationOptions(choices), threads, THREADS)
        except typer.Exit as interrupted:
            raise KeyboardInterrupt("what is judged is kept, the same call judges the rest") from interrupted
    with open_archive(root) as opened:
        return opened.mistakes(run=runs or None, where=where)


def index(archive: str | PurePath = DEFAULT_ARCHIVE) -> None:
    """Index the positions of all games that are not indexed yet, for the view ``positions`` and quick openings."""
    from runners.arena.indexing import update_whole_index

    with _TURN:
        update_whole_index(parse_location(archive))


def serve(archive: str | PurePath = DEFAULT_ARCHIVE, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Play, analyse, browse and ask in a browser, as ``qarena serve`` does, until Ctrl-C. Needs the extra ``web``."""
    from runners.web import server

    server.serve(parse_location(archive), host, port, None, None, False)


def _format_setting(setting: tuple[str, Setting]) -> str:
    from agents.base.parameters import format_parameter  # with NumPy; importing ``runners`` must cost nothing
    from analytics.store.labels import quote
    from runners.config.arguments import TEXT_KEYS

    key, value = setting
    if isinstance(value, str):  # as it is typed; a condition or a name is a text, whatever is in it
        return f"{key}={quote(value) if key in TEXT_KEYS else value}"
    return f"{key}={format_parameter([*value] if isinstance(value, Sequence) else value)}"


class _Call(NamedTuple):
    """The words of a call, as those of a command line."""

    name: str  # of the command
    config: str  # the name of its yaml
    words: Sequence[str]
    archive: str | None
    folders: Sequence[Path]

    @property
    def command(self) -> str:
        """The command that does the same, for records."""
        from runners.terminal.console import format_shell_line

        options = [] if self.archive is None else ["--archive", self.archive]
        options += [word for folder in self.folders for word in ("--config-dir", str(folder))]
        return f"qarena {self.name} {format_shell_line([*self.words, *options])}"

    @contextmanager
    def compose(self, schema: type[Any]) -> Iterator[DictConfig]:
        """The checked configuration. It is this call's turn, and the user's folders are found, inside the context.

        Raises ``RequestError`` for words that the command would refuse.
        """
        from runners.config.arguments import parse_arguments
        from runners.config.composing import compose_single_request, initialize_hydra, open_config_folders
        from runners.config.yaml_options import hydra_lock

        arguments = parse_arguments(self.words, self.archive, config_dirs=self.folders)
        with _TURN, open_config_folders(arguments, schema, self.name):
            with hydra_lock, initialize_hydra():
                cfg = compose_single_request(self.config, schema, arguments.overrides)
            yield cfg


def _build_call(
    command: str,
    words: Sequence[str],
    archive: str | PurePath | None,
    config_dir: str | Path | Sequence[str | Path],
) -> _Call:
    """The call of a command such as ``policy build``, whose yaml is ``policy_build``."""
    folders = [config_dir] if isinstance(config_dir, str | Path) else config_dir
    root = None if archive is None else str(archive)
    return _Call(command, command.replace(" ", "_"), words, root, [Path(folder) for folder in folders])


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; another raises ``KeyboardInterrupt`` at once. In the main thread only."""
    from runners.hosting.interruption import handle_signals

    stop = threading.Event()

    def request_stop(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    with handle_signals(request_stop, signal.SIGINT):
        yield stop


def _build_verdict_result(root: PurePath, run_id: str, notes: Sequence[str]) -> Result:
    """The newest verdict on a run."""
    from analytics import open_archive
    from analytics.report.answers import build_list_result

    with open_archive(root) as archive:
        frame = archive.scan("verdicts", run_id).sort("created").tail(1).collect()
    return replace(build_list_result(f"Test of run {run_id}", frame), run_id=run_id, note=" ".join(notes))


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


def _build_result(outcome: RunOutcome, notes: Sequence[str]) -> Result:
    from analytics import open_archive

    with open_archive(outcome.root) as archive:
        result = archive.crosstable(run=outcome.run_id)
    note = " ".join([result.note, *(f"{note[0].upper()}{note[1:]}." for note in [*notes, *outcome.misbehaviour])])
    return replace(result, title=f"Run {outcome.run_id}", run_id=outcome.run_id, note=note.strip())
