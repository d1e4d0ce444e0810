"""The application: its routers, its guard, its error pages, its first page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from runners.config.options import own_modules
from runners.web import archive_pages, ask, puzzles
from runners.web.analyse import pages as analyse
from runners.web.archive_pages import NothingToReadError, nothing_to_read
from runners.web.pages import STATIC, add_error_pages, page
from runners.web.play import pages as play
from runners.web.site import MOST_BYTES, Guard, ServerSettings, Site, check_token

ROUTERS = (play.router, puzzles.router, analyse.router, archive_pages.router, ask.router)


def application(settings: ServerSettings) -> FastAPI:
    """The application that answers requests with these settings."""
    site = Site(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with own_modules([settings.config_dir] if settings.config_dir else []):
            yield
        site.close()

    app = FastAPI(
        title="quarto-arena",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        max_body_size=MOST_BYTES,
    )
    app.state.site = site
    add_error_pages(app)
    app.add_exception_handler(NothingToReadError, nothing_to_read)
    app.add_middleware(Guard, settings=settings)  # last: around all others
    app.get("/")(first_page)
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(check_token)])
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def first_page(request: Request) -> Response:
    """A puzzle, the ways to the other pages, and a first look at the archive."""
    found = archive_pages.first_look(request)
    refresh = 10 if found.get("running") else None
    return page(request, "home.html", refresh=refresh, today=puzzles.puzzle_of_day(request), **found)
