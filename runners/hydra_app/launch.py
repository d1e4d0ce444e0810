"""Starting a command that Hydra carries out: its request is checked, then a job of Hydra, or its sweep, begins."""

from __future__ import annotations

import datetime as dt
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import run_job
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig

from quarto.errors import RequestError
from runners.arena.config_groups import CONF, check_option, own_modules
from runners.arena.labels import as_one_text
from runners.hosting.interruption import INTERRUPTED
from runners.hydra_app.application import COMMAND, LAUNCH, Application, Finished, Work, say_how_to_resume, where_typed
from runners.hydra_app.arguments import Arguments, check_choices, explained, first_value
from runners.terminal import console

if TYPE_CHECKING:
    import typer

    from runners.hydra_app.sweep import Sweep

FOLDERS = ("QARENA_CACHE", "QARENA_TABLEBASE")  # environment variables: a launcher's processes may be elsewhere
DROPPED = "what was not committed yet is dropped, all else is in the archive"


def launch(
    application: Application,
    context: typer.Context,
    asked: Arguments,
    multirun: bool = False,
    cfg: str | None = None,
    help: bool = False,  # noqa: A002
) -> int:
    """Let Hydra carry out a command. Returns the exit code.

    Raises ``ArenaError`` with a message of one line for any error.
    """
    command = context.command_path.partition(" ")[2]
    keys = application.schema.__dataclass_fields__
    for word, following in zip(asked.agents, [*asked.agents[1:], "VALUE"], strict=False):
        if word in keys:
            raise RequestError(f"{word!r} is a key: write {word}={following}, without spaces")
        if "agents" not in keys:
            raise RequestError(f"{word!r} is not key=value: 'qarena {command} --help' lists the keys")
    _set_environment()
    with own_modules(asked.config_dirs), explained(asked.overrides):
        if help:
            from runners.hydra_app.help import show_help

            with initialize_config_dir(str(CONF), version_base="1.3"):
                show_help(application, context, asked)
            return 0
        if cfg:
            _hydra(application.config, ["--cfg", cfg, *asked.overrides], lambda _cfg: None)
            return 0
        try:
            return _carried_out(application, asked, multirun or command == "sweep")
        except KeyboardInterrupt:
            return say_how_to_resume(DROPPED)


def _set_environment() -> None:
    """Set the environment variables that jobs read, in this process and in those that a launcher starts."""
    now = dt.datetime.now(dt.UTC).astimezone()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises instead of printing and leaving
    for name in FOLDERS:
        if name in os.environ:
            os.environ[name] = str(Path(os.environ[name]).absolute())
    os.environ[COMMAND] = console.shell_line(sys.argv[1:])
    os.environ[LAUNCH] = f"{now:%Y-%m-%d}/{now:%H-%M-%S}-{uuid.uuid4().hex[:6]}"


def _carried_out(application: Application, asked: Arguments, multirun: bool) -> int:
    """Check a request and carry it out; returns the exit code."""
    for label in asked.agents:
        check_option("agent", label.partition("(")[0].strip())  # before numba and Polars are loaded
    with initialize_config_dir(str(CONF), version_base="1.3"):
        first = _first_job(application.config, asked.overrides, multirun)
        if is_sweep := first.hydra.mode == RunMode.MULTIRUN:
            for cfg in [first, *_with_other_values(application.config, asked.overrides)]:
                application.check(cfg, cfg.hydra)
            target = application.target(first, first.hydra)
        else:
            finished = _single(application.ready(first, first.hydra), first)
    if is_sweep:
        from runners.hydra_app.sweep import Sweep, carry_out  # a single request needs none of it

        sweep = Sweep.of(first, asked, target, application)
        return max(_multirun(application.config, sweep, partial(carry_out, application)), sweep.report())
    finished.show()
    return say_how_to_resume() if finished.interrupted else finished.exit_code


def _first_job(config: str, overrides: Sequence[str], multirun: bool) -> DictConfig:
    """The configuration of a single request, or of a sweep's first job, with Hydra's own under ``hydra``.

    Each setting that varies has the first of its values. Whether it is a sweep is ``hydra.mode`` then, which a yaml may
    set too. Raises ``RequestError`` for several values that are no sweep.
    """
    given = OverridesParser.create().parse_overrides(list(overrides))
    check_choices(config, given)
    cfg = compose(config, overrides=_firsts(given), return_hydra_config=True)
    mode = cfg.hydra.mode
    if multirun and mode == RunMode.RUN:
        raise RequestError("hydra.mode=RUN contradicts a sweep: leave it out, or use the command without -m")
    if not multirun and mode != RunMode.MULTIRUN:
        for each in given:
            if each.is_sweep_override():
                typed = str(each.input_line)
                text = f"; {as_one_text(typed, in_shell=True)}" if " " in typed or "/" in typed else ""
                raise RequestError(f"{typed}: several values are a sweep, qarena sweep … or -m{text}")
        cfg.hydra.mode = RunMode.RUN
        return cfg
    if params := cfg.hydra.sweeper.get("params"):
        more = OverridesParser.create().parse_overrides([f"{key}={value}" for key, value in params.items()])
        cfg = compose(config, overrides=_firsts([*more, *given]), return_hydra_config=True)
    cfg.hydra.mode = RunMode.MULTIRUN
    return cfg


