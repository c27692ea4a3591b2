"""Types of files for which no column type exists: such a column can be left out, and nothing else."""

from __future__ import annotations

import pyarrow as pa


class NoColumn(pa.ExtensionType):  # type: ignore[misc]
    """Type of a column of a file that no stream can read; ``what`` says what the file has there, for people.

    No value of it exists: a file that has such columns is read without them.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(pa.null(), "airflow_samza.no_column")

    def __arrow_ext_serialize__(self) -> bytes:
        """Return what the type differs by from others of its name."""
        return self.what.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> NoColumn:
        """Return the type again."""
        return cls(serialized.decode())

    def __hash__(self) -> int:
        return hash(self.what)

    def __str__(self) -> str:
        return self.what
