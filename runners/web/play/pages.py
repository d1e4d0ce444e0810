"""The pages of playing: choosing an opponent, the game with its board, and the forms of its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from analytics.store.ranges import first_game_id
from quarto.errors import RequestError
from quarto.notation import format_cell, format_game, format_piece, parse_piece
from quarto.rules import CELLS, NONE, PIECES
from runners.arena.spec import label_of
from runners.config.agent_policies import untrained
from runners.play.game import Game, NextDecision, attributes
from runners.play.hints import Hint
from runners.play.levels import LEVELS
from runners.play.session import question_for, used
from runners.terminal.console import sql_command
from runners.web.agents_and_rules import AgentsAndRules, parts_of
from runners.web.archive.links import address as url_of
from runners.web.archive.links import analysis_of_game
from runners.web.background import BackgroundJob, compiling
from runners.web.pages import FormFields, go_to, page, session_of
from runners.web.play.games import PATH, RESIGN, GameAddress, HeldGame, HeldGames, Seen, checked_setup, parse_address
from runners.web.site import site_of
from runners.web.tiles import DecisionTile, filled_cell, named, taken_piece

router = APIRouter()

FIRST = "rule_based"  # the opponent that the form proposes


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
        levels=LEVELS,
        level=next((level for level in LEVELS if level.agent == (fields.get("agent") or FIRST)), None),
        all_rules=known.all_rules,
        playable=playable,
        rules=rules,
        seat=fields.get("seat") or "1",
        name=fields.get("name") or site.settings.name,
        seed=fields.get("seed") or "1",
        error=error,
    )


def _parameters(agent: str, fields: Mapping[str, str]) -> dict[str, str]:
    """An agent's own parameters: a form may still have those of one that was chosen before."""
    prefix = f"{agent}."
    return {key.removeprefix(prefix): text for key, text in fields.items() if key.startswith(prefix)}


@router.post("/play")
def begin(request: Request, fields: FormFields) -> Response:
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
    why = ": others are served first" if job.queued else ""
    if compiling().active:
        why = ": its kernels are being compiled, which may take a minute. Later games find them ready"
    return page(request, "waiting.html", title="One moment", line=f"The agent is being set up{why}.", refresh=1)


class GameView(NamedTuple):
    """Everything that the page of a game shows."""

    cells: list[DecisionTile]
    pieces: list[DecisionTile]
    hand: int  # in hand, or chosen to be placed; NONE
    words: list[str]  # attributes of that piece
    task: str  # what the person is to do
    asked: NextDecision
    yours: bool  # the person decides
    text: str  # the plies so far
    hints: list[str]


def view_of(seen: Seen, chosen: int, found: Hint | None, closed: bool = False) -> GameView:
    """The view of a game; ``chosen`` is the piece to place where the mover chooses, NONE before that.

    ``closed``: the game is in the archive, and this may be an earlier moment of it: nothing can be decided.
    """
    game = seen.game
    yours = not (closed or seen.session.over or seen.thinking)
    asked = game.asked if yours else NextDecision.NOTHING
    hand = game.hand if asked is not NextDecision.PLY or chosen not in game.left else chosen
    best = {word for each in (found.best if found and yours else ()) for word in (each, each.partition("@")[0])}
    return GameView(
        [_marked(_cell(game, asked, cell, hand), best) for cell in range(CELLS)],
        [_marked(_piece(game, asked, piece, hand), best) for piece in range(PIECES)],
        hand,
        [] if hand == NONE else attributes(hand),
        _task(asked, hand),
        asked,
        yours,
        format_game(game.plies),
        found.lines if found and yours else [],
    )


def _marked(tile: DecisionTile, best: set[str]) -> DecisionTile:
    """The tile with a mark if a hint recommends it."""
    if (tile.decision or tile.choice) not in best:
        return tile
    return tile._replace(hinted=True, label=f"{tile.label} (hint)")


def _cell(game: Game, asked: NextDecision, cell: int, hand: int) -> DecisionTile:
    name, filled = format_cell(cell), filled_cell(game, cell)
    if filled is not None:
        return filled
    if hand == NONE or asked not in (NextDecision.PLACEMENT, NextDecision.PLY):
        return DecisionTile(name, NONE, f"{name}, empty")
    decision = name if asked is NextDecision.PLACEMENT else f"{format_piece(hand)}@{name}"
    return DecisionTile(name, NONE, f"{name}, empty: place {format_piece(hand)} here", decision=decision)


def _piece(game: Game, asked: NextDecision, piece: int, hand: int) -> DecisionTile:
    name, taken = format_piece(piece), taken_piece(game, piece)
    if taken is not None:
        return taken
    if asked is NextDecision.PLY:
        held = "hand" if piece == hand else "left"
        return DecisionTile(name, piece, f"Place {named(piece)}", choice=name, held=held)
    if asked is NextDecision.GIFT:
        return DecisionTile(name, piece, f"Give {named(piece)}", decision=name)
    return DecisionTile(name, piece, named(piece))


def _task(asked: NextDecision, hand: int) -> str:
    if asked is NextDecision.GIFT:
        return "Your turn: give a piece."
    if asked is NextDecision.PLACEMENT or (asked is NextDecision.PLY and hand != NONE):
        return f"Your turn: place piece {format_piece(hand)} on an empty cell."
    return "Your turn: choose a piece to place." if asked is NextDecision.PLY else ""
