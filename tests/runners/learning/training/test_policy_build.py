"""`qarena policy build` and `rebuild`: derived, played by name, derived again to the same bytes; wrong requests."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from analytics.tables.verification.archive import verify_archive
from tests.analytics.folders import forge as forge_record
from tests.analytics.folders import snapshot
from tests.analytics.stored_policies import COUNTS, origin
from tests.marks import seldom
from tests.paths import ROOT
from tests.runners.conftest import Qarena
from tests.runners.experiments import play, run_qarena
from tests.runners.learning.training import trainings

GAMES = 1200
BUILDS = {
    "mc_afterstate": ["where=winner >= 0", "kind.least=3"],
    "q_table": ["where=game_id < 60", "kind.discount=0.5"],
    "fitted_q": ["kind.least=1"],
    "gift": ["where=agent_0 = 'random'", "kind.smoothing=0.5"],
    "line_values": ["kind.games=100"],
    "encoded_q": ["kind.agent=semi_random", "kind.rewards=[1,-1,0,0]"],
}
QUICK = ("gift",)  # in the default suite: the others take longer


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an archive of two runs under classic rules, one with two imposed plies, and one each under other rules."""
    root = tmp_path_factory.mktemp("made") / "archive"
    play(root, "agent@a=semi_random", "agent@b=random", f"games={GAMES}", "archive.shard_games=1024")
    play(root, "agent@a=random", "agent@b=random", "b.name=other", "opening_plies=2", "games=1000", "seed=4")
    play(root, "agent@a=random", "agent@b=random", "games=20", "seed=9", "rules=square")
    play(root, "agent@a=random", "agent@b=random", "games=20", "seed=10", "rules=own_piece")
    return root


@pytest.fixture
def root(shared_root: Path, tmp_path: Path) -> Path:
    """Copy the archive, so that a test may change it."""
    shutil.copytree(shared_root, tmp_path / "archive")
    return tmp_path / "archive"


CLASSIC = "run_id IN (SELECT run_id FROM runs WHERE rules = 'classic')"


def build_arguments(kind: str, root: Path, *changes: str, name: str = "mine") -> list[str]:
    """Build the arguments of a ``qarena policy build``."""
    settings_by_key = dict(word.split("=", 1) for word in (*BUILDS.get(kind, ()), *changes))
    where = f"{CLASSIC} AND {settings_by_key.pop('where', 'true')}"
    settings = [f"name={name}", f"archive.root={root}", *map("=".join, settings_by_key.items())]
    return ["policy", "build", f"kind={kind}", *settings, "--where", where]


def card_of(root: Path, name: str = "mine") -> PolicyCard:
    return policy_store.find(ArchiveStore.open(root), name)


@pytest.mark.parametrize("kind", [*QUICK, *seldom(*(kind for kind in BUILDS if kind not in QUICK))])
def test_a_kind_is_built_shown_played_and_built_again_the_same(kind: str, root: Path, qarena: Qarena) -> None:
    built = qarena(*build_arguments(kind, root))
    assert (built.code, built.err) == (0, "")
    card = card_of(root)
    assert re.match(rf"{kind}: [\d,]+ rows from [\d,]+ games of (2 runs|run [0-9a-f]+) in ", built.out)
    shown = qarena("policy", "show", "mine", "--archive", str(root)).out
    assert re.search(rf"derived by +│ {kind}, {card.learned['games']:,} games", shown)
    assert card.learned["where"] in shown
    assert [shown.count(run_id) for run_id in card.learned["run_ids"]] == [1] * len(card.learned["run_ids"])
    assert re.search(rf"mine +│ {card.policy_id} │ {card.kind} ", qarena("policy", "ls", "--archive", str(root)).out)
    before = snapshot(root)
    for threads in ("1", "2"):
        again = qarena("policy", "rebuild", "mine", "--archive", str(root), "--threads", threads)
        rows = card.files["table.parquet"].rows
        same = f"identical: policy mine ({card.policy_id}), {rows:,} rows from {card.learned['games']:,} games\n"
        assert again == (0, same, "")
    assert snapshot(root) == before
    played = qarena("run", "agent@a=policy", "a.policy=mine", "agent@b=random", "games=20", f"archive.root={root}")
    assert (played.code, played.err) == (0, "")
    assert "policy(policy=mine)" in played.out
    assert verify_archive(ArchiveStore.open(root)).problems == []


