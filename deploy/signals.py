"""What ends a command from outside: Ctrl-C, SIGTERM and SIGHUP, all told as KeyboardInterrupt so that all clean up."""

from __future__ import annotations

import signal

SIGNALLED = 128
"""The exit code of a command that a signal ended is this plus the signal's number."""
_came: list[int] = []


def terminations_interrupt() -> None:
    """Make SIGTERM and SIGHUP interrupt this process as Ctrl-C does; they wait where Ctrl-C waits.

    A SIGHUP that is ignored (`nohup`) stays ignored; a Ctrl-C that is (a shell's background job begins so) does not,
    since the other two are told as that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def ended_by() -> int:
    """Return the number of the first signal that ended the command, that of Ctrl-C unless there was another."""
    return _came[0] if _came else signal.SIGINT


def _interrupt(number: int, _: object) -> None:
    _came.append(number)
    signal.raise_signal(signal.SIGINT)
