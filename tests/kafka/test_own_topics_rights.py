"""Rights that topics between stages need: what is missing is one sentence of the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, AdminClient, ResourceType

from airflow_samza.errors import TopicError
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.kafka_runs import APPS
from tests.support.kafka_users import PREFIXED, logged_in, permit
from tests.support.runs_here import Here

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

USER = "carol"


@pytest.mark.parametrize(
    ("permitted", "missing"),
    [
        ([], "create"),
        (["create"], "read"),  # brokers answer as if there were no such topic
        (["create", "describe"], "write"),
        (["create", "write"], "read"),
        (["create", "write", "read"], "delete"),
    ],
)
def test_a_plan_rejects_who_may_not_do_all_that_topics_between_stages_need(
    kafka: Kafka, tmp_path: Path, permitted: list[str], missing: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for right in permitted:
        grant(admin, AclOperation[right.upper()])
    try:
        with pytest.raises(
            TopicError, match=rf"do not let the user '{USER}' {missing} the topic 'samza\.passing"
        ) as said:
            plan(kafka, tmp_path)
        assert f"--operation {missing.title()} --resource-pattern-type prefixed --topic samza." in said.value.hint
        grant(admin, AclOperation.ALL)
        assert plan(kafka, tmp_path)
    finally:
        everything = AclBindingFilter(
            ResourceType.TOPIC,
            "samza.",
            PREFIXED,
            f"User:{USER}",
            "*",
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        admin.delete_acls([everything])[everything].result(30)


def grant(admin: AdminClient, operation: AclOperation) -> None:
    permit(admin, USER, operation, "samza.", pattern=PREFIXED)


def plan(kafka: Kafka, root: Path) -> bool:
    here = Here(root, bindings={"events": SystemBinding("kafka", logged_in(kafka, USER))})
    here.log.create([StreamSpec("lines", 1, "n bigint")])
    return bool(here.plan(f"{APPS}:passing_on", "run"))
