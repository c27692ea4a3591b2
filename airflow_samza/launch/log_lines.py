"""The line of a log with the reason why something did not start.

Errors of starts, of workers and of pushes quote it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

WHOLE_TRACEBACK = "The runner's log has the whole traceback."
WHOLE_ERROR = "The runner's log has the whole error."


def details_in(log: str = "") -> str:
    """Return the hint that leads to the stage runner's log, and to the place where it lies."""
    return f"Details are in the stage runner's log{f': {log}' if log else '.'}"


_SIGNALS = 64
"""A shell adds 128 to the number of the signal that has ended what it ran."""

_ERROR = re.compile(r"\bERROR\b|Exception\b|\berror:|Error\b|\bFAILED\b|airflow_samza:")
_FRAME = re.compile(r"\s+at ")
_SILENT_JAVA = re.compile(r".*CMD: bad array subscript$")
"""The line of Spark's script where the Java that it asks for its command has ended without a word."""
_EMPTY_WORDS = re.compile(
    r"WARNING: Using incubator modules|.*CMD: bad array subscript$|"
    r"Error: (Could not create the Java Virtual|A fatal exception has occurred)|Error occurred during initialization of"
)
_YARN_FAILED = re.compile(r"Application application_\w+ finished with failed status")
_YARN_REASONS = (
    re.compile(r"Diagnostics: (?:\[[^\]]*\] *)?(\S.*)"),  # of a container that could not be started
    re.compile(r"Application diagnostics message: (\S.*)"),  # of a driver that has ended
)
_THREAD = re.compile(r'Exception in thread "[^"]*" ')


def killed_by(exit_code: int) -> str | None:
    """Return the signal that has ended a process, by its exit code; None when none has.

    >>> killed_by(-9), killed_by(143), killed_by(1)
    ('killed by signal 9 (out of memory?)', 'killed by signal 15', None)
    """
    number = -exit_code if exit_code < 0 else exit_code - 128
    if not 0 < number < _SIGNALS:
        return None
    return f"killed by signal {number}{' (out of memory?)' if number == signal.SIGKILL else ''}"


def most_informative_line(lines: Sequence[str]) -> str:
    """Return the last line of a log that reports an error; the last one when none does.

    >>> most_informative_line(["java.net.UnknownHostException: nowhere", "    at java.base/x", "INFO Hooks: Deleting"])
    'java.net.UnknownHostException: nowhere'
    >>> most_informative_line(["Unrecognized option: -Xmuch", "Error: Could not create the Java Virtual Machine."])
    'Unrecognized option: -Xmuch'
    >>> most_informative_line(["/opt/spark/bin/spark-class: line 97: CMD: bad array subscript"])
    'Java ended without a word: the kernel may have killed it for memory'

    The last line of a submission to YARN only says that it has failed; the reason is among the diagnostics before.
    """
    filled = [line for line in lines if line.strip() and not _EMPTY_WORDS.match(line)] or list(lines)
    errors = [line for line in filled if _ERROR.search(line) and not _FRAME.match(line)]
    last = (errors or filled)[-1]
    if _YARN_FAILED.search(last):
        said = (match[1] for pattern in _YARN_REASONS for line in reversed(lines) if (match := pattern.search(line)))
        last = next(said, last)
    return _SILENT_JAVA.sub(
        "Java ended without a word: the kernel may have killed it for memory", _THREAD.sub("", last.strip())
    )


_JAVA_CAUSE = re.compile(r"^(?:Caused by: |: )(.+)$", re.MULTILINE)
_API_SERVER = re.compile(r"KubernetesClientException: .*?Message: (.*?)\.? Received status: ")


def innermost_cause(error: str) -> str:
    r"""Return the last cause that the text of an error from Java names, in the API server's words where it has said it.

    >>> innermost_cause("An error occurred while calling o1.x.\n: a.B: no context\n\tat c.D\nCaused by: e.F: no room")
    'e.F: no room'
    >>> innermost_cause("no Java")
    ''
    """
    causes = _JAVA_CAUSE.findall(error)
    return said_by_api_server(causes[-1]) or str(causes[-1]) if causes else ""


def said_by_api_server(line: str) -> str:
    """Return what Kubernetes' API server has answered, where a line of Java's reports an answer that is an error."""
    found = _API_SERVER.search(line)
    return found[1] if found is not None else ""
