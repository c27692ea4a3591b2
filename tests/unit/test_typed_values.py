"""Values of declared types: the first use of a type by several threads, and by what is forked meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

# An annotation is evaluated when msgspec looks at the type: here it lets another thread in. Nobody answers `other_done`
# where that thread has to wait.
MEETING = """
import os, threading
from dataclasses import dataclass
from airflow_samza.typed_values import converted

looking, other_done = threading.Event(), threading.Event()

def held():
    looking.set()
    other_done.wait(0.3)
    return int

@dataclass
class Inner:
    number: "held()"

@dataclass
class Outer:
    first: int
    inner: Inner

data = {{"first": 1, "inner": {{"number": 2}}}}
expected = Outer(1, Inner(2))
found = []
first = threading.Thread(target=lambda: found.append(converted(data, Outer)))
first.start()
looking.wait()
{other}
other_done.set()
first.join()
assert found == [expected], found
"""

SAME = "assert converted(data, Outer) == expected"
FORKED = """
child = os.fork()
if not child:
    os._exit(0 if converted(data, Outer) == expected else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.parametrize("other", [SAME, FORKED], ids=["thread", "forked process"])
def test_a_type_that_one_thread_meets_first_is_whole_for_others(other: str) -> None:
    done = subprocess.run([sys.executable, "-c", MEETING.format(other=other)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
