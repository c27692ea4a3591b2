"""The setting of warm runners: a number with bounds, or one sentence that says what is wrong with it."""

from __future__ import annotations

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.launch.warm.settings import (
    DEFAULT,
    VARIABLE,
    WarmRunners,
    configured_warm_runners,
    parse_warm_runners,
)


@pytest.mark.parametrize("text", ["", " ", "0", "off", " Off ", "off,idle=5"])
def test_there_are_no_warm_runners_unless_a_number_says_so(text: str) -> None:
    assert not parse_warm_runners(text)


def test_bounds_stand_behind_the_number_in_any_order() -> None:
    assert parse_warm_runners("3, memory=900 ,idle=5") == WarmRunners(3, idle=5.0, memory=900)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("two", "'two' is no whole number from 0"),
        ("-1", "'-1' is no whole number from 0"),
        ("2,idle=0", "'0' is no whole number from 1"),
        ("2,idle", "'' is no whole number from 1"),
        ("2,idel=5", "'idel=5' is no bound of warm runners"),
        ("2,idle=5,idle=6", "'idle=6' is a bound that is there already"),
        ("2,most=3", "'most=3' is no bound of warm runners"),
    ],
)
def test_rejects_a_setting_that_is_no_number_with_bounds(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_warm_runners(text)
    assert caught.value.sentence == f"[samza] warm_runners is {text!r}, and {sentence}."


def test_the_environment_counts_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "4")
    assert configured_warm_runners().most == 4
    assert configured_warm_runners("1").most == 1
    assert configured_warm_runners("").most == 0


def test_without_a_setting_a_host_keeps_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert configured_warm_runners() == parse_warm_runners("on") == parse_warm_runners(DEFAULT)
    assert configured_warm_runners()
    for off in ("off", "0"):
        monkeypatch.setenv(VARIABLE, off)
        assert not configured_warm_runners()
