"""The specification of a run: everything that affects its games, and the id that follows from it."""

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
from analytics.store.records import LABEL, OBJECT_TARGET, compute_run_id
from analytics.store.texts import to_line
from quarto.errors import (
    ArenaError,
    RequestError,
    format_error_with_location,
    is_ctrl_c_in_main_thread,
    suggest_valid_names,
)
from quarto.rules import Rules
from runners.arena.identities import (
    TARGET_KEY,
    is_allowed_in_data,
    is_shipped,
    starts_programs,
    to_class_path,
    to_module_name,
)

if TYPE_CHECKING:
    from agents.learning.policy import Policy
    from quarto.solver.table import TablebaseIndex

POLICY_PARAMETERS = ("policy", "value")  # parameters that name a policy, for agents whose yaml says what they read
AGENT_PARAMETERS = ("below",)  # parameters that name an agent by its label; a spec describes that agent in full

# By the name of a type in an annotation: the types of valid values, and what an error says of any other value.
SIMPLE_TYPES = {
    "bool": ((bool,), "neither true nor false"),
    "int": ((int,), "not a whole number"),
    "float": ((float, int), "not a number"),
    "str": ((str,), "not a text"),
}
OPTIONAL_HINT = re.compile(r"(?:typing\.)?Optional\[(\w+)\]")

HUMAN_TARGET = "runners.play.Human"  # of a person; no class has this identity, because people use `qarena play` only
AGENT_METHODS = ("play", "choose", "build_player")  # an agent that is no ``KernelAgent`` has one of these
AGENT_KEYS = {"label": str, "target": str, "params": Mapping, "policy_id": str, "limits": Mapping}  # in ``to_record``


