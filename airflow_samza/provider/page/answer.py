"""The ground of all answers, and the answer of a route that has none."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict

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
