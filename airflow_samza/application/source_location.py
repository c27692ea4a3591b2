"""Places in the user's code: of a call, of a failure, and of a callable.

Declarations note them, and sentences about wrong use and about failures of the user's own code name them.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

# Both spellings: code objects carry the name under which a file was found, which may lead through a link. The separator
# at the end keeps a user's package "airflow_samza_jobs" outside.
_PACKAGE = tuple(
    {os.path.join(os.path.dirname(os.path.dirname(path)), "") for path in (__file__, os.path.realpath(__file__))}
)

_DEEPEST = 100
"""Wrappers of a function that are looked behind: a proxy that has whatever it is asked for has ever more of them."""


@dataclass(frozen=True)
class SourceLocation:
    """File and line (1-based) of a statement in the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of_caller(cls) -> SourceLocation | None:
        """Return the nearest frame outside this package, or None when there is none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if not frame.f_code.co_filename.startswith(_PACKAGE):
                return cls(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return None

    @classmethod
    def of_traceback(cls, traceback: TracebackType | None) -> SourceLocation | None:
        """Return the innermost frame of a traceback outside this package, Python itself and what is installed.

        None when there is none.
        """
        import sysconfig

        libraries = (
            *_PACKAGE,
            *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            "<",
        )
        innermost: SourceLocation | None = None
        while traceback is not None:
            if not traceback.tb_frame.f_code.co_filename.startswith(libraries):
                innermost = cls(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            traceback = traceback.tb_next
        return innermost

    @classmethod
    def of_callable(cls, function: Any) -> SourceLocation | None:
        """Return the place where a callable is defined, or None when it has no Python code."""
        for _ in range(_DEEPEST):  # a partial of a decorated function is still the user's function
            inner = function.func if isinstance(function, functools.partial) else getattr(function, "__wrapped__", None)
            if not callable(inner):
                break
            function = inner
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType) and not isinstance(function, type):
            code = getattr(getattr(type(function), "__call__", None), "__code__", None)  # noqa: B004 (an instance's own code)
        return cls(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else None