@dataclass(frozen=True)
class AgentSpec:
    """An agent as described by its yaml and the command line."""

    label: str  # the agent's name in the archive
    target: str  # the identity of its class, see ``runners.arena.identities``
    params: Mapping[str, Any]  # arguments of the constructor
    policy_id: str | None = None  # of the policy that the agent plays by, if any
    policy: Policy | None = field(default=None, compare=False, repr=False)  # passed to a constructor that takes one
    player: AgentSpec | None = field(default=None, compare=False, repr=False)  # plays in this agent's place
    limits: AgentLimits = field(default_factory=AgentLimits)
    files: Mapping[str, Path] = field(default_factory=dict, compare=False)  # data files, by their names in the yaml
    # Names of the parameters that are paths. Only the last part of such a path identifies the agent.
    paths: tuple[str, ...] = field(default=(), compare=False)
    trusted: bool = field(default=False, compare=False, repr=False)  # the user named it: third-party code may run
    agent_object: Any = field(default=None, compare=False, repr=False)  # passed by a program, see ``OBJECT_TARGET``

    def build(self) -> Agent:
        """Build the agent. If the agent has limits, it is wrapped in an agent that enforces them.

        Returns:
            The agent, not yet prepared for a rule set.

        Raises:
            RequestError: The class does not exist or lacks the interface of an agent, a parameter does not exist or
                has the wrong type, or the agent would run third-party code that the user did not name.

        """
        if self.is_object_of_program:
            self._load_class_checking_agent_interface()  # checks its interface
            return self.agent_object  # type: ignore[no-any-return]  # of the user's class
        self.check_is_trusted()
        if self.limits.is_limited and not self.runs_programs:
            return self._build_isolated_or_timed()
        extra_arguments: dict[str, Any] = {self.find_policy_parameter() or "policy": self.policy} if self.policy else {}
        if self.runs_programs:
            extra_arguments["limits"] = self.limits
        if self.player:
            own_params = {key: value for key, value in self.params.items() if key != "policy"}
            replace(self, params=own_params, policy=None, player=None).build()  # checks its parameters
            return self.player.build()
        params = {name: self._build_if_agent_parameter(name, value) for name, value in self.params.items()}
        agent: Agent = _call_constructor(
            f"agent '{self.label}'", self._load_class_checking_agent_interface(), params, extra_arguments
        )
        if hasattr(agent, "set_tablebases"):
            agent.set_tablebases(_load_tablebase)
        return agent

    def _build_isolated_or_timed(self) -> Agent:
        if self.limits.is_remote:
            from runners.hosting.limited_agents import IsolatedAgent  # few runs have limits

            player_spec = self.player or self
            return IsolatedAgent(
                self.label,
                player_spec.target,
                player_spec.params,
                player_spec.policy,
                self.limits,
                player_spec.trusted,
                [*player_spec._list_own_files()] if self.limits.is_sandboxed else (),
            )
        for key in ("megabytes", "game_seconds"):
            value = getattr(self.limits, key)
            if value is not None:
                raise RequestError(
                    f"agent '{self.label}': {key}={value} limits a process: set isolation=process too, or leave it out"
                )
        from runners.hosting.timed_agents import TimedAgent  # few runs have limits

        return TimedAgent(replace(self, limits=AgentLimits()).build, self.limits.turn_seconds or math.inf)

    def list_targets(self) -> Iterator[str]:
        """Yield the identities of the classes of the agent, of its ``player`` and of the agents in its parameters.

        ``player``, if there is one, plays in the agent's place. An identity is explained at ``is_shipped``.
        """
        yield self.target
        if self.player:
            yield from self.player.list_targets()
        for name in AGENT_PARAMETERS:
            if self.params.get(name) is not None:
                yield from AgentSpec.from_record(self.params[name]).list_targets()

    def _list_own_files(self) -> Iterator[Path]:
        """Yield the files and folders that the agent reads: its data, and its modules unless they are this project's.

        No module is imported to find out.
        """
        from runners.hosting.sandbox import find_module_folder  # few agents have a sandbox

        yield from self.files.values()
        yield from (Path(str(self.params[name])).expanduser() for name in self.paths if self.params.get(name))
        folders = (
            find_module_folder(to_module_name(target)) for target in self.list_targets() if not is_shipped(target)
        )
        yield from filter(None, folders)

    def _build_if_agent_parameter(self, name: str, value: Any) -> Any:
        """Return the agent that ``value`` describes if ``name`` is in ``AGENT_PARAMETERS``; otherwise return ``value``.

        ``value`` is the value of the agent's parameter ``name``. None is always returned unchanged.
        """
        if name not in AGENT_PARAMETERS or value is None:
            return value
        return AgentSpec.from_record(value, self.trusted).build()

    def find_policy_parameter(self) -> str | None:
        """Return the name of the constructor parameter that takes a policy, or None if there is none.

        Raises the errors of ``build``.
        """
        self.check_is_trusted()
        name = next((name for name in POLICY_PARAMETERS if name in self.params), None)
        return name if name and name in inspect.signature(self._load_class()).parameters else None

    @property
    def is_object_of_program(self) -> bool:
        """Whether the agent is an object that a Python program passed.

        Such an agent cannot be built again from a description.
        """
        return self.target == OBJECT_TARGET

    @property
    def runs_programs(self) -> bool:
        """Whether the agent starts other programs.

        If it does, its limits on time and memory are passed to its constructor, and the agent applies them to these
        programs.
        """
        return starts_programs(self.target)

    @property
    def supported_rules_choosers(self) -> Sequence[str]:
        """The values of ``Rules.chooser`` under which the agent can play. Raises the errors of ``build``."""
        from agents.base.player import list_accepted_choosers  # loads the compiler, which few callers need

        self.check_is_trusted()
        agent_class: Any = self._load_class_checking_agent_interface()  # a class has the same attribute as its agents
        return list_accepted_choosers(agent_class)

    def _load_class(self) -> type[Any]:
        if self.agent_object is not None:
            return type(self.agent_object)
        if self.limits.is_sandboxed and not is_shipped(self.target):
            raise RequestError(
                f"agent '{self.label}' takes a policy, for which its class would be imported outside its sandbox: "
                "use isolation=process, if you trust it"
            )
        return _import_class(f"agent '{self.label}'", self.target, self.trusted)

    def _load_class_checking_agent_interface(self) -> type[Any]:
        """Load the agent's class. Raises ``RequestError`` if the class lacks the interface of an agent."""
        agent_class = self._load_class()
        if issubclass(agent_class, KernelAgent) or any(
            callable(getattr(agent_class, name, None)) for name in AGENT_METHODS
        ):
            return agent_class
        raise RequestError(
            f"agent '{self.label}' ({to_line(self.target, 100)}) is not a KernelAgent, and has neither "
            "play(batch, rng) nor choose(position, rng): give it one of them (see agents/base/agent.py)"
        )

    def check_is_trusted(self) -> None:
        """Raise ``RequestError`` if the agent would run third-party code although the user did not name the agent."""
        if not self.trusted:
            refuse_third_party_code(f"agent '{self.label}'", self.third_party_code())

    def third_party_code(self) -> Iterator[str]:
        """Yield a description of each piece of third-party code that the agent would run.

        This includes the code of agents inside the agent. No third-party module is imported to find out.
        """
        if self.agent_object is None and not is_shipped(self.target):
            yield from describe_classes_not_allowed_in_data([self.target])
        elif self.runs_programs:
            yield f"a program that '{to_line(self.label, 100)}' starts"
        for name in AGENT_PARAMETERS if self.agent_object is None else ():
            if self.params.get(name) is not None:
                yield from AgentSpec.from_record(self.params[name]).third_party_code()
        if self.player:
            yield from self.player.third_party_code()

    def to_record(self) -> dict[str, Any]:
        """Return everything about the agent that affects its games, as JSON values."""
        mapping = {"label": self.label, "target": self.target, "params": dict(self.params)}
        limits = self.limits.to_dict_without_isolation()
        policy_fields = {"policy_id": self.policy_id} if self.policy_id else {}
        return mapping | policy_fields | ({"limits": limits} if limits else {})

    @property
    def record_with_shortened_paths(self) -> dict[str, Any]:
        """The values of ``to_record``, with paths shortened so that moving a folder does not change the agent."""
        return {**self.to_record(), "params": shorten_paths(self.params, self.paths)}

    @staticmethod
    def from_record(record: Any, trusted: bool = False) -> AgentSpec:
        """Build the specification, except the policy, of the agent that ``to_record`` described.

        Args:
            record: A result of ``to_record``, or data from a stranger.
            trusted: Whether the user named the agent, so that it may run third-party code.

        Raises:
            RequestError: ``record`` does not describe an agent.

        """
        expected_types = AGENT_KEYS.items() if isinstance(record, Mapping) and {*record} <= {*AGENT_KEYS} else ()
        values = {name: record[name] for name, kind in expected_types if isinstance(record.get(name), kind)}
        is_complete = bool(expected_types) and len(values) == len(record) and {"label", "target", "params"} <= {*values}
        if not is_complete or not LABEL.fullmatch(values["label"]):
            raise RequestError(f"{record!a:.80} does not describe an agent: it needs label, target and params")
        limits = AgentLimits.from_mapping(f"agent '{values['label']}'", values.get("limits", {}))
        return AgentSpec(**{**values, "limits": limits, "trusted": trusted})

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, from which ``from_dict`` builds the same agent in another process.

        Only the presence of a policy is recorded, because ``from_dict`` loads the policy by its id.
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
        """Build the specification of the agent that ``to_dict`` described.

        Args:
            fields_by_name: The result of ``to_dict``.
            load_policy: Function that loads a policy by its id.
            policy_id: Id of the policy to use if the fields name none. For an agent that plays in another agent's place
                (the field ``player``), this is the id of the other agent's policy.

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


def refuse_third_party_code(subject: str, code: Iterable[str]) -> None:
    """Raise an error if there is third-party code.

    Call this only if the user did not name ``subject``, because code that the user named is trusted.

    Args:
        subject: The thing that would run the code, such as ``agent 'mine'``. The error message begins with it.
        code: A description of each piece of third-party code.

    Raises:
        RequestError: There is such code.

    """
    for description in code:
        raise RequestError(
            f"{subject} would run code that this project does not vouch for ({description}), and you did not name it: "
            "look at that code, then allow it with --trust-agents"
        )


def describe_classes_not_allowed_in_data(identities: Iterable[Any]) -> Iterator[str]:
    """Yield a description of each class in ``identities`` that records, cards and other data must not name."""
    yield from (f"class {to_line(str(identity), 100)}" for identity in identities if not is_allowed_in_data(identity))


@functools.cache
def _load_tablebase(rules: Rules) -> TablebaseIndex | None:
    """Load the tablebase of a rule set, or return None if there is none.

    It is loaded once, for all agents that can use it.
    """
    from analytics.exact.tablebase import load_tablebase_index

    return load_tablebase_index(rules)


@dataclass(frozen=True)
class RunSpec:
    """The specification of a run: everything that affects the run's games, except their number."""

    rules: Rules
    agents: tuple[AgentSpec, ...]
    pairings: tuple[tuple[int, int], ...]  # indices into agents
    seed: int
    opening_plies: int
    seats: str = "swapped"  # in the second game of each pair; "fixed": there is none, the first agent has seat 0
    learner: int | None = None  # index of the agent that learns from each game before the next, if any
    salt: str = ""  # the code's fingerprint, if the run is kept apart from one begun by other code
    training: bool = False  # a trainer requested the games; this affects neither them nor the id

    def to_record(self) -> dict[str, Any]:
        """Return the fields, as JSON values, from which the run's id is computed.

        Rare fields appear only if they are set.
        """
        rare_fields = {"seats": (self.seats, "swapped"), "learner": (self.learner, None), "salt": (self.salt, "")}
        return {
            "rules": asdict(self.rules),
            "agents": [agent.record_with_shortened_paths for agent in self.agents],
            "pairings": [list(pairing) for pairing in self.pairings],
            "seed": self.seed,
            "opening_plies": self.opening_plies,
        } | {key: value for key, (value, default) in rare_fields.items() if value != default}

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, from which ``from_dict`` builds the same run in another process."""
        return {**asdict(replace(self, agents=())), "agents": [agent.to_dict() for agent in self.agents]}

    @staticmethod
    def from_dict(fields_by_name: Mapping[str, Any], archive: ArchiveStore) -> RunSpec:
        """Build the specification of the run that ``to_dict`` described, with the policies of an archive.

        Args:
            fields_by_name: The result of ``to_dict``.
            archive: Archive that holds the policies of the agents.

        Raises:
            RequestError: The archive lacks a policy.

        """
        from analytics.store import policy_store  # most runs need no policy

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
        """The run's id, twelve hexadecimal digits of a hash of the specification. It is the same on every machine."""
        return compute_run_id(self.to_record())

    @property
    def games_per_pair(self) -> int:
        return 2 if self.seats == "swapped" else 1

    @property
    def unit_line(self) -> UnitLine:
        """The layout of the run's units: the number of its pairings, and the number of games in a pair."""
        return UnitLine(len(self.pairings), self.games_per_pair)

    @property
    def is_repeatable(self) -> bool:
        """Whether the run's games depend only on their numbers, so that they can be played again.

        This is not so if a person, a learner, an agent with a limit of time or an agent that a Python program passed
        as an object takes part.
        """
        return self.learner is None and all(
            agent.target not in (HUMAN_TARGET, OBJECT_TARGET)
            and agent.limits.turn_seconds is None
            and agent.limits.game_seconds is None
            for agent in self.agents
        )

    @property
    def pairing_labels(self) -> tuple[tuple[str, str], ...]:
        """The labels of the first and the second agent of each pairing."""
        return tuple((self.agents[first].label, self.agents[second].label) for first, second in self.pairings)


