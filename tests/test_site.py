"""The site of docs/ is built without a warning, loads nothing from another host, and shows what the program has."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from runners.cli.main import app
from tests.paths import CONF, ROOT

pytestmark = pytest.mark.extras

CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
LOADED = re.compile(
    r"""(?:src|srcset)=["']?(?:https?:)?//|<link[^>]+href=["']?(?:https?:)?//[^>]*>|url\(["']?https?://"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; warnings, such as for a broken link, fail it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


def read_page(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not [match[0] for match in LOADED.finditer(text) if 'rel="canonical"' not in match[0]], page
    assert (site / "assets/file_worker.js").exists()  # search without a server
    assert (site / "search/search_index.json").stat().st_size > 100_000


def test_a_search_for_install_begins_with_the_page_of_installation(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    assert {entry["location"] for entry in entries if entry.get("boost", 1) > 1 and "#" not in entry["location"]} == {
        "installation.html"
    }


def test_every_page_of_the_folder_is_in_the_navigation(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in CONFIGURATION
        assert (site / f"{page.stem}.html").exists()


def walk_commands(command: Any, name: str = "qarena") -> Iterator[tuple[str, Any]]:
    for sub in getattr(command, "commands", {}).values():
        yield f"{name} {sub.name}", sub
        yield from walk_commands(sub, f"{name} {sub.name}")


def test_every_command_and_option_is_on_its_page(site: Path) -> None:
    page = read_page(site / "commands.html")
    for name, command in walk_commands(typer.main.get_command(app)):
        assert name in page
        for param in command.params:
            if param.param_type_name == "option" and param.name != "help":
                assert ", ".join(param.opts + param.secondary_opts) in page


def test_every_key_and_yaml_is_on_the_page_of_the_configuration(site: Path) -> None:
    page = read_page(site / "configuration.html")
    for path in CONF.glob("*/*.yaml"):
        assert path.stem in page
        assert path.read_text(encoding="utf-8").split("\nhydra:\n")[0].strip().splitlines()[-1].strip() in page
    assert "of each pairing" in page  # the meaning of games=


def test_docstrings_and_pages_from_elsewhere_are_in_the_site(site: Path) -> None:
    for page, names in {
        "reference/quarto": ("Rules", "Position", "quarto.solve"),
        "reference/analytics": ("open_archive", "Archive.crosstable", "RequestError"),
        "reference/agents": ("KernelAgent", "Knowledge"),
        "reference/runners": ("runners.run", "KeyboardInterrupt"),
        "archive_format": ("games", "tallies"),
        "contributing": ("Design decisions",),
        "changelog": ("0.1.0",),
    }.items():
        text = read_page(site / f"{page}.html")
        assert not [name for name in names if name not in text], page


@pytest.mark.parametrize("name", ["first_questions", "strength_and_regret", "tour"])
def test_the_notebooks_run(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs/notebooks" / f"{name}.py")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    assert "semi_random" in done.stdout.decode()  # a script shows its answers, too


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed (apt install chromium)")
@pytest.mark.parametrize("width", [1400, 390])
def test_in_a_browser_the_files_are_searched_and_fit_the_screen(width: int, site: Path) -> None:
    from playwright.sync_api import sync_playwright

    urls: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("request", lambda request: urls.append(request.url))
        for name in ("configuration", "reproduction", "cookbook", "index"):
            page.goto(f"{(site / name).as_uri()}.html")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        page.keyboard.press("/")
        page.keyboard.type("symmetry")
        page.wait_for_selector(".md-search-result__link", state="attached", timeout=60_000)
        assert "solver.html" in str(page.get_attribute(".md-search-result__link", "href"))
        browser.close()
    assert not [url for url in urls if not url.startswith("file:")]
