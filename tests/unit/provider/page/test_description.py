from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_samza.provider.page import app

DESCRIPTION = Path(app.__file__).parent / "openapi.json"


def description_text() -> str:
    """The OpenAPI description, of which the page's TypeScript types are made.

    How a user signs in is Airflow's, and differs between its releases.
    """
    document = app.make_app().openapi()
    document["info"].pop("description")  # it names the version
    document["components"].pop("securitySchemes", None)
    for path in document["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_the_description_in_the_package_is_that_of_the_code() -> None:
    """``WRITE_DESCRIPTION=1`` writes it; the page's types are made of it."""
    found = description_text()
    if os.environ.get("WRITE_DESCRIPTION"):
        DESCRIPTION.write_text(found, encoding="utf-8")
    assert DESCRIPTION.read_text(encoding="utf-8") == found


@pytest.mark.extended
def test_the_plugin_loads_nothing_of_the_page() -> None:
    """Schedulers, Dag processors and workers import it, too."""
    code = """
import sys
try:
    import airflow.sdk.plugins_manager
except ImportError:  # Airflow 3.1
    import airflow.plugins_manager
before = set(sys.modules)
import airflow_samza.provider.page.plugin
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
assert not loaded & {"fastapi", "pydantic", "pyarrow", "sqlalchemy", "pyspark"}, sorted(loaded)
assert "airflow_samza.provider.page.app" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
