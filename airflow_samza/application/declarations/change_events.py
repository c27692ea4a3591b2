"""Forms of streams of changes: a column that says what became of the row, and the envelope of Debezium.

Each change becomes one message in the columns of the row, with the mark ``_deleted`` where the row is gone: a keyed
stream with tombstones, as side inputs, tables, ``apply_changes`` and outputs with ``mode="upsert"`` take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.application.descriptors import ROW_DELETED, ChangeEvents
from airflow_samza.application.rejections import checked_call, did_you_mean, listed, reject
from airflow_samza.schema import Schema

_WRITES = ("c", "r", "u", "i", "insert", "update", "upsert", "read", "update_after", "update_postimage")
_DELETES = ("d", "delete")
_IGNORES = ("update_before", "update_preimage")


@checked_call
def change_events(
    operation: str = "op",
    *,
    writes: str | Sequence[str] | None = None,
    deletes: str | Sequence[str] | None = None,
    ignores: str | Sequence[str] | None = None,
) -> ChangeEvents:
    """Read messages as changes of rows, one column of which says what became of the row; for ``changes=``.

    ```python
    app.input_stream("profile-changes", schema="member_id bigint, tier string", changes=change_events("op"))
    ```

    :param operation: The column with the word for the change. It need not be in the schema.
    :param writes: The words for a row that is new or other than before. Letters count in either case. By default ``c``,
        ``r``, ``u``, ``i``, ``insert``, ``update``, ``upsert``, ``read``, ``update_after`` and ``update_postimage``.
    :param deletes: The words for a row that is gone: the message is a tombstone. By default ``d`` and ``delete``.
    :param ignores: The words for messages that are left out: by default ``update_before`` and ``update_preimage``, the
        row as it was before. Any other word makes a message one that cannot be read.
    """
    given = {"writes": (writes, _WRITES), "deletes": (deletes, _DELETES), "ignores": (ignores, _IGNORES)}
    words = {name: usual if said is None else _words(name, said) for name, (said, usual) in given.items()}
    if not isinstance(operation, str) or not operation.strip():
        reject(f"change_events got operation={operation!r}", hint='Name the column: change_events("op").')
    double = next(
        (
            word
            for name, mine in words.items()
            for word in mine
            for other in words
            if other != name and word in words[other]
        ),
        None,
    )
    if double is not None:
        reject(f"change_events has the word {double!r} twice", hint="Let each word mean one thing.", value=double)
    return ChangeEvents(operation, words["writes"], words["deletes"], words["ignores"])


@checked_call
def debezium(*, columns: Mapping[str, str] | None = None, payload: bool = False) -> ChangeEvents:
    """Read messages as change events of Debezium, with the row ``before`` and ``after``; for ``changes=``.

    ```python
    app.input_stream(
        "profiles",
        serde="json",
        schema="member_id bigint, tier string, lsn bigint, at timestamp",
        changes=debezium(columns={"lsn": "source.lsn", "at": "source.ts_ms"}),
    )
    ```

    :param columns: The columns of the schema that come from beside the row, with their paths in the event. A column of
        type ``timestamp`` is read from a number whose unit the path names: ``ts_ms``, ``ts_us`` or ``ts_ns``.
    :param payload: If true, the event is in the field ``payload``, as JSON has it with a schema beside it
        (``schemas.enable`` of the converter).
    """
    taken = columns if columns is not None else {}
    if not isinstance(taken, Mapping) or not all(
        isinstance(one, str) and one.strip() for pair in taken.items() for one in pair
    ):
        reject(
            f"debezium got columns={columns!r}",
            hint='Give a column and its path for each: columns={"lsn": "source.lsn"}.',
        )
    deep = next((path for path in taken.values() if path.count(".") > 1), None)
    if deep is not None:
        reject(
            f"debezium takes a column from {deep!r}, which is too deep in the event",
            hint='Name a field of the event, or one of a field: "ts_ms", "source.lsn".',
            value=deep,
        )
    if not isinstance(payload, bool):
        reject(f"debezium got payload={payload!r}", hint="Write True or False.")
    return ChangeEvents(
        "op",
        ("c", "r", "u"),
        ("d",),
        ("m",),
        images=("before", "after"),
        columns=tuple(sorted(taken.items())),
        inside="payload" if payload else "",
    )


def changed_schema(events: ChangeEvents, rows: Schema | None, where: str, *, of_input: bool) -> Schema:
    """Return the columns of the messages that are made of change events; a wrong declaration is rejected.

    A table marks no rows, so the messages of side inputs have the mark beside their columns.
    """
    if rows is None:
        reject(
            f"{where} has changes= and no schema=, so that the columns of its rows are not known",
            hint='Declare the columns of a row: schema="member_id bigint, tier string".',
        )
    for name, path in events.columns:
        if name not in rows:
            reject(
                f"{where} takes the column {name!r} from {path!r} of the event, and its schema has no such column",
                hint=f"{did_you_mean(name, rows.names)}The columns are {listed(rows.names)}.",
                column=name,
            )
        if rows[name].type.name == "timestamp" and not path.endswith(("ts_ms", "ts_us", "ts_ns")):
            reject(
                f"{where} takes the timestamp {name!r} from {path!r}, whose unit is not known",
                hint='Take it from "source.ts_ms", "source.ts_us" or "source.ts_ns"; or declare the column as bigint.',
                column=name,
            )
    if rows.names and set(rows.names) <= {ROW_DELETED, *dict(events.columns)}:
        reject(f"{where} has no column of a row in its schema", hint="Declare the columns of a row, too.")
    if rows.python_class is not None and of_input and ROW_DELETED not in rows:
        reject(
            f"{rows.python_class.__name__} of {where} has no field {ROW_DELETED!r}, which marks the rows that are gone",
            hint=f"Add {ROW_DELETED}: bool to it, or declare the columns as a text.",
            column=ROW_DELETED,
        )
    if ROW_DELETED in rows and rows[ROW_DELETED].type.name != "boolean":
        reject(
            f"Column {ROW_DELETED!r} of {where} is of type {rows[ROW_DELETED].type.ddl()}, "
            "and marks the rows that are gone",
            hint="Declare it as boolean, or leave it out: it is added.",
            column=ROW_DELETED,
        )
    return events.messages(rows) if of_input else rows


def _words(name: str, words: object) -> tuple[str, ...]:
    found = (words,) if isinstance(words, str) else tuple(words) if isinstance(words, list | tuple) else None
    if found is None or not all(isinstance(word, str) and word for word in found) or (not found and name != "ignores"):
        reject(f"change_events got {name}={words!r}", hint=f'Give the words: {name}=["{_DELETES[1]}"].')
    return tuple(dict.fromkeys(word.lower() for word in found))
