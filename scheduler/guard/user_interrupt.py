"""Distinction of a Ctrl-C on the keyboard from a KeyboardInterrupt that a policy raised."""

from __future__ import annotations

import dis

RAISES = dis.opmap["RAISE_VARARGS"]


def is_raised(error: BaseException) -> bool:
    """Return whether the error comes from a `raise` statement, and not from Ctrl-C on the keyboard.

    An error without a traceback is regarded as raised.
    """
    traceback = error.__traceback__
    if traceback is None:
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == RAISES
