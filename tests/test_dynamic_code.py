"""Each place where a name that is computed becomes code, an attribute or a process, and why data cannot choose it.

A new place fails the test: it belongs in the table, with the reason why no record, card, label or address reaches it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.paths import ROOT
from tests.test_house import PACKAGES

IMPORTS = {"import_module", "__import__", "instantiate", "find_spec", "run_path", "run_module", "exec_module"}
ATTRIBUTES = {"getattr", "setattr", "attrgetter", "methodcaller"}
PROCESSES = {"Popen", "Process", "system", "popen", "execv", "execve", "execvp", "posix_spawn", "check_call"}
PROCESSES |= {
    "LimitedProcess",
    "Subprocess",
    "PolitoSubprocess",
    "start_command",
    "read_command_output_until_limit",
}  # ours

# Why data cannot choose the name.
GATE = "the gate: an identity of data is in the table of ``runners.arena.identities``, or it is refused"
FIXED = "it is one of a few names in the code: fields of our own values, modules, programs of ours"
NAMED = "the user names the folder, class, plugin or program: the gate refuses agents that start programs to data"
SENT = "this program's own process sent it: of agents, only those that the gate let pass"
PROVEN = {
    **dict.fromkeys(
        ("runners/arena/spec.py::_load_class_checking_agent_interface", "runners/arena/spec.py::_import_class"), GATE
    ),
    **dict.fromkeys(
        (
            *("agents/base/agent.py::__post_init__", "agents/base/parameters.py::check_fields"),
            *(
                "analytics/exchange/formats.py::check_minari_library",
                "analytics/exchange/text.py::format_agent_and_nondefault_tags",
            ),
            *("analytics/exact/position_set.py::summarise_regrets", "analytics/questions/ratings.py::to_frame"),
            "analytics/questions/pairings.py::to_frame",
            *(
                "analytics/report/line_families.py::list_line_families",
                "analytics/report/sections/mistakes.py::_build_worst_mistakes_frame",
            ),
            *(f"{package}/__init__.py::__getattr__" for package in ("agents", "analytics", "quarto", "runners")),
            *(
                "analytics/tables/verification/games.py::read_sound_tables_and_problems",
                "analytics/report/result.py::to_pandas",
            ),
            *("quarto/observations.py::copy", "quarto/observations.py::resolve_rules"),
            *("quarto/rules.py::__post_init__", "quarto/solver/table.py::build_search_record"),
            "runners/league/import_guard.py::find_spec",  # whose spec is one that loads nothing
            *("quarto/sources.py::_find_spec_by_finders", "runners/web/archive/sql_pool.py::_start_process"),
            *("analytics/shadowing.py::describe_hidden_package", "runners/cli/start.py::describe_hidden_package"),
            "runners/cli/system_errors.py::open_closed_streams",
            "runners/learning/environments/stable_baselines.py::get_attr",
            *("runners/arena/executors/base.py::to_dict", "runners/arena/executors/ray_cluster.py::__init__"),
            *("runners/arena/executors/processes.py::__init__", "runners/hosting/subprocess_client.py::__init__"),
            *("runners/hosting/subprocesses.py::__init__", "runners/hosting/limited_agents.py::_start_with_facts"),
            *("runners/hosting/sandbox.py::_try_sandbox", "runners/arena/spec.py::_build_isolated_or_timed"),
            *(
                "runners/config/arguments.py::check_groups_plugins_and_games",
                "runners/exact/verdict_tables.py::build_frame_by_kind_and_pieces",
            ),
            *("runners/bench/benchmark.py::time_yardstick_games", "runners/bench/solver.py::run_yardstick"),
            "runners/bench/executors.py::start_cluster",
            *("runners/bench/timing.py::compile_program", "runners/bench/timing.py::measure_process"),
            *("runners/bench/warm_up.py::load_agent_and_training_kernels", "runners/cli/queries.py::output_answer"),
            "runners/arena/sprt_output.py::format_test",
            "runners/learning/training/self_improvement.py::__post_init__",
        ),
        FIXED,
    ),
    **dict.fromkeys(
        (
            "runners/hosting/subprocesses.py::_launch",
            *("runners/hosting/sandbox_supervisor.py::main", "runners/hosting/sandbox.py::find_module_folder"),
            *(
                "runners/hosting/subprocesses.py::start_command",
                "runners/hosting/subprocesses.py::read_command_output_until_limit",
            ),
            "runners/hosting/sandbox.py::_ask_shim",
            *("runners/hosting/polito/player.py::__init__", "runners/hosting/polito/player.py::take_subprocess"),
            *("runners/hosting/engines/process.py::_start", "runners/config/callbacks.py::__init__"),
            *("runners/config/callbacks.py::notify", "runners/hosting/polito/live_game.py::_apply_opponent_placements"),
            *(
                "runners/hosting/polito/live_game.py::take_turn",
                "runners/hosting/polito/player_factory.py::_load_named_class_with_methods",
            ),
            *(
                "runners/hosting/polito/player_factory.py::_defines_class",
                "runners/hosting/polito/player_factory.py::_import_module",
            ),
            *(
                "runners/hosting/polito/player_factory.py::find_spec",
                "runners/hosting/polito/player.py::_describe_interpreter_fault",
            ),
            *(
                "runners/hosting/polito/player.py::play",
                "runners/hosting/polito/game_server.py::_find_trial_fault_in_fork",
            ),
            "runners/hosting/polito/randomness.py::patch_random_returning_state_factory",
            "runners/library/objects.py::read_parameters",
        ),
        NAMED,
    ),
    **dict.fromkeys(
        (
            "runners/arena/executors/processes.py::_set_paths_and_load_worker",
            "runners/hosting/subprocess_program.py::_import_factory_and_apply_limits",
        ),
        SENT,
    ),
}


def find_places(path: Path) -> Iterator[str]:
    """Yield each place in a file, as ``file::function``."""
    name = path.relative_to(ROOT).as_posix()
    waiting: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text(encoding="utf-8")), "")]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call) and is_dynamic(node):
            yield f"{name}::{function}"
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]


def is_dynamic(call: ast.Call) -> bool:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if called in IMPORTS:
        return not (call.args and isinstance(call.args[0], ast.Constant))
    if called in ATTRIBUTES:
        return len(call.args) < 2 or not isinstance(call.args[1], ast.Constant)
    if isinstance(owner, ast.Name) and (owner.id, called) in {("subprocess", "run"), ("os", "fork")}:
        return True
    return called in PROCESSES


def test_no_name_that_data_gives_becomes_code() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    assert {place for file in files for place in find_places(file)} == {*PROVEN}
