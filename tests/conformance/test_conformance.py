"""One test per case of the folder of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conformance.case_files import KIND_OF_SECTION, ConformanceCase
from tests.conformance.chooser_cases import run_config_case, run_sequence_case
from tests.conformance.control_cases import run_checkpoint_case, run_end_of_stream_case, run_watermark_case
from tests.conformance.planner_cases import run_planner_case

COMES_WITH = {
    "starting_offsets": "Tables",
    "catch_up": "Tables",
    "processing": "Tables",
}
"""Sections whose subject this version does not have yet: their cases fail, they are never skipped."""

RUNNERS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "planner": run_planner_case,
    "end_of_stream": run_end_of_stream_case,
    "watermark": run_watermark_case,
    "checkpoint": run_checkpoint_case,
    "sequences": run_sequence_case,
    "config": run_config_case,
}


def test_case(conformance_case: ConformanceCase) -> None:
    if conformance_case.problem:
        pytest.fail(conformance_case.problem)
    section, data = conformance_case.section, conformance_case.data
    if section in COMES_WITH:
        subject = conformance_case.kind if section not in KIND_OF_SECTION else f"{conformance_case.kind}: {section}"
        pytest.fail(f"not implemented yet ({subject}): comes with {COMES_WITH[section]!r}")
    RUNNERS[section](data)
