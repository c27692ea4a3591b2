"""The figures of a benchmark: every run of everybody, and the ratios that follow."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measuring import Measured

OURS = "airflow_samza"


@dataclass(frozen=True)
class WorkloadResult:
    """The warm runs of one workload by contender, in the order in which they took turns.

    ``stages``: seconds of our best run.

    ``when`` says on which machine and day, where that is not the report's.
    """

    workload: str
    rows: int
    runs: Mapping[str, list[Measured]]
    stages: Mapping[str, float] = field(default_factory=dict)
    when: str = ""

    def best(self, contender: str) -> Measured:
        """The fastest run."""
        return min(self.runs[contender], key=lambda run: run.seconds)

    def memory(self, contender: str) -> int:
        """The most memory of all runs, in bytes."""
        return max(run.memory for run in self.runs[contender])

    def ratios(self, peer: str) -> list[float]:
        """The peer's time as a multiple of ours, round by round."""
        return [theirs.seconds / ours.seconds for ours, theirs in zip(self.runs[OURS], self.runs[peer], strict=True)]

    def ratio(self, peer: str) -> float:
        """The median of the rounds' ratios: what else the machine did hit both runs of a round."""
        return statistics.median(self.ratios(peer))

    def best_ratio(self, peer: str) -> float:
        """The peer's best run against ours."""
        return self.best(peer).seconds / self.best(OURS).seconds


@dataclass(frozen=True)
class Report:
    """All that was measured. ``cold`` are whole processes from nothing to a result, by contender."""

    machine: str
    day: str
    workloads: list[WorkloadResult]
    cold: Mapping[str, list[Measured]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dataclasses.asdict(self)

    def beside(self, former: Report, *, sizes: bool = False) -> Report:
        """With the workloads that only a former report has, and its cold starts if there are none here.

        With ``sizes`` a workload over another number of rows is another one.
        """
        measured = {(result.workload, result.rows if sizes else 0) for result in self.workloads}
        when = f"{former.machine}; {former.day}"
        others = [
            dataclasses.replace(result, when=result.when or when)
            for result in former.workloads
            if (result.workload, result.rows if sizes else 0) not in measured
        ]
        return dataclasses.replace(self, workloads=[*self.workloads, *others], cold=self.cold or former.cold)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Return the result that :meth:`to_dict` wrote."""
        return cls(
            data["machine"],
            data["day"],
            [
                WorkloadResult(w["workload"], w["rows"], _runs(w["runs"]), w["stages"], w.get("when", ""))
                for w in data["workloads"]
            ],
            _runs(data["cold"]),
        )


def _runs(data: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, list[Measured]]:
    return {name: [Measured(**run) for run in runs] for name, runs in data.items()}
