"""Reporting of errors: one sentence and a hint on standard error, and an exit code for scripts.

Exit codes: 0 done; 1 the work failed (trying again may help); 2 rejected as asked; 70 a mistake in this program; 130
interrupted (Ctrl-C); 143 terminated (SIGTERM).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from airflow_samza.cli.terminal import say
from airflow_samza.errors import SamzaError

FAILED = 1
REJECTED = 2
OUR_MISTAKE = 70
INTERRUPTED = 130
TERMINATED = 143

FINDS = ("compare",)
"""Commands that found something when they end with 1, as ``diff`` does; an error is 2, whatever it is."""


class Terminated(BaseException):
    """Raised by a SIGTERM; the program ends as after Ctrl-C."""


class ReportingGroup(TyperGroup):
    """A group of commands whose errors are reported in one way."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        An error of ours becomes its sentence and hint, any other a line that asks for ``--debug``.
        """
        try:
            with _ended_by_sigterm():
                return super().invoke(ctx)
        except SamzaError as error:
            _tell(error, _debug(ctx))
            code = FAILED if error.retryable and ctx.invoked_subcommand not in FINDS else REJECTED
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            code = INTERRUPTED
        except Terminated:
            typer.echo("Terminated.", err=True)
            code = TERMINATED
        except BrokenPipeError:
            # Whoever read our output (head, less) has seen enough; nothing more may be written, at exit neither.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if hasattr(error, "exit_code") and hasattr(error, "show"):  # wrong options: Typer shows the usage
                raise
            if _debug(ctx):
                traceback.print_exc()
            say(f"Error: {type(error).__name__}: {error}", err=True)
            say(
                "  Hint: this is a mistake in airflow-samza or in the application's code; --debug before the command "
                "shows where.",
                err=True,
            )
            code = OUR_MISTAKE
        raise typer.Exit(code)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Raise :class:`Terminated` in the main thread when a SIGTERM comes.

    Without it the program would end without a word.
    """
    if threading.current_thread() is not threading.main_thread():  # a test's, or another program's
        yield
        return

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(error: SamzaError, debug: bool) -> None:
    from airflow_samza.cli.remedies import on_the_command_line

    if debug:
        traceback.print_exception(error)
    say(f"Error: {error.sentence}", err=True)
    if error.hint:
        say(f"  Hint: {on_the_command_line(error.hint)}", err=True)
    say(f"  More: {error.entry}", err=True)


def _debug(ctx: Any) -> bool:
    return bool(ctx.params.get("debug"))
