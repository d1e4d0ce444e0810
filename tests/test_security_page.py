"""Each sentence of SECURITY.md that promises something is proven by a test, which this table names."""

from __future__ import annotations

import ast
import re

from tests.paths import ROOT
from tests.test_house import PACKAGES

FILES = "analytics/store/files/test_strange_files.py"
STRANGE = f"{FILES}::test_what_is_neither_a_file_nor_a_folder_is_named_and_left_alone"
TABLES = "analytics/store/test_strange_tables.py"
TEXTS = "analytics/store/test_records.py"
LIMITED = "runners/hosting/test_limited_agents.py"
SANDBOX = "runners/hosting/test_sandbox.py"
VERIFICATION = "analytics/tables/verification"
FLIPPED = f"{VERIFICATION}/test_flipped_bytes.py::test_whichever_bit_flips_the_file_is_named_or_nothing_has_changed"
REBUILD = "runners/learning/policies/test_rebuilding.py"
GATE = "runners/arena/test_identities.py"
ASKING = "runners/web/archive/test_sql_pool.py"
REPLAY = "runners/cli/test_replay.py"
DERIVED = "analytics/tables/verification/test_derived_tables.py"
WEB = "runners/web/test_site.py"
RUN_PAGES = "runners/web/runs/test_run_pages.py"
START, BACKGROUND, SESSIONS = (f"runners/web/test_{name}.py" for name in ("server", "background", "play"))
HERE = "test_security_page.py::test_nothing_is_unpickled_or_evaluated"
CACHE = "quarto/test_kernel_cache.py"
# By the beginning of a sentence: the test that proves it. None: it promises nothing, it says what is not protected.
PROVEN = {
    "An agent that you name runs": None,
    "Everything else that a stranger": HERE,
    "Do not publish": None,
    "If the place where you found": None,
    "Otherwise open an issue": None,
    "A useful report has": None,
    "Only the newest state": None,
    "An archive, a policy, an export or a label": None,
    "Verify a received archive": None,
    "**Files.** An archive is a tree": STRANGE,
    "No link inside it": f"{FILES}::test_other_links_in_an_archive_are_named_too_and_not_entered",
    "The archive's own folder may be a link": f"{FILES}::test_the_root_may_be_a_link_and_so_may_what_is_above_it",
    "A pipe, a socket or a device": STRANGE,
    "`verify` names all irregular files": STRANGE,
    "A record with more than 16 MiB": f"{FILES}::test_a_record_is_not_read_if_it_is_too_large_to_be_one",
    "These rules concern archives": None,
    "The rules do not protect you": None,
    "**Tables.** The footer": f"{TABLES}::test_a_table_of_a_run_is_counted_before_it_is_read",
    "A table is refused if it has more rows": f"{TABLES}::test_a_table_has_no_more_rows_than_its_units_can_have",
    "It is also refused if it would take": f"{TABLES}::test_a_policys_table_is_counted_before_it_is_read",
    "Questions in SQL skip": None,
    "`verify` and players that": f"{TABLES}::test_a_policys_table_is_counted_before_it_is_read",
    "**Texts.** Labels": f"{TEXTS}::test_a_label_is_refused_by_the_same_rule_when_it_is_typed",
    "A record is refused if one of its texts": (
        f"{TEXTS}::test_a_record_with_a_text_that_is_not_shown_is_refused_in_one_line"
    ),
    "It is refused if a text has more": f"{TEXTS}::test_values_that_are_nested_deeply_are_refused",
    "Commands, errors and conditions": f"{TEXTS}::test_texts_that_were_typed_or_raised_are_kept_so_that_they_are_shown",
    "A label of an agent": "runners/web/test_play.py::test_a_label_in_a_link_is_checked_before_it_is_read",
    "It is read in one pass.": "analytics/store/test_labels.py::"
    "test_parameters_are_split_at_the_commas_outside_of_quotes_and_brackets",
    "The name of a rule set": f"{TEXTS}::test_rules_of_a_record_have_a_name_of_letters_and_digits",
    "A record with a wrong checksum": FLIPPED,
    "**Games.** `verify` replays": f"{VERIFICATION}/test_games.py::test_a_game_that_breaks_the_rules_is_named",
    "It cannot know who": None,
    "**Exact values.** `verify` solves": f"{DERIVED}::test_a_value_of_a_late_position_is_solved_again",
    "On earlier boards": None,
    "To compute them again": f"{DERIVED}::test_exact_values_that_are_gone_are_missed",
    "**Not checked without `verify`.**": None,
    "Regret, mistakes and reviews": None,
    "The first question": "analytics/store/test_marker.py::test_a_received_archive_is_noted_once",
    "An agent that you name on a command line": None,
    "The same holds for the modules": None,
    "The option `isolation=process` limits": f"{LIMITED}::test_a_process_that_dies_or_hangs_costs_one_turn",
    "The option `isolation=sandbox` locks in": f"{SANDBOX}::test_an_attack_harms_nothing_and_forfeits",
    "Such code reads no file of yours": f"{SANDBOX}::test_an_attack_harms_nothing_and_forfeits",
    "Its processes are limited": f"{SANDBOX}::test_a_sandbox_outlives_the_thread_that_started_it_but_not_the_run",
    "The run itself imports no module": f"{SANDBOX}::test_a_run_does_not_import_what_is_in_a_sandbox",
    "The sandbox relies on": None,
    "When a run ends or is killed": f"{LIMITED}::test_what_a_child_started_ends_with_a_run_that_is_killed",
    "Outside a sandbox, a process that leaves": f"{SANDBOX}::test_without_a_sandbox_a_process_stays_behind",
    "Run programs that you do not trust": None,
    "An agent or a class that is named": f"{REBUILD}::test_a_class_of_others_is_not_imported",
    "Such a name is only looked up": f"{GATE}::test_whatever_an_archive_may_name_has_an_identity_for_good",
    "Data reaches no other class": f"{GATE}::test_no_class_or_function_of_anybody_passes_the_gate_and_none_is_called",
    "A class is checked before": f"{GATE}::test_a_class_of_ours_in_the_wrong_place_is_refused_before_it_is_called",
    "`policy rebuild`, `archive replay`": f"{REPLAY}::test_code_of_others_runs_only_if_that_is_allowed",
    "`--trust-agents` allows that code": f"{REPLAY}::test_code_of_others_runs_only_if_that_is_allowed",
    "`policy rebuild` builds no agents": f"{REBUILD}::test_the_code_of_a_folder_does_not_run",
    "Nothing of an archive is unpickled": HERE,
    "Tables are Parquet": FLIPPED,
    "Numba unpickles": None,
    "The cache is used only if": f"{CACHE}::test_a_cache_where_others_can_write_is_not_read",
    "All folders and links on the way": f"{CACHE}::test_a_link_to_a_folder_where_others_can_write_is_followed",
    "A folder with the sticky bit": f"{CACHE}::test_in_a_sticky_folder_of_all_users_the_cache_is_its_users",
    "If the condition fails": f"{CACHE}::test_a_cache_where_others_can_write_is_not_read",
    "The program creates folders": f"{CACHE}::test_folders_of_the_cache_are_made_for_their_user_alone",
    "`qarena serve` listens": f"{START}::test_only_this_machine_can_connect_unless_another_address_is_named",
    "A form must come": f"{WEB}::test_a_form_of_another_site_is_refused",
    "`Origin` and a token": f"{WEB}::test_a_form_without_our_token_is_refused",
    "Names and notes of runs": f"{RUN_PAGES}::test_refused_name_keeps_what_was_typed",
    "They are stored beside": f"{RUN_PAGES}::test_run_is_named_on_its_page",
    "Names in an archive": "analytics/exchange/test_text.py::test_unfit_name_in_a_text_is_a_bad_line",
    "When archives are merged": "analytics/store/test_run_notes.py::test_note_from_the_future_replaces_no_other_one",
    "Opening an address": "runners/web/test_site.py::test_no_get_starts_a_program_or_an_agent_or_writes",
    "Analyses and the pages": f"{BACKGROUND}::test_a_job_ends_when_its_time_is_up_and_may_then_work_longer",
    "Other sites can link": f"{WEB}::test_other_sites_can_link_to_us_and_load_nothing",
    "With `--host`": f"{WEB}::test_where_others_may_connect_only_built_in_agents_play",
    "Even on this machine": f"{WEB}::test_a_form_starts_no_program_either_unless_the_server_was_told_so",
    "SQL on the page Ask": "analytics/questions/sql/test_strangers.py::test_everything_else_is_refused",
    "It changes nothing": "analytics/questions/sql/test_strangers.py::test_everything_else_is_refused",
    "A separate process": f"{ASKING}::test_what_cannot_be_interrupted_is_ended_and_the_next_question_answered",
    "Agents think for one": f"{SESSIONS}::test_many_games_of_one_browser_do_not_keep_another_from_playing",
    "A turn for which": f"{SESSIONS}::test_who_closes_the_page_of_a_slow_agent_can_play_another_one",
    "A turn in progress": None,
    "Texts of an archive": f"{WEB}::test_texts_of_an_address_are_escaped",
    "Control characters": "runners/terminal/test_tables.py::test_no_form_for_people_holds_a_control_character",
    "With `--format spreadsheet`": "runners/terminal/test_tables.py::"
    "test_for_a_spreadsheet_texts_are_no_formulas_and_numbers_stay_numbers",
}


