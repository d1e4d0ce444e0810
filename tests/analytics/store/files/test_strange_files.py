"""Archives from strangers: links and pipes in them are named, and never entered, written through or removed."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import VIEWS, build_view_frame
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import MAX_RECORD_BYTES
from analytics.store.files.local_files import find_backend
from analytics.store.marker import MARKER_NAME
from analytics.store.range_files import read_tallies
from analytics.store.records import SweepJob
from analytics.store.snapshot import Snapshot
from analytics.tables.derived.indexing import index_runs
from analytics.tables.upkeep.archive_merge import MergeOptions, merge_archives
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.upkeep.garbage import FOLDERS, list_unneeded_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.errors import ArenaError, FailureError, RequestError
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import RUN_ID, random_block, record, store
from tests.analytics.stored_policies import COUNTS, CURVE, origin
from tests.marks import seldom

SECONDS = 60  # after which what hangs is ended


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Turn a call that waits for a pipe, or reads a device, into an error, so that the test does not hang."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def archive(full_archive: ArchiveStore) -> ArchiveStore:
    return full_archive


def link(path: Path, _aside: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path, _aside: Path) -> None:
    os.mkfifo(path)


def door(path: Path, _aside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        listening.bind(path.name)
        os.chdir(here)


def moved(path: Path, aside: Path) -> None:
    """Replace a file by a link to where it was moved: it would be read as before."""
    path.symlink_to(aside)


Kind = Callable[[Path, Path], None]
KINDS: dict[Kind, str] = {link: "symbolic link", pipe: "named pipe", door: "socket", moved: "symbolic link"}
PLACES = (
    *(FOLDERS),
    *(f"{folder}/run={RUN_ID}" for folder in ("games", "plies", "decisions", "positions", "verdicts")),
    *(f"{folder}/run={RUN_ID}/*" for folder in ("games", "plies", "tallies", "first_plies", "verdicts")),
    *("runs/*.json", "sweeps/sweep", "sweeps/sweep/*", "policies/*", "policies/*/card.json", "policies/*/table-*"),
)
# Each kind always; all other places, which take a second each, under the marker of long tests.
ALWAYS = [
    (moved, "policies/*/card.json"),
    (link, f"games/run={RUN_ID}/*"),
    (pipe, "runs/*.json"),
]
SELDOM = [case for case in itertools.product((moved, link, pipe), PLACES) if case not in ALWAYS]


def strange(archive: ArchiveStore, place: str, kind: Kind, aside: Path) -> Path:
    """Put something strange in the place of a file or folder, which moves out of the archive."""
    path = min(Path(archive.root).glob(place))
    path.rename(aside)
    kind(path, aside)
    return path


def attempts(archive: ArchiveStore, elsewhere: Path) -> Iterator[Callable[[], object]]:
    """Yield calls that read an archive, and calls that write to one."""
    other = ArchiveStore.open(elsewhere / "other", create=True)
    other.write_run_and_unit_count(record())
    store(other, RUN_ID, [random_block(16, pairing, 0, 16) for pairing in range(3)])
    yield lambda: remove_unneeded_files(archive, list_unneeded_files(archive), 0)
    yield lambda: asked(archive, check=True)
    yield lambda: asked(archive, check=False)
    yield lambda: read_tallies(archive, [RUN_ID])[RUN_ID]
    yield lambda: policy_store.read(archive, "mine")
    yield lambda: build_view_frame("policies", Snapshot(archive.root))
    yield archive.compute_next_run_number
    yield lambda: merge_archives([archive], ArchiveStore.open(elsewhere / "copy", create=True), MergeOptions())
    yield lambda: index_runs(archive, [RUN_ID], 3)
    yield lambda: annotate_runs(archive, [RUN_ID], AnnotationOptions(from_pieces=14, megabytes=0.1))
    yield lambda: merge_archives([other], archive, MergeOptions())
    yield lambda: store(archive, RUN_ID, [random_block(16, pairing, 0, 32) for pairing in range(3)])
    yield lambda: policy_store.save(archive, COUNTS, origin(tables={"curve": CURVE}))
    yield lambda: archive.write_sweep_job(SweepJob("sweep", 0, {"games": "17"}, RUN_ID))
    yield lambda: compact_run(archive, RUN_ID)
    yield lambda: remove_unneeded_files(archive, list_unneeded_files(archive), 0)


def asked(archive: ArchiveStore, check: bool) -> None:
    """Ask for every view, and for a policy: DuckDB, and where files are not checked first also Polars."""
    errors = list[ArenaError]()
    with OpenArchive(archive.root, check=check) as opened:
        for view in VIEWS:
            try:
                opened.sql(f"SELECT count(*) FROM {view}")
                if not check:
                    opened.scan(view).collect()
            except ArenaError as error:
                errors.append(error)
        opened.policy("mine").collect()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(("kind", "place"), [*ALWAYS, *seldom(*SELDOM)])
def test_what_is_neither_a_file_nor_a_folder_is_named_and_left_alone(
    archive: ArchiveStore, place: str, kind: Kind, tmp_path: Path
) -> None:
    path = strange(archive, place, kind, tmp_path / "aside")
    (problem,) = verify_archive(archive).problems
    assert problem.file == path
    assert KINDS[kind] in problem.fault
    outside, status, errors = snapshot(tmp_path / "aside"), path.lstat(), list[str]()
    for attempt in attempts(archive, tmp_path):
        try:
            attempt()
        except ArenaError as error:
            errors.append(str(error))
    assert errors
    assert not [error for error in errors if "\n" in error]
    assert snapshot(tmp_path / "aside") == outside
    assert os.path.samestat(path.lstat(), status)
    assert path.lstat().st_mtime_ns == status.st_mtime_ns


@pytest.mark.parametrize("kind", KINDS)
def test_a_marker_that_is_no_file_makes_no_archive(archive: ArchiveStore, kind: Kind, tmp_path: Path) -> None:
    strange(archive, MARKER_NAME, kind, tmp_path / "aside")
    with pytest.raises(RequestError, match=rf"{MARKER_NAME} cannot be read \(.*{KINDS[kind]}"):
        ArchiveStore.open(archive.root)


def test_the_root_may_be_a_link_and_so_may_what_is_above_it(archive: ArchiveStore, tmp_path: Path) -> None:
    for place in ("named", "above/archive"):
        named = tmp_path / place
        named.parent.mkdir(exist_ok=True)
        named.symlink_to(Path(archive.root))
        assert verify_archive(ArchiveStore.open(named)).problems == []
        with OpenArchive(named) as opened:
            assert opened.sql("SELECT count(*) FROM games").item() == 48
    store(ArchiveStore.open(named), RUN_ID, [random_block(16, pairing, 0, 16) for pairing in range(3)])
    assert archive.count_games(RUN_ID) == 96


def test_a_root_may_be_named_from_the_current_folder(archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.root)
    assert verify_archive(ArchiveStore.open(Path())).problems == []
    with OpenArchive(Path()) as opened:
        assert opened.sql("SELECT count(*) FROM plies").item() > 0
    Path("policies").rename("../policies")
    Path("policies").symlink_to("../policies")
    (problem,) = verify_archive(ArchiveStore.open(Path())).problems
    assert problem.file == Path("policies")


def test_other_links_in_an_archive_are_named_too_and_not_entered(archive: ArchiveStore, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("a")
    place = Path(archive.root) / "notes" / "deep"
    place.mkdir(parents=True)
    (place / "link").symlink_to(tmp_path / "mine")
    (place / "nowhere").symlink_to("nowhere")
    (place / "itself").symlink_to(place)
    assert {problem.file for problem in verify_archive(archive).problems} == {*place.iterdir()}


def test_a_record_is_not_read_if_it_is_too_large_to_be_one(archive: ArchiveStore) -> None:
    path = Path(archive.run_record_path(RUN_ID))
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    for ask in (lambda: archive.find_run(RUN_ID), archive.load_runs):
        with pytest.raises(FailureError, match=f"{path}: it has 1,099,511,627,776 bytes, and a record at most"):
            ask()
    assert any("1,099,511,627,776" in str(problem) for problem in verify_archive(archive).problems)


def test_a_policys_file_of_another_size_than_its_card_says_is_not_read(archive: ArchiveStore) -> None:
    (path,) = Path(archive.root).glob("policies/*/table-*")
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(RequestError, match="has 1099511627776 bytes, its card says"):
        policy_store.read(archive, "mine")
    assert any("has 1099511627776 bytes" in problem.fault for problem in verify_archive(archive).problems)


def test_a_record_that_could_not_be_read_again_is_not_written(archive: ArchiveStore) -> None:
    long = {f"{number}": "x" * 1000 for number in range(MAX_RECORD_BYTES // 1000)}
    with pytest.raises(RequestError, match=r"this cannot be recorded: it has .* bytes, and a record at most"):
        archive.write_sweep_job(SweepJob("sweep", 1, long))
    assert len(archive.load_sweep_jobs()) == 1


def test_names_that_lead_out_of_an_archive_are_not_opened(archive: ArchiveStore) -> None:
    (Path(archive.root).parent / "secret").write_text("secret")
    backend = find_backend(archive.root)
    for name in ("runs/../../secret", "../secret", "/etc/passwd"):
        for use in (backend.read, backend.status, backend.list_names, backend.remove):
            with pytest.raises(ValueError, match="is not in"):
                use(Path(archive.root) / name)
    assert (Path(archive.root).parent / "secret").exists()


def test_only_empty_folders_are_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    for name in ("archive/old/run=1", "archive/old/run=2", "archive/linked", "aside/empty"):
        (tmp_path / name).mkdir(parents=True)
    root = tmp_path / "archive"
    (root / "old" / "run=2" / "kept").write_text("")
    (root / "linked" / "way").symlink_to(tmp_path / "aside")
    backend = find_backend(root)
    backend.remove_empty_folders(root / "none")
    backend.remove_empty_folders(root / "old")
    assert [path.relative_to(root).as_posix() for path in sorted((root / "old").rglob("*"))] == [
        "old/run=2",
        "old/run=2/kept",
    ]
    with pytest.raises(OSError, match="is a symbolic link"):
        backend.remove_empty_folders(root / "linked")
    assert (tmp_path / "aside" / "empty").is_dir()
    (root / "old" / "run=2" / "kept").unlink()
    backend.remove_empty_folders(root / "old")
    assert not (root / "old").exists()
