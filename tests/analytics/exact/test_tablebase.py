"""Tablebases: building on threads, resuming, reading, use by searches, and comparison with the rules."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from analytics.exact import tablebase_build, theory
from analytics.exact.tablebase import (
    SHIPPED_FOLDER,
    BoardTable,
    LayerValues,
    Tablebase,
    find_largest_tablebase,
    list_tablebases,
    load_tablebase_index,
    open_tablebase,
    read_tablebase,
    tablebase_name,
    user_folder,
    write_tablebase,
)
from analytics.exact.tablebase_build import (
    MAX_BOARDS,
    MAX_PIECES,
    BuildProgress,
    TablebaseBuildRequest,
    build_tablebase,
    check_build,
    compute_needed_megabytes,
    verify_tablebase,
)
from analytics.exact.theory import GameProof, TablebaseStatistics, compute_statistics, read_proofs, render_theory_page
from quarto.bits import piece_to_lanes
from quarto.canonical import canonical_forms
from quarto.errors import FailureError, RequestError
from quarto.notation import parse_position
from quarto.perft import decode_board_keys, perft
from quarto.position import EMPTY, board
from quarto.rules import NONE, Rules, find_finished_lines
from quarto.solver.solver import Solver
from quarto.solver.table import build_tablebase_index
from quarto.symmetry import build_symmetries
from runners.arena.executors.base import THREADS
from runners.exact.tablebases import solve_chunks
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_quarto import ORACLES

QUICK = Rules("quick", diagonals="broken", squares="wrapped", chooser="mover")  # solved in no time
CODE = {"version": "1", "fingerprint": "2"}
Children = dict[tuple[int, int], int | None]  # by piece and cell: the value of the board, None if it has a line
SHIPS = sorted(SHIPPED_FOLDER.glob("*.parquet"))


class Watched:
    """Counts the progress of a job, and may stop it."""

    def __init__(self, stop_after: int = 1 << 30) -> None:
        self.stop, self.stop_after = Event(), stop_after
        self.boards = self.solved = self.advanced = 0

    def start(self, boards: int, solved: int) -> None:
        self.boards, self.solved = boards, solved

    def advance(self, boards: int) -> None:
        self.advanced += boards
        if self.advanced >= self.stop_after:
            self.stop.set()
            self.stop.wait()

    def build(self, job: TablebaseBuildRequest) -> Tablebase | None:
        progress = BuildProgress(self.start, self.advance)
        return build_tablebase(
            job, CODE, self.stop, progress, lambda chunks, stop: solve_chunks(chunks, THREADS, job.threads, stop)
        )


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the user's tablebases from the tests, and make chunks so small that there are many."""
    monkeypatch.setenv("QARENA_TABLEBASE", str(tmp_path / "home"))
    monkeypatch.setattr(tablebase_build, "CHUNK_BOARDS", 16)
    return tmp_path / "home"


def job(folder: Path, threads: int = 1, pieces: int = 3, rules: Rules = QUICK) -> TablebaseBuildRequest:
    return TablebaseBuildRequest(rules, pieces, folder, threads, 1.0)


