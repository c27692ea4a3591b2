"""Every error of the tree crosses process boundaries: it pickles, and it has a JSON form that comes back."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

from airflow_samza import errors
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import PartitionMismatch, PlanErrors, SamzaError, UnknownName


def tree(kind: type[SamzaError]) -> Iterator[type[SamzaError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


KINDS = sorted(
    {kind for kind in tree(SamzaError) if kind.__module__ == errors.__name__}, key=lambda kind: kind.__name__
)
PLAIN = [kind for kind in KINDS if kind is not PlanErrors]


def test_every_error_pickles_with_all_its_facts() -> None:
    made = [kind("The thing is 3.", hint="Make it 4.", value=3, place=SourceLocation("a.py", 7)) for kind in PLAIN]
    again = [pickle.loads(pickle.dumps(error)) for error in made]
    assert [type(error) for error in again] == PLAIN
    assert [(e.sentence, e.hint, e.facts, str(e)) for e in again] == [
        (e.sentence, e.hint, e.facts, str(e)) for e in made
    ]


def test_every_error_comes_back_from_json() -> None:
    made = [kind("The thing is 3.", hint="Make it 4.", value=3, place=SourceLocation("a.py", 7)) for kind in PLAIN]
    again = [SamzaError.from_dict(json.loads(json.dumps(error.to_dict()))) for error in made]
    assert [type(error) for error in again] == PLAIN
    assert [(e.sentence, e.hint, e.to_dict()) for e in again] == [(e.sentence, e.hint, e.to_dict()) for e in made]
    assert all(error.facts == {"value": 3, "place": "a.py:7"} for error in again)


def conflicts() -> PlanErrors:
    return PlanErrors(
        [PartitionMismatch("A has 4, B has 8.", hint="Repartition B.", left=4), UnknownName("There is no C.", name="C")]
    )


def test_several_conflicts_pickle_one_by_one() -> None:
    again = pickle.loads(pickle.dumps(conflicts()))
    assert str(again) == str(conflicts())
    assert [type(error) for error in again.errors] == [PartitionMismatch, UnknownName]
    assert again.errors[0].facts == {"left": 4}


def test_several_conflicts_come_back_from_json() -> None:
    again = SamzaError.from_dict(json.loads(json.dumps(conflicts().to_dict())))
    assert isinstance(again, PlanErrors)
    assert [(type(error), error.sentence, error.hint) for error in again.errors] == [
        (PartitionMismatch, "A has 4, B has 8.", "Repartition B."),
        (UnknownName, "There is no C.", ""),
    ]
    assert str(again) == str(conflicts())


def test_a_type_that_is_not_known_here_comes_back_as_the_root() -> None:
    again = SamzaError.from_dict({"type": "FromTheFuture", "sentence": "It is new.", "hint": "", "facts": None})
    assert type(again) is SamzaError
    assert str(again) == "It is new."


def test_the_hint_stands_below_the_sentence() -> None:
    assert str(SamzaError("It is 3.", hint="Make it 4.")) == "It is 3.\n  Hint: Make it 4."
    assert str(SamzaError("It is 3.")) == "It is 3."


def test_every_error_has_a_rule_of_its_own_or_its_parents() -> None:
    assert all(kind.rule for kind in KINDS)
    assert {kind.rule for kind in KINDS if not kind.retryable} >= {
        "duplicate-id",
        "bad-id",
        "partition-mismatch",
        "runtime-missing",
    }
