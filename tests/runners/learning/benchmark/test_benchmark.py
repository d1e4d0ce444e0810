"""`qarena benchmark`: datasets with the same bytes twice, read by Minari; scores between random and perfect play."""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
from pathlib import Path
from typing import Any

import minari
import numpy as np
import polars as pl
import pytest

from analytics import open_archive
from analytics.exchange import export as exchange
from analytics.statistics.tally import Estimate, Tally, wilson_interval
from analytics.store import marker
from analytics.store.archive import ArchiveStore
from quarto.errors import RequestError
from runners.exact.verdicts import JudgeOptions
from runners.learning.benchmark import datasets as making
from runners.learning.benchmark import score
from runners.learning.benchmark.datasets import (
    DATASETS,
    VALIDATION_SEED,
    DatasetRequest,
    create_datasets_unless_stopped,
    list_splits,
    select_datasets,
)
from runners.learning.benchmark.score import (
    ReferenceReturns,
    ScoreRequest,
    compute_mean_return,
    score_all_agents_unless_stopped,
)
from tests.runners.conftest import Qarena

GAMES = 40
PLAYED = select_datasets(["random-v0"])  # of the others, each as it is here, `make test-all` plays two more
MORE = [dataset for dataset in DATASETS if dataset.name != "mixed-v0"]  # 25 pairings take as long as all others


@pytest.fixture(autouse=True)
def few_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure reference scores from few games."""
    monkeypatch.setattr(score, "REFERENCE_GAMES", 40)


def hash_files(folder: Path) -> dict[str, list[str]]:
    """Hash all files of each dataset by SHA-256: Minari files by name, of archives only the Parquet files."""
    checksums: dict[str, list[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        inside = path.relative_to(folder).parts
        if inside[0] != "parquet" or path.suffix == ".parquet":
            key = "/".join(inside[:2]) + (path.name if inside[0] != "parquet" else "")
            checksums.setdefault(key, []).append(hashlib.sha256(path.read_bytes()).hexdigest())
    return {key: sorted(values) for key, values in checksums.items()}


@pytest.fixture(scope="module")
def dataset_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one small dataset, whose archive belongs to this user."""
    folder, notices = tmp_path_factory.mktemp("benchmark") / "made", list[tuple[str, ...]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "REFERENCE_GAMES", 40)
        patch.setattr(marker.logger, "warning", lambda *words: notices.append(words))
        assert create_datasets_unless_stopped(
            DatasetRequest(folder, list_splits(PLAYED, GAMES, 5), 2, "qarena"), threading.Event()
        )
    assert not notices
    return folder


