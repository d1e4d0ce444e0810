"""The play pages: the form for a new game, the game with its board, and the forms that take decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from analytics.store.ranges import first_game_id
from quarto.errors import RequestError
from quarto.game import Game, NextDecision, list_attribute_words
from quarto.notation import format_cell, format_game, format_piece, parse_piece
from quarto.rules import CELLS, NONE, PIECES
from runners.arena.spec import format_label
from runners.config.agent_policies import describe_untrained_agents
from runners.play.hints import Hint
from runners.play.levels import LEVELS
from runners.play.session import format_aids, format_plies_sql
from runners.terminal.console import format_sql_command
from runners.web.agents_and_rules import AgentsAndRules, split_label
from runners.web.analyse.line import AnalysisLine, format_decisions
from runners.web.analyse.pages import POLL_HALF_SECONDS
from runners.web.analyse.review import ReviewView, build_review_and_start_searches
from runners.web.analyse.searches import SearchService
from runners.web.archive.snapshots import BusyError
from runners.web.archive.urls import build_url, game_analysis_url
from runners.web.background import BackgroundJob, find_compilation_counter
from runners.web.page_rendering import FormFields, find_session_or_client_address, redirect_to, render_page
from runners.web.play.addresses import GAME_PATH, RESIGN, GameAddress, GameSetup, parse_address, parse_setup
from runners.web.play.games import GameState, WebGame, WebGameService
from runners.web.play.guide import Guide
from runners.web.play.series import LevelOffer, count_half_points, find_level_offer, format_score
from runners.web.site import Site, find_site
from runners.web.tiles import Badge, DecisionTile, build_filled_cell_tile, build_taken_piece_tile, describe_piece

router = APIRouter()

DEFAULT_OPPONENT = "rule_based"  # in the form, before one is chosen
DECISIONS_BEFORE_PREPARATION = 4  # of the person; then the solver is made ready for the review


@router.get("/play")
def setup_page(request: Request) -> Response:
    """Show the form for a new game, filled in from the address.

    The parameter ``agent`` of the address may be a label with parameters.
    """
    return _render_setup_page(request, request.query_params)


def _render_setup_page(request: Request, fields: Mapping[str, str], error: str = "") -> Response:
    """Render the form for a new game with the given fields and, if these were refused, with the reason, ``error``."""
    site = find_site(request)
    choices = site.get_or_create_service(AgentsAndRules)
    agent, parameters = split_label(fields.get("agent") or DEFAULT_OPPONENT)
    rules, playable = fields.get("rules") or "classic", choices.list_playable_rules(agent)
    if rules not in playable and not error:
        rules = next((name for name in choices.all_rules if name in playable), rules)
    return render_page(
        request,
        "play/setup.html",
        400 if error else 200,
        agent=agent,
        parameters=choices.list_agent_parameters(agent),
        described=choices.all_agents,
        values=parameters | _select_agent_parameters_by_prefix(agent, fields),
        levels=LEVELS,
        level=next((level for level in LEVELS if level.agent == (fields.get("agent") or DEFAULT_OPPONENT)), None),
        all_rules=choices.all_rules,
        playable=playable,
        rules=rules,
        shown_rules=choices.load_rules(rules) if rules in choices.all_rules else None,
        seat=fields.get("seat") or "1",
        name=fields.get("name") or site.options.name,
        seed=fields.get("seed") or "1",
        error=error,
    )


def _select_agent_parameters_by_prefix(agent: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of one agent in the form, as a mapping from names to values.

    In the form, the agent's name and a dot stand before each name, because the form may also hold the parameters of an
    agent that was chosen before.
    """
    prefix = f"{agent}."
    return {key.removeprefix(prefix): text for key, text in fields.items() if key.startswith(prefix)}


