"""The shared part of sensors: they look, and wait here or deferred."""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_samza.errors import StorageUnavailable
from airflow_samza.provider.deferral import is_deferrable, raise_what_the_trigger_met
from airflow_samza.provider.failures import mapped_failures


class DeferrableSensor(BaseSensorOperator):
    """Sensor that waits here, or deferred; its trigger ends when it is time to look again.

    :param deferrable: If true, the sensor waits in the triggerer, without a worker slot. Default ``[operators]
        default_deferrable``.
    """

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deferrable = is_deferrable(deferrable)

    def _prepare(self, context: Any) -> None:
        """Take from the Dag run what a look needs."""

    @abstractmethod
    def trigger(self) -> Any:
        """Return the trigger that waits in the sensor's place."""

    def look(self) -> tuple[bool, Any]:
        """Return whether the sensor waits for no more than what there is now, and its return value.

        It looks as its trigger does; a server that does not answer is waited for.
        """
        try:
            found = self.trigger().look()
        except StorageUnavailable as error:
            self.log.warning("%s", error)
            return False, None
        self.log.info("%s", found.said)
        return found.is_all, found.value

    def execute(self, context: Any) -> Any:
        """Wait here, or deferred."""
        if not self.deferrable:
            return super().execute(context)
        return self._look_or_defer(context, time.time() + self.timeout)

    def execute_complete(self, context: Any, event: Any = None, *, deadline: float | None = None) -> Any:
        """Look again: what is waited for is there now, or something is wrong, which is said here."""
        return self._look_or_defer(context, deadline, event)

    def poke(self, context: Any) -> PokeReturnValue:
        """Return whether what is waited for is there now."""
        with self._mapped_failures():
            self._prepare(context)
            return PokeReturnValue(*self.look())

    def _mapped_failures(self) -> AbstractContextManager[None]:
        """Turn errors of the body into Airflow's."""
        return mapped_failures(self.log)

    def _look_or_defer(self, context: Any, deadline: float | None, event: Any = None) -> Any:
        with self._mapped_failures():
            raise_what_the_trigger_met(event, self.task_id)
            self._prepare(context)
            is_there, value = self.look()
            if not is_there:
                self.defer(
                    trigger=self.trigger(),
                    method_name="execute_complete",
                    kwargs={"deadline": deadline},
                    timeout=None if deadline is None else timedelta(seconds=max(deadline - time.time(), 0.0)),
                )
        return value
