"""The report is one page without network and script, and the same bytes for the same archive.

It says everything there is and what there is not.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from analytics import open_archive
from analytics.questions.columns import Cell, ResultColumn, Table, text_column
from analytics.questions.ratings import compute_ratings, fit_ratings
from analytics.report import report_data, style
from analytics.report.page import SUBJECTS, render_report
from analytics.report.pieces import piece_symbols, render_piece_from_symbols
from analytics.report.rendering import render_template
from analytics.report.report_data import select_report_data
from analytics.report.result import Result
from analytics.report.sections import learning, strength
from analytics.report.style import AGENT_COLOURS, Figure
from quarto.errors import FailureError
from tests.analytics.chosen_games import CREATED, EDGE, RUNS, Played, add_decisions, add_policies, write_archive
from tests.analytics.folders import list_table_files
from tests.analytics.indexed import write_draw_evaluations
from tests.analytics.naive_games import build_spec, record
from tests.paths import SAMPLE

SNAPSHOT = Path(__file__).parent / "report_of_sample.txt"
VOID = {"meta"}  # elements without an end
WITHIN = {"th", "td", "span", "small", "code", "a"}  # elements that stand in a line
TITLES = [subject.name for subject in SUBJECTS.values()]


class Page(HTMLParser):
    """A page taken apart; every element must be closed where it was opened."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []  # the innermost element, and what it says
        self.lines: list[list[str]] = []  # what a row of a table or a paragraph says
        self.open: list[str] = []
        self.feed(content.replace("<wbr>", ""))  # where a label may break
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in WITHIN:
            self.lines.append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))
            self.lines[-1].append(data.strip())

    def said_in(self, *tags: str) -> list[str]:
        return [text for tag, text in self.texts if tag in tags]

    def all(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.tags for key, value in attributes.items() if key == name]


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Draw few bootstrap samples, because the bootstrap takes longer than all the rest."""
    monkeypatch.setattr(report_data, "fit_ratings", partial(fit_ratings, samples=10))


@pytest.fixture
def quick_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each picture by the hash of its specification, because drawing takes longer than all the rest."""

    def hash_spec(spec: dict[str, Any]) -> str:
        return f"<svg><text>{hashlib.sha256(json.dumps(spec).encode()).hexdigest()}</text></svg>"

    monkeypatch.setattr(style, "_render_spec", hash_spec)


