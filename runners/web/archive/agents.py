"""The page of an agent: its rating, its form, whom it beats, its openings, its regret by ply and its mistakes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from analytics.questions.columns import (
    Cell,
    ResultColumn,
    Table,
    format_count,
    format_elo,
    format_interval,
    format_percent,
    interval_column,
    link_column,
    number_column,
    pairing_columns,
    regret_and_blunder_columns,
    text_column,
)
from analytics.questions.form import compute_form
from analytics.questions.head_to_head import HeadToHead, compute_head_to_head, load_chosen_results
from analytics.questions.mistakes import build_judged_agent_names, build_judged_runs_condition, summarise_decisions
from analytics.questions.openings import EMPTY_BOARD, OpeningsQuery, describe_first_plies
from analytics.questions.pairings import PairingResult, index_meetings, pairings_frame, resolve_shown_agent_label
from analytics.questions.ratings import Rating, Ratings, compute_ratings
from analytics.questions.run_comparison import compute_pace_without_people, format_games_a_second
from analytics.questions.selection import GameFilter, read_plies
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import quote_text_or_number
from analytics.report.board_svg import build_boards_picture
from analytics.report.result import Result
from analytics.report.section import assign_figure_ids
from analytics.report.sections.form import build_form_result
from analytics.report.sections.mistakes import REGRET_LEGEND, build_regret_chart
from analytics.report.sections.strength import tint_meeting
from analytics.report.style import Figure
from analytics.statistics.tally import Estimate, mean_score
from analytics.store.records import RunRecord
from analytics.store.texts import format_count_with_noun
from quarto.errors import NotFoundError, RequestError, suggest_valid_names
from quarto.game import Game
from quarto.notation import parse_piece
from quarto.rules import NONE
from runners.terminal.console import format_annotate_command
from runners.web.archive import urls
from runners.web.archive.explorer import explore_position_if_readable
from runners.web.archive.runs import (
    RunRow,
    list_rules_and_agent_names,
    list_runs,
    select_records_or_raise,
)
from runners.web.archive.sections import build_mistakes_table

MAX_RUNS = 40  # the newest, whose scores the form shows
MAX_OPENINGS = 10  # the most played
SHOWN_OPENINGS = 3  # with boards: so many of the best, and of the worst


def rate_agents(opened: OpenArchive, rules: str) -> Ratings | None:
    """Rate the agents under the named rules as `qarena rate` does, but without intervals.

    Return None if no game counts for a rating, because all games belong to trainings or no agent met another.
    """
    try:
        return compute_ratings(opened, rules=rules, samples=0)
    except RequestError:
        return None


class AgentHeader(NamedTuple):
    """The beginning of an agent's page: the rules that it is about, what it says first, and where it leads."""

    rules: str
    lead: str
    links: Mapping[str, str]


def build_agent_header(opened: OpenArchive, agent: str, rules: str = "") -> AgentHeader:
    """Build the beginning of the page about the agent with this label.

    If ``rules`` is "", the page is about the rules under which the agent has played the most games. Raises
    ``NotFoundError`` if the agent has played no games, or none under the rules that ``rules`` names.
    """
    rows = [row for row in list_runs(opened) if agent in row.agents]
    rules_played = list_rules_and_agent_names(rows).rules
    if not rules_played or (rules and rules not in rules_played):
        where = (
            f" under {rules} rules"
            if rules_played
            else suggest_valid_names(agent, list_rules_and_agent_names(list_runs(opened)).agents)
        )
        raise NotFoundError(f"agent {agent!r} has not played in this archive{where}")
    rules = rules or rules_played[0]
    links = {
        "Its games": urls.games_url(agent=agent, rules=rules),
        "Its openings": urls.openings_url("", agent=agent, rules=rules),
        "Its insights": urls.build_url(urls.INSIGHTS, {"agent": agent, "rules": rules}),
        "Its runs": urls.build_url(urls.BROWSE, {"agent": agent}),
        **{f"Under {name} rules": urls.agent_url(agent, name) for name in rules_played if name != rules},
    }
    lead = f"{_describe_rating(opened, agent, rules)}{_describe_speed([row for row in rows if row.rules == rules])}"
    return AgentHeader(rules, lead, links)


def _describe_rating(opened: OpenArchive, agent: str, rules: str) -> str:
    """Describe the rating and the rank of an agent, or why the agent has none.

    An agent that played with several versions of its code has a rating for each version.
    """
    ratings = rate_agents(opened, rules)
    agent_ratings = (
        []
        if ratings is None
        else [candidate for candidate in ratings.ratings if resolve_shown_agent_label(candidate.agent, [agent])]
    )
    rated = [rating for rating in agent_ratings if not math.isnan(rating.elo.mean)]
    if ratings is None or not rated:
        return f"Not rated under {rules} rules"
    names = ["" if rating.agent == agent else f"{rating.agent}: " for rating in rated]
    one_sided = _find_one_sided_results(opened, agent, rules)
    return "; ".join(
        f"{name}{_describe_elo_and_rank(ratings, rating, rules, one_sided.get(rating.agent, ''))}"
        for name, rating in zip(names, rated, strict=True)
    )


