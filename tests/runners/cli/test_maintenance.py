"""``qarena archive compact``, ``merge``, ``export`` and ``import`` as a person uses them."""

from __future__ import annotations

import io
import re
import shutil
import signal
import sys
from pathlib import Path
from subprocess import run

import pytest

from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import write_game_tables
from analytics.tables.upkeep.garbage import list_unneeded_files
from runners.bench.timing import measure_process
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import random_block
from tests.marks import seldom
from tests.paths import ROOT, SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.experiments import play


def test_runs_are_listed_as_data(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("archive", "ls", "--archive", str(SAMPLE), "--format", "csv")
    heading, *rows = result.out.splitlines()
    assert heading.startswith("run_id,created,status,rules,agents,")
    assert len(rows) == len(ArchiveStore.open(SAMPLE).list_ids_of_runs_with_games())
    with open_archive(SAMPLE) as archive:
        answer = archive.runs()
    assert answer.write(tmp_path / "runs.csv").read_text() == result.out
    assert qarena("archive", "ls", "--archive", str(SAMPLE), "--wide").out.rstrip() == str(answer)


@pytest.mark.slow
def test_a_policy_is_derived_again_bit_for_bit_after_compaction(tmp_path: Path, qarena: Qarena) -> None:
    where = ("--archive", str(tmp_path / "archive"))
    play(tmp_path / "archive", "agent@a=random", "agent@b=random", "games=100", "archive.shard_games=20")
    assert qarena("policy", "build", "kind=gift", f"archive.root={tmp_path / 'archive'}").code == 0
    question = "SELECT run_id, games FROM runs ORDER BY ALL"
    run_counts = qarena("sql", question, "--format", "csv", *where).out
    files = len(list(tmp_path.glob("archive/games/*/*")))
    assert files > 4
    done = qarena("archive", "compact", *where)
    assert done.code == 0
    later = f"; 'qarena archive compact --archive {tmp_path}/archive' removes the {3 * files} old files ten minutes"
    assert done.out.startswith(f"{files} files of games are now 1{later}")
    assert qarena("sql", question, "--format", "csv", *where).out == run_counts
    assert qarena("archive", "compact", "--age", "0", *where).out.endswith(f"; {3 * files} old files removed.\n")
    rebuilt = qarena("policy", "rebuild", "gift", *where)
    assert rebuilt.code == 0, rebuilt.err
    assert "identical" in rebuilt.out
    assert qarena("archive", "verify", *where).out.endswith(": no problems\n")
    nothing = qarena("archive", "compact", *where)
    assert nothing.out.startswith("Nothing to compact")


def test_a_dry_run_changes_nothing_and_says_what_goes_and_why(tmp_path: Path, qarena: Qarena) -> None:
    root, where = tmp_path / "archive", ("--archive", str(tmp_path / "archive"))
    play(root, "agent@a=random", "agent@b=random", "games=100", "archive.shard_games=20")
    archive = ArchiveStore.open(root)
    (run,) = archive.list_ids_of_runs_with_games()
    small, half, foreign = ([*root.glob("games/*/*")], *(root / f"games/run={run}/{x}" for x in (HALF, "notes.txt")))
    half.write_bytes(b"half")
    foreign.write_bytes(b"mine")
    before = snapshot(tmp_path)
    planned = qarena("archive", "compact", "--dry-run", "--age", "0", *where)
    assert (planned.code, planned.err, snapshot(tmp_path)) == (0, "", before)
    assert planned.out.splitlines() == [
        f"goes   4 bytes  {half}: a writer that was killed left it",
        f"stays  4 bytes  {foreign}: no archive names a file like this, so it is never removed",
        f"{len(small)} files of games would become fewer and larger; 1 file would be removed",
    ]
    young = qarena("archive", "compact", "--dry-run", *where).out.splitlines()[0]
    assert re.fullmatch(rf"stays  4 bytes  {half}: .* left it, but only \d+ s ago, .*", young)
    compacted = qarena("archive", "compact", "--age", "0", *where).out
    assert compacted.startswith(
        f"{len(small)} files of games are now 1; {3 * len(small) + 1} old files removed; 1 file "
    )
    assert not half.exists()
    assert foreign.exists()


def test_a_dry_run_tells_of_replaced_files_of_the_named_runs_only(tmp_path: Path, qarena: Qarena) -> None:
    root, where = tmp_path / "archive", ("--archive", str(tmp_path / "archive"))
    for seed in (1, 2):
        play(root, "agent@a=random", "agent@b=random", "games=40", "archive.shard_games=20", f"seed={seed}")
    qarena("archive", "compact", *where)
    one, _ = ArchiveStore.open(root).list_ids_of_runs_with_games()
    lines = qarena("archive", "compact", "--dry-run", "--age", "0", "--run", one, *where).out.splitlines()
    assert len(lines) > 3
    assert all(f"run={one}/" in line and line.endswith(": other files hold the same") for line in lines[:-1])


@pytest.mark.slow
def test_memory_of_compaction_grows_no_faster_than_the_files_it_makes(tmp_path: Path) -> None:
    small, many = ("archive.shard_games=65536", "archive.shard_seconds=60"), "games=10_000_000"
    measure_process(["run", "agent@a=random", "agent@b=random", many, *small, "--archive=many"], tmp_path)
    measure_process(["archive", "index", "--archive", "many"], tmp_path)
    peaks = {}
    for size in (16, 64):  # megabytes of a file; all at once would be 330
        shutil.copytree(tmp_path / "many", tmp_path / "compacted")
        peaks[size] = measure_process(
            ["archive", "compact", "--archive", "compacted", "--size", f"{size}MiB"], tmp_path
        ).peak_bytes
        shutil.rmtree(tmp_path / "compacted")
    assert peaks[64] - peaks[16] < 2 * (64 - 16) * 1_000_000


def test_an_interrupted_merge_says_how_to_go_on(
    tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("analytics.tables.upkeep.archive_merge.merge_archives", interrupt)
    note = "interrupted: what is merged is kept; run the same command again to go on\n"
    result = qarena("archive", "merge", str(SAMPLE), str(tmp_path / "target"))
    assert (result.code, result.out, result.err.endswith(note)) == (143, "", True)


def test_archives_are_merged_and_again_there_is_nothing_to_do(tmp_path: Path, qarena: Qarena) -> None:
    play(tmp_path / "one", "agent@a=random", "agent@b=dumb", "games=20")
    play(tmp_path / "two", "agent@a=random", "agent@b=dumb", "games=40")
    places = [str(tmp_path / name) for name in ("one", "two", "both")]
    done = qarena("archive", "merge", *places)
    assert (done.code, "Added to" in done.out, "40 games, 1 new run" in " ".join(done.out.split())) == (
        0,
        True,
        True,
    )
    (run,) = ArchiveStore.open(tmp_path / "both").load_runs()
    assert (run.games, run.status) == (40, "complete")
    assert qarena("archive", "merge", *places).out.startswith("Nothing to add")
    assert qarena("archive", "verify", "--archive", places[2]).code == 0


def test_archives_that_contradict_each_other_are_refused_and_nothing_is_written(tmp_path: Path, qarena: Qarena) -> None:
    for name in ("one", "two"):
        play(tmp_path / name, "agent@a=random", "agent@b=dumb", "games=20")
    other = ArchiveStore.open(tmp_path / "two")
    (run,) = other.load_runs()
    for table in ("games", "plies", "tallies"):
        shutil.rmtree(other.folder(table, run.run_id))
    write_game_tables(other, run.run_id, run.unit_line, run.pairings, (0, 10), [random_block(1, 0, 0, 10)])
    for order in (("one", "two", "both"), ("two", "one", "both")):
        done = qarena("archive", "merge", *(str(tmp_path / name) for name in order))
        assert done.code == 2
        assert f"error: run {run.run_id} has different games of units 0 to 9" in " ".join(done.err.split())
        assert not [*(tmp_path / "both").glob("games/*")]
    assert list_unneeded_files(other) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("compact", "--size", "100MB"),
            "'100MB' is not a size: write a number and KiB, MiB, GiB or TiB",
        ),
        (("compact", "--size", "1B"), "--size 1 bytes is not the size of a file: write 1KiB to 4GiB"),
        (("compact", "--run", "ffffffffffff"), "run 'ffffffffffff' is not in archive"),
        (("merge", str(SAMPLE)), "name at least two archives"),
        (("merge", str(SAMPLE), str(SAMPLE)), "an archive is named twice"),
        (("merge", "data/nowhere", str(SAMPLE)), "there is no archive at data/nowhere"),
    ],
)
def test_wrong_requests_cost_one_line(words: tuple[str, ...], message: str, qarena: Qarena) -> None:
    command, *rest = words
    where = () if command == "merge" else ("--archive", str(SAMPLE))
    done = qarena("archive", command, *rest, *where)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err


