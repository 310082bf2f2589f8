"""The entry point of the command line: `schedbed`, also started by `python -m schedbed`."""

from __future__ import annotations

import atexit
import os
import sys

from schedbed.deploy.signals import SIGNALLED, ended_by, terminations_interrupt


def main() -> None:
    """Run the command line and exit with its exit code.

    If a signal (Ctrl-C, SIGTERM or SIGHUP) ends the program, even during imports, one line is printed instead
    of a traceback.
    """
    ending: list[int] = []
    atexit.register(_leave, ending)  # Functions registered first run last, so this one runs at the very end.
    terminations_interrupt()
    try:
        from schedbed.deploy.cli.main import app
        from schedbed.deploy.display.plain_terminal import guard_terminal

        guard_terminal()
        app(prog_name="schedbed")
    except KeyboardInterrupt:
        print("schedbed: interrupted", file=sys.stderr)
        ending.append(SIGNALLED + ended_by())
    except SystemExit as end:
        if end.code != SIGNALLED + ended_by():
            raise
        ending.append(SIGNALLED + ended_by())


def _leave(ending: list[int]) -> None:
    """Exit with the exit code in the list `ending`, or do nothing if the list is empty.

    `os._exit` is used because of Ctrl-C during a call of `exec`, which defining a dataclass makes. CPython
    would then end itself by SIGINT and lose the exit code.
    """
    if ending:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ending[0])


if __name__ == "__main__":
    main()
