"""Conversion of batches to a declared schema: by column name, with widening only.

Errors name the stream. Inputs, operators with a declared result and writers of outputs go through it.
"""

from __future__ import annotations

import pyarrow as pa

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema, type_from_arrow
from airflow_samza.systems.dictionaries import batch_of, is_encoded_as


class SchemaConformer:
    """Brings batches to ``schema``. ``what`` names the data in errors (``"input 'views'"``).

    With ``dictionaries`` columns that come dictionary-encoded stay so. A nullable column that a batch lacks is an
    error, but null where it ``fills``.
    """

    def __init__(self, schema: Schema, what: str, *, dictionaries: bool = False, fills: bool = False) -> None:
        self.schema = schema
        self._dictionaries = dictionaries
        self._fills = fills
        self.what = what
        self._arrow = schema.to_arrow()
        self._required = [place for place, field in enumerate(schema.fields) if not field.nullable]

    def conform(self, batch: pa.RecordBatch, offset: int | None = None) -> pa.RecordBatch:
        """Return the batch with exactly the schema's columns; columns that the schema does not name are left out."""
        if not batch.schema.equals(self._arrow):
            batch = batch_of([self._column(batch, place) for place in range(len(self._arrow))], self._arrow)
        for place in self._required:
            column = batch.column(place)
            if column.null_count:
                row = column.is_null().index(pa.scalar(True)).as_py()
                name = self.schema.fields[place].name
                at = f" at offset {offset + row}" if offset is not None else ""
                nothing = column.null_count == batch.num_rows
                declare = "Correct its name, if nothing has it; or declare" if nothing else "Declare"
                raise SchemaError(
                    f"Column {name!r} of {self.what} is declared never null, and is null{at}.",
                    hint=f"{declare} it as nullable ({name}: … | None, or DDL without not null), or keep nulls out "
                    "where they are written.",
                    column=name,
                )
        return batch

    def _column(self, batch: pa.RecordBatch, place: int) -> pa.Array:
        field = self._arrow.field(place)
        places = batch.schema.get_all_field_indices(field.name)
        if len(places) != 1:
            if not places and field.nullable and (self._fills or batch.num_columns == 0):
                return pa.nulls(batch.num_rows, field.type)
            raise SchemaError(
                f"There is no column {field.name!r} in {self.what}."
                if not places
                else f"Column {field.name!r} is twice in {self.what}.",
                hint=f"Its columns are {', '.join(batch.schema.names) or 'none'}: correct the declared schema, or "
                "the data.",
                column=field.name,
            )
        column = batch.column(places[0])
        if column.type.equals(field.type) or (self._dictionaries and is_encoded_as(column, field.type)):
            return column
        declared = self.schema.fields[place].type
        why = ""
        if type_from_arrow(column.type).reads_as(declared):
            try:
                return column.cast(field.type)
            except pa.ArrowException as error:
                why = f" ({error})"
        raise SchemaError(
            f"Column {field.name!r} of {self.what} is {column.type}, declared {declared.ddl()}{why}.",
            hint="Correct the declared schema, or the data.",
            column=field.name,
        )


MESSAGE = "message."
"""The beginning of the names of the columns in which operators keep messages beside others."""


def kept_messages(table: pa.Table, conformer: SchemaConformer) -> pa.RecordBatch:
    """Return the messages in a table that an operator kept."""
    names = [name for name in table.column_names if name.startswith(MESSAGE)]
    columns = [table.column(name).combine_chunks() for name in names]
    return conformer.conform(pa.RecordBatch.from_arrays(columns, [name.removeprefix(MESSAGE) for name in names]))


def kept_rows(table: pa.Table, conformer: SchemaConformer) -> pa.Table:
    """Return a table of rows that an operator kept, messages among them, with the columns that it keeps now.

    Columns of messages that are not used any more are left out; what a store keeps beside its columns stays.
    """
    wanted = conformer.schema.to_arrow()
    if table.column_names[: len(wanted)] == wanted.names and table.schema.types[: len(wanted)] == wanted.types:
        return table
    columns = [column.combine_chunks() for column in table.columns]
    rows = pa.Table.from_batches([conformer.conform(pa.RecordBatch.from_arrays(columns, table.column_names))])
    for name in table.column_names:
        if name not in wanted.names and not name.startswith(MESSAGE):
            rows = rows.append_column(name, table.column(name))
    return rows
