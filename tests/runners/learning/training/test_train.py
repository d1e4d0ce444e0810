"""`qarena train` as a user meets it: a policy is stored under a name and described, an invalid request is refused."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics import open_archive
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.tables.upkeep.garbage import list_unneeded_files
from analytics.tables.verification.archive import verify_archive
from runners.config.yaml_options import list_options, load_option
from tests.analytics.folders import snapshot
from tests.marks import seldom
from tests.paths import CONF
from tests.runners.config.test_sweep import parse_table
from tests.runners.conftest import Qarena
from tests.runners.experiments import parse_resuming_command, start_qarena, wait_for
from tests.runners.learning.training.trainings import LEARNERS, build_request, without_pictures

QUICK = ("rl_encoded", "q_table")
SMALL = ("train", "trainer=q_placement", "trainer.games=60", "curve.block=20", "progress=false")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data/archive"


@pytest.fixture
def no_pictures() -> Iterator[None]:
    """Draw no learning curves, because drawing takes longer than everything else."""
    with without_pictures():
        yield


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", [*QUICK, *seldom(*(name for name in LEARNERS if name not in QUICK))])
def test_what_was_learned_is_kept_and_played_by_its_name(name: str, qarena: Qarena, root: Path) -> None:
    result = qarena("train", f"trainer={name}", "trainer.games=40", "curve.block=20")
    assert (result.code, result.err) == (0, "")
    card = policy_store.find(ArchiveStore.open(root), name)
    learned, took, kept, _, command = result.out.splitlines()
    rate = r"[\d.]+ %"
    expected = rf"{name} learned from 40 games: it won {rate} of the first 20, {rate} of games 21 to 40\."
    assert re.fullmatch(expected, learned)
    run_id = card.learned["run_ids"][0]
    assert re.fullmatch(
        rf"40 games in .* a second with every ply on disk; learned from run {run_id} in data/archive\.", took
    )
    files = ", ".join(map(card.stored_name, ("table.parquet", "curve.parquet", "curve.svg")))
    assert kept == f"Policy '{name}' ({card.policy_id}) is in data/archive/policies/{card.policy_id}: {files}."
    player = name if name in list_options("agent") else "policy"
    assert command == f"  qarena run '{player}(policy={name})' random"
    played = qarena(*shlex.split(command)[1:], "games=10")
    assert (played.code, played.err) == (0, "")
    assert f"{player}(policy={name})" in played.out
    assert verify_archive(ArchiveStore.open(root)).problems == []


def test_the_card_says_how_it_was_learned(qarena: Qarena, root: Path) -> None:
    assert qarena(*SMALL, "seed=3", "trainer.learner.discount=.5", "policy.name=mine", "rules=square").code == 0
    card, policy = policy_store.read(ArchiveStore.open(root), "mine")
    (record,) = ArchiveStore.open(root).load_runs()
    assert (card.kind, card.rules["name"], card.code["version"]) == ("q_placement", "square", "0.1.0")
    learned = dict(card.learned)
    parameters = learned.pop("parameters")
    del learned["training"]
    assert learned == {
        "trainer": "q_placement",
        "seed": 3,
        "games": 60,
        "run_ids": [record.run_id],
        "command": record.command,
    }
    assert record.command.endswith("policy.name=mine rules=square")
    defaults = load_option("trainer", "q_placement")
    assert parameters == defaults | {"games": 60, "learner": defaults["learner"] | {"discount": 0.5}}
    assert card.files["table.parquet"].rows == len(policy.table["value"]) > 100
    curve = policy_store.read_table(ArchiveStore.open(root), card, "curve")
    assert curve.select("first_game", "games").rows() == [(0, 20), (20, 20), (40, 20)]
    folder = policy_cards.policy_folder(ArchiveStore.open(root), card.policy_id)
    picture = Path(folder / card.stored_name("curve.svg")).read_text()
    for text in (
        "How q_placement learned",
        "against ga2",
        "square rules, seed 3",
        "learner.discount 0.5",
        "of each 20",
    ):
        assert text in picture


@pytest.mark.usefixtures("no_pictures")
def test_the_same_again_plays_nothing_and_says_so_and_more_goes_on(qarena: Qarena, root: Path) -> None:
    qarena(*SMALL)
    first = policy_store.find(ArchiveStore.open(root), "q_placement")
    before = {path: content for path, content in snapshot(root).items() if path.name != "card.json"}
    again = qarena(*SMALL)
    assert again.code == 0
    run_id = first.learned["run_ids"][0]
    assert again.out.splitlines()[1] == f"Nothing to play: data/archive had all games; learned from run {run_id}."
    assert {path: content for path, content in snapshot(root).items() if path.name != "card.json"} == before
    more = qarena(*SMALL, "trainer.games=100")
    assert more.code == 0
    assert re.match(r"40 games in ", more.out.splitlines()[1])
    second = policy_store.find(ArchiveStore.open(root), "q_placement")
    assert (second.policy_id == first.policy_id, second.learned["games"]) == (False, 100)
    assert second.learned["run_ids"] == first.learned["run_ids"]
    assert policy_store.find(ArchiveStore.open(root), first.policy_id).learned["games"] == 60
    fewer = qarena(*SMALL)
    assert "Nothing to play" in fewer.out
    assert policy_store.find(ArchiveStore.open(root), "q_placement").policy_id == first.policy_id


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("seed=2", "q_placement_seed-2"),
        ("trainer.learner.decay=.5", "q_placement_decay-0.5"),
        ("trainer.learner.faithful=true seed=3", "q_placement_faithful-true_seed-3"),
        ("rules=square", "q_placement_rules-square"),
        ("trainer.games=20 threads=1 curve.block=7", "q_placement"),
        ("trainer.opponent='ga2(alpha=0.5)'", r"q_placement-[0-9a-f]{12}"),
        ("rules.diagonals=none", r"q_placement-[0-9a-f]{12}"),
        ("archive.other_code=new", r"q_placement-[0-9a-f]{12}"),
    ],
)
def test_trainings_that_differ_have_names_of_their_own(typed: str, name: str) -> None:
    result = build_request("trainer=q_placement", *typed.split())
    assert re.fullmatch(name, result.policy)
    policy_store.check_name(result.policy)
    assert (result.training_id == build_request("trainer=q_placement").training_id) == (name == "q_placement")


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_sweep_ends_with_one_table_of_policies(qarena: Qarena, root: Path) -> None:
    result = qarena(*SMALL[:1], "-m", *SMALL[1:], "trainer.learner.decay=.5,.9", "seed=1,2")
    assert result.code == 0
    table = parse_table(result)
    assert [row[:5] for row in table] == [
        ["0", "0.5", "1", "q_placement_decay-0.5", "60"],
        ["1", "0.5", "2", "q_placement_decay-0.5_seed-2", "60"],
        ["2", "0.9", "1", "q_placement_decay-0.9", "60"],
        ["3", "0.9", "2", "q_placement_decay-0.9_seed-2", "60"],
    ]
    archive = ArchiveStore.open(root)
    for row in table:
        curve = policy_store.read_table(archive, policy_store.find(archive, row[3]), "curve")
        assert float(row[5]) == round(100 * curve["win_rate"][-1], 2)
    with open_archive(root) as opened:
        jobs = opened.sql("SELECT job, status, games, wins + draws + losses AS counted FROM sweeps ORDER BY job").rows()
    assert jobs == [(job, "complete", 60, 60) for job in range(4)]


WRONG = {
    "trainer.games=many": "trainer 'q_placement': games='many' is not a whole number",
    "trainer=q_placment": "trainer 'q_placment' does not exist; did you mean 'q_placement'?",
    "+trainer.learner.rate=1": "agent 'q_placement(training,rate=1)' has no parameter 'rate'",
    "trainer.learner.decay=2": "decay=2 is not a probability from 0 to 1",
    "+trainer.more=1": "trainer 'q_placement' has no parameter 'more'",
    "trainer._target_=agents.dumb.Dumb": "trainer 'q_placement': agents.dumb.Dumb is not a Trainer",
    "trainer.opponent=dum": "agent 'dum' does not exist; did you mean 'dumb'?",
    "rules=own_piece": "does not play rules 'own_piece'",
    "policy.name=no/name": "policy.name='no/name' cannot be a name",
    "policy.nam=x": "key 'policy.nam' does not exist; did you mean 'policy.name'?",
    "agent@a=random": "agent@a",
}


def test_what_makes_no_sense_is_refused_before_any_folder_is_made(qarena: Qarena, tmp_path: Path) -> None:
    for typed, expected in WRONG.items():
        assert expected in qarena(*SMALL, typed).refusal, typed
        assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_pictures")
def test_a_users_own_trainer_is_one_too(qarena: Qarena, tmp_path: Path) -> None:
    folder = tmp_path / "own/trainer"
    folder.mkdir(parents=True)
    content = (CONF / "trainer/q_placement.yaml").read_text().replace("decay: 0.9995", "decay: 0.5")
    (folder / "mine.yaml").write_text(content)
    result = qarena("train", "--config-dir", "own", "trainer=mine", "trainer.games=20")
    assert (result.code, result.err) == (0, "")
    assert "Policy 'mine' (" in result.out
    assert "run 'q_placement(policy=mine)' random" in result.out
    wrong = qarena("train", "--config-dir", "own", "trainer=mine", "trainer.learner.dicay=.1")
    assert "did you mean 'trainer.learner.decay'?" in wrong.err


GAMES = 24_000
ARGUMENTS = (
    *("train", "trainer=q_placement", f"trainer.games={GAMES}", "policy.name=mine", "seed=3"),
    *("archive.root=games here", "archive.shard_games=4096", "archive.shard_seconds=0.05"),
)
DEADLINE = 120  # seconds that nothing here takes


@pytest.fixture
def expected(tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the knowledge of an uninterrupted training."""
    folder = tmp_path / "uninterrupted"
    folder.mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(folder)
        assert qarena(*ARGUMENTS).code == 0
    return knowledge(folder)


