"""Parts that a run leaves out, for the test that none of this folder is left out for good."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

_LEFT_OUT: list[pytest.Item] = []


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Note what ``-m`` and ``-k`` leave out."""
    _LEFT_OUT.extend(items)


@pytest.fixture
def left_out() -> Sequence[pytest.Item]:
    return _LEFT_OUT
