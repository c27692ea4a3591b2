"""``pytest tests/conformance --cases DIR`` runs the cases of any folder; without the option the project's own."""

from pathlib import Path

import pytest

OWN_CASES = Path(__file__).parent / "cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", type=Path, default=OWN_CASES, metavar="DIR", help="folder of conformance cases (*.json)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "conformance_case" not in metafunc.fixturenames:
        return
    from tests.conformance.case_files import find_cases

    # A run over the whole repository loads this file too late for the option to exist.
    folder = metafunc.config.getoption("--cases", default=OWN_CASES)
    cases = find_cases(Path(folder))
    metafunc.parametrize("conformance_case", cases, ids=[case.id for case in cases])