HALF = f".tmp-{32 * '0'}"  # what a writer that was killed leaves
SAMPLE_ARCHIVE = str(ROOT / "data/sample")
PAGE = (ROOT / "docs/exchange.md").read_text(encoding="utf-8")
EXPORT = ("archive", "export", "--archive", SAMPLE_ARCHIVE, "--output")
WON = "0@a1 1@b1 2@c1 3@d1"


def test_what_leaves_comes_in_and_leaves_the_same(qarena: Qarena, tmp_path: Path) -> None:
    result = qarena("archive", "export", "--format", "text", "--output", "one.txt", "--archive", SAMPLE_ARCHIVE)
    assert (result.code, result.out, result.err) == (0, "16,000 games written to one.txt\n", "")
    result = qarena("archive", "import", "one.txt")
    with open_archive(Path(SAMPLE_ARCHIVE)) as sample:
        runs = sample.sql("SELECT run_id, games FROM runs ORDER BY ALL").rows()
    added = [(line.split()[1], line.split(": ")[1]) for line in result.out.splitlines()]
    assert sorted(added) == [(run_id, f"{games:,} games added") for run_id, games in runs]
    result = qarena("archive", "verify")
    assert result.out == "5 runs, 5 ranges, 16,000 games, 143,806 plies: no problems\n"
    qarena("archive", "export", "--format", "text", "--output", "two.txt")
    assert (tmp_path / "two.txt").read_bytes() == (tmp_path / "one.txt").read_bytes()
    before = snapshot(tmp_path / "data")
    result = qarena("archive", "import", "two.txt")
    assert result.out.count("no games added, 1,000 were in the archive already") == 4
    assert snapshot(tmp_path / "data") == before


