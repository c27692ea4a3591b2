"""Files below a folder that have words in them that should, or should not, be there, while a Spark is at work in it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def files_with(folder: Path, words: str) -> list[Path]:
    """The files with these words (none: all).

    What goes meanwhile, as folders of a cluster and temporary files do, is left out.
    """
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(OSError):
                if path.is_file() and words.encode() in path.read_bytes():
                    found.append(path)
    return found
