"""The page that answers questions in SQL: as a table, as CSV, as a chart."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.query.cookbook import CookbookQuestion, questions
from analytics.report.content import Figure
from analytics.sql.views import VIEWS
from analytics.store.marker import content_of
from quarto.errors import ArenaError, FailureError, NotFoundError, RequestError
from runners.browse import charts
from runners.browse.asking import Asking, SqlAnswer, answer_table
from runners.browse.library import stamp_of
from runners.terminal.tables import as_csv
from runners.web.background import Background, BackgroundJob
from runners.web.failures import status_of
from runners.web.pages import page
from runners.web.settings import Site, site_of

router = APIRouter()

KEPT = 8  # answers that are remembered, for their charts and files
WAITING = 16  # questions
MOMENT = 0.9  # seconds that a page waits for an answer
IDLE_SECONDS = 30.0
TITLE = 60  # letters of a page's title


class QuestionService:
    """The service of this page."""

    def __init__(self, site: Site) -> None:
        self._archive = site.settings.archive
        self.asking = Asking(self._archive)
        self._background = Background(
            self.asking.limits.processes, waiting=WAITING, kept=KEPT, idle_seconds=IDLE_SECONDS
        )

    def job(self, question: str) -> BackgroundJob:
        """The job that answers a question to the archive as it is, or was when the page began to wait for it."""
        limits = self.asking.limits
        return self._background.job(
            question,
            lambda _job: self.asking.ask(question),
            limits.waiting_seconds + limits.seconds,
            version=stamp_of(self._archive),
        )

    def close(self) -> None:
        """End the processes."""
        self._background.close()
        self.asking.close()


def question_service(request: Request) -> QuestionService:
    """The service of this page."""
    return site_of(request).service(QuestionService)


@router.get("/ask")
def ask(
    request: Request, q: str = "", question: str = "", chart: str = "", x: str = "", y: str = "", colour: str = ""
) -> Response:
    """A question with its answer, and the questions of the cookbook."""
    chosen = _chosen(question)
    text = q.strip() or (chosen.sql if chosen else "")
    values: dict[str, object] = {"answer": None, "figure": None, "error": "", "waiting": False, "refresh": None}
    status = 200
    empty = content_of(site_of(request).settings.archive) is None
    if text and not empty:
        try:
            values |= _answered(question_service(request), text, chart, (x, y, colour))
        except ArenaError as error:
            status = status_of(error)
            values |= {"error": str(error)}
    return page(
        request,
        "ask.html",
        status,
        title=_title(text, chosen),
        text=text,
        empty=empty,
        chosen=chosen,
        questions=questions(),
        views=VIEWS,
        kinds=charts.KINDS,
        chart=chart,
        x=x,
        y=y,
        colour=colour,
        limits=question_service(request).asking.limits,
        **values,
    )


def _title(text: str, chosen: CookbookQuestion | None) -> str:
    """The question in a few words, for the title of the page."""
    words = chosen.title if chosen and text == chosen.sql else " ".join(text.split())
    return words if len(words) <= TITLE else f"{words[: TITLE - 1]}…"


def _chosen(number: str) -> CookbookQuestion | None:
    if not number:
        return None
    found = next((each for each in questions() if str(each.number) == number), None)
    if found is None:
        raise NotFoundError(f"there is no question {number!r}: the cookbook has 1 to {len(questions())}")
    return found


def _answered(service: QuestionService, text: str, chart: str, columns: tuple[str, str, str]) -> dict[str, object]:
    """The part of the page that shows an answer, or that it is not there yet."""
    job = service.job(text)
    if not job.wait(MOMENT):
        return {"waiting": True, "refresh": 1}
    found = _result(job)
    shown: dict[str, object] = {
        "answer": answer_table(found.frame),
        "cut": found.cut,
        "rows": found.frame.height,
        "columns": charts.columns_of(found.frame),
    }
    if chart:
        try:
            shown["figure"] = _figure(found, chart, columns)
        except RequestError as error:
            shown["error"] = str(error)
    return shown


def _result(job: BackgroundJob) -> SqlAnswer:
    if job.stopped:
        raise FailureError(f"the question was not answered: {job.reason}")
    found: SqlAnswer = job.result()
    return found


def _figure(found: SqlAnswer, kind: str, columns: tuple[str, str, str]) -> Figure:
    plan = charts.planned(found.frame, kind, *columns)
    of = f"{plan.colour} by {plan.x} and {plan.y}" if plan.kind == "heat map" else f"{plan.y} by {plan.x}"
    return charts.chart(found.frame, plan, of)


@router.get("/ask.csv")
def ask_for_csv(request: Request, q: str = "") -> Response:
    """The answer to a question as a file, with the column names in its first line."""
    service = question_service(request)
    job = service.job(q.strip())
    job.wait(service.asking.limits.waiting_seconds + service.asking.limits.seconds)
    if not job.ended:
        raise FailureError("the question was not answered in time: ask again in a moment")
    headers = {"content-disposition": 'attachment; filename="answer.csv"'}
    return Response(as_csv(_result(job).frame), media_type="text/csv; charset=utf-8", headers=headers)
