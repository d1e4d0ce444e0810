"""The command line in the process of the tests: fast, isolated, with its output and exit code."""

from __future__ import annotations

import copy
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest
import yaml
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides, create_defaults_list
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig
from omegaconf._utils import get_yaml_loader

from runners.cli import main
from runners.config import yaml_options
from runners.config.yaml_options import CONF_FOLDER
from runners.hosting import interruption
from runners.hosting.interruption import SIGNALS


class Result(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one line that a wrong request costs."""
        assert (self.code, self.out) == (2, "")
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        return self.err


Qarena = Callable[..., Result]


@pytest.fixture(scope="session", autouse=True)
def prepared_once() -> Iterator[None]:
    """Apply ``prepare_once`` to all tests of the session."""
    with prepare_once():
        yield


@contextmanager
def prepare_once() -> Iterator[None]:
    """Share between commands of this process what each would prepare anew: half of the time of a short command.

    A configuration file is read once, and Hydra's store of schemas, which commands only read, is not copied for each
    composition. What Hydra makes of the same options of groups is made once: values are set in a copy.
    """
    load = yaml.load

    @cache
    def parse_text(text: str) -> Any:
        return load(text, Loader=get_yaml_loader())

    def load_once(stream: str | IO[str], Loader: Any) -> Any:  # noqa: N803
        if isinstance(stream, str):
            return load(stream, Loader=Loader)
        try:
            return copy.deepcopy(parse_text(stream.read()))
        except yaml.YAMLError:
            stream.seek(0)
            return load(stream, Loader=Loader)  # whose message names the file

    join = ConfigLoaderImpl._compose_config_from_defaults_list
    defaults_by_key: dict[Any, DefaultsList] = {}
    configs_by_key: dict[Any, DictConfig] = {}

    def find_once(
        repo: IConfigRepository, config_name: str, overrides_list: list[Override], *others: Any, **more: Any
    ) -> DefaultsList:
        parsed_overrides = Overrides(repo, overrides_list)
        options = parsed_overrides.override_choices, parsed_overrides.append_group_defaults, parsed_overrides.deletions
        key = (list_searched_folders(repo), config_name, repr(options), *others, *more.values())
        if key not in defaults_by_key or not key[0]:
            defaults_by_key[key] = create_defaults_list(repo, config_name, overrides_list, *others, **more)
        return replace(defaults_by_key[key], config_overrides=parsed_overrides.config_overrides)

    def join_once(loader: ConfigLoaderImpl, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        key = list_searched_folders(repo), repr(defaults)
        if key not in configs_by_key or not key[0]:
            configs_by_key[key] = join(loader, defaults, repo)
        return copy.deepcopy(configs_by_key[key])

    read = yaml_options._load_option_yaml
    options_by_path: dict[str, ConfigResult] = {}

    def read_once(group: str, name: str) -> ConfigResult:
        path = f"{group}/{name}"
        if yaml_options._find_source(path).path != str(CONF_FOLDER):
            return read(group, name)
        if path not in options_by_path:
            options_by_path[path] = read(group, name)
        return options_by_path[path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_options, "_load_option_yaml", read_once)
        patch.setattr(config_loader_impl, "create_defaults_list", find_once)
        patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", join_once)
        patch.setattr(yaml, "load", load_once)
        patch.setattr(ConfigStore, "__deepcopy__", lambda self, _: self, raising=False)
        yield


def list_searched_folders(repo: IConfigRepository) -> str:
    """List the folders in which Hydra looks for configuration files; none if tests may write files there."""
    places = [(source.scheme(), source.path) for source in repo.get_sources()]
    return repr(places) if all(scheme != "file" or path == str(CONF_FOLDER) for scheme, path in places) else ""


HANDLERS_OF_HYDRA = (logging.FileHandler, logging.StreamHandler)


@pytest.fixture(autouse=True)
def handlers_that_others_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep logging's handlers from Hydra, which closes all before it makes its own, and Hydra's from later tests.

    That of absl, which OpenSpiel imports, would close the stream it was made for: pytest's. Those of Hydra open a file
    at the first message, when its folder is gone, and write to the stream of a test that has ended.
    """
    monkeypatch.setattr(logging, "_handlerList", [])
    yield
    for handler in [handler for handler in logging.getLogger().handlers if type(handler) in HANDLERS_OF_HYDRA]:
        logging.getLogger().removeHandler(handler)
        handler.close()


@pytest.fixture(autouse=True)
def no_first_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep work from printing what it is after half a second, because which work takes so long is chance."""
    monkeypatch.setattr("runners.terminal.console.FIRST_NOTE_SECONDS", 60.0)


@pytest.fixture
def qarena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Qarena:
    """Run ``qarena …`` in an empty folder, as often as a test likes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("set_threshold", "freeze"):  # the tests of one process share the collector
        monkeypatch.setattr(gc, name, lambda *_: None)
    monkeypatch.setattr(
        main.CompilingNotice, "print_on_standard_error", lambda _notice, _text: None
    )  # which test compiles first is chance
    # A test of strength may end while a thread still plays its last block: a program then leaves at once, tests do not.
    monkeypatch.setattr(interruption, "has_abandoned_threads", lambda: False)
    root = logging.getLogger()
    before, handlers = (root.level, list(root.handlers)), {number: signal.getsignal(number) for number in SIGNALS}

    def run(*arguments: str) -> Result:
        monkeypatch.setattr("sys.argv", ["qarena", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main.main()
        for handler in set(root.handlers) - set(before[1]):
            handler.close()
        root.handlers[:] = before[1]
        root.setLevel(before[0])
        for number, own in handlers.items():  # a command that was interrupted leaves one that does nothing
            signal.signal(number, own)
        return Result(int(exit_info.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a set of a few late positions."""
    from analytics.exact.position_set import build_origin_without_digest, encode_position_set
    from analytics.store.archive import ArchiveStore
    from quarto.rules import CLASSIC
    from runners.exact.verdicts import PositionSetOptions, build_position_frame
    from tests.paths import SAMPLE

    frame = build_position_frame(
        ArchiveStore.open(SAMPLE), PositionSetOptions(CLASSIC, positions_per_source=8, piece_counts=(11, 13))
    )
    path = tmp_path_factory.mktemp("sets") / "small.parquet"
    path.write_bytes(encode_position_set(frame, build_origin_without_digest(CLASSIC, 2026, 8)))
    return path
