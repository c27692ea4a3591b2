"""Stage ids (rule P7): named after a stage's input streams, stable from run to run, safe in topic and task names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from airflow_samza.grouping import grouped

# The other tasks of a Dag's task group for an application; a stage must not take their names.
RESERVED = frozenset({"plan", "cleanup"})

# Airflow takes task ids of 250 characters, with the ids of the groups around them; topics of some systems take 249.
LONGEST = 100

_SHOWN = 3


def name_stages(stages: Sequence[tuple[frozenset[str], frozenset[str], bool]]) -> list[str]:
    """The ids of stages given as (inputs, outputs, whether it reads what it writes), in the same order.

    A stage is named after its inputs, a circular one after those that it does not write itself. Where that leaves two
    stages with one name, their outputs distinguish them, and at last a number by the order of what they read and write.

    >>> name_stages([(frozenset({"by-member"}), frozenset({"by-country"}), False)])
    ['by-member']
    """
    first = [_after_inputs(inputs - outputs if circular else inputs, circular) for inputs, outputs, circular in stages]
    second = list(first)
    for places in _shared(first).values():
        for place in places:
            second[place] = _safe(
                f"{first[place]}-to-{_listed(stages[place][1])}" if stages[place][1] else first[place]
            )
    taken = set(second)
    final = list(second)
    for name, places in sorted(_shared(second).items()):
        ordered = sorted(
            places, key=lambda place: (sorted(stages[place][0]), sorted(stages[place][1]), stages[place][2])
        )
        number = 2
        for place in ordered[1:]:
            while f"{name}-{number}" in taken:
                number += 1
            final[place] = f"{name}-{number}"
            taken.add(final[place])
    return final


def _shared(names: Iterable[str]) -> dict[str, list[int]]:
    places = grouped((name, place) for place, name in enumerate(names))
    return {name: where for name, where in places.items() if len(where) > 1}


def _after_inputs(inputs: Iterable[str], circular: bool) -> str:
    name = _listed(inputs) + ("-loop" if circular else "")
    return _safe(f"{name}-stage" if name in RESERVED else name)


def _listed(streams: Iterable[str]) -> str:
    ordered = sorted(streams)
    if len(ordered) <= _SHOWN:
        return "-and-".join(ordered)
    # A digest instead of a number: two stages that share their first streams stay apart, whatever else is planned.
    digest = hashlib.sha256("\n".join(ordered).encode()).hexdigest()[:6]
    return f"{ordered[0]}-and-{len(ordered) - 1}-more-{digest}"


def _safe(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    if plain == name and len(name) <= LONGEST:
        return name
    return f"{plain[: LONGEST - 7]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