@router.post("/play")
def begin_game(request: Request, fields: FormFields) -> Response:
    """Begin a game or, if the settings are refused, show the form again with the reason."""
    site = find_site(request)
    try:
        setup = parse_setup(fields)
        parameters = {
            key: text.strip()
            for key, text in _select_agent_parameters_by_prefix(setup.agent, fields).items()
            if text.strip()
        }
        if parameters:  # an empty field means the default value
            defaults = {
                parameter.name: parameter.default
                for parameter in site.get_or_create_service(AgentsAndRules).list_agent_parameters(setup.agent)
            }
            setup = setup._replace(agent=format_label(setup.agent, parameters, defaults))
        begun = site.get_or_create_service(WebGameService).begin_game(setup, find_session_or_client_address(request))
        if not begun.setup_job.wait():
            return redirect_to(f"/play/begun/{begun.id}")
        game: WebGame = begun.setup_job.get_result_or_raise_work_error()
    except RequestError as error:
        return _render_setup_page(request, fields, str(error))
    return redirect_to(GAME_PATH, **game.start_address.to_query())


@router.get("/play/begun/{identity}")
def game_wait_page(request: Request, identity: str) -> Response:
    """Redirect to a new game if its agent is ready; otherwise show a page that waits for the agent.

    ``identity`` is the id of the game.
    """
    job = find_site(request).get_or_create_service(WebGameService).find_setup_job(identity)
    if not job.wait():
        return _render_waiting_page(request, job)
    game: WebGame = job.get_result_or_raise_work_error()
    return redirect_to(GAME_PATH, **game.start_address.to_query())


@router.get(GAME_PATH)
def game_page(request: Request, piece: str = "", hint: str = "") -> Response:
    """Show the game that the address describes.

    Following a link never makes the agent move and never computes a hint; only the forms on the page do.
    """
    address = parse_address(request.query_params)
    games = find_site(request).get_or_create_service(WebGameService)
    game = games.find_game(address)
    if game is None:
        job = games.find_reopen_job(address)
        if job is None:
            return _render_resume_page(request, address)
        if not job.wait():
            return _render_waiting_page(request, job)
        game = job.get_result_or_raise_work_error()
    state = game.replay(address.moves)
    pending: BackgroundJob | None = None
    hint_result: Hint | None = None
    if state.thinking or game.is_to_be_logged(address.moves):
        pending = games.find_turn_job(game, address.moves)
        if pending is None:
            return _render_resume_page(request, address)
    elif hint and "hint" in game.aids and not state.session.is_over:
        pending = games.find_hint_job(game, address.moves)
    elif game.is_guide_due(state):
        pending = games.find_turn_job(game, address.moves)
    if pending and pending.wait():
        result, pending = pending.get_result_or_raise_work_error(), None  # raises what went wrong
        hint_result = result if isinstance(result, Hint) else None
        state = game.replay(address.moves)
    view = build_game_view(
        state,
        parse_piece(piece) if piece else NONE,
        hint_result,
        is_logged=game.log_entry is not None,
        guide=game.find_guide(state.game),
    )
    return _render_game_page(request, address, game, state, view, pending)


@router.post(GAME_PATH)
def decide(request: Request, decision: Annotated[str, Form()] = "", command: Annotated[str, Form()] = "") -> Response:
    """Carry out a decision of the person, or one of the commands open, undo, hint, resign and log."""
    address, session = parse_address(request.query_params), find_session_or_client_address(request)
    games = find_site(request).get_or_create_service(WebGameService)
    game = games.find_game(address)
    if game is None:
        job = games.start_reopen_job(address, session)
        if not job.wait():
            if command == "open":
                return redirect_to(GAME_PATH, **address.to_query())
            raise BusyError("the agent is being set up again, because the server was restarted")
        game = job.get_result_or_raise_work_error()
    if command == "open":
        games.start_turn_job(game, address.moves, session).wait()
        return redirect_to(GAME_PATH, **address.to_query())
    if command == "hint":
        game.record_hint()
        games.start_hint_job(game, address.moves, session)
        return redirect_to(GAME_PATH, **address.to_query(), piece=request.query_params.get("piece"), hint=1)
    if command == "undo":
        return redirect_to(GAME_PATH, **address._replace(moves=game.undo(address.moves)).to_query())
    if command == "log":
        game.play_agent_turn(address.moves)
        return redirect_to(GAME_PATH, **address.to_query())
    if command not in ("", RESIGN):
        raise RequestError(f"command {command[:40]!r} is not known: undo, hint, {RESIGN} or log")
    new_address = address.with_decision(command or decision)
    game.append_decision(address.moves, new_address.moves[-1])
    games.start_turn_job(game, new_address.moves, session).wait()
    if len(new_address.moves) >= DECISIONS_BEFORE_PREPARATION:
        find_site(request).get_or_create_service(SearchService).start_preparation(game.prepared.spec.rules)
    return redirect_to(GAME_PATH, **new_address.to_query())


