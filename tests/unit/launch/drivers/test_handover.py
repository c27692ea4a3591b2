from __future__ import annotations

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.handover import seal, unseal


def test_an_old_key_does_not_open_another_hand_over() -> None:
    sealed, key = seal(b'{"password": "hidden"}')
    other, other_key = seal(b'{"password": "hidden"}')
    assert unseal(sealed, key) == unseal(other, other_key)
    assert sealed != other
    for damaged, wrong in ((sealed, other_key), (sealed[:-1], key), (b"", key)):
        with pytest.raises(StageFailed, match="does not fit its key"):
            unseal(damaged, wrong)
