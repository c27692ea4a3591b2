"""Deliveries that outputs claim, by kind, format and option, and the one sentence on what a retry does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_samza.system_kinds import kinds
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.capabilities import Delivery, after_a_retry, delivery_of
from airflow_samza.systems.files.formats.options import FORMATS
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.unit.test_sentences import sources, texts

EXACTLY, AT_LEAST = True, False
SYSTEM_OPTIONS = {"kafka": {"bootstrap.servers": "broker.invalid:9092"}, "spark": {}}

CLAIMS = [
    ("log", None, {}, EXACTLY),
    ("memory", None, {}, EXACTLY),
    *(("files", format, {}, EXACTLY) for format in FORMATS),
    ("kafka", None, {}, EXACTLY),
    ("kafka", None, {"delivery": "exactly_once"}, EXACTLY),
    ("kafka", None, {"delivery": "at_least_once"}, AT_LEAST),
    ("kafka", None, {"on_rerun": "append"}, EXACTLY),
    ("iceberg", None, {"table": "web.t", "create": "true"}, EXACTLY),
    ("delta", None, {"table": "web.t", "create": "true"}, EXACTLY),
    ("spark", None, {"table": "t"}, AT_LEAST),
    ("spark", "parquet", {"table": "t"}, AT_LEAST),
    ("spark", "iceberg", {"table": "t"}, AT_LEAST),
    ("spark", "delta", {"table": "t"}, EXACTLY),
    ("spark", "Delta", {"table": "t"}, EXACTLY),
    ("spark", "parquet", {}, AT_LEAST),
    ("spark", "delta", {}, EXACTLY),
    ("spark", "jdbc", {"url": "jdbc:h2:mem:", "mode": "append"}, AT_LEAST),
    ("spark", "jdbc", {"url": "jdbc:h2:mem:", "mode": "overwrite"}, EXACTLY),
    *(
        ("spark", format, {**place, "mode": mode, "partition_by": "day"}, EXACTLY)
        for format in ("parquet", "delta", "iceberg")
        for place in ({"table": "t"}, {})
        for mode in ("overwrite", "overwrite_partitions")
    ),
]


@pytest.mark.parametrize(("kind", "format", "options", "exactly_once"), CLAIMS)
def test_each_kind_of_output_claims_what_it_keeps(
    kind: str, format: str | None, options: dict[str, str], exactly_once: bool, tmp_path: Path
) -> None:
    system = bind_system("here", SystemBinding(kind, SYSTEM_OPTIONS.get(kind, {"root": str(tmp_path)})), str(tmp_path))
    path = "out" if kind == "spark" and "table" not in options and format != "jdbc" else None
    stream = StreamSpec("out", format=format, path=path, options=tuple(options.items()), written=True)
    found = delivery_of(system, stream)
    assert found.exactly_once == exactly_once
    assert str(found).startswith("exactly once: " if exactly_once else "at least once: ")


def test_the_table_has_every_kind() -> None:
    assert {kind for kind, *_ in CLAIMS} == set(kinds())


def test_only_a_table_that_says_no_format_may_be_one_of_deltas(tmp_path: Path) -> None:
    system = bind_system("here", SystemBinding("spark", {}), str(tmp_path))

    def how(format: str | None) -> str:
        return delivery_of(system, StreamSpec("out", format=format, options=(("table", "t"),), written=True)).how

    assert how(None) == f"{how('orc')}, unless the table is one of Delta's"
    assert "looked for in the table's snapshots" in how("ICEBERG")


def test_a_retry_doubles_nothing_where_all_is_exactly_once() -> None:
    for deliveries in ({}, {"the output 'a'": Delivery(True, "it is renamed into place")}):
        assert after_a_retry(deliveries) == "what is staged is kept, and nothing is doubled"


def test_a_retry_names_what_may_come_twice() -> None:
    text = after_a_retry(
        {
            "the output 'a'": Delivery(True, "it is renamed into place"),
            "the output 'b'": Delivery(False, "an append is made again"),
            "the calls of sink tell": Delivery(False, "its function is called again"),
        }
    )
    assert text == (
        "what is staged is kept, and only what is delivered at least once may come twice: "
        "the output 'b' (an append is made again), the calls of sink tell (its function is called again)"
    )


def test_only_one_module_says_what_may_be_doubled() -> None:
    promises = re.compile(r"\bdoubled\b|\btwice\b.*\bat least once\b|\bat least once\b.*\btwice\b")
    promising = [
        module for module, source in sources().items() if any(promises.search(text) for _, text in texts(source))
    ]
    assert promising == ["airflow_samza/systems/capabilities.py"]