def render_archive(root: Path, where: str | None = None, title: str | None = None) -> str:
    with open_archive(root) as opened:
        return render_report(opened, where, title)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write games of three rules, with hostile labels, judged decisions, policies, and evaluations in some runs."""
    archive = write_archive(tmp_path_factory.mktemp("report") / "archive")
    add_decisions(archive)
    add_policies(archive)
    for run_id in archive.list_ids_of_runs_with_games()[:2]:
        write_draw_evaluations(archive, run_id)
    return Path(archive.root)


@pytest.fixture(scope="module")
def content(root: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_data, "fit_ratings", partial(fit_ratings, samples=10))
        return render_archive(root, title="<i>All</i> & more")


def test_every_section_is_there(content: str) -> None:
    page = Page(content)
    of_rules = [f"{title}: {rules}" for title in TITLES[:2] for rules in ("classic", "own_piece", "square")]
    assert page.said_in("h2") == [*of_rules, *TITLES[2:]]
    anchors = {f"#{anchor}" for anchor in page.all("id") if not anchor.startswith("mark-")}
    assert anchors == {*page.all("href")}
    assert content.count("<svg") - content.count('<svg class="piece"') - 1 == content.count("<figcaption") > 20
    captions = page.said_in("span")
    assert {"Runs of the chosen games", "Agents of these runs"} <= {*captions}
    assert content.count("<caption") == content.count("<table") == 22


def test_nothing_is_fetched_and_nothing_runs(content: str) -> None:
    page = Page(content)
    assert "//" not in content
    assert not re.search(r"@import|javascript:|url\((?!#)", content)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "image", "object", "embed", "base"}
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "srcset", "xlink:href")}
    assert all(target.startswith("#") for target in page.all("href"))
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    assert {*re.findall(r"url\(#([^)]*)\)", content)} <= {*ids}


def test_labels_and_titles_are_shown_as_they_are(content: str) -> None:
    page = Page(content)
    assert page.said_in("title", "h1") == ["<i>All</i> & more"] * 2
    for label in EDGE[0]:
        assert label in page.said_in("th")
        assert any(label in text for text in page.said_in("figcaption"))
        assert any(label[:9] in text for text in page.said_in("text"))  # of the picture of the ratings


def test_an_agent_itself_and_one_it_never_met_are_told_apart(content: str, root: Path) -> None:
    (table,) = re.findall(r'<section id="crosstable--classic">.*?</table>', content, re.DOTALL)
    rows = [re.findall(r"<td[^>]*>[^<]*", row) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)[1:]]
    for place, cells in enumerate(rows):
        matrix = cells[-len(rows) :]
        assert ['class="number itself"' in cell for cell in matrix] == [place == column for column in range(len(rows))]
        assert matrix[place].endswith('title="itself">')
    with open_archive(root) as opened:
        of_random = f"run_id = '{RUNS[0].record.run_id}' AND 'random' IN (agent_0, agent_1)"
        star = strength.build_crosstable_section(select_report_data(opened, of_random)).table
    assert star is not None
    assert "never met" in {cell.hint for row in star.cell_rows for cell in row}


@pytest.mark.usefixtures("quick_pictures")
def test_ratings_are_those_of_rate_one_rules_at_a_time_and_without_trainings(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive")
    training = RUNS[1].record.run_id
    archive.update_run_and_unit_count(training, lambda run: run and structs.replace(run, training=True))
    with open_archive(archive.root) as opened:
        parts = select_report_data(opened).rated_parts_by_rules
        assert [part.rules for part in parts] == [["classic"], ["own_piece"]]
        assert [part.rules for part in select_report_data(opened, None, [training]).rated_parts_by_rules][-1] == [
            "square"
        ]
        for part in parts:
            assert part.rate_agents().ratings == compute_ratings(opened, rules=part.rules[0], samples=10).ratings
    assert "leave out the games of trainings (1 run). --run includes them" in render_archive(Path(archive.root))


def test_results_have_a_legend_and_panels_follow_the_ratings(content: str, root: Path) -> None:
    (section,) = re.findall(r'<section id="game-lengths">.*?</section>', content, re.DOTALL)
    assert re.findall(r'chip result-([a-z-]+)"', section) == ["won", "lost", "drawn", "random-play"]
    for light, _ in style.RESULT_COLOURS.values():
        assert f'fill="{light}"' in section
    shown = [text.rpartition(", ")[::2] for text in Page(section).said_in("figcaption")]
    with open_archive(root) as opened:
        for rules in ("classic", "own_piece", "square"):
            panels = [agent for agent, of in shown if of == rules]
            rated = [rating.agent for rating in compute_ratings(opened, rules=rules, samples=0).ratings]
            assert panels[: len(rated)] == rated
    assert [of for _, of in shown] == sorted(of for _, of in shown)


def test_pieces_are_drawn_beside_their_digits(content: str) -> None:
    assert content.count(piece_symbols()) == 1
    (section,) = re.findall(r'<section id="first-gifts">.*?</section>', content, re.DOTALL)
    pieces = re.findall(r'(<svg class="piece".*?</svg>)</span>([0-9A-F])</td>', section)
    assert {*pieces} == {(render_piece_from_symbols(piece), f"{piece:X}") for piece in range(16)}
    charts = re.findall(r"</figcaption>(<svg.*?</svg>)</figure>", section, re.DOTALL)
    for chart in charts:  # each piece on either board
        assert sorted(re.findall(r'<use href="#piece-(\d+)"', chart)) == sorted([*map(str, range(16))] * 2)
    assert charts


@pytest.mark.usefixtures("quick_pictures")
def test_what_has_no_data_is_left_out_and_said_so(root: Path) -> None:
    page = Page(
        render_archive(root, f"run_id = '{RUNS[2].record.run_id}' AND agent_0 = agent_1 AND ending LIKE 'forfeit%'")
    )
    there = ["First placements", "First gifts", "Runs"]
    assert page.said_in("h2") == [*there, "Left out"]
    items = page.said_in("li")
    assert [text.split(":")[0] for text in items] == [title for title in TITLES if title not in there]
    assert "'qarena annotate' does that" in items[-2]
    assert "'archive.evaluations=true' stores them" in items[-1]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pictures")
def test_of_many_policies_the_newest_are_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MAX_POLICIES", 1)
    page = Page(render_archive(root, f"run_id = '{RUNS[0].record.run_id}' AND agent_0 < agent_1"))
    assert any(text.endswith("Shown are the newest 1 of 2 policies.") for text in page.said_in("p"))
    assert [text for text in page.said_in("figcaption") if ", ga2" in text or ", counting" in text] == ["bred, ga2"]


@pytest.mark.usefixtures("quick_pictures")
def test_first_plies_are_those_after_imposed_ones(tmp_path: Path) -> None:
    imposed = record(build_spec(opening_plies=3), created=CREATED)
    archive = write_archive(tmp_path / "imposed", [Played(imposed, RUNS[0].blocks, RUNS[0].pairings)])
    page = Page(render_archive(Path(archive.root)))
    note = "Each game counts from its first free decision: ply 3 in 48 games; the plies before were imposed."
    assert sum(text.endswith(note) for text in page.said_in("p")) == 2
    captions = page.said_in("figcaption")
    assert [f"all agents, placement of ply {ply}" in captions for ply in range(7)] == [False] * 3 + [True] * 3 + [False]
    assert {f"{agent}, ply 3" for agent in imposed.labels} <= {*captions}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pictures")
def test_the_same_games_are_the_same_bytes_in_whatever_files(root: Path, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "other", RUNS[:1], most=2)
    add_decisions(archive)
    write_draw_evaluations(archive, RUNS[0].record.run_id)
    where = f"run_id = '{RUNS[0].record.run_id}' AND game_id % 5 < 3 AND agent_0 <> 'random'"
    add_policies(archive)
    first = render_archive(Path(archive.root), where)
    assert render_archive(Path(archive.root), where) == first
    assert render_archive(root, where) == first


def test_every_agent_has_its_colour_everywhere(content: str) -> None:
    chips = re.findall(
        r'<span class="chip (agent-\d+)" aria-hidden="true"></span>([^<]+)', content.replace("<wbr>", "")
    )
    pairs = {(number, re.sub("(, ply 1)?(, (classic|square|own_piece))?$", "", label)) for number, label in chips}
    assert len(pairs) == len({number for number, _ in pairs}) == len({label for _, label in pairs}) == 5
    assert len({light for light, _ in AGENT_COLOURS}) == len({dark for _, dark in AGENT_COLOURS}) == len(AGENT_COLOURS)


@pytest.mark.usefixtures("quick_pictures")
def test_the_report_on_the_sample_says_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the report with its snapshot.

    PYTHONPATH=. python -m tests.analytics.report.test_page writes a new one.
    """
    monkeypatch.setattr(report_data, "fit_ratings", fit_ratings)
    assert sample_texts() == SNAPSHOT.read_text(encoding="utf-8")


