"""One table resolves the classes that data names; every other name in data is refused without being called."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import pytest

from agents.base.agent import AgentLimits
from agents.learning.learner import Learner
from analytics.policies.kinds.dataset import PolicyKind
from quarto.errors import RequestError
from quarto.sources import project_root
from runners.arena import identities
from runners.arena.executors.base import Executor
from runners.arena.identities import (
    is_allowed_in_data,
    is_shipped,
    read_identities,
    starts_programs,
    to_class_path,
    to_identities_without_id_keys,
    to_module_name,
)
from runners.arena.spec import AgentSpec, build_from_settings
from runners.config.objectives import Objective
from runners.learning.training.genetic import GeneticTrainer
from runners.learning.training.trainer import Trainer
from tests.audit import watch_events

# Archives hold these for good: a module may move, and its identity stays, as the key ``id`` of its yaml.
IN_ARCHIVES = """
agents.alpha_beta.AlphaBeta agents.best_mixed.BestMixed agents.dumb.Dumb agents.ga2.Ga2 agents.ga5.Ga5
agents.ga_minimax.GaMinimax agents.genetic_minimax.GeneticMinimax agents.gifts.Gifts agents.line_values.LineValues
agents.mcts.Mcts agents.minimax.Minimax agents.mixed.Mixed agents.mixed_rl.MixedRl agents.network.Network
agents.oracle.Oracle agents.own_piece_alpha_beta.OwnPieceAlphaBeta agents.policy.PolicyAgent
agents.q_placement.QPlacement agents.q_placement.QPlacementLearner agents.q_table.QTableLearner agents.random.Random
agents.rl_encoded.EncodedLearner agents.rl_encoded.RlEncoded agents.rl_tabular.RlTabular
agents.rl_tabular.TabularLearner agents.rule_based.RuleBased agents.semi_random.SemiRandom
analytics.policies.derived.fitted_q.FittedQ analytics.policies.derived.gift.Gift
analytics.policies.derived.line_values.LineValues analytics.policies.derived.mc_afterstate.McAfterstate
analytics.policies.derived.replayed.EncodedQ analytics.policies.derived.replayed.QTable
runners.arena.objectives.Elo runners.arena.objectives.Regret runners.arena.objectives.Score
runners.arena.objectives.WinRate runners.engines.agent.Engine runners.executors.base.Threads
runners.executors.on_ray.OnRay runners.executors.processes.Processes runners.polito.agent.Polito
runners.training.genetic.Ga2Trainer runners.training.genetic.Ga5Trainer runners.training.online.Online
runners.training.self_improvement.SelfImprovement
"""


def test_whatever_an_archive_may_name_has_an_identity_for_good() -> None:
    assert sorted(read_identities(project_root() / "conf")) == IN_ARCHIVES.split()


def test_agents_that_start_programs_are_not_for_data() -> None:
    """Check that exactly the constructors of these agents take limits of programs."""
    for identity in IN_ARCHIVES.split():
        module, _, name = to_class_path(identity).rpartition(".")
        takes_limits = "limits" in inspect.signature(getattr(importlib.import_module(module), name)).parameters
        assert takes_limits == starts_programs(identity) == (identity in THAT_START_PROGRAMS), identity
        assert is_allowed_in_data(identity) == (identity not in THAT_START_PROGRAMS)


THAT_START_PROGRAMS = ("runners.engines.agent.Engine", "runners.polito.agent.Polito")


def write_yaml(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


MOVED = {
    "agents.random.Random": ("quarto.players.Random", False),
    "agents.x.Learner": ("quarto.learners.X", False),
    "runners.T": ("runners.T", False),
}


@pytest.fixture
def moved_yamls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the yamls of a project in which modules have moved."""
    write_yaml(tmp_path, "agent/random.yaml", "_target_: quarto.players.Random\nid: agents.random.Random\nfast: true\n")
    learner = "learner:\n  _target_: quarto.learners.X\n  id: agents.x.Learner\n  rate: 0.5\n"
    write_yaml(tmp_path, "trainer/x.yaml", f"_target_: runners.T\n{learner}")
    table = read_identities(tmp_path)
    monkeypatch.setattr(identities, "_load_shipped_classes", lambda: table)
    monkeypatch.setattr(
        identities, "_index_identities", lambda: {shipped.path: name for name, shipped in table.items()}
    )
    return tmp_path


