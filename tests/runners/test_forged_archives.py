"""Received archives whose records, cards, jobs and verdicts are forged: no question to them starts code or obeys texts.

Checksums, ids and names of folders are made again, so that only what a record says is wrong.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from analytics.store.records import CHECKSUM, add_checksum, compute_run_id
from analytics.store.texts import escape_hidden
from tests.audit import starts_program, watch_events
from tests.runners.conftest import Qarena, Result

MARK = "PWNED"
PROGRAM = ["sh", "-c", f"id > {MARK}"]
CHILD: tuple[Any, dict[str, Any]] = (
    "runners.hosting.subprocess_client.Subprocess",
    {"served": "x:y", "setup": None, "program": PROGRAM},
)
ENGINE: dict[str, Any] = {
    "label": "e",
    "target": "runners.engines.agent.Engine",
    "params": {"command": f"sh -c 'id > {MARK}'"},
}
HOSTILE: dict[str, tuple[Any, dict[str, Any]]] = {
    "child": CHILD,
    "engine's process": ("runners.hosting.engines.process.EngineProcess", {"command": PROGRAM}),
    "engine": (ENGINE["target"], ENGINE["params"]),
    "player of a folder": ("runners.polito.agent.Polito", {"folder": ".", "player": "evil.Evil"}),
    "folder": ("tempfile.TemporaryDirectory", {"suffix": MARK, "dir": "."}),
    "popen": ("subprocess.Popen", {"args": PROGRAM}),
    "table": ("deltalake.DeltaTable", {"table_uri": "."}),
    "isolated agent": (
        "runners.hosting.limited_agents.IsolatedAgent",
        {"label": "x", "target": "subprocess.Popen", "params": {"args": PROGRAM}, "policy": None, "limits": None},
    ),
    "person": ("runners.play.Human", {}),
    "imported player": ("analytics.exchange.importing.ImportedPlayer", {}),
    "trainer": ("runners.training.genetic.Ga2Trainer", {}),
    "executor": ("runners.executors.processes.Processes", {}),
    "module": ("agents.random", {}),
    "nothing": ("", {}),
    "number": (7, {}),
    "mapping": ({"_target_": "subprocess.Popen", "args": PROGRAM}, {}),
}
IN_CARDS = ("child", "engine", "folder", "popen", "isolated agent", "trainer", "mapping")
TEXTS = {
    "markup": "a[/bold]b",
    "link": "[link=http://example.org]classic[/link]",
    "escape": "\x1b]0;title\x07\x1b[31mred",
    "line": "classic\nerror: fake",
    "carriage return": "classic\rerror: fake",
    "direction": "\u202eevil\u2066",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "formula": "=cmd|'/c calc'!A0",
    "c1": "a\x9b31mb",
    "separator": "a\u2028error: fake",
    "no width": "ran\u200bdom",
    "mark": "\ufeffrandom",
    "tag": "a\U000e0041b",
    "interpolation": "${oc.env:HOME}",
    "template": "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "path": "../../../etc/passwd",
    "sql": "x'); DROP TABLE runs; --",
    "long": "x" * 300_000,
    "surrogate": "a\ud800b",
    "emoji": ":warning: a",
}

Forge = Callable[[Path], None]


def put(values: Any, *keys: Any, value: Any) -> None:
    """Put a value at a path of keys; with the last key ``"="`` the key before it is renamed."""
    *outer, last = keys[:-1] if keys[-1] == "=" else keys
    for key in outer:
        values = values[key]
    if keys[-1] == "=":
        values[value] = values.pop(last)
    else:
        values[last] = value


def write(path: Path, values: dict[str, Any]) -> None:
    values.pop(CHECKSUM, None)
    path.write_text(json.dumps(add_checksum(values)))


def find_first_run(root: Path) -> Path:
    """Return the record of the run of eight games, of ``random`` against ``rule_based``."""
    return next(path for path in root.glob("runs/*.json") if json.loads(path.read_bytes())["command"].count("games=8 "))


def forge_run(*keys: Any, value: Any) -> Forge:
    """Change the record of the run, with its id and all that names it."""

    def forge(root: Path) -> None:
        path = find_first_run(root)
        record = json.loads(path.read_bytes())
        put(record, *keys, value=value)
        old, new = path.stem, compute_run_id(record["spec"])
        record["run_id"] = new
        write(path, record)
        for path_of_run in sorted(root.rglob(f"*{old}*"), reverse=True):
            path_of_run.rename(path_of_run.with_name(path_of_run.name.replace(old, new)))
        for other in (*root.glob("sweeps/*/*.json"), *root.glob("policies/*/card.json"), *root.glob("verdicts/*/*")):
            write(other, json.loads(other.read_text().replace(old, new)))

    return forge


def forge_file(pattern: str, *keys: Any, value: Any) -> Forge:
    """Change the first record of a pattern."""

    def forge(root: Path) -> None:
        path = min(root.glob(pattern))
        record = json.loads(path.read_bytes())
        put(record, *keys, value=value)
        write(path, record)

    return forge


def forge_card_of(name: str) -> Callable[..., Forge]:
    def forge_card(*keys: Any, value: Any) -> Forge:
        def forge(root: Path) -> None:
            path = next(p for p in root.glob("policies/*/card.json") if json.loads(p.read_bytes())["name"] == name)
            card = json.loads(path.read_bytes())
            put(card, *keys, value=value)
            write(path, card)

        return forge

    return forge_card


def nest_agent(agent: dict[str, Any], depth: int) -> dict[str, Any]:
    for _ in range(depth):
        agent = {"label": "oracle", "target": "agents.oracle.Oracle", "params": {"horizon": 4, "below": agent}}
    return agent


FIELDS: dict[str, Callable[[str], Forge]] = {
    "rules": lambda text: forge_run("spec", "rules", "name", value=text),
    "label": lambda text: forge_run("spec", "agents", 0, "label", value=text),
    "target": lambda text: forge_run("spec", "agents", 0, "target", value=text),
    "parameter": lambda text: forge_run("spec", "agents", 1, "params", "faithful", value=text),
    "name of a parameter": lambda text: forge_run("spec", "agents", 1, "params", text, value=1),
    "salt": lambda text: forge_run("spec", "salt", value=text),
    "key of a spec": lambda text: forge_run("spec", text, value=1),
    "imported event": lambda text: forge_run("spec", "imported", value={"event": text, "date": text, "sha256": text}),
    "version": lambda text: forge_run("code", "version", value=text),
    "fingerprint": lambda text: forge_run("code", "fingerprint", value=text),
    "agent's code": lambda text: forge_run("code", "agents", text, value="0"),
    "command": lambda text: forge_run("command", value=text),
    "date": lambda text: forge_run("created", value=text),
    "status": lambda text: forge_run("status", value=text),
    "setting": lambda text: forge_file("sweeps/*/0.json", "overrides", "seed", value=text),
    "name of a setting": lambda text: forge_file("sweeps/*/0.json", "overrides", "seed", "=", value=text),
    "error": lambda text: forge_file("sweeps/*/0.json", "error", value=text),
    "objective": lambda text: forge_file("sweeps/*/0.json", "objective", value=text),
    "kind": lambda text: forge_card_of("gift")("kind", value=text),
    "policy": lambda text: forge_card_of("gift")("name", value=text),
    "trainer's name": lambda text: forge_card_of("gift")("learned", "trainer", value=text),
    "where": lambda text: forge_card_of("gift")("learned", "where", value=text),
    "parameter of a kind": lambda text: forge_card_of("gift")("learned", "derivation", "parameters", text, value=1),
    "card's rules": lambda text: forge_card_of("gift")("rules", "name", value=text),
    "gene": lambda text: forge_card_of("online")("parameters", text, value=1.0),
    "verdict's command": lambda text: forge_file("verdicts/*/*.json", "command", value=text),
}


def list_targets() -> Iterator[tuple[str, Forge]]:
    """List forgeries that name classes, each where an archive can name one."""
    for name, (target, params) in HOSTILE.items():
        agent = {"label": "x", "target": target, "params": params}
        yield f"agent: {name}", forge_run("spec", "agents", 0, value={**agent, "label": "random"})
        yield f"below: {name}", forge_run("spec", "agents", 0, value={**nest_agent(agent, 1), "label": "random"})
        if name not in IN_CARDS:
            continue
        settings = {"_target_": target, **params}
        yield f"kind: {name}", forge_card_of("gift")("learned", "derivation", "parameters", value=settings)
        yield f"learner: {name}", forge_card_of("online")("learned", "parameters", "learner", value=settings)
        yield f"trainer: {name}", forge_card_of("online")("learned", "parameters", value=settings)


OTHERS: dict[str, Forge] = {
    "nested engine": forge_run("spec", "agents", 0, value={**nest_agent(ENGINE, 5), "label": "random"}),
    "nested deeply": forge_run("spec", "agents", 0, value={**nest_agent(ENGINE, 200), "label": "random"}),
    "agent that is trusted": forge_run("spec", "agents", 0, value={**ENGINE, "label": "random", "trusted": True}),
    "agent inside that is trusted": forge_run(
        "spec", "agents", 0, value={**nest_agent({**ENGINE, "trusted": True}, 1), "label": "random"}
    ),
    "player in place": forge_run("spec", "agents", 0, "player", value=ENGINE),
    "limits": forge_run("spec", "agents", 0, "limits", value={"isolation": "process", "megabytes": 1}),
    "limits of another type": forge_run("spec", "agents", 0, "limits", value=7),
    "files": forge_run("spec", "agents", 0, "files", value={"x": "/etc/passwd"}),
    "parameters of another type": forge_run("spec", "agents", 0, "params", value=["x"]),
    "policy id": forge_run("spec", "agents", 0, "policy_id", value="../../x"),
    "infinite seconds": forge_run("seconds", value=float("inf")),
    "no number of seconds": forge_run("seconds", value=float("nan")),
    "openings": forge_run("spec", "opening_plies", value=1 << 40),
    "seed": forge_run("spec", "seed", value=(1 << 63) - 1),
    "rules of another type": forge_run("spec", "rules", "diagonals", value=["main"]),
    "unknown rules": forge_run("spec", "rules", "colour", value=1),
    "date without a zone": forge_run("created", value="2026-11-27"),
    "agents' code of another type": forge_run("code", "agents", value=7),
    "modules of another type": forge_run("code", "modules", value=[[["x"]]]),
    "extended by": forge_run("code", "extended_by", value={"x": 1}),
    "trusted learner": forge_card_of("online")("learned", "parameters", "trusted", value=True),
    "infinite gene": forge_card_of("online")("parameters", "a", value=float("inf")),
    "card's date without a zone": forge_card_of("gift")("created", value="2026-11-27"),
    "checksums of another type": forge_card_of("gift")("learned", "checksums", value=7),
    "command of another type": forge_card_of("gift")("learned", "command", value=7),
    "infinite value": forge_file("sweeps/*/0.json", "value", value=float("inf")),
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("archive", "verify"),
    ("archive", "replay", "RUN"),
    ("archive", "ls"),
    ("policy", "rebuild", "gift"),
    ("policy", "rebuild", "online"),
    ("policy", "ls"),
    ("policy", "show", "gift"),
    ("sql", "SELECT * FROM runs"),
    ("sql", "SELECT * FROM sweeps"),
    ("sql", "SELECT * FROM policies"),
    ("sql", "SELECT * FROM agents"),
    ("sql", "SELECT * FROM verdicts"),
    ("crosstable",),
    ("rate",),
    ("compare", "RUN", "RUN"),
    ("report", "--output", "page.html", "--force"),
)
PAGES = (
    *("/browse", "/browse/runs/RUN", "/browse/games", "/browse/sweeps", "/browse/sweeps/grid", "/browse/policies"),
    *(
        "/browse/policies/gift",
        "/browse/policies/online",
        "/browse/results/scores",
        "/browse/openings",
        "/browse/agent",
    ),
)
SCRIPTS = ("<script>alert", "<img src=x", "[link=", "onerror=alert(1)>")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an archive with a run, a sweep, a verdict, a training and two policies."""
    return tmp_path_factory.mktemp("honest") / "archive"


