"""Exports: the forms of other tools against obvious twins, and how a file takes the place of another."""

from __future__ import annotations

import csv
import errno
import io
import json
import random
import resource
import sys
import zipfile
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest

from analytics import open_archive
from analytics.exchange.export import ExportRequest, _rename_to_output_on_success, write_export
from analytics.exchange.export_blocks import NAMED_PERSPECTIVES
from analytics.store.archive import ArchiveStore
from quarto.errors import FailureError, RequestError
from quarto.notation import format_game
from quarto.rules import Rules
from tests import naive
from tests.analytics.exchange.naive_turns import Episode, naive_episode
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import Game, build_spec, naive_rows, pack_games, random_game, record, store
from tests.marks import seldom


@pytest.mark.parametrize("failing", [1, 2, None])
def test_a_folder_is_replaced_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int | None) -> None:
    output = tmp_path / "games-v0"
    output.mkdir()
    (output / "old").write_text("old")
    before = snapshot(tmp_path)
    calls = iter(range(1, 9))
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if next(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    def replace() -> None:
        with _rename_to_output_on_success(output, force=True) as (path, _):
            path.mkdir()
            (path / "new").write_text("new")

    monkeypatch.setattr(Path, "rename", refuse)
    if failing:
        with pytest.raises(FailureError, match="Input/output error"):
            replace()
        assert snapshot(tmp_path) == before
    else:
        replace()
        assert snapshot(tmp_path) == {output / "new": b"new"}


LABELS = [('alice, the "great"', "bob]")]
OPENING = 2
Games = list[tuple[int, Game]]  # by game_id


def logged(root: Path, rules: Rules) -> tuple[Games, str]:
    """Write an archive with one run of games after openings of two plies, and return them in the order of export."""
    dice = random.Random(f"forms {rules.name}")
    games = [random_game(dice, rules, forfeits=0.3) for _ in range(30)]
    games = [game for game in games if len(game["plies"]) >= OPENING][:20]
    run = record(build_spec(rules, LABELS, opening_plies=OPENING))
    archive = ArchiveStore.open(root, create=True)
    archive.write_run_and_unit_count(run)
    store(archive, run.run_id, [pack_games(games, opening=OPENING)], LABELS)
    return [*enumerate(games)][0::2] + [*enumerate(games)][1::2], run.run_id


@pytest.fixture(scope="module", params=["classic", "own_piece"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rules, Games, str]:
    rules, root = naive.PRESETS[request.param], tmp_path_factory.mktemp("source")
    return root, rules, *logged(root, rules)


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rules, Games, str]:
    rules, root = naive.PRESETS["classic"], tmp_path_factory.mktemp("classic")
    return root, rules, *logged(root, rules)


def exported(root: Path, output: Path, form: str, **options: Any) -> Path:
    with open_archive(root) as opened:
        write_export(opened, ExportRequest(form, **options), output)
    return output


def own(perspective: Any, game_id: int) -> Any:
    """Return the perspective of a game: the first agent of the pairing has seat 0 in game 0 of a pair, else seat 1."""
    return f"seat_{game_id % 2}" if perspective == "first" else perspective


def expected_episodes(rules: Rules, games: Games, perspective: str, imposed: bool) -> list[tuple[int, Episode]]:
    numbered = (
        (number, naive_episode(game, OPENING, rules, own(perspective, number), imposed)) for number, game in games
    )
    return [(number, episode) for number, episode in numbered if episode]


@pytest.mark.parametrize("imposed", [True, *seldom(False)])
@pytest.mark.parametrize("perspective", [*NAMED_PERSPECTIVES][:2] + seldom(*[*NAMED_PERSPECTIVES][2:]))
def test_d3rlpy_has_the_steps_of_all_episodes_in_flat_arrays(
    source: tuple[Path, Rules, Games, str], tmp_path: Path, perspective: str, imposed: bool
) -> None:
    root, rules, games, _ = source
    path = tmp_path / "x.npz"
    with open_archive(root) as opened:
        done = write_export(
            opened, ExportRequest("d3rlpy", perspective=perspective, imposed=imposed, masks=imposed), path
        )
    arrays = np.load(path, allow_pickle=False)
    episodes = [episode for _, episode in expected_episodes(rules, games, perspective, imposed)]
    assert (done.games, done.episodes) == (len(games), len(episodes))  # some games have no turn that is told
    steps = [step for episode in episodes for step in episode.steps[:-1]]
    ends = [i == len(one_episode.rewards) - 1 for one_episode in episodes for i in range(len(one_episode.rewards))]
    over = [one_episode.terminated for one_episode in episodes for _ in one_episode.rewards]
    assert arrays["observations"].dtype == np.int8
    assert arrays["observations"].tolist() == [step.observation for step in steps]
    assert arrays["actions"].tolist() == [step.action for step in steps]
    assert arrays["rewards"].dtype == np.float32
    assert arrays["rewards"].tolist() == [reward for episode in episodes for reward in episode.rewards]
    assert arrays["terminals"].tolist() == [end and all_over for end, all_over in zip(ends, over, strict=True)]
    assert arrays["timeouts"].tolist() == [end and not all_over for end, all_over in zip(ends, over, strict=True)]
    # What d3rlpy's episode generator asserts.
    assert not np.logical_and(arrays["terminals"], arrays["timeouts"]).any()
    assert arrays["terminals"].sum() > 0
    assert arrays["timeouts"].sum() > 0
    names = ["observations", "actions", "rewards", "terminals", "timeouts"]
    assert arrays.files == names + (["imposed", "action_masks"] if imposed else [])
    if imposed:
        assert arrays["imposed"].tolist() == [step.imposed for step in steps]
        assert [set(np.flatnonzero(row)) for row in arrays["action_masks"]] == [step.legal for step in steps]


@pytest.mark.parametrize("imposed", [True, *seldom(False)])
@pytest.mark.parametrize("perspective", [*NAMED_PERSPECTIVES][:2] + seldom(*[*NAMED_PERSPECTIVES][2:]))
def test_minari_reads_the_episodes_that_were_meant(
    source: tuple[Path, Rules, Games, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    perspective: str,
    imposed: bool,
) -> None:
    root, rules, games, run_id = source
    exported(root, tmp_path / "quarto-v3", "minari", perspective=perspective, imposed=imposed, masks=imposed)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = minari.load_dataset("quarto-v3")
    expected = expected_episodes(rules, games, perspective, imposed)
    assert (dataset.id, len(dataset)) == ("quarto-v3", len(expected))
    assert dataset.total_steps == sum(len(episode.rewards) for _, episode in expected)
    assert list(minari.list_local_datasets()) == ["quarto-v3"]
    metadata = dataset.storage.get_episode_metadata(range(len(expected)))
    for number, (read, (game, episode), about) in enumerate(zip(dataset, expected, metadata, strict=True)):
        assert repr(read)  # which fails for an episode without infos
        assert (read.id, about["id"], about["game_id"], about["run_id"]) == (number, number, game, run_id.encode())
        assert about["total_steps"] == len(episode.rewards)
        assert read.observations.tolist() == [step.observation for step in episode.steps]
        assert read.actions.tolist() == [step.action for step in episode.steps[:-1]]
        assert read.rewards.tolist() == episode.rewards
        ends = [False] * (len(episode.rewards) - 1)
        assert read.terminations.tolist() == [*ends, episode.terminated]
        assert read.truncations.tolist() == [*ends, not episode.terminated]
        assert all(map(dataset.observation_space.contains, read.observations))
        assert all(map(dataset.action_space.contains, read.actions))
        if imposed:
            assert read.infos["imposed"].tolist() == [*(step.imposed for step in episode.steps[:-1]), False]
            legal = [step.legal for step in episode.steps]
            assert [set(np.flatnonzero(row)) for row in read.infos["action_mask"]] == legal


def test_minari_can_filter_split_and_sample(classic: tuple[Path, Rules, Games, str], tmp_path: Path) -> None:
    root, rules, games, _ = classic
    folder = exported(root, tmp_path / "quarto-v0", "minari", perspective="seat_0")
    dataset = minari.MinariDataset(folder / "data")
    won = dataset.filter_episodes(lambda episode: bool(episode.rewards[-1] > 0))
    expected = [episode for _, episode in expected_episodes(rules, games, "seat_0", False) if episode.rewards[-1] > 0]
    assert won.total_steps == sum(len(episode.rewards) for episode in expected)
    assert len(list(dataset.sample_episodes(5))) == 5


@pytest.mark.parametrize("perspective", [None, "first", *seldom(*sorted({*NAMED_PERSPECTIVES} - {"first"}))])
def test_csv_has_a_row_a_ply(source: tuple[Path, Rules, Games, str], tmp_path: Path, perspective: str | None) -> None:
    root, rules, games, run_id = source
    path = exported(root, tmp_path / "x.csv", "csv", perspective=perspective)
    stored, plies = naive_rows([pack_games([game for _, game in sorted(games)], opening=OPENING)], LABELS)
    expected = []
    for number, _ in games:
        game_id, _, _, *agents, winner, count, opening, ending = stored[number]
        for _, _, ply, seat, piece, cell, outcome in (row for row in plies if row[0] == game_id):
            sign = 1 if own(perspective, game_id) in (None, "mover", f"seat_{seat}") else -1
            head = [run_id, game_id, rules.name, *agents, winner, count, opening, ending]
            expected.append([str(value) for value in (*head, ply, seat, int(ply < 2), piece, cell, sign * outcome)])
    heading, *rows = csv.reader(io.StringIO(path.read_text()))
    assert heading[-1] == f"outcome_{perspective or 'mover'}"
    assert rows == expected


def test_csv_has_a_row_a_game(classic: tuple[Path, Rules, Games, str], tmp_path: Path) -> None:
    root, _, games, _ = classic
    path = exported(root, tmp_path / "x.csv", "csv", rows="games", where="agent_0 LIKE 'bob%'")
    rows = [*csv.DictReader(io.StringIO(path.read_text()))]
    chosen = [(number, game) for number, game in games if number % 2]
    assert [int(row["game_id"]) for row in rows] == [number for number, _ in chosen]
    assert [row["game"] for row in rows] == [format_game(game["plies"]) for _, game in chosen]
    assert {(row["agent_0"], row["agent_1"]) for row in rows} == {LABELS[0][::-1]}


def test_what_is_packed_says_nothing_of_when(classic: tuple[Path, Rules, Games, str], tmp_path: Path) -> None:
    path = exported(classic[0], tmp_path / "x.npz", "d3rlpy", perspective="mover")
    assert {entry.date_time[0] for entry in zipfile.ZipFile(path).infolist()} == {1980}
    folder = exported(classic[0], tmp_path / "x-v0", "minari", perspective="mover", where="plies > 5", sample=3, seed=2)
    metadata = json.loads((folder / "data/metadata.json").read_text())
    assert metadata["description"].startswith("Quarto, games where plies > 5 of an archive, 3 of them drawn by seed 2")


def test_a_dataset_that_does_not_fit_on_the_disk_is_a_failure_that_leaves_nothing(
    classic: tuple[Path, Rules, Games, str], tmp_path: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(FailureError, match=r"cannot write .*x-v0: File too large"):
            exported(classic[0], tmp_path / "x-v0", "minari", perspective="mover")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_without_minari_the_extra_is_named_before_anything_is_written(
    classic: tuple[Path, Rules, Games, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(RequestError, match=r"a Minari dataset needs minari: install its extra: .*'\.\[minari\]'"):
        exported(classic[0], tmp_path / "x-v0", "minari", perspective="mover")
    assert list(tmp_path.iterdir()) == []
