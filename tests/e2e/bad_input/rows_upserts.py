"""Rows of changes of rows: forms of events, the order of changes, and outputs that are upserted."""

from __future__ import annotations

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_stage import STAGE
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import OUT, Scene

PLAN = "by `plan`"

FORMS = ("pass", "from airflow_samza import change_events, debezium")
SCHEMA = 'schema="member_id bigint, tier string, lsn bigint"'
EVENTS = f'events = app.input_stream("events", system="lake", {SCHEMA}, changes=change_events("op"), partitions=2)'


def _plan(scene: Scene, *lines: str) -> str:
    scene.application(*FORMS, *lines)
    return scene.plan()


@row("call", "Change events without schema=", CALL)
def _(scene: Scene) -> str:
    return _plan(scene, 'app.input_stream("events", system="lake", changes=debezium())')


@row("call", "A column of a change event that the schema does not have", CALL)
def _(scene: Scene) -> str:
    return _plan(scene, f'app.input_stream("events", {SCHEMA}, changes=debezium(columns={{"at": "source.ts_ms"}}))')


@row("call", "changes= that is no form", CALL)
def _(scene: Scene) -> str:
    return _plan(scene, f'app.input_stream("events", {SCHEMA}, changes="debezium")')


@row("call", "sequence_by= that is no column", CALL)
def _(scene: Scene) -> str:
    return _plan(scene, EVENTS, 'events.apply_changes("member_id", sequence_by="lns", id="in-order")')


@row("call", "sequence_by= of a type without an order", CALL)
def _(scene: Scene) -> str:
    return _plan(scene, EVENTS, 'events.apply_changes("member_id", sequence_by="_deleted", id="in-order")')


@row("call", "A type of slowly changing dimension that there is not", CALL)
def _(scene: Scene) -> str:
    call = 'events.apply_changes("member_id", sequence_by="lsn", stored_as_scd_type=6, id="in-order")'
    return _plan(scene, EVENTS, call)


@row("call", "sequence_by= of a table that is no column", CALL)
def _(scene: Scene) -> str:
    side = f'side = app.side_input("events", {SCHEMA}, changes=change_events("op"), key="member_id")'
    return _plan(scene, side, 'app.table("tiers", key="member_id", side_inputs=[side], sequence_by="version")')


@row("plan", "Changes of one key in several tasks", PLAN)
def _(scene: Scene) -> str:
    return _plan(scene, EVENTS, f'events.apply_changes("member_id", sequence_by="lsn", id="in-order").send_to({OUT})')


@row("stage", "A change event with an unknown operation", STAGE)
def _(scene: Scene) -> str:
    scene.application(*FORMS, EVENTS, f"events.send_to({OUT})")
    scene.write("data/events/a.json", '{"op": "x", "member_id": 7, "tier": "gold", "lsn": 1}')
    return scene.run()


UPSERTED = (
    EVENTS,
    'newest = events.partition_by("member_id", id="by-member")',
)


@row("call", "An upsert without a key", CALL)
def _(scene: Scene) -> str:
    return _plan(scene, *UPSERTED, 'newest.send_to(app.output_stream("out", system="lake", mode="upsert"))')


@row("call", "An upsert by a column that messages do not have", CALL)
def _(scene: Scene) -> str:
    output = 'app.output_stream("out", system="lake", mode="upsert", key="member")'
    return _plan(scene, *UPSERTED, f"newest.send_to({output})")


@row("call", "An upsert that expects unique keys", CALL)
def _(scene: Scene) -> str:
    output = 'app.output_stream("out", system="lake", mode="upsert", key="member_id", expect=[unique("member_id")])'
    return _plan(scene, "from airflow_samza import unique", *UPSERTED, f"newest.send_to({output})")


@row("plan", "An upsert whose key lies in several tasks", PLAN)
def _(scene: Scene) -> str:
    output = 'app.output_stream("out", system="lake", mode="upsert", key="tier")'
    return _plan(scene, *UPSERTED, f"newest.send_to({output})")


@row("plan", "An upsert into files", PLAN)
def _(scene: Scene) -> str:
    output = 'app.output_stream("out", system="lake", mode="upsert", key="member_id")'
    scene.application(*FORMS, *UPSERTED, f"newest.send_to({output})")
    scene.write("data/events/a.json", '{"op": "c", "member_id": 7, "tier": "gold", "lsn": 1}')
    return scene.prepare()


@row("plan", "An upsert on a branch", PLAN)
def _(scene: Scene) -> str:
    output = 'app.output_stream("out", system="mart", create=True, mode="upsert", key="member_id", branch="audit")'
    scene.systems["mart"] = f"delta:{scene.folder / 'mart'}"
    scene.application(*FORMS, *UPSERTED, f"newest.send_to({output})")
    scene.write("data/events/a.json", '{"op": "c", "member_id": 7, "tier": "gold", "lsn": 1}')
    return scene.prepare()


@row("plan", "An upsert by Spark that is none into a database", PLAN)
def _(scene: Scene) -> str:
    output = 'app.output_stream("out", system="warehouse", mode="upsert", key="member_id")'
    scene.systems["warehouse"] = f"spark:{scene.folder / 'warehouse'}"
    scene.application(*FORMS, *UPSERTED, f"newest.send_to({output})")
    scene.write("data/events/a.json", '{"op": "c", "member_id": 7, "tier": "gold", "lsn": 1}')
    return scene.prepare()
