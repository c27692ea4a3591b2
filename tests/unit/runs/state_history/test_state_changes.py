"""Inputs that an application reads otherwise than up to a version of its state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.runs.records.state_meaning import ARRIVALS, INPUT, READ, SECTIONS
from airflow_samza.runs.state_history.state_changes import _has_watermark, changed_inputs, input_meaning
from airflow_samza.runs.state_history.versions import Version
from tests.support.record_samples import SAMPLES

VERSION = replace(
    next(sample for sample in SAMPLES if isinstance(sample, Version)),
    meanings={f"{INPUT}views": input_meaning("views", {READ: SECTIONS})},
)


def test_an_input_that_is_read_otherwise_is_told_beside_a_new_one() -> None:
    views, new = input_meaning("views", {READ: ARRIVALS}), input_meaning("a", {READ: ARRIVALS})
    (alone,) = changed_inputs(VERSION, {"views": views}, {}, (), "page-views")
    (beside,) = changed_inputs(VERSION, {"a": new, "views": views}, {}, (), "page-views")
    assert ARRIVALS in alone.sentence
    assert beside.sentence == alone.sentence


def test_an_input_that_is_read_as_before_is_not_told_beside_a_new_one() -> None:
    views, new = input_meaning("views", {READ: SECTIONS}), input_meaning("a", {READ: SECTIONS})
    assert changed_inputs(VERSION, {"a": new, "views": views}, {}, (), "page-views") == []


@pytest.mark.parametrize(
    ("watermarks", "has"),
    [([NONE_YET, 5], True), ([NONE_YET], False), ([NONE_YET, END_OF_TIME], False), ([], False)],
)
def test_an_operator_has_a_watermark_once_one_of_its_producers_has(watermarks: list[int], has: bool) -> None:
    upstreams = {str(producer): watermark for producer, watermark in enumerate(watermarks)}
    assert _has_watermark({"operators": {"count": {"watermark": {"upstreams": upstreams}}}}, "count") is has
