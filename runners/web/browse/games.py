"""Lists of games, logged games replayed, and the opening explorer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.perfect.game_review import GameReview
from analytics.query.game_filter import GameFilter
from analytics.query.openings import BY, EMPTY_BOARD, OpeningsQuery
from analytics.sql.database import OpenArchive
from quarto.errors import FailureError, RequestError
from quarto.rules import NONE
from runners.browse import games, links, replay
from runners.browse.explorer import explorer
from runners.browse.games import ArchivedGame
from runners.browse.replay import Judgements
from runners.browse.runs import run_rows
from runners.web.background import BackgroundJob
from runners.web.browse.reader import ArchiveReader, ArchiveService, Reading, archive_service, runs_of, whole
from runners.web.failures import status_of
from runners.web.tiles import MISTAKES, LineStep, kind_of

router = APIRouter()


@router.get("/browse/games")
def list_of_games(
    reader: Reading,
    rules: str = "",
    run: str = "",
    agent: str = "",
    opponent: str = "",
    result: str = "",
    order: str = "",
    page: str = "1",
) -> Response:
    """The games that meet filters. Wrong filters are shown again with the reason."""
    order = order or games.ORDERS[0]
    wanted = GameFilter(runs=runs_of(run), rules=rules or None, agent=agent or None, opponent=opponent or None)
    found, error, status = games.NO_GAMES, "", 200
    try:
        found = reader.ask(_games, wanted, result, order, whole(page, 1))
    except RequestError as raised:
        error, status = str(raised), status_of(raised)
    reader.content.failed |= bool(found.damaged)
    return reader.page(
        "browse_games.html",
        status,
        found=found,
        error=error,
        wanted={"rules": rules, "run": run, "agent": agent, "opponent": opponent, "result": result, "order": order},
        known=reader.known,
        results=games.RESULTS,
        orders=games.ORDERS,
        **reader.pager(found.total, games.ROWS),
    )


def _games(opened: OpenArchive, wanted: GameFilter, result: str, order: str, page: int) -> games.GamesPage:
    return games.games_list(opened, run_rows(opened), wanted, result, order, page)


@router.get("/browse/games/{run_id}/{game_id}")
def one_game(
    request: Request, reader: Reading, run_id: str, game_id: int, ply: str = "", seconds: str = ""
) -> Response:
    """A logged game at one moment, with the regret of each decision."""
    game = reader.ask(games.logged_game, run_id, game_id)
    judged, job = _judged(reader, archive_service(request), game, float(whole(seconds, int(replay.SECONDS))))
    now = replay.moment(game, whole(ply, len(game.plies)) if ply else None)
    before, after = reader.ask(games.neighbours, run_id, game_id)
    wrong_before, wrong_after = replay.mistakes_at(game, judged, now.plies)

    def at(plies: int | None) -> str:
        return links.game_page(run_id, game_id, plies)

    return reader.page(
        "browse_game.html",
        game=game,
        now=now,
        end=len(game.plies),
        rows=_rows(game, judged),
        steps=[_step(each, at, now) for each in replay.decisions(game, judged)] if judged else [],
        winner=games.result_text(game.winner, game.agents),
        job=job,
        judged=len(judged),
        free=replay.free_decisions(game),
        lost=_lost(game, judged),
        at=at,
        previous_mistake=None if wrong_before is None else at(wrong_before),
        next_mistake=None if wrong_after is None else at(wrong_after),
        previous_game=None if before is None else links.game_page(run_id, before),
        next_game=None if after is None else links.game_page(run_id, after),
        run_page=links.run_page(run_id),
        whole_game=links.analysis_of_game(game.plies, game.record.rules.name),
        openings=links.openings_page(now.text) if now.plies < len(game.plies) else None,
        longer=_longer(job),
        search=lambda more: links.address(request.url.path, {"ply": ply, "seconds": more}),
        refresh=1 if job is not None and not job.ended else None,
    )


def _judged(
    reader: ArchiveReader, service: ArchiveService, game: ArchivedGame, seconds: float
) -> tuple[Judgements, BackgroundJob | None]:
    """The judgements that are known, and the job that seeks the others: None if all are in the archive."""
    known: Judgements = {}
    with suppress(FailureError):  # then all decisions are judged here
        known = reader.ask(replay.annotated, game.record.run_id, game.game_id)
    if replay.is_judged(game, known):
        return known, None

    def work(job: BackgroundJob) -> Judgements:
        def show(found: GameReview) -> None:
            job.latest = replay.judged_by(found)

        review = replay.review_of(game)
        job.when_stopped(review.stop)
        review.search(show, better=False)
        return replay.judged_by(review.found())

    key = game.record.run_id, game.game_id, game.plies
    job = service.judges.job(key, work, min(seconds, LONGER[-1]))
    job.wait()
    if job.ended and not job.stopped:
        return job.result(), job
    return {**known, **(job.latest or {})}, job


LONGER = (120, 300)  # seconds that a game may be searched, after the usual ones


def _longer(job: BackgroundJob | None) -> int | None:
    """The seconds in which a search that was stopped may be tried again."""
    return next((each for each in LONGER if job is not None and each > job.seconds), None)


def _rows(game: ArchivedGame, judged: Judgements) -> list[list[replay.Decision | None]]:
    """The decisions by ply: the gift (None where the mover chooses), the placement."""
    rows: list[list[replay.Decision | None]] = [[None, None] for _ in game.plies]
    for each in replay.decisions(game, judged):
        rows[each.ply][each.kind == replay.PLACEMENT] = each
    return rows


def _step(decision: replay.Decision, at: Callable[[int | None], str], now: replay.Moment) -> LineStep:
    """A decision as the graph of values shows it."""
    found, word = decision.judgement, f"{decision.agent}: {decision.kind} {decision.choice}"
    kind = "" if found is None else kind_of(found.after if decision.seat == 0 else -found.after)
    mistake = MISTAKES.get(found.regret, "") if found and not decision.imposed else ""
    current = decision.plies == now.plies and decision.hand == (now.position.hand != NONE)
    return LineStep(decision.choice, at(decision.plies), f"ply {decision.ply}, {word}", kind, mistake, current, False)


def _lost(game: ArchivedGame, judged: Judgements) -> list[tuple[str, int, int]]:
    """For each seat its agent, its mistakes, and the half-points that it gave up."""
    regrets: list[list[int]] = [[], []]
    for each in replay.decisions(game, judged):
        if each.judgement is not None and not each.imposed and each.judgement.regret > 0:
            regrets[each.seat].append(each.judgement.regret)
    return [(game.agents[seat], len(found), sum(found)) for seat, found in enumerate(regrets)]


@router.get("/browse/openings")
def openings(  # noqa: PLR0913, PLR0917  (each is a field of the form)
    reader: Reading,
    position: str = "",
    rules: str = "",
    by: str = "",
    agent: str = "",
    opponent: str = "",
    run: str = "",
    since: str = "",
    until: str = "",
    least: str = "",
    imposed: str = "",
) -> Response:
    """The decisions made in a position, with their results on a board."""
    known = reader.known
    wanted = GameFilter(
        runs=runs_of(run),
        agent=agent or None,
        opponent=opponent or None,
        since=since.strip() or None,
        until=until.strip() or None,
    )
    text = _position(position.strip(), rules, known.rules[0])
    asked = OpeningsQuery(text, by if by in BY else None, wanted, max(1, whole(least, 1)), imposed == "yes")
    shown = reader.ask(explorer, asked)
    reader.content.failed |= shown.damaged
    return reader.page(
        "browse_openings.html",
        shown=shown,
        asked=asked,
        filters=wanted,
        by=by,
        kinds=BY,
        known=known,
        rules=shown.rules.name,
        analysis=links.analysis_of(shown.text),
        start=links.address("/browse/openings", {"rules": shown.rules.name}),
    )


def _position(text: str, rules: str, most_played: str) -> str:
    """The position under the rules that are chosen; by default the empty board under those of most games."""
    fields = (text or EMPTY_BOARD).split()
    chosen = rules or (fields[2] if len(fields) == 3 else "") or ("" if text else most_played)
    return " ".join([*fields[:2], *([chosen] if chosen else [])])
