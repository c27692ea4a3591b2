"""Dictionary-encoded columns: texts that repeat are read, filtered, split and written as numbers.

They are decoded where values are needed (decision 32). A column's logical type is that of its values. Readers make
them; tasks and writers pass them on.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with plain columns."""
    if not any(map(pa.types.is_dictionary, batch.schema.types)):
        return batch
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def is_encoded_as(column: pa.Array, kind: pa.DataType) -> bool:
    """Return whether a column holds values of a type in a dictionary."""
    return bool(pa.types.is_dictionary(column.type) and column.type.value_type.equals(kind))


def batch_of(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a schema's columns, of which some may be dictionary-encoded."""
    if any(is_encoded_as(column, field.type) for column, field in zip(columns, schema, strict=True)):
        schema = pa.schema([field.with_type(column.type) for field, column in zip(schema, columns, strict=True)])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class GrowingDictionary:
    """One dictionary for all batches of a file: values are only ever added at its end."""

    def __init__(self, kind: pa.DataType) -> None:
        self.values: pa.Array = pa.array([], kind)

    def places(self, column: pa.Array) -> pa.Array:
        """Return the column as int32 places in the dictionary, which takes in what is new; nulls stay null."""
        if not is_encoded_as(column, self.values.type) or column.dictionary.null_count:
            column = column.cast(self.values.type).dictionary_encode()
        values = column.dictionary
        if values.equals(self.values):
            return column.indices.cast(pa.int32())
        places = pc.index_in(values, value_set=self.values)
        if places.null_count:
            self.values = pa.concat_arrays([self.values, values.filter(places.is_null())])
            places = pc.index_in(values, value_set=self.values)
        return places.take(column.indices)

    def encoded(self, places: pa.Array) -> pa.DictionaryArray:
        """Return places in a dictionary as a dictionary-encoded column."""
        return pa.DictionaryArray.from_arrays(places, self.values)
