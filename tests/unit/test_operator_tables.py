"""Every kind of operator has a row in each table by kind, so that none can be forgotten."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import get_args

import pytest

import airflow_samza.task.operators as runtime
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, ReadTimeSpec
from airflow_samza.planner.partitioning import AFTER
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.program.kinds.registry import KINDS as TASK_KINDS
from tests.support.operator_kinds import operator_kinds, subclasses

KINDS = operator_kinds()
STATEFUL = {kind for kind in KINDS if inspect.getattr_static(kind, "keeps_state") is not False}
"""Kinds that keep state, all of them or some."""


@pytest.mark.parametrize(
    ("table", "rows", "kinds"),
    [
        ("planner.partitioning.AFTER", AFTER, KINDS - {InputOperatorSpec}),
        ("task.program.kinds.registry.KINDS", TASK_KINDS, KINDS),
    ],
)
def test_every_kind_of_operator_has_a_row(
    table: str, rows: Mapping[type[OperatorSpec], object], kinds: set[type[OperatorSpec]]
) -> None:
    missing, unknown = kinds - rows.keys(), rows.keys() - kinds
    assert not missing, f"{table} has no row for {sorted(kind.__name__ for kind in missing)}"
    assert not unknown, f"{table} has rows for {sorted(kind.__name__ for kind in unknown)}"


def test_the_kinds_that_keep_state_have_a_meaning_of_it() -> None:
    assert {kind for kind, facts in TASK_KINDS.items() if facts.meaning is not None} == STATEFUL


def test_every_kind_of_operator_states_all_that_is_asked_of_it() -> None:
    left_out = {kind.__name__: sorted(kind.__abstractmethods__) for kind in KINDS if inspect.isabstract(kind)}
    assert not left_out
    assert all(isinstance(kind.op, str) for kind in KINDS)


@pytest.mark.parametrize(
    ("held", "fact"), [(StreamDescriptor, "written_streams"), (TableDescriptor, "tables")], ids=["streams", "tables"]
)
def test_a_kind_that_has_streams_or_tables_names_them(held: type, fact: str) -> None:
    silent = [
        kind.__name__
        for kind in KINDS - {InputOperatorSpec}
        if any(held.__name__ in str(each.type) for each in dataclasses.fields(kind) if each.name != "side_outputs")
        and getattr(kind, fact) is getattr(OperatorSpec, fact)
    ]
    assert not silent, f"{fact} is not defined by {silent}"


def test_attributes_that_plans_show_are_there() -> None:
    lacking = [
        (kind.__name__, attribute)
        for kind in KINDS
        for attribute in (each if isinstance(each, str) else each[1] for each in kind.shown)  # type: ignore[attr-defined]
        if attribute not in {field.name for field in dataclasses.fields(kind)} and not hasattr(kind, attribute)
    ]
    assert not lacking


def test_an_operator_that_takes_snapshots_is_of_a_kind_that_keeps_state() -> None:
    for module in pkgutil.walk_packages(runtime.__path__, f"{runtime.__name__}."):
        importlib.import_module(module.name)
    keeping = {
        kind
        for operator in subclasses(Operator)
        if operator.snapshot is not Operator.snapshot
        for base in operator.__orig_bases__  # type: ignore[attr-defined]
        for kind in get_args(base)
    }
    assert len(keeping) > 4
    # The time that has been reached belongs to no partition: it is as good in any other task.
    assert keeping - STATEFUL == {ReadTimeSpec}


def test_no_fact_is_given_when_an_operator_is_made() -> None:
    facts = OperatorSpec.__abstractmethods__
    given = {(kind.__name__, field.name) for kind in KINDS for field in dataclasses.fields(kind) if field.name in facts}
    assert not given
