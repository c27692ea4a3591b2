"""A message of a stream that has no dataclass: a dict with attributes, which does not change.

Tasks hand it to the user's code where no dataclass is declared.
"""

from __future__ import annotations

import functools
import operator
from typing import Any


class _Unavailable:
    """A method of dicts that messages do not have; a column of its name is read in its place."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, row: Row | None, kind: type) -> Any:
        if row is None:
            return self
        if self._name in row:
            return row[self._name]
        raise AttributeError("A message does not change; make a new one with Row(row, column=value).")


class Row(dict[str, Any]):
    """A message of a stream without a dataclass: its columns as attributes and as items; it never changes.

    A column that is named like a method of dicts (``items``, ``keys``, ``get``, …) is read as ``row["items"]``.
    ``Row(row, column=value)`` makes a changed copy.

    >>> row = Row({"member_id": 7, "country": "NL"})
    >>> row.country, row["member_id"], dict(row)
    ('NL', 7, {'member_id': 7, 'country': 'NL'})
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The message has no column {name!r}; it has {', '.join(self)}.") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("A message does not change; make a new one with Row(row, column=value).")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A message does not change; make a new one without the column.")

    def __setitem__(self, name: str, value: object) -> None:
        raise TypeError("A message does not change; make a new one with Row(row, column=value).")

    def __delitem__(self, name: str) -> None:
        raise TypeError("A message does not change; make a new one without the column.")

    def __ior__(self, other: object) -> Any:  # type: ignore[misc]  # narrower than that of dict
        return NotImplemented  # so that row |= {…} gives the name a new dict

    clear: Any = _Unavailable()
    copy: Any = _Unavailable()
    fromkeys: Any = _Unavailable()
    pop: Any = _Unavailable()
    popitem: Any = _Unavailable()
    setdefault: Any = _Unavailable()
    update: Any = _Unavailable()

    def __hash__(self) -> int:  # type: ignore[override]  # that of dict is None
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Row, (dict(self),))


@functools.lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """A Row whose columns are known: attributes without a detour. Its instances are Rows in every other respect."""
    methods = {"items", "keys", "values", "get"}
    readers = {
        name: property(operator.itemgetter(name)) for name in names if name not in methods and not name.startswith("__")
    }
    return type("Row", (Row,), {**readers, "__slots__": (), "__module__": Row.__module__})