def _with_other_values(config: str, overrides: Sequence[str]) -> Iterator[DictConfig]:
    """The first job's configuration with each other value that the user listed, one at a time."""
    given = OverridesParser.create().parse_overrides(list(overrides))
    for each in given:
        if each.is_choice_sweep():
            for text in [*each.sweep_string_iterator()][1:]:
                others = [other for other in _firsts(given) if not other.startswith(f"{each.get_key_element()}=")]
                other = f"{each.get_key_element()}={text}"
                yield compose(config, [*others, other], return_hydra_config=True)


def _firsts(given: Sequence[Override]) -> list[str]:
    """Overrides that are no sweeps, with the first of their values; of the same key the last."""
    return list({each.get_key_element(): first_value(each) for each in given}.values())


class _Callbacks:
    """Those that a yaml names under ``hydra.callbacks``. One that fails is a warning, as in a sweep."""

    def __init__(self, cfg: DictConfig) -> None:
        self._named = [instantiate(each) for each in (cfg.hydra.callbacks or {}).values()]

    def tell(self, moment: str, **what: Any) -> None:
        """Call a method of each, of the last one first if something ends."""
        for each in reversed(self._named) if moment.endswith("_end") else self._named:
            try:
                getattr(each, moment)(**what)
            except Exception as error:  # noqa: BLE001  (a callback is a stranger's)
                warnings.warn(
                    f"Callback {type(each).__name__}.{moment} raised {type(error).__name__}: {error}", stacklevel=2
                )

    on_job_start = partialmethod(tell, "on_job_start")
    on_job_end = partialmethod(tell, "on_job_end")


def _single(work: Work, cfg: DictConfig) -> Finished:
    """Carry out a request that is ready as a job of Hydra, with its folder and log. Raises what the work raised.

    ``hydra.main`` would compose the configuration twice more: half a second on a slow machine.
    """
    outcome: list[Finished | Exception] = []

    def task(_cfg: DictConfig) -> None:
        try:
            with where_typed():
                outcome.append(work())
        except Exception as error:  # noqa: BLE001  (to one that leaves a task Hydra adds lines of its own)
            outcome.append(error)

    callbacks: Any = _Callbacks(cfg)  # Hydra has no public name for the list of them
    about = {"config": cfg, "config_name": cfg.hydra.job.config_name}
    callbacks.tell("on_run_start", **about)
    hydra_context = HydraContext(GlobalHydra.instance().config_loader(), callbacks)
    done = run_job(task, cfg, "hydra.run.dir", job_subdir_key=None, hydra_context=hydra_context)
    callbacks.tell("on_run_end", **about, job_return=done)
    (found,) = outcome
    if isinstance(found, Exception):
        raise found
    return found


def _multirun(config: str, sweep: Sweep, task: Callable[[DictConfig], Any]) -> int:
    """Let Hydra carry out the jobs of a sweep. Returns an exit code, if the jobs do not tell another one.

    Raises what Hydra raises, if that was before the first job.
    """
    try:
        _hydra(config, ["--multirun", *sweep.overrides], task)
    except KeyboardInterrupt:
        return say_how_to_resume(DROPPED)
    except SystemExit as left:  # of a job that was interrupted
        return left.code if isinstance(left.code, int) else INTERRUPTED
    except Exception as error:
        if not sweep.jobs():  # else jobs failed, and the report names each of them
            sweep.withdraw()
            if sweep.best and not isinstance(error, HydraException):  # of whatever database or sampler it is
                reason = " ".join(str(error).split()).partition(" (Background on")[0]
                raise RequestError(f"hydra/sweeper=optuna cannot begin: {reason}") from error
            raise
    return 0


def _hydra(config: str, arguments: Sequence[str], task: Callable[[DictConfig], Any]) -> None:
    """Let Hydra do a task with these arguments, which it reads from ``sys.argv``."""
    before, sys.argv = sys.argv, ["qarena", *arguments]
    try:
        # A path: as a package, a folder named conf in ``sys.path`` could hide it.
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config)(task)()
    finally:
        sys.argv = before
        HydraConfig.instance().cfg = None  # its folders are not those of a later launch in this process
