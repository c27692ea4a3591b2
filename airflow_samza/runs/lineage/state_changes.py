"""The comparison of a version's state with the application's code, made by each plan that goes on from the version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_samza.errors import PlanChanged
from airflow_samza.runs.lineage.versions import Version
from airflow_samza.runs.records.state_meaning import STORE, STORE_TABLE, StateMeaning

_TIMES = frozenset({"reached", "watermark", "times"})
"""The tables of a state that only tell how far time has come."""

_COUNTED = frozenset({"closed", "counted"})
"""The tables of windows that hold no messages; other windows cannot go on from them, but nothing is lost with them."""


def changed_state(
    version: Version,
    meanings: Mapping[str, StateMeaning],
    former: Mapping[str, str],
    dropped: tuple[str, ...],
    application: str,
) -> list[PlanChanged]:
    """Return an error for each state of a version that the application would misread, or leave behind unnoticed.

    ``meanings`` are those of the application as it is now, ``former`` the keys of renamed state by the present key.
    ``dropped`` are the names of which the application says that their state may go.
    """
    kept = _kept(version, _TIMES)
    errors = [
        _misread(version, meaning, was, application)
        for key, meaning in sorted(meanings.items())
        if (was := kept.get(_former(key, former))) is not None and any(meaning.changes(was))
    ]
    taken: dict[str, StateMeaning] = {}
    for key, meaning in sorted(meanings.items()):
        first = taken.setdefault(_former(key, former), meaning)
        if first is not meaning and _former(key, former) in kept:
            errors.append(_taken_twice(version, first, meaning, kept[_former(key, former)]))
    lost = [
        was
        for key, was in sorted(_kept(version, _TIMES | _COUNTED).items())
        if key not in taken and was.name not in dropped
    ]
    return errors + [_orphan(version, was, application) for was in lost]


def dropped_and_there(
    meanings: Mapping[str, StateMeaning], dropped: tuple[str, ...], application: str
) -> list[PlanChanged]:
    """Return an error for each state of the application that it says is dropped: it would be gone on from."""
    return [
        PlanChanged(
            f"The application {application!r} says dropped=[{meaning.name!r}], and still has {meaning.title}, "
            "which continues from its state.",
            hint=f"Give it a new id, and it starts empty; or take {meaning.name!r} out of dropped.",
            application=application,
            operator=meaning.name,
        )
        for _, meaning in sorted(meanings.items())
        if meaning.name in dropped
    ]


def _former(key: str, former: Mapping[str, str]) -> str:
    owner, store, name = key.partition(STORE)
    return f"{former.get(owner, owner)}{store}{name}"


def _kept(version: Version, passed_by: frozenset[str]) -> dict[str, StateMeaning]:
    """The meanings of which a version holds rows, by key; the tables ``passed_by`` do not count."""
    return {key: meaning for key, meaning in version.meanings.items() if any(_rows(version, key, passed_by))}


def _rows(version: Version, key: str, passed_by: frozenset[str]) -> Iterator[int]:
    owner, store, name = key.partition(STORE)
    whole = f"{STORE_TABLE}{name}"
    for tasks in version.stages.values():
        for left in tasks.values():
            for table, file in ((left["state"] or {}).get(owner) or {}).items():
                of_store = table.startswith(STORE_TABLE)
                if (
                    table not in passed_by
                    and of_store == bool(store)
                    and (not store or table == whole or table.startswith(f"{whole}."))
                ):
                    yield int(file["rows"])


def _misread(version: Version, meaning: StateMeaning, was: StateMeaning, application: str) -> PlanChanged:
    changes = "; ".join(sorted(meaning.changes(was)))
    return PlanChanged(
        f"The state of {meaning.title} in version {version.number} was made by another definition than the "
        "application's: "
        f"{changes}.",
        hint=f"Change it back; or give it a new id and set dropped=[{was.name!r}] to start it empty; or forget all "
        "state: "
        f"airflow-samza state reset {application}",
        operator=meaning.name,
        version=version.number,
        changes=changes,
    )


def _taken_twice(version: Version, one: StateMeaning, other: StateMeaning, was: StateMeaning) -> PlanChanged:
    return PlanChanged(
        f"Both {one.title} and {other.title} would continue from the state of {was.title} in version {version.number}.",
        hint=f"Set renamed_from={was.name!r} on one of them only, and give the new operator an id that was never used.",
        operator=other.name,
        version=version.number,
    )


def _orphan(version: Version, was: StateMeaning, application: str) -> PlanChanged:
    return PlanChanged(
        f"Version {version.number} holds the state of {was.title}, which the application {application!r} does not "
        "have any more.",
        hint=f"If it has another id now, set renamed_from={was.name!r} there; if its state may be deleted, set "
        f"dropped=[{was.name!r}] of the application.",
        operator=was.name,
        version=version.number,
    )