def built(folder: Path, threads: int = 1, pieces: int = 3) -> Tablebase:
    tablebase = Watched().build(job(folder, threads, pieces))
    assert tablebase is not None
    return tablebase


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a tablebase of three pieces and return its folder. No test changes it."""
    folder = tmp_path_factory.mktemp("quick")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tablebase_build, "CHUNK_BOARDS", 16)
        built(folder)
    return folder


@pytest.fixture
def tablebase_copy(quick: Path, tmp_path: Path) -> Tablebase:
    """Copy the tablebase for a test that changes it."""
    return open_tablebase(shutil.copytree(quick, tmp_path / "whole") / "quick-3.parquet")


def of_layers(tablebase: Tablebase) -> list[BoardTable]:
    table, ends = read_tablebase(tablebase), list(accumulate(tablebase.card.boards))
    parts = [slice(end - count, end) for end, count in zip(ends, tablebase.card.boards, strict=True)]
    return [BoardTable(table.keys[part], table.pieces[part], table.values[part]) for part in parts]


# Building.


def test_one_thread_and_two_write_the_same_bytes(tablebase_copy: Tablebase, tmp_path: Path) -> None:
    one, two = tablebase_copy, built(tmp_path / "two", threads=2)
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.card.boards == [1, 1, 20, 157] == [layer.canonical_live_boards for layer in perft(QUICK, 3)]
    assert sorted(path.name for path in one.path.parent.iterdir()) == ["quick-3.json", "quick-3.parquet"]


def test_a_job_that_was_stopped_goes_on_with_what_it_had_solved(quick: Path, tmp_path: Path) -> None:
    stopped, resumed = Watched(stop_after=100), Watched()
    assert stopped.build(job(tmp_path / "a")) is None
    assert stopped.advanced < stopped.boards == 157
    tablebase = resumed.build(job(tmp_path / "a"))
    assert resumed.solved > 0
    assert resumed.solved + resumed.advanced == 157
    assert tablebase is not None
    assert tablebase.path.read_bytes() == (quick / "quick-3.parquet").read_bytes()


KILLED = """
import os, signal, sys, threading
from pathlib import Path
from analytics.exact import tablebase_build
from tests.analytics.exact.test_tablebase import Watched, job
tablebase_build.CHUNK_BOARDS = 16
watched = Watched()
def advance(boards):
    watched.advanced += boards
    if watched.advanced > 64:
        os.kill(os.getpid(), signal.SIGKILL)
