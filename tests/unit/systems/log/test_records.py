"""Records of a topic: lists that belong together."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.systems.log.records import Segment

LISTS: dict[str, Any] = {"partitions": (0, 1), "rows": (4, 5), "ends": (40, 50, 60), "checksums": (1, 2, 3)}


def test_ends_and_checksums_have_one_entry_more_for_the_footer() -> None:
    assert Segment("s", 60, **LISTS).rows == (4, 5)


@pytest.mark.parametrize("shorter", LISTS)
def test_a_segment_with_lists_of_different_lengths_is_rejected(shorter: str) -> None:
    with pytest.raises(ValueError, match="names segment s with lists of different lengths"):
        Segment("s", 60, **{**LISTS, shorter: LISTS[shorter][1:]})
