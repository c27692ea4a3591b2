"""``make release`` in a clone: a trial of a commit without a tag, and what stops the release of one that has a tag."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_samza

ROOT = Path(__file__).resolve().parents[2]
VERSION = airflow_samza.__version__


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(folder)], check=True)
    return folder


def release(clone: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(
        command or ("scripts/release.sh",), cwd=clone, env=environment, capture_output=True, text=True, timeout=1700
    )


@pytest.mark.extended
def test_a_commit_with_a_tag_that_cannot_be_released_ends_before_anything_is_built(clone: Path) -> None:
    subprocess.run(["git", "tag", "v9.9.9"], cwd=clone, check=True)
    (clone / "draft.md").touch()
    done = release(clone)
    assert done.returncode == 1
    assert f"airflow-samza {VERSION} cannot be released:\n" in done.stdout
    assert "  - Files differ from the commit (draft.md): commit them.\n" in done.stdout
    assert (
        f"  - The commit lacks the tag v{VERSION} (it has v9.9.9): tag it as docs/project/releasing.md says.\n"
        in done.stdout
    )
    assert not (clone / "dist").exists()


@pytest.mark.extended
def test_a_commit_without_a_tag_is_tried_and_what_it_lacks_is_said(clone: Path) -> None:
    done = release(clone, sys.executable, "scripts/release_checks.py", "ready")
    assert done.returncode == 0
    assert f"A trial of airflow-samza {VERSION}. Before it is released:\n" in done.stdout
    assert f"The commit lacks the tag v{VERSION}: " in done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_trial_builds_all_that_a_release_publishes(clone: Path) -> None:
    (clone / "airflow_samza" / "draft.py").touch()  # not in the commit, so not in the wheel
    done = release(clone)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    for said in ("The wheel works.", "have the repository's files, and no others.", "PASSED"):
        assert said in done.stdout
    name = f"airflow_samza-{VERSION}"
    files = {path.name: path.read_bytes() for path in (clone / "dist").iterdir()}
    built = {f"{name}-py3-none-any.whl", f"{name}.tar.gz", f"{name}.cdx.json"}
    assert set(files) == {*built, "SHA256SUMS"}
    sums = [f"{hashlib.sha256(files[file]).hexdigest()}  {file}" for file in built]
    assert sorted(files["SHA256SUMS"].decode().splitlines()) == sorted(sums)

    text = files[f"{name}.cdx.json"].decode()
    sbom = json.loads(text)
    root = sbom["metadata"]["component"]
    assert (sbom["bomFormat"], root["name"], root["version"]) == ("CycloneDX", "airflow-samza", VERSION)
    listed = {component["name"]: component["version"] for component in sbom["components"]}
    assert listed["apache-airflow"]
    assert listed["pyspark"] == listed["pyspark-client"]
    assert not {"pip", "pytest", "twine"} & set(listed)
    assert "file:" not in text
    assert str(clone) not in text
