"""Options of a Delta table that is written."""

from __future__ import annotations

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.systems.delta.columns import MODE, MODES, UNMAPPED
from airflow_samza.systems.delta.options import checked_options, table_name
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.output_options import OF_OUTPUT, TableOutputOptions

AUTO_COMPACT = "delta.autoOptimize.autoCompact"
"""Property by which Delta has it that who commits to a table merges its small files."""

PROPERTIES = (
    "delta.appendOnly",
    AUTO_COMPACT,
    "delta.checkpointInterval",
    MODE,
    "delta.dataSkippingNumIndexedCols",
    "delta.deletedFileRetentionDuration",
    "delta.enableExpiredLogCleanup",
    "delta.logRetentionDuration",
    "delta.parquet.compression.codec",
    "delta.targetFileSize",
)
"""Properties with a meaning to Delta that an output may give the table that it makes."""


_OF_ICEBERG = {
    "sort_by": ("sort order", "Leave it out, and have the table clustered by OPTIMIZE … ZORDER BY, for instance."),
}
"""Options of outputs to tables of Iceberg alone: what Delta lacks for them, and what to do about it."""


class OutputOptions(TableOutputOptions):
    """Options of a table in a folder that is written."""

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return the options of an output; an unknown name or an impossible value is a ``ConfigError``."""
        for name, (lacks, hint) in _OF_ICEBERG.items():
            if dict(stream.options).get(name):
                raise ConfigError(
                    f"The output {stream.name!r} has {name}=, and Delta tables have no {lacks}.", hint=hint, key=name
                )
        options = checked_options(stream, OF_OUTPUT)
        found = cls.checked(stream, options, table_name(stream, options), _partition_field)
        unknown = next((name for name in found.properties if name.startswith("delta.") and name not in PROPERTIES), "")
        if unknown:
            raise ConfigError(
                f"The output {stream.name!r} gives its table the property {unknown}, which is not set here.",
                hint=f"{did_you_mean(unknown, PROPERTIES)}The properties of Delta that may be set are "
                f"{', '.join(PROPERTIES)}; make the table by other means if it needs another.",
                key=unknown,
                value=found.properties[unknown],
            )
        mode = found.properties.get(MODE, UNMAPPED)
        if mode not in MODES:
            raise ConfigError(
                f"The output {stream.name!r} gives its table the property {MODE}={mode!r}.",
                hint=f"{did_you_mean(mode, MODES)}Columns are mapped by name or by id, or none is.",
                key=MODE,
                value=mode,
            )
        return found


def _partition_field(stream: StreamSpec, text: str) -> tuple[str, str]:
    if "(" not in text:
        return text, "identity"
    raise ConfigError(
        f"The output {stream.name!r} is partitioned by {text!r}, and a Delta table is partitioned by columns.",
        hint='Make the value a column with select, such as cast(at as date) as day, and write partition_by="day".',
        key="partition_by",
        value=text,
    )