def _find_one_sided_results(opened: OpenArchive, agent: str, rules: str) -> dict[str, str]:
    """Return ``won`` or ``lost`` for each name of an agent that won, or lost, every point of its games with others.

    Such a rating has no bound. Relative to a group of one agent, which is as large as any, it is nevertheless 0.
    """
    results = load_chosen_results(opened, GameFilter(rules=rules, agent=agent, trainings=False)).results.values()
    points, games = Counter[str](), Counter[str]()
    for result in results:
        if result.first != result.second:
            for name, wins in ((result.first, result.wins), (result.second, result.losses)):
                points[name] += 2 * wins + result.draws  # half-points
                games[name] += result.games
    ends = {0.0: "lost", 2.0: "won"}
    return {name: ends[points[name] / games[name]] for name in games if points[name] / games[name] in ends}


def _describe_elo_and_rank(ratings: Ratings, rating: Rating, rules: str, one_sided: str) -> str:
    """Describe one rating as its Elo and its rank, or say why it has none.

    ``one_sided`` is ``won`` or ``lost`` if the agent won, or lost, every point of its games, and otherwise "".
    """
    unranked = f"without a rank ({', '.join(rating.unranked)})"
    if one_sided and rating.rank is None:
        games = format_count_with_noun(rating.games, "game")
        taken = f"{one_sided.capitalize()} every point of its {games} under {rules} rules"
        return f"{taken}, so its Elo has no bound; {unranked}"
    if math.isinf(rating.elo.mean):
        return f"Its Elo under {rules} rules has no bound; {unranked}"
    elo = f"{format_elo(rating.elo.mean)} Elo"
    if rating.rank is None:
        return f"{elo} under {rules} rules, {unranked}"
    group = [other for other in ratings.ranked if other.group == rating.group]
    among = (
        f"; {format_count_with_noun(ratings.group_count, 'group')} of agents have no games between them"
        if ratings.group_count > 1
        else ""
    )
    return f"{elo}, rank {rating.rank} of {len(group)} under {rules} rules{among}"


def _describe_speed(rows: Sequence[RunRow]) -> str:
    """Describe how fast the agent's runs were played; return "" if no run recorded its duration.

    The speed includes the time that the opponents took.
    """
    pace = compute_pace_without_people((row.record, row.games) for row in rows if not row.record.training)
    return "" if pace is None else f"; {format_games_a_second(pace)} games a second, its opponents' time included"


def _select_own_games(opened: OpenArchive, agent: str, rules: str) -> tuple[GameFilter, list[RunRecord]]:
    """Return the filter of the games that count for an agent's results, and the records of all of its runs.

    Trainings are left out, as in crosstables, unless the agent played only in trainings.
    """
    records = GameFilter(rules=rules, agent=agent).select_runs(opened.archive)
    only_trainings = all(record.training for record in records)
    return GameFilter(rules=rules, agent=agent, trainings=only_trainings), records


def build_form_section(opened: OpenArchive, agent: str, rules: str) -> Result:
    """Build the section about the agent's score in each of its newest runs, beside the score that is expected."""
    game_filter, _ = _select_own_games(opened, agent, rules)
    result = build_form_result(compute_form(opened, game_filter, MAX_RUNS))
    if result.missing or result.numbers is None:
        return result
    agents, runs, *others = result.numbers.columns
    linked = link_column("run", runs.texts, map(urls.run_url, runs.texts), code=True)
    table = replace(result.numbers, columns=[linked, *([agents] if len({*agents.texts}) > 1 else []), *others])
    # Without a picture, a table of a row or two is no less clear.
    return replace(result, numbers=table) if result.figures else replace(result, note="", table=table, numbers=None)


