"""The specification of a run: all that affects its games, and the id that follows from it."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.agent import Agent, AgentLimits, KernelAgent
from agents.base.parameters import format_parameter
from analytics.store.archive import ArchiveStore
from analytics.store.ranges import UnitLine
from analytics.store.records import LABEL, compute_run_id
from analytics.store.texts import to_line
from quarto.errors import ArenaError, RequestError, describe_valid_names, format_error, is_ctrl_c
from quarto.rules import Rules
from runners.arena.identities import TARGET_KEY, is_allowed_in_data, is_shipped, starts_programs, to_class_path

if TYPE_CHECKING:
    from agents.learning.policy import Policy
    from quarto.solver.table import TablebaseIndex

POLICY_PARAMETERS = ("policy", "value")  # parameters that name a policy, for agents whose yaml says what they read
AGENT_PARAMETERS = ("below",)  # parameters that name an agent by its label; a spec describes that agent in full

# Types of parameters by their names in annotations: the types of valid values, and what all others are.
SIMPLE_TYPES = {
    "bool": ((bool,), "neither true nor false"),
    "int": ((int,), "not a whole number"),
    "float": ((float, int), "not a number"),
    "str": ((str,), "not a text"),
}
OPTIONAL_HINT = re.compile(r"(?:typing\.)?Optional\[(\w+)\]")

OBJECT_TARGET = "runners.Object"  # of an object that a program passed to ``runners.run``; no table resolves it either
HUMAN_TARGET = "runners.play.Human"  # the target of a person, whom no table resolves: people play by `qarena play` only
AGENT_METHODS = ("play", "choose", "build_player")  # of agents that are no ``KernelAgent``: see ``agents.base.agent``
AGENT_KEYS = {"label": str, "target": str, "params": Mapping, "policy_id": str, "limits": Mapping}  # of ``to_record``


@dataclass(frozen=True)
class AgentSpec:
    """An agent as its yaml and the command line describe it."""

    label: str  # its name in the archive
    target: str  # the identity of its class, see ``runners.arena.identities``
    params: Mapping[str, Any]  # what its constructor is given
    policy_id: str | None = None  # of the policy it plays by, if any
    policy: Policy | None = field(default=None, compare=False, repr=False)  # passed to a constructor that takes one
    player: AgentSpec | None = field(default=None, compare=False, repr=False)  # plays in its place: see agent_policies
    limits: AgentLimits = field(default_factory=AgentLimits)
    files: Mapping[str, Path] = field(default_factory=dict, compare=False)  # that it reads, as its yaml names them
    # Parameters that are paths: the last part of each is the agent's, the rest is a place.
    paths: tuple[str, ...] = field(default=(), compare=False)
    trusted: bool = field(default=False, compare=False, repr=False)  # the user named it: it may run other people's code
    agent_object: Any = field(default=None, compare=False, repr=False)  # that a program passed, see ``OBJECT_TARGET``

    def build(self) -> Agent:
        """The agent itself, or one with limits in its stead.

        Raises ``RequestError`` for a target or parameters that do not exist or do not fit, and for an agent that would
        run other people's code although the user did not name it.
        """
        if self.is_object:
            self._load_agent_class()  # checks its interface
            return self.agent_object  # type: ignore[no-any-return]  # of the user's class
        self.check_is_trusted()
        others: dict[str, Any] = {self.find_policy_parameter() or "policy": self.policy} if self.policy else {}
        if self.runs_programs:
            others["limits"] = self.limits
        elif self.limits.is_limited:
            return self._build_limited()
        if self.player:
            own = {key: value for key, value in self.params.items() if key != "policy"}
            replace(self, params=own, policy=None, player=None).build()  # checks its parameters
            return self.player.build()
        params = {name: self._build_parameter(name, value) for name, value in self.params.items()}
        agent: Agent = _call_constructor(f"agent '{self.label}'", self._load_agent_class(), params, others)
        if hasattr(agent, "set_tablebases"):
            agent.set_tablebases(_load_tablebase)
        return agent

    def _build_limited(self) -> Agent:
        if self.limits.isolation == "process":
            from runners.hosting.limited_agents import (
                IsolatedAgent,  # it starts processes: most runs need not load that
            )

            playing = self.player or self
            return IsolatedAgent(
                self.label, playing.target, playing.params, playing.policy, self.limits, playing.trusted
            )
        if self.limits.megabytes is not None:
            raise RequestError(
                f"agent '{self.label}': megabytes={self.limits.megabytes} limits a process: set isolation=process too, "
                "or leave it out"
            )
        from runners.hosting.limited_agents import TimedAgent  # few runs have limits

        return TimedAgent(replace(self, limits=AgentLimits()).build, self.limits.turn_seconds or math.inf)

    def _build_parameter(self, name: str, value: Any) -> Any:
        """A parameter as the constructor takes it: an agent if it describes one, see ``AGENT_PARAMETERS``."""
        if name not in AGENT_PARAMETERS or value is None:
            return value
        return AgentSpec.from_record(value, self.trusted).build()

    def find_policy_parameter(self) -> str | None:
        """The parameter by which its constructor takes a policy; None: it takes none. Raises as ``build`` does."""
        self.check_is_trusted()
        named = next((each for each in POLICY_PARAMETERS if each in self.params), None)
        return named if named and named in inspect.signature(self._load_class()).parameters else None

    @property
    def is_object(self) -> bool:
        """Whether it is an object of a program, which no description makes again."""
        return self.target == OBJECT_TARGET

    @property
    def runs_programs(self) -> bool:
        """Whether it starts processes of its own, so that its constructor takes the limits of these."""
        return starts_programs(self.target)

    @property
    def choosers(self) -> Sequence[str]:
        """The values of ``Rules.chooser`` that it plays, as its class says. Raises as ``build`` does."""
        from agents.base.player import list_choosers  # it needs the compiler: few callers ask

        self.check_is_trusted()
        known: Any = self._load_agent_class()  # a class says it as an agent does
        return list_choosers(known)

    def _load_class(self) -> type[Any]:
        if self.agent_object is not None:
            return type(self.agent_object)
        return _import_class(f"agent '{self.label}'", self.target, self.trusted)

    def _load_agent_class(self) -> type[Any]:
        """Return its class. Raises ``RequestError`` also for one without the interface of an agent."""
        found = self._load_class()
        if issubclass(found, KernelAgent) or any(callable(getattr(found, name, None)) for name in AGENT_METHODS):
            return found
        raise RequestError(
            f"agent '{self.label}' ({to_line(self.target, 100)}) is not a KernelAgent, and has neither "
            "play(batch, rng) nor choose(position, rng): give it one of them (see agents/base/agent.py)"
        )

    def check_is_trusted(self) -> None:
        """Raise ``RequestError`` if it would run other people's code, and the user did not name it."""
        if not self.trusted:
            check_no_third_party_code(f"agent '{self.label}'", self.third_party_code())

    def third_party_code(self) -> Iterator[str]:
        """The code that it would run besides the project's own, and agents inside it: a text for each.

        Modules of others are not imported.
        """
        if self.agent_object is None and not is_shipped(self.target):
            yield from third_party_classes([self.target])
        elif self.runs_programs:
            yield f"a program that '{to_line(self.label, 100)}' starts"
        for name in AGENT_PARAMETERS:
            if self.params.get(name) is not None:
                yield from AgentSpec.from_record(self.params[name]).third_party_code()
        if self.player:
            yield from self.player.third_party_code()

    def to_record(self) -> dict[str, Any]:
        """All that affects its games, as JSON values."""
        mapping = {"label": self.label, "target": self.target, "params": dict(self.params)}
        limits = self.limits.to_dict()
        others = {"policy_id": self.policy_id} if self.policy_id else {}
        return mapping | others | ({"limits": limits} if limits else {})

    @property
    def id_fields(self) -> dict[str, Any]:
        """``to_record`` wherever its folders lie: the same agent in another place is the same agent."""
        return {**self.to_record(), "params": shorten_paths(self.params, self.paths)}

    @staticmethod
    def from_record(record: Any, trusted: bool = False) -> AgentSpec:
        """Return the agent that ``to_record`` described, without its policy.

        The mapping may come from data. Raises ``RequestError`` if it does not describe an agent.
        """
        known = AGENT_KEYS.items() if isinstance(record, Mapping) and {*record} <= {*AGENT_KEYS} else ()
        values = {name: record[name] for name, kind in known if isinstance(record.get(name), kind)}
        is_whole = bool(known) and len(values) == len(record) and {"label", "target", "params"} <= {*values}
        if not is_whole or not LABEL.fullmatch(values["label"]):
            raise RequestError(f"{record!a:.80} does not describe an agent: it needs label, target and params")
        limits = AgentLimits.from_mapping(f"agent '{values['label']}'", values.get("limits", {}))
        return AgentSpec(**{**values, "limits": limits, "trusted": trusted})

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values, from which another process makes the same agent: see ``from_dict``.

        Of a policy it says only that there is one.
        """
        return {
            **asdict(replace(self, policy=None, player=None, agent_object=None)),
            "policy": self.policy is not None,
            "player": self.player and self.player.to_dict(),
            "files": {name: str(path) for name, path in self.files.items()},
        }

    @staticmethod
    def from_dict(
        fields_by_name: Mapping[str, Any], load_policy: Callable[[str], Policy], policy_id: str | None = None
    ) -> AgentSpec:
        """The agent that ``to_dict`` described.

        ``load_policy`` reads a policy by its id; ``policy_id`` is that of the agent for which this one plays.
        """
        policy_id = fields_by_name["policy_id"] or policy_id
        player = fields_by_name["player"]
        fields = {
            "policy": load_policy(policy_id) if fields_by_name["policy"] and policy_id else None,
            "player": AgentSpec.from_dict(player, load_policy, policy_id) if player else None,
            "limits": AgentLimits(**fields_by_name["limits"]),
            "files": {name: Path(path) for name, path in fields_by_name["files"].items()},
            "paths": tuple(fields_by_name["paths"]),
        }
        return AgentSpec(**{**fields_by_name, **fields})


def check_no_third_party_code(what: str, code: Iterable[str]) -> None:
    """Raise ``RequestError`` if there is any ``code`` of others. ``what`` names it; the user did not, data did."""
    for each in code:
        raise RequestError(
            f"{what} would run code that this project does not vouch for ({each}), and you did not name it: look at "
            "that code, then allow it with --trust-agents"
        )


def third_party_classes(identities: Iterable[Any]) -> Iterator[str]:
    """Describe each class that data must not name."""
    yield from (f"class {to_line(str(identity), 100)}" for identity in identities if not is_allowed_in_data(identity))


@functools.cache
def _load_tablebase(rules: Rules) -> TablebaseIndex | None:
    """The tablebase of some rules for agents that can use one, read once."""
    from analytics.exact.tablebase import load_tablebase_index

    return load_tablebase_index(rules)


@dataclass(frozen=True)
class RunSpec:
    """Everything that affects a run's games, the number of games excepted."""

    rules: Rules
    agents: tuple[AgentSpec, ...]
    pairings: tuple[tuple[int, int], ...]  # indices into agents
    seed: int
    opening_plies: int
    seats: str = "swapped"  # in the second game of each pair; "fixed": there is none, the first agent has seat 0
    learner: int | None = None  # index of the agent that learns from each game before the next, if any
    salt: str = ""  # the code's fingerprint, if the run is kept apart from one begun by other code
    training: bool = False  # a trainer asked for the games; it does not affect them and is no part of the id

    def to_record(self) -> dict[str, Any]:
        """The fields as JSON values; those of ``rare`` are left out when usual. Run ids depend on this mapping."""
        rare = {"seats": (self.seats, "swapped"), "learner": (self.learner, None), "salt": (self.salt, "")}
        return {
            "rules": asdict(self.rules),
            "agents": [agent.id_fields for agent in self.agents],
            "pairings": [list(pairing) for pairing in self.pairings],
            "seed": self.seed,
            "opening_plies": self.opening_plies,
        } | {key: value for key, (value, usual) in rare.items() if value != usual}

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values, from which another process makes the same specification: see ``from_dict``."""
        return {**asdict(replace(self, agents=())), "agents": [agent.to_dict() for agent in self.agents]}

    @staticmethod
    def from_dict(fields_by_name: Mapping[str, Any], archive: ArchiveStore) -> RunSpec:
        """The specification that ``to_dict`` described; its policies are those of the archive.

        Raises ``RequestError`` for a policy that the archive does not have.
        """
        from analytics.store import policy_store  # most runs need none

        @functools.cache
        def load_policy(policy_id: str) -> Policy:
            return policy_store.read(archive, policy_id)[1]

        fields = {
            "rules": Rules(**fields_by_name["rules"]),
            "agents": tuple(AgentSpec.from_dict(agent, load_policy) for agent in fields_by_name["agents"]),
            "pairings": tuple((first, second) for first, second in fields_by_name["pairings"]),
        }
        return RunSpec(**{**fields_by_name, **fields})

    @functools.cached_property
    def run_id(self) -> str:
        """Twelve hex digits of a hash of the specification: the same on every machine."""
        return compute_run_id(self.to_record())

    @property
    def games_per_pair(self) -> int:
        return 2 if self.seats == "swapped" else 1

    @property
    def unit_line(self) -> UnitLine:
        """The form of the run's line of units."""
        return UnitLine(len(self.pairings), self.games_per_pair)

    @property
    def is_repeatable(self) -> bool:
        """Whether its games are a function of their numbers.

        No person, no object of a program, no learner, no limit by the clock plays.
        """
        known = all(agent.target not in (HUMAN_TARGET, OBJECT_TARGET) for agent in self.agents)
        return known and self.learner is None and all(agent.limits.turn_seconds is None for agent in self.agents)

    @property
    def pairing_labels(self) -> tuple[tuple[str, str], ...]:
        """Each pairing's labels: first agent, second agent."""
        return tuple((self.agents[first].label, self.agents[second].label) for first, second in self.pairings)