def split_sentences() -> list[str]:
    paragraphs = re.split(r"\n\n|\n(?=- )", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    texts = (
        " ".join(paragraph.removeprefix("- ").split()) for paragraph in paragraphs if not paragraph.startswith("#")
    )
    return [sentence for text in texts for sentence in re.split(r"(?<=[.:]) (?=[A-Z`])", text) if sentence]


def test_each_sentence_is_in_the_table() -> None:
    beginnings = [*PROVEN]
    for sentence in split_sentences():
        assert beginnings, sentence
        assert sentence.startswith(beginnings.pop(0)), sentence
    assert beginnings == []


def test_each_proof_exists() -> None:
    for proof in sorted({proof for proof in PROVEN.values() if proof}):
        file, _, name = proof.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), proof


def test_nothing_is_unpickled_or_evaluated() -> None:
    """No module makes objects of bytes or runs a text; none that reads archives knows a function that makes code."""
    everywhere = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "eval", "exec", "allow_pickle"}
    for path in [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]:
        forbidden = everywhere | ({"compile", "__import__"} if path.is_relative_to(ROOT / "analytics") else set())
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(word in text for word in forbidden) else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [node.func.id] if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else []
            names += [keyword.arg or "" for keyword in node.keywords] if isinstance(node, ast.Call) else []
            assert not forbidden & {name.split(".")[0] for name in names}, path
