"""The folder of what an application carries from run to run: versions of its state, leases, and the files of both.

The plan step and the end of a run write there; upkeep, the page and the command line read.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_samza.runs.records.names import former_state_folder, safe, state_folder


@dataclass(frozen=True)
class StateHistory:
    """The records of one application's state.

    ``versions`` is the history itself; ``runs`` holds the states of runs apart from it (backfills).
    """

    application: str
    app_id: str = "1"

    @property
    def path(self) -> str:
        """The folder, from the root."""
        return state_folder(self.application, self.app_id)

    @property
    def former_path(self) -> str:
        """The folder in which earlier releases kept it, which is the same one for most."""
        return former_state_folder(self.application, self.app_id)

    @property
    def versions(self) -> str:
        """The folder of versions."""
        return f"{self.path}/versions"

    def version(self, number: int) -> str:
        """A version: what one run left, written once, when all its stages had succeeded."""
        return f"{self.versions}/{number:020}.json"

    def version_files(self, fence: int) -> str:
        """The folder of the state files of the version that the holder of a lease commits."""
        return f"{self.path}/files/{fence:020}"

    @property
    def leases(self) -> str:
        """The folder of leases, numbered from 1."""
        return f"{self.path}/leases"

    def lease(self, fence: int, record: str) -> str:
        """A record of one lease: ``taken``, ``begun`` (decided before the first commit) or ``ended``."""
        return f"{self.leases}/{fence:020}/{record}.json"

    @property
    def runs(self) -> str:
        """The folder of states that belong to single runs."""
        return f"{self.path}/runs"

    def own(self, run_id: str) -> str:
        """The folder of the state of one run apart from the lineage."""
        return f"{self.runs}/{safe(run_id)}"

    def own_state(self, run_id: str, plan_generation: int) -> str:
        """Return the path of the state that such a run left."""
        return f"{self.own(run_id)}/{plan_generation}.json"

    def own_files(self, run_id: str, plan_generation: int) -> str:
        """The folder of its state files."""
        return f"{self.own(run_id)}/files/{plan_generation}"

    def pin(self, version: int, run_id: str) -> str:
        """Says that a run apart from the lineage reads a version, which therefore stays."""
        return f"{self.path}/pins/{version:020}/{safe(run_id)}.json"

    @property
    def pins(self) -> str:
        """The folder of pins, by version."""
        return f"{self.path}/pins"

    def reset_command(self, to: int | None = None) -> str:
        """Return the command that goes back to a version; 0, or none: to no state.

        >>> StateHistory("page-views", "2").reset_command(to=4)
        'airflow-samza state reset page-views --app-id 2 --to 4'
        """
        words = ["airflow-samza state reset", self.application]
        words += ["--app-id", self.app_id] if self.app_id != "1" else []
        return " ".join([*words, *(["--to", str(to)] if to is not None else [])])
