"""Pages of the site that are made when it is built: the command line and the configuration.

MkDocs calls the functions that begin with ``on_`` (``hooks`` of mkdocs.yml). Pages that live elsewhere in the
repository (``ELSEWHERE``) are taken into the site, and links to them are turned.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [path for path in [str(ROOT)] if path not in sys.path]  # mkdocs runs from its own folder

from runners.config.arguments import ConfigKey  # noqa: E402  (found by the line above)
from runners.config.help_page import list_archive_keys, parse_yaml_header, parse_yaml_keys_with_types  # noqa: E402  (found by the line above)
from runners.config.schemas import SCHEMAS  # noqa: E402  (found by the line above)

ELSEWHERE = {
    "data/README.md": "archive_format.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
COMMANDS = """# The command line

Made from the program. `run`, `sweep`, `train`, `sprt` and `policy build` take keys and groups: see
[configuration](configuration.md). What a command is about has no dashes (`compare RUN RUN`); what only selects is an
option (`--run RUN`). A size is `512MiB` or `1GiB`. `--debug` shows the traceback of an error. Exit codes: 0 done,
1 failure, 2 wrong request, 130 interrupted.
"""
CONFIGURATION = """# Configuration

Made from the schemas and from `conf/`. A key is set by `key=value`, an option of a group is chosen by `group=option`
and the keys of what was chosen by `group.key=value`. `run`, `sweep` and `sprt` take agents before them, NAME or
`'NAME(parameter=value,…)'`; a sweep over parameters of agents names them by `agent@a=NAME a.key=1,2,3`. `--help` after
a name explains the keys of that agent. A folder of your own with the same groups is added by `--config-dir`.
"""


def on_startup(command: str, dirty: bool) -> None:  # noqa: ARG001  (by name)
    """Print warnings only. ``--quiet`` would hide them from ``strict`` too."""
    logging.getLogger("mkdocs").setLevel(logging.WARNING)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made or live elsewhere."""
    pages = {target: (ROOT / source).read_text(encoding="utf-8") for source, target in ELSEWHERE.items()}
    del pages["index.md"]
    pages |= {"commands.md": commands_page(), "configuration.md": configuration_page()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001  (by name)
    """Turn links between files of the repository into links between pages."""
    homes = {target: posixpath.dirname(source) for source, target in ELSEWHERE.items() if target != "index.md"}
    folder = posixpath.dirname(page.file.src_uri)
    return turned_links(markdown, homes.get(page.file.src_uri, posixpath.join("docs", folder)), folder)


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001  (by name)
    """Load the script that searches in files from the site, not from another host."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "assets/file_worker.js")


def on_post_template(output_content: str, template_name: str, config: Any) -> str:  # noqa: ARG001  (by name)
    """Turn the links of the page for an address that is not found."""
    return on_post_page(output_content, None, config)


def turned_links(markdown: str, home: str, folder: str = "") -> str:
    """Return the text of a page with links as the site needs them.

    ``home`` is the folder of the page in the repository, ``folder`` that in the site.
    """

    def turned(found: re.Match[str]) -> str:
        target, hash_sign, anchor = found[2].partition("#")
        if "://" in target or not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(home, target))
        page = ELSEWHERE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        link = target if page is None else posixpath.relpath(page, folder or ".")
        return f"{found[1]}{link}{hash_sign}{anchor}"

    return re.sub(r"(\]\(|^\[[^\]]+\]: )([^)\s]+)", turned, markdown, flags=re.MULTILINE)


def commands_page() -> str:
    """All commands with their arguments and options, from the command line itself."""
    import typer

    from runners.cli.main import app

    command: Any = typer.main.get_command(app)
    return "\n".join([COMMANDS, *_commands(command, "qarena")])


def _commands(command: Any, name: str) -> Iterator[str]:
    for sub in command.commands.values():
        full = f"{name} {sub.name}"
        yield from (f"## `{full}`" if hasattr(sub, "commands") else f"### `{full}`", "", _escaped(sub.help or ""), "")
        if hasattr(sub, "commands"):
            yield from _commands(sub, full)
        else:
            yield from _parameters(sub, full)


def _parameters(command: Any, name: str) -> Iterator[str]:
    """Yield the usage line of a command, and a table of its arguments and options."""
    shown = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    arguments = [_metavar(param) for param in shown if param.param_type_name == "argument"]
    yield from ("```text", " ".join([name, *(["[OPTIONS]"] if len(shown) > len(arguments) else []), *arguments]), "```")
    if shown:
        yield from ("", "| argument or option | default | meaning |", "|---|---|---|")
    for param in shown:
        names = _metavar(param) if param.param_type_name == "argument" else ", ".join(param.opts + param.secondary_opts)
        value = param.default
        default = "" if value is None or value is False or callable(value) or value == () else f"`{value}`"
        yield f"| `{names}` | {default} | {_escaped(getattr(param, 'help', None) or '')} |"
    yield ""


def _metavar(param: Any) -> str:
    name = (param.metavar or param.name).upper()
    return name if param.required or name.startswith("[") else f"[{name}]"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def configuration_page() -> str:
    """All keys with their types and meanings, and all groups with their options: what ``--help`` prints."""
    lines = [CONFIGURATION]
    for name, schema in SCHEMAS.items():
        text = (ROOT / "conf" / f"{name}.yaml").read_text(encoding="utf-8")
        said, examples = parse_yaml_header(text)
        keys = list(parse_yaml_keys_with_types(text, schema))
        lines += [f"## `qarena {name.replace('_', ' ')}`", "", said, "", "```", *examples, "```", "", *_keys(keys), ""]
    lines += [
        "## Keys of `archive`",
        "",
        *_keys(list_archive_keys()),
        "",
    ]
    for group in sorted({path.parent for path in (ROOT / "conf").glob("*/*.yaml")}):
        lines += [f"## Group `{group.name}`", ""]
        for path in sorted(group.glob("*.yaml")):
            lines += [f'??? note "{_title(path)}"', "", *(f"    {line}" for line in _yaml(path))]
    return "\n".join(lines)


def _title(path: Path) -> str:
    """Return the name of a yaml and its first comment."""
    comments = re.findall(r"^# *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return ": ".join([path.stem, *comments[:1]]).replace('"', "'")


def _keys(keys: list[ConfigKey]) -> Iterator[str]:
    """Yield a table of keys."""
    yield from ("| key or group | default | values | meaning |", "|---|---|---|---|")
    for key in keys:
        if key.default:
            values = ", ".join(key.choices or filter(None, (key.kind.__name__, key.limits)))
            yield f"| `{key.name}` | `{_escaped(key.default)}` | {values} | {_escaped(key.meaning)} |"


def _yaml(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8").rstrip()
    return ["```yaml", *text.splitlines(), "```", ""]
