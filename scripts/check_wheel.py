"""Checks of an installed wheel; ``check-wheel.sh`` runs them in an empty environment, away from this folder."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urljoin

import airflow_samza
from airflow_samza import StreamApplicationDescriptor, TestDriver, count, stream_application


def check_contents(wheel: str) -> None:
    """Check that a wheel has the package with the page, its mark for type checkers and the licence, nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    foreign = {name.partition("/")[0] for name in names} - {"airflow_samza"}
    assert len(foreign) == 1, f"The wheel has more than the package and its metadata: {sorted(foreign)}."
    page = "airflow_samza/provider/page"
    for file in ("static/index.html", "static/licenses.md", "openapi.json"):
        assert f"{page}/{file}" in names, f"The wheel lacks {file} of the page in Airflow."
    assert not any(name.startswith(f"{page}/web/") for name in names), "The wheel has the sources of the page."
    assert "airflow_samza/py.typed" in names, "The wheel lacks py.typed, so that its types are unknown to users."
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names), "The wheel lacks the licence."


def check_metadata() -> None:
    """Check that the version is one everywhere, and that this Python is one of the classifiers."""
    metadata = importlib.metadata.metadata("airflow-samza")
    assert metadata["Version"] == airflow_samza.__version__
    python = f"Programming Language :: Python :: {sys.version_info[0]}.{sys.version_info[1]}"
    assert python in metadata.get_all("Classifier", []), f"{python} is missing among the classifiers."


def check_command() -> None:
    """Run the command that the wheel installs, away from whatever PYTHONPATH names."""
    command = [sys.executable, "-I", str(Path(sys.executable).with_name("airflow-samza"))]
    assert "backfill-preview" in subprocess.check_output([*command, "--help"], text=True)
    assert airflow_samza.__version__ in subprocess.check_output([*command, "version"], text=True)


def check_imports() -> None:
    """Import every public name and every module: what they need must be among the dependencies."""
    for name in airflow_samza.__all__:
        getattr(airflow_samza, name)
    extras = {
        re.split(r"[^\w-]", line)[0].replace("-", "_")
        for line in importlib.metadata.requires("airflow-samza") or ()
        if "extra ==" in line
    }
    modules = [found.name for found in pkgutil.walk_packages(airflow_samza.__path__, "airflow_samza.")]
    for module in modules:
        if not module.endswith(".__main__"):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                name = str(error.name)
                if not {name, f"apache_{name.replace('.', '_')}"} & extras:  # what an extra brings is not here
                    raise
    print(f"{len(airflow_samza.__all__)} public names, {len(modules)} modules")


def check_application() -> None:
    """Run an application in memory, with SQL on its way."""

    @stream_application("page-views")
    def page_views(app: StreamApplicationDescriptor) -> None:
        views = app.input_stream("page-views", schema="country string, dwell_ms int", partitions=2)
        counted = (
            views.where("upper(country) <> 'NO'")
            .partition_by("country", id="by-country")
            .aggregate("country", views=count(), id="counted")
        )
        counted.send_to(app.output_stream("views-per-country"))

    driver = TestDriver(page_views).pipe(
        "page-views", [{"country": country, "dwell_ms": 1} for country in ("nl", "no", "nl")]
    )
    assert [(row.country, row.views) for row in driver.run().output("views-per-country")] == [("nl", 2)]


def check_provider() -> None:
    """Check that Airflow finds the provider by its entry point, with its hook."""
    try:
        from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime as Manager
    except ImportError:  # Airflow 3.1
        from airflow.providers_manager import ProvidersManager as Manager

    manager = Manager()
    provider = manager.providers["airflow-samza"]
    assert provider.version == airflow_samza.__version__
    hook = manager.hooks["samza"]
    assert hook is not None
    print(
        f"Airflow {importlib.metadata.version('apache-airflow')} has the provider, its connection is called "
        f"{hook.hook_name!r}"
    )


def check_page() -> None:
    """Ask the page by its plugin's application, mounted as Airflow does: its index, and what that loads."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    (entry,) = importlib.metadata.entry_points(group="airflow.plugins", name="samza")
    main = FastAPI()
    for each in entry.load().fastapi_apps:
        main.mount(each["url_prefix"], each["app"])
    browser = TestClient(main)
    index = browser.get("/samza/")
    assert (index.status_code, "<title>" in index.text) == (200, True), index
    loaded = re.findall(r'(?:src|href)="(\./[^"]+)"', index.text)
    assert any(place.endswith(".js") for place in loaded), index.text
    for place in loaded:
        assert browser.get(urljoin("/samza/", place)).status_code == 200, place
    print(f"the page of the plugin: its index, and {', '.join(loaded)}")


check_contents(sys.argv[1])
check_metadata()
check_command()
check_imports()
check_application()
check_provider()
check_page()
print("The wheel works.")
