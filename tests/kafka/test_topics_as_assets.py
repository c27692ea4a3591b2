"""Topics that runs write and read as Airflow's assets: events with what was published, and lineage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_samza.application.loader import load_application
from airflow_samza.assets import kafka_topic
from airflow_samza.provider.lineage import outlets
from airflow_samza.provider.lineage.outlets import announce, outlets_of
from airflow_samza.provider.lineage.task_lineage import names_in
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from tests.support.kafka_outputs import new_topic
from tests.support.kafka_runs import Runs
from tests.support.kafka_topics import Topics

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

APPLICATION = "tests.support.kafka_apps:copying_back"


class Copied:
    """A run that has copied three messages from a topic to another one."""

    def __init__(self, root: Path, topics: Topics, read: list[str], written: list[str]) -> None:
        runs = Runs(root, topics, partitions=2)
        runs.send(1, 2, 3)
        self.source, self.target, self.address = runs.topic, new_topic(), topics.address
        config = {"streams.views.samza.physical.name": self.source, "streams.out.samza.physical.name": self.target}
        self.run: RunPlan = runs.here.plan(APPLICATION, "run-1", config=config)
        runs.here.stages(self.run)
        (stage,) = self.run.plan.stages
        handle = StageHandle(self.run.application, "run-1", stage.stage_id, Generation(1, 1), 1)
        self.results: list[StageResult] = [runs.here.runtime.finish(handle)]
        bindings = {"events": SystemBinding("kafka", {"bootstrap.servers": topics.address})}
        self.hook: Any = SimpleNamespace(
            bindings=lambda: bindings, root=str(root), conn_id="samza_default", systems={"events": "kafka_default"}
        )
        self.read, self.written = read, written

    def events(self, *declared: Any) -> Any:
        events = OutletEventAccessors()
        announce(events, declared, self.run, self.results, self.hook, names_in(self.hook, self.run))
        return events

    @property
    def facts(self) -> dict[str, Any]:
        names = {"application": "copying-back", "stream": "out", "run_id": "run-1", "generation": "1.1"}
        (output,) = self.results[0].outputs
        more = {"bytes": output.bytes, "files": None, "partition_key": None, "interval": None}
        return {**names, "stage": self.results[0].stage_id, "rows": 3, **more}


@pytest.fixture
def copied(tmp_path: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> Copied:
    read: list[str] = []
    written: list[str] = []

    def noting(found: list[str]) -> Callable[..., None]:
        return lambda hook, uri: found.append(uri)

    collector = SimpleNamespace(add_input_asset=noting(read), add_output_asset=noting(written))
    monkeypatch.setattr(outlets, "hook_lineage", lambda: collector)
    return Copied(tmp_path, topics, read, written)


def test_an_output_is_announced_as_its_topic_with_the_rows_that_were_published(copied: Copied) -> None:
    declared = outlets_of(load_application(APPLICATION).spec({}), "samza_default", {"events": "kafka_default"})
    assert declared == {"out": [AssetAlias("samza-output:kafka_default/out")]}
    (alias,) = declared["out"]
    (event,) = copied.events(alias)[alias].asset_alias_events
    topic = kafka_topic(copied.target, copied.address)
    assert (event.dest_asset_key.uri, event.extra) == (topic.uri, copied.facts)


def test_a_topic_that_the_dag_names_gets_the_event_and_the_alias_none(copied: Copied) -> None:
    topic, alias = kafka_topic(copied.target, copied.address), outlets.output_alias("kafka_default", "out")
    events = copied.events(topic, alias, Asset("something-else"))
    assert events[topic].extra == copied.facts
    assert events[alias].asset_alias_events == []


def test_lineage_names_the_topics_that_were_read_and_written(copied: Copied) -> None:
    copied.events()
    assert copied.read == [f"kafka://{copied.address}/{copied.source}"]
    assert copied.written == [f"kafka://{copied.address}/{copied.target}"]


def test_a_templated_connection_has_no_outlet() -> None:
    spec = load_application(APPLICATION).spec({})
    assert outlets_of(spec, "samza_default", {"events": "{{ params.kafka }}"}) == {}
