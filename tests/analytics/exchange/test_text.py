from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from analytics import open_archive
from analytics.exchange.export import ExportRequest, write_export
from analytics.exchange.formats import format_record_line_without_counts
from analytics.exchange.importing import ImportedRun, import_games
from analytics.exchange.text import (
    RESULTS_BY_WINNER,
    Heading,
    ParsedText,
    Tags,
    format_agent_and_nondefault_tags,
    format_games,
    parse_games,
    parse_tags,
)
from analytics.questions.pairings import load_results, pairings_frame
from analytics.questions.ratings import compute_ratings
from analytics.store.archive import ArchiveStore
from analytics.store.game_tables import select_games
from analytics.store.records import add_checksum
from analytics.store.run_notes import list_ids_of_runs_with_notes, load_note, update_note
from analytics.tables.upkeep.compaction import compact_run
from analytics.tables.verification.archive import verify_archive
from quarto.batch import ENDINGS, FORFEIT_ILLEGAL
from quarto.errors import RequestError
from quarto.notation import format_game, parse_game
from quarto.rules import Rules
from tests import naive
from tests.analytics.exchange.archives import RUNS, games_of
from tests.analytics.naive_games import has_line, pack_games, random_block, random_game, store
from tests.marks import seldom

CODE = {"version": "0.1.0", "fingerprint": "ab" * 8, "python": "3.11", "numba": "0.68", "numpy": "2.4"}
WON = "0@a1 1@b1 2@c1 3@d1"  # pieces that are neither high nor coloured: seat 0 finishes the row


def rules_of(name: str) -> Rules:
    if name not in naive.PRESETS:
        raise RequestError(f"rules {name!r} are not known")
    return naive.PRESETS[name]


def read(text: str | bytes, **tags: Any) -> ParsedText:
    return parse_games(text if isinstance(text, bytes) else text.encode(), Tags(**tags), rules_of)


def import_text(root: Path, text: str | bytes, **tags: Any) -> list[ImportedRun]:
    parsed_text = read(text, **tags)
    assert parsed_text.bad_lines == []
    return import_games(ArchiveStore.open(root, create=True), parsed_text, naive.PRESETS, CODE, "qarena archive import")


def text_from(root: Path, output: Path, where: str | None = None) -> bytes:
    with open_archive(root) as opened:
        write_export(opened, ExportRequest("text", where), output, force=True)
    return output.read_bytes()


def naive_line(game: dict[str, Any], tags: str) -> str:
    ending = f" [ending={ENDINGS[game['ending']]}]" if game["ending"] >= FORFEIT_ILLEGAL else ""
    return f"{tags} [result={RESULTS_BY_WINNER[game['winner']]}]{ending} {format_game(game['plies'])}".rstrip()


seeds = st.randoms(use_true_random=False)
labels = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=20)
@given(seeds, labels, labels, st.sampled_from(sorted(naive.PRESETS)), st.sampled_from(["", "2026-11-21"]))
def test_a_game_with_any_labels_is_read_as_it_was_written(
    dice: Any, agent_0: str, agent_1: str, rules: str, date: str
) -> None:
    games = [random_game(dice, naive.PRESETS[rules], forfeits=0.5) for _ in range(3)]
    opening = min(len(game["plies"]) for game in games)
    heading = Heading(rules, agent_1, date, opening, agent_0, agent_1)
    written = format_games(heading, pack_games(games).games)
    tags = format_agent_and_nondefault_tags(heading._asdict())
    assert written.decode().split("\n") == [*(naive_line(game, tags) for game in games), ""]
    parsed_text = read(written)
    assert parsed_text.bad_lines == []
    for i, game in enumerate(games):
        plies = int(parsed_text.games.plies[i])
        assert [*zip(parsed_text.games.pieces[:plies, i], parsed_text.games.cells[:plies, i], strict=True)] == game[
            "plies"
        ]
        assert (parsed_text.games.winner[i], parsed_text.games.ending[i]) == (game["winner"], game["ending"])
        assert (
            Heading(*(getattr(parsed_text.distinct_tags[parsed_text.tags[i]], name) for name in Heading._fields))
            == heading
        )


