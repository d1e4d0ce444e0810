"""Errors of Hydra and OmegaConf about the command line as messages of one line, with the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from quarto.errors import FailureError, RequestError, how_to_install, nearest
from runners.arena.config_groups import flat, plain
from runners.hydra_app.flags import config_dirs

# Our extra that installs an option of Hydra's groups.
EXTRAS = {
    ("hydra/launcher", "joblib"): "joblib",
    ("hydra/launcher", "ray"): "ray",
    ("hydra/launcher", "submitit_local"): "slurm",
    ("hydra/launcher", "submitit_slurm"): "slurm",
    ("hydra/sweeper", "optuna"): "optuna",
}


Keys = Callable[[str, Sequence[str]], list[str]]  # the keys to suggest, given an unknown key and all arguments


@contextmanager
def explained(command: str, arguments: Sequence[str], keys: Keys) -> Iterator[None]:
    """Raise ``RequestError`` with a message of one line for errors of Hydra and OmegaConf inside the context.

    ``command`` is the command's name, ``keys`` returns the keys to suggest for an unknown one. Raises ``FailureError``
    for a file that cannot be written; other exceptions pass through.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise RequestError(_one_line(error, command, arguments, keys)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise FailureError(f"cannot write {error.filename}: {error.strerror}") from error
    except Exception as error:
        if not _raised_in_reading(error):
            raise
        raise RequestError(_one_line(error, command, arguments, keys)) from error


def _one_line(error: BaseException, command: str, arguments: Sequence[str], keys: Keys) -> str:
    """The message of a configuration error, with a suggestion if a name is unknown."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    text = " ".join(" ".join(str(each).split()) for each in causes)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, error.options or ())
    if unknown := re.search(r"Could not override '([^']+)'", text):
        return f"key {unknown[1]!r} does not exist{nearest(unknown[1], keys(unknown[1], arguments))}"
    if setting := re.fullmatch(r"Error merging override (.*)", str(error)):
        return f"{setting[1]}: {_reason(setting[1], text)}"
    if chosen := re.search(r"hydra\.runtime\.choices\.(\S+)", text):
        return f"{chosen[1]} takes one name, {chosen[1]}=NAME: 'qarena {command} --help' lists them"
    if "Config group override must be a string" in text:
        return f"a group takes one name, as in rules=classic: 'qarena {command} --help' lists them"
    if isinstance(error, OverrideParseException):
        return f"{error.override!r} cannot be read: {_advice(error.override, ' '.join(str(error).split()))}"
    return " ".join(str(error).split()).split(" See https")[0]


def _missing(file: str, options: Sequence[str]) -> str:
    """The message that an option of a group does not exist, or is not installed."""
    group, _, name = file.removesuffix(".yaml").rpartition("/")
    if (group, name) in EXTRAS:
        return f"{group}={name} needs an extra: {how_to_install(EXTRAS[group, name])}"
    return f"{group or 'config'} {name!r} does not exist{nearest(name, options)}"


def _reason(setting: str, text: str) -> str:
    """The reason why a value does not fit its key, from the text of OmegaConf's error."""
    key, _, value = setting.lstrip("+").partition("=")
    if kind := re.search(r"(?:could not be converted to|is not a valid) (\w+)", text):
        return f"{value!r} is not {_KINDS.get(kind[1], kind[1])}"
    if "ListConfig" in text:
        return f"{value!r} is not a list, {key}=[…,…]"
    if "not Optional" in text:
        return "it must have a value"
    return text.partition(" full_key")[0].removeprefix(f"Error merging override {setting} ")


_KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def _advice(override: str, text: str) -> str:
    """Advice on an override that Hydra's grammar rejects."""
    if function := re.search(r"Unknown function '([^']+)'", text):
        return f"""write {function[1]}(…) in quotes of its own: agents='[random,"{function[1]}(parameter=value)"]'"""
    if "=" not in override:
        return "it is not key=value"
    if override.startswith("where="):
        return f'give a condition as an option, --where "{override.removeprefix("where=")}"'
    if "=~" in override:
        return "the shell does not expand '~' there; write $HOME"
    return text.partition(" See https")[0] + "; quote brackets and spaces for the shell"


def _raised_in_reading(error: BaseException) -> bool:
    """Whether code of Hydra or YAML raised the error: they could not parse an argument or a file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(("hydra.", "yaml."))


def own_settings(group: str, option: str, arguments: Sequence[str]) -> list[str]:
    """The keys of an option in the user's ``--config-dir``, read as a file: Hydra no longer searches there."""
    for folder in config_dirs(arguments):
        path = folder / f"{group}/{option}.yaml"
        if path.is_file():
            return [key for key, _ in flat(plain(cast("DictConfig", OmegaConf.load(path))))]
    return []
