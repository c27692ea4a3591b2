"""A chooser that knows nothing but the protocol."""

from __future__ import annotations

from typing import Any


class NewestFirst:
    """A chooser of the user's with nothing but the protocol: what came last goes first."""

    def __init__(self, context: Any = None) -> None:
        self.waiting: list[Any] = []

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def register(self, ssp: Any, offset: Any) -> None: ...

    def update(self, envelope: Any) -> None:
        self.waiting.append(envelope)

    def choose(self) -> Any:
        return self.waiting.pop() if self.waiting else None
