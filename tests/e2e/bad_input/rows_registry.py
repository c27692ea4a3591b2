"""Rows of schema registries: what the plan says of one, and what is wrong with messages."""

from __future__ import annotations

import io
import struct
from typing import Any

import fastavro
import pyarrow as pa

from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.registry.serde import RegistrySerde
from airflow_samza.systems.serdes.wire import envelopes
from airflow_samza.systems.system import SystemStreamPartition
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_files import STAGE
from tests.e2e.bad_input.rows_plan import PLAN
from tests.e2e.bad_input.scene import Scene, raised
from tests.support.schema_registry import StubRegistry, stub_registry

VIEW = {"type": "record", "name": "view", "fields": [{"name": "member_id", "type": "long"}]}
COLUMNS = "member_id bigint"


def _serde(options: dict[str, Any], columns: str = COLUMNS) -> RegistrySerde:
    made = bind_serde("registry:avro", Schema.of(columns).to_arrow(), "views", options=options, system="queue")
    assert isinstance(made, RegistrySerde)
    return made


def _said(registry: StubRegistry, text: str) -> str:
    return text.replace(registry.url, "http://registry:8081")


def _read(registry: StubRegistry, value: bytes) -> str:
    ssp = SystemStreamPartition("queue", "views", 0)
    made = envelopes(ssp, 17, pa.array([value], pa.binary()), _serde(registry.options), in_band=False)
    return _said(registry, raised(lambda: list(made)))


def _record() -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(VIEW), {"member_id": 1})
    return sink.getvalue()


@row("plan", "A serde with a schema registry, and a system that names none", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'app.system("warehouse", kind="spark")',
        'views = app.input_stream("views", system="warehouse", schema=View)',
        'views.send_to(app.output_stream("sent", system="warehouse", serde="registry:avro"))',
    )
    return scene.prepare()


@row("plan", "A schema registry that does not answer", PLAN)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        pass
    away = _serde({**registry.options, "schema.registry.max.retries": "0"})
    return _said(registry, raised(away.check_read))


@row("plan", "A schema registry, and a wrong password", PLAN)
def _(scene: Scene) -> str:
    with stub_registry(login="reader:right") as registry:
        wrong = _serde({**registry.options, "schema.registry.basic.auth.user.info": "reader:wrong"})
        return _said(registry, raised(wrong.check_read))


@row("plan", "A column that the latest schema of the registry does not have", PLAN)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        registry.add("views-value", VIEW)
        return raised(_serde(registry.options, "member_id bigint, country string").check_read)


@row("plan", "An output whose columns do not fit the schema of the registry", PLAN)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        registry.add("views-value", VIEW)
        return raised(_serde(registry.options, "country string").check_written)


@row("plan", "An output for which the registry has no schema", PLAN)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        return raised(_serde(registry.options).check_written)


@row("stage", "A message without the id of a schema", STAGE)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        return _read(registry, b'{"member_id": 1}')


@row("stage", "A message of a schema that the registry does not know", STAGE)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        return _read(registry, b"\0" + struct.pack(">I", 77) + _record())


@row("stage", "A message that is no record of its schema", STAGE)
def _(scene: Scene) -> str:
    with stub_registry() as registry:
        id = registry.add("views-value", VIEW)
        return _read(registry, b"\0" + struct.pack(">I", id) + _record() + b"more")
