"""One test per case of the folder of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conformance.case_files import ConformanceCase
from tests.conformance.chooser_cases import run_config_case, run_sequence_case
from tests.conformance.control_cases import run_checkpoint_case, run_end_of_stream_case, run_watermark_case
from tests.conformance.planner_cases import run_planner_case
from tests.conformance.side_input_cases import run_catch_up_case, run_processing_case, run_starting_offset_case

RUNNERS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "planner": run_planner_case,
    "end_of_stream": run_end_of_stream_case,
    "watermark": run_watermark_case,
    "checkpoint": run_checkpoint_case,
    "sequences": run_sequence_case,
    "config": run_config_case,
    "starting_offsets": run_starting_offset_case,
    "catch_up": run_catch_up_case,
    "processing": run_processing_case,
}


def test_case(conformance_case: ConformanceCase) -> None:
    if conformance_case.problem:
        pytest.fail(conformance_case.problem)
    RUNNERS[conformance_case.section](conformance_case.data)