def test_games_of_a_run_that_is_not_whole_are_said_to_be_single(qarena: Qarena, tmp_path: Path) -> None:
    where = "run_id IN (SELECT run_id FROM runs WHERE rules = 'square' AND opening_plies = 2)"
    qarena(*EXPORT, "one.txt", "--format", "text", "--where", where)
    *lines, _ = (tmp_path / "one.txt").read_text().splitlines(keepends=True)
    (tmp_path / "one.txt").write_text("".join(lines))
    result = qarena("archive", "import", "one.txt")
    assert ": 999 games added" in result.out
    assert re.fullmatch(r"run \w{12} is not whole in one.txt: its games are single games, without pairs\n", result.err)


def test_a_text_that_grows_game_by_game_leaves_one_file(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics.tables.upkeep.compaction.MIN_SIBLINGS", 4)
    for games in range(1, 9):
        (tmp_path / "grown.txt").write_text(f"{WON}\n" * games)
        assert ": 1 game added" in qarena("archive", "import", "grown.txt").out
    archive = ArchiveStore.open(tmp_path / "data/archive")
    (run_id,) = archive.list_ids_of_runs_with_games()
    assert [stored[:2] for stored in archive.list_effective_ranges(run_id)] == [(0, 8)]
    assert qarena("sql", "SELECT count(*) AS games FROM games", "--format", "csv").out == "games\n8\n"


def test_imported_games_are_asked_the_same_questions(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"[agent_0=ada] [agent_1=bob] {WON}\n[agent_0=bob] [agent_1=ada] [result=0-1] F@b1\n{WON}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    result = qarena("archive", "import", "-", "--name", "club night")
    assert result.code == 0
    run_id = result.out.split()[1]
    assert result.out == f"run {run_id} (classic, club night): 3 games added\n"
    question = "SELECT agent_0, agent_1, winner, ending, opening FROM games ORDER BY agent_0"
    assert qarena("sql", question, "--format", "csv").out.splitlines()[1:] == [
        "ada,bob,0,line,0",
        "bob,ada,1,forfeit_resigned,0",
        "unknown,unknown,0,line,0",
    ]
    assert "no problems" in qarena("archive", "verify").out
    assert "complete" in qarena("archive", "ls").out


@pytest.mark.parametrize(("form", "name"), [("csv", "x.csv"), ("minari", "x-v0"), *seldom(("d3rlpy", "x.npz"))])
def test_a_file_is_replaced_only_if_asked(qarena: Qarena, tmp_path: Path, form: str, name: str) -> None:
    perspective = [] if form == "csv" else ["--perspective", "seat_1"]
    typed = ["archive", "export", "--format", form, *perspective, "--output", name, "--archive", SAMPLE_ARCHIVE]
    assert qarena(*typed, "--sample", "20").code == 0
    before = snapshot(tmp_path)
    result = qarena(*typed, "--sample", "30")
    assert (result.code, snapshot(tmp_path)) == (2, before)
    assert result.err == f"error: --output {name} exists: name another, or replace it with --force\n"
    message = qarena(*typed, "--sample", "30", "--force").out
    episodes = rf"30 episodes, \d+ steps written to {name}, rewards for seat_1, at the end only\n"
    assert re.fullmatch(f"30 games written to {name}\n" if form == "csv" else episodes, message)
    assert snapshot(tmp_path) != before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_text_and_csv_go_down_a_pipe(qarena: Qarena, tmp_path: Path) -> None:
    for typed in (("csv", "--rows", "games"), ("csv",), ("text",)):
        result = qarena(*EXPORT, "-", "--sample", "20", "--format", *typed)
        assert (result.code, result.err, list(tmp_path.iterdir())) == (0, "", [])
        qarena(*EXPORT, "x", "--sample", "20", "--format", *typed)
        assert result.out == (tmp_path / "x").read_text()
        (tmp_path / "x").unlink()


@pytest.mark.slow
def test_python_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (source,) = [block for block in blocks if "ExportRequest" in block]
    run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, check=True)


WRONG: list[tuple[tuple[str, ...], str]] = [
    (
        (*EXPORT, "x", "--format", "pgn"),
        "pgn is not known; valid: csv, d3rlpy, dataset, minari, spreadsheet, text",
    ),
    ((*EXPORT, "x", "--format", "d3rlpy"), "format d3rlpy needs --perspective, which says whose rewards they are"),
    ((*EXPORT, "x", "--format", "d3rlpy", "--perspective", "seat_2"), "--perspective seat_2 is not known; did you"),
    ((*EXPORT, "x", "--format", "text", "--perspective", "mover"), "--perspective has no effect on format text"),
    ((*EXPORT, "x", "--format", "csv", "--rows", "game"), "--rows game is not known; did you mean 'games'?"),
    ((*EXPORT, "x", "--format", "csv", "--masks"), "--masks has no effect on format csv by plies: leave it out"),
    ((*EXPORT, "x", "--format", "text", "--rows", "games"), "--rows games has no effect on format text"),
    ((*EXPORT, "x", "--format", "csv", "--where", "agent_0 = 'me'"), "has no game with where=\"agent_0 = 'me'\""),
    ((*EXPORT, "x", "--format", "csv", "--where", "DROP TABLE games"), "is not a condition on games: SQL: "),
    ((*EXPORT, "x", "--format", "csv", "--sample", "20000"), "--sample 20,000 of 16,000 games: ask for fewer"),
    ((*EXPORT, "x", "--format", "csv", "--sample", "0"), "--sample 0 is not a number of games"),
    ((*EXPORT, "-", "--format", "d3rlpy", "--perspective", "mover"), "format d3rlpy cannot be written to a pipe"),
    ((*EXPORT, "no/x", "--format", "csv"), "there is no folder no; make it, or name another"),
    ((*EXPORT, "mine", "--format", "csv", "--force"), "exists and is not a file, so --force does not replace it"),
    (
        (*EXPORT, "mine-v0", "--format", "minari", "--perspective", "mover", "--force"),
        "exists and is not a Minari dataset, so --force does not replace it",
    ),
    ((*EXPORT, "mine", "--format", "minari", "--perspective", "mover"), "a Minari dataset is named like quarto-v0"),
    ((*EXPORT, f"{SAMPLE_ARCHIVE}/games/x.csv", "--format", "csv"), f"is inside archive {SAMPLE_ARCHIVE}"),
    (("archive", "export", "--format", "csv", "--output", "x"), "there is no archive at data/archive"),
    (("archive", "import", "lost.txt"), "cannot read lost.txt: No such file or directory"),
    (("archive", "import", "mine"), "cannot read mine: Is a directory"),
    (("archive", "import", "empty.txt"), "empty.txt has no game: a line of it looks like F@b1 3@b2 7@c4"),
    (("archive", "import", "good.txt", "--rules", "clasic"), "rules 'clasic' does not exist; did you mean"),
    (("archive", "import", "good.txt", "--name", "a\nb"), "--name: 'a\\nb' is not a printable text"),
    (("archive", "import", "good.txt", "--archive", "mine"), "mine is not an archive"),
    (("archive", "import", "rules.txt"), "rules.txt, line 1: rules '../x' "),
    (
        ("archive", "import", "bad.txt"),
        "bad.txt, line 2: ply 3 finishes a line and the game goes on (ply 4); 1 more bad line (--skip-bad",
    ),
]


def test_a_wrong_request_is_one_line_and_changes_nothing(qarena: Qarena, tmp_path: Path) -> None:
    for folder in ("mine", "mine-v0"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "diary.txt").write_text("mine")
    (tmp_path / "empty.txt").write_text("# nothing\n\n")
    (tmp_path / "good.txt").write_text(WON)
    (tmp_path / "rules.txt").write_text(f"[rules=../x] {WON}")
    (tmp_path / "bad.txt").write_text(f"{WON}\n{WON} 4@a2\n[result=0-1] {WON}\n")
    before, sample = snapshot(tmp_path), snapshot(Path(SAMPLE_ARCHIVE))
    for typed, complaint in WRONG:
        assert complaint in qarena(*typed).refusal, typed
        assert snapshot(tmp_path) == before
    assert snapshot(Path(SAMPLE_ARCHIVE)) == sample


def test_bad_lines_are_listed_and_skipped_if_asked(qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text(f"{WON}\nG@a1\n[opening=9] {WON}\n{WON}\n")
    result = qarena("archive", "import", "some.txt", "--skip-bad")
    assert result.code == 1
    assert result.out.endswith("(classic): 2 games added\n")
    assert [line.partition(":")[0] for line in result.err.splitlines()] == ["some.txt, line 2", "some.txt, line 3"]
    (tmp_path / "all.txt").write_text("G@a1\n")
    result = qarena("archive", "import", "all.txt", "--skip-bad", "--archive", "other")
    assert result.code == 1
    assert result.err.splitlines()[-1] == "error: all.txt: no line is a game, so nothing was imported"
    assert not (tmp_path / "other").exists()


def test_run_is_named_when_it_is_played_and_later(tmp_path: Path, qarena: Qarena) -> None:
    where = ("--archive", str(tmp_path / "archive"))
    words = ("run", "dumb", "random", "games=2", "progress=false", *where)
    assert qarena(*words, "--name", "it's a, b=1", "--note", "two\nlines").code == 0
    (run_id,) = ArchiveStore.open(tmp_path / "archive").list_recorded_run_ids()
    assert qarena("archive", "name", run_id[:4], *where).out == f"Run {run_id}: it's a, b=1\n  two\n  lines\n"
    assert qarena(*words, "name=other").code == 0  # the same run again
    assert qarena("archive", "name", run_id, "--note", "", *where).out == f"Run {run_id}: other\n"
    assert "other" in qarena("archive", "ls", *where).out
    assert "; run 'other'" in qarena("show", run_id, "0", *where).out
    refused = qarena(*words, "--name", "x" * 81)
    assert (refused.code, "and a name has at most 80" in refused.err) == (2, True)