watched.advance = advance
watched.build(job(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_job_that_was_killed_goes_on_with_what_it_had_solved(quick: Path, tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    resumed = Watched()
    tablebase = resumed.build(job(tmp_path / "a"))
    assert resumed.solved == 80  # all chunks of which was told
    assert tablebase is not None
    assert tablebase.path.read_bytes() == (quick / "quick-3.parquet").read_bytes()


def test_a_chunk_that_is_damaged_is_solved_again(quick: Path, tmp_path: Path) -> None:
    Watched(stop_after=100).build(job(tmp_path / "a"))
    chunks = sorted(job(tmp_path / "a").chunk_folder.glob("*.chunk"))
    content = bytearray(chunks[0].read_bytes())
    content[-1] ^= 1
    chunks[0].write_bytes(content)
    chunks[1].write_bytes(chunks[1].read_bytes()[:-1])
    resumed = Watched()
    tablebase = resumed.build(job(tmp_path / "a"))
    assert resumed.solved == 16 * (len(chunks) - 2)
    assert tablebase is not None
    assert tablebase.path.read_bytes() == (quick / "quick-3.parquet").read_bytes()


@pytest.mark.slow
def test_rules_of_one_name_share_neither_chunks_nor_a_file(quick: Path, tmp_path: Path) -> None:
    other = replace(QUICK, rows_and_columns=not QUICK.rows_and_columns)
    Watched(stop_after=100).build(job(tmp_path / "a"))
    begun = job(tmp_path / "a", rules=other)
    from_the_start = Watched(stop_after=1)
    assert from_the_start.build(begun) is None
    assert from_the_start.solved == 0
    resumed = Watched()
    tablebase = resumed.build(job(tmp_path / "a"))
    assert resumed.solved > 0
    assert tablebase is not None
    assert tablebase.path.read_bytes() == (quick / "quick-3.parquet").read_bytes()
    check_build(job(tmp_path / "a"), 1e6)  # the same rules may be built again
    with pytest.raises(RequestError, match=r"quick-3\.parquet is the tablebase of other rules"):
        check_build(begun, 1e6)


def test_only_one_process_builds_a_tablebase(tmp_path: Path) -> None:
    chunks = job(tmp_path).chunk_folder
    chunks.mkdir()
    with (
        tablebase_build._lock_folder(chunks),
        pytest.raises(RequestError, match=r"another process builds in .*quick-3"),
    ):
        Watched().build(job(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": 0}, "pieces=0 is not among 1 to 7"),
        ({"pieces": 17}, "pieces=17 is not among 1 to 7"),
        ({"threads": 0}, "threads=0 is not a number of threads"),
        ({"megabytes": 0.0}, "megabytes=0.0 is not a size"),
        ({"megabytes": float("nan")}, "megabytes=nan is not a size"),
        ({"megabytes": 1e6}, "of 1,000 MB of free memory: the largest that fits is --memory 512MiB"),
        ({"pieces": 7}, "of 1,000 MB of free memory: ask for fewer pieces"),
    ],
)
def test_a_job_that_cannot_be_done_is_refused(tmp_path: Path, change: dict[str, float], message: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_build(job(tmp_path)._replace(**change), 1000.0)  # type: ignore[arg-type]
    assert message in str(refused.value)
    check_build(job(tmp_path)._replace(megabytes=512.0), 1000.0)
    assert compute_needed_megabytes(job(tmp_path)._replace(megabytes=512.0)) < 1000.0
    largest = job(tmp_path)._replace(pieces=MAX_PIECES, megabytes=1.0)
    assert compute_needed_megabytes(largest) > MAX_BOARDS[-1] * 60 / (
        1 << 20
    )  # 11.7 GB: keys and boards of the last layer


# Files.


def test_a_damaged_tablebase_is_not_read(tablebase_copy: Tablebase) -> None:
    tablebase = tablebase_copy
    content = bytearray(tablebase.path.read_bytes())
    content[len(content) // 2] ^= 1
    tablebase.path.write_bytes(content)
    with pytest.raises(FailureError, match=r"quick-3\.parquet is damaged"):
        read_tablebase(tablebase)
    assert [str(tablebase.path) in line for line in verify_tablebase(tablebase, 0, 1.0)] == [True]
    tablebase.path.unlink()
    with pytest.raises(FailureError, match=r"cannot read .*quick-3\.parquet"):
        read_tablebase(tablebase)


@pytest.mark.parametrize(
    "change",
    [{"format": "other"}, {"boards": [1, 1, 20]}, {"won": [1, 1, 20, 157]}, {"sha256": "0"}, {"rules": {"squares": 3}}],
)
def test_a_damaged_card_is_refused(tablebase_copy: Tablebase, change: dict[str, object]) -> None:
    card = tablebase_copy.path.with_suffix(".json")
    card.write_text(json.dumps(json.loads(card.read_text()) | change))
    with pytest.raises(FailureError, match=r"quick-3\.json is damaged"):
        list(list_tablebases([card.parent]))


def test_the_largest_one_is_used_and_the_users_own_first(own_home: Path) -> None:
    assert find_largest_tablebase(QUICK) is None
    assert load_tablebase_index(QUICK) is None
    built(own_home, pieces=2)
    largest = built(own_home, pieces=3)
    assert user_folder() == own_home
    assert find_largest_tablebase(replace(QUICK, name="of another name")) == largest
    assert find_largest_tablebase(replace(QUICK, chooser="opponent", squares="plain")) is None
    base, lesser = load_tablebase_index(QUICK), read_tablebase(largest).to_tablebase_index(1)
    assert base is not None
    assert (base.pieces, int(np.count_nonzero(base.words))) == (3, sum(largest.card.boards))
    assert (lesser.pieces, int(np.count_nonzero(lesser.words))) == (1, 2)
    assert tablebase_name(replace(QUICK, name="../a b(c=1)"), 3) == "___a_b_c_1_-3"  # which never leaves the folder


def test_verify_finds_a_wrong_value_a_wrong_board_and_a_wrong_count(tablebase_copy: Tablebase) -> None:
    tablebase = tablebase_copy
    assert list(verify_tablebase(tablebase, 157, 1.0)) == []
    layers = [LayerValues(layer.keys, layer.values.copy()) for layer in of_layers(tablebase)]
    how = {"created": tablebase.card.created, "seconds": 1.0, "code": CODE}

    layers[2].values[5] *= -1
    assert "other values than those of 1 of the boards of 2 pieces" in next(
        verify_tablebase(write_tablebase(tablebase.path, QUICK, layers, how), 0, 1.0)
    )
    layers[2].values[5] *= -1
    layers[3].values[7] *= -1
    assert "has value" in list(verify_tablebase(write_tablebase(tablebase.path, QUICK, layers, how), 157, 1.0))[-1]
    layers[3].values[7] *= -1
    layers[3].keys[7] += np.uint64(1)
    assert "are not the 157 that play reaches" in next(
        verify_tablebase(write_tablebase(tablebase.path, QUICK, layers, how), 0, 1.0)
    )
    layers[3].keys[7] -= np.uint64(1)
    swapped = structs.asdict(write_tablebase(tablebase.path, QUICK, layers, how).card)
    swapped |= {"won": swapped["lost"], "lost": swapped["won"]}
    tablebase.path.with_suffix(".json").write_text(json.dumps(swapped))
    assert "unlike on its card" in next(verify_tablebase(open_tablebase(tablebase.path), 0, 1.0))


# Values.


def children_values(above: BoardTable, layer: BoardTable, rules: Rules) -> list[Children]:
    """Look up the values of the boards that each board of ``layer`` leads to."""
    forms = dict(zip(zip(*decode_board_keys(above.keys, rules), strict=True), above.values.tolist(), strict=True))
    rows = []
    for lanes, occupied in zip(*decode_board_keys(layer.keys, rules), strict=True):
        cells = [cell for cell in range(16) if int(occupied) >> cell & 1]
        used = {sum((int(lanes) >> 16 * a + cell & 1) << a for a in range(4)) for cell in cells}
        plies = [(piece, cell) for piece in set(range(16)) - used for cell in set(range(16)) - set(cells)]
        children = np.array([int(lanes) | int(piece_to_lanes(piece)) << cell for piece, cell in plies], np.uint64)
        masks = np.array([int(occupied) | 1 << cell for _, cell in plies], np.uint16)
        canonical = canonical_forms(children, masks, np.full(len(plies), NONE, np.int8), build_symmetries(rules))
        rows.append({ply: forms.get(form) for ply, form in zip(plies, zip(*canonical, strict=True), strict=True)})
    return rows


def value_of(children: Children, rules: Rules) -> int:
    """Return a board's value by the rules alone: a line wins; else whoever placed gives next, or the opponent moves."""
    sign = -1 if rules.mover_chooses else 1
    for_mover = {ply: 1 if value is None else sign * value for ply, value in children.items()}
    if rules.mover_chooses:
        return max(for_mover.values())
    return max(-max(value for (piece, _), value in for_mover.items() if piece == gift) for gift, _ in for_mover)


def assert_consistent(layers: Sequence[BoardTable], rules: Rules) -> None:
    for layer, above in pairwise(layers):
        values = [value_of(children, rules) for children in children_values(above, layer, rules)]
        assert values == layer.values.tolist()


def test_every_value_follows_from_those_that_turns_lead_to(tablebase_copy: Tablebase) -> None:
    assert_consistent(of_layers(tablebase_copy), QUICK)


@pytest.mark.parametrize("path", [SHIPS[0], *seldom(*SHIPS[1:])], ids=lambda path: path.stem)
def test_shipped_tablebases_are_whole_and_every_value_up_to_three_pieces_follows_from_the_others(path: Path) -> None:
    tablebase = open_tablebase(path)
    counted = perft(tablebase.rules, min(5, tablebase.card.pieces))
    assert tablebase.card.boards[: len(counted)] == [layer.canonical_live_boards for layer in counted]
    if path.stem.startswith("classic"):
        assert [1, 2, 40, 454, 10346, 214800, 3835041][: len(tablebase.card.boards)] == tablebase.card.boards
    assert_consistent(of_layers(tablebase)[:5], tablebase.rules)


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPS, ids=[path.stem for path in SHIPS])
def test_shipped_tablebases_are_complete_and_every_value_of_four_pieces_follows(path: Path) -> None:
    tablebase = open_tablebase(path)
    assert tablebase.card.boards == [
        layer.canonical_live_boards for layer in perft(tablebase.rules, tablebase.card.pieces)
    ]
    assert_consistent(of_layers(tablebase)[4:6], tablebase.rules)


def test_shipped_tablebases_are_small() -> None:
    assert {path.stem.rpartition("-")[0] for path in SHIPS} == set(PRESETS)
    assert sum(path.stat().st_size for path in SHIPPED_FOLDER.iterdir()) < 10_000_000


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPS, ids=[path.stem for path in SHIPS])
def test_a_sample_of_shipped_values_is_the_same_when_solved_again(path: Path) -> None:
    assert list(verify_tablebase(open_tablebase(path), 10, 64.0)) == []


@pytest.mark.slow
def test_under_torus_square_the_first_placer_wins_at_placement_13() -> None:
    """Check the value and the length that the published solver of that variant found."""
    rules = PRESETS["torus_square"]
    solver = Solver(rules, 512.0, load_tablebase_index(rules))
    assert solver.value(EMPTY) == -1
    assert solver.distance(EMPTY, -1) == 13


@pytest.mark.slow
def test_a_search_with_a_base_finds_what_one_without_it_finds(tmp_path: Path) -> None:
    layers = of_layers(built(tmp_path, pieces=4))
    plain = Solver(QUICK, 1.0)
    for most in range(1, 5):
        keys, values = (
            np.concatenate([getattr(smaller_layer, name) for smaller_layer in layers[: most + 1]])
            for name in ("keys", "values")
        )
        solver = Solver(QUICK, 1.0, build_tablebase_index(keys, values, most))
        for layer in layers[:4]:
            boards = decode_board_keys(layer.keys, QUICK)
            values_found: NDArray[np.int8] = solver.fork().values(*boards)
            assert values_found.tolist() == layer.values.tolist() == plain.values(*boards).tolist()


# The theory of the game.


(CLASSIC,) = SHIPPED_FOLDER.glob("classic-[0-9].parquet")


@pytest.fixture(scope="module")
def classic() -> TablebaseStatistics:
    return compute_statistics(open_tablebase(CLASSIC), 4)  # six pieces take half a minute


def test_boards_and_positions_are_counted_completely(classic: TablebaseStatistics) -> None:
    live = ORACLES["boards_with_k_pieces_and_no_completed_line"]
    for pieces, boards in enumerate(classic.boards):
        assert sum(boards.every) == live[pieces]
    for pieces, positions in enumerate(classic.positions):
        assert sum(positions.every) == live[pieces] * (16 - pieces)
        if pieces < 4:  # beyond that the known numbers count boards with a line too
            assert sum(positions.canonical) == ORACLES["canonical_boards_with_hand_including_won_k_0_to_5"][pieces]


def test_the_page_says_whose_the_value_is(classic: TablebaseStatistics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "compute_statistics", lambda _base: classic)
    assert "## classic\n\nThe game is drawn for the first giver.\n" in render_theory_page([open_tablebase(CLASSIC)])


def test_the_first_turns_are_complete(classic: TablebaseStatistics) -> None:
    assert sum(times for _, times, _ in classic.turns) == 16 * 15
    assert len({example for example, _, _ in classic.turns}) == len(classic.turns) == 8


@pytest.mark.slow
def test_examples_have_the_value_they_are_listed_under(tmp_path: Path) -> None:
    built = Watched().build(job(tmp_path, pieces=4))
    assert built is not None
    statistics, solver = compute_statistics(built), Solver(QUICK, 1.0)
    assert [sum(layer.canonical) for layer in statistics.boards] == [
        layer.canonical_live_boards for layer in perft(QUICK, 4)
    ]
    assert statistics.positions == []
    assert set(statistics.examples) == {"board won", "board drawn", "board lost"}
    for kind, example in statistics.examples.items():
        position, _ = parse_position(example)
        assert not find_finished_lines(board(position), QUICK)
        assert {1: "board won", 0: "board drawn", -1: "board lost"}[solver.value(position)] == kind
    assert sum(times for _, times, _ in statistics.turns) == 256
    text = render_theory_page([built])
    assert "## quick" in text
    assert "for the player who moves first." in text
    assert "| 3 | 157 | 157 | 0 | 0 | " in text


def test_the_value_of_each_game_is_the_one_in_its_tablebase() -> None:
    assert {proof.rules for proof in read_proofs()} == set(PRESETS)
    values = {proof.rules: proof.value for proof in read_proofs()}
    for path in SHIPPED_FOLDER.glob("*.json"):
        card = open_tablebase(path.with_suffix(".parquet")).card
        assert (card.won[0], card.drawn[0], card.lost[0]).index(1) == 1 - values[card.rules["name"]]
    for proof in read_proofs():
        rules = PRESETS[proof.rules]
        assert (proof.lines, proof.symmetries) == (len(rules.lines), len(build_symmetries(rules).cells))


@pytest.mark.slow
@pytest.mark.parametrize("proof", read_proofs(), ids=[proof.rules for proof in read_proofs()])
def test_each_game_is_proven_again(proof: GameProof) -> None:
    solver = Solver(PRESETS[proof.rules])
    assert solver.value(EMPTY) == proof.value
    assert solver.nodes == proof.positions
