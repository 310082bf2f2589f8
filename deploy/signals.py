"""The signals that end a command (Ctrl-C, SIGTERM and SIGHUP), which all raise KeyboardInterrupt.

Cleanup code therefore runs in each case.
"""

from __future__ import annotations

import signal

SIGNALLED = 128
"""A command ended by a signal exits with this number plus the signal's number."""
_came: list[int] = []


def terminations_interrupt() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in this process, as Ctrl-C does.

    Code that delays Ctrl-C also delays these signals. SIGHUP stays ignored if it was ignored before, as
    under `nohup`. SIGINT is always enabled, even if it was ignored before, since both other signals are
    raised again as SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def ended_by() -> int:
    """Return the number of the signal that ended the command first, or SIGINT if none was recorded."""
    return _came[0] if _came else signal.SIGINT


def _interrupt(number: int, _: object) -> None:
    _came.append(number)
    signal.raise_signal(signal.SIGINT)