def knowledge(folder: Path) -> str:
    """Return the digest of the policy's knowledge, after a check that the archive is sound."""
    archive = ArchiveStore.open(folder / "games here")
    assert verify_archive(archive).problems == []
    assert sum(archive.count_games(run_id) for run_id in archive.list_ids_of_runs_with_games()) == GAMES
    return policy_store.find(archive, "mine").knowledge


def files_of_games(folder: Path) -> int:
    return len(list(folder.glob("games here/games/*/*.parquet")))


@pytest.mark.slow
def test_after_kill_a_training_goes_on_from_its_games(tmp_path: Path, qarena: Qarena, expected: str) -> None:
    with start_qarena(tmp_path, *ARGUMENTS) as process:
        wait_for(process, lambda: files_of_games(tmp_path) >= 2)
        process.kill()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGKILL
    archive = ArchiveStore.open(tmp_path / "games here")
    assert verify_archive(archive).problems == []
    assert policy_cards.load_cards(archive) == []
    done = qarena(*ARGUMENTS)
    assert done.code == 0, done.err
    played = int(done.out.splitlines()[1].partition(" games")[0].replace(",", ""))
    assert 0 < played < GAMES
    assert knowledge(tmp_path) == expected


@pytest.mark.slow
def test_sigterm_prints_the_command_that_goes_on(tmp_path: Path, qarena: Qarena, expected: str) -> None:
    with start_qarena(tmp_path, *ARGUMENTS) as process:
        wait_for(process, lambda: files_of_games(tmp_path) >= 2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 143
    (record,) = ArchiveStore.open(tmp_path / "games here").load_runs()
    assert record.status == "interrupted"
    assert "Traceback" not in out + err
    kept = re.match(
        r"Learned from ([\d,]+) games so far; played \1 games now\. The games are in .*; the policy is stored once all",
        out,
    )
    assert kept
    assert 0 < int(kept[1].replace(",", "")) < GAMES
    archive = ArchiveStore.open(tmp_path / "games here")
    assert policy_cards.load_cards(archive) == []
    assert list_unneeded_files(archive) == []
    program, *arguments = parse_resuming_command(err)
    assert (program, *arguments) == ("qarena", *ARGUMENTS)
    done = qarena(*arguments)
    assert done.code == 0, done.err
    assert knowledge(tmp_path) == expected
