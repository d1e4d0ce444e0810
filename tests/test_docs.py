"""Checks of the pages: commands, options, keys, yamls, modules and files exist. Nothing is played."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from quarto.errors import MissingExtraError
from runners.cli.main import app
from runners.config.arguments import parse_arguments
from runners.config.recipes import is_training_experiment_chosen
from runners.config.schemas import SCHEMAS
from runners.config.sweep_values import keep_first_value
from runners.play.levels import find_level_agent
from tests.paths import CONF, ROOT
from tests.runners.conftest import prepared_once

__all__ = ["prepared_once"]  # a fixture
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "data" / "README.md"])
DESIGN_PAGES = sorted(ROOT.glob("docs/design/*.md"))
OTHER_NAMES = {
    "PR_SET_PDEATHSIG",
    "ProcessPoolExecutor",
    "from_x",
    "to_x",
    "with_x",
}  # of Linux, of Python, of no function
COMMANDS: Any = typer.main.get_command(app)


class PageCommand(NamedTuple):
    """A command that a page shows: what follows ``qarena``."""

    page: str
    words: list[str]

    def __str__(self) -> str:
        return f"{self.page}: qarena {shlex.join(self.words)}"


def read_page(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def find_code_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and text of each code block."""
    return re.findall(r"^ *```(\w*)\n(.*?)^ *```$", read_page(page), re.MULTILINE | re.DOTALL)


def split_programs(line: str) -> Iterator[list[str]]:
    """Yield the words after ``qarena`` of each program that a line of shell starts."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if set(token) <= set("|&;<>"):
            if "qarena" in words:
                yield words[words.index("qarena") + 1 :]
            words = []
        else:
            words.append(token)


def find_commands_in_blocks(page: Path) -> Iterator[PageCommand]:
    """Yield the commands of a page's blocks, as a reader would copy them; in a block with output they follow ``$``."""
    for language, block in find_code_blocks(page):
        lines = block.replace("\\\n", " ").splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        for line in typed if language in ("", "sh", "console") else ():
            for words in split_programs(line) if "qarena " in line else ():
                yield PageCommand(str(page.relative_to(ROOT)), words)


