"""Tasks whose containers end with them, and take stage runners along: what others find, and what they make of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import RunnerFolder, all_runners
from airflow_samza.runs.stages.stage_state import RUNNING, SUCCEEDED
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support import runner_without_spark
from tests.support.containers import Container, need_containers
from tests.support.looping import APPLICATION, Place
from tests.support.runner_without_spark import Dials
from tests.support.task_in_container import APPLICATIONS
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)


class Ground:
    """A root on a volume that all containers mount, and a run that was planned."""

    def __init__(self, folder: Path) -> None:
        need_containers()
        self.volume = folder / "volume"
        self.volume.mkdir()
        (self.volume / "looping_app.py").write_text(APPLICATION)
        sys.path.insert(0, str(self.volume))
        self.dials = Dials(self.volume / "dials")
        self.place = Place(self.volume)
        self.place.send(0, 40)
        self.run: RunPlan = self.place.prepare("bounded", "staged")
        self.files = open_filesystem(self.place.runtime.root)
        self.stages = [stage.stage_id for stage in self.run.plan.stages]
        self._made: list[Container] = []

    def container(self, name: str = "worker") -> Container:
        """Another container; all have one host name unless told otherwise."""
        environment = {APPLICATIONS: str(self.volume), runner_without_spark.VARIABLE: str(self.dials.folder)}
        self._made.append(Container([self.volume], name, environment=environment))
        return self._made[-1]

    def task(self, stage: str, generation: int = 1, own: str = "own") -> list[str]:
        """The command of a task."""
        root = self.place.runtime.root
        program = [sys.executable, "-m", "tests.support.task_in_container"]
        return [*program, root, self.run.run_id, stage, str(generation), own]

    def runners(self) -> list[RunnerFolder]:
        return all_runners(self.files, self.place.folder_of(self.run, self.stages[0]).run)

    def runs_now(self, stage: str, generation: int = 1) -> bool:
        return self.place.runtime.status(self.place.folder_of(self.run, stage, generation)).state == RUNNING

    def evict(self, stage: str) -> None:
        """Have a stage's container end in the middle of it."""
        self.dials.turn("hold")
        evicted = self.container()
        evicted.start(*self.task(stage))
        until(lambda: self.runs_now(stage), 200)
        evicted.evict()
        self.dials.turn("hold", None)

    def check_outputs(self) -> None:
        """The outputs are those of an undisturbed run."""
        assert self.place.copied() == sorted(self.place.sent)
        assert self.place.counted() == self.place.expected()
        assert self.place.minutes() == self.place.expected_minutes()

    def close(self) -> None:
        sys.path.remove(str(self.volume))
        sys.modules.pop("looping_app", None)
        for container in self._made:
            container.evict()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


@pytest.mark.nightly
def test_each_stages_task_has_a_runner_that_ends_with_its_container(ground: Ground) -> None:
    for stage in ground.stages:
        code, said = ground.container().run(*ground.task(stage))
        assert code == 0, said
        assert "process 1 submitted attempt 1" in said
    ground.check_outputs()
    assert len(ground.runners()) == len(ground.stages)
    claims = [runner.who(ground.files) or {} for runner in ground.runners()]
    assert len({claim["host"] for claim in claims}) == 1
    assert len({claim["place"] for claim in claims}) >= 1
    code, said = ground.container("elsewhere").run(*ground.task("close"))
    assert code == 0, said
    assert ground.files.exists(ground.runners()[0].run.closed)


@pytest.mark.extended
def test_a_pod_that_is_evicted_in_the_middle_of_a_stage_loses_and_doubles_nothing(ground: Ground) -> None:
    first, *others = ground.stages
    ground.evict(first)
    # A pod of the same name, whose processes have the same numbers.
    code, said = ground.container().run(*ground.task(first))
    assert code == 0, said
    assert "process 1 submitted attempt 2" in said
    code, said = ground.container().run(*ground.task(",".join(others)))
    assert code == 0, said
    ground.check_outputs()


@pytest.mark.nightly
def test_a_clear_in_another_pod_supersedes_what_an_evicted_one_has_left(ground: Ground) -> None:
    first, *others = ground.stages
    ground.evict(first)
    code, said = ground.container("another").run(*ground.task(first, generation=2))
    assert code == 0, said
    code, said = ground.container().run(*ground.task(",".join(others), generation=2))
    assert code == 0, said
    ground.check_outputs()


@pytest.mark.nightly
def test_a_runner_in_another_container_of_the_same_name_is_no_process_of_ours_and_not_dead(ground: Ground) -> None:
    """Long-lived workers in containers that were all given one host name, where a runner outlives its task."""
    first = ground.stages[0]
    ground.dials.turn("hold")
    holder = ground.container()
    holder.start(*ground.task(first, own="shared"))
    until(lambda: ground.runs_now(first), 200)
    other = ground.container().start(*ground.task(first, own="shared"))
    assert other.stdout is not None
    assert other.stdout.readline() == "process 1 submitted attempt 1\n"  # it attached
    ground.dials.turn("hold", None)
    assert other.wait(120) == 0
    assert len(ground.runners()) == 1
    handle = ground.place.folder_of(ground.run, first)
    assert ground.place.runtime.wait(handle, timeout=60).state == SUCCEEDED


def test_a_container_whose_user_has_no_name_is_told_before_java_starts(ground: Ground, tmp_path: Path) -> None:
    program = "from airflow_samza.launch.java.installed_java import check_user; check_user()"
    container = Container([ground.volume], uid=54321, environment={"LOGNAME": "", "USER": "", "HOME": "/"})
    code, said = container.run(sys.executable, "-c", program)
    assert code != 0
    assert "The user id 54321 has no entry in /etc/passwd, and Java starts no Spark without a user's name." in said