def sample_texts() -> str:
    """Return the text of the report on the sample archive, without pictures and long tables.

    A line is a row of a table, or a paragraph.
    """
    page = Page(re.sub(r"<(svg|style|details)\b.*?</\1>", "", render_archive(SAMPLE), flags=re.DOTALL))
    return "\n".join(" | ".join(line) for line in page.lines if line) + "\n"


@pytest.mark.usefixtures("quick_pictures")
def test_damage_is_a_failure(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive")
    list_table_files(archive, RUNS[0].record.run_id, "plies")[0].unlink()
    with pytest.raises(FailureError, match="is missing or damaged"):
        render_archive(Path(archive.root))


def test_texts_are_escaped_and_charts_are_not() -> None:
    section = Result(
        "<&",
        Table(
            "<c>",
            [
                text_column("a", ["<x>", "y"]),
                ResultColumn("<b>", [Cell("1", tint=-1.0), Cell("<2>", hint='"', code=True)]),
            ],
        ),
        [Figure("<f>", {}, "", "<n>", colour=3)],
        title='a"b',
    )
    section.figures[0].__dict__["svg"] = "<svg></svg>"  # as if it was drawn
    values: dict[str, object] = {"condition": None, "one_rules": None, "agents": 1, "agents_shown": 1, "trainings": 0}
    values["names"] = ["<n>"]
    page = render_template("report.html", title="<t>", summary="<s>", sections=[section], missing=[], **values)
    assert "<title>&lt;t&gt;</title>" in page
    assert "<p>&lt;s&gt;</p>" in page
    assert '<p class="note">Names: &lt;n&gt;.</p>' in page
    assert '<section id="a-b"><h2>a&#34;b</h2>' in page
    assert '<p class="note">&lt;&amp;</p>' in page
    assert 'aria-label="&lt;c&gt;"><table class="data properties"><caption><span>&lt;c&gt;</span></caption>' in page
    assert '<th scope="row">&lt;x&gt;</th>' in page
    assert '<td class="number worse-5">1</td>' in page
    assert '<td class="number" title="&#34;"><code>&lt;2&gt;</code></td>' in page
    assert '<span class="chip agent-3" aria-hidden="true"></span>&lt;f&gt;<small>&lt;n&gt;</small>' in page
    assert "</figcaption><svg></svg></figure>" in page


if __name__ == "__main__":
    SNAPSHOT.write_text(sample_texts(), encoding="utf-8")
