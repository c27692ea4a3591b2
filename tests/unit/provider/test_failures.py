from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_samza.errors import ConfigError, MessageError, PlanErrors, SamzaError, StageLost, UpstreamCleared
from airflow_samza.provider.failures import mapped_failures


def every_error(kind: type[SamzaError] = SamzaError) -> list[type[SamzaError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("kind", [kind for kind in every_error() if kind is not PlanErrors])
def test_only_what_is_retryable_is_retried(kind: type[SamzaError]) -> None:
    with pytest.raises(AirflowException) as raised, mapped_failures():
        raise kind("It failed.", hint="Mend it.")
    # A retry is of the generation that is bound to what was cleared; only a clear of its own brings another.
    assert isinstance(raised.value, AirflowFailException) is not (kind.retryable and kind is not UpstreamCleared)
    assert str(raised.value) == "It failed.\n  Hint: Mend it."


def test_the_sentence_is_told_and_the_error_kept() -> None:
    told: list[str] = []
    error = MessageError("m", operator="map", file="a.py", line=3)
    with pytest.raises(AirflowException) as raised, mapped_failures(told.append):
        raise error
    assert told == ["m"]
    assert raised.value.error is error


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), mapped_failures():
        raise ZeroDivisionError


def test_a_lost_runner_is_tried_again_and_a_wrong_setting_is_not() -> None:
    assert StageLost.retryable
    assert not ConfigError.retryable
