"""The methods of operators that OpenLineage's provider for Airflow calls; it need not be installed."""

from __future__ import annotations

from typing import Any


class TellsLineage:
    """The methods that OpenLineage's provider for Airflow looks for on an operator.

    The provider calls them in a process of its own, so what they tell was gathered before, in ``_lineage``.
    """

    _lineage: Any = None

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the job's facets; a deferred task starts again, and says the same."""
        from airflow_samza.provider.lineage.openlineage_facets import facets_at_start

        return facets_at_start(getattr(self, "application", ""), getattr(self, "stage", None))

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """Return the datasets that were read and written, and the facets of run and job."""
        from airflow_samza.provider.lineage.openlineage_facets import facets_of

        return facets_of(self._lineage, ti, self)

    def get_openlineage_facets_on_failure(self, ti: Any) -> Any:
        """Return what is known of the task, with its error."""
        return self.get_openlineage_facets_on_complete(ti)


def openlineage_is_active() -> bool:
    """Return whether OpenLineage is installed and sends events from here."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return False
    if conf.is_disabled():
        return False
    from airflow.providers.openlineage.plugins.listener import get_openlineage_listener

    return get_openlineage_listener() is not None
