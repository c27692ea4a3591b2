"""Sealed settings, with their secrets, for a driver that spark-submit or a service starts.

A command line, Spark's settings, its page and its event log show what they hold; spark-submit passes no standard input
on. So what a driver is handed lies in a file that shows nothing without its key, which goes another way. A key seals
one text and is then thrown away. So a stream of bytes that the key determines may cover the text, which the standard
library has; a digest under the same key says whether the text is whole (decision 78). The launcher writes the file, and
a driver's program opens it.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from airflow_samza.errors import StageFailed

KEY_BYTES = 32
_TAG_BYTES = 32


def seal(content: bytes) -> tuple[bytes, bytes]:
    """Return the content sealed, and the only key to it.

    >>> sealed, key = seal(b"a password")
    >>> b"password" in sealed, unseal(sealed, key)
    (False, b'a password')
    """
    key = os.urandom(KEY_BYTES)
    covered = _covered(content, key)
    return _tag(covered, key) + covered, key


def unseal(sealed: bytes, key: bytes) -> bytes:
    """Return the content; :class:`~airflow_samza.errors.StageFailed` when the key is that of something else."""
    tag, covered = sealed[:_TAG_BYTES], sealed[_TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(covered, key)):
        raise StageFailed(
            "The hand-over to the driver does not fit its key: it was damaged, or is that of another driver.",
            hint="Try again: each start of a driver has a hand-over and a key of its own.",
        )
    return _covered(covered, key)


def _covered(content: bytes, key: bytes) -> bytes:
    cover = hashlib.shake_256(b"cover" + key).digest(len(content))
    return bytes(byte ^ other for byte, other in zip(content, cover, strict=True))


def _tag(covered: bytes, key: bytes) -> bytes:
    return hmac.digest(hashlib.sha256(b"tag" + key).digest(), covered, "sha256")