def _render_resume_page(request: Request, address: GameAddress) -> Response:
    """Render a page that offers to resume a game that this server does not hold."""
    return render_page(request, "play/open.html", setup=address.setup, action=build_url(GAME_PATH, address.to_query()))


def _render_game_page(
    request: Request,
    address: GameAddress,
    game: WebGame,
    state: GameState,
    view: GameView,
    pending: BackgroundJob | None,
) -> Response:
    setup = address.setup
    logged = None
    if game.log_entry is not None:
        run_id, number = game.log_entry
        question = format_sql_command(format_plies_sql(run_id, number), find_site(request).options.archive)
        logged = {"run_id": run_id, "number": number, "game_id": first_game_id(0, number), "question": question}
    ended = build_ended_game_view(find_site(request), game, state) if state.session.is_over else None
    return render_page(
        request,
        "play/game.html",
        view=view,
        state=state,
        setup=setup,
        query=address.to_query(),
        action=build_url(GAME_PATH, {**address.to_query(), "piece": request.query_params.get("piece")}),
        end=build_url(GAME_PATH, address._replace(moves=game.moves).to_query())
        if logged and not state.session.is_over
        else "",
        analysis=game_analysis_url(state.game.plies, state.game.rules.name, state.game.hand),
        compiling=pending is not None and find_compilation_counter().active,
        over=ended,
        logged=logged,
        counts=state.session.is_over and tuple(address.moves) == game.moves,
        used=format_aids(game.aids),
        trouble=game.log_error,
        notes=list(describe_untrained_agents([game.prepared.spec.agents[1]])),
        pending=pending is not None,
        refresh=POLL_HALF_SECONDS if pending is not None or (ended and ended.is_searching) else None,
    )


class EndedGameView(NamedTuple):
    """What the page of a finished game shows besides its board."""

    result: str  # won, drawn or lost
    title: str
    score: str  # of this game, by name
    series_score: str  # of all games of the series, or "" if this is its only game
    level_offer: LevelOffer | None
    review: ReviewView | None  # None if no decision was made

    @property
    def is_searching(self) -> bool:
        return self.review is not None and self.review.searching


RESULTS = {2: ("won", "You won"), 1: ("drawn", "A draw"), 0: ("lost", "You lost")}  # by half-points


def build_ended_game_view(site: Site, game: WebGame, state: GameState) -> EndedGameView:
    """Build the view of a finished game, and start the searches that its review needs."""
    setup, standing = game.start_address.setup, game.standing
    half_points = count_half_points(state.game.winner, setup.seat)
    names = (setup.name, setup.agent)
    line = build_review_line(state.game, setup)
    return EndedGameView(
        *RESULTS[half_points],
        format_score(names, (half_points, 2 - half_points)),
        format_score(names, (standing.half_points, 2 * standing.games - standing.half_points))
        if standing and standing.games > 1
        else "",
        find_level_offer(
            site.get_or_create_service(AgentsAndRules), setup.agent, setup.rules, half_points, standing.wins_in_a_row
        )
        if standing
        else None,
        build_review_and_start_searches(site.get_or_create_service(SearchService), line) if line.words else None,
    )


def build_review_line(game: Game, setup: GameSetup) -> AnalysisLine:
    """Return the decisions of a person's game as a line to analyse, with the names of the players."""
    names = (setup.name, setup.agent) if setup.seat == 0 else (setup.agent, setup.name)
    words = format_decisions(game.plies, game.hand, game.rules)
    return AnalysisLine(game.rules, Game(game.rules), words, players=names, forfeit=game.forfeit)


def _render_waiting_page(request: Request, job: BackgroundJob) -> Response:
    why = ": others are served first" if job.queued else ""
    if find_compilation_counter().active:
        why = ": its kernels are being compiled, which may take a minute. Later games find them ready"
    return render_page(request, "waiting.html", title="One moment", line=f"The agent is being set up{why}.", refresh=1)


