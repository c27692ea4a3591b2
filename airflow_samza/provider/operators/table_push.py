"""Operators that push a table, and that roll one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_samza.errors import ConfigError, PushError, SamzaError
from airflow_samza.launch.stage_watch import StageWatch
from airflow_samza.provider.assets import version_facts
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.deferral import (
    check_intervals,
    deadline_of,
    interval_seconds,
    is_deferrable,
    raise_what_the_trigger_met,
    trigger_timeout,
)
from airflow_samza.provider.disclosure import sentence_of
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.lineage.dataset_names import DatasetName
from airflow_samza.provider.lineage.methods import TellsLineage, openlineage_is_active
from airflow_samza.provider.lineage.outlets import announce_version, outlets_of_table, reject_partitions
from airflow_samza.provider.lineage.task_lineage import push_lineage, table_dataset
from airflow_samza.provider.links import DATA, OUTPUT, PAGE, RESULTS, RUNNER_LOG, SPARK, task_page
from airflow_samza.provider.operators.samza_operator import SamzaOperator
from airflow_samza.provider.run_identity import has_another_try, interval_of
from airflow_samza.provider.stats import emit_push
from airflow_samza.records import plain
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.tables.compacting import COMPACT_AFTER
from airflow_samza.runs.tables.push_request import STAGE, push_handle
from airflow_samza.runs.tables.table_version import FULL, TableVersion, describe_push
from airflow_samza.runs.tables.versions import PREVIOUS


class TableOperator(TellsLineage, SamzaOperator):
    """The base class of operators that make a version of a pushed table.

    Each version is an event of the asset :func:`pushed_table`, and of an asset for the place where the table is.

    :param table: The table's id in the application (templated).
    :param push_id: The unique id of the version (templated). Default: made of Dag run and task, so that a retry or a
        clear finds its version.
    :param partition_key: The partition key of the asset event (templated).
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "table", "push_id", "partition_key")

    def __init__(
        self,
        *,
        table: str,
        push_id: str | None = None,
        partition_key: str | None = None,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        conn_id = connection_id(f"The task {kwargs.get('task_id')!r}", conn_id, samza_conn_id)
        if "{{" not in f"{table}{conn_id}":
            kwargs["outlets"] = [*kwargs.get("outlets", ()), *outlets_of_table(table, conn_id)]
        super().__init__(conn_id=conn_id, **kwargs)
        reject_partitions(self.task_id, partition_key)
        self.table = table
        self.push_id = push_id
        self.partition_key = partition_key

    def dataset(self) -> DatasetName:
        """Return the name of the table that is pushed: that of the stream that its readers read."""
        return table_dataset(self.hook, self.application, self.table, text_map("config", self.config))

    def _push_id(self, context: Any) -> str:
        return self.push_id or self._run_id(context)

    def _note_lineage(self) -> None:
        """Gather what OpenLineage is told, where it is on."""
        if openlineage_is_active():
            self._lineage = push_lineage(self.hook, self.application, self.table, text_map("config", self.config))

    def _announced(self, context: Any, version: TableVersion) -> dict[str, Any]:
        if self._lineage is not None:
            self._lineage.version = version
        key = self.partition_key or context.get("partition_key")
        announce_version(
            self.hook,
            context.get("outlet_events"),
            self.outlets,
            self.table,
            self.dataset(),
            version,
            str(key) if key else None,
        )
        return {
            **version_facts(version),
            "expectations": [plain(each) for each in version.expectations],
            "offsets": [list(span) for span in version.offsets],
            "topic_commits": version.commits,
            "is_new": version.push_id == self._push_id(context),
        }


class SamzaTablePushOperator(TableOperator):
    """Fills a pushed table from anything that Spark reads, or from a table of a lake, as a new version.

    Readers see all of a push or nothing. A retry continues where the former try died; a push with a known id finds its
    version. Killing the task cancels its Spark work. The return value has ``version``, ``rows``, ``bytes``, ``offsets``
    and more; ``is_new`` is false where the current version has the rows of the same snapshot already.

    ```python
    SamzaTablePushOperator(
        task_id="push",
        application="pipelines.delay_model:scores",
        table="delay-model",
        source="/data/models/{{ ds }}.parquet",
        min_rows=5,
    )
    ```

    :param source: What to read (templated): a path, a function ``module:function`` of the Spark session, or a mapping.
        The mapping has one of ``path`` (and ``format``, ``options``), ``table`` (of the catalog), ``query`` (SQL),
        ``jdbc`` (options of Spark's reader) and ``callable``. Or it names a table of a lake, which needs no jars:
        ``iceberg`` (its name, with ``system`` and perhaps ``snapshot``) or ``delta`` (with ``system`` and perhaps
        ``version``).
    :param source_conn_id: A connection of type ``jdbc``, ``postgres`` or ``mysql`` with URL, user and password of the
        source (templated).
    :param mode: ``full`` replaces all rows; ``incremental`` changes the rows whose keys the source has; of a lake's
        table, those that have changed since the current version (templated).
    :param columns: The columns of the source to take, or SQL by column of the table (templated). Default: the table's
        columns.
    :param deletes: A boolean column or SQL condition; rows of an incremental push for which it is true delete their key
        (templated).
    :param on_null_key: The treatment of rows without a key: ``fail`` or ``drop``.
    :param on_duplicate: The treatment of keys that come twice: ``fail``, ``last`` (keep the row with the greatest
        ``latest_by``), or ``any``.
    :param latest_by: The column by which the last row is chosen.
    :param min_rows: The smallest number of rows; a smaller push is rejected (templated). Default: 1, of an incremental
        push 0.
    :param max_change_ratio: The greatest difference from the current version, as a part of its rows; a larger one is
        rejected (templated). ``0.2`` is a fifth, ``inf`` allows any. Default: a full push may lose half of the rows.
    :param keep_versions: The number of versions to keep, for rollbacks and backfills.
    :param compact_after: The number of incremental pushes after which the rows are written as one section, for new
        readers. 0: never.
    :param data_interval: The data interval of the rows: two datetimes, or a text ``start/end`` or ``start/length``
        (``2026-01-01/P1D``, templated). Default: the Dag run's, else that of its partition.
    :param poll_interval: Seconds between two checks of the push. Default ``[samza] poll_interval`` (1).
    :param deferrable: If true, the task gives its worker slot back while Spark works. Default ``[operators]
        default_deferrable``.
    """

    operator_extra_links = (PAGE, RUNNER_LOG, SPARK, OUTPUT)
    template_fields: Sequence[str] = (
        *TableOperator.template_fields,
        "source",
        "source_conn_id",
        "mode",
        "columns",
        "deletes",
        "min_rows",
        "max_change_ratio",
        "data_interval",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **TableOperator.template_fields_renderers,
        "source": "json",
        "columns": "json",
    }

    def __init__(
        self,
        *,
        source: Any,
        source_conn_id: str | None = None,
        mode: str = FULL,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        deletes: str | None = None,
        on_null_key: str = "fail",
        on_duplicate: str = "fail",
        latest_by: str | None = None,
        min_rows: Any = None,
        max_change_ratio: Any = None,
        keep_versions: int = 10,
        compact_after: int = COMPACT_AFTER,
        data_interval: Any = None,
        poll_interval: float | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.source_conn_id = source_conn_id
        self.mode = mode
        self.columns = columns
        self.deletes = deletes
        self.on_null_key = on_null_key
        self.on_duplicate = on_duplicate
        self.latest_by = latest_by
        self.min_rows = min_rows
        self.max_change_ratio = max_change_ratio
        self.keep_versions = keep_versions
        self.compact_after = compact_after
        self.data_interval = data_interval
        check_intervals(self, poll_interval=poll_interval)
        self.poll_interval = poll_interval
        self.deferrable = is_deferrable(deferrable)

    def execute(self, context: Any) -> dict[str, Any]:
        """Submit the push, wait or defer, and make it a version."""
        with mapped_failures(self.log, lambda: self.hook):
            if self.deferrable:
                self.hook.reject_short_lived(self.task_id, self.executor)
            return self._run_push(context, deadline_of(self))

    def execute_complete(
        self, context: Any, event: Mapping[str, Any] | None = None, *, push: Mapping[str, Any], deadline: float | None
    ) -> dict[str, Any]:
        """Continue after the deferral."""
        with mapped_failures(self.log, lambda: self.hook):
            handle = StageHandle.from_dict(push)
            try:
                raise_what_the_trigger_met(event, self.task_id)
            except BaseException:
                with self._after_failure():
                    self._note_lineage()
                    self.hook.cancel(handle)
                raise
            return self._run_push(context, deadline, {STAGE: handle}, (event or {}).get("said"))

    def _cancel_submitted(self, context: Any, error: Exception) -> None:
        self._note_lineage()
        if self._lineage is not None:
            self._lineage.error = sentence_of(error)
        application = self.application_spec().name
        self.hook.cancel(push_handle(application, self.table, self._push_id(context)))

    def _run_push(
        self,
        context: Any,
        deadline: float | None,
        submitted: Mapping[str, StageHandle] | None = None,
        said: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run the push to its version, or until it has to defer."""
        self._note_lineage()
        self.show(context, RUNNER_LOG, task_page(context["ti"], RESULTS))
        self.show(context, OUTPUT, task_page(context["ti"], DATA))
        watch = self._watch = self._new_watch(context, said)
        try:
            if watch.run({STAGE: ()}, submitted, waits=not self.deferrable):
                self._defer(watch, deadline)
        except SamzaError as error:
            if self._lineage is not None:
                self._lineage.error = sentence_of(error)
            if isinstance(error, PushError) and error.facts.get("expectation"):
                self._emit({str(error.facts["expectation"]): int(str(error.facts.get("failed") or 0))})
            if not (error.retryable and has_another_try(context)):
                with self._after_failure():
                    for handle in {**watch.ended, **watch.active}.values():
                        self.hook.close_push(handle)
            raise
        version = watch.results[STAGE]
        self._emit({each.expectation: each.failed for each in version.expectations})
        self.tell(describe_push(version, self._push_id(context)))
        return self._announced(context, version)

    def _emit(self, failures: Mapping[str, int]) -> None:
        emit_push(self.application_spec().name, self.table, failures)

    def _submit(self, context: Any) -> StageHandle:
        return self.hook.push(
            self.application,
            self.table,
            self.source,
            self._push_id(context),
            source_conn_id=self.source_conn_id,
            interval=interval_of(context, self.data_interval),
            config=text_map("config", self.config),
            mode=self.mode,
            columns=self.columns,
            deletes=self.deletes,
            on_null_key=self.on_null_key,
            on_duplicate=self.on_duplicate,
            latest_by=self.latest_by,
            min_rows=_number("min_rows", self.min_rows, int),
            max_change_ratio=_number("max_change_ratio", self.max_change_ratio, float),
            keep_versions=self.keep_versions,
            compact_after=self.compact_after,
        )

    def _new_watch(self, context: Any, said: Mapping[str, str] | None) -> StageWatch[TableVersion]:
        from airflow_samza.provider.triggers.tables import PushLog  # a Dag file need not load it

        return StageWatch(
            self.hook.get_conn(),
            self.log,
            self._push_id(context),
            lambda _: self._submit(context),
            self.hook.finish_push,
            interval_seconds("poll_interval", self.poll_interval),
            progress=PushLog(self.tell, said),
            on_look=self._spark_shown(context),
        )

    def _defer(self, watch: StageWatch[TableVersion], deadline: float | None) -> None:
        from airflow_samza.provider.triggers.tables import TablePushTrigger

        push = watch.active[STAGE].to_dict()
        self.defer(
            trigger=TablePushTrigger(
                **self.hook.place_of_root,
                poll_interval=interval_seconds("poll_interval", self.poll_interval),
                deadline=deadline,
                push=push,
                said=watch.progress.said,
            ),
            method_name="execute_complete",
            kwargs={"push": push, "deadline": deadline},
            timeout=trigger_timeout(deadline),
        )

    def _note_lineage(self) -> None:
        if openlineage_is_active():
            self._lineage = push_lineage(
                self.hook,
                self.application,
                self.table,
                text_map("config", self.config),
                self.source,
                self.columns,
                self.hook.source_url(self.source_conn_id),
            )


class SamzaTableRollbackOperator(TableOperator):
    """Makes an older version of a pushed table current again, as a new version.

    Nothing is copied, and Spark is not needed.

    ```python
    SamzaTableRollbackOperator(task_id="rollback", application="pipelines.delay_model:scores", table="delay-model")
    ```

    :param to: The version to return to: ``previous``, a number, or the id of its push (templated).
    """

    template_fields: Sequence[str] = (*TableOperator.template_fields, "to")

    def __init__(self, *, to: str | int = PREVIOUS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to = to

    def execute(self, context: Any) -> dict[str, Any]:
        """Write the record of the new version."""
        with mapped_failures(self.log, lambda: self.hook):
            self._note_lineage()
            version, text = self.hook.rollback(
                self.application, self.table, self.to, self._push_id(context), text_map("config", self.config) or None
            )
            self.tell(text)
            return self._announced(context, version)


def _number(name: str, value: Any, kind: type) -> Any:
    if value is None or value == "":
        return None
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name}={value!r} is not a number.", hint=f"Give {name} as a number.", key=name, value=value
        ) from None


TablePushOperator = SamzaTablePushOperator
TableRollbackOperator = SamzaTableRollbackOperator
"""The names that these two had first."""
