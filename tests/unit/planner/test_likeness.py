"""Plans that are alike: equal in all that an application's code says, wherever its functions lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.planner.declaration import are_alike
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from tests.support.changing_modules import ChangingModules

APPLICATION = """
from airflow_samza import count, stream_application

def clean(view):
    return {body}

@stream_application("views")
def app(app):
    views = app.input_stream("views", schema="member bigint, page string")
    kept = views.where("{condition}").map(clean, schema="member bigint, page string")
    kept.partition_by("member", id="by-member").aggregate("member", {number}=count(), id="per-member").send_to(
        app.output_stream("out"))
"""
SAID = {"body": "view", "condition": "member > 0.5", "number": "pages"}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChangingModules:
    return ChangingModules(tmp_path, monkeypatch)


def full(modules: ChangingModules, name: str, **changes: str) -> ExecutionPlan:
    """The plan, with counts, of an application in a module of this name."""
    modules.write(name, APPLICATION.format(**{**SAID, **changes}))
    return ExecutionPlanner(stream_metadata={"views": 4}).plan(load_application(f"{name}:app").spec())


def shape(modules: ChangingModules, name: str, **changes: str) -> ExecutionPlan:
    full(modules, name, **changes)
    return plan_shape(load_application(f"{name}:app").spec())


def test_the_plan_of_an_application_is_like_its_shape_in_another_module_with_other_functions(
    modules: ChangingModules,
) -> None:
    plan = full(modules, "pages_of_members")
    assert plan.fingerprint != shape(modules, "moved_pages").fingerprint
    assert are_alike(plan, shape(modules, "moved_pages", body="dict(member=view.member, page='')"))
    assert are_alike(ExecutionPlan.from_json(plan.to_json()), shape(modules, "moved_pages"))


@pytest.mark.parametrize("change", [{"condition": "member > 1.5"}, {"number": "visits"}])
def test_plans_whose_expressions_or_columns_differ_are_not_alike(
    modules: ChangingModules, change: dict[str, str]
) -> None:
    plan, other = full(modules, "pages_of_members"), shape(modules, "pages_of_members", **change)
    assert plan.shape_fingerprint == other.shape_fingerprint
    assert not are_alike(plan, other)
