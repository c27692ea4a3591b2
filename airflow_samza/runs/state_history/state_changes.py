"""The comparison of a version's state with the application's code, made by each plan that goes on from the version.

The plan step rejects by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.errors import PlanChanged
from airflow_samza.runs.records.state_meaning import (
    ARRIVALS,
    AT,
    INPUT,
    POSITIONS,
    READ,
    SECTIONS,
    STORE,
    STORE_TABLE,
    WHOLE,
    StateMeaning,
)
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import Version

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
        _misread(version, meaning, was)
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


def lies_by_partitions(version: Version) -> bool:
    """Return whether a version holds anything that depends on which task has which partition (rule P10).

    That is any row. The tables that tell how far time has come do not, as long as no watermark has come: after a drain,
    and after runs without messages. Then windows of another task would take late messages for others.
    """
    return any(
        int(file["rows"]) and (table not in _TIMES | _COUNTED or _has_watermark(left["checkpoint"], owner))
        for tasks in version.stages.values()
        for left in tasks.values()
        for owner, tables in (left["state"] or {}).items()
        for table, file in (tables or {}).items()
    )


def _has_watermark(checkpoint: Mapping[str, Any] | None, owner: str) -> bool:
    progress = (checkpoint or {}).get("operators", {}).get(owner, {})
    upstreams = progress.get("watermark", {}).get("upstreams", {})
    return any(NONE_YET < timestamp < END_OF_TIME for timestamp in upstreams.values())


def reject_dropped_but_declared(
    meanings: Mapping[str, StateMeaning], dropped: tuple[str, ...], application: str
) -> list[PlanChanged]:
    """Return an error for each state of the application that it says is dropped: it would be gone on from."""
    return [
        _dropped_but_declared(meaning, application, is_input=key.startswith(INPUT))
        for key, meaning in sorted(meanings.items())
        if meaning.name in dropped and (not key.startswith(INPUT) or meaning.facets[READ] in POSITIONS)
    ]


def _dropped_but_declared(meaning: StateMeaning, application: str, *, is_input: bool) -> PlanChanged:
    goes_on = "is read on from where the last run stopped" if is_input else "continues from its state"
    anew = "is read from its start" if is_input else "starts empty"
    return PlanChanged(
        f"The application {application!r} says dropped=[{meaning.name!r}], and still has {meaning.title}, which "
        f"{goes_on}.",
        hint=f"Give it a new id, and it {anew}; or take {meaning.name!r} out of dropped.",
        application=application,
        operator=meaning.name,
    )


def changed_inputs(
    version: Version,
    meanings: Mapping[str, StateMeaning],
    former: Mapping[str, str],
    dropped: tuple[str, ...],
    application: str,
) -> list[PlanChanged]:
    """Return an error for each input that would be read again, or not at all, as its id, place or range is another.

    ``meanings`` are those of the application's inputs as it is now, ``former`` the ids of renamed inputs by the present
    id. ``dropped`` are the names of which the application says that their state may go.
    """
    read_before = _inputs(version)
    errors = []
    taken: dict[str, StateMeaning] = {}
    for stream_id, meaning in sorted(meanings.items()):
        was = read_before.get(former.get(stream_id, stream_id))
        if was is None:
            continue
        if changes := _otherwise(version, was, meaning):
            errors.append(_read_otherwise(version, was, meaning, changes, application))
        first = taken.setdefault(was.name, meaning)
        if first is not meaning and _is_read(version, was):
            errors.append(_read_on_twice(version, first, meaning, was))
    new = [meaning for meaning in meanings.values() if former.get(meaning.name, meaning.name) not in read_before]
    lost = [
        was
        for _, was in sorted(read_before.items())
        if was.name not in taken and was.name not in dropped and _is_read(version, was)
    ]
    return errors + [_unread(version, was, new, application) for was in lost]


def _inputs(version: Version) -> dict[str, StateMeaning]:
    """The meanings of the inputs of a version, by stream id.

    Versions of earlier releases say nothing of them: those are read as what the version holds of them was.
    """
    inputs = {}
    for stream in version.plan.streams:
        if stream.role == "input":
            kept = {SECTIONS: version.sections, ARRIVALS: {**version.arrived, **version.read}}
            read = next((word for word, of in kept.items() if stream.stream_id in of), None)
            meaning = input_meaning(stream.stream_id, {READ: read} if read is not None else {})
            inputs[stream.stream_id] = version.meanings.get(f"{INPUT}{stream.stream_id}", meaning)
    return inputs


def input_meaning(stream_id: str, facets: Mapping[str, str]) -> StateMeaning:
    """Return the meaning of how far an input was read."""
    return StateMeaning(f"the input {stream_id!r}", stream_id, facets)


def _is_read(version: Version, was: StateMeaning) -> bool:
    """Return whether a version says how far an input was read, and later runs go on from there."""
    return was.facets.get(READ) in POSITIONS and version.read_up_to(was.name) is not None


def _otherwise(version: Version, was: StateMeaning, now: StateMeaning) -> str:
    """Return, as half sentences, in what an input is read otherwise than up to a version; nothing where it fits."""
    before, here = was.facets.get(READ), now.facets.get(READ)
    if before != here and not {before, here} & POSITIONS:
        return ""
    if before == WHOLE and was.name in version.offsets:  # it was read to its end, and is read on from there
        return ""
    return "; ".join(sorted(now.changes(was)))


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


def _misread(version: Version, meaning: StateMeaning, was: StateMeaning) -> PlanChanged:
    changes = "; ".join(sorted(meaning.changes(was)))
    return PlanChanged(
        f"The state of {meaning.title} in version {version.number} was made "
        "by another definition than the application's: "
        f"{changes}.",
        hint=f"Change it back; or give it a new id and set dropped=[{was.name!r}] to start it empty; or forget all "
        f"state: {_reset(version)}",
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


def _read_otherwise(
    version: Version, was: StateMeaning, meaning: StateMeaning, changes: str, application: str
) -> PlanChanged:
    return PlanChanged(
        f"{was.title.capitalize()} was read otherwise up to version {version.number} than the application "
        f"{application!r} reads {'it' if was.name == meaning.name else meaning.title}: {changes}.",
        hint=f"Change it back; or give it a new id and set dropped=[{was.name!r}], and it is read from its start; or "
        f"forget all state: {_reset(version)}",
        stream=meaning.name,
        version=version.number,
        changes=changes,
    )


def _read_on_twice(version: Version, one: StateMeaning, other: StateMeaning, was: StateMeaning) -> PlanChanged:
    return PlanChanged(
        f"Both {one.title} and {other.title} would be read on from where {was.title} was read up to in version "
        f"{version.number}.",
        hint=f"Set renamed_from={was.name!r} on one of them only, and give the new input an id that was never used.",
        stream=other.name,
        version=version.number,
    )


def _unread(version: Version, was: StateMeaning, new: list[StateMeaning], application: str) -> PlanChanged:
    at = was.facets.get(AT)
    heir = next((meaning for meaning in new if at is not None and meaning.facets.get(AT) == at), None)
    place = f"on {heir.name!r}, which lies where it lay" if heir is not None else "there"
    return PlanChanged(
        f"Version {version.number} holds how far {was.title} was read, and the application {application!r} has no such "
        "input any more.",
        hint=f"If it has another id now, set renamed_from={was.name!r} {place}; if it is not read any more, or is to "
        f"be read again from its start, set dropped=[{was.name!r}] of the application.",
        stream=was.name,
        version=version.number,
    )


def _reset(version: Version) -> str:
    return StateHistory(version.plan.application, version.plan.app_id).reset_command()