@pytest.mark.slow
def test_it_is_the_same_in_another_process_and_archive_and_after_more_games(root: Path, qarena: Qarena) -> None:
    assert qarena(*build_arguments("mc_afterstate", root, "where=winner >= 0 AND pair_id >= 0")).code == 0
    first = card_of(root)
    elsewhere = root.parent / "elsewhere"  # the same games in other files, added in another order
    play(elsewhere, "agent@a=random", "agent@b=random", "b.name=other", "opening_plies=2", "games=1000", "seed=4")
    play(elsewhere, "agent@a=semi_random", "agent@b=random", f"games={GAMES}")
    shutil.copytree(root / "policies", elsewhere / "policies")
    play(root, "agent@a=semi_random", "agent@b=random", f"games={GAMES + 500}")  # the condition would choose these too
    result = run_qarena(root.parent, "policy", "rebuild", "mine", "--archive", str(elsewhere))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("identical: policy mine ")
    assert qarena(*build_arguments("mc_afterstate", root, "where=winner >= 0 AND pair_id >= 0")).code == 0
    second = card_of(root)
    assert second.learned["games"] > first.learned["games"]
    assert second.policy_id != first.policy_id
    for name_or_id in (first.policy_id, "mine"):
        assert qarena("policy", "rebuild", name_or_id, "--archive", str(root)).code == 0


def test_a_gift_policy_from_random_games_beats_random_nine_times_in_ten(root: Path) -> None:
    chosen = f"{CLASSIC} AND agent_0 <> 'semi_random' AND agent_1 <> 'semi_random'"
    assert trainings.build(root, "gift", chosen).learned["games"] == 1000
    outcome = play(root, 'agents=["policy(policy=mine)",random]', "games=2000", f"archive.root={root}")
    (result,) = outcome.results
    assert result.wins > 0.9 * result.games


@pytest.mark.parametrize(
    "overrides",
    [
        ["trainer=q_table", "trainer.games=60", "trainer.learner.discount=.5", "rules=square"],
        *seldom(
            ["trainer=rl_tabular", "trainer.games=60"],
            ["trainer=ga2", "trainer.generations=2", "trainer.games=4", "trainer.population=4", "trainer.offspring=2"],
        ),
    ],
    ids=lambda overrides: overrides[0],
)
def test_a_trained_policy_is_learned_again_from_its_games(overrides: list[str], tmp_path: Path, qarena: Qarena) -> None:
    root = tmp_path / "data/archive"
    trainings.train(root, *overrides, "policy.name=mine")
    if "ga2" not in overrides[0]:
        more = ["trainer.games=80" if "games" in word else word for word in overrides]
        trainings.train(root, *more, "policy.name=mine")
    before = snapshot(root)
    for policy_id in policy_cards.list_policy_ids(ArchiveStore.open(root)):
        result = qarena("policy", "rebuild", policy_id)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("identical: policy mine ")
    assert snapshot(root) == before


def forge(root: Path, **learned: Any) -> None:
    """Change what a card says of how its policy was learned."""
    path = policy_cards.policy_folder(ArchiveStore.open(root), card_of(root).policy_id) / "card.json"
    forge_record(Path(path), lambda card: card["learned"].update(learned))