words = st.sampled_from(
    ["F@b1", "3@b2", "7@C4", "a@d4", "0@a1", "1@b1", "2@c1", "3@d1", "G@b1", "F@e1", "F@b", "F-b1", "@", "Ⅷ@a1"]
)
blanks = st.sampled_from([" ", "  ", "\t", " \r", "\u00a0"])


def parsed(plies: str) -> tuple[list[tuple[int, int]], str]:
    """Parse plies, and return what is wrong with them without where it is."""
    try:
        return parse_game(plies), ""
    except RequestError as error:
        return [], str(error).partition("(")[0]


@given(st.lists(st.tuples(words, blanks), max_size=6))
def test_plies_are_read_as_the_notation_reads_them(parts: list[tuple[str, str]]) -> None:
    plies = "".join(word + blank for word, blank in parts)
    parsed_text = read(f"[result=0-1] {plies}\n")
    expected, complaint = parsed(plies)
    if complaint:
        assert [bad.reason.partition("(")[0] for bad in parsed_text.bad_lines] == [complaint]
    elif "\u00a0" in plies:  # blank to Python, and to nobody who looks for a space
        assert "separate the plies by spaces" in parsed_text.bad_lines[0].reason
    elif parsed_text.bad_lines:
        assert has_line({cell: piece for piece, cell in expected}, naive.PRESETS["classic"])
    else:
        count = parsed_text.games.plies[0]
        assert [*zip(parsed_text.games.pieces[:count, 0], parsed_text.games.cells[:count, 0], strict=True)] == expected


def test_lines_are_found_as_the_naive_twin_finds_them() -> None:
    for name, rules in naive.PRESETS.items():
        dice = np.random.default_rng(1)
        lines, expected = [], []
        for _ in range(60):
            order = zip(dice.permutation(16).tolist(), dice.permutation(16).tolist(), strict=True)
            plies = [*order][: int(dice.integers(4, 17))]
            lines.append(f"[rules={name}] [result=1-0] {format_game(plies)}")
            board: dict[int, int] = {}
            finished = []
            for ply, (piece, cell) in enumerate(plies):
                board[cell] = piece
                finished += [ply] if has_line(board, rules) else []
            expected.append(finished[:1] != [] and finished[0] < len(plies) - 1)
        goes_on = {bad.line - 1 for bad in read("\n".join(lines)).bad_lines if "the game goes on" in bad.reason}
        assert [i in goes_on for i in range(60)] == expected
        assert len(goes_on) > 5


def answers(root: Path) -> dict[str, Any]:
    """Read the rows of all views about runs and games, and the ratings."""
    with open_archive(root) as opened:
        by_question: dict[str, Any] = {
            view: opened.sql(f"FROM {view} ORDER BY ALL").rows() for view in ("games", "plies", "pairs", "seats")
        }
        by_question["runs"] = opened.sql("SELECT * EXCLUDE ranges FROM runs ORDER BY ALL").rows()
        records = opened.archive.load_runs()
        by_question["specs"] = [(record.spec, record.code) for record in records]
        by_question["results"] = [
            pairings_frame(load_results(opened.archive, record.run_id)).rows() for record in records
        ]
        for name in {record.rules.name for record in records}:
            by_question[f"ratings {name}"] = compute_ratings(opened, rules=name, samples=20).to_frame().rows()
    return by_question