def test_a_module_may_move_without_changing_an_identity(moved_yamls: Path) -> None:
    assert read_identities(moved_yamls) == MOVED
    assert to_class_path("agents.random.Random") == "quarto.players.Random"
    assert to_module_name("agents.random.Random") == "quarto.players"
    assert to_module_name("mine.Player") == "mine"
    assert is_shipped("agents.random.Random")
    assert not is_shipped("quarto.players.Random")
    assert not is_shipped(["agents.random.Random"])
    settings = {"_target_": "quarto.players.Random", "id": "agents.random.Random", "fast": True}
    assert to_identities_without_id_keys(settings) == {"_target_": "agents.random.Random", "fast": True}
    nested = {"_target_": "runners.T", "learner": {"_target_": "quarto.learners.X", "id": "agents.x.Learner"}}
    assert to_identities_without_id_keys([nested]) == [
        {"_target_": "runners.T", "learner": {"_target_": "agents.x.Learner"}}
    ]


def test_a_class_of_the_user_in_the_place_of_a_shipped_one_keeps_its_path(moved_yamls: Path) -> None:
    settings = {"_target_": "mine.Player", "id": "agents.random.Random"}  # the yaml's, with a._target_=mine.Player
    assert to_identities_without_id_keys(settings) == {"_target_": "mine.Player"}
    assert to_identities_without_id_keys({"_target_": "mine.Player", "id": 7}) == {
        "_target_": "mine.Player",
        "id": 7,
    }  # a parameter


def test_an_identity_belongs_to_one_class(tmp_path: Path) -> None:
    write_yaml(tmp_path, "agent/a.yaml", "_target_: new.A\nid: old.A\n")
    write_yaml(tmp_path, "agent/b.yaml", "_target_: new.B\nid: old.A\n")
    with pytest.raises(ValueError, match=r"old\.A is the identity of new\.A already"):
        read_identities(tmp_path)
    write_yaml(tmp_path, "agent/b.yaml", "_target_: new.A\n")
    with pytest.raises(ValueError, match="a class has two identities"):
        read_identities(tmp_path)


# Names that data may give, at each place where it can name a class.


def spell(target: Any, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"label": "x", "target": target, "params": dict(params or {})}


def oracle(below: Any) -> AgentSpec:
    return AgentSpec.from_record(spell("agents.oracle.Oracle", {"below": below}))


