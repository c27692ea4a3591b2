"""The configuration form of side inputs beside each form of the code.

It works as the code would, or is rejected (rule S8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from airflow_samza import StreamTask, stream_application, task_application
from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.declarations.side_inputs import SideInputsProcessor
from airflow_samza.errors import SamzaError
from tests.support.side_input_keys import side_input_config

INPUTS = {"stores.t.side.inputs": "log.a"}
FACTORY = {"stores.t.side.inputs.processor.factory": f"{__name__}:keep"}
BOTH = {**INPUTS, **FACTORY}
OTHER = {"stores.t.side.inputs.processor.factory": f"{__name__}:other"}
COLUMNS = "id bigint, v string"


class Keep:
    def process(self, message: Any, store: Any) -> list[tuple[Any, Any]]:
        return [(message.key, message.message)]


def keep(config: Mapping[str, str], metrics: Any) -> SideInputsProcessor:
    return Keep()


def other(config: Mapping[str, str], metrics: Any) -> SideInputsProcessor:
    return Keep()


class Task(StreamTask):
    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        pass


def described(declare: Callable[[Any], Any], config: Mapping[str, str], *, low_level: bool) -> ApplicationSpec:
    def application(app: Any) -> None:
        app.input_stream("views", schema="id bigint", key="id")
        declare(app)
        if low_level:
            app.task(Task)

    decorator = task_application if low_level else stream_application
    return decorator("app", config=dict(config), default_system="log")(application).spec()


Declare = Callable[[Any], Any]

TABLE: Declare = lambda app: app.table("t", key="id", schema=COLUMNS)  # noqa: E731
FED: Declare = lambda app: app.table("t", key="id", schema=COLUMNS, side_inputs=["a"])  # noqa: E731
FED_TWICE: Declare = lambda app: app.table("t", key="id", schema=COLUMNS, side_inputs=["b", "log.a"])  # noqa: E731
PROCESSED: Declare = lambda app: app.table("t", key="id", schema=COLUMNS, side_inputs=["a"], processor=keep)  # noqa: E731
PROCESSOR: Declare = lambda app: app.table("t", key="id", schema=COLUMNS, processor=keep)  # noqa: E731
PUSHED: Declare = lambda app: app.pushed_table("t", key="id", schema=COLUMNS)  # noqa: E731
LOCAL: Declare = lambda app: app.local_table("t", key="id", schema=COLUMNS)  # noqa: E731
LOCAL_TTL: Declare = lambda app: app.local_table("t", key="id", schema=COLUMNS, ttl="1 day")  # noqa: E731
LOCAL_TOPIC: Declare = lambda app: app.local_table("t", key="id", schema=COLUMNS, changelog="changes")  # noqa: E731
REMOTE: Declare = lambda app: app.remote_table("t", key="id", reader=lambda key: None)  # noqa: E731
STORE: Declare = lambda app: app.store("t", key="bigint", value="string")  # noqa: E731
WRITTEN: Declare = lambda app: app.input_stream("more", schema=COLUMNS).send_to(LOCAL(app))  # noqa: E731
NOTHING: Declare = lambda app: None  # noqa: E731

WORKS: dict[str, tuple[Declare, Mapping[str, str], tuple[str, ...], str | None]] = {
    "table, inputs": (TABLE, INPUTS, ("a",), None),
    "table, both": (TABLE, BOTH, ("a",), "keep"),
    "table with processor, inputs": (PROCESSOR, INPUTS, ("a",), "keep"),
    "table with processor, both": (PROCESSOR, BOTH, ("a",), "keep"),
    "fed table, inputs": (FED, INPUTS, ("a",), None),
    "fed table, factory": (FED, FACTORY, ("a",), "keep"),
    "fed table, both": (FED, BOTH, ("a",), "keep"),
    "table fed twice, the same in another order": (FED_TWICE, {"stores.t.side.inputs": "a, b"}, ("b", "a"), None),
    "processed table, inputs": (PROCESSED, INPUTS, ("a",), "keep"),
    "processed table, factory": (PROCESSED, FACTORY, ("a",), "keep"),
    "processed table, both": (PROCESSED, BOTH, ("a",), "keep"),
    "pushed table, its own stream": (PUSHED, {"stores.t.side.inputs": "log.t-push"}, ("t-push",), None),
    "pushed table, factory": (PUSHED, FACTORY, ("t-push",), "keep"),
    "local table, inputs": (LOCAL, INPUTS, ("a",), None),
    "local table, both": (LOCAL, BOTH, ("a",), "keep"),
    "blank": (FED, {"stores.t.side.inputs": " , ", "stores.t.side.inputs.processor.factory": " "}, ("a",), None),
    "blank for a local table": (LOCAL, {"stores.t.side.inputs": ""}, (), None),
    "blank for nothing": (LOCAL, {"stores.x.side.inputs": ""}, (), None),
}

REJECTED: dict[str, tuple[Declare, Mapping[str, str], str]] = {
    "table, factory": (TABLE, FACTORY, "table 't' has no side inputs"),
    "fed table, other inputs": (
        FED,
        {"stores.t.side.inputs": "log.b"},
        "side inputs a, and stores.t.side.inputs is 'log.b'",
    ),
    "fed table, more inputs": (
        FED,
        {"stores.t.side.inputs": "log.a,log.b"},
        "side inputs a, and stores.t.side.inputs is 'log.a,log.b'",
    ),
    "fed table, another system": (
        lambda app: app.table("t", key="id", schema=COLUMNS, side_inputs=["kafka.a"]),
        INPUTS,
        "side inputs kafka.a, and stores.t.side.inputs is 'log.a'",
    ),
    "processed table, other factory": (
        PROCESSED,
        OTHER,
        "has the processor .*:keep, and stores.t.side.inputs.processor.factory is",
    ),
    "pushed table, other inputs": (PUSHED, INPUTS, "side inputs t-push, and stores.t.side.inputs is 'log.a'"),
    "local table, factory": (LOCAL, FACTORY, "table 't' has no side inputs"),
    "local table with ttl, both": (LOCAL_TTL, BOTH, "has side inputs and ttl='1 day'"),
    "local table with changelog, both": (LOCAL_TOPIC, BOTH, "has side inputs, and asks for a changelog"),
    "written local table, both": (
        WRITTEN,
        BOTH,
        "read-only",
    ),
    "remote table, inputs": (REMOTE, INPUTS, "'t' is remote, and stores.t.side.inputs is 'log.a'"),
    "remote table, factory": (REMOTE, FACTORY, "'t' is remote, and stores.t.side.inputs.processor.factory is"),
    "nothing, inputs": (
        NOTHING,
        INPUTS,
        "stores.t.side.inputs is 'log.a', and the application 'app' declares no table 't'",
    ),
    "nothing, factory": (
        NOTHING,
        FACTORY,
        "stores.t.side.inputs.processor.factory is .* and the application 'app' declares no table 't'",
    ),
}

LOW_LEVEL_ONLY: dict[str, tuple[Declare, Mapping[str, str], str]] = {
    "store, inputs": (
        STORE,
        INPUTS,
        "declared by app.store, which the task itself writes, and stores.t.side.inputs is 'log.a'",
    ),
    "store, factory": (
        STORE,
        FACTORY,
        "declared by app.store, which the task itself writes, and stores.t.side.inputs.processor.factory is",
    ),
    "store, both": (
        STORE,
        BOTH,
        "declared by app.store, which the task itself writes, and stores.t.side.inputs is 'log.a'",
    ),
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("case", WORKS)
def test_the_configuration_form_does_what_the_code_would(case: str, low_level: bool) -> None:
    declare, config, streams, processor = WORKS[case]
    table = described(declare, config, low_level=low_level).tables["t"]
    named = table.processor if isinstance(table.processor, str | None) else f"{__name__}:{table.processor.__qualname__}"
    assert (table.side_inputs, named) == (streams, processor and f"{__name__}:{processor}")


def test_rejects_a_topic_of_changes_for_a_store_of_a_task() -> None:
    with pytest.raises(SamzaError, match=r"stores.t.changelog is 'kafka.t-changes', and the store 't' has no topic of"):
        described(STORE, {"stores.t.changelog": "kafka.t-changes"}, low_level=True)


@pytest.mark.parametrize(
    ("case", "low_level"),
    [(case, low) for case in REJECTED for low in (False, True) if not (low and case.startswith("written"))],
)
def test_rejects_the_configuration_form_where_it_contradicts_the_code(case: str, low_level: bool) -> None:
    declare, config, sentence = REJECTED[case]
    with pytest.raises(SamzaError, match=sentence):
        described(declare, config, low_level=low_level)


@pytest.mark.parametrize("case", LOW_LEVEL_ONLY)
def test_rejects_side_inputs_of_a_store_of_the_task(case: str) -> None:
    declare, config, sentence = LOW_LEVEL_ONLY[case]
    with pytest.raises(SamzaError, match=sentence):
        described(declare, config, low_level=True)


@pytest.mark.parametrize("declare", [FED, FED_TWICE, PROCESSED, PUSHED, LOCAL])
def test_what_the_code_generates_may_be_written_beside_it(declare: Callable[[Any], Any]) -> None:
    spec = described(declare, {}, low_level=False)
    generated = side_input_config(spec)
    again = described(declare, generated, low_level=False)
    assert side_input_config(again) == generated
    assert again.tables == spec.tables


def test_the_messages_of_configured_side_inputs_of_a_processor_need_not_have_the_columns_of_the_rows() -> None:
    spec = described(TABLE, BOTH, low_level=False)
    assert spec.side_inputs["a"].schema is None
    assert described(TABLE, INPUTS, low_level=False).side_inputs["a"].schema is not None  # there each message is a row
