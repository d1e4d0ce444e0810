"""Runs, sweeps and tests of strength: ``run``, ``sweep``, ``sprt``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.store.files.backend import parse_location
from analytics.store.texts import format_count_with_noun
from quarto.errors import FailureError
from runners.library.calls import Location, Setting, build_call, check_is_named, format_swept_setting, format_words

if TYPE_CHECKING:
    from agents import BatchAgent, GameAgent, KernelAgent
    from analytics.report.result import Result
    from runners.arena.execution import RunOutcome
    from runners.arena.request import RunRequest
    from runners.arena.sprt import SprtOutcome
    from runners.config.sweep import Job, Sweep


AGENT_KEYS = ("agents", "agent@a", "agent@b", "a", "b", "experiment")  # settings that name agents


def run(
    *agents: str | GameAgent | BatchAgent | KernelAgent | Mapping[str, object],
    archive: Location | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Play a match or a tournament, as ``qarena run`` does, and return the results of each pairing.

    The same call extends the same run: with ``games=4_000`` after ``games=2_000``, only the missing games are played.
    After Ctrl-C, or the notebook's stop button, finished games are kept and ``KeyboardInterrupt`` is raised. Calls from
    several threads run one after the other.

    Args:
        agents: Labels, such as ``"mcts(iterations=200)"``, or objects of your own classes. Two agents play a match,
            more agents play a tournament. Leave them out if an ``experiment`` names them. A run with objects is new at
            each call, and nothing can extend it or play it again, because only this program has the objects. A mapping
            gives an agent a name: ``{"agent": Greedy(), "name": "first"}``, or ``{"agent": "mcts", "iterations": 50,
            "name": "fast"}``.
        archive: The archive, its folder or its URL. Default: ``QARENA_ARCHIVE``, else ``data/archive``.
        overrides: Settings as the command line takes them, such as ``"archive.shard_games=1000"`` or ``"a.depth=2"``.
        config_dir: A folder, or several, with yamls and agents of your own.
        settings: Those settings of the command whose keys have no dot: ``games=2_000``, ``seed=7``, ``rules="square"``.

    Returns:
        The crosstable of the run, as ``Archive.crosstable`` returns it. ``run_id`` is the run's id, and ``note`` has
        warnings.

    Raises:
        RequestError: A setting or an agent is wrong; the message says which.
        FailureError: The archive cannot be written, or an agent forfeits all of its games.

    Examples:
        >>> import tempfile, runners
        >>> result = runners.run("dumb", "random", games=20, progress=False, archive=tempfile.mkdtemp() + "/archive")
        >>> result.frame["games"].to_list()
        [20]

    """
    from runners.arena.execution import execute_experiment
    from runners.arena.experiment import open_experiment
    from runners.config.requests import build_request
    from runners.config.schemas import RunConfig
    from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
    from runners.library.objects import (
        check_no_settings_of_seats,
        describe_objects,
        format_agents_or_one_list,
        format_python_call,
        with_random_salt_and_note,
    )
    from runners.terminal.console import show_progress_bar_or_notes

    setting_words = format_words(settings, overrides)
    check_no_settings_of_seats(agents, setting_words)
    words = [*format_agents_or_one_list(agents), *setting_words]
    call = build_call("run", words, archive, config_dir)
    check_is_named(call.words, AGENT_KEYS, "no agents are named: name two, run('mcts', 'random'), or an experiment")
    with call.compose(RunConfig) as cfg:
        objects, notes = describe_objects(agents, parse_location(cfg.archive.root))
        request = build_request(cfg, cfg.hydra.runtime.choices, cfg.hydra.overrides.task, objects)
        if objects:
            request = with_random_salt_and_note(request)
        experiment = open_experiment(request)
        with (
            stop_on_signal_then_interrupt_then_exit() as stop,
            show_progress_bar_or_notes("playing", "games", request.progress) as progress,
        ):
            command = format_python_call(agents, settings, overrides) if objects else call.command
            outcome = execute_experiment(experiment, command, stop, progress)
    if outcome.stopped and objects:
        raise KeyboardInterrupt(f"run {outcome.run_id}: finished games are kept; another call is another run")
    if outcome.stopped:
        raise KeyboardInterrupt(f"run {outcome.run_id}: finished games are kept, the same call plays the rest")
    return _build_result(outcome, [*request.notes, *notes, *_describe_further_games(outcome, request)])