def build_opponents_section(opened: OpenArchive, agent: str, rules: str) -> Result:
    """Build the section with an agent's results by opponent, the best result first.

    Each version of an agent's code has its own row.
    """
    game_filter, records = _select_own_games(opened, agent, rules)
    labels = {label for record in records for label in record.labels}
    trainings = sum(record.training for record in records)
    head_to_head = compute_head_to_head(opened, game_filter, with_notes=False)
    own_view = (_put_agent_first(agent, result, head_to_head) for result in head_to_head.results)
    results = sorted(own_view, key=lambda result: (-result.score.mean, -result.games))
    meetings = index_meetings(results)
    verdicts = Counter(
        meetings[result.first, result.second].verdict for result in results if result.first != result.second
    )
    names, opponents = [result.first for result in results], [result.second for result in results]
    counts = [format_count(result.games) for result in results]
    opponent_labels = [resolve_shown_agent_label(opponent, labels) or opponent for opponent in opponents]
    games = [urls.games_url(agent=agent, opponent=label, rules=head_to_head.rules) for label in opponent_labels]
    columns = [
        link_column("opponent", opponents, [urls.agent_url(label, head_to_head.rules) for label in opponent_labels]),
        *([text_column("agent", names)] if len(set(names)) > 1 else []),
        link_column("games", counts, games, right_aligned=True),
        *(
            _tint_scores(column, results) if column.heading == "score" else column
            for column in pairing_columns(pairings_frame(results))[2:]
            if column.heading != "games"
        ),
    ]
    left_out = f"; {format_count_with_noun(trainings, 'run of a training', 'runs of trainings')} left out"
    trainings_note = "; all in trainings" if game_filter.trainings else left_out if trainings else ""
    note = (
        f"Better than {verdicts[1]} of {format_count_with_noun(verdicts.total(), 'opponent')}, worse than "
        f"{verdicts[-1]}, not decided against {verdicts[0]}, whose 95 % intervals contain 50 and have no colour."
    )
    return Result(note, Table(f"Results of {agent}, in %{trainings_note}", columns))


def _tint_scores(column: ResultColumn, results: Sequence[PairingResult]) -> ResultColumn:
    meetings = index_meetings(results)
    tints = [
        None if result.first == result.second else tint_meeting(meetings[result.first, result.second])
        for result in results
    ]
    cells = [Cell(str(text), tint=tint) for text, tint in zip(column.texts, tints, strict=True)]
    return column._replace(texts=cells)


class OpeningChoice(NamedTuple):
    """A first placement with the gift after it, and the score of the agent that the page is about."""

    decider: str  # "itself" or "its opponent"
    row: dict[str, Any]  # of ``analytics.questions.openings.explore_position``
    score: Estimate


def build_openings_section(opened: OpenArchive, agent: str, rules: str) -> Result:
    """Build the section about the first placements that the agent and its opponents chose.

    The best and the worst of the most played ones have boards; the numbers have a row for each, the best first. If any
    game had imposed plies, each game counts with the first placement after its imposed plies, and each row also shows
    the position before it.
    """
    choices = list[OpeningChoice]()
    records = GameFilter(rules=rules, agent=agent).select_runs(opened.archive)
    first_free = any(record.spec["opening_plies"] for record in records)
    missing, games_by_ply = "", Counter[int]()
    for decider, games in {"itself": GameFilter(agent=agent), "its opponent": GameFilter(opponent=agent)}.items():
        try:
            result = explore_position_if_readable(
                opened, OpeningsQuery(f"{EMPTY_BOARD} {rules}", "turn", games, first_free=first_free)
            )
        except RequestError as error:
            missing = missing or error.for_command_line
            continue
        missing = missing or result.missing
        games_by_ply.update(result.explored.games_by_ply if result.explored else {})
        for row in result.explored.rows.to_dicts() if result.explored else ():
            counts = [row["losses"], row["draws"], row["wins"]]
            choices.append(OpeningChoice(decider, row, mean_score(counts if decider == "itself" else counts[::-1])))
    if not choices:
        return Result(missing=missing)
    most_played = sorted(choices, key=lambda choice: -choice.row["games"])[:MAX_OPENINGS]
    best_first = sorted(most_played, key=lambda choice: -choice.score.mean)
    subject = describe_first_plies(dict(sorted(games_by_ply.items()))) if first_free else "with 0 given first"
    title = f"Openings, the best for {agent} first, in %; a row stands for all that are alike; {subject}"
    note = (
        "The first placement (yellow) and the gift after it, each as in one of its games; the piece above the board is "
        "in hand. The score is that of this agent."
    )
    return Result(
        note, figures=_build_opening_figures(opened, best_first), numbers=_build_openings_table(title, best_first)
    )


