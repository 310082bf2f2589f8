"""The signals that end a command: Ctrl-C, SIGTERM and SIGHUP, all raised as KeyboardInterrupt so that cleanup
runs."""

from __future__ import annotations

import signal

SIGNALLED = 128
"""The exit code of a command that a signal ended is this plus the signal's number."""
_came: list[int] = []


def terminations_interrupt() -> None:
    """Make SIGTERM and SIGHUP interrupt this process as Ctrl-C does; they wait where Ctrl-C waits.

    An ignored SIGHUP (`nohup`) stays ignored. An ignored Ctrl-C (a shell's background job starts so) does not, since
    the other two signals are raised as one.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def ended_by() -> int:
    """Return the number of the first signal that ended the command; that of Ctrl-C if there was none."""
    return _came[0] if _came else signal.SIGINT


def _interrupt(number: int, _: object) -> None:
    _came.append(number)
    signal.raise_signal(signal.SIGINT)
