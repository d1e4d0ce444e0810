"""What can be named in a call: ``list_options``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from quarto.errors import RequestError, suggest_valid_names
from runners.library.calls import list_folders, take_turn

if TYPE_CHECKING:
    from analytics.report.result import Result
    from runners.authoring.option_list import OptionDescription

# The groups, with how a call sets a key of an option.
GROUPS = {
    "agent": "A label sets parameters: run('mcts(iterations=50)', 'random')",
    "trainer": "Overrides set keys: train(trainer='q_placement', overrides=['trainer.games=2000'])",
    "kind": "Overrides set keys: build_policy('gift', overrides=['kind.smoothing=2'])",
    "rules": "Overrides set keys: run('mcts', 'random', rules='square', overrides=['rules.diagonals=none'])",
    "objective": "A sweep takes one: sweep('mcts', 'random', objective='elo', seed=[1, 2])",
}


def list_options(
    group: Literal["agent", "trainer", "kind", "rules", "objective"] = "agent",
    *,
    config_dir: str | Path | Sequence[str | Path] = (),
) -> Result:
    """List the agents, trainers, kinds of policies, rules or objectives that a call can name, with their parameters.

    Args:
        group: What to list: ``"agent"``, ``"trainer"``, ``"kind"`` (of policies that ``build_policy`` derives from
            games), ``"rules"`` or ``"objective"`` (of a sweep).
        config_dir: A folder, or several, with yamls and agents of your own.

    Returns:
        A row for each option and parameter, or one row without a parameter. Columns: ``name`` and ``description`` of
        the option; ``parameter``, a dotted key; ``default``, as text; ``meaning``, as the option's yaml explains it.
        ``print`` shows one row for each option. ``note`` says how a call sets a parameter.

    Raises:
        RequestError: There is no such group.

    Examples:
        >>> import runners
        >>> agents = runners.list_options().frame
        >>> agents.filter(name="mcts", parameter="iterations")["default"].item()
        '200'

    """
    from runners.authoring.option_list import describe_options, read_key_meanings
    from runners.config.composing import initialize_hydra
    from runners.config.yaml_options import hydra_lock, search_user_folders

    if group not in GROUPS:
        raise RequestError(f"group {group!r} is not listed{suggest_valid_names(str(group), GROUPS)}")
    with take_turn(), search_user_folders(list_folders(config_dir)), hydra_lock, initialize_hydra():
        options, errors = describe_options(group)
        meanings = {option.name: read_key_meanings(group, option.name) for option in options}
    return _build_options_result(group, options, meanings, errors)


def _list_defaults(option: OptionDescription) -> list[tuple[str | None, str | None]]:
    """List the parameters of an option with their defaults as text; an option without parameters has a pair of None."""
    from agents.base.parameters import format_parameter

    return [(key, format_parameter(value)) for key, value in option.defaults.items()] or [(None, None)]


def _build_options_result(
    group: str,
    options: Sequence[OptionDescription],
    meanings: Mapping[str, Mapping[str, str]],
    errors: Sequence[RequestError],
) -> Result:
    """Build the result that lists options; ``meanings`` has the meaning of each key, by option and dotted key."""
    import polars as pl

    from analytics.questions.columns import Table, text_column
    from analytics.report.result import Result
    from runners.authoring.option_list import format_defaults

    rows = [
        (option.name, option.text, key, default, meanings[option.name].get(key or ""))
        for option in options
        for key, default in _list_defaults(option)
    ]
    columns = ("name", "description", "parameter", "default", "meaning")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
    table = Table(
        "",
        [
            text_column(group, [option.name for option in options]),
            text_column("description", [option.text for option in options]),
            text_column("parameters", map(format_defaults, options)),
        ],
    )
    notes = [f"{GROUPS[group]}.", *(f"{error}." for error in errors)]
    return Result(" ".join(notes), table, title=f"Options of {group}", frame=frame)