def test_whole_runs_come_back_as_the_same_runs_and_leave_as_the_same_text(scattered: Path, tmp_path: Path) -> None:
    copy, expected = tmp_path / "copy", answers(scattered)
    text = text_from(scattered, tmp_path / "one")
    done = import_text(copy, text)
    assert [(imported.run_id, imported.games, imported.added) for imported in done] == [
        (run.run_id, games, games) for run, games in zip(RUNS, (48, 48, 24), strict=True)
    ]
    assert answers(copy) == expected
    assert {*expected} >= {"ratings classic", "ratings square"}
    assert text_from(copy, tmp_path / "two") == text
    report = verify_archive(ArchiveStore.open(copy))
    assert (report.problems, report.games) == ([], 120)
    assert [imported.added for imported in import_text(copy, text)] == [0, 0, 0]
    shuffled = text.splitlines(keepends=True)
    random.Random(1).shuffle(shuffled)
    import_text(tmp_path / "shuffled", b"".join(shuffled))
    assert answers(tmp_path / "shuffled") == expected


@pytest.mark.parametrize("where", ["agent_0 = 'random'", *seldom("plies > 5")])
def test_parts_of_runs_are_single_games_and_leave_as_the_same_text(scattered: Path, tmp_path: Path, where: str) -> None:
    copy, text = tmp_path / "copy", text_from(scattered, tmp_path / "one", where)
    done = import_text(copy, text)
    assert games_of(copy).equals(games_of(scattered, where))
    assert {run.swapped for run in ArchiveStore.open(copy).load_runs()} == {False}
    assert text_from(copy, tmp_path / "two") == text
    assert [imported.added for imported in import_text(copy, text)] == [0] * len(done)


def test_a_text_that_lost_a_line_or_a_record_has_single_games(unsplit: Path, tmp_path: Path) -> None:
    lines = text_from(unsplit, tmp_path / "one").splitlines(keepends=True)
    record = next(line for line in lines if line.startswith(b"{"))
    run_id = json.loads(record)["run_id"]
    game = next(line for line in lines if f"[game={run_id} ".encode() in line)
    for name, lost in (("game", game), ("record", record)):
        done = import_text(tmp_path / name, b"".join(line for line in lines if line != lost))
        assert run_id not in {imported.run_id for imported in done}
        assert sum(imported.added for imported in done) == 120 - (lost is game)


def run_of(root: Path, pairs: int, seed: int = 7) -> Path:
    """Write an archive of the first run with ``pairs`` pairs in each pairing."""
    archive = ArchiveStore.open(root, create=True)
    archive.write_run_and_unit_count(RUNS[0])
    blocks = [random_block(seed, pairing, 0, 12, forfeits=0.2) for pairing in range(3)]
    games = [block._replace(games=select_games(block.games, slice(2 * pairs))) for block in blocks]
    store(archive, RUNS[0].run_id, games)
    return root


def test_a_whole_run_gets_what_it_lacks(tmp_path: Path) -> None:
    short, long = (text_from(run_of(tmp_path / f"{pairs}", pairs), tmp_path / "text") for pairs in (5, 12))
    root = tmp_path / "archive"
    assert [import_text(root, text)[0].added for text in (short, long, short)] == [30, 42, 0]
    assert text_from(root, tmp_path / "text") == long
    assert verify_archive(ArchiveStore.open(root)).problems == []


