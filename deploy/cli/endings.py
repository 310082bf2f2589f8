"""Error handling of all commands: exceptions become a one-line message and an exit code."""

from __future__ import annotations

import errno
import os
import re
from itertools import pairwise
from typing import Any, cast

import typer
from typer.core import TyperGroup

from schedbed.deploy.failures import RunFailed, one_line
from schedbed.deploy.signals import SIGNALLED, ended_by
from schedbed.tasks.errors import BadInput

FAILED, BAD_INPUT = 1, 2
TRACEBACK = "SCHEDBED_TRACEBACK"
"""If this environment variable is set, unexpected errors print their traceback."""
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
_EMPTY = re.compile(r"--[a-z-]+=")
_KNOWN = (typer.Exit, typer.Abort)
"""Exceptions that typer turns into an exit code."""


class Commands(TyperGroup):
    """The typer command group of `schedbed`. It turns exceptions of commands into messages and exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands as registered, but `run` first."""
        return sorted(super().list_commands(ctx), key=lambda name: name != "run")

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **options: Any) -> Any:
        """Parse the command line, which has no empty values; a signal ends the program with "interrupted".

        A shell's unset variable would otherwise be the working folder, or a name that nobody can find.
        """
        for before, given in pairwise(["", *args]):
            if not given or _EMPTY.fullmatch(given):
                what = given.rstrip("=") or before or "the first argument"
                raise _ending(f"{what}: has no value, expected one", BAD_INPUT)
        try:
            return super().make_context(info_name, args, *others, **options)
        except KeyboardInterrupt:
            raise _interrupted() from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command. An exception becomes one line, with exit code 2 for bad input and otherwise 1."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            message = error.format_message()
            if "\n" in message:  # This is the help of a group called without a command.
                raise
            asked = error.ctx.command_path if error.ctx else "schedbed"
            raise _ending(f"{message} (see {asked} --help)", BAD_INPUT) from None
        except BadInput as error:
            raise _ending(str(error), BAD_INPUT) from None
        except RunFailed as error:
            raise _ending(str(error), FAILED) from None
        except KeyboardInterrupt:
            raise _interrupted() from None
        except _KNOWN:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # The reader has closed the pipe.
                raise
            if os.environ.get(TRACEBACK):
                raise
            raise _ending(_unforeseen(error), FAILED) from None


def _interrupted() -> typer.Exit:
    return _ending("interrupted", SIGNALLED + ended_by())


def _unforeseen(error: Exception) -> str:
    """Return the line for an unexpected exception, such as a full disk or a bug."""
    if isinstance(error, OSError) and error.strerror:
        return one_line(error)
    return f"unexpected error: {one_line(error)}; {TRACEBACK}=1 shows all of it"


def _ending(message: str, code: int) -> typer.Exit:
    typer.echo(message if "\n" in message else f"schedbed: {message}", err=True)
    return typer.Exit(code)
