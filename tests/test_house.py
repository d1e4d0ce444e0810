"""The house is in order: what is installed, packaged, imported and said about the project agree."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("quarto", "agents", "analytics", "conf", "runners")
LOCKS = ("requirements-build.lock", "requirements.lock", "requirements-dev.lock", "requirements-extras.lock")
EXTRAS = {
    "rl",
    "openspiel",
    "ray",
    "slurm",
    "optuna",
    "s3",
    "web",
    "docs",
    "notebooks",
}  # those that only `make test-extras` installs
UNLOCKED = {"d3rlpy", "sb3"}  # they need PyTorch, which is 3 GB: `make test-d3rlpy` and `make test-sb3` install them
OF_EXTRAS = {"gymnasium", "open_spiel", "pettingzoo", "pygame", "pyspiel"}  # their modules
SHIPPED = {
    ".py",
    ".csv",
    ".yaml",
    ".sql",
    ".c",
    ".cpp",
    ".css",
    ".html",
    ".js",
    ".json",
    ".md",
    ".parquet",
    ".svg",
    ".pyi",
    ".typed",
}


def read_lock(name: str) -> dict[str, str]:
    """Return the version by distribution in a lock file."""
    text = (ROOT / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\\n]+)", text, re.MULTILINE))


def parse_distribution(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9-]", requirement)[0].lower()


def find_imports(path: Path) -> set[str]:
    """Return the top-level modules that a file imports, wherever in it."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").split(".")[0])
    return modules


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_and_hashes_everything_and_names_no_place(name: str) -> None:
    text = (ROOT / name).read_text()
    requirements = re.sub(r" *#.*", "", text).replace("\\\n", "").split("\n")
    for requirement in filter(str.strip, requirements):
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+ *", requirement)
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links|/\w+/\w+", text)


def test_the_locks_hold_every_declared_dependency_and_agree() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    runtime, development = read_lock("requirements.lock"), read_lock("requirements-dev.lock")
    assert {parse_distribution(line) for line in PROJECT["project"]["dependencies"]} <= runtime.keys()
    declared = {name: {parse_distribution(line) for line in lines} - {"quarto-arena"} for name, lines in extras.items()}
    assert set().union(*(declared[name] for name in declared if name not in EXTRAS | UNLOCKED)) <= development.keys()
    with_extras = read_lock("requirements-extras.lock")
    assert not any(declared[name] & with_extras.keys() for name in UNLOCKED)
    assert set().union(*(declared[name] for name in EXTRAS)) <= with_extras.keys()
    assert {name: development[name] for name in with_extras if name in development}.items() <= with_extras.items()
    assert runtime.items() <= development.items()
    building = {parse_distribution(line) for line in PROJECT["dependency-groups"]["build"]}
    assert {parse_distribution(line) for line in PROJECT["build-system"]["requires"]} < building
    assert building == {*read_lock("requirements-build.lock")}
    assert "pyarrow" not in development


def test_the_core_imports_numpy_numba_and_the_standard_library_only() -> None:
    allowed = {"numpy", "numba", "llvmlite", "quarto"} | set(sys.stdlib_module_names)
    modules_by_path = {path: find_imports(path) - allowed for path in (ROOT / "quarto").rglob("*.py")}
    adapters = [ROOT / "quarto" / "openspiel.py", *(ROOT / "quarto" / "env").glob("*.py")]
    for path in adapters:
        modules_by_path[path] -= OF_EXTRAS
    modules_by_path[ROOT / "quarto" / "solver" / "solution.py"] -= {
        "polars"
    }  # for ``Solution.frame`` alone, when asked
    assert {path: modules for path, modules in modules_by_path.items() if modules} == {}


def test_every_path_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {
        found for found in re.findall(r"`([\w./-]+)`", text) if found.split("/")[0] in {*PACKAGES, "data", "tests"}
    }
    assert len(named) > 40
    assert [path for path in sorted(named) if "NAME" not in path and not (ROOT / path).exists()] == []
    picture = text[text.index("```\nrunners/") : text.index("\nagents/ ")]
    for package in ("runners", "analytics"):
        lines = picture.partition(f"\n{package}/")[2].partition("\nanalytics/")[0].partition("\n")[2]
        found = (*(ROOT / package).glob("*/__init__.py"), *(ROOT / package).glob("[a-z]*.py"))
        names = {path.parent.name if path.name == "__init__.py" else path.stem for path in found}
        assert set(re.findall(r"^  (\w+) ", lines, re.MULTILINE)) == names


def test_no_room_holds_more_than_about_fifteen_files() -> None:
    for package in ("analytics", "runners"):
        for room in (ROOT / package).rglob("__init__.py"):
            assert len([*room.parent.glob("*.py")]) <= 17, room.parent  # with its __init__.py