def test_name_and_note_of_a_whole_run_come_back_unless_the_archive_has_later_ones(tmp_path: Path) -> None:
    root, copy, run_id = run_of(tmp_path / "archive", 5), tmp_path / "copy", RUNS[0].run_id
    plain = text_from(root, tmp_path / "text")
    update_note(ArchiveStore.open(root), run_id, '"spec": {"é"}, <b>', "two\n{lines} # of [tags=1]")
    text = text_from(root, tmp_path / "text")
    assert len(text.splitlines()) == len(plain.splitlines()) + 1
    assert [imported.note_added for imported in import_text(copy, text)] == [True]
    assert load_note(ArchiveStore.open(copy), run_id) == load_note(ArchiveStore.open(root), run_id)
    assert text_from(copy, tmp_path / "text") == text
    assert [imported.note_added for imported in import_text(copy, text)] == [False]
    update_note(ArchiveStore.open(copy), run_id, "mine")
    assert load_note(ArchiveStore.open(copy), run_id).time >= load_note(ArchiveStore.open(root), run_id).time
    import_text(copy, text)
    assert load_note(ArchiveStore.open(copy), run_id).name == "mine"
    lines = text.splitlines(keepends=True)
    import_text(tmp_path / "reversed", b"".join(reversed(lines)))
    assert load_note(ArchiveStore.open(tmp_path / "reversed"), run_id).name.startswith('"spec"')
    import_text(tmp_path / "part", b"".join(lines[:-1]))  # single games: their run is another one
    assert list_ids_of_runs_with_notes(ArchiveStore.open(tmp_path / "part")) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "x" * 81), ("note", "x" * 2001), ("name", "red\x1b[31m"), ("name", "a\nb"), ("note", "\u202eleft")],
)
def test_unfit_name_in_a_text_is_a_bad_line(tmp_path: Path, field: str, value: str) -> None:
    fields = {"run_id": RUNS[0].run_id, "name": "n", "note": "", "written": "2026-11-28T00:00:00+00:00", field: value}
    line = json.dumps(add_checksum(fields)).encode()
    parsed = read(line + b"\n" + text_from(run_of(tmp_path / "archive", 2), tmp_path / "text"))
    (bad,) = parsed.bad_lines
    assert bad.reason.startswith("this name and note of a run cannot be read: ")
    assert "\x1b" not in bad.reason
    assert len(bad.reason) < 300
    assert parsed.notes == []


def test_other_games_of_a_whole_run_are_refused(tmp_path: Path) -> None:
    root = run_of(tmp_path / "archive", 5)
    before = answers(root)
    other = text_from(run_of(tmp_path / "other", 12, seed=8), tmp_path / "text")
    with pytest.raises(RequestError, match=r"units 0 to 7 of the archive are other games than the text has"):
        import_text(root, other)
    code = {**CODE, "fingerprint": "cd" * 8}
    archive = ArchiveStore.open(root)
    archive.write_run_and_unit_count(structs.replace(RUNS[0], code=code))
    longer = text_from(run_of(tmp_path / "longer", 12), tmp_path / "text")
    with pytest.raises(RequestError, match=r"was played by other code \(cdcdcdcdcdcdcdcd\) than the games of the text"):
        import_text(root, longer)
    archive.write_run_and_unit_count(RUNS[0])
    assert answers(root) == before


def test_a_whole_run_that_was_changed_is_refused(tmp_path: Path) -> None:
    text = text_from(run_of(tmp_path / "archive", 2), tmp_path / "text")
    spec = {**RUNS[0].spec, "seed": 8}
    for name, changed, complaint in (
        ("agents", text.replace(b"[agent_1=random]", b"[agent_1=eve]"), "its agents, opening or rules are not those"),
        ("opening", text.replace(b" [result", b" [opening=1] [result"), "its agents, opening or rules are not those"),
        (
            "spec",
            format_record_line_without_counts(structs.replace(RUNS[0], spec=spec), 1) + text.partition(b"\n")[2],
            "describes run",
        ),
    ):
        assert changed != text
        with pytest.raises(RequestError, match=complaint):
            import_text(tmp_path / name, changed)
        assert ArchiveStore.open(tmp_path / name).load_runs() == []
    assert (
        read(text.replace(b'"seed":7', b'"seed":8'))
        .bad_lines[0]
        .reason.startswith("this record of a run cannot be read")
    )
    assert "is not a run and a game's id, such as fd0da72c3fbb 555" in read(f"[game=x 1] {WON}").bad_lines[0].reason


