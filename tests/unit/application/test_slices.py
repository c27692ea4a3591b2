"""Slices of inputs and the end of a stream that they announce."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.errors import InvalidApplication


def spec_of(**options: Any) -> Any:
    @stream_application("sliced")
    def sliced(app: Any) -> None:
        app.input_stream("views", schema="n bigint, at timestamp", **options).send_to(app.output_stream("out"))

    return sliced.spec()


@pytest.mark.parametrize(
    ("options", "bounded"),
    [
        ({}, True),
        ({"bounded": False}, False),
        ({"slice": "checkpoint"}, False),
        ({"slice": "timestamp", "timestamp": "at"}, True),
        ({"slice": "timestamp", "timestamp": "at", "bounded": False}, False),
    ],
)
def test_what_came_since_the_last_run_is_a_slice_of_what_goes_on(options: dict[str, Any], bounded: bool) -> None:
    assert spec_of(**options).inputs["views"].bounded == bounded


def test_an_input_that_ends_has_no_checkpoint_to_go_on_from() -> None:
    with pytest.raises(
        InvalidApplication, match="input stream 'views' is bounded and has slice=\"checkpoint\""
    ) as caught:
        spec_of(slice="checkpoint", bounded=True)
    assert "leave bounded= out" in caught.value.hint
