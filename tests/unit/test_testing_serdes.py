"""Streams of bytes in the test driver: serdes, and control messages in the document's wire form (rules C1, C2)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import count, dead_letter, stream_application
from airflow_samza.errors import InvalidApplication, SchemaError
from airflow_samza.testing import TestDriver


def copied(app: Any, **more: Any) -> None:
    views = app.input_stream("views", schema="id bigint, country string", partitions=1, serde="json", **more)
    views.where("id > 1").select("id").send_to(app.output_stream("out", serde="json"))


def test_inputs_are_read_and_outputs_written_by_their_serdes() -> None:
    driver = TestDriver(stream_application("copied")(copied))
    driver.pipe("views", [b'{"id": 1}', {"id": 2, "country": "NL"}, b'{"country":"DE",  "id":3}']).run()
    assert driver.output_bytes("out") == [b'{"id":2}', b'{"id":3}']
    assert [row.id for row in driver.output("out")] == [2, 3]


def test_bytes_that_cannot_be_read_fail_with_their_place_or_go_where_bad_records_go() -> None:
    sent = [b'{"id": 2}', b"{", {"id": 3, "country": None}]
    with pytest.raises(SchemaError, match="The message at views/0 offset 1 cannot be read by its serde: no JSON"):
        TestDriver(stream_application("copied")(copied)).pipe("views", sent).run()

    def tolerant(app: Any) -> None:
        copied(app, on_error=dead_letter(app.output_stream("bad")))

    driver = TestDriver(stream_application("tolerant")(tolerant)).pipe("views", sent).run()
    assert [row.id for row in driver.output("out")] == [2, 3]
    assert len(driver.output("bad")) == 1


def test_a_schema_file_lies_beside_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"type": "record", "name": "view", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "view.avsc").write_text(json.dumps(record))
    (tmp_path / "avro_app.py").write_text(
        "from airflow_samza import stream_application\n\n"
        '@stream_application("avro")\n'
        "def app(app):\n"
        '    views = app.input_stream("views", schema="id bigint", partitions=1, serde="avro:view.avsc")\n'
        '    views.send_to(app.output_stream("out", serde="avro:view.avsc"))\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    driver = TestDriver("avro_app:app").pipe("views", [b"\x02", {"id": 2}]).run()
    assert driver.output_bytes("out") == [b"\x02", b"\x04"]


def counted(app: Any, producers: int = 3) -> None:
    views = app.input_stream("views", schema="id bigint, country string", partitions=producers)
    by_country = views.partition_by("country", id="by-country")
    by_country.aggregate("country", views=count(), id="per-country").send_to(app.output_stream("totals"))


def counting(producers: int = 3, partitions: int = 4, **more: Any) -> TestDriver:
    described = stream_application("counted")(lambda app: counted(app, producers))
    driver = TestDriver(described, config={"job.intermediate.stream.partitions": str(partitions)}, **more)
    return driver.pipe("views", [{"id": number, "country": "NLDEFR"[number % 3 * 2 :][:2]} for number in range(30)])


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
@pytest.mark.parametrize("reduced", [False, True])
def test_control_messages_go_between_user_messages_in_the_wire_form(mode: str, reduced: bool) -> None:
    driver = counting(intermediate_serde="json", reduced=reduced).run(
        mode=mode, epoch_messages=7 if mode == "pipelined" else None
    )
    assert {(row.country, row.views) for row in driver.output("totals")} == {("NL", 10), ("DE", 10), ("FR", 10)}
    sent = driver.output_bytes("by-country")
    kinds = Counter(value[0] for value in sent)
    assert set(kinds) <= {0, 1, 2}
    ends = [json.loads(value[1:]) for value in sent if value[0] == 2]
    # Each of the three tasks ends all four partitions: n times m.
    assert Counter(end["taskName"] for end in ends) == {"task-0": 4, "task-1": 4, "task-2": 4}
    assert {(end["version"], end["taskCount"]) for end in ends} == {(1, 3)}
    assert all(isinstance(json.loads(value[1:]), dict) for value in sent)


def ends_sent(producers: int, partitions: int) -> list[Any]:
    driver = counting(producers, partitions, intermediate_serde="json").run()
    return [json.loads(value[1:]) for value in driver.output_bytes("by-country") if value[0] == 2]


def test_seed_n_times_m() -> None:
    """The prose case of that name: each of 3 producers writes to each of 4 partitions."""
    assert Counter(end["taskName"] for end in ends_sent(3, 4)) == {"task-0": 4, "task-1": 4, "task-2": 4}


def test_seed_one_partition() -> None:
    """The prose case of that name."""
    assert sorted(end["taskName"] for end in ends_sent(5, 1)) == [f"task-{number}" for number in range(5)]


def test_side_inputs_left_out() -> None:
    """The prose case of that name: a side input that nobody ends keeps no task from ending."""

    def describe(app: Any) -> None:
        tiers = app.side_input(
            "tiers", schema="country string, tier string", key="country", partitions=1, bounded=False, serde="json"
        )
        table = app.table("by-country", key="country", side_inputs=[tiers])
        views = app.input_stream("views", schema="id bigint, country string", key="country", partitions=1, serde="json")
        views.join(table, id="tiered").select("id", "tier").send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("tiered")(describe)).pipe("tiers", [b'{"country": "NL", "tier": "gold"}'])
    driver.pipe("views", [{"id": 1, "country": "NL"}]).run()
    assert [(row.id, row.tier) for row in driver.output("out")] == [(1, "gold")]
    assert all(report.ended for report in driver.reports())


def test_outputs_carry_no_type_byte() -> None:
    """The prose case "plain-input-has-no-type-byte"."""
    driver = (
        TestDriver(stream_application("copied")(copied), intermediate_serde="json")
        .pipe("views", [{"id": 2, "country": None}])
        .run()
    )
    assert driver.output_bytes("out") == [b'{"id":2}']


def test_a_stream_without_a_serde_has_no_bytes() -> None:
    with pytest.raises(InvalidApplication, match="The stream 'totals' has no serde, and no bytes"):
        counting().run().output_bytes("totals")