Gate = Callable[[str], object]
OUTER: dict[str, Gate] = {
    "agent": lambda name: AgentSpec.from_record(spell(name)).build(),
    "kind": lambda name: build_from_settings("x", {"_target_": name}, PolicyKind),
}
DEEPER: dict[str, Gate] = {
    "below": lambda name: oracle(spell(name)).build(),
    "below, twice": lambda name: oracle(spell("agents.oracle.Oracle", {"below": spell(name)})).build(),
    "player": lambda name: AgentSpec("x", "agents.policy.PolicyAgent", {}, player=AgentSpec("y", name, {})).build(),
    "below the player": lambda name: AgentSpec("x", "agents.gifts.Gifts", {}, player=oracle(spell(name))).build(),
    "agent in a process": lambda name: AgentSpec("x", name, {}, limits=AgentLimits(isolation="process")).build(),
    "agent with a clock": lambda name: AgentSpec("x", name, {}, limits=AgentLimits(turn_seconds=1.0)).build(),
    "rules of an agent": lambda name: AgentSpec("x", name, {}).supported_rules_choosers,
    "policy of an agent": lambda name: AgentSpec("x", name, {"policy": "p"}).find_policy_parameter(),
    "learner": lambda name: build_from_settings("x", {"_target_": name}, Learner),
    "trainer": lambda name: build_from_settings("x", {"_target_": name}, Trainer),
    "genetic trainer": lambda name: build_from_settings("x", {"_target_": name}, GeneticTrainer),
    "objective": lambda name: build_from_settings("x", {"_target_": name}, Objective),
    "executor": lambda name: build_from_settings("x", {"_target_": name}, Executor),
}
LIBRARIES = (
    *("subprocess", "tempfile", "os", "shutil", "pathlib", "socket", "multiprocessing", "ctypes", "pickle", "shelve"),
    *("zipimport", "webbrowser", "urllib.request", "http.server", "logging.handlers", "sqlite3", "runpy", "pty"),
    *("numpy", "polars", "duckdb", "pyarrow", "deltalake", "hydra", "omegaconf", "typer", "rich", "msgspec", "numba"),
)
FORGED_NAMES = (
    *("", ".", "..", "a", "a.", ".a", "builtins.eval", "builtins.object", "os.system", "agents", "agents.random"),
    *("agents.random.Random.__init__", "agents.random.Random ", "agents.random.RANDOM", "agents/random.Random"),
    *("\x00", "a\nb.C", "x" * 300_000, "." * 10_000, "runners.play.Human", "__main__.X", "конь.Игрок"),
    "analytics.exchange.importing.ImportedPlayer",
)

QUIET = ("object.__getattr__", "object.__setattr__", "sys._getframe", "code.__new__", "builtins.id", "marshal.loads")
PACKAGES = ("quarto", "agents", "analytics", "runners")
_gatekeeper = threading.get_ident()


def is_act(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an event of this thread does more than read sources or yamls, or import our modules."""
    if threading.get_ident() != _gatekeeper or event in QUIET:
        return False
    if event == "open":
        return not isinstance(arguments[1], str) or bool(set(arguments[1]) & set("wax+"))
    return event != "import" or str(arguments[0]).partition(".")[0] not in PACKAGES


def list_callables(modules: Mapping[str, ModuleType]) -> list[str]:
    """Return the dotted paths of all classes and functions in modules, also of those that a module merely imports."""
    return sorted(
        f"{name}.{attribute}"
        for name, module in modules.items()
        for attribute, value in [*vars(module).items()]
        if isinstance(attribute, str) and callable(value)
    )


def import_everything() -> None:
    """Import all modules of the project, and libraries that can start programs or write files."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages([str(project_root() / package)], f"{package}."):
            if not any(part in module.name for part in ("templates", "sample", "examples", "stable_baselines")):
                importlib.import_module(module.name)
    for name in LIBRARIES:
        importlib.import_module(name)


def find_refusal(gate: Gate, name: str) -> str:
    """Return the line with which a gate refuses a name."""
    try:
        gate(name)
    except RequestError as error:
        return "" if "\n" in str(error) else str(error)
    return "it passed"


def assert_refused(gates: Mapping[str, Gate], names: list[str]) -> None:
    for place, gate in gates.items():
        for name in names:
            assert "does not vouch for" in find_refusal(gate, name), (place, name[:99])


@pytest.mark.slow
def test_no_class_or_function_of_anybody_passes_the_gate_and_none_is_called() -> None:
    """Try every name of every loaded module, at each place where data names a class."""
    import_everything()
    names = [name for name in list_callables(dict(sys.modules)) if not is_allowed_in_data(name)]
    assert len(names) > 20_000
    with watch_events(is_act) as events:
        assert_refused(OUTER, names)
        assert_refused(DEEPER, names[::20])
    assert Counter(event[:60] for event in events) == {}


class Trap:
    """A class that has all interfaces, and notes each use."""

    used: ClassVar[list[str]] = []

    def __init_subclass__(cls) -> None:
        cls.used.append("subclass")

    def __new__(cls, *_: Any, **__: Any) -> Self:
        cls.used.append("made")
        return super().__new__(cls)

    def play(self, *_: Any) -> None: ...

    choose = build_player = derive = count = update = policy = policy_from_counts = train = check = value = play
    open_pool = count_workers = count_local_processes = play


def test_a_name_that_no_yaml_has_is_refused_before_it_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str) -> Any:
        Trap.used.append(f"looked up {name}")
        return Trap

    trap = ModuleType("agents.trap")
    trap.__getattr__ = look_up  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "agents.trap", trap)
    Trap.used.clear()
    names = ["agents.trap.Trap", f"{__name__}.Trap", "subprocess.Popen", "tempfile.TemporaryDirectory"]
    names += [
        "deltalake.DeltaTable",
        "runners.hosting.subprocess_client.Subprocess",
        "runners.hosting.engines.process.EngineProcess",
    ]
    assert_refused({**OUTER, **DEEPER}, ["nowhere.\x00Player"])  # reads the table, imports what is around it
    with watch_events(is_act) as events:
        assert_refused({**OUTER, **DEEPER}, [*names, *FORGED_NAMES])
    assert (events, Trap.used) == ([], [])


