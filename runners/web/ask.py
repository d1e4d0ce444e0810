"""The page that answers questions in SQL: as a table, as CSV, as a chart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.cookbook import CookbookQuestion, questions
from analytics.questions.sql.views import VIEWS
from analytics.report.style import Figure
from analytics.store.marker import content_of
from quarto.errors import ArenaError, FailureError, NotFoundError, RequestError
from runners.terminal.tables import as_csv
from runners.web.archive import charts
from runners.web.archive.asking import Asking, SqlAnswer, answer_table
from runners.web.archive.library import stamp_of
from runners.web.background import IDLE, Background, BackgroundJob
from runners.web.pages import FormFields, go_to, page, status_of
from runners.web.site import Site, site_of

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

    def known(self, question: str) -> BackgroundJob | None:
        """That job, if it was begun, its answer is kept, and a page has waited for it."""
        found = self._background.find(question)
        return None if found is None or found.reason == IDLE else found

    def close(self) -> None:
        """End the processes."""
        self._background.close()
        self.asking.close()


def question_service(request: Request) -> QuestionService:
    """The service of this page."""
    return site_of(request).service(QuestionService)


class AskFields(NamedTuple):
    """The fields of the form, and of the address of a question."""

    q: str = ""
    question: str = ""
    chart: str = ""
    x: str = ""
    y: str = ""
    colour: str = ""


def _given(values: Mapping[str, str]) -> AskFields:
    return AskFields(*(values.get(name, "").strip() for name in AskFields._fields))


@router.get("/ask")
def ask(request: Request) -> Response:
    """A question, its answer if somebody has asked it, and the questions of the cookbook. A link asks nothing."""
    return _shown(request, _given(request.query_params))


@router.post("/ask")
def carry_out(request: Request, fields: FormFields) -> Response:
    """Have a question answered. Its page, which has an address of its own, shows the answer."""
    given = _given(fields)
    if given.q and not _is_empty(request):
        try:
            question_service(request).job(given.q).wait(MOMENT)
        except ArenaError as error:  # too many others wait
            return _shown(request, given, error)
    return go_to("/ask", **given._asdict())


def _is_empty(request: Request) -> bool:
    return content_of(site_of(request).settings.archive) is None


def _shown(request: Request, given: AskFields, error: ArenaError | None = None) -> Response:
    chosen = _chosen(given.question)
    text = given.q or (chosen.sql if chosen else "")
    values: dict[str, object] = {"answer": None, "figure": None, "error": "", "waiting": False, "refresh": None}
    service = question_service(request)
    job = service.known(text) if error is None else None
    try:
        if job is not None:
            values |= _answered(job, given.chart, given[3:])
    except ArenaError as raised:
        error = raised
    return page(
        request,
        "ask.html",
        200 if error is None else status_of(error),
        title=_title(text, chosen),
        text=text,
        empty=_is_empty(request),
        asked=job is not None or error is not None,
        chosen=chosen,
        questions=questions(),
        views=VIEWS,
        kinds=charts.KINDS,
        **given._asdict(),
        limits=service.asking.limits,
        wrong="" if error is None else _wrong_word(str(error), text),
        **(values | ({} if error is None else {"error": str(error)})),
    )


def _wrong_word(error: str, text: str) -> str:
    """The part of a question that an error names, which the page marks."""
    named = re.findall(r'"([^"]+)"|at or near "([^"]+)"|named (\w+)|\b(\w+)\(\) is not allowed', error)
    return next((word for words in named for word in words if word and word in text), "")


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


def _answered(job: BackgroundJob, chart: str, columns: tuple[str, str, str]) -> dict[str, object]:
    """The part of the page that shows an answer, or that it is not there yet."""
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
def ask_for_csv(request: Request, q: str = "", spreadsheet: bool = False) -> Response:
    """An answer that is kept as a file, with the column names in its first line; else the page of the question."""
    job = question_service(request).known(q.strip())
    if job is None or not job.wait(MOMENT):
        return go_to("/ask", q=q)
    headers = {"content-disposition": 'attachment; filename="answer.csv"'}
    return Response(
        as_csv(_result(job).frame, for_spreadsheet=spreadsheet), media_type="text/csv; charset=utf-8", headers=headers
    )
