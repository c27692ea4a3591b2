"""mode="auto": one task for little data, a task per stage for more, by the sizes that the plan has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_samza.errors import ConfigError
from airflow_samza.provider.operators.auto_mode import choose
from airflow_samza.provider.task_group import SamzaTaskGroup
from tests.support.airflow_names import DagSerialization, DownstreamTasksSkipped

VIEWS = "provider_applications:views"
STAGES = ("views.page-views", "views.by-member", "views.by-country")


@pytest.fixture
def dag() -> Iterator[DAG]:
    with DAG("flights", schedule=None) as dag:
        yield dag


@pytest.fixture
def group(dag: DAG) -> SamzaTaskGroup:
    return SamzaTaskGroup("views", application=VIEWS, mode="auto", poll_interval=0.001, deferrable=False)


class Skipping:
    """Calls by which the plan task has skipped tasks and pushed XComs."""

    def __init__(self, group: SamzaTaskGroup, make_context: Any, **given: Any) -> None:
        context = make_context(group.plan_task, **given)
        self.pushed = context["ti"].pushed
        context["ti"].xcom_push = self.push
        self.skipped: list[str] = []
        with pytest.raises(DownstreamTasksSkipped) as told:
            group.plan_task.execute(context)
        self.skipped = [task if isinstance(task, str) else task[0] for task in told.value.tasks]

    def push(self, key: str, value: Any, **_: Any) -> None:
        self.pushed[key] = value


def limited_to(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__FUSE_BELOW", str(limit))


def test_the_group_has_both_the_task_of_all_stages_and_one_of_each(dag: DAG, group: SamzaTaskGroup) -> None:
    names = [task.task_id for task in dag.tasks]
    assert sorted(names) == sorted([*STAGES, "views.plan", "views.run", "views.done", "views.cleanup"])
    done, cleanup = dag.get_task("views.done"), dag.get_task("views.cleanup")
    assert done.upstream_task_ids == {"views.run", "views.by-country"}
    assert cleanup.upstream_task_ids == {"views.plan", "views.run", *STAGES}
    DagSerialization.to_dict(dag)


def test_what_follows_the_group_waits_for_whichever_has_run(dag: DAG, group: SamzaTaskGroup) -> None:
    before, after = BaseOperator(task_id="before"), BaseOperator(task_id="after")
    before >> group >> after
    assert before.downstream_task_ids == {"views.plan"}
    assert after.upstream_task_ids == {"views.done"}
    # Skipped is one of its two, failed is none: then it succeeds.
    assert str(dag.get_task("views.done").trigger_rule.value) == "none_failed_min_one_success"


def test_little_data_runs_in_one_task(
    group: SamzaTaskGroup, runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited_to(monkeypatch, 7)  # as many bytes as the input has
    found = Skipping(group, make_context)
    assert sorted(found.skipped) == sorted(STAGES)
    assert found.pushed["return_value"]["stages"] == ["page-views", "by-member", "by-country"]
    assert runtime.named("prepare")[0][1].mode == "staged"


def test_more_data_runs_in_a_task_per_stage(
    group: SamzaTaskGroup, runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited_to(monkeypatch, 6)
    assert Skipping(group, make_context).skipped == ["views.run"]


def test_a_retry_decides_as_the_first_try_did_and_a_clear_by_its_own_plan(
    group: SamzaTaskGroup, runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited_to(monkeypatch, 7)
    retries = group.plan_task.retries or 0
    first = Skipping(group, make_context)
    again = Skipping(group, make_context, try_number=2, max_tries=retries + 1)
    assert sorted(again.skipped) == sorted(first.skipped) == sorted(STAGES)
    limited_to(monkeypatch, 6)
    cleared = Skipping(group, make_context, try_number=2, max_tries=retries + 1)
    assert cleared.skipped == ["views.run"]


def test_an_input_of_unknown_size_counts_as_much(runtime: Any, group: SamzaTaskGroup, make_context: Any) -> None:
    Skipping(group, make_context)
    run = runtime.plans[1]
    assert choose(run, 7) == (True, "its inputs hold 7 B, no more than 7 B ([samza] fuse_below)")
    assert not choose(run, 6).fused
    unknown = replace(run, streams={name: replace(s, slice={"kind": "log"}) for name, s in run.streams.items()})
    assert choose(unknown, 7) == (False, "the size of page-views is not known when it is planned")


def test_rejects_a_stage_that_is_named_like_a_task_of_the_group(dag: DAG) -> None:
    with pytest.raises(ConfigError, match="mode='auto' and the stage 'done'"):
        SamzaTaskGroup("views", application="provider_applications:named_done", mode="auto")


def test_a_task_by_itself_has_no_such_mode() -> None:
    from airflow_samza.provider.operators.stream import SamzaStreamOperator

    with pytest.raises(ConfigError, match="The modes are staged, fused, pipelined, continuous"):
        SamzaStreamOperator(task_id="views", application=VIEWS, mode="auto")
