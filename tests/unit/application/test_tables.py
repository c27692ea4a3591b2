"""Tables: who may write them, what feeds them, and the configuration form of the same (rules S2, S6, S8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.declarations.side_inputs import SideInputsProcessor
from airflow_samza.application.descriptors import StreamRole, TableKind
from airflow_samza.application.operator_specs import SendToTableSpec
from airflow_samza.errors import SamzaError, SideInputsWithChangelog
from tests.support.side_input_keys import side_input_config


class Keep:
    def process(self, message: Any, store: Any) -> list[tuple[Any, Any]]:
        return [(message.key, message.message)]


def keep(config: Mapping[str, str], metrics: Any) -> SideInputsProcessor:
    return Keep()


def described(describe: Any, config: dict[str, str] | None = None) -> ApplicationSpec:
    return stream_application("app", config=config)(describe).spec()


def test_the_general_form_has_explicit_side_inputs_and_a_processor() -> None:
    def describe(app: Any) -> None:
        daily = app.side_input("daily", system="kafka", schema="id bigint, v string", key="id", partitions=4)
        app.table("t", key="id", side_inputs=[daily, "hourly", "kafka.other"], processor=keep)

    spec = described(describe)
    table = spec.tables["t"]
    assert (table.kind, table.side_inputs, table.processor) == (TableKind.PUSHED, ("daily", "hourly", "other"), keep)
    assert [(s.stream_id, s.system, s.role) for s in spec.side_inputs.values()] == [
        ("daily", "kafka", StreamRole.SIDE_INPUT),
        ("hourly", None, StreamRole.SIDE_INPUT),
        ("other", "kafka", StreamRole.SIDE_INPUT),
    ]


def test_a_declarative_table_of_one_side_input_takes_its_schema() -> None:
    def describe(app: Any) -> None:
        app.table("t", key="id", side_inputs=[app.side_input("s", schema="id bigint, v string")])

    schema = described(describe).tables["t"].schema
    assert schema is not None
    assert schema.names == ("id", "v")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"from_table": "web.t"}, "has from_table=, and no system="),
        ({"options": {"ref": "a"}}, "has options=, and no from_table="),
        ({"from_table": "web.t", "system": "lake", "partitions": 4}, "has from_table=, .*, and partitions="),
        ({"from_table": "web.t", "system": "lake", "partitioner": "hash"}, "has from_table=, .*, and partitioner="),
    ],
)
def test_rejects_a_table_of_a_lake_without_its_place_or_with_partitions(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SamzaError, match=said):
        described(lambda app: app.pushed_table("t", key="id", **options))


def test_rejects_a_declarative_table_whose_side_input_lacks_the_key() -> None:
    def describe(app: Any) -> None:
        app.table("t", key="id", side_inputs=[app.side_input("s", schema="v string")])

    with pytest.raises(SamzaError, match="no column 'id'"):
        described(describe)


@pytest.mark.parametrize("by_name", [True, False])
def test_an_input_may_feed_a_table_as_well(by_name: bool) -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("s", schema="id bigint, v string", key="id", partitions=8)
        app.table("t", key="id", side_inputs=["s" if by_name else stream])

    spec = described(describe)
    assert (spec.inputs["s"].role, spec.side_inputs["s"].role) == (StreamRole.INPUT, StreamRole.SIDE_INPUT)
    assert spec.side_inputs["s"].partitions == 8


def test_two_tables_may_share_a_side_input() -> None:
    def describe(app: Any) -> None:
        daily = app.side_input("daily")
        app.table("a", key="id", side_inputs=[daily])
        app.table("b", key="id", side_inputs=[daily, "daily2"])

    assert list(described(describe).side_inputs) == ["daily", "daily2"]


def test_side_inputs_come_from_the_configuration() -> None:
    config = {
        "stores.t.side.inputs": ", kafka.topicA ,,streamId,",
        "stores.t.side.inputs.processor.factory": "pipelines.stores:keep",
    }
    table = described(lambda app: app.table("t", key="id"), config).tables["t"]
    assert (table.side_inputs, table.processor) == (("topicA", "streamId"), "pipelines.stores:keep")


def test_the_descriptor_form_generates_the_configuration() -> None:
    def describe(app: Any) -> None:
        app.default_system("log")
        app.pushed_table("p", key="id")
        app.table("t", key="id", side_inputs=["kafka.a", "kafka.b"], processor=keep)
        app.local_table("l", key="id")

    assert side_input_config(described(describe, {"task.inputs": "log.views"})) == {
        "stores.p.side.inputs": "log.p-push",
        "stores.t.side.inputs": "kafka.a,kafka.b",
        "stores.t.side.inputs.processor.factory": f"{__name__}:keep",
        "task.inputs": "log.views,log.p-push,kafka.a,kafka.b",
    }


def test_a_local_table_is_written_by_send_to() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="id", schema="id bigint, v string", ttl="1 day")
        app.input_stream("s", schema="id bigint, v string").send_to(table)

    spec = described(describe)
    assert isinstance(spec.operators[-1], SendToTableSpec)
    assert spec.tables["t"].ttl_ms == 86_400_000
    assert spec.outputs == {}


def test_rejects_writing_a_table_with_side_inputs() -> None:
    def describe(app: Any) -> None:
        app.input_stream("s").send_to(app.table("t", key="id", side_inputs=["x"]))

    with pytest.raises(SamzaError, match="read-only"):
        described(describe)


def test_rejects_a_table_with_side_inputs_that_has_a_time_to_live() -> None:
    with pytest.raises(SamzaError, match="has side inputs and ttl='1 day'"):
        described(lambda app: app.table("t", key="id", side_inputs=["x"], ttl="1 day"))


@pytest.mark.parametrize("config", [{}, {"stores.t.changelog": "changes"}])
def test_rejects_a_table_with_side_inputs_and_a_changelog(config: dict[str, str]) -> None:
    with pytest.raises(SideInputsWithChangelog):
        described(lambda app: app.table("t", key="id", side_inputs=["x"], changelog=None if config else True), config)


def test_a_remote_table_has_callables() -> None:
    def read(key: Any) -> Any:
        return {"id": key}

    spec = described(
        lambda app: app.input_stream("s").join(app.remote_table("t", key="id", reader=read), lambda a, b: a, id="j")
    )
    assert (spec.tables["t"].kind, spec.tables["t"].reader) == (TableKind.REMOTE, read)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("changes", (None, "changes", None)),
        ("events.changes", ("events", "changes", None)),
        ("events.my.topic", ("events", "my-topic", "my.topic")),
    ],
)
def test_the_first_dot_of_a_changelog_ends_the_system(name: str, found: tuple[str | None, str, str | None]) -> None:
    stream = _written_to(changelog=name).outputs[found[1]]
    assert (stream.system, stream.stream_id, stream.topic) == found


def test_the_first_dot_of_a_side_input_ends_the_system() -> None:
    def describe(app: Any) -> None:
        app.side_input("topic", schema="id bigint", key="id")  # another stream than events.my.topic
        for table in ("t", "u"):
            app.table(table, key="id", side_inputs=["events.my.topic"])

    spec = described(describe)
    assert [spec.tables[table].side_inputs for table in ("t", "u")] == [("my-topic",)] * 2
    stream = spec.side_inputs["my-topic"]
    assert (stream.system, stream.topic) == ("events", "my.topic")


def _written_to(**given: Any) -> ApplicationSpec:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="id", schema="id bigint", **given)
        app.input_stream("views", schema="id bigint", key="id").send_to(table)

    return described(describe)
