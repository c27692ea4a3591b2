"""The digest of what makes the rows of a table that a processor fills.

While it is the same, a table that a host has kept may be read on (decision 55). It covers the source of the factory's
module and of all modules of the user's that it imports, at any depth; the names and versions of the libraries that
these import; the configuration, which the factory gets; and the columns of the messages. What a processor reads from
elsewhere (a file, a service, the clock) cannot be compared.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from airflow_samza.application.code_digest import module_digest
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.tables.side_inputs import processor_factory


def processor_digests(program: StageProgram) -> dict[str, str]:
    """The digests of a stage's tables with a processor, by table id.

    A table without a comparable processor is missing (:func:`code_digest`).
    """
    tables = (program.spec.table(table_id) for table_id in program.stage.tables)
    digests = {table.table_id: _table_digest(program, table) for table in tables if table.processor is not None}
    return {table_id: digest for table_id, digest in digests.items() if digest is not None}


def _table_digest(program: StageProgram, table: TableDescriptor) -> str | None:
    code = code_digest(processor_factory(table))
    if code is None:
        return None
    streams = {}
    for stream_id in table.side_inputs:
        declared, columns = program.spec.side_inputs[stream_id], program.streams.get(stream_id)
        streams[stream_id] = [columns.ddl() if columns is not None else None, declared.key, declared.timestamp]
    return _hash([code, sorted(program.spec.config.items()), streams])


def code_digest(factory: Any) -> str | None:
    """The digest of a factory's code; None where it cannot be compared.

    That is: a factory made inside a function, a lambda, an object, one of ``__main__``, and one whose module has no
    source. What those hold beside their code, or what that code is, cannot be compared from process to process.
    """
    name, module = getattr(factory, "__qualname__", None), getattr(factory, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str) or module == "__main__" or module not in sys.modules:
        return None
    attribute: Any = sys.modules[module]
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if attribute is not factory:
        return None
    source = module_digest(module)
    return _hash([module, name, source]) if source is not None else None


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
