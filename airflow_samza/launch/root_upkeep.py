"""Deletion of what has expired under a root, with the systems that are bound there.

The command ``gc`` calls it, and the runtime does for the operator of retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_samza.launch.own_scratch import sweep_left_behind
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import SWEEP_SECONDS, SweptRoot, sweep_application, sweep_root
from airflow_samza.runs.upkeep.run_removal import SweptRuns
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.bindings import bind_log, is_log, log_under
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.root_access import RootAccess, opens_root
from airflow_samza.systems.system import System, SystemBinding

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RootUpkeep:
    """A root, the systems that are bound there by name, and what opens it (None: what this process was given)."""

    files: Filesystem
    bindings: Mapping[str, SystemBinding] = field(repr=False)  # they may hold secrets
    access: RootAccess | None = None

    @property
    def root(self) -> str:
        """The root."""
        return self.files.root

    @opens_root
    def sweep(self, application: str, keep: Keep, *, seconds: float | None = SWEEP_SECONDS) -> SweptRuns:
        """Delete what has expired of one application, by its name.

        After ``seconds`` the rest is left to the next sweep.
        """
        return sweep_application(self.files, self.systems_of, application, keep, seconds=seconds)

    def sweep_after(self, application: str, keep: Keep, tell: Callable[[str], None]) -> None:
        """Do the same at the end of a run; log errors instead of raising them.

        ``tell`` gets a line when something was deleted, or went wrong.
        """
        sweep_left_behind()
        try:
            swept = self.sweep(application, keep)
        except (
            Exception
        ) as error:  # the run is over, and its results stand: the next sweep, or airflow-samza gc, tries again
            log.debug("The sweep failed.", exc_info=True)
            shown = str(error).splitlines()[0] if str(error) else type(error).__name__
            tell(f"What has expired of {application} could not be deleted, and stays for the next sweep: {shown}")
            return
        if swept.runs or swept.topics:
            runs, topics = _counted(swept.runs, "run"), _counted(swept.topics, "topic")
            tell(f"Deleted what has expired of {application}: {runs}, {topics}.")

    @opens_root
    def sweep_root(self, keep: Keep, *, dry: bool = False) -> SweptRoot:
        """Delete what has expired of all applications and in all logs, and what dead processes have left on this host.

        ``dry`` only reports what that would be.
        """
        root = self.root
        logs = [log_under(root), *(bind_log(name, b, root) for name, b in self.bindings.items() if is_log(b))]
        # One root may be bound by several names; topics of brokers have their records under it, too.
        places = {(one.filesystem.root, one.name if one.kind != EMBEDDED else None): one for one in logs}
        swept = sweep_root(self.files, list(places.values()), self.systems_of, keep, dry=dry)
        swept.runs.leftovers.extend(sweep_left_behind(dry=dry))
        return swept

    def systems_of(self, run: RunPlan) -> dict[str, System]:
        """Return the systems of a run."""
        return bind_systems(run_bindings(run.systems, self.bindings), self.files.root)


def _counted(names: list[str], what: str) -> str:
    return f"1 {what}" if len(names) == 1 else f"{len(names):,} {what}s"