def test_games_that_are_gone_or_others_and_other_code_are_said_to_be_so(root: Path, qarena: Qarena) -> None:
    card = trainings.build(root, "mc_afterstate", f"{CLASSIC} AND winner >= 0", least=3)
    rebuild, run_id, before = (
        ("policy", "rebuild", "mine", "--archive", str(root)),
        card.learned["run_ids"][0],
        snapshot(root),
    )
    last, record = max((root / f"games/run={run_id}").glob("*.parquet")), root / f"runs/{run_id}.json"
    last.unlink()
    result = qarena(*rebuild)
    assert (result.code, result.out) == (1, "")
    advice = r"restore them from a copy, or give the command of the run .*"
    assert re.fullmatch(rf"error: .*/games/run={run_id} lacks units \d+ .*: {advice}\n", result.err)
    record.unlink()
    result = qarena(*rebuild)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: run {run_id} has games and no record: restore {record} from a copy, or move ")
    other_files = [*last.parent.iterdir()]
    for path in other_files:
        path.unlink()
    expected = rf"error: policy 'mine' was derived from run {run_id}, which is no longer in .*\n"
    assert re.fullmatch(expected, qarena(*rebuild).refusal)
    for gone in (last, record, *other_files):
        gone.write_bytes(before[gone])
    assert snapshot(root) == before

    how = card.learned["derivation"]
    forge(
        root,
        derivation=how | {"parameters": how["parameters"] | {"least": 1}},
        checksums=dict.fromkeys(card.learned["checksums"], "0" * 16),
    )
    card_file = policy_cards.policy_folder(ArchiveStore.open(root), card.policy_id) / "card.json"
    forge_record(Path(card_file), lambda values: values["code"].update(fingerprint="f" * 16))
    result = qarena(*rebuild)
    assert result.code == 1
    assert result.out.startswith("differs: policy mine ")
    assert result.err.count("are not what they were: see 'qarena archive verify'") == 2
    assert f"code: fingerprint was {'f' * 16}, is {card.code['fingerprint']}" in result.err
    assert re.search(r"rows: stored [\d,]+, derived again [\d,]+\n", result.err)
    first = r"the first is row \d+: stored -?[\d.]+, derived again -?[\d.]+"
    assert re.search(rf"column mean: [\d,]+ different rows, {first}\n", result.err)


def test_a_trained_policy_without_its_games_or_its_trainer_is_refused_in_one_line(root: Path, qarena: Qarena) -> None:
    archive, rebuild = ArchiveStore.open(root), ("policy", "rebuild")
    small = ["trainer.generations=1", "trainer.games=2", "trainer.population=4", "trainer.offspring=2"]
    trained, bred = (
        trainings.train(root, *overrides).learned["run_ids"][-1]
        for overrides in (
            ("trainer=q_table", "trainer.games=20", "policy.name=trained"),
            ("trainer=ga2", *small, "policy.name=bred"),
        )
    )
    policy_store.save(archive, COUNTS, origin("foreign"))
    (derived,) = (record.run_id for record in archive.load_runs() if record.games == GAMES)
    trainings.build(root, "gift", f"game_id < 100 AND run_id = '{derived}'")
    first, *_, last = archive.list_effective_ranges(derived)
    Path(archive.find_path_of_containing_file("plies", derived, last)).unlink()  # none of its games were needed
    assert qarena(*rebuild, "mine", "--archive", str(root)).code == 0

    gone = re.escape(f"{archive.folder('plies', derived) / first.games_stem}.*.parquet")
    for name, expected in {
        "mine": rf"policy 'mine' was derived from games of run {derived}, and {gone}, in which .* missing: .*",
        "trained": rf"run {trained} lacks games from number 0 on: .*",
        "bred": rf"policy 'bred' was bred from the games of 2 runs, and run {bred} is no longer in .*",
        "foreign": r"policy 'foreign' was made by trainer 'counting' \(None\), which cannot learn again from .*",
    }.items():
        if name == "mine":
            Path(archive.find_path_of_containing_file("plies", derived, first)).unlink()
        elif name != "foreign":
            shutil.rmtree(root / f"games/run={card_of(root, name).learned['run_ids'][-1]}")
        before = snapshot(root)
        result = qarena(*rebuild, name, "--archive", str(root))
        assert re.fullmatch(f"error: {expected}\n", result.refusal), name
        assert snapshot(root) == before


