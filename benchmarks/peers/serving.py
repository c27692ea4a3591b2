"""Loop of a peer that runs in an environment of its own, by the standard library only.

It reads lines ``WORK PLACE MESSAGES`` from standard input and answers each with a line of JSON: the seconds of the
work, and per page the views and their milliseconds, where the work is to count these.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable

Pages = Iterable[tuple[int, int, int]]
"""Page, views and milliseconds."""


def serve(work: Callable[[str, str, int], Callable[[], Pages]]) -> None:
    """Answer the requests; what libraries print goes to standard error.

    ``work`` does what is measured, and returns what looks at its result.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, place, messages = line.split()
        begin = time.perf_counter()
        look = work(name, place, int(messages))
        seconds = time.perf_counter() - begin
        pages = {page: [views, millis] for page, views, millis in look()}
        print(json.dumps({"seconds": seconds, "pages": pages}), file=answers, flush=True)
