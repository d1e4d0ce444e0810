"""The keys of each command that Hydra carries out: their types, ranges and defaults.

Nothing that plays is imported here, because ``--help`` and the refusal of a wrong name or value must be quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from math import inf
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from msgspec import Meta
from omegaconf import MISSING, DictConfig, OmegaConf

from analytics import DEFAULT_ARCHIVE
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.storage import OTHER_CODE_ACTIONS, ArchiveOptions
from runners.config.yaml_options import list_options

MAX_OPENING_PLIES = 15
MAX_SEED = (1 << 63) - 1
MAX_PAIRS = 1 << 31  # pairs of one pairing, as in analytics.store.schema, which needs Polars
SCHEDULES = ("round_robin", "gauntlet")
# Types of keys with their ranges. Hydra checks the types, ``check_keys_and_values`` the rest.
Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]
OpeningPlies = Annotated[int, Meta(ge=0, le=MAX_OPENING_PLIES)]
ThreadCount = Annotated[int | None, Meta(ge=1, le=1024)]


def find_most_storable_games(node: DictConfig) -> int:
    """Return the greatest number of games that a run can store for each pairing.

    The key ``seats`` of the configuration ``node`` says whether a pair has one game or two.
    """
    return MAX_PAIRS if node.get("seats") == "fixed" else 2 * MAX_PAIRS


@dataclass
class ArchiveConfig:
    """The keys of ``conf/archive``, which ``ArchiveOptions`` explains."""

    root: str = str(DEFAULT_ARCHIVE)
    shard_games: Annotated[int, Meta(ge=2, le=1 << 24)] = ArchiveOptions.shard_games
    shard_seconds: Annotated[float, Meta(ge=0)] = ArchiveOptions.shard_seconds
    other_code: Annotated[str, OTHER_CODE_ACTIONS] = ArchiveOptions.other_code
    evaluations: bool = ArchiveOptions.evaluations


@dataclass
class SweepConfig:
    """The key that names the sweep to which a job belongs. ``qarena sweep`` sets it."""

    id: str | None = None


@dataclass
class RayConfig:
    """The keys of the Ray cluster for ``executor=ray``; ``conf/executor/ray.yaml`` explains each of them."""

    address: str = "auto"
    tasks: int | None = None


@dataclass
class PolicyConfig:
    """The keys that describe the policy that a training makes."""

    name: str | None = None


@dataclass
class CurveConfig:
    """The keys that describe the learning curve of a training."""

    block: Annotated[int, Meta(ge=1, le=1 << 30)] = MISSING


@dataclass
class CommandConfig:
    """The keys shared by all commands that Hydra carries out; the yaml of each command in ``conf`` explains them."""

    threads: ThreadCount = None
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)


@dataclass
class PlayConfig(CommandConfig):
    """The keys shared by all commands that play games."""

    rules: Any = None
    seed: Seed = 1
    progress: bool = True


@dataclass
class MatchConfig(PlayConfig):
    """The keys shared by all commands in which named agents play."""

    a: Any = None
    b: Any = None
    agents: list[Any] | None = None
    games: Annotated[int, Meta(ge=1), find_most_storable_games] = 100000
    opening_plies: OpeningPlies = 0
    keep_going: bool = False
    name: str | None = None
    note: str | None = None


@dataclass
class RunConfig(MatchConfig):
    """The keys of ``qarena run``."""

    schedule: Annotated[str, SCHEDULES] = "round_robin"
    seats: Annotated[str, ("swapped", "fixed")] = "swapped"
    objective: Any = None
    executor: Any = field(default_factory=lambda: {"_target_": "runners.executors.base.Threads"})  # of tests too
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass
class TrainConfig(PlayConfig):
    """The keys of ``qarena train``."""

    trainer: Any = None
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    curve: CurveConfig = field(default_factory=CurveConfig)
    executor: Any = None
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass
class SprtConfig(MatchConfig):
    """The keys of ``qarena sprt``."""

    games: Annotated[int, Meta(ge=2), find_most_storable_games] = 100000
    opening_plies: OpeningPlies = 2
    elo0: float = 0.0
    elo1: float = 10.0
    alpha: float = 0.05
    beta: float = 0.05


@dataclass
class PolicyBuildConfig(CommandConfig):
    """The keys of ``qarena policy build``."""

    kind: Any = None
    name: str | None = None
    where: str = MISSING
    executor: Any = None
    ray: RayConfig = field(default_factory=RayConfig)


SCHEMAS = {"run": RunConfig, "train": TrainConfig, "sprt": SprtConfig, "policy_build": PolicyBuildConfig}  # by yaml
for config, schema in SCHEMAS.items():
    ConfigStore.instance().store(name=f"{config}_schema", node=schema)


def check_keys_and_values(node: DictConfig, schema: type[Any], prefix: str = "") -> None:
    """Check the keys and values of a composed configuration against the dataclass ``schema``.

    Hydra's own check misses ``+key=`` and ``~key``. In messages, ``prefix`` precedes the keys of ``node``.

    Raises ``RequestError`` for a key that is not a field of the schema, for a field that has no key, for a plain value
    under a key that takes an option of a group, and for a value that is out of range.
    """
    hints, keys = get_type_hints(schema, include_extras=True), [str(key) for key in node]
    for key in keys:
        if key not in (*hints, "hydra"):
            raise RequestError(f"key '{prefix}{key}' does not exist{suggest_valid_names(key, hints)}")
    for key, hint in hints.items():
        if key not in keys:
            raise RequestError(f"~{prefix}{key} removes a key that every run needs: leave this override out")
        if isinstance(hint, type) and is_dataclass(hint):
            check_keys_and_values(node[key], hint, f"{prefix}{key}.")
        if hint is Any and not OmegaConf.is_dict(node[key]):  # the option of a group
            group = f"agent@{key}" if key in ("a", "b") else key
            wrong = "is missing" if node[key] is None else f"is how to choose one: {key}={node[key]} is no option"
            raise RequestError(f"{group}=NAME {wrong}{suggest_valid_names('', list_options(group.partition('@')[0]))}")
        if get_origin(hint) is Annotated and node[key] is not None:
            _check_value(f"{prefix}{key}", node[key], get_args(hint)[1:], node)


def _check_value(key: str, value: Any, constraints: Sequence[Any], node: DictConfig) -> None:
    """Raise ``RequestError`` if the value of a key breaks one of the constraints that the key's type declares.

    A constraint is a range, a tuple of valid strings, or a function that returns the greatest valid value for the
    configuration ``node``.
    """
    least, most, is_number = -inf, inf, False
    for constraint in constraints:
        if isinstance(constraint, tuple):
            check_choice(key, value, constraint)
        elif isinstance(constraint, Meta):
            least, most, is_number = constraint.ge if constraint.ge is not None else -inf, constraint.le or inf, True
        else:
            most = constraint(node)
    if is_number:
        check_range(key, value, least, most)


def check_range(key: str, value: float, minimum: float, maximum: float) -> None:
    """Raise ``RequestError`` unless ``minimum <= value <= maximum``."""
    if not minimum <= value <= maximum:
        bound = f"at least {minimum}" if value < minimum else f"at most {maximum}"
        raise RequestError(f"{key}={value} is out of range: it must be {bound}")


def check_choice(key: str, value: str, valid_values: Sequence[str]) -> None:
    """Raise ``RequestError`` unless ``value`` is one of ``valid_values``."""
    if value not in valid_values:
        raise RequestError(f"{key}={value} does not exist{suggest_valid_names(str(value), valid_values)}")
