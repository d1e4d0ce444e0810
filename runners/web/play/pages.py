"""The pages of playing: choosing an opponent, the game itself, and the forms of its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Form
from starlette.requests import Request
from starlette.responses import Response

from analytics.store.schema import first_game_id
from quarto.errors import RequestError
from quarto.notation import parse_piece
from quarto.rules import NONE
from runners.arena.agent_policies import untrained
from runners.arena.spec import label_of
from runners.browse.links import address as url_of
from runners.browse.links import analysis_of_game
from runners.play.hints import Hint
from runners.play.session import question_for, used
from runners.terminal.console import sql_command
from runners.web.agents_and_rules import AgentsAndRules, parts_of
from runners.web.background import BackgroundJob, compiling
from runners.web.pages import go_to, page, session_of
from runners.web.play.address import PATH, RESIGN, GameAddress, checked_setup, parse_address
from runners.web.play.games import HeldGame, HeldGames, Seen
from runners.web.play.view import GameView, view_of
from runners.web.settings import site_of

router = APIRouter()

FIRST = "rule_based"  # the opponent that the form proposes
SUGGESTED = (
    ("semi_random", "Easy", "wins when it can, and never gives a winning piece"),
    ("rule_based", "Fair", "mirrors your moves and punishes slips"),
    ("mcts", "Hard", "looks ahead by hundreds of trial games"),
    ("oracle", "Perfect", "never loses a position that can be held"),
)


@router.get("/play")
def setup_page(request: Request) -> Response:
    """The form for a new game, filled in as the address says; ``agent`` may be a label with parameters."""
    return _setup(request, request.query_params)


def _setup(request: Request, fields: Mapping[str, str], error: str = "") -> Response:
    """The form with these values, and why they were refused."""
    site = site_of(request)
    known = site.service(AgentsAndRules)
    agent, given = parts_of(fields.get("agent") or FIRST)
    rules, playable = fields.get("rules") or "classic", known.playable(agent)
    if rules not in playable and not error:
        rules = next((each for each in known.all_rules if each in playable), rules)
    return page(
        request,
        "play_setup.html",
        400 if error else 200,
        agent=agent,
        parameters=known.parameters(agent),
        described=known.all_agents,
        given=given | _parameters(agent, fields),
        suggested=SUGGESTED,
        all_rules=known.all_rules,
        playable=playable,
        rules=rules
        if error or rules in playable
        else next((each for each in known.all_rules if each in playable), rules),
        seat=fields.get("seat") or "1",
        name=fields.get("name") or site.settings.name,
        seed=fields.get("seed") or "1",
        error=error,
    )


def _parameters(agent: str, fields: Mapping[str, str]) -> dict[str, str]:
    """An agent's own parameters: a form may still have those of one that was chosen before."""
    prefix = f"{agent}."
    return {key.removeprefix(prefix): text for key, text in fields.items() if key.startswith(prefix)}