def build_from_settings(what: str, settings: Mapping[str, Any], base_class: type[Any], trusted: bool = False) -> Any:
    """An object as a yaml describes it: the class under ``_target_``, called with its parameters.

    The class is a subclass of ``base_class`` or has its methods, if that is a protocol; another one is not called.
    ``what`` names it in messages. ``trusted``: the user named the class; else it is one of the project's own. Raises
    ``RequestError`` for a class or parameters that do not exist or do not fit.
    """
    parameters = {key: value for key, value in settings.items() if key != TARGET_KEY}
    target = find_target(what, settings)
    found = _import_class(what, target, trusted)
    if not issubclass(found, base_class):
        raise RequestError(f"{what}: {target} is not a {base_class.__name__} (see {base_class.__module__})")
    return _call_constructor(what, found, parameters, {})


def find_target(what: str, settings: Mapping[str, Any]) -> str:
    """The identity of the class that a yaml names. Raises ``RequestError`` if it names none."""
    target = settings.get(TARGET_KEY)
    if not isinstance(target, str):
        raise RequestError(f"{what}: its yaml names no class under {TARGET_KEY}")
    return target


def _call_constructor(
    what: str, target_class: type[Any], params: Mapping[str, Any], overriding_params: Mapping[str, Any]
) -> Any:
    """A class, called with ``params`` and, over them, ``overriding_params``.

    Raises ``RequestError`` if these do not fit.
    """
    known = inspect.signature(target_class).parameters
    for name in params:
        if name not in known and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise RequestError(f"{what} has no parameter {name!r}{describe_valid_names(name, known)}")
        if name in known:
            _check_type(what, known[name], params[name])
    try:
        return target_class(**{**params, **overriding_params})
    except ArenaError:
        raise
    except BaseException as error:  # a user's class may raise anything
        if is_ctrl_c(error):
            raise
        reason = " ".join(str(error).split()) or "no reason was given"
        raise RequestError(f"{what} cannot be made: {reason} ({type(error).__name__}, with {dict(params)})") from error


