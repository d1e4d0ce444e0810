"""The page that answers questions in SQL: as a table, as CSV, as a chart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from analytics.questions.cookbook import CookbookQuery, read_cookbook
from analytics.questions.sql.views import VIEWS
from analytics.report.frame_formats import format_csv
from analytics.report.style import Figure
from analytics.store.marker import read_marker_content
from quarto.errors import ArenaError, FailureError, NotFoundError, RequestError
from runners.web.archive import charts
from runners.web.archive.snapshots import read_archive_stamp
from runners.web.archive.sql_pool import SqlAnswer, SqlProcessPool, build_answer_table
from runners.web.background import IDLE_REASON, BackgroundJob, BackgroundPool
from runners.web.page_rendering import FormFields, find_error_status, redirect_to, render_page
from runners.web.site import Site, find_site

router = APIRouter()

MAX_ANSWERS = 8  # answers that are remembered, for their charts and files
MAX_WAITING = 16  # questions
ANSWER_WAIT_SECONDS = 0.9  # seconds that a page waits for an answer
IDLE_SECONDS = 30.0
TITLE_LETTERS = 60  # letters of a page's title


class QuestionService:
    """The service of this page."""

    def __init__(self, site: Site) -> None:
        self._archive = site.options.archive
        self.pool = SqlProcessPool(self._archive)
        self._background = BackgroundPool(
            self.pool.limits.processes, max_waiting=MAX_WAITING, max_jobs=MAX_ANSWERS, idle_seconds=IDLE_SECONDS
        )

    def find_or_start_job(self, question: str) -> BackgroundJob:
        """The job that answers a question to the archive as it is, or was when the page began to wait for it."""
        limits = self.pool.limits
        return self._background.find_or_start(
            question,
            lambda _job: self.pool.request_answer(question),
            limits.waiting_seconds + limits.seconds,
            version=read_archive_stamp(self._archive),
        )

    def find_job(self, question: str) -> BackgroundJob | None:
        """That job, if it was begun, its answer is kept, and a page has waited for it."""
        found = self._background.find(question)
        return None if found is None or found.reason == IDLE_REASON else found

    def close(self) -> None:
        """End the processes."""
        self._background.close()
        self.pool.close()


def find_question_service(request: Request) -> QuestionService:
    """The service of this page."""
    return find_site(request).get_or_create_service(QuestionService)


class QuestionFields(NamedTuple):
    """The fields of the form, and of the address of a question."""

    q: str = ""
    question: str = ""
    chart: str = ""
    x: str = ""
    y: str = ""
    colour: str = ""


def _parse_fields(values: Mapping[str, str]) -> QuestionFields:
    return QuestionFields(*(values.get(name, "").strip() for name in QuestionFields._fields))


@router.get("/ask")
def question_page(request: Request) -> Response:
    """A question, its answer if somebody has asked it, and the questions of the cookbook. A link asks nothing."""
    return _render_question_page(request, _parse_fields(request.query_params))


@router.post("/ask")
def submit_question(request: Request, fields: FormFields) -> Response:
    """Have a question answered. Its page, which has an address of its own, shows the answer."""
    given = _parse_fields(fields)
    if given.q and not _is_archive_empty(request):
        try:
            find_question_service(request).find_or_start_job(given.q).wait(ANSWER_WAIT_SECONDS)
        except ArenaError as error:  # too many others wait
            return _render_question_page(request, given, error)
    return redirect_to("/ask", **given._asdict())


def _is_archive_empty(request: Request) -> bool:
    return read_marker_content(find_site(request).options.archive) is None


def _render_question_page(request: Request, fields: QuestionFields, error: ArenaError | None = None) -> Response:
    chosen = _find_cookbook_question(fields.question)
    text = fields.q or (chosen.sql if chosen else "")
    values: dict[str, object] = {"answer": None, "figure": None, "error": "", "waiting": False, "refresh": None}
    service = find_question_service(request)
    job = service.find_job(text) if error is None else None
    try:
        if job is not None:
            values |= _build_answer_view(job, fields.chart, fields[3:])
    except ArenaError as raised:
        error = raised
    return render_page(
        request,
        "ask.html",
        200 if error is None else find_error_status(error),
        title=_format_title(text, chosen),
        text=text,
        empty=_is_archive_empty(request),
        asked=job is not None or error is not None,
        chosen=chosen,
        questions=read_cookbook(),
        views=VIEWS,
        kinds=charts.CHART_KINDS,
        **fields._asdict(),
        limits=service.pool.limits,
        wrong="" if error is None else _find_wrong_word(str(error), text),
        **(values | ({} if error is None else {"error": str(error)})),
    )


def _find_wrong_word(error: str, question: str) -> str:
    """The part of a question that an error names, which the page marks."""
    named = re.findall(r'"([^"]+)"|at or near "([^"]+)"|named (\w+)|\b(\w+)\(\) is not allowed', error)
    return next((word for words in named for word in words if word and word in question), "")


def _format_title(question: str, cookbook_query: CookbookQuery | None) -> str:
    """The question in a few words, for the title of the page."""
    words = cookbook_query.title if cookbook_query and question == cookbook_query.sql else " ".join(question.split())
    return words if len(words) <= TITLE_LETTERS else f"{words[: TITLE_LETTERS - 1]}…"


def _find_cookbook_question(question_number: str) -> CookbookQuery | None:
    if not question_number:
        return None
    found = next((each for each in read_cookbook() if str(each.number) == question_number), None)
    if found is None:
        raise NotFoundError(f"there is no question {question_number!r}: the cookbook has 1 to {len(read_cookbook())}")
    return found


def _build_answer_view(job: BackgroundJob, chart_kind: str, columns: tuple[str, str, str]) -> dict[str, object]:
    """The part of the page that shows an answer, or that it is not there yet."""
    if not job.wait(ANSWER_WAIT_SECONDS):
        return {"waiting": True, "refresh": 1}
    found = _find_answer(job)
    shown: dict[str, object] = {
        "answer": build_answer_table(found.frame),
        "cut": found.cut,
        "rows": found.frame.height,
        "columns": charts.list_axis_columns(found.frame),
    }
    if chart_kind:
        try:
            shown["figure"] = _build_figure(found, chart_kind, columns)
        except RequestError as error:
            shown["error"] = str(error)
    return shown


def _find_answer(job: BackgroundJob) -> SqlAnswer:
    if job.stopped:
        raise FailureError(f"the question was not answered: {job.reason}")
    found: SqlAnswer = job.result()
    return found


def _build_figure(answer: SqlAnswer, kind: str, columns: tuple[str, str, str]) -> Figure:
    plan = charts.plan_chart(answer.frame, kind, *columns)
    of = f"{plan.colour} by {plan.x} and {plan.y}" if plan.kind == "heat map" else f"{plan.y} by {plan.x}"
    return charts.build_chart(answer.frame, plan, of)


@router.get("/ask.csv")
def answer_csv(request: Request, q: str = "", spreadsheet: bool = False) -> Response:
    """An answer that is kept as a file, with the column names in its first line; else the page of the question."""
    job = find_question_service(request).find_job(q.strip())
    if job is None or not job.wait(ANSWER_WAIT_SECONDS):
        return redirect_to("/ask", q=q)
    headers = {"content-disposition": 'attachment; filename="answer.csv"'}
    return Response(
        format_csv(_find_answer(job).frame, for_spreadsheet=spreadsheet),
        media_type="text/csv; charset=utf-8",
        headers=headers,
    )
