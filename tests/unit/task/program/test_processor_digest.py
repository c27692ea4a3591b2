"""The digest of a processor's code: what it covers, and of which factories there is none."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.application import code_digest as code_digests
from airflow_samza.task.program.processor_digest import code_digest

NAMES = ("samza_rows", "samza_more", "samza_deep")

FILES = {
    "samza_rows/__init__.py": "",
    "samza_rows/processors.py": """
import json
from .inner import scale
import samza_more

class Rows:
    pass

def rows(config, metrics):
    from samza_deep import late
    return Rows()
""",
    "samza_rows/inner.py": "from . import deepest\nscale = 1\n",
    "samza_rows/deepest.py": "value = 1\n",
    "samza_rows/unused.py": "value = 1\n",
    "samza_more.py": "import numpy\n",
    "samza_deep.py": "late = 1\n",
}

Digest = Callable[..., str | None]


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Digest]:
    """The digest of ``rows`` with some of its files changed, as a process that starts now makes it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(changed: str | None = None) -> str | None:
        for name, text in {**FILES, **({changed: f"{FILES[changed]}# changed\n"} if changed else {})}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        forget()
        return code_digest(importlib.import_module("samza_rows.processors").rows)

    yield made
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]
    importlib.invalidate_caches()


def test_it_is_the_same_in_every_process(digest: Digest) -> None:
    assert digest() is not None
    assert digest() == digest()


@pytest.mark.parametrize("changed", [name for name in FILES if "unused" not in name])
def test_it_is_another_when_a_module_changes_that_the_factory_imports(digest: Digest, changed: str) -> None:
    before = digest()
    assert digest(changed) != before
    assert digest() == before


def test_it_is_the_same_when_another_module_changes(digest: Digest) -> None:
    assert digest("samza_rows/unused.py") == digest()


def test_it_is_another_with_another_version_of_a_library(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest()
    monkeypatch.setattr(code_digests, "_version", lambda library: f"another {library}")
    assert digest() != before


class Holder:
    def __call__(self, config: Any, metrics: Any) -> Any:
        return None

    def method(self, config: Any, metrics: Any) -> Any:
        return None


def module_level(config: Any, metrics: Any) -> Any:
    return None


def local() -> Any:
    def factory(config: Any, metrics: Any) -> Any:
        return None

    return factory


def of_main(config: Any, metrics: Any) -> Any:
    return None


of_main.__module__ = "__main__"


@pytest.mark.parametrize("factory", [Holder, module_level])
def test_a_class_or_function_of_a_module_has_one(factory: Any) -> None:
    assert code_digest(factory) is not None


@pytest.mark.parametrize(
    "factory",
    [local(), lambda config, metrics: None, functools.partial(module_level), Holder(), Holder().method, of_main, dict],
    ids=["local", "lambda", "partial", "object", "method", "main", "without source"],
)
def test_what_holds_more_than_its_code_has_none(factory: Any) -> None:
    assert code_digest(factory) is None
