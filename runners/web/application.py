"""The application: its routers, its guard, its error pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.staticfiles import StaticFiles

from runners.hydra_app.config_dir import own_modules
from runners.web import home
from runners.web.analyse import pages as analyse
from runners.web.ask import pages as ask
from runners.web.browse import games, pages
from runners.web.failures import add_error_pages
from runners.web.pages import STATIC, Section
from runners.web.play import pages as play
from runners.web.security import MOST_BYTES, Guard, check_token
from runners.web.settings import ServerSettings, Site

# The subjects in the order of the navigation; a router alone has no entry there. A new one is one line here.
SECTIONS = (
    Section("", "/", home.router),
    Section("Play", "/play", play.router),
    Section("Analyse", "/analyse", analyse.router),
    Section("Browse", "/browse", pages.router),
    Section("", "/browse/games", games.router),
    Section("Ask", "/ask", ask.router),
)


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
    app.state.sections = [section for section in SECTIONS if section.name]
    add_error_pages(app)
    app.add_middleware(Guard, settings=settings)  # last: around all others
    for section in SECTIONS:
        app.include_router(section.router, dependencies=[Depends(check_token)])
    app.mount("/static", StaticFiles(directory=STATIC))
    return app