def test_ci_runs_what_the_makefile_calls_test() -> None:
    assert (ROOT / ".ci/run").read_text().split()[-4:] == ["make", "test", "make", "test-extras"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    rules = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {
        "install",
        "run",
        "test",
        "test-all",
        "test-extras",
        "test-d3rlpy",
        "test-sb3",
        "lint",
        "bench",
        "lock",
        "clean",
    } <= rules


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from copies of what it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", *options, str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_a_wheel_holds_all_code_configuration_and_sql(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in SHIPPED}
    assert packed == {path.relative_to(ROOT).as_posix() for path in sources}
    assert {"conf/__init__.py", "quarto/rules.py"} <= packed


@pytest.mark.slow
def test_an_installed_wheel_does_the_main_things_in_a_folder_of_its_own(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "own"], check=True, timeout=60)
    python = tmp_path / "own/bin/python"
    home = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.strip()
    options = ["--quiet", "--no-deps", "--no-index", "--target", home]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True, timeout=120)
    libraries = sysconfig.get_path("purelib")
    Path(home, "libraries.pth").write_text(f"{libraries}\n")  # what the lock file installs; our packages come first
    for command, expected in (
        (["--version"], "qarena 0.1.0"),
        (["run", "rule_based", "random", "games=200"], "200 games"),
        (["sql", "SELECT count(*) AS games FROM games"], "200"),
        (["crosstable"], "rule_based"),
        (["rate"], "Ratings in Elo"),
        (["annotate", "--from-pieces", "10"], "games"),
        (["mistakes"], "Worst mistakes"),
        (["puzzles", "play"], "Puzzle 1 of 300"),
        (["policy", "build", "kind=gift", "name=mine"], "mine"),
        (["policy", "judge", "random", "--games", "0"], "12,697 positions"),
        (["report", "--output", "report.html"], "report.html"),
        (["agents", "new", "corner"], "corner"),
        (["archive", "verify"], "no problems"),
    ):
        code = "import sys; sys.argv[0] = 'qarena'; from runners.cli.start import main; sys.exit(main())"
        done = subprocess.run(
            [python, "-c", code, *command],
            check=False,
            cwd=tmp_path,
            input="",
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert expected in done.stdout + done.stderr, (command, done.stdout)


# Names that are no verb phrase although they are the whole name of a function: what a participle does is hidden.
PARTICIPLE = re.compile(
    r"_*(?:[a-z]{3,}ed|made|found|told|said|shown|known|held|kept|left|sent|drawn|given|taken|chosen)"
)
OF_OTHERS = {"modified"}  # an interface of fsspec


def test_functions_are_named_by_verbs_and_each_class_name_stands_for_one_thing() -> None:
    trees = [
        ast.parse(path.read_text(encoding="utf-8")) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    acting = {
        node.name
        for node in functions
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    assert {name for name in acting if PARTICIPLE.fullmatch(name)} <= OF_OTHERS
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    assert sorted(name for name in {*classes} if classes.count(name) > 1) == []


COUNTED_NOUNS = (
    "agents boards codes columns decisions episodes figures games genes groups jobs lines moves openings pairings "
    "pairs plies policies positions ranges records rows runs seeds settings steps tables turns units workers"
).replace(" ", "|")  # not pieces, which are also a size: "from 6 pieces on"
# A plural directly behind a value, or after one adjective; but "games a second" is a speed.
PLURAL_AFTER_VALUE = re.compile(
    rf" (?:(?:more|such|other|old|[a-z]+(?:ed|al|ent)) )?(?:{COUNTED_NOUNS})\b(?! a second)"
)
NOT_ONE = re.compile(r"(?:\w+\.)*_?[A-Z][A-Z0-9_]*|[2-9] \* .*|format_\w+\(.*")  # constants, multiples, finished texts
GROUP = re.compile(r"\bof (?:the |its )?$")  # "the first 5 of 7 rows"
NO_COUNTS = {
    "runners/cli/games.py": "agents check",
    "analytics/report/text_tables.py": "Left out to fit",
    "runners/hosting/guarded_agent.py": "has forfeited all its first",  # never one game, and it imports no analytics
}


def list_counts_with_fixed_plural(tree: ast.AST, no_count: str = "\0") -> list[int]:
    """Return the lines of f-strings, but those with the text ``no_count``, in which a plural follows any number."""
    lines = []
    for text in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        parts = text.values
        for before, value, after in zip([ast.Constant(""), *parts], parts, parts[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                in_group = isinstance(before, ast.Constant) and GROUP.search(str(before.value))
                may_be_one = value.conversion == -1 and not NOT_ONE.fullmatch(ast.unparse(value.value))
                plural = PLURAL_AFTER_VALUE.match(str(after.value))
                if may_be_one and plural and not in_group and no_count not in ast.unparse(text):
                    lines.append(text.lineno)
    return lines


def test_a_count_agrees_with_its_noun() -> None:
    """No f-string prints "1 games": ``format_count_with_noun`` chooses the form of the noun."""
    assert list_counts_with_fixed_plural(ast.parse("f'{n:,} games', f'{n} more rows', f'of {n} runs'")) == [1, 1]
    assert not list_counts_with_fixed_plural(ast.parse("f'{pace} games a second', f'{MAX} rows', f'{run_id!r} runs'"))
    problems = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        lines = list_counts_with_fixed_plural(ast.parse(path.read_text(encoding="utf-8")), NO_COUNTS.get(name, "\0"))
        problems += [f"{name}:{line}: use format_count_with_noun" for line in lines]
    assert not problems