@pytest.fixture(scope="module")
def large_folder(dataset_folder: Path) -> Path:
    """Make three datasets in the same folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "REFERENCE_GAMES", 40)
        assert create_datasets_unless_stopped(
            DatasetRequest(dataset_folder, list_splits(MORE, GAMES, 5), 2, "qarena"), threading.Event()
        )
    return dataset_folder


@pytest.mark.slow
def test_the_same_options_give_the_same_bytes(large_folder: Path, tmp_path: Path) -> None:
    splits = list_splits(select_datasets(["random-v0", "quarto/medium-v0"]), GAMES, 5)
    assert create_datasets_unless_stopped(
        DatasetRequest(tmp_path / "again", splits, 1, "other words"), threading.Event()
    )
    again, first = hash_files(tmp_path / "again"), hash_files(large_folder)
    assert again == {key: checksums for key, checksums in first.items() if key in again}
    assert len(again) == 3 * len(splits)
    assert len(again["parquet/medium-v0"]) == 3  # one range: games, plies and tallies
    other = list_splits(select_datasets(["random-v0"]), GAMES, 6)
    assert create_datasets_unless_stopped(DatasetRequest(tmp_path / "other", other, 1, "qarena"), threading.Event())
    assert all(checksums != first[key] for key, checksums in hash_files(tmp_path / "other").items())


@pytest.mark.slow
def test_minari_reads_the_games_of_the_archives(large_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(large_folder))
    names = [split.dataset_id for split in list_splits(MORE, GAMES, 5)]
    assert sorted(minari.list_local_datasets()) == sorted(names)
    for split in list_splits(MORE, GAMES, 5):
        dataset = minari.load_dataset(split.dataset_id)
        with open_archive(split.archive_folder(large_folder)) as opened:
            plies: dict[int, list[tuple[int, int]]] = {}
            for game_id, piece, cell in opened.sql(
                "SELECT game_id, piece, cell FROM plies ORDER BY game_id, ply"
            ).rows():
                plies.setdefault(game_id, []).append((piece, cell))
            won = dict(opened.sql("SELECT game_id, winner FROM games").rows())
            agents = {row[0]: row[1:] for row in opened.sql("SELECT game_id, agent_0, agent_1 FROM games").rows()}
        episode_metadata = dataset.storage.get_episode_metadata(range(len(dataset)))
        assert len(dataset) == len(plies) == split.total_games
        for episode, metadata in zip(dataset, episode_metadata, strict=True):
            game, seat = int(metadata["game_id"]), int(metadata["game_id"]) % 2
            board = np.full(16, -1)
            for piece, cell in plies[game]:
                board[cell] = piece
            assert episode.observations[-1].tolist() == [*board.tolist(), -1]
            assert (episode.observations[0][:16] >= 0).sum() == (2 if seat == 0 or len(plies[game]) > 1 else 0)
            assert episode.rewards[-1] == (0 if won[game] < 0 else 1 if won[game] == seat else -1)
            assert agents[game][seat] in split.dataset.players
            assert agents[game][1 - seat] in split.dataset.opponents


def test_the_metadata_are_those_of_minari(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(dataset_folder))
    dataset = minari.load_dataset("quarto/random-v0")
    stored: dict[str, Any] = json.loads(
        (dataset_folder / "quarto" / "random-v0" / "data" / "metadata.json").read_text()
    )
    assert stored["algorithm_name"] == "random"
    assert stored["author"] == ["The quarto-arena authors"]
    assert "quarto-arena" in stored["code_permalink"]
    assert -1 <= stored["ref_min_score"] < -0.8 < 0.8 < stored["ref_max_score"] <= 1
    ends = minari.get_normalized_score(dataset, np.array([stored["ref_min_score"], stored["ref_max_score"]]))
    assert ends.tolist() == [0, 1]
    assert dataset.env_spec is not None
    assert (dataset.env_spec.id, dataset.env_spec.kwargs["opponent"]) == (making.ENVIRONMENT_ID, "semi_random")


@pytest.mark.extras
def test_minari_makes_the_environment_of_a_dataset(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(dataset_folder))
    dataset = minari.load_dataset("quarto/random-v0")
    environment = dataset.recover_environment()
    assert environment.observation_space == dataset.observation_space
    assert environment.action_space == dataset.action_space
    assert (environment.reset(seed=1)[0][:16] >= 0).sum() == 2
    assert dataset.env_spec is not None
    registered = gymnasium.spec(making.ENVIRONMENT_ID)
    for name in ("nondeterministic", "reward_threshold", "max_episode_steps", "order_enforce", "disable_env_checker"):
        assert getattr(dataset.env_spec, name) == getattr(registered, name), name


def test_parts_have_openings_of_their_own_and_pairings_of_every_player(dataset_folder: Path) -> None:
    for part in list_splits(PLAYED, GAMES, 5):
        (run,) = ArchiveStore.open(part.archive_folder(dataset_folder)).load_runs()
        assert run.spec == {**part.build_run_spec().to_record(), "seed": 5 + part.validation * VALIDATION_SEED}
    for part in list_splits(DATASETS, GAMES, 5):
        assert len(part.build_run_spec().pairing_labels) == part.dataset.pairing_count
        assert {first for first, _ in part.build_run_spec().pairing_labels} == {*part.dataset.players}
        assert {second for _, second in part.build_run_spec().pairing_labels} == {*part.dataset.opponents}
        assert part.games_a_pairing % 2 == 0
        assert part.total_games >= (GAMES / 10 if part.validation else GAMES)


def test_an_interrupted_command_goes_on_and_leaves_no_half_dataset(
    dataset_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = DatasetRequest(tmp_path / "made", list_splits(select_datasets(["random-v0"]), GAMES, 5), 1, "qarena")
    export = exchange.write_export

    def fails(*arguments: Any) -> Any:
        export(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(making, "write_export", fails)
        with pytest.raises(KeyboardInterrupt):
            create_datasets_unless_stopped(request, threading.Event())
    assert [path.name for path in (tmp_path / "made" / "parquet").iterdir()] == ["random-v0"]
    assert not list((tmp_path / "made" / "quarto").iterdir())
    stop = threading.Event()
    stop.set()
    assert not create_datasets_unless_stopped(request, stop)
    assert not list((tmp_path / "made" / "quarto").iterdir())
    assert create_datasets_unless_stopped(request, threading.Event())
    again = hash_files(tmp_path / "made")
    assert again == {key: checksums for key, checksums in hash_files(dataset_folder).items() if key in again}
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["parquet", "quarto"]


def test_what_is_there_is_kept_and_other_games_are_refused(
    dataset_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hash_files(dataset_folder)
    assert create_datasets_unless_stopped(
        DatasetRequest(dataset_folder, list_splits(PLAYED, GAMES, 5), 1, "qarena"), threading.Event()
    )
    assert capsys.readouterr().out.count("is there already") == 2
    assert hash_files(dataset_folder) == before
    with pytest.raises(RequestError, match=r"random-v0 was made with another --games or --seed"):
        create_datasets_unless_stopped(
            DatasetRequest(dataset_folder, list_splits(PLAYED, GAMES + 2, 5), 1, "qarena"), threading.Event()
        )


def test_the_size_of_the_work_is_told_in_seconds_or_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    stop.set()
    for games, threads, text in (
        (40, 1, "44 games, some 1 MB: about 3 s on 1 thread"),
        (10**6, 2, "about 113 min on 2 thr"),
    ):
        splits = list_splits(select_datasets(["random-v0"] if threads == 1 else ["mixed-v0", "medium-v0"]), games, 5)
        assert not create_datasets_unless_stopped(DatasetRequest(tmp_path / "none", splits, threads, "qarena"), stop)
        assert text in capsys.readouterr().out


def test_returns_are_normalised_between_the_references() -> None:
    games = Tally(pairs=((1, 0, 1), (0, 2, 0), (0, 2, 4)))  # of 20 games 10 won, 6 drawn, 4 lost: (10 - 4) / 20
    returns = compute_mean_return(games)
    assert returns.mean == pytest.approx((games.wins - games.losses) / games.games)
    assert returns.low < returns.mean < returns.high
    alike = compute_mean_return(
        Tally(pairs=((0, 0, 0), (0, 0, 0), (2, 0, 0)))
    )  # one game of each pair was won, one lost
    assert alike.mean == 0
    low, high = wilson_interval(1, 2)
    assert (alike.low, alike.high) == (2 * low - 1, 2 * high - 1)
    assert alike.high - alike.low > 1.6
    lost = compute_mean_return(Tally(pairs=((1, 0, 0), (0, 0, 0), (0, 0, 0))))
    assert (lost.mean, lost.low) == (-1, -1)
    assert lost.high > 0.5
    normalised = ReferenceReturns(-0.5, 0.5).scale_from_zero_to_one(Estimate(0.25, 0.0, 0.5))
    assert normalised == (0.75, 0.5, 1.0)


def test_perfect_play_scores_one_without_regret_and_random_play_nothing(
    qarena: Qarena, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "REFERENCE_GAMES", 200)
    typed = ("benchmark", "score", "random", "oracle", "semi_random", "--positions", str(small), "--games")
    result = qarena(*typed, "200", "--format", "csv")
    assert result.code == 0, result.err
    rows = {row["agent"]: row for row in pl.read_csv(io.StringIO(result.out)).iter_rows(named=True)}
    assert rows["oracle"]["regret"] == 0
    assert rows["oracle"]["score"] == pytest.approx(1, abs=0.03)
    assert rows["random"]["score"] == pytest.approx(0, abs=0.03)
    assert rows["random"]["regret"] > rows["semi_random"]["regret"] > 0
    assert (
        0.3 < rows["semi_random"]["score_low"] < rows["semi_random"]["score"] < rows["semi_random"]["score_high"] < 0.7
    )
    for row in rows.values():
        assert row["mean_return"] == pytest.approx((row["wins"] - row["losses"]) / row["games"])
        width = row["ref_max_score"] - row["ref_min_score"]
        assert row["score"] == pytest.approx((row["mean_return"] - row["ref_min_score"]) / width)
    monkeypatch.setattr(score, "REFERENCE_GAMES", 20)
    shown = qarena(*typed, "20", "--wide").out
    assert re.search(r"1 │ oracle +│ +(1\.0|0\.9)", shown)
    assert "v semi_random (random" in shown


@pytest.mark.slow
def test_policies_are_scored_by_name_against_any_opponent(qarena: Qarena, small: Path) -> None:
    assert qarena("train", "trainer=rl_encoded", "trainer.games=300", "policy.name=mine").code == 0
    typed = ("benchmark", "score", "mine", "--opponent", "rule_based", "--positions", str(small), "--games", "20")
    result = qarena(*typed, "--output", "scores.csv")
    assert result.code == 0, result.err
    assert qarena(*typed, "--output", "scores.csv").code == 2  # it exists
    (row,) = pl.read_csv("scores.csv").iter_rows(named=True)
    assert (row["agent"], row["opponent"], row["games"]) == ("policy(policy=mine)", "rule_based", 20)


def test_a_score_that_is_stopped_says_nothing(small: Path) -> None:
    stop = threading.Event()
    stop.set()
    request = ScoreRequest(["random"], "semi_random", Path("data/archive"), small)
    assert score_all_agents_unless_stopped(request, JudgeOptions(turns_per_position=1, games=20), stop) is None


def test_a_set_that_is_not_there_costs_one_line(qarena: Qarena) -> None:
    result = qarena("benchmark", "score", "random", "--positions", "none.parquet")
    assert re.fullmatch(r"[^\n]*none.parquet[^\n]*\n", result.err)