def test_games_in_any_order_leave_grouped_and_what_left_is_the_same_runs(tmp_path: Path) -> None:
    dice = random.Random(1)
    games = [random_game(dice, forfeits=0.2) for _ in range(30)]
    tags = [
        format_agent_and_nondefault_tags(
            {
                "event": dice.choice(["", "autumn"]),
                "date": dice.choice(["", "2026-11-21"]),
                "agent_0": dice.choice("ab"),
                "agent_1": dice.choice("bc"),
                "opening": dice.choice([0, min(2, len(game["plies"]))]),
            }
        )
        for game in games
    ]
    lines = [naive_line(game, tag) for game, tag in zip(games, tags, strict=True)]
    root = tmp_path / "archive"
    done = import_text(root, "\n".join(lines))
    assert sum(imported.added for imported in done) == 30
    assert verify_archive(ArchiveStore.open(root)).problems == []
    text = text_from(root, tmp_path / "text").decode()
    assert sorted(text.splitlines()) == sorted(lines)
    of_tag = {tag: [line for line in lines if line.startswith(f"{tag} [res")] for tag in tags}
    assert {tag: [line for line in text.splitlines() if line.startswith(f"{tag} [res")] for tag in tags} == of_tag
    assert [(imported.run_id, imported.added) for imported in import_text(root, text)] == [
        (imported.run_id, 0) for imported in done
    ]


def test_what_a_line_does_not_say_is_as_usual(tmp_path: Path) -> None:
    text = f"# a comment\r\n\n  \n{WON}\r\n[agent_1=bob] {WON.lower()}"
    parsed_text = read(text.encode("utf-8-sig"), event="at home", rules="square")  # a mark is no part of a game
    assert [parsed_text.distinct_tags[at] for at in parsed_text.tags] == [
        Tags(rules="square", event="at home"),
        Tags(rules="square", event="at home", agent_1="bob"),
    ]
    (done,) = import_text(tmp_path / "archive", text)
    rows = games_of(tmp_path / "archive").to_dicts()
    assert [(row["agent_0"], row["agent_1"], row["winner"], row["ending"]) for row in rows] == [
        ("unknown", "bob", 0, "line"),
        ("unknown", "unknown", 0, "line"),
    ]
    assert done.games == 2


def test_an_imported_run_says_what_is_known_of_it(tmp_path: Path) -> None:
    (done,) = import_text(tmp_path / "archive", f"[event=final [1\\]] [date=2026-11-20] [agent_0=a] [agent_1=b] {WON}")
    record = ArchiveStore.open(tmp_path / "archive").find_run(done.run_id)
    assert record is not None
    source = record.spec["imported"]
    assert (source["event"], source["date"]) == ("final [1]", "2026-11-20")
    assert (record.status, record.swapped, record.games, record.spec["seed"]) == ("complete", False, 1, 0)
    assert record.labels == ("a", "b")
    assert record.code == CODE
    assert source["sha256"] == hashlib.sha256(text_from(tmp_path / "archive", tmp_path / "text")).hexdigest()


