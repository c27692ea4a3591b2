"""Examples and commands that the README and the tour show work, and the README's first screen is short."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.test_commands import problem

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = README + (ROOT / "docs" / "get-started" / "tour.md").read_text(encoding="utf-8")
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/project/releasing.md",
]

EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", TEXT, flags=re.DOTALL))
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the README's examples as files, and a day of input for them."""
    for name, text in EXAMPLES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, text in {
        "views/2026-01-01/1.jsonl": '{"member_id": 1, "country": "NL", "dwell_ms": 1500}\n',
        "members/1.jsonl": '{"member_id": 1, "tier": "gold"}\n',
        "../lake/flights/1.jsonl": '{"carrier": "UA", "delay": 20.0}\n',
    }.items():
        path = tmp_path / "landing" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def run(project: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(project), "AIRFLOW_HOME": str(project / "airflow")}
    done = subprocess.run([sys.executable, *command], cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_screen_has_fewer_than_forty_lines() -> None:
    first = README.partition("\n## ")[0]
    assert first.count("\n") < 40
    assert all(part in first for part in ("pip install", "airflow-samza plan", "airflow-samza run", "```python"))


def test_the_readme_leads_four_ways_with_few_links() -> None:
    ways = README.partition("\n## Documentation\n")[2].partition("\n\n`make")[0]
    assert re.findall(r"^\| \*\*(\w+)", ways, flags=re.MULTILINE) == ["start", "look", "operate", "understand"]
    assert len(re.findall(r"\]\(", ways)) <= 20


def test_all_pages_install_the_airflow_and_pyspark_of_the_constraints() -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    installed: dict[str, set[str]] = {}
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for command in re.findall(r"^pip install .*$", page.read_text(), flags=re.MULTILINE):
            found = re.findall(r"\b(apache-airflow|pyspark|pyspark-client)==([\w.]+)", command)
            found += [("apache-airflow", version) for version in re.findall(r"/constraints-([\d.]+)/", command)]
            assert all(pinned[name] == version for name, version in found), f"{page}: {command}"
            if found:
                installed.setdefault(str(page.relative_to(ROOT)), set()).update(name for name, _ in found)
    assert set(installed) >= {"README.md", "docs/get-started/install.md", "docs/reference/compatibility.md"}


def test_example_dags_with_pushes_have_retries() -> None:
    pushing = [path for path in (ROOT / "dags").glob("*.py") if "SamzaTablePushOperator(" in path.read_text()]
    assert pushing
    for path in pushing:
        dags = re.split(r"^with DAG\(", path.read_text(), flags=re.MULTILINE)
        without = [part.splitlines()[1] for part in dags if "SamzaTablePushOperator(" in part and "retries" not in part]
        assert not without, f"{path.name}: {without}"


@pytest.mark.extended
def test_the_readme_application_counts_late_flights(project: Path) -> None:
    program = (
        "from airflow_samza import TestDriver; from pipelines.late_flights import late_flights; "
        "driver = TestDriver(late_flights); "
        "driver.pipe('flights', [{'carrier': 'UA', 'delay': late} for late in (1.0, 20.0, 30.0)]); "
        "print(*driver.run().output('late-flights'))"
    )
    assert run(project, "-c", program).strip() == "Row(carrier='UA', flights=2)"


@pytest.mark.extended
def test_the_readme_line_that_makes_a_dag_makes_a_task_per_stage(project: Path) -> None:
    line = re.search(r"`(SamzaDag\(.*?\))`", README)
    assert line is not None
    program = f"from airflow_samza import SamzaDag; print(*sorted({line[1]}.task_ids))"
    assert run(project, "-c", program).split() == ["by-carrier", "cleanup", "flights", "plan"]


def test_there_are_examples() -> None:
    assert set(EXAMPLES) == {
        "pipelines/late_flights.py",
        "pipelines/page_views.py",
        "dags/page_views.py",
        "dags/push_profiles.py",
        "test_page_views.py",
        "samza.toml",
    }


@pytest.mark.extended
def test_the_readme_test_of_the_application_passes(project: Path) -> None:
    assert "1 passed" in run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page_views.py")


def test_the_readme_dag_has_a_task_per_stage(project: Path) -> None:
    program = "import runpy; dag = runpy.run_path('dags/page_views.py')['dag']; print(*sorted(dag.task_ids))"
    text = (project / "dags" / "page_views.py").read_text().replace("catchup=False):", "catchup=False) as dag:")
    (project / "dags" / "page_views.py").write_text(text)
    tasks = run(project, "-c", program).split()
    assert {"views.plan", "views.cleanup"} < set(tasks)
    assert len(tasks) == 6


@pytest.mark.extended
def test_the_readme_dag_that_pushes_a_table_pushes_before_it_plans(project: Path) -> None:
    pages = re.search(
        r"<!-- example: pages.py -->\n```python\n(.*?)```",
        (ROOT / "docs" / "how-to/pushes.md").read_text(),
        flags=re.DOTALL,
    )
    assert pages is not None
    (project / "pipelines" / "pages.py").write_text(pages[1])
    path = project / "dags" / "push_profiles.py"
    path.write_text(path.read_text().replace("catchup=False):", "catchup=False) as dag:"))
    program = (
        "import runpy; dag = runpy.run_path('dags/push_profiles.py')['dag']; "
        "print(*dag.get_task('push').downstream_task_ids)"
    )
    assert run(project, "-c", program).split() == ["pages.plan"]


def plans() -> list[str]:
    return [command for command in COMMANDS if command.startswith("airflow-samza plan") and "--diff" not in command]


@pytest.mark.parametrize("command", plans())
@pytest.mark.few(1)
def test_the_readme_commands_that_plan_do(project: Path, command: str) -> None:
    run(project, "-c", "from airflow_samza.cli import main; main()", *shlex.split(command)[1:])


@pytest.mark.extended
def test_the_readme_environment_is_one_in_which_it_can_be_planned(project: Path) -> None:
    arguments = ["plan", "pipelines.page_views:page_views", "--env", "dev", "--interval", "2026-01-01/2026-01-02"]
    assert "declared" in run(project, "-c", "from airflow_samza.cli import main; main()", *arguments)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("airflow-samza")])
def test_the_readme_commands_know_their_options(command: str) -> None:
    assert problem(command) is None


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_is_named_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`(?:[A-Z]+=\S+ )?make ([a-z-]+)", (ROOT / document).read_text())) | {
        command.split()[-1] for command in COMMANDS if command.startswith("make ")
    }
    assert named <= targets
