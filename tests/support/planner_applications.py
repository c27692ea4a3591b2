"""A short way to write an application in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.errors import PlanError, PlanErrors
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner

ROW = "k bigint, c string, v int, at timestamp"


def spec_of(describe: Callable[[Any], None], name: str = "app") -> ApplicationSpec:
    class Application(StreamApplication):
        def describe(self, app: Any) -> None:
            describe(app)

    Application.name = name
    return Application().spec()


def plan_of(
    describe: Callable[[Any], None], config: Mapping[str, str] | None = None, pinned: ExecutionPlan | None = None
) -> ExecutionPlan:
    return ExecutionPlanner(config or {}, {}).plan(spec_of(describe), pinned)


def errors_of(describe: Callable[[Any], None], config: Mapping[str, str] | None = None) -> list[PlanError]:
    try:
        plan_of(describe, config)
    except PlanErrors as errors:
        return list(errors.errors)
    except PlanError as error:
        return [error]
    raise AssertionError("the application was planned")


def keyed(app: Any, name: str, partitions: int = 8, **more: Any) -> Any:
    return app.input_stream(name, **{"schema": ROW, "key": "k", "partitions": partitions, "timestamp": "at", **more})


def files(app: Any, name: str, partitions: int = 8, **more: Any) -> Any:
    return app.input_stream(name, **{"schema": ROW, "path": name, "partitions": partitions, "timestamp": "at", **more})


def left(one: Any, _: Any) -> Any:
    return one