class GameView(NamedTuple):
    """Everything that the page of a game shows."""

    cells: list[DecisionTile]
    pieces: list[DecisionTile]
    hand: int  # piece in hand or chosen to be placed, or NONE
    words: list[str]  # attributes of the piece in hand
    task: str  # a sentence that asks the person for the next decision
    next_decision: NextDecision
    yours: bool  # the next decision is the person's
    text: str  # the plies so far, as notation
    hints: list[str]
    guide: list[str]  # sentences of the help in a guided game


def build_game_view(
    state: GameState, chosen_piece: int, hint: Hint | None, is_logged: bool = False, guide: Guide | None = None
) -> GameView:
    """Build the view of a game.

    ``chosen_piece`` is the piece that the person chose to place, or NONE; it is used only under rules that let the
    mover choose. ``is_logged`` says that the game is in the archive. The view of a logged game offers no decisions, not
    even at an earlier moment of the game. ``guide`` is the help for the decision in a guided game, or None.
    """
    game = state.game
    yours = not (is_logged or state.session.is_over or state.thinking)
    next_decision = game.next_decision if yours else NextDecision.NOTHING
    hand = game.hand if next_decision is not NextDecision.PLY or chosen_piece not in game.pieces_left else chosen_piece
    best = {
        word
        for recommended in (hint.best if hint and yours else ())
        for word in (recommended, recommended.partition("@")[0])
    }
    shown_guide = guide if guide and yours else Guide([])
    marked = best | shown_guide.good

    def mark(tile: DecisionTile) -> DecisionTile:
        return _mark_hint(_add_badge(tile, shown_guide.badges), marked)

    return GameView(
        [mark(_build_cell_tile(game, next_decision, cell, hand)) for cell in range(CELLS)],
        [mark(_build_piece_tile(game, next_decision, piece, hand)) for piece in range(PIECES)],
        hand,
        [] if hand == NONE else list_attribute_words(hand),
        _describe_task(next_decision, hand),
        next_decision,
        yours,
        format_game(game.plies),
        hint.lines if hint and yours else [],
        shown_guide.lines,
    )


def _add_badge(tile: DecisionTile, badges: Mapping[str, Badge]) -> DecisionTile:
    """Return the tile with the badge of the decision that pressing it makes, if there is one."""
    badge = badges.get(tile.decision)
    return tile if badge is None else tile._replace(badge=badge, label=f"{tile.label}: {badge.words}")


def _mark_hint(tile: DecisionTile, hinted_words: set[str]) -> DecisionTile:
    """Return the tile, marked as a hint if pressing it makes a decision or chooses a piece of ``hinted_words``."""
    if (tile.decision or tile.choice) not in hinted_words:
        return tile
    return tile._replace(hinted=True, label=f"{tile.label} (hint)")


def _build_cell_tile(game: Game, next_decision: NextDecision, cell: int, hand: int) -> DecisionTile:
    name, filled = format_cell(cell), build_filled_cell_tile(game, cell)
    if filled is not None:
        return filled
    if hand == NONE or next_decision not in (NextDecision.PLACEMENT, NextDecision.PLY):
        return DecisionTile(name, NONE, f"{name}, empty")
    decision = name if next_decision is NextDecision.PLACEMENT else f"{format_piece(hand)}@{name}"
    return DecisionTile(name, NONE, f"{name}, empty: place {format_piece(hand)} here", decision=decision)


def _build_piece_tile(game: Game, next_decision: NextDecision, piece: int, hand: int) -> DecisionTile:
    name, taken = format_piece(piece), build_taken_piece_tile(game, piece)
    if taken is not None:
        return taken
    if next_decision is NextDecision.PLY:
        held = "hand" if piece == hand else "left"
        return DecisionTile(name, piece, f"Place {describe_piece(piece)}", choice=name, held=held)
    if next_decision is NextDecision.GIFT:
        return DecisionTile(name, piece, f"Give {describe_piece(piece)}", decision=name)
    return DecisionTile(name, piece, describe_piece(piece))


def _describe_task(next_decision: NextDecision, hand: int) -> str:
    if next_decision is NextDecision.GIFT:
        return "Your turn: give a piece."
    if next_decision is NextDecision.PLACEMENT or (next_decision is NextDecision.PLY and hand != NONE):
        return f"Your turn: place piece {format_piece(hand)} on an empty cell."
    return "Your turn: choose a piece to place." if next_decision is NextDecision.PLY else ""