def fill(root: Path, qarena: Qarena) -> None:
    if root.exists():
        return
    at = ("--archive", str(root))
    here = f"archive.root={root}"
    assert qarena("run", "random", "rule_based", "games=8", here).code == 0
    assert qarena("sprt", "rule_based", "random", "games=400", here).code == 0
    assert qarena("train", "trainer=q_table", "trainer.games=8", "policy.name=online", here).code == 0
    assert qarena("policy", "build", "kind=gift", "name=gift", "kind.smoothing=0.5", *at).code == 0
    assert qarena("sweep", "random", "dumb", "games=4", "seed=1,2", "sweep.id=grid", here).code == 0


def is_clean(text: str) -> bool:
    """Return whether a terminal obeys nothing in a text, and no text of a record makes a line of its own."""
    return escape_hidden(text, keep="\n") == text and not re.search(r"^error: fake", text, re.MULTILINE)


def check_commands(qarena: Qarena, root: Path, what: str) -> None:
    run_id = find_first_run(root).stem
    for command in COMMANDS:
        asked = [run_id if word == "RUN" else word for word in command]
        answer: Result = qarena(*asked, "--archive", str(root))
        told = f"{what}: {' '.join(command)}: {answer.code} {answer.out[-300:]!r} {answer.err[:600]!r}"
        assert answer.code in (0, 1, 2), told
        assert "Traceback" not in answer.err, told
        assert "(unexpected" not in answer.err, told
        assert is_clean(answer.out), told
        assert is_clean(answer.err), told
        assert max(map(len, answer.err.splitlines()), default=0) < 1200, told
    page = Path("page.html")
    if page.exists():
        text = page.read_text(encoding="utf-8")
        assert not [script for script in SCRIPTS[:2] if script in text], what
        page.unlink()