def build_from_settings(subject: str, settings: Mapping[str, Any], base_class: type[Any], trusted: bool = False) -> Any:
    """Build the object that a yaml describes: call the class named under ``_target_`` with the other settings.

    Args:
        subject: Name of the object in error messages.
        settings: Content of the yaml.
        base_class: Class that the object's class must inherit or, if it is a protocol, whose methods it must have.
        trusted: Whether the user named the class; otherwise only classes of this project are built.

    Raises:
        RequestError: The class does not exist or is of another type, or a parameter does not exist or has the wrong
            type.

    """
    parameters = {key: value for key, value in settings.items() if key != TARGET_KEY}
    target = find_target(subject, settings)
    target_class = _import_class(subject, target, trusted)
    if not issubclass(target_class, base_class):
        raise RequestError(f"{subject}: {target} is not a {base_class.__name__} (see {base_class.__module__})")
    return _call_constructor(subject, target_class, parameters, {})


def find_target(subject: str, settings: Mapping[str, Any]) -> str:
    """Return the identity of the class that a yaml names. Raises ``RequestError`` if the yaml names none."""
    target = settings.get(TARGET_KEY)
    if not isinstance(target, str):
        raise RequestError(f"{subject}: its yaml names no class under {TARGET_KEY}")
    return target


