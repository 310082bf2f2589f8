"""The signals that end a command (Ctrl-C, SIGTERM, SIGHUP): all raise KeyboardInterrupt, so cleanup code runs."""

from __future__ import annotations

import signal

SIGNALLED = 128
"""A command ended by a signal exits with this number plus the signal's number."""
_came: list[int] = []


def terminations_interrupt() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, and be delayed with it, as Ctrl-C does.

    SIGHUP stays ignored if it was, as under `nohup`. SIGINT is always enabled, since both others are raised
    again as SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def ended_by() -> int:
    """Return the first signal that ended the command, or SIGINT if none was recorded."""
    return _came[0] if _came else signal.SIGINT


def _interrupt(number: int, _: object) -> None:
    _came.append(number)
    signal.raise_signal(signal.SIGINT)