def _check_type(what: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise ``RequestError`` for a value that is not of the parameter's type, if that is one of ``SIMPLE_TYPES``."""
    hint = parameter.annotation
    text = OPTIONAL_HINT.sub(r"\1 | None", hint if isinstance(hint, str) else inspect.formatannotation(hint))
    types = [each.strip() for each in text.split("|")]
    others = [each for each in types if each != "None"]
    if value is None and (len(others) < len(types) or parameter.default is None):
        return
    if all(each in SIMPLE_TYPES for each in others) and not any(
        type(value) in SIMPLE_TYPES[each][0] for each in others
    ):
        wrong = " and ".join(SIMPLE_TYPES[each][1] for each in others)
        remedy = f"; in quotes it is one: {parameter.name}='\"{format_parameter(value)}\"'" if others == ["str"] else ""
        raise RequestError(f"{what}: {parameter.name}={value!r} is {wrong}{remedy}")


def _import_class(what: str, identity: str, trusted: bool) -> type[Any]:
    """Import the class of an identity: the only way from a text to a class. Raises as ``build_from_settings`` does."""
    if not trusted:
        check_no_third_party_code(what, third_party_classes([identity]))
    target = to_class_path(identity)
    module_name, _, class_name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except BaseException as error:  # and so may its module
        if is_ctrl_c(error):
            raise
        reason = _describe_import_error(module_name, class_name, error)
        raise RequestError(f"{what}: _target_ {target!r} cannot be imported {reason}") from error
    if not isinstance(found, type):
        raise RequestError(f"{what}: _target_ {target!r} is not a class")
    return found


def _describe_import_error(module: str, name: str, error: BaseException) -> str:
    """Why a class cannot be imported: its module is not found or has no such class, or the module itself fails."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    is_absent = bool(missing) and f"{module}.".startswith(f"{missing}.")
    if not module or is_absent or (isinstance(error, AttributeError) and error.name == name):
        return (
            f"({error}); it names a class, 'package.module.Class', of a module in the folder of --config-dir or on "
            "PYTHONPATH"
        )
    remedy = f"; install {missing.partition('.')[0]} beside quarto-arena" if missing else ""
    if "relative import" in str(error):
        remedy = "; a module beside it is imported by its name: 'import other', not 'from . import other'"
    return f"({format_error(error)}){remedy}"


def shorten_paths(params: Mapping[str, Any], path_parameters: Iterable[str]) -> dict[str, Any]:
    """Parameters with the last part of each of ``path_parameters``, or of every path in a command with arguments."""
    named = {
        key: re.sub(r"(?<![^\s=])[^\s=]*/", "", value) if " " in value else Path(value).expanduser().resolve().name
        for key in path_parameters
        if isinstance(value := params.get(key), str)
    }
    return {**params, **named}


def format_label(name: str, params: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """``name`` and, in brackets, the parameters that differ from the yaml's: ``ga_minimax(depth=2)``."""
    changed = [
        f"{key}={format_parameter(params[key])}" for key in sorted(params) if params[key] != defaults.get(key, _MISSING)
    ]
    return f"{name}({','.join(changed)})" if changed else name


_MISSING = object()