def sweep(
    *agents: str,
    archive: Location | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Play every combination of values, as ``qarena sweep`` does, and return a row for each job and pairing.

    Pass several values of a setting as a sequence: ``seed=range(1, 5)``. If the key of the setting has a dot, pass them
    as text: ``overrides=["a.iterations=50,100,200"]``. A job carries out one combination. Jobs, run ids, the objective
    (the number by which a run is judged) and the folder ``multirun`` with its logs are the same as with the command.
    The same call plays only what is missing. After Ctrl-C, ``KeyboardInterrupt`` is raised.

    Args:
        agents: Labels, as for ``run``.
        archive: The archive, its folder or its URL. Default: ``QARENA_ARCHIVE``, else ``data/archive``.
        overrides: Settings as the command line takes them, including those of Hydra's launchers and sweepers.
        config_dir: A folder, or several, with yamls and agents of your own.
        settings: Those settings of the command whose keys have no dot.

    Returns:
        The rows of these jobs in the view ``sweeps``, sorted by ``job`` and pairing. Columns: ``sweep_id``, ``job``;
        ``overrides``, a struct of the job's settings, of which ``games`` is called ``games_setting``; ``run_id``;
        ``status`` and ``error``, which say whether the job failed and why; ``objective``, the name of the objective,
        and its ``value``; ``agent_a``, ``agent_b``, ``games``; ``wins``, ``draws`` and ``losses`` of ``agent_a``, and
        its ``win_rate`` and ``score`` (0 to 1) with 95 % intervals (``win_low`` to ``win_high``, ``score_low`` to
        ``score_high``). ``note`` repeats the failures. Printed, the result is the command's table.

    Raises:
        RequestError: A value is wrong, which is found before the first job begins.
        FailureError: All jobs failed.

    Examples:
        >>> import tempfile, runners
        >>> folder = tempfile.mkdtemp()
        >>> jobs = runners.sweep(
        ...     "dumb",
        ...     "random",
        ...     seed=[1, 2],
        ...     games=2,
        ...     progress=False,
        ...     archive=f"{folder}/archive",
        ...     overrides=[f"hydra.sweep.dir={folder}/logs"],
        ... )
        >>> jobs.frame.select("job", "games").rows()
        [(0, 2), (1, 2)]

    """
    from runners.config.application import RUN, Application
    from runners.config.execution import execute_sweep
    from runners.config.recipes import is_training_experiment_chosen

    words = [*agents, *format_words(settings, overrides, format_swept_setting)]
    call = build_call("sweep", words, archive, config_dir)
    check_is_named(
        call.words, AGENT_KEYS, "no agents are named: name two, sweep('mcts', 'random', …), or an experiment"
    )
    application: Application = RUN
    if is_training_experiment_chosen(words):
        from runners.learning.training.application import TRAIN

        application = TRAIN
    arguments = call.parse()
    with call.take_turn_with_config_folders(arguments, application.schema), restore_logging():
        sweep_result, code = execute_sweep(application, arguments)
        jobs = sweep_result.record_failures_and_job_count()
    if (
        any(job.record.status == "interrupted" for job in jobs) or code > FailureError.exit_code
    ):  # a greater code follows a signal
        raise KeyboardInterrupt(
            f"sweep: the games of {format_count_with_noun(len(jobs), 'job')} are kept, the same call plays the rest"
        )
    return _build_sweep_result(sweep_result, jobs)


def sprt(
    *agents: str,
    archive: Location | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | Sequence[str | Path] = (),
    **settings: Setting,
) -> Result:
    """Play two agents until a test decides which is stronger, as ``qarena sprt`` does, and return the verdict.

    After Ctrl-C, ``KeyboardInterrupt`` is raised; the same call continues the test.

    Args:
        agents: Two labels, as for ``run``.
        archive: The archive, its folder or its URL. Default: ``QARENA_ARCHIVE``, else ``data/archive``.
        overrides: Settings as the command line takes them.
        config_dir: A folder, or several, with yamls and agents of your own.
        settings: Those settings of the command whose keys have no dot; ``elo0`` and ``elo1`` are the hypotheses in
            normalised Elo.

    Returns:
        The newest verdict on the run, as one row of the view ``verdicts``. ``accepted`` is ``elo0`` or ``elo1``, or
        null if the test is undecided after all the games that were allowed. ``pairs`` is the number of pairs of games;
        ``ll``, ``ld``, ``dd``, ``wd`` and ``ww`` say how these pairs ended for the first agent (one win and one loss in
        a pair count as ``dd``). ``ratio`` is the log-likelihood ratio; ``normalised_elo`` has a 95 % interval
        (``_low``, ``_high``). ``run_id`` is the run's id.

    Raises:
        RequestError: A setting or an agent is wrong; the message says which.
        FailureError: The archive cannot be written, or an agent forfeits all of its games.

    Examples:
        >>> import tempfile, runners
        >>> root = tempfile.mkdtemp() + "/archive"
        >>> verdict = runners.sprt("semi_random", "random", elo1=50, seed=3, progress=False, archive=root)
        >>> verdict.frame["accepted"].item()
        'elo1'

    """
    from runners.arena.sprt import execute_sprt
    from runners.config.requests import prepare_test
    from runners.config.schemas import SprtConfig
    from runners.hosting.interruption import stop_on_signal_then_interrupt_then_exit
    from runners.terminal.console import show_progress_bar_or_notes

    words = [*agents, *format_words(settings, overrides)]
    call = build_call("sprt", words, archive, config_dir)
    check_is_named(call.words, AGENT_KEYS, "no agents are named: name two, sprt('mcts', 'random'), or an experiment")
    with call.compose(SprtConfig) as cfg:
        test = prepare_test(cfg, cfg.hydra.runtime.choices, cfg.hydra.overrides.task)
        request = test.experiment.request
        with (
            stop_on_signal_then_interrupt_then_exit() as stop,
            show_progress_bar_or_notes("testing", "games", request.progress) as bar,
        ):
            bar.start(request.games)
            outcome = execute_sprt(test, call.command, stop, lambda trial: bar.set_done(2 * trial.pairs))
    if not outcome.trial.ended:
        raise KeyboardInterrupt(f"run {test.experiment.run_id}: games are kept, the same call continues")
    return _build_verdict_result(outcome, request.notes)


def _build_sweep_result(sweep: Sweep, jobs: Sequence[Job]) -> Result:
    """Build the result of a sweep. It has the rows of the jobs, from every archive to which they wrote.

    Raises ``FailureError`` if all jobs failed.
    """
    import polars as pl

    from analytics import open_archive
    from analytics.report.result import Result

    notes = [*sweep.describe_notes_and_failures(jobs), *filter(None, [sweep.describe_best_of_study()])]
    if all(job.record.status == "failed" for job in jobs):
        raise FailureError(notes[0] if notes else "the sweep ended before its first job did")
    frames = []
    for root in dict.fromkeys(job.archive for job in jobs):
        with open_archive(parse_location(root)) as archive:
            numbers = [job.record.job for job in jobs if job.archive == root]
            rows = archive.scan("sweeps").filter(pl.col("sweep_id") == jobs[0].record.sweep_id)
            frames.append(rows.filter(pl.col("job").is_in(numbers)).collect())
    frame = pl.concat(frames, how="diagonal_relaxed").sort("job", maintain_order=True)
    settings = frame["overrides"].struct
    names = [f"{name}_setting" if name in frame.columns else name for name in settings.fields]
    frame = frame.with_columns(settings.rename_fields(names).alias("overrides"))  # so that unnest works
    return Result(" ".join(f"{note}." for note in notes), sweep.build_table(jobs), title="Sweep", frame=frame)


@contextmanager
def restore_logging() -> Iterator[None]:
    """Restore the level and the handlers of the root logger when the context ends, because Hydra replaces them."""
    logger = logging.getLogger()
    level, handlers = logger.level, [*logger.handlers]
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def _build_verdict_result(outcome: SprtOutcome, notes: Sequence[str]) -> Result:
    """Build the result with the newest verdict on the run of a test; ``notes`` are added to the verdict's sentences."""
    from analytics import open_archive
    from analytics.questions.columns import Table, text_column
    from analytics.report.advice import word_for_python
    from analytics.report.result import Result
    from runners.arena.sprt_output import format_sweep_row, format_verdict

    run_id = outcome.experiment.run_id
    with open_archive(outcome.experiment.request.storage.root) as archive:
        frame = archive.scan("verdicts", run_id).sort("created").tail(1).collect()
    row = format_sweep_row(outcome)
    return Result(
        " ".join([*format_verdict(outcome), *map(word_for_python, notes)]),
        Table("", [text_column(heading, [text]) for heading, text in row.items()]),
        title=f"Test of run {run_id}",
        frame=frame,
        run_id=run_id,
    )


def _describe_further_games(outcome: RunOutcome, request: RunRequest) -> list[str]:
    """Return a note if an earlier request gave the run more games than this one asked for, or else an empty list."""
    games = sum(result.games for result in outcome.results)
    requested_games = request.games * len(request.spec.pairings)
    if games <= requested_games:
        return []
    scope = " for each pairing" if len(request.spec.pairings) > 1 else ""
    return [
        (
            f"the run had {format_count_with_noun(games, 'game')} already, and all count: "
            f"games={request.games}{scope} asks for fewer"
        )
    ]


def _build_result(outcome: RunOutcome, notes: Sequence[str]) -> Result:
    """Build the result with a run's crosstable.

    ``Result.note`` contains ``notes`` and a sentence for each way in which an agent forfeited games.
    """
    from analytics import open_archive
    from analytics.report.advice import word_for_python

    with open_archive(outcome.root) as archive:
        result = archive.crosstable(run=outcome.run_id)
    note = " ".join(
        [
            result.note,
            *(f"{note[0].upper()}{note[1:]}." for note in [*map(word_for_python, notes), *outcome.misbehaviour]),
        ]
    )
    return replace(result, title=f"Run {outcome.run_id}", run_id=outcome.run_id, note=note.strip())
