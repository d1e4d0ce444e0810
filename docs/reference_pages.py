"""The reference of the four packages as Markdown, from docstrings and signatures: `make reference` writes it.

The pages are in the repository, so that they can be read without building the site. A test compares them with the code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
PACKAGES = {  # and the names that are no part of the page, because another package's players need them
    "quarto": ("Piece", "Player", "Quarto", "abstractmethod", "copy", "np"),
    "agents": (),
    "analytics": (),
    "runners": (),
}
INHERITED = {"Archive": ("sql", "scan", "refresh", "fork", "close")}  # methods of a base that is not public
SECTIONS = ("Args", "Returns", "Raises", "Yields", "Examples")
TABLE_HEADINGS = {"Args": "argument", "Raises": "error"}


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for package in PACKAGES:
        (FOLDER / f"{package}.md").write_text(render_page(package), encoding="utf-8")


def render_page(package: str) -> str:
    """Render the page of a package: its docstring, then each public name."""
    module = import_module(package)
    names = [name for name in dir(module) if name not in PACKAGES[package] and name != "__version__"]
    lines = [f"# `{package}`", "", "Made from the docstrings by `make reference`.", ""]
    lines += [*render_docstring(inspect.getdoc(module) or "")]
    for name in names:
        lines += render_name(f"{package}.{name}", getattr(module, name))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def render_name(name: str, value: Any) -> Iterator[str]:
    """Render a function, a class with its methods, or a constant."""
    if inspect.isclass(value):
        yield from _render_class(name, value)
    elif inspect.isfunction(value):
        yield from ("", f"## `{name}`", "", *_render_signature(name, value), *render_docstring(inspect.getdoc(value)))
    else:
        yield from ("", f"## `{name}`", "", f"A constant: `{value!r}`.", "")


def _render_class(name: str, value: type) -> Iterator[str]:
    yield from ("", f"## `{name}`", "")
    if getattr(value, "_is_protocol", False) or not inspect.isfunction(value.__init__):
        fields = getattr(value, "__annotations__", {})
    else:
        yield from _render_signature(name, value, returns=False)
        fields = {} if "__init__" in vars(value) else getattr(value, "__annotations__", {})
    yield from render_docstring(inspect.getdoc(value))
    if fields:
        yield from ("| field | type |", "|---|---|")
        yield from (f"| `{field}` | `{_escape_bars(_format_type(kind))}` |" for field, kind in fields.items())
    for method, function in _list_methods(value):
        if isinstance(function, property):
            yield from ("", f"### `{value.__name__}.{method}`", "", *render_docstring(inspect.getdoc(function)))
        elif doc := inspect.getdoc(function):
            title = f"{value.__name__}.{method}"
            yield from ("", f"### `{title}`", "", *_render_signature(title, function), *render_docstring(doc))


def _list_methods(value: type) -> list[tuple[str, Any]]:
    """List the public methods and properties of a class in the order of its source."""
    own = [(name, each) for name, each in vars(value).items() if not name.startswith("_")]
    own += [(name, getattr(value, name)) for name in INHERITED.get(value.__name__, ())]
    members = [(name, each.__func__ if isinstance(each, classmethod | staticmethod) else each) for name, each in own]
    return [(name, each) for name, each in members if inspect.isfunction(each) or isinstance(each, property)]


def _render_signature(name: str, function: Any, returns: bool = True) -> list[str]:
    """Render the call of a function or class as a block of Python, a parameter a line if it is long."""
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls", "_cls")]
    short = signature.replace(parameters=parameters)
    if not returns:
        short = short.replace(return_annotation=inspect.Signature.empty)
    text = _unquote(str(short))
    if len(name) + len(text) > 100:
        texts, keyword_only = [], False
        for each in parameters:
            if each.kind is each.KEYWORD_ONLY and not keyword_only:
                keyword_only = True
                if not any(other.kind is other.VAR_POSITIONAL for other in parameters):
                    texts.append("*")
            texts.append(_unquote(str(each)))
        end = _unquote(str(short.replace(parameters=[]))).removeprefix("()")
        text = "(\n" + "".join(f"    {line},\n" for line in texts) + f"){end}"
    return ["```python", f"{name}{text}", "```", ""]


def _unquote(text: str) -> str:
    """Remove the quotes of annotations and the modules of names."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"\w*Path\('[^']*'\)", "'data/archive'", text)  # the environment may name another default
    return re.sub(r"<([\w.]+)[^>]*>", r"\1", re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text))


def _format_type(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _escape_bars(text: str) -> str:
    return text.replace("|", r"\|")


def render_docstring(doc: str | None) -> list[str]:
    """Render a docstring in Google's style: its text, then tables of arguments and errors, and examples."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):[ \t]*$", (doc or "").replace("``", "`"), flags=re.MULTILINE)
    lines = [parts[0].rstrip(), ""]
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        text = inspect.cleandoc(body)
        if heading == "Examples":
            lines += ["```pycon", text, "```", ""]
        elif heading in TABLE_HEADINGS:
            lines += [f"| {TABLE_HEADINGS[heading]} | meaning |", "|---|---|"]
            lines += [f"| `{name}` | {_escape_bars(meaning)} |" for name, meaning in _split_entries(text)]
            lines += [""]
        else:
            lines += [f"**{heading}:** {' '.join(text.split())}", ""]
    return lines


def _split_entries(text: str) -> Iterator[tuple[str, str]]:
    """Split ``name: meaning`` entries, whose later lines are indented."""
    for entry in re.split(r"\n(?=\S)", text):
        name, _, meaning = " ".join(entry.split()).partition(": ")
        yield name, meaning


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
