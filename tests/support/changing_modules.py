"""Modules of a test's own, each time written anew and imported as they then are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


class ChangingModules:
    """A folder on the path of imports, from which a module is imported as it was written last."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        patch.syspath_prepend(str(folder))
        patch.setattr(sys, "dont_write_bytecode", True)

    def write(self, name: str, source: str) -> None:
        (self._folder / f"{name}.py").write_text(source)
        sys.modules.pop(name, None)
        sys.path_importer_cache.clear()
