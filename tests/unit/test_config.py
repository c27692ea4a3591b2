"""Samza's configuration keys, read with their types; a value that cannot be used is an error that names key, value and source."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.config import Config
from airflow_samza.errors import ConfigError

# What the side inputs' cases say of the configuration, in words (section "config").


def test_no_side_inputs() -> None:
    assert Config({}).side_inputs("s") == ()
    assert Config({"stores.s.side.inputs": None}).side_inputs("s") == ()


def test_blanks_in_side_inputs_are_left_out() -> None:
    assert Config({"stores.s.side.inputs": ", side-input0 ,,side-input1,"}).side_inputs("s") == ("side-input0", "side-input1")


def test_the_factory_of_the_side_inputs_processor() -> None:
    config = Config({"stores.s.side.inputs.processor.factory": "my.side.inputs.factory.class"})
    assert config.side_inputs_processor("s") == "my.side.inputs.factory.class"
    assert config.side_inputs_processor("t") is None


def test_store_names_have_no_duplicates() -> None:
    keys = ["stores.store1.factory", "stores.store1.side.inputs.processor.factory", "stores.store1.side.inputs"]
    assert Config(dict.fromkeys(keys, "x")).store_names == ("store1",)


def test_side_inputs_are_stream_ids_or_system_and_stream() -> None:
    assert Config({"stores.s.side.inputs": "kafka.topicA,streamId"}).side_inputs("s") == ("kafka.topicA", "streamId")


@pytest.mark.parametrize(("text", "expected"), [("16", 16), (" 7 ", 7), ("-1", None), ("", None), (None, None), (16, 16)])
def test_partitions_of_intermediate_streams(text: Any, expected: int | None) -> None:
    assert Config({"job.intermediate.stream.partitions": text}).intermediate_partitions == expected


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "1_000", "٣"])
def test_rejects_partitions_that_are_no_count(text: str) -> None:
    with pytest.raises(ConfigError, match=r"job\.intermediate\.stream\.partitions is .* in samza\.toml") as caught:
        _ = Config({"job.intermediate.stream.partitions": text}, source="samza.toml").intermediate_partitions
    assert caught.value.facts == {"key": "job.intermediate.stream.partitions", "value": text, "source": "samza.toml"}
    assert caught.value.hint


def test_an_unused_key_is_not_read() -> None:
    assert Config({"job.intermediate.stream.partitions": "0"}).app_mode == "STREAM"


def test_defaults() -> None:
    config = Config()
    assert config.intermediate_partitions_max == 256
    assert config.app_mode == "STREAM"
    assert config.batch_size is None
    assert config.chooser_class is None
    assert config.waits_for_head_of_all is False
    assert config.standby_replication == 1
    assert config.watermark_idle_timeout_ms is None


def test_values() -> None:
    config = Config(
        {
            "job.intermediate.stream.partitions.max": "512",
            "app.mode": "batch",
            "task.consumer.batch.size": "100",
            "task.chooser.class": "my.Chooser",
            "task.chooser.wait.for.head": "all",
            "job.standbytasks.replication.factor": "2",
            "task.watermark.idle.timeout.ms": "5000",
            "stores.s.changelog": "kafka.s-changelog",
        }
    )
    assert (config.intermediate_partitions_max, config.app_mode, config.batch_size) == (512, "BATCH", 100)
    assert (config.chooser_class, config.waits_for_head_of_all) == ("my.Chooser", True)
    assert (config.standby_replication, config.watermark_idle_timeout_ms) == (2, 5000)
    assert config.changelog("s") == "kafka.s-changelog"


@pytest.mark.parametrize(
    ("key", "value", "ask"),
    [
        ("job.intermediate.stream.partitions.max", "0", lambda config: config.intermediate_partitions_max),
        ("app.mode", "micro", lambda config: config.app_mode),
        ("task.consumer.batch.size", "0", lambda config: config.batch_size),
        ("task.chooser.wait.for.head", "some", lambda config: config.waits_for_head_of_all),
        ("job.standbytasks.replication.factor", "0", lambda config: config.standby_replication),
        ("task.watermark.idle.timeout.ms", "soon", lambda config: config.watermark_idle_timeout_ms),
        ("task.watermark.idle.timeout.ms", "0", lambda config: config.watermark_idle_timeout_ms),
        ("task.window.ms", "0", lambda config: config.window_ms),
        ("task.window.ms", "-2", lambda config: config.window_ms),
        ("task.max.concurrency", "0", lambda config: config.max_concurrency),
        ("task.callback.timeout.ms", "0", lambda config: config.callback_timeout_ms),
        ("my.flag", "yes", lambda config: config.boolean("my.flag")),
    ],
)
def test_rejects_values_that_cannot_be_used(key: str, value: str, ask: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(Config({key: value}))
    assert (caught.value.facts["key"], caught.value.facts["value"]) == (key, value)


def test_times_of_tasks_are_off_unless_set() -> None:
    for config in (Config({}), Config({"task.window.ms": "-1", "task.callback.timeout.ms": "-1", "task.watermark.idle.timeout.ms": "-1"})):
        assert (config.window_ms, config.callback_timeout_ms, config.watermark_idle_timeout_ms, config.max_concurrency) == (
            None,
            None,
            None,
            1,
        )
    config = Config({"task.window.ms": "60000", "task.callback.timeout.ms": "1", "task.max.concurrency": "8"})
    assert (config.window_ms, config.callback_timeout_ms, config.max_concurrency) == (60_000, 1, 8)


def test_flags() -> None:
    assert Config({"a": "TRUE"}).boolean("a")
    assert not Config({"a": "false"}).boolean("a", default=True)
    assert Config({"a": " "}).boolean("a", default=True)


def test_values_are_not_shown() -> None:
    assert "hunter2" not in repr(Config({"systems.db.password": "hunter2"}))
