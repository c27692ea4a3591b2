"""The shuffles of a DataFrame, as its plan tells them, and what an application would do instead."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.spark import shuffles as module

AGGREGATION = """== Physical Plan ==
AdaptiveSparkPlan (5)
+- HashAggregate (4)
   +- Exchange (3)
      +- HashAggregate (2)
         +- Range (1)


(3) Exchange
Input [2]: [country#3, count#7L]
Arguments: hashpartitioning(country#3, hour#4, 200), ENSURE_REQUIREMENTS, [plan_id=11]

"""

JOIN = """== Physical Plan ==
SortMergeJoin Inner (7)
:- Sort (3)
:  +- Exchange (2)
:     +- Range (1)
+- Sort (6)
   +- Exchange (5)
      +- Range (4)


(2) Exchange
Input [1]: [id#1L]
Arguments: hashpartitioning(id#1L, 200), ENSURE_REQUIREMENTS, [plan_id=1]

(5) Exchange
Input [1]: [id#2L]
Arguments: hashpartitioning(id#2L, 200), ENSURE_REQUIREMENTS, [plan_id=2]

"""

SORTED = """== Physical Plan ==
Sort (3)
+- Exchange (2)
   +- Range (1)


(2) Exchange
Input [1]: [id#1L]
Arguments: rangepartitioning(id#1L ASC NULLS FIRST, 200), ENSURE_REQUIREMENTS, [plan_id=1]

"""

BROADCAST = """== Physical Plan ==
BroadcastHashJoin Inner BuildRight (4)
:- Range (1)
+- BroadcastExchange (3)
   +- Range (2)


(3) BroadcastExchange
Input [1]: [id#2L]
Arguments: HashedRelationBroadcastMode(List(input[0, bigint, false]),false), [plan_id=1]

"""


def found(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(module, "explained", lambda frame: text)
    frame: Any = None
    return module.shuffles(frame)


def test_an_aggregation_is_a_partition_by_and_an_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    (sentence,) = found(AGGREGATION, monkeypatch)
    assert sentence.startswith("it shuffles for its HashAggregate (hashpartitioning(country, hour, 200))")
    assert '.partition_by(["country", "hour"], id=…) and .aggregate(…)' in sentence


def test_a_join_shuffles_both_its_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = found(JOIN, monkeypatch)
    assert len(sentences) == 2
    assert all('.partition_by("id", id=…) on both sides and .join(…)' in sentence for sentence in sentences)


def test_a_sort_of_everything_has_no_partition_by(monkeypatch: pytest.MonkeyPatch) -> None:
    (sentence,) = found(SORTED, monkeypatch)
    assert sentence.endswith("no partition_by replaces that")


def test_a_broadcast_is_no_shuffle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(BROADCAST, monkeypatch) == []


def test_a_plan_of_an_unknown_form_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("nothing that is known", monkeypatch) == []
