"""The exceptions of users' code that are its failure.

A callable that calls ``sys.exit()`` has failed, a Ctrl-C has not.
"""

from __future__ import annotations

USER_ERRORS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
"""The exceptions to catch around a call of the user's code.

The last three would else end the process, or an iteration, without a word.

Pass a caught one through :func:`let_interrupts_through` before it is reported.
"""


def let_interrupts_through(error: BaseException) -> None:
    """Raise a person's Ctrl-C again, which comes in the middle of any code.

    One that a ``raise`` made is a failure as any other.
    """
    if type(error) is KeyboardInterrupt and not _made_by_raise(error):
        raise error


def _made_by_raise(error: BaseException) -> bool:
    import dis

    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