NO_GAMES = (
    ("G@b1", "piece 'G' is not a hex digit 0-F (game 'G@b1', ply 0)"),
    ("F@b1 3@b1", "cell 'b1' was already taken at ply 0 (game 'F@b1 3@b1', ply 1)"),
    ("F@b1 F@b2", "piece 'F' was already placed at ply 0"),
    ("F@b1, 3@b2", "cell 'b1,' is not one of a1 to d4"),
    (WON + " 4@a2", "ply 3 finishes a line and the game goes on (ply 4)"),
    ("F@b1 3@b2", "the game is not over after 2 plies and has no tag 'result': add [result=1-0] or [result=0-1]"),
    ("[result=1/2-1/2] F@b1", "tag 'result': 1/2-1/2 after 1 ply: a game is drawn on a full board only"),
    (f"[result=0-1] {WON}", "tag 'result': 0-1 contradicts the plies, which say 1-0"),
    (f"[ending=full_board] {WON}", "tag 'ending': full_board contradicts the plies, which say line"),
    ("[ending=line] [result=1-0] F@b1", "tag 'ending': line contradicts the plies: the game is not over after 1"),
    (f"[result=2-0] {WON}", "tag 'result': '2-0' is not one of 1-0, 0-1, 1/2-1/2"),
    (f"[ending=lines] {WON}", "tag 'ending': 'lines' is not known; did you mean 'line'? valid:"),
    (f"[opening=5] {WON}", "tag 'opening': imposed plies: 5, and plies of the game: 4"),
    (f"[opening=-1] {WON}", "tag 'opening': '-1' is not a number of plies, 0 to 16"),
    (f"[date=21.11.2026] {WON}", "tag 'date': '21.11.2026' is not a day such as 2026-11-21"),
    (f"[date=20261121] {WON}", "tag 'date': '20261121' is not a day such as 2026-11-21"),
    (f"[agent0=a] {WON}", "tag 'agent0' is not known; did you mean 'agent_0'?"),
    (f"[agent_0=a] [agent_0=b] {WON}", "tag 'agent_0' is given twice"),
    (f"[agent_0=] {WON}", "tag 'agent_0': '' is not a printable text of 1 to 200 characters"),
    (f"[agent_0={'x' * 201}] {WON}", "is not a printable text of 1 to 200 characters"),
    (f"[agent_0=a\\] {WON}", "'[agent_0=a\\\\]' is not a tag: write [name=value]"),
    (f"agent_0=a] {WON}", "'agent_0=a]' is not a tag: write [name=value], and \\] for a ] in a value"),
    (f"[rules=chess] {WON}", "rules 'chess' are not known"),
    (f"[event=a\tb] {WON}", "tag 'event': 'a\\tb' is not a printable text"),
)


def test_a_line_that_is_no_game_is_named_with_what_is_wrong() -> None:
    for line, complaint in NO_GAMES:
        parsed_text = read(f"{WON}\n\n# the next one is bad\n{line}\n{WON}\n")
        assert [bad.line for bad in parsed_text.bad_lines] == [4]
        assert complaint in parsed_text.bad_lines[0].reason
        assert "\n" not in parsed_text.bad_lines[0].reason
        assert len(parsed_text.tags) == 2
    parsed_text = read(f"[agent_0=\xe9] {WON}".encode("latin-1"))
    assert [bad.reason for bad in parsed_text.bad_lines] == ["byte 9 of the line is not UTF-8: save the file as UTF-8"]


def test_tags_may_stand_in_any_order_with_any_spaces() -> None:
    tags = parse_tags("  [opening=2][agent_1=b]\t[ending=forfeit_time] [rules=square] ", Tags(agent_0="defaults"))
    late = ENDINGS.index("forfeit_time")
    assert tags == Tags(rules="square", agent_0="defaults", agent_1="b", opening=2, ending=late)


def test_an_import_of_many_files_that_lost_one_goes_on_and_keeps_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics.exchange.importing.FILE_GAMES", 7)
    dice = random.Random(2)
    games = [random_game(dice) for _ in range(24)]
    first, second = (Heading("classic", "", "", 0, agent, "z") for agent in "ab")
    imported, more = pack_games(games[:21]).games, pack_games(games).games
    text, grown = format_games(first, imported) + format_games(second, imported), format_games(second, more)
    root = tmp_path / "archive"
    (done,) = import_text(root, text)
    archive = ArchiveStore.open(root)
    before = archive.list_effective_ranges(done.run_id)
    assert [stored[:2] for stored in before] == [(first, min(first + 4, 42)) for first in range(0, 42, 4)]
    assert verify_archive(archive).problems == []
    assert text_from(root, tmp_path / "text") == text
    Path(archive.folder("games", done.run_id) / before[0].name).unlink()
    (longer,) = import_text(root, grown)  # the games of other players have new numbers, whatever is lost
    assert longer == ImportedRun(done.run_id, second, 24, 3)
    (again,) = import_text(root, text)
    assert (again.games, again.added) == (42, 4)
    assert archive.list_effective_ranges(done.run_id).covered_ranges == [(0, 45)]
    assert [*archive.list_effective_ranges(done.run_id)][:10] == [*before][:10]
    assert text_from(root, tmp_path / "text") == format_games(first, imported) + grown


