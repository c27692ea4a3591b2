"""Casts from the columns that a file has to those that a stream declares; everything else is rejected.

Silent: equal types, wider types, dictionaries, other units and zones of one instant. Checked value by value: narrower
types. A naive timestamp in a file is taken as UTC when the stream declares ``timestamp``. Readers and outputs of files
and of tables check columns by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import SchemaError
from airflow_samza.quoting import plainly
from airflow_samza.schema import type_from_arrow
from airflow_samza.systems.dictionaries import batch_of, is_encoded_as
from airflow_samza.systems.files.formats.file_format import LEAVE_RECORDS_OUT, READ_BY_SPARK
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.plain_types import NoColumn, as_plain, plain_type
from airflow_samza.systems.files.formats.text_values import is_text


@dataclass(frozen=True)
class Conformer:
    """Conversion of one file's batches into those of the stream: the columns of ``schema``.

    The file has the columns ``names`` of them.
    With ``dictionaries`` columns that come dictionary-encoded stay so. With ``any_bytes`` what the file calls text may
    be no UTF-8, which is rejected like a value of another type.
    """

    file: str
    stream: str
    schema: pa.Schema
    names: tuple[str, ...]
    options: FileOptions
    dictionaries: bool = False
    any_bytes: bool = False

    @classmethod
    def check(
        cls,
        schema: pa.Schema,
        declared: pa.Schema,
        *,
        file: str,
        stream: str,
        options: FileOptions,
        dictionaries: bool = False,
        any_bytes: bool = False,
    ) -> Conformer:
        """Return the conformer of a file with this schema; a type that does not fit is a :class:`SchemaError`."""
        names = []
        for field in declared:
            count = schema.names.count(field.name)
            if count > 1:
                raise SchemaError(
                    f"File {file} of stream {stream!r} has {count} columns named {field.name!r}.",
                    hint="Write the file with distinct column names, or leave the column out of the declared schema.",
                    file=file,
                    stream=stream,
                    column=field.name,
                )
            if count == 1:
                kind = schema.field(field.name).type
                if not fits(kind, field.type, options):
                    raise SchemaError(
                        f"File {file} of stream {stream!r} has the column {field.name!r} as {shown(kind)}, and "
                        f"it is declared as {shown(field.type)}.",
                        hint=f"{_declaration(field.name, kind, ' and convert it in the application')}, or write the "
                        "file with the declared type.",
                        file=file,
                        stream=stream,
                        column=field.name,
                        declared=shown(field.type),
                        found=shown(kind),
                    )
                names.append(field.name)
            elif not (options.allow_missing_columns and field.nullable):
                _reject_missing(file, stream, field, schema, declared)
        return cls(file, stream, declared, tuple(names), options, dictionaries, any_bytes)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one batch of the file in the columns of ``schema``."""
        if not self.any_bytes and batch.schema.equals(self.schema) and not _has_forbidden_nulls(batch):
            return batch
        columns = []
        for field in self.schema:
            if field.name in self.names:
                column = self._text(batch.column(batch.schema.get_field_index(field.name)), field)
                column = self._cast(column, field)
            else:
                column = pa.nulls(batch.num_rows, field.type)
            if not field.nullable and column.null_count:
                row = pc.index(pc.is_null(column), True).as_py()
                misnamed = (
                    "Correct its name, if the file has none like it; or declare"
                    if column.null_count == len(column)
                    else "Declare"
                )
                raise SchemaError(
                    f"File {self.file} of stream {self.stream!r} has nulls in column {field.name!r}, which "
                    f"is declared not null ({column.null_count} of {batch.num_rows} rows "
                    f"that were read together, the first is number {row + 1} of them).",
                    hint=f"{misnamed} the column nullable (in a dataclass: `| None`), {LEAVE_RECORDS_OUT}, or correct "
                    "the file.",
                    file=self.file,
                    stream=self.stream,
                    column=field.name,
                )
            columns.append(column)
        if not columns:
            return batch.select([])
        return batch_of(columns, self.schema)

    def _text(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Return the column, if its text is UTF-8; of a dictionary only what rows use counts."""
        if not self.any_bytes or is_text(column):
            return column
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
            if is_text(column):
                return column
        raise SchemaError(
            f"File {self.file} of stream {self.stream!r} has text in column {field.name!r} that is no UTF-8.",
            hint=f"Declare {field.name!r} as binary, or write the file with text in UTF-8.",
            file=self.file,
            stream=self.stream,
            column=field.name,
        )

    def _cast(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type.equals(field.type) or (
            self.dictionaries and is_encoded_as(column, field.type) and not column.dictionary.null_count
        ):
            return column
        try:
            column = as_plain(column)
            return cast(column, field.type, truncate=self.options.truncate_timestamps)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"File {self.file} of stream {self.stream!r} has values in column {field.name!r} "
                f"({shown(column.type)}) that do not fit"
                f" the declared {shown(field.type)}: {plainly(str(error).splitlines()[0])}.",
                hint=_declaration(field.name, column.type)
                + (
                    ', or set the stream\'s option truncate_timestamps="true".'
                    if types.is_timestamp(field.type)
                    else "."
                ),
                file=self.file,
                stream=self.stream,
                column=field.name,
                declared=shown(field.type),
                found=shown(column.type),
            ) from error


def _has_forbidden_nulls(batch: pa.RecordBatch) -> bool:
    return any(
        column.null_count and not field.nullable for column, field in zip(batch.columns, batch.schema, strict=True)
    )


def cast(column: pa.Array, target: pa.DataType, *, truncate: bool = False) -> pa.Array:
    """Return the column in another type, exactly: a value that does not fit is a ``pyarrow.ArrowInvalid``."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    options = pc.CastOptions(target_type=target, allow_time_truncate=truncate)
    result = pc.cast(column, options=options)
    if types.is_floating(target) and types.is_floating(column.type) and target.bit_width < column.type.bit_width:
        same = pc.or_kleene(pc.equal(pc.cast(result, column.type), column), pc.is_nan(column))
        if pc.any(pc.invert(same)).as_py():
            raise pa.ArrowInvalid(f"a {column.type} value has no exact {target}")
    return result


def shown(kind: pa.DataType) -> str:
    """Return an Arrow type as a user writes it in DDL; as Arrow names it where DDL has no word."""
    try:
        return type_from_arrow(plain_type(kind)).ddl()
    except SchemaError:
        if not types.is_struct(kind):
            return str(kind)
        return f"struct<{','.join(f'{field.name}:{shown(field.type)}' for field in kind)}>"


def fits(kind: pa.DataType, declared: pa.DataType, options: FileOptions) -> Any:
    """Return whether casting can be tried; single values may still be rejected."""
    if types.is_dictionary(kind):
        return fits(kind.value_type, declared, options)
    kind = plain_type(kind)
    if isinstance(kind, NoColumn):
        return False
    if kind.equals(declared) or types.is_null(kind):
        return True
    if types.is_struct(declared):
        if not types.is_struct(kind):
            return False
        inner = {field.name: field.type for field in kind}
        return all(
            fits(inner[f.name], f.type, options) if f.name in inner else options.allow_missing_columns for f in declared
        )
    if types.is_map(declared):
        return (
            types.is_map(kind)
            and fits(kind.key_type, declared.key_type, options)
            and fits(kind.item_type, declared.item_type, options)
        )
    if types.is_list(declared):
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return is_list and fits(kind.value_type, declared.value_type, options)
    if types.is_timestamp(declared):
        return types.is_timestamp(kind) and (declared.tz is not None or kind.tz is None)
    return any(
        is_declared(declared) and any(is_of(kind) for is_of in readable) for is_declared, readable in _READABLE_AS
    )


_READABLE_AS = (
    (types.is_date, (types.is_date,)),
    (types.is_string, (types.is_string, types.is_large_string, types.is_string_view)),
    (types.is_binary, (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)),
    (types.is_integer, (types.is_integer,)),
    (types.is_decimal, (types.is_integer, types.is_decimal)),
    (types.is_floating, (types.is_floating, types.is_integer)),
)
"""Declared types, and those that a file may have for each."""


def _declaration(column: str, kind: pa.DataType, more: str = "") -> str:
    """Return what to do about a column's type, without a full stop: only a type that can be declared is named."""
    try:
        type_from_arrow(plain_type(kind))
    except SchemaError:
        return f"Leave {column!r} out of the declared schema, as no column type here holds it, or {READ_BY_SPARK}"
    return f"Declare {column!r} as {shown(kind)}{more}"


def _reject_missing(file: str, stream: str, field: pa.Field, schema: pa.Schema, declared: pa.Schema) -> NoReturn:
    others = [name for name in schema.names if name not in declared.names]
    way_out = (
        'set the stream\'s option allow_missing_columns="true" to read it as null'
        if field.nullable
        else 'declare it nullable, with the option allow_missing_columns="true"'
    )
    raise SchemaError(
        f"File {file} of stream {stream!r} has no column {field.name!r} (declared as {shown(field.type)});"
        f" its columns are {listed(schema.names)}.",
        hint=f"{did_you_mean(field.name, others)}Correct the schema, or {way_out}.",
        file=file,
        stream=stream,
        column=field.name,
        declared=shown(field.type),
        found=None,
    )
