"""Names that users give, and that are nearly ones that are there: each rejection asks for the one that was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import TestDriver, stream_application
from airflow_samza.application.app_descriptor import StreamApplicationDescriptor
from airflow_samza.cli.environment import read_environment
from airflow_samza.errors import SamzaError
from airflow_samza.planner.planner import plan_shape
from airflow_samza.prepare.shared_sections import check_names
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.filesystems.object_store.access import find_access
from airflow_samza.systems.filesystems.object_store.address import parse_address
from airflow_samza.systems.kafka.columns import MessageColumns
from airflow_samza.systems.kafka.output import OutputOptions
from airflow_samza.systems.system import StreamSpec, SystemBinding


@stream_application("near")
def near(app: StreamApplicationDescriptor) -> None:
    """Read a shared stream, and count by a table."""
    clicks = app.shared_stream("clicks", system="log", schema="member bigint", key="member")
    known = app.pushed_table("members", key="member", schema="member bigint, tier string", partitions=1)
    clicks.join(known, id="with-tier").send_to(app.output_stream("tiers", system="log"))


SPEC = near.spec()
SHAPE = plan_shape(SPEC)

GIVEN: dict[str, tuple[Callable[[], Any], str]] = {
    "an operator of an application": (lambda: SPEC.operator("near-1-join-with-teir"), "near-1-join-with-tier"),
    "an input of an application": (lambda: SPEC.input_operator("click"), "clicks"),
    "a stream of an application": (lambda: SPEC.stream("teirs"), "tiers"),
    "a table of an application": (lambda: SPEC.table("member"), "members"),
    "a stage of a plan": (lambda: SHAPE.stage("click"), "clicks"),
    "a stream of a plan": (lambda: SHAPE.stream("teirs"), "tiers"),
    "a shared stream": (lambda: check_names(SPEC, {"click": "monday"}), "clicks"),
    "an input of the test driver": (lambda: TestDriver(near).pipe("click", []), "clicks"),
    "an output of the test driver": (lambda: TestDriver(near).output("teirs"), "tiers"),
    "a method of the test driver": (lambda: TestDriver(near).pipe("clicks", [], partiton=1), "partition"),  # type: ignore[call-arg]
    "an option of files": (
        lambda: FilesSystem("lake", SystemBinding("files", {"root": "/x", "formt": "json"})),
        "format",
    ),
    "an option of an object store": (
        lambda: find_access(parse_address("s3://bucket/x")[0], {"regoin": "eu"}),
        "region",
    ),
    "an option of a topic": (lambda: MessageColumns.of(StreamSpec("x", options=(("key_colum", "k"),))), "key_column"),
    "an option of an output": (lambda: OutputOptions.of(StreamSpec("x", options=(("delivry", "x"),))), "delivery"),
}


@pytest.mark.parametrize("given", GIVEN)
def test_the_name_that_was_meant_is_asked_for(given: str) -> None:
    use, meant = GIVEN[given]
    with pytest.raises(SamzaError) as caught:
        use()
    assert f"Did you mean {meant!r}?" in caught.value.hint


def test_an_environment_of_a_file_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "samza.toml"
    file.write_text("[env.dev]\nroot = 'x'\n[env.prod]\nroot = 'y'\n")
    with pytest.raises(SamzaError) as caught:
        read_environment(file, "prd")
    assert "Did you mean 'prod'?" in caught.value.hint
    file.write_text("[env.dev]\nroott = 'x'\n")
    with pytest.raises(SamzaError) as caught:
        read_environment(file, "dev")
    assert "Did you mean 'root'?" in caught.value.hint