def check_pages(root: Path, what: str) -> None:
    from tests.runners.web.visiting import visitor

    run_id = find_first_run(root).stem
    with visitor(root) as reader:
        for path in PAGES:
            page = reader.get(path.replace("RUN", run_id))
            assert page.status in (200, 400, 404, 500), (what, path, page.text[:300])
            if page.status == 500:  # a damaged record is a failure, which the page names in a line
                assert "is damaged" in page.line or "damaged" in page.text, (what, path, page.text[-600:])
            assert "(unexpected" not in page.text, (what, path)
            assert escape_hidden(page.text, keep="\n\r\t") == page.text, (what, path)
            assert not [script for script in SCRIPTS if script in page.text and script != "[link="], (what, path)


@contextmanager
def check_untouched(folder: Path) -> Iterator[None]:
    """Check that no program starts, and no file appears beside the archive."""
    before = {path.name for path in folder.iterdir()}
    with watch_events(starts_program) as events:
        yield
    assert events == []
    assert {path.name for path in folder.iterdir()} <= before | {"page.html"}
    assert not [*folder.rglob(f"*{MARK}*")]


def list_forgeries() -> dict[str, Forge]:
    """List each class where data can name one; each text in two fields, each field with two texts; and others."""
    forgeries = dict(list_targets())
    fields, texts = [*FIELDS], [*TEXTS]
    for number, field in enumerate(fields):
        for text in (texts[number % len(texts)], texts[(7 * number + 3) % len(texts)]):
            forgeries[f"{field}: {text}"] = FIELDS[field](TEXTS[text])
    return forgeries | OTHERS


QUICK = ("agent: child", "kind: popen", "rules: markup")
EACH_FORGERY = pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in list_forgeries() if n not in QUICK)]
)


def receive(name: str, honest: Path, folder: Path, qarena: Qarena) -> Path:
    """Copy the honest archive into a folder and forge the copy."""
    fill(honest, qarena)
    root = folder / "received"
    shutil.copytree(honest, root)
    list_forgeries()[name](root)
    return root


@EACH_FORGERY
def test_a_forged_archive_starts_nothing_and_is_answered_in_plain_lines(
    name: str, honest: Path, tmp_path: Path, qarena: Qarena
) -> None:
    root = receive(name, honest, tmp_path, qarena)
    with check_untouched(tmp_path):
        check_commands(qarena, root, name)


@pytest.mark.extras  # the pages need FastAPI
@EACH_FORGERY
def test_a_forged_archive_starts_nothing_through_the_pages(
    name: str, honest: Path, tmp_path: Path, qarena: Qarena
) -> None:
    root = receive(name, honest, tmp_path, qarena)
    with check_untouched(tmp_path):
        check_pages(root, name)
