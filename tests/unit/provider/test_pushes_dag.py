"""The Dag file of docs/how-to/pushes.md can be read by Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documentation_pages import loaded


def test_the_dags_have_the_tasks_that_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded("how-to/pushes.md", "dag.py", tmp_path, monkeypatch)
    assert module.push.downstream_task_ids == {"readers_have_it"}
    assert module.push.outlets[0] == module.pushed_table("profiles")
    assert (module.push.mode, module.push.on_duplicate, module.push.deferrable) == ("full", "last", True)
