"""Checks of a stream's serde (``serde=``) at the call.

Declarations check by it; the plan step and the binding of serdes take its forms apart.
"""

from __future__ import annotations

import re

from airflow_samza.application.rejections import did_you_mean, reject
from airflow_samza.schema import Schema

JSON, STRING, BYTES, AVRO = "json", "string", "bytes", "avro:"
"""The known serdes; that of Avro is followed by the name of a file."""

REGISTRY = "registry:"
"""The beginning of the serdes whose messages name the id of their schema in a registry."""

OF_REGISTRY = tuple(f"{REGISTRY}{form}" for form in ("avro", "json", "protobuf"))

OF_ONE_COLUMN = {
    STRING: "string",
    BYTES: "binary",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
}
"""The serdes of a single value, and the type of the one column that each is for."""

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORDS = (
    '"json", "string", "bytes", a number ("integer", "long", "double", "short", "float"), "avro:<schema file>", '
    '"registry:avro", "registry:json", "registry:protobuf", or a class of yours as "package.module:Class"'
)


def checked_serde(serde: object, schema: Schema | None, where: str, stream_id: str, *, read: bool) -> str | None:
    """Return a serde as it is kept: its name, or that of the class that is given.

    What is ``read`` must declare its columns.
    """
    if serde is None:
        return None
    if isinstance(serde, type):
        serde = f"{serde.__module__}:{serde.__qualname__}"
        if not _CLASS.fullmatch(serde) or serde.startswith("__main__:"):
            reject(
                f"{where} has the serde {serde!r}, a class that workers cannot import",
                hint="Define it at the top of a module that is on the Python path.",
                stream=stream_id,
            )
    if not isinstance(serde, str) or not serde.strip():
        reject(f"{where} has serde={serde!r}", hint=f"Serdes are {_WORDS}.", stream=stream_id)
    name = serde.strip()
    if name == AVRO.rstrip(":") or name == AVRO:
        reject(
            f"{where} has serde={name!r} without a schema",
            hint='Name its file: serde="avro:views.avsc".',
            stream=stream_id,
        )
    if not _is_serde(name):
        hint = f"{did_you_mean(name, [JSON, *OF_ONE_COLUMN, AVRO, *OF_REGISTRY])}Serdes are {_WORDS}."
        reject(f"{where} has serde={name!r}, which is not known", hint=hint, stream=stream_id, value=name)
    if schema is None:
        if read:
            reject(
                f"{where} has a serde and no schema",
                hint="Declare schema=: bytes do not say what columns they hold.",
                stream=stream_id,
            )
        return name
    column_type = OF_ONE_COLUMN.get(name)
    if column_type is not None and [field.type.name for field in schema.fields] != [column_type]:
        reject(
            f"{where} has serde={name!r} and the columns {schema.ddl()}",
            hint=f'This serde is for one column of type {column_type}: schema="value {column_type}".',
            stream=stream_id,
        )
    return name


def _is_serde(name: str) -> bool:
    if name.startswith(REGISTRY):
        file = f"{REGISTRY}{AVRO}"  # a schema file may follow
        return name in OF_REGISTRY or (name.startswith(file) and len(name) > len(file))
    return name == JSON or name in OF_ONE_COLUMN or name.startswith(AVRO) or bool(_CLASS.fullmatch(name))