def _call_constructor(
    subject: str, target_class: type[Any], params: Mapping[str, Any], overriding_params: Mapping[str, Any]
) -> Any:
    """Call a class with ``params``, updated with ``overriding_params``, and return the object.

    Raises ``RequestError`` if the class does not accept the parameters, or if its constructor fails.
    """
    parameters = inspect.signature(target_class).parameters
    for name in params:
        if name not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            raise RequestError(f"{subject} has no parameter {name!r}{suggest_valid_names(name, parameters)}")
        if name in parameters:
            _check_type(subject, parameters[name], params[name])
    try:
        return target_class(**{**params, **overriding_params})
    except ArenaError:
        raise
    except BaseException as error:  # a user's class may raise anything
        if is_ctrl_c_in_main_thread(error):
            raise
        reason = " ".join(str(error).split()) or "no reason was given"
        raise RequestError(
            f"{subject} cannot be made: {reason} ({type(error).__name__}, with {dict(params)})"
        ) from error


def _check_type(subject: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise ``RequestError`` if ``value`` does not have the type that the annotation of ``parameter`` demands.

    Only parameters whose annotations consist of types in ``SIMPLE_TYPES`` are checked.
    """
    hint = parameter.annotation
    text = OPTIONAL_HINT.sub(r"\1 | None", hint if isinstance(hint, str) else inspect.formatannotation(hint))
    types = [name.strip() for name in text.split("|")]
    value_types = [name for name in types if name != "None"]
    if value is None and (len(value_types) < len(types) or parameter.default is None):
        return
    if all(name in SIMPLE_TYPES for name in value_types) and not any(
        type(value) in SIMPLE_TYPES[name][0] for name in value_types
    ):
        wrong = " and ".join(SIMPLE_TYPES[name][1] for name in value_types)
        remedy = (
            f"; in quotes it is one: {parameter.name}='\"{format_parameter(value)}\"'" if value_types == ["str"] else ""
        )
        raise RequestError(f"{subject}: {parameter.name}={value!r} is {wrong}{remedy}")


def _import_class(subject: str, identity: str, trusted: bool) -> type[Any]:
    """Import the class with this identity. No other function turns a text into a class.

    Raises ``RequestError`` if the class cannot be imported, or if it is third-party code and not ``trusted``.
    """
    if not trusted:
        refuse_third_party_code(subject, describe_classes_not_allowed_in_data([identity]))
    target = to_class_path(identity)
    module_name, _, class_name = target.rpartition(".")
    try:
        target_class = getattr(importlib.import_module(module_name), class_name)
    except BaseException as error:  # a user's module may raise anything
        if is_ctrl_c_in_main_thread(error):
            raise
        reason = _describe_import_error(module_name, class_name, error)
        raise RequestError(f"{subject}: _target_ {target!r} cannot be imported {reason}") from error
    if not isinstance(target_class, type):
        raise RequestError(f"{subject}: _target_ {target!r} is not a class")
    return target_class


def _describe_import_error(module: str, name: str, error: BaseException) -> str:
    """Describe why a class cannot be imported: its module is missing, lacks the class, or fails itself."""
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
    return f"({format_error_with_location(error)}){remedy}"


def shorten_paths(params: Mapping[str, Any], path_parameters: Iterable[str]) -> dict[str, Any]:
    """Shorten the paths in ``params`` to their last part, because an identity must not depend on a place on a disk.

    Args:
        params: Parameters of an agent.
        path_parameters: Names of the parameters that are paths. They include commands with arguments, in which every
            path is shortened.

    """
    short_values = {
        key: re.sub(r"(?<![^\s=])[^\s=]*/", "", value) if " " in value else Path(value).expanduser().resolve().name
        for key in path_parameters
        if isinstance(value := params.get(key), str)
    }
    return {**params, **short_values}


def format_label(name: str, params: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Format an agent's label: its name and, in brackets, the parameters that differ from those in its yaml.

    Examples:
        >>> format_label("ga_minimax", {"depth": 2, "width": 8}, {"depth": 4, "width": 8})
        'ga_minimax(depth=2)'

    """
    changed = [
        f"{key}={format_parameter(params[key])}" for key in sorted(params) if params[key] != defaults.get(key, _MISSING)
    ]
    return f"{name}({','.join(changed)})" if changed else name


_MISSING = object()