WRONG: list[tuple[list[str], str]] = [
    (
        [],
        r"kind=NAME is missing; valid: encoded_q, fitted_q, gift, line_values, .*",
    ),
    (["kind=gifts"], r"kind 'gifts' does not exist; did you mean 'gift'\? valid: .*"),
    (["gift"], r"'gift' is not key=value: 'qarena policy build --help' lists the keys"),
    (["kind=gift", "smoothing=2"], r"smoothing=2 is a setting of the kind gift: write kind.smoothing=2"),
    (["kind=gift", "kind.smothing=2"], r"key 'kind.smothing' does not exist; did you mean 'kind.smoothing'\? .*"),
    (["kind=gift", "kind._target_=agents.dumb.Dumb"], r"kind 'gift': agents.dumb.Dumb is not a PolicyKind .*"),
    (["kind=gift", "kind.smoothing=-1"], r"kind 'gift' cannot be made: smoothing=-1 is below 0: .*"),
    (["kind=gift", "kind.smoothing=1,2"], r"kind.smoothing=1,2: several values are a sweep, .*"),
    (["kind=mc_afterstate", "kind.least=0"], r".*least=0 is not a whole number from 1 to 2147483648 .*"),
    (["kind=gift", "threads=two"], r"threads=two: 'two' is not a whole number"),
    (["kind=gift", "where=winner >= 0"], r"'where=winner >= 0' cannot be read: .* --where \"winner >= 0\""),
    (["kind=gift", "--where", "agent_0 = 'nobody'"], r"archive .* has no game with where=\"agent_0 = 'nobody'\".*"),
    (["kind=gift", "--where", "true); DROP VIEW games; SELECT (1"], r"where=.* is not a condition on games: .*"),
    (["kind=gift"], r"runs [0-9a-f]{12} \(\w+\) and [0-9a-f]{12} \(\w+\) have different rules, .*"),
    (
        ["kind=gift", "--where", "run_id IN (SELECT run_id FROM runs WHERE rules = 'own_piece')"],
        r"run [0-9a-f]{12} was played under rules 'own_piece', where the mover chooses the piece: .*",
    ),
    (
        ["kind=mc_afterstate", "--where", f"{CLASSIC} AND game_id < 2", "kind.least=9"],
        r"no row comes from .* games with least=9: .*",
    ),
    (
        ["kind=encoded_q", "--where", CLASSIC, "kind.agent=semi"],
        r"agent=semi played none of the games; did you mean .*",
    ),
    (["kind=gift", "archive.root=nowhere"], r"there is no archive at nowhere: .*"),
]


def test_a_wrong_request_is_one_line_and_changes_nothing(shared_root: Path, tmp_path: Path, qarena: Qarena) -> None:
    before = snapshot(shared_root)
    for typed, expected in WRONG:
        result = qarena(
            "policy", "build", *typed, *([] if "nowhere" in str(typed) else ["--archive", str(shared_root)])
        )
        assert re.fullmatch(f"error: {expected}\n", result.refusal), typed
        late = "no row" in expected or "played none" in expected  # only the games tell
        assert [path.name for path in tmp_path.iterdir()] == ["outputs"] * late, typed
        shutil.rmtree(tmp_path / "outputs", ignore_errors=True)
    assert snapshot(shared_root) == before


def test_a_name_stands_for_one_question_only(root: Path, qarena: Qarena) -> None:
    trainings.build(root, "gift", CLASSIC)
    before = snapshot(root)
    for changes in (["kind.smoothing=3"], ["where=agent_1 = 'random'"]):
        result = qarena(*build_arguments("gift", root, *changes))
        assert re.fullmatch(
            r"error: name=mine is the name of another policy \(gift, kind gift, [\d,]+ .*\n", result.refusal
        )
    taken = qarena("train", "trainer=rl_tabular", "policy.name=mine", f"archive.root={root}")
    assert (taken.code, "is the name of another policy (gift" in taken.err) == (2, True)
    assert snapshot(root) == before


@pytest.mark.slow
def test_a_condition_reaches_sql_as_it_was_typed(root: Path, qarena: Qarena) -> None:
    odd = f"{CLASSIC} AND agent_0 NOT IN ('a''b', 'c,d', '\\${{x}}', '${{x}}', '\"[{{', 'e\\')"
    assert qarena("policy", "build", "kind=gift", "--where", odd, "--archive", str(root)).code == 0
    card = card_of(root, "gift")
    assert card.learned["where"] == odd
    again = shlex.split(card.learned["command"])  # the command on the card asks for the same again
    assert again[again.index("--where") + 1] == odd
    assert qarena(*again[1:]).code == 0
    assert card_of(root, "gift").learned["where"] == odd


