"""The web application: its routers, security middleware, error pages and home page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from runners.config.yaml_options import search_user_folders
from runners.web import archive_pages, insight_pages, sql_page
from runners.web.analyse import pages as analyse
from runners.web.archive_reader import (
    ArchiveService,
    NothingToReadError,
    ShortRunIdError,
    opening_or_empty_archive_page,
    redirect_to_full_run_ids,
)
from runners.web.page_rendering import STATIC_FOLDER, add_error_pages, render_page
from runners.web.play import how_to_play
from runners.web.play import pages as play
from runners.web.puzzles import exercise_pages
from runners.web.puzzles import pages as puzzles
from runners.web.runs import pages as run_pages
from runners.web.site import MAX_REQUEST_BYTES, SecurityMiddleware, ServerOptions, Site, check_token

ROUTERS = (
    play.router,
    how_to_play.router,
    exercise_pages.router,
    puzzles.router,
    analyse.router,
    insight_pages.router,
    archive_pages.router,
    run_pages.router,
    sql_page.router,
)


def build_application(settings: ServerOptions) -> FastAPI:
    """Build the application that serves the pages of one site."""
    site = Site(settings)

    @asynccontextmanager
    async def search_config_folder_and_close_site(_app: FastAPI) -> AsyncIterator[None]:
        """Let Hydra and Python search the user's folder while the application runs; then close the site."""
        with search_user_folders([settings.config_dir] if settings.config_dir else []):
            site.get_or_create_service(ArchiveService).prepare(archive_pages.prepare_first_pages)
            yield
        site.close()

    app = FastAPI(
        title="quarto-arena",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=search_config_folder_and_close_site,
        max_body_size=MAX_REQUEST_BYTES,
    )
    app.state.site = site
    add_error_pages(app)
    app.add_exception_handler(NothingToReadError, opening_or_empty_archive_page)
    app.add_exception_handler(ShortRunIdError, redirect_to_full_run_ids)
    app.add_middleware(SecurityMiddleware, settings=settings)  # added last, so that it wraps all other middleware
    app.get("/")(first_page)
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(check_token)])
    app.mount("/static", StaticFiles(directory=STATIC_FOLDER))
    return app


def first_page(request: Request) -> Response:
    """Show today's puzzle, links to the other pages, and an overview of the archive."""
    overview = archive_pages.build_archive_overview(request)
    refresh = 1 if overview["opening"] else 10 if overview["running"] else None
    return render_page(
        request, "home.html", refresh=refresh, today=puzzles.build_daily_puzzle_view(request), **overview
    )
