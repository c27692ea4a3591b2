"""The ground of all answers, and errors as answers: one sentence as JSON, with the status that fits; no traceback."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.provider.disclosure import hint_of, sentence_of
from airflow_samza.secrecy import without_passwords

T = TypeVar("T", bound="Answer")


class Answer(BaseModel):
    """An answer; it is made of values or of the attributes of an object. Moments are seconds since 1970."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True, frozen=True, extra="ignore")


class OfPlan(Answer):
    """An answer on an application that a task has planned; ``plan_task`` and ``map_index`` name it in addresses."""

    application: str
    plan_task: str
    map_index: int


class OfStage(Answer):
    """An answer on a stage."""

    stage_id: str
    stage_name: str
    """The stage as texts name it: its id with its title."""


class Problem(Answer):
    """The answer of every route that has no other: a sentence for people."""

    sentence: str
    hint: str | None = None
    """The remedy."""
    rule: str
    """A short keyword for programs: ``not-signed-in``, ``not-permitted``, ``not-planned``, ``gone``, ``storage`` …"""


RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "model": Problem,
        "description": "401: nobody is signed in; 403: the user may not read this; 404: it is not there, or not any "
        "more; 422: a parameter cannot be used; 503: a storage, a connection or a broker cannot be reached.",
    }
}

_BY_STATUS = {
    401: ("not-signed-in", "Nobody is signed in."),
    403: ("not-permitted", "You do not have the right to read this."),
    404: ("not-found", "There is no such address."),
}
"""Rules and sentences of statuses; others have the sentence of the error."""


class NotFound(Exception):
    """Something that is not there, or not for this user: a sentence and a rule."""

    def __init__(self, sentence: str, *, hint: str | None = None, rule: str = "not-found") -> None:
        super().__init__(sentence)
        self.problem = Problem(sentence=sentence, hint=hint, rule=rule)


def answer_problems(app: FastAPI) -> None:
    """Have the application answer every error as a :class:`Problem`."""

    @app.exception_handler(NotFound)
    async def not_found(request: Request, error: NotFound) -> JSONResponse:
        return _answer(404, error.problem)

    @app.exception_handler(SamzaError)
    async def samza(request: Request, error: SamzaError) -> JSONResponse:
        # What is not there; else something cannot be reached or read.
        return _answer(404 if isinstance(error, UnknownName) else 503, problem_of(error))

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        rule, sentence = _BY_STATUS.get(error.status_code, ("http", str(error.detail)))
        return _answer(error.status_code, Problem(sentence=sentence, rule=rule))

    @app.exception_handler(RequestValidationError)
    async def parameter(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][1:])
        sentence = f"The parameter {name} cannot be used: {first['msg']}."
        return _answer(422, Problem(sentence=sentence, rule="invalid-parameter"))

    @app.exception_handler(OSError)
    async def storage(request: Request, error: OSError) -> JSONResponse:
        return _answer(503, Problem(sentence=not_read(error), rule="storage"))


def not_read(error: OSError) -> str:
    """Return the sentence for storage that the page could not read."""
    return f"The storage could not be read: {without_passwords(str(error.strerror or error))}."


def problem_of(error: SamzaError) -> Problem:
    """Return an error of ours as an answer."""
    sentence = without_passwords(sentence_of(error))
    return Problem(sentence=sentence, hint=without_passwords(hint_of(error)) or None, rule=error.rule)


def sentence_on(error: NotFound | SamzaError | OSError) -> str:
    """Return the sentence for what a part of an answer lacks, where the others are given."""
    if isinstance(error, NotFound):
        return error.problem.sentence
    return not_read(error) if isinstance(error, OSError) else problem_of(error).sentence


def _answer(status: int, problem: Problem) -> JSONResponse:
    return JSONResponse(problem.model_dump(), status)