OWN = """
import numpy as np

from agents.learning.policy import Policy

class Counted:
    def __init__(self, factor=1, how="right"):
        self.factor = factor
        self.how = how

    def derive(self, dataset, threads):
        if self.how == "none":
            return None
        count = dataset.game_id[:1] * 0 + self.factor * len(dataset.game_id)
        if self.how == "raises":
            return {}["wrong"]
        return Policy("counted", table={"count": count.astype(np.uint8) if self.how == "unsigned" else count})

class Counting:
    def __init__(self, policy=None):
        assert policy is None or len(policy.table["count"]) == 1

    def choose(self, position, rng):
        return position.free[0], (*position.available, -1)[0]
"""


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a user's own folder with a kind, an agent that plays by it, and the module of both."""
    monkeypatch.delitem(sys.modules, "counted_games", raising=False)
    folder = tmp_path / "own"
    for path, text in {
        "counted_games.py": OWN,
        "kind/counted.yaml": "_target_: counted_games.Counted\nfactor: 1\nhow: right\n",
        "agent/counting.yaml": (
            "_target_: counted_games.Counting\nreads: [counted]\ndefault_player: true\npolicy: null\n"
        ),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_kind_of_ones_own_is_built_rebuilt_shown_and_played_from_its_folder(
    root: Path, own_folder: Path, qarena: Qarena
) -> None:
    mine = ["--config-dir", "own"]
    before = [*sys.path]
    built = qarena(
        "policy", "build", "kind=counted", "kind.factor=2", "--where", CLASSIC, "--archive", str(root), *mine
    )
    assert (built.code, built.err) == (0, "")
    assert built.out.endswith(f"run 'policy(policy=counted)' random --archive {root} --config-dir {own_folder}\n")
    assert sys.path == before
    readme = (ROOT / "data/README.md").read_text(encoding="utf-8")
    (card,) = (stored for stored in policy_cards.load_cards(ArchiveStore.open(root)) if stored.name == "counted")
    assert [key for key in card.learned if f"`{key}`" not in readme] == []
    again = qarena("policy", "rebuild", "counted", "--archive", str(root), "--trust-agents", *mine)
    assert again.out.startswith("identical: policy counted ")
    refused = qarena("policy", "rebuild", "counted", "--archive", str(root), *mine)
    assert (
        "code that this project does not vouch for (class counted_games.Counted), and you did not name it"
        in refused.refusal
    )
    assert refused.err.endswith("allow it with --trust-agents\n")
    shown = qarena("policy", "show", "counted", "--archive", str(root), *mine)
    assert "counted, read by counting, policy" in shown.out
    played = qarena("run", "agent@a=policy", "a.policy=counted", f"archive.root={root}", "games=2", *mine)
    assert (played.code, played.err) == (0, "")


def test_a_kind_of_ones_own_that_fails_is_told_in_one_line(shared_root: Path, own_folder: Path, qarena: Qarena) -> None:
    for how, message in {
        "raises": "kind 'counted' (counted_games.Counted) raised KeyError: 'wrong', at own/counted_games.py:16",
        "none": "kind 'counted' (counted_games.Counted) returned NoneType, not a Policy",
        "unsigned": "returned a policy that cannot be stored: column 'count' is uint8 of 1 dimension",
    }.items():
        build_arguments = [
            "kind=counted",
            f"kind.how={how}",
            "--where",
            CLASSIC,
            "--archive",
            str(shared_root),
            "--config-dir",
            "own",
        ]
        result = qarena("policy", "build", *build_arguments)
        assert (result.code, result.out) == (1, "")
        assert message in result.err


def test_more_games_than_memory_are_refused_before_they_are_read(
    shared_root: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.learning.training.policy_build.available_megabytes", lambda: 0.1)
    result = qarena(*build_arguments("gift", shared_root, name="large"))
    assert re.fullmatch(
        r"error: [\d,]+ games would take \d+ MB of memory and 0 MB are free: choose at most 873, .*\n", result.refusal
    )
