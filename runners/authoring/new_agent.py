"""``qarena agents new``: a new agent with its yaml and its test, ready to be played and then changed."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from quarto.errors import FailureError, RequestError, suggest_valid_names
from quarto.sources import find_module_spec
from runners.authoring import templates
from runners.config.yaml_options import list_options

INTERFACES = {
    "choose": "choose(position, rng), one position at a time, in plain Python",
    "play": "play(batch, rng), many positions at once, with NumPy or PyTorch",
    "kernel": "a jitted function, millions of games a second",
}
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,39}")
TEMPLATE_FOLDER = Path(str(templates.__file__)).parent
TEMPLATE_CLASS = re.compile(rf"({'|'.join(map(str.title, INTERFACES))})?Template")  # the yaml leaves out the interface


def create_and_describe_agent_files(name: str, interface: str, folder: Path) -> dict[Path, str]:
    """Write the module, the yaml and the test of a new agent into a folder.

    Returns a description of each file, keyed by its path. Raises ``RequestError`` if ``name`` is not allowed or if one
    of the files exists; nothing is then written. Raises ``FailureError`` if a file cannot be written.
    """
    if interface not in INTERFACES:
        raise RequestError(f"--interface {interface} does not exist{suggest_valid_names(interface, INTERFACES)}")
    files = {
        folder / f"{name}.py": (f"{interface}.py", f"the agent: {INTERFACES[interface]}"),
        folder / "agent" / f"{name}.yaml": ("template.yaml", "its description, and the defaults of its parameters"),
        folder / f"test_{name}.py": ("test_template.py", "its test"),
    }
    _check_name(name)
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"--config-dir {folder} is not a folder: name one, or a new one")
    for path in files:
        if path.exists():
            raise RequestError(f"{path} exists already: choose another name, or remove it")
    if find_module_spec(name) is not None:
        raise RequestError(f"'{name}' is the name of a Python module that is installed: choose another name")
    try:
        (folder / "agent").mkdir(parents=True, exist_ok=True)
        for path, (template, _) in files.items():
            text = (TEMPLATE_FOLDER / template).read_text(encoding="utf-8")
            text = TEMPLATE_CLASS.sub(format_class_name(name), text).replace("template", name)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FailureError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    return {path: description for path, (_, description) in files.items()}


def _check_name(name: str) -> None:
    """Raise ``RequestError`` if ``name`` cannot be the name of a new agent.

    The name must be valid for a Python module, be read as text by YAML and on the command line, and not be the name of
    an agent.
    """
    if not NAME_PATTERN.fullmatch(name) or keyword.iskeyword(name):
        raise RequestError(
            f"{name!r} cannot be the name of an agent and its module: a small letter, then at most 39 small letters, "
            "digits and '_', and no word of Python"
        )
    if keyword.iskeyword(format_class_name(name)) or name == "none" or _is_parsed_as_other_type(name):
        raise RequestError(f"'{name}' is not read as text in a yaml or on the command line: choose another name")
    if name in list_options("agent"):
        raise RequestError(f"'{name}' is an agent already: choose another name")


def _is_parsed_as_other_type(name: str) -> bool:
    """Return whether YAML or Hydra would read a name as something other than text, such as ``true`` or ``null``."""
    parsed_value = OverridesParser.create().parse_override(f"key={name}").value()
    return parsed_value != name or OmegaConf.to_container(OmegaConf.create(f"key: {name}")) != {"key": name}


def format_class_name(name: str) -> str:
    """Convert an agent's name to the name of its class, for example ``corner_first`` to ``CornerFirst``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
