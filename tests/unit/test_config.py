"""Samza's configuration keys, read with their types.

A value that cannot be used is an error that names key, value and source.
"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import config as config_module
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError

# What the side inputs' cases say of the configuration, in words (section "config").


def test_no_side_inputs() -> None:
    assert Config({}).side_inputs("s") == ()
    assert Config({"stores.s.side.inputs": None}).side_inputs("s") == ()


def test_blanks_in_side_inputs_are_left_out() -> None:
    assert Config({"stores.s.side.inputs": ", side-input0 ,,side-input1,"}).side_inputs("s") == (
        "side-input0",
        "side-input1",
    )


def test_the_factory_of_the_side_inputs_processor() -> None:
    config = Config({"stores.s.side.inputs.processor.factory": "my.side.inputs.factory.class"})
    assert config.side_inputs_processor("s") == "my.side.inputs.factory.class"
    assert config.side_inputs_processor("t") is None


def test_store_names_have_no_duplicates() -> None:
    keys = ["stores.store1.factory", "stores.store1.side.inputs.processor.factory", "stores.store1.side.inputs"]
    assert Config(dict.fromkeys(keys, "x")).store_names == ("store1",)


def test_side_inputs_are_stream_ids_or_system_and_stream() -> None:
    assert Config({"stores.s.side.inputs": "kafka.topicA,streamId"}).side_inputs("s") == ("kafka.topicA", "streamId")


@pytest.mark.parametrize(
    ("text", "expected"), [("16", 16), (" 7 ", 7), ("-1", None), ("", None), (None, None), (16, 16)]
)
def test_partitions_of_intermediate_streams(text: Any, expected: int | None) -> None:
    assert Config({"job.intermediate.stream.partitions": text}).intermediate_partitions == expected


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "1_000", "٣", "65537", "2147483648", "9" * 5000])
def test_rejects_partitions_that_are_no_count(text: str) -> None:
    with pytest.raises(ConfigError, match=r"job\.intermediate\.stream\.partitions is .* in samza\.toml") as caught:
        _ = Config({"job.intermediate.stream.partitions": text}, source="samza.toml").intermediate_partitions
    assert caught.value.facts == {"key": "job.intermediate.stream.partitions", "value": text, "source": "samza.toml"}
    assert caught.value.hint


@pytest.mark.parametrize("key", ["job.intermediate.stream.partitions", "job.intermediate.stream.partitions.max"])
def test_the_largest_count_of_partitions_is_65_536_and_a_cap_may_be_any_int(key: str) -> None:
    config = Config(dict.fromkeys([key], "65536"))
    assert 65536 in (config.intermediate_partitions, config.intermediate_partitions_max)
    assert Config({"job.intermediate.stream.partitions.max": "2147483647"}).intermediate_partitions_max == 2147483647


@pytest.mark.parametrize(
    ("values", "key", "expected"),
    [
        ({}, None, True),
        ({"yarn.samza.host-affinity.enabled": "false"}, "yarn.samza.host-affinity.enabled", False),
        ({"yarn.samza.host-affinity.enabled": "TRUE"}, "yarn.samza.host-affinity.enabled", True),
        (
            {"job.host-affinity.enabled": "true", "yarn.samza.host-affinity.enabled": "false"},
            "job.host-affinity.enabled",
            True,
        ),
        (
            {"job.host-affinity.enabled": " ", "yarn.samza.host-affinity.enabled": "false"},
            "yarn.samza.host-affinity.enabled",
            False,
        ),
    ],
)
def test_the_old_key_of_host_affinity_counts_where_the_new_one_says_nothing(
    values: Any, key: str | None, expected: bool
) -> None:
    assert (Config(values).host_affinity_key, Config(values).host_affinity) == (key, expected)


def test_rejects_standby_copies_when_the_old_key_switches_host_affinity_off() -> None:
    with pytest.raises(ConfigError) as caught:
        Config({"yarn.samza.host-affinity.enabled": "false", "job.standbytasks.replication.factor": "2"}).check()
    assert "set yarn.samza.host-affinity.enabled to true" in caught.value.hint


WRONG = {
    "app.mode": "SOMETIMES",
    "job.host-affinity.enabled": "sometimes",
    "job.inputs.bounded": "perhaps",
    "job.inputs.flush": "now",
    "job.messages.shown": "sometimes",
    "yarn.samza.host-affinity.enabled": "sometimes",
    "job.intermediate.stream.whole.messages": "perhaps",
    "job.standbytasks.replication.factor": "0",
    "job.store.local.max.bytes": "9" * 30,
    "job.state.lease.grace.ms": "soon",
    "job.state.lease.wait.ms": "-1",
    "job.state.versions.keep": "1",
    "job.driver.max.messages": "-1",
    "job.epoch.max.messages": "0",
    "job.epoch.max.ms": "0",
    "job.epoch.min.ms": "-1",
    "task.consumer.batch.size": "9223372036854775808",
    "task.chooser.wait.for.head": "some",
    "task.chooser.priorities.kafka.views": "high",
    "task.callback.timeout.ms": "0",
    "task.max.concurrency": "many",
    "task.window.ms": "0",
    "task.watermark.idle.timeout.ms": "0",
    "streams.views.samza.offset.default": "newest",
    "streams.views.samza.bootstrap": "first",
    "streams.views.samza.bounded": "perhaps",
    "streams.views.samza.priority": "high",
    "systems.kafka.streams.views.samza.bootstrap": "first",
    "systems.kafka.streams.views.samza.priority": "1.5",
    "stores.s.factory": "leveldb",
    "stores.s.rocksdb.ttl.ms": "-2",
    "stores.s.max.key.bytes": "0",
    "stores.s.max.value.bytes": "x",
    "stores.s.max.bytes": "x",
}


@pytest.mark.parametrize("key", WRONG)
def test_rejects_a_key_with_a_value_that_means_nothing_before_anything_depends_on_it(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config({key: WRONG[key]}).check()
    assert (caught.value.facts["key"], caught.value.facts["value"]) == (key, WRONG[key])


def test_every_key_that_is_not_free_text_has_a_wrong_value_above() -> None:
    free = {
        "task.chooser.class",
        "job.store.local.dir",
    }  # and partitions of intermediate streams: read when a plan has one (rule P3)
    named = {
        value
        for name, value in vars(config_module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    assert {key for key in named if "intermediate.stream.partitions" not in key} - free <= set(WRONG)


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
    for config in (
        Config({}),
        Config({"task.window.ms": "-1", "task.callback.timeout.ms": "-1", "task.watermark.idle.timeout.ms": "-1"}),
    ):
        assert (
            config.window_ms,
            config.callback_timeout_ms,
            config.watermark_idle_timeout_ms,
            config.max_concurrency,
        ) == (
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
