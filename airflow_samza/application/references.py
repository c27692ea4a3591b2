"""References of applications, ``module:attribute``, and the names of modules that are made of single functions."""

from __future__ import annotations

import hashlib
import re

_OF_A_FUNCTION = re.compile(r"(samza_task_\w+)_[0-9a-f]{12}(?=:)")


def function_module(name: str, source: str) -> str:
    """Return the name of a module that is made of one function: of the function's name and of the module's source."""
    return f"samza_task_{name}_{hashlib.sha256(source.encode()).hexdigest()[:12]}"


def names_the_same(reference: str, other: str) -> bool:
    """Return True if two references name the same function or class, whatever it contains.

    >>> names_the_same("pipelines.views:app", "views:app")
    False
    >>> names_the_same("samza_task_views_0123456789ab:described", "samza_task_views_ba9876543210:described")
    True
    """
    return _OF_A_FUNCTION.sub(r"\1", reference) == _OF_A_FUNCTION.sub(r"\1", other)