def _build_opening_figures(opened: OpenArchive, best_first: Sequence[OpeningChoice]) -> list[Figure]:
    """Build a board for each of the best and of the worst openings, as they were played in the sample games."""
    worst = best_first[SHOWN_OPENINGS:][-SHOWN_OPENINGS:]
    shown = [("Best", choice) for choice in best_first[:SHOWN_OPENINGS]] + [("Worst", choice) for choice in worst]
    keys = [(choice.row["run_id"], choice.row["game_id"]) for _, choice in shown]
    plies_by_game = read_plies(opened, keys)
    figures = []
    for number, ((kind, choice), key) in enumerate(zip(shown, keys, strict=True)):
        plies, end = plies_by_game[key], choice.row.get("ply", 0) + 1
        rules = opened.archive.load_requested_run(key[0]).rules
        hand = plies[end][0] if len(plies) > end and not rules.mover_chooses else NONE
        title = f"{kind}: {format_percent(choice.score.mean)} %"
        interval = format_interval(choice.score.low, choice.score.high)
        decider = "chosen by itself" if choice.decider == "itself" else "chosen by its opponent"
        note = f"{interval} %, {format_count_with_noun(choice.row['games'], 'game')}, {decider}"
        board = build_boards_picture([Game(rules, tuple(plies[:end]), hand)])
        figures.append(Figure(title, board, f"opening-{number}-", note))
    return figures


def _build_openings_table(title: str, best_first: Sequence[OpeningChoice]) -> Table:
    first_free = any("position" in choice.row for choice in best_first)
    columns = [
        text_column("decides" if first_free else "places first", [choice.decider for choice in best_first]),
        *_build_position_turn_and_games_columns([choice.row for choice in best_first]),
        number_column("score", [choice.score.mean for choice in best_first], format_percent),
        interval_column([choice.score.low for choice in best_first], [choice.score.high for choice in best_first]),
        text_column("sample game", [_build_sample_cell(choice.row) for choice in best_first]),
    ]
    return Table(title, [column for column in columns if column.texts])


def build_regret_section(opened: OpenArchive, agent: str, rules: str) -> Result:
    """Build the section about the agent's regret by ply; it says what to do if no decision of the agent is judged."""
    game_filter = GameFilter(rules=rules, agent=agent)
    records = select_records_or_raise(opened, game_filter)
    condition = f"{build_judged_runs_condition(opened, records)} AND agent = {quote_text_or_number(agent)}"
    frame = summarise_decisions(opened, condition, True, build_judged_agent_names(opened, condition))
    if frame.is_empty():
        annotate = format_annotate_command(opened.archive.root, game_filter)
        return Result(missing=f"no decision of this agent is judged: `{annotate}` does that")
    note = (
        "The exact value that its decisions gave up on average, by ply, in half-points. The solid line with dots is "
        "gifts, the dashed one with squares placements, bands are 95 % intervals."
    )
    names = [*frame["agent"].unique(maintain_order=True)]
    charts = [
        Figure(name if len(names) > 1 else "Mean regret", build_regret_chart(frame.filter(agent=name)))
        for name in names
    ]
    columns = regret_and_blunder_columns(frame)[0 if len(names) > 1 else 1 :]
    numbers = Table("Regret in half-points by ply, and blunders", columns, legend=REGRET_LEGEND)
    return Result(note, figures=assign_figure_ids("regret", charts), numbers=numbers)


def build_own_mistakes_section(opened: OpenArchive, agent: str, rules: str) -> Result:
    """Build the section with the agent's largest mistakes."""
    table = build_mistakes_table(opened, GameFilter(rules=rules, agent=agent), with_agent=False)
    if not table.text_rows:
        return Result(missing="none was found in its judged games")
    rows = format_count_with_noun(len(table.text_rows), "decision")
    return Result(f"{rows} that gave up most, a few of each kind and ply; each leads to its game.", numbers=table)


def _build_position_turn_and_games_columns(rows: Sequence[Mapping[str, Any]]) -> list[ResultColumn]:
    """Build the columns of positions (if the rows name positions), cells, gifts and numbers of games."""
    positions = [row["position"] for row in rows if "position" in row]
    return [
        link_column("position", positions, map(urls.openings_url, positions), code=True),
        text_column("cell", [row["cell"] for row in rows]),
        text_column("gift", [_build_gift_cell(row["gift"]) for row in rows if "gift" in row]),
        number_column("games", [row["games"] for row in rows]),
    ]


def _build_gift_cell(gift: str | None) -> Cell:
    """Build the table cell for a gift, with a picture of the piece.

    If no gift followed the placement, the cell shows a dot.
    """
    return Cell("·") if gift is None else Cell(gift, piece=parse_piece(gift))


def _build_sample_cell(row: Mapping[str, Any]) -> Cell:
    return urls.build_game_cell(row["run_id"], row["game_id"], row.get("ply", 0) + 1)


def _put_agent_first(agent: str, result: PairingResult, head_to_head: HeadToHead) -> PairingResult:
    """Return the result of a pairing with ``agent`` as the first agent; the agents are swapped if need be."""
    if resolve_shown_agent_label(result.first, [agent]):
        return result
    swapped = result.with_agents_swapped
    if head_to_head.shared is None:
        return swapped
    clusters = head_to_head.shared.build_meeting_clusters(swapped.first, swapped.second, swapped.tally)
    return replace(swapped, clusters=clusters)