def find_commands_in_sentences(page: Path) -> Iterator[PageCommand]:
    """Yield the commands in the sentences of a page; they may leave out arguments."""
    prose = re.sub(r"^ *```.*?^ *```$", "", read_page(page), flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`(qarena\s[^`]+)`", prose):
        for words in split_programs(" ".join(code.split())):
            yield PageCommand(str(page.relative_to(ROOT)), words)


BLOCKS = [shown for page in PAGES for shown in find_commands_in_blocks(page)]
SENTENCES = [shown for page in PAGES for shown in find_commands_in_sentences(page)]


def resolve_command(page_command: PageCommand) -> tuple[list[str], Any, list[str]]:
    """Return the names of a command, the command, and its arguments."""
    command, names, rest = COMMANDS, [], list(page_command.words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"{page_command}: there is no command '{rest[0]}'"
        names.append(rest[0])
        command = command.commands[rest.pop(0)]
    return names, command, rest


def is_hydra(command: Any) -> bool:
    return bool(command.params[0].name == "arguments")


def test_commands_and_options_exist() -> None:
    for page_command in BLOCKS + SENTENCES:
        _, command, arguments = resolve_command(page_command)
        options = {name for option in command.params for name in option.opts + option.secondary_opts}
        options |= {"--help", "--debug"}
        words = {word.partition("=")[0] for word in arguments if re.match(r"--?[a-z]", word)}
        assert words <= options, f"{page_command}: {command.name} has no option {words - options}"


def parse_command(page_command: PageCommand) -> Any:
    names, command, arguments = resolve_command(page_command)
    return command.make_context(" ".join(names), list(arguments))


# Commands that add nothing to the archive they name.
READERS_OF_ARCHIVES = {
    *("archive export", "archive ls", "archive verify", "compare", "crosstable", "evaluations", "first-plies"),
    *(
        "learning-curve",
        "lengths",
        "mistakes",
        "openings",
        "policy judge",
        "policy positions",
        "rate",
        "report",
        "show",
    ),
    "sql",
}


def test_no_page_writes_into_the_sample() -> None:
    for page_command in BLOCKS + SENTENCES:
        if re.search(r"(--archive[ =]|archive\.root=)data/sample", " ".join(page_command.words)):
            assert " ".join(resolve_command(page_command)[0]) in READERS_OF_ARCHIVES, page_command


def test_arguments_are_accepted() -> None:
    for page_command in BLOCKS:
        try:
            parse_command(page_command)
        except Exception as error:  # click has several, none of which names the command
            raise AssertionError(f"{page_command}: {error}") from error


PLUGIN_KEY = re.compile(r"\+?hydra[./]")  # of an override that needs a plugin, which may be missing
# Without those that play nothing, and those with yamls of the reader's own.
HYDRA = [
    shown
    for shown in BLOCKS
    if is_hydra(resolve_command(shown)[1]) and not {"--help", "--counts", "--config-dir"} & {*shown.words}
]


def test_keys_and_the_yamls_they_choose_exist() -> None:
    for page_command in HYDRA:
        arguments = parse_arguments(parse_command(page_command).params["arguments"] or [])
        overrides = [override for override in arguments.overrides if not PLUGIN_KEY.match(override)]
        try:
            for combination in expand_sweep(overrides):
                check_labels("_".join(resolve_command(page_command)[0]), tuple(combination))
        except Exception as error:  # Hydra has several, none of which names the command
            raise AssertionError(f"{page_command}: {error}") from error


def expand_sweep(overrides: list[str]) -> list[list[str]]:
    """Return overrides without sweeps, as many as the longest sweep has values: each value occurs in one of them."""
    parsed_overrides = OverridesParser.create().parse_overrides(overrides)
    texts = [
        [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
        if override.is_discrete_sweep()
        else [keep_first_value(override)]
        for override in parsed_overrides
    ]
    longest = max(map(len, texts), default=1)
    return [[values[min(number, len(values) - 1)] for values in texts] for number in range(longest)]


def compose_config(config: str, overrides: list[str]) -> DictConfig:
    """Compose the configuration of overrides. Hydra refuses keys and options of groups that do not exist."""
    if config in ("run", "sweep"):
        config = "train" if is_training_experiment_chosen(overrides) else "run"
    assert config in SCHEMAS
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config, overrides=overrides)


@cache  # pages show some commands several times
def check_labels(config: str, overrides: tuple[str, ...]) -> None:
    """Check that each agent and kind that a configuration names by a label has a yaml."""
    plain: Any = OmegaConf.to_container(compose_config(config, [*overrides]), resolve=False)
    trainer = plain.get("trainer") or {}
    agents = [plain.get("agents"), *(trainer.get(key) for key in ("agent", "opponent", "opponents", "first"))]
    for group, labels in [*(("agent", value) for value in agents), ("kind", trainer.get("kind"))]:
        for label in labels if isinstance(labels, list) else [labels]:
            if isinstance(label, str):
                check_option(group, label)


def check_option(group: str, label: str) -> None:
    assert (CONF / group / f"{label.partition('(')[0]}.yaml").exists(), f"no {group} {label}"


def test_agents_given_to_other_commands_exist() -> None:
    labels = [
        find_level_agent(page_command.words[1])
        for page_command in BLOCKS
        if page_command.words[0] == "play" and "--config-dir" not in page_command.words
    ]
    labels += [
        page_command.words[page_command.words.index("--turn") + 1]
        for page_command in BLOCKS
        if "--turn" in page_command.words
    ]
    assert labels
    for label in labels:
        check_option("agent", label)


def test_links_and_paths_lead_to_files() -> None:
    for page in [*PAGES, *DESIGN_PAGES]:
        text = read_page(page)
        links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
        assert not {link for link in links if not (page.parent / link).exists()}, page
        paths = set(re.findall(r"`((?:agents|analytics|conf|docs|quarto|runners|tests)/[\w./]+)`", text))
        assert not {path for path in paths if "NAME" not in path and not (ROOT / path).exists()}, page


def test_names_of_code_on_the_pages_for_engineers_occur_in_the_code() -> None:
    packages = [*map(ROOT.joinpath, OURS), CONF]
    files = [
        path for package in packages for ending in ("py", "yaml", "csv", "js") for path in package.rglob(f"*.{ending}")
    ]
    words = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in files)))
    for page in [ROOT / "CONTRIBUTING.md", *DESIGN_PAGES]:
        prose = re.sub(r"^ *```.*?^ *```$", "", read_page(page), flags=re.MULTILINE | re.DOTALL)
        names = {name.rpartition(".")[2] for name in re.findall(r"`([A-Za-z][\w.]*)(?:\(…?\))?`", prose)}
        identifiers = {name for name in names if "_" in name.strip("_") or re.search("[a-z][A-Z]", name)}
        assert identifiers <= words | OTHER_NAMES, page


def test_what_the_code_imports_is_there() -> None:
    for page in PAGES:
        check_imports(page)


def check_imports(page: Path) -> None:
    for language, block in find_code_blocks(page):
        for node in ast.walk(ast.parse(block)) if language == "python" and "import" in block else ():
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
                for alias in node.names:
                    with suppress(MissingExtraError):  # `make test-extras` runs the page that needs it
                        locate(f"{node.module}.{alias.name}")
    for name in re.findall(rf"(?<![\w/])(?:{'|'.join(OURS)})(?:\.[A-Za-z_]\w*)+", read_page(page)):
        if not re.search(r"\.(md|npz|parquet)$|\.NAME\.", name):
            with suppress(MissingExtraError):
                locate(name)


OURS = ("quarto", "agents", "analytics", "runners")


def locate(name: str) -> object:
    """Import the module, or find the member of a module or class, that a dotted name stands for."""
    module, _, member = name.rpartition(".")
    with suppress(ModuleNotFoundError):  # ``pkgutil`` would hide why a module cannot be imported
        parent = importlib.import_module(module)
        return getattr(parent, member) if hasattr(parent, member) else importlib.import_module(name)
    return pkgutil.resolve_name(name)  # a member of a class
