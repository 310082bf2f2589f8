"""The command `schedbed`, also as `python -m schedbed`."""

from __future__ import annotations

import atexit
import os
import sys

from schedbed.deploy.signals import SIGNALLED, ended_by, terminations_interrupt


def main() -> None:
    """Run the command and exit with its code; a signal ends the command in one line, also while it is imported."""
    ending: list[int] = []
    atexit.register(_leave, ending)  # The first to be registered is the last to run.
    terminations_interrupt()
    try:
        from schedbed.deploy.cli.main import app

        app(prog_name="schedbed")
    except KeyboardInterrupt:
        print("schedbed: interrupted", file=sys.stderr)
        ending.append(SIGNALLED + ended_by())
    except SystemExit as end:
        if end.code != SIGNALLED + ended_by():
            raise
        ending.append(SIGNALLED + ended_by())


def _leave(ending: list[int]) -> None:
    """Exit with the code of a signal.

    CPython forgets the code, and dies of SIGINT, once an interrupt has come within `exec`, which makes each dataclass.
    """
    if ending:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ending[0])


if __name__ == "__main__":
    main()
