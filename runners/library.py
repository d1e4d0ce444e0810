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
from typing import TYPE_CHECKING

from analytics.store.files.backend import DEFAULT_ARCHIVE, parse_location
from quarto.errors import RequestError

if TYPE_CHECKING:
    from types import FrameType

    from omegaconf import DictConfig

    from analytics.report.result import Result
    from runners.arena.execution import RunOutcome
    from runners.config.arguments import CommandArguments

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
    words = [*agents, *map(_format_setting, settings.items()), *overrides]
    folders = [config_dir] if isinstance(config_dir, str | Path) else config_dir
    with _TURN:
        outcome, notes = _play(words, None if archive is None else str(archive), [Path(folder) for folder in folders])
    if outcome.stopped:
        raise KeyboardInterrupt(f"run {outcome.run_id}: finished games are kept, the same call plays the rest")
    return _build_result(outcome, notes)


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

    key, value = setting
    if isinstance(value, str):  # as it is typed
        return f"{key}={value}"
    return f"{key}={format_parameter([*value] if isinstance(value, Sequence) else value)}"


def _play(words: Sequence[str], archive: str | None, folders: Sequence[Path]) -> tuple[RunOutcome, Sequence[str]]:
    """Play what a run lacks; also return remarks on the request."""
    from runners.arena.execution import execute_experiment
    from runners.arena.experiment import prepare_experiment
    from runners.config.arguments import explain_config_errors, parse_arguments
    from runners.config.requests import build_request
    from runners.config.schemas import RunConfig, check_values
    from runners.config.yaml_options import search_user_folders
    from runners.terminal.console import format_shell_line, show_progress_bar

    asked = parse_arguments(words, archive, config_dirs=folders)
    with search_user_folders(folders), explain_config_errors(asked.overrides):
        cfg = _compose(asked)
        check_values(cfg, RunConfig)
        request = build_request(cfg, cfg.hydra.runtime.choices, cfg.hydra.overrides.task)
        experiment = prepare_experiment(request)
        options = [] if archive is None else ["--archive", archive]
        options += [word for folder in folders for word in ("--config-dir", str(folder))]
        command = f"qarena run {format_shell_line([*words, *options])}"
        with _stop_on_interrupt() as stop, show_progress_bar("playing", "games", request.progress) as progress:
            return execute_experiment(experiment, command, stop, progress), request.notes


def _compose(asked: CommandArguments) -> DictConfig:
    """Compose the configuration of a run. Raises ``RequestError`` for words that the command would refuse."""
    from hydra import initialize_config_dir

    from runners.config.execution import check_agent_words, compose_first_job
    from runners.config.schemas import RunConfig
    from runners.config.yaml_options import CONF_FOLDER

    check_agent_words(asked.agents, RunConfig, "run")
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        cfg, _ = compose_first_job("run", asked.overrides, multirun=False)
    if cfg.hydra.mode.name != "RUN":
        raise RequestError("hydra.mode=MULTIRUN is a sweep of several runs: call run for each of them")
    return cfg


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


def _build_result(outcome: RunOutcome, notes: Sequence[str]) -> Result:
    from analytics import open_archive

    with open_archive(outcome.root) as archive:
        result = archive.crosstable(run=outcome.run_id)
    note = " ".join([result.note, *(f"{note[0].upper()}{note[1:]}." for note in [*notes, *outcome.misbehaviour])])
    return replace(result, title=f"Run {outcome.run_id}", run_id=outcome.run_id, note=note.strip())