INTERFACES: dict[str, Gate] = {
    "agent": OUTER["agent"],
    "below": DEEPER["below"],
    "kind": OUTER["kind"],
    "learner": DEEPER["learner"],
    "trainer": DEEPER["trainer"],
    "objective": DEEPER["objective"],
    "executor": DEEPER["executor"],
}


def test_a_class_of_ours_in_the_wrong_place_is_refused_before_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for identity in [*filter(is_allowed_in_data, IN_ARCHIVES.split())]:
        module, _, name = to_class_path(identity).rpartition(".")
        owner = getattr(importlib.import_module(module), name)
        monkeypatch.setattr(owner, "__init__", lambda self, *_, **__: called.append(type(self).__name__))
    for place, gate in INTERFACES.items():
        for identity in IN_ARCHIVES.split():
            called.clear()
            fits = place in ("agent", "below") and identity.startswith("agents.")
            group = identity.rpartition(".")[0]
            fits |= place == "learner" and identity.endswith("Learner")
            fits |= place == "kind" and group.startswith("analytics.policies")
            fits |= place == "trainer" and group.startswith("runners.training")
            fits |= place == "objective" and group == "runners.arena.objectives"
            fits |= place == "executor" and group.startswith("runners.executors")
            if fits:
                gate(identity)
                continue
            assert re.search("is not a |does not vouch for", find_refusal(gate, identity)), (place, identity)
            assert [name for name in called if name != "Oracle"] == [], (place, identity)


NO_AGENTS: tuple[Any, ...] = (
    *(None, 7, "agents.random.Random", [], [spell("agents.random.Random")], {}, {"target": "agents.random.Random"}),
    *({**spell("agents.random.Random"), "trusted": True}, {**spell("agents.random.Random"), "player": {}}),
    *(spell(7), spell(["agents.random.Random"]), spell({"_target_": "x"})),
    *({**spell("agents.random.Random"), "label": text} for text in ("", "a\nb", "x" * 300_000, "a\x1b[2J")),
    *({**spell("agents.random.Random"), "params": [1]}, {**spell("agents.random.Random"), "limits": 7}),
    {**spell("agents.random.Random"), "policy_id": ["x"]},
)


def test_a_mapping_that_describes_no_agent_is_refused_in_one_line() -> None:
    for mapping in NO_AGENTS:
        with pytest.raises(RequestError, match="does not describe an agent: it needs label, target and params"):
            AgentSpec.from_record(mapping)
        if mapping is not None:
            with pytest.raises(RequestError, match="does not describe an agent"):
                oracle(mapping).build()
    limits = {"turn_seconds": -1}
    with pytest.raises(RequestError, match="agent 'x': turn_seconds=-1 is not a number above 0"):
        AgentSpec.from_record({**spell("agents.random.Random"), "limits": limits})
    assert AgentSpec.from_record({**spell("agents.random.Random"), "limits": {"megabytes": 9}}).limits.megabytes == 9
