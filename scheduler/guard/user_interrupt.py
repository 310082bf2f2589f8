"""Distinguishes a KeyboardInterrupt of the keyboard from one that a policy raised."""

from __future__ import annotations

import dis

RAISES = dis.opmap["RAISE_VARARGS"]


def is_raised(error: BaseException) -> bool:
    """Return whether a `raise` statement raised the error. A real interrupt can occur between any two
    instructions."""
    traceback = error.__traceback__
    if traceback is None:
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == RAISES