def games_in_text(dice: Any, players: str, count: int) -> list[str]:
    tags = f"[event=cup] [agent_0={players[0]}] [agent_1={players[1]}]"
    return [naive_line(random_game(dice, naive.PRESETS["classic"]), tags) for _ in range(count)]


def test_the_order_of_a_text_is_kept_across_players_and_seats(tmp_path: Path) -> None:
    dice = random.Random(8)
    ab, ba = (games_in_text(dice, players, 40) for players in ("ab", "ba"))
    lines = [line for both in zip(ab, ba, strict=True) for line in both]
    dice.shuffle(lines)
    root = tmp_path / "archive"
    (half,) = import_text(root, "\n".join(lines[:50]))
    (grown,) = import_text(root, "\n".join(lines))
    assert (grown.run_id, grown.games, grown.added) == (half.run_id, 80, 30)
    assert import_text(root, "\n".join(sorted(lines, key=lambda line: line[:40]))) == [grown._replace(added=0)]
    assert verify_archive(ArchiveStore.open(root)).problems == []
    compact_run(ArchiveStore.open(root), grown.run_id)
    with open_archive(root) as opened:
        rows = opened.sql("""
            SELECT any_value(agent_0) AS agent_0,
                   string_agg(piece_name(piece) || '@' || cell_name(cell), ' ' ORDER BY ply) AS game
            FROM games JOIN plies USING (run_id, game_id) GROUP BY game_number ORDER BY game_number""").rows()
    played = [line for line in lines if "@" in line]
    assert rows == [(line.split("agent_0=")[1][0], line.split("] ")[-1]) for line in played]
    other = tmp_path / "other"
    (elsewhere,) = import_text(other, "\n".join(lines[:50][::-1]))
    assert elsewhere.run_id != half.run_id


def test_a_text_that_has_grown_extends_its_run(tmp_path: Path) -> None:
    dice = random.Random(5)
    ab, ba, cd = (games_in_text(dice, players, 9) for players in ("ab", "ba", "cd"))
    root = tmp_path / "archive"

    def added(*lines: list[str]) -> list[tuple[str, int, int]]:
        imported = import_text(root, "\n".join(line for part in lines for line in part))
        return [(run.run_id, run.games, run.added) for run in imported]

    ((run, _, _),) = added(ab[:3], ba[:2])
    assert added(ab[:5], ba[:6]) == [(run, 11, 6)]
    assert added(ab[:5], ba[:6]) == [(run, 11, 0)]
    assert added(ab[:2]) == [(run, 2, 0)]  # a part of what is known
    assert added(ab[:3], ba[:2]) == [(run, 5, 0)]  # the first text again
    (again, other) = added(ab, ba, cd)  # a player that the run does not have
    assert again == (run, 18, 7)
    assert other[1:] == (9, 9)
    assert added(ab, ba, cd) == [(run, 18, 0), (other[0], 9, 0)]
    changed = added(ab[:1] + ab[2:])  # no continuation: other games
    assert changed[0][0] not in (run, other[0])
    archive = ArchiveStore.open(root)
    assert archive.list_effective_ranges(run).covered_ranges == [(0, 18)]
    assert verify_archive(archive).problems == []
    assert len(archive.list_effective_ranges(run)) > 2
    compact_run(archive, run)
    assert [stored[:2] for stored in archive.list_effective_ranges(run)] == [(0, 18)]
    assert verify_archive(archive).problems == []
    with open_archive(root) as opened:
        counts = opened.sql("SELECT run_id, count(*) AS games FROM games GROUP BY ALL")
    assert dict(counts.rows()) == {run: 18, other[0]: 9, changed[0][0]: 8}
    expected = "\n".join([*ab, *ba, ""]).encode()
    assert text_from(root, tmp_path / "out.txt", f"run_id = '{run}'") == expected
