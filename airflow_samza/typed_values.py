"""Values of declared types, of the JSON that describes them; several threads may be the first to use a type.

msgspec looks at a type when it meets it for the first time, and keeps what it finds with the type before that is
complete. Another thread that meets the type meanwhile takes it as it is, and the process dies of a segmentation fault
(msgspec 0.19 to 0.22). So one thread at a time may be the first to use a type, and none while the process forks: the
child would go on with what is incomplete. Records of commits, slots and manifests are read by it.
"""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar

T = TypeVar("T")

_met: set[type] = set()
_first_use = threading.Lock()
os.register_at_fork(before=_first_use.acquire, after_in_parent=_first_use.release, after_in_child=_first_use.release)


def converted(data: Any, kind: type[T], *, str_keys: bool = False) -> T:
    """Return the value of a type that ``data`` describes; with ``str_keys`` keys of mappings are texts, as in JSON.

    Raises:
        msgspec.ValidationError: a key is missing, or has a value of a wrong type.
    """
    import msgspec

    if kind in _met:
        return msgspec.convert(data, kind, str_keys=str_keys)
    with _first_use:
        try:
            return msgspec.convert(data, kind, str_keys=str_keys)
        finally:
            _met.add(kind)