async def form_fields(request: Request) -> dict[str, str]:
    """The texts of a form whose fields depend on what it is about."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


@router.post("/play")
def begin(request: Request, fields: Annotated[dict[str, str], Depends(form_fields)]) -> Response:
    """Begin a game, or show the form again with what is wrong in it."""
    site = site_of(request)
    try:
        setup = checked_setup(fields)
        given = {key: text.strip() for key, text in _parameters(setup.agent, fields).items() if text.strip()}
        if given:  # an empty field means the usual value
            usual = {each.name: each.usual for each in site.service(AgentsAndRules).parameters(setup.agent)}
            setup = setup._replace(agent=label_of(setup.agent, given, usual))
        identity, job = site.service(HeldGames).begin(setup, session_of(request))
        if not job.wait():
            return go_to(f"/play/begun/{identity}")
        held: HeldGame = job.result()
    except RequestError as error:
        return _setup(request, fields, str(error))
    return go_to(PATH, **held.begun.query())


@router.get("/play/begun/{identity}")
def begun(request: Request, identity: str) -> Response:
    """Wait until the agent is set up, and go on to the game."""
    job = site_of(request).service(HeldGames).beginning(identity)
    if not job.wait():
        return _waiting(request, job)
    held: HeldGame = job.result()
    return go_to(PATH, **held.begun.query())


@router.get(PATH)
def game_page(request: Request, piece: str = "", hint: str = "") -> Response:
    """The game of an address. No agent is asked for a link, nor a hint sought: the page has forms that do it."""
    address = parse_address(request.query_params)
    games = site_of(request).service(HeldGames)
    held = games.held(address)
    if held is None:
        job = games.opening(address)
        if job is None:
            return _offered(request, address)
        if not job.wait():
            return _waiting(request, job)
        held = job.result()
    seen = held.seen(address.moves)
    pending: BackgroundJob | None = None
    found: Hint | None = None
    if seen.thinking or held.is_to_be_logged(address.moves):
        pending = games.answering(held, address.moves)
        if pending is None:
            return _offered(request, address)
    elif hint and "hint" in held.aids and not seen.session.over:
        pending = games.hinting(held, address.moves)
    if pending and pending.wait():
        found, pending = pending.result(), None  # raises what went wrong
        seen = held.seen(address.moves)
    view = view_of(seen, parse_piece(piece) if piece else NONE, found, closed=held.entry is not None)
    return _shown(request, address, held, seen, view, pending)


@router.post(PATH)
def decide(request: Request, decision: Annotated[str, Form()] = "", command: Annotated[str, Form()] = "") -> Response:
    """Carry out a decision of the person, or a command: open, undo, hint, resign, log."""
    address, session = parse_address(request.query_params), session_of(request)
    games = site_of(request).service(HeldGames)
    held = games.held(address)
    if held is None:
        job = games.open(address, session)
        if not job.wait():
            return go_to(PATH, **address.query())
        held = job.result()
    if command == "open":
        games.answered(held, address.moves, session).wait()
        return go_to(PATH, **address.query())
    if command == "hint":
        held.hint()
        games.hinted(held, address.moves, session)
        return go_to(PATH, **address.query(), piece=request.query_params.get("piece"), hint=1)
    if command == "undo":
        return go_to(PATH, **address._replace(moves=held.undo(address.moves)).query())
    if command == "log":
        held.answer(address.moves)
        return go_to(PATH, **address.query())
    if command not in ("", RESIGN):
        raise RequestError(f"command {command[:40]!r} is not known: undo, hint, {RESIGN} or log")
    after = address.after(command or decision)
    held.decide(address.moves, after.moves[-1])
    games.answered(held, after.moves, session).wait()
    return go_to(PATH, **after.query())


def _offered(request: Request, address: GameAddress) -> Response:
    """A page that offers to go on with a game."""
    return page(request, "play_open.html", setup=address.setup, action=url_of(PATH, address.query()))


def _shown(
    request: Request, address: GameAddress, held: HeldGame, seen: Seen, view: GameView, pending: BackgroundJob | None
) -> Response:
    setup = address.setup
    logged = None
    if held.entry is not None:
        run_id, number = held.entry
        question = sql_command(question_for(run_id, number), site_of(request).settings.archive)
        logged = {"run_id": run_id, "number": number, "game_id": first_game_id(0, number), "question": question}
    return page(
        request,
        "play_game.html",
        view=view,
        seen=seen,
        setup=setup,
        query=address.query(),
        action=url_of(PATH, {**address.query(), "piece": request.query_params.get("piece")}),
        end=url_of(PATH, address._replace(moves=held.moves).query()) if logged and not seen.session.over else "",
        analysis=analysis_of_game(seen.game.plies, seen.game.rules.name, seen.game.hand),
        compiling=pending is not None and compiling().active,
        over=seen.session.over,
        won=seen.game.winner == setup.seat,
        drawn=seen.game.winner == NONE,
        logged=logged,
        counts=seen.session.over and tuple(address.moves) == held.moves,
        used=used(held.aids),
        trouble=held.trouble,
        notes=list(untrained([held.prepared.spec.agents[1]])),
        refresh=1 if pending is not None else None,
    )


def _waiting(request: Request, job: BackgroundJob) -> Response:
    return page(request, "waiting.html", compiling=compiling().active, queued=job.queued, refresh=1)
