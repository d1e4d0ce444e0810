"""The page that answers SQL queries as a table, a CSV file or a chart."""

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

MAX_ANSWERS = 8  # answers kept for charts and files
MAX_WAITING = 16  # queries
ANSWER_WAIT_SECONDS = 0.9  # that a page waits for an answer
IDLE_SECONDS = 30.0
TITLE_LETTERS = 60  # of a page's title, at most


class QuestionService:
    """A service that answers a site's SQL queries, and keeps the answers for charts and files."""

    def __init__(self, site: Site) -> None:
        self._archive = site.options.archive
        self.pool = SqlProcessPool(self._archive)
        self._background = BackgroundPool(
            self.pool.limits.processes, max_waiting=MAX_WAITING, max_jobs=MAX_ANSWERS, idle_seconds=IDLE_SECONDS
        )

    def find_or_start_job(self, question: str) -> BackgroundJob:
        """Return the job that answers an SQL query about the current archive; start the job if needed.

        If the archive changes while a page is waiting, the page still gets the answer about the earlier state.
        """
        limits = self.pool.limits
        return self._background.find_or_start(
            question,
            lambda _job: self.pool.request_answer(question),
            limits.waiting_seconds + limits.seconds,
            version=read_archive_stamp(self._archive),
        )

    def find_job(self, question: str) -> BackgroundJob | None:
        """Return the job of an SQL query that was submitted earlier.

        Return None if the answer is no longer kept, or if the job was stopped because no page was waiting for it.
        """
        job = self._background.find_and_count_request(question)
        return None if job is None or job.reason == IDLE_REASON else job

    def close(self) -> None:
        """Stop all jobs and end the processes that answer queries."""
        self._background.close()
        self.pool.close()


def find_question_service(request: Request) -> QuestionService:
    """Return the query service of the site that serves a request."""
    return find_site(request).get_or_create_service(QuestionService)


class QuestionFields(NamedTuple):
    """The fields of the form for a query; the address of the answer has the same fields as query parameters."""

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
    """Show an SQL query, the cookbook and, if the query was submitted before, its answer.

    Opening a link alone never runs a query.
    """
    return _render_question_page(request, _parse_fields(request.query_params))


@router.post("/ask")
def submit_question(request: Request, fields: FormFields) -> Response:
    """Run the SQL query of the form, then redirect to the page that shows its answer."""
    parsed = _parse_fields(fields)
    if parsed.q and not _is_archive_missing(request):
        try:
            find_question_service(request).find_or_start_job(parsed.q).wait(ANSWER_WAIT_SECONDS)
        except ArenaError as error:  # such as a busy server
            return _render_question_page(request, parsed, error)
    return redirect_to("/ask", **parsed._asdict())


def _is_archive_missing(request: Request) -> bool:
    """Return whether the archive does not exist yet."""
    return read_marker_content(find_site(request).options.archive) is None


def _render_question_page(request: Request, fields: QuestionFields, error: ArenaError | None = None) -> Response:
    chosen = _get_cookbook_question_unless_empty(fields.question)
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
        empty=_is_archive_missing(request),
        submitted=job is not None or error is not None,
        chosen=chosen,
        questions=read_cookbook(),
        views=VIEWS,
        kinds=charts.CHART_KINDS,
        **fields._asdict(),
        limits=service.pool.limits,
        wrong="" if error is None else _find_wrong_word(error.for_command_line, text),
        **(values | ({} if error is None else {"error": error.for_command_line})),
    )


def _find_wrong_word(error: str, question: str) -> str:
    """Return the text that an error message quotes from an SQL query; return "" if there is none.

    The page marks this text in the query.
    """
    named = re.findall(r'"([^"]+)"|at or near "([^"]+)"|named (\w+)|\b(\w+)\(\) is not allowed', error)
    return next((word for words in named for word in words if word and word in question), "")


def _format_title(question: str, cookbook_query: CookbookQuery | None) -> str:
    """Return the title of a query's page: the title of the cookbook query, or the shortened text of another query."""
    words = cookbook_query.title if cookbook_query and question == cookbook_query.sql else " ".join(question.split())
    return words if len(words) <= TITLE_LETTERS else f"{words[: TITLE_LETTERS - 1]}…"


def _get_cookbook_question_unless_empty(question_number: str) -> CookbookQuery | None:
    """Return the cookbook query with this number, or None if the number is "".

    Raises ``NotFoundError`` for any other number.
    """
    if not question_number:
        return None
    query = next((candidate for candidate in read_cookbook() if str(candidate.number) == question_number), None)
    if query is None:
        raise NotFoundError(f"there is no question {question_number!r}: the cookbook has 1 to {len(read_cookbook())}")
    return query


def _build_answer_view(job: BackgroundJob, chart_kind: str, columns: tuple[str, str, str]) -> dict[str, object]:
    """Return the template values for the answer of a job, or for a page that waits for the answer.

    If ``chart_kind`` is given, the values include a chart. ``columns`` are the columns of the chart: x, y and colour.
    """
    if not job.wait(ANSWER_WAIT_SECONDS):
        return {"waiting": True, "refresh": 1}
    answer = _find_answer(job)
    answer_view: dict[str, object] = {
        "answer": build_answer_table(answer.frame),
        "cut": answer.cut,
        "rows": answer.frame.height,
        "columns": charts.list_axis_columns(answer.frame),
    }
    if chart_kind:
        try:
            answer_view["figure"] = _build_figure(answer, chart_kind, columns)
        except RequestError as error:
            answer_view["error"] = error.for_command_line
    return answer_view


def _find_answer(job: BackgroundJob) -> SqlAnswer:
    if job.stopped:
        raise FailureError(f"the question was not answered: {job.reason}")
    answer: SqlAnswer = job.get_result_or_raise_work_error()
    return answer


def _build_figure(answer: SqlAnswer, kind: str, columns: tuple[str, str, str]) -> Figure:
    plan = charts.plan_chart(answer.frame, kind, *columns)
    title = f"{plan.colour} by {plan.x} and {plan.y}" if plan.kind == "heat map" else f"{plan.y} by {plan.x}"
    return charts.build_chart(answer.frame, plan, title)


@router.get("/ask.csv")
def answer_csv_or_redirect(request: Request, q: str = "", spreadsheet: bool = False) -> Response:
    """Send the answer to the SQL query ``q`` as a CSV file with a header line.

    If ``spreadsheet`` is true, an apostrophe is put before each text that a spreadsheet would read as a formula or a
    number. If the answer is not ready or no longer kept, redirect to the query's page.
    """
    job = find_question_service(request).find_job(q.strip())
    if job is None or not job.wait(ANSWER_WAIT_SECONDS):
        return redirect_to("/ask", q=q)
    headers = {"content-disposition": 'attachment; filename="answer.csv"'}
    return Response(
        format_csv(_find_answer(job).frame, for_spreadsheet=spreadsheet),
        media_type="text/csv; charset=utf-8",
        headers=headers,
    )
